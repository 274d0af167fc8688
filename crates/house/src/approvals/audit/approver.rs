//! What the audit says of the approver, for a daemon that can prove nothing else: the key is lost.
//!
//! Everybody who can write to the file can append records, with a key and a segment of their own. So a record that changes
//! the approver counts only if it is signed with the key of the passphrase that was in force (`super::signatures`): to set
//! another passphrase or none, or to endorse anew, one has to have that passphrase. The first passphrase, and one that is
//! set after the last was removed, are signed by nobody, because there is no approver who could.
//!
//! Records of earlier versions have no signatures. They count up to the first record with a key; from then on no record
//! without a signature does.
//!
//! A record that does not count, or a gap, makes the audit doubtful until a later record is signed with the key that was in
//! force: a signature covers everything before it, so the holder of the passphrase has gone on from there. A doubtful audit
//! never says that the approver was removed, or is another; it says only which passphrase was in force before the doubt.
//!
//! Whoever cuts off the end of the audit, or writes all of it anew, is not noticed here: an audit that ends earlier is
//! one of an earlier time.
//!
//! Guarantees: nothing is changed. A proof says nothing about a passphrase until one is shown.

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::endorsement::{Endorsement, EndorsementKey};
use super::segments::{hex, key_of, unhex};
use super::signatures::{ApproverKey, KEY};
use super::{CHAIN, Event};
use crate::approvals::types::digest_of;
use crate::seals::{AuditHead, SegmentKey};

/// What the proofs in endorsements are called.
const PROVED: &str = "approver";

/// The body of the record of an endorsement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::approvals) struct Endorsed {
    /// The first record of the segment.
    segment: u64,
    /// A MAC over the segment, its key and the settings that were endorsed with it.
    proof: Endorsement,
    /// The key that signs the next change; none in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<ApproverKey>,
}

impl Endorsed {
    pub(in crate::approvals) fn new(key: &EndorsementKey, segment: u64, public: &[u8; 32], settings: &str) -> Self {
        let about = vec![hex(public), hex(&digest_of(settings))];
        let proof = key.endorse(PROVED, &[&segment.to_le_bytes()], about);
        Endorsed { segment, proof, key: Some(ApproverKey::of(key)) }
    }

    pub(in crate::approvals) fn body(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|_| json!({"segment": self.segment}))
    }

    /// The digest of the settings that were endorsed with it.
    fn settings(&self) -> Option<&String> {
        self.proof.about.get(1)
    }

    fn public(&self) -> Option<[u8; 32]> {
        unhex(self.proof.about.first()?)
    }
}

/// What tells whether a passphrase is the approver's.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub(in crate::approvals) enum Proof {
    /// The key pair that the passphrase gives.
    Key {
        key: ApproverKey,
        /// The digest of the settings that were endorsed last with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<String>,
    },
    /// An endorsement of an earlier version.
    Endorsed(Endorsed),
}

impl Proof {
    /// As it is stored beside the digest.
    pub(in crate::approvals) fn text(&self) -> String {
        // Seals are of this text, also those of earlier versions.
        serde_json::to_value(self).unwrap_or_default().to_string()
    }

    /// From where it is stored; none if that is no proof.
    pub(in crate::approvals) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The digest of the settings that were endorsed with it.
    pub(in crate::approvals) fn settings(&self) -> Option<[u8; 32]> {
        match self {
            Proof::Key { settings, .. } => unhex(settings.as_ref()?),
            Proof::Endorsed(endorsed) => unhex(endorsed.settings()?),
        }
    }

    /// The key that signs the next change of the approver.
    pub(in crate::approvals) fn key(&self) -> Option<&ApproverKey> {
        match self {
            Proof::Key { key, .. } => Some(key),
            Proof::Endorsed(_) => None,
        }
    }

    /// Whether this is the passphrase. Takes as long as comparing a passphrase.
    pub(in crate::approvals) fn is_of(&self, passphrase: &[u8]) -> bool {
        match self {
            Proof::Key { key, .. } => key.unlock(passphrase).is_ok_and(|key| key.is_some()),
            Proof::Endorsed(Endorsed { segment, proof, .. }) => {
                let derived = proof.key(passphrase, None);
                derived.is_ok_and(|key| proof.is_of(&key, PROVED, &[&segment.to_le_bytes()]))
            }
        }
    }
}

