//! Telling what the house wrote from what somebody else did, while the daemon runs.
//!
//! Guarantees: what these functions call authentic is what the house wrote last. Whoever reads beside the writer may see a
//! row that is being replaced, so a difference is looked at again on the writing thread before it is called tampering. A
//! pending request whose row was changed is denied; a row that was changed otherwise is written again as the house knows it,
//! or has no effect any more.

use hostel_syncpoint::{SyncPoint, points};
use rusqlite::Transaction;
use serde_json::json;

use super::asking::decided;
use super::audit::{self, Event, Line};
use super::loading::{CHANGED, deny};
use super::types::{Approval, RunState, State};
use super::{Approvals, grants, rows, settings};
use crate::processes::ProcessId;
use crate::seals::{Ledger, Table};
use crate::sessions::now_ns;
use crate::sessions::prompts::{self, PromptRow};
use crate::sessions::rights;
use crate::store::StoreError;

/// What is found on disk of a request.
pub(super) enum Found {
    /// What the house wrote last.
    Ours(Box<Approval>),
    /// The request can have no effect any more.
    Closed,
    /// Something else than the house wrote: the word for the state it claims, or that there is nothing.
    Changed(&'static str),
}

impl Approvals {
    /// Looks at the row of a request that can still have an effect. On the writing thread alone.
    pub(super) fn look(&self, transaction: &Transaction<'_>, no: u64) -> rusqlite::Result<Found> {
        let ledger = &self.inner.ledger;
        let Some(known) = ledger.get(rows::key(no)) else { return Ok(Found::Closed) };
        Ok(match rows::by_no(transaction, no)? {
            Some(approval) if rows::seal_of(ledger, &approval) == known => Found::Ours(Box::new(approval)),
            Some(approval) => Found::Changed(approval.state.word()),
            None => Found::Changed("missing"),
        })
    }

    /// Whether a request is what the house wrote last of it.
    pub(super) fn is_authentic(&self, approval: &Approval) -> bool {
        let ledger = &self.inner.ledger;
        let (seal, known) = (rows::seal_of(ledger, approval), ledger.get(rows::key(approval.no)));
        match approval.stored.open {
            true => known == Some(seal),
            false => known.is_none() && approval.stored.seal == Some(seal),
        }
    }

    /// Whether the house itself decided that this is to be carried out.
    pub(crate) fn vouches_for(&self, approval: &Approval) -> bool {
        approval.state == State::Approved && self.is_authentic(approval)
    }

    /// A request that is to be carried out, as the house itself decided it. Whoever hands it in may have read it before the
    /// keeper ended and everything was sealed anew: such a copy stands for the same decision. None if the house has decided
    /// nothing like it.
    pub(crate) fn as_decided(&self, approval: &Approval) -> Option<Approval> {
        if approval.state != State::Approved {
            return None;
        }
        if self.vouches_for(approval) {
            return Some(approval.clone());
        }
        let known = self.inner.running.lock().get(&approval.id).cloned()?;
        let is_same = (known.no, known.digest, &known.runs) == (approval.no, approval.digest, &approval.runs);
        let is_open = known.stored.seal.is_some() && self.inner.ledger.get(rows::key(known.no)) == known.stored.seal;
        (is_same && is_open && known.state == State::Approved).then_some(known)
    }

    /// A request as the house knows it: nothing that somebody else wrote into its row counts. None if there is none.
    pub(crate) async fn authentic(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        let waiting = self.inner.table.lock().by_id(id).cloned();
        if waiting.is_some() {
            return Ok(waiting);
        }
        let wanted = id.to_owned();
        let found = self.inner.store.read(move |database| rows::by_id(database, &wanted)).await?;
        match found {
            Some(approval) if !self.is_authentic(&approval) => self.second_look(approval.no).await,
            found => Ok(found),
        }
    }

    /// These requests, likewise, in the same order and as far as they are there.
    pub(super) async fn all_authentic(&self, found: Vec<Approval>) -> Result<Vec<Approval>, StoreError> {
        let mut authentic = Vec::with_capacity(found.len());
        for approval in found {
            let waiting = self.inner.table.lock().by_no(approval.no).cloned();
            match waiting {
                Some(waiting) => authentic.push(waiting),
                None if self.is_authentic(&approval) => authentic.push(approval),
                None => authentic.extend(self.second_look(approval.no).await?),
            }
        }
        Ok(authentic)
    }

