//! Copies of keys that the broker keeps for a member, of topics and of files: once its own key was replaced they are sealed
//! for the new one, all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_broker::{Limits, Settings};
use hostel_mesh::{Caller, RegisterRequest, SendRequest, ShareRequest};
use hostel_wire::sealed::{FileKey, TopicKey};
use link_support::{TestBroker, holds, hosts, until};

#[tokio::test]
async fn topics_files_and_sessions_go_on() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.mesh.subscribe("ops").await.unwrap();
    bob.mesh.subscribe("ops").await.unwrap();
    alice.post("ops", "first").await;
    bob.wait_inbox(1).await;
    let path = alice.dir.path().join("plan.txt");
    std::fs::write(&path, "the plan").unwrap();
    let share = ShareRequest {
        path: path.to_str().unwrap().to_owned(),
        to: Some("bob".to_owned()),
        persistent: true,
        ..ShareRequest::default()
    };
    let shared = alice.mesh.file_share(share, &Caller::Member).await.unwrap();
    bob.wait_inbox(2).await;
    let register = RegisterRequest {
        token: "b".repeat(64),
        session_id: "s-1".to_owned(),
        display_name: "fix-ci".to_owned(),
        pid: std::process::id(),
        presence: true,
        ..RegisterRequest::default()
    };
    bob.mesh.session_register(register).await.unwrap();
    let caller = Caller::Session(bob.mesh.session_by_token(&"b".repeat(64)).unwrap());
    let say = async |message: &str| {
        let request = SendRequest { to: "alice".into(), message: message.into(), ..SendRequest::default() };
        bob.mesh.send(request, &caller).await.unwrap();
    };
    say("session before").await;
    alice.wait_inbox(1).await;
    bob.mesh.rotate_keypair().await.unwrap();
    say("session after").await;
    bob.post("ops", "second").await;
    let items = alice.wait_inbox(3).await;
    assert!(items.iter().any(|item| item.body.as_deref() == Some("session after")), "{items:?}");
    assert!(items.iter().any(|item| item.body.as_deref() == Some("second")), "{items:?}");
    alice.post("ops", "third").await;
    bob.wait_inbox(3).await;
    let out = bob.dir.path().join("got.txt");
    bob.mesh.file_get(&shared.file_id, out.to_str().unwrap(), false).await.unwrap();
    // The broker's copies are sealed for the new key by now: the old one is not needed for anything that is kept.
    let registry = broker.broker().registry();
    let mesh = registry.meshes().remove(0);
    let topic = mesh.topic("ops").unwrap().id.clone();
    let member = bob.mesh.member_id().to_owned();
    until("the copies to be sealed anew", async || {
        let (_, seal) = registry.seal_get(mesh.id(), &member, &topic, None).await.unwrap();
        let (_, key) = registry.file_for(mesh.id(), &member, &shared.file_id).unwrap();
        let current = bob.kept_key();
        let topic_key = TopicKey::open_seal(&seal.blob, &seal.nonce, &current).is_ok();
        let file_key = FileKey::open_seal(&key.unwrap(), &current).is_ok();
        holds(topic_key && file_key, (topic_key, file_key))
    })
    .await;
    bob.down().await;
    for file in [bob.files().keypair_archive(), bob.files().path().join("topics.json")] {
        std::fs::remove_file(file).unwrap();
    }
    bob.up().await;
    bob.connected().await;
    alice.post("ops", "fourth").await;
    let items = bob.wait_inbox(4).await;
    assert!(items.iter().all(|item| item.body.is_some()), "{items:?}");
    bob.mesh.file_get(&shared.file_id, out.to_str().unwrap(), false).await.unwrap();
    assert_eq!(std::fs::read_to_string(out).unwrap(), "the plan");
}

