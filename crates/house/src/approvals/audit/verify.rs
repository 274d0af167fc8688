//! Looking through the audit: which segments are whole, signed and endorsed, whether everything that was started was
//! decided, and whether every change of the approver is signed with the passphrase of before.
//!
//! Guarantees: a segment behind one that is broken is looked at all the same. Nothing is changed.

use std::collections::HashMap;

use hostel_store::{Broken, Surveyed, Surveyor};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use super::Event;
use super::approver::{Entry, Succession};
use super::endorsement::{Endorsement, EndorsementKey};
use super::segments::{key_of, unhex};
use crate::approvals::approver::Passphrase;
use crate::pipelines::hex_of;
use crate::seals::{AuditHead, SegmentKey};

/// What endorsements of segments are called.
pub(in crate::approvals) const ENDORSED: &str = "audit segment";

/// What a look through the audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Records before the first that is not as it should be.
    pub records: u64,
    /// The first that is not.
    pub broken: Option<Broken>,
    /// The segments, oldest first.
    pub segments: Vec<Segment>,
}

/// The records of one lifetime of the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first record.
    pub first: u64,
    /// The number of the last one.
    pub last: u64,
    /// When it began, nanoseconds of wall clock.
    pub begun_ns: u64,
    /// The key that verifies it; none for records of before there were keys.
    pub key: Option<[u8; 32]>,
    /// What is to be thought of it.
    pub state: SegmentState,
}

/// What is to be thought of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Of before there were keys: it is whole, which proves little.
    Unkeyed,
    /// It is whole and signed; nobody has vouched for the key.
    Unendorsed,
    /// The holder of the passphrase has vouched for the key.
    Endorsed {
        /// That was checked with the passphrase.
        checked: bool,
    },
    /// A record is not as it should be.
    Broken(Broken),
}

impl SegmentState {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            SegmentState::Unkeyed => "unkeyed",
            SegmentState::Unendorsed => "unendorsed",
            SegmentState::Endorsed { .. } => "endorsed",
            SegmentState::Broken(_) => "broken",
        }
    }
}

/// A segment while it is looked at.
struct Found {
    first: u64,
    last: AuditHead,
    begun_ns: u64,
    key: Option<[u8; 32]>,
    problem: Option<Broken>,
    endorsement: Option<Endorsement>,
}

impl Found {
    fn is_broken(&mut self, no: u64, what: impl Into<String>) {
        self.problem.get_or_insert_with(|| Broken { no, what: what.into() });
    }

