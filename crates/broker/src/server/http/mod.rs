//! HTTP on any stream: a few requests, and the way to a WebSocket.
//!
//! Invariant: heads, bodies and their times are bounded; a request that is refused is answered with a JSON object that has
//! an `error` word. Only the WebSocket, uploads and downloads may last.

mod body;
mod enrol;
mod files;
mod remint;
mod signed;
mod upgrade;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hostel_peer::accept::Place;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::metrics::Metrics;
use super::{Broker, PeerInfo, connection};
use crate::engine::Engine;
use body::Body;

/// Headers of a request.
const HEADERS: usize = 100;

/// What a WebSocket reads and writes at a time: small, because most of them are idle.
const READ: usize = 4 * 1024;
const WRITE: usize = 16 * 1024;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

type Answer = Response<Body>;

/// What a request comes to that is refused.
struct Refusal(StatusCode, &'static str, String);

impl Refusal {
    fn new(status: StatusCode, error: &'static str, detail: impl Into<String>) -> Self {
        Self(status, error, detail.into())
    }

    fn answer(self) -> Answer {
        let Self(status, error, detail) = self;
        answer(status, &json!({"error": error, "detail": detail}))
    }
}

/// Serves a stream: requests until there are none, or a WebSocket until it is closed.
pub(super) async fn serve<E: Engine, S>(broker: &Arc<Broker<E>>, stream: S, peer: PeerInfo, place: &Place)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let upgraded = Arc::new(Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (broker, slot) = (Arc::clone(broker), Arc::clone(&upgraded));
        let is_local = peer.is_local();
        async move { Ok::<_, Infallible>(respond(&broker, request, &slot, place, is_local).await) }
    });
    let limits = &broker.settings.limits;
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.handshake)
        .max_headers(HEADERS)
        .max_buf_size(limits.head.max(8 * 1024));
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let mut stopping = broker.stopping();
    tokio::select! {
        _ = tokio::time::timeout(limits.http, connection.as_mut()) => {}
        () = stopping.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.await.ok();
        }
    }
    let Some(upgrade) = upgraded.lock().take() else { return };
    let upgrade: hyper::upgrade::OnUpgrade = upgrade;
    let Ok(upgraded) = upgrade.await else { return };
    let Ok(parts) = upgraded.downcast::<TokioIo<S>>() else { return };
    let most = Some(limits.frame);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(WRITE)
        .max_write_buffer_size(WRITE + 4 * limits.frame)
        .max_message_size(most)
        .max_frame_size(most);
    let (stream, early) = (parts.io.into_inner(), parts.read_buf.to_vec());
    let socket = WebSocketStream::from_partially_read(stream, early, Role::Server, Some(config)).await;
    connection::serve(broker, socket, &peer, place).await;
}

async fn respond<E: Engine>(
    broker: &Arc<Broker<E>>,
    mut request: Request<Incoming>,
    slot: &Mutex<Option<hyper::upgrade::OnUpgrade>>,
    place: &Place,
    is_local: bool,
) -> Answer {
    let path = request.uri().path().to_owned();
    let segments: Vec<_> = path.split('/').skip(1).collect();
    if segments == ["ws"] {
        return upgrade::upgrade(&mut request, slot);
    }
    Metrics::count(&broker.metrics.http);
    let (head, body) = request.into_parts();
    let get = head.method == Method::GET || head.method == Method::HEAD;
    let post = head.method == Method::POST;
    let answered = match segments.as_slice() {
        ["health"] if get => Ok(health(broker)),
        ["health", "ready"] if get => Ok(ready(broker).await),
        ["metrics"] if get => match is_local {
            true => Ok(metrics(broker).await),
            // How many members, messages and bytes there are is nobody else's business.
            false => match enrol::is_admin(broker, &head.headers, "reading the metrics from another machine") {
                Ok(()) => Ok(metrics(broker).await),
                Err(refusal) => Err(refusal),
            },
        },
        ["mesh"] if post => enrol::make_mesh(broker, &head, body).await,
        ["join"] if post => Ok(enrol::join(broker, body).await),
        ["upload"] if post => files::upload(broker, &head, body, place).await,
        ["download", id] if get => files::download(broker, &head, id, place).await,
        ["v1", "me", "members", pubkey, "leave"] if post => enrol::leave(broker, body, pubkey).await,
        ["v1", "me", "members", pubkey, "remint"] if post => remint::remint(broker, body, pubkey).await,
        ["health" | "metrics" | "mesh" | "join" | "upload"]
        | ["download", _]
        | ["v1", "me", "members", _, "leave" | "remint"] => {
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", ""))
        }
        _ => Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", "")),
    };
    let mut answer = answered.unwrap_or_else(Refusal::answer);
    if let Some(date) = date(broker.clock.now_ms()) {
        answer.headers_mut().insert(header::DATE, date);
    }
    answer
}

/// What time it is: whoever is refused for its clock goes by this. The header that would be there without us is made by a
/// clock that is not looked at while it is behind.
fn date(now_ms: u64) -> Option<HeaderValue> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
    let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()?;
    HeaderValue::from_str(&text).ok()
}

fn health<E: Engine>(broker: &Broker<E>) -> Answer {
    let id = broker.engine.broker_id();
    let version = &broker.settings.version;
    answer(StatusCode::OK, &json!({"ok": true, "status": "ok", "brokerId": id, "version": version}))
}

/// Whether the database answers.
async fn is_healthy<E: Engine>(broker: &Broker<E>) -> bool {
    let asked = broker.engine.get("meta", "health");
    matches!(tokio::time::timeout(broker.settings.limits.handshake, asked).await, Ok(Ok(_)))
}

async fn ready<E: Engine>(broker: &Broker<E>) -> Answer {
    match is_healthy(broker).await {
        true => answer(StatusCode::OK, &json!({"ok": true, "ready": true})),
        false => answer(StatusCode::SERVICE_UNAVAILABLE, &json!({"ok": false, "ready": false, "error": "unavailable"})),
    }
}

async fn metrics<E: Engine>(broker: &Broker<E>) -> Answer {
    let meshes = broker.registry.meshes();
    let logs: Vec<_> = meshes.iter().filter_map(|mesh| broker.engine.room(mesh.id())).collect();
    let text = broker.metrics.text(is_healthy(broker).await, &logs);
    let mut response = Response::new(Body::Whole(Some(text.into())));
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
}

fn answer(status: StatusCode, value: &Value) -> Answer {
    let mut response = Response::new(Body::Whole(Some(value.to_string().into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Reads the body of a small request.
async fn read<E: Engine>(broker: &Broker<E>, mut body: Incoming) -> Result<Bytes, Refusal> {
    let limits = &broker.settings.limits;
    let too_large = || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "");
    if body.size_hint().lower() > limits.body as u64 {
        return Err(too_large());
    }
    let all = async {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "bad_request", "it ended too early"))?;
            let Ok(data) = frame.into_data() else { continue };
            if all.len() + data.len() > limits.body {
                return Err(too_large());
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    };
    match tokio::time::timeout(limits.body_time, all).await {
        Ok(all) => all,
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long")),
    }
}

/// Reads a small request of JSON.
async fn read_json<E: Engine, T: DeserializeOwned>(broker: &Broker<E>, body: Incoming) -> Result<T, Refusal> {
    let bytes = read(broker, body).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, "invalid_json", error.to_string()))
}

/// A header's text.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
