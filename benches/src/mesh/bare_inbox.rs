//! The limit for a backlog that comes in: SQLite alone, which inserts the same messages into the inbox's own schema, indexes
//! and full-text index included, so many in a transaction.
//!
//! The rows are made beforehand, and each is inserted once by a prepared statement. There is no broker, no box to open, no
//! place in the log and no event.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use hostel_mesh::schema;
use rusqlite::Connection;
use rusqlite::Statement;
use rusqlite::ToSql;

use super::stock;
use super::stock::Message;

/// Rows in a transaction.
pub(crate) const TOGETHER: usize = 256;

/// Columns of a row that are filled.
const COLUMNS: usize = 15;

/// How rows are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// A statement for each.
    Single,
    /// One for 64 of them: the full-text index is then written out less often.
    Wide,
}

/// Messages per second.
pub(crate) fn run(dir: &Path, messages: &[Message], statements: Statements) -> Result<f64> {
    let mut connection = Connection::open(dir.join("bare.db")).context("opening the database")?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // As an inbox has it: what it holds can be had again.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -2048)?;
    for step in schema::INBOX.steps {
        connection.execute_batch(step)?;
    }
    let wide = match statements {
        Statements::Single => 1,
        Statements::Wide => 64,
    };
    let texts = [insertion(wide), insertion(1)];
    let begun = Instant::now();
    let mut number = 0_i64;
    for batch in messages.chunks(TOGETHER) {
        let transaction = connection.transaction()?;
        {
            let (mut many, mut one) = (transaction.prepare_cached(&texts[0])?, transaction.prepare_cached(&texts[1])?);
            for some in batch.chunks(wide) {
                let whole = some.len() == wide;
                for part in if whole { some.chunks(wide) } else { some.chunks(1) } {
                    let statement = if whole { &mut many } else { &mut one };
                    for (index, message) in part.iter().enumerate() {
                        number += 1;
                        bind(statement, index * COLUMNS, number, message)?;
                    }
                    statement.raw_execute()?;
                }
            }
        }
        transaction.commit()?;
    }
    Ok(messages.len() as f64 / begun.elapsed().as_secs_f64())
}

fn insertion(count: usize) -> String {
    let row = format!("({})", vec!["?"; COLUMNS].join(", "));
    format!(
        "INSERT INTO inbox (no, mesh, sender_member_id, client_message_id, broker_message_id, broker_seq, kind, sender_pubkey,
         sender_name, body, priority, created_at, stored_at, received_at, recipient_pubkey) VALUES {}",
        vec![row; count].join(", ")
    )
}

fn bind(statement: &mut Statement<'_>, from: usize, number: i64, message: &Message) -> rusqlite::Result<()> {
    let time = stock::TIME_MS.cast_signed() + number;
    let values: [&dyn ToSql; COLUMNS] = [
        &number,
        &"lab",
        &stock::MEMBER,
        &message.client_id,
        &message.broker_id,
        &number,
        &"dm",
        &stock::KEY,
        &"alice",
        &message.body,
        &"next",
        &time,
        &time,
        &time,
        &stock::KEY,
    ];
    for (value, place) in values.into_iter().zip(from + 1..) {
        statement.raw_bind_parameter(place, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_there_and_can_be_found() {
        for statements in [Statements::Single, Statements::Wide] {
            let dir = tempfile::tempdir().unwrap();
            let messages: Vec<Message> = (0..700).map(Message::new).collect();
            assert!(run(dir.path(), &messages, statements).unwrap() > 0.0);
            let connection = Connection::open(dir.path().join("bare.db")).unwrap();
            let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
            assert_eq!(count("SELECT count(*) FROM inbox"), 700);
            assert_eq!(count("SELECT count(*) FROM inbox_fts WHERE inbox_fts MATCH 'release'"), 700);
        }
    }
}
