//! `state.db`: everything of the house that must outlive the daemon and is not a process's output.
//!
//! Invariant: one thread writes. What waits is written together and committed once (group commit, synchronous to
//! the disk), and nobody is told that something is written before it is. A write that fails takes back nothing but
//! itself. Readers have connections of their own and never wait for the writer.
//!
//! It knows no tables; the rooms that own them bring their statements.

mod line;
mod migrations;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::{Semaphore, mpsc, oneshot};

use line::{GROUP, Line, Taken};

/// Writes that may wait for the writer; more make their askers wait.
const QUEUE: usize = 4096;

/// Connections for reading that are kept open, and that there may be at once: each has a cache and descriptors.
const READERS: usize = 2;
const MOST_READERS: usize = 8;

/// After so long without a write, what the last ones needed of memory goes back to the system.
const QUIET: Duration = Duration::from_millis(300);

/// How long a reader waits for a lock: only a checkpoint can hold one, and briefly.
const BUSY: Duration = Duration::from_secs(5);

/// Why something could not be written or read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// SQLite's own reason.
    #[error("state.db: {0}")]
    Sqlite(String),
    /// Made by a later program.
    #[error("state.db is of version {found}, this program knows {known}; use the later program")]
    TooNew {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// What it is about is being worked on.
    #[error("{0}")]
    Busy(String),
    /// The writer is gone: the daemon is ending.
    #[error("state.db is closed")]
    Closed,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::Sqlite(error.to_string())
    }
}

/// What stands in line; nothing comes after the end.
enum Message {
    Job(Job),
    /// One that nobody waits for: it goes with the next that somebody does wait for, or alone a moment later.
    Patient(Job),
    End,
}

impl Message {
    fn may_wait(&self) -> bool {
        matches!(self, Message::Patient(_))
    }

    fn job(self) -> Option<Job> {
        match self {
            Message::Job(job) | Message::Patient(job) => Some(job),
            Message::End => None,
        }
    }
}

/// A write, with the way to tell its asker. Without a transaction it is not done, and the asker hears why.
type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StoreError>) -> Told + Send>;

/// Tells an asker what became of its write, once that is certain.
type Told = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    jobs: mpsc::Sender<Message>,
    readers: Arc<Readers>,
    /// Lives as long as the writer.
    writer: Weak<()>,
}

struct Readers {
    path: std::path::PathBuf,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Store {
    /// Opens the database, makes it if it is missing, brings it up to date and starts its writer.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path)?;
        let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        migrations::run(&mut writer)?;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let life = Arc::new(());
        let alive = Arc::downgrade(&life);
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                write_all(writer, queue);
                drop(life);
            })
            .map_err(|error| StoreError::Sqlite(error.to_string()))?;
        let places = Semaphore::new(MOST_READERS);
        let readers = Arc::new(Readers { path: path.to_owned(), idle: Mutex::default(), places });
        Ok(Self { jobs, readers, writer: alive })
    }

    /// Lets what stands in line be written, and nothing after it. What is returned is gone once that is done.
    pub fn close(&self) -> Weak<()> {
        let (jobs, writer) = (self.jobs.clone(), Weak::clone(&self.writer));
        // The line may be full: a thread may wait for room in it, the caller may not be able to.
        std::thread::spawn(move || jobs.blocking_send(Message::End).ok());
        writer
    }

    /// Writes something and waits until it is on disk.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(work).await?.done().await
    }

    /// Puts a write in line and returns; the ticket tells when it is on disk. Writes take effect in the order in which
    /// they were put in line.
    pub async fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Ticket<T>, StoreError> {
        let (job, answer) = job(work);
        self.jobs.send(Message::Job(job)).await.map_err(|_| StoreError::Closed)?;
        Ok(Ticket(answer))
    }

    /// As `submit`, for what nobody waits for: it may be on disk a moment later than it could be, and a commit is saved.
    pub async fn submit_patiently<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Ticket<T>, StoreError> {
        let (job, answer) = job(work);
        self.jobs.send(Message::Patient(job)).await.map_err(|_| StoreError::Closed)?;
        Ok(Ticket(answer))
    }

    /// As `submit`, for who does not need to know; `false` when the line is full and nothing was done.
    pub fn try_submit(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static) -> bool {
        self.jobs.try_send(Message::Job(job(work).0)).is_ok()
    }

    /// Reads something, on a thread that may wait for the disk.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self.readers);
        let _place = self.readers.places.acquire().await.map_err(|_| StoreError::Closed)?;
        let done = tokio::task::spawn_blocking(move || readers.with(work)).await;
        done.map_err(|error| StoreError::Sqlite(error.to_string()))?
    }
}

