//! The statements of `outbox.db`.
//!
//! It decides nothing.

use std::collections::BTreeSet;

use hostel_wire::frames::Priority;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::queue::Entry;
use super::types::{DestKind, Lane, OutboxRow, Payload, Status};
use crate::schema::{RowId, signed};

/// A row that is to be made.
pub(super) struct Fresh {
    pub(super) client_message_id: String,
    pub(super) fingerprint: [u8; 32],
    pub(super) lane: Lane,
    pub(super) payload: Vec<u8>,
    pub(super) now: u64,
    pub(super) expires_at: u64,
}

/// Makes a row, unless its id is taken.
pub(super) fn insert(transaction: &Transaction<'_>, no: i64, fresh: &Fresh) -> rusqlite::Result<bool> {
    let changed = transaction
        .prepare_cached(
            "INSERT INTO outbox (no, client_message_id, request_fingerprint, sender_session, dest_kind, dest_ref,
             priority, status, enqueued_at, expires_at, payload)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?8, ?9, ?10) ON CONFLICT (client_message_id) DO NOTHING",
        )?
        .execute(params![
            no,
            fresh.client_message_id,
            fresh.fingerprint,
            fresh.lane.sender_session,
            fresh.lane.dest_kind.as_str(),
            fresh.lane.dest_ref,
            fresh.lane.priority.as_str(),
            signed(fresh.now),
            signed(fresh.expires_at),
            fresh.payload,
        ])?;
    Ok(changed == 1)
}

const COLUMNS: &str = "no, client_message_id, request_fingerprint, sender_session, dest_kind, dest_ref, priority, status, \
     enqueued_at, expires_at, attempts, next_attempt_at, last_error_code, last_error, delivered_at, broker_message_id, \
     broker_seq, aborted_at, aborted_by, superseded_by, length(payload)";

fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(i64::cast_unsigned))
}

/// A lane as a row has it, from the column of the sender on.
pub(super) fn lane(row: &Row<'_>, at: usize) -> rusqlite::Result<Lane> {
    let text = |at: usize| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
    Ok(Lane {
        sender_session: row.get(at)?,
        dest_kind: DestKind::parse(text(at + 1)?).unwrap_or(DestKind::Dm),
        dest_ref: row.get(at + 2)?,
        priority: Priority::parse(text(at + 3)?).unwrap_or_default(),
    })
}

fn seen(row: &Row<'_>) -> rusqlite::Result<(i64, OutboxRow)> {
    let (no, enqueued_at) = (row.get(0)?, row.get::<_, i64>(8)?.cast_unsigned());
    let status = Status::parse(row.get_ref(7)?.as_str()?).unwrap_or(Status::Dead);
    let next_attempt_at = time(row, 11)?.filter(|at| *at > 0 && status == Status::Pending);
    let seen = OutboxRow {
        id: RowId::new(enqueued_at, no).text(),
        client_message_id: row.get(1)?,
        fingerprint: row.get(2)?,
        lane: lane(row, 3)?,
        status,
        enqueued_at,
        expires_at: row.get::<_, i64>(9)?.cast_unsigned(),
        attempts: row.get(10)?,
        next_attempt_at,
        last_error_code: row.get(12)?,
        last_error: row.get(13)?,
        delivered_at: time(row, 14)?,
        broker_message_id: row.get(15)?,
        broker_seq: time(row, 16)?,
        aborted_at: time(row, 17)?,
        aborted_by: row.get(18)?,
        superseded_by: row.get(19)?,
        payload_bytes: row.get::<_, i64>(20)?.cast_unsigned(),
    };
    Ok((no, seen))
}

/// The row with a caller's id.
pub(super) fn find(connection: &Connection, client_message_id: &str) -> rusqlite::Result<Option<(i64, OutboxRow)>> {
    let sql = format!("SELECT {COLUMNS} FROM outbox WHERE client_message_id = ?");
    connection.prepare_cached(&sql)?.query_row([client_message_id], seen).optional()
}

