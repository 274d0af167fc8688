//! Keys that are replaced while everybody is connected: who hears of it, and what the old key is still good for.

use std::time::Duration;

use hostel_broker::Settings;
use hostel_wire::Clock;
use hostel_wire::hello::{rotate_request, succeed};
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};

use super::peer::{dm, message};
use super::{Lab, Peer};

/// The request, signed by these two.
fn request(peer: &Peer, new: &SecretKey, signer: &SecretKey, proof: &SecretKey, timestamp: u64) -> Value {
    let (old, new) = (peer.key.public().hex(), new.public().hex());
    let text = rotate_request(&peer.mesh, &peer.member, &old, &new, timestamp);
    json!({
        "type": "rotate_key", "oldPubkey": old, "newPubkey": new, "timestamp": timestamp,
        "signature": signer.sign(text.as_bytes()).hex(), "proof": proof.sign(text.as_bytes()).hex(),
    })
}

fn now() -> u64 {
    Clock::system().now_ms()
}

#[tokio::test]
async fn both_keys_must_sign_now_and_the_member_itself_must_ask() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut link = bob.link(&lab.host).await;
    assert!(link.welcome["features"]["supported"]["rotate_key"].is_object());
    let (new, other) = (SecretKey::generate(), SecretKey::generate());
    for (signer, proof, timestamp) in [
        (&other, &new, now()),
        (&bob.key, &other, now()),
        (&bob.key, &bob.key, now()),
        (&bob.key, &new, now() - 61_000),
    ] {
        let refused = link.ask(request(&bob, &new, signer, proof, timestamp)).await;
        assert_eq!(refused["code"], "bad_signature", "{refused}");
    }
    // Signed for another member, or asked for by a session.
    let foreign = Peer { member: lab.alice.member.clone(), ..bob.clone() };
    assert_eq!(link.ask(request(&foreign, &new, &bob.key, &new, now())).await["code"], "bad_signature");
    let mut session = bob.session(&lab.host).await;
    assert_eq!(session.ask(request(&bob, &new, &bob.key, &new, now())).await["code"], "forbidden");
    let done = link.ask(request(&bob, &new, &bob.key, &new, now())).await;
    assert_eq!((&done["type"], &done["already"]), (&json!("ok"), &json!(false)), "{done}");
    // Whoever did not hear that is told again, also with a clock that is off by now.
    for timestamp in [now(), now() - 3_600_000] {
        let again = link.ask(request(&bob, &new, &bob.key, &new, timestamp)).await;
        assert_eq!((&again["already"], &again["graceUntil"]), (&json!(true), &done["graceUntil"]), "{again}");
    }
}

