//! Opening the inbox, whatever state it was left in.
//!
//! Invariant: a damaged inbox never keeps the daemon from starting and is never thrown away: it is set aside under
//! another name, and an empty one takes its place. A damaged index is made anew from the rows. A large inbox does not
//! hold the start up: it is looked through while it is in use, and set aside at the next start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use hostel_store::{Options, Store, StoreError, Synchronous};
use hostel_wire::Clock;
use rusqlite::Transaction;
use tokio::sync::Notify;

use super::{Inbox, Inner, history, rows};
use crate::authors::{self, Authors, Pin};
use crate::disk::{self, DiskRefusal};
use crate::events::{self, Hub};
use crate::outbox::is_damage;
use crate::schema;

/// The fact that says that the inbox was not closed.
pub(super) const IN_USE: &str = "in_use";

/// An inbox of up to this many bytes is looked through at every start; a larger one afterwards, and only when it had not
/// been closed.
const LOOK_AT_START: u64 = 64 << 20;

/// Beside the database: it was found to be damaged while it was in use.
const DAMAGED: &str = ".damaged";

/// How long the writer of a database that is set aside may take to let go of it.
const LETTING_GO: Duration = Duration::from_secs(10);

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) fn days_ms(days: u32) -> u64 {
    u64::from(days) * DAY_MS
}

/// How an inbox is opened.
#[derive(Debug, Clone)]
pub struct InboxOptions {
    /// The database.
    pub path: PathBuf,
    /// The mesh's slug.
    pub mesh: String,
    /// What time it is.
    pub clock: Clock,
    /// By which what is old goes.
    pub ages: Clock,
    /// How long rows are kept; 0: for ever.
    pub retention_days: u32,
    /// Bytes it may have; 0: any number.
    pub max_bytes: u64,
    /// Everything on the caller: for simulations.
    pub inline: bool,
}

impl InboxOptions {
    /// As usual.
    #[must_use]
    pub fn new(path: PathBuf, mesh: impl Into<String>, clock: Clock) -> Self {
        let ages = clock.cautious();
        Self { path, mesh: mesh.into(), clock, ages, retention_days: 30, max_bytes: 5 << 30, inline: false }
    }
}

/// What was found at the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opened {
    /// Where a damaged inbox is now; the one in use began empty.
    pub recovered: Option<PathBuf>,
    /// Nothing could be read of what a damaged inbox knew about other members.
    pub authors_lost: bool,
    /// The index of words was damaged and was made anew.
    pub rebuilt: bool,
    /// It is large and had not been closed: it should be looked through (`look_through`).
    pub unchecked: bool,
}

/// What a look through the database has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Nothing.
    Sound,
    /// Only the index of words was damaged; it was made anew.
    Rebuilt,
    /// It is damaged; the next start sets it aside.
    Damaged,
}

/// Why the inbox could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InboxOpenError {
    /// A later program made it.
    #[error("{0}")]
    TooNew(String),
    /// A damaged one could not be set aside.
    #[error("a damaged inbox.db could not be set aside: {0}")]
    SettingAside(String),
    /// The database's own reason.
    #[error(transparent)]
    Store(StoreError),
}

impl Inbox {
    /// Opens it. A damaged one is set aside, and an empty one is made.
    pub async fn open(options: InboxOptions) -> Result<(Self, Opened), InboxOpenError> {
        let mut opened = Opened::default();
        let first = match disk::beside(&options.path, DAMAGED).exists() {
            true => None,
            false => open(&options, &mut opened).await?,
        };
        let (store, start) = match first {
            Some(first) => first,
            None => {
                let aside = set_aside(&options.path, options.clock.now_ms())?;
                opened = Opened { recovered: Some(aside.clone()), ..Opened::default() };
                let second = open(&options, &mut opened).await?;
                let damaged = || InboxOpenError::SettingAside("a new one is damaged, too".to_owned());
                let (store, mut start) = second.ok_or_else(damaged)?;
                start.authors = salvage_authors(&store, &aside).await.map_err(InboxOpenError::Store)?;
                opened.authors_lost = start.authors.is_empty();
                (store, start)
            }
        };
        let inner = Inner {
            hub: Arc::new(Hub::new(start.last_event, options.clock.now_ms())),
            path: options.path,
            mesh: options.mesh,
            ages: options.ages,
            clock: options.clock,
            retention_ms: AtomicU64::new(days_ms(options.retention_days)),
            max_bytes: AtomicU64::new(options.max_bytes),
            unchecked: AtomicBool::new(opened.unchecked),
            last_no: AtomicI64::new(start.last_no),
            latest: AtomicU64::new(start.latest),
            rows: AtomicU64::new(start.rows),
            duplicates: AtomicU64::new(0),
            arrived_bytes: AtomicU64::new(0),
            crowded: Notify::new(),
            disk_refusal: DiskRefusal::default(),
            history: AtomicU64::new(start.history),
            authors: Authors::new(start.authors),
        };
        Ok((Self { store, inner: Arc::new(inner) }, opened))
    }

    /// Whether it was too large to be looked through when it was opened, and had not been closed before.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.inner.unchecked.load(Ordering::Relaxed)
    }

    /// Looks through the whole database, which takes a while if it is large. A damaged one is used on as far as it goes
    /// and set aside at the next start.
    pub async fn look_through(&self) -> Result<Health, StoreError> {
        let health = look_through(&self.store).await?;
        self.inner.unchecked.store(false, Ordering::Relaxed);
        if health == Health::Damaged {
            let mark = disk::beside(&self.inner.path, DAMAGED);
            let made = std::fs::write(&mark, "");
            made.map_err(|error| StoreError::Sqlite(format!("cannot write `{}`: {error}", mark.display())))?;
        }
        Ok(health)
    }
}

