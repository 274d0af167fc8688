//! Keys that are replaced while daemons talk: nothing is lost, doubled or unreadable, whoever is away and whatever breaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod link_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hostel_mesh::home::lineage::Lineage;
use hostel_mesh::home::{Memberships, MeshDir};
use hostel_mesh::{
    Caller, Ending, InboxRequest, MemberAction, Mesh, PostRequest, RegisterRequest, SendRequest, ShareRequest, Step,
};
use hostel_wire::hello::succeed;
use link_support::{DEADLINE, Host, TestBroker, copy_files, enrol, hosts, options, places, put_back, quick, soon};
use serde_json::json;

fn kept_key(host: &Host) -> String {
    let known = Memberships::load(&places(host.dir.path())).unwrap();
    known.find("lab").unwrap().key.public().hex()
}

fn files(host: &Host) -> MeshDir {
    MeshDir::at(host.dir.path().join("mesh"))
}

async fn post(host: &Host, topic: &str, message: &str) {
    let request = PostRequest { topic: topic.to_owned(), message: message.to_owned(), ..PostRequest::default() };
    host.mesh.topic_post(request, &Caller::Member).await.unwrap();
}

async fn metric(host: &Host, name: &str) -> u64 {
    let text = host.mesh.metrics_text().await;
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_key_is_replaced_and_everybody_goes_on() {
    let broker = TestBroker::start().await;
    let [alice, mut bob, mut carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    let old = bob.mesh.member_pubkey();
    alice.send("bob", "before").await;
    bob.send("alice", "from before").await;
    bob.wait_inbox(1).await;
    // Somebody who is away has a message of the old key to read when it is back.
    carol.down().await;
    bob.send("carol", "for later").await;
    bob.drained().await;
    let told = alice.follow("member_keypair_rotated").await;
    let own = bob.follow("member_keypair_rotated").await;
    let rotated = bob.mesh.rotate_keypair().await.unwrap();
    let new = bob.mesh.member_pubkey();
    assert_eq!((&rotated.old_pubkey, &rotated.pubkey, rotated.archived), (&old, &new, 1));
    assert_ne!(old, new);
    assert_eq!(kept_key(&bob), new);
    for (event, alone) in [(told.await, json!(null)), (own.await, json!(true))] {
        assert_eq!((&event["name"], &event["self"]), (&json!("bob"), &alone), "{event}");
        assert_eq!((&event["oldPubkey"], &event["newPubkey"]), (&json!(old), &json!(new)));
    }
    // By name, by the new key, by the old one and by its beginning: all of them mean the same member.
    for to in ["bob", &new, &old, &old[..16]] {
        alice.send(to, "after").await;
    }
    bob.send("alice", "from after").await;
    let items = bob.wait_inbox(5).await;
    assert!(items.iter().all(|item| item.body.is_some()), "{items:?}");
    let items = alice.wait_inbox(2).await;
    let keys: Vec<&str> = items.iter().map(|item| item.sender_pubkey.as_str()).collect();
    assert_eq!(keys, [old.as_str(), new.as_str()]);
    assert_eq!(items[0].sender_member_id, items[1].sender_member_id);
    for from in [&old, &new] {
        let request = InboxRequest { from: Some(from.clone()), mark_seen: false, ..InboxRequest::default() };
        assert_eq!(alice.mesh.inbox(request, &Caller::Member).await.unwrap().items.len(), 2, "either key means bob");
    }
    carol.up().await;
    let items = carol.wait_inbox(1).await;
    assert_eq!((items[0].body.as_deref(), items[0].sender_pubkey.as_str()), (Some("for later"), old.as_str()));
    // The same after a restart, and once more.
    bob.down().await;
    bob.up().await;
    bob.connected().await;
    assert_eq!(bob.mesh.member_pubkey(), new);
    assert_eq!(bob.mesh.rotate_keypair().await.unwrap().archived, 2);
    alice.send(&old, "still").await;
    bob.wait_inbox(6).await;
    let audit = alice.mesh.audit(0, 500).await.unwrap();
    let kinds = audit["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "member_keypair_rotated");
    assert_eq!(kinds.count(), 2);
    assert_eq!(metric(&bob, "cm_daemon_decrypt_stale_total").await, 0);
}

#[tokio::test]
async fn what_was_sealed_for_the_old_key_opens_when_the_answer_was_lost() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let old = bob.mesh.member_pubkey();
    let told = alice.follow("member_keypair_rotated").await;
    // Bob is heard and hears nothing: neither the message, nor that the broker has his new key.
    bob.net.deafen();
    alice.send("bob", "sealed for the old key").await;
    alice.drained().await;
    let rotating = tokio::spawn({
        let mesh = bob.mesh.clone();
        async move { mesh.rotate_keypair().await }
    });
    let event = told.await;
    assert_eq!(bob.mesh.member_pubkey(), old, "it has not heard");
    assert!(files(&bob).keypair_next().exists());
    alice.send("bob", "sealed for the new key").await;
    alice.drained().await;
    bob.net.break_all();
    let rotated = soon("the rotation", rotating).await.unwrap().unwrap();
    assert_eq!(json!(rotated.pubkey), event["newPubkey"]);
    let bodies: Vec<_> = bob.wait_inbox(2).await.into_iter().map(|item| item.body.unwrap_or_default()).collect();
    assert_eq!(bodies, ["sealed for the old key", "sealed for the new key"]);
    assert_eq!(metric(&bob, "cm_daemon_decrypt_archived_total").await, 1);
    assert!(!files(&bob).keypair_next().exists());
    bob.down().await;
    bob.up().await;
    bob.connected().await;
    assert_eq!(bob.inbox().await.len(), 2);
}

#[tokio::test]
async fn a_rotation_that_was_cut_off_is_finished_at_the_next_start() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let old = bob.mesh.member_pubkey();
    let event = alice.follow("member_keypair_rotated").await;
    bob.net.deafen();
    let mesh = bob.mesh.clone();
    let rotating = tokio::spawn(async move { mesh.rotate_keypair().await });
    event.await;
    // As if killed here: the daemon ends without having heard.
    rotating.abort();
    bob.net.cut();
    bob.down().await;
    assert_eq!(kept_key(&bob), old);
    assert!(files(&bob).keypair_next().exists() && files(&bob).keypair_archive().exists());
    bob.net.mend();
    alice.send("bob", "while away").await;
    bob.up().await;
    let items = bob.wait_inbox(1).await;
    assert_eq!(items[0].body.as_deref(), Some("while away"));
    assert_ne!(bob.mesh.member_pubkey(), old);
    assert_eq!(kept_key(&bob), bob.mesh.member_pubkey());
    bob.send("alice", "back").await;
    assert_eq!(alice.wait_inbox(1).await[0].sender_pubkey, bob.mesh.member_pubkey());
}

#[tokio::test]
async fn topics_files_and_sessions_go_on() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.mesh.subscribe("ops").await.unwrap();
    bob.mesh.subscribe("ops").await.unwrap();
    post(&alice, "ops", "first").await;
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
    post(&bob, "ops", "second").await;
    let items = alice.wait_inbox(3).await;
    assert!(items.iter().any(|item| item.body.as_deref() == Some("session after")), "{items:?}");
    assert!(items.iter().any(|item| item.body.as_deref() == Some("second")), "{items:?}");
    post(&alice, "ops", "third").await;
    bob.wait_inbox(3).await;
    let out = bob.dir.path().join("got.txt");
    bob.mesh.file_get(&shared.file_id, out.to_str().unwrap()).await.unwrap();
    // The broker's copies are sealed for the new key by now: the old one is not needed for anything that is kept.
    let registry = broker.broker().registry();
    let mesh = registry.meshes().remove(0);
    let topic = mesh.topic("ops").unwrap().id.clone();
    let member = bob.mesh.member_id().to_owned();
    soon("sealing anew", async {
        loop {
            let (_, seal) = registry.seal_get(mesh.id(), &member, &topic, None).await.unwrap();
            let (_, key) = registry.file_for(mesh.id(), &member, &shared.file_id).unwrap();
            let current = Memberships::load(&places(bob.dir.path())).unwrap().find("lab").unwrap().key.clone();
            let topic_key = hostel_wire::sealed::TopicKey::open_seal(&seal.blob, &seal.nonce, &current);
            let file_key = hostel_wire::sealed::FileKey::open_seal(&key.unwrap(), &current);
            if topic_key.is_ok() && file_key.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    bob.down().await;
    for file in [files(&bob).keypair_archive(), files(&bob).path().join("topics.json")] {
        std::fs::remove_file(file).unwrap();
    }
    bob.up().await;
    bob.connected().await;
    post(&alice, "ops", "fourth").await;
    let items = bob.wait_inbox(4).await;
    assert!(items.iter().all(|item| item.body.is_some()), "{items:?}");
    bob.mesh.file_get(&shared.file_id, out.to_str().unwrap()).await.unwrap();
    assert_eq!(std::fs::read_to_string(out).unwrap(), "the plan");
}

/// More files than the broker's answer holds: all are listed, and the copies of all their keys are sealed anew.
#[tokio::test]
async fn more_files_than_an_answer_holds_are_listed_and_sealed_anew() {
    const MANY: usize = 9;
    let broker = TestBroker::with(hostel_broker::Settings { list_bytes: 4096, ..Default::default() }).await;
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
    let current = Memberships::load(&places(bob.dir.path())).unwrap().find("lab").unwrap().key.clone();
    let registry = broker.broker().registry();
    let (mesh, member) = (registry.meshes().remove(0), bob.mesh.member_id().to_owned());
    let sealed = |id: &String| {
        let (_, key) = registry.file_for(mesh.id(), &member, id).unwrap();
        hostel_wire::sealed::FileKey::open_seal(&key.unwrap(), &current).is_ok()
    };
    soon("sealing anew", async {
        while !shared.iter().all(sealed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn who_may_not_or_cannot_is_told_so() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    for _ in 0..8 {
        bob.mesh.rotate_keypair().await.unwrap();
    }
    let refusal = bob.mesh.rotate_keypair().await.unwrap_err();
    assert_eq!(refusal.code(), "too_many_archived_keys");
    assert!(refusal.body()["next_possible_at"].is_string(), "{refusal}");
    // What was there before is as it was.
    bob.send("alice", "still here").await;
    assert_eq!(alice.wait_inbox(1).await[0].sender_pubkey, bob.mesh.member_pubkey());
    // An identity that is written nowhere.
    let members = enrol(&broker, &["solo"]).await;
    let mut made = options(members[0].0.path().join("mesh"), &members[0].1, bob.net.clone(), quick());
    made.dir = None;
    let ephemeral = Mesh::open(made).await.unwrap();
    assert_eq!(ephemeral.rotate_keypair().await.unwrap_err().code(), "ephemeral_identity");
    // Without a broker nothing is begun.
    let before = (alice.mesh.member_pubkey(), files(&alice).keypair_next());
    broker.down().await;
    soon("the loss", async {
        while alice.mesh.health().await.connected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(alice.mesh.rotate_keypair().await.unwrap_err().code(), "broker_unavailable");
    assert!(alice.mesh.member_pubkey() == before.0 && !before.1.exists());
    broker.up().await;
    alice.connected().await;
    bob.connected().await;
    alice.mesh.member_action(MemberAction::Revoke, "bob").await.unwrap();
    assert_eq!(bob.ended().await, Ending::Revoked);
    assert_eq!(bob.mesh.rotate_keypair().await.unwrap_err().code(), "member_revoked");
}

#[tokio::test]
async fn keys_are_replaced_again_and_again_while_everybody_talks() {
    let broker = TestBroker::start().await;
    let mut all = hosts(&broker, ["alice", "bob", "carol"]).await;
    for host in &mut all {
        host.down().await;
        host.settings.crypto.max_archived_keys = 100;
        host.up().await;
    }
    for host in &all {
        host.connected().await;
        host.mesh.subscribe("ops").await.unwrap();
    }
    let all = Arc::new(all);
    let stop = Arc::new(AtomicBool::new(false));
    let names = ["alice", "bob", "carol"];
    let talking: Vec<_> = (0..3)
        .map(|me| {
            let (all, stop) = (Arc::clone(&all), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut said = 0;
                while !stop.load(Ordering::Relaxed) {
                    for other in (0..3).filter(|other| *other != me) {
                        all[me].send(names[other], &format!("dm {me} {said}")).await;
                    }
                    post(&all[me], "ops", &format!("post {me} {said}")).await;
                    said += 1;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                said
            })
        })
        .collect();
    for round in 0..6 {
        all[round % 3].mesh.rotate_keypair().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut said = Vec::new();
    for one in talking {
        said.push(soon("talking", one).await.unwrap());
    }
    for (me, host) in all.iter().enumerate() {
        let others: usize = said.iter().enumerate().filter(|(other, _)| *other != me).map(|(_, said)| 2 * said).sum();
        let arriving = async {
            while host.mesh.health().await.queue_depth > 0 || rows(host).await < others {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let arrived = tokio::time::timeout(DEADLINE, arriving).await;
        let depth = host.mesh.health().await.queue_depth;
        assert!(arrived.is_ok(), "{} of {others} are there, {depth} are owed", rows(host).await);
        assert_eq!(rows(host).await, others, "each once");
        assert_eq!(metric(host, "cm_daemon_decrypt_stale_total").await, 0);
        let request = InboxRequest { limit: 1000, mark_seen: false, ..InboxRequest::default() };
        let page = host.mesh.inbox(request, &Caller::Member).await.unwrap();
        assert!(page.items.iter().all(|item| item.body.is_some()));
    }
}

async fn rows(host: &Host) -> usize {
    usize::try_from(metric(host, "cm_daemon_inbox_rows").await).unwrap()
}

#[test]
fn steps_have_words_of_their_own() {
    let words: Vec<_> = Step::ALL.iter().map(|step| step.as_str()).collect();
    assert_eq!(words, ["drawn", "archived", "told", "linked", "configured", "kept"]);
}

#[tokio::test]
async fn a_broker_that_was_set_back_before_rotations_follows_everybody() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob, mut carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    for host in [&alice, &bob, &carol] {
        host.mesh.subscribe("ops").await.unwrap();
    }
    alice.send("bob", "one").await;
    post(&alice, "ops", "before").await;
    bob.wait_inbox(2).await;
    carol.wait_inbox(1).await;
    for host in [&alice, &bob, &carol] {
        host.drained().await;
    }
    broker.down().await;
    let copy = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), copy.path());
    broker.up().await;
    for host in [&alice, &bob, &carol] {
        host.connected().await;
    }
    // Bob goes through three keys, carol through one, the owner too; what they say meanwhile the copy has not.
    let first = bob.mesh.member_pubkey();
    for round in 0..3 {
        bob.mesh.rotate_keypair().await.unwrap();
        bob.send("alice", &format!("bob {round}")).await;
    }
    alice.mesh.rotate_keypair().await.unwrap();
    carol.mesh.rotate_keypair().await.unwrap();
    alice.send("bob", "two").await;
    bob.wait_inbox(3).await;
    alice.wait_inbox(3).await;
    for host in [&alice, &bob] {
        host.drained().await;
    }
    // Carol is away meanwhile, and what is for her is nowhere but with who sent it.
    carol.down().await;
    alice.send("carol", "lost by the broker").await;
    alice.drained().await;
    broker.down().await;
    put_back(copy.path(), broker.dir.path());
    hostel_broker::engine::renew_epochs(&broker.dir.path().join("broker.db")).unwrap();
    broker.up().await;
    for host in [&alice, &bob] {
        host.connected().await;
    }
    let mesh = broker.broker().registry().meshes().remove(0);
    assert_eq!(mesh.find(&first).unwrap().pubkey, bob.mesh.member_pubkey(), "the first key leads to the last");
    carol.up().await;
    let texts = |items: Vec<hostel_mesh::InboxItem>| {
        let mut texts: Vec<String> = items.into_iter().map(|item| item.body.unwrap_or_default()).collect();
        texts.sort();
        texts
    };
    assert_eq!(texts(carol.wait_inbox(2).await), ["before", "lost by the broker"]);
    bob.send("alice", "bob at last").await;
    alice.send("bob", "alice at last").await;
    post(&carol, "ops", "carol at last").await;
    let alices = ["bob 0", "bob 1", "bob 2", "bob at last", "carol at last"];
    assert_eq!(texts(alice.wait_inbox(5).await), alices);
    assert_eq!(texts(bob.wait_inbox(5).await), ["alice at last", "before", "carol at last", "one", "two"]);
    // Copies of keys at the broker are for the key that counts again.
    let registry = broker.broker().registry();
    let (member, topic) = (bob.mesh.member_id().to_owned(), mesh.topic("ops").unwrap().id.clone());
    let key = Memberships::load(&places(bob.dir.path())).unwrap().find("lab").unwrap().key.clone();
    soon("sealing anew", async {
        loop {
            let seal = registry.seal_get(mesh.id(), &member, &topic, None).await;
            if seal
                .is_ok_and(|(_, seal)| hostel_wire::sealed::TopicKey::open_seal(&seal.blob, &seal.nonce, &key).is_ok())
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    // And on it goes.
    bob.mesh.rotate_keypair().await.unwrap();
    bob.down().await;
    bob.up().await;
    bob.connected().await;
    for host in [&alice, &bob, &carol] {
        assert_eq!(metric(host, "cm_daemon_decrypt_stale_total").await, 0);
    }
}

#[tokio::test]
async fn a_rotation_under_way_and_a_broker_that_is_set_back_end_in_one_key() {
    for step in ["archived", "told", "linked"] {
        let mut broker = TestBroker::start().await;
        let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
        broker.down().await;
        let copy = tempfile::tempdir().unwrap();
        copy_files(broker.dir.path(), copy.path());
        broker.up().await;
        bob.connected().await;
        bob.mesh.rotate_keypair().await.unwrap();
        bob.down().await;
        // As if killed at this step of the next one: what the disk holds then is what it held there.
        let kept = files(&bob);
        let current = Memberships::load(&places(bob.dir.path())).unwrap().find("lab").unwrap().clone();
        let next = hostel_mesh::home::next::Next {
            mesh_id: current.mesh_id.clone(),
            member_id: current.member_id.clone(),
            old: current.key.public(),
            key: hostel_wire::keys::SecretKey::generate(),
        };
        next.write(&kept.keypair_next(), 1).unwrap();
        let now = hostel_wire::Clock::system().now_ms();
        let mut archive = hostel_mesh::home::archive::Archive::open(&kept.keypair_archive(), now).unwrap().archive;
        archive.add(hostel_mesh::home::archive::ArchivedKey::of(&current.key, now, 7));
        archive.write(&kept.keypair_archive()).unwrap();
        if step == "linked" {
            let (mut line, _) = Lineage::open(&kept.keypair_lineage(), &current.key.public(), now).unwrap();
            let said = succeed(&current.mesh_id, &current.member_id, &current.key, &next.key, now);
            line.add(&current.key.public(), said);
            line.write(&kept.keypair_lineage()).unwrap();
        }
        if step != "archived" {
            let registry = broker.broker().registry();
            let (old, new) = (current.key.public().hex(), next.key.public().hex());
            registry.rotate_key(&current.mesh_id, &current.member_id, &old, &new).await.unwrap();
        }
        broker.down().await;
        put_back(copy.path(), broker.dir.path());
        broker.up().await;
        bob.up().await;
        bob.connected().await;
        soon("the rotation", async {
            while bob.mesh.member_pubkey() != next.key.public().hex() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        alice.connected().await;
        alice.send("bob", "there").await;
        assert_eq!(bob.wait_inbox(1).await[0].body.as_deref(), Some("there"), "{step}");
        soon("the files", async {
            while kept.keypair_next().exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!(kept_key(&bob), next.key.public().hex(), "{step}");
    }
}

#[tokio::test]
async fn where_a_thief_came_first_the_broker_says_so_and_nobody_is_let_in() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let member = bob.mesh.member_id().to_owned();
    let stolen = Memberships::load(&places(bob.dir.path())).unwrap().find("lab").unwrap().key.clone();
    broker.down().await;
    let copy = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), copy.path());
    broker.up().await;
    bob.connected().await;
    bob.mesh.rotate_keypair().await.unwrap();
    let own = bob.mesh.member_pubkey();
    bob.down().await;
    broker.down().await;
    put_back(copy.path(), broker.dir.path());
    broker.up().await;
    alice.connected().await;
    let registry = broker.broker().registry();
    let mesh = registry.meshes().remove(0);
    let thief = hostel_wire::keys::SecretKey::generate().public().hex();
    registry.rotate_key(mesh.id(), &member, &stolen.public().hex(), &thief).await.unwrap();
    bob.up().await;
    soon("a refusal", async {
        while metric(&bob, r#"cm_daemon_reconnects_total{mesh="lab",reason="hello"}"#).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(registry.mesh(mesh.id()).unwrap().member(&member).unwrap().pubkey, thief, "the first word counts");
    assert_eq!(bob.mesh.member_pubkey(), own);
    // The owner ends it: both are out, and bob hears why.
    alice.mesh.member_action(MemberAction::Revoke, "bob").await.unwrap();
    assert_eq!(bob.ended().await, Ending::Revoked);
}
