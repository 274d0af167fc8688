//! Sessions over our own socket: the zeroclaw methods beside the house's own, and one session through both.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use hostel_tests::wait;
use hostel_tests::zeroclaw::Daemon;
use hostel_tests::zeroclaw::peer::text_of;
use serde_json::{Value, json};

fn prompt(session: &str, text: &str) -> Value {
    json!({"session_id": session, "prompt": text})
}

#[test]
fn the_greeting_is_both_greetings() {
    let daemon = Daemon::start();
    let mut client = daemon.native();
    let greeting = client.ask("initialize", json!({"protocolVersion": 1}));
    let methods: Vec<&str> =
        greeting["capabilities"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for method in ["initialize", "session/prompt", "session/export", "approval/watch", "process/spawn", "house/down"] {
        assert_eq!(methods.iter().filter(|name| **name == method).count(), 1, "{method}");
    }
    assert_eq!(greeting["server_pid"], daemon.pid());
    assert!(greeting["tui_id"].is_string());
    assert_ne!(greeting["server_version"], "0.8.4");
    // Our own clients say which version they speak.
    assert_eq!(client.refused("initialize", json!({})), -32602);
    assert_eq!(client.refused("initialize", json!({"protocol_version": 2})), -32011);
}

#[test]
fn numbers_as_ids_come_back_digit_for_digit() {
    let daemon = Daemon::start();
    for socket in [daemon.socket(), daemon.native_socket()] {
        let mut stream = BufReader::new(UnixStream::connect(&socket).unwrap());
        stream.get_ref().set_read_timeout(Some(wait::limit())).unwrap();
        let mut answer = |id: &str, rest: &str| {
            writeln!(stream.get_mut(), r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#).unwrap();
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{id}: {line}");
        };
        answer("123456789012345678901234567890", r#""method":"initialize","params":{"protocol_version":1}"#);
        answer("-98765432109876543210", r#""method":"status","params":{}"#);
        answer("1.10", r#""method":"session/dance","params":{}"#);
        answer("1e2", r#""method":"session/attach","params":{"session_id":"nobody"}"#);
    }
}

#[test]
fn one_session_through_both_doors() {
    let daemon = Daemon::start();
    let (mut client, mut native) = (daemon.client(), daemon.native());
    let session = client.session();
    let listed = native.ask("session/list", json!({}));
    assert_eq!(
        (&listed["sessions"][0]["session_id"], &listed["sessions"][0]["door"]),
        (&json!(session), &json!("zeroclaw"))
    );
    native.ask("session/attach", json!({"session_id": session}));
    assert_eq!(client.ask("session/prompt", prompt(&session, "one"))["content"], "echo: one");
    client.updates_until("turn_complete");
    let seen = native.updates_until("turn_complete");
    assert_eq!(
        (&seen[0]["type"], &seen[0]["prompt"], &seen[0]["door"]),
        (&json!("turn_started"), &json!("one"), &json!("zeroclaw"))
    );
    client.ask("session/attach", json!({"session_id": session, "since_seq": seen.last().unwrap()["seq"]}));
    assert_eq!(native.ask("session/prompt", prompt(&session, "two"))["content"], "echo: two");
    let seen = client.updates_until("turn_complete");
    assert_eq!((&seen[0]["prompt"], &seen[0]["door"]), (&json!("two"), &json!("native")));
    // Whoever runs the house may stop what runs in it.
    client.begin("session/prompt", prompt(&session, "sleep 60"));
    client.updates_until("agent_message_chunk");
    native.ask("session/cancel", json!({"session_id": session}));
    assert_eq!(client.updates_until("turn_complete").last().unwrap()["outcome"], "cancelled");
    native.ask("session/close", json!({"session_id": session}));
    assert_eq!(client.refused("session/prompt", prompt(&session, "gone")), -32000);
    assert_eq!(native.ask("session/list", json!({}))["sessions"], json!([]));
    assert_eq!(native.ask("session/list", json!({"all": true}))["sessions"][0]["standing"], "archived");
}

#[test]
fn a_prompt_over_our_own_socket_tells_when_its_turn_starts() {
    let daemon = Daemon::start();
    let mut native = daemon.native();
    let session = native.session();
    let first = native.begin("session/prompt", prompt(&session, "sleep 1"));
    let second = native.begin("session/prompt", prompt(&session, "later"));
    assert_eq!(native.answer(second)["result"]["content"], "echo: later");
    assert_eq!(native.answer(first)["result"]["content"], "sleeping done");
    let mut updates = native.updates_until("turn_complete");
    updates.extend(native.updates_until("turn_complete"));
    let started: Vec<&Value> = updates.iter().filter(|update| update["type"] == "turn_started").collect();
    assert_eq!(started.len(), 2);
    assert_eq!((&started[1]["prompt"], &started[1]["door"]), (&json!("later"), &json!("native")));
}

#[test]
fn a_transcript_in_pieces() {
    let daemon = Daemon::start();
    let mut native = daemon.native();
    let made = native.ask("session/new", json!({"agent_alias": "echo", "name": "a long talk"}));
    let session = made["session_id"].as_str().unwrap().to_owned();
    native.ask("session/prompt", prompt(&session, "hello"));
    native.ask("session/prompt", prompt(&session, "tool"));
    native.ask("session/prompt", prompt(&session, "big 3000"));
    let mut export = |format: &str| {
        let (mut text, mut after, mut pieces) = (String::new(), 0, 0);
        loop {
            let piece =
                native.ask("session/export", json!({"session_id": session, "format": format, "after_seq": after}));
            text.push_str(piece["text"].as_str().unwrap());
            pieces += 1;
            after = piece["last_seq"].as_u64().unwrap();
            if piece["done"] == true {
                return (text, pieces);
            }
        }
    };
    let (text, pieces) = export("markdown");
    assert!(pieces >= 3, "{pieces} pieces");
    assert!(text.starts_with("# a long talk\n\nAgent `echo` in `"), "{}", &text[..80]);
    for part in [
        "## Turn 1\n\n> hello\n\necho: hello\n",
        "## Turn 2\n\n> tool\n",
        "**bash**",
        "tool done",
        &"x".repeat(3000 << 10),
    ] {
        assert!(text.contains(part), "no {:?}", &part[..part.len().min(40)]);
    }
    let (text, _) = export("jsonl");
    let numbers: Vec<u64> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "every event once, in order");
    assert_eq!(native.refused("session/export", json!({"session_id": session, "format": "pdf"})), -32602);
    assert_eq!(native.refused("session/export", json!({"session_id": "nobody"})), -32000);
    native.ask("session/close", json!({"session_id": session}));
    let piece = native.ask("session/export", json!({"session_id": session}));
    assert!(piece["text"].as_str().unwrap().contains("echo: hello"), "a closed session too");
}

#[test]
fn an_attach_without_an_end_goes_with_its_connection() {
    let daemon = Daemon::start();
    let mut native = daemon.native();
    let session = native.session();
    for _ in 0..3 {
        let mut watcher = daemon.native();
        watcher.ask("session/attach", json!({"session_id": session}));
        drop(watcher);
    }
    native.ask("session/attach", json!({"session_id": session}));
    native.ask("session/send", prompt(&session, "heard"));
    assert_eq!(text_of(&native.updates_until("turn_complete")), "echo: heard");
}
