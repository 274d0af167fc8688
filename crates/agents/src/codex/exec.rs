//! `codex exec`: one message, one process, lines and no questions.
//!
//! Invariant: today's lines (an `item` of its own) and those of older versions (its fields on the line itself) come to
//! the same events. Text that comes as a growing whole is told as its new tails.

use serde::{Deserialize, Serialize};

use super::item::{Item, Kind};
use super::tokens::Tokens;
use crate::driver::{Driver, Encoded, Exit, Heard, Input};
use crate::ending::{self, Closing};
use crate::event::{Event, Outcome};
use crate::launch::Setup;
use crate::raw::Raw;
use crate::text::{self, Field, Gathered, ToolNames};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    thread_id: Field<'a>,
    #[serde(borrow)]
    model: Field<'a>,
    #[serde(borrow)]
    item: Field<'a>,
    #[serde(borrow)]
    usage: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
}

/// How much of a growing text was told.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Growing {
    item: String,
    told: usize,
    so_far: Gathered,
}

impl Growing {
    /// The part of `text` that is new. Where it does not continue what was told, all after what they share.
    fn tail<'a>(&mut self, item: &str, text: &'a str) -> &'a str {
        if self.item != item {
            *self = Growing { item: item.to_owned(), ..Growing::default() };
        }
        let so_far = self.so_far.as_str();
        let from = if text.starts_with(so_far) && text.is_char_boundary(self.told) {
            self.told
        } else {
            let shared = so_far.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            text.floor_char_boundary(shared)
        };
        self.told = text.len();
        self.so_far = Gathered::default();
        self.so_far.push(text);
        &text[from..]
    }

    /// Whether pieces of this item were told; it is over.
    fn close(&mut self, item: &str) -> bool {
        let told = self.item == item && self.told > 0;
        *self = Growing::default();
        told
    }
}

/// Saved as it is; what an older program did not save yet has its default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct State {
    thread: Option<String>,
    /// The process has not ended: it has one turn, and that is it.
    running: bool,
    /// The prompt was written to standard input.
    prompted: bool,
    closing: Option<Closing>,
    /// The last error that was told.
    complaint: Option<String>,
    message: Growing,
    thought: Growing,
    /// The calls that were told.
    tools: ToolNames,
}

pub(super) struct Exec {
    setup: Setup,
    in_args: bool,
    state: State,
}

impl Exec {
    pub(super) fn new(setup: &Setup) -> Self {
        let in_args = super::prompt_argument(setup).is_some();
        let state = State { running: true, ..State::default() };
        Exec { setup: Setup { prompt: None, ..setup.clone() }, in_args, state }
    }

    pub(super) fn restore(setup: &Setup, saved: &str) -> Result<Self, serde_json::Error> {
        Ok(Exec { state: serde_json::from_str(saved)?, ..Exec::new(setup) })
    }

    fn started(&mut self, item: &Item<'_>, heard: &mut Heard) {
        match item.kind() {
            Kind::Message => self.state.message = Growing::default(),
            Kind::Plan => heard.events.push(item.plan()),
            _ => self.called(item, heard),
        }
    }

    fn called(&mut self, item: &Item<'_>, heard: &mut Heard) {
        if let Some((name, input)) = item.call() {
            let id = item.id();
            if !id.is_empty() {
                self.state.tools.learn(&id, &name);
            }
            heard.events.push(Event::ToolCall { id, name, input });
        }
    }

    fn updated(&mut self, item: &Item<'_>, heard: &mut Heard) {
        let text = text::string(item.text).unwrap_or_default();
        match item.kind() {
            Kind::Message => {
                let text = self.state.message.tail(&item.id(), &text);
                if !text.is_empty() {
                    heard.events.push(Event::TextDelta { text: text.to_owned() });
                }
            }
            Kind::Reasoning => {
                let text = self.state.thought.tail(&item.id(), &text);
                if !text.is_empty() {
                    heard.events.push(Event::ThoughtDelta { text: text.to_owned() });
                }
            }
            Kind::Plan => heard.events.push(item.plan()),
            _ => {}
        }
    }

    fn completed(&mut self, item: &Item<'_>, heard: &mut Heard) {
        let id = item.id();
        match item.kind() {
            Kind::Message => {
                let streamed = self.state.message.close(&id);
                heard.events.push(Event::Text { text: text::owned(item.text).unwrap_or_default(), streamed });
            }
            Kind::Reasoning => {
                let streamed = self.state.thought.close(&id);
                heard.events.push(Event::Thought { text: item.thought(), streamed });
            }
            Kind::Plan => heard.events.push(item.plan()),
            // A warning; errors of the turn come as lines of their own.
            Kind::Error => heard.events.push(Event::Notice { message: text::owned(item.message).unwrap_or_default() }),
            _ => {
                // Some tools are told only when they are over.
                if !id.is_empty() && self.state.tools.take(&id).is_none() {
                    self.called(item, heard);
                    self.state.tools.take(&id);
                }
                heard.events.extend(item.tool_result());
            }
        }
    }

