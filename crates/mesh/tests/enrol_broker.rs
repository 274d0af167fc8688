//! Becoming a member at a real broker: over TCP, and over TLS with the certificate that the invite names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::sync::Arc;

use hostel_broker::engine::{EngineOptions, SqliteEngine};
use hostel_broker::registry::{NewInvite, RegistrySettings};
use hostel_broker::{AdminToken, Broker, Settings};
use hostel_mesh::enrol::{Create, Enrol};
use hostel_mesh::home::{Memberships, Places};
use hostel_wire::Clock;
use hostel_wire::fingerprint::sha256;
use hostel_wire::invite::{CertPin, InviteLink, Terms};
use rcgen::generate_simple_self_signed;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// The word that lets tests make meshes.
const TOKEN: &str = "a token of some length";

/// A broker, its address and the digest of its certificate.
struct Running {
    dir: TempDir,
    broker: Arc<Broker<SqliteEngine>>,
    url: String,
    cert: Option<CertPin>,
}

impl Running {
    async fn start(tls: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = EngineOptions::at(dir.path().join("broker.db"), dir.path().join("blobs"));
        let engine = SqliteEngine::open(options).await.unwrap();
        let log = hostel_broker::Log::silent();
        let registry = RegistrySettings::default();
        let settings = Settings { admin_token: AdminToken::new(TOKEN), ..Settings::default() };
        let broker = Broker::open(engine, settings, registry, Clock::system(), log).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (config, cert) = if tls { certificate() } else { (None, None) };
        let serving = Arc::clone(&broker);
        tokio::spawn(async move { serving.serve(listener, config, std::future::pending()).await });
        let scheme = if tls { "wss" } else { "ws" };
        Self { dir, broker, url: format!("{scheme}://127.0.0.1:{port}/ws"), cert }
    }

    /// Files of a user of their own.
    fn user(&self, name: &str) -> (Places, Enrol) {
        let root = self.dir.path().join(name);
        let places = Places::at(root.join("config"), root.join("daemon"));
        (places.clone(), Enrol::new(places, Clock::system()))
    }
}

fn certificate() -> (Option<Arc<rustls::ServerConfig>>, Option<CertPin>) {
    let made = generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let cert = made.cert.der().clone();
    let digest = sha256(&cert);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .unwrap();
    (Some(Arc::new(config)), Some(digest.into()))
}

fn wanted(running: &Running) -> Create {
    Create {
        broker_url: running.url.clone(),
        admin_token: Some(TOKEN.to_owned().into()),
        name: "Lab".into(),
        display_name: "ada".into(),
        cert: running.cert,
    }
}

async fn life_of_members(running: &Running) {
    let (_, ada) = running.user("ada");
    let owner = ada.create(wanted(running)).await.unwrap();
    assert_eq!((owner.slug.as_str(), owner.display_name.as_deref()), ("lab", Some("ada")));

    let terms = Terms {
        mesh_id: owner.mesh_id.clone(),
        mesh_slug: owner.slug.clone(),
        broker_url: running.url.clone(),
        expires_at: Clock::system().now_ms() / 1000 + 600,
        role: "member".into(),
    };
    let link = InviteLink::make(&terms, owner.owner_key.as_ref().unwrap(), running.cert).unwrap();
    let sealed = link.secret.as_ref().unwrap().seal_root(owner.root_key.as_ref().unwrap());
    let new = NewInvite { token: link.token.clone(), sealed_root_key: Some(sealed), max_uses: None, preset: None };
    running.broker.registry().invite_create(&owner.mesh_id, &owner.member_id, new).await.unwrap();

    let (places, bob) = running.user("bob");
    let joined = bob.join(&link.text(), "ada").await.unwrap();
    assert_eq!(joined.membership.root_key, owner.root_key);
    assert_eq!(joined.membership.display_name.as_deref(), Some("ada-2"), "the name was taken");
    assert_eq!(joined.membership.cert, running.cert);
    let again = bob.join(&link.text(), "ada").await.unwrap();
    assert!(again.already_member, "and the invite was for one");
    assert_eq!(again.membership.member_id, joined.membership.member_id);
    let (_, eve) = running.user("eve");
    assert_eq!(eve.join(&link.text(), "eve").await.unwrap_err().code(), "invite_exhausted");

    let reminted = bob.remint(&joined.membership).await.unwrap();
    assert_ne!(reminted.member_id, joined.membership.member_id);
    assert_eq!(Memberships::load(&places).unwrap().find("lab").unwrap().key, reminted.key);
    bob.leave(&reminted).await.unwrap();
    bob.leave(&reminted).await.expect("an answer may be lost, so it may be asked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp() {
    life_of_members(&Running::start(false).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_with_the_certificate_of_the_invite() {
    life_of_members(&Running::start(true).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_certificate_is_refused() {
    let running = Running::start(true).await;
    let (places, ada) = running.user("ada");
    let with_wrong = Create { cert: Some([7; 32].into()), ..wanted(&running) };
    let said = ada.create(with_wrong).await.unwrap_err();
    assert_eq!(said.code(), "broker_unavailable");
    assert!(said.to_string().contains("another certificate"), "{said}");
    let without = Create { cert: None, ..wanted(&running) };
    assert_eq!(ada.create(without).await.unwrap_err().code(), "certificate_unknown");
    assert!(Memberships::load(&places).unwrap().all().is_empty());
}
