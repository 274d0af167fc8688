//! The ring on disk: the statements of the table `events`.
//!
//! Invariant: numbers rise by one and are never used again, because the newest row is never deleted. A message's event
//! holds no copy of the message: it is written from the inbox row when somebody reads it. There are no holes: what is
//! forgotten is the oldest. Runs of hooks are counted apart, so that a busy hook does not push the rest out.

use hostel_wire::iso;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde_json::Value;

use super::{Event, KEPT_MS, MOST, MOST_RUNS, NewEvent, RUN};
use crate::inbox::rows::{self, ROW_COLUMNS, read_row};
use crate::inbox::{InboxRow, audience};
use crate::schema::signed;

/// What a message's event has for data if it was in the log before us: nobody is told of it, it is for hooks.
const HISTORY: &str = "history";

/// The fact that says how many runs of hooks there are among the events.
const RUNS: &str = "hook_runs";

/// The name of the event of a message.
pub(super) const MESSAGE: &str = "message";

const INSERT: &str =
    "INSERT INTO events (boot, ts, name, row, topic, session, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Appends an event.
pub(crate) fn append(transaction: &Transaction<'_>, boot: &str, now: u64, event: NewEvent) -> rusqlite::Result<Event> {
    let NewEvent { name, mut data, topic, session } = event;
    if let Value::Object(data) = &mut data {
        data.entry("ts").or_insert_with(|| iso(now).into());
    }
    let data = data.to_string();
    let none: Option<i64> = None;
    transaction.prepare_cached(INSERT)?.execute(params![boot, signed(now), name, none, topic, session, data])?;
    let n = transaction.last_insert_rowid().cast_unsigned();
    if name == RUN {
        rows::set_fact(transaction, RUNS, signed(runs(transaction)? + 1))?;
    }
    Ok(Event { id: id(boot, n), name, data, n, topic, session })
}

/// Appends the events of messages, by their rows, and whether each is history; the events' numbers.
pub(crate) fn append_messages(
    transaction: &Transaction<'_>,
    boot: &str,
    now: u64,
    rows: impl Iterator<Item = (i64, bool)>,
) -> rusqlite::Result<Vec<u64>> {
    let mut statement =
        transaction.prepare_cached("INSERT INTO events (boot, ts, name, row, data) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let append = |(row, history): (i64, bool)| {
        let data = history.then_some(HISTORY);
        Ok(statement.insert(params![boot, signed(now), MESSAGE, row, data])?.cast_unsigned())
    };
    rows.map(append).collect()
}

/// Forgets what is too much; cheap enough for every write. Never fewer than `MOST` are left beside the runs of hooks,
/// unless those are too many themselves.
pub(crate) fn trim(transaction: &Transaction<'_>, last: u64) -> rusqlite::Result<()> {
    let Some(end) = last.checked_sub(MOST) else { return Ok(()) };
    let runs = runs(transaction)?;
    let Some(end) = end.checked_sub(runs.min(MOST_RUNS)) else { return Ok(()) };
    if runs > 0 {
        let gone: i64 = transaction
            .prepare_cached("SELECT count(*) FROM events WHERE n <= ?1 AND name = ?2")?
            .query_row(params![signed(end), RUN], |row| row.get(0))?;
        if gone > 0 {
            rows::set_fact(transaction, RUNS, signed(runs.saturating_sub(gone.cast_unsigned())))?;
        }
    }
    transaction.prepare_cached("DELETE FROM events WHERE n <= ?")?.execute([signed(end)]).map(drop)
}

/// How many runs of hooks there are among the events.
fn runs(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(rows::fact(connection, RUNS)?.unwrap_or_default().max(0).cast_unsigned())
}

/// Forgets what is too old or too much, but not the newest.
pub(super) fn sweep(transaction: &Transaction<'_>, now: u64) -> rusqlite::Result<u64> {
    let last = last(transaction)?;
    let old = transaction
        .prepare_cached("DELETE FROM events WHERE ts < ?1 AND n < ?2")?
        .execute(params![signed(now.saturating_sub(KEPT_MS)), signed(last)])?;
    if runs(transaction)? > 0 {
        let left = "SELECT count(*) FROM events WHERE name = ?";
        let left: i64 = transaction.prepare_cached(left)?.query_row([RUN], |row| row.get(0))?;
        rows::set_fact(transaction, RUNS, left)?;
    }
    trim(transaction, last)?;
    Ok(old as u64)
}