/// What the audit says last of the approver.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::approvals) enum Testimony {
    /// Nothing: there never was one, as far as the audit goes.
    Nothing,
    /// The passphrase was removed, by whoever had it.
    Cleared,
    /// An earlier version has set a passphrase that was never used, so there is no proof of it.
    Set,
    /// There is a passphrase, and this proves which.
    Proved(Proof),
    /// The records are not all as the house wrote them. The proof is of the passphrase that was in force before that, if
    /// one was.
    Broken(Option<Proof>),
}

impl Testimony {
    /// What a passphrase has to fit to.
    pub(in crate::approvals) fn proof(self) -> Option<Proof> {
        match self {
            Testimony::Proved(proof) => Some(proof),
            Testimony::Broken(proof) => proof,
            Testimony::Nothing | Testimony::Cleared | Testimony::Set => None,
        }
    }
}

/// What records of earlier versions say.
#[derive(Default)]
enum Unsigned {
    #[default]
    Nothing,
    Cleared,
    Set,
    Endorsed(Endorsed),
}

/// A record whose content is as it was written.
pub(super) struct Entry<'a> {
    pub(super) kind: &'a str,
    pub(super) body: &'a str,
    /// The record before it.
    pub(super) before: AuditHead,
}

/// Follows the approver through the records, oldest first.
#[derive(Default)]
pub(super) struct Succession {
    unsigned: Unsigned,
    /// The key of the passphrase that is in force.
    key: Option<ApproverKey>,
    /// What was endorsed last with it.
    settings: Option<String>,
    /// There was a record with a key: from then on nothing counts that is not signed.
    has_keys: bool,
    is_doubtful: bool,
}

/// What is wrong with a record that does not count.
const UNSIGNED: &str = "it changes the approver, and is not signed with the passphrase that was in force";

impl Succession {
    /// Records are missing here, or were changed.
    pub(super) fn break_off(&mut self) {
        self.is_doubtful = true;
    }

    /// The next record. An error says why it does not count.
    pub(super) fn take(&mut self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let changes = [Event::Endorsed, Event::ApproverSet, Event::ApproverChanged, Event::ApproverCleared];
        let Some(event) = changes.into_iter().find(|event| event.word() == entry.kind) else { return Ok(()) };
        let body: Value = serde_json::from_str(entry.body).unwrap_or_default();
        let key = body.get(KEY).filter(|_| event != Event::ApproverCleared);
        let key: Option<ApproverKey> = key.and_then(|key| ApproverKey::deserialize(key).ok());
        let counts = match &self.key {
            // Whatever this version writes has a key, unless there is no passphrase any more.
            Some(known) => {
                known.has_signed(entry.kind, entry.before, &body) && (key.is_some() || event == Event::ApproverCleared)
            }
            None if self.has_keys => key.is_some() && event == Event::ApproverSet,
            None => true,
        };
        if !counts {
            self.is_doubtful = true;
            return Err(UNSIGNED);
        }
        if self.has_keys || key.is_some() {
            (self.has_keys, self.is_doubtful, self.key) = (true, false, key);
            let endorsed = || serde_json::from_value::<Endorsed>(body).ok()?.settings().cloned();
            self.settings = if event == Event::Endorsed { endorsed() } else { None };
            return Ok(());
        }
        let before = std::mem::take(&mut self.unsigned);
        self.unsigned = match (event, serde_json::from_value(body), before) {
            (Event::ApproverCleared, ..) => Unsigned::Cleared,
            (Event::Endorsed, Ok(endorsed), _) => {
                // Everything from here on has to be whole.
                self.is_doubtful = false;
                Unsigned::Endorsed(endorsed)
            }
            (_, _, Unsigned::Endorsed(endorsed)) => Unsigned::Endorsed(endorsed),
            _ => Unsigned::Set,
        };
        Ok(())
    }

