//! The limits for an outbox: SQLite alone with the outbox's own schema, on the same disk, synchronous, write-ahead log.
//!
//! One commit for each row, in a loop that does nothing else; and one writer that commits together what its callers have
//! put in line. Both insert the row that an accepted message makes, with everything in it made beforehand: no JSON, no
//! fingerprint, no lanes, nothing that is kept in memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::anyhow;
use hostel_mesh::outbox::Payload;
use hostel_mesh::schema;
use hostel_wire::Clock;
use hostel_wire::ids;
use rusqlite::Connection;
use rusqlite::TransactionBehavior;
use rusqlite::params;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::TEXT;

/// The most rows in one commit.
const GROUP: usize = 512;

/// Rows that may wait for the writer.
const QUEUE: usize = 4096;

/// As a mesh daemon has them: one thread for everything that does not wait for the disk.
pub(crate) fn runtime() -> Result<Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.context("starting the runtime")
}

/// What is the same in every row.
struct Sample {
    payload: Vec<u8>,
    clock: Clock,
}

impl Sample {
    fn new() -> Result<Sample> {
        let payload = Payload { body: TEXT.to_owned(), ..Payload::default() };
        Ok(Sample { payload: serde_json::to_vec(&payload)?, clock: Clock::system() })
    }

    fn insert(&self, connection: &Connection, id: &str) -> rusqlite::Result<()> {
        let now = self.clock.now_ms().cast_signed();
        connection
            .prepare_cached(
                "INSERT INTO outbox (client_message_id, request_fingerprint, sender_session, dest_kind, dest_ref, priority,
                 status, enqueued_at, expires_at, payload) VALUES (?, ?, NULL, 'dm', ?, 'next', 'pending', ?, ?, ?)",
            )?
            .execute(params![id, [7_u8; 32], super::stock::MEMBER, now, now + 600_000_000, self.payload])
            .map(drop)
    }
}

fn open(dir: &Path) -> Result<Connection> {
    let connection = Connection::open(dir.join("bare.db")).context("opening the database")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -1024)?;
    for step in schema::OUTBOX.steps {
        connection.execute_batch(step)?;
    }
    Ok(connection)
}

/// Rows per second with a commit for each, one after the other.
pub(crate) fn row_by_row(dir: &Path, time: Duration) -> Result<f64> {
    let (connection, sample) = (open(dir)?, Sample::new()?);
    let begun = Instant::now();
    let mut count = 0_u64;
    while begun.elapsed() < time {
        sample.insert(&connection, &ids::ulid(sample.clock.now_ms()))?;
        count += 1;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// A row that waits, and where to say that it is on disk.
struct Job {
    id: String,
    done: oneshot::Sender<()>,
}

/// Rows per second that so many callers get onto the disk, each waiting for its own before the next.
pub(crate) fn together(dir: &Path, callers: usize, time: Duration) -> Result<f64> {
    let (mut connection, sample) = (open(dir)?, Sample::new()?);
    let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
    let writer = std::thread::spawn(move || write_all(&mut connection, &sample, &mut queue));
    let count = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let seconds = runtime()?.block_on(async {
        let asking = (0..callers).map(|_| tokio::spawn(ask(jobs.clone(), Arc::clone(&count), begun, time)));
        let asking: Vec<_> = asking.collect();
        for one in asking {
            one.await.context("a caller died")?;
        }
        anyhow::Ok(begun.elapsed().as_secs_f64())
    })?;
    drop(jobs);
    writer.join().map_err(|_| anyhow!("the writer died"))??;
    Ok(count.load(Ordering::Relaxed) as f64 / seconds)
}

async fn ask(jobs: mpsc::Sender<Job>, count: Arc<AtomicU64>, begun: Instant, time: Duration) {
    let clock = Clock::system();
    while begun.elapsed() < time {
        let (done, landed) = oneshot::channel();
        // A writer that has failed says why itself.
        if jobs.send(Job { id: ids::ulid(clock.now_ms()), done }).await.is_err() || landed.await.is_err() {
            return;
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn write_all(connection: &mut Connection, sample: &Sample, queue: &mut mpsc::Receiver<Job>) -> Result<()> {
    let mut group = Vec::with_capacity(GROUP);
    while let Some(first) = queue.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(job) = queue.try_recv()
        {
            group.push(job);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for job in &group {
            sample.insert(&transaction, &job.id)?;
        }
        transaction.commit()?;
        for job in group.drain(..) {
            // Whoever asked waits for exactly this.
            job.done.send(()).unwrap_or_default();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(dir: &Path) -> i64 {
        let connection = Connection::open(dir.join("bare.db")).unwrap();
        connection.query_row("SELECT count(*) FROM outbox", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn what_is_counted_is_on_disk() {
        let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let time = Duration::from_millis(50);
        let rate = row_by_row(one.path(), time).unwrap();
        assert!(rate > 0.0 && rate * 0.05 <= rows(one.path()) as f64 + 1.0);
        let rate = together(many.path(), 4, time).unwrap();
        assert!(rate > 0.0 && rate * 0.05 <= rows(many.path()) as f64 + 4.0);
    }
}
