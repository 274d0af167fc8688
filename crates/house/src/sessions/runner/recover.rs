//! Going on where the last daemon was.
//!
//! Invariant: nothing is asked of an agent twice. A process that was to be started is started under the id that was
//! chosen for it, and one that was started and is unknown is lost; a prompt whose mark is in the journal was given;
//! events that were stored, or only shown, keep their numbers.

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Outcome;
use hostel_syncpoint::{SyncPoint, points};
use rusqlite::Transaction;

use super::record::insist;
use super::serve::Turn;
use super::talk::Talk;
use super::{PROCESS_TAMPERED, Runner};
use crate::approvals::{self, Approval};
use crate::processes::{Process, ProcessId};
use crate::sessions::conversation::{Given, MarkId};
use crate::sessions::rows::{self, OpenTurn, ProcessRow};
use crate::sessions::types::Cause;
use crate::sessions::{launch, now_ns};
use crate::store::StoreError;

/// What a turn says of itself whose process is gone.
const LOST: &str = "the agent's process was lost when the daemon ended";

/// What a turn says of itself whose process still runs, although nobody can prove what was said to it.
const UNPROVED: &str = "the agent's process was ended: the key that proved what was said to it is lost";

impl Runner {
    /// Takes up the turn and the process the last daemon left, if it did.
    pub(super) async fn recover(&mut self) -> Result<(), StoreError> {
        let open = self.session.change(|state| state.interrupted.take());
        let no = self.session.no();
        let (row, changed) = self.authentic_process(no).await?;
        if let Some(open) = open.as_ref().filter(|open| row.as_ref().map(ProcessRow::id) != open.process) {
            let is_changed = open.process.is_some_and(|process| changed.contains(&process));
            return self.give_up(open, open.process, if is_changed { PROCESS_TAMPERED } else { LOST }).await;
        }
        let Some(mut row) = row else { return Ok(()) };
        if let (Some(open), Some(setup)) = (&open, &mut row.setup) {
            setup.prompt = (setup.hosting == hostel_agents::Hosting::PerMessage).then(|| open.prompt.clone());
        }
        let process = self.hub.processes.by_id(row.id());
        let is_closing = self.session.change(|state| state.closing.is_some());
        let is_changed = self.session.change(|state| state.untold.iter().any(|(_, cause)| *cause == Cause::Tampered));
        match (open, process) {
            (Some(open), Some(process)) if row.is_unproved && process.status().running => {
                self.give_up(&open, Some(row.id()), UNPROVED).await
            }
            (Some(open), Some(process)) => self.take_up(open, &row, process).await,
            // A session that is closed, perhaps because somebody has changed its row, starts nothing any more.
            (Some(open), None) => match row.setup.take_if(|_| !row.started && !row.is_unproved && !is_closing) {
                // It was chosen and never started.
                Some(setup) => {
                    self.recorder.rewind(open.turn, open.first_seq);
                    self.turn = Some(self.turn_of(&open, &[]));
                    self.start_process(row.identity, setup).await
                }
                None => self.give_up(&open, Some(row.id()), LOST).await,
            },
            // Nobody knows what it was given.
            (None, Some(_)) if is_changed || row.is_unproved => {
                self.kill(row.id()).await;
                self.write_off(row.id()).await
            }
            (None, Some(process)) => self.take_back(&row, process).await,
            (None, None) => self.write_off(row.id()).await,
        }
    }

    /// The process that may still serve the session, as the house has written it, and those whose rows somebody else has
    /// written: they are ended, because nobody knows what would be said to them.
    async fn authentic_process(&mut self, no: i64) -> Result<(Option<ProcessRow>, Vec<ProcessId>), StoreError> {
        let mut changed = Vec::new();
        loop {
            let read = || {
                let ledger = Arc::clone(self.hub.approvals.ledger());
                self.hub.store.read(move |connection| rows::live_process(connection, no, &ledger))
            };
            let Some(found) = insist(&self.session, read).await?.filter(|row| !row.is_ours) else {
                return insist(&self.session, read).await.map(|row| (row, changed));
            };
            // Another key may have come meanwhile: where rows are sealed, nobody else seals them.
            let look = || {
                let ledger = Arc::clone(self.hub.approvals.ledger());
                let look = move |transaction: &Transaction<'_>| rows::live_process(transaction, no, &ledger);
                self.hub.store.write(SyncPoint::NONE, look)
            };
            let Some(found) = insist(&self.session, look).await?.filter(|row| !row.is_ours && row.id() == found.id())
            else {
                continue;
            };
            self.kill(found.id()).await;
            self.record_changed_process(found.id()).await?;
            self.written_off(found.id());
            changed.push(found.id());
        }
    }

