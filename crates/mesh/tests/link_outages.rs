//! What happens when something is not there: the broker, the network, a daemon. Nothing is lost, nothing is doubled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::{Caller, Ending, InboxItem, PostRequest, SendRequest, ShareRequest, State};
use link_support::{Host, TestBroker, copy_files, holds, hosts, put_back, soon, until};

#[tokio::test]
async fn what_is_sent_without_a_broker_arrives_when_it_is_back() {
    let mut broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    broker.down().await;
    for n in 0..20 {
        let sent = alice.send("bob", &format!("offline {n}")).await;
        assert_eq!(sent.status, "queued");
    }
    assert_ne!(alice.mesh.state(), State::Open);
    assert_eq!(alice.mesh.peers(false).await.unwrap_err().code(), "broker_unavailable");
    assert_eq!(alice.mesh.peers(true).await.unwrap().len(), 2, "the roster is kept");
    broker.up().await;
    bob.wait_inbox(20).await;
    let expected: Vec<_> = (0..20).map(|n| format!("offline {n}")).collect();
    assert_eq!(bob.bodies().await, expected);
}

#[tokio::test]
async fn who_asks_right_after_the_start_waits_for_the_first_connection() {
    let mut broker = TestBroker::start().await;
    let [mut alice, _bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.down().await;
    broker.down().await;
    alice.up().await;
    let mesh = alice.mesh.clone();
    let asked = tokio::spawn(async move { mesh.peers(false).await });
    broker.up().await;
    let peers = soon("the peers", asked).await.unwrap().unwrap();
    assert!(peers.iter().any(|peer| peer.display_name == "alice"), "{peers:?}");
}

#[tokio::test]
async fn a_daemon_that_was_away_gets_what_it_missed_once() {
    let broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.send("bob", "before").await;
    bob.wait_inbox(1).await;
    assert_eq!(bob.down().await, Ending::Shutdown);
    for n in 0..50 {
        alice.send("bob", &format!("missed {n}")).await;
    }
    alice.drained().await;
    bob.up().await;
    let items = bob.wait_inbox(51).await;
    assert_eq!(items.len(), 51);
    assert_eq!(items[50].body.as_deref(), Some("missed 49"));
}

#[tokio::test]
async fn a_daemon_that_starts_without_a_broker_queues_for_those_it_knows() {
    let mut broker = TestBroker::start().await;
    let [mut alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.down().await;
    broker.down().await;
    alice.up().await;
    alice.send("bob", "from the dark").await;
    alice.down().await;
    alice.up().await;
    alice.send("bob", "still dark").await;
    // Only the broker can say that somebody does not exist: without it they may have joined since.
    let ask = || async {
        let request = hostel_mesh::SendRequest { to: "nobody".into(), message: "x".into(), ..Default::default() };
        alice.mesh.send(request, &hostel_mesh::Caller::Member).await.unwrap_err()
    };
    let refusal = ask().await;
    assert_eq!((refusal.code(), refusal.field_name()), ("broker_unavailable", Some("to")), "{refusal:?}");
    assert!(refusal.retry_after_s().is_some());
    broker.up().await;
    alice.drained().await;
    assert_eq!(ask().await.code(), "peer_not_found");
    bob.wait_inbox(2).await;
    assert_eq!(bob.bodies().await, ["from the dark", "still dark"]);
}

#[tokio::test]
async fn a_lost_ack_doubles_nothing() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    for round in 0..5 {
        // What alice says arrives, what the broker answers does not.
        alice.net.deafen();
        alice.send("bob", &format!("round {round}")).await;
        bob.wait_inbox(round + 1).await;
        assert_eq!(alice.mesh.health().await.queue_depth, 1, "nobody has told alice");
        alice.net.break_all();
        alice.drained().await;
    }
    assert_eq!(bob.inbox().await.len(), 5);
    let text = alice.mesh.metrics_text().await;
    assert!(text.contains("cm_daemon_dedupe_total{mesh=\"lab\",direction=\"out\"} 5\n"), "{text}");
}

#[tokio::test]
async fn a_lost_acknowledgement_of_ours_doubles_nothing() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    for round in 0..10 {
        alice.send("bob", &format!("round {round}")).await;
        bob.wait_inbox(round + 1).await;
        bob.net.break_all();
    }
    alice.send("bob", "the last").await;
    let items = bob.wait_inbox(11).await;
    assert_eq!(items.len(), 11);
}