    /// Looks at a row once more where nobody writes meanwhile. What is still not the house's own was not agreed to.
    async fn second_look(&self, no: u64) -> Result<Option<Approval>, StoreError> {
        let found = self.inner.store.write(SyncPoint::NONE, move |transaction| rows::by_no(transaction, no)).await?;
        let Some(mut approval) = found else { return Ok(None) };
        let waiting = self.inner.table.lock().by_no(no).cloned();
        if waiting.is_some() {
            return Ok(waiting);
        }
        if !self.is_authentic(&approval) {
            let decided_ns = approval.decided_ns;
            deny(&mut approval, CHANGED, decided_ns);
        }
        Ok(Some(approval))
    }

    /// Somebody has changed the row of a request that waits: it is denied, as the house knows it, and written again. Part of
    /// a write. None if it does not wait any more.
    pub(super) fn deny_changed(
        &self,
        transaction: &Transaction<'_>,
        no: u64,
        found: &str,
    ) -> rusqlite::Result<Option<Approval>> {
        let ledger = &self.inner.ledger;
        let waiting = self.inner.table.lock().by_no(no).cloned();
        // What the house wrote last is what it remembers; otherwise somebody else is settling it at this moment.
        let Some(mut approval) = waiting.filter(|waiting| waiting.stored.seal == ledger.get(rows::key(no))) else {
            return Ok(None);
        };
        deny(&mut approval, CHANGED, now_ns());
        rows::restore(transaction, ledger, &mut approval)?;
        let body = json!({"what": "approval", "found": found});
        let tampered = Line { event: Event::Tampered, approval: &approval.id, body };
        audit::append(transaction, ledger, &[tampered, decided(&approval)])?;
        ledger.report(format!("the request {} was changed in state.db while it waited; it is denied", approval.id));
        Ok(Some(approval))
    }

    /// Somebody else has written to the database: every row that can still have an effect is looked at.
    pub(super) async fn inspect(&self) -> Result<(), StoreError> {
        let approvals = self.clone();
        let work = move |transaction: &Transaction<'_>| approvals.inspect_now(transaction);
        let (denied, revoked) = self.inner.store.write(points::TAMPERING_RECORDED, work).await?;
        self.inner.grants.lock().retain(|grant| !revoked.contains(&grant.no));
        let mut table = self.inner.table.lock();
        for approval in &denied {
            table.settled(approval);
        }
        drop(table);
        if !denied.is_empty() {
            self.tell();
        }
        Ok(())
    }

    fn inspect_now(&self, transaction: &Transaction<'_>) -> rusqlite::Result<(Vec<Approval>, Vec<u64>)> {
        let ledger = &self.inner.ledger;
        audit::meet(transaction, ledger)?;
        let mut denied = Vec::new();
        for (no, _) in ledger.rows_of(Table::Approval) {
            if let Found::Changed(found) = self.look(transaction, no)? {
                match self.deny_changed(transaction, no, found)? {
                    Some(approval) => denied.push(approval),
                    None => self.restore_settled(transaction, no, found)?,
                }
            }
        }
        for mut approval in rows::open(transaction)? {
            if ledger.get(rows::key(approval.no)).is_none() {
                let found = approval.state.word();
                deny(&mut approval, CHANGED, now_ns());
                rows::close(transaction, ledger, &mut approval)?;
                self.tampered(transaction, &approval.id, &json!({"what": "approval", "found": found}), || {
                    format!("somebody put the request {} into state.db; it is denied", approval.id)
                })?;
            }
        }
        let revoked = self.inspect_grants(transaction)?;
        for what in self.inner.approver.inspect(transaction)? {
            self.tampered(transaction, "", &json!({"what": what}), || {
                format!("somebody has changed what state.db holds of the passphrase ({what}); it is written again")
            })?;
        }
        self.inspect_sessions(transaction)?;
        self.inspect_prompts(transaction)?;
        let row = self.inner.in_force.lock().row.clone();
        if settings::load(transaction)?.is_none_or(|found| (found.text != row.text) || found.unproved != row.unproved) {
            settings::save(transaction, ledger, &row)?;
            self.tampered(transaction, "", &json!({"what": "settings"}), || {
                "somebody has changed the stored settings about consent; they are written again".to_owned()
            })?;
        }
        Ok((denied, revoked))
    }

    fn tampered(
        &self,
        transaction: &Transaction<'_>,
        approval: &str,
        body: &serde_json::Value,
        report: impl FnOnce() -> String,
    ) -> rusqlite::Result<()> {
        let ledger = &self.inner.ledger;
        audit::append(transaction, ledger, &[Line { event: Event::Tampered, approval, body: body.clone() }])?;
        ledger.report(report());
        Ok(())
    }

