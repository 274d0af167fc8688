//! Prompts that wait in `state.db`, and what the next process of a session is.
//!
//! A session is held by a turn that sleeps; what waits behind it is attacked while the daemon is down.

use hostel_tests::wait;
use serde_json::{Value, json};

use crate::support::house::House;

/// A session with the built-in agent.
fn session(house: &House, mode: &str) -> String {
    let params = json!({"agent_alias": "echo", "mode": mode, "cwd": house.path()});
    house.native().ask("session/new", params)["session_id"].as_str().expect("a session").to_owned()
}

/// A turn as its row has it.
#[derive(Debug)]
struct Turn {
    state: String,
    answer: String,
    cause: Option<String>,
    /// What the process was started with that serves it.
    mode: Option<Value>,
}

fn turn(house: &House, session: &str, turn: i64) -> Option<Turn> {
    use rusqlite::OptionalExtension as _;
    let read = "SELECT turns.state, answer, cause, setup FROM turns JOIN sessions ON sessions.no = turns.session
                LEFT JOIN agent_processes ON agent_processes.id = turns.process
                WHERE sessions.id = ?1 AND turn = ?2";
    let columns = |row: &rusqlite::Row<'_>| {
        let setup: Option<String> = row.get(3)?;
        let setup: Option<Value> = setup.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Turn {
            state: row.get(0)?,
            answer: row.get(1)?,
            cause: row.get(2)?,
            mode: setup.map(|mut setup| setup["mode"].take()),
        })
    };
    house.database().query_row(read, rusqlite::params![session, turn], columns).optional().expect("a table")
}