#[tokio::test]
async fn a_flapping_network_loses_nothing_and_keeps_the_order() {
    let mut broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    for n in 0..400 {
        alice.send("bob", &n.to_string()).await;
        match n % 50 {
            10 => alice.net.break_all(),
            20 => bob.net.break_all(),
            30 => alice.net.cut(),
            35 => alice.net.mend(),
            40 if n == 240 => {
                broker.down().await;
                broker.up().await;
            }
            _ => {}
        }
    }
    alice.drained().await;
    let items = bob.wait_inbox(400).await;
    let expected: Vec<_> = (0..400).map(|n| n.to_string()).collect();
    let bodies: Vec<_> = items.into_iter().filter_map(|item| item.body).collect();
    assert_eq!(bodies, expected);
}

#[tokio::test]
async fn a_broker_that_was_set_back_gets_again_what_it_lost() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.send("bob", "one").await;
    bob.wait_inbox(1).await;
    alice.drained().await;
    broker.down().await;
    // A copy of how things are now.
    let copy = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), copy.path());
    broker.up().await;
    bob.down().await;
    alice.connected().await;
    alice.send("bob", "two").await;
    alice.drained().await;
    broker.down().await;
    put_back(copy.path(), broker.dir.path());
    broker.up().await;
    bob.up().await;
    let items = bob.wait_inbox(2).await;
    assert_eq!(items[1].body.as_deref(), Some("two"));
    assert_eq!(items.len(), 2);
}

#[tokio::test]
async fn a_broker_that_was_set_back_hears_of_topics_and_subscriptions_again() {
    let mut broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    alice.mesh.subscribe("old").await.unwrap();
    broker.down().await;
    let copy = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), copy.path());
    broker.up().await;
    alice.connected().await;
    bob.connected().await;
    // All of this the broker forgets.
    for topic in ["old", "new"] {
        bob.mesh.subscribe(topic).await.unwrap();
    }
    alice.mesh.subscribe("new").await.unwrap();
    for n in 0..3 {
        alice.send("bob", &n.to_string()).await;
    }
    bob.wait_inbox(3).await;
    alice.drained().await;
    let told = bob.follow("system").await;
    broker.down().await;
    put_back(copy.path(), broker.dir.path());
    broker.up().await;
    let told = told.await;
    assert_eq!((&told["event"], &told["count"]), (&"topics_lost".into(), &1.into()), "{told}");
    assert_eq!(told["made_again"], serde_json::json!(["new"]), "{told}");
    alice.connected().await;
    // What is posted before bob is subscribed again is not for bob, and what alice knows may be of before.
    until("both to be subscribed again", async || {
        let mesh = broker.broker().registry().meshes().remove(0);
        let topics = alice.mesh.topics().await.unwrap();
        let seen = ["old", "new"].map(|name| {
            let id = mesh.topic(name).map(|topic| topic.id.clone()).unwrap_or_default();
            (name, mesh.subscribers(&id).count(), topics.iter().any(|topic| topic.id == id))
        });
        holds(seen.iter().all(|(_, subscribers, known)| *subscribers == 2 && *known), seen)
    })
    .await;
    for topic in ["old", "new"] {
        let request = PostRequest { topic: topic.into(), message: topic.into(), ..PostRequest::default() };
        alice.mesh.topic_post(request, &Caller::Member).await.unwrap();
    }
    let all = |items: &[InboxItem]| {
        ["old", "new"].iter().all(|topic| items.iter().any(|item| item.body.as_deref() == Some(topic)))
    };
    bob.wait_for("both posts", all).await;
}

#[tokio::test]
async fn the_end_of_a_connection_is_told() {
    let mut broker = TestBroker::start().await;
    let [alice] = hosts(&broker, ["alice"]).await;
    let gone = alice.follow("daemon_disconnect").await;
    let ((), data) = tokio::join!(broker.down(), gone);
    assert_eq!(data["mesh"], "lab");
    assert_eq!(alice.mesh.state(), State::Reconnecting);
    let back = alice.follow("daemon_reconnect").await;
    let ((), data) = tokio::join!(broker.up(), back);
    assert_eq!(data["first"], false);
    assert_eq!(alice.mesh.health().await.brokers["lab"], "open");
}

