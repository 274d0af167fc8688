//! From a request to a WebSocket.

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::body::Body;
use super::{Answer, Refusal, text};

/// Agrees to speak WebSocket from now on, if that is what was asked.
pub(super) fn upgrade(request: &mut Request<Incoming>, slot: &Mutex<Option<hyper::upgrade::OnUpgrade>>) -> Answer {
    let accept = match check(request.method(), request.headers()) {
        Ok(accept) => accept,
        Err(refusal) => {
            let mut response = refusal.answer();
            if response.status() == StatusCode::UPGRADE_REQUIRED {
                let headers = response.headers_mut();
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            return response;
        }
    };
    *slot.lock() = Some(hyper::upgrade::on(request));
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

fn check(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
    if method != Method::GET {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", ""));
    }
    let names = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    let version = text(headers, "sec-websocket-version") == Some("13");
    if !names(header::UPGRADE, "websocket") || !names(header::CONNECTION, "upgrade") || !version {
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", "this is a WebSocket"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "bad_request", "no Sec-WebSocket-Key"))?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "bad_request", ""))
}
