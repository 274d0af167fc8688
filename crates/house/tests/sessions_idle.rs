//! Agents that speak, ask or die when nobody has asked them anything, and daemons that vanish around that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::retention::{FakeTime, loose};
use crate::support;

use std::time::Duration;

use hostel_agents::{Decision, Event, Hosting, Outcome};
use hostel_house::approvals::State;
use hostel_house::sessions::{Cause, SessionOptions};
use hostel_syncpoint::SyncPoint;
use support::raw::known_processes;
use support::sessions::{
    Daemon, a_person, ask, claude, claude_once, end_of, follow, follow_until, history, options, prompt, question, said,
};
use support::{TestHouse, block_on, keeper_program, opened, until, within};

/// After its first answer it waits for a file, then has something to say or asks for leave; `hold` waits before it answers.
fn talker() -> SessionOptions {
    options(claude(
        r#"*'"content":"speak later"'*) init; say first; result first
            while ! [ -e go ]; do sleep 0.02; done; init; say unasked; result unasked
            [ -e die ] && exit 0;;
        *'"content":"ask later"'*) init; say first; result first
            while ! [ -e go ]; do sleep 0.02; done; init; say thinking; ask 1 ls;;
        *'"content":"hold"'*) init; say begun; while ! [ -e go ]; do sleep 0.02; done; say done; result done;;
        *'"behavior":"allow"'*) echo x >> answers; say allowed; result unasked;;"#,
    ))
}

fn is_text(wanted: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Text { text, .. } if text == wanted)
}

#[test]
fn what_an_idle_agent_says_while_no_daemon_is_there_is_kept() {
    for dies in [false, true] {
        let place = TestHouse::new();
        let daemon = Daemon::start(&place, talker());
        let session = daemon.session("script", Hosting::Warm, place.path());
        daemon.run(ask(&session, "speak later"));
        let process = daemon.processes.list().pop().unwrap();
        let (pid, before) = (session.info().pid.unwrap(), session.last_seq());
        drop((session, process));
        daemon.vanish();
        if dies {
            std::fs::write(place.path().join("die"), "").unwrap();
        }
        std::fs::write(place.path().join("go"), "").unwrap();
        if dies {
            // Its keeper reaps it once its last output is written.
            let is_there = async || std::path::Path::new(&format!("/proc/{pid}")).exists();
            block_on(until("the agent is reaped", is_there, |is_there| !is_there));
        }
        let daemon = Daemon::start(&place, talker());
        daemon.run(async {
            let session = daemon.sessions.get("s").unwrap();
            follow_until(&session, before, is_text("unasked")).await;
            assert_eq!(ask(&session, "next").await, (Outcome::Completed, "ok".to_owned()));
            assert_eq!(said(&history(&daemon.sessions, "s").await), ["first", "unasked", "ok"]);
        });
        daemon.end();
    }
}

#[test]
fn a_question_of_an_idle_agent_survives_the_daemon_and_is_answered_once() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, talker());
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(ask(&session, "ask later"));
    std::fs::write(place.path().join("go"), "").unwrap();
    let before = session.last_seq();
    let asked = daemon.run(async {
        let asked = question(&daemon.approvals).await;
        follow_until(&session, before, |event| matches!(event, Event::PermissionAsked { .. })).await;
        // The place behind the question is written with it.
        let last = async || (daemon.last_stored_event().await, session.last_seq());
        until("the question is on disk", last, |(stored, last)| stored == last).await;
        asked
    });
    drop(session);
    daemon.vanish();
    let daemon = Daemon::start(&place, talker());
    let session = daemon.sessions.get("s").unwrap();
    daemon.run(async {
        assert_eq!(question(&daemon.approvals).await.id, asked.id);
        daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
        follow_until(&session, before, is_text("allowed")).await;
    });
    drop(session);
    daemon.vanish();
    let daemon = Daemon::start(&place, talker());
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        assert_eq!(ask(&session, "next").await.1, "ok");
        let all = history(&daemon.sessions, "s").await;
        let answered = all.iter().filter(|entry| matches!(entry.event, Event::PermissionAnswered { .. })).count();
        assert_eq!(answered, 1);
        assert_eq!(said(&all), ["first", "thinking", "allowed", "ok"]);
    });
    assert_eq!(std::fs::read_to_string(place.path().join("answers")).unwrap(), "x\n");
    daemon.end();
}

