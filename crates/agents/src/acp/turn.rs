//! A turn: from a prompt to the answer of `session/prompt`.
//!
//! Invariant: the pieces of a message are followed by the whole of it before another message, a tool or the end, so
//! that whoever comes late misses nothing. A call is told once with its input and once with its end, whatever order
//! the agent has.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::acp::Acp;
use crate::acp::update::{self, Piece, Update};
use crate::driver::{Encoded, Heard, TurnOver};
use crate::event::{Event, Outcome, PlanEntry, Usage};
use crate::jsonrpc::{self, Failure};
use crate::launch::Kind;
use crate::raw::Raw;
use crate::text::{self, Field, Gathered};

/// Calls of a turn that are remembered; the oldest are forgotten.
const CALLS_LIMIT: usize = 128;

/// The largest input and the most output of a call that are kept for later.
const KEPT_LIMIT: usize = 256 * 1024;

/// Steps of a plan that are told.
const PLAN_LIMIT: usize = 256;

/// A running turn.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Turn {
    /// The id of its request.
    pub(super) id: u64,
    /// It was asked to stop.
    pub(super) cancelling: bool,
    text: Gathered,
    thought: Gathered,
    /// The id of the message that is being said, where the agent tells.
    message: String,
    calls: Vec<Call>,
    /// What the session had cost before.
    cost: Option<f64>,
    /// The agent's engine has given up; the answer may not say so.
    broken: bool,
}

/// A call of a tool.
#[derive(Default, Deserialize, Serialize)]
struct Call {
    id: String,
    tool: String,
    input: Option<Raw>,
    output: Gathered,
    told: bool,
    /// It was asked about and not allowed.
    refused: bool,
    over: bool,
}

impl Turn {
    /// Tells the whole of what was said in pieces.
    pub(super) fn flush(&mut self, heard: &mut Heard) {
        if let Some(text) = self.thought.take() {
            heard.events.push(Event::Thought { text, streamed: true });
        }
        if let Some(text) = self.text.take() {
            heard.events.push(Event::Text { text, streamed: true });
        }
    }

    /// A call was asked about and will not be.
    pub(super) fn refused(&mut self, id: &str) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
            call.refused = true;
        }
    }

    /// The agent has gone on. Some say nothing more of a call that was refused.
    fn settle(&mut self, heard: &mut Heard) {
        for call in self.calls.iter_mut().filter(|call| call.refused && !call.over) {
            call.over = true;
            let (id, name, output) = (call.id.clone(), call.tool.clone(), "The tool was refused.".to_owned());
            heard.events.push(Event::ToolResult { id, name, output, failed: true });
        }
    }

    fn said(&mut self, piece: Cow<'_, str>, message: Field<'_>, thought: bool, heard: &mut Heard) {
        self.settle(heard);
        let message = text::string(message).unwrap_or_default();
        let other = if thought { &self.text } else { &self.thought };
        if !other.as_str().is_empty() || self.message != message {
            self.flush(heard);
            self.message = message.into_owned();
        }
        let text = piece.into_owned();
        if thought {
            self.thought.push(&text);
            heard.events.push(Event::ThoughtDelta { text });
        } else {
            self.text.push(&text);
            heard.events.push(Event::TextDelta { text });
        }
    }

    /// Where the call of that id is kept. It may be heard of for the first time here.
    fn call(&mut self, kind: Kind, id: &str, update: &Update<'_>) -> &mut Call {
        let at = self.calls.iter().position(|call| call.id == id).unwrap_or_else(|| {
            if self.calls.len() == CALLS_LIMIT {
                self.calls.remove(0);
            }
            let tool = update::tool(kind, id, update);
            self.calls.push(Call { id: id.to_owned(), tool, ..Call::default() });
            self.calls.len() - 1
        });
        &mut self.calls[at]
    }

    /// The agent asks about a call. Gives its tool and, where they are known, its input.
    pub(super) fn called(
        &mut self,
        kind: Kind,
        id: &str,
        tool: &Update<'_>,
        heard: &mut Heard,
    ) -> (String, Option<Raw>) {
        self.flush(heard);
        let call = self.call(kind, id, tool);
        let known = call.input.clone();
        call.tell(tool, known.clone().or_else(|| update::input(tool)), heard);
        (call.tool.clone(), known)
    }

    fn tool(&mut self, kind: Kind, update: &Update<'_>, begins: bool, heard: &mut Heard) {
        let id = text::string(update.tool_call_id).unwrap_or_default();
        self.flush(heard);
        if begins {
            self.calls.retain(|call| call.id != id || !call.over);
        }
        let call = self.call(kind, &id, update);
        if call.over {
            return;
        }
        let input = update::input(update);
        let has_input = input.is_some();
        if let Some(kept) = input.as_ref().filter(|input| input.get().len() <= KEPT_LIMIT) {
            call.input = Some(kept.clone());
        }
        let input = input.or_else(|| call.input.clone());
        if let Some(piece) = update::terminal(update) {
            call.output.push(text::head(&piece, KEPT_LIMIT.saturating_sub(call.output.as_str().len())));
        }
        let status = text::string(update.status).unwrap_or_default();
        match &*status {
            "completed" | "failed" => {
                call.tell(update, input, heard);
                call.end(update, status == "failed", heard);
            }
            "in_progress" => call.tell(update, input, heard),
            // What is pending may still be dictated by the model: its input is not complete.
            _ if begins && !call.told => heard.events.push(Event::ToolBegan { name: call.tool.clone() }),
            _ if has_input && !begins => call.tell(update, input, heard),
            _ => {}
        }
    }
}

