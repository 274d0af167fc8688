//! Another key for the same member: what it leads to, for how long, and what of the member does not change.

use hostel_broker::audit::kind;
use hostel_broker::registry::{Registry, RegistrySettings, Role, What};
use hostel_wire::frames::client::Succession;
use hostel_wire::hello::succeed;
use hostel_wire::keys::SecretKey;

use crate::registry::support::{DAY, HOUR, NOW, World, seals};

fn key() -> String {
    SecretKey::generate().public().hex()
}

#[tokio::test]
async fn the_member_stays_who_it_is() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let bob = world.member("bob").await;
    let before = world.now().member(&bob).unwrap().record.clone();
    let topic = registry.topic_create(id, &bob, "some", None, None).await.unwrap().topic.id.clone();
    registry.subscribe(id, &bob, "some", false).await.unwrap();
    registry.seal_put(id, &bob, &topic, 0, seals(&[&bob])).await.unwrap();
    registry.grant_set(id, world.alice(), "bob", Some(vec![])).await.unwrap();
    let (mut changes, new) = (registry.changes(), key());
    let rotated = registry.rotate_key(id, &bob, &before.pubkey, &new, None).await.unwrap();
    assert!(!rotated.already && rotated.member.pubkey == new);
    let what = What::KeyRotated {
        member: bob.clone(),
        old_pubkey: before.pubkey.clone(),
        new_pubkey: new.clone(),
        until_ms: world.clock().now_ms() + DAY,
    };
    assert_eq!(changes.recv().await.unwrap().what, what);
    let mesh = world.now();
    let after = mesh.member(&bob).unwrap();
    assert_eq!((&after.name, after.role, after.joined_seq), (&before.name, before.role, before.joined_seq));
    assert!(mesh.subscribed(&topic, &bob) && mesh.holds(&topic, 0, &bob));
    assert!(!mesh.may(world.alice(), &bob, "dm"), "who is blocked stays blocked");
    // Both keys, and their beginnings, lead to it; grants and bans may name either.
    for text in [&before.pubkey[..], &before.pubkey[..16], &new, &new[..16]] {
        assert_eq!(mesh.find(text).unwrap().id, bob, "{text}");
    }
    // Asked again, because an answer was lost.
    let again = registry.rotate_key(id, &bob, &before.pubkey, &new, None).await.unwrap();
    assert!(again.already && again.until_ms == rotated.until_ms);
    let audit = registry.audit_query(id, world.alice(), 0, 500).await.unwrap();
    assert_eq!(audit.iter().filter(|one| one.kind == kind::MEMBER_KEYPAIR_ROTATED).count(), 1);
    // It survives a restart.
    let registry = Registry::open(world.engine.clone(), world.clock(), RegistrySettings::default()).await.unwrap();
    let mesh = registry.mesh(id).unwrap();
    assert_eq!(mesh.member(&bob).unwrap().record, after.record);
    assert_eq!(mesh.find(&before.pubkey).unwrap().id, bob);
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_changes_nothing() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let mesh = world.now();
    let (old, hers) = (mesh.member(&bob).unwrap().pubkey.clone(), mesh.member(&carol).unwrap().pubkey.clone());
    let refused = async |old: &str, new: &str| registry.rotate_key(id, &bob, old, new, None).await.unwrap_err().code();
    assert_eq!(refused(&old, &hers).await, "name_taken");
    assert_eq!(refused(&old, &world.owner.public().hex()).await, "name_taken");
    assert_eq!(refused(&old, &"0".repeat(64)).await, "invalid_argument");
    assert_eq!(refused(&old, &key().to_uppercase()).await, "invalid_argument");
    assert_eq!(refused(&old, &old).await, "key_replaced");
    assert_eq!(refused(&hers, &key()).await, "key_replaced");
    assert_eq!(world.now().member(&bob).unwrap().record, mesh.member(&bob).unwrap().record);
    let (first, second) = (key(), key());
    registry.rotate_key(id, &bob, &old, &first, None).await.unwrap();
    assert_eq!(refused(&old, &second).await, "key_replaced");
    assert_eq!(refused(&first, &old).await, "name_taken", "a key does not come back");
    registry.rotate_key(id, &bob, &first, &second, None).await.unwrap();
    assert_eq!(refused(&old, &first).await, "key_replaced", "an old answer is none to a new question");
    registry.revoke(id, world.alice(), &old).await.unwrap();
    assert_eq!(refused(&second, &key()).await, "forbidden", "who is revoked replaces nothing");
    let guest = registry.sponsor(id, &carol, &key(), None).await.unwrap().member_id;
    let his = world.now().member(&guest).unwrap().pubkey.clone();
    assert_eq!(registry.rotate_key(id, &guest, &his, &key(), None).await.unwrap_err().code(), "forbidden");
}

