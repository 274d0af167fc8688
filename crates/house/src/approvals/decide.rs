//! Settling a request: by a person who may, by the clock, or because whoever asked has left.
//!
//! Invariant: exactly one of several that race succeeds, and it is on disk with its record before anybody hears of it. Who
//! decides is looked at first, then the passphrase; nothing that comes late is taken, even if the clock has not been heard
//! yet. A decision counts even if whoever made it stops waiting. Whoever waits hears of it from memory; a row that says
//! something else than the house wrote is denied.

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Decision;
use hostel_syncpoint::{SyncPoint, points};
use rusqlite::Transaction;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::asking::{choose_runs, decided};
use super::audit::{self, Event, Line};
use super::checking::Found;
use super::grants::{self, Grant, GrantTerms};
use super::loading::CHANGED;
use super::types::{Approval, DecideError, Kind, State};
use super::who::{self, Claim, Face};
use super::{Approvals, changeable, cut, rows, session_grant};
use crate::sessions::now_ns;
use crate::store::StoreError;

/// Refused deciders that are recorded in a minute: whoever tries forever must not fill the disk.
const REFUSALS: u32 = 60;

/// Why a question is over that disappeared although the house had not answered it.
pub(super) const ANSWERED_ELSEWHERE: &str = "the agent does not ask any more, and the house had not answered";

/// Counts refusals.
#[derive(Default)]
pub(super) struct Refusals {
    since: Option<Instant>,
    count: u32,
    /// Refusals that were not recorded since the last one that was.
    silenced: u64,
}

impl Refusals {
    /// Whether one more record is written, and if so the body with the refusals before it that were not recorded, as
    /// `silenced`. A body may stand for more than one refusal: for identical ones (`unrecorded`) and others (`silenced`).
    pub(super) fn take(&mut self, now: Instant, mut body: Value) -> Option<Value> {
        if self.since.is_none_or(|since| now - since > Duration::from_secs(60)) {
            (self.since, self.count) = (Some(now), 0);
        }
        let told = |name: &str| body[name].as_u64().unwrap_or(0);
        let (identical, others) = (told("unrecorded"), told("silenced"));
        if self.count >= REFUSALS {
            self.silenced = self.silenced.saturating_add(1 + identical + others);
            return None;
        }
        self.count += 1;
        let silenced = std::mem::take(&mut self.silenced).saturating_add(others);
        if silenced > 0 {
            body["silenced"] = silenced.into();
        }
        Some(body)
    }
}

/// How a request is settled.
pub(super) struct Settlement {
    pub(super) state: State,
    pub(super) decision: Option<Decision>,
    pub(super) decider: String,
    /// Why, where nobody decided.
    pub(super) why: String,
    /// What is granted beyond it.
    pub(super) grant: Option<Grant>,
}

impl Settlement {
    pub(super) fn without_decision(state: State, why: &str) -> Self {
        Settlement { state, decision: None, decider: String::new(), why: why.to_owned(), grant: None }
    }
}

/// What became of an attempt to settle.
enum Settling {
    /// It is settled as was wanted, with the number of the grant.
    Done(Box<Approval>, Option<Box<Grant>>),
    /// It was pending and too late: it has expired.
    Late(Box<Approval>),
    /// Its row was changed by somebody else: it is denied.
    Changed(Box<Approval>),
    /// It was settled before.
    Before,
    /// It was to expire, and its clock was set anew since.
    NotYet,
}

impl Approvals {
    /// Settles a request, if whoever decides may. Exactly one of several that race succeeds.
    pub async fn decide(&self, id: &str, decision: Decision, claim: &Claim) -> Result<Approval, DecideError> {
        let (approvals, id, claim) = (self.clone(), id.to_owned(), claim.clone());
        let work = async move { approvals.decide_now(&id, decision, None, &claim).await.map(|(approval, _)| approval) };
        detached(work).await
    }

    /// Approves a request, and with it what the terms say. The number of the grant comes with it.
    pub async fn decide_with_grant(
        &self,
        id: &str,
        terms: GrantTerms,
        claim: &Claim,
    ) -> Result<(Approval, u64), DecideError> {
        let (approvals, id, claim) = (self.clone(), id.to_owned(), claim.clone());
        detached(async move { approvals.decide_now(&id, Decision::AllowOnce, Some(terms), &claim).await }).await
    }

