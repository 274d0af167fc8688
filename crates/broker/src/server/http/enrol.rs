//! Making a mesh, joining one, leaving one.
//!
//! Invariant: a mesh is made by who has the broker's token, wherever they are. Nobody joins with a key they did not sign
//! with, where they sign at all; nobody leaves for somebody else.

use std::sync::Arc;

use hostel_wire::encoding;
use hostel_wire::hello::{check_time, join_request, leave_request, mesh_request};
use hostel_wire::invite::Invite;
use hostel_wire::keys::{PublicKey, Signature};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Refusal, answer, read_json};
use crate::engine::Engine;
use crate::registry::{JoinRequest, NewMesh, RegistryError};
use crate::server::Broker;
use crate::server::log::Level;

#[derive(Deserialize)]
struct MeshBody {
    name: String,
    owner_pubkey: String,
    member: FirstMember,
    #[serde(default)]
    timestamp: Option<u64>,
    #[serde(default)]
    signature: Option<String>,
}

#[derive(Deserialize)]
struct FirstMember {
    pubkey: String,
    display_name: String,
}

/// Registers a mesh.
pub(super) async fn make_mesh<E: Engine>(
    broker: &Arc<Broker<E>>,
    head: &Parts,
    body: Incoming,
) -> Result<Answer, Refusal> {
    // On this machine too: other users reach loopback as well.
    is_admin(broker, &head.headers, "making a mesh")?;
    let body: MeshBody = read_json(broker, body).await?;
    if let Some(signature) = &body.signature {
        let timestamp = body.timestamp.unwrap_or_default();
        let text = mesh_request(&body.name, &body.owner_pubkey, &body.member.pubkey, timestamp);
        let timely = check_time(timestamp, broker.clock.now_ms()).is_ok();
        if !timely || !is_signed(&body.owner_pubkey, &text, signature) {
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, "bad_signature", "it is not signed by the owner's key"));
        }
    }
    let new = NewMesh {
        name: body.name,
        owner_pubkey: body.owner_pubkey,
        member_pubkey: body.member.pubkey,
        display_name: body.member.display_name,
    };
    let made = broker.registry.create_mesh(new).await?;
    broker.log.line(Level::Info, "mesh_created", json!({"mesh": made.mesh_id, "slug": made.slug}));
    Ok(answer(
        StatusCode::OK,
        &json!({
            "ok": true,
            "meshId": made.mesh_id,
            "slug": made.slug,
            "memberId": made.member_id,
            "displayName": made.display_name,
            "brokers": broker.settings.urls,
        }),
    ))
}

/// Whether somebody shows the broker's own token. For `what` it is needed.
pub(super) fn is_admin<E: Engine>(broker: &Broker<E>, headers: &HeaderMap, what: &str) -> Result<(), Refusal> {
    let unauthorized = |detail: &str| Err(Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
    let Some(shown) = headers.get(header::AUTHORIZATION) else {
        return unauthorized(&format!("{what} needs the broker's admin token"));
    };
    let token = match shown.as_bytes().split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.trim_ascii(),
        _ => b"",
    };
    match broker.settings.admin_token.as_ref().is_some_and(|ours| ours.is(token)) {
        true => Ok(()),
        false => unauthorized("the token is not valid"),
    }
}

#[derive(Deserialize)]
struct JoinBody {
    invite_token: String,
    #[serde(default)]
    invite_payload: Option<Value>,
    peer_pubkey: String,
    /// The joiner's key for boxes, where it names that as well: hex, or base64url.
    #[serde(default)]
    recipient_x25519_pubkey: Option<String>,
    #[serde(default)]
    display_name: String,
    #[serde(default)]
    timestamp: Option<u64>,
    #[serde(default)]
    signature: Option<String>,
}

/// Lets somebody in who has an invite. The contract has its own form for what is refused.
pub(super) async fn join<E: Engine>(broker: &Arc<Broker<E>>, body: Incoming) -> Answer {
    let refuse =
        |status, error: &str, detail: &str| answer(status, &json!({"ok": false, "error": error, "detail": detail}));
    let body: JoinBody = match read_json(broker, body).await {
        Ok(body) => body,
        Err(Refusal(status, error, detail)) => return refuse(status, error, &detail),
    };
    if !signed_by_joiner(broker, &body) {
        return refuse(StatusCode::BAD_REQUEST, "bad_signature", "the request is not signed by the key");
    }
    if !is_one_identity(&body) {
        let detail = "`recipient_x25519_pubkey` is not the key that belongs to `peer_pubkey`";
        return refuse(StatusCode::BAD_REQUEST, "member_insert_failed", detail);
    }
    let request = JoinRequest {
        invite_token: body.invite_token,
        invite_payload: body.invite_payload.and_then(|payload| serde_json::from_value::<Invite>(payload).ok()),
        peer_pubkey: body.peer_pubkey,
        display_name: body.display_name,
    };
    match broker.registry.join(request).await {
        Ok(joined) => {
            let fields = json!({"mesh": joined.mesh_id, "member": joined.member_id, "name": joined.display_name});
            broker.log.line(Level::Info, "member_joined", fields);
            let mut said = json!({
                "ok": true,
                "memberId": joined.member_id,
                "meshId": joined.mesh_id,
                "mesh_name": joined.mesh_name,
                "slug": joined.slug,
                "displayName": joined.display_name,
                "sealed_root_key": joined.sealed_root_key,
                "brokers": broker.settings.urls,
            });
            if joined.already_member {
                said["alreadyMember"] = true.into();
            }
            answer(StatusCode::OK, &said)
        }
        Err(error) => refuse(StatusCode::BAD_REQUEST, error.code(), &error.to_string()),
    }
}

