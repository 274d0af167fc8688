//! What the audit says of the approver, for a daemon that can prove nothing else: the key is lost.
//!
//! The record of an endorsement holds a proof: a MAC under the key that the passphrase gives with a salt of its own, over the
//! segment, its key and the settings that were endorsed with it. Whoever replaces the stored digest of the passphrase cannot
//! make a proof for the passphrase of before, and to put another proof into the record they have to make every record after
//! it anew.
//!
//! Guarantees: nothing is changed. A proof says nothing about a passphrase until one is shown.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::endorsement::{Endorsement, EndorsementKey};
use super::segments::{hex, key_of, unhex};
use super::{CHAIN, Event};
use crate::approvals::types::digest_of;
use crate::seals::{AuditHead, SegmentKey};

/// What proofs are called.
const PROVED: &str = "approver";

/// A proof of the passphrase that was in force when a segment was endorsed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::approvals) struct Proof {
    /// The first record of the segment.
    segment: u64,
    proof: Endorsement,
}

impl Proof {
    pub(in crate::approvals) fn new(key: &EndorsementKey, segment: u64, public: &[u8; 32], settings: &str) -> Self {
        let about = vec![hex(public), hex(&digest_of(settings))];
        Proof { segment, proof: key.endorse(PROVED, &[&segment.to_le_bytes()], about) }
    }

    /// The body of the record of the endorsement.
    pub(in crate::approvals) fn body(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|_| json!({"segment": self.segment}))
    }

    fn read(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }

    /// As it is stored beside the digest.
    pub(in crate::approvals) fn text(&self) -> String {
        self.body().to_string()
    }

    /// From where it is stored; none if that is no proof.
    pub(in crate::approvals) fn from_text(text: &str) -> Option<Self> {
        Proof::read(text)
    }

    /// The digest of the settings that were endorsed with it.
    pub(in crate::approvals) fn settings(&self) -> Option<[u8; 32]> {
        unhex(self.proof.about.get(1)?)
    }

    fn public(&self) -> Option<[u8; 32]> {
        unhex(self.proof.about.first()?)
    }

    /// Whether this passphrase was in force then. Takes as long as comparing a passphrase.
    pub(in crate::approvals) fn is_of(&self, passphrase: &[u8]) -> bool {
        let derived = self.proof.key(passphrase, None);
        derived.is_ok_and(|key| self.proof.is_of(&key, PROVED, &[&self.segment.to_le_bytes()]))
    }
}

/// What the audit says last of the approver.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::approvals) enum Testimony {
    /// Nothing: there never was one, as far as the audit goes.
    Nothing,
    /// The passphrase was removed.
    Cleared,
    /// There is a passphrase; it was never used, or by an earlier version, so there is no proof of it.
    Set,
    /// There is a passphrase, and this proves which.
    Proved(Proof),
    /// There is a passphrase, and the records since its proof are not as they were written.
    Broken,
}

/// What the audit says of the approver.
pub(in crate::approvals) fn testimony(connection: &Connection) -> rusqlite::Result<Testimony> {
    let mut statement =
        connection.prepare_cached("SELECT no, kind, body FROM audit WHERE kind IN (?, ?, ?, ?) ORDER BY no DESC")?;
    let kinds = [Event::Endorsed, Event::ApproverSet, Event::ApproverChanged, Event::ApproverCleared].map(Event::word);
    let mut rows = statement.query(kinds)?;
    let mut found = Testimony::Nothing;
    while let Some(row) = rows.next()? {
        let text = |at| {
            String::from_utf8_lossy(row.get_ref(at).ok().and_then(|text| text.as_bytes().ok()).unwrap_or_default())
        };
        let kind = text(1);
        if kind == Event::ApproverCleared.word() {
            return Ok(if found == Testimony::Nothing { Testimony::Cleared } else { found });
        }
        found = Testimony::Set;
        if kind == Event::Endorsed.word()
            && let Some(proof) = Proof::read(&text(2))
        {
            let is_whole = is_signed(connection, &proof)? && is_whole_from(connection, row.get(0)?)?;
            return Ok(if is_whole { Testimony::Proved(proof) } else { Testimony::Broken });
        }
    }
    Ok(found)
}

