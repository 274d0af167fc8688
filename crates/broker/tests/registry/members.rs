//! Names, roles, leaving, banishment, clones, sessions, cursors.

use hostel_broker::audit::kind;
use hostel_broker::engine::Engine as _;
use hostel_broker::registry::{Concurrency, Policy, RegistrySettings, Role, What};
use hostel_wire::frames::Group;
use hostel_wire::keys::SecretKey;
use serde_json::json;

use crate::registry::support::{DAY, HOUR, World, seals};

#[tokio::test]
async fn somebody_is_found_by_id_key_beginning_or_name() {
    let world = World::new().await;
    let bob = world.member("Bob").await;
    let mesh = world.now();
    let key = mesh.member(&bob).unwrap().pubkey.clone();
    for text in [&bob[..], &key, "bob", "BOB", &key[..16], &key[..16].to_uppercase()] {
        assert_eq!(mesh.find(text).unwrap().id, bob, "{text}");
    }
    for text in ["", "nobody", &key[..15], &"f".repeat(16)] {
        assert_eq!(mesh.find(text).unwrap_err().code(), "not_found", "{text}");
    }
    assert_eq!(mesh.member_by_key(&key).unwrap().id, bob);
}

#[tokio::test]
async fn a_name_belongs_to_one() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let mut changes = world.registry.changes();
    let before = world.now().roster_rev;
    let mesh = world.registry.rename(world.id(), &bob, "Robert").await.unwrap();
    assert_eq!((mesh.member(&bob).unwrap().name.as_str(), mesh.roster_rev > before), ("Robert", true));
    let what = What::Renamed { member: bob.clone(), old_name: "bob".into(), name: "Robert".into() };
    assert_eq!(changes.recv().await.unwrap().what, what);
    assert!(mesh.find("bob").is_err() && mesh.find("robert").is_ok());
    // Nothing to do is no change; letters may change their case.
    assert_eq!(world.registry.rename(world.id(), &bob, "Robert").await.unwrap().roster_rev, mesh.roster_rev);
    world.registry.rename(world.id(), &bob, "ROBERT").await.unwrap();
    for (name, code) in
        [("alice", "name_taken"), ("Alice", "name_taken"), ("a b", "invalid_argument"), ("", "invalid_argument")]
    {
        assert_eq!(world.registry.rename(world.id(), &bob, name).await.unwrap_err().code(), code);
    }
    assert_eq!(world.registry.rename("nowhere", &bob, "x").await.unwrap_err().code(), "mesh_not_found");
    assert_eq!(world.registry.rename(world.id(), "nobody", "x").await.unwrap_err().code(), "forbidden");
    // A name of somebody who left is free.
    world.registry.leave(world.id(), &bob, None).await.unwrap();
    world.registry.rename(world.id(), world.alice(), "robert").await.unwrap();
}

#[tokio::test]
async fn groups_profiles_and_policy() {
    let world = World::with(RegistrySettings { groups: 2, ..RegistrySettings::default() }).await;
    let bob = world.member("bob").await;
    let (registry, id) = (&world.registry, world.id());
    registry.join_group(id, &bob, "@ops", Some("lead".into())).await.unwrap();
    registry.join_group(id, world.alice(), "ops", None).await.unwrap();
    let mut both = vec![bob.clone(), world.alice().to_owned()];
    both.sort();
    assert_eq!(world.now().group("ops"), both);
    registry.join_group(id, &bob, "dev", None).await.unwrap();
    assert_eq!(registry.join_group(id, &bob, "more", None).await.unwrap_err().code(), "invalid_argument");
    assert_eq!(registry.join_group(id, &bob, "no good", None).await.unwrap_err().code(), "invalid_argument");
    registry.leave_group(id, &bob, "@ops").await.unwrap();
    registry.set_groups(id, &bob, vec![Group { name: "x".into(), role: None }]).await.unwrap();
    assert_eq!((world.now().group("ops"), world.now().group("x")), (vec![world.alice().to_owned()], vec![bob.clone()]));
    let profile = |value: serde_json::Value| value.as_object().unwrap().clone();
    registry.set_profile(id, &bob, profile(json!({"title": "builder", "bio": "x"}))).await.unwrap();
    registry.set_profile(id, &bob, profile(json!({"bio": null}))).await.unwrap();
    assert_eq!(world.now().member(&bob).unwrap().profile, profile(json!({"title": "builder"})));
    let long = profile(json!({"bio": "x".repeat(5000)}));
    assert_eq!(registry.set_profile(id, &bob, long).await.unwrap_err().code(), "invalid_argument");
    let mut policy = Policy { concurrency: Concurrency::PreferOldest, ..Policy::default() };
    (policy.self_editable.groups, policy.self_editable.display_name) = (false, false);
    assert_eq!(registry.set_policy(id, &bob, policy.clone()).await.unwrap_err().code(), "forbidden");
    registry.set_policy(id, world.alice(), policy.clone()).await.unwrap();
    assert_eq!(world.now().record.policy, policy);
    assert_eq!(registry.leave_group(id, &bob, "x").await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.rename(id, &bob, "b").await.unwrap_err().code(), "forbidden");
}

