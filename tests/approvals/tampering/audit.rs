//! Records that were added, removed or rewritten, and the signatures that show it.

use hostel_tests::wait;
use serde_json::{Value, json};

use crate::support::house::{House, PASSPHRASE};

/// A house in which something was asked, decided and done, and whose segment is endorsed.
fn busy_house() -> House {
    let house = House::guarded();
    let asked = house.ask_run("first", &["true"]);
    let id = house.waiting(1).remove(0);
    house.decide(&id, "allow_once");
    assert_eq!(asked.answer()["status"], "ok");
    wait::until_true(wait::LIMIT, "everything to be recorded", || {
        let kinds = house.kinds();
        kinds.iter().any(|kind| kind == "finished") && kinds.iter().any(|kind| kind == "endorsed")
    });
    house
}

const UNTRIGGERED: &str = "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted;";

#[test]
fn control_the_record_is_signed_and_endorsed_over_restarts() {
    let house = busy_house();
    house.crash();
    house.start();
    let (broken, segments) = house.verify();
    assert_eq!(broken, Value::Null);
    assert_eq!(segments.as_array().map(Vec::len), Some(1), "one keeper, one segment: {segments}");
    assert_eq!((&segments[0]["state"], &segments[0]["checked"]), (&json!("endorsed"), &json!(false)));
    let text = house.hostel(&["audit", "verify"]);
    assert!(text.code == 0 && text.out.contains("endorsed (not checked without the passphrase)"), "{text:?}");
    let words = ["audit", "verify", "--passphrase-fd", "0"];
    let checked = house.hostel_with(&words, &format!("{PASSPHRASE}\n"));
    assert!(
        checked.code == 0 && checked.out.contains("endorsed") && !checked.out.contains("not checked"),
        "{checked:?}"
    );
    let wrong = house.hostel_with(&words, "another passphrase\n");
    assert!(wrong.code != 0, "{wrong:?}");
    // Another keeper, another key: a segment of its own, endorsed when the passphrase is next used.
    house.lose_key(|_| {});
    house.ask_run("second", &["true"]);
    let id = house.waiting(1).remove(0);
    let (broken, segments) = house.verify();
    assert_eq!((broken, &segments[1]["state"]), (Value::Null, &json!("unendorsed")), "{segments}");
    house.decide(&id, "reject");
    wait::eventually("the second segment to be endorsed", || {
        let (_, segments) = house.verify();
        if segments[1]["state"] == "endorsed" { Ok(()) } else { Err(segments.to_string()) }
    });
    let json = house.json(&["audit", "verify", "--json"]);
    assert_eq!(
        (&json["ok"], json["houses"][0]["segments"].as_array().map(Vec::len)),
        (&json!(true), Some(2)),
        "{json}"
    );
}

