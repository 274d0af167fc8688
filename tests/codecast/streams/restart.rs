//! The daemon is killed, or told to end, in the middle of a turn.

use hostel_tests::codecast::Daemon;
use hostel_tests::wait;
use serde_json::{Value, json};

use crate::streams::{WAIT_FOR_GO, complete, go, numbers};

/// Reads until the daemon is gone.
fn read_to_the_cut(stream: &mut hostel_tests::codecast::Connection, events: &mut Vec<Value>) {
    while let Ok(Some(frame)) = stream.try_frame() {
        assert_ne!(frame, "[DONE]", "the turn has not ended");
        let event: Value = serde_json::from_str(&frame).unwrap();
        if event["type"] != "ping" {
            events.push(event);
        }
    }
}

#[test]
fn a_killed_daemon_comes_back_with_everything() {
    let mut daemon = Daemon::start();
    let session = daemon.create("claude");
    let mut stream = daemon.send(&session, &format!("slow 400 10\n{WAIT_FOR_GO}"));
    let mut first = Vec::new();
    while numbers(&first).len() < 100 {
        first.push(stream.event().unwrap());
    }
    // These wait while the daemon dies.
    for message in ["say second", "say third"] {
        assert_eq!(daemon.send(&session, message).events()[0]["type"], "queued");
    }
    let before = daemon.listed(&session).unwrap();
    daemon.kill();
    read_to_the_cut(&mut stream, &mut first);
    daemon.serve();

    let after = daemon.listed(&session).expect("the session is there again");
    for key in ["path", "mode", "cliType", "sdkSessionId", "model", "createdAt"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(after["status"], "busy", "the turn goes on");
    go(&daemon);
    assert_eq!(daemon.queue(&session)["clientConnected"], false);
    daemon.wait_for_status(&session, "idle");
    let second = daemon.reconnect(&session);
    let texts: Vec<&Value> =
        second.iter().filter(|event| event["type"] == "text").map(|event| &event["content"]).collect();
    assert!(texts.ends_with(&[&json!("second"), &json!("third")]), "each queued message ran once: {texts:?}");
    let turn_end = second.iter().position(|event| event["type"] == "result").unwrap();
    complete(400, &numbers(&first), &numbers(&second[..turn_end]));
    assert_eq!(daemon.reconnect(&session), Vec::<Value>::new());
    let prompts = daemon.cli_log().iter().filter(|line| line["event"] == "prompt").count();
    assert_eq!(prompts, 3, "no message was put twice");
}

#[test]
fn killed_again_and_again() {
    let mut daemon = Daemon::start();
    let session = daemon.create("claude");
    let mut stream = daemon.send(&session, "slow 600 5");
    let mut events = Vec::new();
    while numbers(&events).len() < 20 {
        events.push(stream.event().unwrap());
    }
    daemon.kill();
    read_to_the_cut(&mut stream, &mut events);
    for _ in 0..5 {
        daemon.serve();
        let more = daemon.reconnect(&session);
        let (had, new) = (numbers(&events), numbers(&more));
        let next = had.last().map_or(0, |last| last + 1);
        assert!(new.first().is_none_or(|first| *first <= next), "events are lost");
        events.retain(|event| event["type"] == "partial");
        let fresh = more.into_iter().filter(|event| {
            event["type"] == "partial" && event["content"].as_str().unwrap().trim().parse::<u64>().unwrap() >= next
        });
        events.extend(fresh);
        daemon.kill();
    }
    daemon.serve();
    daemon.wait_for_status(&session, "idle");
    let mut rest = Vec::new();
    loop {
        let more = daemon.reconnect(&session);
        if more.is_empty() {
            break;
        }
        rest.extend(more);
    }
    complete(600, &numbers(&events), &numbers(&rest));
}

#[test]
fn what_was_buffered_is_there_after_a_restart() {
    let mut daemon = Daemon::start();
    let session = daemon.create("echo");
    drop(daemon.send(&session, "stream 100"));
    daemon.wait_for_status(&session, "idle");
    wait::eventually("the daemon to notice", || daemon.queue(&session)["clientConnected"] == false);
    daemon.kill();
    daemon.serve();
    assert_eq!(daemon.queue(&session)["clientConnected"], false);
    complete(100, &[], &numbers(&daemon.reconnect(&session)));
    // Killed before it has seen that the client has it all, it says all of it again, and no part of it.
    for _ in 0..5 {
        daemon.kill();
        daemon.serve();
        let again = daemon.reconnect(&session);
        if again.is_empty() {
            return;
        }
        complete(100, &[], &numbers(&again));
    }
    panic!("it is said again and again");
}

#[test]
fn told_to_end_it_ends_streams_and_comes_back_idle() {
    let mut daemon = Daemon::start();
    let session = daemon.create("claude");
    let mut stream = daemon.send(&session, "sleep 600");
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Value| event["content"] != "sleeping") {
        events.push(stream.event().unwrap());
    }
    let status = daemon.stop();
    assert_eq!(status.code(), Some(0));
    assert!(!daemon.home().join(".codecast/daemon.port").exists());
    while let Ok(Some(_)) = stream.try_frame() {}
    daemon.serve();
    let listed = daemon.listed(&session).expect("the session is there again");
    daemon.wait_for_status(&session, "idle");
    let sdk = listed["sdkSessionId"].as_str().unwrap().to_owned();
    let events = daemon.send(&session, "resume-id").events();
    let said = events.iter().find(|event| event["type"] == "text").unwrap();
    assert_eq!(said["content"], sdk.as_str(), "the CLI's own session goes on");
}
