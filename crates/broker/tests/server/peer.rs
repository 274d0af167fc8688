//! A member of a mesh, and its connection.

use std::collections::VecDeque;

use futures_util::{SinkExt as _, StreamExt as _};
use hostel_wire::Clock;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use hostel_wire::frames::client::{ClientFrame, Features, Hello, Resume, SessionHello};
use hostel_wire::hello::{attest, sign_hello, sign_session_hello};
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Host, hang_limit};

/// A member.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) mesh: String,
    pub(crate) member: String,
    pub(crate) key: SecretKey,
}

/// A WebSocket to the broker, and what was heard on it and not yet looked at.
pub(crate) struct Link {
    socket: WebSocketStream<Box<dyn Stream>>,
    heard: VecDeque<Value>,
    pub(crate) welcome: Value,
    asked: u64,
}

/// What a broker can be spoken to over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// How a connection ended: code and reason.
pub(crate) type Ended = (u16, String);

impl Peer {
    /// A hello of the second protocol, to be signed.
    pub(crate) fn hello(&self) -> Hello {
        Hello {
            protocol_version: 2,
            mesh_id: self.mesh.clone(),
            member_id: self.member.clone(),
            pubkey: self.key.public().hex(),
            display_name: "test".to_owned(),
            session_id: "daemon-1".to_owned(),
            hostname: "here".to_owned(),
            peer_type: "ai".to_owned(),
            channel: "claudemesh-daemon".to_owned(),
            timestamp: Clock::system().now_ms(),
            host_fingerprint: Some("aa".repeat(32)),
            features: Some(Features { require: vec!["lanes".to_owned()], optional: Vec::new() }),
            role: Some("service".to_owned()),
            ..Hello::default()
        }
    }

    /// Connects and is let in.
    pub(crate) async fn link(&self, host: &Host) -> Link {
        self.link_with(host, |_| {}).await
    }

    /// The same, having everything up to a number.
    pub(crate) async fn link_from(&self, host: &Host, epoch: &str, seq: u64) -> Link {
        let resume = Resume { epoch: epoch.to_owned(), seq, ..Resume::default() };
        self.link_with(host, |hello| hello.resume = Some(resume)).await
    }

    pub(crate) async fn link_with(&self, host: &Host, change: impl FnOnce(&mut Hello)) -> Link {
        self.try_link(host, change).await.unwrap_or_else(|(frame, ended)| panic!("{frame} {ended:?}"))
    }

    /// Connects; if it is not let in, says what it heard and how it ended.
    pub(crate) async fn try_link(&self, host: &Host, change: impl FnOnce(&mut Hello)) -> Result<Link, (Value, Ended)> {
        self.greet(Link::open(host).await, change).await
    }

    /// Says hello on a connection.
    pub(crate) async fn greet(&self, mut link: Link, change: impl FnOnce(&mut Hello)) -> Result<Link, (Value, Ended)> {
        let nonce = link.challenge().await;
        let mut hello = self.hello();
        hello.nonce = Some(nonce);
        change(&mut hello);
        if hello.signature.is_empty() {
            sign_hello(&mut hello, &self.key).unwrap();
        }
        link.say(&ClientFrame::Hello(Box::new(hello))).await;
        link.welcomed().await
    }

    /// A connection of a session that hears nothing of the log: for asking things.
    pub(crate) async fn session(&self, host: &Host) -> Link {
        let key = SecretKey::generate();
        let link = self.try_session(host, &key, |session| session.hello.capabilities.push("no_push".to_owned())).await;
        link.unwrap_or_else(|(frame, ended)| panic!("{frame} {ended:?}"))
    }

    pub(crate) async fn try_session(
        &self,
        host: &Host,
        key: &SecretKey,
        change: impl FnOnce(&mut SessionHello),
    ) -> Result<Link, (Value, Ended)> {
        let mut link = Link::open(host).await;
        let nonce = link.challenge().await;
        let mut hello = self.hello();
        hello.nonce = Some(nonce);
        hello.role = Some("session".to_owned());
        hello.session_pubkey = Some(key.public().hex());
        let expires = Clock::system().now_ms() + 12 * 3_600_000;
        let mut session = SessionHello {
            hello,
            parent_member_id: self.member.clone(),
            parent_member_pubkey: self.key.public().hex(),
            parent_attestation: attest(&self.key, &key.public(), expires),
        };
        change(&mut session);
        if session.hello.signature.is_empty() {
            sign_session_hello(&mut session, key).unwrap();
        }
        link.say(&ClientFrame::SessionHello(Box::new(session))).await;
        link.welcomed().await
    }
}

impl Link {
    /// Connects and says nothing.
    pub(crate) async fn open(host: &Host) -> Self {
        Self::over(Box::new(TcpStream::connect(host.address).await.unwrap())).await
    }

    pub(crate) async fn over(stream: Box<dyn Stream>) -> Self {
        let (socket, _) = tokio_tungstenite::client_async("ws://localhost/ws", stream).await.unwrap();
        Self { socket, heard: VecDeque::new(), welcome: Value::Null, asked: 0 }
    }

