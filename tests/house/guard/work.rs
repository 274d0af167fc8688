//! What agents do all day works inside a guard as it does outside.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::thread;

use super::place::Place;

/// Runs a script in both and compares.
fn same(place: &Place, what: &str, script: &str) {
    let bare = place.script_of("bare", script);
    let guarded = place.script_of("fake", script);
    assert_eq!(guarded, bare, "{what}");
    assert!(guarded.ends_with("fine"), "{what}: {guarded}");
}

#[test]
fn ordinary_work_is_the_same_with_and_without_a_guard() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    same(
        &place,
        "files in the directory",
        "rm -rf d; mkdir d && echo x >d/f && mv d/f d/g && cat d/g && rm -r d && echo fine",
    );
    same(
        &place,
        "git",
        "set -e; rm -rf r; git init -q r; cd r; echo 1 >f; git add f; git commit -qm one; git worktree add -q ../w 2>&1; \
         cd ../w; git log --format=%s; cd ..; git clone -q r c; rm -rf r w c; echo fine",
    );
    same(
        &place,
        "python",
        "python3 -c 'import subprocess, tempfile; tempfile.mkdtemp(); subprocess.run([\"true\"], check=True)' && echo fine",
    );
    same(
        &place,
        "node",
        "command -v node >/dev/null || { echo fine; exit; }; node -e 'require(\"fs\").mkdtempSync(\"/tmp/n-\")' && echo fine",
    );
    same(&place, "signals to its own", "sleep 60 & kill $! && wait $!; echo $?; echo fine");
    same(&place, "terminals of its own", "script -qec 'test -t 0' /dev/null </dev/null && echo fine");
    same(
        &place,
        "shared memory",
        "echo x >/dev/shm/guard-$$ && cat /dev/shm/guard-$$ && rm /dev/shm/guard-$$ && echo fine",
    );
    same(&place, "devices", "head -c 4 /dev/urandom | wc -c; echo x >/dev/null && echo fine");
    same(&place, "names of users", "getent passwd root | cut -d: -f1 && echo fine");
    same(
        &place,
        "configuration of ssh",
        "getent passwd $(id -u) >/dev/null || { echo fine; exit; }; ssh -G some.host.example >/dev/null && echo fine",
    );
    same(
        &place,
        "a compiler",
        "command -v cc >/dev/null || { echo fine; exit; }; echo 'int main(void){return 0;}' >m.c && cc m.c -o m && ./m && rm m m.c && echo fine",
    );
    // A sandbox of its own takes a grant.
    let sandbox = "unshare --user --map-root-user --mount --pid --fork true 2>/dev/null && echo fine || echo refused";
    assert_eq!((place.script_of("bare", sandbox), place.script(sandbox)), ("fine".to_owned(), "refused".to_owned()));
    // The runtime directory is there, empty, and takes what programs put there.
    let told = place.script("ls -A $XDG_RUNTIME_DIR; : >$XDG_RUNTIME_DIR/x && stat -c %a $XDG_RUNTIME_DIR");
    assert_eq!(told, "sudo-proxy.sock\n700");
}

#[test]
fn files_are_shared_with_the_person_and_the_network_is_there() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    // What the agent writes is the user's, outside as well, also in `/tmp`.
    let shared = format!("/tmp/hostel-guard-{}", std::process::id());
    let told = place.script(&format!("echo out >{shared} && echo in >made && id -u"));
    assert_eq!(told, place.user.to_string());
    let owner = |path: &std::path::Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&place.work().join("made")), place.user);
    assert_eq!(fs::read_to_string(&shared).unwrap(), "out\n");
    fs::remove_file(&shared).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"over the network\n").unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    });
    let client =
        format!("import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(64).decode(), end='')");
    let script = place.write("work/net.py", &client);
    assert_eq!(place.told("fake", &format!("python3 {}", script.display())), "over the network");
    answering.join().unwrap();
}

/// A repository of root's is as readable, and as foreign to git, as it is outside.
#[test]
fn a_repository_of_root_is_read_when_git_may() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return hostel_tests::skip("only root can make a repository of root's");
    }
    let repository = place.path().join("of-root");
    let mut make = place.sandbox.command("git");
    make.args(["init", "-q"]).arg(&repository);
    assert!(hostel_tests::process::run(make).status.success());
    let shown = repository.display();
    let refused = format!("unset GIT_CONFIG_COUNT; git -C {shown} status 2>&1 | grep -c dubious; echo fine");
    same(&place, "a repository nobody vouches for", &refused);
    let allowed = format!("unset GIT_CONFIG_COUNT; git -c safe.directory={shown} -C {shown} status -s 2>&1; echo fine");
    same(&place, "a repository that was vouched for", &allowed);
}
