//! The statements about requests.
//!
//! Invariant: each function is one step of a transaction; none decides anything. What cannot be read back is nothing
//! anybody agreed to.

use std::time::Duration;

use hostel_agents::Raw;
use rusqlite::{Connection as Database, OptionalExtension as _, Row, Transaction, params};

use super::types::{Approval, Connection, KeeperId, Kind, RunState, State, Subject, digest_of};
use crate::processes::ProcessId;

const COLUMNS: &str = "approvals.no, approvals.id, sessions.id, approvals.turn, approvals.tool, approvals.input, \
    approvals.summary, approvals.state, approvals.created_ns, approvals.expires_ns, approvals.decided_ns, \
    approvals.decision, approvals.decider, approvals.request, approvals.seq, approvals.process, approvals.kind, \
    approvals.subject, approvals.digest, approvals.requester, approvals.reason, approvals.rule, approvals.shown_ns, \
    approvals.life_ns, approvals.line, approvals.runs, approvals.keeper, approvals.run, approvals.outcome";

/// A query for whole requests.
pub(super) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM approvals LEFT JOIN sessions ON sessions.no = approvals.session {rest}")
}

/// A request as it is stored.
pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
    let (state, kind, run): (String, String, String) = (row.get(7)?, row.get(16)?, row.get(27)?);
    let decision: Option<String> = row.get(11)?;
    let (tool, input): (String, String) = (row.get(4)?, row.get(5)?);
    let input: Raw = serde_json::from_str(&input).unwrap_or_else(|_| Raw::null());
    let kind = Kind::ALL.into_iter().find(|known| known.word() == kind);
    let (text, stored): (String, Vec<u8>) = (row.get(17)?, row.get(18)?);
    let (subject, digest) = match (kind, text.is_empty()) {
        (Some(Kind::Tool) | None, true) => {
            let subject = Subject::Tool { tool: tool.clone(), input: input.clone() };
            let digest = subject.text().as_deref().map(digest_of).unwrap_or_default();
            (Some(subject), digest)
        }
        _ => (serde_json::from_str(&text).ok(), digest_of(&text)),
    };
    // A request of an older program has no digest.
    let is_whole = (stored.is_empty() && kind == Some(Kind::Tool)) || stored == digest;
    let subject: Option<Subject> = subject.filter(|subject| is_whole && Some(subject.kind()) == kind);
    let state = State::ALL.into_iter().find(|known| known.word() == state).filter(|_| subject.is_some());
    let outcome: Option<String> = row.get(28)?;
    let requester: String = row.get(19)?;
    let request: String = row.get(13)?;
    let line: Option<[u8; 32]> = row.get(24)?;
    Ok(Approval {
        no: number(0)?,
        id: row.get(1)?,
        session: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
        turn: number(3)?,
        tool,
        input,
        summary: row.get(6)?,
        state: state.unwrap_or(State::Denied),
        created_ns: number(8)?,
        expires_ns: number(9)?,
        decided_ns: number(10)?,
        decision: decision.and_then(|text| serde_json::from_str(&text).ok()),
        decider: row.get(12)?,
        kind: kind.unwrap_or(Kind::Question),
        subject: subject.unwrap_or_else(|| Subject::Question { text: String::new(), details: String::new() }),
        requester: serde_json::from_str(&requester).unwrap_or_default(),
        reason: row.get(20)?,
        rule: row.get(21)?,
        shown_ns: number(22)?,
        life_ns: number(23)?,
        connection: line.map(|bytes| Connection { request_id: request.clone(), bytes }),
        runs: unpack(&row.get::<_, Vec<u8>>(25)?),
        keeper: keeper_of(&row.get::<_, String>(26)?),
        run: RunState::ALL.into_iter().find(|known| known.word() == run).unwrap_or(RunState::None),
        outcome: outcome.and_then(|text| serde_json::from_str(&text).ok()),
        digest,
        request,
        seq: number(14)?,
        process: row.get::<_, Option<[u8; 16]>>(15)?.map(ProcessId),
    })
}

fn pack(runs: &[ProcessId]) -> Vec<u8> {
    runs.iter().flat_map(|run| run.0).collect()
}

fn unpack(bytes: &[u8]) -> Vec<ProcessId> {
    bytes.as_chunks::<16>().0.iter().copied().map(ProcessId).collect()
}

fn keeper_text(keeper: Option<KeeperId>) -> String {
    keeper.map(|keeper| format!("{} {}", keeper.pid, keeper.since_ns)).unwrap_or_default()
}

fn keeper_of(text: &str) -> Option<KeeperId> {
    let (pid, since) = text.split_once(' ')?;
    Some(KeeperId { pid: pid.parse().ok()?, since_ns: since.parse().ok()? })
}

/// Writes a new request and gives it its number.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    approval: &mut Approval,
    session: Option<i64>,
    subject: &str,
) -> rusqlite::Result<()> {
    let decision = approval.decision.as_ref().and_then(|decision| serde_json::to_string(decision).ok());
    // A tool's subject is in columns of its own.
    let subject = if approval.kind == Kind::Tool { "" } else { subject };
    let requester = serde_json::to_string(&approval.requester).unwrap_or_default();
    transaction
        .prepare_cached(
            "INSERT INTO approvals (id, kind, session, turn, process, request, seq, tool, input, summary, state,
             created_ns, expires_ns, decided_ns, decision, decider, subject, digest, requester, reason, rule, life_ns,
             door, line, runs, keeper, run)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            approval.id,
            approval.kind.word(),
            session,
            approval.turn as i64,
            approval.process.map(|process| process.0),
            approval.request,
            approval.seq as i64,
            approval.tool,
            approval.input.get(),
            approval.summary,
            approval.state.word(),
            approval.created_ns as i64,
            clamp(approval.expires_ns),
            approval.decided_ns as i64,
            decision,
            approval.decider,
            subject,
            approval.digest,
            requester,
            approval.reason,
            approval.rule,
            clamp(approval.life_ns),
            approval.requester.door,
            approval.connection.as_ref().map(|connection| connection.bytes),
            pack(&approval.runs),
            keeper_text(approval.keeper),
            approval.run.word(),
        ])?;
    approval.no = transaction.last_insert_rowid() as u64;
    Ok(())
}

