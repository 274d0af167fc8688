//! Callers that leave, come at once or get in each other's way, and a disk that refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use hostel_agents::{Decision, Event, Hosting, Outcome};
use hostel_house::sessions::{Cause, NextEvents, Scope, SendError, Standing, Status};
use hostel_house::store::Store;
use support::sessions::{
    Daemon, a_person, ask, claude, claude_once, end_of, follow, follow_until, history, new_session, options, prompt,
    hold_writer, question, said, until_idle,
};
use support::{TestHouse, limit, until, within};

/// Asks once whether something is done, and leaves. Nothing is done before that: the database is held meanwhile.
async fn begin_and_leave<T>(store: &Store, work: impl Future<Output = T>) {
    let _held = hold_writer(store).await;
    let mut work = pin!(work);
    assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it was done at once");
}

#[test]
fn a_prompt_counts_though_its_sender_has_left() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        begin_and_leave(&daemon.store, session.send(prompt("left behind"))).await;
        let sent = session.send(prompt("second")).await.unwrap();
        assert_eq!(sent.turn, 2);
        let events = follow(&session, 0, 2).await;
        let answers: Vec<(Outcome, String)> = events
            .iter()
            .filter_map(|entry| match &entry.event {
                Event::TurnEnded { outcome, text, .. } => Some((*outcome, text.clone())),
                _ => None,
            })
            .collect();
        let expected = ["echo: left behind", "echo: second"].map(|text| (Outcome::Completed, text.to_owned()));
        assert_eq!(answers, expected);
    });
    daemon.end();
}

#[test]
fn stopping_and_closing_go_on_though_the_caller_has_left() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        session.send(prompt("sleep 1000")).await.unwrap();
        let waiting = session.send(prompt("waits")).await.unwrap();
        begin_and_leave(&daemon.store, session.withdraw(waiting.turn)).await;
        begin_and_leave(&daemon.store, session.interrupt(Scope::Running, Cause::ClientRpc)).await;
        assert_eq!(end_of(&follow(&session, 0, waiting.turn).await).0, Outcome::Cancelled);
        begin_and_leave(&daemon.store, session.close(Cause::SessionRemoved)).await;
        let left = async || (daemon.processes.running(), daemon.sessions.count());
        until("it is closed", left, |left| *left == (0, 0)).await;
        let info = daemon.sessions.stored("s").await.unwrap().unwrap();
        assert_eq!(info.standing, Standing::Archived);
    });
    daemon.end();
}

#[test]
fn a_decision_reaches_the_agent_though_the_decider_has_left() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("approve")).await.unwrap();
        let asked = question(&daemon.approvals).await;
        begin_and_leave(&daemon.store, daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person())).await;
        let events = follow(&session, sent.after_seq, sent.turn).await;
        assert_eq!(end_of(&events), (Outcome::Completed, "approved".to_owned()));
        assert!(daemon.approvals.pending().is_empty());
    });
    daemon.end();
}

/// A process that takes its time to die, however it is asked.
const STUBBORN: &str = "trap 'sleep 0.7; exit 0' TERM; init; say begun; while :; do sleep 0.05; done";

#[test]
fn a_session_that_is_still_closing_can_be_brought_back() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(claude_once(STUBBORN)));
    let session = daemon.session("script", Hosting::PerMessage, place.path());
    session.set_door_state("test", "kept".to_owned());
    daemon.run(async {
        let sent = session.send(prompt("x")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::Text { .. })).await;
        let closing = Arc::clone(&session);
        let closed = tokio::spawn(async move { closing.close(Cause::SessionRemoved).await });
        while daemon.sessions.get("s").is_some() {
            tokio::task::yield_now().await;
        }
        let again = within("the session", daemon.sessions.revive("s")).await.unwrap();
        closed.await.unwrap().unwrap();
        assert_eq!(daemon.processes.running(), 0, "the process of the closed session is gone");
        assert_eq!(again.door_state("test").as_deref(), Some("kept"));
        assert_eq!(again.last_seq(), session.last_seq());
        let sent = again.send(prompt("y")).await.unwrap();
        assert_eq!(sent.turn, 2);
        follow_until(&again, sent.after_seq, |event| matches!(event, Event::Text { .. })).await;
        assert!(again.interrupt(Scope::Running, Cause::ClientRpc).await);
        follow(&again, sent.after_seq, sent.turn).await;
        let all = history(&daemon.sessions, "s").await;
        let ends: Vec<u64> = all
            .iter()
            .filter_map(|entry| match &entry.event {
                Event::TurnEnded { turn, .. } => Some(*turn),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [1, 2]);
    });
    daemon.end();
}

