//! Requests to the broker's HTTP side, signed with the member's key, over the same dialler as the link.
//!
//! Invariant: every request names its method, path, body and time in its signature; answers that are not the file itself
//! are small.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::DATE;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::enrol::read_date;
use crate::link::dial::BrokerUrl;
use crate::mesh::Refusal;
use crate::mesh::core::Core;

/// The largest answer that is no file.
const LARGEST: usize = 64 * 1024;

/// How long the broker may take to begin its answer, after it has the request.
const PATIENCE: Duration = Duration::from_secs(120);

/// Clocks that differ less than this are right.
const SKEW_MS: u64 = 30_000;

/// What is sent.
pub(super) type Sent = UnsyncBoxBody<Bytes, std::io::Error>;

/// A request, before it is signed.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// With the query.
    pub(super) path: &'a str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Sent,
    pub(super) body_size: u64,
    /// Hex.
    pub(super) body_sha256: String,
}

/// Sends a request to the first broker that can be reached.
pub(super) async fn send(core: &Core, ask: Ask<'_>) -> Result<Response<Incoming>, Refusal> {
    let urls: Vec<BrokerUrl> = core.urls.read().clone();
    let mut stream = None;
    for url in urls {
        let url = url.with_path(ask.path);
        if let Ok(reached) = core.dial.dial(&url).await {
            stream = Some((reached, url));
            break;
        }
    }
    let (stream, url) = stream.ok_or_else(Refusal::offline)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the last of sender and body.
    hostel_tasks::spawn(connection);
    let me = &core.me;
    let timestamp = core.broker_now_ms();
    let signed = format!(
        "claudemesh-http-v1|{}|{}|{}|{}|{timestamp}|{}",
        ask.method, ask.path, me.mesh_id, me.member_id, ask.body_sha256
    );
    let mut request = Request::builder()
        .method(ask.method)
        .uri(ask.path)
        .header("host", url.authority())
        .header("x-mesh-id", &me.mesh_id)
        .header("x-member-id", &me.member_id)
        .header("x-timestamp", timestamp)
        .header("x-body-sha256", ask.body_sha256)
        .header("x-signature", core.key().key.sign(signed.as_bytes()).hex())
        .header("content-length", ask.body_size);
    for (name, value) in ask.headers {
        request = request.header(name, value);
    }
    let request = request.body(ask.body).map_err(Refusal::internal)?;
    match tokio::time::timeout(PATIENCE, sender.send_request(request)).await {
        Ok(Ok(answer)) => {
            learn(core, &answer);
            Ok(answer)
        }
        Ok(Err(error)) => Err(broken(error)),
        Err(_) => Err(Refusal::new("broker_unavailable", "the broker did not answer in time")),
    }
}

/// A refusal says what time it is at the broker: its clock may have been set since it last said so. Whoever asks again
/// asks in time.
fn learn<T>(core: &Core, answer: &Response<T>) {
    if answer.status() != StatusCode::UNAUTHORIZED {
        return;
    }
    let date = answer.headers().get(DATE).and_then(|date| read_date(date.to_str().ok()?));
    if let Some(date) = date.filter(|date| date.abs_diff(core.broker_now_ms()) > SKEW_MS) {
        core.note_broker_time(date);
    }
}

/// Whether a request was refused for nothing but its time.
pub(super) fn is_untimely(refusal: &Refusal) -> bool {
    refusal.code() == "timestamp_skew"
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn broken(error: hyper::Error) -> Refusal {
    Refusal::new("broker_unavailable", error.to_string())
}

/// A small answer's JSON, or the refusal it is.
pub(super) async fn json(answer: Response<Incoming>) -> Result<Value, Refusal> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect();
    let body = tokio::time::timeout(Duration::from_secs(30), body).await;
    let bytes = match body {
        Ok(Ok(body)) => body.to_bytes(),
        _ => return Err(Refusal::new("broker_unavailable", "the broker's answer broke off")),
    };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status.is_success() {
        return Ok(value);
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    match status.as_u16() {
        500.. => Err(Refusal::new("broker_unavailable", format!("the broker answers {status}"))),
        _ => Err(Refusal::of_broker(text("error"), text("detail"))),
    }
}
