//! Shared state and tasks between real daemons and a real broker: lost answers, keys that change, those who come later.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use std::time::Duration;

use hostel_broker::registry::By;
use hostel_mesh::events::EventFilter;
use hostel_mesh::{
    Caller, Ending, InviteRequest, MemberAction, NewTask, StateChange, StateItem, StateList, StateWritten, TaskQuery,
    TaskStep, TaskStepRequest,
};
use hostel_wire::frames::shared::{Boxed, StateSet, TaskCreate};
use hostel_wire::{Clock, encoding, ids};
use link_support::{Host, TestBroker, holds, hosts, join, quick, soon, until};
use serde_json::{Value, json};

fn change(key: &str, value: Value) -> StateChange {
    StateChange { key: key.to_owned(), value: Some(value), ..StateChange::default() }
}

async fn set(host: &Host, key: &str, value: Value) -> StateWritten {
    host.mesh.state_set(change(key, value)).await.unwrap()
}

async fn get(host: &Host, key: &str) -> StateItem {
    host.mesh.state_get(key).await.unwrap()
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_is_made_once() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    let first = set(&alice, "counter", json!(1)).await;
    alice.net.deafen();
    let mesh = alice.mesh.clone();
    let writing = tokio::spawn(async move {
        let change = StateChange { if_version: Some(first.version), ..change("counter", json!(2)) };
        mesh.state_set(change).await
    });
    // The broker has it, and alice has not heard so.
    until("the change", async || {
        let value = get(&bob, "counter").await.value;
        holds(value == Some(json!(2)), value)
    })
    .await;
    alice.net.break_all();
    let written = soon("the answer", writing).await.unwrap().unwrap();
    let now = get(&bob, "counter").await;
    assert_eq!((written.version, written.duplicate), (now.version, true));
    // A claim, too.
    let made = bob.mesh.task_create(NewTask { title: "t".into(), ..NewTask::default() }).await.unwrap();
    alice.net.deafen();
    let (mesh, id) = (alice.mesh.clone(), made.task.id.clone());
    let claiming = tokio::spawn(async move {
        mesh.task_step(TaskStepRequest { id, step: TaskStep::Claim, ..TaskStepRequest::default() }).await
    });
    until("the claim", async || {
        holds(bob.mesh.task_get(&made.task.id).await.unwrap().claimed_by.is_some(), "nobody has claimed it")
    })
    .await;
    alice.net.break_all();
    let claimed = soon("the answer", claiming).await.unwrap().unwrap();
    assert!(claimed.duplicate && claimed.task.claimed_by.is_some());
}

