//! The task that serves one session while there is something to do.
//!
//! Invariant: one runner per session, one turn at a time, one input at a time. It sends nothing that it could not
//! find again in the journal, and acts on nothing that is not on disk. If it is killed at any instant, its successor
//! does what it would have done.
//!
//! Parts: this file is the course of things; `record` numbers and stores events, `talk` holds the process and feeds
//! it, `serve` carries one turn, `recover` goes on after a restart.

mod record;
mod recover;
mod serve;
mod talk;

use std::sync::Arc;

use hostel_agents::{Event, Outcome, Usage};
use tokio::time::Instant;

use super::session::{Queued, Running, Session};
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
}

impl Runner {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        let hub = Arc::clone(&session.hub);
        let recorder = Recorder::new(&session);
        Self { session, hub, recorder, talk: None, turn: None }
    }

    /// Works until there is nothing left to do.
    pub(crate) async fn run(mut self) {
        // The store closes only when the daemon ends: the next one goes on.
        self.work().await.ok();
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
            let closing = self.session.change(|state| state.closing);
            if closing.is_some() {
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
        let setup = launch::setup(&self.session, &next.prompt);
        let retire = self.session.change(|state| std::mem::take(&mut state.retire));
        let fits = self.talk.as_ref().is_some_and(|talk| !retire && talk.fits(&setup));
        if !fits {
            self.end_process(false).await?;
        }
        let now = now_ns();
        let started = Event::TurnStarted { turn: next.turn, prompt: next.prompt.clone(), door: next.door.clone() };
        self.recorder.begin_turn(next.turn);
        let first_seq = self.recorder.push(now, started);
        let run = self.recorder.take_unshown();
        let (no, turn) = (self.session.no(), next.turn);
        let id = match &self.talk {
            Some(talk) => talk.id(),
            None => ProcessId::random().map_err(|error| StoreError::Sqlite(error.to_string()))?,
        };
        let from_seq = self.talk.as_ref().map_or(0, Talk::last_seq);
        let checkpoint = self.talk.as_ref().map(Talk::checkpoint);
        let stored_setup = hostel_agents::Setup { prompt: None, ..setup.clone() };
        self.recorder
            .insist(run, move |transaction| {
                match &checkpoint {
                    Some(at) => rows::save_process(transaction, id, at)?,
                    None => rows::insert_process(transaction, no, id, &stored_setup, now)?,
                }
                rows::start_turn(transaction, no, turn, id, from_seq, first_seq, now)
            })
            .await?;
        self.session.change(|state| state.active_ns = now);
        self.turn = Some(Turn::new(next.turn, next.prompt, self.hub.options.turn_limit));
        if self.talk.is_none() {
            return self.start_process(id, setup).await;
        }
        if let Some(talk) = &mut self.talk {
            talk.begin_turn();
        }
        Ok(())
    }

    /// Starts the process of the running turn; a failure ends the turn.
    async fn start_process(&mut self, id: ProcessId, setup: hostel_agents::Setup) -> Result<(), StoreError> {
        match launch::start(&self.session, &setup, id).await {
            Ok(process) => {
                self.session.change(|state| state.pid = Some(process.pid()));
                self.talk = Some(Talk::fresh(process, setup, &self.hub.options));
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
        while let Some((turn, cause)) = self.session.change(|state| state.untold.pop_front()) {
            let text = cancelled_text(cause);
            let ended = Event::TurnEnded { turn, outcome: Outcome::Cancelled, text, usage: Usage::default() };
            self.recorder.push_of(turn, now_ns(), ended);
            let (run, no) = (self.recorder.take_run(), self.session.no());
            self.recorder.insist(run, move |transaction| rows::mark_told(transaction, no, turn)).await?;
        }
        Ok(())
    }

    /// The process is kept warm until something is to be done, or for as long as it may.
    async fn idle(&mut self) -> Result<(), StoreError> {
        let mut approvals = self.hub.approvals.changed();
        let Some(talk) = &mut self.talk else { return Ok(()) };
        talk.feed(None).await;
        self.recorder.rest();
        self.hub.warm.rest(&self.session);
        let asks = talk.has_questions();
        let again = talk.deadline();
        let news = tokio::select! {
            () = self.session.wake.notified() => false,
            read = talk.read() => read,
            _ = approvals.changed(), if asks => false,
            () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => false,
            () = tokio::time::sleep(self.hub.options.idle) => {
                self.session.change(|state| state.retire = true);
                false
            }
        };
        self.hub.warm.leave(&self.session);
        if news {
            self.take_read().await?;
            self.store_idle().await?;
        } else if asks {
            self.hear_decisions().await?;
        }
        let over = self.talk.as_ref().is_some_and(|talk| talk.has_ended() || talk.is_unreadable());
        if over || self.session.change(|state| std::mem::take(&mut state.retire)) {
            self.end_process(false).await?;
        }
        Ok(())
    }

    /// Stores what the agent said without being asked, and how far it was read.
    async fn store_idle(&mut self) -> Result<(), StoreError> {
        let Some(talk) = self.talk.as_ref().filter(|talk| self.turn.is_none() && !talk.has_ended()) else {
            return Ok(());
        };
        let (id, at, run) = (talk.id(), talk.checkpoint(), self.recorder.take_run());
        self.recorder.insist(run, move |transaction| rows::save_process(transaction, id, &at)).await
    }

    /// Lets the process go: politely, and if it does not go, with everything it started. `hard`: everything it
    /// started goes in any case.
    async fn end_process(&mut self, hard: bool) -> Result<(), StoreError> {
        self.hub.warm.leave(&self.session);
        let Some(mut talk) = self.talk.take() else { return Ok(()) };
        self.session.change(|state| state.pid = None);
        talk.end(self.hub.options.stop_grace, hard).await;
        let (id, run) = (talk.id(), self.recorder.take_run());
        self.recorder.insist(run, move |transaction| rows::end_process(transaction, id)).await
    }
}

/// What a cancelled turn says of itself.
pub(super) fn cancelled_text(cause: Cause) -> String {
    let who = match cause {
        Cause::ClientRpc => "by a client",
        Cause::AdminKill => "because the session was ended for good",
        Cause::SessionRemoved => "because the session was closed",
        Cause::TimeLimit => "because it took too long",
    };
    format!("The turn was cancelled {who} ({}).", cause.word())
}
