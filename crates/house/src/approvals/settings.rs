//! Which policy is in force: what the settings want, measured by what applied before.
//!
//! Guarantees: with a passphrase set, nothing that asks less of people than before comes into force unless the approver has
//! confirmed it. What applied before counts only if the house can prove that it did: by the seal of its row while the key
//! is the same, by the endorsement with the passphrase once the key is lost. Until it is proved, nothing is allowed unasked.
//!
//! This module decides; `super::vouching` brings the passphrase, and `super::loading` what stood on disk.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde_json::{Value, json};

use super::audit::Event;
use super::audit::endorsement::{Endorsement, EndorsementKey};
use super::policy::Policy;
use super::types::digest_of;
use crate::seals::{Ledger, RowKey, Seal, Table};

/// What endorsements of settings are called.
const ENDORSED: &str = "settings about consent";

/// How far the rows that a daemon finds at its start can be believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Trust {
    /// They are the ones that the last daemon left.
    Proved,
    /// They are not.
    Refuted,
    /// The key is lost: nothing is known of them.
    Unknown,
}

/// The stored policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct PolicyRow {
    pub(super) text: String,
    /// What applied before has still to be proved with the passphrase.
    pub(super) unproved: bool,
    /// What was last endorsed.
    pub(super) endorsed: Option<String>,
    pub(super) endorsement: Option<String>,
}

/// The place of the row in the ledger.
pub(super) fn key() -> RowKey {
    RowKey::only(Table::Policy)
}

pub(super) fn load(connection: &Connection) -> rusqlite::Result<Option<PolicyRow>> {
    let mut statement = connection.prepare_cached("SELECT text, unproved, endorsed, endorsement FROM policy")?;
    let found = statement.query_row([], |row| {
        // What cannot be read is nothing that the house wrote, and nothing that a passphrase endorsed.
        let text = |index| row.get::<_, Option<String>>(index).unwrap_or_default();
        Ok(PolicyRow {
            text: text(0).unwrap_or_default(),
            unproved: row.get::<_, i64>(1).unwrap_or(1) != 0,
            endorsed: text(2),
            endorsement: text(3),
        })
    });
    found.optional()
}

/// The seal of a policy. An endorsement proves itself.
pub(super) fn seal_of(ledger: &Ledger, row: &PolicyRow) -> Seal {
    ledger.seal(Table::Policy, |encoder| {
        encoder.text(&row.text).number(row.unproved.into());
    })
}

pub(super) fn save(transaction: &Transaction<'_>, ledger: &Ledger, row: &PolicyRow) -> rusqlite::Result<()> {
    let seal = seal_of(ledger, row);
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO policy (one, text, unproved, endorsed, endorsement, seal) VALUES (1, ?, ?, ?, ?, ?)",
        )?
        .execute(params![row.text, row.unproved, row.endorsed, row.endorsement, seal.bytes()])?;
    ledger.set(key(), Some(seal));
    Ok(())
}

impl PolicyRow {
    /// Whether what was endorsed was endorsed with this passphrase; none if nothing was.
    fn endorsed_policy(&self, passphrase: &[u8]) -> Option<(Policy, EndorsementKey)> {
        let (text, endorsement) = (self.endorsed.as_deref()?, Endorsement::read(self.endorsement.as_deref()?)?);
        let key = endorsement.key(passphrase, None).ok()?;
        let policy = Policy::read(text).filter(|_| endorsement.is_of(&key, ENDORSED, &[text.as_bytes()]))?;
        Some((policy, key))
    }

    /// Endorses what is in force.
    pub(super) fn endorse(&mut self, key: &EndorsementKey) {
        self.endorsement = Some(key.endorse(ENDORSED, &[self.text.as_bytes()], Vec::new()).text());
        self.endorsed = Some(self.text.clone());
    }

    /// What is in force is what was endorsed.
    pub(super) fn is_endorsed(&self) -> bool {
        self.endorsed.as_ref() == Some(&self.text) && self.endorsement.is_some()
    }
}

/// Which policy is in force, and why not another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InForce {
    pub(super) policy: Policy,
    /// What the settings want.
    pub(super) wanted: Policy,
    /// What the approver would have to confirm; nothing if the settings are in force.
    pub(super) unconfirmed: Vec<String>,
    pub(super) row: PolicyRow,
    /// The digest of the settings that were endorsed last, as the audit has it; none if it says nothing of that.
    pub(super) newest_endorsed: Option<[u8; 32]>,
}