    /// Records from this one on were not written by the house. What such a record says comes second.
    fn is_foreign(&mut self, no: u64, what: String) {
        if self.problem.as_ref().is_none_or(|known| no < known.no) {
            self.problem = Some(Broken { no, what });
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Verifier {
    segments: Vec<Found>,
    /// What was approved and has not ended, with the digest of what it was.
    approved: HashMap<String, String>,
    records: u64,
    /// Who the approver was, from record to record.
    succession: Succession,
}

impl Surveyor for Verifier {
    fn record(&mut self, record: &Surveyed<'_>) {
        self.records += 1;
        let text = |at: usize| String::from_utf8_lossy(record.texts.get(at).copied().unwrap_or_default()).into_owned();
        let (kind, approval, body) = (text(0), text(1), text(2));
        let key = match kind == Event::Segment.word() && record.changed.is_none() {
            true => key_of(&body),
            false => None,
        };
        if let (Some(gap), Some(before)) = (&record.gap, self.segments.last_mut()) {
            before.is_broken(record.expected, gap.clone());
        }
        let head = AuditHead { no: record.no, digest: record.digest };
        if key.is_some() || self.segments.is_empty() {
            self.segments.push(Found {
                first: record.no,
                last: head,
                begun_ns: record.time as u64,
                key,
                problem: None,
                endorsement: None,
            });
            if let (Some(gap), Some(first)) = (&record.gap, self.segments.first_mut()) {
                // Only the very first record has nothing before it that could be missing.
                first.is_broken(record.expected, gap.clone());
            }
        }
        let Some(segment) = self.segments.last_mut() else { return };
        segment.last = head;
        if let Some(changed) = &record.changed {
            segment.is_broken(record.no, changed.clone());
        }
        if record.gap.is_some() || record.changed.is_some() {
            self.succession.break_off();
        }
        if record.changed.is_none() {
            let before =
                AuditHead { no: record.no.wrapping_sub(1), digest: record.previous.try_into().unwrap_or_default() };
            if let Err(what) = self.succession.take(&Entry { kind: &kind, body: &body, before }) {
                segment.is_broken(record.no, what);
            }
        }
        self.content(record.no, &kind, &approval, &body);
    }

    fn end(&mut self, connection: &Connection, wrong: Option<(u64, String)>) -> rusqlite::Result<()> {
        if let Some((no, what)) = wrong {
            match self.segments.last_mut() {
                Some(segment) => segment.is_broken(no, what),
                None => self.segments.push(Found {
                    first: no,
                    last: AuditHead { no, ..AuditHead::NONE },
                    begun_ns: 0,
                    key: None,
                    problem: Some(Broken { no, what }),
                    endorsement: None,
                }),
            }
        }
        for segment in &mut self.segments {
            if let Some(key) = segment.key {
                check_signature(connection, segment, &key)?;
                segment.endorsement = endorsement_of(connection, segment)?;
            }
        }
        Ok(())
    }
}

/// Whether the last record of a segment is signed, and with it all of the segment.
fn check_signature(connection: &Connection, segment: &mut Found, key: &[u8; 32]) -> rusqlite::Result<()> {
    let signed: Option<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT last, signature FROM audit_segments WHERE first = ?")?
        .query_row([segment.first as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((last, signature)) = signed else {
        segment.is_broken(segment.first, "the segment is not signed");
        return Ok(());
    };
    let last = last as u64;
    if last < segment.last.no {
        segment.is_broken(last + 1, format!("records {} to {} are not signed", last + 1, segment.last.no));
    }
    let verifies = <[u8; 64]>::try_from(signature)
        .is_ok_and(|signature| SegmentKey::verifies(key, segment.first, segment.last, &signature));
    if !verifies {
        segment.is_broken(segment.last.no, "the signature of the segment is not of this record");
    }
    Ok(())
}

/// The endorsement of a segment, if it is of records that are there.
fn endorsement_of(connection: &Connection, segment: &mut Found) -> rusqlite::Result<Option<Endorsement>> {
    let text: Option<String> = connection
        .prepare_cached("SELECT endorsement FROM audit_endorsements WHERE first = ?")?
        .query_row([segment.first as i64], |row| row.get(0))
        .optional()?;
    let Some(text) = text else { return Ok(None) };
    let Some(endorsement) = Endorsement::read(&text) else {
        segment.is_broken(segment.first, "the endorsement of the segment cannot be read");
        return Ok(None);
    };
    if let [no, digest] = endorsement.about.as_slice()
        && let Ok(no) = no.parse::<u64>()
    {
        let found: Option<Vec<u8>> = connection
            .prepare_cached("SELECT digest FROM audit WHERE no = ?")?
            .query_row([no as i64], |row| row.get(0))
            .optional()?;
        if found.is_none_or(|found| Some(found.as_slice()) != unhex::<32>(digest).as_ref().map(<[u8; 32]>::as_slice)) {
            segment.is_broken(no, "it is not the record that was endorsed");
        }
    }
    Ok(Some(endorsement))
}

impl Verifier {
    /// What the records say about each other.
    fn content(&mut self, no: u64, kind: &str, approval: &str, body: &str) {
        let Some(segment) = self.segments.last_mut() else { return };
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let digest = || body["digest"].as_str().unwrap_or_default().to_owned();
        if kind == Event::Decided.word() {
            match body["state"].as_str() {
                Some("approved") => drop(self.approved.insert(approval.to_owned(), digest())),
                _ => drop(self.approved.remove(approval)),
            }
        } else if kind == Event::Started.word() {
            // Records of before there were keys do not say what was started.
            let said = body["digest"].as_str().or((segment.key.is_none()).then_some(""));
            match (self.approved.get(approval), said) {
                (None, _) => segment.is_broken(no, "it tells of a start without a decision before it"),
                (Some(_), None) => segment.is_broken(no, "it does not say what was started"),
                (Some(decided), Some(said)) if !said.is_empty() && decided != said => {
                    segment.is_broken(no, "what was started is not what was decided");
                }
                (Some(_), Some(_)) => {}
            }
        } else if kind == Event::Finished.word() || kind == Event::NotRun.word() {
            self.approved.remove(approval);
        } else if kind == Event::Tampered.word() && body["what"] == "audit" {
            self.tampered(no, &body);
        }
    }

    /// The house has noticed that the audit was changed.
    fn tampered(&mut self, no: u64, body: &Value) {
        match (body["first"].as_u64(), body["last"].as_u64()) {
            (Some(first), Some(last)) => {
                let what = match first == last {
                    true => "it was not written by the house".to_owned(),
                    false => format!("records {first} to {last} were not written by the house"),
                };
                for segment in
                    self.segments.iter_mut().filter(|segment| segment.first <= last && segment.last.no >= first)
                {
                    segment.is_foreign(first.max(segment.first), what.clone());
                }
            }
            _ => {
                if let Some(segment) = self.segments.last_mut() {
                    segment.is_broken(no, "the house found records before it removed or changed");
                }
            }
        }
    }

    /// What is to be thought of all of it. May take long if there is a passphrase.
    pub(super) fn finish(self, passphrase: Option<&Passphrase>) -> Verified {
        let mut key: Option<EndorsementKey> = None;
        let mut segments = Vec::with_capacity(self.segments.len());
        for mut found in self.segments {
            let mut state = match (found.key, &found.endorsement) {
                (None, _) => SegmentState::Unkeyed,
                (Some(_), None) => SegmentState::Unendorsed,
                (Some(_), Some(_)) => SegmentState::Endorsed { checked: false },
            };
            if let (Some(public), Some(endorsement), Some(passphrase)) = (found.key, &found.endorsement, passphrase) {
                match endorsement.key(passphrase.bytes(), key.take()) {
                    Ok(derived) => {
                        let parts: [&[u8]; 2] = [&found.first.to_le_bytes(), &public];
                        match endorsement.is_of(&derived, ENDORSED, &parts) {
                            true => state = SegmentState::Endorsed { checked: true },
                            false => {
                                found.is_broken(found.first, "its endorsement was not made with this passphrase");
                            }
                        }
                        key = Some(derived);
                    }
                    Err(error) => found.is_broken(found.first, error.to_string()),
                }
            }
            segments.push(Segment {
                first: found.first,
                last: found.last.no,
                begun_ns: found.begun_ns,
                key: found.key,
                state: found.problem.map_or(state, SegmentState::Broken),
            });
        }
        let problem = |segment: &Segment| match &segment.state {
            SegmentState::Broken(broken) => Some(broken.clone()),
            _ => None,
        };
        let broken = segments.iter().filter_map(problem).min_by_key(|broken| broken.no);
        let records = broken.as_ref().map_or(self.records, |broken| broken.no.saturating_sub(1));
        Verified { records, broken, segments }
    }
}

/// Endorses a segment up to its present end.
pub(in crate::approvals) fn endorse(
    key: &EndorsementKey,
    first: u64,
    public: &[u8; 32],
    head: AuditHead,
) -> Endorsement {
    key.endorse(ENDORSED, &[&first.to_le_bytes(), public], vec![head.no.to_string(), hex_of(&head.digest)])
}

/// Endorses a segment that was endorsed with an earlier passphrase, up to the same record.
pub(in crate::approvals) fn endorse_again(
    key: &EndorsementKey,
    first: u64,
    public: &[u8; 32],
    earlier: &Endorsement,
) -> Endorsement {
    key.endorse(ENDORSED, &[&first.to_le_bytes(), public], earlier.about.clone())
}

/// Every segment that was endorsed: its first record, the key that verifies it, and the endorsement.
pub(in crate::approvals) fn endorsements(
    connection: &Connection,
) -> rusqlite::Result<Vec<(u64, [u8; 32], Endorsement)>> {
    let mut statement = connection.prepare_cached(
        "SELECT audit.no, audit.body, endorsement FROM audit_endorsements JOIN audit ON audit.no = first ORDER BY first",
    )?;
    let rows = statement.query_map([], |row| {
        let (no, body, endorsement): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(key_of(&body).zip(Endorsement::read(&endorsement)).map(|(key, endorsement)| (no as u64, key, endorsement)))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Those of them that were made with a passphrase; `key` is one that was derived from it before. May take long.
pub(in crate::approvals) fn made_with(
    passphrase: &Passphrase,
    mut key: Option<EndorsementKey>,
    found: Vec<(u64, [u8; 32], Endorsement)>,
) -> Vec<(u64, [u8; 32], Endorsement)> {
    let mut made = Vec::new();
    for (first, public, endorsement) in found {
        let Ok(derived) = endorsement.key(passphrase.bytes(), key.take()) else { continue };
        if endorsement.is_of(&derived, ENDORSED, &[&first.to_le_bytes(), &public]) {
            made.push((first, public, endorsement));
        }
        key = Some(derived);
    }
    made
}
