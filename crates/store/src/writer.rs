//! The one thread that writes: take what waits, write it, commit, tell.
//!
//! Invariant: nobody is told that something is written before its group is committed, and a write that fails takes
//! back nothing but itself, unless it says that only the disk can refuse it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_syncpoint::SyncPoint;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::StoreError;
use super::line::{Bell, GROUP, Line, Taken};
use super::witness::{Witness, WitnessPlace};

/// After so long without a write, what the last ones needed of memory goes back to the system.
const QUIET: Duration = Duration::from_millis(300);

/// Free pages that are kept for what is written next; more of them go back to the file system, so many at a time.
const MIN_FREE_PAGES: i64 = 1024;
const PAGES_PER_STEP: i64 = 1024;

/// What SQLite calls the ability to give pages back.
const INCREMENTAL: i64 = 2;

/// What stands in line; nothing comes after the end.
pub(crate) enum Message {
    Job(Job),
    /// One that nobody waits for: it goes with the next that somebody does wait for, or alone a moment later.
    Patient(Job),
    End,
}

impl Message {
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self, Message::Patient(_))
    }

    fn job(self) -> Option<Job> {
        match self {
            Message::Job(job) | Message::Patient(job) => Some(job),
            Message::End => None,
        }
    }
}

/// A write, with the way to tell its asker. Without a transaction it is not done, and the asker hears why. The flag says
/// that it is written alone.
pub(crate) type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StoreError>, bool) -> Told + Send>;

/// What is left to do of a write.
pub(crate) struct Told {
    /// Tells its asker what became of it, once that is certain.
    tell: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
    /// It failed half way, and only the whole transaction can be taken back.
    spoiled: bool,
    /// Nothing of it is in the transaction.
    failed: bool,
}

/// What a write's failure takes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// Itself.
    Own,
    /// What is written together with it as well: for writes that only the disk can refuse. They cost less.
    All,
}

/// The answer to a job, when there is one.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A write and where its answer will be. `then` makes the answer of what became of it, on the writer, after the commit and
/// before the next one.
pub(crate) fn job<T: Send + 'static, U: Send + 'static>(
    name: &'static str,
    point: SyncPoint,
    failure: Failure,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    then: impl FnOnce(Result<T, StoreError>) -> Result<U, StoreError> + Send + 'static,
) -> (Job, Answer<U>) {
    let (answer, answered) = oneshot::channel();
    let job = Box::new(move |transaction: Result<&Transaction<'_>, StoreError>, alone: bool| -> Told {
        let apart = failure == Failure::Own && !alone;
        let result = transaction.map(|transaction| match apart {
            true => (in_savepoint(name, transaction, work), false),
            false => {
                let result = work(transaction).map_err(|error| StoreError::of(name, &error));
                let spoiled = result.is_err();
                (result, spoiled)
            }
        });
        let (result, spoiled) = result.unwrap_or_else(|error| (Err(error), false));
        let failed = result.is_err();
        let tell = move |committed: Result<(), StoreError>| {
            // Its own failure says more than that of all.
            let result = point.reach_if_ok(result.and_then(|value| committed.map(|()| value)));
            // An asker that has left wants no answer; what it asked for counts all the same.
            drop(answer.send(then(result)));
        };
        Told { tell: Box::new(tell), spoiled, failed }
    });
    (job, answered)
}

/// Runs one of several writes so that its failure takes back only itself.
fn in_savepoint<T>(
    name: &'static str,
    transaction: &Transaction<'_>,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let named = |error| StoreError::of(name, &error);
    run(transaction, "SAVEPOINT job").map_err(named)?;
    match work(transaction) {
        Ok(value) => {
            run(transaction, "RELEASE job").map_err(named)?;
            Ok(value)
        }
        Err(error) => {
            roll_back(transaction);
            Err(named(error))
        }
    }
}

fn run(transaction: &Transaction<'_>, sql: &str) -> rusqlite::Result<usize> {
    transaction.prepare_cached(sql)?.execute([])
}

/// Takes back what was written since the savepoint.
fn roll_back(transaction: &Transaction<'_>) {
    if run(transaction, "ROLLBACK TO job").and_then(|_| run(transaction, "RELEASE job")).is_err() {
        // It cannot be taken back alone, or SQLite has taken everything back already.
        run(transaction, "ROLLBACK").ok();
    }
}

