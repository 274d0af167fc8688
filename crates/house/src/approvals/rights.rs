//! Rights that are not decisions: who may raise the mode of a session, and the records of changes and refusals.
//!
//! Invariant: somebody inside the house raises nothing. With `approvals.strict` nobody does without the approver's
//! passphrase. Refusals are recorded, but not more of them than a person would read.

use std::sync::Arc;

use hostel_agents::Mode;
use hostel_syncpoint::points;
use rusqlite::Transaction;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::audit::{self, Event, Line};
use super::types::DecideError;
use super::who::{Claim, Face};
use super::{Approvals, cut};
use crate::seals::Ledger;

/// The longest name of somebody that is recorded.
const LONGEST_NAME: usize = 256;

impl Approvals {
    /// Whether somebody may raise the mode of a session: from outside the house, and with the passphrase where the
    /// settings demand it everywhere.
    pub async fn may_raise_mode(&self, claim: &Claim) -> Result<(), DecideError> {
        self.may_decide(&claim.peer).await.map_err(DecideError::Refused)?;
        match &claim.face {
            Face::Unlocked(_) | Face::Passphrase(_) => self.proven(claim).await,
            _ if self.is_strict() => Err(DecideError::Refused(
                "raising a mode takes the approver's passphrase, because `approvals.strict` is set".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Records that something was refused to somebody inside the house; not more often than a person would read.
    pub(crate) async fn record_refusal(&self, body: Value) {
        let taken = self.inner.refusals.lock().take(Instant::now(), body);
        let Some(body) = taken else { return };
        let ledger = Arc::clone(&self.inner.ledger);
        let work = move |transaction: &Transaction<'_>| {
            audit::append(transaction, &ledger, &[Line { event: Event::Refused, approval: "", body }])
        };
        // What was refused stays refused, even if that cannot be recorded.
        self.inner.store.write(points::REFUSAL_RECORDED, work).await.ok();
    }
}

/// Records a change of a session's mode, in the write that makes it.
pub(crate) fn record_mode(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: &str,
    before: Mode,
    after: Mode,
    who: &str,
) -> rusqlite::Result<()> {
    let body = json!({
        "session": session, "old": before.name(), "new": after.name(), "who": cut(who, LONGEST_NAME),
    });
    audit::append(transaction, ledger, &[Line { event: Event::ModeChanged, approval: "", body }])
}
