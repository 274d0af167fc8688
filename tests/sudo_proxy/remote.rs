//! `sudo-proxy --host`: what ssh is asked and told, with an ssh that writes its words down.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hostel_tests::binary;
use hostel_tests::house::set_base_environment;
use hostel_tests::sudo_proxy::oracle;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An ssh that writes down what it is told and answers `id -u`.
const SSH: &str = r#"#!/bin/sh
for word in "$@"; do printf '%s\n' "$word" >> "$HOME/ssh"; done
echo . >> "$HOME/ssh"
case "$*" in
*"id -u") cat "$HOME/uid"; exit "$(cat "$HOME/status")" ;;
esac
exit 7
"#;

struct Place {
    root: TempDir,
    program: Vec<PathBuf>,
}

impl Place {
    fn new(program: Vec<PathBuf>) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-sp-").tempdir().unwrap();
        for name in ["home", "run", "bin", "config"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let place = Place { root, program };
        place.write("bin/ssh", SSH);
        fs::set_permissions(place.root.path().join("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        place.write("home/uid", "1234\n");
        place.write("home/status", "0");
        place
    }

    fn ours() -> Self {
        let hostel = binary::hostel();
        Place::new(vec![hostel, "as".into(), "sudo-proxy".into()])
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root.path().join(name), text).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).args(words);
        set_base_environment(&mut command, &self.root.path().join("home"));
        let path = format!("{}:/usr/bin:/bin", self.root.path().join("bin").display());
        command.env("PATH", path).env("HOSTEL_HOME", self.root.path().join("hostel"));
        command.env("XDG_RUNTIME_DIR", self.root.path().join("run"));
        command.env("XDG_CONFIG_HOME", self.root.path().join("config"));
        command.stdin(Stdio::null()).output().expect("the program under test can be started")
    }

    /// What ssh was told, call by call, with this place's own directory taken out.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.path().join("home/ssh")).unwrap_or_default();
        let root = self.root.path().display().to_string();
        text.split_terminator("\n.\n").map(|call| call.replace('\n', " ").replace(&root, "")).collect()
    }

    fn registry(&self) -> PathBuf {
        self.root.path().join("config/sudo-proxy/hosts.json")
    }
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const OPTIONS: &str =
    "-t -o ServerAliveInterval=15 -o ServerAliveCountMax=3 -o ExitOnForwardFailure=yes -o LogLevel=ERROR";

/// What both programs do alike.
fn connects(place: &Place) {
    let output = place.run(&["--host", "box", "-v"]);
    // The exit code is ssh's: the program has become it.
    assert_eq!(output.status.code(), Some(7), "{}", printed(&output));
    let tunnel = "-L /run/sudo-proxy-box.sock:/run/user/1234/sudo-proxy.sock";
    assert_eq!(place.calls(), ["box id -u".to_owned(), format!("{OPTIONS} {tunnel} box sudo-proxy")]);
    let root = place.root.path().display().to_string();
    assert_eq!(printed(&output).replace(&root, ""), format!("+ ssh {OPTIONS} {tunnel} box sudo-proxy\n"));
    let known: Value = serde_json::from_str(&fs::read_to_string(place.registry()).unwrap()).unwrap();
    assert_eq!(known["hosts"]["box"]["uid"], json!("1234"));
    assert_eq!(known["policy"], json!({"unattended_eligible": false}));
    assert_eq!(known["hosts"]["box"]["last_connected"].as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
    assert_eq!(place.registry().metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(place.registry().parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
    // The second time it is known; another login is another target.
    fs::remove_file(place.root.path().join("home/ssh")).unwrap();
    fs::write(place.root.path().join("run/sudo-proxy-box.sock"), "left behind").unwrap();
    place.run(&["--host=box", "--forward-agent"]);
    assert!(!place.root.path().join("run/sudo-proxy-box.sock").exists());
    place.run(&["--host", "box", "--login", "me"]);
    assert_eq!(
        place.calls(),
        [
            format!("{OPTIONS} {tunnel} -A box sudo-proxy"),
            "me@box id -u".to_owned(),
            format!("{OPTIONS} -L /run/sudo-proxy-me@box.sock:/run/user/1234/sudo-proxy.sock me@box sudo-proxy"),
        ]
    );
}

fn refuses(place: &Place) {
    for (words, expected) in [
        (&["--host", ""][..], "error: host must not be empty\n"),
        (&["--host", "-oProxyCommand=x"], "error: host must not start with '-'\n"),
        (&["--host", "a;b"], "error: host contains forbidden character: ';'\n"),
        (&["--host", "a", "--login", "b c"], "error: invalid --login: host contains forbidden character: ' '\n"),
        (&["--forward-agent"], "error: --forward-agent requires --host (no SSH session in local mode)\n"),
        (&["--nonsense"], "unknown option: --nonsense\n"),
    ] {
        let output = place.run(words);
        assert_eq!((output.status.code(), printed(&output).as_str()), (Some(1), expected), "{words:?}");
    }
    assert!(place.calls().is_empty());
    place.write("home/uid", "0; rm -rf /\n");
    let output = place.run(&["--host", "odd"]);
    assert_eq!(printed(&output), "error: ssh odd id -u returned non-numeric uid: \"0; rm -rf /\"\n");
    place.write("home/status", "255");
    let output = place.run(&["--host", "away"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(printed(&output), "error: failed to get remote UID via ssh away id -u\n");
    let output = place.run(&["--version"]);
    assert_eq!((output.status.code(), printed(&output).as_str()), (Some(0), "sudo-proxy 1.2.0\n"));
    let output = place.run(&["--help"]);
    assert!(output.status.success() && output.stdout.is_empty() && !output.stderr.is_empty());
}

#[test]
fn ours_becomes_ssh() {
    connects(&Place::ours());
}

#[test]
fn ours_refuses() {
    refuses(&Place::ours());
}

#[test]
fn the_real_one_does_the_same() {
    let Some(program) = oracle::program("sudo-proxy") else { return };
    connects(&Place::new(vec![program.clone()]));
    refuses(&Place::new(vec![program]));
}

#[test]
fn this_machine_is_not_reached_by_ssh() {
    let place = Place::ours();
    // Occupied: it would have served here.
    let _somebody = UnixListener::bind(place.root.path().join("run/sudo-proxy.sock")).unwrap();
    for host in ["localhost", "127.0.0.1", "::1", "LOCALHOST."] {
        let output = place.run(&["--host", host]);
        let socket = place.root.path().join("run/sudo-proxy.sock");
        let expected = format!("error: sudo-proxy is already running on {}\n", socket.display());
        assert_eq!((output.status.code(), printed(&output)), (Some(1), expected), "{host}");
    }
    assert!(place.calls().is_empty());
    // Another user of this machine is.
    assert_eq!(place.run(&["--host", "localhost", "--login", "me"]).status.code(), Some(7));
}

#[test]
fn a_tunnel_that_is_there_is_left_alone() {
    let place = Place::ours();
    let socket = place.root.path().join("run/sudo-proxy-box.sock");
    let _tunnel = UnixListener::bind(&socket).unwrap();
    let output = place.run(&["--host", "box"]);
    assert_eq!(printed(&output), format!("error: sudo-proxy is already running on {}\n", socket.display()));
    assert!(socket.exists());
}