/// A write that stands in line.
pub struct Ticket<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Ticket<T> {
    /// Waits until it is on disk.
    pub async fn done(self) -> Result<T, StoreError> {
        self.0.await.map_err(|_| StoreError::Closed)?
    }
}

impl Readers {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let result = work(&connection);
        let mut idle = self.idle.lock();
        if idle.len() < READERS {
            idle.push(connection);
        }
        Ok(result?)
    }
}

/// The file and what SQLite puts beside it must be nobody else's business from the first instant.
fn make_private(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    made.map(drop).map_err(|error| StoreError::Sqlite(format!("cannot open `{}`: {error}", path.display())))
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    if flags.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        connection.pragma_update(None, "journal_mode", "wal")?;
        // What was acknowledged is on disk, not only with the system.
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
    }
    connection.pragma_update(None, "cache_size", -512)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn job<T: Send + 'static>(
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, StoreError>>) {
    let (answer, answered) = oneshot::channel();
    let job = Box::new(move |transaction: Result<&Transaction<'_>, StoreError>| -> Told {
        let result = transaction.and_then(|transaction| in_savepoint(transaction, work));
        // An asker that has left wants no answer; what it asked for counts all the same.
        Box::new(move |committed| drop(answer.send(committed.and(result))))
    });
    (job, answered)
}

/// Runs one of several writes so that its failure takes back only itself.
fn in_savepoint<T>(
    transaction: &Transaction<'_>,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let run = |sql| transaction.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    run("SAVEPOINT job")?;
    match work(transaction) {
        Ok(value) => {
            run("RELEASE job")?;
            Ok(value)
        }
        Err(error) => {
            if run("ROLLBACK TO job").and_then(|_| run("RELEASE job")).is_err() {
                // It cannot be taken back alone, or SQLite has taken everything back already.
                run("ROLLBACK").ok();
            }
            Err(error.into())
        }
    }
}

/// The writer's whole life: take what waits, write it, commit, tell.
fn write_all(mut connection: Connection, queue: mpsc::Receiver<Message>) {
    let mut line = Line::new(queue);
    let mut group = Vec::with_capacity(GROUP);
    let (mut open, mut is_warm) = (true, true);
    while open {
        match line.take(&mut group, is_warm.then_some(QUIET)) {
            Taken::Group => is_warm = true,
            Taken::Nothing => {
                is_warm = false;
                connection.execute_batch("PRAGMA shrink_memory").ok();
                hostel_keeper::memory::give_back();
                continue;
            }
            Taken::Closed => return,
        }
        let end = group.iter().position(|message| matches!(message, Message::End));
        open = end.is_none();
        group.truncate(end.unwrap_or(group.len()));
        let mut told = Vec::with_capacity(group.len());
        let committed = write_group(&mut connection, &mut group, &mut told);
        // Those that could not even be begun.
        for message in group.drain(..) {
            if let (Some(job), Err(error)) = (message.job(), &committed) {
                told.push(job(Err(error.clone())));
            }
        }
        for tell in told {
            tell(committed.clone());
        }
    }
}

/// Writes what waits in one transaction. SQLite ends a transaction by itself when the disk is full or fails: whatever
/// is written after that would be committed on its own, so there is nothing after that.
fn write_group(connection: &mut Connection, group: &mut Vec<Message>, told: &mut Vec<Told>) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let broken = || StoreError::Sqlite("the disk refused what was written together with this".to_owned());
    for message in group.drain(..) {
        if let Some(job) = message.job() {
            let ended = transaction.is_autocommit();
            told.push(job(if ended { Err(broken()) } else { Ok(&transaction) }));
        }
    }
    match transaction.is_autocommit() {
        true => Err(broken()),
        false => transaction.commit().map_err(StoreError::from),
    }
}
