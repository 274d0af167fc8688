//! Becoming a member, against a broker made of a function.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hostel_wire::invite::Terms;
use hostel_wire::keys::{PublicKey, Signature};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use super::*;
use crate::link::dial::{BoxStream, Dialling};

const NOW: u64 = 1_790_000_000_000;

type Serve = dyn Fn(&str, &Value, Option<&str>) -> (u16, Value) + Send + Sync;

/// A broker that answers what a function says; the first `silent` answers are lost on their way.
struct Fake {
    serve: Arc<Serve>,
    silent: AtomicUsize,
    date: Option<&'static str>,
}

impl Fake {
    fn new(serve: impl Fn(&str, &Value, Option<&str>) -> (u16, Value) + Send + Sync + 'static) -> Self {
        Self { serve: Arc::new(serve), silent: AtomicUsize::new(0), date: None }
    }
}

impl Dial for Fake {
    fn dial<'a>(&'a self, _url: &'a BrokerUrl) -> Dialling<'a> {
        let silent = self.silent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let (serve, date) = (Arc::clone(&self.serve), self.date);
        Box::pin(async move {
            let (here, there) = tokio::io::duplex(64 * 1024);
            let answer = move |request: Request<Incoming>| {
                let serve = Arc::clone(&serve);
                async move {
                    let path = request.uri().path().to_owned();
                    let token = request.headers().get("authorization").and_then(|v| v.to_str().ok()).map(str::to_owned);
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    let (status, answer) = serve(&path, &body, token.as_deref());
                    if silent {
                        return Err(io::Error::other("lost"));
                    }
                    let mut answer =
                        Response::builder().status(status).body(Full::new(Bytes::from(answer.to_string()))).unwrap();
                    if let Some(date) = date {
                        answer.headers_mut().insert("date", date.parse().unwrap());
                    }
                    Ok(answer)
                }
            };
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(there), service_fn(answer)),
            );
            Ok(Box::new(here) as BoxStream)
        })
    }
}

struct Lab {
    _dir: tempfile::TempDir,
    places: Places,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::at(dir.path().join("config"), dir.path().join("daemon"));
        Self { _dir: dir, places }
    }

    fn enrol(&self, fake: Fake) -> Enrol {
        Enrol::new(self.places.clone(), Clock::of(|| NOW)).with_dial(Arc::new(fake))
    }

    /// Names of files that are left over in the directory.
    fn left_over(&self) -> Vec<String> {
        let entries = fs::read_dir(self.places.config_dir()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".joining-")).collect()
    }
}

fn link(owner: &SecretKey) -> InviteLink {
    let terms = Terms {
        mesh_id: "mesh1".into(),
        mesh_slug: "lab".into(),
        broker_url: "ws://127.0.0.1:9/ws".into(),
        expires_at: NOW / 1000 + 60,
        role: "member".into(),
    };
    InviteLink::make(&terms, owner, None).unwrap()
}

fn is_signed(body: &Value, key: &str, signature: &str, text: &str) -> bool {
    let key = PublicKey::from_hex(body[key].as_str().unwrap()).unwrap();
    key.verify(text.as_bytes(), &Signature::from_hex(body[signature].as_str().unwrap()).unwrap())
}