#[tokio::test]
async fn who_may_ban_whom() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (admin, other) = (world.member_as("admin", "admin").await, world.member_as("other", "admin").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    for (by, target, code) in [
        (&bob[..], "carol", "forbidden"),
        (&bob, "admin", "forbidden"),
        (&admin, "other", "forbidden"),
        (&admin, "alice", "forbidden"),
        (alice, "alice", "forbidden"),
        (&admin, "nobody", "not_found"),
        ("nobody", "bob", "forbidden"),
    ] {
        assert_eq!(registry.revoke(id, by, target).await.unwrap_err().code(), code, "{by} {target}");
    }
    assert!(world.now().may_administer(&bob, "carol").is_err() && world.now().may_administer(&admin, "bob").is_ok());
    let mut changes = registry.changes();
    let key = world.now().member(&bob).unwrap().pubkey.clone();
    let revoked = registry.revoke(id, &admin, &key).await.unwrap();
    assert!(revoked.revoked_ms.is_some() && !revoked.is_active());
    assert_eq!(changes.recv().await.unwrap().what, What::Revoked { member: bob.clone(), by: admin.clone() });
    assert_eq!(registry.revoke(id, &admin, "bob").await.unwrap().revision, revoked.revision);
    registry.revoke(id, alice, "other").await.unwrap();
    // A key that its own owner does not trust any more.
    registry.revoke(id, &carol, "carol").await.unwrap();
    let bans = registry.bans(id, &admin).unwrap();
    assert_eq!(bans.len(), 3);
    assert_eq!(registry.bans(id, &bob).unwrap_err().code(), "forbidden");
    assert_eq!(registry.rename(id, &bob, "x").await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.unban(id, &other, "bob").await.unwrap_err().code(), "forbidden");
    let back = registry.unban(id, &admin, "bob").await.unwrap();
    assert!(back.is_active());
    let mesh = world.now();
    assert!(mesh.subscribed(&mesh.general().unwrap().id, &bob));
    let told = registry.audit_query(id, alice, 0, 500).await.unwrap();
    let about_bob: Vec<_> = told.iter().filter(|one| one.subject == bob).map(|one| one.kind.as_str()).collect();
    assert_eq!(about_bob, [kind::MEMBER_JOINED, kind::MEMBER_REVOKED, kind::MEMBER_UNBANNED]);
    assert_eq!(registry.audit_query(id, &bob, 0, 500).await.unwrap_err().code(), "forbidden");
    assert_eq!(world.engine.audit_verify().await.unwrap().broken, None);
}

#[tokio::test]
async fn roles_and_the_owners_heir() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    assert_eq!(registry.set_role(id, &bob, "bob", Role::Admin).await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.set_role(id, alice, "bob", Role::Owner).await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.set_role(id, alice, "alice", Role::Member).await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.leave(id, alice, None).await.unwrap_err().code(), "forbidden");
    world.pass(1);
    let later = world.member_as("later", "admin").await;
    assert_eq!(registry.set_role(id, alice, "carol", Role::Admin).await.unwrap().role, Role::Admin);
    registry.leave(id, alice, None).await.unwrap();
    let mesh = world.now();
    assert_eq!(mesh.member(&carol).unwrap().role, Role::Owner);
    assert_eq!((mesh.member(&later).unwrap().role, mesh.member(&bob).unwrap().role), (Role::Admin, Role::Member));
}

