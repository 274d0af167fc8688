//! What the owner and administrators do: revoke, kick, invite, look at the audit.

use hostel_wire::frames::client::Call;
use hostel_wire::frames::close;
use hostel_wire::iso;
use serde_json::{Value, json};

use super::{Asker, Outcome, Reply, dated};
use crate::audit::kind;
use crate::engine::Engine;
use crate::registry::{InviteRecord, MemberRecord, NewInvite, RegistryError};

/// Records of the audit in one answer.
const RECORDS: usize = 500;

pub(super) fn who(member: &MemberRecord) -> Value {
    json!({"memberId": member.id, "name": member.name, "pubkey": member.pubkey})
}

fn invite(invite: &InviteRecord) -> Value {
    json!({
        "inviteId": invite.id,
        "id": invite.id,
        "role": invite.role,
        "maxUses": invite.max_uses,
        "uses": invite.uses,
        "expiresAt": iso(invite.expires_ms),
        "revoked": invite.revoked_ms.is_some(),
        "revokedAt": invite.revoked_ms.map(iso),
        "createdBy": invite.created_by,
        "createdAt": iso(invite.created_ms),
        "preset": invite.preset,
    })
}

impl<E: Engine> Asker<'_, E> {
    pub(super) async fn people(&self, call: Call) -> Outcome {
        let (mesh, member) = (self.mesh_id(), self.member());
        let registry = &self.broker.registry;
        match call {
            Call::Revoke { target } | Call::Ban { target } => {
                let revoked = registry.revoke(mesh, member, &target).await?;
                Ok(Reply::Ok(who(&revoked)))
            }
            Call::Unban { target } => Ok(Reply::Ok(who(&*registry.unban(mesh, member, &target).await?))),
            Call::Kick { target } => self.close_all(&target, true).await,
            Call::Disconnect { target } => self.close_all(&target, false).await,
            Call::ListBans { after } => {
                let after = after.as_deref().map(dated).transpose()?;
                let bans = registry.bans(mesh, member)?;
                let place = |member: &MemberRecord| (member.revoked_ms.unwrap_or_default(), member.id.clone());
                // The newest first.
                let behind = |place: &(u64, String)| after.is_none_or(|after| (place.0, place.1.as_str()) < after);
                let bans = bans.iter().map(|member| (place(member), member)).filter(|(place, _)| behind(place));
                let bans = bans.map(|((at, id), member)| {
                    let mut ban = who(member);
                    ban["revokedAt"] = json!(member.revoked_ms.map(iso));
                    (format!("{at}:{id}"), ban)
                });
                Ok(Reply::Of("bans_list", self.paged("bans", bans)))
            }
            Call::InviteCreate { token, sealed_root_key, max_uses, preset } => {
                let new = NewInvite { token, sealed_root_key, max_uses, preset };
                let made = registry.invite_create(mesh, member, new).await?;
                Ok(Reply::Of("invite_created", invite(&made)))
            }
            Call::InviteList { after } => {
                let invites = registry.invite_list(mesh, member)?;
                // The newest first.
                let behind = |id: &str| after.as_deref().is_none_or(|after| id < after);
                let invites = invites.iter().filter(|one| behind(&one.id)).map(|one| (one.id.clone(), invite(one)));
                Ok(Reply::Of("invite_list_response", self.paged("invites", invites)))
            }
            Call::InviteRevoke { invite } => {
                registry.invite_revoke(mesh, member, &invite).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::AuditQuery { after, limit } => {
                let limit = limit.map_or(100, |limit| limit as usize).clamp(1, RECORDS);
                let records = registry.audit_query(mesh, member, after, limit).await?;
                let full = records.len() == limit;
                let (events, more) = self.fitting(records.iter().filter_map(|record| {
                    let mut event = serde_json::to_value(record).ok()?;
                    event["time"] = iso(record.time_ms).into();
                    Some(event)
                }));
                Ok(Reply::Of("audit_response", json!({"events": events, "more": more || full})))
            }
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }

    /// Closes a member's connections: for good until it comes again by hand, or so that it comes back.
    async fn close_all(&self, target: &str, kick: bool) -> Outcome {
        let mesh = self.mesh()?;
        let target = mesh.may_administer(self.member(), target)?;
        let (mut closed, mut skipped) = (0, Vec::new());
        for connection in self.broker.rooms.room(mesh.id()).of(&target.id) {
            if kick && connection.about.control_plane {
                // It carries others' sessions; they can be kicked one by one.
                skipped.push(connection.presence_id.clone());
                continue;
            }
            match kick {
                true => connection.end(close::KICKED, "kicked"),
                false => connection.end(close::NORMAL, "disconnected"),
            }
            closed += 1;
        }
        if kick {
            let body = json!({"closed": closed, "skipped": skipped.len()});
            let told = self.broker.registry.audit(mesh.id(), kind::MEMBER_KICKED, self.member(), &target.id, body);
            self.broker.note("audit", told.await);
        }
        let mut said = who(target);
        said["closed"] = closed.into();
        said["skipped_control_plane"] = json!(skipped);
        Ok(Reply::Ok(said))
    }
}
