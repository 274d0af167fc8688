//! One request: who may ask, where, in what form. Everything that is not JSON-RPC is decided here.
//!
//! Invariant: whatever a JSON-RPC call comes to is a 200; every other status is about the request itself and has a
//! short plain sentence, or nothing, as its body.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hostel_peer::accept::Place;
use hostel_peer::http::{Guard, Hosts, Rejection, is_json};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};

use super::body::Body;
use super::door::Door;
use super::methods::{self, Answer};
use super::parcel::Connection;
use super::rpc::{self, Unreadable};

const PATH: &str = "/rpc";
/// How much of a body that is too large is read all the same: a client that is cut off while it sends does not see
/// why.
const PATIENCE: usize = 16 * 1024 * 1024;
/// How long the rest of a request that is refused may take to arrive.
const LEFTOVERS: Duration = Duration::from_secs(5);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Answers a request.
pub(super) async fn respond(
    door: Arc<Door>,
    connection: Arc<Connection>,
    place: &Place,
    request: Request<Incoming>,
) -> Response<Body> {
    connection.next_request();
    let (head, body) = request.into_parts();
    if let Some(refusal) = refusal(&door, &connection, place, &head).await {
        if head.version == Version::HTTP_2 {
            tokio::time::timeout(LEFTOVERS, discard(body)).await.ok();
        }
        return refusal;
    }
    let limits = &door.settings.limits;
    let body = match tokio::time::timeout(limits.request, read(body, &head.headers, limits.body)).await {
        Ok(Ok(body)) => body,
        Ok(Err((status, sentence))) => return refuse(status, sentence),
        Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "The request took too long to arrive"),
    };
    match rpc::read(&body) {
        Ok(call) => match methods::answer(&door, &connection, call).await {
            Answer::Json(body) => json(body),
            Answer::Stream(body) => events(body),
        },
        Err(Unreadable::Syntax(sentence)) => refuse(StatusCode::BAD_REQUEST, sentence),
        Err(Unreadable::Shape(sentence)) => refuse(StatusCode::UNPROCESSABLE_ENTITY, sentence),
    }
}

/// What a request comes to whatever its body is, if it comes to nothing.
async fn refusal(door: &Door, connection: &Connection, place: &Place, head: &Parts) -> Option<Response<Body>> {
    if let Err((status, sentence)) = admit(door, connection, place, head).await {
        door.log.warn(format_args!("codecast: {} from {}: {sentence}", status.as_u16(), connection.line.remote()));
        return Some(refuse(status, sentence));
    }
    if head.uri.path() != PATH {
        return Some(status(StatusCode::NOT_FOUND));
    }
    if head.method != Method::POST {
        let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Some(response);
    }
    if !is_json(&head.headers) {
        let sentence = "Expected request with `Content-Type: application/json`";
        return Some(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence));
    }
    None
}

/// Reads a body nobody wants: over HTTP/2 one that is left lying resets the stream, and the answer is lost with it.
async fn discard(mut body: Incoming) {
    let mut length = 0;
    while length <= PATIENCE
        && let Some(Ok(frame)) = body.frame().await
    {
        length += frame.data_ref().map_or(0, Bytes::len);
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn refuse(code: StatusCode, sentence: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(sentence.into())));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    response
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Checks whether the sender of a request may ask anything at all.
async fn admit(
    door: &Door,
    connection: &Connection,
    place: &Place,
    head: &Parts,
) -> Result<(), (StatusCode, &'static str)> {
    let guard = Guard { hosts: Hosts { any_loopback: true, ..Hosts::default() }, ..Guard::default() };
    // A program of this user on this machine, and no web page in this user's browser.
    let doubt = match guard.check(head, None) {
        Ok(()) if place.is_strangers() || !connection.line.is_local() => {
            Some("Forbidden: this daemon serves this machine only")
        }
        Ok(()) => None,
        Err(Rejection::Host) => Some("Forbidden: call this daemon by localhost or 127.0.0.1"),
        Err(Rejection::Origin | Rejection::Preflight) => Some("Forbidden: web pages may not call this daemon"),
    };
    match (&door.tokens, doubt) {
        (_, None) => Ok(()),
        (None, Some(doubt)) => Err((StatusCode::FORBIDDEN, doubt)),
        (Some(tokens), Some(_)) => {
            let shown = head.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
            tokens.check(shown).map_err(|sentence| (StatusCode::UNAUTHORIZED, sentence))?;
            let busy = (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: too many connections");
            if place.admit().await { Ok(()) } else { Err(busy) }
        }
    }
}

/// Reads a body.
async fn read(mut body: Incoming, headers: &HeaderMap, limit: usize) -> Result<Bytes, (StatusCode, &'static str)> {
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, "Failed to buffer the request body: length limit exceeded");
    let cut_off = (StatusCode::BAD_REQUEST, "Failed to buffer the request body: it ended too early");
    let announced = body.size_hint().lower();
    // Who asks first is told before anything is sent.
    if announced > limit as u64 && headers.contains_key(header::EXPECT) {
        return Err(too_large);
    }
    let mut first: Option<Bytes> = None;
    let mut more = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| cut_off)?.into_data() else { continue };
        length += data.len();
        if length > limit {
            (first, more) = (None, BytesMut::new());
            if length > limit + PATIENCE {
                return Err(too_large);
            }
        } else if let Some(first) = &first {
            if more.is_empty() {
                more.reserve(usize::try_from(announced).unwrap_or(0).min(limit).max(length));
                more.extend_from_slice(first);
            }
            more.extend_from_slice(&data);
        } else {
            // Most requests come in one piece, which then needs no copy.
            first = Some(data);
        }
    }
    if length > limit {
        return Err(too_large);
    }
    Ok(if more.is_empty() { first.unwrap_or_default() } else { more.freeze() })
}
