//! The shared state and the tasks: versions, ids that come again, claims, keys that count, bounds.

use hostel_broker::engine::{Engine as _, SqliteEngine};
use hostel_broker::registry::{By, Registry, RegistrySettings, Stepped, Written};
use hostel_wire::frames::Kind;
use hostel_wire::frames::client::Seal;
use hostel_wire::frames::shared::{Boxed, Link, StateSet, Step, TaskCreate, TaskEntry, TaskList, TaskStatus, TaskStep};
use hostel_wire::{encoding, ids};
use serde_json::Value;

use crate::registry::support::{DAY, NOW, World};

fn by(member: &str) -> By {
    By {
        member: member.to_owned(),
        key: "aa".repeat(32),
        member_key: "aa".repeat(32),
        expires_ms: NOW + 30 * DAY,
        forget_ms: NOW + 60 * DAY,
    }
}

fn boxed(epoch: u64) -> Boxed {
    Boxed { epoch, nonce: encoding::b64(&[1; 24]), ciphertext: encoding::b64(&[2; 40]) }
}

fn key(of: u8) -> String {
    encoding::hex(&[of; 32])
}

fn set(of: u8, id: &str, if_version: Option<u64>) -> StateSet {
    StateSet {
        key: key(of),
        if_version,
        name: boxed(0),
        value: Some(boxed(0)),
        client_id: id.to_owned(),
        fingerprint: "00".repeat(32),
    }
}

fn task(id: &str) -> TaskCreate {
    TaskCreate {
        id: ids::ulid(NOW),
        title: boxed(0),
        body: Some(boxed(0)),
        client_id: id.to_owned(),
        fingerprint: "00".repeat(32),
        ..TaskCreate::default()
    }
}

fn step(task: &str, step: Step, id: &str) -> TaskStep {
    TaskStep {
        id: task.to_owned(),
        step,
        client_id: id.to_owned(),
        fingerprint: "00".repeat(32),
        ..TaskStep::default()
    }
}

fn done(stepped: Stepped) -> TaskEntry {
    match stepped {
        Stepped::Done(task, _) => *task,
        Stepped::Refused(code, _) => panic!("refused: {code}"),
    }
}

fn refused(stepped: Stepped) -> &'static str {
    match stepped {
        Stepped::Refused(code, _) => code,
        Stepped::Done(task, _) => panic!("{task:?}"),
    }
}

#[tokio::test]
async fn an_entry_is_written_over_the_version_that_is_named_and_no_other() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let write = |set: StateSet, member: &str| registry.state_set(id, by(member), set);
    assert_eq!(write(set(1, "a", Some(7)), alice).await.unwrap(), Written::Conflict(0));
    let Written::Done { version: one, duplicate: false } = write(set(1, "a", Some(0)), alice).await.unwrap() else {
        panic!("it was free")
    };
    assert_eq!(write(set(1, "b", Some(0)), &bob).await.unwrap(), Written::Conflict(one));
    let Written::Done { version: two, .. } = write(set(1, "b", Some(one)), &bob).await.unwrap() else {
        panic!("it has that version")
    };
    assert!(two > one);
    // What comes again changes nothing, whatever has happened since.
    assert_eq!(write(set(1, "a", Some(0)), alice).await.unwrap(), Written::Done { version: one, duplicate: true });
    let other = StateSet { fingerprint: "11".repeat(32), ..set(1, "a", Some(0)) };
    assert_eq!(write(other, alice).await.unwrap_err().code(), "idempotency_key_reused");
    // The same id of somebody else is another id.
    let Written::Done { version: three, duplicate: false } = write(set(1, "a", None), &bob).await.unwrap() else {
        panic!("bob has not said this")
    };
    let (entries, looked_at) = registry.state_get(id, &bob, &[key(1), key(2)]).await.unwrap();
    assert_eq!((entries.len(), looked_at, entries[0].version, entries[0].by.as_str()), (1, 2, three, bob.as_str()));
    assert_eq!(entries[0].value, Some(boxed(0)));
    // Removed, and made again under a version that was never there.
    let gone = StateSet { value: None, ..set(1, "d", Some(three)) };
    assert!(matches!(write(gone, alice).await.unwrap(), Written::Done { version, .. } if version > three));
    assert!(registry.state_get(id, &bob, &[key(1)]).await.unwrap().0.is_empty());
    let nothing = StateSet { value: None, ..set(1, "e", None) };
    assert_eq!(write(nothing, alice).await.unwrap(), Written::Done { version: 0, duplicate: false });
    let Written::Done { version: four, .. } = write(set(1, "f", Some(0)), alice).await.unwrap() else {
        panic!("it is free again")
    };
    assert!(four > three + 1);
    let bounds = world.engine.bounds(id).unwrap();
    assert_eq!(bounds.last_seq, 5, "one entry of the log for each change, and none for what changed nothing");
    let entries = world.engine.read(id, 0, 10, usize::MAX).await.unwrap();
    assert!(entries.iter().all(|entry| entry.kind == Kind::State));
    assert!(world.now().sees(&bob, &entries[0]) && world.now().sees(alice, &entries[0]), "its writer hears it, too");
}