impl Call {
    fn tell(&mut self, update: &Update<'_>, input: Option<Raw>, heard: &mut Heard) {
        if !std::mem::replace(&mut self.told, true) {
            let input = input.unwrap_or_else(|| update::description(update));
            heard.events.push(Event::ToolCall { id: self.id.clone(), name: self.tool.clone(), input });
        }
    }

    fn end(&mut self, update: &Update<'_>, failed: bool, heard: &mut Heard) {
        self.over = true;
        self.input = None;
        let output = update::output(update, self.output.take());
        heard.events.push(Event::ToolResult { id: self.id.clone(), name: self.tool.clone(), output, failed });
    }
}

impl Acp {
    pub(super) fn encode_prompt(&self, prompt: &str) -> Encoded {
        use crate::driver::Driver as _;
        if self.ready() {
            let session = &self.state.opening.session;
            let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": prompt }] });
            Encoded::Bytes(jsonrpc::request(self.state.next_id, "session/prompt", &params))
        } else if self.spent() || self.state.opening.failure.is_some() {
            Encoded::Nothing
        } else {
            Encoded::Later
        }
    }

    /// The prompt is on its way.
    pub(super) fn begin(&mut self) {
        let turn = Turn { id: self.state.next_id, cost: self.state.cost, ..Turn::default() };
        self.state.next_id += 1;
        self.state.turn = Some(turn);
    }

    pub(super) fn encode_interrupt(&self) -> Encoded {
        match &self.state.turn {
            Some(_) => {
                let params = json!({ "sessionId": self.state.opening.session });
                Encoded::Bytes(jsonrpc::notification("session/cancel", &params))
            }
            None => Encoded::Nothing,
        }
    }

    /// `session/cancel` is on its way: the agent must hear that its questions are void, too.
    pub(super) fn interrupted(&mut self, heard: &mut Heard) {
        if let Some(turn) = &mut self.state.turn {
            turn.cancelling = true;
            self.forget_questions(heard);
        }
    }

    /// A `session/update` that says something.
    pub(super) fn piece(&mut self, piece: Piece<'_>, heard: &mut Heard) {
        if self.state.opening.session_id() == Some(piece.session.trim_start())
            && let Some(turn) = &mut self.state.turn
        {
            turn.said(piece.text, piece.message, piece.thought, heard);
        }
    }

