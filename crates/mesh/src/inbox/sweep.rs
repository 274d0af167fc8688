//! Forgetting what is old, and giving room back.
//!
//! Invariant: in small steps, so that what comes in never waits long for it.

use std::sync::atomic::Ordering;

use hostel_store::StoreError;
use hostel_syncpoint::SyncPoint;
use hostel_wire::BelievedTime;
use rusqlite::{Transaction, params};

use super::rows::{self, number};
use super::{Inbox, announced};
use crate::schema::signed;

/// Rows deleted in one transaction.
const BATCH: u64 = 500;

/// Pages given back in one transaction.
const PAGES: i64 = 500;

/// Pages of the index merged in one transaction, the steps after a sweep, and those of the weekly merge at most.
const MERGE_PAGES: i64 = 200;
const MERGES: u32 = 50;
const MERGES_AT_MOST: u32 = 100_000;

/// How often room is given back.
const VACUUM_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// The fact that says when that was.
const VACUUMED: &str = "vacuumed_at";

/// The facts that say what time was believed, and for how long the clock had been doubted.
const BELIEVED: &str = "believed_ms";
const DOUBTED: &str = "doubted_ms";

impl Inbox {
    /// What time the daemon before believed; where it did not say, when the newest message came. `None` for a new inbox.
    pub(crate) async fn believed_time(&self) -> Result<Option<BelievedTime>, StoreError> {
        let latest = self.inner.latest.load(Ordering::Relaxed);
        self.store
            .read(move |connection| {
                let kept = rows::fact(connection, BELIEVED)?.map(i64::cast_unsigned);
                let doubted_ms = rows::fact(connection, DOUBTED)?.map_or(0, i64::cast_unsigned);
                let received = Some(BelievedTime { time_ms: latest, doubted_ms: 0 }).filter(|_| latest > 0);
                Ok(kept.map(|time_ms| BelievedTime { time_ms, doubted_ms }).or(received))
            })
            .await
    }

