//! The statements about mail.
//!
//! Invariant: each function is one step of a transaction; none decides anything but `take`, which says whether a message
//! is new.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::Letter;
use super::policy::MailLimits;

/// Rows that are deleted in one write.
const AT_ONCE: i64 = 1000;

/// What became of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Queued,
    Asked,
    Declined,
    Kept,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Asked => "asked",
            State::Declined => "declined",
            State::Kept => "kept",
        }
    }
}

/// Whether a message was taken before.
pub(super) fn is_known(connection: &Connection, letter: &Letter) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM mail WHERE mesh = ? AND sender = ? AND message = ?")?;
    let found = statement.query_row(params![letter.mesh_id, letter.sender, letter.message], |_| Ok(())).optional()?;
    Ok(found.is_some())
}

/// A message is taken.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    session: i64,
    letter: &Letter,
    state: State,
    approval: Option<&str>,
    turn: u64,
    now_ns: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO mail (mesh, sender, message, session, state, approval, turn, taken_ns)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            letter.mesh_id,
            letter.sender,
            letter.message,
            session,
            state.word(),
            approval,
            turn as i64,
            now_ns as i64
        ])
        .map(drop)
}

/// How many requests about messages wait in a session.
pub(super) fn asked(connection: &Connection, session: i64) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM mail WHERE session = ? AND state = 'asked'")?;
    statement.query_row([session], |row| row.get::<_, i64>(0)).map(|count| usize::try_from(count).unwrap_or_default())
}

/// Whether anybody is asked about a message.
pub(super) fn is_asked(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM mail WHERE state = 'asked' LIMIT 1")?;
    Ok(statement.query_row([], |_| Ok(())).optional()?.is_some())
}

/// The requests about messages that wait in a session.
pub(super) fn asked_of(connection: &Connection, session: i64) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection
        .prepare_cached("SELECT approval FROM mail WHERE session = ? AND state = 'asked' AND approval IS NOT NULL")?;
    statement.query_map([session], |row| row.get(0))?.collect()
}

/// How far a mailbox was read.
pub(super) fn place(connection: &Connection, session: i64, mesh: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached("SELECT place FROM mail_places WHERE session = ? AND mesh = ?")?;
    statement.query_row(params![session, mesh], |row| row.get(0)).optional()
}

pub(super) fn set_place(transaction: &Transaction<'_>, session: i64, mesh: &str, place: &str) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO mail_places (session, mesh, place) VALUES (?, ?, ?)
             ON CONFLICT (session, mesh) DO UPDATE SET place = excluded.place",
        )?
        .execute(params![session, mesh, place])
        .map(drop)
}

/// From now on, and not from where it was.
pub(super) fn begin_anew(transaction: &Transaction<'_>, session: i64, now_ms: u64) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM mail_places WHERE session = ?")?.execute([session])?;
    transaction
        .prepare_cached("UPDATE sessions SET mesh_since = ? WHERE no = ?")?
        .execute(params![now_ms as i64, session])
        .map(drop)
}

pub(super) fn since(connection: &Connection, session: i64) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT mesh_since FROM sessions WHERE no = ?")?;
    Ok(statement.query_row([session], |row| row.get::<_, i64>(0)).optional()?.unwrap_or_default() as u64)
}

/// A request about a message that is settled, or is not there any more.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) no: i64,
    pub(super) session: Option<String>,
    pub(super) approval: Option<String>,
    /// A person agreed, and there is a session it can be put to.
    pub(super) approved: bool,
}

/// Requests about messages that are settled and not acted on, in the order in which the messages came. Those of sessions
/// that are closed wait until somebody brings the session back.
pub(super) fn settled(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Settled>> {
    let mut statement = connection.prepare_cached(
        "SELECT mail.no, sessions.id, mail.approval,
         coalesce(approvals.state, '') = 'approved' AND coalesce(sessions.standing, 'killed') <> 'killed' FROM mail
         LEFT JOIN sessions ON sessions.no = mail.session
         LEFT JOIN approvals ON approvals.id = mail.approval
         WHERE mail.state = 'asked' AND coalesce(approvals.state, '') <> 'pending'
         AND (coalesce(approvals.state, '') <> 'approved' OR sessions.no IS NULL OR sessions.standing <> 'archived')
         ORDER BY mail.no LIMIT ?",
    )?;
    let rows = statement.query_map([limit as i64], |row| {
        Ok(Settled { no: row.get(0)?, session: row.get(1)?, approval: row.get(2)?, approved: row.get(3)? })
    })?;
    rows.collect()
}

/// Says what became of a message that was asked about; `false` if that was known.
pub(super) fn conclude(transaction: &Transaction<'_>, no: i64, state: State, turn: u64) -> rusqlite::Result<bool> {
    let changed = transaction
        .prepare_cached("UPDATE mail SET state = ?, turn = ? WHERE no = ? AND state = 'asked'")?
        .execute(params![state.word(), turn as i64, no])?;
    Ok(changed == 1)
}

/// Forgets, a handful at a time, what was taken long ago.
pub(in crate::sessions) fn trim(
    transaction: &Transaction<'_>,
    limits: &MailLimits,
    now_ns: u64,
) -> rusqlite::Result<()> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let old = i64::try_from(now_ns.saturating_sub(nanos(limits.keep))).unwrap_or(i64::MAX);
    let most = i64::try_from(limits.most).unwrap_or(i64::MAX);
    transaction
        .prepare_cached(
            "DELETE FROM mail WHERE no IN (
                 SELECT no FROM (SELECT no, state, taken_ns FROM mail ORDER BY no LIMIT ?3)
                 WHERE state <> 'asked' AND (taken_ns < ?1 OR no <= (SELECT max(no) FROM mail) - ?2))",
        )?
        .execute(params![old, most, AT_ONCE])
        .map(drop)
}
