//! The daemon killed around the commit of what was decided, while it starts, and while it deals with tampering: a decision
//! that was made counts once, and nothing is called tampering that is not.

use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{die_while_asked, die_while_starting, has_points, restart_after_death, until};
use crate::consent::askers::{Askers, traces, tracing};
use crate::consent::inbox::{self, Decided, PASSPHRASE, SETTINGS};
use crate::sessions::native::Native;
use crate::sessions::resident::Resident;

/// The steps of a write of what was decided.
pub(super) const WRITES: &[&str] = &["house.anchor.intended", "house.anchor.committed", "house.anchor.confirmed"];

/// What happens at a start, after tampering, and to keys and settings.
pub(super) const TRUST: &[&str] = &[
    "house.consent.loaded",
    "house.tampering.recorded",
    "house.audit.endorsed",
    "house.policy.stored",
    "house.key.replaced",
];

fn house() -> Resident {
    let house = Resident::start_with_points(SETTINGS);
    house.native().ask("approver/set", json!({"passphrase": PASSPHRASE}));
    // What follows from the passphrase would be in the way of the points.
    let mut native = house.native();
    until("the audit to be endorsed", || kinds(&mut native).iter().any(|kind| kind == "endorsed"));
    house
}

fn kinds(native: &mut Native) -> Vec<String> {
    let shown = native.ask("audit/show", json!({}));
    let records = shown["records"].as_array().expect("records").iter();
    records.map(|record| record["kind"].as_str().expect("a kind").to_owned()).collect()
}

fn check_peace(house: &Resident, point: &str) {
    let mut native = house.native();
    assert!(!kinds(&mut native).contains(&"tampered".to_owned()), "{point}: {:?}", kinds(&mut native));
    inbox::check_audit(&mut native);
}

#[test]
fn a_decision_counts_once_wherever_its_write_is_cut_off() {
    if !has_points() {
        return;
    }
    let mut house = house();
    let file = house.work().join("traces");
    for point in WRITES {
        for while_asking in [true, false] {
            let id = format!("{}-{}", point.replace('.', "-"), u8::from(while_asking));
            let ids = [id.clone()];
            if while_asking {
                house.points().kill_next(point);
            }
            let askers = Askers::send(&inbox::door(&house), &[tracing(&id, &file, "true")]);
            if while_asking {
                restart_after_death(&mut house, point);
            }
            let approval = inbox::wait_for(&house, &ids)[&id].clone();
            let mut person = inbox::person(&house);
            let decision = json!({"id": approval, "decision": "allow_once"});
            if while_asking {
                person.ask("approval/decide", decision);
            } else {
                house.points().kill_next(point);
                person.begin("approval/decide", decision).expect("a request");
                restart_after_death(&mut house, point);
                let mut person = inbox::person(&house);
                // Before the commit nobody has decided anything; after it, it is decided.
                let expected = match *point {
                    "house.anchor.intended" => Decided::Counted,
                    _ => Decided::Settled,
                };
                assert_eq!(inbox::decide(&mut person, &approval, "allow_once"), expected, "{point}");
            }
            let answer = askers.answer(&id);
            assert_eq!(answer["status"], "ok", "{point}, while asking {while_asking}: {answer}");
            assert_eq!(traces(&file).iter().filter(|trace| **trace == id).count(), 1, "{point}");
            check_peace(&house, point);
        }
    }
    house.wait_empty();
}

#[test]
fn trust_is_the_same_after_a_kill() {
    if !has_points() {
        return;
    }
    let mut house = house();
    for point in TRUST {
        match *point {
            "house.consent.loaded" => loaded(&mut house, point),
            "house.tampering.recorded" => tampered(&mut house, point),
            "house.audit.endorsed" => endorsed(&mut house, point),
            "house.policy.stored" => confirmed(&mut house, point),
            _ => rekeyed(&mut house, point),
        }
    }
}

/// A start that is cut off changes nothing.
fn loaded(house: &mut Resident, point: &str) {
    let file = house.work().join("loaded");
    let askers = Askers::send(&inbox::door(house), &[tracing("loaded", &file, "true")]);
    let approval = inbox::wait_for(house, &["loaded".to_owned()])["loaded"].clone();
    house.kill();
    die_while_starting(house, point);
    house.serve();
    inbox::decide(&mut inbox::person(house), &approval, "allow_once");
    assert_eq!(askers.answer("loaded")["status"], "ok");
    check_peace(house, point);
}