    fn turn_completed(&mut self, line: &Line<'_>, json: &str, heard: &mut Heard) {
        let raw = Raw::line(json);
        heard.events.push(Event::Result { session_id: self.state.thread.clone(), raw });
        // The tokens are those of the whole thread. Where it is not known what it had used before, nothing is said.
        let before =
            if self.setup.resume.is_none() { Some(Tokens::default()) } else { self.setup.used.map(Tokens::from) };
        let used = Tokens::read(line.usage).zip(before).map(|(total, before)| total.since(before));
        let usage = used.unwrap_or_default().into();
        self.state.closing = Some(Closing { outcome: Outcome::Completed, reason: String::new(), usage });
    }

    fn turn_failed(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let reason = message_of(line.error).unwrap_or_else(|| "Turn failed".to_owned());
        heard.events.push(Event::Error { message: reason.clone() });
        let usage = Tokens::default().into();
        self.state.closing = Some(Closing { outcome: Outcome::Failed, reason, usage });
    }

    fn complained(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let message = text::words(line.message).or_else(|| message_of(line.error));
        let message = message.unwrap_or_else(|| "Unknown error".to_owned());
        if is_retry(&message) {
            heard.events.push(Event::Notice { message });
        } else {
            self.state.complaint = Some(message.clone());
            heard.events.push(Event::Error { message });
        }
    }
}

/// An error as a string, or as an object with a message.
fn message_of(error: Field<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Error<'a> {
        #[serde(borrow)]
        message: Field<'a>,
    }
    text::words(error).or_else(|| text::words(text::object::<Error<'_>>(error)?.message))
}

/// Whether an error line only says that it tries again.
fn is_retry(message: &str) -> bool {
    message.starts_with("Reconnecting...")
}

impl Driver for Exec {
    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        let json = text::line(line);
        let Some(line) = text::parse::<Line<'_>>(&json) else { return };
        let item = || text::object::<Item<'_>>(line.item).or_else(|| text::parse(&json)).unwrap_or_default();
        match text::string(line.kind).as_deref() {
            Some("thread.started") => {
                let thread = text::owned(line.thread_id);
                self.state.thread.clone_from(&thread);
                heard.events.push(Event::Init {
                    subtype: "init".to_owned(),
                    session_id: thread,
                    model: text::owned(line.model),
                    raw: Raw::line(&json),
                });
            }
            Some("item.started") => self.started(&item(), heard),
            Some("item.updated") => self.updated(&item(), heard),
            Some("item.completed") => self.completed(&item(), heard),
            Some("turn.completed") => self.turn_completed(&line, &json, heard),
            Some("turn.failed") => self.turn_failed(&line, heard),
            Some("error") => self.complained(&line, heard),
            _ => {}
        }
    }

    fn wants(&self) -> Option<Vec<u8>> {
        None
    }

    fn ready(&self) -> bool {
        !self.in_args && !self.state.prompted
    }

    fn encode(&self, input: &Input<'_>) -> Encoded {
        match input {
            Input::Prompt { .. } if !self.ready() => Encoded::Later,
            // Not one byte would be no input at all, so an empty prompt is at least a line.
            Input::Prompt { text: "", .. } => Encoded::Bytes(b"\n".to_vec()),
            Input::Prompt { text, .. } => Encoded::Bytes(text.as_bytes().to_vec()),
            Input::Interrupt if self.in_args || self.state.prompted => Encoded::Signal,
            Input::Own | Input::Decision { .. } | Input::Interrupt => Encoded::Nothing,
        }
    }

    fn sent(&mut self, input: &Input<'_>, _heard: &mut Heard) {
        if let Input::Prompt { .. } = input {
            self.state.prompted = true;
        }
    }

    fn wants_eof(&self) -> bool {
        self.state.prompted
    }

    fn ended(&mut self, exit: Exit, stderr: &str, heard: &mut Heard) {
        if std::mem::take(&mut self.state.running) {
            let closing = self.state.closing.take();
            ending::of_process(&self.setup, exit, stderr, closing, self.state.complaint.take(), heard);
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.state.thread.as_deref()
    }

    fn save(&self) -> String {
        serde_json::to_string(&self.state).unwrap_or_default()
    }
}