/// SQLite's numbers are signed.
pub(super) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes that a pending request is settled, as it stands in `approval`.
pub(super) fn settle(transaction: &Transaction<'_>, approval: &Approval) -> rusqlite::Result<()> {
    let decision = approval.decision.as_ref().and_then(|decision| serde_json::to_string(decision).ok());
    transaction
        .prepare_cached(
            "UPDATE approvals SET state = ?, decision = ?, decider = ?, decided_ns = ?, rule = ?, runs = ?, keeper = ?,
             run = ? WHERE no = ? AND state = 'pending'",
        )?
        .execute(params![
            approval.state.word(),
            decision,
            approval.decider,
            approval.decided_ns as i64,
            approval.rule,
            pack(&approval.runs),
            keeper_text(approval.keeper),
            approval.run.word(),
            approval.no as i64,
        ])
        .map(drop)
}

/// One request, by its number.
pub(super) fn by_no(database: &Database, no: u64) -> rusqlite::Result<Option<Approval>> {
    database.prepare_cached(&select("WHERE approvals.no = ?"))?.query_row([no as i64], from_row).optional()
}

/// One request, by its id.
pub(super) fn by_id(database: &Database, id: &str) -> rusqlite::Result<Option<Approval>> {
    database.prepare_cached(&select("WHERE approvals.id = ?"))?.query_row([id], from_row).optional()
}

/// When the clock of a request runs out, and whether it runs; if a face has shown it, when.
pub(super) fn set_clock(transaction: &Transaction<'_>, approval: &Approval) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE approvals SET expires_ns = ?, life_ns = ?, shown_ns = ? WHERE no = ? AND state = 'pending'",
        )?
        .execute(params![
            clamp(approval.expires_ns),
            clamp(approval.life_ns),
            approval.shown_ns as i64,
            approval.no as i64
        ])
        .map(drop)
}

/// Everything that waits for an answer.
pub(super) fn pending(database: &Database) -> rusqlite::Result<Vec<Approval>> {
    database.prepare(&select("WHERE approvals.state = 'pending'"))?.query_map([], from_row)?.collect()
}

/// What was approved and is not known to be over.
pub(super) fn unfinished(database: &Database) -> rusqlite::Result<Vec<Approval>> {
    let mut statement =
        database.prepare(&select("WHERE approvals.run IN ('due', 'started') AND approvals.state = 'approved'"))?;
    statement.query_map([], from_row)?.collect()
}

/// What a connection asked lately and has been settled, newest first: perhaps it never heard.
pub(super) fn lately_settled(database: &Database, since_ns: u64, limit: usize) -> rusqlite::Result<Vec<Approval>> {
    let mut statement = database.prepare(&select(
        "WHERE approvals.line IS NOT NULL AND approvals.state IN ('approved', 'denied', 'expired')
         AND approvals.run NOT IN ('due', 'started')
         AND approvals.decided_ns > ? ORDER BY approvals.no DESC LIMIT ?",
    ))?;
    statement.query_map([since_ns as i64, limit as i64], from_row)?.collect()
}

/// The ids under which connections of a door asked since then, and when, newest first.
pub(super) fn recent_requests(
    database: &Database,
    door: &str,
    since_ns: u64,
    limit: usize,
) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = database.prepare(
        "SELECT request, created_ns FROM approvals WHERE line IS NOT NULL AND door = ? AND created_ns > ?
         ORDER BY no DESC LIMIT ?",
    )?;
    let found = statement.query_map(params![door, since_ns as i64, limit as i64], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
    })?;
    found.collect()
}

/// How long the id of a request that came over a connection is remembered: longer than any door takes the same request
/// for a new one.
const REMEMBERED: Duration = Duration::from_secs(180);

/// Forgets what was settled long ago, a handful at a time; the audit remembers. What a session may still need after a
/// restart stays, and what a door needs to know a replay by.
pub(super) fn trim(transaction: &Transaction<'_>, keep: usize, now_ns: u64) -> rusqlite::Result<()> {
    let recent = now_ns.saturating_sub(REMEMBERED.as_nanos() as u64);
    transaction
        .prepare_cached(
            "DELETE FROM approvals WHERE no IN (
                 SELECT no FROM approvals WHERE no <= (SELECT max(no) FROM approvals) - ?
                 AND state <> 'pending' AND run NOT IN ('due', 'started') AND (line IS NULL OR created_ns < ?)
                 AND NOT EXISTS (SELECT 1 FROM agent_processes
                                 WHERE agent_processes.id = approvals.process AND agent_processes.state <> 'ended')
                 AND NOT EXISTS (SELECT 1 FROM mail WHERE mail.approval = approvals.id AND mail.state = 'asked')
                 ORDER BY no LIMIT 1000)",
        )?
        .execute(params![clamp(keep as u64), recent as i64])?;
    transaction
        .prepare_cached(
            "DELETE FROM grants WHERE (revoked_ns > 0 OR expires_ns < ? OR uses_left = 0)
             AND no <= (SELECT max(no) FROM grants) - ?",
        )?
        .execute(params![now_ns as i64, clamp(keep as u64)])
        .map(drop)
}
