//! Turns, from the queue to their end.

use hostel_agents::Usage;
use rusqlite::{Connection, Transaction, params};

use super::{maybe_text, text};
use crate::processes::ProcessId;
use crate::seals::Ledger;
use crate::sessions::prompts::{self, PromptRow, Proof};
use crate::sessions::types::{Cause, TurnInfo};

/// A turn that waits or runs.
#[derive(Clone, Debug)]
pub(crate) struct OpenTurn {
    pub(crate) turn: u64,
    pub(crate) prompt: String,
    pub(crate) door: String,
    pub(crate) running: bool,
    pub(crate) cause: Option<Cause>,
    pub(crate) process: Option<ProcessId>,
    pub(crate) first_seq: u64,
    pub(crate) started_ns: u64,
    pub(crate) unproved: bool,
}

impl OpenTurn {
    /// What its seal covers.
    pub(crate) fn proof(&self) -> Proof {
        Proof::of(&self.prompt, &self.door, self.unproved)
    }

    /// The row, as far as it has a seal.
    pub(crate) fn row(&self, session: i64) -> PromptRow {
        PromptRow {
            session,
            turn: self.turn,
            proof: self.proof(),
            process: self.process,
            running: self.running,
            first_seq: self.first_seq,
        }
    }
}

pub(crate) fn insert_turn(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: i64,
    turn: u64,
    prompt: &str,
    door: &str,
    now_ns: u64,
) -> rusqlite::Result<()> {
    let proof = Proof::of(prompt, door, false);
    let row = PromptRow { session, turn, proof, process: None, running: false, first_seq: 0 };
    let seal = row.seal(ledger);
    transaction
        .prepare_cached(
            "INSERT INTO turns (session, turn, prompt, door, state, queued_ns, seal) VALUES (?, ?, ?, ?, 'queued', ?, ?)",
        )?
        .execute(params![session, turn as i64, prompt, door, now_ns as i64, seal.bytes()])?;
    ledger.set(row.key(), Some(seal));
    Ok(())
}

/// Turns that wait or run, and those whose end nobody was told of.
pub(crate) fn open_turns(connection: &Connection, session: i64) -> rusqlite::Result<Vec<OpenTurn>> {
    let mut statement = connection.prepare_cached(
        "SELECT turn, prompt, door, state, cause, process, first_seq, started_ns, unproved FROM turns
         WHERE session = ? AND state IN ('queued', 'running') ORDER BY turn",
    )?;
    let rows = statement.query_map([session], |row| {
        Ok(OpenTurn {
            turn: row.get::<_, i64>(0)? as u64,
            prompt: text(row, 1)?,
            door: text(row, 2)?,
            running: text(row, 3)? == "running",
            cause: maybe_text(row, 4)?.as_deref().and_then(Cause::named),
            process: row.get_ref(5)?.as_blob().ok().and_then(|id| id.try_into().ok()).map(ProcessId),
            first_seq: row.get::<_, i64>(6)? as u64,
            started_ns: row.get::<_, i64>(7)? as u64,
            unproved: row.get::<_, i64>(8)? != 0,
        })
    })?;
    rows.collect()
}

/// Turns that were cancelled while they waited, and whose end is not among the events yet.
pub(crate) fn untold_turns(connection: &Connection, session: i64) -> rusqlite::Result<Vec<(u64, Cause)>> {
    let mut statement = connection.prepare_cached(
        "SELECT turn, cause FROM turns WHERE session = ? AND state = 'cancelled' AND told = 0 ORDER BY turn",
    )?;
    let rows = statement.query_map([session], |row| {
        let cause = maybe_text(row, 1)?;
        let cause = cause.as_deref().and_then(Cause::named).unwrap_or(Cause::ClientRpc);
        Ok((row.get::<_, i64>(0)? as u64, cause))
    })?;
    rows.collect()
}

pub(crate) fn cancel_queued(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: i64,
    turn: u64,
    cause: Cause,
    now_ns: u64,
) -> rusqlite::Result<()> {
    let cancelled = transaction
        .prepare_cached(
            "UPDATE turns SET state = 'cancelled', cause = ?, ended_ns = ? WHERE session = ? AND turn = ?
             AND state = 'queued'",
        )?
        .execute(params![cause.word(), now_ns as i64, session, turn as i64])?;
    if cancelled > 0 {
        prompts::forget(ledger, session, turn);
    }
    Ok(())
}

