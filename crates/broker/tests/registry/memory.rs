//! What is in memory is what is on disk.

use std::sync::Arc;

use hostel_broker::engine::Engine as _;
use hostel_broker::registry::{NewFile, Registry, RegistrySettings, Role, blob_id};
use hostel_wire::frames::Group;
use hostel_wire::ids;
use hostel_wire::keys::SecretKey;
use proptest::prelude::*;
use serde_json::json;

use crate::registry::support::{HOUR, NOW, World, new_mesh, seals};

async fn reopened(world: &World) -> Registry<hostel_broker::engine::SqliteEngine> {
    Registry::open(world.engine.clone(), world.clock(), RegistrySettings::default()).await.unwrap()
}

async fn same(world: &World) {
    let again = reopened(world).await;
    for mesh in world.registry.meshes() {
        let found = again.mesh(mesh.id()).unwrap();
        // Too long to be shown.
        assert!(found.roster_rev == mesh.roster_rev && found == mesh, "another mesh after a restart");
        for member in mesh.members() {
            assert_eq!(again.seen(mesh.id(), &member.id), world.registry.seen(mesh.id(), &member.id));
            assert_eq!(again.cursor(mesh.id(), &member.id), world.registry.cursor(mesh.id(), &member.id));
        }
    }
    assert_eq!(again.meshes().len(), world.registry.meshes().len());
}

/// One of the things that can happen, with whoever the numbers choose. Many are refused: they must change nothing then.
async fn act(world: &World, number: u8, one: usize, other: usize) {
    let mesh = world.now();
    let mut members: Vec<_> = mesh.members().map(|member| member.id.clone()).collect();
    members.sort();
    let (one, other) = (members[one % members.len()].clone(), members[other % members.len()].clone());
    let mut topics: Vec<_> = mesh.topics().map(|topic| topic.id.clone()).collect();
    topics.sort();
    let topic = topics[usize::from(number) % topics.len()].clone();
    let epoch = mesh.topic(&topic).unwrap().epoch;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    if mesh.active().count() == 0 {
        return;
    }
    match number % 23 {
        0 => drop(world.member(&format!("member{number}")).await),
        1 => drop(world.member_as("admin", "admin").await),
        2 => drop(registry.rename(id, &one, &format!("name{number}")).await),
        3 => drop(registry.revoke(id, &one, &other).await),
        4 => drop(registry.unban(id, &one, &other).await),
        5 => drop(registry.leave(id, &one, None).await),
        6 => drop(registry.leave(id, &one, Some(u32::from(number) % 3)).await),
        7 => drop(registry.set_role(id, alice, &one, Role::Admin).await),
        8 => drop(registry.topic_create(id, &one, &format!("topic{number}"), None, None).await),
        9 => drop(registry.subscribe(id, &one, &topic, false).await),
        10 => drop(registry.unsubscribe(id, &one, &topic).await),
        11 => drop(registry.topic_delete(id, &one, &topic).await),
        12 => drop(registry.seal_put(id, &one, &topic, epoch, seals(&[&one, &other])).await),
        13 => drop(registry.seal_put(id, &one, &topic, epoch, seals(&[&other])).await),
        14 => drop(registry.grant_set(id, &one, &other, number.is_multiple_of(2).then(Vec::new)).await),
        15 => drop(registry.set_groups(id, &one, vec![Group { name: "ops".into(), role: None }]).await),
        16 => drop(registry.set_profile(id, &one, json!({"bio": number}).as_object().unwrap().clone()).await),
        17 => drop(registry.session_seen(id, &SecretKey::generate().public().hex(), &one).await),
        18 => {
            registry.hello_seen(id, &one, Some(&number.to_string())).await.unwrap();
            registry.cursor_put(id, &one, "e", u64::from(number)).await.unwrap();
        }
        19 => {
            let new = NewFile { id: ids::ulid(NOW), name: "f".into(), size: 1, ..NewFile::default() };
            let blob = world.engine.blob_create(&blob_id(id, &new.id), 1).await.unwrap();
            registry.file_add(id, &one, new, blob).await.ok();
        }
        21 => drop(registry.sponsor(id, &one, &SecretKey::generate().public().hex(), None).await),
        20 => drop(registry.succeed(id, &one, &SecretKey::generate().public().hex(), 1, None).await),
        _ => {
            world.pass(HOUR * u64::from(number));
            registry.sweep().await.unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restart_changes_nothing(acts in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            for (number, one, other) in acts {
                act(&world, number, one, other).await;
            }
            same(&world).await;
            let mesh = world.now();
            // Where anybody is there is one who owns it, and nobody has two names.
            let owners = mesh.active().filter(|member| member.role == Role::Owner).count();
            prop_assert_eq!(owners, usize::from(mesh.active().count() > 0));
            for member in mesh.members().filter(|member| member.left_ms.is_none()) {
                prop_assert_eq!(&mesh.find(&member.name).unwrap().id, &member.id);
            }
            for topic in mesh.topics() {
                for id in mesh.holders(&topic.id, topic.epoch) {
                    prop_assert!(mesh.member(id).unwrap().is_active());
                }
                for id in mesh.without_key(topic).iter() {
                    prop_assert!(!mesh.holds(&topic.id, topic.epoch, id));
                }
            }
            Ok(())
        })?;
    }
}

/// Whoever asks may go away: what was begun is finished, in memory as on disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_finished_also_when_its_asker_goes() {
    let world = World::new().await;
    for number in 0..50 {
        let name = format!("name{number}");
        let change = world.registry.rename(world.id(), world.alice(), &name);
        tokio::select! {
            biased;
            _ = change => {}
            () = tokio::task::yield_now() => {}
        }
    }
    // The next one waits for its turn behind those that were begun.
    world.registry.subscribe(world.id(), world.alice(), "last", true).await.unwrap();
    assert_ne!(world.now().member(world.alice()).unwrap().name, "alice");
    same(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_once_do_not_lose_each_other() {
    let world = Arc::new(World::new().await);
    let token = world.invite("member", 10, None).await;
    let mut tasks = Vec::new();
    for number in 0..16 {
        let (world, token) = (Arc::clone(&world), token.clone());
        tasks.push(tokio::spawn(async move {
            let owner = SecretKey::generate();
            world.registry.create_mesh(new_mesh("lab", &owner, &owner)).await.unwrap();
            world.registry.subscribe(world.id(), world.alice(), &format!("t{}", number % 5), true).await.unwrap();
            world.join_with(&token, &SecretKey::generate(), "same").await.is_ok()
        }));
    }
    let mut joined = 0;
    for task in tasks {
        joined += usize::from(task.await.unwrap());
    }
    assert_eq!(joined, 10);
    let mesh = world.now();
    assert_eq!((mesh.active().count(), mesh.topics().count()), (11, 6));
    let mut slugs: Vec<_> = world.registry.meshes().iter().map(|mesh| mesh.record.slug.clone()).collect();
    slugs.sort();
    slugs.dedup();
    assert_eq!(slugs.len(), 17);
    same(&world).await;
}
