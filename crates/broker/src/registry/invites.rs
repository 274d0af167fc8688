//! Invites: registered by the owner, who has signed them; counted here.
//!
//! Invariant: the broker cannot make one (it has no owner key) and cannot open the root key that goes with one. An owner by
//! succession has not the key the mesh was made with, and signs with its own. Who signed is looked at when an invite is
//! registered: it stays good whoever owns the mesh later.

use std::sync::Arc;

use hostel_wire::invite::Invite;
use hostel_wire::{encoding, fingerprint, ids};
use serde_json::{Value, json};

use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{Held, InviteRecord, Preset, Role};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;

/// How often an invite can be used at most.
const MOST_USES: u32 = 100_000;

/// A sealed root key has this many bytes at most: a nonce and a box around 32 bytes, as base64.
const SEALED: usize = 512;

/// An invite to be.
#[derive(Debug, Clone)]
pub struct NewInvite {
    /// Base64url of the signed payload.
    pub token: String,
    /// The root key, sealed with the link's secret.
    pub sealed_root_key: Option<String>,
    /// How often it may be used; 1 if absent.
    pub max_uses: Option<u32>,
    /// What it sets for who joins.
    pub preset: Option<Value>,
}

pub(super) fn token_digest(token: &str) -> String {
    encoding::hex(&fingerprint::sha256(token.trim_end_matches('=').as_bytes()))
}

impl<E: Engine> Registry<E> {
    /// Registers an invite; for who has one that the owner has signed and is the owner or an administrator. The same token again changes nothing and gives the same invite.
    pub async fn invite_create(
        &self,
        mesh: &str,
        by: &str,
        new: NewInvite,
    ) -> Result<Arc<Held<InviteRecord>>, RegistryError> {
        let (mesh, by) = (mesh.to_owned(), by.to_owned());
        self.in_turn(|inner| async move { inner.invite_create(&mesh, &by, new).await }).await
    }

    /// All invites that are remembered, newest first; for the owner and administrators.
    pub fn invite_list(&self, mesh: &str, by: &str) -> Result<Vec<Arc<Held<InviteRecord>>>, RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.admin(by)?;
        let mut all: Vec<_> = snapshot.invites().cloned().collect();
        all.sort_by(|one, other| other.id.cmp(&one.id));
        Ok(all)
    }

    /// Takes an invite back, by id or token; for the owner and administrators.
    pub async fn invite_revoke(&self, mesh: &str, by: &str, invite: &str) -> Result<(), RegistryError> {
        let (mesh, by, invite) = (mesh.to_owned(), by.to_owned(), invite.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.admin(&by)?;
            let found = snapshot.invite(&invite).ok_or_else(|| RegistryError::NotFound("no such invite".to_owned()))?;
            if found.revoked_ms.is_some() {
                return Ok(());
            }
            let record = InviteRecord { revoked_ms: Some(inner.clock.now_ms()), ..found.record.clone() };
            let mut update = Update::of(&mesh);
            inner.tell(&mut update, kind::INVITE_REVOKED, &by, &record.id, json!({}));
            update.invite(&record.id.clone(), Some(record));
            inner.commit(update).await.map(drop)
        })
        .await
    }
}

impl<E: Engine> Inner<E> {
    async fn invite_create(
        &self,
        mesh: &str,
        by: &str,
        new: NewInvite,
    ) -> Result<Arc<Held<InviteRecord>>, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        snapshot.admin(by)?;
        let invalid = |text: &str| RegistryError::Invalid(text.to_owned());
        let payload = Invite::from_token(&new.token).map_err(|error| invalid(&error.to_string()))?;
        payload.verify().map_err(|error| invalid(&error.to_string()))?;
        if payload.mesh_id != mesh || !snapshot.signs_invites(&payload.owner_pubkey) {
            return Err(RegistryError::Forbidden("the invite is not signed by this mesh's owner".to_owned()));
        }
        let now = self.clock.now_ms();
        if payload.is_expired(now) {
            return Err(invalid("the invite has expired"));
        }
        let role = match payload.role.as_str() {
            "member" => Role::Member,
            "admin" => Role::Admin,
            _ => return Err(invalid("`role` must be `member` or `admin`")),
        };
        let max_uses = new.max_uses.unwrap_or(1);
        if !(1..=MOST_USES).contains(&max_uses) {
            return Err(invalid("`maxUses` must be between 1 and 100000"));
        }
        if new.sealed_root_key.as_ref().is_some_and(|sealed| sealed.len() > SEALED) {
            return Err(invalid("`sealedRootKey` is too long"));
        }
        let preset = new.preset.filter(|preset| !preset.is_null()).map(serde_json::from_value::<Preset>).transpose();
        let preset = preset.map_err(|error| invalid(&format!("`preset`: {error}")))?.unwrap_or_default();
        preset.check(self.settings.groups)?;
        if let Some(known) = snapshot.invite(&new.token) {
            return Ok(Arc::clone(known));
        }
        if snapshot.invites.len() >= self.settings.invites {
            return Err(RegistryError::Full("too many invites; take some back".to_owned()));
        }
        let id = ids::ulid(now);
        let record = InviteRecord {
            id: id.clone(),
            token_sha256: token_digest(&new.token),
            sealed_root_key: new.sealed_root_key,
            role,
            max_uses,
            expires_ms: payload.expires_at.saturating_mul(1000),
            preset,
            created_by: by.to_owned(),
            created_ms: now,
            ..InviteRecord::default()
        };
        let mut update = Update::of(mesh);
        let body = json!({"maxUses": max_uses, "role": role.as_str(), "expiresAt": payload.expires_at});
        self.tell(&mut update, kind::INVITE_CREATED, by, &id, body);
        update.invite(&id, Some(record));
        let after = self.commit(update).await?;
        after.invites.get(&id).cloned().ok_or_else(|| RegistryError::NotFound("no such invite".to_owned()))
    }
}

impl Mesh {
    /// Whether a key signs this mesh's invites: the one it was made with, or its owner's own.
    pub(super) fn signs_invites(&self, pubkey: &str) -> bool {
        let owner = self.member(&self.record.owner_member).filter(|owner| owner.is_active());
        pubkey == self.record.owner_pubkey || owner.is_some_and(|owner| owner.pubkey == pubkey)
    }

    /// An invite by its id or its token.
    pub(super) fn invite(&self, text: &str) -> Option<&Arc<Held<InviteRecord>>> {
        self.invites.get(text).or_else(|| self.invites.get(self.tokens.get(&token_digest(text))?))
    }
}

impl Preset {
    fn check(&self, most_groups: usize) -> Result<(), RegistryError> {
        let short = |text: &Option<String>, most| text.as_ref().is_none_or(|text| text.len() <= most);
        if !short(&self.display_name, 256) || !short(&self.role_tag, 64) || !short(&self.message_mode, 32) {
            return Err(RegistryError::Invalid("`preset` is too long".to_owned()));
        }
        super::groups::check(&self.groups, most_groups)
    }
}
