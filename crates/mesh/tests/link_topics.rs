//! Topics: who gets what, who can read what, and when.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::{Caller, Ending, MemberAction, PostRequest, State};
use link_support::{TestBroker, hosts};

#[tokio::test]
async fn a_post_reaches_subscribers_and_a_late_one_gets_the_later_ones() {
    let broker = TestBroker::start().await;
    let [alice, bob, carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    let made = alice.mesh.subscribe("#Alerts").await.unwrap();
    assert_eq!((made.topic.as_str(), made.created, made.subscribed, made.pending), ("alerts", Some(true), true, false));
    let joined = bob.mesh.subscribe("alerts").await.unwrap();
    assert_eq!((joined.created, joined.topic_id), (Some(false), made.topic_id));
    assert_eq!(alice.post("alerts", "first").await.topic.as_deref(), Some("alerts"));
    let items = bob.wait_inbox(1).await;
    assert_eq!((items[0].body.as_deref(), items[0].topic.as_deref()), (Some("first"), Some("alerts")));

    carol.mesh.subscribe("alerts").await.unwrap();
    bob.post("alerts", "second").await;
    assert_eq!(carol.wait_inbox(1).await[0].body.as_deref(), Some("second"));
    assert_eq!(alice.wait_inbox(1).await[0].body.as_deref(), Some("second"));

    let listed = carol.mesh.topics().await.unwrap();
    let alerts = listed.iter().find(|topic| topic.name == "alerts").unwrap();
    assert_eq!((alerts.subscribed, alerts.unread, alerts.member_count), (true, 1, 3));
    assert!(listed.iter().any(|topic| topic.name == "general" && topic.subscribed));
}

#[tokio::test]
async fn a_topic_without_its_key_waits_for_it() {
    let broker = TestBroker::start().await;
    let [mut alice, bob, mut carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    alice.mesh.subscribe("alerts").await.unwrap();
    bob.mesh.subscribe("alerts").await.unwrap();
    alice.post("alerts", "first").await;
    bob.wait_inbox(1).await;
    // Nobody who holds the key is there when carol subscribes and a post comes.
    alice.down().await;
    bob.net.cut();
    carol.mesh.subscribe("alerts").await.unwrap();
    bob.post("alerts", "while nobody could seal").await;
    carol.down().await;
    carol.up().await;
    carol.connected().await;
    bob.net.mend();
    let items = carol.wait_inbox(1).await;
    assert_eq!(items[0].body.as_deref(), Some("while nobody could seal"));
}

#[tokio::test]
async fn subscribing_without_a_broker_is_told_later() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    broker.down().await;
    let wish = bob.mesh.subscribe("later").await.unwrap();
    assert!(wish.pending && wish.subscribed);
    assert!(bob.mesh.topics().await.unwrap().iter().any(|topic| topic.name == "later" && topic.subscribed));
    let refusal = bob.mesh.topic_post(PostRequest { topic: "never".into(), ..PostRequest::default() }, &Caller::Member);
    assert_eq!(refusal.await.unwrap_err().code(), "broker_unavailable");
    bob.down().await;
    bob.up().await;
    broker.up().await;
    alice.connected().await;
    bob.connected().await;
    // The wish survived bob's restart, and the topic exists now.
    link_support::until("the topic", async || {
        let listed: Vec<_> = alice.mesh.topics().await.unwrap().into_iter().map(|topic| topic.name).collect();
        link_support::holds(listed.iter().any(|name| name == "later"), listed)
    })
    .await;
    alice.post("later", "now").await;
    assert_eq!(bob.wait_inbox(1).await[0].body.as_deref(), Some("now"));
}

#[tokio::test]
async fn unsubscribing_ends_it_and_changes_the_key() {
    let broker = TestBroker::start().await;
    let [alice, bob, carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    for host in [&alice, &bob, &carol] {
        host.mesh.subscribe("alerts").await.unwrap();
    }
    alice.post("alerts", "for three").await;
    bob.wait_inbox(1).await;
    carol.wait_inbox(1).await;
    let left = carol.mesh.unsubscribe("alerts").await.unwrap();
    assert!(!left.subscribed && !left.pending);
    assert!(!carol.mesh.unsubscribe("alerts").await.unwrap().subscribed, "again is no error");
    alice.post("alerts", "for two").await;
    bob.wait_inbox(2).await;
    assert_eq!(bob.bodies().await, ["for three", "for two"]);
    assert_eq!(carol.bodies().await, ["for three"]);
}

#[tokio::test]
async fn a_revoked_member_ends_and_reads_nothing_more() {
    let broker = TestBroker::start().await;
    let [alice, bob, mut mallory] = hosts(&broker, ["alice", "bob", "mallory"]).await;
    for host in [&alice, &bob, &mallory] {
        host.mesh.subscribe("alerts").await.unwrap();
    }
    alice.post("alerts", "for all").await;
    alice.send("*", "good morning").await;
    mallory.wait_inbox(2).await;
    let refused = bob.mesh.member_action(MemberAction::Revoke, "mallory").await.unwrap_err();
    assert_eq!(refused.code(), "forbidden", "bob is no administrator");
    alice.mesh.member_action(MemberAction::Revoke, "mallory").await.unwrap();
    assert_eq!(mallory.ended().await, Ending::Revoked);
    assert_eq!(mallory.mesh.state(), State::Revoked);
    let refusal = mallory.mesh.inbox(hostel_mesh::InboxRequest::default(), &Caller::Member).await.unwrap_err();
    assert_eq!(refusal.code(), "member_revoked");

    alice.post("alerts", "for two").await;
    alice.send("*", "good riddance").await;
    bob.wait_inbox(4).await;
    bob.post("alerts", "and back").await;
    assert_eq!(alice.wait_inbox(1).await[0].body.as_deref(), Some("and back"));
    let refusal = alice.mesh.send(
        hostel_mesh::SendRequest { to: "mallory".into(), message: "x".into(), ..Default::default() },
        &Caller::Member,
    );
    assert_eq!(refusal.await.unwrap_err().code(), "peer_not_found");

    // Coming back is of no use: the hello is refused and the daemon ends again.
    mallory.up().await;
    assert_eq!(mallory.ended().await, Ending::Revoked);
}

#[tokio::test]
async fn who_joins_after_a_revocation_can_read_and_post() {
    let broker = TestBroker::start().await;
    let [alice, bob, mut mallory] = hosts(&broker, ["alice", "bob", "mallory"]).await;
    alice.mesh.member_action(MemberAction::Revoke, "mallory").await.unwrap();
    assert_eq!(mallory.ended().await, Ending::Revoked);
    alice.send("*", "a new key").await;
    assert_eq!(bob.wait_inbox(1).await[0].body.as_deref(), Some("a new key"));
    let invite = alice.mesh.invite_create(hostel_mesh::InviteRequest::default()).await.unwrap();
    let dave = link_support::join(&invite.invite, "dave").await;
    dave.connected().await;
    alice.send("*", "welcome dave").await;
    assert_eq!(dave.wait_inbox(1).await[0].body.as_deref(), Some("welcome dave"));
    dave.send("*", "thanks").await;
    let items = bob.wait_for("dave's answer", |items| items.iter().any(|item| item.sender_name == "dave")).await;
    assert_eq!(items.last().unwrap().body.as_deref(), Some("thanks"));
}

#[tokio::test]
async fn posts_are_not_given_up_because_the_topics_were_forgotten_here() {
    let mut broker = TestBroker::start().await;
    let [mut alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.mesh.subscribe("alerts").await.unwrap();
    bob.mesh.subscribe("alerts").await.unwrap();
    alice.post("alerts", "zero").await;
    bob.wait_inbox(1).await;
    broker.down().await;
    for text in ["one", "two"] {
        assert_eq!(alice.post("alerts", text).await.status, "queued");
    }
    alice.down().await;
    // As after a power cut: the outbox has everything, what is learned from the broker is gone.
    for name in ["topics.json", "roster.json"] {
        std::fs::remove_file(alice.dir.path().join("mesh").join(name)).unwrap();
    }
    alice.up().await;
    broker.up().await;
    bob.wait_inbox(3).await;
    assert_eq!(bob.bodies().await, ["zero", "one", "two"]);
    alice.drained().await;
    assert!(alice.mesh.outbox_list(Some("dead"), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_post_to_a_topic_that_was_deleted_is_given_up() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    bob.mesh.subscribe("alerts").await.unwrap();
    bob.post("alerts", "is there").await;
    bob.drained().await;
    let gone = bob.follow("daemon_disconnect").await;
    tokio::join!(async { bob.net.cut() }, gone);
    bob.post("alerts", "too late").await;
    broker.delete_topic("alerts").await;
    let given_up = bob.follow("outbox_dead").await;
    let ((), given_up) = tokio::join!(async { bob.net.mend() }, given_up);
    assert_eq!(given_up["reason"], "topic_not_found");
    drop(alice);
}
