//! The limit for durable sessions: SQLite alone, one writer, what waits committed together.
//!
//! The same row with the same two indexes, the same durability (write-ahead log, synchronous to the disk) and the same
//! most in one commit, without HTTP, without JSON, without anything that is kept in memory.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::anyhow;
use rusqlite::Connection;
use rusqlite::params;

/// The most rows in one commit.
const GROUP: usize = 512;

/// What a session's row holds beside its id, its standing and its time: names, a path, a few numbers.
const REST: [u8; 120] = [b'x'; 120];

const TABLE: &str = "
    CREATE TABLE sessions (
        no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, rest BLOB NOT NULL, standing TEXT NOT NULL,
        active_ns INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX sessions_by_standing ON sessions (standing, active_ns);";

/// A row that waits, and where to say that it is on disk.
struct Job {
    id: String,
    done: mpsc::SyncSender<()>,
}

/// Rows per second that `threads` writers get onto the disk, each waiting for its own before the next.
pub(crate) fn run(dir: &Path, threads: usize, time: Duration) -> Result<f64> {
    let mut connection = Connection::open(dir.join("bare.db")).context("opening the database")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -512)?;
    connection.execute_batch(TABLE)?;
    let (jobs, queue) = mpsc::sync_channel::<Job>(4096);
    let count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || write_all(&mut connection, &queue));
        let begun = Instant::now();
        let askers: Vec<_> = (0..threads)
            .map(|_| {
                let (jobs, count) = (jobs.clone(), &count);
                scope.spawn(move || ask(&jobs, count, begun, time))
            })
            .collect();
        drop(jobs);
        for asker in askers {
            asker.join().map_err(|_| anyhow!("an asking thread died"))?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        writer.join().map_err(|_| anyhow!("the writer died"))??;
        Ok(count.load(Ordering::Relaxed) as f64 / seconds)
    })
}

fn ask(jobs: &mpsc::SyncSender<Job>, count: &AtomicU64, begun: Instant, time: Duration) {
    let (done, landed) = mpsc::sync_channel(1);
    while begun.elapsed() < time {
        let id = scattered(count.fetch_add(1, Ordering::Relaxed));
        // A writer that has failed says why itself.
        if jobs.send(Job { id, done: done.clone() }).is_err() || landed.recv().is_err() {
            return;
        }
    }
}

fn write_all(connection: &mut Connection, queue: &mpsc::Receiver<Job>) -> Result<()> {
    let mut group = Vec::with_capacity(GROUP);
    while let Ok(first) = queue.recv() {
        group.push(first);
        group.extend(queue.try_iter().take(GROUP - 1));
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for (time, job) in (0_i64..).zip(&group) {
            transaction
                .prepare_cached("INSERT INTO sessions (id, rest, standing, active_ns) VALUES (?, ?, 'live', ?)")?
                .execute(params![job.id, REST, time])?;
        }
        transaction.commit()?;
        for job in group.drain(..) {
            // Whoever asked waits for exactly this.
            job.done.send(()).unwrap_or_default();
        }
    }
    Ok(())
}

/// An id as long and as unordered as the ones sessions have.
fn scattered(number: u64) -> String {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    format!("{:08x}-0000-4000-8000-{number:012x}", (mixed >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let rate = run(dir.path(), 3, Duration::from_millis(50)).unwrap();
        let connection = Connection::open(dir.path().join("bare.db")).unwrap();
        let rows: i64 = connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
        assert!(rows > 0 && rate > 0.0);
        assert!(rate * 0.05 <= rows as f64 + 1.0, "{rate} a second, {rows} rows");
        assert_eq!(scattered(7).len(), 36);
    }
}
