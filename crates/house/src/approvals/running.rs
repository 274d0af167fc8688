//! Carrying out what was approved, as far as it is written down: started, over, and what a restart left open.
//!
//! Invariant: each step is written once, with its record, and told by what the house remembers of the request. Nothing here
//! starts anything.

use hostel_syncpoint::points;
use rusqlite::Transaction;
use serde_json::{Value, json};

use super::audit::{self, Event, Line};
use super::checking::is_unfinished;
use super::types::{Approval, RunState};
use super::{Approvals, cut, rows};
use crate::pipelines::{End, Outcome, hex_of};
use crate::seals::Ledger;
use crate::sessions::now_ns;
use crate::store::{StoreError, Ticket};
use hostel_peer::PeerInfo;

/// Requests that are carried out at once before those that are over are looked for.
const FEW_RUNNING: usize = 64;

/// Ids that are remembered across a restart at most.
const MOST_RECENT: usize = 250_000;

impl Approvals {
    /// Remembers a request that is to be carried out: what follows is told by what is remembered, not by its row.
    pub(super) fn remember(&self, approval: &Approval) {
        if !is_unfinished(approval) {
            return;
        }
        let mut running = self.inner.running.lock();
        if running.len() >= FEW_RUNNING {
            let ledger = &self.inner.ledger;
            running.retain(|_, approval| ledger.get(rows::key(approval.no)).is_some());
        }
        running.insert(approval.id.clone(), approval.clone());
    }

    /// It is about to be started, or was: on disk when this returns.
    pub async fn record_started(&self, id: &str) -> Result<(), StoreError> {
        self.inner.store.write(points::RUN_STARTED, self.started(id, false)).await
    }

    /// It was started by an earlier daemon, which ended before it could write that down; the keeper knows. On disk when
    /// this returns.
    pub(crate) async fn record_found_started(&self, id: &str) -> Result<(), StoreError> {
        self.inner.store.write(points::RUN_STARTED, self.started(id, true)).await
    }

    /// Likewise, in line to be written before whatever is written after it. What is killed before that is found by what the
    /// keeper knows: the decision, with the ids of the processes, is on disk.
    pub async fn note_started(&self, id: &str) -> Result<Ticket<()>, StoreError> {
        self.inner.store.submit_patiently(points::RUN_STARTED, self.started(id, false)).await
    }

    /// How it ended: on disk when this returns. Only the first outcome counts.
    pub async fn record_outcome(&self, id: &str, outcome: &Outcome) -> Result<(), StoreError> {
        self.inner.store.write(points::RUN_ENDED, self.over(id, outcome)).await
    }

    /// Likewise, for whoever has nobody waiting for it.
    pub async fn note_outcome(&self, id: &str, outcome: &Outcome) -> Result<Ticket<()>, StoreError> {
        self.inner.store.submit_patiently(points::RUN_ENDED, self.over(id, outcome)).await
    }

    /// The write that says that it is being carried out, unless that is known.
    fn started(
        &self,
        id: &str,
        is_late: bool,
    ) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static {
        let (approvals, id) = (self.clone(), id.to_owned());
        move |transaction| {
            let ledger = &approvals.inner.ledger;
            let mut running = approvals.inner.running.lock();
            let Some(approval) = running.get_mut(&id).filter(|approval| approval.run == RunState::Due) else {
                return Ok(());
            };
            approval.run = RunState::Started;
            write_run(transaction, ledger, approval)?;
            audit::append(transaction, ledger, &[start_of(approval, is_late)])
        }
    }

    /// The write that says how it ended, unless that is known.
    fn over(
        &self,
        id: &str,
        outcome: &Outcome,
    ) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static {
        let (approvals, id, outcome) = (self.clone(), id.to_owned(), outcome.clone());
        move |transaction| {
            let ledger = &approvals.inner.ledger;
            let mut running = approvals.inner.running.lock();
            let is_open = |approval: &&mut Approval| ledger.get(rows::key(approval.no)).is_some();
            let Some(approval) = running.get_mut(&id).filter(is_open) else { return Ok(()) };
            // Its daemon may have ended before the record of the start was written; what the keeper knows stands for it.
            let started = approval.run == RunState::Due && !outcome.stages.is_empty();
            approval.run = RunState::Over;
            approval.stored.outcome = serde_json::to_string(&outcome).ok();
            write_run(transaction, ledger, approval)?;
            if started {
                audit::append(transaction, ledger, &[start_of(approval, true)])?;
            }
            let event = match outcome.end {
                End::NotRun { .. } | End::Changed { .. } => Event::NotRun,
                _ => Event::Finished,
            };
            let line = Line { event, approval: &id, body: ended(&outcome) };
            approval.outcome = Some(outcome);
            audit::append(transaction, ledger, &[line])
        }
    }

    /// What was approved and is not known to be over, oldest first: after a restart, what may run still or never did.
    #[must_use]
    pub fn unfinished(&self) -> Vec<Approval> {
        let ledger = &self.inner.ledger;
        let running = self.inner.running.lock();
        let open = running.values().filter(|approval| ledger.get(rows::key(approval.no)).is_some());
        let mut found: Vec<Approval> = open.cloned().collect();
        found.sort_by_key(|approval| approval.no);
        found
    }

