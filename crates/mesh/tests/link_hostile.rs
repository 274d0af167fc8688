//! A broker that lies, refuses, stalls and sends rubbish: the daemon counts, waits, comes back, and never breaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use hostel_mesh::{Caller, Ending, InboxRequest, Mesh, SendRequest};
use hostel_wire::body::Body;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint;
use hostel_wire::frames::Priority;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::PairKey;
use link_support::fake::{Fake, start};
use link_support::{drained, soon, until};
use serde_json::{Value, json};

async fn send(mesh: &Mesh, message: &str) {
    let request = SendRequest { to: "bob".into(), message: message.into(), ..SendRequest::default() };
    mesh.send(request, &Caller::Member).await.unwrap();
}

#[tokio::test]
async fn missing_features_end_the_daemon() {
    let mut fake = Fake::new().await;
    fake.features.retain(|name| *name != "lanes");
    let dir = tempfile::tempdir().unwrap();
    let (_mesh, task) = start(&fake, &dir).await;
    let _talk = fake.accept().await;
    assert_eq!(soon("the end", task).await.unwrap(), Ending::MissingFeatures("lanes".into()));
}

#[tokio::test]
async fn revocation_ends_the_daemon_however_it_is_told() {
    for way in 0..4 {
        let fake = Fake::new().await;
        let dir = tempfile::tempdir().unwrap();
        let (mesh, task) = start(&fake, &dir).await;
        let mut open = None;
        match way {
            0 => {
                let (mut talk, _) = fake.hello().await;
                talk.say(json!({"type": "error", "code": "revoked", "message": "revoked"})).await;
                open = Some(talk);
            }
            1 => fake.hello().await.0.close(4002).await,
            2 => {
                let talk = fake.accept().await;
                soon("connecting", mesh.connected()).await;
                talk.close(4002).await;
            }
            _ => {
                let mut talk = fake.accept().await;
                let about = |key: String| json!({"type": "push", "subtype": "system", "event": "member_revoked", "senderPubkey": "system", "eventData": {"pubkey": key}});
                // Somebody else's first: that is news, not the end.
                talk.say(about(fake.bob.public().hex())).await;
                soon("connecting", mesh.connected()).await;
                assert!(mesh.health().await.connected);
                talk.say(about(fake.alice.public().hex())).await;
                open = Some(talk);
            }
        }
        assert_eq!(soon("the end", task).await.unwrap(), Ending::Revoked, "way {way}");
        drop(open);
        let refusal = mesh.send(SendRequest { to: "bob".into(), ..SendRequest::default() }, &Caller::Member).await;
        assert_eq!(refusal.unwrap_err().code(), "member_revoked");
    }
}

