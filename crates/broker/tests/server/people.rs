//! Revoking, kicking, inviting, the audit, renaming.

use hostel_broker::Settings;
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};

use super::Lab;
use super::peer::{Link, dm, message};

#[tokio::test]
async fn a_revoked_member_hears_of_it_and_nothing_else() {
    let lab = Lab::new().await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut a, mut b, mut c) = (lab.alice().await, bob.link(&lab.host).await, carol.link(&lab.host).await);
    let mut session = bob.try_session(&lab.host, &SecretKey::generate(), |_| {}).await.ok().unwrap();
    assert_eq!(c.ask(json!({"type": "revoke", "target": "bob"})).await["code"], "forbidden");
    b.send(dm(&carol, "before")).await;
    assert_eq!(a.ask(json!({"type": "revoke", "target": bob.key.public().hex()})).await["memberId"], bob.member);
    let news = b.news("member_revoked").await;
    assert_eq!(news["eventData"]["pubkey"], bob.key.public().hex());
    assert_eq!(b.ended().await, (4002, "banned".to_owned()));
    assert_eq!(session.ended().await.0, 4002);
    let (frame, ended) = bob.try_link(&lab.host, |_| {}).await.err().unwrap();
    assert_eq!((frame["code"].as_str(), ended.0), (Some("revoked"), 4002));
    let (frame, ended) = bob.try_session(&lab.host, &SecretKey::generate(), |_| {}).await.err().unwrap();
    assert_eq!((frame["code"].as_str(), ended.0), (Some("revoked"), 4002));
    // The others see it in the roster; the owner is alarmed; what was accepted arrives.
    let delta = c.hear(|frame| frame["type"] == "roster_delta" && frame["members"][0]["id"] == bob.member).await;
    assert_eq!(delta["members"][0]["revoked"], true);
    assert_eq!(a.news("member_revoked").await["eventData"]["memberId"], bob.member);
    assert_eq!(c.push().await["client_message_id"], "before");
    assert_eq!(c.news("peer_left").await["eventData"]["memberId"], bob.member);
    assert_eq!(a.send(dm(&bob, "m1")).await["code"], "recipient_revoked");
    // The key of what goes to many is another one now.
    assert_eq!(a.send(message(&json!({"all": true}), "all", "m2")).await["code"], "stale_key_epoch");
    let bans = a.ask(json!({"type": "list_bans"})).await;
    assert_eq!(bans["bans"][0]["memberId"], bob.member);
    assert_eq!(a.ask(json!({"type": "unban", "target": "bob"})).await["type"], "ok");
    bob.link(&lab.host).await;
    let audit = a.ask(json!({"type": "audit_query"})).await;
    let kinds: Vec<_> = audit["events"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    for kind in ["mesh_created", "invite_created", "member_joined", "member_revoked", "member_unbanned"] {
        assert!(kinds.contains(&json!(kind)), "{kind} {kinds:?}");
    }
    assert_eq!(c.ask(json!({"type": "audit_query"})).await["code"], "forbidden");
}

