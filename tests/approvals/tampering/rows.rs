//! Rows that were changed, removed, put back or put in.

use std::path::PathBuf;

use hostel_tests::wait;
use serde_json::{Value, json};

use crate::support::house::{Asked, House};

/// A command that leaves a trace.
fn ask(house: &House, name: &str) -> (Asked, PathBuf) {
    let trace = house.path().join(format!("trace-{name}"));
    let script = format!("echo ran >> {}", trace.display());
    (house.ask_run(name, &["sh", "-c", &script]), trace)
}

fn runs(trace: &std::path::Path) -> usize {
    std::fs::read_to_string(trace).unwrap_or_default().lines().count()
}

/// What an attacker writes to have a pending command approved, with all that the daemon would look at.
fn approve_by_sql(house: &House, id: &str) {
    let status = house.native().ask("house/status", json!({}));
    let keeper = format!("{} {}", status["keeper"]["pid"], status["keeper"]["since_ns"]);
    house.sql(&format!(
        "UPDATE approvals SET state = 'approved', decision = '\"allow_once\"', runs = randomblob(16), \
         keeper = '{keeper}', run = 'due', decided_ns = created_ns + 1 WHERE id = '{id}'"
    ));
}

#[test]
fn control_what_a_person_agrees_to_runs_once() {
    let house = House::guarded();
    let (asked, trace) = ask(&house, "honest");
    let id = house.waiting(1).remove(0);
    house.decide(&id, "allow_once");
    assert_eq!((asked.answer()["status"].clone(), runs(&trace)), (json!("ok"), 1));
    house.check_peace();
}

#[test]
fn a_command_that_is_approved_by_sql_is_denied_while_the_daemon_runs() {
    let house = House::guarded();
    let (asked, trace) = ask(&house, "forged");
    let id = house.waiting(1).remove(0);
    approve_by_sql(&house, &id);
    // Something happens in the house: the change is noticed with the next write, not only when the clock runs out.
    let (other, _) = ask(&house, "other");
    assert_eq!(asked.answer()["status"], "denied");
    assert_eq!(runs(&trace), 0, "it ran");
    house.wait_tampered("approval");
    // The other one is as it was.
    let id = house.waiting(1).remove(0);
    house.decide(&id, "allow_once");
    assert_eq!(other.answer()["status"], "ok");
    assert_eq!(house.verify().0, Value::Null, "what the house did is recorded as it was");
}

#[test]
fn a_command_that_is_approved_by_sql_is_denied_when_its_clock_runs_out() {
    let house =
        House::up_with("[doors.sudo-proxy]\nlisten = []\napproval_wait = \"3s\"\n[doors.mcp]\nenabled = false\n", &[]);
    house.set_passphrase();
    let (asked, trace) = ask(&house, "expiring");
    let id = house.waiting(1).remove(0);
    approve_by_sql(&house, &id);
    assert_eq!((asked.answer()["status"].clone(), runs(&trace)), (json!("denied"), 0));
    house.wait_tampered("approval");
}

#[test]
fn a_command_that_is_approved_by_sql_is_denied_after_a_restart() {
    let house = House::guarded();
    let (asked, trace) = ask(&house, "forged");
    let id = house.waiting(1).remove(0);
    house.crash();
    house.sql(&format!(
        "UPDATE approvals SET state = 'approved', decision = '\"allow_once\"', runs = randomblob(16), run = 'due', \
         decided_ns = created_ns + 1 WHERE id = '{id}'"
    ));
    house.start();
    house.wait_tampered("approval");
    let answer = asked.answer();
    assert_ne!(answer["status"], "ok", "{answer}");
    assert_eq!(runs(&trace), 0);
    assert_eq!(house.native().ask("approval/get", json!({"id": id}))["approval"]["state"], "denied");
}