/// What was denied because of tampering stays denied.
fn tampered(house: &mut Resident, point: &str) {
    let file = house.work().join("tampered");
    let askers = Askers::send(&inbox::door(house), &[tracing("tampered", &file, "true")]);
    let approval = inbox::wait_for(house, &["tampered".to_owned()])["tampered"].clone();
    house.points().kill_next(point);
    let database = rusqlite::Connection::open(house.home().join("state.db")).expect("the user may open it");
    database.busy_timeout(wait::LIMIT).expect("a timeout");
    database
        .execute("UPDATE approvals SET state = 'approved', decision = '\"allow_once\"' WHERE id = ?", [&approval])
        .expect("the user may write");
    drop(database);
    // Any write of the house shows it that somebody else has written.
    house.native().begin("approval/shown", json!({"id": approval})).expect("a request");
    restart_after_death(house, point);
    let answer = askers.answer("tampered");
    assert_eq!(answer["status"], "denied", "{answer}");
    assert_eq!(traces(&file), Vec::<String>::new());
    let mut native = house.native();
    assert!(kinds(&mut native).contains(&"tampered".to_owned()), "{:?}", kinds(&mut native));
    assert_eq!(inbox::get(&mut native, &approval)["state"], "denied");
    inbox::check_audit(&mut native);
}

/// The key of the audit is endorsed, or will be with the next use of the passphrase.
fn endorsed(house: &mut Resident, point: &str) {
    house.points().kill_next(point);
    let params = json!({"old": PASSPHRASE, "passphrase": "another long phrase"});
    house.native().begin("approver/set", params).expect("a request");
    restart_after_death(house, point);
    let params = json!({"old": "another long phrase", "passphrase": PASSPHRASE});
    house.native().ask("approver/set", params);
    wait::eventually("all segments to be endorsed with the passphrase in force", || {
        let verified = house.native().ask("audit/verify", json!({"passphrase": PASSPHRASE}));
        let segments = verified["segments"].as_array().expect("segments").clone();
        let checked = segments.iter().all(|segment| segment["checked"] == true);
        if checked && verified["broken"] == Value::Null { Ok(()) } else { Err(verified.to_string()) }
    });
}

/// Settings are in force, or are not, and the approver can say so again.
fn confirmed(house: &mut Resident, point: &str) {
    let settings = house.home().join("hostel.toml");
    let before = std::fs::read_to_string(&settings).expect("settings");
    let rule = "\n[[approvals.rules]]\nname = \"quiet\"\naction = \"allow\"\nargv = [\"true\"]\n";
    std::fs::write(&settings, format!("{before}{rule}")).expect("settings can be written");
    house.restart();
    let mut native = house.native();
    assert_ne!(native.ask("approver/status", json!({}))["unconfirmed"], json!([]));
    die_while_asked(house, point, &mut native, "approver/confirm", json!({"passphrase": PASSPHRASE}));
    let mut native = house.native();
    native.ask("approver/confirm", json!({"passphrase": PASSPHRASE}));
    assert_eq!(native.ask("approver/status", json!({}))["unconfirmed"], json!([]));
    std::fs::write(&settings, before).expect("settings can be written");
    house.restart();
}

/// A daemon that dies while it seals everything under the key of another keeper loses nothing that waits.
fn rekeyed(house: &mut Resident, point: &str) {
    let file = house.work().join("rekeyed");
    let askers = Askers::send(&inbox::door(house), &[tracing("rekeyed", &file, "true")]);
    inbox::wait_for(house, &["rekeyed".to_owned()]);
    house.points().kill_next(point);
    let keeper = house.keeper();
    keeper.signal(Signal::KILL);
    keeper.wait_gone(wait::LIMIT);
    restart_after_death(house, point);
    let approval = inbox::wait_for(house, &["rekeyed".to_owned()])["rekeyed"].clone();
    assert_eq!(inbox::decide(&mut inbox::person(house), &approval, "allow_once"), Decided::Counted);
    assert_eq!(askers.answer("rekeyed")["status"], "ok");
    inbox::check_audit(&mut house.native());
}
