//! Whether the broker of a house is up: its lock is held and its port answers as a broker does.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::Empty;
use http_body_util::Limited;
use hyper::Request;
use hyper::header;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::place::Place;

/// How long it may take to accept and to answer.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// The most of an answer that is read.
const ANSWER_LIMIT: usize = 64 << 10;

/// A broker that is up.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) pid: u32,
    pub(crate) port: u16,
    /// What `/health` says.
    pub(crate) answer: Value,
}

impl Health {
    /// How daemons of this machine reach it.
    pub(crate) fn url(&self) -> String {
        local_url(self.port)
    }
}

/// How daemons of this machine reach a broker on a port.
pub(crate) fn local_url(port: u16) -> String {
    format!("ws://127.0.0.1:{port}/ws")
}

/// The broker of a house, if it is up.
pub(crate) async fn running(place: &Place) -> Option<Health> {
    let pid = place.holder()?;
    let port = place.port()?;
    let asked = tokio::time::timeout(PATIENCE, ask(port)).await;
    let answer = asked.ok().flatten()?;
    Some(Health { pid, port, answer })
}

async fn ask(port: u16) -> Option<Value> {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let stream = TcpStream::connect(address).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    hostel_tasks::spawn(async move { connection.await.ok() });
    let request = Request::get("/health")
        .header(header::HOST, address.to_string())
        .header(header::USER_AGENT, concat!("hostel/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .ok()?;
    let response = sender.send_request(request).await.ok()?;
    if response.status() != 200 {
        return None;
    }
    let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await.ok()?.to_bytes();
    Some(serde_json::from_slice(&body).unwrap_or(Value::Null))
}
