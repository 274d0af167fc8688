//! Keys that are replaced while daemons talk: nothing is lost, doubled or unreadable, whoever is away and whatever breaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hostel_mesh::{Caller, Ending, InboxRequest, MemberAction, Mesh, Step};
use link_support::{Host, TestBroker, enrol, holds, hosts, options, quick, soon, until};
use serde_json::json;

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
    assert_eq!(bob.kept_key().public().hex(), new);
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
    assert_eq!(bob.metric("cm_daemon_decrypt_stale_total").await, 0);
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
    assert!(bob.files().keypair_next().exists());
    alice.send("bob", "sealed for the new key").await;
    alice.drained().await;
    bob.net.break_all();
    let rotated = soon("the rotation", rotating).await.unwrap().unwrap();
    assert_eq!(json!(rotated.pubkey), event["newPubkey"]);
    let bodies: Vec<_> = bob.wait_inbox(2).await.into_iter().map(|item| item.body.unwrap_or_default()).collect();
    assert_eq!(bodies, ["sealed for the old key", "sealed for the new key"]);
    assert_eq!(bob.metric("cm_daemon_decrypt_archived_total").await, 1);
    assert!(!bob.files().keypair_next().exists());
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
    assert_eq!(bob.kept_key().public().hex(), old);
    assert!(bob.files().keypair_next().exists() && bob.files().keypair_archive().exists());
    bob.net.mend();
    alice.send("bob", "while away").await;
    bob.up().await;
    let items = bob.wait_inbox(1).await;
    assert_eq!(items[0].body.as_deref(), Some("while away"));
    assert_ne!(bob.mesh.member_pubkey(), old);
    assert_eq!(bob.kept_key().public().hex(), bob.mesh.member_pubkey());
    bob.send("alice", "back").await;
    assert_eq!(alice.wait_inbox(1).await[0].sender_pubkey, bob.mesh.member_pubkey());
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
    let before = (alice.mesh.member_pubkey(), alice.files().keypair_next());
    broker.down().await;
    until("the loss", async || holds(!alice.mesh.health().await.connected, "connected")).await;
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
                    all[me].post("ops", &format!("post {me} {said}")).await;
                    said += 1;
                    // Lets the rotations have their turn; nothing depends on how long it is.
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
        until(&format!("all {others} messages"), async || {
            let (there, owed) = (rows(host).await, host.mesh.health().await.queue_depth);
            holds(owed == 0 && there >= others, format!("{there} are there, {owed} are owed"))
        })
        .await;
        assert_eq!(rows(host).await, others, "each once");
        assert_eq!(host.metric("cm_daemon_decrypt_stale_total").await, 0);
        let request = InboxRequest { limit: 1000, mark_seen: false, ..InboxRequest::default() };
        let page = host.mesh.inbox(request, &Caller::Member).await.unwrap();
        assert!(page.items.iter().all(|item| item.body.is_some()));
    }
}

async fn rows(host: &Host) -> usize {
    usize::try_from(host.metric("cm_daemon_inbox_rows").await).unwrap()
}

#[test]
fn steps_have_words_of_their_own() {
    let words: Vec<_> = Step::ALL.iter().map(|step| step.as_str()).collect();
    assert_eq!(words, ["drawn", "archived", "told", "linked", "configured", "kept"]);
}
