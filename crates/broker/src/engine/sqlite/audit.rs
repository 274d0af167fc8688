//! The audit's tables: writing behind the last record, letting go of the first ones, and reading.
//!
//! Invariant: the last record is read inside the transaction that writes behind it, by the one writer: the chain cannot
//! fork. It loses only its beginning, and with it, in the same transaction, goes a note of the last record that went: what
//! is kept can be verified as before. There are never many more records than may be kept, whoever writes how fast.
//!
//! It never lets go of the newest record, and of none that cannot be noted: a record that somebody damaged stays.

use hostel_wire::encoding;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde_json::Value;

use crate::audit::{AuditEvent, AuditRecord, CHAIN};

const DAY_MS: i64 = 86_400_000;

const COLUMNS: &str = "no, time_ms, mesh, kind, actor, subject, body, previous, digest";

/// Records that go in one step; where some are written, one more than those.
const STEP: i64 = 500;

/// How much of the audit is kept; 0: as much as there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    /// Records.
    pub(super) records: u64,
    /// And how old one may become, in days.
    pub(super) days: u32,
}

/// Writes records behind the last one; as many go at the beginning as are too many.
pub(super) fn append(transaction: &Transaction<'_>, events: &[AuditEvent], keep: Keep) -> rusqlite::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut head = transaction.prepare_cached("SELECT no, digest FROM audit_head")?;
    let (mut no, mut previous) = head.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?)))?;
    let mut insert =
        transaction.prepare_cached(&format!("INSERT INTO audit ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"))?;
    for AuditEvent { mesh, kind, actor, subject, body, time_ms } in events {
        no += 1;
        let (time_ms, body) = (i64::try_from(*time_ms).unwrap_or(i64::MAX), body.to_string());
        let texts = [mesh, kind, actor, subject, &body].map(String::as_bytes);
        let digest = CHAIN.digest(no, time_ms, &texts, &previous);
        insert.execute(params![no, time_ms, mesh, kind, actor, subject, body, previous, digest])?;
        previous = digest;
    }
    transaction.prepare_cached("UPDATE audit_head SET no = ?, digest = ?")?.execute(params![no, previous])?;
    if keep.records > 0 {
        let most = i64::try_from(events.len()).unwrap_or(i64::MAX).saturating_add(1);
        let first = gone(transaction)?;
        forget(transaction, first, (no - bound(keep.records)).min(first + most))?;
    }
    Ok(())
}

/// Lets go of records that are too many or too old, a batch; how many, and whether there may be more.
pub(super) fn prune(transaction: &Transaction<'_>, keep: Keep, now_ms: i64) -> rusqlite::Result<(u64, bool)> {
    let first = gone(transaction)?;
    let last: i64 = transaction.prepare_cached("SELECT no FROM audit_head")?.query_row([], |row| row.get(0))?;
    let many = if keep.records > 0 { last - bound(keep.records) } else { first };
    let old = if keep.days > 0 { old(transaction, first, now_ms - i64::from(keep.days) * DAY_MS)? } else { first };
    let most = first + STEP;
    let count = forget(transaction, first, many.max(old).min(most).min(last - 1))?;
    Ok((count, count == STEP as u64))
}

/// The last of the first records that are from before a time; the one before them if there are none.
fn old(transaction: &Transaction<'_>, first: i64, before_ms: i64) -> rusqlite::Result<i64> {
    let mut select = transaction.prepare_cached("SELECT no, time_ms FROM audit WHERE no > ? ORDER BY no LIMIT ?")?;
    let mut rows = select.query([first, STEP])?;
    let mut last = first;
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(1)? >= before_ms {
            break;
        }
        last = row.get(0)?;
    }
    Ok(last)
}

/// The number of the last record that was let go.
fn gone(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    transaction.prepare_cached("SELECT no FROM audit_base")?.query_row([], |row| row.get(0))
}

/// Removes the records up to a number and notes the last of them; how many.
fn forget(transaction: &Transaction<'_>, first: i64, last: i64) -> rusqlite::Result<u64> {
    if last <= first {
        return Ok(0);
    }
    let mut select = transaction.prepare_cached("SELECT digest FROM audit WHERE no = ? AND length(digest) = 32")?;
    let Some(digest) = select.query_row([last], |row| row.get::<_, Vec<u8>>(0)).optional()? else { return Ok(0) };
    let gone = transaction.prepare_cached("DELETE FROM audit WHERE no > ? AND no <= ?")?.execute([first, last])?;
    transaction.prepare_cached("UPDATE audit_base SET no = ?, digest = ?")?.execute(params![last, digest])?;
    Ok(gone as u64)
}

fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A mesh's records after a number, oldest first.
pub(super) fn read(
    connection: &Connection,
    mesh: &str,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<AuditRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM audit WHERE mesh = ? AND no > ? ORDER BY no LIMIT ?");
    let mut select = connection.prepare_cached(&sql)?;
    select.query_map(params![mesh, bound(after), bound(limit as u64)], record)?.collect()
}

/// What somebody has tampered with is shown as it is.
fn record(row: &Row<'_>) -> rusqlite::Result<AuditRecord> {
    let text = |index| bytes(row, index).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let hex = |index| bytes(row, index).map(encoding::hex);
    let body = text(6)?;
    Ok(AuditRecord {
        no: row.get::<_, i64>(0)? as u64,
        time_ms: row.get::<_, i64>(1)? as u64,
        mesh: text(2)?,
        kind: text(3)?,
        actor: text(4)?,
        subject: text(5)?,
        body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        previous: hex(7)?,
        digest: hex(8)?,
    })
}

fn bytes<'a>(row: &'a Row<'_>, index: usize) -> rusqlite::Result<&'a [u8]> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    })
}
