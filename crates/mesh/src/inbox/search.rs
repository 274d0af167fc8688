//! Finding messages by their words, newest first.
//!
//! The index is walked from its newest row, so a word that is everywhere costs no more than one that is rare, and only
//! what is shown is read.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, ffi, params_from_iter};

use super::Inbox;
use super::list::{LONGEST_READ, scoped, size};
use super::rows::{ROW_COLUMNS, VISIBLE, read_row};
use super::types::{Found, InboxError, Scope, Searched};

/// Results if nobody says otherwise, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

/// Bytes a search may have.
const MOST_QUERY: usize = 4096;

/// Bytes of messages that are found; more are left out, which is said, and the next search can be narrower.
const MOST_BYTES: usize = 9 << 20;

impl Inbox {
    /// Messages that match an FTS5 expression; what is none is taken as words that must all be there.
    pub async fn search(&self, query: &str, limit: usize, scope: Scope) -> Result<Searched, InboxError> {
        let query = query.replace('\0', " ");
        if query.trim().is_empty() {
            return Err(InboxError::BadQuery("there is nothing to look for".to_owned()));
        }
        if query.len() > MOST_QUERY {
            return Err(InboxError::BadQuery(format!("it has more than {MOST_QUERY} bytes")));
        }
        let limit = if limit == 0 { USUAL } else { limit.min(MOST) };
        // Something like `a*` over millions of rows would hold a reader for minutes.
        let found =
            self.store.read_within(LONGEST_READ, move |connection| either(connection, &query, limit, &scope)).await;
        found?.map_err(InboxError::BadQuery)
    }
}

/// Searches for the expression, or, if it is none, for its words. The inner error is the asker's.
fn either(
    connection: &Connection,
    query: &str,
    limit: usize,
    scope: &Scope,
) -> rusqlite::Result<Result<Searched, String>> {
    let mut found = find(connection, query, limit, scope);
    if found.as_ref().is_err_and(|error| code(error) == Some(ffi::SQLITE_ERROR)) {
        found = find(connection, &quoted(query), limit, scope);
    }
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(error) => match code(&error) {
            Some(ffi::SQLITE_ERROR) => Ok(Err(error.to_string())),
            Some(ffi::SQLITE_INTERRUPT) => Ok(Err("it takes too long; say it more precisely".to_owned())),
            _ => Err(error),
        },
    }
}

fn find(connection: &Connection, query: &str, limit: usize, scope: &Scope) -> rusqlite::Result<Searched> {
    let (mut conditions, mut values) = (vec!["inbox_fts MATCH ?", VISIBLE], vec![Sql::from(query.to_owned())]);
    scoped(scope, &mut conditions, &mut values);
    values.push((limit as i64).into());
    let which = conditions.join(" AND ");
    // The join is crossed so that the index stays outside and gives the order.
    let sql = format!(
        "SELECT snippet(inbox_fts, -1, '[', ']', '…', 24), {ROW_COLUMNS}
         FROM inbox_fts CROSS JOIN inbox i ON i.no = inbox_fts.rowid
         WHERE {which} ORDER BY inbox_fts.rowid DESC LIMIT ?"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut searched, mut bytes) = (Searched::default(), 0);
    while let Some(row) = rows.next()? {
        let snippet: Option<String> = row.get(0)?;
        let one = Found { snippet: snippet.unwrap_or_default(), row: read_row(row, 1)? };
        bytes += size(&one.row) + one.snippet.len();
        if bytes > MOST_BYTES && !searched.found.is_empty() {
            searched.truncated = true;
            break;
        }
        searched.found.push(one);
    }
    Ok(searched)
}

/// What SQLite says went wrong. The statement itself is ours and right: a plain error is the expression's.
fn code(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => Some(failure.extended_code),
        _ => None,
    }
}

/// Every word as a phrase of its own.
fn quoted(query: &str) -> String {
    let words = query.split_whitespace().map(|word| format!("\"{}\"", word.replace('"', "\"\"")));
    words.collect::<Vec<_>>().join(" ")
}
