//! One SQLite file, as several rooms have one: the house's `state.db`, a mesh's outbox and inbox, a broker's log.
//!
//! Invariant: one thread writes. What waits is written together and committed once (group commit, synchronous to
//! the disk), and nobody is told that something is written before it is. A write that fails takes back nothing but
//! itself. Readers have connections of their own and never wait for the writer.
//!
//! Every write names its sync point: the moment after the commit of its group and before its asker is told, at which a
//! test can hold or kill the process.
//!
//! A store that was closed leaves a complete file: what stood in the write-ahead log is in the database, and the log is
//! empty or gone. A killed process leaves both, and the next one that opens them goes on from there.
//!
//! A panic in a write ends the process, for a daemon without its writer would refuse everything.
//!
//! It knows no tables; the rooms that own them bring their statements and their steps. A simulation opens it inline:
//! then everything happens on the caller, and the order of things depends on nobody else.

#![forbid(unsafe_code)]

mod chain;
mod line;
mod readers;
mod snapshot;
mod steps;
mod timer;
mod witness;
mod writer;

pub use hostel_syncpoint::{SyncPoint, points};

pub use chain::{Broken, Chain, Surveyed, Surveyor, Verified};
pub use snapshot::snapshot;
pub use steps::Schema;
pub use witness::Witness;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::mpsc;

use line::Bell;
use readers::Readers;
use timer::ReadTimer;
use witness::WitnessPlace;
use writer::{Answer, Failure, Message, job, write_all, write_one};

/// Writes that may wait for the writer; more make their askers wait.
const QUEUE: usize = 4096;

/// How long a connection waits for a lock: only a checkpoint can hold one, and briefly.
const BUSY: Duration = Duration::from_secs(5);

/// Bytes of the write-ahead log that stay on disk after a checkpoint.
const LOG_KEPT_BYTES: i64 = 16 << 20;

/// How often the end of a writer is looked for.
const CLOSING_POLL: Duration = Duration::from_millis(1);

/// The path of a database that is in memory alone and gone with its last handle. It is always inline: its one
/// connection also reads.
pub const IN_MEMORY: &str = ":memory:";

/// Why something could not be written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// SQLite's own reason, after the file's name.
    #[error("{0}")]
    Sqlite(String),
    /// Made by a later program.
    #[error("{name} is of version {found}, this program knows {known}; use the later program")]
    TooNew {
        /// The file.
        name: &'static str,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// What it is about is being worked on.
    #[error("{0}")]
    Busy(String),
    /// The writer is gone: the daemon is ending.
    #[error("the database is closed")]
    Closed,
}

impl StoreError {
    fn of(name: &str, error: &rusqlite::Error) -> Self {
        Self::Sqlite(format!("{name}: {error}"))
    }
}

/// How hard a commit is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// What was acknowledged survives a power cut.
    #[default]
    Full,
    /// It survives the death of any process, not a power cut: for what can be had again.
    Normal,
}

/// How a database is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How hard a commit is.
    pub synchronous: Synchronous,
    /// Pages each connection keeps in memory, in KiB.
    pub cache_kib: u32,
    /// Everything happens on the caller: for simulations. The caller is suspended before and after, as it would be if
    /// somebody else did the work, so that it can end there.
    pub inline: bool,
    /// A new database can give room back piece by piece; the writer does so when it is quiet.
    pub incremental_vacuum: bool,
    /// Called after a while without writes, when memory of the last ones may go back to the system.
    pub when_quiet: Option<fn()>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            cache_kib: 512,
            inline: false,
            incremental_vacuum: true,
            when_quiet: None,
        }
    }
}

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    name: &'static str,
    way: Way,
    readers: Arc<Readers>,
    /// Lives as long as the writer.
    writer: Weak<()>,
    witness: WitnessPlace,
}

/// A read that puts its result where its asker finds it.
type Read = Box<dyn FnOnce(&Connection) -> rusqlite::Result<()> + Send>;

/// How writes get done.
#[derive(Clone)]
enum Way {
    Thread(mpsc::Sender<Message>, Arc<Bell>),
    Inline(Arc<Mutex<Inline>>),
}

struct Inline {
    /// Absent once closed.
    connection: Option<Connection>,
    life: Option<Arc<()>>,
    /// There is no other connection to read with.
    in_memory: bool,
}

