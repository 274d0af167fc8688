//! The forward-only steps of a database.
//!
//! Invariant: a step that was released is never changed; each runs once, in a transaction of its own, and leaves its
//! number in `user_version`. A database of a later version is refused: an older program would damage it.

use rusqlite::Connection;

use super::StoreError;

/// What a database is called in errors, and its steps in order; the first makes version 1.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Its file's name, for people.
    pub name: &'static str,
    /// SQL, one text per version.
    pub steps: &'static [&'static str],
}

/// Brings a database up to date.
pub(crate) fn run(connection: &mut Connection, schema: &Schema) -> Result<(), StoreError> {
    let named = |error| StoreError::of(schema.name, &error);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(named)?;
    let known = schema.steps.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { name: schema.name, found, known });
    }
    for (index, step) in schema.steps.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", index as i64 + 1)?;
            transaction.commit()
        };
        run(connection).map_err(named)?;
    }
    Ok(())
}
