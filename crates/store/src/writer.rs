//! The one thread that writes: take what waits, write it, commit, tell.
//!
//! Invariant: nobody is told that something is written before its group is committed, and a write that fails takes
//! back nothing but itself.

use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::StoreError;
use super::line::{GROUP, Line, Taken};

/// After so long without a write, what the last ones needed of memory goes back to the system.
const QUIET: Duration = Duration::from_millis(300);

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

/// A write, with the way to tell its asker. Without a transaction it is not done, and the asker hears why.
pub(crate) type Job = Box<dyn FnOnce(Result<&Transaction<'_>, StoreError>) -> Told + Send>;

/// Tells an asker what became of its write, once that is certain.
type Told = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The answer to a job, when there is one.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A write and where its answer will be.
pub(crate) fn job<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
) -> (Job, Answer<T>) {
    let (answer, answered) = oneshot::channel();
    let job = Box::new(move |transaction: Result<&Transaction<'_>, StoreError>| -> Told {
        let result = transaction.and_then(|transaction| in_savepoint(name, transaction, work));
        // An asker that has left wants no answer; what it asked for counts all the same.
        Box::new(move |committed| drop(answer.send(committed.and(result))))
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
    let run = |sql| transaction.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
    run("SAVEPOINT job").map_err(named)?;
    match work(transaction) {
        Ok(value) => {
            run("RELEASE job").map_err(named)?;
            Ok(value)
        }
        Err(error) => {
            if run("ROLLBACK TO job").and_then(|_| run("RELEASE job")).is_err() {
                // It cannot be taken back alone, or SQLite has taken everything back already.
                run("ROLLBACK").ok();
            }
            Err(named(error))
        }
    }
}

/// The writer's whole life. Where there is something to do when it is quiet, it also gives back SQLite's memory then.
pub(crate) fn write_all(
    name: &'static str,
    mut connection: Connection,
    queue: mpsc::Receiver<Message>,
    when_quiet: Option<fn()>,
) {
    let mut line = Line::new(queue);
    let mut group = Vec::with_capacity(GROUP);
    let (mut open, mut is_warm) = (true, true);
    while open {
        let quiet = when_quiet.filter(|_| is_warm);
        match line.take(&mut group, quiet.map(|_| QUIET)) {
            Taken::Group => is_warm = true,
            Taken::Nothing => {
                is_warm = false;
                connection.execute_batch("PRAGMA shrink_memory").ok();
                if let Some(quiet) = quiet {
                    quiet();
                }
                continue;
            }
            Taken::Closed => return,
        }
        let end = group.iter().position(|message| matches!(message, Message::End));
        open = end.is_none();
        group.truncate(end.unwrap_or(group.len()));
        write_group(name, &mut connection, group.drain(..).filter_map(Message::job).collect());
    }
}

/// Writes several jobs in one transaction, and tells each what became of it.
pub(crate) fn write_group(name: &'static str, connection: &mut Connection, jobs: Vec<Job>) {
    let mut told = Vec::with_capacity(jobs.len());
    let mut jobs = jobs.into_iter();
    let committed = commit_group(name, connection, &mut jobs, &mut told);
    // Those that could not even be begun.
    for job in jobs {
        if let Err(error) = &committed {
            told.push(job(Err(error.clone())));
        }
    }
    for tell in told {
        tell(committed.clone());
    }
}

/// SQLite ends a transaction by itself when the disk is full or fails: whatever is written after that would be
/// committed on its own, so there is nothing after that.
fn commit_group(
    name: &'static str,
    connection: &mut Connection,
    jobs: &mut std::vec::IntoIter<Job>,
    told: &mut Vec<Told>,
) -> Result<(), StoreError> {
    let named = |error| StoreError::of(name, &error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
    let broken = || StoreError::Sqlite(format!("{name}: the disk refused what was written together with this"));
    for job in jobs {
        let ended = transaction.is_autocommit();
        told.push(job(if ended { Err(broken()) } else { Ok(&transaction) }));
    }
    match transaction.is_autocommit() {
        true => Err(broken()),
        false => transaction.commit().map_err(named),
    }
}
