//! A broker for targets, asked by HTTP and spoken to over WebSockets, all in memory but for its files.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hostel_broker::engine::{EngineOptions, SqliteEngine};
use hostel_broker::registry::RegistrySettings;
use hostel_broker::{AdminToken, Broker, Limits, Log, PeerInfo, Settings};
use hostel_wire::Clock;
use hostel_wire::frames::client::{ClientFrame, Features, Hello};
use hostel_wire::hello::sign_hello;
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// What makes meshes.
pub const TOKEN: &str = "a token of some length";

/// What a connection carries before somebody has read it.
const PIPE: usize = 1 << 20;

/// How long a broker that has everything it needs may take for an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// A broker and what it runs on.
pub struct World {
    pub runtime: Runtime,
    broker: Arc<Broker<SqliteEngine>>,
}

/// A member of a mesh of its own.
pub struct Member {
    pub mesh: String,
    pub id: String,
    pub key: SecretKey,
}

impl World {
    /// With files in a directory of this name, and room for so many meshes.
    pub fn new(name: &str, meshes: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let scratch = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).expect("a directory");
        let broker = runtime.block_on(async {
            let options =
                EngineOptions { inline: true, ..EngineOptions::at(scratch.join("broker.db"), scratch.join("blobs")) };
            let engine = SqliteEngine::open(options).await.expect("an engine");
            let limits = Limits { rate_per_s: 0, requests_per_s: 0, ..Limits::default() };
            let settings = Settings { admin_token: AdminToken::new(TOKEN), limits, ..Settings::default() };
            // Few of everything: what a run leaves behind must not slow down the next.
            let few = RegistrySettings {
                meshes,
                members: 50,
                files: 20,
                topics: 20,
                invites: 20,
                state_entries: 50,
                tasks: 50,
                ..RegistrySettings::default()
            };
            Broker::open(engine, settings, few, Clock::system(), Log::silent()).await.expect("a broker")
        });
        Self { runtime, broker }
    }

    /// The first member of a new mesh.
    pub fn enrol(&self) -> Member {
        let key = SecretKey::from_seed(&[5; 32]);
        let body = json!({"name": "lab", "owner_pubkey": SecretKey::from_seed(&[6; 32]).public().hex(),
            "member": {"pubkey": key.public().hex(), "display_name": "alice"}});
        let bearer = [("Authorization", format!("Bearer {TOKEN}"))];
        let (status, made) = self.ask("POST /mesh", &bearer, body.to_string().as_bytes());
        assert_eq!(status, 200, "{made}");
        let text = |key: &str| made[key].as_str().expect("an id").to_owned();
        Member { mesh: text("meshId"), id: text("memberId"), key }
    }

    /// One request on a connection of its own.
    pub fn ask(&self, line: &str, headers: &[(&str, String)], body: &[u8]) -> (u16, Value) {
        let mut request =
            format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let bytes = [request.as_bytes(), body].concat();
        self.say(&bytes, false)
    }

    /// Says something; who hangs up at once may get no answer.
    pub fn say(&self, bytes: &[u8], hang_up: bool) -> (u16, Value) {
        let answer = self.runtime.block_on(async {
            let (mut ours, serving) = self.connect(bytes.len() + PIPE);
            ours.write_all(bytes).await.ok();
            if hang_up {
                ours.shutdown().await.ok();
            }
            let mut answer = Vec::new();
            ours.read_to_end(&mut answer).await.expect("a pipe");
            serving.await.expect("a broker that panics is a finding");
            answer
        });
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn connect(&self, pipe: usize) -> (DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(pipe);
        let broker = Arc::clone(&self.broker);
        let serving = tokio::spawn(async move {
            broker.serve_connection(theirs, PeerInfo { address: None }).await;
        });
        (ours, serving)
    }

    /// A member's daemon; none if it is not let in.
    pub async fn link(&self, member: &Member) -> Option<Link> {
        let (stream, serving) = self.connect(PIPE);
        let (socket, _) = tokio_tungstenite::client_async("ws://x/ws", stream).await.expect("a WebSocket");
        let mut link = Link { socket, serving };
        let challenge = link.hear().await?;
        let mut hello = Hello {
            protocol_version: 2,
            mesh_id: member.mesh.clone(),
            member_id: member.id.clone(),
            pubkey: member.key.public().hex(),
            display_name: "alice".to_owned(),
            session_id: "daemon-1".to_owned(),
            channel: "claudemesh-daemon".to_owned(),
            timestamp: Clock::system().now_ms(),
            features: Some(Features { require: vec!["lanes".to_owned()], optional: Vec::new() }),
            role: Some("service".to_owned()),
            nonce: challenge["nonce"].as_str().map(str::to_owned),
            ..Hello::default()
        };
        sign_hello(&mut hello, &member.key).expect("a hello can be signed");
        link.tell(&ClientFrame::Hello(Box::new(hello)).encode()).await;
        match link.hear().await {
            Some(frame) if frame["type"] == "hello_ack" => Some(link),
            _ => {
                link.end().await;
                None
            }
        }
    }
}

/// A WebSocket to a broker.
pub struct Link {
    socket: WebSocketStream<DuplexStream>,
    serving: JoinHandle<()>,
}

impl Link {
    /// Says something, if anybody listens.
    pub async fn tell(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.ok();
    }

    /// What is said next; none at the end, which is never one of the broker's own mistakes.
    pub async fn hear(&mut self) -> Option<Value> {
        let hearing = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Some(serde_json::from_str(text.as_str()).expect("a broker says JSON"));
                    }
                    Some(Ok(Message::Close(frame))) => {
                        let code = frame.map_or(1000, |frame| frame.code.into());
                        assert!(
                            matches!(code, 1000 | 1001 | 1002 | 1003 | 1007..=1009 | 4001..=4010),
                            "closed: {code}"
                        );
                        return None;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return None,
                }
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.expect("a broker that says nothing is a finding")
    }

    /// Hangs up and waits until the broker has noticed.
    pub async fn end(self) {
        drop(self.socket);
        self.serving.await.expect("a broker that panics is a finding");
    }
}