#[tokio::test]
async fn everybody_knows_before_anything_of_the_new_key_comes() {
    let lab = Lab::with(Settings { switch: Duration::from_secs(3), ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let mut session = bob.session(&lab.host).await;
    a.hear(|frame| frame["type"] == "roster").await;
    let (old, new) = (bob.key.public().hex(), SecretKey::generate());
    b.ask(request(&bob, &new, &bob.key, &new, now())).await;
    // What is under way on the old connection is still the old key's.
    assert_eq!(b.send(dm(&lab.alice, "m1")).await["queued"], true);
    let renewed = Peer { key: new.clone(), ..bob.clone() };
    let mut n = renewed.link(&lab.host).await;
    assert_eq!(n.send(dm(&lab.alice, "m2")).await["queued"], true);
    // The same id again, over the new connection, is the same message.
    assert_eq!(n.send(dm(&lab.alice, "m1")).await["duplicate"], true);
    let delta = a.hear(|frame| frame["type"] == "roster_delta" || frame["type"] == "push" && frame["seq"] != 0).await;
    assert_eq!(delta["type"], "roster_delta", "the roster comes first: {delta}");
    let member = &delta["members"][0];
    assert_eq!((&member["pubkey"], &member["retired"][0]["pubkey"]), (&json!(new.public().hex()), &json!(old)));
    let keys = [a.push().await["senderPubkey"].clone(), a.push().await["senderPubkey"].clone()];
    assert_eq!(keys, [json!(old), json!(new.public().hex())]);
    let news = a.news("member_keypair_rotated").await;
    let data = &news["eventData"];
    assert_eq!(
        (&data["name"], &data["oldPubkey"], &data["newPubkey"]),
        (&json!("bob"), &json!(old), &json!(new.public().hex()))
    );
    // The old key opens nothing, not even to say that it was replaced, and what it had opened ends.
    let (refused, ended) = bob.try_link(&lab.host, |_| {}).await.err().unwrap();
    assert_eq!((&refused["code"], ended.0), (&json!("key_replaced"), 1008));
    assert!(bob.try_session(&lab.host, &SecretKey::generate(), |_| {}).await.is_err());
    assert_eq!(b.ended().await, (1000, "key_replaced".to_owned()));
    assert_eq!(session.ended().await, (1000, "key_replaced".to_owned()));
    // A message for the old key finds the member, and nobody else was told that it went.
    let mut first = message(&Value::Null, "dm", "m3");
    first["to"].take();
    first.as_object_mut().unwrap().remove("to");
    first["targetSpec"] = old.into();
    assert_eq!(a.send(first).await["queued"], true);
    assert_eq!(n.push().await["client_message_id"], "m3");
    let audit = a.ask(json!({"type": "audit_query"})).await;
    let kinds: Vec<_> = audit["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert!(kinds.contains(&json!("member_keypair_rotated")), "{kinds:?}");
}

#[tokio::test]
async fn a_key_that_is_not_known_is_taken_for_what_it_can_show() {
    let lab = Lab::with(Settings { switch: Duration::from_secs(3), ..Settings::default() }).await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    // As after a backup was put back: bob has had two other keys since, and this broker knows the first.
    let (second, third) = (SecretKey::generate(), SecretKey::generate());
    let step = |old: &SecretKey, new: &SecretKey| succeed(&bob.mesh, &bob.member, old, new, now());
    let lineage = vec![step(&bob.key, &second), step(&second, &third)];
    let later = Peer { key: third.clone(), ..bob.clone() };
    let (refused, _) = later.try_link(&lab.host, |_| {}).await.err().unwrap();
    assert_eq!(refused["code"], "unauthorized");
    // A session cannot do it for its member, nor the first protocol, nor anybody who has not the key at the end.
    let shown = lineage.clone();
    let session = later.try_session(&lab.host, &SecretKey::generate(), |session| session.hello.lineage = shown).await;
    assert_eq!(session.err().unwrap().0["code"], "unauthorized");
    let thief = Peer { key: SecretKey::generate(), ..bob.clone() };
    let shown = lineage.clone();
    let (refused, _) = thief.try_link(&lab.host, |hello| hello.lineage = shown).await.err().unwrap();
    assert_eq!(refused["code"], "unauthorized", "{refused}");
    let mut old = bob.link(&lab.host).await;
    let shown = lineage.clone();
    let mut link = later.link_with(&lab.host, |hello| hello.lineage = shown).await;
    assert_eq!(link.send(dm(&lab.alice, "m1")).await["queued"], true);
    let news = a.news("member_keypair_rotated").await;
    assert_eq!(news["eventData"]["newPubkey"], json!(third.public().hex()));
    assert_eq!(a.push().await["senderPubkey"], json!(third.public().hex()));
    // Whoever was there with an earlier key goes, and does not come back; nor can it lead on to a key of its own.
    assert_eq!(old.ended().await, (1000, "key_replaced".to_owned()));
    for key in [&bob.key, &second] {
        let with = Peer { key: key.clone(), ..bob.clone() };
        let (refused, _) = with.try_link(&lab.host, |_| {}).await.err().unwrap();
        assert_eq!(refused["code"], "key_replaced", "{refused}");
        let forged = vec![step(key, &thief.key)];
        let (refused, _) = thief.try_link(&lab.host, |hello| hello.lineage = forged).await.err().unwrap();
        assert_eq!(refused["code"], "key_replaced", "{refused}");
    }
    // The key is known now, with and without.
    later.link_with(&lab.host, |hello| hello.lineage = lineage).await;
    later.link(&lab.host).await;
}

#[tokio::test]
async fn a_revoked_member_hears_that_also_with_a_key_that_is_not_known() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let later = Peer { key: SecretKey::generate(), ..bob.clone() };
    let lineage = vec![succeed(&bob.mesh, &bob.member, &bob.key, &later.key, now())];
    lab.host.broker.registry().revoke(&lab.mesh, &lab.alice.member, &bob.member).await.unwrap();
    let (refused, ended) = later.try_link(&lab.host, |hello| hello.lineage = lineage).await.err().unwrap();
    assert_eq!((&refused["code"], ended.1.as_str()), (&json!("revoked"), "banned"));
}
