//! Clients that go away in the middle: nothing is lost, however they go.

use std::time::Duration;

use hostel_tests::codecast::{Connection, Daemon};
use hostel_tests::wait;
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::streams::{complete, numbers};

const COUNT: u64 = 100_000;

/// Reads events of a stream until so many numbers came.
fn read_numbers(stream: &mut Connection, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    let mut seen = 0;
    while seen < count {
        let Some(event) = stream.event() else { break };
        seen += usize::from(event["type"] == "partial");
        events.push(event);
    }
    events
}

/// Everything that is owed, to the end of the turn.
fn rest(daemon: &Daemon, session: &str) -> Vec<Value> {
    daemon.wait_for_status(session, "idle");
    let mut events = Vec::new();
    loop {
        let more = daemon.reconnect(session);
        if more.is_empty() {
            return events;
        }
        assert!(more.len() <= 20_000, "an answer has a limit: {}", more.len());
        events.extend(more);
    }
}

fn check(daemon: &Daemon, read: usize, leave: impl FnOnce(Connection)) -> usize {
    let session = daemon.create("echo");
    let mut stream = daemon.send(&session, &format!("stream {COUNT}"));
    let mut first = read_numbers(&mut stream, read);
    // What is in our own hands no daemon can know of.
    first.extend(stream.arrived());
    leave(stream);
    let second = rest(daemon, &session);
    let repeated = complete(COUNT, &numbers(&first), &numbers(&second));
    assert_eq!(second.last().unwrap()["type"], "result");
    let queue = daemon.queue(&session);
    assert_eq!(queue, json!({"clientConnected": true, "responsePending": 0, "userPending": 0}));
    repeated
}

#[test]
fn a_client_that_leaves_much_unread_loses_nothing() {
    let daemon = Daemon::start();
    for read in [0, 1, 1000, 40_000, 99_000] {
        check(&daemon, read, drop);
    }
}

#[test]
fn a_client_that_is_torn_away_loses_nothing() {
    let daemon = Daemon::start();
    for read in [500, 60_000] {
        check(&daemon, read, |stream| {
            // The kernel throws away what is unread and sends a reset, as it does for a machine that went down.
            set_socket_linger(stream.socket(), Some(Duration::ZERO)).unwrap();
            drop(stream);
        });
    }
}

#[test]
fn a_client_that_had_read_everything_gets_at_most_its_last_second_twice() {
    let daemon = Daemon::start();
    let session = daemon.create("echo");
    let mut stream = daemon.send(&session, "sleep 1");
    let first = read_numbers_of_sleep(&mut stream);
    drop(stream);
    wait::eventually("the daemon to notice", || daemon.queue(&session)["clientConnected"] == false);
    daemon.wait_for_status(&session, "idle");
    let second = daemon.reconnect(&session);
    let contents = |events: &[Value]| -> Vec<Value> {
        let texts = events.iter().map(|event| event["content"].clone());
        texts.filter(|content| !content.is_null() && content != "sleeping").collect()
    };
    assert_eq!(contents(&first), Vec::<Value>::new());
    assert_eq!(contents(&second), [json!(" done"), json!("sleeping done")]);
}

fn read_numbers_of_sleep(stream: &mut Connection) -> Vec<Value> {
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Value| event["content"] != "sleeping") {
        events.push(stream.event().expect("the turn goes on"));
    }
    events
}

#[test]
fn at_typing_speed_few_events_come_twice() {
    let daemon = Daemon::start();
    let session = daemon.create("claude");
    let mut stream = daemon.send(&session, "slow 60 100");
    let mut first = read_numbers(&mut stream, 40);
    first.extend(stream.arrived());
    set_socket_linger(stream.socket(), Some(Duration::ZERO)).unwrap();
    drop(stream);
    let second = rest(&daemon, &session);
    let repeated = complete(60, &numbers(&first), &numbers(&second));
    // How far a client of this machine has read is noted once a second.
    assert!(repeated <= 30, "{repeated} events came twice");
}

#[test]
fn whoever_calls_at_once_gets_everything_at_once() {
    let daemon = Daemon::start();
    let session = daemon.create("echo");
    let mut stream = daemon.send(&session, "stream 20000");
    let mut first = read_numbers(&mut stream, 100);
    first.extend(stream.arrived());
    drop(stream);
    // The daemon may not have noticed yet that the client is gone.
    let mut second = daemon.reconnect(&session);
    while second.last().is_none_or(|event| event["type"] != "result") {
        second.extend(daemon.reconnect(&session));
    }
    complete(20_000, &numbers(&first), &numbers(&second));
}

#[test]
fn an_answer_to_reconnect_that_does_not_arrive_is_not_lost() {
    let daemon = Daemon::start();
    let session = daemon.create("echo");
    drop(daemon.send(&session, "stream 50000"));
    daemon.wait_for_status(&session, "idle");
    for _ in 0..3 {
        let mut connection = daemon.connect();
        connection
            .post(json!({"method": "session.reconnect", "params": {"sessionId": session}}).to_string().as_bytes());
        // Some of it has arrived, none of it is read.
        wait::eventually("an answer", || {
            let mut byte = [0];
            connection.socket().peek(&mut byte).is_ok_and(|got| got == 1)
        });
        drop(connection);
        wait::eventually("the daemon to notice", || daemon.queue(&session)["clientConnected"] == false);
    }
    complete(50_000, &[], &numbers(&rest(&daemon, &session)));
}
