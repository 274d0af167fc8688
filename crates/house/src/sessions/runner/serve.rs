//! One turn, from its prompt to its end.

use std::time::Duration;

use hostel_agents::{Event, Hosting, Outcome, TurnOver, Usage};
use tokio::time::Instant;

use super::talk::{Stopping, Talk};
use super::{Runner, cancelled_text};
use crate::approvals::Question;
use crate::processes::ProcessId;
use crate::sessions::conversation::{Checkpoint, Parsed};
use crate::sessions::rows::TurnEnd;
use crate::sessions::types::Cause;
use crate::sessions::{now_ns, rows};
use crate::store::StoreError;

/// The longest answer that is kept whole with its turn; the events hold all of it.
const ANSWER_LIMIT: usize = 1024 * 1024;

/// How long a process for one message may live on after its last word.
const LINGER: Duration = Duration::from_secs(10);

/// The turn that runs.
pub(super) struct Turn {
    pub(super) no: u64,
    pub(super) prompt: String,
    answer: String,
    /// Pieces since the last whole block.
    pieces: String,
    result_seen: bool,
    deadline: Instant,
    linger: Option<Instant>,
}

impl Turn {
    pub(super) fn new(no: u64, prompt: String, limit: Duration) -> Self {
        Self {
            no,
            prompt,
            answer: String::new(),
            pieces: String::new(),
            result_seen: false,
            deadline: Instant::now() + limit,
            linger: None,
        }
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::TextDelta { text } => add(&mut self.pieces, text),
            Event::Text { text, .. } => {
                self.pieces.clear();
                if !text.is_empty() && !self.answer.is_empty() {
                    add(&mut self.answer, "\n\n");
                }
                add(&mut self.answer, text);
            }
            Event::Result { .. } => self.result_seen = true,
            _ => {}
        }
    }

    fn answer(self) -> String {
        let mut answer = self.answer;
        if !answer.is_empty() && !self.pieces.is_empty() {
            add(&mut answer, "\n\n");
        }
        add(&mut answer, &self.pieces);
        answer
    }
}

/// Appends as much as the limit allows, in whole characters.
fn add(text: &mut String, more: &str) {
    let room = ANSWER_LIMIT.saturating_sub(text.len());
    text.push_str(more.get(..more.floor_char_boundary(room)).unwrap_or_default());
}

/// Whether people are asked with this, or no longer are.
fn is_question(event: &Event) -> bool {
    matches!(event, Event::PermissionAsked { .. } | Event::PermissionWithdrawn { .. })
}

impl Runner {
    /// Carries the running turn to its end.
    pub(super) async fn serve(&mut self) -> Result<(), StoreError> {
        let mut approvals = self.hub.approvals.changed();
        while self.turn.is_some() {
            let current = self.talk.as_ref().is_some_and(Talk::is_current);
            if current && self.stop_if_asked().await? {
                return Ok(());
            }
            let (Some(talk), Some(turn)) = (&mut self.talk, &self.turn) else { return Ok(()) };
            if current {
                talk.feed(Some((turn.no, &turn.prompt))).await;
            }
            let wait = [Some(turn.deadline), turn.linger, talk.deadline()].into_iter().flatten().min();
            let asks = talk.has_questions();
            let news = tokio::select! {
                read = talk.read() => Some(read),
                () = self.session.wake.notified() => None,
                _ = approvals.changed(), if asks => None,
                () = tokio::time::sleep_until(wait.unwrap_or_else(|| Instant::now() + LINGER)) => None,
            };
            match news {
                Some(true) => self.take_read().await?,
                Some(false) => self.lose_process().await?,
                None => {
                    if asks {
                        self.hear_decisions().await?;
                    }
                    self.watch_clock().await?;
                }
            }
            // Other sessions share this thread.
            tokio::task::yield_now().await;
        }
        self.end_ended().await
    }

    /// A process that has ended makes room for the next.
    async fn end_ended(&mut self) -> Result<(), StoreError> {
        match self.talk.as_ref().is_some_and(|talk| talk.has_ended() || talk.is_signalled()) {
            true => self.end_process(false).await,
            false => Ok(()),
        }
    }

    /// Somebody wants the turn to stop. `true` when it is over with that.
    async fn stop_if_asked(&mut self) -> Result<bool, StoreError> {
        let cause = self.session.change(|state| state.running.and_then(|running| running.cause));
        let (Some(cause), Some(turn)) = (cause, &self.turn) else { return Ok(false) };
        let Some(talk) = &mut self.talk else { return Ok(false) };
        match talk.stop_turn(turn.no, self.hub.options.stop_grace).await {
            Stopping::UnderWay => Ok(false),
            Stopping::NotBegun => {
                // A conversation in the middle of its greeting is no good to anybody.
                let id = talk.id();
                self.end_process(true).await?;
                self.end_turn_without_process(id, Outcome::Cancelled, cancelled_text(cause)).await?;
                Ok(true)
            }
        }
    }

