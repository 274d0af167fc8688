//! Reading logs from the disk.

use std::sync::{Arc, OnceLock};

use hostel_wire::frames::{Kind, Priority};
use rusqlite::{Connection, Params, Row};

use super::super::types::{Entry, HistoryQuery};
use super::{Log, audience, place};

/// What is read of an entry.
fn columns() -> String {
    format!("place, id, ts_ms, kind, dest, sender, client_id, fingerprint, priority, {}, body", audience::SQL)
}

/// All logs, by mesh.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<(String, Log)>> {
    let mut statement = connection.prepare("SELECT mesh, no, epoch, first_seq, last_seq, bytes FROM logs")?;
    statement.query_map([], |row| Ok((row.get(0)?, log(row)?)))?.collect()
}

/// A mesh's log.
pub(super) fn one(connection: &Connection, mesh: &str) -> rusqlite::Result<Log> {
    let mut statement =
        connection.prepare_cached("SELECT mesh, no, epoch, first_seq, last_seq, bytes FROM logs WHERE mesh = ?")?;
    statement.query_row([mesh], log)
}

fn log(row: &Row<'_>) -> rusqlite::Result<Log> {
    let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
    Ok(Log::new(row.get(1)?, row.get(2)?, number(3)?, number(4)?, number(5)?))
}

/// Entries after a number and up to another.
pub(super) fn range(
    connection: &Connection,
    log: i64,
    after: u64,
    up_to: u64,
    limit: usize,
    max_bytes: usize,
) -> rusqlite::Result<Vec<Arc<Entry>>> {
    let columns = columns();
    let sql = format!("SELECT {columns} FROM log WHERE place > ? AND place <= ? ORDER BY place LIMIT ?");
    let bounds = (place::of(log, after), place::of(log, up_to), limit_of(limit));
    collect(connection, &sql, bounds, max_bytes)
}

/// Urgent entries after a number and up to another.
pub(super) fn urgent(
    connection: &Connection,
    log: i64,
    after: u64,
    up_to: u64,
    limit: usize,
    max_bytes: usize,
) -> rusqlite::Result<Vec<Arc<Entry>>> {
    let columns = columns();
    let sql = format!(
        "SELECT {columns} FROM log INDEXED BY log_urgent
         WHERE priority = 0 AND place > ? AND place <= ? ORDER BY place LIMIT ?"
    );
    let bounds = (place::of(log, after), place::of(log, up_to), limit_of(limit));
    collect(connection, &sql, bounds, max_bytes)
}

/// Older entries, newest first.
pub(super) fn history(
    connection: &Connection,
    log: i64,
    last: u64,
    query: &HistoryQuery,
) -> rusqlite::Result<Vec<Arc<Entry>>> {
    let before = query.before_seq.unwrap_or(u64::MAX).min(last + 1);
    let (after, before) = (place::of(log, query.after_seq.unwrap_or(0)), place::of(log, before));
    let (range, limit) = ("place > ? AND place < ?", limit_of(query.limit));
    let (max_bytes, columns) = (query.max_bytes, columns());
    match (&query.topic, &query.with_member) {
        (Some(topic), _) => {
            let sql = format!(
                "SELECT {columns} FROM log INDEXED BY log_by_topic
                 WHERE {range} AND kind = 'topic' AND dest = ? ORDER BY place DESC LIMIT ?"
            );
            collect(connection, &sql, (after, before, topic, limit), max_bytes)
        }
        (None, Some(member)) => {
            // Each side is read from its own index, newest first and no further than needed.
            let side = |index: &str, column: &str| {
                format!(
                    "SELECT place FROM (SELECT place FROM log INDEXED BY {index}
                     WHERE kind IN ('dm', 'file') AND {column} = ?3 AND place > ?1 AND place < ?2
                     ORDER BY place DESC LIMIT ?4)"
                )
            };
            let (to, from) = (side("log_direct_to", "dest"), side("log_direct_from", "sender"));
            let sql =
                format!("SELECT {columns} FROM log WHERE place IN ({to} UNION {from}) ORDER BY place DESC LIMIT ?4");
            collect(connection, &sql, (after, before, member, limit), max_bytes)
        }
        (None, None) => {
            let sql = format!("SELECT {columns} FROM log WHERE {range} ORDER BY place DESC LIMIT ?");
            collect(connection, &sql, (after, before, limit), max_bytes)
        }
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn collect(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    max_bytes: usize,
) -> rusqlite::Result<Vec<Arc<Entry>>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    let mut bytes = 0_usize;
    while let Some(row) = rows.next()? {
        bytes = bytes.saturating_add(row.get_ref(10)?.as_bytes()?.len());
        if bytes > max_bytes && !entries.is_empty() {
            break;
        }
        entries.push(Arc::new(entry(row)?));
    }
    Ok(entries)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let strange = |index, what: &str| {
        rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, what.to_owned().into())
    };
    let priority = match row.get::<_, i64>(8)? {
        0 => Priority::Now,
        1 => Priority::Next,
        _ => Priority::Low,
    };
    let audience = row.get_ref(9)?.as_str()?;
    Ok(Entry {
        seq: place::seq(row.get(0)?),
        id: row.get(1)?,
        ts_ms: row.get::<_, i64>(2)? as u64,
        kind: Kind::parse(row.get_ref(3)?.as_str()?).ok_or_else(|| strange(3, "not a kind"))?,
        dest: row.get(4)?,
        sender: row.get(5)?,
        client_id: row.get(6)?,
        fingerprint: row.get(7)?,
        priority,
        audience: audience.split(' ').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
        bytes: row.get::<_, Vec<u8>>(10)?.into(),
        frame: OnceLock::new(),
    })
}
