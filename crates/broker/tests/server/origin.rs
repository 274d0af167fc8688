//! Ids of messages that one member had accepted and another, who has taken its place, sends.

use hostel_wire::hello::remint_request;
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};

use super::peer::{dm, message};
use super::{Lab, Peer};

/// Who takes the place of a member.
async fn heir(lab: &Lab, old: &Peer) -> Peer {
    let (old_key, key) = (old.key.public().hex(), SecretKey::generate());
    let new_key = key.public().hex();
    let now = hostel_wire::Clock::system().now_ms();
    let text = remint_request(&lab.mesh, &old_key, &new_key, false, now);
    let body = json!({
        "meshId": lab.mesh, "newPubkey": new_key, "ephemeral": false, "timestamp": now,
        "signature": old.key.sign(text.as_bytes()).hex(), "proof": key.sign(text.as_bytes()).hex(),
    });
    let (status, made) = lab.host.post(&format!("/v1/me/members/{old_key}/remint"), &body).await;
    assert_eq!(status, 200, "{made}");
    Peer { member: made["memberId"].as_str().unwrap().to_owned(), key, ..old.clone() }
}

/// A message that somebody else had accepted.
fn of(origin: &Peer, mut message: Value) -> Value {
    message["origin"] = json!(origin.member);
    message
}

#[tokio::test]
async fn what_two_of_a_line_send_under_one_id_is_there_once_whoever_is_first() {
    let lab = Lab::new().await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut b, mut c) = (bob.link(&lab.host).await, carol.link(&lab.host).await);
    assert_eq!(b.send(dm(&carol, "one")).await["duplicate"], json!(null));
    let second = heir(&lab, &bob).await;
    let mut s = second.link(&lab.host).await;
    let again = s.send(of(&bob, dm(&carol, "one"))).await;
    assert_eq!((&again["queued"], &again["duplicate"]), (&json!(true), &json!(true)), "{again}");
    // The other way round, also where it goes to many.
    let all = json!({"all": true});
    s.send(of(&bob, message(&all, "all", "two"))).await;
    let again = b.send(message(&all, "all", "two")).await;
    assert_eq!(again["duplicate"], json!(true), "{again}");
    // Another text under such an id is another message.
    let mut other = of(&bob, dm(&carol, "one"));
    other["request_fingerprint"] = json!("ab".repeat(32));
    assert_eq!(s.send(other).await["code"], "idempotency_key_reused");
    // What each accepts by itself is its own, whatever its id.
    s.send(dm(&carol, "three")).await;
    assert_eq!(b.send(dm(&carol, "three")).await["duplicate"], json!(null));
    // The line goes on.
    let third = heir(&lab, &second).await;
    let mut t = third.link(&lab.host).await;
    for (origin, id) in [(&bob, "one"), (&second, "three")] {
        let again = t.send(of(origin, dm(&carol, id))).await;
        assert_eq!(again["duplicate"], json!(true), "{again}");
    }
    t.send(of(&third, dm(&carol, "four"))).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let push = c.push().await;
        let text = |name: &str| push[name].as_str().unwrap_or_default().to_owned();
        seen.push((text("senderMemberId"), text("client_message_id"), text("origin")));
    }
    let was = |from: &Peer, id: &str, origin: Option<&Peer>| {
        let origin = origin.map(|one| one.member.clone()).unwrap_or_default();
        (from.member.clone(), id.to_owned(), origin)
    };
    let wanted = [
        was(&bob, "one", None),
        was(&second, "two", Some(&bob)),
        was(&second, "three", None),
        was(&bob, "three", None),
        was(&third, "four", None),
    ];
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn nobody_uses_up_or_probes_the_ids_of_others() {
    let lab = Lab::new().await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut b, mut c) = (bob.link(&lab.host).await, carol.link(&lab.host).await);
    b.send(dm(&carol, "used")).await;
    let second = heir(&lab, &bob).await;
    let mut s = second.link(&lab.host).await;
    s.send(dm(&carol, "its own")).await;
    // Neither a stranger's, nor, for the old one, those of who came after it.
    for (who, origin, id) in [(&carol, &bob, "used"), (&carol, &bob, "free"), (&bob, &second, "its own")] {
        let link = if who.member == carol.member { &mut c } else { &mut b };
        let refused = link.send(of(origin, dm(&bob, id))).await;
        assert_eq!((&refused["code"], &refused["permanent"]), (&json!("origin_unknown"), &json!(true)), "{refused}");
    }
    let mut nobody = dm(&carol, "free");
    nobody["origin"] = json!("nobody");
    assert_eq!(s.send(nobody).await["code"], "origin_unknown");
    // Nothing was taken by trying.
    let sent = b.send(dm(&carol, "free")).await;
    assert_eq!((&sent["queued"], &sent["duplicate"]), (&json!(true), &json!(null)), "{sent}");
}
