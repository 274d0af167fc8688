//! A member that comes with a later key than these records know, and shows how it came by it.
//!
//! That happens after the records were put back from a copy: whoever has replaced its key since is unknown, and has nothing
//! to sign with but the new one. What both keys signed at each rotation it still has, and that is enough to follow it from
//! the key that is known here to the one it has now.
//!
//! Invariant: only the key that counts here can be followed, never one that was replaced here: what an earlier key signs, or
//! signed, decides nothing any more. So who holds a stolen key that this broker knows to be replaced gets nowhere, and where
//! two have gone on from the same key, the one that was heard first stays; the other is told.

use hostel_wire::frames::client::Succession;
use hostel_wire::hello::is_succession;

use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::MemberRecord;
use super::rotate::{Replaced, Rotated, is_taken, is_usable};
use super::{Engine, Inner, Registry};

/// Keys that are followed at most.
pub const MOST_SUCCESSIONS: usize = 64;

impl<E: Engine> Registry<E> {
    /// Gives a member the key at the end of its lineage. That it holds that key must have been shown.
    pub async fn catch_up(
        &self,
        mesh: &str,
        member: &str,
        key: &str,
        lineage: &[Succession],
    ) -> Result<Rotated, RegistryError> {
        let (mesh, member, key) = (mesh.to_owned(), member.to_owned(), key.to_owned());
        let lineage = lineage.to_vec();
        self.in_turn(|inner| async move { inner.catch_up(&mesh, &member, &key, &lineage).await }).await
    }
}

impl<E: Engine> Inner<E> {
    async fn catch_up(
        &self,
        mesh: &str,
        id: &str,
        key: &str,
        lineage: &[Succession],
    ) -> Result<Rotated, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        let member = snapshot.active_member(id)?;
        if member.sponsor.is_some() {
            return Err(RegistryError::Forbidden("the key of a member for a while is not replaced".to_owned()));
        }
        let since = followed(&snapshot, member, key, lineage)?;
        let now = self.clock.now_ms();
        let replaced = |step: &Succession| Replaced {
            pubkey: step.old_pubkey.clone(),
            at: step.timestamp.min(now),
            succession: Some(step.clone()),
        };
        let replaced = since.iter().map(replaced).collect();
        self.replace(&snapshot, member, replaced, key).await
    }
}

/// The part of a lineage that leads from the key that counts here to this one.
pub fn followed<'a>(
    mesh: &Mesh,
    member: &MemberRecord,
    key: &str,
    lineage: &'a [Succession],
) -> Result<&'a [Succession], RegistryError> {
    let unproven = |why: &str| RegistryError::Unproven(why.to_owned());
    if lineage.len() > MOST_SUCCESSIONS {
        return Err(unproven("the key's lineage is too long"));
    }
    // What costs nothing comes first: anybody can send this.
    let ends = lineage.last().is_some_and(|last| last.new_pubkey == key);
    let joined = lineage.windows(2).all(|pair| matches!(pair, [one, two] if one.new_pubkey == two.old_pubkey));
    if !ends || !joined {
        return Err(unproven("the key's lineage does not lead to it"));
    }
    let Some(first) = lineage.iter().rposition(|step| step.old_pubkey == member.pubkey) else {
        let replaced = |step: &Succession| {
            member.retired.iter().chain(&member.past).any(|known| known.pubkey == step.old_pubkey)
                && is_succession(mesh.id(), &member.id, step)
        };
        return Err(match lineage.iter().any(replaced) {
            true => RegistryError::KeyReplaced,
            false => unproven("the key's lineage does not begin with a key that is known here"),
        });
    };
    let since = lineage.get(first..).unwrap_or_default();
    if !since.iter().all(|step| is_usable(&step.new_pubkey) && is_succession(mesh.id(), &member.id, step)) {
        return Err(unproven("the key's lineage is not signed by its keys"));
    }
    match since.iter().any(|step| is_taken(mesh, member, &step.new_pubkey)) {
        true => Err(RegistryError::Taken("a key of the lineage is in use, or was".to_owned())),
        false => Ok(since),
    }
}
