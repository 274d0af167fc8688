//! Turns over the zeroclaw socket: queues, order, clients that leave or do not read.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hostel_tests::zeroclaw::peer::{kinds, text_of};
use hostel_tests::zeroclaw::{Daemon, Options, Peer};
use serde_json::{Value, json};

fn prompt(session: &str, text: &str) -> Value {
    json!({"session_id": session, "prompt": text})
}

/// Waits until the turn that was asked for says so itself.
fn sleeping(client: &mut Peer) {
    let update = client.update();
    assert_eq!(update["text"], "sleeping", "{update}");
}

#[test]
fn a_second_prompt_waits_in_line_and_different_sessions_do_not() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let (one, other) = (client.session(), client.session());
    let first = client.begin("session/prompt", prompt(&one, "sleep 600"));
    sleeping(&mut client);
    let second = client.begin("session/prompt", prompt(&one, "second"));
    let beside = client.begin("session/prompt", prompt(&other, "beside"));
    // The other session's turn is over while the first one still sleeps.
    let done = client.updates_until("turn_complete");
    assert_eq!(done.last().unwrap()["session_id"], other, "{done:?}");
    assert_eq!(client.answer(beside)["result"]["content"], "echo: beside");
    client.ask("session/cancel", json!({"session_id": one}));
    let done = client.updates_until("turn_complete");
    assert_eq!(done.last().unwrap()["outcome"], "cancelled");
    let done = client.updates_until("turn_complete");
    assert_eq!(done.last().unwrap()["content"], "echo: second");
    assert_eq!(client.answer(first)["result"]["stop_reason"], "cancelled");
    assert_eq!(client.answer(second)["result"]["content"], "echo: second");
    client.expect_silence();
}

#[test]
fn the_line_is_thirty_two_deep() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    let first = client.begin("session/prompt", prompt(&session, "sleep 60"));
    sleeping(&mut client);
    let waiting: Vec<u64> =
        (1..32).map(|number| client.begin("session/prompt", prompt(&session, &format!("number {number}")))).collect();
    let refused = client.call("session/prompt", prompt(&session, "one too many"));
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    assert_eq!(client.refused("session/send", prompt(&session, "by the other way")), -32002);
    // As a notification it is told by a failed turn.
    client.notify("session/prompt", prompt(&session, "unheard"));
    assert_eq!(client.update()["outcome"], "failed");
    client.ask("session/cancel", json!({"session_id": session}));
    assert_eq!(client.answer(first)["result"]["stop_reason"], "cancelled");
    for (number, id) in (1..).zip(waiting) {
        assert_eq!(client.answer(id)["result"]["content"], format!("echo: number {number}"));
    }
}

#[test]
fn a_prompt_that_waited_for_half_a_minute_is_taken_back() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "sleep 120"));
    sleeping(&mut client);
    let began = Instant::now();
    let waiting = client.begin("session/prompt", prompt(&session, "never"));
    let refused = client.answer(waiting);
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    let state = client.ask("session/list", json!({}));
    assert_eq!(state["sessions"][0]["queued"], 0);
    client.ask("session/cancel", json!({"session_id": session}));
    let ended = client.updates_until("turn_complete");
    assert_eq!(ended.last().unwrap()["outcome"], "cancelled");
    // It never ran, not even now that there is room.
    assert_eq!(client.ask("session/prompt", prompt(&session, "next"))["content"], "echo: next");
    let said: Vec<Value> = client.ask("session/messages", json!({"session_id": session}))["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .cloned()
        .collect();
    assert!(said.iter().all(|message| message["content"] != "echo: never"), "{said:?}");
}

#[test]
fn no_update_of_a_cancelled_turn_follows_the_answer() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    for _ in 0..5 {
        let turn = client.begin("session/prompt", prompt(&session, "stream 1000000"));
        client.update();
        let cancel = client.begin("session/cancel", json!({"session_id": session}));
        // Everything up to the answer is read; what was before it does not matter.
        client.answer(cancel);
        let answer = client.answer(turn);
        assert_eq!(answer["result"]["stop_reason"], "cancelled");
        assert!(answer["result"]["content"].as_str().unwrap().starts_with("0 1 2 "), "the text so far is given back");
        let mut last = Value::Null;
        while client.left() > 0 {
            last = client.update();
        }
        assert_eq!(last["outcome"], "cancelled", "{last}");
    }
}

#[test]
fn after_a_cancels_answer_only_the_end_comes() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "stream 1000000"));
    client.update();
    let cancel = client.begin("session/cancel", json!({"session_id": session}));
    loop {
        let frame = client.frame();
        if frame["id"] == cancel {
            break;
        }
        assert_eq!(frame["params"]["type"], "agent_message_chunk", "{frame}");
    }
    let next = client.frame();
    assert_eq!(next["params"]["type"], "turn_complete", "{next}");
    assert_eq!(next["params"]["outcome"], "cancelled");
}