    fn finish(self, connection: &Connection) -> rusqlite::Result<Testimony> {
        let Succession { unsigned, key, settings, has_keys, is_doubtful } = self;
        let proof = key.map(|key| Proof::Key { key, settings });
        Ok(match (proof, unsigned) {
            (proof, _) if is_doubtful => Testimony::Broken(proof),
            (Some(proof), _) => Testimony::Proved(proof),
            (None, _) if has_keys => Testimony::Cleared,
            (None, Unsigned::Nothing) => Testimony::Nothing,
            (None, Unsigned::Cleared) => Testimony::Cleared,
            (None, Unsigned::Set) => Testimony::Set,
            (None, Unsigned::Endorsed(endorsed)) => match is_signed(connection, &endorsed)? {
                true => Testimony::Proved(Proof::Endorsed(endorsed)),
                false => Testimony::Broken(None),
            },
        })
    }
}

/// What the audit says of the approver. Reads all of it.
pub(in crate::approvals) fn testimony(connection: &Connection) -> rusqlite::Result<Testimony> {
    let mut statement = connection
        .prepare_cached("SELECT no, time_ns, kind, approval, body, previous, digest FROM audit ORDER BY no")?;
    let mut rows = statement.query([])?;
    let (mut found, mut before) = (Succession::default(), AuditHead::NONE);
    while let Some(row) = rows.next()? {
        let bytes = |at| row.get_ref(at).ok().and_then(|value| value.as_bytes().ok()).unwrap_or_default();
        let (no, previous, digest) = (row.get::<_, i64>(0)?, bytes(5), bytes(6));
        let texts = [bytes(2), bytes(3), bytes(4)];
        let is_next = no == before.no as i64 + 1 && previous == before.digest;
        let is_whole = CHAIN.digest(no, row.get(1).unwrap_or_default(), &texts, previous) == digest;
        if !is_next || !is_whole {
            found.break_off();
        }
        if is_whole {
            let [kind, body] = [texts[0], texts[2]].map(String::from_utf8_lossy);
            let before = AuditHead { no: (no - 1) as u64, digest: previous.try_into().unwrap_or_default() };
            // What does not count is told of by `audit verify`, and here by the testimony.
            found.take(&Entry { kind: &kind, body: &body, before }).ok();
        }
        before = AuditHead { no: no as u64, digest: digest.try_into().unwrap_or_default() };
    }
    drop(rows);
    found.finish(connection)
}

/// Whether an endorsement of an earlier version is of the key of the segment that it names, and the records of that segment are
/// signed with it.
fn is_signed(connection: &Connection, endorsed: &Endorsed) -> rusqlite::Result<bool> {
    let first = endorsed.segment;
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
    let key = key_of(&String::from_utf8_lossy(&body)).filter(|key| endorsed.public() == Some(*key));
    let (Some(key), Ok(digest), Ok(signature)) = (key, digest.try_into(), signature.try_into()) else {
        return Ok(false);
    };
    Ok(SegmentKey::verifies(&key, first, AuditHead { no: no as u64, digest }, &signature))
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
        kind == Event::Endorsed.word()
            && serde_json::from_str::<Endorsed>(&body).is_ok_and(|endorsed| endorsed.segment == first)
    }))
}

#[cfg(test)]
mod tests {
    use super::super::super::approver::Cost;
    use super::super::signatures::sign;
    use super::*;

    const CHEAP: Cost = Cost { memory: 8192, passes: 1 };

    fn fresh(passphrase: &str) -> EndorsementKey {
        EndorsementKey::fresh(passphrase.as_bytes(), CHEAP).unwrap()
    }

    /// Records one after the other.
    #[derive(Default)]
    struct Story {
        found: Succession,
        no: u64,
    }

    impl Story {
        fn before(&self) -> AuditHead {
            AuditHead { no: self.no, digest: [self.no as u8; 32] }
        }

        /// A record, signed with a key; gives whether it counts.
        fn add(&mut self, event: Event, mut body: Value, signer: Option<&EndorsementKey>) -> bool {
            if let Some(signer) = signer {
                sign(signer, event.word(), self.before(), &mut body);
            }
            self.put(event, &body)
        }

        fn put(&mut self, event: Event, body: &Value) -> bool {
            let before = self.before();
            self.no += 1;
            self.found.take(&Entry { kind: event.word(), body: &body.to_string(), before }).is_ok()
        }

