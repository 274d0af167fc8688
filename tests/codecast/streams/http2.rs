//! HTTP/2, which a door with TLS speaks to clients that offer it: many streams over one connection.

use std::net::SocketAddr;
use std::sync::Arc;

use hostel_tests::codecast::{Daemon, tls};
use hostel_tests::wait;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::streams::auth::{exposed, outside};

type Sender = SendRequest<Full<Bytes>>;

/// Connects as clients do that speak both, and insists on the newer.
async fn connect(daemon: &Daemon, address: SocketAddr) -> Sender {
    let config = tls::config(&daemon.home().join(".codecast/tls-cert.pem"), &["h2", "http/1.1"]);
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn post(sender: &Sender, token: Option<&str>, method: &str, params: Value) -> Response<Incoming> {
    let body = json!({"id": "1", "method": method, "params": params}).to_string();
    let mut request = Request::post("https://localhost/rpc").header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let mut sender = sender.clone();
    sender.ready().await.unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    answer
}

async fn call(sender: &Sender, method: &str, params: Value) -> Value {
    let answer = post(sender, None, method, params).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

/// Events of a stream, as they come.
struct Stream {
    body: Incoming,
    text: String,
}

impl Stream {
    async fn open(sender: &Sender, session: &Value, message: &str) -> Self {
        let answer = post(sender, None, "session.send", json!({"sessionId": session, "message": message})).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Stream { body: answer.into_body(), text: String::new() }
    }

    /// The next event; none at the end, which has to be said.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let frame = frame.strip_prefix("data: ").unwrap_or_else(|| panic!("no event: {frame}")).to_owned();
                self.text = rest.to_owned();
                if frame == "[DONE]" {
                    assert!(self.body.frame().await.is_none(), "something came after the end");
                    return None;
                }
                return Some(serde_json::from_str(&frame).unwrap());
            }
            let piece = self.body.frame().await.expect("the stream ends without saying so").unwrap();
            self.text.push_str(std::str::from_utf8(piece.data_ref().unwrap()).unwrap());
        }
    }

    async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn in_time(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(wait::limit(), work).await.expect("it takes too long") });
}

#[test]
fn streams_and_calls_share_one_connection() {
    let daemon = exposed();
    in_time(async {
        let sender = connect(&daemon, daemon.address()).await;
        assert_eq!(call(&sender, "health.check", json!({})).await["ok"], true);
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let made = call(&sender, "session.create", json!({"path": "p", "cli_type": "echo"})).await;
            sessions.push(made["sessionId"].clone());
        }
        let mut asleep = Stream::open(&sender, &sessions[0], "sleep 600").await;
        while asleep.next().await.expect("it is still asleep")["content"] != "sleeping" {}
        // Beside one that waits, two run to their end, and calls are answered.
        let first = Stream::open(&sender, &sessions[1], "stream 2000").await;
        let second = Stream::open(&sender, &sessions[2], "stream 3000").await;
        let (first, second) = tokio::join!(first.rest(), second.rest());
        assert_eq!(crate::streams::numbers(&first), (0..2000).collect::<Vec<u64>>());
        assert_eq!(crate::streams::numbers(&second), (0..3000).collect::<Vec<u64>>());
        let interrupted = call(&sender, "session.interrupt", json!({"sessionId": sessions[0]})).await;
        assert_eq!(interrupted, json!({"interrupted": true, "ok": true}));
        assert!(asleep.rest().await.iter().any(|event| event["type"] == "interrupted"));
    });
}

#[test]
fn others_need_a_token_here_too() {
    let daemon = exposed();
    let Some(address) = outside(&daemon) else {
        hostel_tests::skip("this machine has no address but loopback's");
        return;
    };
    std::fs::write(daemon.home().join(".codecast/tokens.yaml"), "tokens:\n- token: ccast_1\n").unwrap();
    in_time(async {
        let sender = connect(&daemon, address).await;
        let expected = [
            (None, StatusCode::UNAUTHORIZED, "Unauthorized: missing Bearer token"),
            (Some("ccast_2"), StatusCode::UNAUTHORIZED, "Unauthorized: invalid token"),
            (Some("ccast_1"), StatusCode::OK, r#""ok":true"#),
        ];
        for (token, status, part) in expected {
            let answer = post(&sender, token, "health.check", json!({})).await;
            assert_eq!(answer.status(), status, "{token:?}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains(part), "{token:?}: {body}");
        }
    });
}
