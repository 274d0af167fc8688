//! Requests signed by a member: uploads and downloads.
//!
//! Headers: `X-Mesh-Id`, `X-Member-Id`, `X-Timestamp` (milliseconds), `X-Body-Sha256` (hex; of nothing for a GET) and
//! `X-Signature` (hex). The member's key signs
//! `claudemesh-http-v1|METHOD|path and query as sent|mesh|member|timestamp|body sha256`.
//!
//! Invariant: the signature is good for a minute, for one request and for one body: whoever takes a body compares its
//! digest with the one that was signed.

use hostel_wire::encoding::unhex_array;
use hostel_wire::hello::check_time;
use hostel_wire::keys::{PublicKey, Signature};
use hyper::StatusCode;
use hyper::http::request::Parts;

use super::{Refusal, text};
use crate::engine::Engine;
use crate::server::Broker;

/// Who asks.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) mesh: String,
    pub(super) member: String,
    /// What the body's digest must be.
    pub(super) sha256: [u8; 32],
}

/// The text that is signed.
fn signed_text(method: &str, path: &str, mesh: &str, member: &str, timestamp: u64, sha256: &str) -> String {
    format!("claudemesh-http-v1|{method}|{path}|{mesh}|{member}|{timestamp}|{sha256}")
}

/// Who asks, or why that is not believed.
pub(super) fn caller<E: Engine>(broker: &Broker<E>, head: &Parts) -> Result<Caller, Refusal> {
    let unauthorized = |word, detail: &str| Refusal::new(StatusCode::UNAUTHORIZED, word, detail);
    let field = |name: &'static str| {
        text(&head.headers, name).ok_or_else(|| unauthorized("unauthorized", &format!("`{name}` is missing")))
    };
    let (mesh, member) = (field("x-mesh-id")?, field("x-member-id")?);
    let digest = field("x-body-sha256")?;
    let sha256 = unhex_array::<32>(digest).ok_or_else(|| unauthorized("unauthorized", "`x-body-sha256` is not hex"))?;
    let timestamp: u64 =
        field("x-timestamp")?.parse().map_err(|_| unauthorized("unauthorized", "`x-timestamp` is not a number"))?;
    let signature = Signature::from_hex(field("x-signature")?);
    let signature = signature.ok_or_else(|| unauthorized("bad_signature", "`x-signature` is not one"))?;
    let snapshot = broker.registry.mesh(mesh).ok_or_else(|| unauthorized("unauthorized", "no such member"))?;
    let record = snapshot.member(member).ok_or_else(|| unauthorized("unauthorized", "no such member"))?;
    // What was signed a moment before the key was replaced is on its way.
    let switch = u64::try_from(broker.settings.switch.as_millis()).unwrap_or(u64::MAX);
    let fresh = check_time(timestamp, broker.clock.now_ms()).is_ok();
    let before = record.retired.iter().filter(|key| fresh && timestamp <= key.at.saturating_add(switch));
    let keys = std::iter::once(&record.pubkey).chain(before.map(|key| &key.pubkey));
    let mut keys = keys.filter_map(|key| PublicKey::from_hex(key));
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let signed = signed_text(head.method.as_str(), path, mesh, member, timestamp, digest);
    if !keys.any(|key| key.verify(signed.as_bytes(), &signature)) {
        return Err(unauthorized("bad_signature", "it is not signed by the member's key"));
    }
    check_time(timestamp, broker.clock.now_ms()).map_err(|error| unauthorized(error.code(), &error.to_string()))?;
    if record.revoked_ms.is_some() {
        return Err(unauthorized("revoked", "the key is revoked"));
    }
    if record.left_ms.is_some() {
        return Err(unauthorized("unauthorized", "the member has left"));
    }
    Ok(Caller { mesh: mesh.to_owned(), member: member.to_owned(), sha256 })
}
