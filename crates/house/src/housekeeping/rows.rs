//! The statements of housekeeping: the believed time, and what waits to be removed.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::processes::ProcessId;

/// The kind of thing a tombstone refers to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Journal,
    Session,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Journal => "journal",
            Kind::Session => "session",
        }
    }
}

pub(super) fn believed_ns(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let read = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(|ns| u64::try_from(ns).unwrap_or(0));
    connection.prepare_cached("SELECT believed_ns FROM believed_time")?.query_row([], read).optional()
}

pub(super) fn believe(transaction: &Transaction<'_>, now_ns: u64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO believed_time (one, believed_ns) VALUES (0, ?)")?
        .execute([signed(now_ns)])
        .map(drop)
}

/// Since when each of this kind waits to be removed.
pub(super) fn tombstones(connection: &Connection, kind: Kind) -> rusqlite::Result<HashMap<String, u64>> {
    let mut statement = connection.prepare_cached("SELECT id, since_ns FROM tombstones WHERE kind = ?")?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0)));
    statement.query_map([kind.word()], read)?.collect()
}

pub(super) fn place(transaction: &Transaction<'_>, kind: Kind, ids: &[String], now_ns: u64) -> rusqlite::Result<()> {
    let mut statement =
        transaction.prepare_cached("INSERT OR REPLACE INTO tombstones (kind, id, since_ns) VALUES (?, ?, ?)")?;
    ids.iter().try_for_each(|id| statement.execute(params![kind.word(), id, signed(now_ns)]).map(drop))
}

pub(super) fn lift(transaction: &Transaction<'_>, kind: Kind, ids: &[String]) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("DELETE FROM tombstones WHERE kind = ? AND id = ?")?;
    ids.iter().try_for_each(|id| statement.execute(params![kind.word(), id]).map(drop))
}

/// Processes of sessions that serve nobody any more. Everything that came of their journals is stored: a process is called
/// ended in the write that stores its last events, or after it. One that a running turn names is left out.
pub(super) fn stored_processes(connection: &Connection) -> rusqlite::Result<HashSet<ProcessId>> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM agent_processes WHERE state = 'ended' AND length(id) = 16
         AND id NOT IN (SELECT process FROM turns WHERE state IN ('queued', 'running') AND process IS NOT NULL)",
    )?;
    statement.query_map([], |row| row.get(0).map(ProcessId))?.collect()
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
