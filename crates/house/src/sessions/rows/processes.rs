//! The processes that serve sessions: what each was started as, and how far the conversation with it has come.
//!
//! Everybody who can write `state.db` could put words to an agent into a checkpoint, or another meaning into the answers
//! that the agent offers. So every write seals the whole row. The row is not in the ledger, because a checkpoint of an
//! earlier time is one that the house has made: whoever reads the journal from there says nothing to the agent before
//! all input that the keeper has accepted is accounted for.

use std::sync::Arc;

use hostel_agents::Setup;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::{maybe_text, text};
use crate::approvals::Approvals;
use crate::processes::ProcessId;
use crate::seals::{Ledger, Seal, Table};
use crate::sessions::conversation::Checkpoint;
use crate::sessions::lines::Place;

/// What of the row never changes. The house keeps it in memory: what a row says when it is written again may be
/// somebody else's.
#[derive(Clone, Debug)]
pub(crate) struct ProcessIdentity {
    pub(crate) id: ProcessId,
    session: i64,
    /// The setup as it was first written, which need not be how this program would write it.
    setup: Arc<str>,
    created_ns: u64,
}

/// How far a process has come, as the column has it.
const CHOSEN: &str = "chosen";
const LIVE: &str = "live";
/// Nobody can prove any more what was said to it, so nobody goes on with it.
const LOST: &str = "lost";

impl ProcessIdentity {
    pub(crate) fn new(session: i64, id: ProcessId, setup: &Setup, now_ns: u64) -> Self {
        let setup = serde_json::to_string(setup).unwrap_or_default().into();
        ProcessIdentity { id, session, setup, created_ns: now_ns }
    }

    fn seal(&self, ledger: &Ledger, state: &str, at: &Checkpoint) -> Seal {
        ledger.seal(Table::Process, |encoder| {
            encoder.bytes(&self.id.0).number(self.session).text(&self.setup).number(self.created_ns as i64);
            encoder.text(state).maybe(at.saved.as_deref().map(str::as_bytes));
            encoder.number(at.place.seq as i64).number(at.place.skip as i64).number(at.stdin as i64);
        })
    }
}

/// A process that serves a session.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRow {
    pub(crate) identity: ProcessIdentity,
    /// It certainly was started.
    pub(crate) started: bool,
    /// None where a later program has written it, or somebody who is not the house.
    pub(crate) setup: Option<Setup>,
    pub(crate) at: Checkpoint,
    /// The house itself has written the row.
    pub(crate) is_ours: bool,
    /// The key that proved the row is lost: its conversation is read to the end if the process has ended, and nothing is
    /// said to anybody because of it.
    pub(crate) is_unproved: bool,
}

impl ProcessRow {
    pub(crate) fn id(&self) -> ProcessId {
        self.identity.id
    }
}