impl Store {
    /// Opens the database, makes it if it is missing, brings it up to date and starts its writer.
    pub fn open(path: &Path, schema: &Schema, options: Options) -> Result<Self, StoreError> {
        let name = schema.name;
        let in_memory = path == Path::new(IN_MEMORY);
        if !in_memory {
            make_private(name, path)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect(path, flags, options).map_err(|error| StoreError::of(name, &error))?;
        steps::run(&mut connection, schema)?;
        let life = Arc::new(());
        let writer = Arc::downgrade(&life);
        let witness = WitnessPlace::default();
        let way = if options.inline || in_memory {
            let inline = Inline { connection: Some(connection), life: Some(life), in_memory };
            Way::Inline(Arc::new(Mutex::new(inline)))
        } else {
            let (jobs, queue) = mpsc::channel(QUEUE);
            let bell = Arc::<Bell>::default();
            let (hung, place) = (Arc::clone(&bell), witness.clone());
            let work = move || {
                let _guard = AbortOnPanic;
                write_all(name, &mut connection, queue, hung, options.when_quiet, &place);
                complete_file(&connection);
                drop(connection);
                drop(life);
            };
            let started = std::thread::Builder::new().name("store".to_owned()).spawn(work);
            started.map_err(|error| StoreError::Sqlite(format!("{name}: {error}")))?;
            Way::Thread(jobs, bell)
        };
        let readers = Arc::new(Readers::new(name, path.to_owned(), options));
        Ok(Self { name, way, readers, writer, witness })
    }

    /// Whether everything happens on the caller, as in a simulation.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        matches!(self.way, Way::Inline(_))
    }

    /// From now on this witness follows every write. A database has one witness at most; `false` if it has one already.
    pub fn attend(&self, witness: Arc<dyn Witness>) -> bool {
        self.witness.fill(witness)
    }

    /// Lets what stands in line be written, and nothing after it, and ends reading. The file is complete after that. What
    /// is returned is gone once that is done.
    pub fn close(&self) -> Weak<()> {
        self.readers.close();
        match &self.way {
            Way::Thread(jobs, bell) => {
                let (jobs, bell) = (jobs.clone(), Arc::clone(bell));
                // The line may be full: a thread may wait for room in it, the caller may not be able to.
                std::thread::spawn(move || jobs.blocking_send(Message::End).map(|()| bell.tell(false)).ok());
            }
            Way::Inline(inline) => {
                let mut inline = inline.lock();
                if let Some(connection) = inline.connection.take() {
                    complete_file(&connection);
                }
                inline.life = None;
            }
        }
        Weak::clone(&self.writer)
    }

    /// Closes it and waits until that is done, for `patience` at most; `false` if it was not done by then.
    pub async fn closed(&self, patience: Duration) -> bool {
        let writer = self.close();
        let gone = async {
            while writer.strong_count() > 0 {
                tokio::time::sleep(CLOSING_POLL).await;
            }
        };
        tokio::time::timeout(patience, gone).await.is_ok()
    }