/// The writer's whole life. When it is quiet it gives back free pages and, where somebody asks for that, memory.
pub(crate) fn write_all(
    name: &'static str,
    connection: &mut Connection,
    queue: mpsc::Receiver<Message>,
    bell: Arc<Bell>,
    when_quiet: Option<fn()>,
    witness: &WitnessPlace,
) {
    let mut line = Line::new(queue, bell);
    let mut group = Vec::with_capacity(GROUP);
    let (mut open, mut is_warm) = (true, true);
    while open {
        match line.take(&mut group, is_warm.then_some(QUIET)) {
            Taken::Group => is_warm = true,
            Taken::Nothing => {
                // As long as there are free pages, it is quiet again a moment later.
                is_warm = give_back_pages(connection).unwrap_or(false);
                if let Some(quiet) = when_quiet.filter(|_| !is_warm) {
                    connection.execute_batch("PRAGMA shrink_memory").ok();
                    quiet();
                }
                continue;
            }
            Taken::Closed => return,
        }
        let mut coming = Coming { group: group.drain(..), line: &mut line, came: 0, until: None, ended: false };
        let (committed, told) = write_jobs(name, connection, &mut coming, witness.get());
        open = !coming.ended;
        let came = coming.came;
        drop(coming);
        line.answering(came);
        tell(&committed, told);
    }
}

/// Gives some free pages back to the file system; whether there are more. A database that was made without this ability
/// keeps them, and writes over them.
fn give_back_pages(connection: &Connection) -> rusqlite::Result<bool> {
    let number = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0));
    let free = number("PRAGMA freelist_count")?;
    if free < MIN_FREE_PAGES || number("PRAGMA auto_vacuum")? != INCREMENTAL {
        return Ok(false);
    }
    let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_PER_STEP})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    let left = number("PRAGMA freelist_count")?;
    let more = left >= MIN_FREE_PAGES && left < free;
    if !more {
        // The file shrinks with the checkpoint.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    }
    Ok(more)
}

/// What is written together: what stood in line, and who comes back while that is written.
struct Coming<'a> {
    group: std::vec::Drain<'a, Message>,
    line: &'a mut Line,
    /// How many of them somebody waits for.
    came: usize,
    /// How long it is worth to wait for more.
    until: Option<Instant>,
    /// Nothing comes after the end.
    ended: bool,
}

impl Iterator for Coming<'_> {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        if self.ended {
            return None;
        }
        let message = match self.group.next() {
            Some(message) => message,
            None => self.line.one_more(self.came, &mut self.until)?,
        };
        self.came += usize::from(!message.may_wait());
        let job = message.job();
        self.ended = job.is_none();
        job
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let known = self.group.len();
        (known, (!self.line.expects_more()).then_some(known))
    }
}

/// Writes one job by itself, and tells what became of it.
pub(crate) fn write_one(name: &'static str, connection: &mut Connection, job: Job, witness: &WitnessPlace) {
    let (committed, told) = write_jobs(name, connection, &mut std::iter::once(job), witness.get());
    tell(&committed, told);
}

fn tell(committed: &Result<(), StoreError>, told: Vec<Told>) {
    for told in told {
        (told.tell)(committed.clone());
    }
}

/// Writes several jobs in one transaction. Each is still to be told what became of it.
fn write_jobs(
    name: &'static str,
    connection: &mut Connection,
    jobs: &mut dyn Iterator<Item = Job>,
    witness: Option<&dyn Witness>,
) -> (Result<(), StoreError>, Vec<Told>) {
    let mut told = Vec::with_capacity(jobs.size_hint().0);
    let committed = commit_group(name, connection, jobs, &mut told, witness);
    if let Some(witness) = witness {
        witness.settled(committed.is_ok());
    }
    if let Err(error) = &committed {
        // Those that could not even be begun.
        told.extend(jobs.map(|job| job(Err(error.clone()), false)));
    }
    (committed, told)
}

/// SQLite ends a transaction by itself when the disk is full or fails: whatever is written after that would be
/// committed on its own, so there is nothing after that.
fn commit_group(
    name: &'static str,
    connection: &mut Connection,
    jobs: &mut dyn Iterator<Item = Job>,
    told: &mut Vec<Told>,
    witness: Option<&dyn Witness>,
) -> Result<(), StoreError> {
    let named = |error| StoreError::of(name, &error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
    let broken = || StoreError::Sqlite(format!("{name}: the disk refused what was written together with this"));
    if let Some(witness) = witness {
        witness.begin(&transaction);
    }
    // What is written alone is taken back by taking everything back.
    let alone = jobs.size_hint() == (1, Some(1));
    for job in jobs {
        let ended = transaction.is_autocommit();
        let mark = witness.map(Witness::mark);
        let one = job(if ended { Err(broken()) } else { Ok(&transaction) }, alone);
        let spoiled = one.spoiled;
        if let (Some(witness), Some(mark), true) = (witness, mark, one.failed) {
            witness.go_back(mark);
        }
        told.push(one);
        if spoiled {
            return Err(broken());
        }
    }
    if transaction.is_autocommit() {
        return Err(broken());
    }
    if let Some(witness) = witness {
        witness.prepare(&transaction).map_err(|why| StoreError::Sqlite(format!("{name}: {why}")))?;
    }
    transaction.commit().map_err(named)
}