    /// Records that somebody else has written the row of a process, in the write that ends the row.
    pub(super) async fn record_changed_process(&mut self, id: ProcessId) -> Result<(), StoreError> {
        let (hub, session) = (Arc::clone(&self.hub), self.session.id().to_owned());
        let write = || {
            let (approvals, session) = (hub.approvals.clone(), session.clone());
            hub.store.write(points::TAMPERING_RECORDED, move |transaction| {
                approvals::record_changed_process(transaction, approvals.ledger(), &session, id)?;
                rows::end_process(transaction, &approvals, id)
            })
        };
        insist(&self.session, write).await
    }

    /// There is no going on with the process: nobody will answer.
    async fn give_up(
        &mut self,
        open: &OpenTurn,
        process: Option<ProcessId>,
        reason: &'static str,
    ) -> Result<(), StoreError> {
        self.turn = Some(self.turn_of(open, &[]));
        self.recorder.begin_turn(open.turn);
        let Some(id) = process else { return Ok(()) };
        self.kill(id).await;
        self.end_turn_without_process(id, Outcome::Failed, reason.to_owned()).await
    }

    /// Whatever is left of a process that nobody can talk to goes.
    async fn kill(&mut self, id: ProcessId) {
        if let Some(process) = self.hub.processes.by_id(id) {
            process.kill_tree().await;
        }
    }

    /// What is left of the turn's time. What a person took to answer did not count.
    fn turn_of(&self, open: &OpenTurn, approvals: &[Approval]) -> Turn {
        let now = now_ns();
        let asked = approvals.iter().filter(|approval| approval.turn == open.turn).map(|approval| {
            let settled = if approval.decided_ns == 0 { now } else { approval.decided_ns };
            settled.saturating_sub(approval.created_ns)
        });
        let spent = now.saturating_sub(open.started_ns).saturating_sub(asked.sum());
        let left = self.hub.options.turn_limit.saturating_sub(Duration::from_nanos(spent));
        Turn::new(open.turn, open.prompt.clone(), open.proof(), left)
    }

    /// The conversation as it was; none if this program cannot read what another has written.
    fn resume_talk(&self, row: &ProcessRow, process: &Arc<Process>) -> Option<Talk> {
        let setup = row.setup.clone()?;
        launch::limit(&self.session, process);
        let process = Arc::clone(process);
        let mut talk = match row.at.saved.as_deref() {
            Some(saved) => {
                let driver = hostel_agents::restore(&setup, saved).ok()?;
                Talk::at(process, row.identity.clone(), setup, driver, &row.at, &self.hub.options)
            }
            None => Talk::fresh(process, row.identity.clone(), setup, &self.hub.options),
        };
        if row.is_unproved {
            talk.forbid_another_try();
        }
        Some(talk)
    }

    /// Goes on with a process that has nothing to do, or had nothing to do when it ended.
    async fn take_back(&mut self, row: &ProcessRow, process: Arc<Process>) -> Result<(), StoreError> {
        let Some(mut talk) = self.resume_talk(row, &process) else {
            self.kill(row.id()).await;
            return self.write_off(row.id()).await;
        };
        let approvals = insist(&self.session, || self.hub.approvals.of_process(row.id())).await?;
        talk.recall(approvals, self.recorder.next_seq() - 1);
        self.session.change(|state| state.set_process(process.status().running.then_some(&*process)));
        self.talk = Some(talk);
        self.catch_up().await
    }

    /// Reads the turn's part of the journal again.
    async fn take_up(&mut self, open: OpenTurn, row: &ProcessRow, process: Arc<Process>) -> Result<(), StoreError> {
        let Some(mut talk) = self.resume_talk(row, &process) else {
            return self.give_up(&open, Some(row.id()), LOST).await;
        };
        if row.at.saved.is_some() {
            talk.begin_turn();
        }
        talk.expect(MarkId::prompt(open.turn), Given::Prompt { turn: open.turn, text: open.prompt.clone() });
        let approvals = insist(&self.session, || self.hub.approvals.of_process(row.id())).await?;
        self.recorder.rewind(open.turn, open.first_seq);
        self.turn = Some(self.turn_of(&open, &approvals));
        talk.recall(approvals, open.first_seq);
        if open.cause.is_some() {
            talk.expect_stop();
        }
        self.session.change(|state| state.set_process(process.status().running.then_some(&*process)));
        self.talk = Some(talk);
        Ok(())
    }
}
