//! What time does: those who announced it leave, files and invites end, what nobody can need any more is forgotten.
//!
//! Invariant: a bounded piece of work per call; whoever calls comes again.

use std::collections::HashMap;

use hostel_wire::Clock;

use super::change::What;
use super::error::RegistryError;
use super::files::blob_id;
use super::mesh::Mesh;
use super::records::{MemberRecord, bucket};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::engine::{KvOp, Pruned};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Blobs that are looked at per call, and batches of the log that are removed.
const BLOBS: usize = 1000;
const BATCHES: usize = 100;

/// A blob whose record is not there after this was never finished.
const ORPHAN_MS: u64 = HOUR_MS;

/// Sessions that were not seen for so long.
const SESSION_MS: u64 = 30 * DAY_MS;

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Members whose announced time has come.
    pub left: usize,
    /// Members and invites that were forgotten.
    pub forgotten: usize,
    /// Files that ended.
    pub files: usize,
    /// Blobs that belonged to nothing.
    pub orphans: usize,
    /// Entries and ids that were removed from the logs, and records from the audit.
    pub pruned: Pruned,
}

impl<E: Engine> Registry<E> {
    /// Does what is due. Often enough is once a minute.
    pub async fn sweep(&self) -> Result<Swept, RegistryError> {
        let mut swept = Swept::default();
        for mesh in self.meshes() {
            let id = mesh.id().to_owned();
            let part = self.in_turn(|inner| async move { inner.sweep_mesh(&id).await }).await?;
            swept.left += part.left;
            swept.forgotten += part.forgotten;
            swept.files += part.files;
        }
        swept.orphans = self.sweep_blobs().await?;
        for _ in 0..BATCHES {
            let part = self.inner.engine.prune(self.inner.ages.now_ms()).await?;
            swept.pruned.entries += part.entries;
            swept.pruned.ids += part.ids;
            swept.pruned.audit += part.audit;
            swept.pruned.more = part.more;
            if !part.more {
                break;
            }
        }
        Ok(swept)
    }

    async fn sweep_blobs(&self) -> Result<usize, RegistryError> {
        // Files have the machine's time.
        let before = Clock::system().now_ms().saturating_sub(ORPHAN_MS);
        let mut orphans = 0;
        for id in self.inner.engine.blob_older(before, BLOBS).await? {
            let known = id
                .split_once('-')
                .is_some_and(|(mesh, file)| self.mesh(mesh).is_some_and(|mesh| mesh.file(file).is_some()));
            if !known {
                self.inner.engine.blob_delete(&id).await?;
                orphans += 1;
            }
        }
        Ok(orphans)
    }
}

