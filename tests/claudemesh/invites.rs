//! Invites that are not words of a command: other users of the machine can read those while the command runs.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};

use hostel_tests::claudemesh::{Host, Lab};

/// Joins by a word, with this on standard input.
fn join(host: &Host, word: &str, input: &str) -> Output {
    let mut command = host.command(&["join", word, "--name", &host.name, "--no-start"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that does not want it may be gone.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap_or_default();
    child.wait_with_output().unwrap()
}

#[test]
fn an_invite_comes_from_standard_input_or_a_file() {
    let lab = Lab::start(&["alice"]);
    let link = lab.host("alice").invite(3);
    let file = lab.path().join("invite.txt");
    fs::write(&file, format!("{link}\n")).unwrap();
    let file = file.to_str().unwrap();
    let ways =
        [("bob", "-", format!("{link}\n")), ("carol", file, String::new()), ("dave", link.as_str(), String::new())];
    for (name, word, input) in &ways {
        let host = Host::new(name, lab.path());
        let output = join(&host, word, input);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name}: {printed}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(host.member("slug"), "lab", "{printed}");
        let secret = link.split_once("#k=").unwrap().1;
        assert!(!printed.contains(&secret[..16]), "the secret is not shown: {printed}");
    }
    let eve = Host::new("eve", lab.path());
    for (word, input) in [("-", String::new()), ("-", "x".repeat(100_000)), ("/nowhere/invite", String::new())] {
        assert!(!join(&eve, word, &input).status.success(), "{word}");
    }
}