/// Older joiners do not sign; whoever signs must sign well, and now.
fn signed_by_joiner<E: Engine>(broker: &Broker<E>, body: &JoinBody) -> bool {
    let Some(signature) = &body.signature else { return true };
    let Some(timestamp) = body.timestamp else { return false };
    let text = join_request(&body.invite_token, &body.peer_pubkey, timestamp);
    is_signed(&body.peer_pubkey, &text, signature) && check_time(timestamp, broker.clock.now_ms()).is_ok()
}

/// A member has one identity: its key for boxes is the one its key for signatures leads to. A joiner who names another
/// could never open what is sealed for it.
fn is_one_identity(body: &JoinBody) -> bool {
    let Some(named) = &body.recipient_x25519_pubkey else { return true };
    let named = encoding::unhex_array::<32>(named).or_else(|| encoding::unb64url_array(named.trim_end_matches('=')));
    let derived = PublicKey::from_hex(&body.peer_pubkey).and_then(|key| key.x25519().ok());
    named.is_some() && named == derived
}

pub(super) fn is_signed(pubkey: &str, text: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (PublicKey::from_hex(pubkey), Signature::from_hex(signature)) else {
        return false;
    };
    key.verify(text.as_bytes(), &signature)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaveBody {
    mesh_id: String,
    timestamp: u64,
    signature: String,
}

/// A member leaves for good.
pub(super) async fn leave<E: Engine>(broker: &Arc<Broker<E>>, body: Incoming, pubkey: &str) -> Result<Answer, Refusal> {
    let body: LeaveBody = read_json(broker, body).await?;
    let unauthorized = |word, detail: &str| Refusal::new(StatusCode::UNAUTHORIZED, word, detail);
    if !is_signed(pubkey, &leave_request(&body.mesh_id, pubkey, body.timestamp), &body.signature) {
        return Err(unauthorized("bad_signature", "it is not signed by the member's key"));
    }
    check_time(body.timestamp, broker.clock.now_ms())
        .map_err(|error| unauthorized(error.code(), &error.to_string()))?;
    let mesh = broker.registry.mesh(&body.mesh_id).ok_or(RegistryError::MeshNotFound)?;
    let member = mesh.member_by_key(pubkey).filter(|member| member.pubkey == pubkey);
    let member = member.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "not_found", "no such member"))?;
    // Whoever asks again has left already: an answer may be lost.
    if member.left_ms.is_none() {
        broker.registry.leave(mesh.id(), &member.id, None).await?;
    }
    Ok(answer(StatusCode::OK, &json!({"ok": true})))
}

/// What a registry refuses, as an answer.
impl From<RegistryError> for Refusal {
    fn from(error: RegistryError) -> Self {
        let status = match &error {
            RegistryError::MeshNotFound
            | RegistryError::NotFound(_)
            | RegistryError::TopicNotFound(_)
            | RegistryError::FileNotFound
            | RegistryError::TaskNotFound => StatusCode::NOT_FOUND,
            RegistryError::Unproven(_) => StatusCode::UNAUTHORIZED,
            RegistryError::Forbidden(_) | RegistryError::NotShared | RegistryError::Blocked => StatusCode::FORBIDDEN,
            RegistryError::Taken(_)
            | RegistryError::Reused
            | RegistryError::Ambiguous(_)
            | RegistryError::KeyReplaced
            | RegistryError::EpochTaken
            | RegistryError::StaleKeyEpoch => StatusCode::CONFLICT,
            RegistryError::Full(_) | RegistryError::LogFull => StatusCode::INSUFFICIENT_STORAGE,
            RegistryError::Engine(_) => StatusCode::SERVICE_UNAVAILABLE,
            RegistryError::Invalid(_) | RegistryError::NotSealed => StatusCode::BAD_REQUEST,
        };
        Refusal::new(status, error.code(), error.to_string())
    }
}
