//! The outbox: what was accepted and is owed to the broker, until the broker has it.
//!
//! Invariant: accepting is one transaction, and it is on disk before anybody hears of it. An id is bound to its first
//! request for as long as its row exists; a refused request leaves no trace. Within a lane (one sender, one destination,
//! one priority) nothing is handed out before what came earlier. A message leaves the queue when the broker has it, when
//! it was refused for good, or when it is too old for the broker to recognise it: never because of a crash or a
//! lost connection. Whose id it has does not change when another member takes over (see `owner`).
//!
//! It knows no connection: the link claims rows and says what became of them.

mod accept;
mod age;
mod drain;
mod operate;
mod owner;
mod queue;
mod rows;
mod types;

pub use age::{AgeError, DEFAULT_HOURS, hours, most_hours};
pub use owner::belongs_to;
pub use types::*;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hostel_store::{Options, Store, StoreError};
use hostel_syncpoint::{SyncPoint, points};
use hostel_wire::{Clock, random};
use parking_lot::Mutex;
use rusqlite::Transaction;
use tokio::sync::{Notify, watch};

use crate::disk::{self, DiskRefusal, Level, Pressure};
use crate::inbox::rows::{fact, set_fact};
use crate::schema;
use queue::Queue;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Whoever asks how full it is is answered from the last measurement for this long; what is put in is counted anyway.
const MEASURED_MS: u64 = 100;

/// How much the outbox may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows that are not done; 0: any number.
    pub max_rows: u64,
    /// Bytes on disk; 0: any number.
    pub max_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_rows: 10_000, max_bytes: 1 << 30 }
    }
}

/// How an outbox is opened.
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// The database.
    pub path: PathBuf,
    /// Who accepts; `None` leaves that as it is.
    pub member: Option<String>,
    /// What time it is.
    pub clock: Clock,
    /// By which what is old is given up and forgotten.
    pub ages: Clock,
    /// How much it may hold.
    pub limits: Limits,
    /// How long messages are tried, if somebody has said so.
    pub max_age_hours: Option<u32>,
    /// Everything on the caller: for simulations.
    pub inline: bool,
    /// What the jitter of waits is made from; random if absent.
    pub seed: Option<u64>,
}

impl OutboxOptions {
    /// As usual.
    #[must_use]
    pub fn new(path: PathBuf, clock: Clock) -> Self {
        let (ages, limits) = (clock.clone(), Limits::default());
        Self { path, member: None, clock, ages, limits, max_age_hours: None, inline: false, seed: None }
    }
}

/// Why the outbox could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OutboxError {
    /// It is damaged. What it held cannot be told from what was lost: the daemon does not start.
    #[error("outbox.db is damaged ({0}); run `claudemesh daemon recover`")]
    Corrupt(String),
    /// A later program made it.
    #[error("{0}")]
    TooNew(String),
    /// The setting cannot be.
    #[error(transparent)]
    Age(#[from] AgeError),
    /// The database's own reason.
    #[error(transparent)]
    Store(StoreError),
}

/// The outbox. Cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    store: Store,
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    /// It is large, had not been closed, and was not looked through yet.
    unchecked: AtomicBool,
    clock: Clock,
    ages: Clock,
    queue: Mutex<Queue>,
    /// Something was written or not, nobody knows: the queue is read again before it is used.
    unsure: AtomicBool,
    /// Claims that were made and are not yet with who made them.
    handing: Mutex<Vec<drain::Handing>>,
    limits: Mutex<Limits>,
    /// Of the files, as last measured, and what was put in since.
    bytes: AtomicU64,
    /// Something was put in since: the files may take less than is counted, for SQLite writes over its log.
    counted: AtomicBool,
    /// The disk had no room then.
    disk_full: AtomicBool,
    disk_refusal: DiskRefusal,
    /// When that was, in milliseconds since 1970.
    measured_at: AtomicU64,
    accepted: AtomicU64,
    dead: AtomicU64,
    duplicates: AtomicU64,
    levels: watch::Sender<Level>,
    woken: Notify,
    /// What a setting asks for, and for how many days the broker remembers ids: together they make the hours.
    age: Mutex<(Option<u32>, u32)>,
    hours: AtomicU32,
    seed: u64,
}