    /// Writes something and waits until it is on disk.
    pub async fn write<T: Send + 'static>(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.pause().await;
        self.submit(point, work).await?.done().await
    }

    /// An await where the work would be somebody else's.
    async fn pause(&self) {
        if let Way::Inline(_) = &self.way {
            tokio::task::yield_now().await;
        }
    }

    /// Puts a write in line and returns; the ticket tells when it is on disk. Writes take effect in the order in which
    /// they were put in line.
    pub async fn submit<T: Send + 'static>(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Ticket<T>, StoreError> {
        self.line_up(point, work, Message::Job).await
    }

    /// As `submit`, for what nobody waits for: it may be on disk a moment later than it could be, and a commit is saved.
    pub async fn submit_patiently<T: Send + 'static>(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Ticket<T>, StoreError> {
        self.line_up(point, work, Message::Patient).await
    }

    /// Writes something that only the disk can refuse, and waits until it is on disk. If it is refused, so is what is
    /// written together with it; so it need not be kept apart from that, and costs less than `write`. `then` makes the
    /// answer of what became of it: on the writer, after the commit and before the next, also if nobody waits any more.
    pub async fn write_then<T: Send + 'static, U: Send + 'static>(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(Result<T, StoreError>) -> Result<U, StoreError> + Send + 'static,
    ) -> Result<U, StoreError> {
        self.pause().await;
        let (job, answer) = job(self.name, point, Failure::All, work, then);
        self.put(job, Message::Job).await?;
        self.ticket(answer).done().await
    }

    async fn line_up<T: Send + 'static>(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
        message: fn(writer::Job) -> Message,
    ) -> Result<Ticket<T>, StoreError> {
        let (job, answer) = job(self.name, point, Failure::Own, work, |result| result);
        self.put(job, message).await?;
        Ok(self.ticket(answer))
    }

    async fn put(&self, job: writer::Job, message: fn(writer::Job) -> Message) -> Result<(), StoreError> {
        match &self.way {
            Way::Thread(jobs, bell) => {
                let message = message(job);
                let may_wait = message.may_wait();
                jobs.send(message).await.map_err(|_| StoreError::Closed)?;
                bell.tell(may_wait);
                Ok(())
            }
            Way::Inline(inline) => self.inline(inline, job),
        }
    }

    fn ticket<T>(&self, answer: Answer<T>) -> Ticket<T> {
        Ticket { answer, inline: matches!(self.way, Way::Inline(_)) }
    }

    /// As `submit`, for who does not need to know; `false` when the line is full and nothing was done.
    pub fn try_submit(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> bool {
        self.try_put(point, work, Message::Job)
    }

    /// As `try_submit`, and a moment later than it could be, as with `submit_patiently`.
    pub fn try_submit_patiently(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    ) -> bool {
        self.try_put(point, work, Message::Patient)
    }

    fn try_put(
        &self,
        point: SyncPoint,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
        message: fn(writer::Job) -> Message,
    ) -> bool {
        let job = job(self.name, point, Failure::Own, work, |result| result).0;
        match &self.way {
            Way::Thread(jobs, bell) => {
                let message = message(job);
                let may_wait = message.may_wait();
                jobs.try_send(message).map(|()| bell.tell(may_wait)).is_ok()
            }
            Way::Inline(inline) => self.inline(inline, job).is_ok(),
        }
    }

    /// Reads something, on a thread that may wait for the disk.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The way of a read does not depend on its type, so it is compiled once.
        let done = Arc::new(Mutex::new(None));
        let result = Arc::clone(&done);
        let work: Read = Box::new(move |connection| {
            *result.lock() = Some(work(connection)?);
            Ok(())
        });
        self.read_boxed(work).await?;
        let value = done.lock().take();
        value.ok_or(StoreError::Closed)
    }

    /// As `read`, but a read that takes longer than `limit` is ended with [`StoreError::Busy`], also if nobody waits for it
    /// any more: a few slow reads would keep everybody else from reading. A simulation has no such limit.
    pub async fn read_within<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        if matches!(self.way, Way::Inline(_)) {
            return self.read(work).await;
        }
        let (timed, timer) = ReadTimer::start(limit);
        let read = self.read(move |connection| {
            timer.begin(connection);
            let result = work(connection);
            timer.end();
            result
        });
        let result = read.await;
        match result {
            Err(_) if timed.has_interrupted() => Err(StoreError::Busy(format!(
                "{}: a read took longer than {} s and was ended",
                self.name,
                limit.as_secs()
            ))),
            other => other,
        }
    }

    async fn read_boxed(&self, work: Read) -> Result<(), StoreError> {
        if let Way::Inline(inline) = &self.way {
            self.pause().await;
            let done = self.read_inline(inline, work);
            self.pause().await;
            return done;
        }
        let readers = Arc::clone(&self.readers);
        let _place = self.readers.places.acquire().await.map_err(|_| StoreError::Closed)?;
        let done = hostel_tasks::spawn_blocking(move || readers.with(work)).await;
        done.map_err(|error| StoreError::Sqlite(format!("{}: {error}", self.name)))?
    }

    fn read_inline(&self, inline: &Mutex<Inline>, work: Read) -> Result<(), StoreError> {
        let inline = inline.lock();
        if !inline.in_memory {
            drop(inline);
            return self.readers.with(work);
        }
        let connection = inline.connection.as_ref().ok_or(StoreError::Closed)?;
        work(connection).map_err(|error| StoreError::of(self.name, &error))
    }

    fn inline(&self, inline: &Mutex<Inline>, job: writer::Job) -> Result<(), StoreError> {
        let mut inline = inline.lock();
        let connection = inline.connection.as_mut().ok_or(StoreError::Closed)?;
        write_one(self.name, connection, job, &self.witness);
        Ok(())
    }
}

/// A process without its writer would look alive and refuse every write. After a panic nobody knows either what was
/// written halfway in memory; the next process starts from what is on disk.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// A write that stands in line.
pub struct Ticket<T> {
    answer: Answer<T>,
    /// It is done already; who asks still waits once.
    inline: bool,
}

impl<T> Ticket<T> {
    /// Waits until it is on disk.
    pub async fn done(self) -> Result<T, StoreError> {
        if self.inline {
            tokio::task::yield_now().await;
        }
        self.answer.await.map_err(|_| StoreError::Closed)?
    }
}

/// The file and what SQLite puts beside it must be nobody else's business from the first instant.
fn make_private(name: &str, path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    made.map(drop).map_err(|error| StoreError::Sqlite(format!("{name}: cannot open `{}`: {error}", path.display())))
}

/// Moves what is in the write-ahead log into the database and empties the log, so that the one file is all there is. Reads
/// that have not ended are waited for as for any lock. If the disk has no room or a read takes longer, the log stays, and
/// nothing is lost: whoever opens the database next reads both.
fn complete_file(connection: &Connection) {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).ok();
}

fn connect(path: &Path, flags: OpenFlags, options: Options) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    if flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        if options.incremental_vacuum {
            // Takes effect in a database that has no tables yet.
            connection.pragma_update(None, "auto_vacuum", "incremental")?;
        }
        connection.pragma_update(None, "journal_mode", "wal")?;
        let synchronous = match options.synchronous {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // The log beside the database gives its room back after a burst.
        connection.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES)?;
    }
    connection.pragma_update(None, "cache_size", -i64::from(options.cache_kib))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
