//! What the lines of the app server mean.
//!
//! Invariant: what belongs to another thread (a subagent's) is no part of the answer, and its end is not the end of
//! the turn; only its questions are told, as somebody has to answer them.

use serde::Deserialize;

use super::ask;
use super::item::{self, Item, Kind};
use super::server::{INITIALIZE, Phase, Server, THREAD, WAITING_LIMIT};
use super::tokens::Tokens;
use crate::driver::Heard;
use crate::event::{Event, Outcome};
use crate::raw::Raw;
use crate::text::{self, Field};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    method: Field<'a>,
    #[serde(borrow)]
    params: Field<'a>,
    #[serde(borrow)]
    result: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    thread_id: Field<'a>,
    #[serde(borrow)]
    turn_id: Field<'a>,
    #[serde(borrow)]
    item_id: Field<'a>,
    #[serde(borrow)]
    delta: Field<'a>,
    #[serde(borrow)]
    item: Field<'a>,
    #[serde(borrow)]
    turn: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    will_retry: Field<'a>,
    #[serde(borrow)]
    token_usage: Field<'a>,
    #[serde(borrow)]
    request_id: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    plan: Field<'a>,
}

#[derive(Deserialize)]
struct Opened<'a> {
    #[serde(borrow)]
    thread: Field<'a>,
    #[serde(borrow)]
    turn: Field<'a>,
    #[serde(borrow)]
    model: Field<'a>,
}

#[derive(Default, Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trouble<'a> {
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    additional_details: Field<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenUsage<'a> {
    #[serde(borrow)]
    total: Field<'a>,
    #[serde(borrow)]
    last: Field<'a>,
    #[serde(borrow)]
    model_context_window: Field<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Total<'a> {
    #[serde(borrow)]
    total_tokens: Field<'a>,
}

impl Server {
    /// One line of output.
    pub(super) fn read(&mut self, bytes: &[u8], heard: &mut Heard) {
        let json = text::line(bytes);
        let Some(line) = text::parse::<Line<'_>>(&json) else { return };
        match (text::string(line.method), line.id) {
            (Some(method), Some(id)) => self.asked(&method, &id.into(), line.params, heard),
            (Some(method), None) => {
                let params = text::object::<Params<'_>>(line.params).unwrap_or_default();
                self.told(&method, &params, &json, heard);
            }
            (None, Some(_)) => self.answered(&line, &json, heard),
            (None, None) => {}
        }
    }

    /// The response to a request of ours.
    fn answered(&mut self, line: &Line<'_>, json: &str, heard: &mut Heard) {
        let Some(id) = text::number(line.id) else { return };
        let turn = self.state.turn.as_ref().map(|turn| turn.request);
        let failed = line.error.map(|error| trouble(Some(error)));
        let opened = text::object::<Opened<'_>>(line.result);
        let named = |field| text::object::<Named<'_>>(field).and_then(|named| text::owned(named.id));
        match failed {
            Some(reason) if self.state.phase == Phase::Handshake && id <= THREAD => {
                self.state.phase = Phase::Broken;
                heard.events.push(Event::Error { message: reason.clone() });
                self.close_turn(Outcome::Failed, reason, heard);
            }
            Some(reason) if Some(id) == turn => {
                heard.events.push(Event::Error { message: reason.clone() });
                self.close_turn(Outcome::Failed, reason, heard);
            }
            // An interrupt came too late.
            Some(_) => {}
            None if id == INITIALIZE && self.state.phase == Phase::Handshake => self.open_thread(),
            None if id == THREAD && self.state.phase == Phase::Handshake => {
                self.state.phase = Phase::Open;
                self.state.thread = opened.as_ref().and_then(|opened| named(opened.thread));
                heard.events.push(Event::Init {
                    subtype: "init".to_owned(),
                    session_id: self.state.thread.clone(),
                    model: opened.and_then(|opened| text::owned(opened.model)),
                    raw: Raw::line(json),
                });
            }
            None if Some(id) == turn => {
                if let (Some(turn), Some(opened)) = (&mut self.state.turn, opened) {
                    turn.id = named(opened.turn).or(turn.id.take());
                }
            }
            None => {}
        }
    }

