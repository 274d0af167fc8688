//! One turn, from its prompt to its end.

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Event, Hosting, Outcome};
use hostel_syncpoint::points;
use tokio::time::Instant;

use super::Runner;
use super::record::insist;
use super::talk::{Stopping, Talk};
use crate::approvals::Question;
use crate::sessions::conversation::Parsed;
use crate::sessions::prompts::Proof;
use crate::sessions::rows;
use crate::sessions::types::{Cause, Standing};
use crate::store::StoreError;

/// The longest answer that is kept whole with its turn; the events hold all of it.
const ANSWER_LIMIT: usize = 1024 * 1024;

/// How long a process for one message may live on after its last word.
const LINGER: Duration = Duration::from_secs(10);

/// The turn that runs.
pub(super) struct Turn {
    pub(super) no: u64,
    pub(super) prompt: String,
    /// What the seal of its row covers.
    pub(super) proof: Proof,
    answer: String,
    /// Pieces since the last whole block.
    pieces: String,
    pub(super) result_seen: bool,
    deadline: Instant,
    /// Since when a person is waited for. That time does not count: the question has a limit of its own.
    asking: Option<Instant>,
    linger: Option<Instant>,
}

impl Turn {
    pub(super) fn new(no: u64, prompt: String, proof: Proof, limit: Duration) -> Self {
        Self {
            no,
            prompt,
            proof,
            answer: String::new(),
            pieces: String::new(),
            result_seen: false,
            deadline: after(limit),
            asking: None,
            linger: None,
        }
    }

