//! The task that serves one session while there is something to do.
//!
//! Invariant: one runner per session, one turn at a time, one input at a time. It sends nothing that it could not
//! find again in the journal, and acts on nothing that is not on disk. If it is killed at any instant, its successor
//! does what it would have done.
//!
//! Parts: this file is the course of things; `record` numbers and stores events, `talk` holds the process and feeds
//! it, `serve` carries one turn, `ending` ends it, `recover` goes on after a restart.

mod ending;
mod record;
mod recover;
mod serve;
mod talk;

use std::sync::Arc;

use hostel_agents::{Event, Outcome, Usage};
use hostel_syncpoint::points;
use tokio::sync::watch;
use tokio::time::Instant;

use super::rows::{ProcessIdentity, TurnStart};
use super::session::Session;
use super::state::{Queued, Running};
use super::types::Cause;
use super::{Hub, launch, now_ns, rows};
use crate::processes::ProcessId;
use crate::store::StoreError;
use record::Recorder;
use serve::Turn;
use talk::Talk;

/// The task.
pub(crate) struct Runner {
    session: Arc<Session>,
    hub: Arc<Hub>,
    recorder: Recorder,
    talk: Option<Talk>,
    turn: Option<Turn>,
    /// Moves when somebody has decided something; one for all of the runner's life, so that nothing is missed.
    decisions: watch::Receiver<u64>,
    /// What the agent has said of itself, and the disk may not have yet.
    learned: Vec<(&'static str, String)>,
}

impl Runner {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        let hub = Arc::clone(&session.hub);
        let recorder = Recorder::new(&session);
        let decisions = hub.approvals.changed();
        Self { session, hub, recorder, talk: None, turn: None, decisions, learned: Vec::new() }
    }

    /// Works until there is nothing left to do.
    pub(crate) async fn run(mut self) {
        // The store closes only when the daemon ends: the next one goes on.
        if self.work().await.is_err() {
            self.session.runner_gives_up();
        }
    }

    async fn work(&mut self) -> Result<(), StoreError> {
        self.recover().await?;
        self.tell_current();
        loop {
            if self.turn.is_some() {
                self.serve().await?;
                continue;
            }
            self.tell_cancelled().await?;
            let (closing, untold) = self.session.change(|state| (state.closing.is_some(), !state.untold.is_empty()));
            if untold {
                // Before anybody hears that there will be no more.
                continue;
            }
            if closing {
                self.end_process(true).await?;
                self.session.log.close();
            } else if let Some(next) = self.take_next() {
                self.begin(next).await?;
                continue;
            } else if self.talk.is_some() {
                self.idle().await?;
                continue;
            }
            if self.session.runner_leaves() {
                return Ok(());
            }
        }
    }

    /// The events are as far as they were before the daemon started, once the journal was read again.
    fn tell_current(&self) {
        if self.talk.as_ref().is_none_or(Talk::is_current) {
            self.session.caught_up();
        }
    }

    /// The first prompt that waits becomes the running turn.
    fn take_next(&self) -> Option<Queued> {
        self.session.change(|state| {
            let next = state.queue.pop_front()?;
            state.running = Some(Running { turn: next.turn, cause: None });
            Some(next)
        })
    }

    /// Starts a turn: on disk first, then in the process.
    async fn begin(&mut self, next: Queued) -> Result<(), StoreError> {
        let proof = next.proof();
        let setup = launch::setup(&self.session, &next.prompt, proof.unproved);
        let retire = self.session.change(|state| std::mem::take(&mut state.retire));
        let fits = self.talk.as_ref().is_some_and(|talk| !retire && talk.fits(&setup, &self.session));
        if !fits {
            self.hear_out().await?;
            self.end_process(false).await?;
        }
        let now = now_ns();
        let started = Event::TurnStarted { turn: next.turn, prompt: next.prompt.clone(), door: next.door.clone() };
        self.recorder.begin_turn(next.turn);
        let first_seq = self.recorder.push(now, started);
        let run = self.recorder.take_unshown();
        let (no, turn) = (self.session.no(), next.turn);
        let stored_setup = hostel_agents::Setup { prompt: None, ..setup.clone() };
        let identity = match &self.talk {
            Some(talk) => talk.identity().clone(),
            None => ProcessIdentity::new(no, fresh_id().await, &stored_setup, now),
        };
        let from_seq = self.talk.as_ref().map_or(0, Talk::last_seq);
        let checkpoint = self.talk.as_ref().map(Talk::checkpoint);
        let start = TurnStart { turn, proof, process: identity.id, from_seq, first_seq, now_ns: now };
        let stored = identity.clone();
        let ledger = Arc::clone(self.hub.approvals.ledger());
        self.recorder
            .insist(points::TURN_STARTED, run, move |transaction| {
                match &checkpoint {
                    Some(at) => rows::save_process(transaction, &ledger, &stored, at)?,
                    None => rows::insert_process(transaction, &ledger, &stored)?,
                }
                rows::start_turn(transaction, &ledger, no, &start)
            })
            .await?;
        self.session.change(|state| state.active_ns = now);
        self.turn = Some(Turn::new(next.turn, next.prompt, proof, self.hub.options.turn_limit));
        if self.talk.is_none() {
            return self.start_process(identity, setup).await;
        }
        if let Some(talk) = &mut self.talk {
            talk.begin_turn();
        }
        Ok(())
    }

