//! Messages between real daemons over a real broker: direct ones, broadcasts, groups, priorities, sessions' addresses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::{Caller, SendRequest};
use link_support::{TestBroker, holds, hosts, soon, until};
use serde_json::json;

#[tokio::test]
async fn a_direct_message_arrives_once_with_everything_it_has() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    let request = SendRequest {
        to: "BOB".to_owned(),
        message: "hello @bob".to_owned(),
        meta: Some(json!({"n": 1})),
        reply_to: Some("earlier".to_owned()),
        client_message_id: Some("c-1".to_owned()),
        ..SendRequest::default()
    };
    let sent = alice.mesh.send(request.clone(), &Caller::Member).await.unwrap();
    assert_eq!((sent.message_id.as_str(), sent.status), ("c-1", "queued"));
    let items = bob.wait_inbox(1).await;
    let item = &items[0];
    assert_eq!(item.body.as_deref(), Some("hello @bob"));
    assert_eq!(item.meta, Some(json!({"n": 1})));
    assert_eq!((item.reply_to_id.as_deref(), item.client_message_id.as_str()), (Some("earlier"), "c-1"));
    assert_eq!((item.sender_name.as_str(), item.kind.as_str(), item.mention), ("alice", "dm", true));
    assert_eq!(item.sender_pubkey, alice.mesh.member_pubkey());

    alice.drained().await;
    let again = alice.mesh.send(request.clone(), &Caller::Member).await.unwrap();
    assert_eq!((again.status, again.duplicate), ("done", true));
    assert!(again.broker_message_id.is_some());
    let other = SendRequest { message: "other".to_owned(), ..request };
    let refusal = alice.mesh.send(other, &Caller::Member).await.unwrap_err();
    assert_eq!(refusal.code(), "idempotency_key_reused");
    assert_eq!(refusal.body()["conflict"], "outbox_done_fingerprint_mismatch");

    bob.send("alice", "and back").await;
    assert_eq!(alice.wait_inbox(1).await[0].body.as_deref(), Some("and back"));
    assert_eq!(bob.inbox().await.len(), 1);
}

#[tokio::test]
async fn order_is_kept_and_nobody_gets_their_own() {
    let broker = TestBroker::start().await;
    let [alice, bob, carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    for n in 0..300 {
        alice.send("bob", &n.to_string()).await;
    }
    alice.send("*", "to everybody").await;
    let items = bob.wait_inbox(301).await;
    let bodies: Vec<_> = items.iter().filter(|item| item.kind == "dm").filter_map(|item| item.body.clone()).collect();
    let expected: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    assert_eq!(bodies, expected);
    let items = carol.wait_inbox(1).await;
    assert_eq!((items[0].body.as_deref(), items[0].kind.as_str()), (Some("to everybody"), "all"));
    assert!(alice.inbox().await.is_empty());
    let refusal = alice.mesh.send(SendRequest { to: "alice".into(), ..SendRequest::default() }, &Caller::Member).await;
    assert_eq!(refusal.unwrap_err().code(), "invalid");
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_leaves_the_id_free() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    let request = |to: &str, message: String| SendRequest {
        to: to.to_owned(),
        message,
        client_message_id: Some("c-1".to_owned()),
        ..SendRequest::default()
    };
    let refused =
        async |request: SendRequest| alice.mesh.send(request, &Caller::Member).await.unwrap_err().code().to_owned();
    assert_eq!(refused(request("nobody", "x".into())).await, "peer_not_found");
    assert_eq!(refused(request("#nowhere", "x".into())).await, "topic_not_found");
    assert_eq!(refused(request("bob", "x".repeat(200_000))).await, "message_too_large");
    assert_eq!(refused(request("", "x".into())).await, "invalid");
    alice.mesh.send(request("bob", "at last".into()), &Caller::Member).await.unwrap();
    assert_eq!(bob.wait_inbox(1).await[0].body.as_deref(), Some("at last"));
}

#[tokio::test]
async fn a_group_gets_what_is_for_it() {
    let broker = TestBroker::start().await;
    let members = link_support::enrol(&broker, &["alice", "bob", "carol"]).await;
    let mut meshes = Vec::new();
    for (n, (dir, membership)) in members.iter().enumerate() {
        let mut options =
            link_support::options(dir.path().join("m"), membership, link_support::Net::new(), link_support::quick());
        if n == 1 {
            options.groups = vec![hostel_wire::frames::Group { name: "ops".into(), role: None }];
        }
        let mesh = hostel_mesh::Mesh::open(options).await.unwrap();
        let running = mesh.clone();
        tokio::spawn(async move { running.run().await });
        soon("connecting", mesh.connected()).await;
        meshes.push(mesh);
    }
    let request = SendRequest { to: "@ops".into(), message: "wake up".into(), ..SendRequest::default() };
    meshes[0].send(request, &Caller::Member).await.unwrap();
    let request = SendRequest { to: "*".into(), message: "for all".into(), ..SendRequest::default() };
    meshes[0].send(request, &Caller::Member).await.unwrap();
    let inbox = async |mesh: &hostel_mesh::Mesh, count: usize| {
        until("the inbox", async || {
            let items = mesh.inbox(hostel_mesh::InboxRequest::default(), &Caller::Member).await.unwrap().items;
            if items.len() >= count { Ok(items) } else { Err(items.len()) }
        })
        .await
    };
    let items = inbox(&meshes[1], 2).await;
    assert!(items.iter().any(|item| item.kind == "group" && item.body.as_deref() == Some("wake up")));
    let items = inbox(&meshes[2], 1).await;
    assert_eq!(items.iter().filter_map(|item| item.body.as_deref()).collect::<Vec<_>>(), ["for all"]);
}

#[tokio::test]
async fn who_comes_and_goes_is_told() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    let peers = alice.mesh.peers(false).await.unwrap();
    let names: Vec<_> = peers.iter().map(|peer| (peer.display_name.as_str(), peer.online)).collect();
    assert_eq!(peers.len(), 2, "{names:?}");
    assert!(alice.send("bob", "x").await.recipient_online.unwrap());
    // Whoever goes with something on its way to it may be taken for one whose network failed, and has its lease.
    bob.wait_inbox(1).await;
    alice.drained().await;
    let leaving = alice.follow("peer_leave").await;
    let ((), data) = tokio::join!(async { drop(bob.down().await) }, leaving);
    assert_eq!(data["name"], "bob");
    assert_eq!(alice.mesh.peers(false).await.unwrap().len(), 1);
    let all = alice.mesh.peers(true).await.unwrap();
    assert!(all.iter().any(|peer| peer.display_name == "bob" && !peer.online));
    let coming = alice.follow("peer_join").await;
    let ((), data) = tokio::join!(bob.up(), coming);
    assert_eq!(data["name"], "bob");
}

#[tokio::test]
async fn the_state_is_told() {
    let broker = TestBroker::start().await;
    let [alice] = hosts(&broker, ["alice"]).await;
    let health = alice.mesh.health().await;
    assert!(health.connected && health.ok);
    assert_eq!(health.brokers["lab"], "open");
    until("the lag to be known", async || holds(alice.mesh.health().await.lag_ms.is_some(), "no lag")).await;
    let version = alice.mesh.version();
    assert_eq!((version.ipc_api, version.mesh.as_str()), ("v1", "lab"));
    assert!(version.broker_features_negotiated.contains_key("lanes"));
    assert!(alice.mesh.metrics_text().await.contains("cm_daemon_connected{mesh=\"lab\"} 1\n"));
    assert_eq!(alice.mesh.compat()["daemon"], "0.9.0");
}
