//! The record of what was asked, decided and done: append-only, each record holding the digest of the one before, the last
//! one signed.
//!
//! Invariant: a record is written in the same transaction as what it tells of, so that neither is there without the
//! other. Nothing is ever changed or removed, and nothing secret is in it: no passphrase, no value of the environment.
//! Records are written behind the last one that the house itself wrote, as the ledger has it. What somebody else has put
//! there or taken away is recorded as tampering first.
//!
//! It cannot keep away whoever may write to the file; it makes what they do visible. Parts: `segments` begins the records of
//! a key and writes signatures, `endorsement` is what the passphrase adds to that, `signatures` are those of the passphrase
//! under changes of the approver, `approver` is what a daemon without proof of the approver finds here, `verify` looks
//! through all of it.

pub(super) mod approver;
pub(super) mod endorsement;
mod segments;
pub(super) mod signatures;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;

use hostel_store::Chain;
use hostel_syncpoint::SyncPoint;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde_json::{Value, json};

use super::approver::Passphrase;
use crate::pipelines::hex_of;
use crate::seals::{AuditHead, Ledger};
use crate::sessions::now_ns;
use crate::store::{Store, StoreError};

pub use hostel_store::Broken;
pub use verify::{Segment, SegmentState, Verified};

use endorsement::EndorsementKey;
pub(super) use segments::{begin as begin_segment, exist as has_segments, is_ours, write_signature};
use verify::Verifier;
pub(super) use verify::{endorse, endorse_again, endorsements, made_with};

/// What is digested of a record.
const CHAIN: Chain =
    Chain { tag: b"hostel audit 1\0", time: "time_ns", texts: &["kind", "approval", "body"], base: None };

/// Records of one answer at most.
const MOST_SHOWN: usize = 10_000;

macro_rules! events {
    ($($(#[doc = $meaning:literal])+ $event:ident = $word:literal,)+) => {
        /// What a record tells of.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Event {
            $($(#[doc = $meaning])+ $event,)+
        }

        impl Event {
            /// The word for it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Event::$event => $word,)+
                }
            }
        }
    };
}

events! {
    /// Somebody asked.
    Requested = "requested",
    /// A person, a rule or a grant decided.
    Decided = "decided",
    /// A face showed it for the first time.
    Shown = "shown",
    /// Whoever asked left, or did not come back.
    Withdrawn = "withdrawn",
    /// An agent's question disappeared although the house had not answered it.
    AnsweredElsewhere = "answered_elsewhere",
    /// Nobody answered in time.
    Expired = "expired",
    /// It is being carried out.
    Started = "started",
    /// It was carried out.
    Finished = "finished",
    /// It was approved and not carried out.
    NotRun = "not_run",
    /// Somebody who may not tried to decide.
    Refused = "refused",
    /// A grant was given.
    Granted = "granted",
    /// A grant was taken back.
    Revoked = "revoked",
    /// A passphrase was set where there was none.
    ApproverSet = "approver_set",
    /// It was changed.
    ApproverChanged = "approver_changed",
    /// It was removed.
    ApproverCleared = "approver_cleared",
    /// A wrong passphrase was shown.
    WrongPassphrase = "wrong_passphrase",
    /// Too many were.
    LockedOut = "locked_out",
    /// The mode of a session was changed.
    ModeChanged = "mode_changed",
    /// What was stored is not what the house stored.
    Tampered = "tampered",
    /// The keeper ended, and with it the key that proved what was decided.
    KeyLost = "key_lost",
    /// Records from this one on are signed with this key.
    Segment = "segment",
    /// The holder of the passphrase has vouched for the key of this segment.
    Endorsed = "endorsed",
    /// The settings about consent were changed.
    SettingsChanged = "settings_changed",
    /// Settings that would ask less of people were not put in force.
    SettingsRejected = "settings_rejected",
    /// The approver has confirmed the settings.
    SettingsConfirmed = "settings_confirmed",
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
pub(crate) struct Line<'a> {
    pub(crate) event: Event,
    pub(crate) approval: &'a str,
    pub(crate) body: Value,
}

/// Writes records behind the last one.
pub(crate) fn append(transaction: &Transaction<'_>, ledger: &Ledger, lines: &[Line<'_>]) -> rusqlite::Result<()> {
    meet(transaction, ledger)?;
    if ledger.segment().is_none() {
        begin_segment(transaction, ledger)?;
    }
    lines.iter().try_for_each(|line| append_one(transaction, ledger, line))
}

/// Writes a record that changes the approver behind the last one, signed with the key of the passphrase that is in force. There
/// is no such key where there is no passphrase, or none that this version has seen used.
pub(super) fn append_signed(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    event: Event,
    mut body: Value,
    key: Option<&EndorsementKey>,
) -> rusqlite::Result<()> {
    meet(transaction, ledger)?;
    if ledger.segment().is_none() {
        begin_segment(transaction, ledger)?;
    }
    if let Some(key) = key {
        signatures::sign(key, event.word(), ledger.head(), &mut body);
    }
    append_one(transaction, ledger, &Line { event, approval: "", body })
}