#[tokio::test]
async fn kicked_ones_stay_away_and_disconnected_ones_come_back() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let admin = lab.join_as("carol", "admin").await;
    let (mut b, mut c) = (bob.link(&lab.host).await, admin.link(&lab.host).await);
    assert_eq!(b.ask(json!({"type": "kick", "target": "carol"})).await["code"], "forbidden");
    let done = c.ask(json!({"type": "disconnect", "target": "bob"})).await;
    assert_eq!(done["closed"], 1);
    assert_eq!(b.ended().await, (1000, "disconnected".to_owned()));
    let mut b = bob.link(&lab.host).await;
    let mut control = bob
        .try_session(&lab.host, &SecretKey::generate(), |session| session.hello.role = Some("control-plane".to_owned()))
        .await
        .ok()
        .unwrap();
    let done = c.ask(json!({"type": "kick", "target": "bob"})).await;
    assert_eq!((&done["closed"], done["skipped_control_plane"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!(b.ended().await, (4001, "kicked".to_owned()));
    assert_eq!(control.ask(json!({"type": "list_peers"})).await["type"], "peers_list");
    assert_eq!(c.ask(json!({"type": "kick", "target": "nobody"})).await["code"], "not_found");
}

#[tokio::test]
async fn invites_are_counted_listed_and_taken_back() {
    let lab = Lab::new().await;
    let mut a = lab.alice().await;
    let join = async |token: &str, key: &SecretKey, name: &str| {
        let body = json!({"invite_token": token, "peer_pubkey": key.public().hex(), "display_name": name});
        lab.host.post("/join", &body).await
    };
    let link = lab.invite(1, "member").await;
    let (bob, carol) = (SecretKey::generate(), SecretKey::generate());
    assert_eq!(join(&link.token, &bob, "bob").await.0, 200);
    // Joining again with a known key uses nothing up.
    let (status, again) = join(&link.token, &bob, "bob").await;
    assert_eq!((status, &again["alreadyMember"]), (200, &json!(true)));
    let (status, refused) = join(&link.token, &carol, "carol").await;
    assert_eq!((status, &refused["error"], &refused["ok"]), (400, &json!("invite_exhausted"), &json!(false)));
    let link = lab.invite(5, "member").await;
    let list = a.ask(json!({"type": "invite_list"})).await;
    assert_eq!(list["invites"].as_array().unwrap().len(), 2);
    assert_eq!(a.ask(json!({"type": "invite_revoke", "invite": link.token})).await["type"], "ok");
    assert_eq!(join(&link.token, &carol, "carol").await.1["error"], "invite_revoked");
    assert_eq!(join("nonsense", &carol, "carol").await.0, 400);
    // Joining is heard of.
    let delta = a.hear(|frame| frame["type"] == "roster_delta").await;
    assert_eq!(delta["members"][0]["name"], "bob");
}

#[tokio::test]
async fn a_join_may_be_signed_and_then_must_be_signed_well() {
    let lab = Lab::new().await;
    let link = lab.invite(2, "member").await;
    let key = SecretKey::generate();
    let pubkey = key.public().hex();
    let now = hostel_wire::Clock::system().now_ms();
    let text = hostel_wire::hello::join_request(&link.token, &pubkey, now);
    let body = |signature: String, timestamp: Value| json!({"invite_token": link.token, "peer_pubkey": pubkey, "display_name": "bob", "timestamp": timestamp, "signature": signature});
    let forged = SecretKey::generate().sign(text.as_bytes()).hex();
    assert_eq!(lab.host.post("/join", &body(forged, json!(now))).await.1["error"], "bad_signature");
    let good = key.sign(text.as_bytes()).hex();
    assert_eq!(lab.host.post("/join", &body(good.clone(), Value::Null)).await.0, 400);
    assert_eq!(lab.host.post("/join", &body(good, json!(now))).await.0, 200);
}

/// A joiner may name its key for boxes too; then it must be the one its identity leads to.
#[tokio::test]
async fn a_joiner_has_one_identity() {
    let lab = Lab::new().await;
    let link = lab.invite(3, "member").await;
    let key = SecretKey::generate();
    let join = async |recipient: Value| {
        let body = json!({"invite_token": link.token, "peer_pubkey": key.public().hex(), "display_name": "bob",
            "recipient_x25519_pubkey": recipient});
        lab.host.post("/join", &body).await
    };
    let foreign = hostel_wire::encoding::hex(&SecretKey::generate().x25519_public());
    for wrong in [json!(foreign), json!(key.public().hex()), json!("short"), json!("")] {
        let (status, refused) = join(wrong).await;
        assert_eq!((status, &refused["error"]), (400, &json!("member_insert_failed")), "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains("recipient_x25519_pubkey"), "{refused}");
    }
    let own = key.x25519_public();
    let (status, joined) = join(json!(hostel_wire::encoding::hex(&own))).await;
    assert_eq!((status, joined["alreadyMember"].is_null()), (200, true), "{joined}");
    // The broker has no root key to seal: what it answers is sealed with the invite's secret.
    let sealed = joined["sealed_root_key"].as_str().unwrap();
    assert!(link.secret.as_ref().unwrap().open_root(sealed).is_ok());
    assert_eq!(join(json!(hostel_wire::encoding::b64url(&own))).await.0, 200);
    assert_eq!(join(Value::Null).await.0, 200);
}

#[tokio::test]
async fn names_and_profiles_are_told_to_the_others() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    assert_eq!(b.ask(json!({"type": "rename", "displayName": "robert"})).await["displayName"], "robert");
    let news = a.news("member_renamed").await;
    assert_eq!((&news["eventData"]["oldName"], &news["eventData"]["name"]), (&json!("bob"), &json!("robert")));
    assert_eq!((&news["senderPubkey"], &news["seq"], &news["nonce"]), (&json!("system"), &json!(0), &json!("")));
    assert_eq!(b.ask(json!({"type": "rename", "displayName": "two words"})).await["code"], "invalid_argument");
    assert_eq!(b.ask(json!({"type": "set_profile", "title": "cook"})).await["type"], "ok");
    assert_eq!(a.news("profile_updated").await["eventData"]["profile"]["title"], "cook");
    b.send(dm(&lab.alice, "m1")).await;
    assert_eq!(a.push().await["senderName"], "robert");
}

#[tokio::test]
async fn who_leaves_is_gone() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    assert_eq!(b.ask(json!({"type": "leave"})).await["type"], "ok");
    assert_eq!(b.ended().await, (1000, "left".to_owned()));
    assert_eq!(a.news("peer_left").await["eventData"]["name"], "bob");
    assert_eq!(bob.try_link(&lab.host, |_| {}).await.err().unwrap().0["code"], "unauthorized");
    assert_eq!(a.send(dm(&bob, "m1")).await["code"], "recipient_unknown");
    // By HTTP, signed by the member.
    let carol = lab.join("carol").await;
    let pubkey = carol.key.public().hex();
    let now = hostel_wire::Clock::system().now_ms();
    let text = hostel_wire::hello::leave_request(&lab.mesh, &pubkey, now);
    let path = format!("/v1/me/members/{pubkey}/leave");
    let body =
        |key: &SecretKey| json!({"meshId": lab.mesh, "timestamp": now, "signature": key.sign(text.as_bytes()).hex()});
    let (status, refused) = lab.host.post(&path, &body(&bob.key)).await;
    assert_eq!((status, &refused["error"]), (401, &json!("bad_signature")));
    for _ in 0..2 {
        // Again too: an answer may be lost.
        assert_eq!(lab.host.post(&path, &body(&carol.key)).await, (200, json!({"ok": true})));
    }
    assert_eq!(carol.try_link(&lab.host, |_| {}).await.err().unwrap().0["code"], "unauthorized");
}

#[tokio::test]
async fn another_key_takes_over_when_both_sign() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (old, new) = (bob.key.public().hex(), SecretKey::generate());
    let now = hostel_wire::Clock::system().now_ms();
    let text = hostel_wire::hello::remint_request(&lab.mesh, &old, &new.public().hex(), false, now);
    let path = format!("/v1/me/members/{old}/remint");
    let body = |signer: &SecretKey, proof: &SecretKey| {
        json!({
            "meshId": lab.mesh, "newPubkey": new.public().hex(), "ephemeral": false, "timestamp": now,
            "signature": signer.sign(text.as_bytes()).hex(), "proof": proof.sign(text.as_bytes()).hex(),
        })
    };
    assert_eq!(lab.host.post(&path, &body(&new, &new)).await.0, 401);
    assert_eq!(lab.host.post(&path, &body(&bob.key, &bob.key)).await.0, 401);
    let (status, made) = lab.host.post(&path, &body(&bob.key, &new)).await;
    assert_eq!((status, &made["displayName"]), (200, &json!("bob")), "{made}");
    let again = lab.host.post(&path, &body(&bob.key, &new)).await;
    assert_eq!(again.1["memberId"], made["memberId"]);
    let heir = super::Peer { member: made["memberId"].as_str().unwrap().to_owned(), key: new, ..bob.clone() };
    heir.link(&lab.host).await;
    bob.link(&lab.host).await;
    // One that lives beside its sponsor, and goes with it.
    let (carol, beside) = (lab.join("carol").await, SecretKey::generate());
    let (old, new) = (carol.key.public().hex(), beside.public().hex());
    let text = hostel_wire::hello::remint_request(&lab.mesh, &old, &new, true, now);
    let body = json!({
        "meshId": lab.mesh, "newPubkey": new, "displayName": "shadow", "ephemeral": true, "timestamp": now,
        "signature": carol.key.sign(text.as_bytes()).hex(), "proof": beside.sign(text.as_bytes()).hex(),
    });
    let (status, made) = lab.host.post(&format!("/v1/me/members/{old}/remint"), &body).await;
    assert_eq!((status, &made["displayName"]), (200, &json!("shadow")), "{made}");
    let shadow = super::Peer { member: made["memberId"].as_str().unwrap().to_owned(), key: beside, ..bob };
    let mut link = shadow.link(&lab.host).await;
    let mut a = lab.alice().await;
    a.ask(json!({"type": "revoke", "target": "carol"})).await;
    let ended = link.ended().await;
    assert!(matches!(ended.0, 1000 | 4002), "{ended:?}");
    shadow.try_link(&lab.host, |_| {}).await.err().unwrap();
}

