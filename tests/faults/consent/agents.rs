//! Twenty agents that wait for an answer when the daemon is killed.

use std::collections::BTreeMap;
use std::thread;

use hostel_tests::wait;
use serde_json::{Value, json};

use super::inbox;
use crate::sessions::events;
use crate::sessions::native::Native;
use crate::sessions::resident::Resident;

const AGENTS: usize = 20;

/// What waits, by session.
fn pending(native: &mut Native) -> BTreeMap<String, String> {
    let list = native.ask("approval/list", json!({}));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let approvals = list["approvals"].as_array().into_iter().flatten();
    approvals.map(|approval| (text(&approval["session_id"]), text(&approval["id"]))).collect()
}

#[test]
fn twenty_questions_survive_a_kill_and_each_is_answered_once() {
    let mut house = Resident::start();
    let work = house.work();
    let mut native = house.native();
    let sessions: Vec<String> =
        (0..AGENTS).map(|_| native.make(json!({"agent_alias": "echo", "cwd": work, "mode": "ask"}))).collect();
    for session in &sessions {
        native.send(session, "approve");
    }
    drop(native);
    let asked = wait::until(wait::LIMIT, "every agent to ask", || {
        Some(pending(&mut house.native())).filter(|pending| pending.len() == AGENTS)
    });

    house.restart();
    assert_eq!(pending(&mut house.native()), asked, "the questions after the first kill");
    house.restart();
    assert_eq!(pending(&mut house.native()), asked, "the questions after the second kill");

    // Two people answer each, with opposite words, at the same time.
    thread::scope(|scope| {
        for word in ["allow_once", "reject"] {
            let (house, asked) = (&house, &asked);
            scope.spawn(move || {
                let mut native = house.native();
                for (session, approval) in asked {
                    let decision = json!({"session_id": session, "request_id": approval, "decision": word});
                    native.ask("session/approve", decision);
                }
            });
        }
    });
    let mut native = house.native();
    let mut approved = 0;
    for session in &sessions {
        let turns = events::turns_of(&mut native, session);
        let [turn] = turns.as_slice() else { panic!("{} turns", turns.len()) };
        assert_eq!(turn.outcome, "completed", "{turn:?}");
        assert_eq!((turn.count("permission_asked"), turn.count("permission_answered")), (1, 1), "{turn:?}");
        let kept = inbox::get(&mut native, &asked[session]);
        let said = turn.pieces.concat();
        match kept["state"].as_str() {
            Some("approved") => assert_eq!(said, "approved", "{kept}"),
            Some("denied") => assert_eq!(said, "denied", "{kept}"),
            _ => panic!("it is neither approved nor denied: {kept}"),
        }
        approved += usize::from(kept["state"] == "approved");
    }
    eprintln!("{approved} of {AGENTS} were approved, the others refused");
    assert_eq!(pending(&mut native), BTreeMap::new());
    inbox::check_audit(&mut native);

    // What was settled stays so.
    house.restart();
    let mut native = house.native();
    assert_eq!(pending(&mut native), BTreeMap::new());
    for (session, approval) in &asked {
        let before = inbox::get(&mut native, approval);
        native.ask("session/approve", json!({"session_id": session, "request_id": approval, "decision": "reject"}));
        assert_eq!(inbox::get(&mut native, approval), before);
    }
    inbox::check_audit(&mut native);
}