#[tokio::test]
async fn a_mesh_is_made_with_keys_that_stay_here() {
    let lab = Lab::new();
    let seen = Arc::new(Mutex::new(Value::Null));
    let keep = Arc::clone(&seen);
    let fake = Fake::new(move |path, body, token| {
        assert_eq!((path, token), ("/mesh", Some("Bearer sesame")));
        let text = hello::mesh_request(
            "My Lab",
            body["owner_pubkey"].as_str().unwrap(),
            body["member"]["pubkey"].as_str().unwrap(),
            NOW,
        );
        assert!(is_signed(body, "owner_pubkey", "signature", &text));
        *keep.lock() = body.clone();
        (200, json!({"meshId": "mesh1", "slug": "my-lab-2", "memberId": "m1"}))
    });
    let wanted = Create {
        broker_url: "http://127.0.0.1:9".into(),
        admin_token: Some(Zeroizing::new("sesame".into())),
        name: "My Lab".into(),
        display_name: "Ada Lovelace".into(),
        cert: None,
    };
    let made = lab.enrol(fake).create(wanted).await.unwrap();
    assert_eq!((made.slug.as_str(), made.member_id.as_str()), ("my-lab-2", "m1"));
    assert_eq!(made.broker_urls, ["ws://127.0.0.1:9/ws"]);
    let body = seen.lock().clone();
    assert_eq!(body["owner_pubkey"], made.owner_key.as_ref().unwrap().public().hex());
    assert_eq!(body["member"], json!({"pubkey": made.key.public(), "display_name": "Ada-Lovelace"}));
    let said = body.to_string();
    for secret in
        [made.key.to_hex(), made.owner_key.as_ref().unwrap().to_hex(), made.root_key.as_ref().unwrap().to_b64url()]
    {
        assert!(!said.contains(&secret[..32]), "a secret went to the broker");
    }
    let kept = Memberships::load(&lab.places).unwrap();
    assert_eq!(kept.find("my-lab-2").unwrap().key, made.key);
}

#[tokio::test]
async fn an_invite_gives_the_root_key() {
    let lab = Lab::new();
    let owner = SecretKey::generate();
    let link = link(&owner);
    let root = RootKey::generate();
    let sealed = link.secret.as_ref().unwrap().seal_root(&root);
    let fake = Fake::new(move |path, body, _| {
        assert_eq!(path, "/join");
        let text =
            hello::join_request(body["invite_token"].as_str().unwrap(), body["peer_pubkey"].as_str().unwrap(), NOW);
        assert!(is_signed(body, "peer_pubkey", "signature", &text));
        assert_eq!(body["display_name"], "bob");
        assert!(!body.to_string().contains("#k="));
        (
            200,
            json!({"ok": true, "memberId": "m2", "mesh_name": "The Lab", "sealed_root_key": sealed, "brokers": ["ws://127.0.0.1:10/ws"]}),
        )
    });
    let joined = lab.enrol(fake).join(&link.text(), "bob").await.unwrap();
    assert!(!joined.already_member);
    let kept = Memberships::load(&lab.places).unwrap();
    let kept = kept.find("lab").unwrap();
    assert_eq!((kept.member_id.as_str(), kept.name.as_str()), ("m2", "The Lab"));
    assert_eq!(kept.root_key, Some(root));
    assert_eq!(kept.broker_urls, ["ws://127.0.0.1:9/ws", "ws://127.0.0.1:10/ws"]);
    assert!(lab.left_over().is_empty());
}

#[tokio::test]
async fn a_lost_answer_does_not_cost_the_invite() {
    let lab = Lab::new();
    let link = link(&SecretKey::generate());
    let sealed = link.secret.as_ref().unwrap().seal_root(&RootKey::generate());
    let keys = Arc::new(Mutex::new(Vec::new()));
    let fake = |silent| {
        let (keys, sealed) = (Arc::clone(&keys), sealed.clone());
        let fake = Fake::new(move |_, body, _| {
            keys.lock().push(body["peer_pubkey"].clone());
            (200, json!({"ok": true, "memberId": "m2", "sealed_root_key": sealed, "alreadyMember": true}))
        });
        fake.silent.store(silent, Ordering::SeqCst);
        fake
    };
    // All attempts of the first process are lost, the second one asks with the same key.
    let lost = lab.enrol(fake(100)).join(&link.text(), "bob").await.unwrap_err();
    assert_eq!(lost.code(), "broker_unavailable");
    assert_eq!(lab.left_over().len(), 1);
    let joined = lab.enrol(fake(1)).join(&link.text(), "bob").await.unwrap();
    assert!(joined.already_member);
    let keys = keys.lock().clone();
    assert_eq!(keys.len(), 5);
    assert!(keys.iter().all(|key| *key == joined.membership.key.public().hex()));
    assert!(lab.left_over().is_empty());
}