#[test]
fn a_turn_goes_on_without_its_client_and_the_next_one_finds_it() {
    let daemon = Daemon::start();
    let session = {
        let mut client = daemon.client();
        let session = client.session();
        client.begin("session/prompt", prompt(&session, "sleep 1"));
        sleeping(&mut client);
        session
    };
    let mut client = daemon.client();
    client.ask("session/attach", json!({"session_id": session}));
    let updates = client.updates_until("turn_complete");
    assert_eq!(text_of(&updates), "sleeping done");
    assert_eq!(updates.last().unwrap()["outcome"], "completed");
    assert_eq!(client.ask("session/prompt", prompt(&session, "next"))["content"], "echo: next");
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody() {
    let daemon = Daemon::start();
    let (mut stalled, mut reader) = (daemon.client(), daemon.client());
    let session = stalled.session();
    reader.ask("session/attach", json!({"session_id": session}));
    // 24 MiB, far more than a socket holds.
    let turn = stalled.begin("session/prompt", prompt(&session, "big 24576"));
    let updates = reader.updates_until("turn_complete");
    assert_eq!(text_of(&updates).len(), 24576 << 10);
    let mut third = daemon.client();
    let other = third.session();
    assert_eq!(third.ask("session/prompt", prompt(&other, "meanwhile"))["content"], "echo: meanwhile");
    // And it has missed nothing when it comes back.
    let updates = stalled.updates_until("turn_complete");
    assert_eq!(text_of(&updates).len(), 24576 << 10);
    assert_eq!(stalled.answer(turn)["result"]["stop_reason"], "end_turn");
}

#[test]
fn two_clients_on_one_session_see_the_same() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (daemon.client(), daemon.client());
    let session = one.session();
    for client in [&mut one, &mut other] {
        client.ask("session/attach", json!({"session_id": session}));
    }
    let turns: Vec<u64> =
        (0..5).map(|number| one.begin("session/prompt", prompt(&session, &format!("one {number}")))).collect();
    for number in 0..5 {
        other.begin("session/prompt", prompt(&session, &format!("other {number}")));
    }
    let mut seen = [Vec::new(), Vec::new()];
    for (client, seen) in [&mut one, &mut other].into_iter().zip(&mut seen) {
        for _ in 0..10 {
            seen.extend(client.updates_until("turn_complete"));
        }
    }
    let [first, second] = seen;
    assert_eq!(first, second);
    let numbers: Vec<u64> = first.iter().map(|update| update["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let answers: BTreeSet<String> = text_of(&first).split("echo: ").map(str::to_owned).collect();
    assert_eq!(answers.len(), 11, "{answers:?}");
    assert_eq!(kinds(&first)[..3], ["turn_started", "agent_message_chunk", "turn_complete"]);
    for turn in turns {
        assert_eq!(one.answer(turn)["result"]["stop_reason"], "end_turn");
    }
}

#[test]
fn as_many_sessions_as_set_and_not_one_more() {
    let settings = "[doors.zeroclaw]\nsession_limit = 8\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    // Many at the same instant: the limit holds and every place is used.
    let made: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| daemon.client().call("session/new", json!({"agent_alias": "echo"}))))
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let refused = made.iter().filter(|answer| answer["error"]["code"] == -32001).count();
    assert_eq!(refused, 8, "{made:?}");
    let mut client = daemon.client();
    let live = client.ask("status", json!({}))["session_ids"][0].clone();
    assert_eq!(client.refused("session/new", json!({"agent_alias": "echo"})), -32001);
    // Taking one over makes none.
    client.ask("session/new", json!({"agent_alias": "echo", "session_id": live}));
    client.ask("session/close", json!({"session_id": live}));
    client.ask("session/new", json!({"agent_alias": "echo"}));
    assert_eq!(client.refused("session/new", json!({"agent_alias": "echo", "session_id": live})), -32001);
    // Sessions made by another door are not counted.
    daemon.native().ask("session/new", json!({"agent_alias": "echo"}));
}

#[test]
fn a_turn_of_many_pieces_comes_whole_and_in_order() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    let turn = client.begin("session/prompt", prompt(&session, "stream 20000"));
    let updates = client.updates_until("turn_complete");
    let expected: String = (0..20000).map(|number| format!("{number} ")).collect();
    assert_eq!(text_of(&updates), expected);
    assert_eq!(updates.last().unwrap()["content"], expected.as_str());
    assert_eq!(client.answer(turn)["result"]["content"], expected.as_str());
}

#[test]
fn closing_answers_soon_though_the_agent_will_not_go() {
    let fakecli = hostel_tests::binary::testchild().with_file_name("fakecli");
    // An hour is longer than any test may take: the first one shows that nobody waits for the agent.
    for grace in ["1h", "1s"] {
        let agent = format!("[agents.stubborn]\nkind = \"claude\"\ncommand = [{fakecli:?}, \"claude\"]\n");
        let settings = format!("[sessions]\nstop_grace = \"{grace}\"\n{agent}");
        let daemon = Daemon::start_with(Options { settings, ..Options::default() });
        let mut client = daemon.client();
        let made = client.ask("session/new", json!({"agent_alias": "stubborn"}));
        let session = made["session_id"].as_str().unwrap().to_owned();
        let turn = client.begin("session/prompt", prompt(&session, "hang"));
        client.update();
        client.ask("session/close", json!({"session_id": session}));
        if grace == "1s" {
            assert_eq!(client.answer(turn)["result"]["stop_reason"], "cancelled");
        }
    }
}