#[tokio::test]
async fn the_old_key_leads_there_for_a_day_and_tells_of_its_time_for_a_month() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let bob = world.member("bob").await;
    let old = world.now().member(&bob).unwrap().pubkey.clone();
    let new = key();
    registry.rotate_key(id, &bob, &old, &new, None).await.unwrap();
    world.pass(DAY - HOUR);
    registry.sweep().await.unwrap();
    assert_eq!(world.now().find(&old).unwrap().id, bob);
    world.pass(HOUR);
    let mut changes = registry.changes();
    registry.sweep().await.unwrap();
    assert_eq!(changes.recv().await.unwrap().what, What::KeyOver { member: bob.clone() });
    let mesh = world.now();
    assert_eq!(mesh.find(&old).unwrap_err().code(), "not_found");
    assert_eq!(mesh.find(&old[..16]).unwrap_err().code(), "not_found");
    assert!(mesh.member_by_key(&old).is_none());
    let frame = mesh.member(&bob).unwrap().to_frame();
    assert!(frame.retired.is_empty() && frame.past[0].pubkey == old, "readers that come late know whose it was");
    assert!(registry.rotate_key(id, &bob, &old, &new, None).await.unwrap().already, "also after so long");
    registry.sweep().await.unwrap();
    assert!(changes.try_recv().is_err(), "nothing more to do");
    world.pass(31 * DAY);
    registry.sweep().await.unwrap();
    assert!(world.now().member(&bob).unwrap().past.is_empty());
}

#[tokio::test]
async fn a_replaced_key_joins_nothing_and_passes_to_no_successor() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let token = world.invite("member", 5, None).await;
    let (first, second) = (SecretKey::generate(), SecretKey::generate());
    let bob = world.join_with(&token, &first, "bob").await.unwrap().member_id;
    registry.rotate_key(id, &bob, &first.public().hex(), &second.public().hex(), None).await.unwrap();
    let refused = world.join_with(&token, &first, "bob").await.unwrap_err();
    assert_eq!(refused.code(), "member_insert_failed");
    assert!(world.join_with(&token, &second, "bob").await.unwrap().already_member);
    let heir = registry.succeed(id, &bob, &key(), 24, None).await.unwrap().member_id;
    let mesh = world.now();
    assert!(mesh.member(&heir).unwrap().retired.is_empty());
    assert_eq!(mesh.find(&first.public().hex()).unwrap().id, bob);
}

#[tokio::test]
async fn the_owner_keeps_the_mesh_and_its_invites() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let before = world.invite("member", 2, None).await;
    let old = world.now().member(world.alice()).unwrap().pubkey.clone();
    registry.rotate_key(id, world.alice(), &old, &key(), None).await.unwrap();
    let mesh = world.now();
    assert_eq!(mesh.member(world.alice()).unwrap().role, Role::Owner);
    assert_eq!(mesh.record.owner_pubkey, world.owner.public().hex());
    // Invites are signed by another key, and old ones stay good.
    let after = world.invite("member", 1, None).await;
    for (token, name) in [(before, "bob"), (after, "carol")] {
        world.join_with(&token, &SecretKey::generate(), name).await.unwrap();
    }
}