/// A decision about the policy: what is in force, and what is to be recorded and told.
#[derive(Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) in_force: InForce,
    pub(super) lines: Vec<(Event, Value)>,
    pub(super) report: Option<String>,
}

/// What the settings ask of a daemon that starts.
pub(super) fn at_start(
    found: Option<PolicyRow>,
    trust: Trust,
    wanted: Policy,
    has_passphrase: bool,
    is_new_house: bool,
) -> Judged {
    let before = found.as_ref().and_then(|row| Policy::read(&row.text));
    let row = found.unwrap_or_default();
    match (trust, has_passphrase, before) {
        (_, false, before) => unguarded(row, before, wanted, trust),
        (Trust::Proved, true, Some(before)) if row.unproved => unproved(row, before.strict, wanted),
        (Trust::Proved, true, Some(before)) => measured(row, &before, wanted),
        (Trust::Unknown, true, Some(before)) => unproved(row, before.strict, wanted),
        // The first start of a house, or of this version in it: the settings of then cannot be proved either.
        (Trust::Unknown | Trust::Proved, true, None) if is_new_house => unproved(row, false, wanted),
        (_, true, _) => {
            let mut judged = unproved(PolicyRow::default(), true, wanted);
            judged.lines.push((Event::Tampered, json!({"what": "settings"})));
            judged.in_force.row.unproved = false;
            judged.in_force.unconfirmed = vec!["nobody knows which settings applied before".to_owned()];
            judged.report = Some(
                "somebody has changed the stored settings about consent: nothing is allowed unasked, and every answer takes \
                 the passphrase, until `hostel approver confirm`"
                    .to_owned(),
            );
            judged
        }
    }
}

/// Without a passphrase there is nobody who could confirm anything: the settings apply, and that is recorded.
fn unguarded(row: PolicyRow, before: Option<Policy>, wanted: Policy, trust: Trust) -> Judged {
    let reasons = before.as_ref().map(|before| wanted.looser_than(before)).unwrap_or_default();
    let mut lines = Vec::new();
    if trust == Trust::Refuted {
        lines.push((Event::Tampered, json!({"what": "settings"})));
    }
    if before.is_some_and(|before| before != wanted) {
        lines.push((Event::SettingsChanged, json!({"looser": reasons})));
    }
    let report = (!reasons.is_empty()).then(|| {
        format!(
            "the settings ask less of people than before ({}), and no passphrase is set to confirm that",
            list(&reasons)
        )
    });
    Judged { in_force: in_force(row, wanted.clone(), wanted, Vec::new()), lines, report }
}

fn in_force(row: PolicyRow, policy: Policy, wanted: Policy, unconfirmed: Vec<String>) -> InForce {
    let row = PolicyRow { text: policy.text(), unproved: false, ..row };
    InForce { row, policy, wanted, unconfirmed, newest_endorsed: None }
}

/// What applied before is known.
fn measured(row: PolicyRow, before: &Policy, wanted: Policy) -> Judged {
    let reasons = wanted.looser_than(before);
    if reasons.is_empty() {
        let changed = (wanted != *before).then(|| (Event::SettingsChanged, json!({"looser": []})));
        let in_force = in_force(row, wanted.clone(), wanted, Vec::new());
        return Judged { in_force, lines: changed.into_iter().collect(), report: None };
    }
    let lines = vec![(Event::SettingsRejected, json!({"looser": reasons}))];
    let report = format!(
        "the settings ask less of people than before ({}); the stricter ones apply until `hostel approver confirm`",
        list(&reasons)
    );
    let stricter = wanted.stricter_of(before);
    Judged { in_force: in_force(row, stricter, wanted, reasons), lines, report: Some(report) }
}

/// What applied before has to be proved with the passphrase.
fn unproved(row: PolicyRow, was_strict: bool, wanted: Policy) -> Judged {
    let asking = wanted.asking(was_strict);
    // Settings that allow nothing need no proof.
    if asking == wanted {
        return Judged { in_force: in_force(row, wanted.clone(), wanted, Vec::new()), lines: Vec::new(), report: None };
    }
    let report = "nothing is allowed unasked until the approver's passphrase is shown once: the keeper that knew which \
                  settings applied has ended. `hostel approver confirm` shows it";
    let reasons = wanted.looser_than(&asking);
    let mut in_force = in_force(row, asking, wanted, reasons);
    in_force.row.unproved = true;
    Judged { in_force, lines: Vec::new(), report: Some(report.to_owned()) }
}

