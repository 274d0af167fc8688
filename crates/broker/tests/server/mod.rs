//! What the tests have in common: a broker in a directory of its own, and peers.

mod delivery;
mod hello;
mod hostile;
mod http;
mod origin;
mod peer;
mod people;
mod presence;
mod retention;
mod rotation;
mod scale;
mod sending;
mod topics;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hostel_broker::engine::{EngineOptions, SqliteEngine};
use hostel_broker::registry::RegistrySettings;
use hostel_broker::{AdminToken, Broker, Log, Settings};
use hostel_wire::Clock;
use hostel_wire::invite::{InviteLink, Terms};
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use peer::{Link, Peer};

/// How long anything may take before it counts as hanging; `HOSTEL_TEST_SCALE` makes it longer.
pub(crate) fn hang_limit() -> Duration {
    let scale = std::env::var("HOSTEL_TEST_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    Duration::from_secs(120).mul_f64(scale)
}

/// The word that lets tests make meshes.
pub(crate) const TOKEN: &str = "a token of some length";

/// A running broker.
pub(crate) struct Host {
    pub(crate) broker: Arc<Broker<SqliteEngine>>,
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Host {
    pub(crate) async fn start(directory: &tempfile::TempDir, settings: Settings) -> Self {
        Self::with_clock(directory, settings, Clock::system()).await
    }

    pub(crate) async fn with_clock(directory: &tempfile::TempDir, settings: Settings, clock: Clock) -> Self {
        let path = directory.path();
        let settings = Settings { admin_token: AdminToken::new(TOKEN), ..settings };
        let engine = SqliteEngine::open(EngineOptions::at(path.join("broker.db"), path.join("blobs"))).await.unwrap();
        let registry = RegistrySettings::default();
        let broker = Broker::open(engine, settings, registry, clock, Log::silent()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn({
            let broker = Arc::clone(&broker);
            async move {
                broker.serve(listener, None, async { drop(stopped.await) }).await;
            }
        });
        Self { broker, address, stop, served }
    }

    /// Ends it in an orderly way; what it keeps can be opened again.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        tokio::time::timeout(hang_limit(), self.served).await.unwrap().unwrap();
        self.broker.shutdown().await;
    }

    /// A request by HTTP: its status and the body as JSON, or as text where it is none.
    pub(crate) async fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Value) {
        let (status, _, bytes) = self.http_bytes(method, path, headers, body).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn http_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.ok();
        let mut answer = Vec::new();
        tokio::time::timeout(hang_limit(), stream.read_to_end(&mut answer)).await.unwrap().ok();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let headers = [("Content-Type", "application/json"), ("Authorization", &format!("Bearer {TOKEN}"))];
        self.http("POST", path, &headers, body.to_string().as_bytes()).await
    }
}

/// A mesh with its owner.
pub(crate) struct Lab {
    pub(crate) host: Host,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) mesh: String,
    pub(crate) owner_key: SecretKey,
    pub(crate) alice: Peer,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        Self::with_clock(settings, Clock::system()).await
    }

    pub(crate) async fn with_clock(settings: Settings, clock: Clock) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let host = Host::with_clock(&directory, settings, clock).await;
        let owner_key = SecretKey::generate();
        let key = SecretKey::generate();
        let body = json!({
            "name": "lab",
            "owner_pubkey": owner_key.public().hex(),
            "member": {"pubkey": key.public().hex(), "display_name": "alice"},
        });
        let (status, made) = host.post("/mesh", &body).await;
        assert_eq!(status, 200, "{made}");
        let mesh = made["meshId"].as_str().unwrap().to_owned();
        let alice = Peer { mesh: mesh.clone(), member: made["memberId"].as_str().unwrap().to_owned(), key };
        Self { host, directory, mesh, owner_key, alice }
    }

    /// Ends the broker and starts it again on the same files.
    pub(crate) async fn restart(self, settings: Settings) -> Self {
        let Self { host, directory, mesh, owner_key, alice } = self;
        host.stop().await;
        let host = Host::start(&directory, settings).await;
        Self { host, directory, mesh, owner_key, alice }
    }

    /// An invite, registered: what goes into `POST /join`.
    pub(crate) async fn invite(&self, uses: u32, role: &str) -> InviteLink {
        let terms = Terms {
            mesh_id: self.mesh.clone(),
            mesh_slug: "lab".to_owned(),
            broker_url: format!("ws://{}/ws", self.host.address),
            expires_at: Clock::system().now_ms() / 1000 + 3600,
            role: role.to_owned(),
        };
        let link = InviteLink::make(&terms, &self.owner_key, None).unwrap();
        let sealed = link.secret.as_ref().unwrap().seal_root(&RootKey::generate());
        let mut alice = self.alice.session(&self.host).await;
        let made = alice
            .ask(json!({"type": "invite_create", "token": link.token, "sealedRootKey": sealed, "maxUses": uses}))
            .await;
        assert_eq!(made["type"], "invite_created", "{made}");
        alice.bye().await;
        link
    }

    /// Somebody joins.
    pub(crate) async fn join(&self, name: &str) -> Peer {
        self.join_as(name, "member").await
    }

    pub(crate) async fn join_as(&self, name: &str, role: &str) -> Peer {
        let link = self.invite(1, role).await;
        let key = SecretKey::generate();
        let body = json!({"invite_token": link.token, "peer_pubkey": key.public().hex(), "display_name": name});
        let (status, joined) = self.host.post("/join", &body).await;
        assert_eq!(status, 200, "{joined}");
        assert!(joined["sealed_root_key"].is_string());
        Peer { mesh: self.mesh.clone(), member: joined["memberId"].as_str().unwrap().to_owned(), key }
    }

    pub(crate) async fn alice(&self) -> Link {
        self.alice.link(&self.host).await
    }
}