#[tokio::test]
async fn of_many_at_once_one_is_first() {
    let world = World::new().await;
    let (id, alice) = (world.id().to_owned(), world.alice().to_owned());
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (registry, id, alice) = (world.registry.clone(), id.clone(), alice.clone());
        tasks.spawn(async move { registry.state_set(&id, by(&alice), set(1, &format!("id {number}"), Some(0))).await });
    }
    let results = tasks.join_all().await;
    let won = results.iter().filter(|result| matches!(result, Ok(Written::Done { .. }))).count();
    assert_eq!(won, 1);
    assert!(results.iter().all(Result::is_ok));
}

#[tokio::test]
async fn entries_are_listed_in_parts_and_bounded() {
    let settings = RegistrySettings { state_entries: 3, ..RegistrySettings::default() };
    let world = World::with(settings).await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    for of in [3, 1, 2] {
        registry.state_set(id, by(alice), set(of, &format!("id {of}"), None)).await.unwrap();
    }
    let full = registry.state_set(id, by(alice), set(4, "id 4", None)).await;
    assert_eq!(full.unwrap_err().code(), "capacity");
    registry.state_set(id, by(alice), set(3, "again", None)).await.unwrap();
    registry.state_set(id, by(alice), StateSet { value: None, ..set(3, "gone", None) }).await.unwrap();
    registry.state_set(id, by(alice), set(4, "id 4", None)).await.unwrap();
    let (all, more) = registry.state_list(id, alice, None).await.unwrap();
    let keys: Vec<_> = all.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!((keys, more), (vec![key(1), key(2), key(4)], false));
    let (rest, _) = registry.state_list(id, alice, Some(&key(1))).await.unwrap();
    assert_eq!(rest.len(), 2);
    assert_eq!(registry.state_list(id, alice, Some("x")).await.unwrap_err().code(), "invalid_argument");
    let wrong = [
        StateSet { key: "short".into(), ..set(1, "w", None) },
        StateSet { client_id: String::new(), ..set(1, "w", None) },
        StateSet { fingerprint: "x".into(), ..set(1, "w", None) },
        StateSet { name: Boxed { ciphertext: "x".repeat(5000), ..boxed(0) }, ..set(1, "w", None) },
        StateSet { value: Some(Boxed { ciphertext: "x".repeat(200_000), ..boxed(0) }), ..set(1, "w", None) },
    ];
    for set in wrong {
        assert_eq!(registry.state_set(id, by(alice), set).await.unwrap_err().code(), "invalid_argument");
    }
}

