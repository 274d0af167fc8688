//! The audit's tables: writing behind the last record, and reading.
//!
//! Invariant: the last record is read inside the transaction that writes behind it, by the one writer: the chain cannot
//! fork.

use hostel_wire::encoding;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Transaction, params};
use serde_json::Value;

use crate::audit::{AuditEvent, AuditRecord, CHAIN};

const COLUMNS: &str = "no, time_ms, mesh, kind, actor, subject, body, previous, digest";

/// Writes records behind the last one.
pub(super) fn append(transaction: &Transaction<'_>, events: &[AuditEvent]) -> rusqlite::Result<()> {
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
    Ok(())
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
    let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
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