#[test]
fn a_row_that_cannot_be_read_is_denied_and_keeps_no_daemon_from_starting() {
    for broken in ["line = x'00'", "process = x'00'", "summary = CAST(x'ff' AS TEXT)"] {
        for lost in [false, true] {
            let house = House::guarded();
            let (asked, trace) = ask(&house, "broken");
            let id = house.waiting(1).remove(0);
            let change = |house: &House| house.sql(&format!("UPDATE approvals SET {broken} WHERE id = '{id}'"));
            match lost {
                true => house.lose_key(change),
                false => {
                    house.crash();
                    change(&house);
                    house.start();
                }
            }
            house.wait_tampered("approval");
            let shown = house.native().ask("approval/get", json!({"id": id}));
            assert_eq!(shown["approval"]["state"], "denied", "{broken} {lost}");
            drop(asked);
            assert_eq!(runs(&trace), 0);
        }
    }
}

#[test]
fn a_command_that_ends_its_daemon_at_once_is_recorded_as_started() {
    let house = House::guarded();
    let lock = house.home().join("run/daemon.lock");
    let asked = house.ask_run("deadly", &["sh", "-c", &format!("kill -9 $(cat {}); echo done", lock.display())]);
    let id = house.waiting(1).remove(0);
    // The daemon may be gone before it can answer.
    house.native().begin(
        "approval/decide",
        json!({"id": id, "decision": "allow_once", "passphrase": crate::support::house::PASSPHRASE}),
    );
    let pid = std::fs::read_to_string(&lock).expect("a lock").trim().parse().expect("a pid");
    if let Some(daemon) = hostel_tests::procfs::Identity::of(pid) {
        daemon.wait_gone(wait::LIMIT);
    }
    house.start();
    assert_eq!(asked.answer()["status"], "ok");
    wait::until_true(wait::LIMIT, "the end to be recorded", || house.kinds().contains(&"finished".to_owned()));
    let started: Vec<Value> = house.records().into_iter().filter(|record| record["kind"] == "started").collect();
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(started[0]["approval"], id.as_str());
    assert_eq!(house.verify().0, Value::Null);
}

#[test]
fn what_is_shown_and_approved_is_what_was_asked_although_the_row_says_otherwise() {
    let house = House::guarded();
    let (asked, trace) = ask(&house, "swapped");
    let id = house.waiting(1).remove(0);
    let other = house.path().join("other");
    house.sql(&format!(
        "UPDATE approvals SET subject = replace(subject, '{}', '{}') WHERE id = '{id}'",
        trace.display(),
        other.display()
    ));
    let shown = house.native().ask("approval/get", json!({"id": id}))["approval"].to_string();
    assert!(shown.contains("trace-swapped") && !shown.contains(&other.display().to_string()), "{shown}");
    let refused = house.answer(&["approve", &id]);
    // Either this answer finds the change, or the house has found it before.
    assert!(refused.code != 0 && refused.err.contains("it is denied"), "{refused:?}");
    assert_eq!(asked.answer()["status"], "denied");
    assert_eq!((runs(&trace), other.exists()), (0, false));
    house.wait_tampered("approval");
}

#[test]
fn a_request_that_was_removed_from_the_disk_is_denied() {
    let house = House::guarded();
    let (asked, trace) = ask(&house, "removed");
    let id = house.waiting(1).remove(0);
    house.sql(&format!("DELETE FROM approvals WHERE id = '{id}'"));
    let refused = house.answer(&["approve", &id]);
    assert!(refused.code != 0, "{refused:?}");
    assert_eq!((asked.answer()["status"].clone(), runs(&trace)), (json!("denied"), 0));
    house.wait_tampered("approval");
}

