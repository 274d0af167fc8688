//! The ring on disk: the statements of the table `events`.
//!
//! Invariant: numbers rise by one and are never used again, because the newest row is never deleted. A message's event
//! holds no copy of the message: it is written from the inbox row when somebody reads it.

use hostel_wire::iso;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde_json::Value;

use super::{Event, KEPT_MS, MOST, NewEvent};
use crate::inbox::rows::{ROW_COLUMNS, read_row};
use crate::inbox::{InboxRow, audience};
use crate::schema::signed;

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
    Ok(Event { id: id(boot, n), name, data, n, topic, session })
}

/// Appends the events of messages, by their rows; the events' numbers.
pub(crate) fn append_messages(
    transaction: &Transaction<'_>,
    boot: &str,
    now: u64,
    rows: impl Iterator<Item = i64>,
) -> rusqlite::Result<Vec<u64>> {
    let mut statement =
        transaction.prepare_cached("INSERT INTO events (boot, ts, name, row) VALUES (?1, ?2, ?3, ?4)")?;
    rows.map(|row| Ok(statement.insert(params![boot, signed(now), MESSAGE, row])?.cast_unsigned())).collect()
}

/// Forgets what is too much; cheap enough for every write.
pub(crate) fn trim(transaction: &Transaction<'_>, last: u64) -> rusqlite::Result<()> {
    match last.checked_sub(MOST) {
        Some(end) => transaction.prepare_cached("DELETE FROM events WHERE n <= ?")?.execute([signed(end)]).map(drop),
        None => Ok(()),
    }
}

/// Forgets what is too old or too much, but not the newest.
pub(super) fn sweep(transaction: &Transaction<'_>, now: u64) -> rusqlite::Result<u64> {
    let last = last(transaction)?;
    let old = transaction
        .prepare_cached("DELETE FROM events WHERE ts < ?1 AND n < ?2")?
        .execute(params![signed(now.saturating_sub(KEPT_MS)), signed(last)])?;
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
    /// What it is called.
    pub(crate) name: String,
    /// Its data, unless it is a message's.
    pub(crate) data: Option<String>,
}

/// The next rows after a number, at most `limit`.
pub(super) fn happened(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Happened>> {
    let sql = format!(
        "SELECT e.n, e.boot, e.ts, e.name, e.data, {ROW_COLUMNS}
         FROM events e LEFT JOIN inbox i ON i.no = e.row AND i.decrypt_state IS NULL
         WHERE e.n > ?1 ORDER BY e.n LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![signed(after), limit as i64], |row| {
        let there = row.get_ref(5)? != rusqlite::types::ValueRef::Null;
        Ok(Happened {
            n: row.get::<_, i64>(0)?.cast_unsigned(),
            boot: row.get(1)?,
            ts: row.get::<_, i64>(2)?.cast_unsigned(),
            row: if there { Some(read_row(row, 5)?) } else { None },
            name: row.get(3)?,
            data: row.get(4)?,
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
