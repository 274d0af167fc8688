//! Letters: taken once, asked about where that is wanted, in order, across daemons that vanish at any instant.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::sync::Arc;

use hostel_agents::{Decision, Hosting};
use hostel_house::approvals::{Action, Glob, Kind, Rule, State, Subject};
use hostel_house::sessions::{
    Cause, LETTERS, Letter, MailPlace, MeshPolicy, NewSession, Scope, Session, Taken, TurnInfo,
};
use support::sessions::{Daemon, a_person, claude, new_session, options, question, until_idle};
use support::{TestHouse, until};

fn letter(number: u32) -> Letter {
    Letter {
        mesh_id: "mesh-1".to_owned(),
        mesh: "lab".to_owned(),
        sender: "member-a".to_owned(),
        from: "alice".to_owned(),
        from_key: "ab".repeat(32),
        message: format!("message-{number}"),
        reply_to: None,
        text: format!("letter {number}"),
        verified: true,
    }
}

fn bring(daemon: &Daemon, session: &Arc<Session>, number: u32) -> Taken {
    daemon.run(session.take_letter(letter(number), format!("place-{number:03}"))).unwrap()
}

fn place(daemon: &Daemon, session: &Session) -> Option<String> {
    let MailPlace { after, .. } = daemon.run(session.mail_place("mesh-1")).unwrap();
    after
}

/// A session of that policy, with an agent that says `ok`.
fn session(daemon: &Daemon, place: &TestHouse, mesh: MeshPolicy) -> Arc<Session> {
    let new = NewSession { mesh: Some(mesh), ..new_session("s", "script", Hosting::Warm, place.path()) };
    daemon.run(daemon.sessions.create(new)).unwrap()
}

/// The letters among the prompts, by number, in order; each prompt has its door.
fn prompts(daemon: &Daemon) -> Vec<u32> {
    letters(&daemon.run(daemon.sessions.turns("s")).unwrap())
}

fn letters(turns: &[TurnInfo]) -> Vec<u32> {
    let of_letters = turns.iter().filter(|turn| turn.door == LETTERS);
    let number = |prompt: &str| {
        let (_, rest) = prompt.split_once("\nletter ").expect("a letter");
        rest.split_once('\n').expect("its end").0.parse().unwrap()
    };
    of_letters.map(|turn| number(&turn.prompt)).collect()
}

fn wait_prompts(daemon: &Daemon, expected: &[u32]) {
    let found = async || letters(&daemon.sessions.turns("s").await.unwrap());
    daemon.run(until("the letters are prompts", found, |found| found == expected));
}

#[test]
fn a_letter_is_taken_once_and_with_its_place() {
    let house = TestHouse::new();
    let daemon = Daemon::start(&house, options(claude("")));
    let work = session(&daemon, &house, MeshPolicy::On);
    assert_eq!(place(&daemon, &work), None);
    assert_eq!(bring(&daemon, &work, 1), Taken::Queued(1));
    assert_eq!(bring(&daemon, &work, 1), Taken::Known);
    assert_eq!(bring(&daemon, &work, 2), Taken::Queued(2));
    assert_eq!(place(&daemon, &work).as_deref(), Some("place-002"));
    // Another member may use the same id.
    let other = Letter { sender: "member-b".to_owned(), ..letter(2) };
    let taken = daemon.run(work.take_letter(other, "place-003".to_owned())).unwrap();
    assert_eq!(taken, Taken::Queued(3));
    daemon.run(work.pass_letter("mesh-1", "place-004")).unwrap();
    daemon.run(until_idle(&work));
    daemon.vanish();

    let daemon = Daemon::start(&house, options(claude("")));
    let work = daemon.sessions.get("s").unwrap();
    assert_eq!((work.mesh(), place(&daemon, &work).as_deref()), (MeshPolicy::On, Some("place-004")));
    // The mailbox was lost and is read again.
    assert_eq!(bring(&daemon, &work, 2), Taken::Known);
    assert_eq!(prompts(&daemon), [1, 2, 2]);
    daemon.end();
}