#[test]
fn a_decision_that_was_carried_out_is_not_carried_out_again() {
    for down in [false, true] {
        let house = House::guarded();
        let (asked, trace) = ask(&house, "once");
        let id = house.waiting(1).remove(0);
        // The row of a decision that is not carried out yet, with a seal of its own: from a house that was stopped there.
        let condition = format!("id = '{id}'");
        let pending = house.copy_row("approvals", &condition);
        house.decide(&id, "allow_once");
        assert_eq!(asked.answer()["status"], "ok");
        wait::until_true(wait::LIMIT, "the end to be recorded", || house.kinds().iter().any(|kind| kind == "finished"));
        let finished = house.copy_row("approvals", &condition);
        if down {
            house.crash();
        }
        for row in [&pending, &finished] {
            house.put_back(row);
            house.sql(&format!("UPDATE approvals SET run = 'due', open = 1, outcome = NULL WHERE {condition}"));
            if down {
                house.start();
                house.wait_tampered("approval");
                house.crash();
            } else {
                ask(&house, "other");
                house.waiting(1);
                house.wait_tampered("approval");
                house.decide(&house.waiting(1)[0], "reject");
                house.sql("DELETE FROM approvals WHERE request = 'other'");
                std::fs::remove_dir_all(house.path().join("ask-other")).ok();
                break;
            }
        }
        if down {
            house.start();
        }
        assert_eq!(runs(&trace), 1, "down {down}");
    }
}

#[test]
fn a_grant_is_neither_made_nor_widened_nor_brought_back_by_sql() {
    let house = House::guarded();
    let trace = house.path().join("granted");
    // A request lists the files that its words name: it is the same request only if the file is there each time.
    std::fs::write(&trace, "").expect("a file");
    let argv = ["sh", "-c", &format!("echo ran >> {}", trace.display())];
    let first = house.ask_run("first", &argv);
    let id = house.waiting(1).remove(0);
    let terms = json!({"scope": "session", "seconds": 3600, "count": 2});
    let decision =
        json!({"id": id, "decision": "allow_once", "grant": terms, "passphrase": crate::support::house::PASSPHRASE});
    let grant = house.native().ask("approval/decide", decision)["grant"].as_u64().expect("a grant");
    assert_eq!(first.answer()["status"], "ok");
    // The control: it covers the same command.
    assert_eq!(house.ask_run("second", &argv).answer()["status"], "ok");
    house.check_peace();
    let open = house.copy_row("grants", &format!("no = {grant}"));
    let revoke = json!({"grant": grant, "passphrase": crate::support::house::PASSPHRASE});
    assert_eq!(house.native().ask("approval/revoke", revoke)["revoked"], true);
    // Brought back while the daemon runs: with its own seal, and changed.
    house.put_back(&open);
    house.sql(&format!(
        "INSERT INTO grants (approval, decider, terms, created_ns, expires_ns, open, seal) \
        SELECT approval, decider, terms, created_ns, expires_ns, 1, seal FROM grants WHERE no = {grant}"
    ));
    let third = house.ask_run("third", &argv);
    let waiting = house.waiting(1);
    house.decide(&waiting[0], "reject");
    assert_eq!(third.answer()["status"], "denied");
    house.wait_tampered("grant");
    assert_eq!(house.native().ask("approval/grants", json!({}))["grants"], json!([]));
    // And while it does not.
    house.crash();
    house.put_back(&open);
    house.start();
    let fourth = house.ask_run("fourth", &argv);
    let waiting = house.waiting(1);
    house.decide(&waiting[0], "reject");
    assert_eq!(fourth.answer()["status"], "denied");
    assert_eq!(std::fs::read_to_string(&trace).expect("traces").lines().count(), 2);
}

#[test]
fn a_grant_that_is_used_up_is_not_filled_again() {
    let house = House::guarded();
    let first = house.ask_run("first", &["true"]);
    let id = house.waiting(1).remove(0);
    let terms = json!({"scope": "session", "seconds": 3600, "count": 1});
    let decision =
        json!({"id": id, "decision": "allow_once", "grant": terms, "passphrase": crate::support::house::PASSPHRASE});
    let grant = house.native().ask("approval/decide", decision)["grant"].as_u64().expect("a grant");
    assert_eq!(first.answer()["status"], "ok");
    let unused = house.copy_row("grants", &format!("no = {grant}"));
    assert_eq!(house.ask_run("second", &["true"]).answer()["status"], "ok");
    house.crash();
    house.put_back(&unused);
    house.start();
    house.ask_run("third", &["true"]);
    house.waiting(1);
    house.wait_tampered("grant");
}