#[tokio::test]
async fn leaving_now_and_later() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id) = (&world.registry, world.id());
    let general = world.now().general().unwrap().id.clone();
    let mut changes = registry.changes();
    registry.leave(id, &bob, None).await.unwrap();
    let mesh = world.now();
    assert!(mesh.member(&bob).unwrap().left_ms.is_some() && !mesh.subscribed(&general, &bob));
    let what = [What::Left { member: bob.clone() }, What::Epoch { topic: general, epoch: 1 }];
    for what in what {
        assert_eq!(changes.recv().await.unwrap().what, what);
    }
    registry.leave(id, &carol, Some(24)).await.unwrap();
    world.pass(24 * HOUR - 1);
    assert_eq!(registry.sweep().await.unwrap().left, 0);
    assert!(world.now().member(&carol).unwrap().is_active());
    world.pass(1);
    assert_eq!(registry.sweep().await.unwrap().left, 1);
    assert!(world.now().member(&carol).unwrap().left_ms.is_some());
    // Nobody has made the key that bob's leaving made necessary, so carol has it neither.
    assert_eq!(world.now().general().unwrap().epoch, 1);
    // After a while nothing reminds of them.
    world.pass(68 * DAY);
    let swept = registry.sweep().await.unwrap();
    assert_eq!(swept.forgotten, 4, "{swept:?}");
    let mesh = world.now();
    assert!(mesh.member(&bob).is_none() && mesh.member(&carol).is_none());
    assert!(mesh.members().count() == 1 && mesh.invites().count() == 0);
}

#[tokio::test]
async fn a_successor_takes_name_role_and_topics() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id) = (&world.registry, world.id());
    registry.join_group(id, &bob, "ops", None).await.unwrap();
    let topic = registry.subscribe(id, &bob, "alerts", true).await.unwrap().topic.id.clone();
    registry.seal_put(id, &bob, &topic, 0, seals(&[&bob])).await.unwrap();
    let key = SecretKey::generate();
    let new = registry.succeed(id, &bob, &key.public().hex(), 24, None).await.unwrap();
    assert_eq!((new.display_name.as_str(), new.already_member), ("bob", false));
    assert!(registry.succeed(id, &bob, &key.public().hex(), 24, None).await.unwrap().already_member);
    let mesh = world.now();
    assert_eq!(
        (mesh.member(&bob).unwrap().name.as_str(), mesh.find("bob").unwrap().id.as_str()),
        ("bob-old", &new.member_id[..])
    );
    assert!(mesh.subscribed(&topic, &new.member_id) && mesh.group("ops").contains(&new.member_id));
    assert_eq!(*mesh.without_key(mesh.topic("alerts").unwrap()), std::slice::from_ref(&new.member_id));
    let taken = registry.succeed(id, &bob, &mesh.member(world.alice()).unwrap().pubkey, 24, None).await;
    assert_eq!(taken.unwrap_err().code(), "name_taken");
    // An owner's successor owns the mesh once the owner is gone.
    let heir = registry.succeed(id, world.alice(), &SecretKey::generate().public().hex(), 24, None).await.unwrap();
    assert_eq!(world.now().member(&heir.member_id).unwrap().role, Role::Admin);
    world.pass(24 * HOUR);
    assert_eq!(registry.sweep().await.unwrap().left, 2);
    let mesh = world.now();
    assert_eq!(mesh.member(&heir.member_id).unwrap().role, Role::Owner);
    assert!(!mesh.member(&bob).unwrap().is_active() && mesh.topic("alerts").unwrap().epoch == 1);
}

