//! Removes journals and closed sessions: to free disk space, and when they are too old.
//!
//! Guarantees:
//! - Nothing is removed that a live session's process, a running turn or an unfinished pipeline still needs, that runs, that
//!   somebody reads, or that could not be read.
//! - What is removed because of its age has been past its age for a day before, by a time that does not follow a clock that
//!   was set by mistake ([`clock`]). A daemon that has just started removes nothing because of its age.
//! - When the quota is nearly used up, or the disk is nearly full, ended output goes at once, oldest first, beginning with
//!   the journals of agents whose events are stored in `state.db`.
//! - One round at a time; files are listed and compared on a thread that may wait.
//!
//! [`plan`] decides what is removed; it performs no I/O.

mod clock;
mod plan;
mod rows;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hostel_syncpoint::SyncPoint;
use parking_lot::Mutex;

pub use clock::TimeSource;
pub use plan::Pressure;

use clock::BelievedClock;
use rows::Kind;

use crate::processes::{Collected, FailedStart, ProcessId, Processes, Retention, Survey, UnreadableJournal};
use crate::sessions::{Sessions, Stalled};
use crate::store::{Store, StoreError};

/// Delay between noticing that something is past its age and removing it.
pub const REMOVAL_DELAY: Duration = Duration::from_secs(24 * 3600);
/// Tombstones that are placed, and sessions that are erased, in one round.
pub const MAX_PER_ROUND: usize = 1000;
/// How often the believed time is stored.
const STORE_TIME_EVERY_NS: u64 = 600 * 1_000_000_000;

/// Limits and delays of housekeeping.
#[derive(Clone, Copy, Debug)]
pub struct HousekeepingOptions {
    /// The rule for ended processes.
    pub retention: Retention,
    /// All journals together.
    pub quota: u64,
    /// Free space that must remain, 0 for the keeper's own rule.
    pub floor: u64,
    /// How long a daemon must have run before it removes anything because of its age.
    pub age_delay: Duration,
}

/// Why a round could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum HousekeepingError {
    /// The journal directory cannot be read.
    #[error("cannot look through the journals: {0}")]
    Journals(#[from] io::Error),
    /// The database refused.
    #[error("cannot look through the sessions: {0}")]
    Store(#[from] StoreError),
}

/// Result of one round of housekeeping.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Processes that were forgotten by the rule.
    pub by_rule: Collected,
    /// Processes that were forgotten to make room.
    pub for_room: Collected,
    /// Room is needed that nothing could be removed for.
    pub is_short: bool,
    /// Sessions that were forgotten.
    pub sessions: usize,
    /// Journals that turned out to be unreadable.
    pub unreadable: Vec<UnreadableJournal>,
    /// Starts that failed after the daemon that had asked for them was gone.
    pub failed_starts: Vec<FailedStart>,
    /// The clock is doubted since this round: by so many nanoseconds it is ahead of what is believed.
    pub doubt_ns: Option<i128>,
}

struct Inner {
    processes: Processes,
    sessions: Sessions,
    store: Store,
    options: HousekeepingOptions,
    source: TimeSource,
    started_passing_ns: u64,
    clock: Mutex<ClockState>,
    /// Held by whoever removes.
    at_work: tokio::sync::Mutex<()>,
}

