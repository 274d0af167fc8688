//! Reading a body: so much and no more, so long and no longer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};

use super::answer::Refused;

/// Reads a body of at most `limit` bytes within `patience`.
///
/// One that is announced to be longer is not read at all. Of one that turns out to be longer nothing is kept.
pub(super) async fn read(body: Incoming, limit: usize, patience: Duration) -> Result<Bytes, Refused> {
    // An empty one is the usual one, and needs no clock.
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(patience, collect(body, limit)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Refused::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!("the body did not arrive within {} s", patience.as_secs()),
        )),
    }
}

async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, Refused> {
    // Most bodies come in one piece, which then needs no copy.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refused::invalid("the body ended too early"))?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limit {
            return Err(too_large(limit));
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            let expected = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
            all.reserve(length.saturating_add(expected).min(limit));
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn too_large(limit: usize) -> Refused {
    Refused::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "payload_too_large",
        format!("a request's body has at most {limit} bytes"),
    )
}
