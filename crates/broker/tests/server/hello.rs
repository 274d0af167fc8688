//! Who is let in, and what it is told.

use hostel_broker::{Limits, Settings};
use hostel_wire::Clock;
use hostel_wire::frames::client::{ClientFrame, Features, Resume};
use hostel_wire::hello::{attest, sign_hello};
use hostel_wire::keys::SecretKey;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::peer::dm;
use super::{Lab, Link};

#[tokio::test]
async fn a_hello_of_the_second_protocol_is_welcomed_with_all_there_is() {
    let lab = Lab::with(Settings { urls: vec!["ws://x/ws".to_owned()], ..Settings::default() }).await;
    let mut alice = lab.alice().await;
    let ack = &alice.welcome;
    assert_eq!(ack["protocolVersion"], 2);
    assert_eq!(ack["memberDisplayName"], "alice");
    assert_eq!(ack["restored"], false);
    assert_eq!(ack["role"], "owner");
    assert_eq!(ack["resume"], "ok");
    assert_eq!(ack["log"]["lastSeq"], 0);
    assert_eq!(ack["brokers"], json!(["ws://x/ws"]));
    assert_eq!(ack["limits"], json!({"message_bytes": 131072, "rate_per_s": 100, "burst": 1000, "dedupe_days": 30}));
    assert_eq!(ack["memberProfile"], json!({"roleTag": null, "groups": [], "messageMode": "push"}));
    assert_eq!(
        ack["meshPolicy"]["selfEditable"],
        json!({"displayName": true, "roleTag": true, "groups": true, "messageMode": true})
    );
    assert_eq!(ack["features"]["supported"]["client_message_id_dedupe"]["retention_days"], 30);
    for field in ["presenceId", "brokerVersion", "restoredGroups", "restoredStats", "services", "rosterRev"] {
        assert!(!ack[field].is_null(), "{field}");
    }
    let roster = alice.hear(|frame| frame["type"] == "roster").await;
    assert_eq!(roster["members"][0]["pubkey"], lab.alice.key.public().hex());
    alice.bye().await;
    let again = lab.alice().await;
    assert_eq!(again.welcome["restored"], true);
    assert!(again.welcome["lastSeenAt"].is_string());
}

#[tokio::test]
async fn a_hello_of_the_first_protocol_is_taken_for_a_minute() {
    let lab = Lab::new().await;
    let first = |hello: &mut hostel_wire::frames::client::Hello| {
        hello.protocol_version = 1;
        hello.nonce = None;
        hello.features = None;
    };
    let link = lab.alice.link_with(&lab.host, first).await;
    assert_eq!(link.welcome["protocolVersion"], 1);
    let late = lab.alice.try_link(&lab.host, |hello| {
        first(hello);
        hello.timestamp -= 61_000;
    });
    let (frame, ended) = late.await.err().unwrap();
    assert_eq!(frame["code"], "timestamp_skew");
    assert_eq!(ended, (1008, "timestamp_skew".to_owned()));
    // Whoever has overheard it says it in vain.
    let mut overheard = None;
    let link = lab.alice.link_with(&lab.host, |hello| {
        first(hello);
        hello.timestamp += 1000;
        sign_hello(hello, &lab.alice.key).unwrap();
        overheard = Some(hello.clone());
    });
    link.await.bye().await;
    let again = lab.alice.try_link(&lab.host, |hello| *hello = overheard.unwrap()).await.err().unwrap();
    assert_eq!(again.0["code"], "bad_signature");
    // With a challenge the clock does not matter.
    lab.alice.link_with(&lab.host, |hello| hello.timestamp -= 3_600_000).await;
}

#[tokio::test]
async fn the_first_protocol_can_be_forbidden() {
    let lab = Lab::with(Settings { allow_v1_hello: false, ..Settings::default() }).await;
    let refused = lab.alice.try_link(&lab.host, |hello| {
        hello.protocol_version = 1;
        hello.nonce = None;
    });
    assert_eq!(refused.await.err().unwrap().0["code"], "unauthorized");
}