impl Outbox {
    /// Opens it and puts it in order: what was under way when the last process ended waits again.
    pub async fn open(options: OutboxOptions) -> Result<Self, OutboxError> {
        let hours = age::hours(options.max_age_hours, 0)?;
        let how = Options { inline: options.inline, incremental_vacuum: true, cache_kib: 1024, ..Options::default() };
        let store = Store::open(&options.path, &schema::OUTBOX, how).map_err(opening)?;
        let unchecked = check_at_start(&store, &options.path).await?;
        let inner = Inner {
            path: options.path,
            unchecked: AtomicBool::new(unchecked),
            clock: options.clock,
            ages: options.ages,
            queue: Mutex::default(),
            unsure: AtomicBool::new(false),
            handing: Mutex::default(),
            limits: Mutex::new(options.limits),
            bytes: AtomicU64::new(0),
            counted: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            disk_refusal: DiskRefusal::default(),
            measured_at: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            duplicates: AtomicU64::new(0),
            levels: watch::channel(Level::Ok).0,
            woken: Notify::new(),
            age: Mutex::new((options.max_age_hours, 0)),
            hours: AtomicU32::new(hours),
            seed: options.seed.unwrap_or_else(|| u64::from_le_bytes(random::bytes())),
        };
        let outbox = Self { store, inner: Arc::new(inner) };
        outbox.recover(options.member).await.map_err(opening)?;
        Ok(outbox)
    }

