//! Another key for the same member.
//!
//! Invariant: a member has one key that opens connections, and a key that was replaced never does so again. For a while
//! it still leads to its member, so that who has not heard of the new one loses nothing; after that it says only whose
//! what was sent in its time is, as long as there are entries of that time. Everything else is kept by the member's id
//! and does not change: subscriptions, grants, places, files, ids of messages, the owner's role. The key that signs a
//! mesh's invites is another one and stays.
//!
//! It believes that both keys are the member's: who asks must have seen them sign.

use std::sync::Arc;

use hostel_wire::frames::client::Succession;
use hostel_wire::frames::server::RetiredKey;
use hostel_wire::iso;
use hostel_wire::keys::PublicKey;
use serde_json::json;

use super::change::What;
use super::error::RegistryError;
use super::lineage::MOST_SUCCESSIONS;
use super::mesh::Mesh;
use super::records::{Held, MemberRecord};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A member that has another key.
#[derive(Debug, Clone)]
pub struct Rotated {
    /// The mesh as it is now.
    pub mesh: Arc<Mesh>,
    /// The member.
    pub member: Arc<Held<MemberRecord>>,
    /// Until when the old key leads to it.
    pub until_ms: u64,
    /// It was so before: an answer was lost.
    pub already: bool,
}

/// A key that another one replaces.
pub(super) struct Replaced {
    pub(super) pubkey: String,
    /// When it was replaced.
    pub(super) at: u64,
    /// What both keys signed.
    pub(super) succession: Option<Succession>,
}

impl<E: Engine> Registry<E> {
    /// Gives a member another key. Asking again changes nothing and says the same.
    /// `proof` is what both keys signed; members that know only the old key follow it to the new one.
    pub async fn rotate_key(
        &self,
        mesh: &str,
        member: &str,
        old: &str,
        new: &str,
        proof: Option<Succession>,
    ) -> Result<Rotated, RegistryError> {
        let (mesh, member, old, new) = (mesh.to_owned(), member.to_owned(), old.to_owned(), new.to_owned());
        self.in_turn(|inner| async move { inner.rotate_key(&mesh, &member, &old, &new, proof).await }).await
    }
}

impl<E: Engine> Inner<E> {
    async fn rotate_key(
        &self,
        mesh: &str,
        id: &str,
        old: &str,
        new: &str,
        proof: Option<Succession>,
    ) -> Result<Rotated, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        let member = snapshot.active_member(id)?;
        if member.sponsor.is_some() {
            return Err(RegistryError::Forbidden("the key of a member for a while is not replaced".to_owned()));
        }
        if !is_usable(new) {
            return Err(RegistryError::Invalid("`newPubkey` is no public key".to_owned()));
        }
        if member.pubkey == new {
            let before = member.retired.iter().chain(&member.past).find(|key| key.pubkey == old);
            let before = before.ok_or(RegistryError::KeyReplaced)?;
            let until_ms = before.until;
            return Ok(Rotated { mesh: Arc::clone(&snapshot), member: Arc::clone(member), until_ms, already: true });
        }
        if member.pubkey != old {
            return Err(RegistryError::KeyReplaced);
        }
        if is_taken(&snapshot, member, new) {
            return Err(RegistryError::Taken("this key is in use, or was".to_owned()));
        }
        let now = self.clock.now_ms();
        let (retired, past) = self.settled(member, now);
        if retired.len() + past.len() >= self.settings.retired_keys {
            return Err(RegistryError::Full("this member's key was replaced too often lately".to_owned()));
        }
        let replaced = Replaced { pubkey: old.to_owned(), at: now, succession: proof };
        self.replace(&snapshot, member, vec![replaced], new).await
    }

    /// Gives a member another key in the place of these, the first of which it has, each with when it was replaced.
    pub(super) async fn replace(
        &self,
        snapshot: &Mesh,
        member: &MemberRecord,
        replaced: Vec<Replaced>,
        new: &str,
    ) -> Result<Rotated, RegistryError> {
        let (mesh, id) = (snapshot.id(), &member.id);
        let now = self.clock.now_ms();
        let (mut retired, mut past) = self.settled(member, now);
        let until = now.saturating_add(self.settings.rotation_hours * HOUR_MS);
        let (old, between) = (member.pubkey.clone(), replaced.len().saturating_sub(1));
        let mut lineage = member.lineage.clone();
        for Replaced { pubkey, at, succession } in replaced {
            retired.push(RetiredKey { pubkey, at, until });
            lineage.extend(succession);
        }
        lineage.drain(..lineage.len().saturating_sub(MOST_SUCCESSIONS));
        // Many at once make room for themselves; one alone was refused before it came here.
        past.drain(..(retired.len() + past.len()).saturating_sub(self.settings.retired_keys).min(past.len()));
        let mut update = Update::of(mesh);
        let mut body = json!({"name": member.name, "oldPubkey": old, "newPubkey": new, "graceUntil": iso(until)});
        if between > 0 {
            body["keysBetween"] = between.into();
        }
        self.tell(&mut update, kind::MEMBER_KEYPAIR_ROTATED, id, id, body);
        update.news(What::KeyRotated {
            member: id.clone(),
            old_pubkey: old,
            new_pubkey: new.to_owned(),
            until_ms: until,
        });
        update.member(MemberRecord { pubkey: new.to_owned(), retired, past, lineage, ..member.clone() });
        let mesh = self.commit(update).await?;
        let member = mesh.member(id).cloned().ok_or_else(|| RegistryError::NotFound(format!("no member `{id}`")))?;
        Ok(Rotated { mesh, member, until_ms: until, already: false })
    }

    /// A member's earlier keys as they are now: those in their grace, and those that only tell of their time.
    fn settled(&self, member: &MemberRecord, now: u64) -> (Vec<RetiredKey>, Vec<RetiredKey>) {
        let forgotten = now.saturating_sub(self.settings.key_days * DAY_MS);
        let (retired, over): (Vec<_>, Vec<_>) = member.retired.iter().cloned().partition(|key| now < key.until);
        let past = member.past.iter().cloned().chain(over).filter(|key| key.at >= forgotten).collect();
        (retired, past)
    }

    /// Ends the grace of keys whose time is over.
    pub(super) fn end_graces(&self, update: &mut Update, mesh: &Mesh, now: u64) {
        for member in mesh.members().filter(|member| !member.retired.is_empty() || !member.past.is_empty()) {
            let (retired, past) = self.settled(member, now);
            if retired == member.retired && past == member.past {
                continue;
            }
            update.news(What::KeyOver { member: member.id.clone() });
            update.member(MemberRecord { retired, past, ..member.record.clone() });
        }
    }
}

/// Whether a text is a key that messages can be sealed for.
pub(super) fn is_usable(key: &str) -> bool {
    PublicKey::from_hex(key).is_some_and(|parsed| parsed.x25519().is_ok() && parsed.hex() == key)
}

/// Whether a key is somebody's, or was this member's: none comes back.
pub(super) fn is_taken(mesh: &Mesh, member: &MemberRecord, key: &str) -> bool {
    mesh.member_by_key(key).is_some()
        || mesh.member_by_session(key).is_some()
        || mesh.record.owner_pubkey == key
        || member.past.iter().any(|past| past.pubkey == key)
}
