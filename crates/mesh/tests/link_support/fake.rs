//! A broker that does what a test says, over the real wire.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)] // test code

use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use hostel_mesh::link::dial::NetDial;
use hostel_mesh::{Ending, Mesh, MeshOptions};
use hostel_wire::body::Body;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint;
use hostel_wire::frames::Priority;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::{PairKey, RootKey};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::{log, quick, soon};

pub const FEATURES: [&str; 7] =
    ["client_message_id_dedupe", "log_cursor", "lanes", "client_ack_cumulative", "caught_up", "roster", "topic_keys"];

/// A broker that does what the test says.
pub struct Fake {
    pub listener: TcpListener,
    pub alice: SecretKey,
    pub bob: SecretKey,
    pub features: Vec<&'static str>,
    pub time: u64,
}

pub struct Talk {
    pub socket: WebSocketStream<TcpStream>,
}

impl Fake {
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (alice, bob) = (SecretKey::generate(), SecretKey::generate());
        Self { listener, alice, bob, features: FEATURES.to_vec(), time: 0 }
    }

    pub fn options(&self, dir: &TempDir) -> MeshOptions {
        let mut settings = quick();
        settings.broker.ack_timeout_s = 1;
        MeshOptions {
            slug: "lab".into(),
            mesh_id: "mesh".into(),
            member_id: "alice-id".into(),
            member_key: self.alice.clone(),
            keys: hostel_mesh::KeyOptions::default(),
            root_key: Some(RootKey::from_b64url(&"A".repeat(43)).unwrap()),
            owner_key: None,
            display_name: "alice".into(),
            rename: false,
            groups: Vec::new(),
            broker_urls: vec![format!("ws://{}/ws", self.listener.local_addr().unwrap())],
            certificate: None,
            dir: Some(dir.path().to_owned()),
            leave_on_end: false,
            host_fingerprint: None,
            hostname: String::new(),
            cwd: String::new(),
            version: "0.9.0".into(),
            settings,
            clock: hostel_wire::Clock::system(),
            dial: Arc::new(NetDial::new(None).unwrap()),
            log: log(),
            hooks: Default::default(),
            inline_stores: false,
        }
    }

    /// Takes a connection up to the hello, and gives the hello.
    pub async fn hello(&self) -> (Talk, Value) {
        let (stream, _) = soon("a connection", self.listener.accept()).await.unwrap();
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let mut talk = Talk { socket };
        talk.say(json!({"type": "hello_challenge", "nonce": "bm9uY2U=", "time": self.time, "protocol": [1, 2]})).await;
        let hello = talk.hear().await;
        assert_eq!(hello["type"], "hello");
        (talk, hello)
    }

    /// Takes a connection and welcomes it.
    pub async fn accept(&self) -> Talk {
        let member = |id: &str, name: &str, key: &SecretKey| json!({"id": id, "name": name, "role": "member", "pubkey": key.public().hex()});
        self.accept_with(0, json!([member("alice-id", "alice", &self.alice), member("bob-id", "bob", &self.bob)])).await
    }

    /// Takes a connection and welcomes it, with these members and so many entries in the log.
    pub async fn accept_with(&self, last_seq: u64, members: Value) -> Talk {
        let (mut talk, _) = self.hello().await;
        let supported: Value =
            self.features.iter().map(|name| ((*name).to_owned(), json!({}))).collect::<serde_json::Map<_, _>>().into();
        talk.say(json!({
            "type": "hello_ack", "protocolVersion": 2, "brokerVersion": "fake", "features": {"supported": supported},
            "log": {"epoch": "e1", "firstSeq": 1, "lastSeq": last_seq}, "resume": "ok",
        }))
        .await;
        talk.say(json!({"type": "roster", "rev": 1, "members": members})).await;
        talk
    }

    /// A push of bob's to alice; `change` may spoil it.
    pub fn push(&self, seq: u64, message: &str, change: impl FnOnce(&mut Value)) -> String {
        let id = format!("c-{seq}");
        let made = fingerprint::request("dm", "alice-id", None, Priority::Next, None, message.as_bytes()).unwrap();
        let body = Body {
            body: message.into(),
            client_message_id: Some(id.clone()),
            fingerprint: Some(made),
            ..Body::default()
        };
        let sealed = PairKey::new(&self.bob, &self.alice.public()).unwrap().seal(&body.to_bytes());
        let mut push = json!({
            "type": "push", "messageId": format!("m-{seq}"), "meshId": "mesh", "senderPubkey": self.bob.public().hex(),
            "senderMemberPubkey": self.bob.public().hex(), "senderMemberId": "bob-id", "senderName": "bob", "priority": "next",
            "nonce": sealed.nonce, "ciphertext": sealed.ciphertext, "createdAt": "2026-01-01T00:00:00.000Z",
            "client_message_id": id, "request_fingerprint": hex(&made), "seq": seq, "kind": "dm", "bodyVersion": 3, "mentions": [],
        });
        change(&mut push);
        push.to_string()
    }
}

impl Talk {
    pub async fn say(&mut self, frame: Value) {
        self.text(frame.to_string()).await;
    }

    pub async fn text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next frame; None if the connection is over.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match soon("a frame", self.socket.next()).await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(text.as_str()).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub async fn hear(&mut self) -> Value {
        self.next().await.expect("the connection stands")
    }

    /// The next frame of a type; requests in between are refused.
    pub async fn hear_type(&mut self, wanted: &str) -> Value {
        loop {
            let frame = self.hear().await;
            if frame["type"] == wanted {
                return frame;
            }
            if let Some(id) = frame.get("_reqId") {
                self.say(json!({"type": "error", "code": "forbidden", "message": "no", "_reqId": id})).await;
            }
        }
    }

    pub async fn take(&mut self, send: &Value) {
        self.say(json!({"type": "ack", "id": send["id"], "messageId": "m", "queued": true, "seq": 1})).await;
    }

    pub async fn refuse(&mut self, send: &Value, code: &str) {
        let ack =
            json!({"type": "ack", "id": send["id"], "messageId": "", "queued": false, "error": code, "code": code});
        self.say(ack).await;
    }

    pub async fn close(mut self, code: u16) {
        self.socket.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await.ok();
        while self.socket.next().await.is_some_and(|heard| heard.is_ok()) {}
    }
}

/// Starts the daemon that speaks to it.
pub async fn start(fake: &Fake, dir: &TempDir) -> (Mesh, tokio::task::JoinHandle<Ending>) {
    let mesh = Mesh::open(fake.options(dir)).await.unwrap();
    let running = mesh.clone();
    (mesh, tokio::spawn(async move { running.run().await }))
}