#[tokio::test]
async fn a_second_daemon_with_the_same_key_does_not_fight_for_ever() {
    let broker = TestBroker::start().await;
    let [alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    let twin = link_support::options(
        alice.dir.path().join("twin"),
        &alice.membership,
        link_support::Net::new(),
        link_support::quick(),
    );
    let twin = hostel_mesh::Mesh::open(twin).await.unwrap();
    let running = twin.clone();
    let task = tokio::spawn(async move { running.run().await });
    soon("the twin's connection", twin.connected()).await;
    let request = SendRequest { to: "bob".into(), message: "from one of us".into(), ..SendRequest::default() };
    twin.send(request, &Caller::Member).await.unwrap();
    assert_eq!(bob.wait_inbox(1).await[0].sender_name, "alice");
    twin.shutdown();
    soon("the twin's end", task).await.unwrap();
}

#[tokio::test]
async fn a_reader_misses_nothing_when_the_log_is_put_back() {
    let mut broker = TestBroker::start().await;
    let [alice, mut bob, carol] = hosts(&broker, ["alice", "bob", "carol"]).await;
    alice.send("bob", "one").await;
    bob.wait_inbox(1).await;
    alice.drained().await;
    broker.down().await;
    let copy = tempfile::tempdir().unwrap();
    copy_files(broker.dir.path(), copy.path());
    broker.up().await;
    alice.connected().await;
    for n in 0..20 {
        carol.send("bob", &format!("lost {n}")).await;
    }
    bob.wait_inbox(21).await;
    carol.drained().await;
    bob.down().await;
    broker.down().await;
    put_back(copy.path(), broker.dir.path());
    broker.up().await;
    // The log grows again while bob, who has read further than it goes, is away.
    alice.send("bob", "two").await;
    alice.drained().await;
    bob.up().await;
    bob.wait_for("what came while bob was away", |items| items.iter().any(|one| one.body.as_deref() == Some("two")))
        .await;
    carol.send("bob", "three").await;
    bob.wait_inbox(23).await;
    let mut bodies = bob.bodies().await;
    assert_eq!(bodies.len(), 23);
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 23, "nothing twice");
}

#[tokio::test]
async fn an_upload_that_was_not_noted_is_the_same_upload_again() {
    let broker = TestBroker::start().await;
    let [mut alice, bob] = hosts(&broker, ["alice", "bob"]).await;
    let (dir, spool) = (alice.dir.path().join("mesh"), alice.dir.path().join("mesh/files"));
    let file = alice.dir.path().join("notes.txt");
    std::fs::write(&file, "what it says").unwrap();
    // Taken, and kept as it is before anybody has it.
    alice.net.cut();
    let path = file.to_str().unwrap().to_owned();
    let request = ShareRequest { path, to: Some("bob".into()), ..ShareRequest::default() };
    let shared = alice.mesh.file_share(request, &Caller::Member).await.unwrap();
    let sealed = spool.join(format!("{}.sealed", shared.file_id));
    let (record, bytes) = (std::fs::read(dir.join("files.json")).unwrap(), std::fs::read(&sealed).unwrap());
    alice.net.mend();
    bob.wait_inbox(1).await;
    alice.drained().await;
    let settled = async |record: &[u8], bytes: &[u8], alice: &mut Host| {
        alice.down().await;
        std::fs::write(dir.join("files.json"), record).unwrap();
        std::fs::write(&sealed, bytes).unwrap();
        alice.up().await;
        until("the upload", async || holds(!sealed.exists(), "the sealed file is still there")).await;
        let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.join("files.json")).unwrap()).unwrap();
        kept[&shared.file_id].clone()
    };
    // Killed before it noted that the broker has it.
    let kept = settled(&record, &bytes, &mut alice).await;
    assert_eq!((&kept["done"], &kept["refused"]), (&true.into(), &serde_json::Value::Null));
    // Should another file ever come under this id, it is refused for good and takes nobody's place.
    let mut other: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let changed = [&bytes[..], b"more"].concat();
    other[&shared.file_id]["sealed_size"] = changed.len().into();
    other[&shared.file_id]["sealed_sha256"] =
        hostel_wire::encoding::hex(&hostel_wire::fingerprint::sha256(&changed)).into();
    let kept = settled(other.to_string().as_bytes(), &changed, &mut alice).await;
    assert_eq!((&kept["done"], &kept["refused"][0]), (&false.into(), &"idempotency_key_reused".into()));
    let out = bob.dir.path().join("out");
    bob.mesh.file_get(&shared.file_id, out.to_str().unwrap(), false).await.unwrap();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "what it says");
    assert_eq!(bob.inbox().await.len(), 1);
}