impl InForce {
    /// The passphrase was shown: what was endorsed with it applied before. None if there is nothing to find out. Takes as
    /// long as comparing a passphrase.
    pub(super) fn prove(&self, passphrase: &[u8]) -> Option<Judged> {
        if !self.row.unproved {
            return None;
        }
        // Settings of an earlier time were endorsed as well: those that the audit does not name as the newest prove nothing.
        let is_newest = || {
            let endorsed = self.row.endorsed.as_deref().map(digest_of);
            self.newest_endorsed.is_none() || endorsed == self.newest_endorsed
        };
        if let Some((before, _)) = self.row.endorsed_policy(passphrase).filter(|_| is_newest()) {
            return Some(measured(self.row.clone(), &before, self.wanted.clone()));
        }
        let has_endorsement = self.row.endorsement.is_some();
        let report = match has_endorsement {
            true => {
                "the stored settings about consent are not those that the approver endorsed last: somebody has \
                     changed them, or put earlier ones back. Nothing is allowed unasked until `hostel approver confirm`"
            }
            false => {
                "nobody has confirmed the settings about consent yet. Nothing is allowed unasked until \
                      `hostel approver confirm`"
            }
        };
        let lines = match has_endorsement {
            true => vec![(Event::Tampered, json!({"what": "settings"}))],
            false => Vec::new(),
        };
        let row = PolicyRow { unproved: false, endorsed: None, endorsement: None, ..self.row.clone() };
        let in_force = InForce { row, ..self.clone() };
        Some(Judged { in_force, lines, report: Some(report.to_owned()) })
    }

    /// The approver has confirmed what the settings want.
    pub(super) fn confirm(&self) -> Judged {
        let in_force = in_force(self.row.clone(), self.wanted.clone(), self.wanted.clone(), Vec::new());
        let lines = vec![(Event::SettingsConfirmed, json!({"looser": self.unconfirmed}))];
        Judged { in_force, lines, report: None }
    }
}