    async fn decide_now(
        &self,
        id: &str,
        decision: Decision,
        terms: Option<GrantTerms>,
        claim: &Claim,
    ) -> Result<(Approval, u64), DecideError> {
        if let Err(why) = self.may_decide(&claim.peer).await {
            return Err(self.refuse(id, claim, why).await);
        }
        let waiting = self.inner.table.lock().by_id(id).cloned();
        let Some(approval) = waiting else { return Err(self.not_pending(id).await) };
        let allowed = who::may_by(&claim.face, &approval, self.is_strict())
            .and_then(|()| makes_sense(&decision, terms.is_some(), &approval, &claim.face));
        let another = who::is_another(&claim.peer, &approval).await;
        if let Err(why) = allowed.and(another) {
            return Err(self.refuse(id, claim, why).await);
        }
        // Before the passphrase: terms that make no sense cost no attempt.
        let grant = terms.map(|terms| self.new_grant(&terms, &approval, &claim.label)).transpose()?;
        self.proven(claim).await?;
        let settlement = settlement(&approval, decision, claim, grant);
        let gives_session_grant = settlement.decision == Some(Decision::AllowAlways);
        match self.settle(&approval, settlement).await? {
            Settling::Done(approval, grant) => {
                if gives_session_grant {
                    self.inner.session_grant.give(&approval);
                }
                let no = grant.map_or(0, |grant| grant.no);
                Ok((*approval, no))
            }
            Settling::Late(approval) => Err(DecideError::Settled(approval.state)),
            Settling::Changed(_) => Err(DecideError::Refused(format!("it is denied: {CHANGED}"))),
            Settling::Before | Settling::NotYet => Err(self.not_pending(id).await),
        }
    }

    pub(super) async fn proven(&self, claim: &Claim) -> Result<(), DecideError> {
        match &claim.face {
            Face::Socket | Face::Terminal | Face::Pkexec => Ok(()),
            Face::Unlocked(unlock) => self.inner.approver.accepts(unlock),
            Face::Passphrase(passphrase) => self.inner.approver.verify(passphrase, &claim.label).await.map(drop),
        }
    }

    async fn not_pending(&self, id: &str) -> DecideError {
        match self.get(id).await {
            Ok(Some(approval)) => DecideError::Settled(approval.state),
            Ok(None) => DecideError::NotFound(id.to_owned()),
            Err(error) => error.into(),
        }
    }