/// Whether the proof is about the key of the segment that it names, and the records of that segment are signed with it.
fn is_signed(connection: &Connection, proof: &Proof) -> rusqlite::Result<bool> {
    let first = proof.segment;
    let bytes =
        |row: &rusqlite::Row<'_>, at| row.get_ref(at).ok().and_then(|value| value.as_bytes().ok().map(<[u8]>::to_vec));
    let signed = connection
        .prepare_cached(
            "SELECT begun.body, ended.no, ended.digest, signature FROM audit_segments \
             JOIN audit AS begun ON begun.no = first JOIN audit AS ended ON ended.no = last WHERE first = ?",
        )?
        .query_row([first as i64], |row| Ok((bytes(row, 0), row.get::<_, i64>(1)?, bytes(row, 2), bytes(row, 3))))
        .optional()?;
    let Some((Some(body), no, Some(digest), Some(signature))) = signed else { return Ok(false) };
    let key = key_of(&String::from_utf8_lossy(&body)).filter(|key| proof.public() == Some(*key));
    let (Some(key), Ok(digest), Ok(signature)) = (key, digest.try_into(), signature.try_into()) else {
        return Ok(false);
    };
    Ok(SegmentKey::verifies(&key, first, AuditHead { no: no as u64, digest }, &signature))
}

/// Whether this record and all after it are as they were written.
fn is_whole_from(connection: &Connection, first: i64) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT no, time_ns, kind, approval, body, previous, digest FROM audit WHERE no >= ? ORDER BY no",
    )?;
    let mut rows = statement.query(params![first])?;
    let mut before: Option<(i64, Vec<u8>)> = None;
    while let Some(row) = rows.next()? {
        let bytes = |at| row.get_ref(at).ok().and_then(|value| value.as_bytes().ok()).unwrap_or_default();
        let (no, previous, digest) = (row.get::<_, i64>(0)?, bytes(5), bytes(6));
        let follows = before.as_ref().is_none_or(|(last, digest)| no == last + 1 && previous == digest.as_slice());
        let texts = [bytes(2), bytes(3), bytes(4)];
        if !follows || CHAIN.digest(no, row.get(1)?, &texts, previous) != digest {
            return Ok(false);
        }
        before = Some((no, digest.to_vec()));
    }
    Ok(before.is_some())
}

/// Whether the newest endorsement of the segment that begins with `first` still says which passphrase is in force, and
/// nobody has tampered with the audit since.
pub(in crate::approvals) fn is_attested(connection: &Connection, first: u64) -> rusqlite::Result<bool> {
    let newest: Option<(String, String)> = connection
        .prepare_cached(
            "SELECT kind, body FROM audit WHERE no >= ? AND (kind IN (?, ?, ?) OR (kind = ? AND body LIKE '%\"audit\"%')) \
             ORDER BY no DESC LIMIT 1",
        )?
        .query_row(
            params![
                first as i64,
                Event::Endorsed.word(),
                Event::ApproverSet.word(),
                Event::ApproverChanged.word(),
                Event::Tampered.word()
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    Ok(newest.is_some_and(|(kind, body)| {
        kind == Event::Endorsed.word() && Proof::read(&body).is_some_and(|proof| proof.segment == first)
    }))
}

#[cfg(test)]
mod tests {
    use super::super::super::approver::Cost;
    use super::*;

    #[test]
    fn a_proof_is_of_one_passphrase_one_segment_and_one_choice_of_settings() {
        let key = EndorsementKey::fresh(b"correct horse", Cost { memory: 8192, passes: 1 }).unwrap();
        let proof = Proof::new(&key, 7, &[3; 32], "settings");
        let read = Proof::from_text(&proof.text()).unwrap();
        assert_eq!(read, proof);
        assert!(read.is_of(b"correct horse") && !read.is_of(b"another horse"));
        assert_eq!((read.settings(), read.public()), (Some(digest_of("settings")), Some([3; 32])));
        assert!(!Proof { segment: 8, ..read.clone() }.is_of(b"correct horse"));
        let mut moved = read;
        moved.proof.about[1] = hex(&digest_of("others"));
        assert!(!moved.is_of(b"correct horse"));
        assert_eq!(Proof::from_text("{\"segment\":7}"), None, "the record of an earlier version");
    }
}