pub(crate) fn insert_process(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    identity: &ProcessIdentity,
) -> rusqlite::Result<()> {
    let seal = identity.seal(ledger, CHOSEN, &Checkpoint::default());
    let ProcessIdentity { id, session, setup, created_ns } = identity;
    transaction
        .prepare_cached(
            "INSERT INTO agent_processes (id, session, setup, state, created_ns, seal) VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![id.0, session, &**setup, CHOSEN, *created_ns as i64, seal.bytes()])
        .map(drop)
}

/// It runs: should it be unknown later, it is lost, and is not to be started again.
pub(crate) fn process_started(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    identity: &ProcessIdentity,
) -> rusqlite::Result<()> {
    let seal = identity.seal(ledger, LIVE, &Checkpoint::default());
    transaction
        .prepare_cached("UPDATE agent_processes SET state = ?, seal = ? WHERE id = ? AND state = ?")?
        .execute(params![LIVE, seal.bytes(), identity.id.0, CHOSEN])
        .map(drop)
}

/// Whoever has said something certainly was started, also if the disk has refused that when it happened.
pub(crate) fn save_process(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    identity: &ProcessIdentity,
    at: &Checkpoint,
) -> rusqlite::Result<()> {
    let seal = identity.seal(ledger, LIVE, at);
    transaction
        .prepare_cached(
            "UPDATE agent_processes SET state = ?, saved = ?, seq = ?, skip = ?, stdin = ?, seal = ?
             WHERE id = ? AND state <> 'ended'",
        )?
        .execute(params![
            LIVE,
            at.saved,
            at.place.seq as i64,
            at.place.skip as i64,
            at.stdin as i64,
            seal.bytes(),
            identity.id.0
        ])
        .map(drop)
}

/// It serves nobody any more, and what it asked needs no answer.
pub(crate) fn end_process(transaction: &Transaction<'_>, approvals: &Approvals, id: ProcessId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET state = 'ended', saved = NULL WHERE id = ?")?
        .execute([id.0])?;
    approvals.withdraw_all(transaction, id)
}

/// The columns of [`read`].
const PROCESS: &str =
    "SELECT id, setup, saved, seq, skip, stdin, state, seal, session, created_ns FROM agent_processes";

/// A row, the word for how far it is, and whether it carries the seal of what it holds.
fn read(row: &Row<'_>, ledger: &Ledger) -> rusqlite::Result<(ProcessRow, String)> {
    let setup = text(row, 1)?;
    let at = Checkpoint {
        saved: maybe_text(row, 2)?,
        place: Place { seq: row.get::<_, i64>(3)? as u64, skip: row.get::<_, i64>(4)? as u64 },
        stdin: row.get::<_, i64>(5)? as u64,
    };
    let state = text(row, 6)?;
    let identity = ProcessIdentity {
        id: ProcessId(row.get(0)?),
        session: row.get(8)?,
        setup: setup.as_str().into(),
        created_ns: row.get::<_, i64>(9)? as u64,
    };
    let carried = row.get_ref(7)?.as_bytes().ok().and_then(Seal::read);
    let is_ours = carried == Some(identity.seal(ledger, &state, &at));
    let setup = serde_json::from_str(&setup).ok().filter(|_| is_ours);
    Ok((ProcessRow { identity, started: state == LIVE, setup, at, is_ours, is_unproved: state == LOST }, state))
}

/// The process that may still serve a session.
pub(crate) fn live_process(
    connection: &Connection,
    session: i64,
    ledger: &Ledger,
) -> rusqlite::Result<Option<ProcessRow>> {
    connection
        .prepare_cached(&format!(
            "{PROCESS} WHERE session = ? AND state <> 'ended' AND length(id) = 16 ORDER BY created_ns DESC LIMIT 1"
        ))?
        .query_row([session], |row| read(row, ledger).map(|(row, _)| row))
        .optional()
}

/// The rows of processes that may still serve a session, each with the word for how far it is.
pub(crate) struct ProcessRows(Vec<(ProcessRow, String)>);

impl ProcessRows {
    pub(crate) fn load(connection: &Connection, ledger: &Ledger) -> rusqlite::Result<Self> {
        let mut statement =
            connection.prepare_cached(&format!("{PROCESS} WHERE state <> 'ended' AND length(id) = 16"))?;
        statement.query_map([], |row| read(row, ledger))?.collect::<rusqlite::Result<_>>().map(ProcessRows)
    }

    /// Another key has followed the one under which these were loaded, and the house that wrote them lives: its own rows
    /// are sealed anew. Part of a write.
    pub(crate) fn reseal(&self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        self.0.iter().filter(|(row, _)| row.is_ours).try_for_each(|(row, state)| {
            let seal = row.identity.seal(ledger, state, &row.at);
            set_state(transaction, row, state, seal)
        })
    }

    /// The key is lost, and with it the proof of what was said to these processes: a keeper without a key may hold them
    /// still. One that never had a checkpoint is read from its beginning. Nobody goes on with any other, and none that was
    /// not started yet is ever started. Part of a write.
    pub(crate) fn adopt(&self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        self.0.iter().filter(|(row, _)| !row.is_ours).try_for_each(|(row, _)| {
            let is_from_beginning = row.started && row.at == Checkpoint::default();
            let state = if is_from_beginning { LIVE } else { LOST };
            set_state(transaction, row, state, row.identity.seal(ledger, state, &row.at))
        })
    }
}

fn set_state(transaction: &Transaction<'_>, row: &ProcessRow, state: &str, seal: Seal) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET state = ?, seal = ? WHERE id = ?")?
        .execute(params![state, seal.bytes(), row.identity.id.0])
        .map(drop)
}

/// Every process of any session, and of one.
pub(crate) fn all_processes(connection: &Connection, session: Option<i64>) -> rusqlite::Result<Vec<ProcessId>> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM agent_processes WHERE (?1 IS NULL OR session = ?1) AND length(id) = 16")?;
    statement.query_map([session], |row| row.get(0).map(ProcessId))?.collect()
}
