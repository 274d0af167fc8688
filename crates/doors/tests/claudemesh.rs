//! The claudemesh door in front of a real mesh that has no broker: what takes time or a chosen limit, and what answers
//! look like offline. What daemons say to each other is in the black-box tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hostel_doors::claudemesh::{Door, Limits, Listeners, Settings};
use hostel_mesh::home::Tokens;
use hostel_mesh::link::dial::{BrokerUrl, Dial, Dialling};
use hostel_mesh::log::{Level, Log};
use hostel_mesh::{Mesh, MeshOptions};
use hostel_wire::Clock;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nobody is there.
struct Nowhere;

impl Dial for Nowhere {
    fn dial<'a>(&'a self, _: &'a BrokerUrl) -> Dialling<'a> {
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// A door that is open, with all it needs.
struct Open {
    door: Door,
    socket: PathBuf,
    port: u16,
    tokens: Tokens,
    now: Arc<AtomicU64>,
    lines: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

async fn open(settings: Settings) -> Open {
    let directory = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(1_790_000_000_000));
    let clock = {
        let now = Arc::clone(&now);
        Clock::of(move || now.load(Ordering::Relaxed))
    };
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = {
        let lines = Arc::clone(&lines);
        Log::new(clock.clone(), Level::Debug, move |_, line| lines.lock().push(line.to_owned()))
    };
    let options = MeshOptions {
        slug: "lab".to_owned(),
        mesh_id: "01hmesh0000000000000000000".to_owned(),
        member_id: "01hmember00000000000000000".to_owned(),
        member_key: SecretKey::from_seed(&[1; 32]),
        keys: hostel_mesh::KeyOptions::default(),
        root_key: Some(RootKey::generate()),
        owner_key: None,
        display_name: "alice".to_owned(),
        rename: false,
        groups: Vec::new(),
        broker_urls: vec!["ws://127.0.0.1:9/ws".to_owned()],
        certificate: None,
        dir: Some(directory.path().to_owned()),
        leave_on_end: false,
        host_fingerprint: None,
        hostname: "here".to_owned(),
        cwd: "/".to_owned(),
        version: "0.0.0".to_owned(),
        settings: hostel_mesh::home::Settings::default(),
        clock: clock.clone(),
        dial: Arc::new(Nowhere),
        log: log.clone(),
        hooks: Default::default(),
        inline_stores: false,
    };
    let mesh = Mesh::open(options).await.map_err(|error| error.to_string()).unwrap();
    let tokens = Tokens::in_memory(&clock);
    let socket = directory.path().join("sock");
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let listeners = Listeners { socket: UnixListener::bind(&socket).unwrap(), tcp: Some(tcp) };
    let door = Door::new(mesh, tokens.clone(), log, settings, Default::default);
    let (stop, stopped) = oneshot::channel();
    let serving = {
        let door = door.clone();
        tokio::spawn(async move {
            let stopped = async {
                stopped.await.ok();
            };
            door.serve(listeners, stopped).await;
        })
    };
    Open { door, socket, port, tokens, now, lines, stop: Some(stop), serving: Some(serving), _directory: directory }
}

/// How long anything may take before it counts as hanging; `HOSTEL_TEST_SCALE` makes it longer.
fn hang_limit() -> Duration {
    let scale = std::env::var("HOSTEL_TEST_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(1.0);
    Duration::from_secs(120).mul_f64(scale)
}

impl Open {
    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    async fn unix(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.unwrap()
    }

    /// A request over TCP with this token and the answer.
    async fn ask(&self, token: Option<&str>, first: &str, body: &str) -> Answer {
        let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let length = body.len();
        let head =
            format!("{first} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\r\n{bearer}Content-Length: {length}\r\n");
        exchange(self.tcp().await, &format!("{head}Connection: close\r\n\r\n{body}")).await
    }

    /// A request over the socket and the answer.
    async fn ask_socket(&self, first: &str, body: &str) -> Answer {
        let head = format!("{first} HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        exchange(self.unix().await, &head).await
    }

    async fn close(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        let serving = self.serving.take().unwrap();
        tokio::time::timeout(hang_limit(), serving).await.expect("the door closes").unwrap();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status, word and field of a refusal.
    fn refused(&self) -> (u16, String, Value) {
        let json = self.json();
        assert!(json["detail"].is_string(), "{json}");
        (self.status, json["error"].as_str().unwrap().to_owned(), json["field"].clone())
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(hang_limit(), stream.read_to_end(&mut bytes)).await;
    read.expect("an answer in time").unwrap();
    answer(&bytes)
}

fn answer(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}

/// Reads until the text has come.
async fn until(stream: &mut (impl AsyncRead + Unpin), text: &str) -> String {
    let mut got = Vec::new();
    let mut bytes = [0; 4096];
    while !String::from_utf8_lossy(&got).contains(text) {
        let count = tokio::time::timeout(hang_limit(), stream.read(&mut bytes)).await;
        let count = count.unwrap_or_else(|_| panic!("{text:?} did not come: {got:?}")).unwrap();
        assert!(count > 0, "the stream ended before {text:?}: {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8(got).unwrap()
}

fn limits(limits: Limits) -> Settings {
    Settings { limits, ..Settings::default() }
}

#[tokio::test]
async fn what_does_not_need_a_broker_is_answered() {
    let open = open(Settings::default()).await;
    let token = open.tokens.current().to_string();
    let health = open.ask(Some(&token), "GET /v1/health", "").await;
    assert_eq!(health.status, 200);
    let health = health.json();
    for key in [
        "connected",
        "lag_ms",
        "queue_depth",
        "inflight",
        "mesh",
        "member_pubkey",
        "uptime_s",
        "schema_version",
        "daemon_version",
        "broker_version",
        "ok",
        "pid",
        "brokers",
    ] {
        assert!(health.get(key).is_some(), "{key} in {health}");
    }
    assert_eq!((&health["connected"], &health["mesh"]), (&json!(false), &json!("lab")));
    let version = open.ask_socket("GET /v1/version", "").await.json();
    assert_eq!((&version["ipc_api"], &version["mesh"]), (&json!("v1"), &json!("lab")));
    let inbox = open.ask_socket("GET /v1/inbox", "").await;
    assert_eq!((inbox.status, inbox.json()), (200, json!({"items": [], "marked_seen": 0, "next": null})));
    let peers = open.ask_socket("GET /v1/peers", "").await;
    assert_eq!(peers.refused(), (503, "broker_unavailable".to_owned(), Value::Null));
    assert!(peers.head.to_ascii_lowercase().contains("retry-after:"), "{}", peers.head);
    let sent = open.ask_socket("POST /v1/send", r#"{"to":"*","message":"x","client_message_id":"a"}"#).await;
    assert_eq!((sent.status, &sent.json()["status"]), (202, &json!("queued")));
    let again = open.ask_socket("POST /v1/send", r#"{"to":"*","message":"y","client_message_id":"a"}"#).await;
    let refused = again.json();
    assert_eq!(again.status, 409, "{refused}");
    assert_eq!(refused["error"], "idempotency_key_reused");
    assert_eq!(refused["conflict"], "outbox_pending_fingerprint_mismatch");
    assert!(refused["daemon_fingerprint_prefix"].as_str().is_some_and(|prefix| prefix.len() == 16), "{refused}");
    assert_eq!(refused["broker_message_id"], Value::Null);
    open.close().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_waited_for_so_long() {
    let open = open(limits(Limits { body_wait: Duration::from_millis(100), inflight: 1, ..Limits::default() })).await;
    let request = "POST /v1/heartbeat HTTP/1.1\r\nContent-Length: 10\r\n\r\n{";
    let answer = exchange(open.unix().await, request).await;
    assert_eq!(answer.refused(), (408, "request_timeout".to_owned(), Value::Null));
    assert!(answer.head.to_ascii_lowercase().contains("connection: close"), "{}", answer.head);
    // Its slot is free again.
    assert_eq!(open.ask_socket("GET /v1/version", "").await.status, 200);
    open.close().await;
}

#[test]
fn a_body_has_30_seconds_to_come() {
    assert_eq!(Limits::default().body_wait, Duration::from_secs(30));
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let open = open(limits(Limits { head_wait: Duration::from_millis(100), ..Limits::default() })).await;
    let mut stream = open.unix().await;
    stream.write_all(b"GET /v1/version HTT").await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(hang_limit(), stream.read_to_end(&mut rest)).await;
    read.expect("the connection ends").unwrap();
    open.close().await;
}

#[tokio::test]
async fn who_is_refused_while_sending_can_read_why() {
    let open = open(Settings::default()).await;
    let body = "x".repeat(6 * 1024 * 1024);
    for first in ["POST /v1/send", "POST /v1/nowhere"] {
        let answer = open.ask_socket(first, &body).await;
        assert!(matches!(answer.refused().0, 413 | 404), "{answer:?}");
        let answer = open.ask(Some(&open.tokens.current()), first, &body).await;
        assert!(matches!(answer.refused().0, 413 | 404), "{answer:?}");
        assert_eq!(open.ask(None, first, &body).await.refused().0, 401);
    }
    open.close().await;
}

#[tokio::test]
async fn a_silent_stream_says_that_it_is_alive() {
    let open = open(limits(Limits { keepalive: Duration::from_millis(50), ..Limits::default() })).await;
    let mut stream = open.unix().await;
    stream.write_all(b"GET /v1/events?events=message HTTP/1.1\r\n\r\n").await.unwrap();
    let text = until(&mut stream, ": keepalive\n\n").await;
    assert!(text.contains(": connected\n\n"), "{text}");
    until(&mut stream, ": keepalive\n\n").await;
    // The end of the door is the end of the stream, in good order.
    let closing = tokio::spawn(open.close());
    until(&mut stream, "0\r\n\r\n").await;
    closing.await.unwrap();
}

#[tokio::test]
async fn an_unknown_place_is_a_gap_without_an_id() {
    let open = open(Settings::default()).await;
    let mut stream = open.unix().await;
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nLast-Event-ID: other-5\r\n\r\n").await.unwrap();
    let text = until(&mut stream, "resume").await;
    assert!(text.contains("\r\nevent: gap\ndata: {"), "{text}");
    assert!(!text.contains("\nid: ") && text.contains("last-event-id: "), "{text}");
    open.close().await;
}

#[tokio::test]
async fn a_rotated_token_is_good_for_a_minute() {
    let open = open(Settings::default()).await;
    let old = open.tokens.current().to_string();
    let rotated = open.ask(Some(&old), "POST /v1/token/rotate", "{}").await;
    assert_eq!((rotated.status, rotated.json()), (200, json!({"ok": true, "grace_s": 60})));
    let new = open.tokens.current().to_string();
    assert_ne!(old, new);
    let status = |token: String| {
        let open = &open;
        async move { open.ask(Some(&token), "GET /v1/version", "").await.status }
    };
    assert_eq!((status(old.clone()).await, status(new.clone()).await), (200, 200));
    open.now.fetch_add(59_000, Ordering::Relaxed);
    assert_eq!(status(old.clone()).await, 200);
    open.now.fetch_add(1_000, Ordering::Relaxed);
    assert_eq!((status(old.clone()).await, status(new.clone()).await), (401, 200));
    let metrics = open.ask(Some(&new), "GET /v1/metrics", "").await;
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("cm_daemon_local_token_rotations_total") && line.ends_with(" 1")),
        "{text}"
    );
    let logged = open.lines.lock().join("\n");
    assert!(logged.contains("ipc_bearer_mismatch"), "{logged}");
    for secret in [&old, &new] {
        assert!(!logged.contains(secret.as_str()), "a token is in the log");
    }
    open.close().await;
}

#[tokio::test]
async fn a_flood_of_wrong_tokens_does_not_fill_the_log() {
    let open = open(Settings::default()).await;
    for _ in 0..100 {
        assert_eq!(open.ask(Some("wrong"), "GET /v1/version", "").await.status, 401);
    }
    let count = open.lines.lock().iter().filter(|line| line.contains("ipc_bearer_mismatch")).count();
    assert!((1..60).contains(&count), "{count}");
    open.close().await;
}

#[tokio::test]
async fn settings_can_change_while_it_is_open() {
    let open = open(Settings::default()).await;
    assert_eq!(open.ask(None, "GET /v1/health", "").await.status, 401);
    open.door.reload(Settings {
        public_health: true,
        metrics: false,
        capabilities: vec!["state", "memory"],
        limits: Limits { body: 10, ..Limits::default() },
        ..Settings::default()
    });
    assert_eq!(open.ask(None, "GET /v1/health", "").await.status, 200);
    assert_eq!(open.ask_socket("GET /v1/metrics", "").await.status, 404);
    let refused = open.ask_socket("GET /v1/memory/recall", "").await.refused();
    assert_eq!(refused, (501, "not_implemented".to_owned(), json!("capabilities.memory")));
    let refused = open.ask_socket("GET /v1/task/list", "").await.refused();
    assert_eq!(refused, (403, "capability_disabled".to_owned(), json!("capabilities.tasks")));
    let refused = open.ask_socket("GET /v1/state/get?key=a", "").await.refused();
    assert_eq!(refused.1, "broker_unavailable", "it is on, and there is no broker to ask");
    assert_eq!(open.ask_socket("POST /v1/heartbeat", "{\"a\": \"bcd\"}").await.status, 413);
    open.close().await;
}

#[tokio::test]
async fn a_listener_for_others_has_its_own_token() {
    let secret = hostel_doors::claustrum::Secret::new(b"another-token".to_vec());
    let external = Some(Arc::new(secret));
    let open = open(Settings { external, hosts: vec!["box.lan".to_owned()], ..Settings::default() }).await;
    // On loopback this machine's token counts as well; tests/claudemesh/external.rs shows that it counts nowhere else.
    assert_eq!(open.ask(Some(&open.tokens.current()), "GET /v1/version", "").await.status, 200);
    assert_eq!(open.ask(Some("another-token"), "GET /v1/version", "").await.status, 200);
    assert_eq!(open.ask(Some("no-token"), "GET /v1/version", "").await.status, 401);
    let request = "GET /v1/version HTTP/1.1\r\nHost: box.lan:80\r\nUser-Agent: x\r\nConnection: close\r\n\
                   Authorization: Bearer another-token\r\n\r\n";
    assert_eq!(exchange(open.tcp().await, request).await.status, 200);
    open.close().await;
}

#[tokio::test]
async fn health_for_everybody_has_a_bucket_of_its_own() {
    let settings = Settings { public_health: true, ..limits(Limits { rate: 1.0, burst: 2.0, ..Limits::default() }) };
    let open = open(settings).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(open.ask(None, "GET /v1/health", "").await.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(open.ask(Some(&open.tokens.current()), "GET /v1/health", "").await.status, 200);
    open.close().await;
}

#[tokio::test]
async fn sessions_over_the_socket() {
    let open = open(Settings::default()).await;
    let token = "0a".repeat(32);
    let body =
        json!({"token": token, "session_id": "s", "mesh": "lab", "display_name": "work", "pid": std::process::id()});
    let registered = open.ask_socket("POST /v1/sessions/register", &body.to_string()).await;
    assert_eq!((registered.status, &registered.json()["ok"]), (200, &json!(true)), "{registered:?}");
    let listed = open.ask_socket("GET /v1/sessions", "").await;
    assert_eq!(listed.json()["sessions"][0]["session_id"], "s");
    assert!(!String::from_utf8_lossy(&listed.body).contains(&token), "a token is given back");
    let as_session = |first: &str| {
        format!("{first} HTTP/1.1\r\nAuthorization: ClaudeMesh-Session {token}\r\nConnection: close\r\n\r\n")
    };
    let me = exchange(open.unix().await, &as_session("GET /v1/sessions/me")).await;
    assert_eq!((me.status, &me.json()["display_name"]), (200, &json!("work")));
    let outbox = exchange(open.unix().await, &as_session("GET /v1/outbox")).await;
    assert_eq!(outbox.refused(), (403, "member_only".to_owned(), Value::Null));
    let removed = exchange(open.unix().await, &as_session(&format!("DELETE /v1/sessions/{token}"))).await;
    assert_eq!(removed.status, 200);
    let me = exchange(open.unix().await, &as_session("GET /v1/sessions/me")).await;
    assert_eq!(me.refused().0, 401);
    open.close().await;
}