    /// A request of the server's.
    fn asked(&mut self, method: &str, id: &Raw, params: Field<'_>, heard: &mut Heard) {
        let mut request = text::owned(Some(&id.0)).unwrap_or_else(|| id.get().to_owned());
        if self.state.questions.iter().any(|question| question.id == *id) {
            return;
        }
        if self.state.questions.iter().any(|question| question.request == request) {
            // A number and a string that read the same.
            id.get().clone_into(&mut request);
        }
        while self.state.questions.iter().any(|question| question.request == request) {
            request.push('\'');
        }
        let item = text::object::<Params<'_>>(params).and_then(|params| text::owned(params.item_id));
        let changes = self.state.changes.iter().find(|(of, _)| Some(of) == item.as_ref()).map(|(_, changes)| changes);
        let asked = ask::question(request, id.clone(), method, params, changes);
        match asked.filter(|_| self.state.questions.len() < WAITING_LIMIT) {
            Some((question, event)) => {
                self.state.questions.push(question);
                heard.events.push(event);
            }
            None => self.say(ask::unknown(id)),
        }
    }

    /// A notification.
    fn told(&mut self, method: &str, params: &Params<'_>, json: &str, heard: &mut Heard) {
        if method == "serverRequest/resolved" {
            // Answered questions are gone already: this one is resolved without us.
            let at = self.state.questions.iter().position(|question| is(params.request_id, &question.id));
            let request = at.map(|at| self.state.questions.remove(at).request);
            heard.events.extend(request.map(|request| Event::PermissionWithdrawn { request }));
            return;
        }
        let thread = text::string(params.thread_id);
        if thread.is_some() && thread.as_deref() != self.state.thread.as_deref() {
            return;
        }
        match method {
            "item/agentMessage/delta" => {
                if let Some(text) = text::owned(params.delta).filter(|text| !text.is_empty()) {
                    self.state.message.push(&text);
                    heard.events.push(Event::TextDelta { text });
                }
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                if let Some(text) = text::owned(params.delta).filter(|text| !text.is_empty()) {
                    self.state.thought.push(&text);
                    heard.events.push(Event::ThoughtDelta { text });
                }
            }
            "item/reasoning/summaryPartAdded" if !self.state.thought.as_str().is_empty() => {
                self.state.thought.push("\n\n");
                heard.events.push(Event::ThoughtDelta { text: "\n\n".to_owned() });
            }
            "item/started" => self.item_started(params.item, heard),
            "item/completed" => self.item_completed(params.item, heard),
            "item/mcpToolCall/progress" => {
                let id = text::string(params.item_id).unwrap_or_default();
                heard.events.push(Event::ToolProgress {
                    name: self.state.tools.of(&id).unwrap_or_default().to_owned(),
                    message: text::owned(params.message).unwrap_or_default(),
                    raw: None,
                });
            }
            "turn/plan/updated" => heard.events.push(item::plan(params.plan)),
            "turn/started" => {
                let id = text::object::<Named<'_>>(params.turn).and_then(|turn| text::owned(turn.id));
                if let Some(turn) = &mut self.state.turn {
                    turn.id = id.or(turn.id.take());
                }
            }
            "turn/completed" => self.turn_completed(params, json, heard),
            "thread/tokenUsage/updated" => self.tokens(params, heard),
            "error" => self.complained(params, heard),
            "warning" | "guardianWarning" => {
                heard.events.extend(text::owned(params.message).map(|message| Event::Notice { message }));
            }
            _ => {}
        }
    }

    fn item_started(&mut self, field: Field<'_>, heard: &mut Heard) {
        let Some(item) = text::object::<Item<'_>>(field) else { return };
        match item.kind() {
            // A turn that was steered leaves its message half said and begins another.
            Kind::Message | Kind::Reasoning => self.flush(heard),
            _ => {
                let Some((name, input)) = item.call() else { return };
                let id = item.id();
                if item.kind() == Kind::Files {
                    self.state.changes.push_back((id.clone(), input.clone()));
                    self.state.changes.drain(..self.state.changes.len().saturating_sub(WAITING_LIMIT));
                }
                self.state.tools.learn(&id, &name);
                heard.events.push(Event::ToolCall { id, name, input });
            }
        }
    }