#[tokio::test]
async fn joining_again_keeps_the_key() {
    let lab = Lab::new();
    let link = link(&SecretKey::generate());
    let sealed = link.secret.as_ref().unwrap().seal_root(&RootKey::generate());
    let fake = || {
        let sealed = sealed.clone();
        Fake::new(move |_, _, _| (200, json!({"ok": true, "memberId": "m2", "sealed_root_key": sealed})))
    };
    let first = lab.enrol(fake()).join(&link.text(), "bob").await.unwrap();
    let second = lab.enrol(fake()).join(&link.text(), "bob").await.unwrap();
    assert_eq!(first.membership.key, second.membership.key);
    assert_eq!(Memberships::load(&lab.places).unwrap().all().len(), 1);
}

#[tokio::test]
async fn two_meshes_of_one_name() {
    let lab = Lab::new();
    for (mesh, slug) in [("mesh1", "lab"), ("mesh2", "lab-2")] {
        let terms = Terms {
            mesh_id: mesh.into(),
            mesh_slug: "lab".into(),
            broker_url: "ws://127.0.0.1:9/ws".into(),
            expires_at: NOW / 1000 + 60,
            role: "member".into(),
        };
        let link = InviteLink::make(&terms, &SecretKey::generate(), None).unwrap();
        let sealed = link.secret.as_ref().unwrap().seal_root(&RootKey::generate());
        let fake = Fake::new(move |_, _, _| (200, json!({"memberId": "m", "sealed_root_key": sealed})));
        assert_eq!(lab.enrol(fake).join(&link.text(), "bob").await.unwrap().membership.slug, slug);
    }
}

#[tokio::test]
async fn refusals_keep_their_word() {
    let lab = Lab::new();
    let good = link(&SecretKey::generate());
    let refusing = |status, body: Value| lab.enrol(Fake::new(move |_, _, _| (status, body.clone())));
    let said =
        refusing(400, json!({"ok": false, "error": "invite_exhausted"})).join(&good.text(), "bob").await.unwrap_err();
    assert_eq!(said.code(), "invite_exhausted");
    assert_eq!(said.to_string(), "the broker refused: the invite has been used up");
    assert!(lab.left_over().is_empty(), "the key of a refused join is of no use");
    let said = refusing(503, json!({})).join(&good.text(), "bob").await.unwrap_err();
    assert_eq!(said.code(), "http_503");
    assert_eq!(lab.left_over().len(), 1, "later it may work");
    let said = refusing(200, json!({"memberId": "m"})).join(&good.text(), "bob").await.unwrap_err();
    assert_eq!(said.code(), "root_key_missing");
    let other = InviteLink::make(
        &Terms {
            mesh_id: "x".into(),
            mesh_slug: "x".into(),
            broker_url: "ws://h/ws".into(),
            expires_at: NOW,
            role: "member".into(),
        },
        &SecretKey::generate(),
        None,
    );
    let foreign = other.unwrap().secret.unwrap().seal_root(&RootKey::generate());
    let said = refusing(200, json!({"memberId": "m", "sealed_root_key": foreign})).join(&good.text(), "bob").await;
    assert_eq!(said.unwrap_err().code(), "root_key_missing");
    for answer in [json!([]), json!({"memberId": ""})] {
        let said = refusing(200, answer).join(&good.text(), "bob").await.unwrap_err();
        assert!(["bad_answer", "root_key_missing"].contains(&said.code()), "{said}");
    }
    assert!(Memberships::load(&lab.places).unwrap().all().is_empty());
}

#[tokio::test]
async fn links_that_cannot_be_used() {
    let lab = Lab::new();
    let enrol = lab.enrol(Fake::new(|_, _, _| panic!("nobody is asked")));
    let good = link(&SecretKey::generate());
    assert_eq!(enrol.join(&good.token, "bob").await.unwrap_err().code(), "invite_malformed");
    assert_eq!(enrol.join("hello", "bob").await.unwrap_err().code(), "invite_malformed");
}

