//! Another key for a member: a new identity that follows an old one, or one that lives only for a while beside it.
//!
//! Invariant: both keys sign, so nobody takes over another's membership and nobody is given a key that is not theirs.

use std::sync::Arc;

use hostel_wire::authorship::Remint;
use hostel_wire::hello::{check_time, remint_request};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use super::enrol::is_signed;
use super::{Answer, Refusal, answer, read_json};
use crate::engine::Engine;
use crate::registry::RegistryError;
use crate::server::Broker;
use crate::server::log::Level;

/// The old identity is left alone for so long.
const GRACE_HOURS: u32 = 24;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    mesh_id: String,
    new_pubkey: String,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    ephemeral: bool,
    timestamp: u64,
    signature: String,
    proof: String,
}

/// Enrols the new key.
pub(super) async fn remint<E: Engine>(
    broker: &Arc<Broker<E>>,
    body: Incoming,
    pubkey: &str,
) -> Result<Answer, Refusal> {
    let body: Body = read_json(broker, body).await?;
    let unauthorized = |word, detail: &str| Refusal::new(StatusCode::UNAUTHORIZED, word, detail);
    let text = remint_request(&body.mesh_id, pubkey, &body.new_pubkey, body.ephemeral, body.timestamp);
    if !is_signed(pubkey, &text, &body.signature) || !is_signed(&body.new_pubkey, &text, &body.proof) {
        return Err(unauthorized("bad_signature", "both keys must sign"));
    }
    check_time(body.timestamp, broker.clock.now_ms())
        .map_err(|error| unauthorized(error.code(), &error.to_string()))?;
    let mesh = broker.registry.mesh(&body.mesh_id).ok_or(RegistryError::MeshNotFound)?;
    let member = mesh.member_by_key(pubkey).filter(|member| member.pubkey == pubkey);
    let member = member.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "not_found", "no such member"))?;
    if member.revoked_ms.is_some() {
        return Err(unauthorized("revoked", "the key is revoked"));
    }
    let joined = match body.ephemeral {
        true => broker.registry.sponsor(mesh.id(), &member.id, &body.new_pubkey, body.display_name).await?,
        false => {
            // Other members get it with the roster: they need not believe us that the new one may have the old one's name.
            let proof = Remint {
                member_id: member.id.clone(),
                old_pubkey: pubkey.to_owned(),
                timestamp: body.timestamp,
                signature: body.signature,
                proof: body.proof,
            };
            broker.registry.succeed(mesh.id(), &member.id, &body.new_pubkey, GRACE_HOURS, Some(proof)).await?
        }
    };
    let what = if body.ephemeral { "member_sponsored" } else { "member_reminted" };
    broker.log.line(Level::Info, what, json!({"mesh": mesh.id(), "member": joined.member_id, "by": member.id}));
    Ok(answer(StatusCode::OK, &json!({"ok": true, "memberId": joined.member_id, "displayName": joined.display_name})))
}
