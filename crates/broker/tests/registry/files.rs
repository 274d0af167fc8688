//! Files' records and blobs.

use hostel_broker::engine::{BlobSink as _, Engine as _};
use hostel_broker::registry::{NewFile, RegistrySettings, blob_id};
use hostel_wire::ids;
use tokio::io::AsyncReadExt as _;

use crate::registry::support::{HOUR, NOW, World};

async fn upload(world: &World, by: &str, new: NewFile) -> Result<String, &'static str> {
    let bytes = vec![0; new.size as usize];
    add(world, by, new, &bytes).await
}

async fn add(world: &World, by: &str, new: NewFile, bytes: &[u8]) -> Result<String, &'static str> {
    let mut blob = world.engine.blob_create(&blob_id(world.id(), &new.id), 1000).await.unwrap();
    blob.write(bytes).await.unwrap();
    world.registry.file_add(world.id(), by, new, blob).await.map(|file| file.id.clone()).map_err(|error| error.code())
}

fn file(name: &str) -> NewFile {
    NewFile { id: ids::ulid(NOW), name: name.to_owned(), size: 10, sha256: "00".repeat(32), ..NewFile::default() }
}

#[tokio::test]
async fn nobody_sees_files_of_whom_they_have_blocked() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let to_bob = |name: &str| NewFile { to: Some(bob.clone()), ..file(name) };
    let before = upload(&world, alice, to_bob("before")).await.unwrap();
    let open = upload(&world, alice, file("open")).await.unwrap();
    registry.grant_set(id, &bob, "alice", Some(vec!["read".into()])).await.unwrap();
    assert_eq!(upload(&world, alice, to_bob("after")).await, Err("blocked"));
    assert_eq!(registry.file_grant(id, alice, &open, "bob", "k".into()).await.unwrap_err().code(), "blocked");
    assert!(registry.files_for(id, &bob, None, None).unwrap().is_empty());
    for hidden in [&before, &open] {
        assert_eq!(registry.file_for(id, &bob, hidden).unwrap_err().code(), "not_shared_with_you");
    }
    assert_eq!(registry.files_for(id, &carol, None, None).unwrap().len(), 1);
    assert_eq!(registry.files_for(id, alice, None, None).unwrap().len(), 2, "the one who shared them has them");
    // With what concerns everybody allowed again, only that is there.
    registry.grant_set(id, &bob, "alice", Some(vec!["broadcast".into()])).await.unwrap();
    let names = |member: &str| {
        let listed = registry.files_for(id, member, None, None).unwrap();
        listed.iter().map(|file| file.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&bob), ["open"]);
    registry.grant_set(id, &bob, "alice", None).await.unwrap();
    assert_eq!(names(&bob).len(), 2);
    upload(&world, alice, to_bob("after")).await.unwrap();
}

#[tokio::test]
async fn a_file_is_for_the_mesh_or_for_one() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let keys = |who: &str| [(who.to_owned(), "key".to_owned())].into();
    let open = upload(&world, alice, NewFile { keys: keys("*"), tags: vec!["Logs".into()], ..file("Open.txt") })
        .await
        .unwrap();
    world.pass(1);
    let private = NewFile { keys: keys(&bob), to: Some(bob.clone()), ..file("private.txt") };
    let private = upload(&world, alice, private).await.unwrap();
    for (who, readable) in [(alice, true), (&bob, true), (&carol, false)] {
        let (record, key) = registry.file_for(id, who, &open).unwrap();
        assert_eq!((record.name.as_str(), key.as_deref()), ("Open.txt", Some("key")));
        assert_eq!(registry.file_for(id, who, &private).is_ok(), readable);
        let listed = registry.files_for(id, who, None, None).unwrap();
        let names: Vec<_> = listed.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, if readable { vec!["private.txt", "Open.txt"] } else { vec!["Open.txt"] });
    }
    assert_eq!(registry.file_for(id, &carol, &private).unwrap_err().code(), "not_shared_with_you");
    assert_eq!(registry.file_for(id, &carol, "none").unwrap_err().code(), "file_not_found");
    let found = |query, from| registry.files_for(id, alice, query, from).unwrap().len();
    assert_eq!(
        (found(Some("TXT"), None), found(Some("logs"), None), found(None, Some("alice")), found(None, Some("bob"))),
        (2, 1, 2, 0)
    );
    assert_eq!(registry.file_grant(id, &bob, &private, &carol, "k".into()).await.unwrap_err().code(), "forbidden");
    registry.file_grant(id, alice, &private, "carol", "k".into()).await.unwrap();
    assert_eq!(registry.file_for(id, &carol, &private).unwrap().1.as_deref(), Some("k"));
    assert_eq!(registry.file_delete(id, &bob, &private).await.unwrap_err().code(), "forbidden");
    registry.file_delete(id, alice, &private).await.unwrap();
    assert_eq!(registry.file_delete(id, alice, &private).await.unwrap_err().code(), "file_not_found");
    assert!(world.engine.blob_open(&blob_id(id, &private), 0).await.is_err());
}