#[tokio::test]
async fn whether_an_invite_is_over_is_for_the_broker_to_say() {
    let lab = Lab::new();
    let link = link(&SecretKey::generate());
    let late = |fake: Fake| Enrol { clock: Clock::of(|| NOW + 61_000), ..lab.enrol(fake) };
    // Only where it cannot be asked our own clock is.
    let unheard = Fake { silent: AtomicUsize::new(9), ..Fake::new(|_, _, _| (200, json!({}))) };
    assert_eq!(late(unheard).join(&link.text(), "bob").await.unwrap_err().code(), "invite_expired");
    assert!(lab.left_over().is_empty());
    let sealed = link.secret.as_ref().unwrap().seal_root(&RootKey::generate());
    let good = Fake::new(move |_, _, _| (200, json!({"memberId": "m", "sealed_root_key": sealed})));
    late(good).join(&link.text(), "bob").await.unwrap();
}

#[tokio::test]
async fn tls_that_cannot_be_checked_is_refused() {
    let lab = Lab::new();
    let enrol = Enrol::new(lab.places.clone(), Clock::of(|| NOW));
    let wanted = Create {
        broker_url: "wss://broker.invalid/ws".into(),
        admin_token: None,
        name: "lab".into(),
        display_name: "ada".into(),
        cert: None,
    };
    let said = enrol.create(wanted).await.unwrap_err();
    assert_eq!(said.code(), "certificate_unknown");
    assert!(said.to_string().contains("ca_file"), "{said}");
}

#[tokio::test]
async fn a_clock_that_is_wrong_keeps_nobody_out() {
    let lab = Lab::new();
    let link = link(&SecretKey::generate());
    let sealed = link.secret.as_ref().unwrap().seal_root(&RootKey::generate());
    let mut fake = Fake::new(move |_, body, _| {
        // Ten minutes ahead of this side.
        if body["timestamp"].as_u64().unwrap().abs_diff(NOW + 600_000) > 60_000 {
            return (400, json!({"ok": false, "error": "bad_signature"}));
        }
        (200, json!({"memberId": "m", "sealed_root_key": sealed}))
    });
    fake.date = Some("Mon, 21 Sep 2026 14:23:20 GMT");
    lab.enrol(fake).join(&link.text(), "bob").await.unwrap();
}

#[tokio::test]
async fn another_key_for_a_member() {
    let lab = Lab::new();
    let member = Membership {
        mesh_id: "mesh1".into(),
        member_id: "m1".into(),
        slug: "lab".into(),
        name: "lab".into(),
        key: SecretKey::generate(),
        broker_urls: vec!["not an address".into(), "ws://127.0.0.1:9/ws".into()],
        joined_at: String::new(),
        root_key: Some(RootKey::generate()),
        owner_key: Some(SecretKey::generate()),
        cert: None,
        display_name: Some("ada".into()),
    };
    let old = member.key.public().hex();
    let fake = || {
        let old = old.clone();
        Fake::new(move |path, body, _| {
            assert_eq!(path, format!("/v1/me/members/{old}/remint"));
            let new = body["newPubkey"].as_str().unwrap();
            let text = hello::remint_request("mesh1", &old, new, body["ephemeral"] == true, NOW);
            let mut with_old = body.clone();
            with_old["old"] = old.as_str().into();
            assert!(is_signed(&with_old, "old", "signature", &text) && is_signed(body, "newPubkey", "proof", &text));
            (200, json!({"ok": true, "memberId": "m9", "displayName": "ada"}))
        })
    };
    let reminted = lab.enrol(fake()).remint(&member).await.unwrap();
    assert_eq!(reminted.member_id, "m9");
    assert_ne!(reminted.key, member.key);
    assert_eq!(reminted.owner_key, member.owner_key);
    assert_eq!(Memberships::load(&lab.places).unwrap().find("lab").unwrap().key, reminted.key);

    let guest = lab.enrol(fake()).ephemeral(&member, "ci").await.unwrap();
    assert_eq!(guest.owner_key, None);
    assert_eq!(Memberships::load(&lab.places).unwrap().find("lab").unwrap().key, reminted.key, "not written");

    let path = format!("/v1/me/members/{old}/leave");
    let fake = Fake::new(move |asked, body, _| {
        assert_eq!(asked, path);
        assert_eq!(body["meshId"], "mesh1");
        (200, json!({"ok": true}))
    });
    lab.enrol(fake).leave(&member).await.unwrap();
}