    /// Starts the process of the running turn; a failure ends the turn.
    async fn start_process(
        &mut self,
        identity: ProcessIdentity,
        setup: hostel_agents::Setup,
    ) -> Result<(), StoreError> {
        let id = identity.id;
        match launch::start(&self.session, &setup, id).await {
            Ok(process) => {
                // Nobody waits for it: until it is on disk, a restart finds the process with its keeper.
                let (started, ledger) = (identity.clone(), Arc::clone(self.hub.approvals.ledger()));
                self.hub
                    .store
                    .submit(points::PROCESS_STARTED, move |transaction| {
                        rows::process_started(transaction, &ledger, &started)
                    })
                    .await?;
                self.session.change(|state| state.set_process(Some(&process)));
                self.talk = Some(Talk::fresh(process, identity, setup, &self.hub.options));
                Ok(())
            }
            Err(message) => {
                self.recorder.push(now_ns(), Event::Error { message: message.clone() });
                self.end_turn_without_process(id, Outcome::Failed, message).await
            }
        }
    }

    /// Prompts that were cancelled while they waited get their end, now that nothing runs.
    async fn tell_cancelled(&mut self) -> Result<(), StoreError> {
        let untold: Vec<(u64, Cause)> = self.session.change(|state| state.untold.iter().copied().collect());
        if untold.is_empty() {
            return Ok(());
        }
        let (no, now, count) = (self.session.no(), now_ns(), untold.len());
        for (turn, cause) in &untold {
            let outcome = if *cause == Cause::Tampered { Outcome::Failed } else { Outcome::Cancelled };
            let (turn, text) = (*turn, cancelled_text(*cause));
            self.recorder.push_of(turn, now, Event::TurnEnded { turn, outcome, text, usage: Usage::default() });
        }
        let run = self.recorder.take_unshown();
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let told = move |transaction: &rusqlite::Transaction<'_>| {
            let mut told = untold.iter();
            told.try_for_each(|(turn, cause)| rows::mark_told(transaction, &ledger, no, *turn, *cause, now))
        };
        self.recorder.commit(points::TURN_CANCEL_TOLD, &run, told).await?;
        self.session.change(|state| drop(state.untold.drain(..count)));
        self.recorder.show_run(&run);
        Ok(())
    }

    /// The process is kept warm until something is to be done, or for as long as it may.
    async fn idle(&mut self) -> Result<(), StoreError> {
        let grace = self.hub.options.stop_grace;
        let Some(talk) = &mut self.talk else { return Ok(()) };
        talk.feed(None).await;
        self.recorder.rest();
        let asks = talk.has_questions();
        if !asks {
            // One that waits for a person is not idle, though it has no turn.
            self.hub.warm.rest(&self.session);
        }
        let again = talk.deadline(grace);
        let news = tokio::select! {
            () = self.session.wake.notified() => false,
            read = talk.read() => read,
            _ = self.decisions.changed(), if asks => false,
            () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => false,
            () = tokio::time::sleep(self.hub.options.idle), if !asks => {
                self.session.change(|state| state.retire = true);
                false
            }
        };
        self.hub.warm.leave(&self.session);
        if news {
            self.hear_idle().await?;
        } else if asks {
            self.hear_decisions().await?;
        }
        let ended = |talk: &mut Talk| talk.has_ended() || talk.is_unreadable() || talk.is_endless(grace);
        if self.talk.as_mut().is_some_and(ended) || self.session.change(|state| std::mem::take(&mut state.retire)) {
            self.end_process(false).await?;
        }
        Ok(())
    }

    /// Takes and stores what the agent said without being asked, and how far it was read.
    async fn hear_idle(&mut self) -> Result<(), StoreError> {
        self.take_read().await?;
        let Some(talk) = self.talk.as_ref().filter(|talk| !talk.has_ended()) else { return Ok(()) };
        let (no, identity, at) = (self.session.no(), talk.identity().clone(), talk.checkpoint());
        let (run, learned) = (self.recorder.take_run(), self.take_learned());
        let ledger = Arc::clone(self.hub.approvals.ledger());
        self.recorder
            .insist(points::IDLE_READ, run, move |transaction| {
                for (column, value) in &learned {
                    rows::set_text(transaction, &ledger, no, column, Some(value))?;
                }
                rows::save_process(transaction, &ledger, &identity, &at)
            })
            .await
    }

    /// Hears what a process has said before it died.
    async fn hear_out(&mut self) -> Result<(), StoreError> {
        let grace = self.hub.options.stop_grace;
        while let Some(talk) = self.talk.as_mut().filter(|talk| talk.is_unheard()) {
            match tokio::time::timeout(grace, talk.read()).await {
                Ok(true) => self.hear_idle().await?,
                Ok(false) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Reads again what the last daemon may have shown of an idle process, so that it keeps its numbers.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let grace = self.hub.options.stop_grace;
        while let Some(talk) = &mut self.talk
            && !talk.is_current()
            && !talk.is_stuck(grace)
        {
            match tokio::time::timeout(grace, talk.read()).await {
                Ok(true) => self.hear_idle().await?,
                Ok(false) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Lets the process go: politely, and if it does not go, with everything it started. `hard`: everything it
    /// started goes in any case.
    async fn end_process(&mut self, hard: bool) -> Result<(), StoreError> {
        self.hub.warm.leave(&self.session);
        let Some(mut talk) = self.talk.take() else { return Ok(()) };
        self.session.change(|state| state.set_process(None));
        talk.end(self.hub.options.stop_grace, hard).await;
        // Its end may be on disk already, with that of its turn.
        match talk.is_written_off() && self.recorder.is_written() {
            true => Ok(()),
            false => self.write_off(talk.id()).await,
        }
    }

    /// The process serves nobody any more.
    async fn write_off(&mut self, id: ProcessId) -> Result<(), StoreError> {
        let (run, approvals) = (self.recorder.take_run(), self.hub.approvals.clone());
        let end = move |transaction: &rusqlite::Transaction<'_>| rows::end_process(transaction, &approvals, id);
        self.recorder.insist(points::PROCESS_ENDED, run, end).await?;
        self.written_off(id);
        Ok(())
    }

    /// That it serves nobody any more is on disk. Its journal stays; its keeper need not remember it.
    fn written_off(&self, id: ProcessId) {
        self.hub.approvals.withdrawn(id);
        launch::note_failed_guard(&self.hub.processes, id);
        let processes = self.hub.processes.clone();
        hostel_tasks::spawn(async move { processes.release(id).await });
    }
}

/// An id for a process.
async fn fresh_id() -> ProcessId {
    loop {
        match ProcessId::random() {
            Ok(id) => return id,
            // The kernel has no random numbers yet.
            Err(_) => tokio::time::sleep(record::PAUSE).await,
        }
    }
}

/// What a turn says of itself whose prompt is not the house's own.
const TAMPERED: &str = "The prompt was not given to the agent, because its entry in state.db was changed by somebody else \
    than the house (tampered). Send it again if it is yours.";

/// What a turn says of itself whose process nobody can go on with.
const PROCESS_TAMPERED: &str = "The agent's process was ended, because its entry in state.db was changed by somebody else \
    than the house (tampered), or put back from an earlier time. Send the prompt again if it is still wanted.";

/// What a cancelled turn says of itself.
pub(super) fn cancelled_text(cause: Cause) -> String {
    let who = match cause {
        Cause::ClientRpc => "by a client",
        Cause::AdminKill => "because the session was ended for good",
        Cause::SessionRemoved => "because the session was closed",
        Cause::TimeLimit => "because it took too long",
        Cause::Tampered => return TAMPERED.to_owned(),
    };
    format!("The turn was cancelled {who} ({}).", cause.word())
}
