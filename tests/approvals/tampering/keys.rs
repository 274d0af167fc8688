//! A lost key: a reboot, or the death of the keeper. It is no tampering, and nothing that was decided before counts.

use hostel_tests::wait;
use serde_json::json;

use crate::support::house::{House, PASSPHRASE};

#[test]
fn a_lost_key_makes_grants_void_and_has_questions_asked_again() {
    let house = House::guarded();
    let first = house.ask_run("first", &["true"]);
    let id = house.waiting(1).remove(0);
    let terms = json!({"scope": "session", "seconds": 3600});
    let decision = json!({"id": id, "decision": "allow_once", "grant": terms, "passphrase": PASSPHRASE});
    house.native().ask("approval/decide", decision);
    assert_eq!(first.answer()["status"], "ok");
    // Not covered by the grant: it waits.
    let waiting = house.ask_run("waiting", &["sleep", "0"]);
    house.waiting(1);
    house.lose_key(|_| {});
    // Whoever asks comes back and is asked about again, as a request of its own.
    let again = house.waiting(1).remove(0);
    house.decide(&again, "allow_once");
    assert_eq!(waiting.answer()["status"], "ok");
    assert_eq!(house.native().ask("approval/grants", json!({}))["grants"], json!([]));
    let kinds = house.kinds();
    assert!(kinds.contains(&"key_lost".to_owned()) && kinds.contains(&"revoked".to_owned()), "{kinds:?}");
    assert!(!kinds.contains(&"tampered".to_owned()), "a lost key is no tampering: {kinds:?}");
    assert!(house.alarms().iter().any(|alarm| alarm.contains("the keeper ended")), "{:?}", house.alarms());
    // The same command is asked about.
    house.ask_run("covered", &["true"]);
    house.waiting(1);
}

#[test]
fn a_decision_that_was_not_carried_out_is_void_with_its_key() {
    let house = House::guarded();
    let trace = house.path().join("trace");
    let asked = house.ask_run("void", &["sh", "-c", &format!("echo ran >> {}; sleep 600", trace.display())]);
    let id = house.waiting(1).remove(0);
    house.decide(&id, "allow_once");
    wait::until_true(wait::LIMIT, "the command", || trace.exists());
    house.lose_key(|house| {
        // As if it had not been started.
        house.sql(&format!("UPDATE approvals SET run = 'due' WHERE id = '{id}'"));
    });
    let answer = asked.answer();
    assert_ne!(answer["status"], "ok", "{answer}");
    assert_eq!(std::fs::read_to_string(&trace).expect("a trace").lines().count(), 1, "it ran again");
}

#[test]
fn a_lock_out_counts_as_the_longest_after_a_lost_key() {
    let house = House::guarded();
    let unlock = |house: &House, passphrase: &str| {
        house.native().call("approval/unlock", json!({"passphrase": passphrase}))["error"]["message"].to_string()
    };
    for _ in 0..5 {
        unlock(&house, "a wrong guess");
    }
    assert!(unlock(&house, PASSPHRASE).contains("too many"));
    house.lose_key(|house| house.sql("UPDATE lockout SET wrong = 0, rounds = 0, until_ns = 0"));
    let told = unlock(&house, PASSPHRASE);
    assert!(told.contains("too many"), "{told}");
    let digits: String = told.chars().filter(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().expect("seconds") > 3000, "{told}");
}

#[test]
fn wrong_passphrases_before_a_lost_key_count_as_the_most_there_may_be() {
    let house = House::guarded();
    let unlock = |passphrase: &str| {
        house.native().call("approval/unlock", json!({"passphrase": passphrase}))["error"]["message"].to_string()
    };
    for _ in 0..4 {
        unlock("a wrong guess");
    }
    house.lose_key(|house| house.sql("UPDATE lockout SET wrong = 0"));
    // The last of five.
    assert!(unlock("a wrong guess").contains("too many"));
    assert!(unlock(PASSPHRASE).contains("too many"));
}

#[test]
fn a_lost_key_is_recorded_even_if_it_made_nothing_void() {
    let house = House::guarded();
    house.lose_key(|_| {});
    assert!(house.kinds().contains(&"key_lost".to_owned()), "{:?}", house.records());
    house.check_peace();
}

#[test]
fn no_session_keeps_more_than_asking_whatever_door_its_row_names() {
    let house = House::guarded();
    let params = json!({"agent_alias": "echo", "mode": "ask", "cwd": house.path()});
    let session = house.native().ask("session/new", params)["session_id"].as_str().expect("a session").to_owned();
    house.lose_key(|house| {
        house.sql(&format!("UPDATE sessions SET door = 'codecast', mode = 'auto' WHERE id = '{session}'"));
    });
    let read = "SELECT mode FROM sessions WHERE id = ?";
    let mode: String = house.database().query_row(read, [&session], |row| row.get(0)).expect("a row");
    assert_eq!(mode, "ask");
}

#[test]
fn a_keeper_that_dies_under_the_daemon_takes_the_key_with_it() {
    let house = House::guarded();
    let first = house.ask_run("first", &["true"]);
    let id = house.waiting(1).remove(0);
    let terms = json!({"scope": "session", "seconds": 3600});
    let decision = json!({"id": id, "decision": "allow_once", "grant": terms, "passphrase": PASSPHRASE});
    house.native().ask("approval/decide", decision);
    assert_eq!(first.answer()["status"], "ok");
    let waiting = house.ask_run("waiting", &["sleep", "0"]);
    house.waiting(1);
    house.kill_keeper();
    wait::eventually("the loss to be told", || {
        let alarms = house.alarms();
        if alarms.iter().any(|alarm| alarm.contains("the keeper died")) { Ok(()) } else { Err(format!("{alarms:?}")) }
    });
    assert_eq!(house.native().ask("approval/grants", json!({}))["grants"], json!([]));
    // What waits goes on waiting, and is answered as ever; a restart finds it under the new key.
    house.crash();
    house.start();
    let id = house.waiting(1).remove(0);
    house.decide(&id, "allow_once");
    assert_eq!(waiting.answer()["status"], "ok");
    assert!(!house.kinds().contains(&"tampered".to_owned()), "{:?}", house.records());
    let (broken, segments) = house.verify();
    assert_eq!(broken, serde_json::Value::Null, "{segments}");
}