#[tokio::test]
async fn what_is_not_who_it_says_is_refused() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    // Another connection's challenge.
    let refused = lab.alice.try_link(&lab.host, |hello| hello.nonce = Some("bm9uY2U=".to_owned())).await.err().unwrap();
    assert_eq!((refused.0["code"].as_str(), refused.1.0), (Some("bad_signature"), 1008));
    // Changed after it was signed.
    let refused = lab.alice.try_link(&lab.host, |hello| {
        sign_hello(hello, &lab.alice.key).unwrap();
        hello.hostname = "elsewhere".to_owned();
    });
    assert_eq!(refused.await.err().unwrap().0["code"], "bad_signature");
    // Somebody else's id.
    let refused = lab.alice.try_link(&lab.host, |hello| hello.member_id.clone_from(&bob.member)).await.err().unwrap();
    assert_eq!((refused.0["code"].as_str(), refused.1.1.as_str()), (Some("unauthorized"), "unauthorized"));
    // A stranger, and a mesh that is not there.
    let stranger = super::Peer { key: SecretKey::generate(), ..lab.alice.clone() };
    assert_eq!(stranger.try_link(&lab.host, |_| {}).await.err().unwrap().0["code"], "unauthorized");
    let refused = lab.alice.try_link(&lab.host, |hello| hello.mesh_id = "nowhere".to_owned()).await.err().unwrap();
    assert_eq!(refused.0["code"], "unauthorized");
    let refused = lab.alice.try_link(&lab.host, |hello| hello.session_pubkey = Some("xyz".to_owned())).await;
    assert_eq!(refused.err().unwrap().0["code"], "bad_session_pubkey");
}