/// Those of these files that a row announces.
pub(super) fn announced_files(connection: &Connection, files: Vec<String>) -> rusqlite::Result<BTreeSet<String>> {
    let mut select = connection.prepare("SELECT payload FROM outbox WHERE instr(payload, CAST(? AS BLOB)) > 0")?;
    let mut announced = BTreeSet::new();
    for file in files {
        let mut rows = select.query([&file])?;
        while let Some(row) = rows.next()? {
            let payload = serde_json::from_slice::<Payload>(row.get_ref(0)?.as_bytes()?);
            // A message may also have the id in its text.
            if payload.is_ok_and(|payload| payload.file_id.as_ref() == Some(&file)) {
                announced.insert(file);
                break;
            }
        }
    }
    Ok(announced)
}

/// What a row holds.
pub(super) fn payload(connection: &Connection, no: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.prepare_cached("SELECT payload FROM outbox WHERE no = ?")?.query_row([no], |row| row.get(0)).optional()
}

/// The row with an id of ours.
pub(super) fn find_by_id(connection: &Connection, id: RowId) -> rusqlite::Result<Option<(i64, OutboxRow)>> {
    let sql = format!("SELECT {COLUMNS} FROM outbox WHERE no = ?");
    let found = connection.prepare_cached(&sql)?.query_row([id.no], seen).optional()?;
    Ok(found.filter(|(no, row)| RowId::new(row.enqueued_at, *no) == id))
}

/// Rows, newest first.
pub(super) fn list(connection: &Connection, status: Option<Status>, limit: usize) -> rusqlite::Result<Vec<OutboxRow>> {
    let which = match status {
        None => String::new(),
        // Written out, so that SQLite sees that the index of these is enough.
        Some(status) => format!("WHERE status = '{}' {}", status.as_str(), company(status)),
    };
    let sql = format!("SELECT {COLUMNS} FROM outbox {which} ORDER BY no DESC LIMIT ?");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([limit as i64], |row| seen(row).map(|(_, row)| row))?;
    rows.collect()
}

/// What else is true of rows in this state, as the index they share has it.
fn company(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Inflight => "AND owed IS NOT NULL",
        Status::Done => "",
        Status::Dead | Status::Aborted => "AND status IN ('dead', 'aborted')",
    }
}

/// What a row that is claimed says.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) client_message_id: String,
    pub(super) fingerprint: [u8; 32],
    pub(super) payload: Vec<u8>,
    pub(super) origin: Option<String>,
}

impl Content {
    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.client_message_id.len() + self.payload.len()
    }
}

/// A row that waits is under way; `None` if it does not wait. In two statements: for a `RETURNING` SQLite makes a table.
pub(super) fn claim(transaction: &Transaction<'_>, no: i64) -> rusqlite::Result<Option<Content>> {
    let content = transaction
        .prepare_cached(
            "SELECT client_message_id, request_fingerprint, payload, origin FROM outbox
             WHERE no = ? AND status = 'pending'",
        )?
        .query_row([no], |row| {
            let (client_message_id, fingerprint) = (row.get(0)?, row.get(1)?);
            Ok(Content { client_message_id, fingerprint, payload: row.get(2)?, origin: row.get(3)? })
        })
        .optional()?;
    if content.is_some() {
        under_way(transaction, no)?;
    }
    Ok(content)
}

/// A row that waits is under way.
pub(super) fn under_way(transaction: &Transaction<'_>, no: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE outbox SET status = 'inflight' WHERE no = ? AND status = 'pending'")?
        .execute([no])
        .map(drop)
}

/// The broker has a row.
pub(super) fn done(
    transaction: &Transaction<'_>,
    no: i64,
    now: u64,
    message_id: &str,
    epoch: &str,
    seq: Option<u64>,
) -> rusqlite::Result<bool> {
    let changed = transaction
        .prepare_cached(
            "UPDATE outbox SET status = 'done', owed = NULL, delivered_at = ?2, broker_message_id = ?3, broker_epoch = ?4,
             broker_seq = ?5, next_attempt_at = 0 WHERE no = ?1 AND status IN ('pending', 'inflight')",
        )?
        .execute(params![no, signed(now), message_id, epoch, seq.map(signed)])?;
    Ok(changed == 1)
}

