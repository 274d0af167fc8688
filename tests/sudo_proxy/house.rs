//! The sudo-proxy door among the others of a house.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostel_tests::sudo_proxy::{Daemon, Options, Program, moment};
use hostel_tests::wait;
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(40);

/// Only this door: the others' own places are not the tests' to take.
const SETTINGS: &str = "[doors.codecast]\nenabled = false\n[doors.mcp]\nenabled = false\n";

fn house() -> Daemon {
    let settings = SETTINGS.to_owned();
    Daemon::start(Options { program: Program::House, settings, detached: true, ..Options::default() })
}

fn ask(daemon: &Daemon, changes: &Value) -> Value {
    let mut request = json!({"time": format!("{}Z", moment::from_now(0)), "privileged": false});
    for (key, value) in changes.as_object().expect("an object") {
        request[key] = value.clone();
    }
    let mut client = daemon.connect();
    client.send(format!("{request}\n").as_bytes()).expect("a daemon that listens");
    serde_json::from_str(&client.line(LONG).expect("an answer")).expect("an answer is JSON")
}

#[test]
fn where_nobody_can_approve_it_is_said_what_to_do() {
    let daemon = house();
    let refused = ask(&daemon, &json!({"id": "a", "pipeline": [["true"]]}));
    assert_eq!(refused["status"], "error");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.starts_with("prompt error: ") && message.contains("hostel approver set"), "{message}");
    let again = ask(&daemon, &json!({"id": "a", "pipeline": [["true"]]}));
    assert_eq!(again["message"], "duplicate request id: a");
}

#[test]
fn stop_ends_this_door_alone() {
    let daemon = house();
    let both = [daemon.socket(), daemon.path().join("run/sudo-proxy.sock")];
    assert!(both.iter().all(|socket| UnixStream::connect(socket).is_ok()));
    let stopped = ask(&daemon, &json!({"id": "stop", "action": "stop", "pipeline": []}));
    assert_eq!(stopped, json!({"id": "stop", "status": "ok", "stdout": "", "version": "1.2.0"}));
    wait::eventually("the sockets to go", || both.iter().all(|socket| !socket.exists()));
    assert!(UnixStream::connect(daemon.hostel_home().join("run/hostel.sock")).is_ok());
}
