//! The member's keys: the one that counts, the one that is about to, and what is left of those before.
//!
//! A rotation goes through four states, and each is on the disk before the next begins:
//! 1. *drawn*: the new key stands in `keypair.next.json`. Nobody has heard of it.
//! 2. *committed*: the old key's box half stands in `keypair-archive.json`. From here on it is carried out.
//! 3. *told*: the broker has the new key for this member.
//! 4. *adopted*: what both keys signed stands in `keypair-lineage.json`, `config.json` and `keypair.json` hold the new one,
//!    and `keypair.next.json` is gone.
//!
//! Invariant: whatever is killed in between, both keys are at hand until the broker has said which one counts: by welcoming
//! the old one it says that it has not heard, and is told (again); by refusing it, and welcoming the new one, that it has.
//! A rotation that was drawn and not committed never happened. What was sealed for any key that may count, or did until a
//! while ago, can be opened at every moment. The half of an old key that signs is kept nowhere; a broker that is set back to
//! an earlier key is led from it to the one that counts by the lineage.
//!
//! It speaks to nobody: the link does (`link::rotation`).

mod disk;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hostel_wire::authorship::MAX_BODY_SUCCESSIONS;
use hostel_wire::frames::client::Succession;
use hostel_wire::hello::succeed;
use hostel_wire::keys::{BoxKey, PublicKey, SecretKey};
use hostel_wire::{Clock, iso};
use parking_lot::{Mutex, RwLock};
use serde_json::json;
use tokio::sync::watch;

use crate::home::archive::{Archive, ArchivedKey};
use crate::home::lineage::Lineage;
use crate::home::next::Next;
use crate::home::settings::Crypto;
use crate::home::{Live, MeshDir, Places, Settings};
use crate::log::Log;
use crate::mesh::Refusal;

/// How long messages tell of a rotation: as long as brokers keep messages.
const ROTATIONS_TOLD_MS: u64 = 30 * 24 * 3_600_000;

/// A step of a rotation that has just been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The new key is on the disk.
    Drawn,
    /// The old one is in the archive.
    Archived,
    /// The broker has said that it has the new one.
    Told,
    /// What leads from the old one to the new one is on the disk.
    Linked,
    /// `config.json` holds the new one.
    Configured,
    /// `keypair.json` does.
    Kept,
}

impl Step {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [Self::Drawn, Self::Archived, Self::Told, Self::Linked, Self::Configured, Self::Kept];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drawn => "drawn",
            Self::Archived => "archived",
            Self::Told => "told",
            Self::Linked => "linked",
            Self::Configured => "configured",
            Self::Kept => "kept",
        }
    }
}

/// Is told of each step as it is taken; for tests that end everything at one.
pub type AtStep = Arc<dyn Fn(Step) + Send + Sync>;

/// With what a keyring is opened, besides the key itself.
#[derive(Clone, Default)]
pub struct KeyOptions {
    /// Where `config.json` is. None: the key cannot be replaced.
    pub places: Option<Places>,
    /// Is told of each step of a rotation.
    pub at_step: Option<AtStep>,
}

/// A member's key.
pub(crate) struct MemberKey {
    pub(crate) key: SecretKey,
    pub(crate) pubkey: String,
}

impl MemberKey {
    fn new(key: SecretKey) -> Arc<Self> {
        Arc::new(Self { pubkey: key.public().hex(), key })
    }

    pub(crate) fn public(&self) -> PublicKey {
        self.key.public()
    }
}

/// The keys.
pub(crate) struct Keyring {
    mesh_id: String,
    member_id: String,
    dir: Option<MeshDir>,
    options: KeyOptions,
    clock: Clock,
    /// By which the time of an earlier key is over.
    ages: Clock,
    log: Log,
    settings: Live<Settings>,
    /// One at a time writes files. Whoever only wants a key does not wait for the disk.
    turn: Mutex<()>,
    state: RwLock<State>,
    changed: watch::Sender<u64>,
}

struct State {
    current: Arc<MemberKey>,
    next: Option<Arc<MemberKey>>,
    archive: Archive,
    lineage: Lineage,
    /// The new key counts and is not in all files yet.
    unsaved: Option<PublicKey>,
    /// Why the last rotation was given up.
    refused: Option<Refusal>,
}

/// What a rotation came to, as the keys know it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// It is under way.
    Open,
    /// The key counts.
    Done,
    /// It was given up.
    Refused(Refusal),
}

