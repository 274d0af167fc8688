//! The statements about sessions, turns and agent processes.
//!
//! Invariant: each function is one step of a transaction; none decides anything.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use hostel_agents::{Hosting, Kind, Mode, Setup, Usage};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::conversation::Checkpoint;
use super::lines::Place;
use super::types::{Cause, Standing, TurnInfo};
use crate::processes::ProcessId;

/// A session as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) no: i64,
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) agent: String,
    pub(crate) kind: Kind,
    pub(crate) door: String,
    pub(crate) owner: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) model: Option<String>,
    pub(crate) model_told: Option<String>,
    pub(crate) cli_session: Option<String>,
    pub(crate) hosting: Hosting,
    pub(crate) standing: Standing,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) approval_wait: Duration,
    pub(crate) created_ns: u64,
    pub(crate) active_ns: u64,
    pub(crate) last_seq: u64,
    pub(crate) usage: Usage,
    pub(crate) turns: u64,
}

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
}

/// A process that serves a session.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRow {
    pub(crate) id: ProcessId,
    pub(crate) setup: Setup,
    pub(crate) at: Checkpoint,
}

fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::Live => "live",
        Standing::Archived => "archived",
        Standing::Killed => "killed",
    }
}

fn hosting_word(hosting: Hosting) -> &'static str {
    match hosting {
        Hosting::Warm => "warm",
        Hosting::PerMessage => "per-message",
    }
}

/// Variables as they are stored: name, `=`, value, each ended by a zero byte.
fn encode_env(env: &[(OsString, OsString)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in env {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn decode_env(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    entries
        .filter_map(|entry| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            let (name, value) = entry.split_at_checked(at)?;
            let value = value.get(1..).unwrap_or_default();
            Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
        })
        .collect()
}

const SESSION: &str = "SELECT no, id, name, agent, kind, door, owner, cwd, mode, model, model_told, cli_session, \
    hosting, standing, env, approval_wait, created_ns, active_ns, last_seq, usage, \
    (SELECT count(*) FROM turns WHERE turns.session = sessions.no) FROM sessions";

fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let text = |index: usize| row.get::<_, String>(index);
    let number = |index: usize| row.get::<_, i64>(index).map(|number| number as u64);
    Ok(SessionRow {
        no: row.get(0)?,
        id: text(1)?,
        name: row.get(2)?,
        agent: text(3)?,
        kind: Kind::named(&text(4)?).unwrap_or(Kind::Acp),
        door: text(5)?,
        owner: row.get(6)?,
        cwd: PathBuf::from(OsString::from_vec(row.get(7)?)),
        // A mode that cannot be read is the one that asks.
        mode: Mode::named(&text(8)?).unwrap_or(Mode::Ask),
        model: row.get(9)?,
        model_told: row.get(10)?,
        cli_session: row.get(11)?,
        hosting: if text(12)? == "warm" { Hosting::Warm } else { Hosting::PerMessage },
        standing: match text(13)?.as_str() {
            "live" => Standing::Live,
            "archived" => Standing::Archived,
            _ => Standing::Killed,
        },
        env: decode_env(&row.get::<_, Vec<u8>>(14)?),
        approval_wait: Duration::from_nanos(number(15)?),
        created_ns: number(16)?,
        active_ns: number(17)?,
        last_seq: number(18)?,
        usage: serde_json::from_str(&text(19)?).unwrap_or_default(),
        turns: number(20)?,
    })
}

pub(crate) fn insert_session(transaction: &Transaction<'_>, row: &SessionRow) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO sessions (id, name, agent, kind, door, owner, cwd, mode, model, hosting, standing, env,
             approval_wait, created_ns, active_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .insert(params![
            row.id,
            row.name,
            row.agent,
            row.kind.name(),
            row.door,
            row.owner,
            row.cwd.as_os_str().as_bytes(),
            row.mode.name(),
            row.model,
            hosting_word(row.hosting),
            standing_word(row.standing),
            encode_env(&row.env),
            i64::try_from(row.approval_wait.as_nanos()).unwrap_or(i64::MAX),
            row.created_ns as i64,
            row.active_ns as i64,
        ])
}

/// Every session that takes prompts, oldest first.
pub(crate) fn live_sessions(connection: &Connection) -> rusqlite::Result<Vec<SessionRow>> {
    let mut statement = connection.prepare(&format!("{SESSION} WHERE standing = 'live' ORDER BY created_ns, no"))?;
    statement.query_map([], session)?.collect()
}

pub(crate) fn find_session(connection: &Connection, id: &str) -> rusqlite::Result<Option<SessionRow>> {
    connection.prepare_cached(&format!("{SESSION} WHERE id = ?"))?.query_row([id], session).optional()
}

pub(crate) fn session_by_no(connection: &Connection, no: i64) -> rusqlite::Result<Option<SessionRow>> {
    connection.prepare_cached(&format!("{SESSION} WHERE no = ?"))?.query_row([no], session).optional()
}

pub(crate) fn recent_sessions(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<SessionRow>> {
    let mut statement = connection.prepare_cached(&format!("{SESSION} ORDER BY active_ns DESC, no DESC LIMIT ?"))?;
    statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], session)?.collect()
}

