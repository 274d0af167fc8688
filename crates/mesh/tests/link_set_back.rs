//! A broker that was put back from before keys were replaced: it follows everybody to the key that counts, and nobody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::home::Memberships;
use hostel_mesh::home::lineage::Lineage;
use hostel_mesh::{Ending, MemberAction};
use hostel_wire::hello::succeed;
use link_support::{TestBroker, copy_files, holds, hosts, places, put_back, until};

#[tokio::test]
async fn a_broker_that_was_set_back_before_rotations_follows_everybody() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob, mut carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    for host in [&alice, &bob, &carol] {
        host.mesh.subscribe("ops").await.unwrap();
    }
    alice.send("bob", "one").await;
    alice.post("ops", "before").await;
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
    carol.post("ops", "carol at last").await;
    let alices = ["bob 0", "bob 1", "bob 2", "bob at last", "carol at last"];
    assert_eq!(texts(alice.wait_inbox(5).await), alices);
    assert_eq!(texts(bob.wait_inbox(5).await), ["alice at last", "before", "carol at last", "one", "two"]);
    // Copies of keys at the broker are for the key that counts again.
    let registry = broker.broker().registry();
    let (member, topic) = (bob.mesh.member_id().to_owned(), mesh.topic("ops").unwrap().id.clone());
    let key = bob.kept_key();
    until("the copy to be sealed anew", async || {
        let (_, seal) = registry.seal_get(mesh.id(), &member, &topic, None).await.map_err(|error| error.to_string())?;
        let opened = hostel_wire::sealed::TopicKey::open_seal(&seal.blob, &seal.nonce, &key);
        opened.map(drop).map_err(|error| error.to_string())
    })
    .await;
    // And on it goes.
    bob.mesh.rotate_keypair().await.unwrap();
    bob.down().await;
    bob.up().await;
    bob.connected().await;
    for host in [&alice, &bob, &carol] {
        assert_eq!(host.metric("cm_daemon_decrypt_stale_total").await, 0);
    }
}

#[tokio::test]
async fn a_broker_that_was_put_back_and_has_grown_since_loses_nothing() {
    let mut broker = TestBroker::start().await;
    let [mut alice, mut bob, mut carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    bob.send("alice", "before").await;
    bob.drained().await;
    alice.wait_inbox(1).await;
    carol.down().await;
    broker.down().await;
    let copy = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), copy.path());
    broker.up().await;
    for number in 0..3 {
        bob.send("alice", &format!("lost {number}")).await;
    }
    bob.send("carol", "lost by the broker").await;
    bob.drained().await;
    alice.wait_inbox(4).await;
    alice.down().await;
    bob.down().await;
    broker.down().await;
    // Carol's own messages make the earlier log longer than what the others have of the later one.
    put_back(copy.path(), broker.dir.path());
    broker.up().await;
    carol.up().await;
    carol.connected().await;
    for number in 0..20 {
        carol.send("alice", &format!("new {number}")).await;
    }
    carol.drained().await;
    alice.up().await;
    bob.up().await;
    let texts: Vec<String> = alice.wait_inbox(24).await.into_iter().map(|item| item.body.unwrap_or_default()).collect();
    for number in 0..20 {
        assert!(texts.contains(&format!("new {number}")), "{texts:?}");
    }
    assert_eq!(carol.wait_inbox(1).await[0].body.as_deref(), Some("lost by the broker"));
    assert!(alice.metric("cm_daemon_history_gap_total").await > 0, "readers are told");
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
        let kept = bob.files();
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
            registry.rotate_key(&current.mesh_id, &current.member_id, &old, &new, None).await.unwrap();
        }
        broker.down().await;
        put_back(copy.path(), broker.dir.path());
        broker.up().await;
        bob.up().await;
        bob.connected().await;
        let wanted = next.key.public().hex();
        until("the rotation", async || holds(bob.mesh.member_pubkey() == wanted, bob.mesh.member_pubkey())).await;
        alice.connected().await;
        alice.send("bob", "there").await;
        assert_eq!(bob.wait_inbox(1).await[0].body.as_deref(), Some("there"), "{step}");
        until("the next key's file to go", async || holds(!kept.keypair_next().exists(), "it is there")).await;
        assert_eq!(bob.kept_key().public().hex(), wanted, "{step}");
    }
}

#[tokio::test]
async fn where_a_thief_came_first_the_broker_says_so_and_nobody_is_let_in() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let member = bob.mesh.member_id().to_owned();
    let stolen = bob.kept_key();
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
    registry.rotate_key(mesh.id(), &member, &stolen.public().hex(), &thief, None).await.unwrap();
    bob.up().await;
    until("a refusal", async || {
        let refused = bob.metric(r#"cm_daemon_reconnects_total{mesh="lab",reason="hello"}"#).await;
        holds(refused > 0, refused)
    })
    .await;
    assert_eq!(registry.mesh(mesh.id()).unwrap().member(&member).unwrap().pubkey, thief, "the first word counts");
    assert_eq!(bob.mesh.member_pubkey(), own);
    // The owner ends it: both are out, and bob hears why.
    alice.mesh.member_action(MemberAction::Revoke, "bob").await.unwrap();
    assert_eq!(bob.ended().await, Ending::Revoked);
}