#[tokio::test]
async fn after_a_revocation_only_the_next_key_counts() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    registry.state_set(id, by(alice), set(1, "before", None)).await.unwrap();
    registry.revoke(id, alice, &bob).await.unwrap();
    assert_eq!(registry.state_set(id, by(&bob), set(1, "b", None)).await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.state_get(id, &bob, &[key(1)]).await.unwrap_err().code(), "forbidden");
    let stale = registry.state_set(id, by(alice), set(1, "after", None)).await;
    assert_eq!(stale.unwrap_err().code(), "stale_key_epoch");
    let seal = Seal { member_id: alice.to_owned(), blob: encoding::b64(&[7; 80]), nonce: encoding::b64(&[9; 24]) };
    let general = world.now().general().unwrap().id.clone();
    registry.seal_put(id, alice, &general, 1, vec![seal]).await.unwrap();
    let new = StateSet { name: boxed(1), value: Some(boxed(1)), ..set(1, "after", None) };
    assert!(matches!(registry.state_set(id, by(alice), new).await, Ok(Written::Done { duplicate: false, .. })));
    // What was written before is told as it was, also with the older key.
    let again = registry.state_set(id, by(alice), set(1, "before", None)).await.unwrap();
    assert!(matches!(again, Written::Done { duplicate: true, .. }));
    let link = |epoch, under| Link { epoch, under, link: encoding::b64(&[5; 72]) };
    registry.shared_link_put(id, alice, link(0, 1)).await.unwrap();
    registry.shared_link_put(id, &carol, Link { link: encoding::b64(&[6; 72]), ..link(0, 1) }).await.unwrap();
    assert_eq!(
        registry.shared_links(id, &carol, None).await.unwrap(),
        (vec![link(0, 1)], false),
        "the first one stays"
    );
    for wrong in [link(1, 1), link(1, 0), link(0, 2), Link { link: String::new(), ..link(0, 1) }] {
        assert_eq!(registry.shared_link_put(id, alice, wrong).await.unwrap_err().code(), "invalid_argument");
    }
}

#[tokio::test]
async fn a_task_is_claimed_once_and_completed_by_its_claimer() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let made = done(registry.task_create(id, by(alice), task("one")).await.unwrap());
    let again = registry.task_create(id, by(alice), task("one")).await.unwrap();
    assert!(matches!(again, Stepped::Done(task, true) if task.id == made.id), "another id was drawn, the first counts");
    let go = |member: &str, what: TaskStep| registry.task_step(id, by(member), what);
    assert_eq!(refused(go(&bob, step(&made.id, Step::Complete, "x")).await.unwrap()), "not_claimed");
    let claimed = done(go(&bob, step(&made.id, Step::Claim, "c1")).await.unwrap());
    assert_eq!((claimed.status, claimed.claimed_by.as_deref()), (TaskStatus::Claimed, Some(bob.as_str())));
    let again = go(&bob, step(&made.id, Step::Claim, "c1")).await.unwrap();
    assert!(matches!(again, Stepped::Done(_, true)), "the same claim again");
    assert_eq!(refused(go(&bob, step(&made.id, Step::Claim, "c2")).await.unwrap()), "already_claimed");
    assert_eq!(refused(go(&carol, step(&made.id, Step::Claim, "c1")).await.unwrap()), "already_claimed");
    assert_eq!(refused(go(&carol, step(&made.id, Step::Complete, "d")).await.unwrap()), "not_the_claimer");
    assert_eq!(refused(go(&carol, step(&made.id, Step::Release, "r")).await.unwrap()), "not_the_claimer");
    done(go(&bob, step(&made.id, Step::Release, "r")).await.unwrap());
    done(go(&carol, step(&made.id, Step::Claim, "c3")).await.unwrap());
    let complete = TaskStep { result: Some(boxed(0)), ..step(&made.id, Step::Complete, "d") };
    let completed = done(go(&carol, complete).await.unwrap());
    assert_eq!(completed.status, TaskStatus::Completed);
    assert_eq!(refused(go(&bob, step(&made.id, Step::Claim, "c4")).await.unwrap()), "already_completed");
    let whole = registry.task_get(id, alice, &made.id).await.unwrap();
    assert_eq!((whole.body, whole.result), (Some(boxed(0)), Some(boxed(0))));
    assert_eq!(registry.task_get(id, alice, "none").await.unwrap_err().code(), "task_not_found");
    assert_eq!(registry.task_get(id, alice, &ids::ulid(NOW)).await.unwrap_err().code(), "task_not_found");
}

