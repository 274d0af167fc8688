//! Coming, going, and being there twice.

use std::time::Duration;

use hostel_broker::Settings;
use hostel_broker::registry::{Concurrency, Policy};
use serde_json::{Value, json};

use super::Lab;
use super::peer::dm;

#[tokio::test]
async fn comings_and_goings_are_told() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let b = bob.link(&lab.host).await;
    let news = a.news("peer_joined").await;
    assert_eq!(
        news["eventData"],
        json!({"memberId": bob.member, "name": "bob", "pubkey": bob.key.public().hex(), "groups": []})
    );
    b.bye().await;
    let news = a.news("peer_left").await;
    assert_eq!(news["eventData"]["memberId"], bob.member);
    let mut b = bob.link(&lab.host).await;
    let news = a.news("peer_returned").await;
    assert!(news["eventData"]["lastSeenAt"].is_string());
    b.ask(json!({"type": "set_visible", "visible": false})).await;
    a.news("peer_hidden").await;
    let peers = a.ask(json!({"type": "list_peers"})).await;
    assert_eq!(peers["peers"].as_array().unwrap().len(), 1);
    let peers = b.ask(json!({"type": "list_peers"})).await;
    assert_eq!(peers["peers"].as_array().unwrap().len(), 2);
    b.ask(json!({"type": "presence_set", "visible": true, "summary": "cooking", "status": "working"})).await;
    a.news("peer_visible").await;
    let peers = a.ask(json!({"type": "list_peers"})).await;
    let found = peers["peers"].as_array().unwrap().iter().find(|peer| peer["memberId"] == bob.member).unwrap();
    for (field, value) in [
        ("pubkey", json!(bob.key.public().hex())),
        ("displayName", json!("bob")),
        ("status", json!("working")),
        ("summary", json!("cooking")),
        ("peerRole", json!("service")),
        ("hostname", json!("here")),
        ("sessionId", json!("daemon-1")),
        ("visible", json!(true)),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    assert_eq!(b.ask(json!({"type": "set_status", "status": "asleep"})).await["code"], "invalid_argument");
    // Its words outlive it.
    b.bye().await;
    let b = bob.link(&lab.host).await;
    assert_eq!(b.welcome["lastSummary"], "cooking");
    let carol = lab.join("carol").await;
    let peers = a.ask(json!({"type": "list_peers", "all": true})).await;
    let absent = peers["peers"].as_array().unwrap().iter().find(|peer| peer["memberId"] == carol.member).unwrap();
    assert_eq!(absent["status"], "offline");
}