        /// What a house writes that gets a passphrase.
        fn begun(key: &EndorsementKey) -> Self {
            let mut story = Story::default();
            assert!(story.add(Event::ApproverSet, keyed(key), None));
            assert!(story.add(Event::Endorsed, endorsed(key), Some(key)));
            story
        }

        fn end(self) -> Testimony {
            self.found.finish(&Connection::open_in_memory().unwrap()).unwrap()
        }
    }

    fn keyed(key: &EndorsementKey) -> Value {
        json!({"who": "me", "key": ApproverKey::of(key).body()})
    }

    fn endorsed(key: &EndorsementKey) -> Value {
        Endorsed::new(key, 1, &[3; 32], "settings").body()
    }

    /// As an earlier version wrote it.
    fn endorsed_without_key(key: &EndorsementKey) -> Endorsed {
        Endorsed { key: None, ..Endorsed::new(key, 7, &[3; 32], "settings") }
    }

    fn plain() -> Value {
        json!({"who": "me"})
    }

    fn is_of(testimony: &Testimony, passphrase: &str) -> bool {
        matches!(testimony, Testimony::Proved(proof) if proof.is_of(passphrase.as_bytes()))
    }

    /// Doubtful, and the passphrase that was in force before is this one.
    fn is_broken(testimony: &Testimony, passphrase: &str) -> bool {
        matches!(testimony, Testimony::Broken(Some(proof)) if proof.is_of(passphrase.as_bytes()))
    }

    #[test]
    fn a_proof_is_of_one_passphrase_and_one_choice_of_settings() {
        let key = fresh("correct horse");
        let Testimony::Proved(proof) = Story::begun(&key).end() else { panic!("nothing is proved") };
        let read = Proof::from_text(&proof.text()).unwrap();
        assert_eq!((read.settings(), read.key()), (Some(digest_of("settings")), Some(&ApproverKey::of(&key))));
        assert!(read.is_of(b"correct horse") && !read.is_of(b"another horse"));
        assert_eq!(read, proof);
        let old = endorsed_without_key(&key);
        let read = Proof::from_text(&Proof::Endorsed(old.clone()).text()).unwrap();
        assert_eq!((&read, read.settings(), read.key()), (&Proof::Endorsed(old.clone()), proof.settings(), None));
        assert_eq!(Proof::Endorsed(old.clone()).text(), old.body().to_string(), "the text that was sealed then");
        assert!(read.is_of(b"correct horse") && !read.is_of(b"another horse"));
        assert!(!Proof::Endorsed(Endorsed { segment: 8, ..old.clone() }).is_of(b"correct horse"));
        let mut moved = old;
        moved.proof.about[1] = hex(&digest_of("others"));
        assert!(!Proof::Endorsed(moved).is_of(b"correct horse"));
        assert_eq!(Proof::from_text("{\"segment\":7}"), None, "the record of a still earlier version");
    }

    #[test]
    fn changes_that_the_passphrase_of_before_has_signed_count() {
        let (one, again, two, three) = (fresh("one"), fresh("one"), fresh("two"), fresh("three"));
        let mut story = Story::begun(&one);
        // The same passphrase with another salt is another key.
        assert!(story.add(Event::Endorsed, endorsed(&again), Some(&one)));
        assert!(story.add(Event::ApproverChanged, keyed(&two), Some(&again)));
        assert!(story.put(Event::Requested, &plain()), "what is not about the approver needs no signature");
        assert!(story.add(Event::Endorsed, endorsed(&two), Some(&two)));
        assert!(is_of(&story.end(), "two"));
        let mut story = Story::begun(&two);
        assert!(story.add(Event::ApproverCleared, plain(), Some(&two)));
        let set = story.no;
        assert!(story.add(Event::ApproverSet, keyed(&three), None), "nobody is there who could sign it");
        assert!(is_of(&story.end(), "three"));
        let mut cleared = Story::begun(&two);
        assert!(cleared.add(Event::ApproverCleared, plain(), Some(&two)));
        assert_eq!((cleared.no, cleared.end()), (set, Testimony::Cleared));
    }