impl Keyring {
    /// The keys as the disk has them, with the one that `config.json` holds.
    pub(crate) fn open(parts: Opening) -> std::io::Result<Self> {
        let Opening { mesh_id, member_id, key, dir, options, settings, clock, ages, log } = parts;
        let current = MemberKey::new(key);
        let found = match &dir {
            Some(dir) => disk::find(dir, &mesh_id, &member_id, &current.key, clock.now_ms(), &log)?,
            None => disk::Kept::default(),
        };
        let state = State {
            current,
            next: found.next.map(|next| MemberKey::new(next.key)),
            archive: found.archive,
            lineage: found.lineage,
            unsaved: None,
            refused: None,
        };
        // What is over is let go of later: the broker may have another opinion about the time.
        Ok(Self {
            mesh_id,
            member_id,
            dir,
            options,
            clock,
            ages,
            log,
            settings,
            turn: Mutex::new(()),
            state: RwLock::new(state),
            changed: watch::channel(0).0,
        })
    }

    /// The key that counts.
    pub(crate) fn current(&self) -> Arc<MemberKey> {
        Arc::clone(&self.state.read().current)
    }

    /// The key that the broker is to hear of, or may have heard of.
    pub(crate) fn next(&self) -> Option<Arc<MemberKey>> {
        self.state.read().next.clone()
    }

    /// The key that counts, and what leads to it from earlier ones.
    pub(crate) fn descent(&self) -> (Arc<MemberKey>, Vec<Succession>) {
        let state = self.state.read();
        (Arc::clone(&state.current), state.lineage.steps().to_vec())
    }

    /// The latest rotations that led to a key of ours, for readers that know only an earlier one: as long as a broker
    /// keeps messages, everybody who reads them all hears of each rotation with the first message after it. Who was away
    /// for longer has it from the roster.
    pub(crate) fn recent_lineage(&self, key: &MemberKey, now_ms: u64) -> Vec<Succession> {
        let state = self.state.read();
        let steps = state.lineage.steps();
        let Some(end) = steps.iter().rposition(|step| step.new_pubkey == key.pubkey) else { return Vec::new() };
        let recent = |step: &&Succession| now_ms.saturating_sub(step.timestamp) < ROTATIONS_TOLD_MS;
        let mut told: Vec<Succession> =
            steps.iter().take(end + 1).rev().take_while(recent).take(MAX_BODY_SUCCESSIONS).cloned().collect();
        told.reverse();
        told
    }

    /// The key that counts and those before it, as far as they are remembered.
    pub(crate) fn publics(&self) -> Vec<PublicKey> {
        let state = self.state.read();
        let earlier = state.lineage.steps().iter().rev().filter_map(|step| PublicKey::from_hex(&step.old_pubkey));
        std::iter::once(state.current.public()).chain(earlier).collect()
    }

    /// Changes whenever the keys do.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until another key counts.
    pub(crate) async fn left(&self, key: &MemberKey) {
        let mut changed = self.watch();
        while self.current().pubkey == key.pubkey {
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Earlier keys that are kept.
    pub(crate) fn archived(&self) -> usize {
        self.state.read().archive.keys().len()
    }

    /// Until when a key that was replaced opens what was sealed for it.
    pub(crate) fn opens_until(&self, pubkey: &str) -> Option<u64> {
        let state = self.state.read();
        state.archive.keys().iter().find(|key| key.public.hex() == pubkey).map(|key| key.expires_ms)
    }

    /// Tries keys other than the one that counts, the latest first, until one opens something. Says also whether it was
    /// one that was replaced.
    pub(crate) fn try_others<T>(&self, open: impl Fn(&BoxKey) -> Option<T>) -> Option<(T, bool)> {
        let now = self.ages.now_ms();
        let (next, archived): (_, Vec<BoxKey>) = {
            let state = self.state.read();
            if state.next.is_none() && state.archive.keys().is_empty() {
                return None;
            }
            let good = state.archive.keys().iter().rev().filter(|key| now < key.expires_ms);
            (state.next.clone(), good.map(|key| key.key.clone()).collect())
        };
        if let Some(opened) = next.and_then(|next| open(&next.key.box_key())) {
            return Some((opened, false));
        }
        archived.iter().find_map(open).map(|opened| (opened, true))
    }

    /// Whether there is anything that could be replaced.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.dir.is_some() && self.options.places.is_some() {
            return Ok(());
        }
        let why = "an ephemeral identity is not rotated: its key is written nowhere, and is a new one at every start";
        Err(Refusal::new("ephemeral_identity", why))
    }