#[tokio::test]
async fn rubbish_is_counted_dropped_and_passed() {
    let fake = Fake::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (mesh, task) = start(&fake, &dir).await;
    let mut talk = fake.accept().await;
    for text in
        ["", "{", "[]", "null", "{\"type\":7}", "{\"type\":\"push\",\"seq\":\"x\"}", "{\"type\":\"nonsense\"}", "\u{0}"]
    {
        talk.text(text.to_owned()).await;
    }
    let other = SecretKey::generate();
    type Spoil = Box<dyn FnOnce(&mut Value)>;
    let spoil: Vec<Spoil> = vec![
        Box::new(|push| push["meshId"] = json!("another")),
        Box::new(|push| push["kind"] = json!(null)),
        Box::new(|push| push["client_message_id"] = json!("")),
        Box::new(|push| push["client_message_id"] = json!("x".repeat(5000))),
        Box::new(|push| push["request_fingerprint"] = json!("00")),
        Box::new(|push| push["senderPubkey"] = json!("not a key")),
        Box::new(move |push| push["senderMemberPubkey"] = json!(other.public().hex())),
        Box::new(|push| push["senderMemberId"] = json!("alice-id")),
    ];
    let mut seq = 0;
    for change in spoil {
        seq += 1;
        talk.text(fake.push(seq, "never", change)).await;
    }
    // These are stored, without a body: what cannot be opened, and what is in another's frame.
    talk.text(fake.push(9, "x", |push| push["ciphertext"] = json!("AAAA"))).await;
    talk.text(fake.push(10, "x", |push| push["client_message_id"] = json!("another"))).await;
    talk.text(fake.push(11, "x", |push| push["priority"] = json!("now"))).await;
    // Alice's own message to bob, handed back as one of bob's: the same keys open it.
    let made = fingerprint::request("dm", "bob-id", None, Priority::Next, None, b"from alice").unwrap();
    let body = Body {
        body: "from alice".into(),
        client_message_id: Some("c-12".into()),
        fingerprint: Some(made),
        ..Body::default()
    };
    let sealed = PairKey::new(&fake.alice, &fake.bob.public()).unwrap().seal(&body.to_bytes());
    talk.text(fake.push(12, "", |push| {
        push["nonce"] = json!(sealed.nonce);
        push["ciphertext"] = json!(sealed.ciphertext);
        push["request_fingerprint"] = json!(hex(&made));
    }))
    .await;
    // The first version's plain text, as a post: whoever writes frames could have written it.
    talk.text(fake.push(13, "x", |push| {
        push["kind"] = json!("all");
        push["bodyVersion"] = json!(1);
        push["ciphertext"] = json!("aGVsbG8=");
    }))
    .await;
    talk.text(fake.push(14, "at last", |_| {})).await;
    talk.text(fake.push(14, "at last", |_| {})).await;
    loop {
        let ack = talk.hear_type("client_ack").await;
        if ack["seq"] == 14 {
            break;
        }
    }
    let page = until("the last message in the inbox", async || {
        let request = InboxRequest { mark_seen: false, ..InboxRequest::default() };
        let page = mesh.inbox(request, &Caller::Member).await.unwrap();
        let there = page.items.first().is_some_and(|item| item.body.is_some());
        if there { Ok(page) } else { Err(page.items.len()) }
    })
    .await;
    let found: Vec<_> =
        page.items.iter().rev().map(|item| (item.body.as_deref(), item.decrypt_error.as_deref())).collect();
    let mismatch = (None, Some("mismatch"));
    let failed = (None, Some("failed"));
    assert_eq!(found, [failed, mismatch, mismatch, mismatch, failed, (Some("at last"), None)]);
    assert_eq!(mesh.metrics().invalid_count("mesh"), 1);
    assert_eq!(mesh.metrics().invalid_count("kind"), 1);
    assert_eq!(mesh.metrics().invalid_count("id"), 2);
    assert_eq!(mesh.metrics().invalid_count("sender"), 2);
    assert_eq!(mesh.metrics().invalid_count("fingerprint"), 1);
    assert_eq!(mesh.metrics().invalid_count("mismatch"), 3);
    assert!(mesh.metrics().invalid_count("frame") >= 7);
    assert!(mesh.metrics_text().await.contains("cm_daemon_dedupe_total{mesh=\"lab\",direction=\"in\"} 1\n"));
    mesh.shutdown();
    talk.hear_type("bye").await;
    drop(talk);
    assert_eq!(soon("the end", task).await.unwrap(), Ending::Shutdown);
}