#[test]
fn a_prompt_waits_for_a_question_that_was_open_before_it() {
    for restart in [false, true] {
        let place = TestHouse::new();
        let mut daemon = Daemon::start(&place, talker());
        let mut session = daemon.session("script", Hosting::Warm, place.path());
        daemon.run(ask(&session, "ask later"));
        std::fs::write(place.path().join("go"), "").unwrap();
        let asked = daemon.run(question(&daemon.approvals));
        let sent = daemon.run(async {
            let sent = session.send(prompt("next")).await.unwrap();
            let started = |event: &Event| matches!(event, Event::TurnStarted { turn, .. } if *turn == sent.turn);
            follow_until(&session, sent.after_seq, started).await;
            sent
        });
        if restart {
            drop(session);
            daemon.vanish();
            daemon = Daemon::start(&place, talker());
            session = daemon.sessions.get("s").unwrap();
        }
        daemon.run(async {
            daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
            assert_eq!(end_of(&follow(&session, sent.after_seq, sent.turn).await).0, Outcome::Completed);
            let all = history(&daemon.sessions, "s").await;
            assert_eq!(said(&all), ["first", "thinking", "allowed", "ok"]);
        });
        assert_eq!(std::fs::read_to_string(place.path().join("answers")).unwrap(), "x\n");
        drop(session);
        daemon.end();
    }
}

#[test]
fn an_agent_that_waits_for_a_person_is_not_idle() {
    let place = TestHouse::new();
    let mut options = talker();
    options.idle = Duration::from_secs(2);
    let daemon = Daemon::start(&place, options);
    let session = daemon.session("script", Hosting::Warm, place.path());
    std::fs::write(place.path().join("go"), "").unwrap();
    daemon.run(async {
        ask(&session, "ask later").await;
        let asked = question(&daemon.approvals).await;
        let before = session.last_seq();
        // Nothing may happen in this time, which is longer than an agent may be idle.
        tokio::time::sleep(Duration::from_secs(3)).await;
        daemon.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
        follow_until(&session, before, is_text("allowed")).await;
        until("the idle process is let go of", async || session.info().pid, Option::is_none).await;
    });
    daemon.end();
}

#[test]
fn a_turn_whose_journal_was_removed_comes_to_an_end() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("sleep 1000")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::TextDelta { .. })).await;
        for file in std::fs::read_dir(place.journal()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let keeper = rustix::process::Pid::from_raw(daemon.processes.keeper_status().pid as i32).unwrap();
        rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
        assert_eq!(end_of(&follow(&session, sent.after_seq, sent.turn).await).0, Outcome::Failed);
        assert_eq!(ask(&session, "next").await.1, "echo: next");
    });
    daemon.end();
}

#[test]
fn a_closed_session_leaves_no_question_behind() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, talker());
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        ask(&session, "ask later").await;
        std::fs::write(place.path().join("go"), "").unwrap();
        let asked = question(&daemon.approvals).await;
        session.close(Cause::SessionRemoved).await.unwrap();
        assert!(daemon.approvals.pending().is_empty());
        let found = daemon.approvals.get(&asked.id).await.unwrap().unwrap();
        assert_eq!(found.state, State::Withdrawn);
    });
    daemon.end();
}

#[test]
fn an_agent_that_dies_idle_is_followed_by_another() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        ask(&session, "one").await;
        let pid = session.info().pid.unwrap();
        let raw = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(raw, rustix::process::Signal::KILL).unwrap();
        until("the dead process is let go of", async || session.info().pid, Option::is_none).await;
        assert_eq!(ask(&session, "two").await.1, "echo: two");
        history(&daemon.sessions, "s").await;
    });
    daemon.end();
}