    /// The row of a request that was decided is another. What is being carried out goes on as it was decided; any other
    /// decision is void.
    fn restore_settled(&self, transaction: &Transaction<'_>, no: u64, found: &str) -> rusqlite::Result<()> {
        let ledger = &self.inner.ledger;
        let running = self.inner.running.lock().values().find(|approval| approval.no == no).cloned();
        let known = running.filter(|approval| approval.stored.seal == ledger.get(rows::key(no)));
        let id = match (known, rows::by_no(transaction, no)?) {
            (Some(mut approval), _) => {
                rows::restore(transaction, ledger, &mut approval)?;
                approval.id
            }
            (None, Some(mut approval)) => {
                deny(&mut approval, CHANGED, now_ns());
                rows::close(transaction, ledger, &mut approval)?;
                approval.id
            }
            (None, None) => {
                ledger.set(rows::key(no), None);
                String::new()
            }
        };
        self.tampered(transaction, &id, &json!({"what": "approval", "found": found}), || {
            format!("a request that was decided was changed in state.db ({id})")
        })
    }

    fn inspect_grants(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Vec<u64>> {
        let ledger = &self.inner.ledger;
        let mut revoked = Vec::new();
        for (no, seal) in ledger.rows_of(Table::Grant) {
            let found = grants::by_no(transaction, no)?;
            if found.is_none_or(|grant| grants::seal_of(ledger, &grant) != seal) {
                revoked.push(no);
            }
        }
        let unknown = |(no, _): &(u64, Option<grants::Grant>)| ledger.get(grants::key(*no)).is_none();
        revoked.extend(grants::open(transaction)?.iter().filter(|grant| unknown(grant)).map(|(no, _)| *no));
        for no in &revoked {
            grants::close(transaction, ledger, *no, now_ns())?;
            self.tampered(transaction, "", &json!({"what": "grant", "grant": no}), || {
                format!("grant {no} was changed in state.db; it is taken back")
            })?;
        }
        Ok(revoked)
    }

    /// A session goes on with the rights that it has in memory. The row stays as it is: the next start takes the rights
    /// away.
    fn inspect_sessions(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let ledger = &self.inner.ledger;
        for rights in rights::load(transaction)? {
            let seal = rights.seal(ledger);
            let is_news = ledger.get(rights.key()) != Some(seal) && self.inner.changed_rows.lock().insert(rights.key());
            if is_news {
                let body = rights.body();
                self.tampered(transaction, "", &body, || {
                    format!("session {} was changed in state.db; the change does not count", rights.id)
                })?;
            }
        }
        Ok(())
    }

    /// A prompt is given as it is in memory. One that was put in is done away with; the row of one that was changed stays
    /// as it is, and the next start does away with it.
    fn inspect_prompts(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let ledger = &self.inner.ledger;
        for (prompt, _) in prompts::load(transaction)? {
            match ledger.get(prompt.key()) {
                Some(known) if known == prompt.seal(ledger) => {}
                Some(_) => {
                    if self.inner.changed_rows.lock().insert(prompt.key()) {
                        record_changed_prompt(transaction, ledger, &prompt)?;
                    }
                }
                None => {
                    prompt.strike(transaction, ledger, now_ns())?;
                    record_changed_prompt(transaction, ledger, &prompt)?;
                }
            }
        }
        Ok(())
    }
}

/// Records that somebody else has written a prompt, in the write that does away with it.
pub(crate) fn record_changed_prompt(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    prompt: &PromptRow,
) -> rusqlite::Result<()> {
    audit::append(transaction, ledger, &[Line { event: Event::Tampered, approval: "", body: prompt.body() }])?;
    ledger.report(prompts::report());
    Ok(())
}

/// Records that somebody else has written the row of a session's process, in the write that ends the row.
pub(crate) fn record_changed_process(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: &str,
    process: ProcessId,
) -> rusqlite::Result<()> {
    let body = json!({"what": "process", "session": session, "process": process.to_string()});
    audit::append(transaction, ledger, &[Line { event: Event::Tampered, approval: "", body }])?;
    ledger.report(format!(
        "the stored conversation with the agent of session {session} was changed in state.db, or put back; the agent's \
         process is ended"
    ));
    Ok(())
}

/// Whether a request is being carried out, or is to be.
pub(super) fn is_unfinished(approval: &Approval) -> bool {
    approval.state == State::Approved && matches!(approval.run, RunState::Due | RunState::Started)
}
