//! What the passphrase does beyond answering requests: it vouches for the key that signs the audit, proves which settings
//! applied before a keeper ended, and confirms settings that ask less of people.
//!
//! Guarantees: a passphrase is looked at here only after it was found to be right. It is held for as long as a key is
//! derived from it, on a thread of its own, and then wiped. Nobody who shows the passphrase waits for any of this, but for
//! [`Approvals::confirm`].

use std::io;
use std::sync::{Arc, Weak};

use hostel_syncpoint::points;
use rusqlite::{Transaction, params};
use serde_json::json;
use tokio::sync::mpsc;

use super::approver::Passphrase;
use super::audit::approver::Endorsed;
use super::audit::endorsement::{Endorsement, EndorsementKey};
use super::audit::signatures::ApproverKey;
use super::audit::{self, Event, Line};
use super::policy::Policy;
use super::settings::{self, Judged};
use super::types::DecideError;
use super::who::{Claim, Face};
use super::{Approvals, Inner};
use crate::store::StoreError;

/// A passphrase that was right.
pub(super) enum Proof {
    /// It was shown.
    Shown(Passphrase),
    /// One was set, in the place of another or of none. Its key endorses.
    Set { old: Option<Former>, key: EndorsementKey },
}

/// A passphrase that was in force, and its key if it has signed the change to the next one.
pub(super) struct Former {
    pub(super) passphrase: Passphrase,
    pub(super) key: Option<EndorsementKey>,
}

/// Proofs that wait at most: one more of the same passphrase is worth nothing.
pub(super) const MAX_PROOFS: usize = 4;

/// Which settings about consent are in force, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyStatus {
    /// What is in force.
    pub policy: Policy,
    /// What the settings say and the approver has not confirmed, in words.
    pub unconfirmed: Vec<String>,
}

/// Does what follows from each proof, for as long as there is a house.
pub(super) async fn run(inner: Weak<Inner>, mut proofs: mpsc::Receiver<Proof>) {
    while let Some(proof) = proofs.recv().await {
        let Some(held) = inner.upgrade() else { return };
        // What fails here is tried again with the next proof; nothing depends on it meanwhile.
        Approvals { inner: held }.vouch(proof).await.ok();
    }
}

impl Approvals {
    /// Which settings about consent are in force.
    #[must_use]
    pub fn policy_status(&self) -> PolicyStatus {
        let in_force = self.inner.in_force.lock();
        PolicyStatus { policy: in_force.policy.clone(), unconfirmed: in_force.unconfirmed.clone() }
    }

    /// Confirms what the settings say. Takes the passphrase. Gives what was confirmed, in words.
    pub async fn confirm(&self, claim: &Claim) -> Result<Vec<String>, DecideError> {
        self.may_decide(&claim.peer).await.map_err(DecideError::Refused)?;
        let Face::Passphrase(passphrase) = &claim.face else {
            return Err(DecideError::Refused("settings are confirmed with the approver's passphrase".to_owned()));
        };
        self.inner.approver.verify(passphrase, &claim.label).await?;
        // What can be proved needs no confirmation.
        self.vouch(Proof::Shown(passphrase.clone())).await?;
        let in_force = self.inner.in_force.lock().clone();
        let unconfirmed = in_force.unconfirmed.clone();
        if !unconfirmed.is_empty() {
            let mut judged = in_force.confirm();
            for (_, body) in &mut judged.lines {
                body["who"] = json!(claim.label);
            }
            self.apply(judged).await?;
            self.vouch(Proof::Shown(passphrase.clone())).await?;
        }
        Ok(unconfirmed)
    }

    async fn vouch(&self, proof: Proof) -> Result<(), StoreError> {
        let shown = match proof {
            Proof::Shown(passphrase) => passphrase,
            Proof::Set { old, key } => {
                // Whoever sets the passphrase is the approver: what is in force at that moment is what they agree to.
                self.inner.in_force.lock().row.unproved = false;
                let old_segments = match old {
                    Some(old) => self.endorsed_with(old).await?,
                    None => Vec::new(),
                };
                let _no_change = self.inner.approver.hold().await;
                // Unless it is another one by now.
                return match self.inner.approver.key() == Some(ApproverKey::of(&key)) {
                    true => self.endorse(key, None, old_segments).await,
                    false => Ok(()),
                };
            }
        };
        let (in_force, passphrase) = (self.inner.in_force.lock().clone(), shown.clone());
        if let Some(judged) = blocking(move || Ok(in_force.prove(passphrase.bytes()))).await? {
            self.apply(judged).await?;
        }
        if self.is_vouched_for().await? {
            return Ok(());
        }
        let _no_change = self.inner.approver.hold().await;
        if !self.inner.approver.is_set() {
            return Ok(());
        }
        let (known, cost) = (self.inner.approver.key(), self.inner.options.cost);
        let derive = move || {
            let Some(known) = known else {
                return EndorsementKey::fresh(shown.bytes(), cost).map(|key| Some((key, None)));
            };
            // One key for as long as the passphrase is the same: deriving another takes as long again.
            Ok(match known.unlock(shown.bytes())? {
                Some(key) if known.has_cost(cost) => Some((key, None)),
                Some(former) => Some((EndorsementKey::fresh(shown.bytes(), cost)?, Some(former))),
                None => None,
            })
        };
        match blocking(derive).await? {
            Some((key, former)) => self.endorse(key, former, Vec::new()).await,
            // It is not in force any more.
            None => Ok(()),
        }
    }