#[test]
fn a_process_that_was_lost_with_keeper_and_daemon_is_not_started_again() {
    let place = TestHouse::new();
    let script = claude_once("echo x >> starts; while :; do sleep 0.1; done");
    let daemon = Daemon::start(&place, options(script.clone()));
    let session = daemon.session("script", Hosting::PerMessage, place.path());
    daemon.run(async {
        session.send(prompt("once")).await.unwrap();
        let starts = async || std::fs::read_to_string(place.path().join("starts")).unwrap_or_default();
        until("it runs", starts, |starts| starts == "x\n").await;
        // It has printed nothing; that it was started is on disk.
        until("its start is on disk", async || daemon.stored_process().await, |state| state == "live").await;
    });
    let keeper = rustix::process::Pid::from_raw(daemon.processes.keeper_status().pid as i32).unwrap();
    drop(session);
    daemon.vanish();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    let daemon = Daemon::start(&place, options(script));
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        assert_eq!(end_of(&follow(&session, 0, 1).await).0, Outcome::Failed);
    });
    assert_eq!(std::fs::read_to_string(place.path().join("starts")).unwrap(), "x\n");
    daemon.end();
}

#[test]
fn a_prompt_of_several_pieces_arrives_whole_whenever_its_daemon_vanishes() {
    let place = TestHouse::new();
    // Says how much it was given, counted on its own terms.
    let script = claude(r#"*'"content":"aaaa'*) n=${#line}; init; say "$n"; result done;;"#);
    let mut daemon = Daemon::start(&place, options(script.clone()));
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(ask(&session, "warm up"));
    let text = "a".repeat(3 << 20);
    let sent = daemon.run(session.send(prompt(&text))).unwrap();
    drop(session);
    for life in 0..6 {
        // Any instant will do; these are spread.
        std::thread::sleep(Duration::from_millis(3 + 9 * life));
        daemon.vanish();
        daemon = Daemon::start(&place, options(script.clone()));
    }
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        let events = within("the end of the turn", follow(&session, sent.after_seq, sent.turn)).await;
        let frame = serde_json::json!({"type": "user", "message": {"role": "user", "content": ""},
            "parent_tool_use_id": null, "session_id": ""});
        assert_eq!(end_of(&events), (Outcome::Completed, (text.len() + frame.to_string().len()).to_string()));
    });
    daemon.end();
}

#[test]
fn a_prompt_that_was_stopped_as_it_was_taken_up_does_not_run_after_a_restart() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, talker());
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        let first = session.send(prompt("hold")).await.unwrap();
        session.send(prompt("never")).await.unwrap();
        follow_until(&session, first.after_seq, is_text("begun")).await;
        // What a daemon leaves that is killed between the wish to stop a turn and its beginning.
        let stop = |transaction: &rusqlite::Transaction<'_>| {
            transaction.execute("UPDATE turns SET cause = 'client_rpc' WHERE state = 'queued'", [])
        };
        assert_eq!(daemon.store.write(SyncPoint::NONE, stop).await.unwrap(), 1);
    });
    drop(session);
    daemon.vanish();
    std::fs::write(place.path().join("go"), "").unwrap();
    let daemon = Daemon::start(&place, talker());
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        assert_eq!(end_of(&follow(&session, 0, 1).await).0, Outcome::Completed);
        assert_eq!(end_of(&follow(&session, 0, 2).await).0, Outcome::Cancelled);
        let all = history(&daemon.sessions, "s").await;
        let started = all.iter().filter(|entry| matches!(entry.event, Event::TurnStarted { .. })).count();
        assert_eq!(started, 1);
    });
    daemon.end();
}

#[test]
fn a_turn_does_not_notice_that_its_keeper_is_replaced() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, talker());
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("hold")).await.unwrap();
        let next = session.send(prompt("next")).await.unwrap();
        follow_until(&session, sent.after_seq, is_text("begun")).await;
        daemon.processes.upgrade_keeper(opened(&keeper_program())).await.unwrap();
        let pid = session.info().pid;
        std::fs::write(place.path().join("go"), "").unwrap();
        assert_eq!(end_of(&follow(&session, sent.after_seq, sent.turn).await).1, "begun\n\ndone");
        assert_eq!(end_of(&follow(&session, sent.after_seq, next.turn).await).1, "ok");
        assert_eq!(session.info().pid, pid);
    });
    daemon.end();
}

