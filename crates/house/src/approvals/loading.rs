//! What a daemon finds at its start, and what of it counts.
//!
//! Every row is compared with what the vault remembers. Rows that the last daemon left go on as if nothing had happened. A
//! row that somebody changed, removed, or put back from an earlier time is tampering: it is denied, recorded and reported.
//! If the vault remembers nothing, the key is lost, which is no tampering: what was decided and not carried out is void, and
//! what is still wanted is asked again.
//!
//! Guarantees: all of this is one write. Nothing that was not proved can lead to anything being run or told.

use std::collections::HashMap;
use std::time::Duration;

use hostel_agents::Decision;
use rusqlite::{OptionalExtension as _, Transaction};
use serde_json::{Value, json};

use super::approver::row::{self as approver_row, ApproverRow};
use super::asking::{decided, not_run};
use super::audit::approver::{Proof, Testimony};
use super::audit::signatures::ApproverKey;
use super::audit::{self, Event, Line};
use super::grants::{self, Grant};
use super::lockout::{self, Count, Limits};
use super::policy::Policy;
use super::rows::{self, ASK_AGAIN};
use super::settings::{self, InForce, Trust};
use super::types::{Approval, Kind, RunState, State};
use crate::pipelines::hex_of;
use crate::seals::{Anchor, AuditHead, Kept, Ledger, RowKey, Seal};
use crate::sessions::prompts::{self, PromptRow};
use crate::sessions::rights::{self, Rights};
use crate::sessions::{ProcessRows, now_ns};

/// What a decision says that nobody can vouch for.
pub(super) const CHANGED: &str = "its record in state.db was changed by somebody else than the house";

/// What a decision says whose key is lost.
const LOST: &str = "the keeper ended, and with it the proof of what was decided";

/// A digest that fits no passphrase.
const UNUSABLE: &str = "$argon2id$unknown";

/// What is known before the rows are looked at.
pub(super) struct Input {
    pub(super) limits: Limits,
    /// What the approver's file holds; an error counts as a file that is there.
    pub(super) file: Result<Option<String>, String>,
    pub(super) wanted: Policy,
}

/// What counts.
pub(super) struct Loaded {
    /// Requests that can still have an effect.
    pub(super) approvals: Vec<Approval>,
    /// Requests of connections that were settled a moment ago.
    pub(super) unheard: Vec<Approval>,
    pub(super) grants: Vec<Grant>,
    pub(super) count: Count,
    /// The digest of the passphrase that is in force.
    pub(super) digest: Option<String>,
    /// What a passphrase has to fit to besides, because nobody can prove the digest.
    pub(super) doubt: Option<Proof>,
    /// What signs the next change of the passphrase.
    pub(super) key: Option<ApproverKey>,
    /// The approver's file is to hold the digest above: a change was not finished.
    pub(super) writes_file: bool,
    pub(super) in_force: InForce,
}

/// A row with the seal that it should have.
struct Checked<T> {
    row: T,
    key: RowKey,
    seal: crate::seals::Seal,
    /// The seal in the row is not the one of its content.
    is_forged: bool,
}

struct Loading<'a> {
    transaction: &'a Transaction<'a>,
    ledger: &'a Ledger,
    /// What was found, and what should have been.
    found: Anchor,
    expected: Option<Anchor>,
    /// There was never a daemon of this version.
    is_new: bool,
    /// What the audit says of the approver, once it was asked.
    testimony: Option<Testimony>,
    /// What the audit says was approved, likewise.
    approved: Option<HashMap<String, String>>,
    lines: Vec<(Event, String, Value)>,
    reports: Vec<String>,
    now: u64,
    /// What a lost key has made void.
    void: Void,
}

#[derive(Default)]
struct Void {
    asked_again: u64,
    decisions: u64,
    grants: u64,
    sessions: u64,
    prompts: u64,
    locked: bool,
}

