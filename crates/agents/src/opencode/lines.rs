//! What opencode prints with `run --format json`, today's shapes and the older ones.
//!
//! Invariant: one `Init` and one `Result` in a turn, though there may be many steps: the result is the step that says
//! `stop`, or else an exit without fault.

use serde::{Deserialize, Serialize};

use crate::driver::{Exit, Heard};
use crate::ending::Closing;
use crate::event::{Event, Outcome, Usage};
use crate::oneshot::Lines;
use crate::raw::Raw;
use crate::text::{self, Field, ToolNames};

use super::tool_name;

#[derive(Default, Deserialize, Serialize)]
pub(super) struct OpencodeLines {
    session_id: Option<String>,
    begun: bool,
    closed: bool,
    /// Pieces of text came since the last whole one.
    streamed: bool,
    tools: ToolNames,
    complaint: Option<String>,
    usage: Usage,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow, rename = "sessionID")]
    session_id: Field<'a>,
    #[serde(borrow)]
    model: Field<'a>,
    #[serde(borrow)]
    part: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
}

#[derive(Default, Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    tool: Field<'a>,
    #[serde(borrow, rename = "callID")]
    call_id: Field<'a>,
    #[serde(borrow)]
    state: Field<'a>,
    #[serde(borrow)]
    input: Field<'a>,
    #[serde(borrow)]
    output: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    reason: Field<'a>,
    #[serde(borrow)]
    tokens: Field<'a>,
    #[serde(borrow)]
    cost: Field<'a>,
}

/// How far a tool has come: an object of its own today, once a word beside the other fields of the part.
#[derive(Default, Deserialize)]
struct State<'a> {
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    input: Field<'a>,
    #[serde(borrow)]
    output: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

impl Lines for OpencodeLines {
    fn line(&mut self, json: &str, heard: &mut Heard) {
        let Some(line) = text::parse::<Line<'_>>(json) else { return };
        if let Some(id) = text::owned(line.session_id) {
            self.session_id = Some(id);
        }
        let part: Part<'_> = text::object(line.part).unwrap_or_default();
        match text::string(line.kind).as_deref() {
            Some("step_start") if !self.begun => {
                self.begun = true;
                heard.events.push(Event::Init {
                    subtype: "init".to_owned(),
                    session_id: self.session_id.clone(),
                    model: text::owned(line.model),
                    raw: Raw::line(json),
                });
            }
            Some("text") => {
                let text = text::owned(part.text.or(line.content)).unwrap_or_default();
                let streamed = std::mem::take(&mut self.streamed);
                heard.events.push(Event::Text { text, streamed });
            }
            Some("reasoning") => {
                let text = text::owned(part.text.or(line.content)).unwrap_or_default();
                heard.events.push(Event::Thought { text, streamed: false });
            }
            Some("tool_use") => self.tool(&part, true, heard),
            Some("message.part.updated") => match text::string(part.kind).as_deref() {
                Some("text") => {
                    self.streamed = true;
                    let text = text::owned(part.content.or(part.text)).unwrap_or_default();
                    heard.events.push(Event::TextDelta { text });
                }
                Some("thinking" | "reasoning") => {
                    let text = text::owned(part.content.or(part.text)).unwrap_or_default();
                    heard.events.push(Event::ThoughtDelta { text });
                }
                Some("tool") => self.tool(&part, false, heard),
                _ => {}
            },
            Some("step_finish") => self.step(json, &part, heard),
            Some("error") => self.erred(&line, heard),
            _ => {}
        }
    }