/// The furthest place the broker has confirmed, in one log.
pub(super) fn confirm(transaction: &Transaction<'_>, epoch: &str, seq: u64, entry_id: &str) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO confirmed (epoch, seq, entry_id) VALUES (?1, ?2, ?3)
             ON CONFLICT (epoch) DO UPDATE SET seq = excluded.seq, entry_id = excluded.entry_id
             WHERE excluded.seq >= confirmed.seq",
        )?
        .execute(params![epoch, signed(seq), entry_id])
        .map(drop)
}

/// A row under way waits again, as if nothing had happened.
pub(super) fn wait_again(transaction: &Transaction<'_>, no: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE outbox SET status = 'pending' WHERE no = ? AND status = 'inflight'")?
        .execute([no])
        .map(drop)
}

/// A row under way was refused and waits for its next try.
pub(super) fn try_later(
    transaction: &Transaction<'_>,
    no: i64,
    attempts: u32,
    next_attempt_at: u64,
    code: &str,
    error: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE outbox SET status = 'pending', attempts = ?2, next_attempt_at = ?3, last_error_code = ?4,
             last_error = ?5 WHERE no = ?1 AND status = 'inflight'",
        )?
        .execute(params![no, attempts, signed(next_attempt_at), code, error])
        .map(drop)
}

/// A row that was given up.
pub(super) struct GivenUp {
    pub(super) client_message_id: String,
    pub(super) enqueued_at: u64,
    pub(super) dest_kind: DestKind,
    pub(super) payload: Vec<u8>,
}

/// A row is given up.
pub(super) fn give_up(
    transaction: &Transaction<'_>,
    no: i64,
    code: &str,
    error: &str,
) -> rusqlite::Result<Option<GivenUp>> {
    transaction
        .prepare_cached(
            "UPDATE outbox SET status = 'dead', owed = NULL, last_error_code = ?2, last_error = ?3, next_attempt_at = 0
             WHERE no = ?1 AND status IN ('pending', 'inflight') RETURNING client_message_id, enqueued_at,
             dest_kind, payload",
        )?
        .query_row(params![no, code, error], |row| {
            Ok(GivenUp {
                client_message_id: row.get(0)?,
                enqueued_at: row.get::<_, i64>(1)?.cast_unsigned(),
                dest_kind: DestKind::parse(row.get_ref(2)?.as_str()?).unwrap_or(DestKind::Dm),
                payload: row.get(3)?,
            })
        })
        .optional()
}

/// A row that is still owed, as it is found at the start.
pub(super) struct Open {
    pub(super) entry: Entry,
    pub(super) lane: Lane,
    pub(super) inflight: bool,
    pub(super) next_attempt_at: u64,
}

/// Everything that is still owed, in the order in which it was taken.
pub(super) fn open_rows(connection: &Connection) -> rusqlite::Result<Vec<Open>> {
    let mut statement = connection.prepare(
        "SELECT no, enqueued_at, expires_at, attempts, length(payload), status, next_attempt_at, sender_session,
         dest_kind, dest_ref, priority FROM outbox WHERE owed IS NOT NULL ORDER BY no",
    )?;
    let rows = statement.query_map([], |row| {
        let entry = Entry {
            no: row.get(0)?,
            enqueued_at: row.get::<_, i64>(1)?.cast_unsigned(),
            expires_at: row.get::<_, i64>(2)?.cast_unsigned(),
            attempts: row.get(3)?,
            bytes: row.get(4)?,
        };
        let inflight = row.get_ref(5)?.as_str()? == Status::Inflight.as_str();
        Ok(Open { entry, lane: lane(row, 7)?, inflight, next_attempt_at: row.get::<_, i64>(6)?.cast_unsigned() })
    })?;
    rows.collect()
}

/// A single number.
pub(super) fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}