/// Opens the database and, if it is small, looks through it; `None` if it is damaged, and then nobody holds it any more.
async fn open(options: &InboxOptions, opened: &mut Opened) -> Result<Option<(Store, Start)>, InboxOpenError> {
    let how = Options {
        synchronous: Synchronous::Normal,
        cache_kib: 2048,
        inline: options.inline,
        incremental_vacuum: true,
        ..Options::default()
    };
    let store = match Store::open(&options.path, &schema::INBOX, how) {
        Ok(store) => store,
        Err(error @ StoreError::TooNew { .. }) => return Err(InboxOpenError::TooNew(error.to_string())),
        Err(StoreError::Sqlite(text)) if is_damage(&text) => return Ok(None),
        Err(other) => return Err(InboxOpenError::Store(other)),
    };
    let health = if disk::bytes_of(&options.path) <= LOOK_AT_START {
        look_through(&store).await
    } else {
        let in_use = store.read(|connection| Ok(rows::fact(connection, IN_USE)?.unwrap_or(0) != 0)).await;
        opened.unchecked = matches!(in_use, Ok(true));
        or_damaged(in_use.map(|_| Health::Sound))
    };
    let begun = match health {
        Ok(Health::Damaged) => Ok(None),
        Ok(health) => {
            opened.rebuilt = health == Health::Rebuilt;
            store.write(hostel_syncpoint::SyncPoint::NONE, begin).await.map(Some)
        }
        Err(error) => Err(error),
    };
    match begun {
        Ok(Some(start)) => Ok(Some((store, start))),
        Ok(None) => let_go(store).await.map(|()| None),
        Err(StoreError::Sqlite(text)) if is_damage(&text) => let_go(store).await.map(|()| None),
        Err(other) => Err(InboxOpenError::Store(other)),
    }
}

/// Where numbers go on.
struct Start {
    last_no: i64,
    latest: u64,
    rows: u64,
    last_event: u64,
    history: u64,
    authors: HashMap<String, Pin>,
}

fn begin(transaction: &Transaction<'_>) -> rusqlite::Result<Start> {
    // The log beside the database gives its room back after a burst.
    transaction.pragma_update(None, "journal_size_limit", 16 << 20)?;
    rows::set_fact(transaction, IN_USE, 1)?;
    Ok(Start {
        last_no: rows::number(transaction, "SELECT coalesce(max(no), 0) FROM inbox")?,
        latest: rows::number(transaction, "SELECT coalesce(max(received_at), 0) FROM inbox")?.cast_unsigned(),
        rows: rows::number(transaction, "SELECT count(*) FROM inbox")?.cast_unsigned(),
        last_event: events::last(transaction)?,
        history: history::end(transaction)?,
        authors: authors::rows::load(transaction)?,
    })
}

/// Looks through a database; makes the index of words anew if that alone is damaged.
async fn look_through(store: &Store) -> Result<Health, StoreError> {
    let lines = store.read(|connection| {
        // This has FTS5 look through its index as well.
        let mut statement = connection.prepare("PRAGMA quick_check(20)")?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect::<rusqlite::Result<Vec<_>>>()
    });
    let found = match lines.await {
        Ok(lines) if lines == ["ok"] => Ok(Health::Sound),
        Ok(lines) if lines.iter().all(|line| line.to_ascii_lowercase().contains("fts5")) => {
            store.write(hostel_syncpoint::SyncPoint::NONE, rebuild).await.map(|()| Health::Rebuilt)
        }
        Ok(_) => Ok(Health::Damaged),
        Err(error) => Err(error),
    };
    or_damaged(found)
}

/// What SQLite cannot read is damaged; other failures are failures.
fn or_damaged(found: Result<Health, StoreError>) -> Result<Health, StoreError> {
    match found {
        Err(StoreError::Sqlite(text)) if is_damage(&text) => Ok(Health::Damaged),
        other => other,
    }
}

/// Takes over what a damaged inbox knew about other members, as far as it can be read: messages come again from the
/// broker, but who has to sign must not depend on it.
async fn salvage_authors(store: &Store, aside: &Path) -> Result<HashMap<String, Pin>, StoreError> {
    let aside = aside.to_owned();
    let read = hostel_tasks::spawn_blocking(move || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(&aside, flags).ok()?;
        Some(authors::rows::salvage(&connection))
    });
    let pins = read.await.ok().flatten().unwrap_or_default();
    let rows: Vec<(String, Pin)> = pins.iter().map(|(id, pin)| (id.clone(), pin.clone())).collect();
    store.write(hostel_syncpoint::SyncPoint::NONE, move |transaction| authors::rows::store(transaction, &rows)).await?;
    Ok(pins)
}

fn rebuild(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO inbox_fts (inbox_fts) VALUES ('rebuild')", []).map(drop)
}

/// Waits until nobody holds the database: who closes it last deletes the log beside it by its name.
async fn let_go(store: Store) -> Result<(), InboxOpenError> {
    let writer = store.close();
    drop(store);
    let gone = async {
        while writer.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let late = |_| InboxOpenError::SettingAside("it is still in use".to_owned());
    tokio::time::timeout(LETTING_GO, gone).await.map_err(late)
}

/// Gives a damaged database and what is beside it another name.
fn set_aside(path: &Path, now: u64) -> Result<PathBuf, InboxOpenError> {
    let aside = disk::set_aside(path, now).map_err(|error| InboxOpenError::SettingAside(error.to_string()))?;
    std::fs::remove_file(disk::beside(path, DAMAGED)).ok();
    Ok(aside)
}
