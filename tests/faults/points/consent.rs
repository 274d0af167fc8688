//! The daemon killed between a decision and whoever waits for it: nothing runs twice, nothing runs unasked, and no attempt
//! at the passphrase is forgotten.

use hostel_tests::sudo_proxy::{Client, moment};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::{die_while_asked, has_points, restart_after_death, until};
use crate::consent::askers::{Askers, traces, tracing};
use crate::consent::inbox::{self, Decided, PASSPHRASE, SETTINGS};
use crate::sessions::events;
use crate::sessions::native::{Native, Trouble};
use crate::sessions::resident::Resident;

/// The points between a request for a command and its outcome.
pub(super) const COMMANDS: &[&str] = &[
    "house.approval.requested",
    "house.approval.shown",
    "house.approval.settled",
    "house.run.started",
    "house.run.ended",
];

/// The points of deciding.
pub(super) const DECISIONS: &[&str] = &[
    "house.approval.question-asked",
    "house.approval.refusal-recorded",
    "house.grant.revoked",
    "house.passphrase.attempt-counted",
    "house.passphrase.attempt-passed",
    "house.passphrase.attempt-failed",
    "house.passphrase.written",
    "house.passphrase.recorded",
];

fn house() -> Resident {
    let house = Resident::start_with_points(SETTINGS);
    house.native().ask("approver/set", json!({"passphrase": PASSPHRASE}));
    house
}

#[test]
fn commands_run_once() {
    if !has_points() {
        return;
    }
    let mut house = house();
    let file = house.work().join("traces");
    for point in COMMANDS {
        let id = point.replace('.', "-");
        let ids = [id.clone()];
        house.points().kill_next(point);
        let askers = Askers::send(&inbox::door(&house), &[tracing(&id, &file, "true")]);
        if *point == "house.approval.requested" {
            restart_after_death(&mut house, point);
        }
        let asked = inbox::wait_for(&house, &ids);
        let approval = &asked[&id];
        let mut person = inbox::person(&house);
        if *point == "house.approval.shown" {
            die_while_asked(&mut house, point, &mut person, "approval/shown", json!({"id": approval}));
            person = inbox::person(&house);
        }
        let decision = json!({"id": approval, "decision": "allow_once"});
        let decided = person.begin("approval/decide", decision).expect("a request");
        match *point {
            "house.approval.requested" | "house.approval.shown" => {
                person.finish(decided).unwrap_or_else(|trouble| panic!("{point}: {trouble}"));
            }
            _ => {
                restart_after_death(&mut house, point);
                person = inbox::person(&house);
                assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Settled, "{point}");
            }
        }
        let answer = askers.answer(&id);
        let count = traces(&file).iter().filter(|trace| **trace == id).count();
        match (answer["status"].as_str(), count) {
            (Some("ok"), 1) => {}
            (Some("error"), 0) => {
                let said = answer["message"].as_str().unwrap_or_default();
                assert!(said.contains("not"), "{point}: that does not say that it did not run: {answer}");
            }
            _ => panic!("{point}: the command ran {count} times, and its client heard {answer}"),
        }
        assert_eq!(inbox::get(&mut person, approval)["state"], "approved", "{point}");
        inbox::check_audit(&mut person);
    }
    house.wait_empty();
}

#[test]
fn decisions_count_once() {
    if !has_points() {
        return;
    }
    let mut house = house();
    for point in DECISIONS {
        match *point {
            "house.approval.question-asked" => asked(&mut house, point),
            "house.approval.refusal-recorded" => refused(&mut house, point),
            "house.grant.revoked" => revoked(&mut house, point),
            "house.passphrase.attempt-counted" | "house.passphrase.attempt-passed" => {
                let mut native = house.native();
                die_while_asked(&mut house, point, &mut native, "approval/unlock", json!({"passphrase": PASSPHRASE}));
                inbox::person(&house);
            }
            "house.passphrase.attempt-failed" => failed(&mut house, point),
            _ => changed(&mut house, point),
        }
        inbox::check_audit(&mut house.native());
    }
}

fn pending(native: &mut Native) -> Vec<Value> {
    native.ask("approval/list", json!({}))["approvals"].as_array().expect("a list").clone()
}