#[tokio::test]
async fn there_is_an_end_to_replacing() {
    let world = World::with(RegistrySettings { retired_keys: 3, ..RegistrySettings::default() }).await;
    let (registry, id) = (&world.registry, world.id());
    let mut old = world.now().member(world.alice()).unwrap().pubkey.clone();
    for _ in 0..3 {
        let new = key();
        registry.rotate_key(id, world.alice(), &old, &new, None).await.unwrap();
        old = new;
        world.pass(2 * DAY);
    }
    assert_eq!(registry.rotate_key(id, world.alice(), &old, &key(), None).await.unwrap_err().code(), "capacity");
    world.pass(26 * DAY);
    registry.rotate_key(id, world.alice(), &old, &key(), None).await.unwrap();
}

#[tokio::test]
async fn only_ones_own_copies_are_sealed_anew() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let topic = registry.topic_create(id, &bob, "some", None, None).await.unwrap().topic.id.clone();
    registry.seal_put(id, &bob, &topic, 0, seals(&[&bob])).await.unwrap();
    let mut anew = seals(&[&bob]).remove(0);
    anew.blob = "YW5ldw==".to_owned();
    registry.seal_replace(id, &bob, &topic, 0, anew.clone()).await.unwrap();
    assert_eq!(registry.seal_get(id, &bob, &topic, None).await.unwrap().1.blob, anew.blob);
    let refused = async |by: &str, topic: &str, epoch| {
        registry.seal_replace(id, by, topic, epoch, anew.clone()).await.unwrap_err().code()
    };
    assert_eq!(refused(&carol, &topic, 0).await, "key_not_sealed_for_member");
    assert_eq!(refused(&bob, &topic, 1).await, "key_not_sealed_for_member");
    assert_eq!(refused(&bob, "nowhere", 0).await, "key_not_sealed_for_member");
    let wrong = hostel_wire::frames::client::Seal { blob: "*".to_owned(), ..anew.clone() };
    assert_eq!(registry.seal_replace(id, &bob, &topic, 0, wrong).await.unwrap_err().code(), "invalid_argument");
}

/// What keys said of one another, each with the next.
fn lineage(world: &World, member: &str, keys: &[&SecretKey]) -> Vec<Succession> {
    let said = |pair: &[&SecretKey]| succeed(world.id(), member, pair[0], pair[1], NOW - DAY);
    keys.windows(2).map(said).collect()
}

/// A member with a key of its own: its id and the keys it will have.
async fn with_keys<const N: usize>(world: &World) -> (String, [SecretKey; N]) {
    let keys = std::array::from_fn(|_| SecretKey::generate());
    let token = world.invite("member", 1, None).await;
    (world.join_with(&token, &keys[0], "bob").await.unwrap().member_id, keys)
}

#[tokio::test]
async fn whoever_has_gone_on_since_a_copy_was_made_is_followed() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let (bob, [first, second, third, fourth]) = with_keys(&world).await;
    let hex = |key: &SecretKey| key.public().hex();
    let whole = lineage(&world, &bob, &[&first, &second, &third]);
    let mut changes = registry.changes();
    let rotated = registry.catch_up(id, &bob, &hex(&third), &whole).await.unwrap();
    assert_eq!((&rotated.member.pubkey, rotated.already), (&hex(&third), false));
    let retired: Vec<_> = rotated.member.retired.iter().map(|key| (key.pubkey.clone(), key.at, key.until)).collect();
    assert_eq!(retired, [(hex(&first), NOW - DAY, NOW + DAY), (hex(&second), NOW - DAY, NOW + DAY)]);
    let what =
        What::KeyRotated { member: bob.clone(), old_pubkey: hex(&first), new_pubkey: hex(&third), until_ms: NOW + DAY };
    assert_eq!(changes.recv().await.unwrap().what, what);
    for key in [&first, &second, &third] {
        assert_eq!(world.now().find(&hex(key)).unwrap().id, bob, "all of them lead there");
    }
    let audit = registry.audit_query(id, world.alice(), 0, 500).await.unwrap();
    let told = audit.iter().find(|one| one.kind == kind::MEMBER_KEYPAIR_ROTATED).unwrap();
    assert_eq!((&told.body["oldPubkey"], &told.body["keysBetween"]), (&hex(&first).into(), &1.into()));
    // A broker that has heard of some of it is followed from there.
    let whole = lineage(&world, &bob, &[&first, &second, &third, &fourth]);
    registry.catch_up(id, &bob, &hex(&fourth), &whole).await.unwrap();
    assert_eq!(world.now().member(&bob).unwrap().retired.len(), 3);
    // What is known does not have to be shown, and what is shown again changes nothing.
    assert_eq!(registry.catch_up(id, &bob, &hex(&fourth), &whole).await.unwrap_err().code(), "key_replaced");
    let registry = Registry::open(world.engine.clone(), world.clock(), RegistrySettings::default()).await.unwrap();
    assert_eq!(registry.mesh(id).unwrap().member(&bob).unwrap().pubkey, hex(&fourth));
}

