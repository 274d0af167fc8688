//! Peers that do not behave: they harm nobody but themselves.

use std::sync::Arc;

use hostel_broker::{Limits, PeerInfo, Settings};
use hostel_wire::frames::client::REQUESTS;
use serde_json::{Value, json};

use super::peer::{dm, message};
use super::{Lab, Link};

/// A connection over a stream that holds next to nothing.
async fn narrow(lab: &Lab) -> Link {
    let (ours, theirs) = tokio::io::duplex(2048);
    let broker = Arc::clone(&lab.host.broker);
    tokio::spawn(async move { broker.serve_connection(theirs, PeerInfo::default()).await });
    Link::over(Box::new(ours)).await
}

#[tokio::test]
async fn whatever_is_in_a_frame_nobody_falls_over_it() {
    let limits = Limits { requests_per_s: 0, rate_per_s: 0, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let values = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("*"),
        json!("\u{0}\u{1F4A9}/../%s"),
        json!("x".repeat(5000)),
        json!([]),
        json!([null, 1, "x", {}]),
        json!({"member": 1}),
        json!({"a": {"b": [[[[[[]]]]]]}}),
    ];
    let fields = [
        "target",
        "topic",
        "topicId",
        "name",
        "description",
        "visibility",
        "epoch",
        "seals",
        "filter",
        "beforeSeq",
        "afterSeq",
        "limit",
        "messageId",
        "beforeId",
        "status",
        "summary",
        "visible",
        "displayName",
        "token",
        "preset",
        "maxUses",
        "sealedRootKey",
        "invite",
        "after",
        "fileId",
        "memberId",
        "sealedKey",
        "query",
        "from",
        "capabilities",
        "role",
        "create",
        "all",
        "id",
        "to",
        "kind",
        "client_message_id",
        "request_fingerprint",
        "targetSpec",
        "priority",
        "nonce",
        "ciphertext",
        "mentions",
        "replyToId",
        "bodyVersion",
        "keyEpoch",
        "lane",
        "laneSeq",
        "seq",
        "above",
        "brokerMessageId",
    ];
    let types = REQUESTS.iter().copied().filter(|name| !matches!(*name, "bye" | "leave"));
    for name in types.chain(["send", "client_ack"]) {
        let mut link = bob.link(&lab.host).await;
        for value in &values {
            let mut frame = json!({"type": name, "_reqId": "q", "id": "i"});
            for field in fields.iter().filter(|field| **field != "id") {
                frame[field] = value.clone();
            }
            link.say_text(&frame.to_string()).await;
            // One wrong field among good ones.
            for field in fields {
                let mut frame = dm(&lab.alice, "m");
                frame["type"] = name.into();
                frame["topic"] = "general".into();
                frame["target"] = "alice".into();
                frame["limit"] = 1.into();
                frame[field] = value.clone();
                link.say_text(&frame.to_string()).await;
            }
        }
        // Too much nonsense in a row ends a connection, in an orderly way; else it goes on.
        link.say_text(r#"{"type":"topic_list","_reqId":"alive"}"#).await;
        let alive = link.hear_or_end(|frame| frame["_reqId"] == "alive").await;
        assert!(
            alive.as_ref().is_ok_and(|frame| frame["type"] == "topic_list_response")
                || alive.as_ref().is_err_and(|(code, _)| *code == 1008),
            "{name} {alive:?}"
        );
    }
    assert_eq!(lab.host.http("GET", "/health/ready", &[], b"").await.0, 200);
}

#[tokio::test]
async fn who_does_not_read_is_let_go_and_holds_up_nobody() {
    let limits = Limits { news: 8, rate_per_s: 0, requests_per_s: 0, ..Limits::default() };
    let lab = Lab::with(Settings { limits, lease: std::time::Duration::ZERO, ..Settings::default() }).await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let mut c = carol.link(&lab.host).await;
    let stuck = bob.greet(narrow(&lab).await, |_| {}).await.ok().unwrap();
    let mut a = lab.alice().await;
    // Entries wait for their reader.
    for n in 0..40 {
        a.send(message(&json!({"all": true}), "all", &format!("m{n}"))).await;
    }
    for n in 0..40 {
        let push = c.push().await;
        assert_eq!(push["client_message_id"], format!("m{n}"));
        c.acknowledge(&push["seq"]).await;
    }
    // News do not.
    for n in 0..40 {
        a.ask(json!({"type": "rename", "displayName": format!("alice{n}")})).await;
        c.news("member_renamed").await;
    }
    assert_eq!(c.news("peer_left").await["eventData"]["memberId"], bob.member);
    drop(stuck);
    // Nothing is lost for it.
    let mut b = bob.link(&lab.host).await;
    for n in 0..40 {
        assert_eq!(b.push().await["client_message_id"], format!("m{n}"));
    }
}

#[tokio::test]
async fn who_asks_and_does_not_read_gets_no_more_than_there_is_room_for() {
    let limits = Limits { rate_per_s: 0, requests_per_s: 0, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    for n in 0..3 {
        let mut sent = dm(&bob, &format!("m{n}"));
        sent["ciphertext"] = "x".repeat(100_000).into();
        a.send(sent).await;
    }
    let mut b =
        bob.greet(narrow(&lab).await, |hello| hello.capabilities.push("no_push".to_owned())).await.ok().unwrap();
    // Each answer is long. At some point nothing more is taken, and the asker has to wait; when it reads, all is there.
    let (mut asked, pad) = (0, "x".repeat(1500));
    while asked < 200 {
        let ask = json!({"type": "history", "_reqId": format!("q{asked}"), "pad": pad}).to_string();
        if tokio::time::timeout(std::time::Duration::from_millis(300), b.say_text(&ask)).await.is_err() {
            break;
        }
        asked += 1;
    }
    assert!(asked < 100, "{asked}");
    for n in 0..asked {
        let answer = b.hear(|frame| frame["_reqId"] == format!("q{n}")).await;
        assert_eq!((answer["messages"].as_array().unwrap().len(), &answer["more"]), (2, &json!(true)));
    }
}