#[tokio::test]
async fn an_upload_may_be_repeated_and_is_bounded() {
    let world = World::with(RegistrySettings { files: 2, file_bytes: 25, ..RegistrySettings::default() }).await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let new = file("a");
    assert!(registry.file_room(id, alice, &new).unwrap().is_none());
    let made = upload(&world, alice, new.clone()).await.unwrap();
    assert_eq!(registry.file_room(id, alice, &new).unwrap().unwrap().id, made);
    assert_eq!(upload(&world, alice, new.clone()).await.as_ref(), Ok(&made));
    assert_eq!(upload(&world, &bob, new).await, Err("name_taken"));
    for (bad, code) in [
        (NewFile { id: "../x".into(), ..file("a") }, "invalid_argument"),
        (file(""), "invalid_argument"),
        (NewFile { tags: vec!["x".repeat(100)], ..file("a") }, "invalid_argument"),
        (NewFile { to: Some("nobody".into()), ..file("a") }, "not_found"),
        (NewFile { size: 16, ..file("a") }, "capacity"),
    ] {
        assert_eq!(registry.file_room(id, alice, &bad).unwrap_err().code(), code);
    }
    upload(&world, alice, file("b")).await.unwrap();
    assert_eq!(registry.file_room(id, alice, &NewFile { size: 0, ..file("c") }).unwrap_err().code(), "capacity");
}

#[tokio::test]
async fn an_id_stands_for_one_upload() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let first = NewFile { tags: vec!["a".into()], ..file("a") };
    add(&world, alice, first.clone(), &[1; 10]).await.unwrap();
    // The key for everybody may have been replaced since the answer was lost.
    let keys = [("*".to_owned(), "general:7:n:c".to_owned())].into();
    assert!(add(&world, alice, NewFile { keys, ..first.clone() }, &[1; 10]).await.is_ok());
    for other in [
        NewFile { sha256: "11".repeat(32), ..first.clone() },
        NewFile { size: 9, ..first.clone() },
        NewFile { name: "b".into(), ..first.clone() },
        NewFile { tags: Vec::new(), ..first.clone() },
        NewFile { persistent: true, ..first.clone() },
        NewFile { to: Some(bob.clone()), ..first.clone() },
    ] {
        assert_eq!(registry.file_room(id, alice, &other).unwrap_err().code(), "idempotency_key_reused");
        // Also if both were on their way when nobody had the id yet.
        assert_eq!(add(&world, alice, other.clone(), &[2; 9]).await, Err("idempotency_key_reused"));
        assert_eq!(add(&world, &bob, other, &[2; 9]).await, Err("name_taken"));
    }
    // What was there first is still there, and nothing else is.
    assert!(registry.file_for(id, alice, &first.id).unwrap().0.keys.is_empty());
    let mut kept = Vec::new();
    let (_, mut reader) = world.engine.blob_open(&blob_id(id, &first.id), 0).await.unwrap();
    reader.read_to_end(&mut kept).await.unwrap();
    assert_eq!(kept, [1; 10]);
    assert_eq!(std::fs::read_dir(world.scratch.path().join("blobs")).unwrap().count(), 1);
    // An id that was given back may be used for another one.
    registry.file_delete(id, alice, &first.id).await.unwrap();
    assert!(add(&world, alice, NewFile { name: "b".into(), ..first }, &[3; 10]).await.is_ok());
}

#[tokio::test]
async fn what_is_not_persistent_ends_and_what_belongs_to_nothing_goes() {
    let world = World::new().await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let short = upload(&world, alice, file("short")).await.unwrap();
    let long = upload(&world, alice, NewFile { persistent: true, ..file("long") }).await.unwrap();
    world.pass(24 * HOUR);
    // Over is over, also before it is swept up.
    assert_eq!(registry.file_for(id, alice, &short).unwrap_err().code(), "file_not_found");
    assert_eq!(registry.files_for(id, alice, None, None).unwrap().len(), 1);
    let orphan = world.engine.blob_create("lost-file", 10).await.unwrap();
    orphan.finish().await.unwrap();
    let path = world.scratch.path().join("blobs/lost-file");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600);
    std::fs::File::open(&path).unwrap().set_modified(past).unwrap();
    let fresh = world.engine.blob_create("fresh-file", 10).await.unwrap();
    fresh.finish().await.unwrap();
    let swept = registry.sweep().await.unwrap();
    assert_eq!((swept.files, swept.orphans), (1, 1));
    let there = async |id: &str| world.engine.blob_open(id, 0).await.is_ok();
    assert!(!there(&blob_id(id, &short)).await && there(&blob_id(id, &long)).await);
    assert!(!there("lost-file").await && there("fresh-file").await);
}

#[tokio::test]
async fn a_key_for_everybody_is_of_the_present_epoch() {
    let world = World::new().await;
    world.member("bob").await;
    let for_all = |epoch: u64| {
        let keys = [("*".to_owned(), format!("general:{epoch}:n:c"))].into();
        NewFile { keys, ..file("a") }
    };
    assert!(upload(&world, world.alice(), for_all(0)).await.is_ok());
    assert_eq!(upload(&world, world.alice(), for_all(1)).await, Err("stale_key_epoch"));
    // Who is sent away holds the first one.
    world.registry.revoke(world.id(), world.alice(), "bob").await.unwrap();
    assert_eq!(upload(&world, world.alice(), for_all(0)).await, Err("stale_key_epoch"));
    assert_eq!(upload(&world, world.alice(), for_all(1)).await, Err("stale_key_epoch"), "nobody has made it yet");
}
