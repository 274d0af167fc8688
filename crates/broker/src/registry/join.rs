//! Joining a mesh with an invite.
//!
//! Invariant: the invite counts once per new member, in the transaction that makes the member. A key that is a member
//! already joins again without using it up, because an answer may be lost; a key that was revoked does not come back this
//! way.

use hostel_wire::invite::{Invite, InviteError};
use hostel_wire::keys::PublicKey;
use hostel_wire::{ids, topic};
use serde_json::json;

use super::change::What;
use super::error::JoinError;
use super::mesh::Mesh;
use super::names::unique;
use super::records::{InviteRecord, MemberRecord};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;

/// Somebody who wants to join. That the key is theirs must have been shown.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// Base64url of the payload.
    pub invite_token: String,
    /// The payload as the joiner read it; if it is given it must be the token's.
    pub invite_payload: Option<Invite>,
    /// Hex.
    pub peer_pubkey: String,
    /// What they would like to be called.
    pub display_name: String,
}

/// Somebody who is a member now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Of which mesh.
    pub mesh_id: String,
    /// Its name.
    pub mesh_name: String,
    /// Its slug.
    pub slug: String,
    /// The member's id.
    pub member_id: String,
    /// The member's name; another than wished if somebody has that.
    pub display_name: String,
    /// They were a member before.
    pub already_member: bool,
    /// The root key, sealed with the link's secret.
    pub sealed_root_key: Option<String>,
}

impl Joined {
    /// Without a root key: who has one hands it on.
    pub(super) fn of(mesh: &Mesh, member: &MemberRecord, already_member: bool) -> Self {
        Self {
            mesh_id: mesh.id().to_owned(),
            mesh_name: mesh.record.name.clone(),
            slug: mesh.record.slug.clone(),
            member_id: member.id.clone(),
            display_name: member.name.clone(),
            already_member,
            sealed_root_key: None,
        }
    }
}

impl<E: Engine> Registry<E> {
    /// Lets somebody in.
    pub async fn join(&self, request: JoinRequest) -> Result<Joined, JoinError> {
        self.in_turn(|inner| async move { inner.join(request).await }).await
    }
}

impl<E: Engine> Inner<E> {
    async fn join(&self, request: JoinRequest) -> Result<Joined, JoinError> {
        let payload = Invite::from_token(&request.invite_token).map_err(|_| JoinError::NotFound)?;
        let snapshot = self.snapshot(&payload.mesh_id)?;
        let record = &snapshot.record;
        if record.owner_pubkey.is_empty() {
            return Err(JoinError::MissingOwnerKey);
        }
        payload.verify().map_err(|error| match error {
            InviteError::BadSignature => JoinError::BadSignature,
            _ => JoinError::NotFound,
        })?;
        if let Some(told) = &request.invite_payload
            && *told != payload
        {
            return Err(if told.mesh_id == payload.mesh_id {
                JoinError::BadSignature
            } else {
                JoinError::MeshMismatch
            });
        }
        let registered = snapshot.invite(&request.invite_token);
        if registered.is_none() && !snapshot.signs_invites(&payload.owner_pubkey) {
            return Err(JoinError::OwnerMismatch);
        }
        let invite = registered.ok_or(JoinError::NotFound)?;
        if invite.revoked_ms.is_some() {
            return Err(JoinError::Revoked);
        }
        let now = self.clock.now_ms();
        if payload.is_expired(now) {
            return Err(JoinError::Expired);
        }
        let key = PublicKey::from_hex(&request.peer_pubkey).filter(|key| key.x25519().is_ok());
        let key = key.ok_or_else(|| JoinError::InsertFailed("`peer_pubkey` is no public key".to_owned()))?;
        let known = snapshot.member_by_key(&key.hex());
        if known.is_some_and(|member| member.revoked_ms.is_some()) {
            return Err(JoinError::InsertFailed("this key was revoked".to_owned()));
        }
        if known.is_some_and(|member| member.pubkey != key.hex()) {
            return Err(JoinError::InsertFailed("this key was replaced by another of the same member".to_owned()));
        }
        let joined = |member: &MemberRecord, already_member| Joined {
            sealed_root_key: invite.sealed_root_key.clone(),
            ..Joined::of(&snapshot, member, already_member)
        };
        if let Some(member) = known.filter(|member| member.left_ms.is_none()) {
            return Ok(joined(member, true));
        }
        if invite.uses >= invite.max_uses {
            return Err(JoinError::Exhausted);
        }
        if snapshot.by_name.len() >= self.settings.members {
            return Err(JoinError::InsertFailed("the mesh is full".to_owned()));
        }
        let member = self.new_member(&snapshot, invite, &request, &key, known.map(|known| &known.record));
        let mut update = Update::of(snapshot.id());
        update.invite(&invite.id, Some(InviteRecord { uses: invite.uses + 1, ..invite.record.clone() }));
        self.add_member(&mut update, &snapshot, member.clone(), known.is_some());
        self.commit(update).await?;
        Ok(joined(&member, false))
    }

    fn new_member(
        &self,
        mesh: &Mesh,
        invite: &InviteRecord,
        request: &JoinRequest,
        key: &PublicKey,
        before: Option<&MemberRecord>,
    ) -> MemberRecord {
        let now = self.clock.now_ms();
        let preset = &invite.preset;
        let id = before.map_or_else(|| ids::ulid(now), |before| before.id.clone());
        let wanted = topic::display_slug(preset.display_name.as_ref().unwrap_or(&request.display_name));
        MemberRecord {
            name: unique(&wanted, |name| mesh.name_taken(name, &id)),
            id,
            pubkey: key.hex(),
            role: invite.role,
            role_tag: preset.role_tag.clone(),
            groups: preset.groups.clone(),
            message_mode: preset.message_mode.clone(),
            joined_ms: now,
            joined_seq: self.next_seq(mesh.id()),
            invite: Some(invite.id.clone()),
            ..MemberRecord::default()
        }
    }

    pub(super) fn add_member(&self, update: &mut Update, mesh: &Mesh, member: MemberRecord, again: bool) {
        if let Some(general) = mesh.general() {
            self.open_sub(update, mesh, &general.id, &member.id);
        }
        let what = if again { kind::MEMBER_REJOINED } else { kind::MEMBER_JOINED };
        let body = json!({
            "name": member.name,
            "pubkey": member.pubkey,
            "invite": member.invite,
            "sponsor": member.sponsor,
        });
        self.tell(update, what, &member.id, &member.id, body);
        update.news(What::Joined { member: member.id.clone() });
        update.member(member);
    }
}