#[test]
fn a_session_that_is_still_closing_can_be_deleted() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(claude_once(STUBBORN)));
    let session = daemon.session("script", Hosting::PerMessage, place.path());
    daemon.run(async {
        let sent = session.send(prompt("x")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::Text { .. })).await;
        let closing = Arc::clone(&session);
        let closed = tokio::spawn(async move { closing.close(Cause::SessionRemoved).await });
        while daemon.sessions.get("s").is_some() {
            tokio::task::yield_now().await;
        }
        assert!(within("the deletion", daemon.sessions.delete("s")).await.unwrap());
        within("the closing", closed).await.unwrap().unwrap();
        assert!(daemon.processes.list().is_empty(), "its process is forgotten");
        assert_eq!(daemon.sessions.busy(), 0);
        assert!(daemon.sessions.stored("s").await.unwrap().is_none());
    });
    daemon.end();
}

#[test]
fn a_cursor_of_a_deleted_session_never_shows_another_one() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    daemon.run(async {
        let first = daemon.sessions.create(new_session("a", "echo", Hosting::Warm, place.path())).await.unwrap();
        ask(&first, "secret").await;
        let mut late = first.events(0);
        daemon.sessions.delete("a").await.unwrap();
        let second = daemon.sessions.create(new_session("b", "echo", Hosting::Warm, place.path())).await.unwrap();
        ask(&second, "another's").await;
        loop {
            match within("the end of the events", late.next()).await.unwrap() {
                NextEvents::Entries(entries) => panic!("{entries:?}"),
                NextEvents::Gap { .. } => {}
                NextEvents::Closed => break,
            }
        }
    });
    daemon.end();
}

#[test]
fn a_question_with_the_number_of_an_earlier_one_is_another_question() {
    let place = TestHouse::new();
    let script = claude(
        r#"*'"content":"one"'*|*'"content":"two"'*) init; ask 7 "rm $n"; n=x;;
        *'"behavior":"allow"'*) say allowed; result done;;
        *'"behavior":"deny"'*) say denied; result done;;"#,
    );
    let daemon = Daemon::start(&place, options(script));
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        for (text, decision, answer) in
            [("one", Decision::AllowOnce, "allowed"), ("two", Decision::Reject(String::new()), "denied")]
        {
            let sent = session.send(prompt(text)).await.unwrap();
            let asked = question(&daemon.approvals).await;
            assert_eq!(asked.turn, sent.turn);
            daemon.approvals.decide(&asked.id, decision, &a_person()).await.unwrap();
            let events = follow(&session, sent.after_seq, sent.turn).await;
            assert_eq!(said(&events), [answer]);
        }
    });
    daemon.end();
}

/// How long a turn may take: long enough for an agent to be started and to ask, also on a busy machine.
const TURN_LIMIT: Duration = Duration::from_secs(3);

#[test]
fn waiting_for_a_person_does_not_count_as_taking_long() {
    let place = TestHouse::new();
    let mut options = options(Vec::new());
    options.turn_limit = TURN_LIMIT;
    // Nothing may happen in this time, on both sides of a restart.
    let longer = TURN_LIMIT + Duration::from_millis(500);
    let daemon = Daemon::start(&place, options.clone());
    let session = daemon.session("echo", Hosting::Warm, place.path());
    let sent = daemon.run(async {
        let sent = session.send(prompt("approve")).await.unwrap();
        question(&daemon.approvals).await;
        tokio::time::sleep(longer).await;
        sent
    });
    drop(session);
    daemon.vanish();
    let daemon = Daemon::start(&place, options);
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        tokio::time::sleep(longer).await;
        let asked = question(&daemon.approvals).await;
        daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
        let events = follow(&session, sent.after_seq, sent.turn).await;
        assert_eq!(end_of(&events), (Outcome::Completed, "approved".to_owned()));
        let (outcome, reason) = ask(&session, "sleep 1000").await;
        assert_eq!(outcome, Outcome::Failed, "{reason}");
        assert!(reason.contains("3 seconds"), "{reason}");
    });
    daemon.end();
}

#[test]
fn a_disk_that_refuses_stops_nobody_for_good() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(ask(&session, "before"));
    let sent = daemon.run(async {
        let sent = session.send(prompt("sleep 1")).await.unwrap();
        session.send(prompt("approve")).await.unwrap();
        let waiting = session.send(prompt("withdrawn")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::TextDelta { .. })).await;
        waiting
    });
    daemon.refuse_writes(true);
    daemon.run(async {
        let refused = session.send(prompt("not taken")).await;
        assert!(matches!(refused, Err(SendError::Store(_))), "{refused:?}");
        assert!(session.close(Cause::SessionRemoved).await.is_err());
        assert!(daemon.sessions.get("s").is_some(), "what could not be written did not happen");
        session.withdraw(sent.turn).await;
        // The end of the first turn comes while nothing can be written, and nothing may come of it.
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
    daemon.refuse_writes(false);
    daemon.run(async {
        let asked = question(&daemon.approvals).await;
        daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
        assert_eq!(end_of(&follow(&session, 0, asked.turn).await).1, "approved");
        assert_eq!(end_of(&follow(&session, 0, sent.turn).await).0, Outcome::Cancelled);
        assert_eq!(ask(&session, "after").await.1, "echo: after");
    });
    drop(session);
    daemon.vanish();
    // What was told to be cancelled stays so.
    let daemon = Daemon::start(&place, options(Vec::new()));
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        until_idle(&session).await;
        let all = history(&daemon.sessions, "s").await;
        let ends = all.iter().filter(|entry| matches!(entry.event, Event::TurnEnded { .. })).count();
        assert_eq!(ends, 5);
        session.close(Cause::SessionRemoved).await.unwrap();
        assert!(daemon.sessions.get("s").is_none());
    });
    daemon.end();
}

