//! Forgetting: entries whose time has come or for which there is no room, later the ids they had, and old records of the
//! audit.
//!
//! Invariant: a log loses only its beginning, so its bounds say what is there. A batch is small, so nobody who appends waits
//! long. For want of room only entries go: an id that was forgotten early could be delivered twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hostel_syncpoint::SyncPoint;
use rusqlite::{Transaction, params};

use super::super::types::{EngineError, Pruned};
use super::{Log, State, audience, audit, place, room};

/// Rows of each kind that one call removes at most.
const BATCH: i64 = 500;

/// Pages that one call gives back to the file system at most.
const PAGES: i64 = 256;

/// What was removed of one log.
#[derive(Default)]
struct Gone {
    entries: u64,
    ids: u64,
    bytes: u64,
    /// The first entry that is left, if it is another than before.
    first: Option<u64>,
}

impl Gone {
    /// Lets memory follow.
    fn settle(&self, state: &State, log: &Log) {
        log.bytes.fetch_sub(self.bytes.min(log.bytes.load(Ordering::Relaxed)), Ordering::Relaxed);
        if let Some(first) = self.first {
            log.first.fetch_max(first, Ordering::AcqRel);
            log.ring.lock().forget_before(first);
        }
        if self.ids > 0 {
            state.recent.lock().clear();
        }
    }
}

/// Removes what is over, of all logs and of the audit.
pub(super) async fn prune(state: &State, now_ms: u64) -> Result<Pruned, EngineError> {
    let logs: Vec<Arc<Log>> = state.logs.read().values().cloned().collect();
    let mut pruned = Pruned::default();
    for log in logs {
        let (no, now) = (log.no, i64::try_from(now_ms).unwrap_or(i64::MAX));
        let gone = state.store.write(SyncPoint::NONE, move |transaction| one(transaction, no, now)).await?;
        gone.settle(state, &log);
        pruned.entries += gone.entries;
        pruned.ids += gone.ids;
        pruned.more |= gone.entries == BATCH as u64 || gone.ids == BATCH as u64;
    }
    let (keep, now) = (state.audit, i64::try_from(now_ms).unwrap_or(i64::MAX));
    let (audit, more) =
        state.store.write(SyncPoint::NONE, move |transaction| audit::prune(transaction, keep, now)).await?;
    pruned.audit = audit;
    pruned.more |= more;
    if pruned.entries + pruned.audit > 0 && !pruned.more {
        give_back(state).await?;
    }
    Ok(pruned)
}

/// Removes entries up to a number, until a log takes no more than so many bytes.
pub(super) async fn trim(state: &State, log: &Log, up_to: u64, bytes: u64) -> Result<Pruned, EngineError> {
    let excess = log.bytes.load(Ordering::Relaxed).saturating_sub(bytes);
    let up_to = up_to.min(log.last());
    if excess == 0 || !log.keeps(up_to) {
        return Ok(Pruned::default());
    }
    let no = log.no;
    let gone =
        state.store.write(SyncPoint::NONE, move |transaction| beginning_to(transaction, no, up_to, excess)).await?;
    gone.settle(state, log);
    let more = gone.entries > 0 && gone.bytes < excess && log.keeps(up_to);
    if gone.entries > 0 && !more {
        give_back(state).await?;
    }
    Ok(Pruned { entries: gone.entries, more, ..Pruned::default() })
}

/// Gives some free pages back to the file system at once; the writer gives back the rest when it is quiet.
async fn give_back(state: &State) -> Result<(), EngineError> {
    let give_back = |transaction: &Transaction<'_>| {
        let mut vacuum = transaction.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        Ok(())
    };
    Ok(state.store.write(SyncPoint::NONE, give_back).await?)
}

/// Removes the beginning of one log, and of its ids.
fn one(transaction: &Transaction<'_>, log: i64, now: i64) -> rusqlite::Result<Gone> {
    let is_over = |end: i64, _: u64| end <= now;
    let entries = beginning(transaction, log, ("log", "expires_ms", room::ENTRY_SQL), is_over)?;
    let ids = beginning(transaction, log, ("dedupe", "forget_ms", room::ID_SQL), is_over)?;
    let (first, audiences) = remove(transaction, log, entries.as_ref())?;
    if let Some(ids) = &ids {
        transaction
            .prepare_cached("DELETE FROM dedupe WHERE place > ? AND place <= ?")?
            .execute(params![place::of(log, 0), ids.last])?;
    }
    let (entries, ids) = (entries.unwrap_or_default(), ids.unwrap_or_default());
    let gone = Gone { entries: entries.count, ids: ids.count, bytes: entries.bytes + ids.bytes + audiences, first };
    take_off(transaction, log, gone.bytes)?;
    Ok(gone)
}

/// Removes entries up to a number, until there are so many bytes less.
fn beginning_to(transaction: &Transaction<'_>, log: i64, up_to: u64, excess: u64) -> rusqlite::Result<Gone> {
    let last = place::of(log, up_to);
    let part =
        beginning(transaction, log, ("log", "place", room::ENTRY_SQL), |at, so_far| at <= last && so_far < excess)?;
    let (first, audiences) = remove(transaction, log, part.as_ref())?;
    let part = part.unwrap_or_default();
    let bytes = part.bytes + audiences;
    take_off(transaction, log, bytes)?;
    Ok(Gone { entries: part.count, ids: 0, bytes, first })
}

/// Removes the entries of a part, and audiences with the last entry for them; the number of the first that is left, if any
/// went, and the bytes of the audiences.
fn remove(transaction: &Transaction<'_>, log: i64, part: Option<&Part>) -> rusqlite::Result<(Option<u64>, u64)> {
    let Some(part) = part else { return Ok((None, 0)) };
    transaction
        .prepare_cached("DELETE FROM log WHERE place > ? AND place <= ?")?
        .execute(params![place::of(log, 0), part.last])?;
    let next = place::seq(part.last) + 1;
    transaction.prepare_cached("UPDATE logs SET first_seq = ? WHERE no = ?")?.execute(params![next as i64, log])?;
    Ok((Some(next), audience::forget(transaction, log, part.last)?))
}

fn take_off(transaction: &Transaction<'_>, log: i64, bytes: u64) -> rusqlite::Result<()> {
    if bytes > 0 {
        transaction
            .prepare_cached("UPDATE logs SET bytes = max(0, bytes - ?) WHERE no = ?")?
            .execute(params![bytes as i64, log])?;
    }
    Ok(())
}

/// The first rows of a log.
#[derive(Default)]
struct Part {
    count: u64,
    bytes: u64,
    /// The place of the last of them.
    last: i64,
}

/// The rows at the beginning of a table (its name, the column that decides, what a row takes) for which `goes` holds,
/// given that column and the bytes before it; `None` if there is none.
fn beginning(
    transaction: &Transaction<'_>,
    log: i64,
    (table, column, size): (&str, &str, &str),
    goes: impl Fn(i64, u64) -> bool,
) -> rusqlite::Result<Option<Part>> {
    let sql =
        format!("SELECT place, {column}, {size} FROM {table} WHERE place > ? AND place <= ? ORDER BY place LIMIT ?");
    let mut select = transaction.prepare_cached(&sql)?;
    let mut rows = select.query(params![place::of(log, 0), place::of(log, u64::MAX), BATCH])?;
    let mut part = Part::default();
    while let Some(row) = rows.next()? {
        if !goes(row.get(1)?, part.bytes) {
            break;
        }
        part.count += 1;
        part.bytes += row.get::<_, i64>(2)?.unsigned_abs();
        part.last = row.get(0)?;
    }
    Ok((part.count > 0).then_some(part))
}