    /// `session/update`.
    pub(super) fn update(&mut self, params: Field<'_>, heard: &mut Heard) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow)]
            session_id: Field<'a>,
            #[serde(borrow)]
            update: Option<Update<'a>>,
        }
        let Some(Params { session_id, update: Some(update) }) = text::object(params) else { return };
        if let Some(session) = text::string(session_id)
            && self.state.opening.session_id() != Some(session.trim_start())
        {
            return;
        }
        let kind = text::string(update.session_update).unwrap_or_default();
        match &*kind {
            "available_commands_update" => self.state.opening.history_is_over(),
            "usage_update" => self.learn_cost(&update),
            _ => {}
        }
        let agent = self.setup.kind;
        let Some(turn) = &mut self.state.turn else { return };
        match &*kind {
            "agent_message_chunk" | "agent_thought_chunk" => {
                if let Some(piece) = update::chunk(update.content) {
                    turn.said(piece, update.message_id, kind == "agent_thought_chunk", heard);
                }
            }
            "tool_call" => turn.tool(agent, &update, true, heard),
            "tool_call_update" => turn.tool(agent, &update, false, heard),
            "plan" => heard.events.push(Event::Plan { entries: plan(&update) }),
            "usage_update" => {
                let (used, limit) = (text::number(update.used), text::number(update.size));
                heard.events.push(Event::ContextUsage { used, limit });
            }
            "session_info_update" => {
                turn.broken |= update::is_broken(&update);
                heard.events.extend(update::warning(&update).map(|message| Event::Notice { message }));
            }
            _ => {}
        }
    }

    /// An update tells what the whole session has cost. Where nobody knows what it had cost before, counting begins
    /// with the first word of it.
    fn learn_cost(&mut self, update: &Update<'_>) {
        #[derive(Deserialize)]
        struct Cost<'a> {
            #[serde(borrow)]
            amount: Field<'a>,
            #[serde(borrow)]
            currency: Field<'a>,
        }
        let Some(cost) = text::object::<Cost<'_>>(update.cost) else { return };
        let dollars = text::string(cost.currency).is_none_or(|currency| currency == "USD");
        let Some(amount) = text::decimal(cost.amount).filter(|_| dollars).map(text::dollars) else { return };
        self.state.cost = Some(amount);
        if let Some(turn) = &mut self.state.turn {
            turn.cost.get_or_insert(amount);
        }
    }

    /// The answer to `session/prompt`.
    pub(super) fn finish(&mut self, line: &str, result: Result<Field<'_>, Failure>, heard: &mut Heard) {
        self.forget_questions(heard);
        let Some(mut turn) = self.state.turn.take() else { return };
        self.state.over = true;
        turn.settle(heard);
        let last = turn.text.as_str().trim().to_owned();
        turn.flush(heard);
        let cost_usd = self.state.cost.zip(turn.cost).map_or(0.0, |(now, before)| text::dollars(now - before));
        let over = match result {
            Ok(result) => {
                heard.events.push(Event::Result {
                    session_id: self.state.opening.session_id().map(str::to_owned),
                    raw: Raw::line(line),
                });
                let answer: Answer<'_> = text::object(result).unwrap_or_default();
                let (outcome, reason) = match text::string(answer.stop_reason).as_deref() {
                    Some("cancelled") => (Outcome::Cancelled, ""),
                    Some("end_turn") if turn.broken && !last.is_empty() => (Outcome::Failed, &*last),
                    Some("end_turn") if turn.broken => (Outcome::Failed, "the agent's engine has given up"),
                    Some("refusal") => (Outcome::Failed, "the agent refused to go on"),
                    Some("max_tokens") => (Outcome::Failed, "the agent came to its limit of tokens"),
                    Some("max_turn_requests") => (Outcome::Failed, "the agent came to its limit of requests in a turn"),
                    _ => (Outcome::Completed, ""),
                };
                if outcome == Outcome::Failed {
                    heard.events.push(Event::Error { message: reason.to_owned() });
                }
                TurnOver { outcome, reason: reason.to_owned(), usage: Usage { cost_usd, ..answer.usage() } }
            }
            Err(_) if turn.cancelling => TurnOver {
                outcome: Outcome::Cancelled,
                reason: String::new(),
                usage: Usage { cost_usd, ..Usage::default() },
            },
            Err(failure) => {
                heard.events.push(Event::Error { message: failure.message.clone() });
                let usage = Usage { cost_usd, ..Usage::default() };
                TurnOver { outcome: Outcome::Failed, reason: failure.message, usage }
            }
        };
        heard.over = Some(over);
    }
}