/// The end of a prompt that was cancelled while it waited is among the events. Says once more that it was: should the
/// disk have refused that when it happened, it must not run after its end was told.
pub(crate) fn mark_told(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: i64,
    turn: u64,
    cause: Cause,
    now_ns: u64,
) -> rusqlite::Result<()> {
    cancel_queued(transaction, ledger, session, turn, cause, now_ns)?;
    transaction
        .prepare_cached("UPDATE turns SET told = 1 WHERE session = ? AND turn = ?")?
        .execute(params![session, turn as i64])
        .map(drop)
}

/// Why the turn that runs is to stop; the first reason counts.
pub(crate) fn set_cause(transaction: &Transaction<'_>, session: i64, turn: u64, cause: Cause) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE turns SET cause = coalesce(cause, ?) WHERE session = ? AND turn = ?")?
        .execute(params![cause.word(), session, turn as i64])
        .map(drop)
}

/// Where a turn begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnStart {
    pub(crate) turn: u64,
    pub(crate) proof: Proof,
    pub(crate) process: ProcessId,
    pub(crate) from_seq: u64,
    pub(crate) first_seq: u64,
    pub(crate) now_ns: u64,
}

pub(crate) fn start_turn(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: i64,
    start: &TurnStart,
) -> rusqlite::Result<()> {
    let TurnStart { turn, proof, process, from_seq, first_seq, now_ns } = *start;
    let row = PromptRow { session, turn, proof, process: Some(process), running: true, first_seq };
    let seal = row.seal(ledger);
    transaction
        .prepare_cached(
            "UPDATE turns SET state = 'running', process = ?, from_seq = ?, first_seq = ?, started_ns = ?, seal = ?
             WHERE session = ? AND turn = ?",
        )?
        .execute(params![
            process.0,
            from_seq as i64,
            first_seq as i64,
            now_ns as i64,
            seal.bytes(),
            session,
            turn as i64
        ])?;
    ledger.set(row.key(), Some(seal));
    transaction
        .prepare_cached("UPDATE sessions SET active_ns = ? WHERE no = ?")?
        .execute(params![now_ns as i64, session])
        .map(drop)
}

/// What became of a turn.
pub(crate) struct TurnEnd {
    pub(crate) turn: u64,
    pub(crate) state: &'static str,
    pub(crate) answer: String,
    pub(crate) usage: Usage,
    pub(crate) to_seq: u64,
    pub(crate) session_usage: Usage,
    pub(crate) now_ns: u64,
}

fn json(usage: &Usage) -> String {
    serde_json::to_string(usage).unwrap_or_else(|_| "{}".to_owned())
}

pub(crate) fn end_turn(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: i64,
    end: &TurnEnd,
) -> rusqlite::Result<()> {
    prompts::forget(ledger, session, end.turn);
    transaction
        .prepare_cached(
            "UPDATE turns SET state = ?, answer = ?, usage = ?, to_seq = ?, ended_ns = ?, told = 1
             WHERE session = ? AND turn = ?",
        )?
        .execute(params![
            end.state,
            end.answer,
            json(&end.usage),
            end.to_seq as i64,
            end.now_ns as i64,
            session,
            end.turn as i64
        ])?;
    transaction
        .prepare_cached("UPDATE sessions SET usage = ? WHERE no = ?")?
        .execute(params![json(&end.session_usage), session])
        .map(drop)
}

pub(crate) fn all_turns(connection: &Connection, session: &str) -> rusqlite::Result<Vec<TurnInfo>> {
    let mut statement = connection.prepare_cached(
        "SELECT turns.turn, prompt, turns.door, state, answer, queued_ns, ended_ns, turns.usage FROM turns
         JOIN sessions ON sessions.no = turns.session WHERE sessions.id = ? ORDER BY turns.turn",
    )?;
    let rows = statement.query_map([session], |row| {
        Ok(TurnInfo {
            turn: row.get::<_, i64>(0)? as u64,
            prompt: text(row, 1)?,
            door: text(row, 2)?,
            state: text(row, 3)?,
            answer: text(row, 4)?,
            queued_ns: row.get::<_, i64>(5)? as u64,
            ended_ns: row.get::<_, i64>(6)? as u64,
            usage: serde_json::from_str(&text(row, 7)?).unwrap_or_default(),
        })
    })?;
    rows.collect()
}
