//! The zeroclaw daemon's life: ephemeral mode, identities with a key, the socket's modes, how it ends.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use hostel_tests::wait;
use hostel_tests::zeroclaw::{Daemon, Options, Peer};
use rustix::process::Signal;
use serde_json::{Value, json};

fn prompt(session: &str, text: &str) -> Value {
    json!({"session_id": session, "prompt": text})
}

/// An ephemeral daemon and its first client.
fn ephemeral() -> (Daemon, Peer) {
    let mut daemon = Daemon::prepare(Options { flags: vec!["--ephemeral".to_owned()], ..Options::default() });
    daemon.spawn();
    let client = wait::eventually("the socket to accept", || Peer::connect(&daemon.socket()).ok());
    (daemon, client)
}

/// Waits for the end and checks how long after `left` it came.
fn ends_one_second_after(daemon: &mut Daemon, left: Instant) {
    let status = daemon.ended(wait::LIMIT);
    let after = left.elapsed();
    assert!(status.success(), "{status}");
    assert!(after >= Duration::from_secs(1), "it ended {after:?} after the last client");
    // One second, and what a busy machine adds.
    assert!(after < Duration::from_secs(60), "it ended {after:?} after the last client");
    assert!(!daemon.socket().exists(), "the socket is removed");
}

#[test]
fn the_end_comes_one_second_after_the_last_client() {
    let (mut daemon, first) = ephemeral();
    let mut second = Peer::connect(&daemon.socket()).unwrap();
    drop(first);
    // Not the last one yet: two seconds later it is still served.
    second.initialize();
    let session = second.session();
    assert_eq!(second.ask("session/prompt", prompt(&session, "sleep 2"))["content"], "sleeping done");
    let left = Instant::now();
    drop(second);
    ends_one_second_after(&mut daemon, left);
}

#[test]
fn a_reconnect_within_the_second_cancels_the_end() {
    let (mut daemon, mut client) = ephemeral();
    client.initialize();
    let session = client.session();
    drop(client);
    let mut client = Peer::connect(&daemon.socket()).expect("it is still there");
    client.initialize();
    assert_eq!(client.ask("session/prompt", prompt(&session, "sleep 2"))["content"], "sleeping done");
    let left = Instant::now();
    drop(client);
    ends_one_second_after(&mut daemon, left);
}

#[test]
fn a_connection_that_says_nothing_counts_and_a_running_turn_does_not() {
    let (mut daemon, mut client) = ephemeral();
    client.initialize();
    let session = client.session();
    let silent = Peer::connect(&daemon.socket()).unwrap();
    client.begin("session/prompt", prompt(&session, "sleep 600"));
    assert_eq!(client.update()["text"], "sleeping");
    // The turn's client goes with its connection fully closed in the middle of the turn.
    drop(client);
    let mut witness = Peer::connect(&daemon.socket()).unwrap();
    witness.initialize();
    wait::eventually("only two to be left", || {
        witness.ask("tui/list", json!({}))["tuis"].as_array().unwrap().len() == 1
    });
    drop(witness);
    let left = Instant::now();
    drop(silent);
    ends_one_second_after(&mut daemon, left);
}

#[test]
fn identities_are_proved_where_there_is_a_key() {
    let options = Options { key: Some("000102030405060708090a0b0c0d0e0f\n".to_owned()), ..Options::default() };
    let mut daemon = Daemon::start_with(options);
    let greeting = daemon.client().ask("initialize", json!({}));
    let (id, signature) = (greeting["tui_id"].clone(), greeting["tui_sig"].clone());
    assert_eq!(signature.as_str().unwrap().len(), 64);
    let mut client = daemon.connect();
    assert_eq!(client.refused("initialize", json!({"tui_id": id})), -32010);
    assert_eq!(client.refused("initialize", json!({"tui_id": id, "tui_sig": "00"})), -32010);
    assert_eq!(client.refused("status", json!({})), -32010);
    assert_eq!(client.ask("initialize", json!({"tuiId": id, "tuiSig": signature}))["tui_id"], id);
    // The same key proves the same identity to the next daemon.
    daemon.kill();
    daemon.serve();
    let again = daemon.connect().ask("initialize", json!({"tui_id": id, "tui_sig": signature}));
    assert_eq!((&again["tui_id"], &again["tui_sig"]), (&id, &signature));
}

#[test]
fn the_socket_and_its_directory_are_private() {
    let daemon = Daemon::start();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&daemon.socket()), 0o600);
    assert_eq!(mode(&daemon.data()), 0o700);
    assert_eq!(daemon.socket().metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
}

#[test]
fn a_signal_ends_it_and_a_hangup_does_not() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    daemon.signal(Signal::HUP);
    assert_eq!(client.ask("session/prompt", prompt(&session, "still"))["content"], "echo: still");
    client.updates_until("turn_complete");
    client.begin("session/prompt", prompt(&session, "sleep 600"));
    assert_eq!(client.update()["text"], "sleeping");
    daemon.signal(Signal::TERM);
    assert!(daemon.ended(wait::LIMIT).success());
    assert!(!daemon.socket().exists());
    client.try_closed().unwrap();
}

#[test]
fn log_lines_come_to_who_asked_for_them() {
    let daemon = Daemon::start_with(Options {
        environment: vec![("RUST_LOG".to_owned(), "debug".to_owned())],
        ..Options::default()
    });
    let mut client = daemon.client();
    client.ask("logs/subscribe", json!({}));
    // Somebody who introduces itself is worth a line at this level.
    daemon.client();
    // The house may write other lines meanwhile, such as the guard that it found.
    let introduced = |event: &Value| event["params"]["message"].as_str().is_some_and(|text| text.contains("unix:pid="));
    let event = client.find(|frame| frame["method"] == "logs/event" && introduced(frame)).unwrap();
    assert_eq!(event["params"]["severity_text"], "DEBUG");
}