    fn end(&mut self, exit: Exit, heard: &mut Heard) -> Option<Closing> {
        let well = exit.code == 0 && exit.signal == 0 && !exit.lost && !exit.stopped;
        if !self.closed && well && self.complaint.is_none() && self.begun {
            self.closed = true;
            heard.events.push(Event::Result { session_id: self.session_id.clone(), raw: None });
        }
        let usage = self.usage;
        match self.complaint.take() {
            _ if self.closed => Some(Closing { outcome: Outcome::Completed, reason: String::new(), usage }),
            Some(reason) if !exit.stopped => Some(Closing { outcome: Outcome::Failed, reason, usage }),
            _ => None,
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }
}

impl OpencodeLines {
    /// A word about a call; with `whole` it is all that is ever said of it.
    fn tool(&mut self, part: &Part<'_>, whole: bool, heard: &mut Heard) {
        let state: State<'_> = text::object(part.state).unwrap_or_default();
        let status = text::string(state.status.or(part.state)).unwrap_or_default();
        let ended = matches!(&*status, "completed" | "error");
        if !ended && status != "running" {
            return;
        }
        let name = tool_name(&text::string(part.tool).unwrap_or_default());
        let id = text::owned(part.call_id).unwrap_or_default();
        // Calls without an id cannot be told apart: the end of one is taken for the end of one that was told.
        let new = if id.is_empty() { whole || !ended } else { self.tools.learn(&id, &name) };
        if new {
            let input = state.input.or(part.input).map_or_else(Raw::null, Raw::from);
            heard.events.push(Event::ToolCall { id: id.clone(), name: name.clone(), input });
        }
        if ended {
            let failed = status == "error";
            let error = state.error.or(part.error).filter(|_| failed);
            let output = text::owned(error.or(state.output).or(part.output)).unwrap_or_default();
            heard.events.push(Event::ToolResult { id, name, output, failed });
        }
    }

    fn step(&mut self, json: &str, part: &Part<'_>, heard: &mut Heard) {
        #[derive(Default, Deserialize)]
        struct Tokens<'a> {
            #[serde(borrow)]
            input: Field<'a>,
            #[serde(borrow)]
            output: Field<'a>,
            #[serde(borrow)]
            reasoning: Field<'a>,
            #[serde(borrow)]
            cache: Field<'a>,
        }
        #[derive(Default, Deserialize)]
        struct Cache<'a> {
            #[serde(borrow)]
            read: Field<'a>,
            #[serde(borrow)]
            write: Field<'a>,
        }
        let tokens: Tokens<'_> = text::object(part.tokens).unwrap_or_default();
        let cache: Cache<'_> = text::object(tokens.cache).unwrap_or_default();
        let sum = |fields: &[Field<'_>]| {
            fields.iter().fold(0, |sum: u64, field| sum.saturating_add(text::number(*field).unwrap_or(0)))
        };
        let usage = &mut self.usage;
        usage.input_tokens = usage.input_tokens.saturating_add(sum(&[tokens.input, cache.read, cache.write]));
        usage.output_tokens = usage.output_tokens.saturating_add(sum(&[tokens.output, tokens.reasoning]));
        usage.cached_tokens = usage.cached_tokens.saturating_add(sum(&[cache.read]));
        let cost = text::decimal(part.cost).map_or(0.0, text::dollars);
        usage.cost_usd = text::dollars(usage.cost_usd + cost);
        if text::string(part.reason).as_deref() != Some("tool-calls") && !self.closed {
            self.closed = true;
            heard.events.push(Event::Result { session_id: self.session_id.clone(), raw: Raw::line(json) });
        }
    }

    fn erred(&mut self, line: &Line<'_>, heard: &mut Heard) {
        #[derive(Deserialize)]
        struct Error<'a> {
            #[serde(borrow)]
            name: Field<'a>,
            #[serde(borrow)]
            message: Field<'a>,
            #[serde(borrow)]
            data: Field<'a>,
        }
        #[derive(Deserialize)]
        struct Data<'a> {
            #[serde(borrow)]
            message: Field<'a>,
        }
        let message = text::words(line.error).or_else(|| {
            let error: Error<'_> = text::object(line.error)?;
            let data = text::object::<Data<'_>>(error.data).and_then(|data| text::words(data.message));
            data.or_else(|| text::words(error.message)).or_else(|| text::words(error.name))
        });
        let message = message.or_else(|| text::words(line.message)).unwrap_or_else(|| "Unknown error".to_owned());
        heard.events.push(Event::Error { message: message.clone() });
        self.complaint = Some(message);
    }
}
