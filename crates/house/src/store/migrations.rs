//! The forward-only steps of `state.db`.
//!
//! Invariant: a step that was released is never changed; each runs once, in a transaction of its own, and leaves its
//! number in `user_version`. A database of a later version is refused: an older program would damage it.

use rusqlite::Connection;

use super::StoreError;

/// The steps in order; the first makes version 1.
pub(crate) const STEPS: &[&str] =
    &[include_str!("migrations/0001_sessions.sql"), include_str!("migrations/0002_consent.sql")];

/// Brings a database up to date.
pub(crate) fn run(connection: &mut Connection) -> Result<(), StoreError> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let known = STEPS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for (index, step) in STEPS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