#[test]
fn the_policy_decides_and_a_closed_session_takes_nothing() {
    let house = TestHouse::new();
    let daemon = Daemon::start(&house, options(claude("")));
    let work = session(&daemon, &house, MeshPolicy::Off);
    assert_eq!(bring(&daemon, &work, 1), Taken::Off);
    assert_eq!(place(&daemon, &work), None, "it was not even passed over");
    let before = daemon.run(work.mail_place("mesh-1")).unwrap().since_ms;
    daemon.run(work.set_mesh(MeshPolicy::On)).unwrap();
    assert!(daemon.run(work.mail_place("mesh-1")).unwrap().since_ms >= before);
    assert_eq!(bring(&daemon, &work, 2), Taken::Queued(1));
    // From `on` to `ask` the place stays; from `off` it begins anew.
    daemon.run(work.set_mesh(MeshPolicy::Ask)).unwrap();
    assert_eq!(place(&daemon, &work).as_deref(), Some("place-002"));
    daemon.run(work.set_mesh(MeshPolicy::Off)).unwrap();
    daemon.run(work.set_mesh(MeshPolicy::On)).unwrap();
    assert_eq!(place(&daemon, &work), None);
    daemon.run(work.close(Cause::SessionRemoved)).unwrap();
    assert_eq!(bring(&daemon, &work, 3), Taken::Closed);
    let work = daemon.run(daemon.sessions.revive("s")).unwrap();
    assert_eq!((work.mesh(), bring(&daemon, &work, 3)), (MeshPolicy::On, Taken::Queued(2)));
    assert_eq!(prompts(&daemon), [2, 3]);
    daemon.end();
}

#[test]
fn half_of_the_queue_is_for_letters_and_nothing_is_half_taken() {
    let house = TestHouse::new();
    // Room for three that wait.
    let daemon = Daemon::start(&house, options(claude("*hold*) init; sleep 600;;")));
    let work = session(&daemon, &house, MeshPolicy::On);
    daemon.run(work.send(support::sessions::prompt("hold"))).unwrap();
    let taken: Vec<Taken> = (1..=4).map(|number| bring(&daemon, &work, number)).collect();
    assert_eq!(taken, [Taken::Queued(2), Taken::Queued(3), Taken::Full, Taken::Full]);
    assert_eq!(place(&daemon, &work).as_deref(), Some("place-002"));
    assert_eq!(bring(&daemon, &work, 2), Taken::Known, "what was taken needs no room");
    daemon.run(work.send(support::sessions::prompt("a person's"))).unwrap();
    daemon.run(work.interrupt(Scope::Running, Cause::ClientRpc));
    daemon.run(until_idle(&work));
    // The disk refuses: nothing of it is there.
    daemon.refuse_writes(true);
    assert!(daemon.run(work.take_letter(letter(3), "place-003".to_owned())).is_err());
    daemon.refuse_writes(false);
    assert_eq!((prompts(&daemon), place(&daemon, &work).as_deref()), (vec![1, 2], Some("place-002")));
    assert_eq!(bring(&daemon, &work, 3), Taken::Queued(5));
    // One that is too long is noted and left alone.
    let long = Letter { text: "x".repeat(300 << 10), ..letter(4) };
    assert_eq!(daemon.run(work.take_letter(long, "place-004".to_owned())).unwrap(), Taken::TooLong);
    assert_eq!((bring(&daemon, &work, 4), place(&daemon, &work).as_deref()), (Taken::Known, Some("place-004")));
    daemon.run(until_idle(&work));
    assert_eq!(prompts(&daemon), [1, 2, 3]);
    daemon.end();
}

