//! The daemon killed in the middle of turns: what a client attaches to afterwards is complete, in order, and once.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::zeroclaw::peer::text_of;
use hostel_tests::zeroclaw::{Daemon, Peer};
use serde_json::{Value, json};

fn prompt(session: &str, text: &str) -> Value {
    json!({"session_id": session, "prompt": text})
}

/// Attaches after what is known and reads until there is this much more, or until the last turn is over.
fn follow(client: &mut Peer, session: &str, seen: &mut Vec<Value>, more: usize, turns: u64) -> bool {
    let since = seen.last().map_or(0, |update| update["seq"].as_u64().unwrap());
    client.ask("session/attach", json!({"session_id": session, "since_seq": since}));
    let enough = seen.len() + more;
    while seen.len() < enough {
        let update = client.update();
        let last = update["type"] == "turn_complete" && update["turn"] == turns;
        seen.push(update);
        if last {
            return true;
        }
    }
    false
}

#[test]
fn a_turn_that_was_cut_off_is_replayed_and_goes_on() {
    let mut daemon = Daemon::start();
    let mut client = daemon.connect();
    client.ask("initialize", json!({"tui_id": "tui_0badcafe"}));
    let session = client.session();
    let numbers = 30_000;
    client.ask("session/send", prompt(&session, &format!("stream {numbers}")));
    client.ask("session/send", prompt(&session, "sleep 1"));
    client.ask("session/send", prompt(&session, "the last"));
    let mut seen = Vec::new();
    let mut kills = 0;
    while !follow(&mut client, &session, &mut seen, 5_000, 3) {
        daemon.kill();
        kills += 1;
        daemon.serve();
        client = daemon.connect();
        client.ask("initialize", json!({"tui_id": "tui_0badcafe"}));
    }
    assert!(kills >= 3, "{kills} kills");
    let numbered: Vec<u64> = seen.iter().map(|update| update["seq"].as_u64().unwrap()).collect();
    assert!(numbered.windows(2).all(|pair| pair[0] < pair[1]), "numbers rise");
    assert!(seen.iter().all(|update| update["type"] != "gap"), "nothing is missing");
    let text: String = (0..numbers).map(|number| format!("{number} ")).collect();
    let text = format!("{text}sleeping doneecho: the last");
    assert!(text_of(&seen) == text, "every piece came once and in order");
    let ends: Vec<&Value> = seen.iter().filter(|update| update["type"] == "turn_complete").collect();
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|end| end["outcome"] == "completed"), "{ends:?}");
    // A newcomer sees exactly the same from the beginning.
    let mut whole = Vec::new();
    assert!(follow(&mut daemon.client(), &session, &mut whole, usize::MAX - 1, 3));
    assert!(whole == seen, "{} and {} updates", whole.len(), seen.len());
}

#[test]
fn the_owner_is_known_again_after_a_restart() {
    let mut daemon = Daemon::start();
    let mut client = daemon.connect();
    client.ask("initialize", json!({"tui_id": "tui_0badcafe"}));
    let session = client.session();
    let turn = client.begin("session/prompt", prompt(&session, "sleep 60"));
    assert_eq!(client.update()["text"], "sleeping");
    daemon.kill();
    assert!(client.try_answer(turn).is_err());
    daemon.serve();
    let mut stranger = daemon.client();
    assert_eq!(stranger.refused("session/cancel", json!({"session_id": session})), -32003);
    let mut client = daemon.connect();
    client.ask("initialize", json!({"tui_id": "tui_0badcafe"}));
    client.ask("session/attach", json!({"session_id": session}));
    client.ask("session/cancel", json!({"session_id": session}));
    let updates = client.updates_until("turn_complete");
    let end = updates.last().unwrap();
    assert_eq!(end["outcome"], "cancelled", "{end}");
    assert!(end["content"].as_str().unwrap().contains("client_rpc"), "{end}");
    assert_eq!(client.ask("session/prompt", prompt(&session, "next"))["content"], "echo: next");
}