    async fn recover(&self, member: Option<String>) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        self.store
            .write(points::OUTBOX_RECOVERED, move |transaction| {
                // The log beside the database gives its room back after a burst.
                transaction.pragma_update(None, "journal_size_limit", 16 << 20)?;
                set_fact(transaction, IN_USE, 1)?;
                if let Some(member) = &member {
                    owner::settle(transaction, member)?;
                }
                drain::recover(transaction, &mut inner.queue.lock(), inner.clock.now_ms())?;
                let dead = rows::number(
                    transaction,
                    "SELECT count(*) FROM outbox WHERE status IN ('dead', 'aborted') AND status = 'dead'",
                )?;
                inner.dead.store(dead.cast_unsigned(), Ordering::Relaxed);
                Ok(())
            })
            .await?;
        self.inner.measure();
        Ok(())
    }

    /// Whether it was too large to be looked through when it was opened, and had not been closed before.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.inner.unchecked.load(Ordering::Relaxed)
    }

    /// Looks through the whole database, which takes a while if it is large; what is wrong with it, if anything is. A
    /// damaged one is refused at the next start.
    pub async fn look_through(&self) -> Result<Option<String>, StoreError> {
        let found = match check(&self.store).await {
            Ok(()) => None,
            Err(OutboxError::Corrupt(text)) => Some(text),
            Err(OutboxError::Store(error)) => return Err(error),
            Err(other) => return Err(StoreError::Sqlite(other.to_string())),
        };
        self.inner.unchecked.store(false, Ordering::Relaxed);
        if found.is_some() {
            let mark = disk::beside(&self.inner.path, DAMAGED);
            let made = std::fs::write(&mark, "");
            made.map_err(|error| StoreError::Sqlite(format!("cannot write `{}`: {error}", mark.display())))?;
        }
        Ok(found)
    }

    /// Something can be claimed that could not before. A wake-up that nobody waits for is kept.
    #[must_use]
    pub fn woken(&self) -> &Notify {
        &self.inner.woken
    }

    /// What time it is here: that of what waits, which a clock that is set does not change.
    pub(crate) fn now_ms(&self) -> u64 {
        self.inner.clock.now_ms()
    }

    /// When something that waits can be tried, in milliseconds since 1970; the past if that is now.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.inner.queue.lock().next_due(self.inner.clock.now_ms())
    }

    /// How many rows there are that are not done.
    #[must_use]
    pub fn depth(&self) -> Depth {
        let queue = self.inner.queue.lock();
        Depth { pending: queue.waiting(), inflight: queue.inflight(), dead: self.inner.dead.load(Ordering::Relaxed) }
    }

    /// When the oldest that waits was taken.
    #[must_use]
    pub fn oldest_pending(&self) -> Option<u64> {
        self.inner.queue.lock().oldest()
    }

    /// How full it is, measured a moment ago at the most.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        let (now, at) = (self.inner.clock.now_ms(), self.inner.measured_at.load(Ordering::Relaxed));
        if now.abs_diff(at) >= MEASURED_MS {
            return self.inner.measure();
        }
        let rows = self.inner.queue.lock().rows();
        self.inner.tell_level(rows)
    }

    /// Whether the disk refused the last row for want of room a moment ago.
    pub(crate) fn was_refused_by_disk(&self) -> bool {
        self.inner.disk_refusal.is_recent(self.inner.clock.passing_ms())
    }

    /// Tells when fullness begins to mean something else.
    #[must_use]
    pub fn levels(&self) -> watch::Receiver<Level> {
        self.inner.levels.subscribe()
    }

    /// How often a request came again and was recognised.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.inner.duplicates.load(Ordering::Relaxed)
    }

    /// Other limits, from now on.
    pub fn set_limits(&self, limits: Limits) {
        *self.inner.limits.lock() = limits;
        self.inner.measure();
    }

    /// The broker remembers ids for this many days (0: for ever): messages are tried no longer than that allows. The
    /// hours they are tried; an error if a setting says otherwise.
    pub fn window(&self, dedupe_days: u32) -> Result<u32, AgeError> {
        self.age(|age| age.1 = dedupe_days)
    }

    /// A setting asks for so many hours now, or for what is usual. Nothing is changed if the broker's window does not
    /// allow it. What waits already keeps the time it was given.
    pub fn set_age(&self, asked: Option<u32>) -> Result<u32, AgeError> {
        self.age(|age| age.0 = asked)
    }

    fn age(&self, change: impl FnOnce(&mut (Option<u32>, u32))) -> Result<u32, AgeError> {
        let mut age = self.inner.age.lock();
        let mut next = *age;
        change(&mut next);
        let hours = age::hours(next.0, next.1)?;
        *age = next;
        self.inner.hours.store(hours, Ordering::Relaxed);
        Ok(hours)
    }

    /// Lets what stands in line be written, and nothing after it. What is returned is gone once that is done.
    #[must_use]
    pub fn close(&self) -> Weak<()> {
        self.store.try_submit(SyncPoint::NONE, |transaction| set_fact(transaction, IN_USE, 0));
        self.store.close()
    }

    /// Changes rows and queue together. A change of which nobody knows whether it was made has the queue read again.
    async fn change<T: Send + 'static>(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>, &mut Queue, &Arc<Inner>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        let mut unsure = Unsure { inner: &self.inner, armed: true };
        let changed = self.store.write(point, move |transaction| {
            let mut queue = inner.queue.lock();
            if inner.unsure.swap(false, Ordering::Relaxed) {
                drain::reload(transaction, &mut queue)?;
            }
            drain::take_back(transaction, &mut queue, &inner)?;
            let changed = work(transaction, &mut queue, &inner)?;
            inner.tell_level(queue.rows());
            Ok(changed)
        });
        let changed = changed.await;
        unsure.armed = changed.is_err();
        changed
    }
}

/// Marks the queue as uncertain when a change ends without a known outcome.
struct Unsure<'a> {
    inner: &'a Inner,
    armed: bool,
}

impl Drop for Unsure<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.inner.unsure.store(true, Ordering::Relaxed);
        }
    }
}

