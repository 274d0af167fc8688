//! Records with revisions.
//!
//! Invariant: a batch is written whole or not at all; everything in it gets one revision, which is higher than all before.

use hostel_syncpoint::{SyncPoint, points};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::super::types::{EngineError, KvBatch, KvChange, KvCommitted, KvEntry, KvError, KvOp};
use super::{State, audit};

fn entry(row: &Row<'_>) -> rusqlite::Result<KvEntry> {
    Ok(KvEntry { key: row.get(0)?, revision: row.get::<_, i64>(1)? as u64, value: row.get(2)? })
}

pub(super) fn get(connection: &Connection, bucket: &str, key: &str) -> rusqlite::Result<Option<KvEntry>> {
    let mut select = connection.prepare_cached("SELECT key, revision, value FROM kv WHERE bucket = ? AND key = ?")?;
    select.query_row(params![bucket, key], entry).optional()
}

pub(super) fn scan(connection: &Connection, bucket: &str, prefix: &str) -> rusqlite::Result<Vec<KvEntry>> {
    let mut select =
        connection.prepare_cached("SELECT key, revision, value FROM kv WHERE bucket = ? AND key >= ? ORDER BY key")?;
    let mut rows = select.query(params![bucket, prefix])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = entry(row)?;
        if !entry.key.starts_with(prefix) {
            break;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Records of a prefix after a key, as many as are wanted and fit.
pub(super) fn page(
    connection: &Connection,
    bucket: &str,
    (prefix, after): (&str, &str),
    limit: usize,
    max_bytes: usize,
) -> rusqlite::Result<Vec<KvEntry>> {
    let mut select = connection.prepare_cached(
        "SELECT key, revision, value FROM kv WHERE bucket = ? AND key >= ? AND key > ? ORDER BY key LIMIT ?",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = select.query(params![bucket, prefix, after, limit])?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let entry = entry(row)?;
        bytes += entry.value.len();
        if !entry.key.starts_with(prefix) || (bytes > max_bytes && !entries.is_empty()) {
            break;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The first comparison that fails. All of them are made before anything is written.
fn conflict(transaction: &Transaction<'_>, ops: &[KvOp]) -> rusqlite::Result<Option<(String, String)>> {
    let mut select = transaction.prepare_cached("SELECT revision FROM kv WHERE bucket = ? AND key = ?")?;
    for op in ops {
        let KvOp::Check { bucket, key, revision } = op else { continue };
        let found = select.query_row(params![bucket, key], |row| row.get::<_, i64>(0)).optional()?;
        if found.unwrap_or(0) as u64 != *revision {
            return Ok(Some((bucket.clone(), key.clone())));
        }
    }
    Ok(None)
}

/// Writes records and gives their revision.
pub(super) fn write(transaction: &Transaction<'_>, ops: &[KvOp]) -> rusqlite::Result<u64> {
    let revision: i64 = transaction
        .prepare_cached("UPDATE kv_revision SET last = last + 1 RETURNING last")?
        .query_row([], |row| row.get(0))?;
    let mut put = transaction.prepare_cached(
        "INSERT INTO kv (bucket, key, revision, value) VALUES (?, ?, ?, ?)
         ON CONFLICT (bucket, key) DO UPDATE SET revision = excluded.revision, value = excluded.value",
    )?;
    let mut delete = transaction.prepare_cached("DELETE FROM kv WHERE bucket = ? AND key = ?")?;
    for op in ops {
        match op {
            KvOp::Put { bucket, key, value } => drop(put.execute(params![bucket, key, revision, value])?),
            KvOp::Delete { bucket, key } => drop(delete.execute(params![bucket, key])?),
            KvOp::Check { .. } => {}
        }
    }
    Ok(revision as u64)
}

/// The point of a batch: that of the record in it that says most about the request.
fn point_of(ops: &[KvOp]) -> SyncPoint {
    // A release build has no points: nothing is compared for them.
    if cfg!(not(debug_assertions)) {
        return SyncPoint::NONE;
    }
    let kinds = [
        ("session", points::BROKER_SESSION),
        ("file", points::BROKER_FILE),
        ("seal", points::BROKER_SEAL),
        ("grant", points::BROKER_GRANT),
        ("invite", points::BROKER_INVITE),
        ("slug", points::BROKER_MESH),
        ("topic", points::BROKER_TOPIC),
        ("sub", points::BROKER_SUBSCRIPTION),
        ("member", points::BROKER_MEMBER),
        ("mesh", points::BROKER_MESH),
        ("cursor", points::BROKER_CURSOR),
        ("seen", points::BROKER_CURSOR),
    ];
    let written = |kind: &str| {
        ops.iter().any(|op| match op {
            KvOp::Put { bucket, .. } | KvOp::Delete { bucket, .. } => bucket == kind,
            KvOp::Check { .. } => false,
        })
    };
    kinds.into_iter().find(|(kind, _)| written(kind)).map_or(points::BROKER_RECORD, |(_, point)| point)
}

pub(super) async fn commit(state: &State, batch: KvBatch) -> Result<KvCommitted, KvError> {
    let (KvBatch { ops, audit }, keep) = (batch, state.audit);
    let point = point_of(&ops);
    let work = move |transaction: &Transaction<'_>| {
        if let Some(conflict) = conflict(transaction, &ops)? {
            return Ok(Err(conflict));
        }
        let revision = write(transaction, &ops)?;
        audit::append(transaction, &audit, keep)?;
        Ok(Ok((revision, ops)))
    };
    let done = state.store.write(point, work).await.map_err(EngineError::Store)?;
    let (revision, ops) = done.map_err(|(bucket, key)| KvError::Conflict { bucket, key })?;
    tell(state, ops, revision);
    Ok(KvCommitted { revision })
}

/// Tells who watches what was written.
pub(super) fn tell(state: &State, ops: Vec<KvOp>, revision: u64) {
    for op in ops {
        let change = match op {
            KvOp::Put { bucket, key, .. } => KvChange { bucket, key, revision },
            KvOp::Delete { bucket, key } => KvChange { bucket, key, revision: 0 },
            KvOp::Check { .. } => continue,
        };
        // Nobody may be watching.
        state.changes.send(change).ok();
    }
}
