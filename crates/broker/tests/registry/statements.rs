//! What members say of themselves: kept if it is theirs, handed out as it was said.

use hostel_broker::registry::{Registry, RegistrySettings, What};
use hostel_wire::authorship::Statement;
use hostel_wire::hello::succeed;
use hostel_wire::keys::SecretKey;

use crate::registry::support::{NOW, World};

/// A member whose key is known to the test.
async fn member(world: &World, name: &str) -> (String, SecretKey) {
    let key = SecretKey::generate();
    let token = world.invite("member", 1, None).await;
    (world.join_with(&token, &key, name).await.unwrap().member_id, key)
}

#[tokio::test]
async fn a_statement_is_its_members_own() {
    let world = World::new().await;
    let (registry, mesh) = (&world.registry, world.id());
    let ((bob, key), (carol, others)) = (member(&world, "bob").await, member(&world, "carol").await);
    let mut changes = registry.changes();
    let said = Statement::new(mesh, &bob, "bob", NOW, &key);
    registry.state_member(mesh, &bob, said.clone(), Vec::new()).await.unwrap();
    assert_eq!(changes.recv().await.unwrap().what, What::Stated { member: bob.clone() });
    let listed = world.now().member(&bob).unwrap().to_frame();
    assert_eq!(listed.statement, Some(said.clone()));
    // Said again, it is nothing new.
    let before = world.now().roster_rev;
    registry.state_member(mesh, &bob, said.clone(), Vec::new()).await.unwrap();
    assert_eq!(world.now().roster_rev, before);
    let refused = async |member: &str, said: Statement| {
        registry.state_member(mesh, member, said, Vec::new()).await.unwrap_err().code()
    };
    assert_eq!(refused(&bob, Statement::new(mesh, &bob, "bob", NOW, &others)).await, "bad_signature");
    assert_eq!(refused(&carol, said.clone()).await, "bad_signature");
    assert_eq!(refused(&bob, Statement::new("other", &bob, "bob", NOW, &key)).await, "bad_signature");
    assert_eq!(refused(&bob, Statement::new(mesh, &bob, "carol", NOW, &key)).await, "invalid_argument");
    assert_eq!(refused(&bob, Statement::new(mesh, &bob, "bob", NOW + 3_600_000, &key)).await, "invalid_argument");
    // It survives a restart.
    let registry = Registry::open(world.engine.clone(), world.clock(), RegistrySettings::default()).await.unwrap();
    assert_eq!(registry.mesh(mesh).unwrap().member(&bob).unwrap().statement, Some(said));
}

#[tokio::test]
async fn rotations_are_handed_out_as_long_as_they_are_signed() {
    let world = World::new().await;
    let (registry, mesh) = (&world.registry, world.id());
    let (bob, first) = member(&world, "bob").await;
    let (second, third) = (SecretKey::generate(), SecretKey::generate());
    let step = succeed(mesh, &bob, &first, &second, NOW);
    let (old, new) = (first.public().hex(), second.public().hex());
    registry.rotate_key(mesh, &bob, &old, &new, Some(step.clone())).await.unwrap();
    assert_eq!(world.now().member(&bob).unwrap().to_frame().lineage, std::slice::from_ref(&step));
    // A rotation that an earlier broker has not kept is brought by the member.
    let next = succeed(mesh, &bob, &second, &third, NOW);
    registry.rotate_key(mesh, &bob, &new, &third.public().hex(), None).await.unwrap();
    assert_eq!(world.now().member(&bob).unwrap().lineage.len(), 1);
    let said = Statement::new(mesh, &bob, "bob", NOW, &third);
    let both = vec![step.clone(), next.clone()];
    let mut forged = both.clone();
    let other = forged[1].signature.clone();
    forged[0].signature = other;
    let mut elsewhere = both.clone();
    elsewhere.push(succeed(mesh, &bob, &third, &SecretKey::generate(), NOW));
    for wrong in [forged, elsewhere, vec![next.clone(), step.clone()]] {
        let refused = registry.state_member(mesh, &bob, said.clone(), wrong).await.unwrap_err();
        assert_eq!(refused.code(), "bad_signature");
    }
    registry.state_member(mesh, &bob, said, both.clone()).await.unwrap();
    assert_eq!(world.now().member(&bob).unwrap().to_frame().lineage, both);
}
