//! The login shell's PATH: found once, waited for by the first spawn, given to children alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hostel_tests::house::{House, Options, path_text};

/// A house whose login shell is this script; it gets `-l -i -c COMMAND`.
fn house_with_shell(script: &str) -> (House, PathBuf) {
    let house = House::prepare(Options::default());
    let folder = house.path().join("login-bin");
    fs::create_dir(&folder).expect("a folder");
    let shell = house.path().join("login-shell");
    let text = format!("#!/bin/sh\n{}\n", script.replace("LOGIN_BIN", path_text(&folder)));
    fs::write(&shell, text).expect("a script");
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("an executable");
    let options =
        Options { environment: vec![("SHELL".to_owned(), path_text(&shell).to_owned())], ..Options::default() };
    // The script lies in the first house; it must outlive the second.
    let mut served = House::start_with(options);
    served.keep_beside(house);
    (served, folder)
}

fn path_of_child(house: &House, name: &str) -> String {
    let mut client = house.connect();
    client.spawn(name, "sh", &["-c", "echo $PATH"]);
    String::from_utf8_lossy(&client.follow(name).stdout).trim().to_owned()
}

const GOOD: &str = r#"echo "noise from a profile"; echo more noise >&2
test "$1 $2 $3" = "-l -i -c" || exit 9
PATH="LOGIN_BIN:$PATH"; export PATH
exec /bin/sh -c "$4""#;

#[test]
fn children_get_the_path_of_the_login_shell() {
    let (house, folder) = house_with_shell(GOOD);
    assert!(path_of_child(&house, "one").starts_with(&format!("{}:", folder.display())), "the login PATH is missing");
    let line = house.wait_for_log("[shellenv] Extracted shell PATH (");
    assert!(line.ends_with(" chars)"), "{line}");
    // The caller's own PATH wins.
    let mut client = house.connect();
    client.ask(
        "process.spawn",
        r#"{"id":"own","command":"/bin/sh","args":["-c","echo $PATH"],"env":{"PATH":"/only/this"}}"#,
    );
    assert_eq!(client.follow("own").stdout, b"/only/this\n");
}

#[test]
fn the_first_spawn_waits_for_it() {
    let (house, folder) = house_with_shell(&format!("sleep 1.5\n{GOOD}"));
    assert!(
        path_of_child(&house, "one").starts_with(&format!("{}:", folder.display())),
        "the first spawn did not wait"
    );
}

#[test]
fn the_daemons_own_git_is_not_changed_by_it() {
    let (house, folder) = house_with_shell(GOOD);
    let mark = house.path().join("wrong-git-ran");
    let git = folder.join("git");
    fs::write(&git, format!("#!/bin/sh\n: > {}\nexit 1\n", mark.display())).expect("a script");
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("an executable");
    path_of_child(&house, "wait");
    let mut command = std::process::Command::new("git");
    command.args(["init", "-q"]).arg(house.path().join("r"));
    house.set_environment(&mut command);
    assert!(command.status().expect("git runs").success());
    let params = format!(r#"{{"path":"{}"}}"#, house.path().join("r").display());
    let result = house.connect().ask("git.info", &params);
    assert!(result.starts_with(r#"{"isRepo":true"#), "{result}");
    assert!(!mark.exists(), "the daemon ran the git of the login shell's PATH");
}

#[test]
fn the_probe_tells_shells_to_keep_quiet() {
    let (house, _folder) =
        house_with_shell(&format!("echo \"$DISABLE_AUTO_UPDATE $ZSH_DISABLE_COMPFIX\" > \"$0.seen\"\n{GOOD}"));
    path_of_child(&house, "one");
    let shell = house.options().environment.iter().find(|(name, _)| name == "SHELL").expect("the shell").1.clone();
    assert_eq!(fs::read_to_string(format!("{shell}.seen")).expect("what the shell saw"), "true true\n");
}

#[test]
fn a_shell_that_fails_may_still_have_told_its_path() {
    let (house, folder) = house_with_shell("PATH=\"LOGIN_BIN:$PATH\" /bin/sh -c \"$4\"; exit 3");
    assert!(path_of_child(&house, "one").starts_with(&format!("{}:", folder.display())));
    house.wait_for_log("[shellenv] Shell command exited with error (may still have PATH): exit status 3");
}

#[test]
fn a_shell_that_tells_nothing_leaves_the_path_alone() {
    let (house, _folder) = house_with_shell("echo hello");
    let path = path_of_child(&house, "one");
    assert_eq!(path, std::env::var("PATH").expect("PATH is set"));
    house.wait_for_log(
        "[shellenv] Failed to extract PATH from login shell: PATH sentinel not found in shell output: hello",
    );
}

#[test]
fn a_shell_that_hangs_is_given_up_after_four_seconds() {
    let since = Instant::now();
    let (house, folder) =
        house_with_shell("echo started >> \"$0.starts\"\n/bin/sh -c \"PATH=LOGIN_BIN; $4\"; exec sleep 300");
    let path = path_of_child(&house, "one");
    let took = since.elapsed();
    // Four seconds, and what a busy machine adds.
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(60), "{took:?}");
    assert!(!path.contains(path_text(&folder)), "a value of a shell that timed out was used");
    let line = house.wait_for_log("shell PATH extraction timed out (");
    assert!(line.contains("login-shell)"), "{line}");
    // The next one does not ask again.
    path_of_child(&house, "two");
    let shell = &house.options().environment.iter().find(|(name, _)| name == "SHELL").expect("the shell").1;
    assert_eq!(fs::read_to_string(format!("{shell}.starts")).expect("its starts"), "started\n");
}

#[test]
fn an_unusable_shell_is_replaced_by_a_usual_one() {
    let house = House::start_with(Options {
        environment: vec![("SHELL".to_owned(), "/nowhere/at/all".to_owned())],
        ..Options::default()
    });
    assert!(!path_of_child(&house, "one").is_empty());
    house.wait_for_log("[shellenv] Extracted shell PATH (");
}