/// The newest number; 0 if there is none.
pub(crate) fn last(connection: &Connection) -> rusqlite::Result<u64> {
    let last: i64 = connection.query_row("SELECT coalesce(max(n), 0) FROM events", [], |row| row.get(0))?;
    Ok(last.cast_unsigned())
}

/// The start of the process that made an event, if it is still there.
pub(super) fn boot_of(connection: &Connection, n: u64) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT boot FROM events WHERE n = ?")?
        .query_row([signed(n)], |row| row.get(0))
        .optional()
}

/// The next rows after a number, at most `limit`: each with its number, and the event unless its message is gone.
pub(super) fn read(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<(u64, Option<Event>)>> {
    let sql = format!(
        "SELECT e.n, e.boot, e.ts, e.name, e.topic, e.session, e.data, e.row IS NULL, i.decrypt_state, {ROW_COLUMNS}
         FROM events e LEFT JOIN inbox i ON i.no = e.row WHERE e.n > ?1 ORDER BY e.n LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![signed(after), limit as i64], |row| {
        let n = row.get::<_, i64>(0)?.cast_unsigned();
        let (boot, ts): (String, i64) = (row.get(1)?, row.get(2)?);
        if row.get(7)? {
            let (name, topic, session) = (row.get(3)?, row.get(4)?, row.get(5)?);
            return Ok((n, Some(Event { id: id(&boot, n), name, data: row.get(6)?, n, topic, session })));
        }
        let gone =
            row.get_ref(9)? == rusqlite::types::ValueRef::Null || row.get_ref(8)? != rusqlite::types::ValueRef::Null;
        let event = if gone { None } else { Some(message(&boot, n, ts.cast_unsigned(), &read_row(row, 9)?)) };
        Ok((n, event))
    })?;
    rows.collect()
}

/// A row of the ring as it lies there.
pub(crate) struct Happened {
    /// Its number.
    pub(crate) n: u64,
    /// The start that told it.
    pub(crate) boot: String,
    /// When.
    pub(crate) ts: u64,
    /// The message it is about, if it is about one that is still there.
    pub(crate) row: Option<InboxRow>,
    /// The message was in the log before us.
    pub(crate) history: bool,
    /// What it is called.
    pub(crate) name: String,
    /// Its data, unless it is a message's.
    pub(crate) data: Option<String>,
}

/// The next rows after a number, at most `limit`.
pub(super) fn happened(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Happened>> {
    let sql = format!(
        "SELECT e.n, e.boot, e.ts, e.name, e.data, e.row IS NOT NULL, {ROW_COLUMNS}
         FROM events e LEFT JOIN inbox i ON i.no = e.row AND i.decrypt_state IS NULL
         WHERE e.n > ?1 ORDER BY e.n LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![signed(after), limit as i64], |row| {
        let there = row.get_ref(6)? != rusqlite::types::ValueRef::Null;
        let (data, message): (Option<String>, bool) = (row.get(4)?, row.get(5)?);
        Ok(Happened {
            n: row.get::<_, i64>(0)?.cast_unsigned(),
            boot: row.get(1)?,
            ts: row.get::<_, i64>(2)?.cast_unsigned(),
            row: if there { Some(read_row(row, 6)?) } else { None },
            history: message && data.as_deref() == Some(HISTORY),
            name: row.get(3)?,
            data: data.filter(|_| !message),
        })
    })?;
    rows.collect()
}

/// The event of a message.
pub(super) fn message(boot: &str, n: u64, ts: u64, row: &InboxRow) -> Event {
    Event {
        id: id(boot, n),
        name: MESSAGE.to_owned(),
        data: row.event_data(ts),
        n,
        topic: row.topic.clone(),
        session: audience(row.kind, row.recipient_session.as_deref()),
    }
}

/// An id.
pub(super) fn id(boot: &str, n: u64) -> String {
    format!("{boot}-{n}")
}