/// Sends prompts, the first of which is being answered when this returns and the others wait.
fn send(house: &House, session: &str, prompts: &[&str]) {
    for (number, prompt) in (1..).zip(prompts) {
        house.native().begin("session/send", json!({"session_id": session, "prompt": prompt}));
        let wanted = if number == 1 { "running" } else { "queued" };
        wait::eventually(&format!("turn {number} to be {wanted}"), || match turn(house, session, number) {
            Some(turn) if turn.state == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
}

/// The turn when it is over.
fn over(house: &House, session: &str, number: i64) -> Turn {
    wait::eventually(&format!("the end of turn {number}"), || match turn(house, session, number) {
        Some(turn) if !matches!(turn.state.as_str(), "queued" | "running") => Ok(turn),
        other => Err(format!("{other:?}")),
    })
}

/// Stops the turn that sleeps.
fn wake(house: &House, session: &str) {
    house.native().ask("session/cancel", json!({"session_id": session}));
}

fn is_echo(turn: &Turn, prompt: &str) -> bool {
    turn.state == "completed" && turn.answer == format!("echo: {prompt}")
}

#[test]
fn control_prompts_that_wait_are_given_once_after_a_crash() {
    let house = House::guarded();
    let session = session(&house, "auto");
    send(&house, &session, &["sleep 600", "second", "third"]);
    house.crash();
    house.start();
    wake(&house, &session);
    for (number, prompt) in [(2, "second"), (3, "third")] {
        let turn = over(&house, &session, number);
        assert!(is_echo(&turn, prompt) && turn.mode == Some(json!("auto")), "{turn:?}");
    }
    house.check_peace();
}

#[test]
fn a_prompt_that_is_put_into_the_queue_is_not_given() {
    let house = House::guarded();
    let session = session(&house, "auto");
    send(&house, &session, &["sleep 600", "mine"]);
    house.crash();
    house.sql(&format!(
        "INSERT INTO turns (session, turn, prompt, door, state, queued_ns)
         SELECT no, 3, 'injected', 'native', 'queued', 1 FROM sessions WHERE id = '{session}'"
    ));
    house.start();
    house.wait_tampered("prompt");
    wake(&house, &session);
    let turn = over(&house, &session, 3);
    assert_eq!((turn.state.as_str(), turn.cause.as_deref()), ("cancelled", Some("tampered")), "{turn:?}");
    // The prompt beside it is another row.
    let turn = over(&house, &session, 2);
    assert!(is_echo(&turn, "mine"), "{turn:?}");
}

#[test]
fn a_prompt_that_is_put_into_the_queue_while_the_daemon_runs_is_not_given() {
    let house = House::guarded();
    let session = session(&house, "auto");
    send(&house, &session, &["sleep 600"]);
    house.sql(&format!(
        "INSERT INTO turns (session, turn, prompt, door, state, queued_ns)
         SELECT no, 2, 'injected', 'native', 'queued', 1 FROM sessions WHERE id = '{session}'"
    ));
    // The next write of anybody shows it.
    house.ask_run("poke", &["true"]);
    house.wait_tampered("prompt");
    house.crash();
    house.start();
    wake(&house, &session);
    let turn = over(&house, &session, 2);
    assert_eq!((turn.state.as_str(), turn.cause.as_deref()), ("cancelled", Some("tampered")), "{turn:?}");
}

#[test]
fn a_prompt_that_was_changed_is_not_given() {
    let house = House::guarded();
    let session = session(&house, "auto");
    send(&house, &session, &["sleep 600", "honest"]);
    house.crash();
    house.sql("UPDATE turns SET prompt = 'changed' WHERE turn = 2");
    house.start();
    house.wait_tampered("prompt");
    wake(&house, &session);
    let turn = over(&house, &session, 2);
    assert_eq!((turn.state.as_str(), turn.cause.as_deref()), ("cancelled", Some("tampered")), "{turn:?}");
    // The session goes on.
    house.native().begin("session/send", json!({"session_id": session, "prompt": "after"}));
    let turn = over(&house, &session, 3);
    assert!(is_echo(&turn, "after"), "{turn:?}");
}

#[test]
fn a_prompt_that_was_answered_is_not_given_again_by_an_agent_that_does_not_ask() {
    let house = House::guarded();
    let session = session(&house, "auto");
    send(&house, &session, &["sleep 600", "once"]);
    let waiting = house.copy_row("turns", "turn = 2");
    wake(&house, &session);
    let turn = over(&house, &session, 2);
    assert!(is_echo(&turn, "once") && turn.mode == Some(json!("auto")), "{turn:?}");
    house.crash();
    house.put_back(&waiting);
    house.start();
    house.wait_tampered("prompt");
    let turn = over(&house, &session, 2);
    assert_eq!(turn.mode, Some(json!("ask")), "{turn:?}");
}

#[test]
fn after_a_lost_key_prompts_that_wait_are_given_to_an_agent_that_asks() {
    let house = House::guarded();
    let session = session(&house, "auto");
    send(&house, &session, &["sleep 600", "second", "third"]);
    house.lose_key(|_| {});
    for (number, prompt) in [(2, "second"), (3, "third")] {
        let turn = over(&house, &session, number);
        assert!(is_echo(&turn, prompt), "no prompt is lost: {turn:?}");
        assert_eq!(turn.mode, Some(json!("ask")), "{turn:?}");
    }
    assert!(!house.kinds().contains(&"tampered".to_owned()), "a lost key is no tampering: {:?}", house.records());
    assert!(house.alarms().iter().any(|alarm| alarm.contains("2 prompts")), "{:?}", house.alarms());
}

#[test]
fn a_session_whose_agent_or_place_was_changed_starts_nothing_until_it_is_opened() {
    for change in [
        "cwd = CAST('/tmp' AS BLOB)",
        "env = CAST('LD_PRELOAD=/tmp/x.so' || char(0) AS BLOB)",
        "agent = 'other'",
        "model = '--yolo'",
        "kind = 'acp'",
    ] {
        let house = House::guarded();
        let session = session(&house, "auto");
        send(&house, &session, &["sleep 600", "waits"]);
        house.crash();
        house.sql(&format!("UPDATE sessions SET {change} WHERE id = '{session}'"));
        house.start();
        house.wait_tampered("session");
        let turn = over(&house, &session, 2);
        assert_eq!((turn.state.as_str(), turn.mode.as_ref()), ("cancelled", None), "{change}: {turn:?}");
        let (standing, mode, env): (String, String, Vec<u8>) = house
            .database()
            .query_row("SELECT standing, mode, env FROM sessions WHERE id = ?", [&session], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .expect("a session");
        assert_eq!((standing.as_str(), mode.as_str(), env), ("archived", "ask", Vec::new()), "{change}");
    }
}