/// A field of all items of a list, asked for page by page.
async fn all(link: &mut Link, request: Value, list: &str, field: &str) -> Vec<String> {
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    for _ in 0..20 {
        let mut asked = request.clone();
        if after.is_string() {
            asked["after"] = after;
        }
        let answer = link.ask(asked).await;
        let page = answer[list].as_array().unwrap();
        assert_eq!(page.len(), 1, "{answer}");
        seen.extend(page.iter().map(|item| item[field].as_str().unwrap().to_owned()));
        assert_eq!(answer["more"], answer["next"].is_string(), "{answer}");
        after = answer["next"].clone();
        if after.is_null() {
            break;
        }
    }
    seen.sort_unstable();
    seen
}

/// Each list goes on where its last page ended, whatever it is sorted by: here a page has one item.
#[tokio::test]
async fn every_list_can_be_read_to_its_end() {
    let lab = Lab::with(Settings { list_bytes: 1, ..Settings::default() }).await;
    let mut a = lab.alice().await;
    let mut names = Vec::new();
    for name in ["bob", "carol", "dave"] {
        let mut link = lab.join(name).await.link(&lab.host).await;
        for topic in ["x", "y", "z"] {
            let asked = json!({"type": "topic_subscribe", "topic": topic, "create": true});
            assert_eq!(link.ask(asked).await["type"], "topic_subscribed");
        }
        names.push(name.to_owned());
    }
    let members = json!({"type": "topic_members", "topic": "y"});
    assert_eq!(all(&mut a, members, "members", "displayName").await, names);
    assert_eq!(all(&mut a, json!({"type": "topic_list"}), "topics", "name").await, ["general", "x", "y", "z"]);
    let invites = all(&mut a, json!({"type": "invite_list"}), "invites", "id").await;
    assert_eq!(invites.len(), 3);
    assert!(invites.is_sorted_by(|one, other| one < other), "each once: {invites:?}");
    for name in &names {
        assert_eq!(a.ask(json!({"type": "revoke", "target": name})).await["type"], "ok");
    }
    assert_eq!(all(&mut a, json!({"type": "list_bans"}), "bans", "name").await, names);
    for list in ["list_bans", "list_files"] {
        assert_eq!(a.ask(json!({"type": list, "after": "nowhere"})).await["code"], "invalid_argument");
    }
}
