//! Another keeper while the daemon lives: the key of before is lost, and everything is sealed anew.
//!
//! The daemon still knows what waits and what was decided, so nobody is asked again. What a lost key makes void is void all
//! the same: grants are taken back, and a pause after wrong passphrases counts as the longest. What was approved and not
//! started is never started, because the keeper that would have started it is gone.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hostel_syncpoint::points;
use rusqlite::Transaction;
use serde_json::json;

use super::audit::{self, Event, Line};
use super::checking::Found;
use super::{Approvals, Inner, grants, rows, settings};
use crate::seals::{HouseKey, KeyChanges, Table};
use crate::sessions::{ProcessRows, now_ns};
use crate::sessions::{prompts, rights};
use crate::store::StoreError;

/// Takes over each key that comes, for as long as there is a house.
pub(super) async fn run(inner: Weak<Inner>, mut keys: KeyChanges) {
    loop {
        let key = keys.borrow_and_update().clone();
        let Some(held) = inner.upgrade() else { return };
        // Without a key what is decided counts for as long as this daemon lives, which is so already.
        let taken = match key {
            Some(key) => Approvals { inner: held }.rekey(key).await,
            None => Ok(()),
        };
        match taken {
            Ok(()) => {}
            Err(StoreError::Closed) => return,
            Err(_) => {
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        }
        if keys.changed().await.is_err() {
            return;
        }
    }
}

/// How long until a disk that refused is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

impl Approvals {
    /// The keeper has another key. Does nothing if it is the one that is in use.
    pub async fn rekey(&self, key: Arc<HouseKey>) -> Result<(), StoreError> {
        if self.inner.ledger.key_id() == key.id() {
            return Ok(());
        }
        let approvals = self.clone();
        let work = move |transaction: &Transaction<'_>| approvals.rekey_now(transaction, &key);
        let (changed, revoked) = self.inner.store.write(points::HOUSE_REKEYED, work).await?;
        self.inner.grants.lock().clear();
        let mut table = self.inner.table.lock();
        for approval in changed {
            if let Some(waiting) = table.get_mut(approval.no) {
                *waiting = approval;
            }
        }
        drop(table);
        let lost = match revoked {
            0 => String::new(),
            1 => "; 1 grant is void".to_owned(),
            many => format!("; {many} grants are void"),
        };
        self.inner.alarms.raise(format!("the keeper died, and with it the key that proved what was decided{lost}"));
        self.tell();
        Ok(())
    }

    fn rekey_now(
        &self,
        transaction: &Transaction<'_>,
        key: &HouseKey,
    ) -> rusqlite::Result<(Vec<super::Approval>, usize)> {
        let ledger = &self.inner.ledger;
        audit::meet(transaction, ledger)?;
        // With the key of before: what does not fit to it is not taken over.
        let mut open = Vec::new();
        for (no, _) in ledger.rows_of(Table::Approval) {
            if let Found::Ours(approval) = self.look(transaction, no)? {
                open.push(*approval);
            }
        }
        let sessions: Vec<_> = rights::load(transaction)?
            .into_iter()
            .filter(|rights| ledger.get(rights.key()) == Some(rights.seal(ledger)))
            .collect();
        let prompts: Vec<_> =
            prompts::load(transaction)?.into_iter().filter(|(prompt, _)| prompt.is_ours(ledger)).collect();
        let processes = ProcessRows::load(transaction, ledger)?;
        let given: Vec<u64> = ledger.rows_of(Table::Grant).into_iter().map(|(no, _)| no).collect();
        // Whoever compares what is to be carried out with the ledger waits until both are sealed anew.
        let mut running = self.inner.running.lock();
        ledger.rekey(key, Arc::clone(&self.inner.options.vault));
        for approval in &mut open {
            rows::update(transaction, ledger, approval)?;
        }
        for approval in &open {
            if let Some(known) = running.get_mut(&approval.id) {
                known.clone_from(approval);
            }
        }
        drop(running);
        for rights in sessions {
            rights.write(transaction, ledger)?;
        }
        for (prompt, _) in prompts {
            prompt.write(transaction, ledger)?;
        }
        processes.reseal(transaction, ledger)?;
        let now = now_ns();
        for no in &given {
            grants::close(transaction, ledger, *no, now)?;
        }
        let policy = self.policy();
        self.inner.approver.reseal(transaction, policy.lockout)?;
        settings::save(transaction, ledger, &self.inner.in_force.lock().row)?;
        let body = json!({"grants": given.len()});
        audit::append(transaction, ledger, &[Line { event: Event::KeyLost, approval: "", body }])?;
        Ok((open, given.len()))
    }
}