    /// Handles what was read: numbers events, asks people, ends the turn.
    pub(super) async fn take_read(&mut self) -> Result<(), StoreError> {
        let mut parsed = Vec::new();
        if let Some(talk) = &mut self.talk {
            talk.parse(&mut parsed);
        }
        for item in parsed {
            match item {
                Parsed::Event { time_ns, event } if is_question(&event) => self.hear_question(time_ns, event).await?,
                Parsed::Event { time_ns, event } => self.hear(time_ns, event),
                Parsed::Over { time_ns, over, at } => self.over(time_ns, over, at).await?,
                Parsed::Ended => {}
            }
        }
        if self.turn.is_some() && self.talk.as_ref().is_some_and(Talk::has_ended) {
            self.retry_elsewhere().await?;
        }
        self.recorder.settle().await?;
        self.tell_current();
        Ok(())
    }

    async fn hear_question(&mut self, time_ns: u64, mut event: Event) -> Result<(), StoreError> {
        match &mut event {
            Event::PermissionWithdrawn { request } => {
                if let Some(no) = self.talk.as_mut().and_then(|talk| talk.withdrawn(request)) {
                    self.hub.approvals.withdraw(no).await?;
                }
            }
            asked => self.ask(asked).await?,
        }
        self.hear(time_ns, event);
        Ok(())
    }

    fn hear(&mut self, time_ns: u64, event: Event) {
        match &event {
            Event::Init { session_id, model, .. } => self.learn(session_id.clone(), model.clone(), true),
            Event::Result { session_id, .. } => self.learn(session_id.clone(), None, false),
            _ => {}
        }
        if let Some(turn) = &mut self.turn {
            turn.hear(&event);
            if turn.result_seen && turn.linger.is_none() && self.session.hosting() == Hosting::PerMessage {
                turn.linger = Some(Instant::now() + LINGER);
            }
        }
        self.recorder.push(time_ns, event);
    }

    /// The CLI's id of the conversation and its model, kept when they are news.
    fn learn(&self, id: Option<String>, model: Option<String>, certain: bool) {
        let news = self.session.change(|state| {
            let mut news = Vec::new();
            if let Some(id) = id.filter(|id| state.cli_session.as_ref() != Some(id))
                && (certain || state.cli_session.is_none())
            {
                state.cli_session = Some(id.clone());
                news.push(("cli_session", id));
            }
            if let Some(model) = model.filter(|model| state.model_told.as_ref() != Some(model)) {
                state.model_told = Some(model.clone());
                news.push(("model_told", model));
            }
            news
        });
        let no = self.session.no();
        for (column, value) in news {
            // Written again with the end of the turn, should the line be full.
            self.hub.store.try_submit(move |transaction| rows::set_text(transaction, no, column, Some(&value)));
        }
    }

    /// Puts the agent's question to people.
    async fn ask(&mut self, event: &mut Event) -> Result<(), StoreError> {
        let Event::PermissionAsked { request, approval, tool, input, summary, timeout_secs, .. } = event else {
            return Ok(());
        };
        let Some(talk) = &mut self.talk else { return Ok(()) };
        let question = Question {
            session: (self.session.no(), self.session.id().to_owned()),
            turn: self.turn.as_ref().map_or(0, |turn| turn.no),
            process: talk.id(),
            request: request.clone(),
            tool: tool.clone(),
            input: input.clone(),
            summary: summary.clone(),
            wait: self.session.approval_wait,
        };
        let asked = self.hub.approvals.ask(question).await?;
        approval.clone_from(&asked.id);
        *timeout_secs = asked.expires_ns.saturating_sub(asked.created_ns) / 1_000_000_000;
        talk.asked(&asked);
        Ok(())
    }