#[tokio::test]
async fn a_key_that_was_replaced_here_leads_nowhere() {
    let world = World::new().await;
    let (registry, id) = (&world.registry, world.id());
    let (bob, [stolen, second, thief, other]) = with_keys(&world).await;
    let hex = |key: &SecretKey| key.public().hex();
    registry.rotate_key(id, &bob, &hex(&stolen), &hex(&second), None).await.unwrap();
    let refused = async |member: &str, key: &SecretKey, lineage: &[Succession]| {
        let before = world.now().member(&bob).unwrap().record.clone();
        let code = registry.catch_up(id, member, &hex(key), lineage).await.unwrap_err().code();
        assert_eq!(world.now().member(&bob).unwrap().record, before, "nothing changed");
        code
    };
    // Who has the old key can sign what it likes with it, at whatever time it says.
    let forged = lineage(&world, &bob, &[&stolen, &thief]);
    assert_eq!(refused(&bob, &thief, &forged).await, "key_replaced");
    assert_eq!(refused(&bob, &thief, &lineage(&world, &bob, &[&stolen, &other, &thief])).await, "key_replaced");
    world.pass(2 * DAY);
    registry.sweep().await.unwrap();
    assert_eq!(refused(&bob, &thief, &forged).await, "key_replaced", "also when its grace is over");
    // Signed by others, for others, with a gap, or not to the end.
    let good = lineage(&world, &bob, &[&second, &thief]);
    let spoils: [fn(&mut Succession); 3] =
        [|one| one.signature = one.proof.clone(), |one| one.timestamp += 1, |one| one.proof.clear()];
    for spoil in spoils {
        let mut bad = good.clone();
        spoil(&mut bad[0]);
        assert_eq!(refused(&bob, &thief, &bad).await, "bad_signature");
    }
    assert_eq!(refused(&bob, &other, &good).await, "bad_signature");
    assert_eq!(refused(&bob, &thief, &[]).await, "bad_signature");
    assert_eq!(refused(world.alice(), &thief, &good).await, "bad_signature");
    assert_eq!(refused("nobody", &thief, &good).await, "forbidden");
    let gap = [lineage(&world, &bob, &[&second, &other]), lineage(&world, &bob, &[&stolen, &thief])].concat();
    assert_eq!(refused(&bob, &thief, &gap).await, "bad_signature");
    assert_eq!(refused(&bob, &thief, &vec![good[0].clone(); 65]).await, "bad_signature");
    assert_eq!(refused(&bob, &stolen, &lineage(&world, &bob, &[&second, &stolen])).await, "name_taken");
    registry.revoke(id, world.alice(), &bob).await.unwrap();
    assert_eq!(refused(&bob, &thief, &good).await, "forbidden");
}

#[tokio::test]
async fn many_keys_at_once_find_room() {
    let world = World::with(RegistrySettings { retired_keys: 3, ..RegistrySettings::default() }).await;
    let (registry, id) = (&world.registry, world.id());
    let (bob, keys) = with_keys::<7>(&world).await;
    let hex = |key: &SecretKey| key.public().hex();
    registry.rotate_key(id, &bob, &hex(&keys[0]), &hex(&keys[1]), None).await.unwrap();
    world.pass(2 * DAY);
    registry.sweep().await.unwrap();
    let all: Vec<&SecretKey> = keys.iter().collect();
    let caught = registry.catch_up(id, &bob, &hex(&keys[6]), &lineage(&world, &bob, &all)).await.unwrap();
    assert_eq!((caught.member.retired.len(), caught.member.past.len()), (5, 0));
}
