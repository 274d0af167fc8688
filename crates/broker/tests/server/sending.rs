//! How messages get into the log: acks, duplicates, refusals, lanes, the rate.

use hostel_broker::{Limits, Settings};
use hostel_wire::Clock;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use serde_json::{Value, json};

use super::Lab;
use super::peer::{dm, message};

#[tokio::test]
async fn a_message_is_acknowledged_and_pushed_with_everything() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let mut sent = dm(&bob, "m1");
    sent["mentions"] = json!(["bob"]);
    sent["replyToId"] = "earlier".into();
    let ack = a.send(sent).await;
    assert_eq!(ack["queued"], true);
    assert_eq!(ack["seq"], 1);
    let id = ack["messageId"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    assert!(ack["duplicate"].is_null() && ack["error"].is_null());
    let push = b.push().await;
    let alice = lab.alice.key.public().hex();
    let expected = json!({
        "type": "push", "messageId": id, "meshId": lab.mesh, "senderPubkey": alice, "senderMemberPubkey": alice,
        "senderMemberId": lab.alice.member, "senderName": "alice", "replyToId": "earlier", "priority": "next",
        "nonce": "bm9uY2U=", "ciphertext": "Y2lwaGVydGV4dA==", "client_message_id": "m1",
        "request_fingerprint": hex(&sha256(b"m1")), "seq": 1, "kind": "dm", "keyEpoch": 0, "mentions": ["bob"],
        "bodyVersion": 3, "createdAt": push["createdAt"],
    });
    assert_eq!(push, expected);
    assert!(hostel_wire::parse_iso(push["createdAt"].as_str().unwrap()).is_some());
    a.no_push().await;
}

#[tokio::test]
async fn the_same_id_is_in_the_log_once() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let first = a.send(dm(&bob, "m1")).await;
    for _ in 0..3 {
        let again = a.send(dm(&bob, "m1")).await;
        assert_eq!((&again["messageId"], &again["seq"]), (&first["messageId"], &first["seq"]));
        assert_eq!((&again["duplicate"], &again["historyAvailable"]), (&json!(true), &json!(true)));
    }
    let mut other = dm(&bob, "m1");
    other["request_fingerprint"] = hex(&sha256(b"another request")).into();
    let refused = a.send(other).await;
    assert_eq!(refused["code"], "idempotency_key_reused");
    assert_eq!((&refused["permanent"], &refused["queued"]), (&json!(true), &json!(false)));
    // Ids are each sender's own.
    let bobs = b.send(dm(&lab.alice, "m1")).await;
    assert_eq!(bobs["seq"], 2);
    assert_eq!(b.push().await["messageId"], first["messageId"]);
    b.no_push().await;
}

#[tokio::test]
async fn a_refused_message_leaves_its_id_free() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let code = |ack: &Value| (ack["code"].as_str().unwrap_or_default().to_owned(), ack["permanent"].clone());
    let permanent = |word: &str| (word.to_owned(), json!(true));
    let mut wrong = dm(&bob, "m1");
    wrong["to"] = json!({"member": "nobody"});
    assert_eq!(code(&a.send(wrong.clone()).await), permanent("recipient_unknown"));
    wrong["to"] = json!({"topic": "nowhere"});
    wrong["kind"] = "topic".into();
    assert_eq!(code(&a.send(wrong.clone()).await), permanent("topic_not_found"));
    wrong["kind"] = "sys".into();
    assert_eq!(code(&a.send(wrong.clone()).await), permanent("forbidden"));
    wrong["kind"] = "file".into();
    wrong["to"] = json!({"all": true});
    assert_eq!(code(&a.send(wrong.clone()).await), permanent("invalid"));
    wrong["to"] = Value::Null;
    assert_eq!(code(&a.send(wrong).await), permanent("invalid"));
    let mut wrong = dm(&bob, "m1");
    wrong["ciphertext"] = "x".repeat(128 * 1024 + 1).into();
    assert_eq!(code(&a.send(wrong).await), permanent("message_too_large"));
    let mut wrong = dm(&bob, "m1");
    wrong["request_fingerprint"] = "12".into();
    assert_eq!(code(&a.send(wrong).await), permanent("invalid"));
    let mut wrong = dm(&bob, "m1");
    wrong["client_message_id"] = "".into();
    assert_eq!(code(&a.send(wrong).await), permanent("invalid"));
    let mut stale = message(&json!({"all": true}), "all", "m1");
    stale["keyEpoch"] = 7.into();
    assert_eq!(code(&a.send(stale).await), ("stale_key_epoch".to_owned(), json!(false)));
    assert_eq!(a.send(dm(&bob, "m1")).await["seq"], 1);
    // What is in the log is answered as such, whatever else would be said of it.
    let mut gone = dm(&bob, "m1");
    gone["to"] = json!({"member": "nobody"});
    assert_eq!(a.send(gone).await["duplicate"], true);
}