    pub(super) async fn hear_decisions(&mut self) -> Result<(), StoreError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        let approvals = self.hub.approvals.of_process(talk.id()).await?;
        talk.decided(&approvals);
        Ok(())
    }

    /// Time has passed: stop harder, or stop because it takes too long.
    async fn watch_clock(&mut self) -> Result<(), StoreError> {
        let grace = self.hub.options.stop_grace;
        let (Some(talk), Some(turn)) = (&mut self.talk, &mut self.turn) else { return Ok(()) };
        if talk.escalate(grace) {
            return self.lose_process().await;
        }
        let now = Instant::now();
        if turn.linger.is_some_and(|at| at <= now) && !talk.is_signalled() {
            turn.linger = None;
            talk.signal(grace);
        }
        if turn.deadline <= now {
            turn.deadline = now + self.hub.options.turn_limit;
            let (no, number) = (self.session.no(), turn.no);
            let cause = Cause::TimeLimit;
            self.hub.store.write(move |transaction| rows::set_cause(transaction, no, number, cause)).await.ok();
            self.session.change(|state| {
                if let Some(running) = &mut state.running {
                    running.cause.get_or_insert(cause);
                }
            });
        }
        Ok(())
    }

    /// A warm process that died before the prompt reached it: another one gets it.
    async fn retry_elsewhere(&mut self) -> Result<(), StoreError> {
        let (Some(talk), Some(turn)) = (&self.talk, &self.turn) else { return Ok(()) };
        if !talk.died_unused(turn.no) {
            return Ok(());
        }
        let (no, number, prompt) = (self.session.no(), turn.no, turn.prompt.clone());
        self.end_process(false).await?;
        let id = ProcessId::random().map_err(|error| StoreError::Sqlite(error.to_string()))?;
        let setup = crate::sessions::launch::setup(&self.session, &prompt);
        let stored = hostel_agents::Setup { prompt: None, ..setup.clone() };
        let run = self.recorder.take_run();
        // The turn's first event stays where it is; what the dead process said is between it and the rest.
        let (first_seq, now) = (self.session.log.last_seq(), now_ns());
        self.recorder
            .insist(run, move |transaction| {
                rows::insert_process(transaction, no, id, &stored, now)?;
                rows::start_turn(transaction, no, number, id, 0, first_seq, now)
            })
            .await?;
        self.start_process(id, setup).await
    }

    /// The process can no longer be read, or does not end whatever is done.
    async fn lose_process(&mut self) -> Result<(), StoreError> {
        let Some(talk) = &self.talk else { return Ok(()) };
        if self.turn.is_none() {
            return Ok(());
        }
        let reason = match (talk.is_unreadable(), talk.has_ended()) {
            (true, _) => "the output of the agent's process cannot be read any more",
            (false, true) => "the agent's process ended without an answer",
            (false, false) => "the agent's process does not end",
        };
        let (id, outcome) = (talk.id(), Outcome::Failed);
        self.end_process(true).await?;
        self.end_turn_without_process(id, outcome, reason.to_owned()).await
    }

    /// The agent is done with the turn.
    async fn over(&mut self, time_ns: u64, over: TurnOver, at: Checkpoint) -> Result<(), StoreError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        // It died before the prompt reached it; that is no end of the turn.
        if self.turn.as_ref().is_none_or(|turn| talk.died_unused(turn.no)) {
            return Ok(());
        }
        talk.turn_over();
        // Tools may outlive the CLI that was told to end: nobody hears of the end before they are gone.
        talk.sweep().await;
        let questions = talk.drop_questions();
        let ended = talk.has_ended();
        let (id, to_seq) = (talk.id(), talk.last_seq());
        let session_id = talk.session_id();
        for no in questions {
            self.hub.approvals.withdraw(no).await?;
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
        let kept = if outcome == Outcome::Completed || answer.is_empty() { text.clone() } else { answer };
        let end = self.close_turn(time_ns, number, outcome, text, kept, over.usage, to_seq);
        let (no, run) = (self.session.no(), self.recorder.take_run());
        self.recorder
            .insist(run, move |transaction| {
                rows::end_turn(transaction, no, &end)?;
                match ended {
                    true => rows::end_process(transaction, id),
                    false => rows::save_process(transaction, id, &at),
                }
            })
            .await
    }

    fn too_long(&self) -> String {
        format!(
            "the turn took longer than {} seconds ([sessions] turn_limit) and was stopped",
            self.hub.options.turn_limit.as_secs()
        )
    }

    /// Ends a turn whose process is not there, or not any more.
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
        let kept = if answer.is_empty() { text.clone() } else { answer };
        let end = self.close_turn(now_ns(), number, outcome, text, kept, Usage::default(), 0);
        let (no, run) = (self.session.no(), self.recorder.take_unshown());
        self.recorder
            .insist(run, move |transaction| {
                rows::end_turn(transaction, no, &end)?;
                rows::end_process(transaction, id)
            })
            .await
    }

    /// The last event of a turn, and what is kept of it. The session is idle before anybody hears of it.
    #[expect(clippy::too_many_arguments, reason = "one call gathers what the row holds")]
    fn close_turn(
        &mut self,
        time_ns: u64,
        turn: u64,
        outcome: Outcome,
        text: String,
        answer: String,
        usage: Usage,
        to_seq: u64,
    ) -> TurnEnd {
        let gone = self.talk.as_ref().is_none_or(Talk::has_ended);
        let session_usage = self.session.change(|state| {
            state.running = None;
            if gone {
                state.pid = None;
            }
            state.usage.input_tokens += usage.input_tokens;
            state.usage.output_tokens += usage.output_tokens;
            state.usage.cached_tokens += usage.cached_tokens;
            state.usage.cost_usd += usage.cost_usd;
            state.usage
        });
        self.recorder.push(time_ns, Event::TurnEnded { turn, outcome, text, usage });
        let state = match outcome {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        };
        TurnEnd { turn, state, answer, usage, to_seq, session_usage, now_ns: now_ns() }
    }
}
