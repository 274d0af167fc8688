//! How a turn ends: by the agent's word, by its process, or without either.
//!
//! Invariant: a turn ends once, in one step on disk with its last event, its cost and the state of its process; only
//! then anybody hears of it.

use std::sync::Arc;

use hostel_agents::{Event, Outcome, TurnOver, Usage};
use hostel_syncpoint::points;
use rusqlite::Transaction;

use super::record::insist;
use super::talk::Talk;
use super::{PROCESS_TAMPERED, Runner, cancelled_text, fresh_id};
use crate::processes::ProcessId;
use crate::sessions::conversation::Checkpoint;
use crate::sessions::rows::{ProcessIdentity, TurnEnd, TurnStart};
use crate::sessions::types::Cause;
use crate::sessions::{launch, now_ns, rows};
use crate::store::StoreError;

impl Runner {
    /// A warm process that died before the prompt reached it: another one gets it, in one step on disk, so that a
    /// daemon that comes later finds the one or the other.
    pub(super) async fn retry_elsewhere(&mut self) -> Result<(), StoreError> {
        let (Some(talk), Some(turn)) = (&mut self.talk, &self.turn) else { return Ok(()) };
        if !talk.died_unused(turn.no) {
            return Ok(());
        }
        let (no, number, proof, prompt, old) = (self.session.no(), turn.no, turn.proof, turn.prompt.clone(), talk.id());
        talk.end(self.hub.options.stop_grace, false).await;
        self.talk = None;
        let cause = self.session.change(|state| state.running.and_then(|running| running.cause));
        if cause.is_some() {
            return self.end_turn_without_process(old, Outcome::Failed, String::new()).await;
        }
        let setup = launch::setup(&self.session, &prompt, proof.unproved);
        let stored = hostel_agents::Setup { prompt: None, ..setup.clone() };
        // The turn's first event stays where it is; what the dead process said is between it and the rest.
        let (run, now) = (self.recorder.take_run(), now_ns());
        let first_seq = self.session.log.last_seq();
        let identity = ProcessIdentity::new(no, fresh_id().await, &stored, now);
        let stored = identity.clone();
        let start = TurnStart { turn: number, proof, process: identity.id, from_seq: 0, first_seq, now_ns: now };
        let approvals = self.hub.approvals.clone();
        self.recorder
            .insist(points::TURN_RESTARTED, run, move |transaction| {
                rows::end_process(transaction, &approvals, old)?;
                rows::insert_process(transaction, approvals.ledger(), &stored)?;
                rows::start_turn(transaction, approvals.ledger(), no, &start)
            })
            .await?;
        self.written_off(old);
        self.start_process(identity, setup).await
    }

    /// There is a turn and no process for it. Nothing should lead here; if something does, the turn ends.
    pub(super) async fn abandon(&mut self) -> Result<(), StoreError> {
        let id = fresh_id().await;
        let reason = "the turn has lost its process".to_owned();
        self.end_turn_without_process(id, Outcome::Failed, reason).await
    }

    /// The process can no longer be read, or does not end whatever is done.
    pub(super) async fn lose_process(&mut self) -> Result<(), StoreError> {
        let Some(talk) = &self.talk else { return Ok(()) };
        if self.turn.is_none() {
            return Ok(());
        }
        let reason = match (talk.is_unreadable() || talk.is_unheard(), talk.has_ended()) {
            (true, _) => "the output of the agent's process cannot be read any more",
            (false, true) => "the agent's process ended without an answer",
            (false, false) => "the agent's process does not end",
        };
        let (id, outcome) = (talk.id(), Outcome::Failed);
        self.end_process(true).await?;
        self.end_turn_without_process(id, outcome, reason.to_owned()).await
    }

    /// The checkpoint that the conversation began with was not the last one, so it was put back: nobody goes on from there.
    pub(super) async fn end_outdated(&mut self) -> Result<(), StoreError> {
        let Some(talk) = &self.talk else { return Ok(()) };
        let id = talk.id();
        self.record_changed_process(id).await?;
        self.end_process(true).await?;
        self.recorder.leave_known();
        self.end_turn_without_process(id, Outcome::Failed, PROCESS_TAMPERED.to_owned()).await
    }