    /// Draws a key and commits to it; says which. One that was committed to before is the one. Blocks on the disk.
    pub(crate) fn begin(&self) -> Result<Arc<MemberKey>, Refusal> {
        self.check()?;
        let Some(dir) = &self.dir else { return Err(Refusal::internal("there is no directory")) };
        self.sweep();
        self.save();
        let _turn = self.turn.lock();
        let (current, mut archive) = {
            let state = self.state.read();
            if let Some(next) = &state.next {
                return Ok(Arc::clone(next));
            }
            if state.unsaved.is_some() {
                let why = "the key of the last rotation could not be written to config.json and keypair.json yet";
                return Err(Refusal::new("rotation_abandoned", why));
            }
            (Arc::clone(&state.current), state.archive.clone())
        };
        let limits = self.settings.get().crypto.clone();
        check_room(&archive, &limits)?;
        let now = self.clock.now_ms();
        let key = MemberKey::new(SecretKey::generate());
        let next = Next {
            mesh_id: self.mesh_id.clone(),
            member_id: self.member_id.clone(),
            old: current.public(),
            key: key.key.clone(),
        };
        let abandoned = |error: std::io::Error, file: &std::path::Path| {
            Next::remove(&dir.keypair_next()).ok();
            let why = format!("the rotation was abandoned, the key is what it was: {}: {error}", file.display());
            Refusal::new("rotation_abandoned", why)
        };
        next.write(&dir.keypair_next(), now).map_err(|error| abandoned(error, &dir.keypair_next()))?;
        self.step(Step::Drawn);
        archive.add(ArchivedKey::of(&current.key, now, limits.key_grace_period_days));
        // The commit point: without it nothing that is on its way to the old key could be opened later.
        archive.write(&dir.keypair_archive()).map_err(|error| abandoned(error, &dir.keypair_archive()))?;
        self.step(Step::Archived);
        {
            let mut state = self.state.write();
            (state.archive, state.refused) = (archive, None);
            state.next = Some(Arc::clone(&key));
        }
        self.tell();
        Ok(key)
    }

    /// What has become of a key that was committed to.
    pub(crate) fn outcome(&self, key: &MemberKey) -> Outcome {
        let state = self.state.read();
        if state.current.pubkey == key.pubkey {
            return Outcome::Done;
        }
        if state.next.as_ref().is_some_and(|next| next.pubkey == key.pubkey) {
            return Outcome::Open;
        }
        let unknown = || Refusal::new("rotation_abandoned", "the rotation was given up");
        Outcome::Refused(state.refused.clone().unwrap_or_else(unknown))
    }

    /// The broker does not want this key: everything is as it was. Blocks on the disk.
    pub(crate) fn abandon(&self, key: &MemberKey, refusal: Refusal) {
        let _turn = self.turn.lock();
        let archive = {
            let mut state = self.state.write();
            if state.next.as_ref().is_none_or(|next| next.pubkey != key.pubkey) {
                return;
            }
            state.next = None;
            let current = state.current.public();
            state.archive.remove(&current);
            state.refused = Some(refusal);
            state.archive.clone()
        };
        if let Some(dir) = &self.dir {
            // First the key, then its archive: in between it is a rotation that was never committed.
            let undone = Next::remove(&dir.keypair_next()).and_then(|()| archive.write(&dir.keypair_archive()));
            if let Err(error) = undone {
                self.log.error("rotation_not_undone", json!({"error": error.to_string()}));
            }
        }
        self.tell();
    }

    /// The broker has this key: it counts. Says which one it follows; None if that is nothing new. Blocks on the disk; what
    /// cannot be written is tried again by `save`, and until then a restart asks the broker.
    pub(crate) fn adopt(&self, key: &Arc<MemberKey>) -> Option<Arc<MemberKey>> {
        self.step(Step::Told);
        let (now, days) = (self.clock.now_ms(), self.settings.get().crypto.key_grace_period_days);
        let before = {
            let _turn = self.turn.lock();
            let mut state = self.state.write();
            if state.current.pubkey == key.pubkey {
                return None;
            }
            let before = std::mem::replace(&mut state.current, Arc::clone(key));
            // Its time begins now: the broker may have been away for longer than it, with what is sealed for it.
            state.archive.remove(&before.public());
            state.archive.add(ArchivedKey::of(&before.key, now, days));
            let said = succeed(&self.mesh_id, &self.member_id, &before.key, &key.key, now);
            state.lineage.add(&before.public(), said);
            if state.next.as_ref().is_some_and(|next| next.pubkey == key.pubkey) {
                state.next = None;
            }
            state.unsaved = Some(before.public());
            before
        };
        self.save();
        self.tell();
        Some(before)
    }