#[tokio::test]
async fn another_host_with_the_same_key_is_noted() {
    let world = World::new().await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let first = registry.hello_seen(id, alice, Some("aa")).await.unwrap();
    assert_eq!((first.before, first.clone_of), (None, None));
    // One that tells no host changes nothing about that.
    for host in [Some("aa"), None] {
        assert_eq!(registry.hello_seen(id, alice, host).await.unwrap().clone_of, None);
    }
    registry.note_presence(id, alice, Some("dnd".into()), Some("busy".into()), Some(false)).await.unwrap();
    registry.note_presence(id, alice, None, None, None).await.unwrap();
    let seen = registry.hello_seen(id, alice, Some("bb")).await.unwrap();
    assert_eq!(seen.clone_of.as_deref(), Some("aa"));
    let before = seen.before.unwrap();
    assert_eq!(
        (before.summary.as_deref(), before.status.as_deref(), before.visible),
        (Some("busy"), Some("dnd"), Some(false))
    );
    let told = registry.audit_query(id, alice, 0, 100).await.unwrap();
    let clone = told.iter().find(|one| one.kind == kind::CLONE_SUSPECTED).unwrap();
    assert_eq!(clone.body, json!({"lastHostFingerprint": "aa", "hostFingerprint": "bb"}));
    assert_eq!(
        registry.note_presence(id, alice, Some("odd".into()), None, None).await.unwrap_err().code(),
        "invalid_argument"
    );
    let long = Some("x".repeat(5000));
    assert_eq!(registry.note_presence(id, alice, None, long, None).await.unwrap_err().code(), "invalid_argument");
}

#[tokio::test]
async fn a_cursor_goes_forward_within_a_log() {
    let world = World::new().await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    assert_eq!(registry.cursor(id, alice), None);
    for (epoch, seq, kept) in [("e", 5, ("e", 5)), ("e", 3, ("e", 5)), ("f", 1, ("f", 1)), ("f", 9, ("f", 9))] {
        registry.cursor_put(id, alice, epoch, seq).await.unwrap();
        let cursor = registry.cursor(id, alice).unwrap();
        assert_eq!((cursor.epoch.as_str(), cursor.seq), kept);
    }
}

#[tokio::test]
async fn a_sessions_key_leads_to_its_member() {
    let world = World::with(RegistrySettings { sessions: 2, ..RegistrySettings::default() }).await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let keys: Vec<String> = (0..3).map(|_| SecretKey::generate().public().hex()).collect();
    for key in &keys {
        registry.session_seen(id, key, alice).await.unwrap();
        world.pass(1);
    }
    let mesh = world.now();
    assert!(mesh.member_by_session(&keys[0]).is_none());
    assert_eq!(mesh.member_by_session(&keys[2]).unwrap().id, alice);
    assert_eq!(registry.session_seen(id, &keys[2], &bob).await.unwrap_err().code(), "name_taken");
    let member_key = mesh.member(&bob).unwrap().pubkey.clone();
    assert_eq!(registry.session_seen(id, &member_key, alice).await.unwrap_err().code(), "name_taken");
    assert_eq!(registry.session_seen(id, "junk", alice).await.unwrap_err().code(), "invalid_argument");
    world.pass(31 * DAY);
    registry.sweep().await.unwrap();
    assert!(world.now().member_by_session(&keys[2]).is_none());
}

