//! The segments of the audit: the records of one lifetime of the keeper, under one key.
//!
//! A segment begins with a record that names the key that verifies it. The signature of its last record lies beside the
//! audit and is replaced with every commit; it covers every record before it, because each holds the digest of the one
//! before.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde_json::{Value, json};

use super::{Event, Line, append_one};
use crate::pipelines::hex_of;
use crate::seals::{AuditHead, Ledger};

/// Begins the segment of the present key.
pub(in crate::approvals) fn begin(transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
    let first = ledger.head().no + 1;
    let body = json!({"key": hex_of(&ledger.segment_key()), "id": hex(&ledger.key_id())});
    append_one(transaction, ledger, &Line { event: Event::Segment, approval: "", body })?;
    transaction
        .prepare_cached("INSERT OR REPLACE INTO audit_segments (first, last, signature) VALUES (?, ?, zeroblob(64))")?
        .execute(params![first as i64, first as i64])?;
    ledger.set_segment(first);
    Ok(())
}

/// Writes the signature of the records from `first` to `head`.
pub(in crate::approvals) fn write_signature(
    transaction: &Transaction<'_>,
    first: u64,
    head: AuditHead,
    signature: &[u8; 64],
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO audit_segments (first, last, signature) VALUES (?, ?, ?)")?
        .execute(params![first as i64, head.no as i64, signature])
        .map(drop)
}

/// Whether any segment was ever begun here.
pub(in crate::approvals) fn exist(connection: &Connection) -> rusqlite::Result<bool> {
    // The first of the two alone proves nothing: whoever removes it can leave the records as they are.
    let sql = "SELECT 1 WHERE EXISTS (SELECT 1 FROM audit_segments) OR EXISTS (SELECT 1 FROM audit WHERE kind = ?)";
    connection.prepare_cached(sql)?.exists([Event::Segment.word()])
}

/// The first record of the last segment, if the present key began it.
pub(in crate::approvals) fn is_ours(connection: &Connection, ledger: &Ledger) -> rusqlite::Result<Option<u64>> {
    let last: Option<(i64, String)> = connection
        .prepare_cached("SELECT no, body FROM audit WHERE no = (SELECT max(first) FROM audit_segments) AND kind = ?")?
        .query_row([Event::Segment.word()], |row| Ok((row.get(0)?, row.get::<_, String>(1).unwrap_or_default())))
        .optional()?;
    let ours = hex_of(&ledger.segment_key());
    Ok(last.filter(|(_, body)| key_of(body).is_some_and(|key| hex_of(&key) == ours)).map(|(no, _)| no as u64))
}

/// The key that a record with this body begins a segment with.
pub(super) fn key_of(body: &str) -> Option<[u8; 32]> {
    let body: Value = serde_json::from_str(body).ok()?;
    unhex(body["key"].as_str()?)
}

/// Two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of this number from twice as many digits.
pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
