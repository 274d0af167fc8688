//! `session/approve` where the passphrase is demanded everywhere.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::zeroclaw::peer::text_of;
use hostel_tests::zeroclaw::{Daemon, Options, Peer};
use serde_json::{Value, json};

/// Asks for leave, and what the request is called.
fn asked(client: &mut Peer) -> (String, Value) {
    let session = client.session();
    client.begin("session/prompt", json!({"session_id": session, "prompt": "approve"}));
    let request = client.updates_until("approval_request").pop().unwrap()["request_id"].clone();
    (session, request)
}

fn approve(session: &str, request: &Value, passphrase: Option<&str>) -> Value {
    let mut params = json!({"session_id": session, "request_id": request, "decision": "allow_once"});
    if let Some(passphrase) = passphrase {
        params["passphrase"] = passphrase.into();
    }
    params
}

#[test]
fn the_passphrase_comes_along_or_nothing_is_decided() {
    let settings = "[approvals]\nstrict = true\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let mut client = daemon.client();
    let (session, request) = asked(&mut client);
    // None is set: nobody can decide like this.
    assert_eq!(client.refused("session/approve", approve(&session, &request, None)), -32003);
    assert_eq!(client.refused("session/approve", approve(&session, &request, Some("correct horse"))), -32003);
    let mut native = daemon.native();
    native.folds = false;
    native.ask("approver/set", json!({"passphrase": "correct horse"}));
    assert_eq!(client.refused("session/approve", approve(&session, &request, None)), -32003);
    assert_eq!(client.refused("session/approve", approve(&session, &request, Some("wrong"))), -32003);
    let pending = native.ask("approval/list", json!({}));
    assert_eq!(pending["approvals"][0]["state"], "pending", "{pending}");
    client.ask("session/approve", approve(&session, &request, Some("correct horse")));
    assert_eq!(text_of(&client.updates_until("turn_complete")), "approved");
}

#[test]
fn too_many_wrong_ones_lead_to_a_pause_across_doors_and_daemons() {
    let settings = "[approvals]\nstrict = true\n".to_owned();
    let mut daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let mut client = daemon.connect();
    client.ask("initialize", json!({"tui_id": "tui_00000001"}));
    let (session, request) = asked(&mut client);
    let mut native = daemon.native();
    native.folds = false;
    native.ask("approver/set", json!({"passphrase": "correct horse"}));
    for _ in 0..3 {
        assert_eq!(client.refused("session/approve", approve(&session, &request, Some("wrong"))), -32003);
        native.refused("approval/unlock", json!({"passphrase": "wrong"}));
    }
    daemon.kill();
    daemon.serve();
    let mut client = daemon.connect();
    client.ask("initialize", json!({"tui_id": "tui_00000001"}));
    let answer = client.call("session/approve", approve(&session, &request, Some("correct horse")));
    assert!(answer["error"]["message"].as_str().unwrap().contains("too many wrong passphrases"), "{answer}");
    let mut native = daemon.native();
    native.folds = false;
    native.refused("approval/unlock", json!({"passphrase": "correct horse"}));
    let verified = native.ask("audit/verify", json!({}));
    assert_eq!(verified["broken"], Value::Null, "{verified}");
}