#[test]
fn what_was_agreed_to_becomes_a_prompt_once_whenever_the_daemon_vanishes() {
    let house = TestHouse::new();
    let daemon = Daemon::start(&house, options(claude("")));
    let work = session(&daemon, &house, MeshPolicy::Ask);
    let Taken::Asked(first) = bring(&daemon, &work, 1) else { panic!("not asked") };
    assert_eq!(bring(&daemon, &work, 1), Taken::Known, "it is asked about once");
    let asked = daemon.run(question(&daemon.approvals));
    assert_eq!((asked.id.as_str(), asked.kind, asked.session.as_str()), (first.as_str(), Kind::Letter, ""));
    assert_eq!(asked.requester.session, "s");
    let Subject::Letter { letter: shown, .. } = &asked.subject else { panic!("{asked:?}") };
    assert_eq!(*shown, letter(1));
    assert!(prompts(&daemon).is_empty());
    daemon.vanish();

    // Asked before it vanished, decided after.
    let mut daemon = Daemon::start(&house, options(claude("")));
    daemon.run(daemon.approvals.decide(&first, Decision::AllowOnce, &a_person())).unwrap();
    wait_prompts(&daemon, &[1]);
    // Decided right before it vanishes: the next one finds it, or it is done already.
    for number in 2..12 {
        let work = daemon.sessions.get("s").unwrap();
        let Taken::Asked(request) = bring(&daemon, &work, number) else { panic!("not asked") };
        daemon.run(daemon.approvals.decide(&request, Decision::AllowOnce, &a_person())).unwrap();
        daemon.vanish();
        daemon = Daemon::start(&house, options(claude("")));
        wait_prompts(&daemon, &(1..=number).collect::<Vec<_>>());
    }
    daemon.end();
}

#[test]
fn a_letter_goes_to_nobody_but_the_session_that_was_shown() {
    let house = TestHouse::new();
    let daemon = Daemon::start(&house, options(claude("")));
    let work = session(&daemon, &house, MeshPolicy::Ask);
    let Taken::Asked(request) = bring(&daemon, &work, 1) else { panic!("not asked") };
    let other =
        NewSession { mesh: Some(MeshPolicy::Ask), ..new_session("other", "script", Hosting::Warm, house.path()) };
    drop(daemon.run(daemon.sessions.create(other)).unwrap());
    drop(work);
    daemon.vanish();
    let database = rusqlite::Connection::open(house.path().join("state.db")).unwrap();
    let moved = database.execute("UPDATE mail SET session = (SELECT no FROM sessions WHERE id = 'other')", []);
    assert_eq!(moved.unwrap(), 1);
    let daemon = Daemon::start(&house, options(claude("")));
    daemon.run(daemon.approvals.decide(&request, Decision::AllowOnce, &a_person())).unwrap();
    let state = async || database.query_row("SELECT state FROM mail", [], |row| row.get::<_, String>(0)).unwrap();
    daemon.run(until("the letter to be done with", state, |state| state == "declined"));
    assert!(daemon.run(daemon.sessions.turns("other")).unwrap().is_empty());
    daemon.end();
}

