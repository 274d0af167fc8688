//! The statements about requests.
//!
//! Invariant: each function is one step of a transaction; none decides anything. Every write seals the row and enters the
//! seal into the ledger. What cannot be read back is nothing anybody agreed to.

use std::time::Duration;

use hostel_agents::Raw;
use rusqlite::{Connection as Database, OptionalExtension as _, Row, Transaction, params};

use super::asking::blank;
use super::loading::is_unheard;
use super::types::{Approval, Connection, KeeperId, Kind, RunState, State, Stored, Subject, digest_of};
use crate::processes::ProcessId;
use crate::seals::{Ledger, RowKey, Seal, Table};

const COLUMNS: &str = "approvals.no, approvals.id, sessions.id, approvals.turn, approvals.tool, approvals.input, \
    approvals.summary, approvals.state, approvals.created_ns, approvals.expires_ns, approvals.decided_ns, \
    approvals.decision, approvals.decider, approvals.request, approvals.seq, approvals.process, approvals.kind, \
    approvals.subject, approvals.digest, approvals.requester, approvals.reason, approvals.rule, approvals.shown_ns, \
    approvals.life_ns, approvals.line, approvals.runs, approvals.keeper, approvals.run, approvals.outcome, \
    approvals.session, approvals.open, approvals.seal";

/// A query for whole requests.
pub(super) fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM approvals LEFT JOIN sessions ON sessions.no = approvals.session {rest}")
}

/// A request as it is stored. The house writes every column so that it can be read again: a row that cannot be read was
/// changed by somebody else, and must not keep anybody from starting. It becomes a request that was denied, and that no
/// seal fits.
pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
    read(row).or_else(|_| unreadable(row))
}

