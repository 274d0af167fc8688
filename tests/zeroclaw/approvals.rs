//! Questions to a person over the zeroclaw socket: time, trust and choices.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::zeroclaw::peer::text_of;
use hostel_tests::zeroclaw::{Daemon, Options, Peer};
use hostel_tests::{binary, wait};
use serde_json::{Value, json};

fn prompt(session: &str, text: &str) -> Value {
    json!({"session_id": session, "prompt": text})
}

/// The next request for approval.
fn asked(client: &mut Peer) -> Value {
    client.updates_until("approval_request").pop().unwrap()
}

fn with_fake_claude() -> Options {
    let fakecli = binary::testchild().with_file_name("fakecli").display().to_string();
    let settings = format!("[agents.fake]\nkind = \"claude\"\nmode = \"ask\"\ncommand = [{fakecli:?}, \"claude\"]\n");
    Options { settings, ..Options::default() }
}

#[test]
fn nobody_answers_in_time() {
    let settings = "[doors.zeroclaw]\napproval_wait = \"2s\"\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let mut client = daemon.client();
    let session = client.session();
    let turn = client.begin("session/prompt", prompt(&session, "approve"));
    let request = asked(&mut client);
    assert_eq!(request["timeout_secs"], 2);
    let updates = client.updates_until("turn_complete");
    assert_eq!(text_of(&updates), "denied");
    assert_eq!(client.answer(turn)["result"]["content"], "denied");
    // Too late is acknowledged, and changes nothing.
    let late = json!({"session_id": session, "request_id": request["request_id"], "decision": "allow_once"});
    assert_eq!(client.ask("session/approve", late)["acknowledged"], true);
    let all = daemon.native().ask("approval/list", json!({"all": true}));
    assert_eq!(all["approvals"][0]["state"], "expired", "{all}");
}

#[test]
fn the_contracts_wait_is_two_minutes_and_ours_a_day() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "approve"));
    assert_eq!(asked(&mut client)["timeout_secs"], 120);
    let mut native = daemon.native();
    let session = native.session();
    native.begin("session/prompt", prompt(&session, "approve"));
    assert_eq!(asked(&mut native)["timeout_secs"], 24 * 60 * 60);
}

#[test]
fn a_question_that_is_replayed_tells_the_time_that_is_left() {
    let settings = "[doors.zeroclaw]\napproval_wait = \"1h\"\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let mut client = daemon.client();
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "approve"));
    assert_eq!(asked(&mut client)["timeout_secs"], 3600);
    let mut late = daemon.client();
    let left = wait::eventually("a second to pass", || {
        late.ask("session/attach", json!({"session_id": session, "follow": false}));
        let left = asked(&mut late)["timeout_secs"].as_u64().unwrap();
        late.updates_until("replay_complete");
        (left < 3600).then_some(left)
    });
    assert!(left > 3600 - wait::LIMIT.as_secs(), "{left}");
}

#[test]
fn a_process_of_the_house_decides_nothing() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "approve"));
    let request = asked(&mut client)["request_id"].as_str().unwrap().to_owned();
    let mut native = daemon.native();
    // Processes are spelled in one way.
    native.folds = false;
    let dial = json!([binary::testchild(), "dial", daemon.socket()]);
    native.ask("process/spawn", json!({"argv": dial, "name": "inside"}));
    let approve = json!({"session_id": session, "request_id": request, "decision": "allow_once"});
    let lines = format!(
        "{}\n{}\n",
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/approve", "params": approve})
    );
    let data = base64_simd::STANDARD.encode_to_string(lines);
    native.ask("process/stdin", json!({"id": "inside", "data": data}));
    native.ask("process/attach", json!({"id": "inside"}));
    let mut printed = String::new();
    let refusal = loop {
        let frame = native.find(|frame| frame["method"] == "process/output").unwrap();
        let data = frame["params"]["data"].as_str().unwrap();
        printed.push_str(&String::from_utf8(base64_simd::STANDARD.decode_to_vec(data).unwrap()).unwrap());
        let answer =
            printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|line| line["id"] == 2);
        if let Some(answer) = answer {
            break answer;
        }
    };
    assert_eq!(refusal["error"]["code"], -32003, "{refusal}");
    let pending = native.ask("approval/list", json!({}));
    assert_eq!(pending["approvals"][0]["state"], "pending");
    // Somebody outside may.
    client.ask("session/approve", approve);
    assert_eq!(text_of(&client.updates_until("turn_complete")), "approved");
}