#[test]
fn what_nobody_agreed_to_stays_in_the_mailbox() {
    let house = TestHouse::new();
    let daemon = Daemon::start(&house, options(claude("")));
    let work = session(&daemon, &house, MeshPolicy::Ask);
    let Taken::Asked(denied) = bring(&daemon, &work, 1) else { panic!("not asked") };
    let Taken::Asked(withdrawn) = bring(&daemon, &work, 2) else { panic!("not asked") };
    let refuse = Decision::Reject(String::new());
    daemon.run(daemon.approvals.decide(&denied, refuse, &a_person())).unwrap();
    // Nobody is asked any more once messages are not wanted, and what comes too late counts for nothing.
    daemon.run(work.set_mesh(MeshPolicy::Off)).unwrap();
    let found = daemon.run(daemon.approvals.get(&withdrawn)).unwrap().unwrap();
    assert_eq!(found.state, State::Withdrawn);
    assert!(daemon.run(daemon.approvals.decide(&withdrawn, Decision::AllowOnce, &a_person())).is_err());
    daemon.run(work.set_mesh(MeshPolicy::Ask)).unwrap();
    assert_eq!((bring(&daemon, &work, 1), bring(&daemon, &work, 2)), (Taken::Known, Taken::Known));
    // As many as may wait, and no more.
    let taken: Vec<Taken> = (10..30).map(|number| bring(&daemon, &work, number)).collect();
    let asked = taken.iter().filter(|taken| matches!(taken, Taken::Asked(_))).count();
    assert_eq!((asked, &taken[16]), (16, &Taken::Full));
    assert!(prompts(&daemon).is_empty());
    // What was agreed to while the session is closed waits until it is brought back.
    let Taken::Asked(agreed) = &taken[0] else { panic!("not asked") };
    daemon.run(work.close(Cause::SessionRemoved)).unwrap();
    daemon.run(daemon.approvals.decide(agreed, Decision::AllowOnce, &a_person())).unwrap();
    daemon.run(daemon.sessions.revive("s")).unwrap();
    wait_prompts(&daemon, &[10]);
    // A session that is deleted leaves nothing that could run.
    let Taken::Asked(left) = &taken[1] else { panic!("not asked") };
    daemon.run(daemon.sessions.delete("s")).unwrap();
    daemon.run(daemon.approvals.decide(left, Decision::AllowOnce, &a_person())).unwrap();
    assert!(daemon.run(daemon.sessions.turns("s")).unwrap().is_empty());
    daemon.end();
}

#[test]
fn addresses_are_never_shared() {
    let house = TestHouse::new();
    let daemon = Daemon::start(&house, options(claude("")));
    let make = |id: &str, name: Option<&str>| {
        let name = name.map(str::to_owned);
        let new = NewSession { name, ..new_session(id, "echo", Hosting::Warm, house.path()) };
        daemon.run(daemon.sessions.create(new)).unwrap()
    };
    let first = make("one", Some("Fix CI"));
    let second = make("two", Some("fix/ci"));
    let third = make("3fa2c9d1-0000-4000-8000-000000000000", None);
    assert_eq!([first.address(), second.address(), third.address()], ["fix-ci", "fix-ci-2", "3fa2c9d1"]);
    // One that is closed keeps its own, one that is deleted gives it free.
    daemon.run(first.close(Cause::SessionRemoved)).unwrap();
    assert_eq!(make("four", Some("fix-ci")).address(), "fix-ci-3");
    daemon.run(daemon.sessions.delete("one")).unwrap();
    assert_eq!(make("five", Some("fix-ci")).address(), "fix-ci");
    daemon.run(second.set_name(Some("review".to_owned()))).unwrap();
    assert_eq!((second.address().as_str(), second.info().address.as_str()), ("review", "review"));
    daemon.vanish();
    let daemon = Daemon::start(&house, options(claude("")));
    assert_eq!(daemon.sessions.get("two").unwrap().address(), "review");
    daemon.end();
}

/// A rule that was made for agents' tools lets no letter through.
#[test]
fn rules_have_to_name_the_mesh() {
    let rule = |requester: Option<&str>| Rule {
        name: "any".to_owned(),
        action: Action::Allow,
        requester: requester.map(|text| Glob::new(text).unwrap()),
        session: None,
        cwd: None,
        tool: None,
        argv: None,
        env: None,
        privileged: None,
    };
    for (requester, through) in [(None, false), (Some("alice"), false), (Some("mesh"), true)] {
        let house = TestHouse::new();
        let daemon = Daemon::start_with_rules(&house, options(claude("")), vec![rule(requester)]);
        let work = session(&daemon, &house, MeshPolicy::Ask);
        let Taken::Asked(request) = bring(&daemon, &work, 1) else { panic!("not asked") };
        let found = daemon.run(daemon.approvals.get(&request)).unwrap().unwrap();
        match through {
            true => wait_prompts(&daemon, &[1]),
            false => assert_eq!(found.state, State::Pending, "{requester:?}"),
        }
        daemon.end();
    }
}