#[tokio::test]
async fn a_member_for_a_while_goes_with_who_vouches_for_it() {
    let world = World::with(RegistrySettings { wards: 2, ..RegistrySettings::default() }).await;
    let bob = world.member("bob").await;
    let (registry, id) = (&world.registry, world.id());
    let key = || SecretKey::generate().public().hex();
    let (one, other) = (key(), key());
    let ward = registry.sponsor(id, &bob, &one, Some("ci job".into())).await.unwrap();
    assert_eq!((ward.display_name.as_str(), ward.already_member), ("ci-job", false));
    assert!(registry.sponsor(id, &bob, &one, None).await.unwrap().already_member);
    let second = registry.sponsor(id, &bob, &other, None).await.unwrap();
    assert_eq!(second.display_name, "bob-2");
    let mesh = world.now();
    assert_eq!(mesh.member(&ward.member_id).unwrap().role, Role::Member);
    assert!(mesh.subscribed(&mesh.general().unwrap().id, &ward.member_id));
    assert_eq!(registry.sponsor(id, &bob, &key(), None).await.unwrap_err().code(), "capacity");
    assert_eq!(registry.sponsor(id, world.alice(), &one, None).await.unwrap_err().code(), "name_taken");
    assert_eq!(registry.sponsor(id, &ward.member_id, &key(), None).await.unwrap_err().code(), "forbidden");
    // One that is not seen goes; one that is seen stays.
    world.pass(20 * HOUR);
    registry.hello_seen(id, &second.member_id, None).await.unwrap();
    world.pass(5 * HOUR);
    assert_eq!(registry.sweep().await.unwrap().left, 1);
    assert!(!world.now().member(&ward.member_id).unwrap().is_active());
    let back = registry.sponsor(id, &bob, &one, None).await.unwrap();
    assert_eq!((back.member_id == ward.member_id, back.already_member), (true, false));
    let before = world.now().general().unwrap().epoch;
    registry.revoke(id, world.alice(), "bob").await.unwrap();
    let mesh = world.now();
    assert_eq!(mesh.active().count(), 1);
    assert_eq!(mesh.general().unwrap().epoch, before.max(1));
    assert!(mesh.member(&second.member_id).unwrap().left_ms.is_some());
    world.pass(2 * DAY);
    assert_eq!(registry.sweep().await.unwrap().forgotten, 2);
}

#[tokio::test]
async fn ownership_goes_to_somebody_who_stays() {
    let world = World::new().await;
    let older = world.member_as("older", "admin").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let key = || SecretKey::generate().public().hex();
    let ward = registry.sponsor(id, alice, &key(), Some("job".into())).await.unwrap().member_id;
    // One that goes with its sponsor cannot be left with anything.
    assert_eq!(registry.set_role(id, alice, &ward, Role::Admin).await.unwrap_err().code(), "forbidden");
    // An owner that has taken a new key hands over to itself, whoever else has been there for longer.
    world.pass(1);
    let successor = registry.succeed(id, alice, &key(), 24, None).await.unwrap().member_id;
    world.pass(24 * HOUR);
    registry.sweep().await.unwrap();
    let mesh = world.now();
    assert_eq!(mesh.member(&successor).unwrap().role, Role::Owner);
    assert_eq!(mesh.member(&older).unwrap().role, Role::Admin);
    assert_eq!(mesh.record.owner_member, successor);
    assert!(!mesh.member(alice).unwrap().is_active() && !mesh.member(&ward).unwrap().is_active());
    // An owner who announced to leave while alone, and is not alone any more, stays until somebody can follow.
    registry.revoke(id, &successor, "older").await.unwrap();
    registry.leave(id, &successor, Some(1)).await.unwrap();
    let admin = world.member("late").await;
    world.pass(2 * HOUR);
    registry.sweep().await.unwrap();
    assert!(world.now().member(&successor).unwrap().is_active());
    registry.set_role(id, &successor, "late", Role::Admin).await.unwrap();
    registry.sweep().await.unwrap();
    assert_eq!(world.now().member(&admin).unwrap().role, Role::Owner);
    assert!(!world.now().member(&successor).unwrap().is_active());
}

#[tokio::test]
async fn what_is_kept_for_nobody_goes() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id) = (&world.registry, world.id());
    let (known, unknown) = (SecretKey::generate().public().hex(), SecretKey::generate().public().hex());
    registry.session_seen(id, &known, &bob).await.unwrap();
    let keys = [bob.clone(), format!("{bob}.{known}"), format!("{bob}.{unknown}"), "nobody".to_owned()];
    for key in &keys {
        registry.cursor_put(id, key, "e", 1).await.unwrap();
    }
    registry.note_presence(id, "nobody", None, None, None).await.unwrap();
    registry.sweep().await.unwrap();
    let there = keys.each_ref().map(|key| registry.cursor(id, key).is_some());
    assert_eq!(there, [true, true, false, false]);
    assert_eq!(registry.seen(id, "nobody"), None);
    let kept = |bucket: &'static str| world.engine.scan(bucket, "");
    assert_eq!((kept("cursor").await.unwrap().len(), kept("seen").await.unwrap().len()), (2, 0));
}