#[tokio::test]
async fn leases_end_and_those_who_are_gone_hold_nothing() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let go = |member: &str, what: TaskStep| registry.task_step(id, by(member), what);
    let open = || async {
        let list = TaskList { status: Some(TaskStatus::Open), ..TaskList::default() };
        registry.task_list(id, alice, &list).await.unwrap().0.len()
    };
    let made = done(registry.task_create(id, by(alice), task("one")).await.unwrap());
    done(go(&bob, TaskStep { lease_s: Some(60), ..step(&made.id, Step::Claim, "c1") }).await.unwrap());
    assert_eq!(open().await, 0);
    world.pass(59_000);
    assert_eq!(refused(go(&carol, step(&made.id, Step::Claim, "c2")).await.unwrap()), "already_claimed");
    world.pass(1000);
    assert_eq!(open().await, 1);
    done(go(&carol, step(&made.id, Step::Claim, "c2")).await.unwrap());
    let late = TaskStep { lease_s: Some(60), ..step(&made.id, Step::Claim, "c1") };
    assert_eq!(refused(go(&bob, late).await.unwrap()), "already_claimed", "bob's claim again, and carol is at it");
    assert_eq!(refused(go(&bob, step(&made.id, Step::Complete, "d")).await.unwrap()), "not_the_claimer", "too late");
    registry.revoke(id, alice, &carol).await.unwrap();
    assert_eq!(open().await, 1);
    done(go(&bob, step(&made.id, Step::Claim, "c3")).await.unwrap());
    // A lease that is over without anybody else is no reason to lose what was done.
    let bob_again = TaskStep { lease_s: Some(1), ..step(&made.id, Step::Claim, "c4") };
    done(go(&bob, step(&made.id, Step::Release, "r")).await.unwrap());
    done(go(&bob, bob_again).await.unwrap());
    world.pass(5000);
    done(go(&bob, step(&made.id, Step::Complete, "d")).await.unwrap());
}

/// What the log has told of tasks: each step, and whether a lease was over.
async fn told(world: &World) -> Vec<(String, bool)> {
    let entries = world.engine.read(world.id(), 0, 100, usize::MAX).await.unwrap();
    let data = entries.iter().map(|entry| serde_json::from_slice::<Value>(&entry.bytes).unwrap()["eventData"].clone());
    data.map(|data| (data["step"].as_str().unwrap().to_owned(), data["leaseOver"] == true)).collect()
}

async fn due(registry: &Registry<SqliteEngine>) -> Option<u64> {
    registry.task_leases(NOW + 30 * DAY, NOW + 60 * DAY).await.unwrap()
}

#[tokio::test]
async fn the_end_of_a_lease_is_told_once() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let go = |member: &str, what: TaskStep| registry.task_step(id, by(member), what);
    let claim = |task: &str, lease: u64, name: &str| TaskStep { lease_s: Some(lease), ..step(task, Step::Claim, name) };
    let [one, two, three] = ["one", "two", "three"].map(|name| registry.task_create(id, by(alice), task(name)));
    let (one, two, three) = (done(one.await.unwrap()).id, done(two.await.unwrap()).id, done(three.await.unwrap()).id);
    assert_eq!(due(registry).await, None);
    done(go(&bob, claim(&one, 60, "c1")).await.unwrap());
    done(go(&bob, claim(&two, 10, "c2")).await.unwrap());
    done(go(&bob, claim(&three, 20, "c3")).await.unwrap());
    assert_eq!(due(registry).await, Some(NOW + 10_000));
    // What was let go or done in time has no end of its own.
    done(go(&bob, step(&three, Step::Complete, "d3")).await.unwrap());
    world.pass(10_000);
    // Also after a restart, and then no more.
    let again = Registry::open(world.engine.clone(), world.clock(), RegistrySettings::default()).await.unwrap();
    assert_eq!(due(&again).await, Some(NOW + 60_000));
    assert_eq!(due(&again).await, Some(NOW + 60_000));
    let released = |told: &[(String, bool)]| told.iter().filter(|(step, over)| step == "released" && *over).count();
    assert_eq!(released(&told(&world).await), 1);
    let list = TaskList { status: Some(TaskStatus::Open), ..TaskList::default() };
    let (open, _) = registry.task_list(id, alice, &list).await.unwrap();
    assert_eq!((open.len(), &open[0].id), (1, &two));
    assert_eq!(open[0].version, 8, "its end is a change like any other: after three made, three claimed and one done");
    // Who is late is late, and not lost.
    done(go(&bob, step(&two, Step::Complete, "d2")).await.unwrap());
    world.pass(50_000);
    // Somebody was faster than the clock: it was free before it was taken.
    done(go(&carol, step(&one, Step::Claim, "c4")).await.unwrap());
    assert_eq!(due(registry).await, None);
    let steps = told(&world).await;
    let last: Vec<(&str, bool)> = steps.iter().rev().take(3).map(|(step, over)| (step.as_str(), *over)).collect();
    assert_eq!(last, [("claimed", false), ("released", true), ("completed", false)]);
    assert_eq!(released(&steps), 2);
    // Also of one who is gone.
    let four = done(registry.task_create(id, by(alice), task("four")).await.unwrap()).id;
    done(go(&carol, claim(&four, 5, "c5")).await.unwrap());
    registry.revoke(id, alice, &carol).await.unwrap();
    world.pass(5000);
    assert_eq!(due(registry).await, None);
    assert_eq!(released(&told(&world).await), 3);
}

