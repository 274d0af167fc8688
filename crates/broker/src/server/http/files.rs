//! Uploads and downloads. What is stored is sealed already.
//!
//! Invariant: a file is there once all of it is there and its digest is the one that was signed; else there is nothing. An
//! id stands for one file: the same again is answered as it was the first time, another one is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostel_peer::accept::Place;
use hostel_wire::encoding::hex;
use hostel_wire::{ids, iso};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use serde_json::json;

use super::body::Body;
use super::signed::{self, Caller};
use super::{Answer, Refusal, answer, text};
use crate::engine::{BlobError, BlobSink as _, Engine};
use crate::registry::{FileRecord, Held, NewFile, blob_id};
use crate::server::Broker;

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Takes a file.
pub(super) async fn upload<E: Engine>(
    broker: &Arc<Broker<E>>,
    head: &Parts,
    body: Incoming,
    place: &Place,
) -> Result<Answer, Refusal> {
    let caller = signed::caller(broker, head)?;
    if !place.admit().await {
        return Err(busy());
    }
    let _place = Arc::clone(&broker.transfers).try_acquire_owned().map_err(|_| busy())?;
    let size = body.size_hint().exact();
    let size = size.ok_or_else(|| Refusal::new(StatusCode::LENGTH_REQUIRED, "length_required", ""))?;
    if size > broker.settings.limits.file_bytes {
        return Err(too_large(broker.settings.limits.file_bytes));
    }
    let new = match wanted(broker, &caller, head, size) {
        Ok((new, None)) => new,
        // It is here already: the answer was lost, most likely.
        Ok((_, Some(known))) => {
            discard(broker, body).await;
            return Ok(said(&known));
        }
        Err(refusal) => {
            discard(broker, body).await;
            return Err(refusal);
        }
    };
    let blob = receive(broker, &caller, &blob_id(&caller.mesh, &new.id), size, body).await?;
    let record = broker.registry.file_add(&caller.mesh, &caller.member, new, blob).await?;
    Ok(said(&record))
}

/// A file that the broker has.
type Known = Arc<Held<FileRecord>>;

/// The file that a request is about, and the one that was made of the same request before.
fn wanted<E: Engine>(
    broker: &Broker<E>,
    caller: &Caller,
    head: &Parts,
    size: u64,
) -> Result<(NewFile, Option<Known>), Refusal> {
    let new = described(broker, caller, head, size)?;
    let known = broker.registry.file_room(&caller.mesh, &caller.member, &new)?;
    Ok((new, known))
}

/// Reads a body to its end: who is still writing may not see an answer before the connection is closed.
async fn discard<E: Engine>(broker: &Broker<E>, mut body: Incoming) {
    let stall = broker.settings.limits.transfer_stall;
    while let Ok(Some(Ok(_))) = tokio::time::timeout(stall, body.frame()).await {}
}

fn said(file: &FileRecord) -> Answer {
    let expires = file.expires_ms.map(iso);
    answer(StatusCode::OK, &json!({"ok": true, "fileId": file.id, "size": file.size, "expiresAt": expires}))
}

fn busy() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "broker_busy", "too many transfers at once")
}

fn too_large(most: u64) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", format!("a file has {most} bytes at most"))
}

/// Writes a body away as it comes, beside the place it is for.
async fn receive<E: Engine>(
    broker: &Broker<E>,
    caller: &Caller,
    blob: &str,
    size: u64,
    mut body: Incoming,
) -> Result<E::Blob, Refusal> {
    let failed = |error: BlobError| match error {
        BlobError::TooLarge(most) => too_large(most),
        other => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", other.to_string()),
    };
    let mut sink = broker.engine.blob_create(blob, size).await.map_err(failed)?;
    let stall = broker.settings.limits.transfer_stall;
    loop {
        let frame = tokio::time::timeout(stall, body.frame()).await;
        let frame = frame.map_err(|_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body stands still"))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "bad_request", "it ended too early"))?;
        if let Ok(data) = frame.into_data() {
            sink.write(&data).await.map_err(failed)?;
        }
    }
    let info = sink.settle().await.map_err(failed)?;
    if info.size != size || info.sha256 != Some(caller.sha256) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "hash_mismatch", "the body is not what was signed"));
    }
    Ok(sink)
}

/// What the headers say of a file.
fn described<E: Engine>(broker: &Broker<E>, caller: &Caller, head: &Parts, size: u64) -> Result<NewFile, Refusal> {
    let headers = &head.headers;
    let invalid = |name: &str| Refusal::new(StatusCode::BAD_REQUEST, "invalid_argument", format!("`{name}`"));
    let id = match text(headers, "x-file-id") {
        Some(id) if ids::is_ulid(id) => id.to_owned(),
        Some(_) => return Err(invalid("x-file-id")),
        None => ids::ulid(broker.clock.now_ms()),
    };
    let name = percent_decoded(text(headers, "x-file-name").unwrap_or("file")).ok_or_else(|| invalid("x-file-name"))?;
    let tags: Vec<String> = match text(headers, "x-tags") {
        Some(tags) => serde_json::from_str(tags).map_err(|_| invalid("x-tags"))?,
        None => Vec::new(),
    };
    let keys: BTreeMap<String, String> = match text(headers, "x-file-keys") {
        Some(keys) => serde_json::from_str(keys).map_err(|_| invalid("x-file-keys"))?,
        None => BTreeMap::new(),
    };
    let persistent = match text(headers, "x-persistent") {
        None | Some("false" | "0") => false,
        Some("true" | "1") => true,
        Some(_) => return Err(invalid("x-persistent")),
    };
    let to = match text(headers, "x-target-spec") {
        None | Some("" | "*") => None,
        Some(target) => {
            let mesh = broker.registry.mesh(&caller.mesh).ok_or_else(|| invalid("x-mesh-id"))?;
            Some(mesh.find(target)?.id.clone())
        }
    };
    Ok(NewFile { id, name, size, sha256: hex(&caller.sha256), tags, persistent, to, keys })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        // A sign is no digit, though a number may begin with one.
        let digits =
            std::str::from_utf8(&digits).ok().filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Sends a file.
pub(super) async fn download<E: Engine>(
    broker: &Arc<Broker<E>>,
    head: &Parts,
    id: &str,
    place: &Place,
) -> Result<Answer, Refusal> {
    let caller = signed::caller(broker, head)?;
    if !place.admit().await {
        return Err(busy());
    }
    let place = Arc::clone(&broker.transfers).try_acquire_owned().map_err(|_| busy())?;
    let (record, _) = broker.registry.file_for(&caller.mesh, &caller.member, id)?;
    let opened = broker.engine.blob_open(&blob_id(&caller.mesh, &record.id), 0).await;
    let (info, reader) = opened.map_err(|error| match error {
        BlobError::NotFound => Refusal::new(StatusCode::NOT_FOUND, "file_not_found", "its bytes are gone"),
        other => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", other.to_string()),
    })?;
    let mut response = Response::new(Body::File { reader, left: info.size, _place: place });
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, OCTETS);
    headers.insert(header::CONTENT_LENGTH, info.size.into());
    if let Ok(digest) = HeaderValue::from_str(&record.sha256) {
        headers.insert("x-body-sha256", digest);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::percent_decoded;

    #[test]
    fn names_are_percent_encoded() {
        assert_eq!(percent_decoded("a%20b").as_deref(), Some("a b"));
        assert_eq!(percent_decoded("r%C3%A9sum%C3%A9.txt").as_deref(), Some("résumé.txt"));
        for bad in ["%", "%4", "%zz", "%C3", "%+1", "%-0"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