fn append_one(transaction: &Transaction<'_>, ledger: &Ledger, line: &Line<'_>) -> rusqlite::Result<()> {
    let AuditHead { no, digest: previous } = ledger.head();
    let (no, time, kind, body) = (no as i64 + 1, now_ns() as i64, line.event.word(), line.body.to_string());
    let texts = [kind.as_bytes(), line.approval.as_bytes(), body.as_bytes()];
    let digest = CHAIN.digest(no, time, &texts, &previous);
    transaction
        .prepare_cached(
            "INSERT INTO audit (no, time_ns, kind, approval, body, previous, digest) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![no, time, kind, line.approval, body, previous, digest])?;
    let head = AuditHead { no: no as u64, digest };
    // A trigger does the same, unless somebody has removed it.
    note_head(transaction, head)?;
    ledger.set_head(head);
    Ok(())
}

/// Notes the last record.
fn note_head(transaction: &Transaction<'_>, head: AuditHead) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO audit_head (one, no, digest) VALUES (1, ?, ?)")?
        .execute(params![head.no as i64, head.digest])
        .map(drop)
}

/// The last record as it is noted on disk.
pub(super) fn noted_head(connection: &Connection) -> rusqlite::Result<Option<AuditHead>> {
    let mut statement = connection.prepare_cached("SELECT no, digest FROM audit_head")?;
    let found = statement.query_row([], |row| {
        let digest = row.get_ref(1)?.as_bytes().ok().and_then(|bytes| bytes.try_into().ok());
        Ok(digest.map(|digest| (row.get::<_, i64>(0), digest)))
    });
    Ok(match found.optional()?.flatten() {
        Some((Ok(no), digest)) => Some(AuditHead { no: no as u64, digest }),
        _ => None,
    })
}

/// The last record there is, whatever is noted.
pub(super) fn last_record(connection: &Connection) -> rusqlite::Result<Option<AuditHead>> {
    let mut statement = connection.prepare_cached("SELECT no, digest FROM audit ORDER BY no DESC LIMIT 1")?;
    let found = statement.query_row([], |row| {
        let digest = row.get_ref(1)?.as_bytes().ok().and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 32]);
        Ok(AuditHead { no: row.get::<_, i64>(0)? as u64, digest })
    });
    found.optional()
}

/// Makes sure that what comes next follows the last record of the house's own. Records that somebody else appended stay
/// where they are and are named as such; what somebody took away leaves a gap.
pub(super) fn meet(transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
    let ours = ledger.head();
    let last = last_record(transaction)?;
    // The note alone proves nothing: whoever removes the last records can leave it as it is.
    if noted_head(transaction)? == Some(ours) && last.unwrap_or(AuditHead::NONE) == ours {
        return Ok(());
    }
    let foreign = last.filter(|last| last.no > ours.no);
    let (head, body) = match foreign {
        Some(last) => {
            let body =
                json!({"what": "audit", "first": ours.no + 1, "last": last.no, "expected": hex_of(&ours.digest)});
            (last, body)
        }
        None => (ours, json!({"what": "audit", "missing_before": ours.no + 1, "expected": hex_of(&ours.digest)})),
    };
    note_head(transaction, head)?;
    ledger.set_head(head);
    ledger.report(match body.get("first") {
        Some(first) => format!("somebody else has added records to the audit, from {first} to {}", head.no),
        None => format!("somebody has removed or changed records of the audit up to {}", ours.no),
    });
    // The records of before are of another segment, if they are not all the house's own: signatures must not vouch for
    // what others have written without saying so.
    if ledger.segment().is_none() {
        begin_segment(transaction, ledger)?;
    }
    append_one(transaction, ledger, &Line { event: Event::Tampered, approval: "", body })
}

/// The digests of the requests that were approved and can still have an effect, by id, as the records of the decisions have
/// them; empty where an earlier version recorded none. May read all of the audit.
pub(super) fn approved(connection: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = connection.prepare_cached(
        "SELECT CAST(approval AS BLOB), CAST(body AS BLOB) FROM audit WHERE kind = ? AND approval IN \
         (SELECT id FROM approvals WHERE open = 1 AND state = 'approved') ORDER BY no",
    )?;
    let mut rows = statement.query([Event::Decided.word()])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let (approval, body): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let approval = String::from_utf8_lossy(&approval).into_owned();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match body["state"].as_str() {
            Some("approved") => found.insert(approval, body["digest"].as_str().unwrap_or_default().to_owned()),
            _ => found.remove(&approval),
        };
    }
    Ok(found)
}

/// The audit of a house. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    store: Store,
    ledger: Arc<Ledger>,
}

impl Audit {
    pub(super) fn new(store: Store, ledger: Arc<Ledger>) -> Self {
        Audit { store, ledger }
    }

    /// Looks through all of it, a batch at a time: whether every record is as it was written, signed, and fits to what was
    /// decided. Endorsements are checked if there is a passphrase to check them with, which was shown and is right.
    pub async fn verify(&self, passphrase: Option<Passphrase>) -> Result<Verified, StoreError> {
        let ledger = Arc::clone(&self.ledger);
        // What was added or cut off behind the house's back is seen by comparing with what the house remembers.
        self.store.write(SyncPoint::NONE, move |transaction| meet(transaction, &ledger)).await?;
        let verifier = CHAIN.survey(&self.store, Verifier::default()).await?;
        let finish = move || verifier.finish(passphrase.as_ref());
        hostel_tasks::spawn_blocking(finish).await.map_err(|_| StoreError::Closed)
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