impl Inner {
    /// When a row that is taken now becomes too old.
    fn expiry(&self, now: u64) -> u64 {
        now.saturating_add(self.most_age())
    }

    /// How long a row is tried.
    fn most_age(&self) -> u64 {
        u64::from(self.hours.load(Ordering::Relaxed)) * HOUR_MS
    }

    fn measure(&self) -> Pressure {
        self.weigh();
        let rows = self.queue.lock().rows();
        self.tell_level(rows)
    }

    /// Looks how much the files take.
    fn weigh(&self) {
        self.counted.store(false, Ordering::Relaxed);
        self.bytes.store(disk::bytes_of(&self.path), Ordering::Relaxed);
        self.disk_full.store(disk::is_disk_full(&self.path), Ordering::Relaxed);
        self.measured_at.store(self.clock.now_ms(), Ordering::Relaxed);
    }

    /// As much was put in; the files are looked at later.
    fn count(&self, bytes: u64) {
        self.counted.store(true, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn pressure_of(&self, rows: u64) -> Pressure {
        let limits = *self.limits.lock();
        let bytes = self.bytes.load(Ordering::Relaxed);
        let is_disk_full = self.disk_full.load(Ordering::Relaxed);
        Pressure { rows, max_rows: limits.max_rows, bytes, max_bytes: limits.max_bytes, is_disk_full }
    }

    /// How full it is, for who listens as well. It is not said to be fuller than before on the strength of a count.
    fn tell_level(&self, rows: u64) -> Pressure {
        let mut pressure = self.pressure_of(rows);
        if self.counted.load(Ordering::Relaxed) && pressure.level() > *self.levels.borrow() {
            self.weigh();
            pressure = self.pressure_of(rows);
        }
        let level = pressure.level();
        self.levels.send_if_modified(|told| std::mem::replace(told, level) != level);
        pressure
    }
}

/// The fact that says that the outbox was not closed.
const IN_USE: &str = "in_use";

/// An outbox of up to this many bytes is looked through at every start; a larger one while it is in use, and only when it
/// had not been closed: looking through a gigabyte takes many seconds.
const LOOK_AT_START: u64 = 64 << 20;

/// Beside the database: it was found to be damaged while it was in use.
const DAMAGED: &str = ".damaged";

/// Looks through an outbox that is small, or was found to be damaged; whether it is still to be looked through.
async fn check_at_start(store: &Store, path: &Path) -> Result<bool, OutboxError> {
    let mark = disk::beside(path, DAMAGED);
    if disk::bytes_of(path) <= LOOK_AT_START || mark.exists() {
        check(store).await?;
        // It is sound: it was recovered since.
        std::fs::remove_file(&mark).ok();
        return Ok(false);
    }
    let in_use = store.read(|connection| Ok(fact(connection, IN_USE)?.unwrap_or(0) != 0)).await;
    in_use.map_err(opening)
}

/// Whether nothing is damaged. The check reads the file as it is now, whatever the writer has in memory.
async fn check(store: &Store) -> Result<(), OutboxError> {
    let found =
        store.read(|connection| connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0)));
    match found.await {
        Ok(found) if found == "ok" => Ok(()),
        Ok(found) => Err(OutboxError::Corrupt(found)),
        Err(error) => Err(opening(error)),
    }
}

/// What SQLite says of a file it cannot read is not a reason to go on.
fn opening(error: StoreError) -> OutboxError {
    match error {
        StoreError::TooNew { .. } => OutboxError::TooNew(error.to_string()),
        StoreError::Sqlite(text) if is_damage(&text) => OutboxError::Corrupt(text),
        other => OutboxError::Store(other),
    }
}

/// Whether SQLite says that a file is not what it was.
pub(crate) fn is_damage(text: &str) -> bool {
    // A table or a column that is missing was there: its name is damaged.
    ["malformed", "not a database", "database corruption", "no such table", "no such column"]
        .iter()
        .any(|sign| text.contains(sign))
}
