//! Members for a while: a member vouches for a key that lives no longer than its process.
//!
//! Invariant: such a member has no more rights than any other, is gone when who vouches for it is, and does not outlive its
//! connections by much.

use hostel_wire::keys::PublicKey;
use hostel_wire::{ids, topic};

use super::error::RegistryError;
use super::join::Joined;
use super::names::unique;
use super::records::MemberRecord;
use super::update::Update;
use super::{Engine, Inner, Registry};

impl<E: Engine> Registry<E> {
    /// Enrols a key that a member vouches for. That both keys are theirs must have been shown. Asking again with the same
    /// key gives the same member.
    pub async fn sponsor(
        &self,
        mesh: &str,
        member: &str,
        new_pubkey: &str,
        display_name: Option<String>,
    ) -> Result<Joined, RegistryError> {
        let (mesh, member, key) = (mesh.to_owned(), member.to_owned(), new_pubkey.to_owned());
        self.in_turn(|inner| async move { inner.sponsor(&mesh, &member, &key, display_name).await }).await
    }
}

impl<E: Engine> Inner<E> {
    async fn sponsor(
        &self,
        mesh: &str,
        sponsor: &str,
        key: &str,
        display_name: Option<String>,
    ) -> Result<Joined, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        let sponsor = snapshot.active_member(sponsor)?;
        if sponsor.sponsor.is_some() {
            return Err(RegistryError::Forbidden("a member for a while cannot vouch for another".to_owned()));
        }
        let key = PublicKey::from_hex(key).filter(|key| key.x25519().is_ok());
        let key = key.ok_or_else(|| RegistryError::Invalid("no public key".to_owned()))?.hex();
        let known = snapshot.member_by_key(&key);
        if let Some(known) = known {
            if known.revoked_ms.is_some() || known.sponsor.as_deref() != Some(&sponsor.id) {
                return Err(RegistryError::Taken("this key is a member's already".to_owned()));
            }
            if known.left_ms.is_none() {
                return Ok(Joined::of(&snapshot, known, true));
            }
        }
        if snapshot.wards(&sponsor.id).len() >= self.settings.wards || snapshot.by_name.len() >= self.settings.members {
            return Err(RegistryError::Full("too many members for a while".to_owned()));
        }
        let now = self.clock.now_ms();
        let id = known.map_or_else(|| ids::ulid(now), |known| known.id.clone());
        let wanted = topic::display_slug(display_name.as_ref().unwrap_or(&sponsor.name));
        let member = MemberRecord {
            name: unique(&wanted, |name| snapshot.name_taken(name, &id)),
            id,
            pubkey: key,
            groups: sponsor.groups.clone(),
            joined_ms: now,
            joined_seq: self.next_seq(mesh),
            sponsor: Some(sponsor.id.clone()),
            ..MemberRecord::default()
        };
        let mut update = Update::of(mesh);
        self.add_member(&mut update, &snapshot, member.clone(), known.is_some());
        self.commit(update).await?;
        Ok(Joined::of(&snapshot, &member, false))
    }
}