/// Sessions that were closed before this moment.
pub(crate) fn closed_before(connection: &Connection, moment_ns: u64) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare_cached("SELECT id FROM sessions WHERE standing <> 'live' AND closed_ns < ? LIMIT 1000")?;
    statement.query_map([moment_ns as i64], |row| row.get(0))?.collect()
}

pub(crate) fn set_standing(
    transaction: &Transaction<'_>,
    session: i64,
    standing: Standing,
    now_ns: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE sessions SET standing = ?, closed_ns = ? WHERE no = ?")?
        .execute(params![standing_word(standing), now_ns as i64, session])
        .map(drop)
}

/// Sets one column of a session. `column` is a word of ours, never a caller's.
pub(crate) fn set_text(
    transaction: &Transaction<'_>,
    session: i64,
    column: &'static str,
    value: Option<&str>,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(&format!("UPDATE sessions SET {column} = ? WHERE no = ?"))?
        .execute(params![value, session])
        .map(drop)
}

pub(crate) fn delete_session(transaction: &Transaction<'_>, session: i64) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM sessions WHERE no = ?")?.execute([session]).map(drop)
}

pub(crate) fn insert_turn(
    transaction: &Transaction<'_>,
    session: i64,
    turn: u64,
    prompt: &str,
    door: &str,
    now_ns: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO turns (session, turn, prompt, door, state, queued_ns) VALUES (?, ?, ?, ?, 'queued', ?)",
        )?
        .execute(params![session, turn as i64, prompt, door, now_ns as i64])
        .map(drop)
}

/// Turns that wait or run, and those whose end nobody was told of.
pub(crate) fn open_turns(connection: &Connection, session: i64) -> rusqlite::Result<Vec<OpenTurn>> {
    let mut statement = connection.prepare_cached(
        "SELECT turn, prompt, door, state, cause, process, first_seq, started_ns FROM turns
         WHERE session = ? AND state IN ('queued', 'running') ORDER BY turn",
    )?;
    let rows = statement.query_map([session], |row| {
        Ok(OpenTurn {
            turn: row.get::<_, i64>(0)? as u64,
            prompt: row.get(1)?,
            door: row.get(2)?,
            running: row.get::<_, String>(3)? == "running",
            cause: row.get::<_, Option<String>>(4)?.as_deref().and_then(Cause::named),
            process: row.get::<_, Option<[u8; 16]>>(5)?.map(ProcessId),
            first_seq: row.get::<_, i64>(6)? as u64,
            started_ns: row.get::<_, i64>(7)? as u64,
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
        let cause: Option<String> = row.get(1)?;
        let cause = cause.as_deref().and_then(Cause::named).unwrap_or(Cause::ClientRpc);
        Ok((row.get::<_, i64>(0)? as u64, cause))
    })?;
    rows.collect()
}

pub(crate) fn cancel_queued(
    transaction: &Transaction<'_>,
    session: i64,
    turn: u64,
    cause: Cause,
    now_ns: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE turns SET state = 'cancelled', cause = ?, ended_ns = ? WHERE session = ? AND turn = ?
             AND state = 'queued'",
        )?
        .execute(params![cause.word(), now_ns as i64, session, turn as i64])
        .map(drop)
}

pub(crate) fn mark_told(transaction: &Transaction<'_>, session: i64, turn: u64) -> rusqlite::Result<()> {
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

pub(crate) fn start_turn(
    transaction: &Transaction<'_>,
    session: i64,
    turn: u64,
    process: ProcessId,
    from_seq: u64,
    first_seq: u64,
    now_ns: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE turns SET state = 'running', process = ?, from_seq = ?, first_seq = ?, started_ns = ?
             WHERE session = ? AND turn = ?",
        )?
        .execute(params![process.0, from_seq as i64, first_seq as i64, now_ns as i64, session, turn as i64])?;
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

pub(crate) fn end_turn(transaction: &Transaction<'_>, session: i64, end: &TurnEnd) -> rusqlite::Result<()> {
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
            prompt: row.get(1)?,
            door: row.get(2)?,
            state: row.get(3)?,
            answer: row.get(4)?,
            queued_ns: row.get::<_, i64>(5)? as u64,
            ended_ns: row.get::<_, i64>(6)? as u64,
            usage: serde_json::from_str(&row.get::<_, String>(7)?).unwrap_or_default(),
        })
    })?;
    rows.collect()
}