struct ClockState {
    clock: BelievedClock,
    stored_ns: u64,
    was_doubted: bool,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Housekeeping {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Housekeeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Housekeeping").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Housekeeping {
    /// Goes on with the time that the last daemon believed.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn open(
        processes: Processes,
        sessions: Sessions,
        options: HousekeepingOptions,
        source: TimeSource,
    ) -> Result<Self, StoreError> {
        let store = sessions.store();
        let stored = store.read(rows::believed_ns).await?;
        let clock = BelievedClock::new(source.clone(), stored);
        let clock = Mutex::new(ClockState { clock, stored_ns: stored.unwrap_or(0), was_doubted: false });
        let started_passing_ns = source.passing_ns();
        let at_work = tokio::sync::Mutex::new(());
        let inner = Inner { processes, sessions, store, options, source, started_passing_ns, clock, at_work };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Resolves when a process is held because there is no room.
    pub async fn room_is_needed(&self) {
        self.inner.processes.room_is_needed().await;
    }

    /// Sessions that cannot go on because the database takes nothing.
    #[must_use]
    pub fn stalled(&self) -> Option<Stalled> {
        self.inner.sessions.stalled()
    }

    /// Does what is due.
    ///
    /// # Errors
    /// The journal directory or the database refused. Removals made before the error stay done.
    pub async fn round(&self) -> Result<Round, HousekeepingError> {
        let inner = &self.inner;
        let _alone = inner.at_work.lock().await;
        let unreadable = inner.processes.examine_unknown_journals().await?;
        let failed_starts = inner.processes.take_failed_starts();
        let mut round = Round { unreadable, failed_starts, ..Round::default() };
        // First of all, and without the database: it may be the one that has no room.
        let survey = self.survey().await?;
        (round.for_room, round.is_short) = self.make_room(&survey).await?;
        let (now_ns, doubt_ns) = self.believed_now().await;
        round.doubt_ns = doubt_ns;
        let survey = if round.for_room.removed.is_empty() { survey } else { self.survey().await? };
        let surplus = self.plan(&survey, plan::surplus, inner.options.retention).await;
        round.by_rule = inner.processes.forget_all(&surplus).await;
        let passed = inner.source.passing_ns().saturating_sub(inner.started_passing_ns);
        if u128::from(passed) < inner.options.age_delay.as_nanos() {
            return Ok(round);
        }
        let survey = if round.by_rule.removed.is_empty() { survey } else { self.survey().await? };
        let aged = self.remove_aged_journals(&survey, now_ns).await?;
        round.by_rule.removed.extend(aged.removed);
        round.by_rule.freed_bytes += aged.freed_bytes;
        round.sessions = self.remove_aged_sessions(now_ns).await?;
        Ok(round)
    }

    /// Carries out `hostel gc`: removes every ended process, or those past the rule plus those that pressure demands. Ages
    /// count at once, by the earlier of both clocks. With `dry_run` nothing is removed; with `changed_before_ns` only
    /// journals go that were changed last before then.
    ///
    /// # Errors
    /// The journal directory cannot be read.
    pub async fn collect(
        &self,
        everything: bool,
        dry_run: bool,
        changed_before_ns: Option<u64>,
    ) -> Result<Collected, HousekeepingError> {
        let inner = &self.inner;
        let _alone = inner.at_work.lock().await;
        let survey = self.survey().await?;
        let now_ns = inner.clock.lock().clock.now_ns();
        let mut chosen: Vec<ProcessId> = match everything {
            true => survey.candidates().iter().map(|candidate| candidate.file.id).collect(),
            false => {
                let mut chosen = self.plan(&survey, plan::surplus, inner.options.retention).await;
                let old = plan::past_age(survey.candidates(), inner.options.retention.max_age, now_ns);
                chosen.extend(old);
                let pressure = Pressure { quota: inner.options.quota, floor: inner.options.floor };
                chosen.extend(plan::for_room(&survey, pressure).chosen);
                let mut seen = HashSet::new();
                chosen.retain(|id| seen.insert(*id));
                chosen
            }
        };
        if let Some(moment) = changed_before_ns {
            let shown = survey.candidates().iter().filter(|one| one.file.modified_ns < moment);
            let shown: HashSet<ProcessId> = shown.map(|one| one.file.id).collect();
            chosen.retain(|id| shown.contains(id));
        }
        if dry_run {
            return Ok(survey.describe(&chosen));
        }
        Ok(inner.processes.forget_all(&chosen).await)
    }

    async fn survey(&self) -> Result<Arc<Survey>, HousekeepingError> {
        // A database that cannot be read proves nothing about the journals of agents: they stay.
        let stored = self.inner.store.read(rows::stored_processes).await.unwrap_or_default();
        Ok(Arc::new(self.inner.processes.survey(stored).await?))
    }

    async fn plan(
        &self,
        survey: &Arc<Survey>,
        plan: fn(&Survey, Retention) -> Vec<ProcessId>,
        retention: Retention,
    ) -> Vec<ProcessId> {
        let survey = Arc::clone(survey);
        hostel_tasks::spawn_blocking(move || plan(&survey, retention)).await.unwrap_or_default()
    }

    /// Removes ended output until there is room again. Says whether there still is too little.
    async fn make_room(&self, survey: &Arc<Survey>) -> Result<(Collected, bool), HousekeepingError> {
        let pressure = Pressure { quota: self.inner.options.quota, floor: self.inner.options.floor };
        let of = Arc::clone(survey);
        let planning = hostel_tasks::spawn_blocking(move || plan::for_room(&of, pressure));
        let plan = planning.await.unwrap_or_default();
        Ok((self.inner.processes.forget_all(&plan.chosen).await, plan.is_short))
    }

    /// Returns the believed time, and the difference of the clock if it began to be doubted just now.
    async fn believed_now(&self) -> (u64, Option<i128>) {
        let (now_ns, to_store, doubt) = {
            let mut state = self.inner.clock.lock();
            let now_ns = state.clock.now_ns();
            let newest_ns = state.clock.newest_ns();
            let is_due = newest_ns.abs_diff(state.stored_ns) >= STORE_TIME_EVERY_NS;
            let doubt = state.clock.doubt_ns();
            let news = doubt.filter(|_| !state.was_doubted);
            state.was_doubted = doubt.is_some();
            (now_ns, is_due.then_some(newest_ns), news)
        };
        if let Some(newest_ns) = to_store {
            let storing =
                self.inner.store.write(SyncPoint::NONE, move |transaction| rows::believe(transaction, newest_ns));
            if storing.await.is_ok() {
                self.inner.clock.lock().stored_ns = newest_ns;
            }
        }
        (now_ns, doubt)
    }

    async fn remove_aged_journals(&self, survey: &Survey, now_ns: u64) -> Result<Collected, HousekeepingError> {
        let old = plan::past_age(survey.candidates(), self.inner.options.retention.max_age, now_ns);
        let names: HashMap<String, _> = old.into_iter().map(|id| (id.to_string(), id)).collect();
        let due = self.due(Kind::Journal, names.keys().cloned().collect(), now_ns).await?;
        let due: Vec<_> = due.iter().filter_map(|name| names.get(name).copied()).collect();
        Ok(self.inner.processes.forget_all(&due).await)
    }

    async fn remove_aged_sessions(&self, now_ns: u64) -> Result<usize, HousekeepingError> {
        let keep = u64::try_from(self.inner.sessions.keep_archived().as_nanos()).unwrap_or(u64::MAX);
        let old = self.inner.sessions.closed_before(now_ns.saturating_sub(keep)).await?;
        let due = self.due(Kind::Session, old.into_iter().collect(), now_ns).await?;
        Ok(self.inner.sessions.forget_closed(due, now_ns).await?)
    }

    /// Which of those that are old have been so for long enough. The others wait from now on, and those that are young
    /// again do not wait any more.
    async fn due(&self, kind: Kind, old: HashSet<String>, now_ns: u64) -> Result<Vec<String>, StoreError> {
        let known = self.inner.store.read(move |connection| rows::tombstones(connection, kind)).await?;
        let verdicts = plan::tombstones(&old, &known, now_ns, REMOVAL_DELAY);
        let plan::Tombstones { mut placed, lifted, due } = verdicts;
        placed.truncate(MAX_PER_ROUND);
        if !(placed.is_empty() && lifted.is_empty()) {
            let writing = move |transaction: &rusqlite::Transaction<'_>| {
                rows::place(transaction, kind, &placed, now_ns)?;
                rows::lift(transaction, kind, &lifted)
            };
            self.inner.store.write(SyncPoint::NONE, writing).await?;
        }
        Ok(due)
    }
}
