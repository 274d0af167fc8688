//! The launcher by itself: what it does with a plan, and what it says when it cannot.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};

use hostel_tests::process::run;
use serde_json::{Value, json};

use super::place::{Place, text};

/// Runs a shell under a plan.
fn under(place: &Place, plan: &Value, script: &str) -> Output {
    let mut command = place.command(&place.hostel);
    command.args(["guard-launch", &plan.to_string(), "/bin/sh", "sh", "-c", script]);
    run(command)
}

fn view(more: &Value) -> Value {
    let mut plan = json!({"layers": {"view": true, "scopes": true}});
    for (key, value) in more.as_object().unwrap() {
        plan[key] = value.clone();
    }
    plan
}

fn can(place: &Place) -> bool {
    let mut command = place.command(&place.hostel);
    command.args(["guard-launch", "--try", &view(&json!({})).to_string()]);
    let tried = text(&run(command));
    let full = tried == r#"{"no_view":null,"no_scopes":null}"#;
    if !full {
        hostel_tests::skip(&format!("this machine has no complete guard: {tried}"));
    }
    full
}

#[test]
fn a_program_gets_its_words_its_environment_and_its_directory() {
    let place = Place::new();
    if !can(&place) {
        return;
    }
    let mut command = place.command(&place.hostel);
    let plan = view(&json!({"unset": ["GONE"], "path_first": "/x"}));
    command.env("GONE", "1").env("KEPT", "a b");
    command.args([
        "guard-launch",
        &plan.to_string(),
        "/bin/sh",
        "other-name",
        "-c",
        "echo $0 $1 $KEPT ${GONE-gone} $PATH; pwd",
        "zero",
        "one two",
    ]);
    let output = run(command);
    let expected = format!("zero one two a b gone /x:{}\n{}\n", super::place::PATH, place.work().display());
    assert_eq!(text(&output), expected);
    assert_eq!(under(&place, &view(&json!({})), "exit 7").status.code(), Some(7));
    // A pipe that nobody reads ends a program as it does elsewhere.
    assert_eq!(text(&under(&place, &view(&json!({})), "yes | head -n 1; trap")), "y\n");
}

#[test]
fn what_cannot_be_enforced_or_started_is_said_and_nothing_runs() {
    let place = Place::new();
    if !can(&place) {
        return;
    }
    let failed = |arguments: &[&str]| {
        let mut command = place.command(&place.hostel);
        command.arg("guard-launch").args(arguments);
        let output = run(command);
        (output.status.code(), text(&output))
    };
    let plan = view(&json!({})).to_string();
    let plan = plan.as_str();
    for arguments in
        [&[][..], &[plan], &[plan, "/bin/true"], &["{}x", "/bin/true", "true"], &["{\"walls\":1}", "/bin/true", "true"]]
    {
        let (code, said) = failed(arguments);
        assert_eq!(code, Some(125), "{arguments:?}: {said}");
        assert!(said.starts_with("hostel: the guard cannot be set up: ") && said.lines().count() == 1, "{said}");
    }
    let (code, said) = failed(&[plan, "/no/such", "such"]);
    assert_eq!(
        (code, said.as_str()),
        (Some(127), "hostel: cannot run `/no/such`: No such file or directory (os error 2)\n")
    );
    assert_eq!(failed(&[plan, "/etc/passwd", "passwd"]).0, Some(126));
    // A directory that vanishes cannot be worked in.
    let hidden = view(&json!({"hidden": [place.path()]}));
    let output = under(&place, &hidden, "echo ran");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output).contains("hides the working directory"), "{}", text(&output));
}

/// A directory that is not where it was is hidden where it is, or nothing runs.
#[test]
fn a_hidden_directory_is_known_by_what_it_is() {
    let place = Place::new();
    if !can(&place) {
        return;
    }
    place.write("vault/secret", "secret\n");
    place.write("elsewhere/secret", "another\n");
    let (vault, elsewhere) = (place.path().join("vault"), place.path().join("elsewhere"));
    let found = std::fs::metadata(&vault).unwrap();
    let pinned = json!([{"named": vault, "now": vault, "identity": [found.dev(), found.ino()]}]);
    let (once, script) = (view(&json!({"hidden": [vault], "pinned": pinned})), "cat ../*/secret 2>/dev/null; echo ran");
    assert_eq!(text(&under(&place, &once, script)), "another\nran\n");
    let moved = place.path().join("moved");
    std::fs::rename(&vault, &moved).unwrap();
    std::fs::rename(&elsewhere, &vault).unwrap();
    let output = under(&place, &once, script);
    assert_eq!(output.status.code(), Some(125));
    let expected = format!(
        "hostel: the guard cannot be set up: `{}` cannot be hidden: it was moved away while the guard was made\n",
        vault.display()
    );
    assert_eq!(text(&output), expected);
    let both = view(&json!({"hidden": [vault, moved], "pinned": pinned}));
    assert_eq!(text(&under(&place, &both, script)), "ran\n");
}