/// Looks at everything, and writes down what became of it.
pub(super) fn load(transaction: &Transaction<'_>, ledger: &Ledger, input: Input) -> rusqlite::Result<Loaded> {
    let approvals = rows::open(transaction)?;
    let all_grants = grants::open(transaction)?;
    let sessions = rights::load(transaction)?;
    let prompts = prompts::load(transaction)?;
    let count = lockout::load(transaction)?;
    let approver = approver_row::load(transaction)?;
    let policy = settings::load(transaction)?;
    let head = match audit::noted_head(transaction)? {
        Some(head) => head,
        None => audit::last_record(transaction)?.unwrap_or(AuditHead::NONE),
    };
    let mut shares = Vec::new();
    shares.extend(approvals.iter().map(|approval| (rows::key(approval.no), rows::seal_of(ledger, approval))));
    let readable = all_grants.iter().filter_map(|(no, grant)| Some((*no, grant.as_ref()?)));
    shares.extend(readable.map(|(no, grant)| (grants::key(no), grants::seal_of(ledger, grant))));
    shares.extend(sessions.iter().map(|rights| (rights.key(), rights.seal(ledger))));
    shares.extend(prompts.iter().map(|(prompt, _)| (prompt.key(), prompt.seal(ledger))));
    shares.extend(count.iter().map(|count| (lockout::key(), lockout::seal_of(ledger, count))));
    shares.extend(approver.iter().map(|row| (approver_row::key(), approver_row::seal_of(ledger, row))));
    shares.extend(policy.iter().map(|row| (settings::key(), settings::seal_of(ledger, row))));
    let found = ledger.measure(shares, head);
    let expected = match ledger.expected(&found) {
        Kept::Nothing => None,
        Kept::Anchor(anchor) => Some(*anchor),
    };
    let mut loading = Loading {
        transaction,
        ledger,
        found,
        expected,
        is_new: approver.is_none() && policy.is_none() && !audit::has_segments(transaction)?,
        testimony: None,
        approved: None,
        lines: Vec::new(),
        reports: Vec::new(),
        now: now_ns(),
        void: Void::default(),
    };
    if loading.expected.is_none() {
        // Before anything is written behind what was found.
        loading.testimony()?;
    }
    loading.adopt_head(head)?;
    let approvals = loading.approvals(approvals)?;
    let grants = loading.grants(all_grants)?;
    loading.sessions(sessions)?;
    loading.prompts(prompts)?;
    let count = loading.count(count, input.limits)?;
    let (approver, writes_file) = loading.approver(approver, input.file)?;
    let in_force = loading.policy(policy, input.wanted, approver.digest.is_some())?;
    let unheard = loading.unheard()?;
    loading.missing();
    loading.finish()?;
    let ApproverRow { digest, doubt, key, .. } = approver;
    Ok(Loaded { approvals, unheard, grants, count, digest, doubt, key, writes_file, in_force })
}