#[test]
fn an_agents_question_is_not_answered_by_sql() {
    let house = House::guarded_with("[approvals]\nstrict = true\n");
    let mut native = house.native();
    let session =
        native.ask("session/new", json!({"agent_alias": "echo", "mode": "ask", "cwd": house.path()}))["session_id"]
            .as_str()
            .expect("a session")
            .to_owned();
    native.begin("session/send", json!({"session_id": session, "prompt": "approve"}));
    let id = house.waiting(1).remove(0);
    house.sql(&format!(
        "UPDATE approvals SET state = 'approved', decision = '\"allow_once\"', decided_ns = created_ns + 1 WHERE id = '{id}'"
    ));
    // A poke: everybody who waits looks again.
    house.ask_run("poke", &["true"]);
    house.wait_tampered("approval");
    let told = wait::eventually("the agent to hear", || {
        let records = house.records();
        let decided = records.iter().find(|record| record["kind"] == "decided" && record["approval"] == id.as_str());
        decided.cloned().ok_or_else(|| format!("{records:?}"))
    });
    assert_eq!(told["body"]["state"], "denied", "{told}");
    assert_eq!(house.native().ask("approval/get", json!({"id": id}))["approval"]["state"], "denied");
}

#[test]
fn the_mode_of_a_session_is_not_raised_by_sql() {
    let house = House::guarded();
    let mode = |house: &House, session: &str| {
        let list = house.native().ask("session/list", json!({"all": true}));
        let sessions = list["sessions"].as_array().expect("sessions").clone();
        let found = sessions.into_iter().find(|found| found["session_id"] == session).expect("the session");
        found["mode"].clone()
    };
    let new = |mode: &str| {
        let params = json!({"agent_alias": "echo", "mode": mode, "cwd": house.path()});
        house.native().ask("session/new", params)["session_id"].as_str().expect("a session").to_owned()
    };
    let (asking, planning) = (new("ask"), new("plan"));
    house.crash();
    house.start();
    assert_eq!((mode(&house, &asking), mode(&house, &planning)), (json!("ask"), json!("plan")), "the control");
    house.check_peace();
    house.crash();
    house.sql(&format!("UPDATE sessions SET mode = 'auto' WHERE id = '{asking}'"));
    house.start();
    assert_eq!(mode(&house, &asking), "ask");
    house.wait_tampered("session");
}

#[test]
fn a_session_is_neither_given_away_nor_unguarded_by_sql() {
    let house = House::guarded();
    let row = |house: &House, session: &str| {
        let read = "SELECT made_by, guard FROM sessions WHERE id = ?";
        let columns =
            |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?));
        house.database().query_row(read, [session], columns).expect("a row")
    };
    let new = || {
        let params = json!({"agent_alias": "echo", "mode": "ask", "cwd": house.path()});
        house.native().ask("session/new", params)["session_id"].as_str().expect("a session").to_owned()
    };
    let (given, bare) = (new(), new());
    house.crash();
    house.start();
    assert_eq!((row(&house, &given), row(&house, &bare)), ((None, None), (None, None)), "the control");
    house.check_peace();
    house.crash();
    house.sql(&format!("UPDATE sessions SET made_by = 'session:{bare}' WHERE id = '{given}'"));
    house.start();
    house.wait_tampered("session");
    let (made_by, guard) = row(&house, &given);
    assert_eq!(made_by, None, "nobody inside has it");
    assert!(guard.expect("a guard").contains("auto"), "it has the guard of somebody unknown");
}

#[test]
fn the_whole_database_of_an_earlier_time_is_not_taken_for_the_present_one() {
    let house = House::guarded();
    let (asked, trace) = ask(&house, "early");
    let id = house.waiting(1).remove(0);
    let early = house.copy_database();
    house.decide(&id, "reject");
    assert_eq!(asked.answer()["status"], "denied");
    house.crash();
    house.restore_database(&early);
    house.start();
    let alarms = house.alarms();
    assert!(!alarms.is_empty(), "nobody is alarmed");
    assert!(house.kinds().iter().any(|kind| kind == "tampered"));
    assert_eq!(runs(&trace), 0);
}
