//! The inbox: what has come, searchable, and the events of the daemon in the same file.
//!
//! Invariant: a message of one sender with one id is stored once. The rows, the reader's place in the broker's log and
//! the events that tell of the rows are one transaction: the place is never ahead of the rows or behind them. Nothing
//! is told that is not stored.
//!
//! It is a cache of the broker's log: what is damaged is set aside and had again. It opens no body itself.

pub(crate) mod announced;
mod arrive;
mod history;
mod list;
mod open;
pub(crate) mod rows;
mod search;
mod sweep;
mod types;
mod waiting;

pub(crate) use history::begins_again;
pub use open::{Health, InboxOpenError, InboxOptions, Opened};
pub use types::*;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hostel_store::{Store, StoreError};
use hostel_syncpoint::{SyncPoint, points};
use hostel_wire::Clock;
use hostel_wire::frames::Kind;
use tokio::sync::Notify;

use crate::authors::{self, Authors};
use crate::disk::{self, DiskRefusal, Pressure};
use crate::events::{Events, Hub};
use crate::schema::signed;

/// The fact that says how far hooks have come.
const HOOKS: &str = "hooks_after";

/// What the inbox has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    /// Rows it holds.
    pub rows: u64,
    /// Messages that came again, since the start.
    pub duplicates: u64,
}

/// The inbox. Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    store: Store,
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    mesh: String,
    clock: Clock,
    /// By which what is old goes.
    ages: Clock,
    retention_ms: AtomicU64,
    max_bytes: AtomicU64,
    /// It is large, had not been closed, and was not looked through yet.
    unchecked: AtomicBool,
    hub: Arc<Hub>,
    /// The last number that was given to a row; only the writer gives them.
    last_no: AtomicI64,
    /// When the last row came.
    latest: AtomicU64,
    rows: AtomicU64,
    duplicates: AtomicU64,
    /// About how many bytes have come since the limit was last looked at.
    arrived_bytes: AtomicU64,
    crowded: Notify,
    disk_refusal: DiskRefusal,
    /// Entries of the log up to this one were there before us.
    history: AtomicU64,
    /// What is proven about who writes.
    authors: Authors,
}

impl Inner {
    /// When a row comes that comes now. Never before one that is here: pages go by this, and a clock that is set back
    /// must not put what is new behind what is old.
    fn arrives_ms(&self) -> u64 {
        let now = self.clock.now_ms();
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

impl Inbox {
    /// The events of the daemon.
    #[must_use]
    pub fn events(&self) -> Events {
        Events {
            store: self.store.clone(),
            hub: Arc::clone(&self.inner.hub),
            clock: self.inner.clock.clone(),
            ages: self.inner.ages.clone(),
        }
    }

    /// What is proven about other members.
    pub(crate) fn authors(&self) -> &Authors {
        &self.inner.authors
    }

    /// Stores what was learned about other members and came with no message; `point` is reached then.
    pub(crate) async fn keep_authors(&self, point: SyncPoint) -> Result<(), StoreError> {
        let pins = self.inner.authors.take_changes();
        if pins.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = pins.iter().map(|(id, _)| id.clone()).collect();
        let kept = self.store.write(point, move |transaction| authors::rows::store(transaction, &pins)).await;
        if kept.is_err() {
            self.inner.authors.give_back(ids);
        }
        kept
    }

    /// Up to where the broker's log is stored.
    pub async fn cursor(&self) -> Result<Cursor, StoreError> {
        self.store.read(rows::cursor).await
    }

    /// The last event whose hooks are done; `None` if hooks were never on.
    pub(crate) async fn hooks_cursor(&self) -> Result<Option<u64>, StoreError> {
        let kept = self.store.read(|connection| rows::fact(connection, HOOKS)).await?;
        // One more than the number, so that nought can mean that there is none.
        Ok(kept.and_then(|kept| u64::try_from(kept).ok()).and_then(|kept| kept.checked_sub(1)))
    }

    /// Writes that down.
    pub(crate) async fn set_hooks_cursor(&self, n: Option<u64>) -> Result<(), StoreError> {
        let kept = n.map_or(0, |n| signed(n.saturating_add(1)));
        self.store.write(points::HOOKS_CURSOR, move |transaction| rows::set_fact(transaction, HOOKS, kept)).await
    }

    /// Waits until what is stored is on the disk. For what nobody would send again: of the rest the power may take the
    /// last moment, and the broker's log still has it.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let mut log = self.inner.path.as_os_str().to_owned();
        log.push("-wal");
        let sync = move || match std::fs::File::open(&log) {
            Ok(log) => log.sync_data(),
            // In memory, or there is nothing that is not in the database yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        let synced = match self.store.is_inline() {
            true => sync(),
            false => hostel_tasks::spawn_blocking(sync).await.map_err(|_| StoreError::Closed)?,
        };
        synced.map_err(|error| StoreError::Sqlite(format!("inbox.db-wal: {error}")))
    }

    /// What it holds.
    #[must_use]
    pub fn counts(&self) -> InboxCounts {
        InboxCounts {
            rows: self.inner.rows.load(Ordering::Relaxed),
            duplicates: self.inner.duplicates.load(Ordering::Relaxed),
        }
    }

    /// How full it is.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        let (bytes, max_bytes) = (disk::bytes_of(&self.inner.path), self.inner.max_bytes.load(Ordering::Relaxed));
        let is_disk_full = disk::is_disk_full(&self.inner.path);
        Pressure { rows: self.counts().rows, max_rows: 0, bytes, max_bytes, is_disk_full }
    }

    /// Whether the disk refused what came last for want of room a moment ago.
    pub(crate) fn was_refused_by_disk(&self) -> bool {
        self.inner.disk_refusal.is_recent(self.inner.clock.passing_ms())
    }

    /// Rings when so much has come since the last look at the limit that it may be exceeded.
    #[must_use]
    pub fn crowded(&self) -> &Notify {
        &self.inner.crowded
    }

    /// Keeps rows for so many days (0: for ever) and the file below so many bytes (0: any number), from the next sweep on.
    pub fn set_limits(&self, retention_days: u32, max_bytes: u64) {
        self.inner.retention_ms.store(open::days_ms(retention_days), Ordering::Relaxed);
        self.inner.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// Lets what stands in line be written, and nothing after it: the next start need not look for damage. What is
    /// returned is gone once that is done.
    #[must_use]
    pub fn close(&self) -> Weak<()> {
        self.inner.hub.close();
        self.store.try_submit(SyncPoint::NONE, |transaction| rows::set_fact(transaction, open::IN_USE, 0));
        self.store.close()
    }
}

/// The only session an entry is for: empty for what is the member's own, `None` for what is everybody's.
pub(crate) fn audience(kind: Kind, session: Option<&str>) -> Option<String> {
    match (session, kind) {
        (Some(session), _) => Some(session.to_owned()),
        (None, Kind::Dm | Kind::File) => Some(String::new()),
        (None, Kind::Topic | Kind::Group | Kind::All | Kind::Sys | Kind::State | Kind::Task) => None,
    }
}
