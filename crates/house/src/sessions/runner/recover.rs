//! Going on where the last daemon was.
//!
//! Invariant: nothing is asked of an agent twice. A process that was to be started is started under the id that was
//! chosen for it; a prompt whose mark is in the journal was given; events that were stored keep their numbers.

use super::Runner;
use super::serve::Turn;
use super::talk::{Talk, answer_of};
use crate::processes::Process;
use crate::sessions::conversation::{Given, MarkId};
use crate::sessions::rows::{self, OpenTurn, ProcessRow};
use crate::store::StoreError;
use std::sync::Arc;

impl Runner {
    /// Takes up the turn and the process the last daemon left, if it did.
    pub(super) async fn recover(&mut self) -> Result<(), StoreError> {
        let open = self.session.change(|state| state.interrupted.take());
        let no = self.session.no();
        let row = self.hub.store.read(move |connection| rows::live_process(connection, no)).await?;
        if let Some(open) = open.as_ref().filter(|open| row.as_ref().map(|row| row.id) != open.process) {
            return self.give_up(open).await;
        }
        let Some(mut row) = row else { return Ok(()) };
        if let Some(open) = &open {
            row.setup.prompt = (row.setup.hosting == hostel_agents::Hosting::PerMessage).then(|| open.prompt.clone());
        }
        let process = self.hub.processes.by_id(row.id);
        match (open, process) {
            (Some(open), Some(process)) => self.take_up(open, &row, process).await,
            (Some(open), None) => {
                // It was chosen and never started.
                self.recorder.rewind(open.turn, open.first_seq);
                self.turn = Some(self.turn_of(&open));
                self.start_process(row.id, row.setup).await
            }
            (None, Some(process)) if process.status().running => {
                self.session.change(|state| state.pid = Some(process.pid()));
                self.talk = Some(self.resume_talk(&row, process));
                Ok(())
            }
            (None, _) => {
                let run = self.recorder.take_run();
                self.recorder.insist(run, move |transaction| rows::end_process(transaction, row.id)).await
            }
        }
    }

    /// The process was written off before the turn was: nobody will answer.
    async fn give_up(&mut self, open: &OpenTurn) -> Result<(), StoreError> {
        self.turn = Some(self.turn_of(open));
        self.recorder.begin_turn(open.turn);
        let Some(process) = open.process else { return Ok(()) };
        let reason = "the agent's process was lost when the daemon ended".to_owned();
        self.end_turn_without_process(process, hostel_agents::Outcome::Failed, reason).await
    }

    fn turn_of(&self, open: &OpenTurn) -> Turn {
        let spent = std::time::Duration::from_nanos(crate::sessions::now_ns().saturating_sub(open.started_ns));
        Turn::new(open.turn, open.prompt.clone(), self.hub.options.turn_limit.saturating_sub(spent))
    }

    fn resume_talk(&self, row: &ProcessRow, process: Arc<Process>) -> Talk {
        let restored = row.at.saved.as_deref().map(|saved| hostel_agents::restore(&row.setup, saved));
        match restored {
            Some(Ok(driver)) => Talk::at(process, row.setup.clone(), driver, &row.at, &self.hub.options),
            // A state that a later program wrote: everything is read again from the beginning.
            Some(Err(_)) | None => Talk::fresh(process, row.setup.clone(), &self.hub.options),
        }
    }

    /// Reads the turn's part of the journal again.
    async fn take_up(&mut self, open: OpenTurn, row: &ProcessRow, process: Arc<Process>) -> Result<(), StoreError> {
        self.session.change(|state| state.pid = process.status().running.then(|| process.pid()));
        let mut talk = self.resume_talk(row, process);
        if row.at.saved.is_some() {
            talk.begin_turn();
        }
        talk.expect(MarkId::prompt(open.turn), Given::Prompt { turn: open.turn, text: open.prompt.clone() });
        talk.expect(MarkId::interrupt(open.turn), Given::Interrupt);
        for approval in self.hub.approvals.of_process(row.id).await? {
            if let Some(decision) = answer_of(&approval) {
                let given = Given::Decision { approval: approval.id, request: approval.request, decision };
                talk.expect(MarkId::decision(approval.no), given);
            }
        }
        if open.cause.is_some() {
            talk.expect_stop();
        }
        self.recorder.rewind(open.turn, open.first_seq);
        self.turn = Some(self.turn_of(&open));
        self.talk = Some(talk);
        Ok(())
    }
}
