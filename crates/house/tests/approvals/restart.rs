//! Our own restarts: what waits, waits on; who was cut off may come back; nothing runs twice.

use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::{ApprovalOptions, DecideError, RunState, State};
use hostel_house::pipelines::{End, Outcome};
use hostel_peer::PeerInfo;
use hostel_syncpoint::SyncPoint;

use super::house::{House, asker, command, connected, finished, line, terminal};
use crate::support::within;

/// Long enough that nothing of the test is cut off by it.
fn patient(options: &mut ApprovalOptions) {
    options.rejoin = Duration::from_secs(60);
}

fn hasty(options: &mut ApprovalOptions) {
    options.rejoin = Duration::from_millis(50);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_that_belong_to_nobodys_connection_are_all_there_and_each_is_answered_once() {
    let house = House::new().await;
    let mut asked = Vec::new();
    for _ in 0..20 {
        asked.push(house.ask(command(&["true"])).await);
    }
    let house = house.restart_with(hasty).await;
    let pending = house.approvals.pending();
    assert_eq!(
        pending.iter().map(|one| &one.id).collect::<Vec<_>>(),
        asked.iter().map(|one| &one.id).collect::<Vec<_>>()
    );
    for (before, after) in asked.iter().zip(&pending) {
        assert_eq!(
            (before.digest, before.expires_ns, &before.subject),
            (after.digest, after.expires_ns, &after.subject)
        );
        house.approve(&after.id).await.unwrap();
        assert!(matches!(house.approve(&after.id).await, Err(DecideError::Settled(State::Approved))));
    }
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_whose_clients_come_back_are_each_taken_up_once() {
    let house = House::new().await;
    for number in 0..20 {
        house.ask(connected(&format!("request {number}"), &["true"])).await;
    }
    let house = house.restart_with(patient).await;
    assert_eq!(house.approvals.pending().len(), 20);
    for number in 0..20 {
        let id = format!("request {number}");
        // Other bytes under the same id are a duplicate, and the orphan stays.
        assert!(house.approvals.rejoin("sudo-proxy", &id, &[0; 32], Some(&asker())).is_none());
        assert!(house.approvals.rejoin("other", &id, &line(&id), Some(&asker())).is_none());
        // Nor does another process get it, or one that took over the number of the first, or one that is not known.
        let [other, later, root] =
            [PeerInfo { pid: 4712, ..asker() }, PeerInfo { started: 816, ..asker() }, PeerInfo { uid: 0, ..asker() }];
        for peer in [Some(&other), Some(&later), Some(&root), None] {
            assert!(house.approvals.rejoin("sudo-proxy", &id, &line(&id), peer).is_none(), "{peer:?}");
        }
        assert!(house.approvals.is_orphan("sudo-proxy", &id));
        let back = house.approvals.rejoin("sudo-proxy", &id, &line(&id), Some(&asker())).unwrap();
        assert!(house.approvals.rejoin("sudo-proxy", &id, &line(&id), Some(&asker())).is_none());
        assert!(!house.approvals.is_orphan("sudo-proxy", &id));
        assert_eq!(back.state, State::Pending);
        assert_eq!(house.approve(&back.id).await.unwrap().state, State::Approved);
    }
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_come_back_has_withdrawn() {
    let house = House::new().await;
    let gone = house.ask(connected("gone", &["true"])).await;
    let stays = house.ask(command(&["true"])).await;
    let house = house.restart_with(hasty).await;
    assert_eq!(house.settled(&gone.id).await.state, State::Withdrawn);
    assert!(house.approvals.rejoin("sudo-proxy", "gone", &line("gone"), Some(&asker())).is_none());
    assert_eq!(house.get(&stays.id).await.state, State::Pending);
    assert_eq!(house.records(&gone.id).await, ["requested", "withdrawn"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn coming_back_and_the_end_of_patience_race_and_one_wins() {
    for round in 0..20 {
        let house = House::new().await;
        let asked = house.ask(connected("r", &["true"])).await;
        let house = house.restart_with(|options| options.rejoin = Duration::from_millis(round)).await;
        let back = within("either", async {
            // As soon as either has happened.
            loop {
                if let Some(back) = house.approvals.rejoin("sudo-proxy", "r", &line("r"), Some(&asker())) {
                    return Some(back);
                }
                if house.approvals.pending().is_empty() {
                    return None;
                }
                tokio::task::yield_now().await;
            }
        });
        match back.await {
            Some(back) => {
                assert_eq!((back.id.as_str(), back.state), (asked.id.as_str(), State::Pending));
                assert_eq!(house.approve(&asked.id).await.unwrap().state, State::Approved);
            }
            None => assert_eq!(house.get(&asked.id).await.state, State::Withdrawn),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_and_the_end_of_patience_race_and_what_was_approved_is_told_of() {
    for round in 0..8 {
        let house = House::new().await;
        let mut asked = Vec::new();
        for number in 0..40 {
            asked.push(house.ask(connected(&format!("r {number}"), &["true"])).await.id);
        }
        let house = house.restart_with(|options| options.rejoin = Duration::from_millis(5 + round)).await;
        let mut deciding = tokio::task::JoinSet::new();
        for id in asked {
            let approvals = house.approvals.clone();
            deciding.spawn(async move { approvals.decide(&id, Decision::AllowOnce, &terminal()).await });
        }
        let decided = deciding.join_all().await;
        let mut approved: Vec<String> = decided.into_iter().flatten().map(|approval| approval.id).collect();
        let told = within("what was approved, and nobody is there for, to be told of", async {
            while !approved.is_empty() {
                for one in house.approvals.abandoned().await {
                    approved.retain(|id| *id != one.id);
                }
            }
        });
        told.await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decided_while_its_client_was_away() {
    let house = House::new().await;
    for id in ["yes", "no", "nobody"] {
        house.ask(connected(id, &[id])).await;
    }
    let house = house.restart_with(patient).await;
    for approval in house.approvals.pending() {
        match approval.subject.pipeline().unwrap().stages[0].argv[0].as_str() {
            "yes" => drop(house.approve(&approval.id).await.unwrap()),
            "no" => drop(house.deny(&approval.id).await.unwrap()),
            _ => {}
        }
    }
    let back = |id: &str| house.approvals.rejoin("sudo-proxy", id, &line(id), Some(&asker())).unwrap();
    let approved = back("yes");
    assert_eq!((approved.state, approved.run, approved.runs.len()), (State::Approved, RunState::Due, 1));
    assert_eq!(back("no").state, State::Denied);
    assert_eq!(back("nobody").state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_and_not_known_to_be_over_is_taken_up_or_told_of() {
    let house = House::new().await;
    let mut ids = Vec::new();
    for name in ["due", "started", "over", "taken"] {
        let asked = house.ask(connected(name, &[name])).await;
        house.approve(&asked.id).await.unwrap();
        ids.push(asked.id);
    }
    let plain = house.ask(command(&["plain"])).await;
    house.approve(&plain.id).await.unwrap();
    house.approvals.record_started(&ids[1]).await.unwrap();
    house.approvals.record_outcome(&ids[2], &finished(7)).await.unwrap();
    let runs = house.get(&ids[0]).await.runs;
    // Two come back in this time, and the others do not.
    let house = house.restart_with(|options| options.rejoin = Duration::from_secs(3)).await;
    let taken = house.approvals.rejoin("sudo-proxy", "taken", &line("taken"), Some(&asker())).unwrap();
    assert_eq!((taken.state, taken.run), (State::Approved, RunState::Due));
    // Its answer may never have arrived.
    let over = house.approvals.rejoin("sudo-proxy", "over", &line("over"), Some(&asker())).unwrap();
    assert_eq!((over.run, over.outcome), (RunState::Over, Some(finished(7))));
    assert_eq!(house.approvals.unfinished().len(), 4);
    let mut told = within("what nobody came back for", house.approvals.abandoned()).await;
    told.sort_by_key(|approval| approval.created_ns);
    assert_eq!(
        told.iter().map(|one| (one.id.as_str(), one.run)).collect::<Vec<_>>(),
        [(ids[0].as_str(), RunState::Due), (ids[1].as_str(), RunState::Started), (plain.id.as_str(), RunState::Due)]
    );
    assert_eq!(told[0].runs, runs);
    // Nobody takes it up any more once it was told of.
    assert!(house.approvals.rejoin("sudo-proxy", "due", &line("due"), Some(&asker())).is_none());
    let not_run =
        Outcome { end: End::NotRun { why: "nobody came back".to_owned() }, stages: Vec::new(), ..finished(0) };
    let killed = Outcome { end: End::Killed { why: "nobody came back".to_owned() }, ..finished(0) };
    for (one, outcome) in told.iter().zip([&not_run, &killed, &killed]) {
        house.approvals.record_outcome(&one.id, outcome).await.unwrap();
    }
    assert_eq!(house.records(&ids[0]).await, ["requested", "decided", "not_run"]);
    assert_eq!(house.records(&ids[1]).await, ["requested", "decided", "started", "finished"]);
    // The outcome tells of a command that was started: that is recorded as well, where its daemon could not do it.
    assert_eq!(house.records(&plain.id).await, ["requested", "decided", "started", "finished"]);
    let records = house.approvals.audit().show(0, 10_000).await.unwrap();
    let found = |id: &str| records.iter().any(|record| record.approval == id && record.body["found"] == true);
    assert!(found(&plain.id) && !found(&ids[1]));
    let house = house.restart_with(hasty).await;
    assert_eq!(house.approvals.unfinished().len(), 1);
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_known_after_a_restart() {
    let house = House::new().await;
    for id in ["a", "b"] {
        house.ask(connected(id, &["true"])).await;
    }
    let house = house.restart_with(hasty).await;
    let recent = house.approvals.recent_requests("sudo-proxy", 0).await.unwrap();
    assert_eq!(recent.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    let since = recent[1].1;
    assert_eq!(house.approvals.recent_requests("sudo-proxy", since).await.unwrap().len(), 1);
    assert!(house.approvals.recent_requests("mcp", 0).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_no_text_is_reported_and_hides_no_other() {
    let house = House::new().await;
    for id in ["a", "b"] {
        house.ask(connected(id, &["true"])).await;
    }
    let house = house.restart_with(hasty).await;
    let database = rusqlite::Connection::open(house.database()).unwrap();
    database.execute("UPDATE approvals SET request = CAST(x'ff' AS TEXT) WHERE request = 'a'", []).unwrap();
    let recent = house.approvals.recent_requests("sudo-proxy", 0).await.unwrap();
    assert_eq!(recent.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["b"]);
    let alarms = house.approvals.alarms();
    assert!(alarms.iter().any(|alarm| alarm.text.contains("cannot be read (1)")), "{alarms:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_rules_after_a_restart_decide_nothing_that_waits() {
    let house = House::new().await;
    let asked = house.ask(command(&["true"])).await;
    let house = house
        .restart_with(|options| {
            options.rules = vec![super::house::rule("yes", hostel_house::approvals::Action::Allow, &["true"])];
        })
        .await;
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
    assert_eq!(house.ask(command(&["true"])).await.state, State::Approved);
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_refuses_is_asked_again() {
    let house = House::new().await;
    let gone = house.ask(connected("gone", &["true"])).await;
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON approvals BEGIN SELECT RAISE(ABORT, 'no room'); END";
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
    let house = house.restart_with(|options| options.rejoin = Duration::ZERO).await;
    // Not withdrawn on disk is not withdrawn.
    assert_eq!(house.get(&gone.id).await.state, State::Pending);
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    assert_eq!(house.settled(&gone.id).await.state, State::Withdrawn);
}