    pub(crate) async fn challenge(&mut self) -> String {
        let challenge = self.next().await.unwrap();
        assert_eq!(challenge["type"], "hello_challenge");
        assert_eq!(challenge["protocol"], json!([1, 2]));
        challenge["nonce"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn welcomed(mut self) -> Result<Self, (Value, Ended)> {
        let first = self.next().await;
        match first {
            Ok(frame) if frame["type"] == "hello_ack" => {
                self.welcome = frame;
                Ok(self)
            }
            Ok(frame) => Err((frame, self.ended().await)),
            Err(ended) => Err((Value::Null, ended)),
        }
    }

    pub(crate) async fn say(&mut self, frame: &ClientFrame) {
        self.say_text(&frame.encode()).await;
    }

    pub(crate) async fn say_text(&mut self, text: &str) {
        tokio::time::timeout(hang_limit(), self.socket.send(Message::text(text))).await.unwrap().ok();
    }

    pub(crate) async fn say_raw(&mut self, message: Message) {
        tokio::time::timeout(hang_limit(), self.socket.send(message)).await.unwrap().ok();
    }

    /// Puts frames into the pipe without waiting for each.
    pub(crate) async fn say_many(&mut self, frames: impl IntoIterator<Item = Value>) {
        for frame in frames {
            self.socket.feed(Message::text(frame.to_string())).await.unwrap();
        }
        self.socket.flush().await.unwrap();
    }

    /// The next frame from the wire, or how it ended.
    async fn next(&mut self) -> Result<Value, Ended> {
        loop {
            match tokio::time::timeout(hang_limit(), self.socket.next()).await.expect("something is heard in time") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(text.as_str()).unwrap()),
                Some(Ok(Message::Close(Some(frame)))) => return Err((frame.code.into(), frame.reason.to_string())),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => return Err((0, format!("{other:?}"))),
            }
        }
    }

    /// The first frame that fits; others are kept for later.
    pub(crate) async fn hear(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        self.hear_or_end(fits).await.unwrap_or_else(|ended| panic!("ended: {ended:?}"))
    }

    pub(crate) async fn hear_or_end(&mut self, fits: impl Fn(&Value) -> bool) -> Result<Value, Ended> {
        if let Some(at) = self.heard.iter().position(&fits) {
            return Ok(self.heard.remove(at).unwrap());
        }
        loop {
            let frame = self.next().await?;
            if fits(&frame) {
                return Ok(frame);
            }
            self.heard.push_back(frame);
        }
    }

    /// How the connection ends; frames before that are kept.
    pub(crate) async fn ended(&mut self) -> Ended {
        loop {
            match self.next().await {
                Ok(frame) => self.heard.push_back(frame),
                Err(ended) => return ended,
            }
        }
    }

    /// Asks something and waits for its answer.
    pub(crate) async fn ask(&mut self, mut request: Value) -> Value {
        self.asked += 1;
        let id = format!("r{}", self.asked);
        request["_reqId"] = id.clone().into();
        self.say_text(&request.to_string()).await;
        self.hear(|frame| frame["_reqId"] == id.as_str()).await
    }

    /// Sends a message and waits for its ack.
    pub(crate) async fn send(&mut self, message: Value) -> Value {
        let id = message["id"].clone();
        self.say_text(&message.to_string()).await;
        self.hear(|frame| frame["type"] == "ack" && frame["id"] == id).await
    }

    /// The next entry of the log.
    pub(crate) async fn push(&mut self) -> Value {
        self.hear(|frame| frame["type"] == "push" && frame["subtype"].is_null()).await
    }

    /// The next piece of news of this kind.
    pub(crate) async fn news(&mut self, event: &str) -> Value {
        self.hear(|frame| frame["type"] == "push" && frame["event"] == event).await
    }

    /// Everything that was sent to it before now has been heard: no entry is among it.
    pub(crate) async fn no_push(&mut self) {
        self.ask(json!({"type": "topic_list"})).await;
        let entry = self.heard.iter().find(|frame| frame["type"] == "push" && frame["subtype"].is_null());
        assert!(entry.is_none(), "{entry:?}");
    }

    pub(crate) async fn acknowledge(&mut self, seq: &Value) {
        self.say_text(&json!({"type": "client_ack", "seq": seq}).to_string()).await;
    }

    pub(crate) async fn bye(mut self) {
        self.say_text(r#"{"type":"bye"}"#).await;
        let ended = self.ended().await;
        assert_eq!(ended.0, 1000);
    }

    pub(crate) fn epoch(&self) -> String {
        self.welcome["log"]["epoch"].as_str().unwrap().to_owned()
    }
}

/// A direct message of the second protocol.
pub(crate) fn dm(to: &Peer, id: &str) -> Value {
    message(&json!({"member": to.member}), "dm", id)
}

pub(crate) fn message(to: &Value, kind: &str, id: &str) -> Value {
    json!({
        "type": "send",
        "id": id,
        "client_message_id": id,
        "request_fingerprint": hex(&sha256(id.as_bytes())),
        "to": to,
        "kind": kind,
        "priority": "next",
        "nonce": "bm9uY2U=",
        "ciphertext": "Y2lwaGVydGV4dA==",
        "bodyVersion": 3,
        "keyEpoch": 0,
    })
}