    /// The agent is done with the turn. `last`: and with everything.
    pub(super) async fn over(
        &mut self,
        time_ns: u64,
        over: TurnOver,
        at: Checkpoint,
        last: bool,
    ) -> Result<(), StoreError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        // It died before the prompt reached it; that is no end of the turn.
        if self.turn.as_ref().is_none_or(|turn| talk.died_unused(turn.no)) {
            return Ok(());
        }
        talk.turn_over();
        // Tools may outlive the CLI that was told to end: nobody hears of the end before they are gone.
        talk.sweep().await;
        let ended = talk.has_ended();
        // A subagent may go on after a turn that came to its end, and wait for its answer.
        let questions = talk.drop_questions(ended || over.outcome != Outcome::Completed);
        if talk.is_mid_sentence() {
            // What was left of the prompt would become part of the next one.
            self.session.change(|state| state.retire = true);
        }
        let (id, identity, to_seq) = (talk.id(), talk.identity().clone(), talk.last_seq());
        let session_id = talk.session_id();
        let went_on = over.outcome == Outcome::Completed && !ended;
        for no in questions {
            match went_on {
                // It came to its end, so somebody has answered, and it was not the house.
                true => insist(&self.session, || self.hub.approvals.answered_elsewhere(no)).await?,
                false => insist(&self.session, || self.hub.approvals.withdraw(no)).await?,
            }
        }
        if let Some(id) = session_id {
            self.learn(Some(id), None, false);
        }
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let cause = self.session.change(|state| state.running.and_then(|running| running.cause));
        let result_seen = turn.result_seen;
        let number = turn.no;
        let answer = turn.answer();
        let (outcome, text) = match (over.outcome, cause) {
            (Outcome::Completed, _) => (Outcome::Completed, answer.clone()),
            (_, Some(Cause::TimeLimit)) => (Outcome::Failed, self.too_long()),
            (_, Some(cause)) => (Outcome::Cancelled, cancelled_text(cause)),
            // It was told to end because it lingered after its last word.
            (Outcome::Cancelled, None) if result_seen => (Outcome::Completed, answer.clone()),
            (Outcome::Cancelled, None) => (Outcome::Cancelled, "The agent stopped the turn by itself.".to_owned()),
            (Outcome::Failed, None) => (Outcome::Failed, over.reason),
        };
        let answer = if outcome == Outcome::Completed || answer.is_empty() { text.clone() } else { answer };
        let end = End { time_ns, outcome, text, answer, usage: over.usage, to_seq };
        let (no, learned, approvals) = (self.session.no(), self.take_learned(), self.hub.approvals.clone());
        self.close_turn(number, end, move |transaction| {
            for (column, value) in &learned {
                rows::set_text(transaction, approvals.ledger(), no, column, Some(value))?;
            }
            // What it said after the end of the turn is still to be heard.
            match last {
                true => rows::end_process(transaction, &approvals, id),
                false => rows::save_process(transaction, approvals.ledger(), &identity, &at),
            }
        })
        .await?;
        if let Some(talk) = self.talk.as_mut().filter(|_| last) {
            talk.write_off();
            self.written_off(id);
        }
        Ok(())
    }

    fn too_long(&self) -> String {
        format!(
            "the turn took longer than {} seconds ([sessions] turn_limit) and was stopped",
            self.hub.options.turn_limit.as_secs()
        )
    }

    /// Ends a turn whose process is not there, or not any more. If somebody wanted it to stop, that is the reason.
    pub(super) async fn end_turn_without_process(
        &mut self,
        id: ProcessId,
        outcome: Outcome,
        text: String,
    ) -> Result<(), StoreError> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let cause = self.session.change(|state| state.running.and_then(|running| running.cause));
        let (outcome, text) = match (outcome, cause) {
            (Outcome::Failed, Some(Cause::TimeLimit)) => (Outcome::Failed, self.too_long()),
            (Outcome::Failed, Some(cause)) => (Outcome::Cancelled, cancelled_text(cause)),
            kept => (kept.0, text),
        };
        let number = turn.no;
        let answer = turn.answer();
        let answer = if answer.is_empty() { text.clone() } else { answer };
        let end = End { time_ns: now_ns(), outcome, text, answer, usage: Usage::default(), to_seq: 0 };
        let approvals = self.hub.approvals.clone();
        self.close_turn(number, end, move |transaction| rows::end_process(transaction, &approvals, id)).await?;
        self.written_off(id);
        Ok(())
    }

    /// The last event of a turn, and what is kept of it. How a turn ends depends on more than the journal (who stopped
    /// it, and when), so nobody hears of it before it is on disk; and whoever hears of it finds the session idle.
    async fn close_turn(
        &mut self,
        turn: u64,
        end: End,
        also: impl Fn(&Transaction<'_>) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let End { time_ns, outcome, text, answer, usage, to_seq } = end;
        let gone = self.talk.as_ref().is_none_or(Talk::has_ended);
        let session_usage = sum(self.session.change(|state| state.usage), usage);
        self.recorder.push(time_ns, Event::TurnEnded { turn, outcome, text, usage });
        let state = match outcome {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        };
        let (no, run) = (self.session.no(), self.recorder.take_unshown());
        let row = TurnEnd { turn, state, answer, usage, to_seq, session_usage, now_ns: now_ns() };
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let write = move |transaction: &Transaction<'_>| {
            rows::end_turn(transaction, &ledger, no, &row)?;
            also(transaction)
        };
        self.recorder.commit(points::TURN_ENDED, &run, write).await?;
        self.session.change(|state| {
            state.running = None;
            state.usage = session_usage;
            if gone {
                state.set_process(None);
            }
        });
        self.recorder.show_run(&run);
        Ok(())
    }
}

/// What is to be said of a turn that is over.
struct End {
    time_ns: u64,
    outcome: Outcome,
    /// The answer, or the reason why there is none.
    text: String,
    /// What is kept with the turn.
    answer: String,
    usage: Usage,
    to_seq: u64,
}

/// Both together. An agent may say any number.
fn sum(total: Usage, more: Usage) -> Usage {
    let cost_usd = total.cost_usd + more.cost_usd;
    Usage {
        input_tokens: total.input_tokens.saturating_add(more.input_tokens),
        output_tokens: total.output_tokens.saturating_add(more.output_tokens),
        cached_tokens: total.cached_tokens.saturating_add(more.cached_tokens),
        cost_usd: if cost_usd.is_finite() { cost_usd } else { total.cost_usd },
    }
}
