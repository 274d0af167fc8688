//! A member with a new key: another member that takes its place, while the old one is on its way out.
//!
//! Invariant: the old key counts until the announced time, so that what is on its way to it still arrives. Whose place a
//! member has taken is never forgotten: ids of messages that were accepted before are the old one's, whoever of the two
//! sends them, so what has arrived from one does not arrive from the other.

use hostel_wire::authorship::Remint;
use hostel_wire::keys::PublicKey;
use hostel_wire::{ids, iso};
use serde_json::json;

use super::change::What;
use super::error::RegistryError;
use super::join::Joined;
use super::names::unique;
use super::records::{MemberRecord, Role};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;

/// The old member leaves after this many hours at most.
const MOST_HOURS: u32 = 24 * 30;

/// Members before the predecessor that are remembered. What those before them had accepted is too old to be sent long
/// before there are so many, unless somebody wants that.
const MOST_ANCESTORS: usize = 63;

impl<E: Engine> Registry<E> {
    /// Enrols a member's new key as a member of its own, with the old one's name, groups and role; an owner's successor is
    /// an administrator until the owner is gone. That both keys are theirs must have been shown. Asking again gives the
    /// same answer.
    pub async fn succeed(
        &self,
        mesh: &str,
        member: &str,
        new_pubkey: &str,
        after_hours: u32,
        proof: Option<Remint>,
    ) -> Result<Joined, RegistryError> {
        let (mesh, member, key) = (mesh.to_owned(), member.to_owned(), new_pubkey.to_owned());
        self.in_turn(|inner| async move { inner.succeed(&mesh, &member, &key, after_hours, proof).await }).await
    }
}

impl<E: Engine> Inner<E> {
    async fn succeed(
        &self,
        mesh: &str,
        old: &str,
        key: &str,
        after_hours: u32,
        proof: Option<Remint>,
    ) -> Result<Joined, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        let old = snapshot.active_member(old)?;
        let key = PublicKey::from_hex(key).filter(|key| key.x25519().is_ok());
        let key = key.ok_or_else(|| RegistryError::Invalid("no public key".to_owned()))?.hex();
        match snapshot.member_by_key(&key) {
            Some(known) if known.is_active() && known.predecessor.as_deref() == Some(&old.id) => {
                return Ok(Joined::of(&snapshot, known, true));
            }
            Some(_) => return Err(RegistryError::Taken("this key is a member's already".to_owned())),
            None => {}
        }
        if snapshot.by_name.len() >= self.settings.members {
            return Err(RegistryError::Full("the mesh is full".to_owned()));
        }
        let now = self.clock.now_ms();
        let at = now + u64::from(after_hours.min(MOST_HOURS)) * 3_600_000;
        let new = MemberRecord {
            id: ids::ulid(now),
            pubkey: key,
            // Earlier keys lead to whom they belonged to.
            retired: Vec::new(),
            past: Vec::new(),
            role: old.role.min(Role::Admin),
            joined_ms: now,
            joined_seq: self.next_seq(mesh),
            predecessor: Some(old.id.clone()),
            remint: proof,
            // The old one's words are not the new one's.
            statement: None,
            lineage: Vec::new(),
            ancestors: old.predecessor.iter().chain(&old.ancestors).take(MOST_ANCESTORS).cloned().collect(),
            leaves_ms: None,
            ..old.record.clone()
        };
        let old_name = unique(&format!("{}-old", old.name), |name| snapshot.name_taken(name, &old.id));
        let mut update = Update::of(mesh);
        self.tell(&mut update, kind::MEMBER_RETIRING, &old.id, &old.id, json!({"at": iso(at), "successor": new.id}));
        let renamed = What::Renamed { member: old.id.clone(), old_name: old.name.clone(), name: old_name.clone() };
        // First the name is given up, then it is taken.
        update.member(MemberRecord { name: old_name, leaves_ms: Some(at), ..old.record.clone() });
        for topic in snapshot.topics().filter(|topic| topic.is_general() || snapshot.subscribed(&topic.id, &old.id)) {
            self.open_sub(&mut update, &snapshot, &topic.id, &new.id);
        }
        let body = json!({"name": new.name, "pubkey": new.pubkey, "predecessor": old.id});
        self.tell(&mut update, kind::MEMBER_JOINED, &old.id, &new.id, body);
        update.news(What::Joined { member: new.id.clone() });
        // Told after the successor is known, which shows that the old one has given its name away.
        update.news(renamed);
        update.member(new.clone());
        self.commit(update).await?;
        Ok(Joined::of(&snapshot, &new, false))
    }
}
