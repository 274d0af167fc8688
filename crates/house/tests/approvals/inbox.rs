//! One request after the other: every transition once, whatever races.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::{
    Approval, Claim, DecideError, Face, Kind, Life, NewRequest, RequestError, RunState, State, Subject,
};
use hostel_house::pipelines::{End, Outcome, Privilege};
use hostel_syncpoint::SyncPoint;

use super::house::{
    House, KEEPER, command, connected, finished, pipeline, request, root_command, terminal, with_passphrase,
};
use crate::support::sessions::hold_writer;
use crate::support::until;

const FLAVOUR: &str = "a person";

/// Whatever is tried once it is settled changes nothing.
async fn stays(house: &House, id: &str, state: State) {
    for decision in [Decision::AllowOnce, Decision::AllowAlways, Decision::Reject(FLAVOUR.to_owned())] {
        let refused = house.approvals.decide(id, decision, &terminal()).await;
        assert!(matches!(refused, Err(DecideError::Settled(found)) if found == state), "{refused:?}");
    }
    assert!(!house.approvals.withdraw_request(id, "again").await.unwrap());
    house.approvals.shown(id).await.unwrap();
    assert_eq!(house.get(id).await.state, state);
    assert_eq!(house.settled(id).await.state, state);
    assert!(house.approvals.pending().iter().all(|approval| approval.id != id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_stored_as_it_is_shown() {
    let house = House::new().await;
    let asked = house.ask(root_command(&["apt", "install", "nginx"])).await;
    assert_eq!((asked.state, asked.kind, asked.run), (State::Pending, Kind::Privileged, RunState::None));
    assert!(asked.runs.is_empty() && asked.keeper.is_none());
    let found = house.get(&asked.id).await;
    let expected = Subject::Pipeline(pipeline(&[&["apt", "install", "nginx"]], Privilege::Sudo));
    assert_eq!((&found.subject, found.digest), (&expected, asked.digest));
    assert_eq!((found.reason.as_str(), found.summary.as_str()), ("because", "something"));
    assert_eq!(found.requester.session, "alpha");
    assert_eq!((found.session.as_str(), found.tool.as_str()), ("", "privileged_pipeline"));
    assert_eq!(house.approvals.pending().len(), 1);
    assert_eq!(house.records(&asked.id).await, ["requested"]);
    assert_eq!(house.verified().await, 1 + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_once() {
    let house = House::new().await;
    let asked = house.ask(request(Subject::Pipeline(pipeline(&[&["a"], &["b"]], Privilege::None)))).await;
    let mut changed = house.approvals.changed();
    changed.mark_unchanged();
    let approved = house.approve(&asked.id).await.unwrap();
    assert!(changed.has_changed().unwrap());
    assert_eq!((approved.state, approved.run), (State::Approved, RunState::Due));
    assert_eq!(approved.runs.len(), 2);
    assert_ne!(approved.runs[0], approved.runs[1]);
    assert_eq!(approved.keeper, Some(KEEPER));
    assert_eq!((approved.decider.as_str(), approved.rule.as_str()), ("the terminal", ""));
    let found = house.get(&asked.id).await;
    assert_eq!((found.runs, found.keeper, found.run), (approved.runs, Some(KEEPER), RunState::Due));
    stays(&house, &asked.id, State::Approved).await;
    assert_eq!(house.records(&asked.id).await, ["requested", "decided"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_once() {
    let house = House::new().await;
    let asked = house.ask(root_command(&["true"])).await;
    let denied = house.deny(&asked.id).await.unwrap();
    assert_eq!((denied.state, denied.run, denied.runs.len()), (State::Denied, RunState::None, 0));
    stays(&house, &asked.id, State::Denied).await;
    assert_eq!(house.records(&asked.id).await, ["requested", "decided"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_once() {
    let house = House::new().await;
    let asked = house.ask(command(&["true"])).await;
    assert!(house.approvals.withdraw_request(&asked.id, "it left").await.unwrap());
    stays(&house, &asked.id, State::Withdrawn).await;
    assert_eq!(house.records(&asked.id).await, ["requested", "withdrawn"]);
    assert!(!house.approvals.withdraw_request("nothing", "").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_once() {
    let house = House::new().await;
    let life = Life::Fixed(Duration::from_millis(30));
    let asked = house.ask(NewRequest { life, ..command(&["true"]) }).await;
    assert_eq!(house.settled(&asked.id).await.state, State::Expired);
    stays(&house, &asked.id, State::Expired).await;
    assert_eq!(house.records(&asked.id).await, ["requested", "expired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_is_none_though_nobody_has_heard_the_clock() {
    let house = House::new().await;
    let life = Life::Fixed(Duration::from_millis(300));
    let asked = house.ask(NewRequest { life, ..command(&["true"]) }).await;
    // The answer stands in line, before whatever the clock writes, until its time is over.
    let held = hold_writer(&house.store).await;
    let mut late = pin!(house.approve(&asked.id));
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it was done at once");
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    until("its time is over", async || now(), |now| now.as_nanos() > u128::from(asked.expires_ns)).await;
    drop(held);
    let late = late.await;
    assert!(matches!(late, Err(DecideError::Settled(State::Expired))), "{late:?}");
    stays(&house, &asked.id, State::Expired).await;
    assert_eq!(house.records(&asked.id).await, ["requested", "expired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_fifty_deciders_wins() {
    let house = House::new().await;
    for _ in 0..5 {
        let asked = house.ask(command(&["true"])).await;
        let mut deciders = tokio::task::JoinSet::new();
        for number in 0..50 {
            let (approvals, id) = (house.approvals.clone(), asked.id.clone());
            deciders.spawn(async move {
                let decision = match number % 3 {
                    0 => Decision::Reject(String::new()),
                    1 => Decision::AllowAlways,
                    _ => Decision::AllowOnce,
                };
                approvals.decide(&id, decision, &terminal()).await
            });
        }
        let outcomes = deciders.join_all().await;
        let won: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        assert_eq!(won.len(), 1);
        let state = won[0].state;
        for lost in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(matches!(lost, DecideError::Settled(found) if *found == state), "{lost:?}");
        }
        assert_eq!(house.get(&asked.id).await.state, state);
        assert_eq!(house.records(&asked.id).await, ["requested", "decided"]);
    }
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deciding_leaving_and_the_clock_race_and_one_wins() {
    let house = House::new().await;
    let mut races = tokio::task::JoinSet::new();
    for number in 0..60 {
        let approvals = house.approvals.clone();
        races.spawn(async move {
            // Around the time all of this takes.
            let life = Life::Fixed(Duration::from_micros(number * 300));
            let asked = approvals.request(NewRequest { life, ..command(&["true"]) }).await.unwrap();
            let claim = terminal();
            let (decided, left) = tokio::join!(
                approvals.decide(&asked.id, Decision::AllowOnce, &claim),
                approvals.withdraw_request(&asked.id, "it left")
            );
            let settled = approvals.settled(&asked.id).await.unwrap();
            match settled.state {
                State::Approved => assert!(decided.is_ok() && !left.unwrap()),
                State::Withdrawn => assert!(decided.is_err() && left.unwrap()),
                State::Expired => assert!(decided.is_err() && !left.unwrap()),
                other => panic!("{other:?}"),
            }
            asked.id
        });
    }
    for id in races.join_all().await {
        assert_eq!(house.records(&id).await.len(), 2);
    }
    assert!(house.approvals.pending().is_empty());
    house.verified().await;
}

/// Asks once whether something is done, and leaves. Nothing is done before that: the database is held meanwhile.
async fn begin_and_leave<T>(house: &House, work: impl Future<Output = T>) {
    let _held = hold_writer(&house.store).await;
    let mut work = pin!(work);
    assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it was done at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_counts_though_the_decider_has_left() {
    let house = House::new().await;
    let asked = house.ask(command(&["true"])).await;
    begin_and_leave(&house, house.approve(&asked.id)).await;
    assert_eq!(house.settled(&asked.id).await.state, State::Approved);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_while_it_asks_has_withdrawn() {
    let house = House::with(|options| {
        options.rules = vec![super::house::rule("yes", hostel_house::approvals::Action::Allow, &["granted"])];
    })
    .await;
    begin_and_leave(&house, house.approvals.request(command(&["true"]))).await;
    begin_and_leave(&house, house.approvals.request(command(&["granted"]))).await;
    let over = |approval: &Approval| approval.state == State::Withdrawn || approval.run == RunState::Over;
    // What is on disk is taken off the table a moment later.
    let found = async || (house.approvals.list(10).await.unwrap(), house.approvals.pending());
    let both_over =
        |(all, pending): &(Vec<Approval>, Vec<Approval>)| all.len() == 2 && all.iter().all(over) && pending.is_empty();
    let (all, _) = until("both are over", found, both_over).await;
    let run = all.iter().find(|approval| approval.state == State::Approved).unwrap();
    assert!(matches!(run.outcome, Some(Outcome { end: End::NotRun { .. }, .. })), "{run:?}");
    assert_eq!(house.records(&run.id).await, ["requested", "decided", "not_run"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn carried_out_once() {
    let house = House::new().await;
    let asked = house.ask(command(&["true"])).await;
    // Nothing is carried out that nobody approved.
    house.approvals.record_started(&asked.id).await.unwrap();
    house.approvals.record_outcome(&asked.id, &finished(0)).await.unwrap();
    assert_eq!(house.records(&asked.id).await, ["requested"]);
    house.approve(&asked.id).await.unwrap();
    assert_eq!(house.approvals.unfinished().len(), 1);
    for _ in 0..2 {
        house.approvals.record_started(&asked.id).await.unwrap();
    }
    assert_eq!(house.get(&asked.id).await.run, RunState::Started);
    for code in [3, 4] {
        house.approvals.record_outcome(&asked.id, &finished(code)).await.unwrap();
    }
    let over = house.get(&asked.id).await;
    assert_eq!((over.run, over.outcome), (RunState::Over, Some(finished(3))));
    assert!(house.approvals.unfinished().is_empty());
    assert_eq!(house.records(&asked.id).await, ["requested", "decided", "started", "finished"]);
    let records = house.approvals.audit().show(0, 10).await.unwrap();
    assert_eq!(records[4].body["exit_codes"], serde_json::json!([3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_and_too_much_are_refused() {
    let house = House::with(|options| {
        options.max_pending = 3;
        options.max_size = 2000;
    })
    .await;
    let words = "x".repeat(2000);
    let large = house.approvals.request(command(&["echo", &words])).await;
    assert!(matches!(large, Err(RequestError::TooLarge { limit: 2000, .. })), "{large:?}");
    let mut first = String::new();
    for _ in 0..3 {
        first = house.ask(command(&["true"])).await.id;
    }
    let full = house.approvals.request(command(&["true"])).await;
    assert!(matches!(full, Err(RequestError::Full(3))), "{full:?}");
    house.deny(&first).await.unwrap();
    house.ask(command(&["true"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_come_back_when_the_disk_refuses() {
    let house = House::with(|options| options.max_pending = 2).await;
    let refuse = "CREATE TEMP TRIGGER refuse BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no room'); END";
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
    for _ in 0..5 {
        let refused = house.approvals.request(command(&["true"])).await;
        assert!(matches!(refused, Err(RequestError::Store(_))), "{refused:?}");
    }
    // A request without its record is no request.
    assert!(house.approvals.list(10).await.unwrap().is_empty());
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    let asked = house.ask(command(&["true"])).await;
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
    assert!(matches!(house.approve(&asked.id).await, Err(DecideError::Store(_))));
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    assert_eq!(house.approve(&asked.id).await.unwrap().state, State::Approved);
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_tampered_with_on_disk_is_nothing_anybody_agreed_to() {
    let house = House::new().await;
    let asked = house.ask(command(&["true"])).await;
    house.approve(&asked.id).await.unwrap();
    let id = asked.id.clone();
    let work = move |transaction: &rusqlite::Transaction<'_>| {
        transaction.execute("UPDATE approvals SET subject = replace(subject, 'true', 'evil') WHERE id = ?", [id])
    };
    assert_eq!(house.store.write(SyncPoint::NONE, work).await.unwrap(), 1);
    assert_eq!(house.get(&asked.id).await.state, State::Denied);
    // What waits is told as the house knows it, and denied by whoever would settle it.
    let tool = Subject::Tool { tool: "Read".to_owned(), input: hostel_agents::Raw::null() };
    for (new, tampered) in [
        (command(&["true"]), "digest = x''"),
        (request(tool.clone()), "tool = 'Edit'"),
        (request(tool), "digest = x'00'"),
    ] {
        let asked = house.ask(new).await;
        let (id, sql) = (asked.id.clone(), format!("UPDATE approvals SET {tampered} WHERE id = ?"));
        let work = move |transaction: &rusqlite::Transaction<'_>| transaction.execute(&sql, [id]);
        assert_eq!(house.store.write(SyncPoint::NONE, work).await.unwrap(), 1);
        let known = house.get(&asked.id).await;
        assert_eq!((known.subject, known.digest), (asked.subject, asked.digest), "{tampered}");
        let claim = Claim { face: Face::Socket, ..terminal() };
        let claim = if known.kind == Kind::Tool { claim } else { terminal() };
        let refused = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
        assert!(
            matches!(&refused, Err(DecideError::Refused(why)) if why.contains("was changed")),
            "{tampered}: {refused:?}"
        );
        assert_eq!(house.get(&asked.id).await.state, State::Denied, "{tampered}");
        assert_eq!(house.records(&asked.id).await, ["requested", "tampered", "decided"], "{tampered}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settled_requests_are_kept_as_far_as_wanted_and_the_audit_keeps_all() {
    let house = House::with(|options| {
        options.keep = 20;
        // Nothing else makes the clock look again so soon.
        options.rejoin = Duration::ZERO;
        options.rules = vec![super::house::rule("yes", hostel_house::approvals::Action::Allow, &["true"])];
    })
    .await;
    let waiting = house.ask(command(&["other"])).await;
    let unfinished = house.ask(command(&["true"])).await;
    let mut many = tokio::task::JoinSet::new();
    let connected = house.ask(connected("remembered", &["true"])).await;
    // The disk does not take it at first.
    let refuse = "CREATE TEMP TRIGGER refuse BEFORE DELETE ON approvals BEGIN SELECT RAISE(ABORT, 'no room'); END";
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
    house.approvals.record_outcome(&connected.id, &finished(0)).await.unwrap();
    for _ in 0..300 {
        let approvals = house.approvals.clone();
        many.spawn(async move {
            let granted = approvals.request(command(&["true"])).await.unwrap();
            approvals.record_outcome(&granted.id, &finished(0)).await.unwrap();
        });
    }
    many.join_all().await;
    assert_eq!(house.approvals.list(1000).await.unwrap().len(), 303);
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    // Trimmed in the background, once in a while.
    let found = async || house.approvals.list(1000).await.unwrap();
    let kept = until("some are forgotten", found, |kept| kept.len() < 300).await;
    // What waits, what is not over, and what somebody may try to replay.
    for id in [&waiting.id, &unfinished.id, &connected.id] {
        assert!(kept.iter().any(|approval| approval.id == *id));
    }
    // Each outcome here is recorded with the start, which nobody has recorded before.
    assert_eq!(house.verified().await, 1 + 1 + 2 + 301 * 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_no_command() {
    let house = House::new().await;
    let subject = Subject::Question { text: "May I?".to_owned(), details: "a lot".to_owned() };
    let asked = house.ask(request(subject.clone())).await;
    assert_eq!((asked.kind, asked.tool.as_str()), (Kind::Question, "question"));
    assert!(matches!(house.approve(&asked.id).await, Err(DecideError::Refused(_))));
    let without = house.approvals.decide(&asked.id, Decision::AllowOnce, &with_passphrase("none is set")).await;
    assert!(matches!(without, Err(DecideError::NoPassphraseSet)), "{without:?}");
    assert_eq!(house.get(&asked.id).await.subject, subject);
    let command = house.ask(command(&["true"])).await;
    let answers = house.approvals.decide(&command.id, Decision::Answers(Vec::new()), &terminal()).await;
    assert!(matches!(answers, Err(DecideError::Refused(_))), "{answers:?}");
    assert!(matches!(house.approve("nothing").await, Err(DecideError::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_settles_on_disk_is_denied_and_the_others_wait() {
    let house = House::new().await;
    let (asked, other) = (house.ask(command(&["true"])).await, house.ask(command(&["false"])).await);
    let id = asked.id.clone();
    let work = move |transaction: &rusqlite::Transaction<'_>| {
        transaction.execute("UPDATE approvals SET state = 'denied' WHERE id = ?", [id])
    };
    assert_eq!(house.store.write(SyncPoint::NONE, work).await.unwrap(), 1);
    let late = house.approve(&asked.id).await;
    assert!(matches!(&late, Err(DecideError::Refused(why)) if why.contains("was changed")), "{late:?}");
    assert_eq!(house.get(&asked.id).await.state, State::Denied);
    let waiting: Vec<String> = house.approvals.pending().into_iter().map(|one| one.id).collect();
    assert_eq!(waiting, std::slice::from_ref(&other.id));
    assert_eq!(house.approve(&other.id).await.unwrap().state, State::Approved);
}