#[tokio::test]
async fn a_short_break_is_not_seen_and_a_long_one_is() {
    // A lease that does not end while this runs, however slowly.
    let lab = Lab::with(Settings { lease: Duration::from_secs(600), ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let b = bob.link(&lab.host).await;
    a.news("peer_joined").await;
    drop(b);
    let b = bob.link(&lab.host).await;
    // Nothing is said of it: what comes next is about carol.
    let carol = lab.join("carol").await;
    let c = carol.link(&lab.host).await;
    let news = a.hear(|frame| frame["subtype"] == "system" && frame["event"] != "caught_up").await;
    assert_eq!(news["eventData"]["name"], "carol", "{news}");
    drop((b, c));
    // And one that ends soon.
    let lab = Lab::with(Settings { lease: Duration::from_millis(200), ..Settings::default() }).await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let mut a = lab.alice().await;
    let (b, c) = (bob.link(&lab.host).await, carol.link(&lab.host).await);
    drop((b, c));
    let mut gone = [a.news("peer_left").await, a.news("peer_left").await];
    gone.sort_by_key(|news| news["eventData"]["name"].to_string());
    assert_eq!(gone[0]["eventData"]["name"], "bob");
    assert_eq!(gone[1]["eventData"]["name"], "carol");
}

#[tokio::test]
async fn a_goodbye_is_heard_from_who_does_not_wait_for_the_answer() {
    // A lease that does not end while this runs, however slowly.
    let lab = Lab::with(Settings { lease: Duration::from_secs(600), ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    // Whether the broker reads or writes first is by chance.
    for round in 0..10 {
        let mut b = bob.link(&lab.host).await;
        a.news(if round == 0 { "peer_joined" } else { "peer_returned" }).await;
        a.send(dm(&bob, &format!("unread {round}"))).await;
        b.say_text(r#"{"type":"bye"}"#).await;
        // Closing a socket with unread data resets the connection, so the broker's next write fails.
        drop(b);
        a.send(dm(&bob, &format!("too late {round}"))).await;
        assert_eq!(a.news("peer_left").await["eventData"]["memberId"], bob.member);
    }
}

async fn with_policy(concurrency: Concurrency) -> Lab {
    let lab = Lab::new().await;
    let policy = Policy { concurrency, ..Policy::default() };
    lab.host.broker.registry().set_policy(&lab.mesh, &lab.alice.member, policy).await.unwrap();
    lab
}

#[tokio::test]
async fn the_newer_of_two_stays() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut first = bob.link(&lab.host).await;
    let mut second = bob.link(&lab.host).await;
    assert_eq!(first.ended().await, (4003, "replaced".to_owned()));
    second.ask(json!({"type": "topic_list"})).await;
}

#[tokio::test]
async fn or_the_older() {
    let lab = with_policy(Concurrency::PreferOldest).await;
    let bob = lab.join("bob").await;
    let mut first = bob.link(&lab.host).await;
    let (_, ended) = bob.try_link(&lab.host, |_| {}).await.err().unwrap();
    assert_eq!(ended, (4004, "kept_oldest".to_owned()));
    first.ask(json!({"type": "topic_list"})).await;
}

#[tokio::test]
async fn or_both() {
    let lab = with_policy(Concurrency::AllowConcurrent).await;
    let bob = lab.join("bob").await;
    let (mut first, mut second) = (bob.link(&lab.host).await, bob.link(&lab.host).await);
    let mut a = lab.alice().await;
    a.send(dm(&bob, "m1")).await;
    assert_eq!(first.push().await["seq"], second.push().await["seq"]);
}

#[tokio::test]
async fn another_host_with_the_same_key_alarms_the_owner() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let _first = bob.link(&lab.host).await;
    let _second = bob.link_with(&lab.host, |hello| hello.host_fingerprint = Some("bb".repeat(32))).await;
    let news = a.news("member_clone_suspected").await;
    assert_eq!(news["eventData"]["memberId"], bob.member);
    assert_eq!(news["eventData"]["lastHostFingerprint"], "aa".repeat(32));
    let audit = a.ask(json!({"type": "audit_query"})).await;
    let kinds: Vec<_> = audit["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert!(kinds.contains(&json!("member_clone_suspected")), "{kinds:?}");
    assert!(kinds.contains(&json!("member_concurrent_connection")), "{kinds:?}");
}

#[tokio::test]
async fn who_is_silent_is_dropped_and_pings_keep_one_alive() {
    let settings =
        Settings { silence: Duration::from_millis(400), ping: Duration::from_secs(60), ..Settings::default() };
    let lab = Lab::with(settings).await;
    let mut a = lab.alice().await;
    assert_eq!(a.ended().await, (1001, "silent".to_owned()));
    let directory = tempfile::tempdir().unwrap();
    let settings =
        Settings { silence: Duration::from_secs(4), ping: Duration::from_millis(100), ..Settings::default() };
    let host = super::Host::start(&directory, settings).await;
    let lab = Lab { host, directory, ..Lab::new().await };
    let body = json!({"name": "x", "owner_pubkey": lab.owner_key.public().hex(), "member": {"pubkey": lab.alice.key.public().hex(), "display_name": "alice"}});
    let (_, made) = lab.host.post("/mesh", &body).await;
    let alice = super::Peer {
        mesh: made["meshId"].as_str().unwrap().to_owned(),
        member: made["memberId"].as_str().unwrap().to_owned(),
        ..lab.alice.clone()
    };
    let mut a = alice.link(&lab.host).await;
    // It is asked whether it is there and answers by itself while it listens: for longer than silence is allowed.
    let waited = tokio::time::timeout(Duration::from_secs(5), a.ended()).await;
    assert!(waited.is_err(), "{waited:?}");
}

#[tokio::test]
async fn an_orderly_end_says_so() {
    let lab = Lab::new().await;
    let mut a = lab.alice().await;
    let Lab { host, .. } = lab;
    let stopped = tokio::spawn(host.stop());
    assert_eq!(a.ended().await, (1001, "shutdown".to_owned()));
    stopped.await.unwrap();
}

/// What is more than a frame may hold is listed on several pages, each peer once.
#[tokio::test]
async fn many_peers_are_listed_page_by_page() {
    const MANY: usize = 12;
    let lab = Lab::with(Settings { list_bytes: 16 * 1024, ..Settings::default() }).await;
    let mut a = lab.alice().await;
    let mut there = Vec::new();
    for number in 0..MANY {
        let one = lab.join(&format!("host-{number}")).await;
        let mut link = one.link(&lab.host).await;
        let answer = link.ask(json!({"type": "set_profile", "bio": "x".repeat(4000)})).await;
        assert_eq!(answer["type"], "ok", "{answer}");
        match number % 2 {
            0 => there.push(link),
            _ => link.bye().await,
        }
    }
    let (mut seen, mut pages, mut after) = (Vec::new(), 0, Value::Null);
    loop {
        let mut request = json!({"type": "list_peers", "all": true});
        if after.is_string() {
            request["after"] = after;
        }
        let answer = a.ask(request).await;
        let page = answer["peers"].as_array().unwrap();
        assert!(!page.is_empty());
        seen.extend(page.iter().map(|peer| peer["memberId"].as_str().unwrap().to_owned()));
        pages += 1;
        assert_eq!(answer["more"], answer["next"].is_string());
        after = answer["next"].clone();
        if after.is_null() {
            break;
        }
    }
    let listed = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!((listed, seen.len()), (MANY + 1, MANY + 1));
    assert!(pages > 1);
    assert_eq!(a.ask(json!({"type": "list_peers", "after": "nowhere"})).await["code"], "invalid_argument");
}