/// An agent's question is asked once, and answered once.
fn asked(house: &mut Resident, point: &str) {
    let work = house.work();
    let session = house.native().make(json!({"agent_alias": "echo", "cwd": work, "mode": "ask"}));
    house.points().kill_next(point);
    house.native().begin("session/send", json!({"session_id": session, "prompt": "approve"})).expect("a request");
    restart_after_death(house, point);
    let mut native = house.native();
    until("the agent's question", || pending(&mut native).len() == 1);
    let id = pending(&mut native)[0]["id"].clone();
    native.ask("session/approve", json!({"session_id": session, "request_id": id, "decision": "allow_once"}));
    let turns = events::turns_of(&mut native, &session);
    let turn = &turns[0];
    assert_eq!((turn.count("permission_asked"), turn.count("permission_answered")), (1, 1), "{turn:?}");
    assert_eq!(turn.pieces.concat(), "approved", "{turn:?}");
}

/// A request of this very process, which may not decide it.
fn own_request(house: &Resident, id: &str) -> (Client, String) {
    let mut client = Client::connect(&inbox::door(house)).expect("the door accepts");
    let argv = ["sh", "-c", &format!("echo {id} > /dev/null")].map(str::to_owned);
    let request = json!({
        "id": id, "session": "own", "time": format!("{}Z", moment::from_now(0)), "pipeline": [argv],
        "reason": "a test", "privileged": false,
    });
    client.send(format!("{request}\n").as_bytes()).expect("a request");
    let mut native = house.native();
    until("a request of its own", || !pending(&mut native).is_empty());
    let approval = pending(&mut native)[0]["id"].as_str().expect("an id").to_owned();
    (client, approval)
}

/// What was refused stays undecided.
fn refused(house: &mut Resident, point: &str) {
    let (client, approval) = own_request(house, "own-request");
    let mut person = inbox::person(house);
    let decision = json!({"id": approval, "decision": "allow_once"});
    die_while_asked(house, point, &mut person, "approval/decide", decision);
    assert_ne!(inbox::get(&mut house.native(), &approval)["state"], "approved");
    drop(client);
    let mut native = house.native();
    until("a request nobody waits for to be withdrawn", || pending(&mut native).is_empty());
    assert_eq!(inbox::get(&mut native, &approval)["state"], "withdrawn");
}

/// A grant that was revoked answers nothing.
fn revoked(house: &mut Resident, point: &str) {
    let file = house.work().join("granted");
    let request = tracing("granted", &file, "true");
    let askers = Askers::send(&inbox::door(house), std::slice::from_ref(&request));
    let approval = inbox::wait_for(house, &["granted".to_owned()])["granted"].clone();
    let mut person = inbox::person(house);
    let terms = json!({"scope": "session", "seconds": 600});
    let made = person.ask("approval/decide", json!({"id": approval, "decision": "allow_once", "grant": terms}));
    assert_eq!(askers.answer("granted")["status"], "ok");
    let grant = made["grant"].as_u64().expect("a grant");
    die_while_asked(house, point, &mut person, "approval/revoke", json!({"grant": grant}));
    assert_eq!(house.native().ask("approval/grants", json!({}))["grants"], json!([]));
}

/// Attempts that are left, as the answer to a wrong passphrase says.
fn left(native: &mut Native) -> u64 {
    let Err(Trouble::Refused(_, message)) = native.call("approval/unlock", json!({"passphrase": "wrong words"})) else {
        panic!("a wrong passphrase was taken");
    };
    let digits: String = message.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number in {message:?}"))
}

/// A wrong attempt counts although nobody was told.
fn failed(house: &mut Resident, point: &str) {
    inbox::person(house);
    let first = left(&mut house.native());
    let mut native = house.native();
    die_while_asked(house, point, &mut native, "approval/unlock", json!({"passphrase": "wrong words"}));
    assert_eq!(left(&mut house.native()), first - 2, "the attempt of the dead daemon was forgotten");
    inbox::person(house);
}

/// A passphrase is the old one or the new one, and the file says which.
fn changed(house: &mut Resident, point: &str) {
    let mut native = house.native();
    let params = json!({"old": PASSPHRASE, "passphrase": "another long phrase"});
    die_while_asked(house, point, &mut native, "approver/set", params);
    let mut native = house.native();
    let old = native.call("approval/unlock", json!({"passphrase": PASSPHRASE}));
    assert!(matches!(old, Err(Trouble::Refused(..))), "{old:?}");
    native.ask("approval/unlock", json!({"passphrase": "another long phrase"}));
    native.ask("approver/set", json!({"old": "another long phrase", "passphrase": PASSPHRASE}));
    wait::until_true(wait::LIMIT, "the old passphrase to be back", || {
        native.ask("approval/unlock", json!({"passphrase": PASSPHRASE}))["unlocked"] == true
    });
}
