//! Forgetting: entries whose time has come, and later the ids they had.
//!
//! Invariant: a log loses only its beginning, so its bounds say what is there. A batch is small, so nobody who appends waits
//! long.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Transaction, params};

use super::super::types::{EngineError, Pruned};
use super::{Log, State, place};

/// Rows of each kind that one call removes at most.
const BATCH: i64 = 500;

/// Pages that one call gives back to the file system at most.
const PAGES: i64 = 256;

pub(super) async fn prune(state: &State, now_ms: u64) -> Result<Pruned, EngineError> {
    let logs: Vec<Arc<Log>> = state.logs.read().values().cloned().collect();
    let mut pruned = Pruned::default();
    for log in logs {
        let (no, now) = (log.no, i64::try_from(now_ms).unwrap_or(i64::MAX));
        let (entries, ids, first) = state.store.write(move |transaction| one(transaction, no, now)).await?;
        if let Some(first) = first {
            log.first.fetch_max(first, Ordering::AcqRel);
            log.ring.lock().forget_before(first);
        }
        if ids > 0 {
            state.recent.lock().clear();
        }
        pruned.entries += entries;
        pruned.ids += ids;
        pruned.more |= entries == BATCH as u64 || ids == BATCH as u64;
    }
    if pruned.entries > 0 && !pruned.more {
        let give_back = |transaction: &Transaction<'_>| {
            let mut vacuum = transaction.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
            let mut rows = vacuum.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        };
        state.store.write(give_back).await?;
    }
    Ok(pruned)
}

/// Removes the beginning of one log, and of its ids: how many of each, and the first entry that is left.
fn one(transaction: &Transaction<'_>, log: i64, now: i64) -> rusqlite::Result<(u64, u64, Option<u64>)> {
    let entries = beginning(transaction, log, now, "log", "expires_ms")?;
    let mut first = None;
    if let Some((_, last)) = entries {
        transaction
            .prepare_cached("DELETE FROM log WHERE place > ? AND place <= ?")?
            .execute(params![place::of(log, 0), last])?;
        let next = place::seq(last) + 1;
        transaction.prepare_cached("UPDATE logs SET first_seq = ? WHERE no = ?")?.execute(params![next as i64, log])?;
        first = Some(next);
    }
    let ids = beginning(transaction, log, now, "dedupe", "forget_ms")?;
    if let Some((_, last)) = ids {
        transaction
            .prepare_cached("DELETE FROM dedupe WHERE place > ? AND place <= ?")?
            .execute(params![place::of(log, 0), last])?;
    }
    let count = |found: Option<(u64, i64)>| found.map_or(0, |(count, _)| count);
    Ok((count(entries), count(ids), first))
}

/// How many rows at the beginning are over, and the place of the last of them.
fn beginning(
    transaction: &Transaction<'_>,
    log: i64,
    now: i64,
    table: &str,
    end: &str,
) -> rusqlite::Result<Option<(u64, i64)>> {
    let sql = format!("SELECT place, {end} FROM {table} WHERE place > ? AND place <= ? ORDER BY place LIMIT ?");
    let mut select = transaction.prepare_cached(&sql)?;
    let mut rows = select.query(params![place::of(log, 0), place::of(log, u64::MAX), BATCH])?;
    let mut found = None;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(1)? > now {
            break;
        }
        count += 1;
        found = Some((count, row.get(0)?));
    }
    Ok(found)
}
