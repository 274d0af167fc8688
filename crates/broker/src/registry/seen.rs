//! When and from where members were seen, what they said of themselves, how far they have read, whose session is whose.
//!
//! Invariant: none of this guards an entry of the log, so none of it can hold one up.

use std::sync::Arc;

use hostel_wire::keys::PublicKey;
use serde_json::json;

use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{CursorRecord, SeenRecord, SessionRecord, bucket};
use super::update::{Update, bytes};
use super::{Engine, Registry};
use crate::audit::kind;
use crate::engine::{KvBatch, KvOp};

/// A summary is for people, and short: as long as daemons take one.
const SUMMARY: usize = 4096;

/// A session's record is not written again for a while.
const AGAIN_MS: u64 = 3_600_000;

/// What was known of a member when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What was kept of it; `None`: it comes for the first time.
    pub before: Option<SeenRecord>,
    /// It comes from another host than the last time: that host's fingerprint.
    pub clone_of: Option<String>,
}

impl<E: Engine> Registry<E> {
    /// A member says hello. Coming from another host than before is recorded in the audit.
    pub async fn hello_seen(
        &self,
        mesh: &str,
        member: &str,
        host_fingerprint: Option<&str>,
    ) -> Result<Seen, RegistryError> {
        let at_ms = self.inner.clock.now_ms();
        let (before, record) = {
            let mut all = self.inner.seen.lock();
            let key = (mesh.to_owned(), member.to_owned());
            let before = all.get(&key).cloned();
            let mut record = SeenRecord { at_ms, ..before.clone().unwrap_or_default() };
            if let Some(fingerprint) = host_fingerprint {
                record.host_fingerprint = Some(fingerprint.to_owned());
            }
            all.insert(key, record.clone());
            (before, record)
        };
        let last = before.as_ref().and_then(|before| before.host_fingerprint.clone());
        let clone_of = last.filter(|last| host_fingerprint.is_some_and(|now| now != last));
        let mut batch = KvBatch::of([KvOp::put(bucket::SEEN, &format!("{mesh}/{member}"), bytes(&record))]);
        if let Some(last) = &clone_of {
            let body = json!({"lastHostFingerprint": last, "hostFingerprint": host_fingerprint});
            batch.audit.push(self.inner.event(mesh, kind::CLONE_SUSPECTED, member, member, body));
        }
        self.inner.engine.commit(batch).await?;
        Ok(Seen { before, clone_of })
    }

    /// What is known of a member.
    #[must_use]
    pub fn seen(&self, mesh: &str, member: &str) -> Option<SeenRecord> {
        self.inner.seen.lock().get(&(mesh.to_owned(), member.to_owned())).cloned()
    }

    /// A member says something of itself, or is still there. What is `None` stays.
    pub async fn note_presence(
        &self,
        mesh: &str,
        member: &str,
        status: Option<String>,
        summary: Option<String>,
        visible: Option<bool>,
    ) -> Result<(), RegistryError> {
        if summary.as_ref().is_some_and(|summary| summary.len() > SUMMARY) {
            return Err(RegistryError::Invalid("`summary` is too long".to_owned()));
        }
        if status.as_ref().is_some_and(|status| !matches!(status.as_str(), "idle" | "working" | "dnd")) {
            return Err(RegistryError::Invalid("`status` must be `idle`, `working` or `dnd`".to_owned()));
        }
        let record = {
            let mut all = self.inner.seen.lock();
            let record = all.entry((mesh.to_owned(), member.to_owned())).or_default();
            record.at_ms = self.inner.clock.now_ms();
            record.status = status.or(record.status.take());
            record.summary = summary.or(record.summary.take());
            record.visible = visible.or(record.visible);
            record.clone()
        };
        self.inner.engine.put(bucket::SEEN, &format!("{mesh}/{member}"), bytes(&record)).await?;
        Ok(())
    }

    /// How far a member has read, as it last said.
    #[must_use]
    pub fn cursor(&self, mesh: &str, member: &str) -> Option<CursorRecord> {
        self.inner.cursors.lock().get(&(mesh.to_owned(), member.to_owned())).cloned()
    }

    /// Keeps how far a member has read. Within one log it only goes forward. Ask for it once a second at most.
    pub async fn cursor_put(&self, mesh: &str, member: &str, epoch: &str, seq: u64) -> Result<(), RegistryError> {
        let record = {
            let mut all = self.inner.cursors.lock();
            let record = all.entry((mesh.to_owned(), member.to_owned())).or_default();
            if record.epoch == epoch && record.seq >= seq {
                return Ok(());
            }
            *record = CursorRecord { epoch: epoch.to_owned(), seq, at_ms: self.inner.clock.now_ms() };
            record.clone()
        };
        self.inner.engine.put(bucket::CURSOR, &format!("{mesh}/{member}"), bytes(&record)).await?;
        Ok(())
    }

    /// A session of a member says hello: its key leads to the member from now on, also when it has gone.
    pub async fn session_seen(&self, mesh: &str, session: &str, member: &str) -> Result<Arc<Mesh>, RegistryError> {
        let session = PublicKey::from_hex(session).map(|key| key.hex());
        let session = session.ok_or_else(|| RegistryError::Invalid("no session key".to_owned()))?;
        let (mesh, member) = (mesh.to_owned(), member.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&member)?;
            let now = inner.clock.now_ms();
            match snapshot.sessions.get(&session) {
                Some(known) if known.member != member => {
                    return Err(RegistryError::Taken("this session key is another member's".to_owned()));
                }
                Some(known) if now.saturating_sub(known.at_ms) < AGAIN_MS => return Ok(snapshot),
                _ => {}
            }
            if snapshot.member_by_key(&session).is_some_and(|other| other.id != member) {
                return Err(RegistryError::Taken("this session key is another member's".to_owned()));
            }
            let mut update = Update::of(&mesh);
            let mut others: Vec<_> = snapshot
                .sessions
                .iter()
                .filter(|(key, record)| record.member == member && **key != session)
                .map(|(key, record)| (record.at_ms, key))
                .collect();
            others.sort_unstable();
            let many = (others.len() + 1).saturating_sub(inner.settings.sessions);
            for (_, key) in others.into_iter().take(many) {
                update.session(key, None);
            }
            update.session(&session, Some(SessionRecord { member, at_ms: now }));
            inner.commit(update).await
        })
        .await
    }
}
