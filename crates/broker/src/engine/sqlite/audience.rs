//! Who was in a group when an entry was written for it. A short list stands in the entry; a long one is stored once for all
//! entries that were written for the same members.
//!
//! Invariant: what an entry names is there as long as the entry is. Entries go from a log's beginning, so an audience goes
//! with the last entry for it.

use rusqlite::{OptionalExtension as _, Transaction, params};
use sha2::{Digest as _, Sha256};

use super::{place, room};

/// A list of up to this many bytes stands in the entry.
const IN_ENTRY_BYTES: usize = 256;

/// Characters of a reference.
const REFERENCE_BYTES: usize = 17;

/// The audience of a row of the log, in the database's words.
pub(super) const SQL: &str = "CASE WHEN substr(audience, 1, 1) = '#' THEN coalesce((SELECT members FROM audience_members \
     WHERE no = CAST(substr(audience, 2) AS INTEGER)), '') ELSE audience END";

/// What an entry's row has for these members, in bytes.
pub(super) fn row_bytes(audience: &[String]) -> usize {
    let listed = audience.iter().map(|id| id.len() + 1).sum::<usize>().saturating_sub(1);
    if listed > IN_ENTRY_BYTES { REFERENCE_BYTES } else { listed }
}

/// What the row of the entry at a place has for these members, and what was stored besides, in bytes.
pub(super) fn store(
    transaction: &Transaction<'_>,
    log: i64,
    entry: i64,
    audience: &[String],
) -> rusqlite::Result<(String, u64)> {
    let listed = audience.join(" ");
    if listed.len() <= IN_ENTRY_BYTES {
        return Ok((listed, 0));
    }
    let digest: [u8; 32] = Sha256::digest(&listed).into();
    let known: Option<i64> = transaction
        .prepare_cached("UPDATE audiences SET last_place = ?3 WHERE log = ?1 AND digest = ?2 RETURNING no")?
        .query_row(params![log, digest, entry], |row| row.get(0))
        .optional()?;
    if let Some(no) = known {
        return Ok((reference(no), 0));
    }
    let bytes = listed.len() as u64 + room::ROW;
    let no: i64 = transaction
        .prepare_cached("INSERT INTO audiences (log, digest, last_place, bytes) VALUES (?, ?, ?, ?) RETURNING no")?
        .query_row(params![log, digest, entry, bytes as i64], |row| row.get(0))?;
    transaction
        .prepare_cached("INSERT INTO audience_members (no, members) VALUES (?, ?)")?
        .execute(params![no, listed])?;
    Ok((reference(no), bytes))
}

fn reference(no: i64) -> String {
    format!("#{no:016}")
}

/// Removes the audiences whose last entry is gone with all up to a place; what they took, in bytes.
pub(super) fn forget(transaction: &Transaction<'_>, log: i64, last: i64) -> rusqlite::Result<u64> {
    let range = params![place::of(log, 0), last];
    let over = "last_place > ? AND last_place <= ?";
    let members = format!("DELETE FROM audience_members WHERE no IN (SELECT no FROM audiences WHERE {over})");
    if transaction.prepare_cached(&members)?.execute(range)? == 0 {
        return Ok(0);
    }
    let mut delete = transaction.prepare_cached(&format!("DELETE FROM audiences WHERE {over} RETURNING bytes"))?;
    let freed = delete.query_map(range, |row| row.get::<_, i64>(0))?;
    freed.map(|bytes| bytes.map(i64::unsigned_abs)).sum()
}