impl<E: Engine> Inner<E> {
    async fn sweep_mesh(&self, id: &str) -> Result<Swept, RegistryError> {
        let mut swept = Swept::default();
        let now = self.ages.now_ms();
        let before = now.saturating_sub(self.settings.remember_days * DAY_MS);
        let snapshot = self.snapshot(id)?;
        // One after the other: two who leave at once would both raise the same topic's epoch by one.
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        let unseen = now.saturating_sub(self.settings.ward_hours * HOUR_MS);
        let lost = |member: &MemberRecord| member.sponsor.is_some() && self.last_seen(id, member) < unseen;
        let goes = |member: &MemberRecord| due(member.leaves_ms) || lost(member);
        let mut leaving: Vec<_> =
            snapshot.active().filter(|member| goes(member)).map(|member| member.id.clone()).collect();
        leaving.sort_unstable();
        for member in leaving {
            let snapshot = self.snapshot(id)?;
            // An owner whose heir has gone meanwhile stays until there is another.
            let found = snapshot.member(&member).filter(|found| found.is_active() && snapshot.can_do_without(found));
            let Some(found) = found else { continue };
            let mut update = Update::of(id);
            self.take_leave(&mut update, &snapshot, found);
            self.commit(update).await?;
            swept.left += 1;
        }
        let snapshot = self.snapshot(id)?;
        let mut update = Update::of(id);
        for invite in snapshot.invites().filter(|invite| invite.expires_ms < before) {
            update.invite(&invite.id, None);
            swept.forgotten += 1;
        }
        let forgettable = |member: &MemberRecord| {
            let before = if member.sponsor.is_some() { now.saturating_sub(DAY_MS) } else { before };
            member.left_ms.is_some_and(|left| left < before)
        };
        let members: Vec<_> = snapshot.members().filter(|member| forgettable(member)).collect();
        for member in &members {
            self.forget(&mut update, &snapshot, &member.id);
        }
        swept.forgotten += members.len();
        if !members.is_empty() {
            // The roster's revision must not go back at the next start, and nothing of them is left to tell it.
            update.mesh(snapshot.record.record.clone());
        }
        self.end_graces(&mut update, &snapshot, now);
        let old = now.saturating_sub(SESSION_MS);
        for (key, _) in snapshot.sessions.iter().filter(|(_, session)| session.at_ms < old) {
            update.session(key, None);
        }
        self.forget_strays(&mut update, &snapshot);
        let mut ended = Vec::new();
        for file in snapshot.files().filter(|file| !file.is_kept(now)) {
            update.file(&file.id, None);
            update.news(What::FileDeleted { file: file.id.clone() });
            ended.push(file.id.clone());
        }
        swept.files = ended.len();
        if !update.is_empty() {
            self.commit(update).await?;
        }
        for file in ended {
            self.engine.blob_delete(&blob_id(id, &file)).await?;
        }
        Ok(swept)
    }

    /// Removes what is kept for members and sessions that nobody remembers any more.
    fn forget_strays(&self, update: &mut Update, mesh: &Mesh) {
        let known = |key: &str| match key.split_once('.') {
            Some((member, session)) => mesh.member(member).is_some() && mesh.sessions.contains_key(session),
            None => mesh.member(key).is_some(),
        };
        let mut remove = |bucket: &str, keys: Vec<String>| {
            for key in keys {
                update.raw(KvOp::delete(bucket, &format!("{}/{key}", mesh.id())));
            }
        };
        remove(bucket::CURSOR, strays(&mut self.cursors.lock(), mesh.id(), known));
        remove(bucket::SEEN, strays(&mut self.seen.lock(), mesh.id(), known));
    }

    fn last_seen(&self, mesh: &str, member: &MemberRecord) -> u64 {
        let seen = self.seen.lock().get(&(mesh.to_owned(), member.id.clone())).map(|seen| seen.at_ms);
        seen.unwrap_or(0).max(member.joined_ms)
    }

    /// Removes everything about a member that left long ago.
    fn forget(&self, update: &mut Update, mesh: &Mesh, member: &str) {
        for (topic, _) in mesh.subs.iter().filter(|(_, subs)| subs.contains_key(member)) {
            update.sub(topic, member, None);
        }
        for (topic, epochs) in mesh.holders.iter() {
            for (epoch, _) in epochs.iter().filter(|(_, ids)| ids.contains_key(member)) {
                update.seal(topic, *epoch, member, None);
            }
        }
        for (receiver, grants) in mesh.grants.iter() {
            for sender in grants.keys().filter(|sender| receiver == member || *sender == member) {
                update.grant(receiver, sender, None);
            }
        }
        for (key, _) in mesh.sessions.iter().filter(|(_, session)| session.member == member) {
            update.session(key, None);
        }
        self.seen.lock().remove(&(mesh.id().to_owned(), member.to_owned()));
        self.cursors.lock().remove(&(mesh.id().to_owned(), member.to_owned()));
        update.forget_member(member);
    }
}

/// Takes out what is kept of a mesh under keys that nobody knows; the keys.
fn strays<T>(kept: &mut HashMap<(String, String), T>, mesh: &str, known: impl Fn(&str) -> bool) -> Vec<String> {
    let gone: Vec<_> = kept.keys().filter(|(of, key)| of == mesh && !known(key)).cloned().collect();
    for key in &gone {
        kept.remove(key);
    }
    gone.into_iter().map(|(_, key)| key).collect()
}
