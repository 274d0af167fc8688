//! Peers, one's own profile, and what owners and administrators do with members.

use hostel_mesh::{InviteRequest, MemberAction, ProfileChange};
use serde_json::{Map, Value, json};

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::respond::Asked;
use super::super::route::Endpoint;
use super::{Outcome, optional_fields, this_mesh};

/// Events of the audit trail in one answer.
const MOST_EVENTS: usize = 500;

pub(super) async fn peers(asked: &Asked) -> Outcome {
    let query = asked.query();
    let all = query.flag("all", false)?;
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let mut peers = asked.door.mesh.peers(all).await?;
    // Whoever came first is of no interest; two answers can be compared.
    peers.sort_by(|one, other| (&one.display_name, &one.pubkey).cmp(&(&other.display_name, &other.pubkey)));
    Ok(answer::ok(&json!({"peers": peers})))
}

pub(super) async fn profile(asked: &Asked) -> Outcome {
    let change = profile_change(&Fields::read(&asked.body)?)?;
    Ok(answer::ok(&asked.door.mesh.profile(change, &asked.caller).await?))
}

/// Reads what is to be changed.
pub(in super::super) fn profile_change(fields: &Fields<'_>) -> Result<ProfileChange, Refused> {
    let status = fields.text("status")?;
    if status.as_deref().is_some_and(|status| !matches!(status, "idle" | "working" | "dnd")) {
        return Err(Refused::field("status", "`status` must be `idle`, `working` or `dnd`"));
    }
    let mut more = Map::new();
    for name in ["avatar", "title", "bio"] {
        if let Some(text) = fields.text(name)? {
            more.insert(name.to_owned(), text.into());
        }
    }
    if let Some(capabilities) = fields.texts("capabilities")? {
        more.insert("capabilities".to_owned(), capabilities.into());
    }
    Ok(ProfileChange { summary: fields.text("summary")?, status, visible: fields.flag("visible")?, more })
}

pub(super) fn members(asked: &Asked) -> Outcome {
    Ok(answer::ok(&json!({"members": asked.door.mesh.members()})))
}

pub(super) async fn rename(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let name = fields.required_of(&["displayName", "display_name"])?;
    let name = asked.door.mesh.rename(&name).await?;
    Ok(answer::ok(&json!({"ok": true, "displayName": name})))
}

pub(super) async fn act(asked: &Asked) -> Outcome {
    let action = match asked.endpoint {
        Endpoint::MemberBan => MemberAction::Ban,
        Endpoint::MemberUnban => MemberAction::Unban,
        Endpoint::MemberKick => MemberAction::Kick,
        Endpoint::MemberDisconnect => MemberAction::Disconnect,
        _ => MemberAction::Revoke,
    };
    let target = Fields::read(&asked.body)?.required("target")?;
    Ok(answer::ok(&with_ok(asked.door.mesh.member_action(action, &target).await?)))
}

/// An answer of the broker's, as one of ours.
fn with_ok(answer: Value) -> Value {
    let mut object = match answer {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    object.insert("ok".to_owned(), true.into());
    Value::Object(object)
}

pub(super) async fn invite(asked: &Asked) -> Outcome {
    let fields = optional_fields(asked)?;
    let request = InviteRequest {
        max_uses: fields.number(&["max_uses", "maxUses"])?,
        expires_in_s: fields.number(&["expires_in_s", "expiresInS"])?,
        role: fields.text("role")?,
        preset: fields.object("preset")?,
        broker_url: fields.text_of(&["broker_url", "brokerUrl"])?,
    };
    Ok(answer::ok(&asked.door.mesh.invite_create(request).await?))
}

pub(super) async fn invites(asked: &Asked) -> Outcome {
    Ok(answer::ok(&asked.door.mesh.invite_list().await?))
}

pub(super) async fn revoke_invite(asked: &Asked) -> Outcome {
    let id = Fields::read(&asked.body)?.required_of(&["id", "invite"])?;
    asked.door.mesh.invite_revoke(&id).await?;
    Ok(answer::ok(&json!({"ok": true})))
}

/// Without `capabilities` what was set is taken back.
pub(super) async fn grant(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let (peer, capabilities) = (fields.required("peer")?, fields.texts("capabilities")?);
    Ok(answer::ok(&asked.door.mesh.grant(&peer, capabilities).await?))
}

pub(super) async fn grants(asked: &Asked) -> Outcome {
    Ok(answer::ok(&asked.door.mesh.grants().await?))
}

pub(super) async fn audit(asked: &Asked) -> Outcome {
    let query = asked.query();
    let after = query.number("after")?.unwrap_or(0);
    let limit = query.clamped("limit", 100, 1, MOST_EVENTS)?;
    Ok(answer::ok(&asked.door.mesh.audit(after, u32::try_from(limit).unwrap_or(u32::MAX)).await?))
}

/// Accepts the key that the broker names for a peer; a person has compared safety numbers.
pub(super) async fn trust(asked: &Asked) -> Outcome {
    let peer = Fields::read(&asked.body)?.required("peer")?;
    Ok(answer::ok(&asked.door.mesh.trust(&peer).await?))
}

pub(super) fn safety(asked: &Asked) -> Outcome {
    let query = asked.query();
    let peer = query.required("peer")?;
    Ok(answer::ok(&asked.door.mesh.safety_number(&peer)?))
}