    /// Somebody who may not has tried.
    async fn refuse(&self, id: &str, claim: &Claim, why: String) -> DecideError {
        let body = json!({"who": cut(&claim.label, 256), "peer": claim.peer.to_string(), "why": why});
        let taken = self.inner.refusals.lock().take(Instant::now(), body);
        if let Some(body) = taken {
            let id = cut(id, 256).to_owned();
            let ledger = Arc::clone(&self.inner.ledger);
            let work = move |transaction: &Transaction<'_>| {
                audit::append(transaction, &ledger, &[Line { event: Event::Refused, approval: &id, body }])
            };
            // Refused it is, even if that cannot be recorded.
            self.inner.store.write(points::REFUSAL_RECORDED, work).await.ok();
        }
        DecideError::Refused(why)
    }

    fn new_grant(&self, terms: &GrantTerms, approval: &Approval, label: &str) -> Result<Grant, DecideError> {
        let fixed = terms.fix(approval).map_err(DecideError::Refused)?;
        let now = now_ns();
        let mut open = self.inner.grants.lock();
        open.retain(|grant| grant.expires_ns > now);
        if open.len() >= grants::MOST {
            return Err(DecideError::Refused(format!("{} grants are open already; revoke some", grants::MOST)));
        }
        Ok(Grant {
            no: 0,
            approval: approval.id.clone(),
            decider: cut(label, 256).to_owned(),
            terms: fixed,
            uses_left: terms.count.map(u64::from),
            used: 0,
            created_ns: now,
            expires_ns: now.saturating_add(u64::try_from(terms.lasts.as_nanos()).unwrap_or(u64::MAX)),
            revoked_ns: 0,
            terms_text: String::new(),
        })
    }

    /// The grants that are open.
    pub async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        let ledger = Arc::clone(&self.inner.ledger);
        // On the writing thread: a grant that is being used at this moment is not mistaken for one that was changed.
        let work = move |transaction: &Transaction<'_>| {
            let now = now_ns();
            let found = grants::open(transaction)?.into_iter().filter_map(|(_, grant)| grant);
            let ours = |grant: &Grant| ledger.get(grants::key(grant.no)) == Some(grants::seal_of(&ledger, grant));
            Ok(found.filter(|grant| grant.expires_ns > now && ours(grant)).collect())
        };
        self.inner.store.write(SyncPoint::NONE, work).await
    }

    /// Takes a grant back; takes the passphrase. Says whether there was one.
    pub async fn revoke(&self, grant: u64, claim: &Claim) -> Result<bool, DecideError> {
        if let Err(why) = self.may_decide(&claim.peer).await {
            return Err(self.refuse("", claim, why).await);
        }
        // To take back what was allowed is harmless; a key on the terminal will do where it would do to decide.
        if matches!(claim.face, Face::Socket | Face::Pkexec)
            || (self.is_strict() && matches!(claim.face, Face::Terminal))
        {
            let why = "a grant is taken back with the approver's passphrase".to_owned();
            return Err(self.refuse("", claim, why).await);
        }
        self.proven(claim).await?;
        let label = cut(&claim.label, 256).to_owned();
        let ledger = Arc::clone(&self.inner.ledger);
        let work = move |transaction: &Transaction<'_>| {
            let revoked = grants::revoke(transaction, &ledger, grant, now_ns())?;
            if revoked {
                let body = json!({"grant": grant, "who": label});
                audit::append(transaction, &ledger, &[Line { event: Event::Revoked, approval: "", body }])?;
            }
            Ok(revoked)
        };
        let revoked = self.inner.store.write(points::GRANT_REVOKED, work).await?;
        self.inner.grants.lock().retain(|open| open.no != grant);
        Ok(revoked)
    }

    /// Whoever asked no longer wants to know. Says whether it waited still.
    pub async fn withdraw_request(&self, id: &str, why: &str) -> Result<bool, StoreError> {
        let waiting = self.inner.table.lock().by_id(id).cloned();
        match waiting {
            Some(approval) => self.end(&approval, State::Withdrawn, why).await,
            None => Ok(false),
        }
    }

    /// Settles a request that nobody decided. Says whether it waited still, and not for too long.
    pub(super) async fn end(&self, approval: &Approval, state: State, why: &str) -> Result<bool, StoreError> {
        let (approvals, approval) = (self.clone(), approval.clone());
        let settlement = Settlement::without_decision(state, why);
        let work = async move { approvals.settle(&approval, settlement).await };
        let settled = hostel_tasks::spawn(work).await.unwrap_or(Err(StoreError::Closed))?;
        Ok(matches!(settled, Settling::Done(..)))
    }

    /// Waits until a request is settled.
    pub async fn settled(&self, id: &str) -> Result<Approval, StoreError> {
        let waiting = self.inner.table.lock().hear(id);
        if let Some(mut waiting) = waiting
            && let Ok(told) = waiting.wait_for(Option::is_some).await
            && let Some(approval) = told.as_ref()
        {
            return Ok(Approval::clone(approval));
        }
        // It was settled before, or with the process that asked.
        self.authentic(id).await?.ok_or_else(|| StoreError::Busy(format!("there is no approval `{id}`")))
    }

    async fn settle(&self, approval: &Approval, settlement: Settlement) -> Result<Settling, StoreError> {
        let no = approval.no;
        let runs = match settlement.state {
            State::Approved => choose_runs(&approval.subject)?,
            _ => Vec::new(),
        };
        let approvals = self.clone();
        let work = move |transaction: &Transaction<'_>| {
            let ledger = &approvals.inner.ledger;
            let mut approval = match approvals.look(transaction, no)? {
                Found::Ours(approval) if approval.state == State::Pending => *approval,
                Found::Ours(_) | Found::Closed => return Ok(Settling::Before),
                Found::Changed(found) => {
                    let denied = approvals.deny_changed(transaction, no, found)?;
                    return Ok(denied.map_or(Settling::Before, |denied| Settling::Changed(Box::new(denied))));
                }
            };
            let Settlement { state, decision, decider, why, grant } = settlement;
            let late = approval.expires_ns <= now_ns();
            if late && !matches!(state, State::Withdrawn) {
                approval.state = State::Expired;
                approval.decided_ns = now_ns();
                rows::update(transaction, ledger, &mut approval)?;
                let expired = Line { event: Event::Expired, approval: &approval.id, body: json!({}) };
                audit::append(transaction, ledger, &[expired])?;
                return Ok(Settling::Late(Box::new(approval)));
            }
            if state == State::Expired {
                return Ok(Settling::NotYet);
            }
            approval.stored.decision = decision.as_ref().and_then(|decision| serde_json::to_string(decision).ok());
            (approval.decision, approval.decider) = (decision, decider);
            match state {
                State::Approved => approvals.approve(&mut approval, runs),
                other => (approval.state, approval.decided_ns) = (other, now_ns()),
            }
            rows::update(transaction, ledger, &mut approval)?;
            let grant = record(transaction, &approvals, &approval, &why, grant)?;
            Ok(Settling::Done(Box::new(approval), grant.map(Box::new)))
        };
        let settled = self.inner.store.write(points::APPROVAL_SETTLED, work).await?;
        match &settled {
            Settling::Done(approval, grant) => {
                self.inner.grants.lock().extend(grant.as_deref().cloned());
                self.remember(approval);
                self.inner.table.lock().settled(approval);
            }
            Settling::Late(approval) | Settling::Changed(approval) => self.inner.table.lock().settled(approval),
            // Whatever settled it has told, or will; what is gone from the disk waits for nobody.
            Settling::Before => drop(self.inner.table.lock().remove(|waiting| waiting.no == no)),
            Settling::NotYet => return Ok(settled),
        }
        self.tell();
        Ok(settled)
    }
}