#[tokio::test]
async fn who_comes_later_reads_what_was_there_before_and_who_was_revoked_nothing_after() {
    let broker = TestBroker::start().await;
    let [mut alice, mut bob, mut carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    set(&alice, "zero", json!("epoch 0")).await;
    assert_eq!(get(&bob, "zero").await.value, Some(json!("epoch 0")));
    for (host, key) in [(&mut bob, "one"), (&mut carol, "two")] {
        let name = host.name();
        alice.mesh.member_action(MemberAction::Revoke, &name).await.unwrap();
        set(&alice, key, json!(key)).await;
        assert_eq!(host.ended().await, Ending::Revoked);
        assert_eq!(host.mesh.state_get(key).await.unwrap_err().code(), "member_revoked");
        assert_eq!(host.mesh.state_set(change(key, json!(1))).await.unwrap_err().code(), "member_revoked");
    }
    let invite = alice.mesh.invite_create(InviteRequest::default()).await.unwrap().invite;
    let dave = join(&invite, "dave").await;
    dave.connected().await;
    // The present key comes from alice; after that she is not needed for the earlier ones.
    set(&dave, "three", json!("by dave")).await;
    alice.down().await;
    let listed = dave.mesh.state_list(StateList { limit: 100, values: true, ..StateList::default() }).await.unwrap();
    let items: Vec<_> = listed.items.iter().map(|item| (item.key.as_str(), item.value.clone().unwrap())).collect();
    let expected =
        [("one", json!("one")), ("three", json!("by dave")), ("two", json!("two")), ("zero", json!("epoch 0"))];
    assert_eq!(items, expected);
    alice.up().await;
    alice.connected().await;
    assert_eq!(get(&alice, "three").await.value, Some(json!("by dave")));
}

/// One box that does not open takes the list from nobody: it is left out and counted.
#[tokio::test]
async fn an_entry_that_does_not_open_hides_no_other() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    set(&alice, "first", json!(1)).await;
    set(&alice, "last", json!(2)).await;
    let task = |title: &str| NewTask { title: title.to_owned(), ..NewTask::default() };
    alice.mesh.task_create(task("first")).await.unwrap();
    // As a member may write it: the broker cannot see that it is nothing.
    let (registry, now) = (broker.broker().registry(), Clock::system().now_ms());
    let mesh = registry.meshes().remove(0).id().to_owned();
    let by = || By {
        member: bob.mesh.member_id().to_owned(),
        key: bob.mesh.member_pubkey(),
        member_key: bob.mesh.member_pubkey(),
        expires_ms: now + 3_600_000,
        forget_ms: now + 7_200_000,
    };
    let nothing = || Boxed { epoch: 0, nonce: encoding::b64(&[1; 24]), ciphertext: encoding::b64(&[2; 40]) };
    let garbage = StateSet {
        key: encoding::hex(&[7; 32]),
        name: nothing(),
        value: Some(nothing()),
        client_id: "g1".to_owned(),
        fingerprint: "00".repeat(32),
        if_version: None,
    };
    registry.state_set(&mesh, by(), garbage).await.unwrap();
    let garbage = TaskCreate {
        id: ids::ulid(now),
        title: nothing(),
        client_id: "g2".to_owned(),
        fingerprint: "00".repeat(32),
        ..TaskCreate::default()
    };
    let id = garbage.id.clone();
    registry.task_create(&mesh, by(), garbage).await.unwrap();
    alice.mesh.task_create(task("last")).await.unwrap();
    for values in [false, true] {
        let asked = StateList { limit: 10, values, ..StateList::default() };
        let listed = alice.mesh.state_list(asked).await.unwrap();
        let keys: Vec<_> = listed.items.iter().map(|item| item.key.as_str()).collect();
        assert_eq!((keys, listed.next, listed.unreadable), (vec!["first", "last"], None, 1));
    }
    let listed = alice.mesh.task_list(TaskQuery { limit: 10, ..TaskQuery::default() }).await.unwrap();
    let titles: Vec<_> = listed.items.iter().map(|item| item.title.as_str()).collect();
    assert_eq!((titles, listed.next, listed.unreadable), (vec!["first", "last"], None, 1));
    // Page by page it is passed over, too.
    let (mut titles, mut cursor) = (Vec::new(), None);
    for _ in 0..3 {
        let page = alice.mesh.task_list(TaskQuery { limit: 1, cursor, ..TaskQuery::default() }).await.unwrap();
        titles.extend(page.items.into_iter().map(|item| item.title));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(titles, ["first", "last"]);
    // Whoever asks for it by name hears why.
    assert_eq!(alice.mesh.task_get(&id).await.unwrap_err().code(), "hash_mismatch");
}

#[tokio::test]
async fn entries_whose_keys_nobody_has_are_waited_for_once() {
    let broker = TestBroker::start().await;
    let [mut alice, others @ ..] = hosts(&broker, ["alice", "b", "c", "d", "e", "f", "g", "h", "i"]).await;
    set(&alice, "zero", json!(0)).await;
    for host in &others {
        alice.mesh.member_action(MemberAction::Revoke, &host.name()).await.unwrap();
        set(&alice, &format!("after {}", host.name()), json!(1)).await;
    }
    let invite = alice.mesh.invite_create(InviteRequest::default()).await.unwrap().invite;
    alice.down().await;
    let dave = join(&invite, "dave").await;
    dave.connected().await;
    let begun = std::time::Instant::now();
    let asked = || StateList { limit: 10, values: true, ..StateList::default() };
    let listed = dave.mesh.state_list(asked()).await.unwrap();
    let keys: Vec<_> = listed.items.iter().map(|item| item.key.as_str()).collect();
    assert_eq!((keys, listed.unreadable), (vec!["zero"], others.len()));
    // A key is waited for three seconds: one after the other they would take at least this long.
    let one_by_one = Duration::from_secs(3) * u32::try_from(others.len()).unwrap();
    assert!(begun.elapsed() < one_by_one, "waited for each of them: {:?}", begun.elapsed());
    alice.up().await;
    until("the keys", async || {
        let readable = dave.mesh.state_list(asked()).await.unwrap().items.len();
        holds(readable > others.len(), readable)
    })
    .await;
}

#[tokio::test]
async fn changes_are_told_in_their_order_and_once_whatever_breaks() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let mut settings = quick();
    settings.capabilities.state = true;
    bob.mesh.reload(settings.clone(), None).unwrap();
    bob.settings = settings;
    let filter = || EventFilter { state: Some("w".into()), ..EventFilter::default() };
    let mut events = bob.mesh.events(filter(), &Caller::Member, None).await.unwrap();
    let mut last = String::new();
    let mut told = Vec::new();
    for round in 0..6_usize {
        for number in 0..5_usize {
            set(&alice, &format!("w{number}"), json!(round * 10 + number)).await;
        }
        match round {
            1 => bob.net.break_all(),
            2 => {
                broker.down().await;
                broker.up().await;
                alice.connected().await;
                until("alice to be answered again", async || alice.mesh.state_get("w0").await).await;
            }
            3 => {
                bob.down().await;
                bob.up().await;
                events = bob.mesh.events(filter(), &Caller::Member, Some(&last)).await.unwrap();
            }
            _ => {}
        }
        while told.len() < (round + 1) * 5 {
            let event = soon("an event", events.next()).await.expect("the stream goes on");
            if event.name != "state_changed" {
                continue;
            }
            let data: Value = serde_json::from_str(&event.data).unwrap();
            told.push((data["key"].as_str().unwrap().to_owned(), data["value"].as_u64().unwrap() as usize));
            last = event.id;
        }
    }
    let expected: Vec<(String, usize)> =
        (0..6).flat_map(|round| (0..5).map(move |number| (format!("w{number}"), round * 10 + number))).collect();
    assert_eq!(told, expected);
}