fn list(reasons: &[String]) -> String {
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::approver::Cost;
    use super::super::rules::{Action, Rule};
    use super::super::{Glob, LockoutLimits};
    use super::*;

    fn policy(strict: bool, allowed: &[&str]) -> Policy {
        let rule = |word: &&str| Rule {
            name: (*word).to_owned(),
            action: Action::Allow,
            requester: None,
            session: None,
            cwd: None,
            tool: None,
            argv: Some(vec![Glob::new(word).unwrap()]),
            env: None,
            privileged: None,
        };
        Policy { strict, rules: allowed.iter().map(rule).collect(), lockout: LockoutLimits::default() }
    }

    fn row(policy: &Policy) -> PolicyRow {
        PolicyRow { text: policy.text(), ..PolicyRow::default() }
    }

    fn words(judged: &Judged) -> Vec<&'static str> {
        judged.lines.iter().map(|(event, _)| event.word()).collect()
    }

    #[test]
    fn without_a_passphrase_the_settings_apply_and_a_change_is_recorded() {
        let first = at_start(None, Trust::Unknown, policy(false, &["make"]), false, true);
        assert_eq!((first.in_force.policy, first.lines, first.report), (policy(false, &["make"]), vec![], None));
        let tighter = at_start(Some(row(&policy(false, &["make"]))), Trust::Proved, policy(true, &[]), false, false);
        assert_eq!((words(&tighter), tighter.report.is_some()), (vec!["settings_changed"], false));
        let looser = at_start(Some(row(&policy(true, &[]))), Trust::Proved, policy(false, &["sh"]), false, false);
        assert_eq!((words(&looser), looser.report.is_some()), (vec!["settings_changed"], true));
        assert_eq!(looser.in_force.policy, policy(false, &["sh"]));
        let refuted = at_start(Some(row(&policy(false, &[]))), Trust::Refuted, policy(false, &[]), false, false);
        assert_eq!(words(&refuted), ["tampered"]);
    }

    #[test]
    fn with_a_passphrase_looser_settings_wait_for_the_approver() {
        let before = policy(true, &["make"]);
        let same = at_start(Some(row(&before)), Trust::Proved, before.clone(), true, false);
        assert_eq!((same.in_force.policy.clone(), words(&same), same.report), (before.clone(), vec![], None));
        let looser = at_start(Some(row(&before)), Trust::Proved, policy(false, &["make", "sh"]), true, false);
        assert_eq!(looser.in_force.policy, before, "the stricter of both");
        assert_eq!((words(&looser), looser.in_force.unconfirmed.len()), (vec!["settings_rejected"], 2));
        let confirmed = looser.in_force.confirm();
        assert_eq!(
            (words(&confirmed), &confirmed.in_force.policy),
            (vec!["settings_confirmed"], &policy(false, &["make", "sh"]))
        );
        assert_eq!(confirmed.in_force.row.text, policy(false, &["make", "sh"]).text());
        let tighter = at_start(Some(row(&before)), Trust::Proved, policy(true, &[]), true, false);
        assert_eq!((tighter.in_force.policy.clone(), words(&tighter)), (policy(true, &[]), vec!["settings_changed"]));
    }

    #[test]
    fn what_somebody_has_changed_allows_nothing() {
        for found in [Some(row(&policy(false, &["sh"]))), None] {
            let judged = at_start(found, Trust::Refuted, policy(false, &["sh"]), true, false);
            assert_eq!(judged.in_force.policy, policy(true, &[]));
            assert_eq!((words(&judged), judged.report.is_some()), (vec!["tampered"], true));
            assert_eq!(judged.in_force.prove(b"any"), None, "only the approver's word helps");
        }
    }

    #[test]
    fn after_a_lost_key_the_passphrase_proves_what_applied_before() {
        let cost = Cost { memory: 8192, passes: 1 };
        let endorsed = |policy: &Policy| {
            let mut row = row(policy);
            row.endorse(&EndorsementKey::fresh(b"secret", cost).unwrap());
            assert!(row.is_endorsed());
            row
        };
        let before = policy(false, &["make"]);
        let start = |row, wanted| at_start(Some(row), Trust::Unknown, wanted, true, false).in_force;
        let waiting = start(endorsed(&before), before.clone());
        assert_eq!((&waiting.policy, waiting.row.unproved), (&policy(false, &[]), true));
        let again = at_start(Some(waiting.row.clone()), Trust::Proved, before.clone(), true, false).in_force;
        assert_eq!(again, waiting, "a daemon that starts meanwhile waits as well");
        let proved = waiting.prove(b"secret").unwrap();
        assert_eq!((&proved.in_force.policy, words(&proved)), (&before, vec![]));
        assert!(!proved.in_force.row.unproved);
        // Somebody has changed the file meanwhile, or the file and the row.
        let looser = policy(false, &["make", "sh"]);
        let rejected = start(endorsed(&before), looser.clone()).prove(b"secret").unwrap();
        assert_eq!((&rejected.in_force.policy, words(&rejected)), (&before, vec!["settings_rejected"]));
        let forged = PolicyRow { endorsed: Some(looser.text()), text: looser.text(), ..endorsed(&before) };
        let refuted = start(forged, looser.clone()).prove(b"secret").unwrap();
        assert_eq!((&refuted.in_force.policy, words(&refuted)), (&policy(false, &[]), vec!["tampered"]));
        let another = start(endorsed(&before), before.clone()).prove(b"another").unwrap();
        assert_eq!(words(&another), ["tampered"]);
        let unendorsed = start(row(&before), before.clone()).prove(b"secret").unwrap();
        assert_eq!((words(&unendorsed), unendorsed.in_force.policy), (vec![], policy(false, &[])));
        // Somebody has put back what was endorsed before.
        let put_back = InForce { newest_endorsed: Some(digest_of(&policy(true, &[]).text())), ..waiting.clone() };
        let refuted = put_back.prove(b"secret").unwrap();
        assert_eq!((&refuted.in_force.policy, words(&refuted)), (&policy(false, &[]), vec!["tampered"]));
        let newest = InForce { newest_endorsed: Some(digest_of(&before.text())), ..waiting };
        assert_eq!(newest.prove(b"secret").unwrap().in_force.policy, before);
        // Strict before, as far as anybody knows: strict until it is proved.
        assert!(start(endorsed(&policy(true, &[])), policy(false, &[])).policy.strict);
        // What allows nothing needs no proof.
        assert!(!start(endorsed(&policy(false, &[])), policy(false, &[])).row.unproved);
        assert!(at_start(None, Trust::Unknown, before, true, true).in_force.row.unproved);
    }
}