    /// Whether there is anything to be looked after.
    pub(crate) fn is_due(&self) -> bool {
        let (now, state) = (self.ages.now_ms(), self.state.read());
        state.unsaved.is_some() || state.archive.keys().iter().any(|key| key.expires_ms <= now)
    }

    /// What has to be done from time to time. Blocks on the disk.
    pub(crate) fn look_after(&self) {
        self.save();
        self.sweep();
    }

    /// Writes the key that counts where it belongs, if that could not be done before. Blocks on the disk.
    pub(crate) fn save(&self) {
        let _turn = self.turn.lock();
        let (key, old, archive, lineage) = {
            let state = self.state.read();
            let Some(old) = state.unsaved else { return };
            (Arc::clone(&state.current), old, state.archive.clone(), state.lineage.clone())
        };
        let (Some(dir), Some(places)) = (&self.dir, &self.options.places) else { return };
        // The old key is in there already; what is written is how long it is kept.
        if let Err(error) = archive.write(&dir.keypair_archive()) {
            self.log.warn("keypair_archive_not_renewed", json!({"error": error.to_string()}));
        }
        let now = self.clock.now_ms();
        let saved = disk::link(dir, &lineage).and_then(|()| {
            self.step(Step::Linked);
            disk::save(dir, places, &self.mesh_id, &old, &key.key, now, &|step| self.step(step))
        });
        match saved {
            Ok(()) => self.state.write().unsaved = None,
            Err(error) => {
                self.log.error("keypair_not_kept", json!({"pubkey": key.pubkey, "error": error}));
            }
        }
    }

    /// Lets go of keys whose time is over. Blocks on the disk.
    pub(crate) fn sweep(&self) {
        let _turn = self.turn.lock();
        let now = self.ages.now_ms();
        let mut archive = {
            let state = self.state.read();
            // While it is not certain which key counts, the one that may have been replaced stays.
            let open = state.next.as_ref().map(|_| state.current.public());
            let due = |key: &ArchivedKey| key.expires_ms <= now && Some(key.public) != open;
            if !state.archive.keys().iter().any(due) {
                return;
            }
            let held = state.archive.keys().iter().find(|key| Some(key.public) == open).cloned();
            let mut archive = state.archive.clone();
            archive.sweep(now);
            held.into_iter().for_each(|held| archive.add(held));
            archive
        };
        let written = self.dir.as_ref().map_or(Ok(()), |dir| archive.write(&dir.keypair_archive()));
        match written {
            Ok(()) => self.log.info("keypair_archive_swept", json!({"keys_left": archive.keys().len()})),
            Err(error) => self.log.warn("keypair_archive_not_swept", json!({"error": error.to_string()})),
        }
        std::mem::swap(&mut self.state.write().archive, &mut archive);
    }

    fn step(&self, step: Step) {
        if let Some(at_step) = &self.options.at_step {
            at_step(step);
        }
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Whether one more key can be kept.
fn check_room(archive: &Archive, limits: &Crypto) -> Result<(), Refusal> {
    let most = usize::try_from(limits.max_archived_keys).unwrap_or(usize::MAX);
    let mut ends: Vec<u64> = archive.keys().iter().map(|key| key.expires_ms).collect();
    if ends.len() < most {
        return Ok(());
    }
    ends.sort_unstable();
    let at = ends.get(ends.len() - most).copied().unwrap_or_default();
    let why = format!(
        "{} earlier keys are kept for what is still sealed for them, and no more may be; the next rotation is possible \
         at {}, or with a larger `max_archived_keys` below `[crypto]` in config.toml",
        ends.len(),
        iso(at)
    );
    Err(Refusal::new("too_many_archived_keys", why).with("next_possible_at", iso(at)))
}

/// With what a keyring is made.
pub(crate) struct Opening {
    pub(crate) mesh_id: String,
    pub(crate) member_id: String,
    pub(crate) key: SecretKey,
    pub(crate) dir: Option<MeshDir>,
    pub(crate) options: KeyOptions,
    pub(crate) settings: Live<Settings>,
    pub(crate) clock: Clock,
    pub(crate) ages: Clock,
    pub(crate) log: Log,
}