#[test]
fn a_question_that_cannot_be_written_down_is_asked_when_it_can() {
    let place = TestHouse::new();
    let script = claude(
        r#"*'"content":"wait"'*) init; say begun; while ! [ -e go ]; do sleep 0.02; done; ask 1 ls;;
        *'"behavior":"allow"'*) say allowed; result done;;"#,
    );
    let daemon = Daemon::start(&place, options(script));
    let session = daemon.session("script", Hosting::Warm, place.path());
    let sent = daemon.run(async {
        let sent = session.send(prompt("wait")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::Text { .. })).await;
        sent
    });
    daemon.refuse_writes(true);
    std::fs::write(place.path().join("go"), "").unwrap();
    // The question comes while nothing can be written, and nobody may be asked.
    std::thread::sleep(Duration::from_millis(500));
    assert!(daemon.approvals.pending().is_empty());
    daemon.refuse_writes(false);
    daemon.run(async {
        let asked = question(&daemon.approvals).await;
        daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
        let events = follow(&session, sent.after_seq, sent.turn).await;
        assert_eq!(end_of(&events).0, Outcome::Completed);
        assert_eq!(session.status(), Status::Idle);
    });
    daemon.end();
}

#[test]
fn numbers_without_measure_harm_nobody() {
    let place = TestHouse::new();
    let script = claude(
        r#"*'"content":"much"'*) init; say much
        printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"x",'
        printf '"usage":{"input_tokens":18446744073709551615,"output_tokens":1},"total_cost_usd":1e308}\n';;"#,
    );
    let daemon = Daemon::start(&place, options(script));
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        for _ in 0..3 {
            assert_eq!(ask(&session, "much").await.0, Outcome::Completed);
        }
        let usage = session.info().usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (u64::MAX, 3));
        assert!(usage.cost_usd.is_finite());
    });
    daemon.end();
}

#[test]
fn what_a_signalled_agent_leaves_behind_is_killed_though_it_says_goodbye() {
    let place = TestHouse::new();
    // It does not listen to an interrupt; told to end, it closes its turn in good order and leaves its tool running.
    let script = claude(
        r#"*'"content":"tool"'*) setsid sleep 1000 & trap 'result stopped; exit 0' TERM; init; say begun
        while :; do sleep 0.05; done;;"#,
    );
    let mut options = options(script);
    options.stop_grace = Duration::from_millis(500);
    let daemon = Daemon::start(&place, options);
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("tool")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::Text { .. })).await;
        let process = daemon.processes.list().pop().unwrap();
        assert!(session.interrupt(Scope::Running, Cause::ClientRpc).await);
        follow(&session, sent.after_seq, sent.turn).await;
        let members = async || process.tree().await.members;
        until("its tool is gone", members, |members| members.iter().all(|member| member.zombie)).await;
    });
    daemon.end();
}

#[test]
fn closing_does_not_wait_for_an_agent_to_take_a_hint() {
    let place = TestHouse::new();
    // An interrupt means nothing to it; a signal does.
    let script = claude(r#"*'"content":"on"'*) init; say begun; while :; do sleep 0.02; done;;"#);
    let mut options = options(script);
    // Longer than anything is waited for.
    options.stop_grace = 10 * limit();
    let daemon = Daemon::start(&place, options);
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("on")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::Text { .. })).await;
        within("the closing", session.close(Cause::SessionRemoved)).await.unwrap();
        assert_eq!(daemon.processes.running(), 0);
    });
    daemon.end();
}

#[test]
fn a_long_history_is_deleted_whole() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        assert_eq!(ask(&session, "big 12000").await.0, Outcome::Completed);
        daemon.sessions.delete("s").await.unwrap();
    });
    let left = |connection: &rusqlite::Connection| -> rusqlite::Result<i64> {
        connection
            .query_row("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM turns)", [], |row| row.get(0))
    };
    assert_eq!(daemon.run(daemon.store.read(left)).unwrap(), 0);
    daemon.end();
}