#[test]
fn a_record_that_somebody_appended_is_not_the_houses() {
    for down in [false, true] {
        let house = busy_house();
        if down {
            house.crash();
        }
        house.append_record("decided", "an-id", r#"{"state":"approved","decider":"the approver"}"#);
        house.append_record("started", "an-id", "{}");
        if down {
            house.start();
        }
        let (broken, segments) = house.verify();
        assert!(broken["what"].as_str().is_some_and(|what| what.contains("not written by the house")), "{broken}");
        assert_eq!(segments[0]["state"], "broken");
        assert_ne!(house.hostel(&["audit", "verify"]).code, 0);
        house.wait_tampered("audit");
    }
}

#[test]
fn records_that_somebody_appended_after_the_keeper_died_are_not_signed() {
    let house = busy_house();
    house.lose_key(|house| {
        house.append_record("decided", "an-id", r#"{"state":"approved"}"#);
    });
    let (broken, segments) = house.verify();
    assert!(broken["what"].as_str().is_some_and(|what| what.contains("not signed")), "{broken} {segments}");
    assert_eq!(segments[0]["state"], "broken");
}

#[test]
fn records_that_were_removed_are_missed() {
    for (down, keeps_head) in [(false, true), (false, false), (true, false)] {
        let house = busy_house();
        if down {
            house.crash();
        }
        let last: i64 = house.database().query_row("SELECT max(no) FROM audit", [], |row| row.get(0)).expect("records");
        house.sql(&format!("{UNTRIGGERED} DELETE FROM audit WHERE no > {}", last - 2));
        if !keeps_head {
            house.sql("UPDATE audit_head SET (no, digest) = (SELECT no, digest FROM audit ORDER BY no DESC LIMIT 1)");
        }
        if down {
            house.start();
        }
        let (broken, _) = house.verify();
        assert_eq!(broken["no"].as_i64(), Some(last - 1), "down {down}, head {keeps_head}: {broken}");
        house.wait_tampered("audit");
    }
}

#[test]
fn a_record_that_was_rewritten_is_found_even_if_all_digests_were_made_anew() {
    let house = busy_house();
    house.crash();
    rewrite(&house);
    house.start();
    let (broken, segments) = house.verify();
    assert_ne!(broken, Value::Null, "{segments}");
    house.wait_tampered("audit");
    // Also by somebody who comes later, when no keeper remembers anything.
    let house = busy_house();
    house.lose_key(rewrite);
    let (broken, segments) = house.verify();
    assert_ne!(broken, Value::Null, "{segments}");
    assert_eq!(segments[0]["state"], "broken");
}

/// Changes who decided, and computes the whole chain anew.
fn rewrite(house: &House) {
    use sha2::{Digest as _, Sha256};
    house.sql(UNTRIGGERED);
    let database = house.database();
    let mut statement =
        database.prepare("SELECT no, time_ns, kind, approval, body FROM audit ORDER BY no").expect("sql");
    let rows: Vec<(i64, i64, String, String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .expect("records")
        .map(|row| row.expect("a record"))
        .collect();
    let mut previous = [0_u8; 32];
    for (no, time, kind, approval, body) in rows {
        let body = if kind == "decided" { body.replace("allow_once", "allow_always") } else { body };
        let mut hash = Sha256::new();
        hash.update(b"hostel audit 1\0");
        hash.update(no.to_le_bytes());
        hash.update(time.to_le_bytes());
        for part in [kind.as_bytes(), approval.as_bytes(), body.as_bytes(), &previous] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        database
            .execute(
                "UPDATE audit SET body = ?, previous = ?, digest = ? WHERE no = ?",
                rusqlite::params![body, previous, digest, no],
            )
            .expect("the record is rewritten");
        previous = digest;
    }
    database.execute("UPDATE audit_head SET digest = ?", [previous]).expect("the head is rewritten");
}

#[test]
fn a_start_without_a_decision_is_found() {
    let house = busy_house();
    // The attack of before there were keys: a start that nobody decided, in a chain that is otherwise whole.
    house.append_record("started", "nobody-decided-this", "{}");
    let (broken, _) = house.verify();
    assert_ne!(broken, Value::Null);
}

#[test]
fn a_question_that_somebody_else_answered_is_recorded_as_such() {
    let house = House::guarded();
    let mut native = house.native();
    let params = json!({"agent_alias": "echo", "mode": "ask", "cwd": house.path()});
    let session = native.ask("session/new", params)["session_id"].as_str().expect("a session").to_owned();
    native.begin("session/send", json!({"session_id": session, "prompt": "approve"}));
    let id = house.waiting(1).remove(0);
    // The control: a person answers, which is a decision.
    house.native().ask("session/approve", json!({"session_id": session, "request_id": id, "decision": "allow_once"}));
    wait::until_true(wait::LIMIT, "the decision", || house.kinds().iter().any(|kind| kind == "decided"));
    assert!(!house.kinds().iter().any(|kind| kind == "answered_elsewhere"));
}