/// How many of two entries a member gets, finds in the list and hears of.
async fn read(world: &World, member: &str) -> (usize, usize, usize) {
    let (registry, id) = (&world.registry, world.id());
    let got = registry.state_get(id, member, &[key(1), key(2)]).await.unwrap().0.len();
    let (listed, more) = registry.state_list(id, member, None).await.unwrap();
    assert!(!more);
    let entries = world.engine.read(id, 0, 10, usize::MAX).await.unwrap();
    (got, listed.len(), entries.iter().filter(|entry| world.now().sees(member, entry)).count())
}

#[tokio::test]
async fn a_member_that_is_not_to_be_read_is_not_read() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    for (of, member) in [(1, alice), (2, bob.as_str())] {
        registry.state_set(id, by(member), set(of, "a", None)).await.unwrap();
    }
    assert_eq!(read(&world, &bob).await, (2, 2, 2));
    registry.grant_set(id, alice, "bob", Some(vec!["read".into(), "dm".into(), "broadcast".into()])).await.unwrap();
    assert_eq!(read(&world, &bob).await, (1, 1, 1));
    assert_eq!(read(&world, &carol).await, (2, 2, 2));
    assert_eq!(read(&world, alice).await, (2, 2, 2));
    // It is there all the same.
    assert!(matches!(registry.state_set(id, by(&bob), set(1, "b", Some(0))).await.unwrap(), Written::Conflict(1)));
    registry.grant_set(id, alice, "bob", None).await.unwrap();
    assert_eq!(read(&world, &bob).await, (2, 2, 2));
}

#[tokio::test]
async fn a_task_for_one_is_for_that_one() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let nobody = TaskCreate { assignee: Some("nobody".into()), ..task("zero") };
    assert_eq!(registry.task_create(id, by(alice), nobody).await.unwrap_err().code(), "not_found");
    let assigned = TaskCreate { assignee: Some(bob.clone()), ..task("one") };
    let made = done(registry.task_create(id, by(alice), assigned).await.unwrap());
    let claim = |member: &str, what: &str| registry.task_step(id, by(member), step(&made.id, Step::Claim, what));
    assert_eq!(refused(claim(&carol, "c").await.unwrap()), "not_the_assignee");
    done(claim(&bob, "c").await.unwrap());
}

#[tokio::test]
async fn tasks_that_are_done_make_room() {
    let world = World::with(RegistrySettings { tasks: 2, ..RegistrySettings::default() }).await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let first = done(registry.task_create(id, by(alice), task("1")).await.unwrap());
    registry.task_create(id, by(alice), task("2")).await.unwrap();
    assert_eq!(registry.task_create(id, by(alice), task("3")).await.unwrap_err().code(), "capacity");
    done(registry.task_step(id, by(alice), step(&first.id, Step::Claim, "c")).await.unwrap());
    done(registry.task_step(id, by(alice), step(&first.id, Step::Complete, "d")).await.unwrap());
    registry.task_create(id, by(alice), task("3")).await.unwrap();
    assert_eq!(registry.task_get(id, alice, &first.id).await.unwrap_err().code(), "task_not_found");
    let page = |after: Option<String>| async {
        let list = TaskList { limit: Some(1), after, ..TaskList::default() };
        registry.task_list(id, alice, &list).await.unwrap()
    };
    let (one, more) = page(None).await;
    assert!(more);
    let (two, more) = page(Some(one[0].id.clone())).await;
    assert!(!more && one[0].id < two[0].id);
}