    /// Writes down what time is believed.
    pub(crate) async fn keep_believed_time(&self, believed: BelievedTime) -> Result<(), StoreError> {
        let work = move |transaction: &Transaction<'_>| {
            rows::set_fact(transaction, BELIEVED, signed(believed.time_ms))?;
            rows::set_fact(transaction, DOUBTED, signed(believed.doubted_ms))
        };
        self.store.write(SyncPoint::NONE, work).await
    }

    /// Deletes what is older than the retention, and of the rest the oldest if it takes too many bytes; how many rows
    /// that were. Events are trimmed as well.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        self.events().sweep().await?;
        self.store.write(SyncPoint::NONE, announced::trim).await?;
        let (now, retention) = (self.inner.ages.now_ms(), self.inner.retention_ms.load(Ordering::Relaxed));
        let before = if retention == 0 { 0 } else { now.saturating_sub(retention) };
        let deleted = self.delete_oldest(before, u64::MAX).await?;
        if deleted > 0 {
            // The index forgets only when its parts are merged.
            self.merge(Some(MERGES)).await?;
        }
        Ok(deleted + self.keep_limit().await?)
    }

    /// Deletes the oldest rows if all together take too many bytes, and gives the room back to the disk; how many rows
    /// that were.
    pub async fn keep_limit(&self) -> Result<u64, StoreError> {
        let excess = self.excess().await?;
        if excess == 0 {
            return Ok(0);
        }
        let deleted = self.delete_oldest(u64::MAX, excess).await?;
        self.merge(Some(MERGES)).await?;
        self.give_back_all().await?;
        Ok(deleted)
    }

    async fn give_back_all(&self) -> Result<(), StoreError> {
        let mut left = i64::MAX;
        loop {
            let free = self.store.write(SyncPoint::NONE, give_back).await?;
            if free == 0 || free >= left {
                return Ok(());
            }
            left = free;
        }
    }

    /// Deletes the oldest rows received before then, at most so many.
    async fn delete_oldest(&self, before: u64, most: u64) -> Result<u64, StoreError> {
        let mut deleted = 0;
        while deleted < most {
            let batch = BATCH.min(most - deleted);
            let some = self.store.write(SyncPoint::NONE, move |transaction| delete(transaction, before, batch)).await?;
            if some == 0 {
                break;
            }
            deleted += some;
            let rows = self.inner.rows.load(Ordering::Relaxed);
            self.inner.rows.fetch_sub(some.min(rows), Ordering::Relaxed);
        }
        Ok(deleted)
    }

    /// How many rows must go so that the rest has room: their share, since the index gives its room back only later.
    async fn excess(&self) -> Result<u64, StoreError> {
        let (max_bytes, rows) = (self.inner.max_bytes.load(Ordering::Relaxed), self.inner.rows.load(Ordering::Relaxed));
        let used = self.store.read(|connection| {
            let pages = number(connection, "PRAGMA page_count")? - number(connection, "PRAGMA freelist_count")?;
            Ok(pages.saturating_mul(number(connection, "PRAGMA page_size")?).cast_unsigned())
        });
        let used = used.await?;
        if max_bytes == 0 || used <= max_bytes {
            return Ok(0);
        }
        let over = u128::from(used - max_bytes / 10 * 9) * u128::from(rows) / u128::from(used);
        Ok(u64::try_from(over).unwrap_or(rows).max(1))
    }

    /// Gives free room back to the disk once a week; whether it was time. The week begins with the first look.
    pub async fn vacuum_if_due(&self) -> Result<bool, StoreError> {
        let now = self.inner.clock.now_ms();
        let due = move |transaction: &Transaction<'_>| {
            let last = rows::fact(transaction, VACUUMED)?.map_or(0, i64::cast_unsigned);
            let due = now.abs_diff(last) >= VACUUM_MS;
            if due {
                rows::set_fact(transaction, VACUUMED, signed(now))?;
            }
            Ok(due && last > 0)
        };
        if !self.store.write(SyncPoint::NONE, due).await? {
            return Ok(false);
        }
        self.merge(None).await?;
        self.give_back_all().await?;
        Ok(true)
    }

    /// Merges parts of the index, in at most so many steps; `None`: until it is one.
    async fn merge(&self, steps: Option<u32>) -> Result<(), StoreError> {
        if steps.is_none() {
            // A negative number puts all parts on one level, so that they can become one.
            self.store.write(SyncPoint::NONE, |transaction| merge(transaction, -MERGE_PAGES)).await?;
        }
        for _ in 0..steps.unwrap_or(MERGES_AT_MOST) {
            if !self.store.write(SyncPoint::NONE, |transaction| merge(transaction, MERGE_PAGES)).await? {
                break;
            }
        }
        Ok(())
    }
}

fn delete(transaction: &Transaction<'_>, before: u64, limit: u64) -> rusqlite::Result<u64> {
    let deleted = transaction
        .prepare_cached(
            "DELETE FROM inbox WHERE no IN (SELECT no FROM inbox WHERE received_at < ?1 ORDER BY received_at LIMIT ?2)",
        )?
        .execute(params![signed(before), signed(limit)])?;
    Ok(deleted as u64)
}

/// Does some merging; whether there may be more to do.
fn merge(transaction: &Transaction<'_>, pages: i64) -> rusqlite::Result<bool> {
    let before = transaction.total_changes();
    transaction.prepare_cached("INSERT INTO inbox_fts (inbox_fts, rank) VALUES ('merge', ?)")?.execute([pages])?;
    // FTS5 says so: fewer than two changes mean that nothing was merged.
    Ok(transaction.total_changes() - before >= 2)
}

/// Gives some free pages back; how many are left.
fn give_back(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    let mut statement = transaction.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut steps = statement.query([])?;
    while steps.next()?.is_some() {}
    drop(steps);
    number(transaction, "PRAGMA freelist_count")
}
