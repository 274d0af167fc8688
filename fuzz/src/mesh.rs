//! A daemon's side of a mesh, for targets: a broker that says whatever it is told to, and the options of a mesh whose
//! databases are in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use hostel_mesh::MeshOptions;
use hostel_mesh::home::Settings;
use hostel_mesh::link::dial::{BoxStream, BrokerUrl, Dial, Dialling};
use hostel_mesh::log::Log;
use hostel_wire::Clock;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::{Mutex, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

const FEATURES: [&str; 7] =
    ["client_message_id_dedupe", "log_cursor", "lanes", "client_ack_cumulative", "caught_up", "roster", "topic_keys"];

/// What a connection carries before somebody has read it.
const PIPE: usize = 8 << 20;

/// The key of the daemon's member, always the same.
pub fn alice() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

/// The key of the only other member.
pub fn bob() -> SecretKey {
    SecretKey::from_seed(&[8; 32])
}

/// A broker that plays one script per connection: its frames come after a proper welcome.
pub struct Scripted {
    scripts: Mutex<mpsc::Receiver<Vec<String>>>,
    played: mpsc::Sender<()>,
}

impl Scripted {
    /// With where scripts go, and where it says that one was played.
    pub fn new() -> (Arc<Self>, mpsc::Sender<Vec<String>>, mpsc::Receiver<()>) {
        let (give, scripts) = mpsc::channel(1);
        let (played, told) = mpsc::channel(1);
        (Arc::new(Self { scripts: Mutex::new(scripts), played }), give, told)
    }
}

impl Dial for Scripted {
    fn dial<'a>(&'a self, _: &'a BrokerUrl) -> Dialling<'a> {
        Box::pin(async move {
            let Some(script) = self.scripts.lock().await.recv().await else {
                return std::future::pending().await;
            };
            let (ours, theirs) = tokio::io::duplex(PIPE);
            let played = self.played.clone();
            tokio::spawn(async move {
                // A daemon that hangs up early has heard enough.
                play(theirs, script).await.unwrap_or_default();
                played.send(()).await.ok();
            });
            Ok(Box::new(ours) as BoxStream)
        })
    }
}

async fn play(stream: DuplexStream, script: Vec<String>) -> Option<()> {
    let mut socket = tokio_tungstenite::accept_async(stream).await.ok()?;
    say(&mut socket, &json!({"type": "hello_challenge", "nonce": "bm9uY2U=", "protocol": [1, 2]}).to_string()).await?;
    hear(&mut socket).await?;
    let supported: Value =
        FEATURES.iter().map(|name| ((*name).to_owned(), json!({}))).collect::<serde_json::Map<_, _>>().into();
    let welcome = json!({
        "type": "hello_ack", "protocolVersion": 2, "brokerVersion": "fuzz", "features": {"supported": supported},
        "log": {"epoch": "e1", "firstSeq": 1, "lastSeq": 0}, "resume": "ok",
    });
    say(&mut socket, &welcome.to_string()).await?;
    let member = |id: &str, name: &str, key: &SecretKey| json!({"id": id, "name": name, "role": "member", "pubkey": key.public().hex()});
    let members = [member("alice-id", "alice", &alice()), member("bob-id", "bob", &bob())];
    say(&mut socket, &json!({"type": "roster", "rev": 1, "members": members}).to_string()).await?;
    let mut asked = VecDeque::new();
    for line in script {
        let frame = match serde_json::from_str::<Value>(&line) {
            // An answer, to whatever was asked longest ago.
            Ok(mut frame) if frame.get("_reqId").is_some() => {
                while asked.is_empty() {
                    let heard = serde_json::from_str::<Value>(&hear(&mut socket).await?).ok()?;
                    asked.extend(heard.get("_reqId").cloned());
                }
                frame["_reqId"] = asked.pop_front()?;
                frame.to_string()
            }
            _ => line,
        };
        say(&mut socket, &frame).await?;
    }
    socket.close(None).await.ok()?;
    while hear(&mut socket).await.is_some() {}
    Some(())
}

async fn say(socket: &mut WebSocketStream<DuplexStream>, text: &str) -> Option<()> {
    socket.send(Message::text(text)).await.ok()
}

/// The next text; none at the end, and none if nothing comes for a while.
async fn hear(socket: &mut WebSocketStream<DuplexStream>) -> Option<String> {
    let hearing = async {
        loop {
            match socket.next().await?.ok()? {
                Message::Text(text) => return Some(text.to_string()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), hearing).await.ok()?
}

/// Answers every request with the same bytes, whatever they are.
pub struct Parrot(pub Vec<u8>);

impl Dial for Parrot {
    fn dial<'a>(&'a self, _: &'a BrokerUrl) -> Dialling<'a> {
        Box::pin(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (ours, mut theirs) = tokio::io::duplex(PIPE);
            let answer = self.0.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 64 * 1024];
                theirs.read(&mut head).await.ok();
                theirs.write_all(&answer).await.ok();
                theirs.shutdown().await.ok();
                while theirs.read(&mut head).await.is_ok_and(|read| read > 0) {}
            });
            io::Result::Ok(Box::new(ours) as BoxStream)
        })
    }
}

/// A mesh of alice's that writes nothing.
pub fn options(dial: Arc<dyn Dial>) -> MeshOptions {
    let mut settings = Settings::default();
    settings.reconnect.initial_backoff_ms = 1;
    settings.reconnect.max_backoff_ms = 1;
    settings.capabilities.state = true;
    settings.capabilities.tasks = true;
    MeshOptions {
        slug: "lab".into(),
        mesh_id: "mesh".into(),
        member_id: "alice-id".into(),
        member_key: alice(),
        keys: hostel_mesh::KeyOptions::default(),
        root_key: RootKey::from_b64url(&"A".repeat(43)),
        owner_key: None,
        display_name: "alice".into(),
        rename: false,
        groups: Vec::new(),
        broker_urls: vec!["ws://broker/ws".into()],
        certificate: None,
        dir: None,
        leave_on_end: false,
        host_fingerprint: None,
        hostname: String::new(),
        cwd: String::new(),
        version: "0.9.0".into(),
        settings,
        clock: Clock::system(),
        dial,
        log: Log::silent(),
        hooks: Default::default(),
        inline_stores: true,
    }
}

/// A runtime whose clock goes on as soon as nobody has anything to do.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}