impl Loading<'_> {
    fn trust(&self, key: RowKey) -> Trust {
        match &self.expected {
            None => Trust::Unknown,
            Some(expected) if expected.agrees_about(key, &self.found) => Trust::Proved,
            Some(_) => Trust::Refuted,
        }
    }

    /// What the audit says of the approver. May read all of the audit, so it is asked only where nothing else is proved.
    fn testimony(&mut self) -> rusqlite::Result<Testimony> {
        if let Some(known) = &self.testimony {
            return Ok(known.clone());
        }
        let found = audit::approver::testimony(self.transaction)?;
        self.testimony = Some(found.clone());
        Ok(found)
    }

    fn line(&mut self, event: Event, approval: &str, body: Value) {
        self.lines.push((event, approval.to_owned(), body));
    }

    fn tampered(&mut self, approval: &str, body: Value, report: String) {
        self.line(Event::Tampered, approval, body);
        self.reports.push(report);
    }

    /// The audit goes on behind the last record that is known to be the house's own.
    fn adopt_head(&mut self, found: AuditHead) -> rusqlite::Result<()> {
        let known = self.expected.as_ref().map(Anchor::head);
        self.ledger.set_head(known.unwrap_or(found));
        if known.is_some()
            && let Some(first) = audit::is_ours(self.transaction, self.ledger)?
        {
            self.ledger.set_segment(first);
        }
        audit::meet(self.transaction, self.ledger)
    }

    fn approvals(&mut self, found: Vec<Approval>) -> rusqlite::Result<Vec<Approval>> {
        let mut kept = Vec::with_capacity(found.len());
        for approval in found {
            let key = rows::key(approval.no);
            let seal = rows::seal_of(self.ledger, &approval);
            let is_forged = approval.stored.seal != Some(seal);
            let checked = Checked { row: approval, key, seal, is_forged };
            let approval = match self.trust(checked.key) {
                _ if checked.row.stored.unreadable => self.refuted(checked)?,
                Trust::Proved => self.proved(checked)?,
                Trust::Refuted => self.refuted(checked)?,
                Trust::Unknown if self.lacks_a_decision(&checked.row)? => self.refuted(checked)?,
                Trust::Unknown => self.unknown(checked.row)?,
            };
            kept.extend(approval);
        }
        Ok(kept)
    }

    fn proved(&mut self, checked: Checked<Approval>) -> rusqlite::Result<Option<Approval>> {
        let Checked { row: mut approval, key, seal, .. } = checked;
        self.ledger.set(key, Some(seal));
        if approval.kind == Kind::Question && approval.state != State::Pending && !is_unheard(&approval, self.now) {
            // Nobody comes back for the answer any more.
            rows::close(self.transaction, self.ledger, &mut approval)?;
            return Ok(None);
        }
        Ok(Some(approval))
    }

    /// Somebody has changed something about the rows of this bucket. A row with the wrong seal is the one, or one of them.
    /// Others may be of an earlier time: they may wait for an answer, but nothing they say was decided counts.
    fn refuted(&mut self, checked: Checked<Approval>) -> rusqlite::Result<Option<Approval>> {
        let Checked { row: mut approval, key, seal, is_forged } = checked;
        if !is_forged && !approval.stored.unreadable && approval.state == State::Pending {
            self.ledger.set(key, Some(seal));
            return Ok(Some(approval));
        }
        let said = if approval.stored.unreadable { "unreadable" } else { approval.state.word() };
        deny(&mut approval, CHANGED, self.now);
        rows::close(self.transaction, self.ledger, &mut approval)?;
        let body = json!({"what": "approval", "found": said});
        let report = format!("the request {} was changed in state.db; it is denied", approval.id);
        self.tampered(&approval.id, body, report);
        let line = decided(&approval);
        self.line(line.event, &approval.id, line.body);
        Ok(None)
    }

    /// Whether a command is stored as approved although the audit has no such decision. The house writes both at once, so
    /// somebody else wrote the row.
    fn lacks_a_decision(&mut self, approval: &Approval) -> rusqlite::Result<bool> {
        if approval.state != State::Approved || !matches!(approval.run, RunState::Due | RunState::Started) {
            return Ok(false);
        }
        if self.approved.is_none() {
            self.approved = Some(audit::approved(self.transaction)?);
        }
        let recorded = self.approved.as_ref().and_then(|approved| approved.get(&approval.id));
        Ok(recorded.is_none_or(|digest| !digest.is_empty() && *digest != hex_of(&approval.digest)))
    }

    /// The key is lost. What was decided is void, and what is still wanted is asked again.
    fn unknown(&mut self, mut approval: Approval) -> rusqlite::Result<Option<Approval>> {
        match (approval.kind, approval.state, approval.run) {
            // It is never started, and nobody can know whether it was: the keeper that would is gone. Whoever asked is told
            // so, and what runs still is ended by whoever looks after what nobody came back for.
            (_, State::Approved, RunState::Due | RunState::Started) => {
                approval.keeper = None;
                rows::update(self.transaction, self.ledger, &mut approval)?;
                self.void.decisions += 1;
                return Ok(Some(approval));
            }
            // The message itself is in the request, and nowhere else.
            (Kind::Letter, State::Pending | State::Approved, _) => {
                if approval.state == State::Approved {
                    self.void.decisions += 1;
                }
                let life = approval.expires_ns.saturating_sub(approval.created_ns);
                (approval.state, approval.decision, approval.stored.decision) = (State::Pending, None, None);
                (approval.decided_ns, approval.expires_ns) = (0, self.now.saturating_add(life));
                (approval.decider, approval.rule) = (String::new(), String::new());
                rows::update(self.transaction, self.ledger, &mut approval)?;
                self.void.asked_again += 1;
                return Ok(Some(approval));
            }
            (_, State::Pending, _) => self.void.asked_again += 1,
            (_, State::Approved | State::Denied, _) => self.void.decisions += 1,
            (_, State::Expired | State::Withdrawn, _) => {}
        }
        // Whoever asked asks again: a client with the same id, an agent when its journal is read again.
        if approval.state == State::Pending {
            self.line(Event::Withdrawn, &approval.id, json!({"why": LOST}));
        }
        approval.state = State::Withdrawn;
        approval.decider = ASK_AGAIN.to_owned();
        approval.process = None;
        rows::detach(self.transaction, &approval)?;
        rows::close(self.transaction, self.ledger, &mut approval)?;
        Ok(None)
    }

    fn grants(&mut self, found: Vec<(u64, Option<Grant>)>) -> rusqlite::Result<Vec<Grant>> {
        let mut kept = Vec::new();
        for (no, grant) in found {
            let trust = self.trust(grants::key(no));
            if let (Trust::Proved, Some(grant)) = (trust, grant) {
                self.ledger.set(grants::key(no), Some(grants::seal_of(self.ledger, &grant)));
                kept.push(grant);
                continue;
            }
            grants::close(self.transaction, self.ledger, no, self.now)?;
            match trust {
                Trust::Unknown => {
                    self.line(Event::Revoked, "", json!({"grant": no, "why": LOST}));
                    self.void.grants += 1;
                }
                Trust::Proved | Trust::Refuted => {
                    let report = format!("grant {no} was changed in state.db; it is taken back");
                    self.tampered("", json!({"what": "grant", "grant": no}), report);
                }
            }
        }
        Ok(kept)
    }

    fn sessions(&mut self, found: Vec<Rights>) -> rusqlite::Result<()> {
        if self.expected.is_none() {
            ProcessRows::load(self.transaction, self.ledger)?.adopt(self.transaction, self.ledger)?;
        }
        for rights in found {
            match self.trust(rights.key()) {
                Trust::Proved => self.ledger.set(rights.key(), Some(rights.seal(self.ledger))),
                Trust::Unknown => {
                    let left = rights.after_lost_key();
                    self.void.sessions += u64::from(left != rights);
                    left.write(self.transaction, self.ledger)?;
                }
                Trust::Refuted if !rights.is_sealed(self.transaction, self.ledger)? => {
                    rights.close_changed(self.transaction, self.ledger, self.now)?;
                    let report = format!(
                        "session {} was changed in state.db; it is closed, and asks before it writes when you open it again",
                        rights.id
                    );
                    self.tampered("", rights.body(), report);
                }
                Trust::Refuted => {
                    let left = rights.least();
                    left.write(self.transaction, self.ledger)?;
                    // Others of the same bucket are made to ask as well; that is told of those that change.
                    if left != rights {
                        let report = format!(
                            "the rights of session {} were changed in state.db; it has the least now",
                            rights.id
                        );
                        self.tampered("", rights.body(), report);
                    }
                }
            }
        }
        Ok(())
    }

    /// Prompts that wait, or whose turns run. None is given that somebody else has written, and none is lost that the house
    /// took: what nobody can prove is given by a turn that asks.
    fn prompts(&mut self, found: Vec<(PromptRow, Option<Seal>)>) -> rusqlite::Result<()> {
        for (mut prompt, carried) in found {
            let seal = prompt.seal(self.ledger);
            match self.trust(prompt.key()) {
                Trust::Proved => self.ledger.set(prompt.key(), Some(seal)),
                Trust::Unknown => {
                    self.void.prompts += u64::from(!prompt.running);
                    prompt.doubt(self.transaction, self.ledger)?;
                }
                // It was the house's own, perhaps of an earlier time.
                Trust::Refuted if carried == Some(seal) && !prompt.running => {
                    prompt.doubt(self.transaction, self.ledger)?;
                }
                Trust::Refuted => {
                    prompt.strike(self.transaction, self.ledger, self.now)?;
                    self.tampered("", prompt.body(), prompts::report());
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, found: Option<Count>, limits: Limits) -> rusqlite::Result<Count> {
        let count = match (self.trust(lockout::key()), found) {
            (Trust::Proved, Some(count)) => count,
            (Trust::Proved | Trust::Refuted, _) => {
                let report = "the count of wrong passphrases was changed in state.db; no passphrase is taken for the \
                              longest pause there is";
                self.tampered("", json!({"what": "lockout"}), report.to_owned());
                Count::lock(limits, self.now)
            }
            (Trust::Unknown, Some(count)) if self.is_new => count,
            (Trust::Unknown, found) => {
                let count = Count::after_lost_key(found, last_lockout(self.transaction)?, limits, self.now);
                self.void.locked = count.is_locked(self.now);
                count
            }
        };
        lockout::save(self.transaction, self.ledger, count, count)?;
        Ok(count)
    }

    /// The digest that is in force, and whether the file has still to be brought up to it.
    fn approver(
        &mut self,
        found: Option<ApproverRow>,
        file: Result<Option<String>, String>,
    ) -> rusqlite::Result<(ApproverRow, bool)> {
        let unusable = || Some(UNUSABLE.to_owned());
        let in_file = file.unwrap_or_else(|_| unusable());
        let (row, writes) = match (self.trust(approver_row::key()), found) {
            (Trust::Proved, Some(row)) if row.digest == in_file => {
                (ApproverRow::doubted(in_file, row.doubt, row.key), false)
            }
            // The daemon was killed after the row was written and before the file was.
            (Trust::Proved, Some(row)) if row.previous == in_file && row.previous != row.digest => (row, true),
            (Trust::Proved, Some(row)) => {
                self.changed_approver_file();
                (ApproverRow::doubted(row.digest, row.doubt, row.key), false)
            }
            (Trust::Unknown, found) => (self.unproved_approver(found.map(|row| row.digest), in_file)?, false),
            (Trust::Proved | Trust::Refuted, _) => {
                let report = "the digest of the approver's passphrase was changed in state.db";
                self.tampered("", json!({"what": "approver"}), report.to_owned());
                let proof = self.testimony()?.proof();
                let keys = [proof.as_ref().and_then(Proof::key).cloned(), None];
                let mut in_file = keys.map(|key| ApproverRow::finished(in_file.clone(), key)).into_iter();
                match in_file.find(|row| self.is_known(row)) {
                    Some(row) => (row, false),
                    // The approver's own passphrase sets it anew.
                    None => (ApproverRow::proved(unusable(), proof), false),
                }
            }
        };
        approver_row::save(self.transaction, self.ledger, &row)?;
        Ok((row, writes))
    }

    fn changed_approver_file(&mut self) {
        let report = "the file with the digest of the approver's passphrase is not the one that this house knows; \
                      the passphrase of before counts. If you changed it through another house: \
                      `hostel approver set`";
        self.tampered("", json!({"what": "approver_file"}), report.to_owned());
    }

    /// The digest where the key is lost: everybody could have written the row and the file. If the audit tells of an
    /// approver, the digest is in doubt until a passphrase fits to what the approver endorsed.
    fn unproved_approver(
        &mut self,
        in_row: Option<Option<String>>,
        in_file: Option<String>,
    ) -> rusqlite::Result<ApproverRow> {
        if self.is_new {
            return Ok(ApproverRow::finished(in_file, None));
        }
        let is_missing = in_row.is_none();
        if is_missing {
            let report = "the row with the digest of the approver's passphrase was removed from state.db";
            self.tampered("", json!({"what": "approver", "missing": true}), report.to_owned());
        }
        let in_row = in_row.flatten();
        let unusable = || Some(UNUSABLE.to_owned());
        Ok(match self.testimony()? {
            Testimony::Proved(proof) => {
                if !is_missing && in_row != in_file {
                    self.changed_approver_file();
                } else if in_file.is_none() {
                    self.removed_approver();
                }
                ApproverRow::proved(in_row.or(in_file).or_else(unusable), Some(proof))
            }
            Testimony::Broken(proof) => {
                let report = match proof {
                    Some(_) => {
                        "the key that proved the approver is lost, and the audit was changed behind the house's back: it \
                         holds records that the approver did not sign, or some are missing. They do not count, and the \
                         stored digest does not either. `hostel approver set` puts it right, with the passphrase of before"
                    }
                    None => {
                        "the key that proved the approver is lost, and the audit was changed since the approver used the \
                         passphrase last: nobody can prove who the approver is, and no passphrase is taken. \
                         docs/approvals.md tells how to begin anew"
                    }
                };
                self.tampered("", json!({"what": "approver", "audit": "broken"}), report.to_owned());
                ApproverRow::proved(unusable(), proof)
            }
            Testimony::Set => {
                if is_missing || in_row.is_none() {
                    self.removed_approver();
                } else if in_row != in_file {
                    self.changed_approver_file();
                }
                ApproverRow::finished(in_row.or_else(unusable), None)
            }
            // The house has never seen the passphrase used: it was there at the first start, or is another house's.
            Testimony::Nothing if in_row == in_file => ApproverRow::finished(in_row, None),
            Testimony::Nothing => {
                self.changed_approver_file();
                ApproverRow::finished(in_row, None)
            }
            Testimony::Cleared => {
                if in_row.is_some() {
                    let report = "the approver removed the passphrase, and somebody has put one into state.db since; it \
                                  does not count";
                    self.tampered("", json!({"what": "approver"}), report.to_owned());
                } else if in_file.is_some() {
                    self.changed_approver_file();
                }
                ApproverRow::finished(None, None)
            }
        })
    }

    fn removed_approver(&mut self) {
        let report = "the digest of the approver's passphrase was removed behind the house's back: nobody can decide with a \
                      passphrase until the approver sets it anew (`hostel approver set`, with the passphrase of before)";
        self.tampered("", json!({"what": "approver", "removed": true}), report.to_owned());
    }

    /// Whether this is the row that the vault remembers.
    fn is_known(&self, row: &ApproverRow) -> bool {
        let (key, seal) = (approver_row::key(), approver_row::seal_of(self.ledger, row));
        let alone = self.ledger.measure([(key, seal)], AuditHead::NONE);
        self.expected.as_ref().is_some_and(|expected| expected.agrees_about(key, &alone))
    }

    fn policy(
        &mut self,
        found: Option<settings::PolicyRow>,
        wanted: Policy,
        has_passphrase: bool,
    ) -> rusqlite::Result<InForce> {
        // Every daemon of this version stores its policy: one without is new, or somebody has removed it.
        let trust = self.trust(settings::key());
        let mut judged = settings::at_start(found, trust, wanted, has_passphrase, self.is_new);
        if judged.in_force.row.unproved {
            judged.in_force.newest_endorsed = match self.testimony()? {
                Testimony::Proved(proof) => proof.settings(),
                // No text has this digest.
                Testimony::Broken(_) => Some([0; 32]),
                Testimony::Nothing | Testimony::Cleared | Testimony::Set => None,
            };
        }
        settings::save(self.transaction, self.ledger, &judged.in_force.row)?;
        for (event, body) in judged.lines {
            self.line(event, "", body);
        }
        self.reports.extend(judged.report);
        Ok(judged.in_force)
    }

    /// What connections asked and was settled a moment ago: perhaps they never heard. Only what has its seal counts.
    fn unheard(&mut self) -> rusqlite::Result<Vec<Approval>> {
        let since = self.now.saturating_sub(UNHEARD.as_nanos() as u64);
        let mut found = rows::lately_settled(self.transaction, since, MAX_UNHEARD)?;
        found.retain(|approval| approval.stored.seal == Some(rows::seal_of(self.ledger, approval)));
        Ok(found)
    }

    /// A row that was removed cannot be denied any more; that it is missing is told.
    fn missing(&mut self) {
        let Some(expected) = &self.expected else { return };
        for (table, name) in [
            (crate::seals::Table::Approval, "approval"),
            (crate::seals::Table::Grant, "grant"),
            (crate::seals::Table::Session, "session"),
            (crate::seals::Table::Prompt, "prompt"),
        ] {
            let told = self.lines.iter().any(|(event, _, body)| *event == Event::Tampered && body["what"] == name);
            if !expected.agrees_on(table, &self.found) && !told {
                let report = format!("rows were removed from state.db, or put back from an earlier time ({name}s)");
                self.lines.push((Event::Tampered, String::new(), json!({"what": name, "missing": true})));
                self.reports.push(report);
            }
        }
    }

    fn finish(&mut self) -> rusqlite::Result<()> {
        let Void { asked_again, decisions, grants, sessions, prompts, locked } = self.void;
        let voids = asked_again + decisions + grants + sessions + prompts > 0 || locked;
        if voids || (self.expected.is_none() && !self.is_new) {
            let body = json!({
                "asked_again": asked_again, "decisions": decisions, "grants": grants, "sessions": sessions,
                "prompts": prompts, "locked_out": locked,
            });
            self.lines.insert(0, (Event::KeyLost, String::new(), body));
        }
        if voids {
            self.reports.push(lost_words(&self.void));
        }
        let lines: Vec<Line<'_>> = self
            .lines
            .iter()
            .map(|(event, approval, body)| Line { event: *event, approval, body: body.clone() })
            .collect();
        if !lines.is_empty() {
            audit::append(self.transaction, self.ledger, &lines)?;
        }
        for report in self.reports.drain(..) {
            self.ledger.report(report);
        }
        Ok(())
    }
}

/// What a lost key means, for people.
fn lost_words(void: &Void) -> String {
    let mut parts = Vec::new();
    let mut part = |count: u64, one: &str, many: &str| {
        if count > 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    };
    part(void.decisions, "decision is void", "decisions are void");
    part(void.grants, "grant is void", "grants are void");
    part(void.asked_again, "question is asked again", "questions are asked again");
    part(void.sessions, "session asks again before it writes", "sessions ask again before they write");
    part(void.prompts, "prompt is given to an agent that asks", "prompts are given to agents that ask");
    if void.locked {
        parts.push("no passphrase is taken for the longest pause there is".to_owned());
    }
    format!(
        "the keeper ended since the last start, and with it the key that proved what was decided: {}",
        parts.join(", ")
    )
}

/// Nobody agreed to this.
pub(super) fn deny(approval: &mut Approval, why: &str, now_ns: u64) {
    approval.state = State::Denied;
    approval.decision = Some(Decision::Reject(why.to_owned()));
    approval.stored.decision = approval.decision.as_ref().and_then(|decision| serde_json::to_string(decision).ok());
    approval.decided_ns = now_ns;
    approval.decider = String::new();
    approval.rule = String::new();
    if approval.run != RunState::None {
        let outcome = not_run(why);
        approval.run = RunState::Over;
        approval.stored.outcome = serde_json::to_string(&outcome).ok();
        approval.outcome = Some(outcome);
    }
}

/// Records of the audit that are looked at for a pause.
const LOOKED_AT: i64 = 100_000;

/// When the last pause in the audit ends.
fn last_lockout(transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
    let body: Option<Vec<u8>> = transaction
        .prepare_cached(
            "SELECT CAST(body AS BLOB) FROM audit WHERE no > (SELECT max(no) FROM audit) - ? AND kind = ? ORDER BY no DESC LIMIT 1",
        )?
        .query_row(rusqlite::params![LOOKED_AT, Event::LockedOut.word()], |row| row.get(0))
        .optional()?;
    let body: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    Ok(body["until_ns"].as_u64().unwrap_or(0))
}

/// How long before a restart something may have been settled without its connection hearing of it.
const UNHEARD: Duration = Duration::from_secs(120);

/// Settled requests of connections that are remembered for that.
const MAX_UNHEARD: usize = 256;

/// Whether the connection that asked may still come back for the answer.
pub(super) fn is_unheard(approval: &Approval, now_ns: u64) -> bool {
    approval.decided_ns.saturating_add(UNHEARD.as_nanos() as u64) > now_ns
}
