//! How much a log takes of the disk, as it is counted.
//!
//! Invariant: what is counted when a row is written is what is taken off when it goes; `migrations/0002_bytes.sql` counts
//! the same way. It decides nothing: appending refuses, and the registry says what may go.

use super::super::types::Append;
use super::audience;

/// Of a row, besides its texts: numbers, ids of fixed length, a fingerprint, its part of the indexes.
pub(super) const ROW: u64 = 200;

/// What [`entry`] is, in the database's words.
pub(super) const ENTRY_SQL: &str = "octet_length(body) + octet_length(audience) + octet_length(client_id) + 200";

/// What [`id`] is, in the database's words.
pub(super) const ID_SQL: &str = "2 * octet_length(client_id) + 200";

/// What an entry takes. A large audience is counted by itself, with the first entry for it.
pub(super) fn entry(append: &Append) -> u64 {
    (append.bytes.len() + audience::row_bytes(&append.audience) + append.client_id.len()) as u64 + ROW
}

/// What is remembered of an entry's id, which is in the row and in its index; nothing if it has none.
pub(super) fn id(append: &Append) -> u64 {
    if append.client_id.is_empty() { 0 } else { 2 * append.client_id.len() as u64 + ROW }
}

/// What an entry takes with its id.
pub(super) fn of(append: &Append) -> u64 {
    entry(append) + id(append)
}
