//! The record of what was asked, decided and done: append-only, each record holding the digest of the one before.
//!
//! Invariant: a record is written in the same transaction as what it tells of, so that neither is there without the
//! other. Nothing is ever changed or removed, and nothing secret is in it: no passphrase, no value of the environment.
//!
//! It cannot keep away whoever may write to the file; it makes what they do visible.

use hostel_store::Chain;
use rusqlite::{Connection, Row, Transaction, params};
use serde_json::Value;

use crate::sessions::now_ns;
use crate::store::{Store, StoreError};

pub use hostel_store::{Broken, Verified};

/// What is digested of a record.
const CHAIN: Chain =
    Chain { tag: b"hostel audit 1\0", time: "time_ns", texts: &["kind", "approval", "body"], base: None };

/// Records of one answer at most.
const MOST_SHOWN: usize = 10_000;

/// What a record tells of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// Somebody asked.
    Requested,
    /// A person, a rule or a grant decided.
    Decided,
    /// A face showed it for the first time.
    Shown,
    /// Whoever asked left, or did not come back.
    Withdrawn,
    /// Nobody answered in time.
    Expired,
    /// It is being carried out.
    Started,
    /// It was carried out.
    Finished,
    /// It was approved and not carried out.
    NotRun,
    /// Somebody who may not tried to decide.
    Refused,
    /// A grant was given.
    Granted,
    /// A grant was taken back.
    Revoked,
    /// A passphrase was set where there was none.
    ApproverSet,
    /// It was changed.
    ApproverChanged,
    /// It was removed.
    ApproverCleared,
    /// A wrong passphrase was shown.
    WrongPassphrase,
    /// Too many were.
    LockedOut,
    /// The mode of a session was changed.
    ModeChanged,
}

impl Event {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Event::Requested => "requested",
            Event::Decided => "decided",
            Event::Shown => "shown",
            Event::Withdrawn => "withdrawn",
            Event::Expired => "expired",
            Event::Started => "started",
            Event::Finished => "finished",
            Event::NotRun => "not_run",
            Event::Refused => "refused",
            Event::Granted => "granted",
            Event::Revoked => "revoked",
            Event::ApproverSet => "approver_set",
            Event::ApproverChanged => "approver_changed",
            Event::ApproverCleared => "approver_cleared",
            Event::WrongPassphrase => "wrong_passphrase",
            Event::LockedOut => "locked_out",
            Event::ModeChanged => "mode_changed",
        }
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number, from 1, without gaps.
    pub no: u64,
    /// When, nanoseconds of wall clock.
    pub time_ns: u64,
    /// What it tells of.
    pub kind: String,
    /// The request it is about; empty if it is about none.
    pub approval: String,
    /// Everything else, as JSON.
    pub body: Value,
    /// The digest of the record before.
    pub previous: [u8; 32],
    /// Its own.
    pub digest: [u8; 32],
}

/// Something to be recorded.
pub(super) struct Line<'a> {
    pub(super) event: Event,
    pub(super) approval: &'a str,
    pub(super) body: Value,
}

/// Writes records behind the last one. The last one is read inside the transaction, which costs next to nothing: what is
/// remembered outside of it would be wrong after a write that was taken back.
pub(super) fn append(transaction: &Transaction<'_>, lines: &[Line<'_>]) -> rusqlite::Result<()> {
    let mut head = transaction.prepare_cached("SELECT no, digest FROM audit_head")?;
    let (mut no, mut previous) = head.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?)))?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO audit (no, time_ns, kind, approval, body, previous, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for line in lines {
        no += 1;
        let (time, kind, body) = (now_ns() as i64, line.event.word(), line.body.to_string());
        let texts = [kind.as_bytes(), line.approval.as_bytes(), body.as_bytes()];
        let digest = CHAIN.digest(no, time, &texts, &previous);
        insert.execute(params![no, time, kind, line.approval, body, previous, digest])?;
        previous = digest;
    }
    Ok(())
}

/// The audit of a house. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Store,
}

impl Audit {
    pub(super) fn new(store: Store) -> Self {
        Audit { store }
    }

    /// Records after this number, oldest first, at most so many.
    pub async fn show(&self, after: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        let limit = limit.min(MOST_SHOWN) as i64;
        let work = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(
                "SELECT no, time_ns, kind, approval, body, previous, digest FROM audit WHERE no > ? ORDER BY no LIMIT ?",
            )?;
            statement.query_map([i64::try_from(after).unwrap_or(i64::MAX), limit], record)?.collect()
        };
        self.store.read(work).await
    }

    /// The number of the last record.
    pub async fn last(&self) -> Result<u64, StoreError> {
        let work = |connection: &Connection| {
            connection.prepare_cached("SELECT no FROM audit_head")?.query_row([], |row| row.get::<_, i64>(0))
        };
        self.store.read(work).await.map(|no| no as u64)
    }

    /// Looks through all of it, a batch at a time, and finds the first record that is not as it was written.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        CHAIN.verify(&self.store).await
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let text = |index| -> rusqlite::Result<String> {
        let bytes = row.get_ref(index)?.as_bytes().unwrap_or_default();
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    let body = text(4)?;
    let digest = |index| -> rusqlite::Result<[u8; 32]> {
        Ok(row.get_ref(index)?.as_bytes().ok().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
    };
    Ok(Record {
        no: row.get::<_, i64>(0)? as u64,
        time_ns: row.get::<_, i64>(1)? as u64,
        kind: text(2)?,
        approval: text(3)?,
        // What somebody has tampered with is shown as it is.
        body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        previous: digest(5)?,
        digest: digest(6)?,
    })
}