#[test]
fn a_question_outlives_the_daemon() {
    let mut daemon = Daemon::start();
    let mut client = daemon.connect();
    client.ask("initialize", json!({"tui_id": "tui_00000001"}));
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "approve"));
    let request = asked(&mut client)["request_id"].clone();
    daemon.kill();
    daemon.serve();
    let mut client = daemon.connect();
    // Taking up the identity is enough to be asked again.
    client.ask("initialize", json!({"tui_id": "tui_00000001"}));
    assert_eq!(asked(&mut client)["request_id"], request);
    client.ask("session/attach", json!({"session_id": session}));
    client.ask("session/approve", json!({"session_id": session, "request_id": request, "decision": "allow_once"}));
    let updates = client.updates_until("turn_complete");
    assert_eq!(text_of(&updates), "approved");
}

#[test]
fn choices_are_put_to_a_client_that_can_show_them() {
    let daemon = Daemon::start_with(with_fake_claude());
    let mut client = daemon.connect();
    client.ask("initialize", json!({"clientCapabilities": {"elicitation": {"form": {}}}}));
    let made = client.ask("session/new", json!({"agent_alias": "fake"}));
    let session = made["session_id"].as_str().unwrap().to_owned();
    let answers = [
        (json!({"action": "accept", "content": {"choice": "choice-1"}}), "chose Blue"),
        (json!({"action": "decline"}), "denied"),
    ];
    for (answer, outcome) in answers {
        let turn = client.begin("session/prompt", prompt(&session, "question Which colour?"));
        let question = client.find(|frame| frame["method"] == "elicitation/create").unwrap();
        assert_eq!(question["params"]["sessionId"], session);
        assert_eq!(question["params"]["message"], "Which colour?");
        let options = &question["params"]["requestedSchema"]["properties"]["choice"]["oneOf"];
        assert_eq!(options, &json!([{"const": "choice-0", "title": "Red"}, {"const": "choice-1", "title": "Blue"}]));
        assert!(question["id"].as_str().unwrap().starts_with("zc-out-"), "{question}");
        client.line(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string());
        let updates = client.updates_until("turn_complete");
        assert!(updates.iter().all(|update| update["type"] != "approval_request"), "{updates:?}");
        let content = client.answer(turn)["result"]["content"].as_str().unwrap().to_owned();
        assert!(content.contains(outcome), "{content}");
    }
}

#[test]
fn without_that_ability_it_is_an_approval_like_any_other() {
    let daemon = Daemon::start_with(with_fake_claude());
    let mut client = daemon.client();
    let made = client.ask("session/new", json!({"agent_alias": "fake"}));
    let session = made["session_id"].as_str().unwrap().to_owned();
    let turn = client.begin("session/prompt", prompt(&session, "question Which colour?"));
    let request = asked(&mut client);
    assert_eq!(request["tool_name"], "AskUserQuestion");
    let decision = json!({
        "session_id": session, "request_id": request["request_id"],
        "decision": "allow_once", "answers": {"Which colour?": "Red"},
    });
    client.ask("session/approve", decision);
    let content = client.answer(turn)["result"]["content"].as_str().unwrap().to_owned();
    assert!(content.contains("chose Red"), "{content}");
}

#[test]
fn our_own_socket_lists_and_follows_what_is_asked() {
    let daemon = Daemon::start();
    let mut watcher = daemon.native();
    assert_eq!(watcher.ask("approval/watch", json!({}))["approvals"], json!([]));
    let mut client = daemon.client();
    let session = client.session();
    client.begin("session/prompt", prompt(&session, "approve"));
    let request = asked(&mut client)["request_id"].clone();
    let told = watcher
        .find(|frame| frame["method"] == "approval/changed" && frame["params"]["approvals"][0]["id"] == request)
        .unwrap();
    let approval = &told["params"]["approvals"][0];
    assert_eq!((&approval["session_id"], &approval["state"]), (&json!(session), &json!("pending")));
    assert_eq!(watcher.ask("approval/get", json!({"id": request}))["approval"]["tool"], approval["tool"]);
    assert_eq!(watcher.refused("approval/get", json!({"id": "nothing"})), -32000);
    watcher.ask("session/approve", json!({"session_id": session, "request_id": request, "decision": "reject"}));
    watcher.find(|frame| frame["method"] == "approval/changed" && frame["params"]["approvals"] == json!([])).unwrap();
    let all = watcher.ask("approval/list", json!({"all": true, "limit": 5}));
    assert_eq!((&all["approvals"][0]["state"], &all["approvals"][0]["decision"]), (&json!("denied"), &json!("reject")));
    assert!(all["approvals"][0]["decider"].as_str().unwrap().starts_with("unix:pid="), "{all}");
}