/// More files than the broker's answer holds: all are listed, and the copies of all their keys are sealed anew.
#[tokio::test]
async fn more_files_than_an_answer_holds_are_listed_and_sealed_anew() {
    const MANY: usize = 9;
    let broker = TestBroker::with(Settings { list_bytes: 4096, ..Default::default() }).await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    let path = alice.dir.path().join("plan.txt");
    std::fs::write(&path, "the plan").unwrap();
    // Three of them fit into an answer.
    let tags: Vec<String> = (0..16).map(|n| format!("{n:064}")).collect();
    let mut shared = Vec::new();
    for _ in 0..MANY {
        let (path, to) = (path.to_str().unwrap().to_owned(), Some("bob".to_owned()));
        let share = ShareRequest { path, to, tags: tags.clone(), ..ShareRequest::default() };
        shared.push(alice.mesh.file_share(share, &Caller::Member).await.unwrap().file_id);
    }
    bob.wait_inbox(MANY).await;
    let mut listed: Vec<_> = bob.mesh.file_list().await.unwrap().into_iter().map(|file| file.id).collect();
    listed.sort_unstable();
    shared.sort_unstable();
    assert_eq!(listed, shared);
    bob.mesh.rotate_keypair().await.unwrap();
    let current = bob.kept_key();
    let registry = broker.broker().registry();
    let (mesh, member) = (registry.meshes().remove(0), bob.mesh.member_id().to_owned());
    let sealed = |id: &String| {
        let (_, key) = registry.file_for(mesh.id(), &member, id).unwrap();
        FileKey::open_seal(&key.unwrap(), &current).is_ok()
    };
    until("the copies to be sealed anew", async || {
        let count = shared.iter().filter(|id| sealed(id)).count();
        holds(count == shared.len(), count)
    })
    .await;
}

/// More copies than the broker answers requests at once: it goes on where it was refused, also on the next connection, and
/// what the member does meanwhile is done.
#[tokio::test]
async fn more_copies_than_the_broker_has_time_for_are_all_sealed_anew() {
    const TOPICS: usize = 60;
    const FILES: usize = 10;
    let mut broker = TestBroker::with(Settings {
        limits: Limits { requests_per_s: 0, rate_per_s: 0, ..Limits::default() },
        ..Settings::default()
    })
    .await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    for topic in 0..TOPICS {
        let name = format!("topic-{topic}");
        bob.mesh.subscribe(&name).await.unwrap();
        bob.post(&name, "first").await;
    }
    bob.drained().await;
    let path = alice.dir.path().join("plan.txt");
    std::fs::write(&path, "the plan").unwrap();
    let mut shared = Vec::new();
    for _ in 0..FILES {
        let (path, to) = (path.to_str().unwrap().to_owned(), Some("bob".to_owned()));
        let share = ShareRequest { path, to, ..ShareRequest::default() };
        shared.push(alice.mesh.file_share(share, &Caller::Member).await.unwrap().file_id);
    }
    bob.wait_inbox(FILES).await;
    // From here on half of them are more than it takes at once, however long it rested.
    broker.down().await;
    broker.settings.limits = Limits { requests_per_s: 30, requests_burst: 30, rate_per_s: 0, ..Limits::default() };
    broker.up().await;
    for host in [&alice, &bob] {
        host.connected().await;
    }
    bob.mesh.rotate_keypair().await.unwrap();
    let (current, member) = (bob.kept_key(), bob.mesh.member_id().to_owned());
    let registry = broker.broker().registry();
    let mesh = registry.meshes().remove(0);
    let (mesh_id, topic) = (mesh.id().to_owned(), |n: usize| mesh.topic(&format!("topic-{n}")).unwrap().id.clone());
    let topics: Vec<String> = (0..TOPICS).map(topic).collect();
    let anew = async || {
        let mut count = 0;
        for topic in &topics {
            let (_, seal) = registry.seal_get(&mesh_id, &member, topic, None).await.unwrap();
            count += usize::from(TopicKey::open_seal(&seal.blob, &seal.nonce, &current).is_ok());
        }
        for file in &shared {
            let (_, key) = registry.file_for(&mesh_id, &member, file).unwrap();
            count += usize::from(FileKey::open_seal(&key.unwrap(), &current).is_ok());
        }
        count
    };
    let wait = async |least: usize| {
        until(&format!("{least} copies to be sealed anew"), async || {
            let count = anew().await;
            holds(count >= least, count)
        })
        .await;
    };
    wait(5).await;
    // Messages are not held up, and a connection that breaks in the middle changes nothing.
    alice.send("bob", "meanwhile").await;
    bob.send("alice", "meanwhile").await;
    let items = bob.wait_inbox(FILES + 1).await;
    assert_eq!(items[FILES].body.as_deref(), Some("meanwhile"));
    alice.wait_inbox(1).await;
    bob.net.break_all();
    wait(TOPICS + FILES).await;
    bob.connected().await;
    assert_eq!(bob.metric("cm_daemon_decrypt_stale_total").await, 0);
}