/// Writes down what was granted, and the records of the whole.
fn record(
    transaction: &Transaction<'_>,
    approvals: &Approvals,
    approval: &Approval,
    why: &str,
    grant: Option<Grant>,
) -> rusqlite::Result<Option<Grant>> {
    let ledger = &approvals.inner.ledger;
    if approval.state == State::Withdrawn {
        let event = if why == ANSWERED_ELSEWHERE { Event::AnsweredElsewhere } else { Event::Withdrawn };
        let body = json!({"why": cut(why, 256)});
        audit::append(transaction, ledger, &[Line { event, approval: &approval.id, body }])?;
        return Ok(None);
    }
    let mut lines = vec![decided(approval)];
    let always = approval.decision == Some(Decision::AllowAlways);
    if always && approvals.inner.session_grant.eligible() && session_grant::concerns(approval) {
        let body = json!({"grant": session_grant::NAME, "decider": cut(&approval.decider, 256)});
        lines.push(Line { event: Event::Granted, approval: &approval.id, body });
    }
    let Some(mut grant) = grant else {
        audit::append(transaction, ledger, &lines)?;
        return Ok(None);
    };
    grants::insert(transaction, ledger, &mut grant)?;
    let body = json!({
        "grant": grant.no,
        "decider": grant.decider,
        "terms": serde_json::to_value(&grant.terms).unwrap_or_default(),
        "uses": grant.uses_left,
        "expires_ns": grant.expires_ns,
    });
    lines.push(Line { event: Event::Granted, approval: &approval.id, body });
    audit::append(transaction, ledger, &lines)?;
    Ok(Some(grant))
}

/// Whether a decision answers such a request, and whether a grant may be given by such a way; why not, in words.
fn makes_sense(decision: &Decision, grants: bool, approval: &Approval, face: &Face) -> Result<(), String> {
    if matches!(decision, Decision::Answers(_)) && approval.kind != Kind::Tool {
        return Err("only an agent's choices have answers".to_owned());
    }
    changeable::check(decision, grants, approval)?;
    match face {
        Face::Socket | Face::Pkexec if grants => Err("a grant takes the approver's passphrase".to_owned()),
        _ => Ok(()),
    }
}

/// What a decision comes to. "Always" is no answer to anything that root does: it is refused, as the contract has it.
fn settlement(approval: &Approval, decision: Decision, claim: &Claim, grant: Option<Grant>) -> Settlement {
    let (state, decision) = match (decision, approval.kind) {
        (Decision::AllowAlways, Kind::Privileged) => {
            (State::Denied, Decision::Reject("what root does is never allowed for good".to_owned()))
        }
        (
            decision @ (Decision::AllowOnce | Decision::AllowChangeable | Decision::AllowAlways | Decision::Answers(_)),
            _,
        ) => (State::Approved, decision),
        (decision @ (Decision::Reject(_) | Decision::RejectWithEdit(_)), _) => (State::Denied, decision),
    };
    Settlement {
        state,
        decision: Some(decision),
        decider: cut(&claim.label, 256).to_owned(),
        why: String::new(),
        grant,
    }
}

async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, DecideError>> + Send + 'static,
) -> Result<T, DecideError> {
    hostel_tasks::spawn(work).await.unwrap_or(Err(DecideError::Store(StoreError::Closed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_refused_deciders_are_recorded_in_a_minute() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let recorded = |refusals: &mut Refusals, at: Instant| {
            (0..2 * REFUSALS).filter(|_| refusals.take(at, json!({})).is_some()).count()
        };
        assert_eq!(recorded(&mut refusals, start), REFUSALS as usize);
        let minute = Duration::from_secs(60);
        assert_eq!(recorded(&mut refusals, start + minute), 0);
        let after = start + minute + Duration::from_nanos(1);
        assert_eq!((recorded(&mut refusals, after), recorded(&mut refusals, after + minute)), (REFUSALS as usize, 0));
    }

    #[test]
    fn refusals_that_are_not_recorded_are_counted_in_the_next_record() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for _ in 0..REFUSALS {
            assert_eq!(refusals.take(start, json!({"why": "no"})), Some(json!({"why": "no"})));
        }
        assert_eq!(refusals.take(start, json!({})), None);
        // One record that would have told of two identical ones and of three others.
        assert_eq!(refusals.take(start, json!({"unrecorded": 2, "silenced": 3})), None);
        let after = start + Duration::from_secs(61);
        assert_eq!(refusals.take(after, json!({"silenced": 1})), Some(json!({"silenced": 8})));
        assert_eq!(refusals.take(after, json!({})), Some(json!({})));
    }
}
