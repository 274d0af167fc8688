//! The processes that serve sessions.

use hostel_agents::Setup;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{maybe_text, text};
use crate::approvals::Approvals;
use crate::processes::ProcessId;
use crate::seals::{Ledger, Seal};
use crate::sessions::conversation::Checkpoint;
use crate::sessions::lines::Place;
use crate::sessions::rights;

/// A process that serves a session.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRow {
    pub(crate) id: ProcessId,
    /// It certainly was started.
    pub(crate) started: bool,
    /// None where a later program has written it, or somebody who is not the house.
    pub(crate) setup: Option<Setup>,
    pub(crate) at: Checkpoint,
}

pub(crate) fn insert_process(
    transaction: &Transaction<'_>,
    session: i64,
    id: ProcessId,
    setup: &Setup,
    now_ns: u64,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let setup = serde_json::to_string(setup).unwrap_or_default();
    let seal = rights::setup_seal(ledger, id, session, &setup);
    transaction
        .prepare_cached(
            "INSERT INTO agent_processes (id, session, setup, state, created_ns, seal) VALUES (?, ?, ?, 'chosen', ?, ?)",
        )?
        .execute(params![id.0, session, setup, now_ns as i64, seal.bytes()])
        .map(drop)
}

/// It runs: should it be unknown later, it is lost, and is not to be started again.
pub(crate) fn process_started(transaction: &Transaction<'_>, id: ProcessId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET state = 'live' WHERE id = ? AND state = 'chosen'")?
        .execute([id.0])
        .map(drop)
}

pub(crate) fn save_process(transaction: &Transaction<'_>, id: ProcessId, at: &Checkpoint) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET saved = ?, seq = ?, skip = ?, stdin = ? WHERE id = ?")?
        .execute(params![at.saved, at.place.seq as i64, at.place.skip as i64, at.stdin as i64, id.0])
        .map(drop)
}

/// It serves nobody any more, and what it asked needs no answer.
pub(crate) fn end_process(transaction: &Transaction<'_>, approvals: &Approvals, id: ProcessId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET state = 'ended', saved = NULL WHERE id = ?")?
        .execute([id.0])?;
    approvals.withdraw_all(transaction, id)
}

/// The process that may still serve a session.
pub(crate) fn live_process(
    connection: &Connection,
    session: i64,
    ledger: &Ledger,
) -> rusqlite::Result<Option<ProcessRow>> {
    connection
        .prepare_cached(
            "SELECT id, setup, saved, seq, skip, stdin, state, seal FROM agent_processes WHERE session = ? AND state <> 'ended'
             AND length(id) = 16 ORDER BY created_ns DESC LIMIT 1",
        )?
        .query_row([session], |row| {
            let setup = text(row, 1)?;
            let at = Checkpoint {
                saved: maybe_text(row, 2)?,
                place: Place { seq: row.get::<_, i64>(3)? as u64, skip: row.get::<_, i64>(4)? as u64 },
                stdin: row.get::<_, i64>(5)? as u64,
            };
            let started = text(row, 6)? == "live";
            let id = ProcessId(row.get(0)?);
            let seal = row.get_ref(7)?.as_bytes().ok().and_then(Seal::read);
            let is_ours = seal == Some(rights::setup_seal(ledger, id, session, &setup));
            let setup = serde_json::from_str(&setup).ok().filter(|_| is_ours);
            Ok(ProcessRow { id, started, setup, at })
        })
        .optional()
}

/// Every process of any session, and of one.
pub(crate) fn all_processes(connection: &Connection, session: Option<i64>) -> rusqlite::Result<Vec<ProcessId>> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM agent_processes WHERE (?1 IS NULL OR session = ?1) AND length(id) = 16")?;
    statement.query_map([session], |row| row.get(0).map(ProcessId))?.collect()
}
