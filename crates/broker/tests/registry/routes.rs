//! Where messages go, who sees them, and what changes in between.

use hostel_broker::engine::{Append, AppendError, Engine as _};
use hostel_broker::registry::{Ask, Refusal};
use hostel_wire::frames::{Kind, Priority, To};

use crate::registry::support::{DAY, NOW, World};

fn ask<'a>(sender: &'a str, to: &'a To) -> Ask<'a> {
    Ask { sender, kind: None, to, key_epoch: None }
}

#[tokio::test]
async fn a_destination_is_found_or_refused() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    registry.join_group(id, &bob, "ops", None).await.unwrap();
    let general = world.now().general().unwrap().id.clone();
    let route = |to: &To| world.now().route(ask(alice, to));
    let found = [
        (To::Member(bob.clone()), Kind::Dm, bob.clone(), vec![]),
        (To::Topic(general.clone()), Kind::Topic, general.clone(), vec![]),
        (To::Group("ops".into()), Kind::Group, "ops".into(), vec![bob.clone()]),
        (To::All(true), Kind::All, "*".into(), vec![]),
    ];
    for (to, kind, dest, audience) in found {
        let route = route(&to).unwrap();
        assert_eq!((route.kind, route.dest, route.audience), (kind, dest, audience));
        assert!(route.guards.len() >= 2);
        assert!(world.now().route(Ask { kind: Some(kind), ..ask(alice, &to) }).is_ok());
        assert_eq!(world.now().route(Ask { kind: Some(Kind::Sys), ..ask(alice, &to) }), Err(Refusal::Invalid));
    }
    for (to, dest) in [(To::Member(bob.clone()), &bob[..]), (To::All(true), "*")] {
        let route = world.now().route(Ask { kind: Some(Kind::File), ..ask(alice, &to) }).unwrap();
        assert_eq!((route.kind, route.dest.as_str()), (Kind::File, dest));
    }
    let refused = |to: To| route(&to).unwrap_err().code();
    assert_eq!(refused(To::Member("nobody".into())), "recipient_unknown");
    assert_eq!(refused(To::Topic("nothing".into())), "topic_not_found");
    assert_eq!(refused(To::All(false)), "invalid");
    let key_epoch = Some(1);
    assert_eq!(world.now().route(Ask { key_epoch, ..ask(alice, &To::All(true)) }), Err(Refusal::StaleKeyEpoch));
    // What a file is announced with is sealed with the same key.
    let announced = Ask { kind: Some(Kind::File), key_epoch, ..ask(alice, &To::All(true)) };
    assert_eq!(world.now().route(announced), Err(Refusal::StaleKeyEpoch));
    assert!(world.now().route(Ask { key_epoch: Some(0), ..ask(alice, &To::Group("ops".into())) }).is_ok());
    registry.revoke(id, alice, "bob").await.unwrap();
    registry.leave(id, &carol, None).await.unwrap();
    assert_eq!(refused(To::Member(bob.clone())), "recipient_revoked");
    assert_eq!(refused(To::Member(carol)), "recipient_unknown");
    assert_eq!(world.now().route(ask(&bob, &To::All(true))), Err(Refusal::Forbidden));
    assert!(Refusal::Blocked.is_permanent() && Refusal::RecipientRevoked.is_permanent());
}