    /// When it has taken too long; never while a person is waited for.
    fn limit(&mut self, asks: bool) -> Option<Instant> {
        match (asks, self.asking) {
            (true, None) => self.asking = Some(Instant::now()),
            (false, Some(since)) => {
                self.deadline += since.elapsed();
                self.asking = None;
            }
            _ => {}
        }
        (!asks).then_some(self.deadline)
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

    pub(super) fn answer(self) -> String {
        let mut answer = self.answer;
        if !answer.is_empty() && !self.pieces.is_empty() {
            add(&mut answer, "\n\n");
        }
        add(&mut answer, &self.pieces);
        answer
    }
}

/// So far from now, or as far as clocks go.
fn after(time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    Instant::now() + time.min(FAR)
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
        let grace = self.hub.options.stop_grace;
        while self.turn.is_some() {
            let current = self.talk.as_ref().is_some_and(Talk::is_current);
            // Before it is current nothing may be said or stopped, unless it never will be.
            let known = current || self.talk.as_mut().is_some_and(|talk| talk.is_stuck(grace));
            if known && self.stop_if_asked(current).await? {
                return Ok(());
            }
            let (Some(talk), Some(turn)) = (&mut self.talk, &mut self.turn) else {
                return self.abandon().await;
            };
            if current {
                talk.feed(Some((turn.no, &turn.prompt))).await;
            }
            let asks = talk.has_questions();
            let limit = turn.limit(asks).filter(|_| known);
            // Now and then in any case: that a process is gone without a last word is told by nobody.
            let look = Some(Instant::now() + LINGER);
            let wait = [limit, turn.linger, talk.deadline(grace), look].into_iter().flatten().min();
            let news = tokio::select! {
                read = talk.read() => Some(read),
                () = self.session.wake.notified() => None,
                _ = self.decisions.changed(), if asks => None,
                () = tokio::time::sleep_until(wait.unwrap_or_else(Instant::now)) => None,
            };
            match news {
                Some(true) => self.take_read().await?,
                Some(false) => self.lose_process().await?,
                None => {
                    if asks {
                        self.hear_decisions().await?;
                    }
                    self.watch_clock(limit).await?;
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
    async fn stop_if_asked(&mut self, current: bool) -> Result<bool, StoreError> {
        let (cause, closed) = self.session.change(|state| {
            let cause = state.running.and_then(|running| running.cause);
            (cause, state.standing != Standing::Live)
        });
        let (Some(_), Some(turn)) = (cause, &self.turn) else { return Ok(false) };
        let Some(talk) = &mut self.talk else { return Ok(false) };
        // Who closes a session waits for it, and has no use for an agent that has stopped in good order.
        match talk.stop_turn(turn.no, self.hub.options.stop_grace, closed || !current).await {
            Stopping::UnderWay => Ok(false),
            Stopping::NotBegun => {
                // A conversation in the middle of its greeting is no good to anybody.
                let id = talk.id();
                self.end_process(true).await?;
                self.end_turn_without_process(id, Outcome::Failed, String::new()).await?;
                Ok(true)
            }
        }
    }

    /// Handles what was read: numbers events, asks people, ends the turn.
    pub(super) async fn take_read(&mut self) -> Result<(), StoreError> {
        let mut parsed = Vec::new();
        if let Some(talk) = &mut self.talk {
            talk.parse(&mut parsed);
            if talk.is_outdated() {
                return self.end_outdated().await;
            }
        }
        for item in parsed {
            match item {
                Parsed::Event { time_ns, event } if is_question(&event) => self.hear_question(time_ns, event).await?,
                Parsed::Event { time_ns, event } => self.hear(time_ns, event),
                Parsed::Over { time_ns, over, at, last } => self.over(time_ns, over, at, last).await?,
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
                // An agent that is told to stop takes its questions back. Any other is no longer waiting although the house
                // has not answered: somebody else may have.
                let is_stopped = self.session.change(|state| state.running.is_some_and(|run| run.cause.is_some()));
                if let Some(no) = self.talk.as_mut().and_then(|talk| talk.withdrawn(request)) {
                    match is_stopped {
                        true => insist(&self.session, || self.hub.approvals.withdraw(no)).await?,
                        false => insist(&self.session, || self.hub.approvals.answered_elsewhere(no)).await?,
                    }
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
    pub(super) fn learn(&mut self, id: Option<String>, model: Option<String>, certain: bool) {
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
            self.learned.retain(|(known, _)| *known != column);
            self.learned.push((column, value.clone()));
            let ledger = Arc::clone(self.hub.approvals.ledger());
            // Written again with the end of the turn, should the line be full or the disk refuse.
            self.hub.store.try_submit(points::SESSION_LEARNED, move |transaction| {
                rows::set_text(transaction, &ledger, no, column, Some(&value))
            });
        }
    }

    /// What was learned and is not known to be on disk, unless somebody has chosen otherwise since.
    pub(super) fn take_learned(&mut self) -> Vec<(&'static str, String)> {
        let (id, model) = self.session.change(|state| (state.cli_session.clone(), state.model_told.clone()));
        let mut learned = std::mem::take(&mut self.learned);
        learned.retain(|(column, value)| (if *column == "cli_session" { &id } else { &model }).as_ref() == Some(value));
        learned
    }

    /// Puts the agent's question to people.
    async fn ask(&mut self, event: &mut Event) -> Result<(), StoreError> {
        let Event::PermissionAsked { request, approval, tool, input, summary, timeout_secs, .. } = event else {
            return Ok(());
        };
        let Some(talk) = &mut self.talk else { return Ok(()) };
        let question = Question {
            session: self.session.no(),
            session_id: self.session.id().to_owned(),
            door: self.session.door().to_owned(),
            agent: self.session.agent().to_owned(),
            cwd: self.session.cwd().to_owned(),
            turn: self.turn.as_ref().map_or(0, |turn| turn.no),
            process: talk.id(),
            request: request.clone(),
            seq: self.recorder.next_seq(),
            tool: tool.clone(),
            input: input.clone(),
            summary: summary.clone(),
            wait: self.session.approval_wait,
        };
        let asked = insist(&self.session, || self.hub.approvals.ask(question.clone())).await?;
        approval.clone_from(&asked.id);
        *timeout_secs = asked.expires_ns.saturating_sub(asked.created_ns) / 1_000_000_000;
        talk.asked(&asked);
        Ok(())
    }

    pub(super) async fn hear_decisions(&mut self) -> Result<(), StoreError> {
        let Some(talk) = &mut self.talk else { return Ok(()) };
        let open = talk.open_questions();
        if open.is_empty() {
            return Ok(());
        }
        let approvals = insist(&self.session, || self.hub.approvals.these(open.clone())).await?;
        talk.decided(&approvals);
        Ok(())
    }

    /// Time has passed: stop harder, or stop because it takes too long.
    async fn watch_clock(&mut self, limit: Option<Instant>) -> Result<(), StoreError> {
        let grace = self.hub.options.stop_grace;
        let (Some(talk), Some(turn)) = (&mut self.talk, &mut self.turn) else { return Ok(()) };
        if talk.escalate(grace) || talk.is_endless(grace) {
            return self.lose_process().await;
        }
        let now = Instant::now();
        if turn.linger.take_if(|at| *at <= now).is_some() && !talk.is_signalled() {
            talk.signal(grace);
        }
        if limit.is_some_and(|at| at <= now) {
            turn.deadline = after(self.hub.options.turn_limit);
            let (no, number) = (self.session.no(), turn.no);
            let cause = Cause::TimeLimit;
            self.hub
                .store
                .write(points::TURN_STOPPED, move |transaction| rows::set_cause(transaction, no, number, cause))
                .await
                .ok();
            self.session.change(|state| {
                if let Some(running) = &mut state.running {
                    running.cause.get_or_insert(cause);
                }
            });
        }
        Ok(())
    }
}