#[test]
fn a_turn_whose_keeper_dies_fails_and_the_next_one_works() {
    let place = TestHouse::new();
    let daemon = Daemon::start(&place, options(Vec::new()));
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("sleep 1000")).await.unwrap();
        let next = session.send(prompt("next")).await.unwrap();
        follow_until(&session, sent.after_seq, |event| matches!(event, Event::TextDelta { .. })).await;
        let keeper = rustix::process::Pid::from_raw(daemon.processes.keeper_status().pid as i32).unwrap();
        rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
        let (outcome, reason) = end_of(&follow(&session, sent.after_seq, sent.turn).await);
        assert_eq!(outcome, Outcome::Failed);
        assert!(reason.contains("keeper"), "{reason}");
        assert_eq!(end_of(&follow(&session, sent.after_seq, next.turn).await).1, "echo: next");
        history(&daemon.sessions, "s").await;
    });
    daemon.end();
}

#[test]
fn sessions_closed_long_ago_are_forgotten_with_their_journals() {
    let place = TestHouse::new();
    let mut options = options(Vec::new());
    options.keep_archived = Duration::ZERO;
    let daemon = Daemon::start(&place, options);
    let session = daemon.session("echo", Hosting::Warm, place.path());
    daemon.run(async {
        ask(&session, "hello").await;
        let journals = || std::fs::read_dir(place.journal()).unwrap().count();
        let kept = journals();
        let time = FakeTime::new();
        let keeper = time.housekeeping(&daemon, loose()).await;
        assert_eq!(keeper.round().await.unwrap().sessions, 0, "it is in use");
        session.close(Cause::SessionRemoved).await.unwrap();
        time.pass(Duration::from_secs(1));
        for _ in 0..2 {
            assert_eq!(keeper.round().await.unwrap().sessions, 0, "a day passes between the verdict and the removal");
        }
        keeper.collect(false, false, None).await.unwrap();
        assert_eq!(journals(), kept, "a session's journals live as long as the session");
        time.pass(Duration::from_secs(86_400));
        assert_eq!(keeper.round().await.unwrap().sessions, 1);
        assert!(daemon.sessions.stored("s").await.unwrap().is_none());
        assert_eq!(journals(), kept - 1);
    });
    daemon.end();
}

#[test]
fn a_process_that_served_its_message_is_forgotten_by_the_keeper_and_kept_on_disk() {
    let place = TestHouse::new();
    let script = claude_once("init; say hello; result hello");
    let daemon = Daemon::start(&place, options(script.clone()));
    let session = daemon.session("script", Hosting::PerMessage, place.path());
    daemon.run(async {
        for _ in 0..3 {
            assert_eq!(ask(&session, "x").await.1, "hello");
        }
        assert!(daemon.processes.list().iter().all(|process| process.command().len() <= 4096));
    });
    drop(session);
    daemon.vanish();
    // The next daemon sees to what this one had no time for; the one after it finds what there is.
    let daemon = Daemon::start(&place, options(script.clone()));
    let socket = place.keeper_socket();
    daemon.run(until("the keeper knows none of them", async || known_processes(&socket), |known| *known == 0));
    daemon.vanish();
    let daemon = Daemon::start(&place, options(script));
    let commands: Vec<Vec<u8>> = daemon.processes.list().iter().map(|process| process.command().to_vec()).collect();
    // Only the keeper knows more of them than the name of the program.
    assert_eq!(commands.len(), 3);
    assert!(commands.iter().all(|command| !command.contains(&b' ')), "{commands:?}");
    assert_eq!(daemon.run(ask(&daemon.sessions.get("s").unwrap(), "y")).1, "hello");
    daemon.end();
}

#[test]
fn what_comes_in_one_breath_with_the_end_of_a_turn_and_of_the_process_is_kept() {
    let place = TestHouse::new();
    let script =
        claude(r#"*'"content":"last words"'*) { init; say answer; result answer; init; say "last words"; }; exit 0;;"#);
    let daemon = Daemon::start(&place, options(script.clone()));
    let session = daemon.session("script", Hosting::Warm, place.path());
    daemon.run(async {
        let sent = session.send(prompt("last words")).await.unwrap();
        assert_eq!(end_of(&follow(&session, sent.after_seq, sent.turn).await).1, "answer");
    });
    drop(session);
    daemon.vanish();
    let daemon = Daemon::start(&place, options(script));
    daemon.run(async {
        let session = daemon.sessions.get("s").unwrap();
        assert_eq!(ask(&session, "next").await.1, "ok");
        assert_eq!(said(&history(&daemon.sessions, "s").await), ["answer", "last words", "ok"]);
    });
    daemon.end();
}