    fn item_completed(&mut self, field: Field<'_>, heard: &mut Heard) {
        let Some(item) = text::object::<Item<'_>>(field) else { return };
        match item.kind() {
            Kind::Message => {
                let streamed = self.state.message.take().is_some();
                heard.events.push(Event::Text { text: text::owned(item.text).unwrap_or_default(), streamed });
            }
            Kind::Reasoning => {
                let streamed = self.state.thought.take().is_some();
                let text = item.thought();
                if !text.is_empty() {
                    heard.events.push(Event::Thought { text, streamed });
                }
            }
            _ => {
                let (Some(result), Some((name, input))) = (item.tool_result(), item.call()) else { return };
                let id = item.id();
                self.state.changes.retain(|(of, _)| *of != id);
                // Some tools are told only when they are over.
                if self.state.tools.take(&id).is_none() {
                    heard.events.push(Event::ToolCall { id, name, input });
                }
                heard.events.push(result);
            }
        }
    }

    fn turn_completed(&mut self, params: &Params<'_>, json: &str, heard: &mut Heard) {
        let ended = text::object::<Named<'_>>(params.turn).unwrap_or_default();
        let Some(turn) = &self.state.turn else { return };
        if turn.id.is_some() && turn.id != text::owned(ended.id) {
            return;
        }
        let (outcome, reason) = match text::string(ended.status).as_deref() {
            Some("failed") => (Outcome::Failed, trouble(ended.error)),
            Some("interrupted") => (Outcome::Cancelled, String::new()),
            _ => (Outcome::Completed, String::new()),
        };
        if outcome == Outcome::Failed && turn.complaint.as_ref() != Some(&reason) {
            heard.events.push(Event::Error { message: reason.clone() });
        }
        // Codex says so too, but later than it ends the turn.
        let thread = self.state.thread.clone();
        for question in self.state.questions.extract_if(.., |question| question.thread == thread) {
            heard.events.push(Event::PermissionWithdrawn { request: question.request });
        }
        self.flush(heard);
        heard.events.push(Event::Result { session_id: thread, raw: Raw::line(json) });
        self.close_turn(outcome, reason, heard);
    }

    fn tokens(&mut self, params: &Params<'_>, heard: &mut Heard) {
        let Some(usage) = text::object::<TokenUsage<'_>>(params.token_usage) else { return };
        let Some(total) = Tokens::read(usage.total) else { return };
        // A resumed thread tells what it had used before, with the id of the turn that was its last.
        let turn = self.state.turn.as_ref().and_then(|turn| turn.id.as_deref());
        if turn.is_some() && turn == text::string(params.turn_id).as_deref() {
            let last = Tokens::read(usage.last).unwrap_or_default();
            self.state.before.get_or_insert(total.since(last));
        } else {
            self.state.before = Some(total);
        }
        self.state.total = Some(total);
        let used = text::object::<Total<'_>>(usage.last).and_then(|last| text::number(last.total_tokens));
        heard.events.push(Event::ContextUsage { used, limit: text::number(usage.model_context_window) });
    }

    fn complained(&mut self, params: &Params<'_>, heard: &mut Heard) {
        let message = trouble(params.error);
        if text::is_true(params.will_retry) {
            heard.events.push(Event::Notice { message });
        } else {
            if let Some(turn) = &mut self.state.turn {
                turn.complaint = Some(message.clone());
            }
            heard.events.push(Event::Error { message });
        }
    }
}

/// An error in words.
fn trouble(error: Field<'_>) -> String {
    let Some(error) = text::object::<Trouble<'_>>(error) else { return "Turn failed".to_owned() };
    let message = text::words(error.message).unwrap_or_else(|| "Turn failed".to_owned());
    match text::words(error.additional_details) {
        Some(details) if details != message => format!("{message} ({details})"),
        _ => message,
    }
}

fn is(field: Field<'_>, id: &Raw) -> bool {
    field.is_some_and(|raw| raw.get() == id.get())
}