    /// Whether the present segment of the audit and the settings in force are endorsed, with the passphrase in force.
    async fn is_vouched_for(&self) -> Result<bool, StoreError> {
        if !self.inner.in_force.lock().row.is_endorsed() || self.inner.approver.key().is_none() {
            return Ok(false);
        }
        let Some(first) = self.inner.ledger.segment() else { return Ok(false) };
        let work = move |database: &rusqlite::Connection| {
            let sql = "SELECT 1 FROM audit_endorsements WHERE first = ?";
            Ok(database.prepare_cached(sql)?.exists([first as i64])? && audit::approver::is_attested(database, first)?)
        };
        self.inner.store.read(work).await
    }

    /// The segments that were endorsed with a passphrase, with the keys that verify them and how far they were endorsed.
    async fn endorsed_with(&self, former: Former) -> Result<Vec<(u64, [u8; 32], Endorsement)>, StoreError> {
        let found = self.inner.store.read(audit::endorsements).await?;
        blocking(move || Ok(audit::made_with(&former.passphrase, former.key, found))).await
    }

    /// Endorses the present segment and the settings in force, and again what an earlier passphrase endorsed. `former` is the
    /// key that signs the change to this key, if it is another one. As long as this lasts nobody changes the passphrase.
    async fn endorse(
        &self,
        key: EndorsementKey,
        former: Option<EndorsementKey>,
        again: Vec<(u64, [u8; 32], Endorsement)>,
    ) -> Result<(), StoreError> {
        let (ledger, mut in_force) = (Arc::clone(&self.inner.ledger), self.inner.in_force.lock().clone());
        let (approver, before) = (self.inner.approver.clone(), self.inner.approver.key());
        let work = move |transaction: &Transaction<'_>| {
            audit::meet(transaction, &ledger)?;
            if ledger.segment().is_none() {
                audit::begin_segment(transaction, &ledger)?;
            }
            let first = ledger.segment().unwrap_or_default();
            let body = Endorsed::new(&key, first, &ledger.segment_key(), &in_force.row.text).body();
            let signer = former.as_ref().unwrap_or(&key);
            audit::append_signed(transaction, &ledger, Event::Endorsed, body, Some(signer))?;
            approver.adopt_key(transaction, ApproverKey::of(&key))?;
            for (first, public, earlier) in &again {
                save_endorsement(transaction, *first, &audit::endorse_again(&key, *first, public, earlier))?;
            }
            let endorsement = audit::endorse(&key, first, &ledger.segment_key(), ledger.head());
            save_endorsement(transaction, first, &endorsement)?;
            in_force.row.endorse(&key);
            settings::save(transaction, &ledger, &in_force.row)?;
            Ok(in_force.row)
        };
        let written = self.inner.store.write(points::SEGMENT_ENDORSED, work).await;
        if written.is_err() {
            self.inner.approver.restore_key(before);
        }
        let row = written?;
        let mut in_force = self.inner.in_force.lock();
        // Others may have come into force meanwhile; those are endorsed with the next proof.
        if in_force.row.text == row.text {
            in_force.row = row;
        }
        Ok(())
    }

    /// Puts a policy in force: written down first.
    async fn apply(&self, judged: Judged) -> Result<(), StoreError> {
        let Judged { in_force, lines, report } = judged;
        let (ledger, row) = (Arc::clone(&self.inner.ledger), in_force.row.clone());
        let work = move |transaction: &Transaction<'_>| {
            settings::save(transaction, &ledger, &row)?;
            let line = |(event, body): &(Event, serde_json::Value)| {
                let body = body.clone();
                Line { event: *event, approval: "", body }
            };
            let lines: Vec<Line<'_>> = lines.iter().map(line).collect();
            if lines.is_empty() { Ok(()) } else { audit::append(transaction, &ledger, &lines) }
        };
        self.inner.store.write(points::POLICY_STORED, work).await?;
        *self.inner.policy.write() = Arc::new(in_force.policy.clone());
        *self.inner.in_force.lock() = in_force;
        if let Some(report) = report {
            self.inner.alarms.raise(report);
        }
        Ok(())
    }

    /// The approver's file is another than what is in force.
    pub(super) async fn record_changed_file(&self) -> Result<(), StoreError> {
        let ledger = Arc::clone(&self.inner.ledger);
        let work = move |transaction: &Transaction<'_>| {
            let body = json!({"what": "approver_file"});
            audit::append(transaction, &ledger, &[Line { event: Event::Tampered, approval: "", body }])
        };
        self.inner.store.write(points::TAMPERING_RECORDED, work).await?;
        self.inner.alarms.raise(
            "the file with the digest of the approver's passphrase was changed; the passphrase of before counts. If you \
             changed it through another house: `hostel approver set`"
                .to_owned(),
        );
        Ok(())
    }
}

fn save_endorsement(transaction: &Transaction<'_>, first: u64, endorsement: &Endorsement) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO audit_endorsements (first, endorsement) VALUES (?, ?)")?
        .execute(params![first as i64, endorsement.text()])
        .map(drop)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, StoreError> {
    let done = hostel_tasks::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| StoreError::Busy(error.to_string()))
}