    #[test]
    fn changes_that_somebody_else_has_appended_do_not_count() {
        let (mine, theirs) = (fresh("mine"), fresh("theirs"));
        for signer in [None, Some(&theirs)] {
            let attacks = [
                (Event::ApproverCleared, plain()),
                (Event::ApproverSet, plain()),
                (Event::ApproverSet, keyed(&theirs)),
                (Event::ApproverChanged, keyed(&theirs)),
                (Event::Endorsed, endorsed(&theirs)),
                (Event::Endorsed, endorsed_without_key(&theirs).body()),
            ];
            for (event, body) in &attacks {
                let mut story = Story::begun(&mine);
                assert!(!story.add(*event, body.clone(), signer), "{event:?}");
                // What follows gets them no further.
                for (event, body) in &attacks {
                    assert!(!story.add(*event, body.clone(), signer), "{event:?}");
                }
                assert!(is_broken(&story.end(), "mine"), "{event:?}");
            }
        }
        // A signature from another place of the same audit.
        let mut story = Story::default();
        story.add(Event::ApproverSet, keyed(&mine), None);
        let mut cleared = plain();
        sign(&mine, Event::ApproverCleared.word(), AuditHead { no: 9, digest: [9; 32] }, &mut cleared);
        assert!(!story.put(Event::ApproverCleared, &cleared));
        assert!(is_broken(&story.end(), "mine"));
    }

    #[test]
    fn the_holder_of_the_passphrase_ends_the_doubt_and_nobody_else() {
        let (mine, theirs, next) = (fresh("mine"), fresh("theirs"), fresh("next"));
        let mut story = Story::begun(&mine);
        story.add(Event::ApproverSet, keyed(&theirs), None);
        story.add(Event::Endorsed, endorsed(&theirs), Some(&theirs));
        story.found.break_off();
        assert!(story.add(Event::ApproverChanged, keyed(&next), Some(&mine)));
        assert!(is_of(&story.end(), "next"));
        // A gap is a doubt as well.
        let mut story = Story::begun(&mine);
        story.found.break_off();
        assert!(is_broken(&story.end(), "mine"));
        // Nobody was the approver any more.
        let mut story = Story::begun(&mine);
        story.add(Event::ApproverCleared, plain(), Some(&mine));
        assert!(!story.add(Event::ApproverCleared, plain(), None));
        assert_eq!(story.end(), Testimony::Broken(None));
    }

    #[test]
    fn records_of_earlier_versions_count_until_there_is_a_key() {
        let (old, new) = (fresh("old"), fresh("new"));
        let mut story = Story::default();
        assert!(story.add(Event::ApproverSet, plain(), None));
        assert!(matches!(story.found.unsigned, Unsigned::Set));
        assert!(story.add(Event::ApproverCleared, plain(), None) && story.add(Event::ApproverSet, plain(), None));
        assert!(story.add(Event::Endorsed, json!({"segment": 1}), None));
        assert!(matches!(story.found.unsigned, Unsigned::Set), "of before there were proofs");
        story.found.break_off();
        assert!(story.add(Event::Endorsed, endorsed_without_key(&old).body(), None));
        assert!(matches!(story.found.unsigned, Unsigned::Endorsed(_)) && !story.found.is_doubtful);
        // This version sees the passphrase for the first time.
        assert!(story.add(Event::Endorsed, endorsed(&old), Some(&old)));
        for (event, body) in [(Event::ApproverCleared, plain()), (Event::Endorsed, endorsed_without_key(&new).body())] {
            assert!(!story.add(event, body, None), "{event:?}");
        }
        assert!(is_broken(&story.end(), "old"));
        let mut cleared = Story::default();
        assert!(cleared.add(Event::ApproverSet, plain(), None) && cleared.add(Event::ApproverCleared, plain(), None));
        assert_eq!(cleared.end(), Testimony::Cleared);
        let mut set = Story::default();
        assert!(set.add(Event::ApproverSet, plain(), None) && set.add(Event::ApproverChanged, plain(), None));
        assert_eq!(set.end(), Testimony::Set);
        assert_eq!(Story::default().end(), Testimony::Nothing);
    }
}