#[tokio::test]
async fn many_in_flight_keep_their_order() {
    let lab =
        Lab::with(Settings { limits: Limits { rate_per_s: 0, ..Limits::default() }, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let count = 600;
    a.say_many((1..=count).map(|n| {
        let mut sent = dm(&bob, &format!("m{n}"));
        sent["lane"] = "dm|bob|next".into();
        sent["laneSeq"] = n.into();
        sent
    }))
    .await;
    let mut last = 0;
    for n in 1..=count {
        let ack = a.hear(|frame| frame["type"] == "ack").await;
        assert_eq!(ack["id"], format!("m{n}"));
        let seq = ack["seq"].as_u64().unwrap();
        assert!(seq > last, "{seq} after {last}");
        last = seq;
    }
    for n in 1..=count {
        let push = b.push().await;
        assert_eq!(push["client_message_id"], format!("m{n}"));
        if n % 64 == 0 {
            b.acknowledge(&push["seq"]).await;
        }
    }
    let (_, metrics) = lab.host.http("GET", "/metrics", &[], b"").await;
    let line = format!("broker_messages_routed_total{{priority=\"next\"}} {count}");
    assert!(metrics.as_str().unwrap().lines().any(|found| found == line));
}

#[tokio::test]
async fn the_rate_is_limited_and_an_id_is_charged_once() {
    let limits = Limits { rate_per_s: 1, burst: 3, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    for n in 1..=3 {
        assert_eq!(a.send(dm(&bob, &format!("m{n}"))).await["queued"], true);
    }
    let refused = a.send(dm(&bob, "m4")).await;
    assert_eq!((&refused["code"], &refused["permanent"]), (&json!("rate_limited"), &json!(false)));
    let wait = refused["retryAfterMs"].as_u64().unwrap();
    assert!((1..=1000).contains(&wait), "{wait}");
    assert!(refused["error"].as_str().unwrap().starts_with("rate_limit:"));
    // What is in the log is never refused for the rate.
    for n in 1..=3 {
        assert_eq!(a.send(dm(&bob, &format!("m{n}"))).await["duplicate"], true);
    }
}

#[tokio::test]
async fn a_lane_waits_for_what_was_refused_for_now() {
    let limits = Limits { rate_per_s: 1, burst: 2, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let sent = |n: u64| {
        let mut sent = dm(&bob, &format!("m{n}"));
        sent["lane"] = "dm|bob|next".into();
        sent["laneSeq"] = n.into();
        sent
    };
    a.say_many((1..=4).map(sent)).await;
    let mut acks = Vec::new();
    for _ in 1..=4 {
        acks.push(a.hear(|frame| frame["type"] == "ack").await);
    }
    let codes: Vec<_> = acks.iter().map(|ack| ack["code"].as_str().unwrap_or("in")).collect();
    assert_eq!(codes, ["in", "in", "rate_limited", "lane_blocked"]);
    assert_eq!((&acks[3]["permanent"], &acks[3]["retryAfterMs"]), (&json!(false), &json!(0)));
    assert_eq!(a.send(sent(4)).await["code"], "lane_blocked");
    assert!(acks[2]["retryAfterMs"].as_u64().unwrap() <= 1000);
    let mut third = a.send(sent(3)).await;
    while third["code"] == "rate_limited" {
        assert_eq!(a.send(sent(4)).await["code"], "lane_blocked");
        third = a.send(sent(3)).await;
    }
    assert_eq!(third["seq"], 3);
    let last = a.send(sent(4)).await;
    assert!(last["seq"] == 4 || last["code"] == "rate_limited", "{last}");
}

#[tokio::test]
async fn a_refusal_for_good_opens_the_lane() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let mut wrong = dm(&bob, "m1");
    wrong["lane"] = "x".into();
    wrong["laneSeq"] = 1.into();
    wrong["to"] = json!({"member": "nobody"});
    assert_eq!(a.send(wrong).await["permanent"], true);
    let mut next = dm(&bob, "m2");
    next["lane"] = "x".into();
    next["laneSeq"] = 2.into();
    assert_eq!(a.send(next).await["seq"], 1);
    // One that is refused for now, then for good.
    let mut stale = message(&json!({"all": true}), "all", "m3");
    stale["keyEpoch"] = 9.into();
    stale["lane"] = "x".into();
    stale["laneSeq"] = 3.into();
    assert_eq!(a.send(stale.clone()).await["permanent"], false);
    let mut behind = dm(&bob, "m4");
    behind["lane"] = "x".into();
    behind["laneSeq"] = 4.into();
    assert_eq!(a.send(behind.clone()).await["code"], "lane_blocked");
    stale["ciphertext"] = "x".repeat(128 * 1024 + 1).into();
    assert_eq!(a.send(stale).await["permanent"], true);
    assert_eq!(a.send(behind).await["queued"], true);
}

#[tokio::test]
async fn the_first_protocol_sends_by_key_and_name() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let first = |hello: &mut hostel_wire::frames::client::Hello| {
        hello.protocol_version = 1;
        hello.nonce = None;
        hello.timestamp = Clock::system().now_ms();
    };
    let mut a = lab.alice.link_with(&lab.host, first).await;
    let mut b = bob.link_with(&lab.host, first).await;
    let old = |id: &str, target: &str| json!({"type": "send", "id": id, "targetSpec": target, "priority": "next", "nonce": "", "ciphertext": "eA=="});
    let key = bob.key.public().hex();
    for (n, target) in [key.as_str(), "*", "#general"].into_iter().enumerate() {
        let ack = a.send(old(&format!("c{n}"), target)).await;
        assert_eq!(ack["queued"], true, "{ack}");
        let push = b.push().await;
        assert_eq!(push["messageId"], ack["messageId"]);
        assert_eq!(push["senderName"], "alice");
        b.say_text(&json!({"type": "client_ack", "brokerMessageId": ack["messageId"]}).to_string()).await;
    }
    assert_eq!(a.send(old("c9", &"ab".repeat(32))).await["code"], "recipient_unknown");
    // Without an id of its own each is a message of its own; with one it is deduplicated.
    let mut named = old("c10", &key);
    named["client_message_id"] = "mine".into();
    let first_time = a.send(named.clone()).await;
    assert_eq!(a.send(named).await["messageId"], first_time["messageId"]);
    // Who keeps no place of its own goes on where it was.
    let last = b.push().await;
    b.say_text(
        &json!({"type": "client_ack", "clientMessageId": "mine", "brokerMessageId": last["messageId"]}).to_string(),
    )
    .await;
    b.bye().await;
    let fresh = a.send(old("c11", &key)).await;
    let mut b = bob.link_with(&lab.host, first).await;
    assert_eq!(b.push().await["messageId"], fresh["messageId"]);
}

#[tokio::test]
async fn a_lane_keeps_its_order_while_members_change() {
    let lab =
        Lab::with(Settings { limits: Limits { rate_per_s: 0, ..Limits::default() }, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let count = 500;
    let sent = |n: u64| {
        let mut sent = dm(&bob, &format!("m{n}"));
        sent["lane"] = "dm|bob|next".into();
        sent["laneSeq"] = n.into();
        sent
    };
    // Bob is renamed again and again: what was checked against his old record is refused for now.
    let mut session = bob.session(&lab.host).await;
    let renaming = tokio::spawn(async move {
        for n in 0..100 {
            session.ask(json!({"type": "rename", "displayName": format!("bob{n}")})).await;
        }
    });
    let mut open: Vec<u64> = (1..=count).collect();
    let mut seqs = vec![0; usize::try_from(count).unwrap() + 1];
    let mut refused = 0;
    while !open.is_empty() {
        a.say_many(open.iter().map(|n| sent(*n))).await;
        let mut again = Vec::new();
        for n in open {
            let ack = a.hear(|frame| frame["type"] == "ack").await;
            assert_eq!(ack["id"], format!("m{n}"));
            if ack["queued"] == true {
                seqs[usize::try_from(n).unwrap()] = ack["seq"].as_u64().unwrap();
            } else {
                assert_eq!(ack["permanent"], false, "{ack}");
                refused += 1;
                again.push(n);
            }
        }
        open = again;
    }
    renaming.await.unwrap();
    assert!(seqs.is_sorted(), "{refused} refused: {seqs:?}");
    for n in 1..=count {
        let push = b.push().await;
        assert_eq!(push["client_message_id"], format!("m{n}"));
        b.acknowledge(&push["seq"]).await;
    }
}

#[tokio::test]
async fn asking_has_a_rate_too() {
    let limits = Limits { requests_per_s: 1, requests_burst: 3, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let mut a = lab.alice().await;
    for _ in 0..3 {
        assert_eq!(a.ask(json!({"type": "list_peers"})).await["type"], "peers_list");
    }
    assert_eq!(a.ask(json!({"type": "list_peers"})).await["code"], "rate_limited");
}