/// Stands for a row that cannot be read.
fn unreadable(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let number = |index| row.get::<_, i64>(index).unwrap_or(0);
    let text = |index| -> String {
        let bytes = row.get_ref(index).ok().and_then(|value| value.as_bytes().ok()).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let (id, kind) = (text(1), text(16));
    let subject = Subject::Question { text: String::new(), details: String::new() };
    let stored = Stored { open: number(30) != 0, unreadable: true, ..Stored::default() };
    Ok(Approval {
        no: row.get::<_, i64>(0)? as u64,
        id,
        kind: Kind::ALL.into_iter().find(|known| known.word() == kind).unwrap_or(Kind::Question),
        state: State::Denied,
        created_ns: number(8) as u64,
        digest: [0; 32],
        stored,
        ..blank(String::new(), Raw::null(), subject)
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<Approval> {
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
        decision: decision.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        decider: row.get(12)?,
        kind: kind.unwrap_or(Kind::Question),
        subject: subject.unwrap_or_else(|| Subject::Question { text: String::new(), details: String::new() }),
        requester: serde_json::from_str(&requester).unwrap_or_default(),
        reason: row.get(20)?,
        rule: row.get(21)?,
        shown_ns: number(22)?,
        life_ns: number(23)?,
        connection: line.map(|bytes| Connection { request_id: request.clone(), bytes }),
        stored: Stored {
            session: row.get(29)?,
            requester: requester.clone(),
            decision: decision.clone(),
            outcome: outcome.clone(),
            open: row.get::<_, i64>(30)? != 0,
            unreadable: false,
            seal: row.get_ref(31)?.as_bytes().ok().and_then(Seal::read),
        },
        runs: unpack(&row.get::<_, Vec<u8>>(25)?),
        keeper: keeper_of(&row.get::<_, String>(26)?),
        run: RunState::ALL.into_iter().find(|known| known.word() == run).unwrap_or(RunState::None),
        outcome: outcome.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        // What the row says it is of, unless that is not so.
        digest: if is_whole { digest } else { [0; 32] },
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

/// The seal of a request as it stands in `approval`. The subject is covered by its digest.
pub(super) fn seal_of(ledger: &Ledger, approval: &Approval) -> Seal {
    let Stored { session, requester, decision, outcome, open, .. } = &approval.stored;
    ledger.seal(Table::Approval, |encoder| {
        encoder
            .text(&approval.id)
            .text(approval.kind.word())
            .number(session.unwrap_or(0))
            .number(approval.turn as i64)
            .maybe(approval.process.as_ref().map(|process| process.0.as_slice()))
            .text(&approval.request)
            .number(approval.seq as i64)
            .text(&approval.tool)
            .text(&approval.summary)
            .text(approval.state.word())
            .number(approval.created_ns as i64)
            .number(clamp(approval.expires_ns))
            .number(approval.decided_ns as i64)
            .maybe(decision.as_ref().map(String::as_bytes))
            .text(&approval.decider)
            .bytes(&approval.digest)
            .text(requester)
            .text(&approval.reason)
            .text(&approval.rule)
            .number(approval.shown_ns as i64)
            .number(clamp(approval.life_ns))
            .maybe(approval.connection.as_ref().map(|connection| connection.bytes.as_slice()))
            .bytes(&pack(&approval.runs))
            .text(&keeper_text(approval.keeper))
            .text(approval.run.word())
            .maybe(outcome.as_ref().map(String::as_bytes))
            .number(i64::from(*open));
    })
}

/// The place of a request in the ledger.
pub(super) fn key(no: u64) -> RowKey {
    RowKey { table: Table::Approval, no }
}

/// Makes the seal of a request that is about to be written.
fn seal(ledger: &Ledger, approval: &mut Approval, open: bool) -> Seal {
    approval.stored.open = open;
    let seal = seal_of(ledger, approval);
    approval.stored.seal = Some(seal);
    seal
}

/// Enters a request that was written into the ledger.
fn enter(ledger: &Ledger, approval: &Approval) {
    ledger.set(key(approval.no), approval.stored.seal.filter(|_| approval.stored.open));
}

/// Writes a new request and gives it its number, unless it has one.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    approval: &mut Approval,
    subject: &str,
) -> rusqlite::Result<()> {
    approval.stored.decision = approval.decision.as_ref().and_then(|decision| serde_json::to_string(decision).ok());
    approval.stored.requester = serde_json::to_string(&approval.requester).unwrap_or_default();
    let open = approval.may_have_effect();
    let seal = seal(ledger, approval, open);
    // A tool's subject is in columns of its own.
    let subject = if approval.kind == Kind::Tool { "" } else { subject };
    transaction
        .prepare_cached(
            "INSERT INTO approvals (no, id, kind, session, turn, process, request, seq, tool, input, summary, state,
             created_ns, expires_ns, decided_ns, decision, decider, subject, digest, requester, reason, rule, shown_ns,
             life_ns, door, line, runs, keeper, run, outcome, open, seal)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            (approval.no > 0).then_some(approval.no as i64),
            approval.id,
            approval.kind.word(),
            approval.stored.session,
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
            approval.stored.decision,
            approval.decider,
            subject,
            approval.digest,
            approval.stored.requester,
            approval.reason,
            approval.rule,
            approval.shown_ns as i64,
            clamp(approval.life_ns),
            approval.requester.door,
            approval.connection.as_ref().map(|connection| connection.bytes),
            pack(&approval.runs),
            keeper_text(approval.keeper),
            approval.run.word(),
            approval.stored.outcome,
            approval.stored.open,
            seal.bytes(),
        ])?;
    approval.no = transaction.last_insert_rowid() as u64;
    enter(ledger, approval);
    Ok(())
}

/// SQLite's numbers are signed.
pub(super) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Writes what a request has become, as it stands in `approval`: everything about it that can change.
pub(super) fn update(transaction: &Transaction<'_>, ledger: &Ledger, approval: &mut Approval) -> rusqlite::Result<()> {
    let open = approval.may_have_effect();
    write(transaction, ledger, approval, open)
}

/// Likewise, for a request that can have no effect any more, whatever it says itself.
pub(super) fn close(transaction: &Transaction<'_>, ledger: &Ledger, approval: &mut Approval) -> rusqlite::Result<()> {
    write(transaction, ledger, approval, false)
}

fn write(transaction: &Transaction<'_>, ledger: &Ledger, approval: &mut Approval, open: bool) -> rusqlite::Result<()> {
    let seal = seal(ledger, approval, open);
    transaction
        .prepare_cached(
            "UPDATE approvals SET state = ?, expires_ns = ?, decided_ns = ?, decision = ?, decider = ?, rule = ?,
             shown_ns = ?, life_ns = ?, runs = ?, keeper = ?, run = ?, outcome = ?, open = ?, seal = ? WHERE no = ?",
        )?
        .execute(params![
            approval.state.word(),
            clamp(approval.expires_ns),
            approval.decided_ns as i64,
            approval.stored.decision,
            approval.decider,
            approval.rule,
            approval.shown_ns as i64,
            clamp(approval.life_ns),
            pack(&approval.runs),
            keeper_text(approval.keeper),
            approval.run.word(),
            approval.stored.outcome,
            approval.stored.open,
            seal.bytes(),
            approval.no as i64,
        ])?;
    enter(ledger, approval);
    Ok(())
}

/// Writes how far a request was carried out and nothing else, if its row has the seal that it had before.
pub(super) fn update_run(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    approval: &mut Approval,
) -> rusqlite::Result<bool> {
    let before = ledger.get(key(approval.no));
    let open = approval.may_have_effect();
    let seal = seal(ledger, approval, open);
    let changed = transaction
        .prepare_cached("UPDATE approvals SET run = ?, outcome = ?, open = ?, seal = ? WHERE no = ? AND seal = ?")?
        .execute(params![
            approval.run.word(),
            approval.stored.outcome,
            approval.stored.open,
            seal.bytes(),
            approval.no as i64,
            before.map(Seal::bytes),
        ])?;
    if changed == 1 {
        enter(ledger, approval);
    }
    Ok(changed == 1)
}

/// Writes a whole row again that somebody has changed or removed, as the house knows it.
pub(super) fn restore(transaction: &Transaction<'_>, ledger: &Ledger, approval: &mut Approval) -> rusqlite::Result<()> {
    let subject = approval.subject.text().unwrap_or_default();
    transaction
        .prepare_cached("DELETE FROM approvals WHERE no = ? OR id = ?")?
        .execute(params![approval.no as i64, approval.id])?;
    insert(transaction, ledger, approval, &subject)
}

/// The process that asked does not count any more: it may ask the same again.
pub(super) fn detach(transaction: &Transaction<'_>, approval: &Approval) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE approvals SET process = NULL WHERE no = ?")?
        .execute([approval.no as i64])
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

/// Everything that can still have an effect, as it was found.
pub(super) fn open(database: &Database) -> rusqlite::Result<Vec<Approval>> {
    database.prepare_cached(&select("WHERE approvals.open = 1"))?.query_map([], from_row)?.collect()
}

/// What a connection asked lately and has been settled, newest first: perhaps it never heard.
pub(super) fn lately_settled(database: &Database, since_ns: u64, limit: usize) -> rusqlite::Result<Vec<Approval>> {
    let mut statement = database.prepare(&select(
        "WHERE approvals.open = 0 AND approvals.line IS NOT NULL
         AND approvals.state IN ('approved', 'denied', 'expired')
         AND approvals.decided_ns > ? ORDER BY approvals.no DESC LIMIT ?",
    ))?;
    statement.query_map([since_ns as i64, limit as i64], from_row)?.collect()
}

/// Stands for the decider of a request that nobody can vouch for any more: whoever asked may ask again under the same id.
pub(super) const ASK_AGAIN: &str = "nobody: ask again";

/// The ids under which connections of a door asked since then, and when, newest first. None for an id that is no text: the
/// house has not written it.
pub(super) fn recent_requests(
    database: &Database,
    door: &str,
    since_ns: u64,
    limit: usize,
) -> rusqlite::Result<Vec<(Option<String>, u64)>> {
    let mut statement = database.prepare(
        "SELECT CAST(request AS BLOB), created_ns FROM approvals WHERE line IS NOT NULL AND door = ? AND created_ns > ?
         AND decider <> ? ORDER BY no DESC LIMIT ?",
    )?;
    let found = statement.query_map(params![door, since_ns as i64, ASK_AGAIN, limit as i64], |row| {
        Ok((String::from_utf8(row.get(0)?).ok(), row.get::<_, i64>(1)? as u64))
    })?;
    found.collect()
}

/// Answers to questions that nobody comes back for any more can have no effect.
pub(super) fn close_unheard(transaction: &Transaction<'_>, ledger: &Ledger, now_ns: u64) -> rusqlite::Result<()> {
    for mut approval in open(transaction)? {
        let is_over = approval.kind == Kind::Question && approval.state != State::Pending;
        if is_over && !is_unheard(&approval, now_ns) && ledger.get(key(approval.no)).is_some() {
            close(transaction, ledger, &mut approval)?;
        }
    }
    Ok(())
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
                 AND open = 0 AND (line IS NULL OR created_ns < ?)
                 AND NOT EXISTS (SELECT 1 FROM agent_processes
                                 WHERE agent_processes.id = approvals.process AND agent_processes.state <> 'ended')
                 AND NOT EXISTS (SELECT 1 FROM mail WHERE mail.approval = approvals.id AND mail.state = 'asked')
                 ORDER BY no LIMIT 1000)",
        )?
        .execute(params![clamp(keep as u64), recent as i64])?;
    transaction
        .prepare_cached("DELETE FROM grants WHERE open = 0 AND no <= (SELECT max(no) FROM grants) - ?")?
        .execute(params![clamp(keep as u64)])
        .map(drop)
}