#[tokio::test]
async fn a_lane_goes_on_where_it_was_refused() {
    let fake = Fake::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (mesh, _task) = start(&fake, &dir).await;
    let mut talk = fake.accept().await;
    soon("connecting", mesh.connected()).await;
    for n in 1..=5 {
        send(&mesh, &format!("{n}")).await;
    }
    let mut first = Vec::new();
    for _ in 0..5 {
        first.push(talk.hear_type("send").await);
    }
    let places: Vec<_> = first.iter().map(|send| send["laneSeq"].as_u64().unwrap()).collect();
    assert_eq!(places, [1, 2, 3, 4, 5]);
    talk.take(&first[0]).await;
    talk.refuse(&first[1], "unavailable").await;
    for send in &first[2..] {
        talk.refuse(send, "lane_blocked").await;
    }
    // A later one of the same lane does not overtake, whenever it was sent.
    send(&mesh, "6").await;
    let (mut ids, mut place) = (Vec::new(), 2);
    while ids.len() < 5 {
        let send = talk.hear_type("send").await;
        if send["laneSeq"] != place {
            assert_eq!(send["laneSeq"], 6, "sent before the refusal was heard");
            talk.refuse(&send, "lane_blocked").await;
            continue;
        }
        place += 1;
        ids.push(send["client_message_id"].clone());
        talk.take(&send).await;
    }
    let expected: Vec<_> = first[1..].iter().map(|send| send["client_message_id"].clone()).collect();
    assert_eq!(ids[..4], expected[..]);
    drained(&mesh).await;
}

#[tokio::test]
async fn what_is_refused_for_good_is_told_and_holds_nobody_up() {
    let fake = Fake::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (mesh, _task) = start(&fake, &dir).await;
    let mut talk = fake.accept().await;
    soon("connecting", mesh.connected()).await;
    let filter = hostel_mesh::events::EventFilter { events: vec!["outbox_dead".into()], ..Default::default() };
    let mut events = mesh.events(filter, &Caller::Member, None).await.unwrap();
    send(&mesh, "one").await;
    send(&mesh, "two").await;
    let (one, two) = (talk.hear_type("send").await, talk.hear_type("send").await);
    talk.refuse(&one, "blocked").await;
    talk.take(&two).await;
    let event = soon("the event", events.next()).await.unwrap();
    let data: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!((&data["client_message_id"], &data["reason"]), (&one["client_message_id"], &json!("blocked")));
    drained(&mesh).await;
    let dead = mesh.outbox_list(Some("dead"), 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    let requeued = mesh.outbox_requeue(&dead[0].id, None).await.unwrap();
    let again = talk.hear_type("send").await;
    assert_eq!(again["client_message_id"], requeued.new_client_message_id.as_str());
    assert_eq!(again["to"], one["to"]);
}

#[tokio::test]
async fn a_broker_that_does_not_answer_is_left_and_tried_again() {
    let mut fake = Fake::new().await;
    fake.time = 4_000_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let (mesh, _task) = start(&fake, &dir).await;
    let mut talk = fake.accept().await;
    soon("connecting", mesh.connected()).await;
    send(&mesh, "one").await;
    let first = talk.hear_type("send").await;
    // Nothing is answered: the daemon comes back, says the time the broker told it, and sends the same again.
    let (mut talk, hello) = fake.hello().await;
    assert_eq!(hello["timestamp"].as_u64(), Some(fake.time));
    assert_eq!(hello["protocolVersion"], 2);
    talk.socket.close(None).await.ok();
    let mut talk = fake.accept().await;
    let again = talk.hear_type("send").await;
    assert_eq!(again["client_message_id"], first["client_message_id"]);
    assert_eq!(again["request_fingerprint"], first["request_fingerprint"]);
    assert_ne!(again["nonce"], first["nonce"], "sealed anew");
    talk.take(&again).await;
}

#[tokio::test]
async fn too_much_is_sent_later() {
    let fake = Fake::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (mesh, _task) = start(&fake, &dir).await;
    let mut talk = fake.accept().await;
    soon("connecting", mesh.connected()).await;
    send(&mesh, "one").await;
    let one = talk.hear_type("send").await;
    talk.say(json!({"type": "ack", "id": one["id"], "messageId": "", "queued": false, "code": "rate_limited", "retryAfterMs": 50})).await;
    let again = talk.hear_type("send").await;
    assert_eq!(again["client_message_id"], one["client_message_id"]);
    talk.take(&again).await;
    drained(&mesh).await;
    assert!(mesh.outbox_list(Some("dead"), 10).await.unwrap().is_empty());
}