pub(crate) fn insert_process(
    transaction: &Transaction<'_>,
    session: i64,
    id: ProcessId,
    setup: &Setup,
    now_ns: u64,
) -> rusqlite::Result<()> {
    let setup = serde_json::to_string(setup).unwrap_or_default();
    transaction
        .prepare_cached(
            "INSERT INTO agent_processes (id, session, setup, state, created_ns) VALUES (?, ?, ?, 'live', ?)",
        )?
        .execute(params![id.0, session, setup, now_ns as i64])
        .map(drop)
}

pub(crate) fn save_process(transaction: &Transaction<'_>, id: ProcessId, at: &Checkpoint) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET saved = ?, seq = ?, skip = ?, stdin = ? WHERE id = ?")?
        .execute(params![at.saved, at.place.seq as i64, at.place.skip as i64, at.stdin as i64, id.0])
        .map(drop)
}

pub(crate) fn end_process(transaction: &Transaction<'_>, id: ProcessId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE agent_processes SET state = 'ended', saved = NULL WHERE id = ?")?
        .execute([id.0])
        .map(drop)
}

/// The process that may still serve a session.
pub(crate) fn live_process(connection: &Connection, session: i64) -> rusqlite::Result<Option<ProcessRow>> {
    let found = connection
        .prepare_cached(
            "SELECT id, setup, saved, seq, skip, stdin FROM agent_processes WHERE session = ? AND state = 'live'
             ORDER BY created_ns DESC LIMIT 1",
        )?
        .query_row([session], |row| {
            let setup: String = row.get(1)?;
            let at = Checkpoint {
                saved: row.get(2)?,
                place: Place { seq: row.get::<_, i64>(3)? as u64, skip: row.get::<_, i64>(4)? as u64 },
                stdin: row.get::<_, i64>(5)? as u64,
            };
            Ok((ProcessId(row.get(0)?), setup, at))
        })
        .optional()?;
    Ok(found.and_then(|(id, setup, at)| Some(ProcessRow { id, setup: serde_json::from_str(&setup).ok()?, at })))
}

/// Every process of any session, and of one.
pub(crate) fn all_processes(connection: &Connection, session: Option<i64>) -> rusqlite::Result<Vec<ProcessId>> {
    let mut statement = connection.prepare_cached("SELECT id FROM agent_processes WHERE ?1 IS NULL OR session = ?1")?;
    statement.query_map([session], |row| row.get(0).map(ProcessId))?.collect()
}

/// Sessions that have something left to do: turns that are open or untold, or a process that lives.
pub(crate) fn restless_sessions(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare(
        "SELECT session FROM turns WHERE state IN ('queued', 'running') OR (state = 'cancelled' AND told = 0)
         UNION SELECT session FROM agent_processes WHERE state = 'live'",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

pub(crate) fn door_states(connection: &Connection) -> rusqlite::Result<Vec<(i64, String, String)>> {
    let mut statement = connection.prepare("SELECT session, door, state FROM door_state")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}

pub(crate) fn set_door_state(
    transaction: &Transaction<'_>,
    session: i64,
    door: &str,
    state: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO door_state (session, door, state) VALUES (?, ?, ?)
             ON CONFLICT (session, door) DO UPDATE SET state = excluded.state",
        )?
        .execute(params![session, door, state])
        .map(drop)
}
