//! One request: who may ask, where, in what form. Everything that is not JSON-RPC is decided here.
//!
//! Invariant: whatever a JSON-RPC call comes to is a 200; every other status is about the request itself and has a
//! short plain sentence, or nothing, as its body.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};

use super::body::Body;
use super::caller::Caller;
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
    caller: Caller,
    request: Request<Incoming>,
) -> Response<Body> {
    connection.next_request();
    let (head, body) = request.into_parts();
    if let Some(refusal) = refusal(&door, &connection, &caller, &head) {
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
fn refusal(door: &Door, connection: &Connection, caller: &Caller, head: &Parts) -> Option<Response<Body>> {
    if let Err((status, sentence)) = admit(door, caller, &head.headers, head.uri.host()) {
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

/// Whether the caller may ask anything at all.
fn admit(
    door: &Door,
    caller: &Caller,
    headers: &HeaderMap,
    authority: Option<&str>,
) -> Result<(), (StatusCode, &'static str)> {
    let doubt = doubt(caller, headers, authority);
    match (&door.tokens, doubt) {
        (_, None) => Ok(()),
        (None, Some(doubt)) => Err((StatusCode::FORBIDDEN, doubt)),
        (Some(tokens), Some(_)) => {
            let shown = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
            tokens.check(shown).map_err(|sentence| (StatusCode::UNAUTHORIZED, sentence))
        }
    }
}

/// Why the caller may be somebody other than the owner of this daemon at this machine.
fn doubt(caller: &Caller, headers: &HeaderMap, authority: Option<&str>) -> Option<&'static str> {
    if let Some(doubt) = caller.doubt() {
        return Some(doubt);
    }
    if headers.contains_key(header::ORIGIN) {
        return Some("Forbidden: web pages may not call this daemon");
    }
    let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?")).chain(authority);
    if named.into_iter().any(|host| !is_loopback(host)) {
        return Some("Forbidden: call this daemon by localhost or 127.0.0.1");
    }
    None
}

/// Whether a `Host` means this machine and can mean no other.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.rsplit_once(':').filter(|(name, _)| !name.contains(':')).map_or(host, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether the content type is JSON, in any of its forms.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return false };
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some(subtype) = essence.strip_prefix("application/") else { return false };
    subtype == "json" || (subtype.len() > 5 && subtype.ends_with("+json"))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_and_others() {
        for host in [
            "localhost",
            "LOCALHOST:9100",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.9.9.9:80",
            "[::1]:9100",
            "[::1]",
            "::1",
            "localhost.",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9100",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1:80",
            "[::2]:1",
            "[::1",
            "0.0.0.0",
            "?",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn content_types() {
        let with = |kind: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
            is_json(&headers)
        };
        for kind in
            ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"]
        {
            assert!(with(kind), "{kind}");
        }
        for kind in ["text/plain", "text/json", "application/jsonp", "application/+json", "json", ""] {
            assert!(!with(kind), "{kind}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