    /// Waits for requests that were approved before a restart, are not known to be over, and that nobody came back for in
    /// time. Each is told once.
    pub async fn abandoned(&self) -> Vec<Approval> {
        loop {
            let told = self.inner.abandoned.notified();
            let found = std::mem::take(&mut self.inner.table.lock().abandoned);
            if !found.is_empty() {
                return found;
            }
            told.await;
        }
    }

    /// The request that our restart has cut off from its connection, for the process that made it and comes back with the
    /// same id and bytes, once. It may be settled or over already. A process that is not known gets nothing: the answer may
    /// hold what a command printed as root.
    #[must_use]
    pub fn rejoin(&self, door: &str, request_id: &str, bytes: &[u8; 32], peer: Option<&PeerInfo>) -> Option<Approval> {
        self.inner.table.lock().rejoin(door, request_id, bytes, peer)
    }

    /// Whether a request of this id was cut off by our restart and nobody has come back for it: anything else that comes
    /// under that id is a duplicate.
    #[must_use]
    pub fn is_orphan(&self, door: &str, request_id: &str) -> bool {
        self.inner.table.lock().is_orphan(door, request_id)
    }

    /// The ids under which connections of a door asked since then, and when they did: what a door remembers against
    /// replays, across a restart. An id that somebody has made unreadable is reported and left out.
    pub async fn recent_requests(&self, door: &str, since_ns: u64) -> Result<Vec<(String, u64)>, StoreError> {
        let door = door.to_owned();
        let work = move |database: &rusqlite::Connection| rows::recent_requests(database, &door, since_ns, MOST_RECENT);
        let found = self.inner.store.read(work).await?;
        let total = found.len();
        let readable: Vec<_> = found.into_iter().filter_map(|(id, at)| Some((id?, at))).collect();
        if readable.len() < total {
            let count = total - readable.len();
            self.inner.ledger.report(format!(
                "ids of requests were changed in state.db and cannot be read ({count}): a request that used one of them \
                 shortly before the restart could be sent again; it would be asked about again"
            ));
        }
        Ok(readable)
    }
}

/// Writes how far a request was carried out. A row that somebody has changed is written again as the house knows it.
fn write_run(transaction: &Transaction<'_>, ledger: &Ledger, approval: &mut Approval) -> rusqlite::Result<()> {
    if rows::update_run(transaction, ledger, approval)? {
        return Ok(());
    }
    rows::restore(transaction, ledger, approval)?;
    let body = json!({"what": "approval"});
    audit::append(transaction, ledger, &[Line { event: Event::Tampered, approval: &approval.id, body }])?;
    ledger.report(format!("the request {} was changed in state.db while it was carried out", approval.id));
    Ok(())
}

/// What is recorded of a start. A late record was written by a daemon that found the processes already there.
fn start_of(approval: &Approval, is_late: bool) -> Line<'_> {
    let mut body = json!({"digest": hex_of(&approval.digest)});
    if is_late {
        body["found"] = json!(true);
    }
    Line { event: Event::Started, approval: &approval.id, body }
}

/// What is recorded of an outcome.
fn ended(outcome: &Outcome) -> Value {
    let mut body = json!({"end": serde_json::to_value(&outcome.end).unwrap_or_default()});
    for key in ["why", "what"] {
        if let Some(Value::String(text)) = body["end"].get_mut(key) {
            *text = cut(text, 1024).to_owned();
        }
    }
    body["exit_codes"] = outcome.stages.iter().map(|stage| stage.exit_code).collect();
    if !outcome.unkillable.is_empty() {
        body["unkillable"] = json!(outcome.unkillable);
    }
    if outcome.started_ns > 0 {
        body["took_ns"] = json!(outcome.ended_ns.max(outcome.started_ns) - outcome.started_ns);
    } else {
        body["ended_ns"] = json!(if outcome.ended_ns > 0 { outcome.ended_ns } else { now_ns() });
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_recorded_with_how_long_it_took_or_when_it_was_over() {
        let outcome = |started_ns, ended_ns| Outcome {
            end: End::Finished,
            stages: Vec::new(),
            stdout_truncated: false,
            unkillable: Vec::new(),
            started_ns,
            ended_ns,
        };
        let finished = json!({"end": {"word": "finished"}, "exit_codes": []});
        let with = |key: &str, value: u64| {
            let mut body = finished.clone();
            body[key] = json!(value);
            body
        };
        assert_eq!(ended(&outcome(5, 9)), with("took_ns", 4));
        assert_eq!(ended(&outcome(9, 5)), with("took_ns", 0), "a clock that was set back");
        assert_eq!(ended(&outcome(0, 9)), with("ended_ns", 9));
        let before = now_ns();
        assert!(ended(&outcome(0, 0))["ended_ns"].as_u64().unwrap() >= before);
        let lost = Outcome { unkillable: vec![7], ..outcome(5, 9) };
        assert_eq!(ended(&lost)["unkillable"], json!([7]));
        let why = "w".repeat(2000);
        let killed = Outcome { end: End::Killed { why: why.clone() }, ..outcome(5, 9) };
        assert!(ended(&killed).to_string().contains(&format!("\"{}\"", &why[..1024])));
    }
}
