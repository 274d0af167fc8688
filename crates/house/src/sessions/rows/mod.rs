//! The statements about sessions, turns and agent processes.
//!
//! Invariant: each function is one step of a transaction; none decides anything.

use rusqlite::Row;

mod processes;
mod sessions;
mod turns;

pub(crate) use processes::*;
pub(crate) use sessions::*;
pub(crate) use turns::*;

/// A text. What somebody else has written need not be any, and is no reason to read nothing else.
pub(crate) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(row.get_ref(index)?.as_bytes()?).into_owned())
}

/// A text that may be absent.
pub(crate) fn maybe_text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(index)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}
