//! The findings of the review as attacks: F1, F3 and F7.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::wait;
use serde_json::{Value, json};

use super::attempts::base64;
use super::home::Home;

/// The answer that the built-in agent waits for, in its own protocol: every id it could have asked with.
fn answers() -> Vec<u8> {
    let mut lines = String::new();
    for id in 0..16 {
        let result = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
        lines += &format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }
    lines.into_bytes()
}

/// What the agent said at the end of its turn.
fn answer_of(home: &Home, session: &str) -> String {
    let messages = home.native().ask("session/messages", json!({"session_id": session}));
    messages["messages"].to_string()
}

/// F1: the answer to an agent's question is written into its standard input, by the native socket and by claustrum.
#[test]
fn nobody_answers_an_agent_through_its_standard_input() {
    let home = Home::start("[approvals]\nstrict = true\n");
    let inside = home.hosted("plain", "exec $RELAY");
    let (session, question) = home.owners_session();
    let agent = home.agent_process(&session);
    let name = {
        let listed = home.native().ask("process/list", json!({}));
        let processes = listed["processes"].as_array().cloned().expect("processes");
        let found = processes.iter().find(|process| process["id"] == agent.as_str()).cloned().expect("the agent");
        found["name"].as_str().expect("a name").to_owned()
    };
    let data = base64(&answers());
    for doors in [&inside, &home.owner()] {
        // Not even the owner: the house itself answers.
        let native = doors.native().call("process/stdin", json!({"id": agent, "data": data}));
        assert!(native.get("error").is_some(), "{native}");
        let closed = doors.native().call("process/close_stdin", json!({"id": agent}));
        assert!(closed.get("error").is_some(), "{closed}");
        let claustrum = doors.claustrum("process.stdin", &json!({"id": name, "data": data}));
        assert!(claustrum.get("error").is_some(), "{claustrum}");
    }
    let state = home.native().ask("approval/get", json!({"id": question}));
    assert_eq!(state["approval"]["state"], "pending", "{state}");
    assert!(!answer_of(&home, &session).contains("approved"));
    // The person answers, and the agent goes on.
    let mut person = home.native();
    person.ask("approval/unlock", json!({"passphrase": super::home::PASSPHRASE}));
    person.ask("approval/decide", json!({"id": question, "decision": "allow_once"}));
    wait::eventually("the agent to go on", || {
        let said = answer_of(&home, &session);
        if said.contains("approved") { Ok(()) } else { Err(said) }
    });
}

/// F3: the keeper is replaced by a program of the attacker's.
#[test]
fn nobody_inside_replaces_the_keeper() {
    let home = Home::start("");
    let inside = home.hosted("plain", "exec $RELAY");
    let (program, trace) = (home.path().join("evil"), home.path().join("evil-ran"));
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\nexit 0\n", trace.display())).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("a program that can run");
    let keeper = |home: &Home| home.native().ask("house/status", json!({}))["keeper"].clone();
    let before = keeper(&home);
    for params in [json!({"path": program}), json!({})] {
        let answer = inside.native().call("keeper/upgrade", params);
        assert!(answer.to_string().contains("inside this house"), "{answer}");
    }
    assert_eq!(keeper(&home), before);
    assert!(!trace.exists(), "the program of the attacker ran");
    let refused = home.audit("refused");
    assert!(refused.iter().any(|record| record["body"]["method"] == "keeper/upgrade"), "{refused:?}");
}

/// F7: an agent raises its own mode and mesh policy, or has a session made that may do more.
#[test]
fn an_agent_gives_itself_no_rights() {
    let home = Home::start("");
    let (inside, session) = home.agent("agent", "ask");
    let stays = |what: &str| {
        let now = home.session(&session);
        assert_eq!((&now["mode"], &now["mesh"]), (&json!("ask"), &json!("off")), "{what}: {now}");
    };
    for (mode, mesh) in [("auto", None), ("code", None), ("ask", Some("on")), ("auto", Some("ask"))] {
        let mut params = json!({"session_id": session, "mode": mode});
        if let Some(mesh) = mesh {
            params["mesh"] = mesh.into();
        }
        for answer in [
            inside.native().call("session/configure", params.clone()),
            inside.zeroclaw().call("session/configure", params.clone()),
        ] {
            assert_eq!(answer["error"]["code"], -32003, "{answer}");
        }
        stays(mode);
    }
    let params = json!({"sessionId": session, "mode": "auto"});
    let answer = inside.codecast("session.set_mode", &params);
    assert!(answer["error"]["message"].to_string().contains("inside this house"), "{answer}");
    stays("session.set_mode");
    // A second session that would do the work.
    let made = |answer: &Value| {
        answer["result"]["session_id"].as_str().or(answer["result"]["sessionId"].as_str()).map(str::to_owned)
    };
    for mode in ["auto", "code"] {
        let params = json!({"agent_alias": "echo", "mode": mode});
        assert_eq!(made(&inside.native().call("session/new", params.clone())), None);
        assert_eq!(made(&inside.zeroclaw().call("session/new", params)), None);
        let params = json!({"path": home.work(), "cli_type": "echo", "mode": mode});
        assert_eq!(made(&inside.codecast("session.create", &params)), None);
    }
    // What is not asked for is given as far as the agent has it, also where the contract's default is `auto`.
    let params = json!({"path": home.work(), "cli_type": "echo"});
    let child = made(&inside.codecast("session.create", &params)).expect("a session");
    assert_eq!(home.session(&child)["mode"], "ask");
    let params = json!({"sessionId": child, "mode": "auto"});
    assert!(inside.codecast("session.set_mode", &params).get("error").is_some());
    assert_eq!(home.session(&child)["mode"], "ask");
    // Its owner may, and the agent may have less.
    home.native().ask("session/configure", json!({"session_id": session, "mode": "auto", "mesh": "ask"}));
    assert_eq!(home.session(&session)["mode"], "auto");
    inside.native().ask("session/configure", json!({"session_id": session, "mode": "plan"}));
    assert_eq!(home.session(&session)["mode"], "plan");
    // What it makes from then on may do no more than that.
    let child = inside.native().ask("session/new", json!({"agent_alias": "echo"}));
    assert_eq!(child["mode"], "plan");
    assert!(inside.native().call("session/new", json!({"agent_alias": "echo", "mode": "ask"})).get("error").is_some());
}