#[tokio::test]
async fn the_first_frame_must_be_a_hello_and_come_in_time() {
    let limits = Limits { handshake: std::time::Duration::from_secs(60), ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    for (said, code) in [
        (Message::text(r#"{"type":"topic_list"}"#), "no_hello"),
        (Message::text("{"), "malformed"),
        (Message::text(r#"{"type":"hello","timestamp":"x"}"#), "malformed"),
        (Message::binary(vec![1]), "malformed"),
    ] {
        let mut link = Link::open(&lab.host).await;
        link.challenge().await;
        link.say_raw(said).await;
        let (frame, ended) = link.welcomed().await.err().unwrap();
        assert_eq!((frame["code"].as_str(), ended), (Some(code), (1008, code.to_owned())));
    }
    let limits = Limits { handshake: std::time::Duration::from_secs(1), ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let mut silent = Link::open(&lab.host).await;
    silent.challenge().await;
    assert_eq!(silent.welcomed().await.err().unwrap().0["code"], "no_hello");
}

#[tokio::test]
async fn a_required_feature_that_is_missing_ends_it_with_4010() {
    let lab = Lab::new().await;
    let require: Vec<_> = (0..40).map(|n| format!("teleport-{n}")).collect();
    let refused = lab.alice.try_link(&lab.host, |hello| {
        hello.features = Some(Features { require, optional: vec!["flight".to_owned()] });
    });
    let (_, (code, reason)) = refused.await.err().unwrap();
    assert_eq!(code, 4010);
    assert!(reason.len() <= 123);
    let reason: serde_json::Value = serde_json::from_str(&reason).unwrap();
    assert_eq!(reason["missing_required"][0], "teleport-0");
}

#[tokio::test]
async fn a_mesh_has_room_for_so_many() {
    let limits = Limits { capacity: 2, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let _alice = lab.alice().await;
    let session = SecretKey::generate();
    let _session = lab.alice.try_session(&lab.host, &session, |_| {}).await.ok().unwrap();
    let (frame, ended) = bob.try_link(&lab.host, |_| {}).await.err().unwrap();
    assert_eq!((frame["code"].as_str(), ended.1.as_str()), (Some("capacity"), "capacity"));
    // Who takes its own place needs no other.
    lab.alice().await;
}

#[tokio::test]
async fn sessions_are_vouched_for_by_their_member() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let key = SecretKey::generate();
    let now = Clock::system().now_ms();
    let code = |refused: Result<Link, (serde_json::Value, super::peer::Ended)>| {
        refused.err().map(|(frame, _)| frame["code"].as_str().unwrap_or_default().to_owned())
    };
    let mut session = lab.alice.try_session(&lab.host, &key, |_| {}).await.ok().unwrap();
    assert_eq!(session.welcome["memberDisplayName"], "alice");
    let peers = session.ask(json!({"type": "list_peers"})).await;
    assert_eq!(peers["peers"][0]["peerRole"], "session");
    assert_eq!(peers["peers"][0]["memberPubkey"], lab.alice.key.public().hex());
    let late = lab.alice.try_session(&lab.host, &key, |session| {
        session.parent_attestation = attest(&lab.alice.key, &key.public(), now - 1);
    });
    assert_eq!(code(late.await).as_deref(), Some("expired"));
    let long = lab.alice.try_session(&lab.host, &key, |session| {
        session.parent_attestation = attest(&lab.alice.key, &key.public(), now + 25 * 3_600_000);
    });
    assert_eq!(code(long.await).as_deref(), Some("ttl_too_long"));
    let other = lab.alice.try_session(&lab.host, &key, |session| {
        session.parent_attestation = attest(&lab.alice.key, &SecretKey::generate().public(), now + 1000);
    });
    assert_eq!(code(other.await).as_deref(), Some("attestation_mismatch"));
    let forged = lab.alice.try_session(&lab.host, &key, |session| {
        session.parent_attestation = attest(&bob.key, &key.public(), now + 1000);
        session.parent_attestation.parent_member_pubkey = lab.alice.key.public().hex();
    });
    assert_eq!(code(forged.await).as_deref(), Some("bad_signature"));
    let named = lab.alice.try_session(&lab.host, &key, |session| session.parent_member_id.clone_from(&bob.member));
    assert_eq!(code(named.await).as_deref(), Some("parent_member_id_mismatch"));
    let parent = lab.alice.try_session(&lab.host, &key, |session| session.parent_member_pubkey = "x".to_owned());
    assert_eq!(code(parent.await).as_deref(), Some("bad_parent_pubkey"));
    let shape = lab.alice.try_session(&lab.host, &key, |session| session.hello.session_pubkey = Some("x".to_owned()));
    assert_eq!(code(shape.await).as_deref(), Some("bad_session_pubkey"));
    // The key is alice's session's from now on.
    let taken = bob.try_session(&lab.host, &key, |_| {}).await;
    assert_eq!(code(taken).as_deref(), Some("bad_session_pubkey"));
}

#[tokio::test]
async fn a_reader_is_told_what_it_missed() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut alice = lab.alice().await;
    for n in 0..3 {
        alice.send(dm(&bob, &format!("m{n}"))).await;
    }
    let epoch = alice.epoch();
    let link = bob.link_from(&lab.host, &epoch, 2).await;
    assert_eq!(link.welcome["resume"], "ok");
    let mut link = bob.link_from(&lab.host, "another log", 2).await;
    assert_eq!(link.welcome["resume"], "reset");
    assert_eq!(link.push().await["client_message_id"], "m0");
    // A log that has less than the reader: it goes on from the log's end.
    let link =
        bob.link_with(&lab.host, |hello| hello.resume = Some(Resume { epoch, seq: 99, ..Resume::default() })).await;
    assert_eq!(link.welcome["log"]["lastSeq"], 3);
}

#[tokio::test]
async fn frames_that_make_no_sense_are_answered_and_counted() {
    let lab = Lab::new().await;
    let mut alice = lab.alice().await;
    alice.say_text(r#"{"type":"teleport","_reqId":"q1"}"#).await;
    let error = alice.hear(|frame| frame["_reqId"] == "q1").await;
    assert_eq!((error["type"].as_str(), error["code"].as_str()), (Some("error"), Some("unknown_message_type")));
    for text in
        ["", "[]", "null", "{\"type\":1}", "{\"type\":\"send\"}", "{\"type\":\"topic_create\",\"_reqId\":\"q2\"}"]
    {
        alice.say_text(text).await;
        let error = alice.hear(|frame| frame["type"] == "error").await;
        assert_eq!(error["code"], "malformed", "{text}");
    }
    alice.say_raw(Message::binary(vec![0; 10])).await;
    let hello = ClientFrame::Hello(Box::new(lab.alice.hello()));
    alice.say(&hello).await;
    assert_eq!(alice.hear(|frame| frame["type"] == "error").await["code"], "invalid");
    let (_, metrics) = lab.host.http("GET", "/metrics", &[], b"").await;
    let metrics = metrics.as_str().unwrap();
    for line in [
        "broker_invalid_frames_total{reason=\"unknown_type\"} 1",
        "broker_invalid_frames_total{reason=\"malformed\"} 6",
        "broker_invalid_frames_total{reason=\"binary\"} 1",
        "broker_connections_active 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    // Nothing but nonsense for long is the end.
    for _ in 0..100 {
        alice.say_text("nonsense").await;
    }
    assert_eq!(alice.ended().await, (1008, "malformed".to_owned()));
}

#[tokio::test]
async fn a_frame_that_is_too_long_ends_it_with_1009() {
    let lab = Lab::new().await;
    let mut alice = lab.alice().await;
    let long = format!("{{\"type\":\"set_summary\",\"summary\":\"{}\"}}", "x".repeat(300 * 1024));
    alice.say_text(&long).await;
    assert_eq!(alice.ended().await.0, 1009);
    let mut stranger = Link::open(&lab.host).await;
    stranger.challenge().await;
    stranger.say_text(&long).await;
    assert_eq!(stranger.ended().await.0, 1009);
}
