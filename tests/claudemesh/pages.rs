//! Long answers of a mesh daemon, many at once: its memory is bounded, so they wait for each other or are refused, and the
//! daemon lives on.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::thread;

use hostel_tests::claudemesh::{Client, Lab, Transport};
use hostel_tests::codecast::http::{Answer, Connection};
use hostel_tests::wait;
use serde_json::{Value, json};

const MESSAGES: usize = 120;
const LONG: usize = 90_000;
/// Far more than fit into the daemon's memory at once.
const AT_ONCE: usize = 30;

fn health(client: &Client) -> Value {
    client.get("/v1/health").json()
}

/// Asks for the same page on many connections before any answer is read.
fn ask(client: &Client, path: &str) -> Vec<Connection> {
    let one = |_| {
        let mut connection = client.connect();
        client.send_on(&mut connection, "GET", path, &[], b"");
        connection
    };
    (0..AT_ONCE).map(one).collect()
}

/// Reads all answers, each as it comes: the daemon gives turns in an order of its own, and an answer that is not taken
/// keeps the others waiting.
fn answers(connections: Vec<Connection>) -> Vec<Answer> {
    thread::scope(|scope| {
        let reading: Vec<_> = connections.into_iter().map(|mut one| scope.spawn(move || one.answer())).collect();
        reading.into_iter().map(|reading| reading.join().expect("an answer")).collect()
    })
}

#[test]
fn many_long_pages_at_once_do_not_end_the_daemon() {
    let lab = Lab::start(&["alice"]);
    let client = lab.hosts[0].client(Transport::Socket);
    let pid = health(&client)["pid"].clone();
    let text = format!("needle {}", "x".repeat(LONG));
    for _ in 0..MESSAGES {
        assert_eq!(client.post("/v1/send", &json!({"to": "alice/box", "message": text})).status, 202);
    }
    wait::until_true(wait::LIMIT, "everything is in the inbox", || health(&client)["queue_depth"] == 0);
    for path in ["/v1/inbox?limit=1000&mark_seen=false", "/v1/inbox/search?q=needle&limit=1000"] {
        let mut whole = 0;
        for answer in answers(ask(&client, path)) {
            match answer.status {
                200 => {
                    assert!(answer.body.len() > 8_000_000 && answer.body.len() < 11_000_000, "{}", answer.body.len());
                    whole += 1;
                }
                429 => assert_eq!(answer.json()["error"], "daemon_busy"),
                other => panic!("{path}: {other}"),
            }
        }
        assert!(whole >= 4, "{path}: only {whole} answers");
        assert_eq!(health(&client)["pid"], pid, "another process answers after {path}");
    }
}