/// What `session/prompt` answers.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow)]
    stop_reason: Field<'a>,
    #[serde(borrow)]
    usage: Field<'a>,
    #[serde(borrow, rename = "_meta")]
    meta: Field<'a>,
}

impl Answer<'_> {
    fn usage(&self) -> Usage {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tokens<'a> {
            #[serde(borrow)]
            input_tokens: Field<'a>,
            #[serde(borrow)]
            output_tokens: Field<'a>,
            #[serde(borrow)]
            cached_read_tokens: Field<'a>,
            #[serde(borrow)]
            cached_write_tokens: Field<'a>,
            #[serde(borrow)]
            thought_tokens: Field<'a>,
            #[serde(borrow)]
            total_tokens: Field<'a>,
        }
        #[derive(Deserialize)]
        struct Meta<'a> {
            #[serde(borrow)]
            quota: Field<'a>,
        }
        #[derive(Deserialize)]
        struct Quota<'a> {
            #[serde(borrow)]
            token_count: Field<'a>,
        }
        #[derive(Deserialize)]
        struct Count<'a> {
            #[serde(borrow)]
            input_tokens: Field<'a>,
            #[serde(borrow)]
            output_tokens: Field<'a>,
        }
        if let Some(tokens) = text::object::<Tokens<'_>>(self.usage) {
            let number = |field| text::number(field).unwrap_or(0);
            let (input, output) = (number(tokens.input_tokens), number(tokens.output_tokens));
            let read = number(tokens.cached_read_tokens);
            // Some agents count the cached tokens among those read and some beside them: the total tells which.
            let beside = number(tokens.total_tokens)
                .saturating_sub(input.saturating_add(output).saturating_add(number(tokens.thought_tokens)))
                .min(read.saturating_add(number(tokens.cached_write_tokens)));
            let input_tokens = input.saturating_add(beside);
            return Usage { input_tokens, output_tokens: output, cached_tokens: read, cost_usd: 0.0 };
        }
        let count = text::object::<Meta<'_>>(self.meta)
            .and_then(|meta| text::object::<Quota<'_>>(meta.quota))
            .and_then(|quota| text::object::<Count<'_>>(quota.token_count));
        count.map_or_else(Usage::default, |count| Usage {
            input_tokens: text::number(count.input_tokens).unwrap_or(0),
            output_tokens: text::number(count.output_tokens).unwrap_or(0),
            ..Usage::default()
        })
    }
}

fn plan(update: &Update<'_>) -> Vec<PlanEntry> {
    #[derive(Deserialize)]
    struct Entry<'a> {
        #[serde(borrow)]
        content: Field<'a>,
        #[serde(borrow)]
        status: Field<'a>,
        #[serde(borrow)]
        priority: Field<'a>,
    }
    let entries = text::list(update.entries).into_iter().take(PLAN_LIMIT);
    let steps = entries.filter_map(|raw| {
        let entry: Entry<'_> = text::parse(raw.get())?;
        Some(PlanEntry {
            content: text::owned(entry.content)?,
            status: text::owned(entry.status).unwrap_or_else(|| "pending".to_owned()),
            priority: text::owned(entry.priority).unwrap_or_else(|| "medium".to_owned()),
        })
    });
    steps.collect()
}
