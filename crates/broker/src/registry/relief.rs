//! Room in a log that is nearly full: what everybody has goes before its time.
//!
//! Invariant: nothing goes that a member who is in the mesh has not said to have stored. If that is not enough the log stays
//! full, and senders keep what they have until there is room: the oldest entry is as much a promise as the newest.

use std::collections::HashMap;

use super::{Engine, Registry, RegistryError};
use crate::engine::Room;

/// Batches that are removed per call and mesh.
const BATCHES: usize = 200;

/// How far members have read, by their ids: what they would still have after a power cut.
pub type Reading = HashMap<String, u64>;

/// A log that is nearly full all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    /// Whose log it is: the mesh's name.
    pub mesh: String,
    /// How full.
    pub room: Room,
    /// The member for whom the oldest entries are kept, if it is for one.
    pub waits_for: Option<String>,
}

impl<E: Engine> Registry<E> {
    /// Makes room where there is little; the logs for which that was not enough. `reading` says how far the members of a
    /// mesh who are connected have come, which is newer than what is kept of it, and may be less.
    pub async fn relieve(&self, reading: impl Fn(&str) -> Reading) -> Result<Vec<Short>, RegistryError> {
        let mut short = Vec::new();
        for mesh in self.meshes() {
            let engine = &self.inner.engine;
            let Some(before) = engine.room(mesh.id()).filter(Room::is_short) else { continue };
            let (read, last_reader) = self.read_by_all(mesh.id(), &reading(mesh.id()));
            for _ in 0..BATCHES {
                if !engine.trim(mesh.id(), read, before.enough()).await?.more {
                    break;
                }
            }
            if let Some(room) = engine.room(mesh.id()).filter(Room::is_short) {
                short.push(Short { mesh: mesh.record.slug.clone(), room, waits_for: last_reader });
            }
        }
        Ok(short)
    }

    /// Up to where every member has read a log, and the name of who has read least of it, if anything is left to read.
    fn read_by_all(&self, mesh: &str, reading: &Reading) -> (u64, Option<String>) {
        let (Some(snapshot), Some(bounds)) = (self.mesh(mesh), self.inner.engine.bounds(mesh)) else {
            return (0, None);
        };
        let read = |member: &super::MemberRecord| {
            let kept = || self.cursor(mesh, &member.id).filter(|kept| kept.epoch == bounds.epoch).map(|kept| kept.seq);
            let read = reading.get(&member.id).copied().or_else(kept);
            // Nobody is owed what was said before they came.
            read.unwrap_or_else(|| member.joined_seq.saturating_sub(1))
        };
        let least = snapshot.active().map(|member| (read(member), member)).min_by_key(|(read, _)| *read);
        match least {
            Some((read, member)) if read < bounds.last_seq => (read, Some(member.name.clone())),
            _ => (bounds.last_seq, None),
        }
    }
}