#[tokio::test]
async fn a_grant_blocks_messages_and_hides_broadcasts() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let to_bob = To::Member(bob.clone());
    let all = world.now().route(ask(alice, &To::All(true))).unwrap();
    let dm = world.now().route(ask(alice, &to_bob)).unwrap();
    world.append(alice, "before", dm).await;
    world.append(alice, "to all", all).await;
    let sees = async |seq: u64| {
        let entry = world.engine.read(id, seq - 1, 1, usize::MAX).await.unwrap().remove(0);
        world.now().sees(&bob, &entry)
    };
    assert!(sees(1).await && sees(2).await);
    registry.grant_set(id, &bob, "alice", Some(vec!["read".into(), "dm".into(), "dm".into()])).await.unwrap();
    assert!(world.now().may(&bob, alice, "dm") && !world.now().may(&bob, alice, "broadcast"));
    assert!(sees(1).await && !sees(2).await);
    registry.grant_set(id, &bob, "alice", Some(Vec::new())).await.unwrap();
    assert_eq!(world.now().route(ask(alice, &to_bob)), Err(Refusal::Blocked));
    // What was allowed when it got into the log stays for its addressee.
    assert!(sees(1).await && !world.now().may(&bob, alice, "read"));
    assert!(world.now().may(alice, &bob, "dm"));
    registry.grant_set(id, &bob, "alice", None).await.unwrap();
    assert!(world.now().route(ask(alice, &to_bob)).is_ok() && sees(2).await);
    let strange = registry.grant_set(id, &bob, "alice", Some(vec!["everything".into()])).await;
    assert_eq!(strange.unwrap_err().code(), "invalid_argument");
    assert_eq!(registry.grant_set(id, &bob, "nobody", None).await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn everybody_sees_what_concerns_them() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    registry.join_group(id, &bob, "ops", None).await.unwrap();
    registry.join_group(id, alice, "ops", None).await.unwrap();
    let topic = registry.subscribe(id, &carol, "alerts", true).await.unwrap().topic.id.clone();
    let tos = [To::Member(bob.clone()), To::Topic(topic), To::Group("ops".into()), To::All(true)];
    for (number, to) in tos.iter().enumerate() {
        let route = world.now().route(ask(alice, to)).unwrap();
        world.append(alice, &number.to_string(), route).await;
    }
    let file = world.now().route(Ask { kind: Some(Kind::File), ..ask(alice, &tos[0]) }).unwrap();
    world.append(alice, "file", file).await;
    // Later changes of groups and members change nothing about what was sent.
    registry.leave_group(id, &bob, "ops").await.unwrap();
    registry.join_group(id, &carol, "ops", None).await.unwrap();
    let dave = world.member("dave").await;
    let entries = world.engine.read(id, 0, 10, usize::MAX).await.unwrap();
    let mesh = world.now();
    let seen =
        |member: &str| entries.iter().filter(|entry| mesh.sees(member, entry)).map(|one| one.seq).collect::<Vec<_>>();
    assert_eq!(seen(&bob), [1, 3, 4, 5]);
    assert_eq!(seen(&carol), [2, 4]);
    assert_eq!((seen(alice), seen(&dave), seen("nobody")), (vec![], vec![], vec![]));
}

/// The check of the destination and the write are one (B2): what changes in between is noticed.
#[tokio::test]
async fn what_changes_between_looking_and_writing_is_noticed() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let topic = registry.subscribe(id, &carol, "alerts", true).await.unwrap().topic.id.clone();
    let append = |route: hostel_broker::registry::Route, client: &str| Append {
        mesh: id.to_owned(),
        kind: route.kind,
        dest: route.dest,
        sender: alice.to_owned(),
        client_id: client.to_owned(),
        origin: None,
        fingerprint: [0; 32],
        priority: Priority::Next,
        audience: route.audience,
        bytes: "x".into(),
        guards: route.guards,
        writes: Vec::new(),
        gate: None,
        expires_ms: NOW + DAY,
        forget_ms: NOW + 2 * DAY,
        now_ms: NOW,
    };
    let (to_bob, to_carol, to_topic) = (To::Member(bob.clone()), To::Member(carol.clone()), To::Topic(topic.clone()));
    let first = world.now();
    let (dm, other, post, all) = (
        first.route(ask(alice, &to_bob)).unwrap(),
        first.route(ask(alice, &to_carol)).unwrap(),
        first.route(ask(alice, &to_topic)).unwrap(),
        first.route(ask(alice, &To::All(true))).unwrap(),
    );
    // What says hello or how far it has read holds nothing up.
    registry.hello_seen(id, &carol, Some("host")).await.unwrap();
    registry.cursor_put(id, &carol, "e", 1).await.unwrap();
    world.engine.append(append(other, "carol")).await.unwrap();
    registry.grant_set(id, &bob, "alice", Some(Vec::new())).await.unwrap();
    let stale = world.engine.append(append(dm, "1")).await;
    assert!(matches!(&stale, Err(AppendError::Stale(guard)) if guard.bucket == "grant"), "{stale:?}");
    registry.topic_delete(id, alice, "alerts").await.unwrap();
    let stale = world.engine.append(append(post, "2")).await;
    assert!(matches!(&stale, Err(AppendError::Stale(guard)) if guard.bucket == "topic"), "{stale:?}");
    registry.revoke(id, alice, "bob").await.unwrap();
    let stale = world.engine.append(append(all, "3")).await;
    assert!(matches!(&stale, Err(AppendError::Stale(guard)) if guard.bucket == "topic"), "{stale:?}");
    assert_eq!(world.engine.bounds(id).unwrap().last_seq, 1);
}