#[test]
fn a_socket_vanishes_and_its_neighbours_stay() {
    let place = Place::new();
    if !can(&place) {
        return;
    }
    let shared = place.path().join("shared");
    place.write("shared/folder/file", "in a folder\n");
    place.write("shared/plain", "plain\n");
    std::os::unix::fs::symlink("plain", shared.join("link")).unwrap();
    let sockets: Vec<_> =
        ["docker.sock", "other.sock"].iter().map(|name| UnixListener::bind(shared.join(name)).unwrap()).collect();
    place.own(&shared);
    let plan = view(&json!({"sockets": [shared.join("docker.sock")]}));
    let script = "cd ../shared; ls; cat folder/file plain link; test -S other.sock && echo socket; touch x 2>/dev/null || echo closed";
    let expected = "folder\nlink\nother.sock\nplain\nin a folder\nplain\nplain\nsocket\nclosed\n";
    assert_eq!(text(&under(&place, &plan, script)), expected);
    drop(sockets);
}

/// A user with a name: ssh wants one.
const SYSTEM_USER: u32 = 1;

/// Runs a shell under a plan on a machine that the test has changed: in a private mount namespace.
fn in_private(place: &Place, user: u32, preparation: &str, plan: &Value, script: &str) -> Output {
    let mut command = Command::new("unshare");
    place.sandbox.set_environment(&mut command);
    let drop = format!("{preparation}; exec setpriv --reuid {user} --regid {user} --clear-groups -- \"$0\" \"$@\"");
    command.args(["--mount", "sh", "-ec", &drop]).arg(&place.hostel).env("PATH", super::place::PATH);
    command.args(["guard-launch", &plan.to_string(), "/bin/sh", "sh", "-c", script]).current_dir(place.work());
    run(command)
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        hostel_tests::skip("only root can change the mounts of a test");
    }
    root
}

#[test]
fn a_directory_is_hidden_in_every_place_where_it_is_mounted() {
    let place = Place::new();
    if !is_root() || !can(&place) {
        return;
    }
    place.write("house/secret", "secret\n");
    let (house, alias, above) = (place.path().join("house"), place.sandbox.make("alias"), place.sandbox.make("above"));
    let preparation = format!(
        "mount --bind {} {}; mount --bind {} {}",
        house.display(),
        alias.display(),
        place.path().display(),
        above.display()
    );
    let script = format!(
        "cat {0}/house/secret {0}/alias/secret {0}/above/house/secret 2>/dev/null; echo end",
        place.path().display()
    );
    let plan = view(&json!({"hidden": [house]}));
    assert_eq!(text(&in_private(&place, place.user, &preparation, &plan, &script)), "end\n");
    // Without the guard it is there three times.
    let open = json!({"layers": {"view": false, "scopes": false}});
    let expected = "secret\nsecret\nsecret\nend\n";
    assert_eq!(text(&in_private(&place, place.user, &preparation, &open, &script)), expected);
}

/// In some containers nobody can set the limit of namespaces, and then a filter takes its place.
#[test]
fn namespaces_are_refused_also_where_their_limit_cannot_be_set() {
    let place = Place::new();
    if !is_root() || !can(&place) {
        return;
    }
    let script = "unshare --user true 2>&1; setpriv --no-new-privs true && echo works";
    let preparation = "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys";
    let plan = view(&json!({}));
    let refused = |why: &str| format!("unshare: unshare failed: {why}\nworks\n");
    let told = text(&in_private(&place, place.user, preparation, &plan, script));
    assert_eq!(told, refused("Operation not permitted"));
    assert_eq!(text(&under(&place, &plan, script)), refused("No space left on device"));
    let granted = view(&json!({"user_namespaces": true}));
    assert_eq!(text(&in_private(&place, place.user, preparation, &granted, script)), "works\n");
}

/// In a user namespace root's files belong to nobody, and ssh refuses to read such files.
#[test]
fn ssh_reads_the_configuration_that_root_has_made() {
    let place = Place::new();
    if !is_root() || !can(&place) {
        return;
    }
    let (main, included, deeper) =
        (place.path().join("ssh_config"), place.sandbox.make("ssh_config.d"), place.path().join("deeper.conf"));
    std::fs::write(&main, "Include /etc/ssh/ssh_config.d/*.conf\n").unwrap();
    std::fs::write(included.join("10-x.conf"), format!("Include {}\n", deeper.display())).unwrap();
    std::fs::write(&deeper, "Host *\n  Port 4711\n").unwrap();
    let preparation = format!(
        "mount --bind {} /etc/ssh/ssh_config; mount --bind {} /etc/ssh/ssh_config.d; chown root {2}; chown -R root {1}",
        main.display(),
        included.display(),
        deeper.display()
    );
    let script = "ssh -G some.host.example 2>&1 | grep -E '^port|Bad owner'";
    let hidden = place.sandbox.make("house");
    std::os::unix::fs::chown(&hidden, Some(SYSTEM_USER), Some(SYSTEM_USER)).unwrap();
    let plan = view(&json!({"hidden": [hidden]}));
    assert_eq!(text(&in_private(&place, SYSTEM_USER, &preparation, &plan, script)), "port 4711\n");
    // Without the copies it does not: there is no place for them without something hidden.
    let without = text(&in_private(&place, SYSTEM_USER, &preparation, &view(&json!({})), script));
    assert!(without.contains("Bad owner"), "{without}");
}
