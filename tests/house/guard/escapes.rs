//! Ways out of the guard: a user namespace of one's own, another house of the same user, a profile that the daemon reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_tests::process::run;
use hostel_tests::wait;

use super::place::{Place, text};

/// Has an agent rename a path through a parent directory that is outside of all mounts of its guard, or remove it.
fn escape(place: &Place, path: &Path, to: Option<&str>) -> String {
    let script = place.write("work/escape.py", include_str!("escape.py"));
    place.script(&format!("python3 {} {} {}", script.display(), path.display(), to.unwrap_or_default()))
}

/// What `unshare(CLONE_NEWUSER)` answers, and what a program does that starts others and threads.
const NAMESPACE: &str = "python3 -c 'import ctypes, errno, os, subprocess, threading
subprocess.run([\"true\"], check=True)
thread = threading.Thread(target=print)
thread.start()
thread.join()
if os.fork() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    print(\"made\" if libc.unshare(0x10000000) == 0 else errno.errorcode[ctypes.get_errno()])
else:
    os.wait()' | grep .";

/// What a guard hides and holds, beside the house: a directory of the person's and a file that is read-only.
fn prepared(agent: &str) -> (Place, PathBuf, PathBuf) {
    let place = Place::new();
    let home = place.path().join("home");
    place.write("home/vault/secret", "a secret\n");
    place.write("home/.ssh/authorized_keys", "a key\n");
    place.settings("hide = [\"~/vault\"]", agent);
    place.start();
    (place, home.join("vault"), home.join(".ssh/authorized_keys"))
}

#[test]
fn nothing_hidden_is_moved_and_nothing_held_is_removed_through_a_namespace() {
    let (place, vault, keys) = prepared("");
    if !place.is_full() {
        return;
    }
    assert_eq!(place.script(NAMESPACE), "ENOSPC");
    let house = place.home();
    let multiplexer = PathBuf::from(format!("/tmp/tmux-{}", place.user));
    for path in [&house, &vault, &multiplexer] {
        assert_eq!(escape(&place, path, Some("moved")), "unshare ENOSPC", "{}", path.display());
        assert!(path.is_dir() && !path.with_file_name("moved").exists(), "{}", path.display());
    }
    assert_eq!(escape(&place, &keys, None), "unshare ENOSPC");
    assert_eq!(fs::read_to_string(&keys).unwrap(), "a key\n");
    // Neither does a child, nor a program that was made for it.
    let told = place.script("unshare --user --map-root-user --mount true 2>&1 || echo refused");
    assert!(told.ends_with("refused") && told.contains("No space left on device"), "{told}");
    assert_eq!(place.script("(echo 100 >/proc/sys/user/max_user_namespaces) 2>/dev/null || echo kept"), "kept");
}

/// A grant allows what it says. What it costs is documented, and the next guard does not follow a directory's new name.
#[test]
fn with_a_grant_there_are_namespaces_and_a_moved_directory_stays_hidden() {
    let (place, vault, keys) = prepared("grant = [\"user-namespaces\"]");
    if !place.is_full() {
        return;
    }
    assert_eq!(place.script(NAMESPACE), "made");
    assert_eq!(place.script("unshare --user --map-root-user --mount --pid --fork true && echo fine"), "fine");
    assert_eq!(place.script(&format!("ls -A {}", vault.display())), "");
    let moved = vault.with_file_name("moved");
    assert_eq!(escape(&place, &vault, Some("moved")), "renamed");
    assert_eq!(fs::read_to_string(moved.join("secret")).unwrap(), "a secret\n");
    // Another session, and one that finds something else in its place.
    let look = format!("cat {0}/secret 2>/dev/null; ls -A {0}; echo looked", moved.display());
    assert_eq!(place.script(&look), "looked");
    place.write("home/vault/decoy", "");
    let look = format!("{look}; ls -A {}", vault.display());
    assert_eq!(place.script(&look), "looked");
    // The file is where the grant ends the guard.
    assert_eq!(escape(&place, &keys, None), "removed");
    assert!(!keys.exists());
}

/// Root's houses have no user namespace of their own whose limit could be set.
#[test]
fn an_agent_of_root_makes_no_namespace_either() {
    if !rustix::process::geteuid().is_root() {
        return hostel_tests::skip("a house of root's takes root");
    }
    let place = Place::of_root();
    place.start();
    if !place.is_full() {
        return;
    }
    assert_eq!(place.script(NAMESPACE), "EPERM");
    assert_eq!(escape(&place, &place.home(), Some("moved")), "unshare EPERM");
    assert_eq!(place.script("nsenter --user=/proc/self/ns/user true 2>/dev/null || echo refused"), "refused");
    place.settings("", "grant = [\"user-namespaces\"]");
    place.good(&["down"]);
    place.start();
    assert_eq!(place.script(NAMESPACE), "made");
}

/// A command of another house of the same user.
fn in_other(place: &Place, home: &Path, arguments: &[&str]) -> String {
    let mut command: Command = place.command(&place.hostel);
    command.args(arguments).env("HOSTEL_HOME", home);
    let output = run(command);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn two_houses_of_a_user_do_not_see_each_other() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let other = place.path().join("other/house");
    let settings = fs::read_to_string(place.home().join("hostel.toml")).unwrap();
    place.write("other/house/hostel.toml", &settings);
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    in_other(&place, &other, &["up"]);
    let look = |house: &Path| {
        let look = "ls -A \"$1\"; mv \"$1\" \"$1.moved\" 2>/dev/null && echo moved; \
                    mv \"$(dirname \"$1\")\" \"$1-moved\" 2>/dev/null && echo moved; echo end\n";
        let script = place.write("work/look.sh", look);
        format!("sh {} {}", script.display(), house.display())
    };
    assert!(place.told("bare", &format!("ls {}", other.display())).contains("state.db"), "the control");
    assert_eq!(place.told("fake", &look(&other)), "end");
    let told = in_other(&place, &other, &["run", "--agent", "fake", &format!("tool {}", look(&place.home()))]);
    assert!(told.trim_end().ends_with("tool said: end"), "{told}");
    in_other(&place, &other, &["down"]);
}

/// Agents can write the profiles of the person's shell, and the daemon asks that shell for its search path.
#[test]
fn a_profile_that_the_daemon_reads_runs_inside_the_guard() {
    for (setting, seen) in [("off", true), ("auto", false)] {
        let mut place = Place::new();
        place.variable("SHELL", "/bin/bash");
        place.settings(&format!("setting = \"{setting}\""), "");
        let path = "/of/the/profile:/usr/bin:/bin";
        let (saw, house) = (place.path().join("home/saw"), place.home());
        let profile = format!(
            "ls {0} >{1}.$$; grep NoNewPrivs /proc/self/status >>{1}.$$; mv {1}.$$ {1}\n",
            house.display(),
            saw.display()
        );
        place.write("home/.bash_profile", &format!("{profile}export PATH={path}\n"));
        place.start();
        if !seen && !place.is_full() {
            return;
        }
        let found = wait::eventually("the profile to be read", || fs::read_to_string(&saw).ok());
        assert_eq!(
            (found.contains("hostel.toml"), found.contains("NoNewPrivs:\t0")),
            (seen, seen),
            "{setting}: {found}"
        );
        let log = house.join("log/daemon.log");
        let extracted = format!("Extracted shell PATH ({} chars)", path.len());
        wait::eventually("the search path", || {
            let log = fs::read_to_string(&log).ok()?;
            log.contains(&extracted).then_some(())
        });
        place.good(&["down"]);
    }
}
