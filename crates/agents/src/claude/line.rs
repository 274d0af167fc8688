//! What claude's lines mean.
//!
//! Invariant: the words of a subagent never become words of the answer. Unknown lines and fields are passed over.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::answer::{self, Question};
use super::{Claude, Streamed, Talk, Unasked, WAITING_LIMIT};
use crate::driver::Heard;
use crate::event::Event;
use crate::raw::Raw;
use crate::text::{self, Field};

/// The fields of any line.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    pub(super) subtype: Field<'a>,
    #[serde(borrow)]
    event: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    pub(super) session_id: Field<'a>,
    #[serde(borrow)]
    model: Field<'a>,
    #[serde(borrow)]
    parent_tool_use_id: Field<'a>,
    #[serde(borrow)]
    request_id: Field<'a>,
    #[serde(borrow)]
    request: Field<'a>,
    #[serde(borrow)]
    tool_name: Field<'a>,
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    elapsed_time_seconds: Field<'a>,
}

#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    delta: Field<'a>,
    #[serde(borrow)]
    content_block: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    thinking: Field<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    usage: Field<'a>,
}

#[derive(Default, Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    thinking: Field<'a>,
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    name: Field<'a>,
    #[serde(borrow)]
    input: Field<'a>,
    #[serde(borrow)]
    tool_use_id: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    is_error: Field<'a>,
}

impl Block<'_> {
    fn is_tool(&self) -> bool {
        matches!(text::string(self.kind).as_deref(), Some("tool_use" | "server_tool_use" | "mcp_tool_use"))
    }

    fn is_result(&self) -> bool {
        text::string(self.kind).is_some_and(|kind| kind.ends_with("tool_result"))
    }
}

#[derive(Deserialize)]
struct Retry<'a> {
    #[serde(borrow)]
    attempt: Field<'a>,
    #[serde(borrow)]
    max_retries: Field<'a>,
    #[serde(borrow)]
    error_status: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    subtype: Field<'a>,
    #[serde(borrow)]
    tool_name: Field<'a>,
    #[serde(borrow)]
    input: Field<'a>,
    #[serde(borrow)]
    tool_use_id: Field<'a>,
}

/// The line there are most of, a piece of text, read in one pass. Whatever does not fit is read the long way.
#[derive(Deserialize)]
struct TextPiece<'a> {
    #[serde(borrow)]
    event: TextEvent<'a>,
    parent_tool_use_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct TextEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    delta: TextDelta<'a>,
}

#[derive(Deserialize)]
struct TextDelta<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// How such a line begins, as claude writes it.
const PIECE: &str = "{\"type\":\"stream_event\"";

impl Claude {
    /// One line of output.
    pub(super) fn read(&mut self, bytes: &[u8], heard: &mut Heard) {
        let json = text::line(bytes);
        if json.starts_with(PIECE)
            && let Ok(piece) = serde_json::from_str::<TextPiece<'_>>(&json)
            && piece.event.kind == "content_block_delta"
            && piece.parent_tool_use_id.is_none()
        {
            self.main_output();
            self.text_piece(piece.event.delta.text.into_owned(), heard);
            return;
        }
        let Some(line) = text::parse::<Line<'_>>(&json) else { return };
        match text::string(line.kind).as_deref() {
            Some("stream_event") => self.piece(&line, heard),
            Some("assistant") => self.reply(&line, heard),
            Some("user") => self.tool_results(&line, heard),
            Some("system") => self.system(&line, &json, heard),
            Some("tool_progress") => heard.events.push(Event::ToolProgress {
                name: text::owned(line.tool_name).unwrap_or_default(),
                message: text::owned(line.status).unwrap_or_else(|| elapsed(line.elapsed_time_seconds)),
                raw: Raw::line(&json),
            }),
            Some("control_request") => self.asked(&line, heard),
            Some("control_cancel_request") => self.withdrawn(&line, heard),
            Some("result") => self.result(&line, &json, heard),
            _ => {}
        }
    }

    fn piece(&mut self, line: &Line<'_>, heard: &mut Heard) {
        if line.parent_tool_use_id.is_some() {
            return;
        }
        let Some(event) = text::object::<StreamEvent<'_>>(line.event) else { return };
        self.main_output();
        match text::string(event.kind).as_deref() {
            Some("content_block_delta") => {
                let Some(delta) = text::object::<Delta<'_>>(event.delta) else { return };
                if let Some(text) = text::owned(delta.text) {
                    self.text_piece(text, heard);
                } else if let Some(text) = text::owned(delta.thinking).filter(|text| !text.is_empty()) {
                    self.state.streamed.thought = true;
                    heard.events.push(Event::ThoughtDelta { text });
                }
            }
            Some("content_block_start") => {
                let block = text::object::<Block<'_>>(event.content_block).unwrap_or_default();
                if block.is_tool() {
                    heard.events.push(Event::ToolBegan { name: text::owned(block.name).unwrap_or_default() });
                }
            }
            Some("message_start") => {
                let message = text::object::<Message<'_>>(event.message).and_then(|message| text::owned(message.id));
                self.state.streamed = Streamed { message, ..Streamed::default() };
            }
            _ => {}
        }
    }

    fn text_piece(&mut self, text: String, heard: &mut Heard) {
        if !text.is_empty() {
            self.state.streamed.text = true;
            heard.events.push(Event::TextDelta { text });
        }
    }

    /// Output that is no subagent's.
    fn main_output(&mut self) {
        if self.state.unasked == Unasked::Announced {
            self.state.unasked = Unasked::Runs;
        }
    }

    fn reply(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(message) = text::object::<Message<'_>>(line.message) else { return };
        let of_subagent = line.parent_tool_use_id.is_some();
        let mut answer = text::owned(message.content).unwrap_or_default();
        let mut thought = String::new();
        let mut called = false;
        for raw in text::list(message.content) {
            let Some(block) = text::parse::<Block<'_>>(raw.get()) else { continue };
            if block.is_tool() {
                called = true;
                let id = text::owned(block.id).unwrap_or_default();
                let name = text::owned(block.name).unwrap_or_default();
                self.state.tools.learn(&id, &name);
                heard.events.push(Event::ToolCall { id, name, input: block.input.map_or_else(Raw::null, Raw::from) });
            } else if block.is_result() {
                self.tool_result(&block, heard);
            } else {
                answer.extend(text::string(block.text));
                thought.extend(text::string(block.thinking));
            }
        }
        if of_subagent {
            return;
        }
        self.main_output();
        self.state.context = super::result::context(message.usage).or(self.state.context);
        let streamed = self.was_streamed(message.id);
        if !thought.is_empty() {
            heard.events.push(Event::Thought { text: thought, streamed: streamed.thought });
        }
        if !answer.is_empty() || !called {
            heard.events.push(Event::Text { streamed: streamed.text && !answer.is_empty(), text: answer });
        }
    }

    /// What of this message has come in pieces since its last whole part. After a broken stream claude may ask again
    /// without streaming: another message then, whose pieces never came.
    fn was_streamed(&mut self, message: Field<'_>) -> Streamed {
        let streamed = &mut self.state.streamed;
        let same = match (&streamed.message, text::string(message)) {
            (Some(streaming), Some(message)) => *streaming == message,
            _ => true,
        };
        if !same {
            return Streamed::default();
        }
        Streamed {
            message: None,
            text: std::mem::take(&mut streamed.text),
            thought: std::mem::take(&mut streamed.thought),
        }
    }

    fn tool_results(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(message) = text::object::<Message<'_>>(line.message) else { return };
        for raw in text::list(message.content) {
            if let Some(block) = text::parse::<Block<'_>>(raw.get())
                && block.is_result()
            {
                self.tool_result(&block, heard);
            }
        }
    }

    fn tool_result(&mut self, block: &Block<'_>, heard: &mut Heard) {
        let id = text::owned(block.tool_use_id).unwrap_or_default();
        // A call that is over without our answer needs none any more.
        let moot = self.state.questions.iter().position(|question| !id.is_empty() && question.call == id);
        let moot = moot.map(|at| self.state.questions.remove(at).request);
        heard.events.extend(moot.map(|request| Event::PermissionWithdrawn { request }));
        let name = self.state.tools.take(&id).unwrap_or_default();
        let output = text::content(block.content);
        heard.events.push(Event::ToolResult { id, name, output, failed: text::is_true(block.is_error) });
    }

    fn system(&mut self, line: &Line<'_>, json: &str, heard: &mut Heard) {
        let subtype = text::owned(line.subtype).unwrap_or_default();
        let session_id = text::owned(line.session_id);
        if session_id.is_some() {
            self.state.session_id.clone_from(&session_id);
        }
        if subtype == "init" && self.talk == Talk::Stream && !self.state.running {
            self.state.unasked = Unasked::Announced;
        }
        let retry =
            if subtype == "api_retry" { text::parse::<Retry<'_>>(json).map(|retry| retry.notice()) } else { None };
        heard.events.push(Event::Init { subtype, session_id, model: text::owned(line.model), raw: Raw::line(json) });
        heard.events.extend(retry.map(|message| Event::Notice { message }));
    }

    fn asked(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let (Some(id), Some(request)) = (line.request_id, text::object::<Request<'_>>(line.request)) else { return };
        let name = text::owned(Some(id)).unwrap_or_else(|| id.get().to_owned());
        let id = Raw::from(id);
        if text::string(request.subtype).as_deref() != Some("can_use_tool") {
            self.say(answer::refuse(&id, "not supported"));
            return;
        }
        if self.state.questions.iter().any(|question| question.request == name) {
            return;
        }
        if self.state.questions.len() >= WAITING_LIMIT {
            self.say(answer::refuse(&id, "too many questions at once"));
            return;
        }
        let tool = text::owned(request.tool_name).unwrap_or_default();
        let input = request.input.map_or_else(|| Raw::of(&serde_json::Map::new()), Raw::from);
        let call = text::owned(request.tool_use_id).unwrap_or_default();
        heard.events.push(Event::PermissionAsked {
            request: name.clone(),
            approval: String::new(),
            call: call.clone(),
            summary: text::summary(&tool, &text::gist(&input.0)),
            tool: tool.clone(),
            input: input.clone(),
            timeout_secs: 0,
        });
        self.state.questions.push(Question { request: name, id, call, tool, input });
    }

    fn withdrawn(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(id) = line.request_id else { return };
        if let Some(at) = self.state.questions.iter().position(|question| question.id.get() == id.get()) {
            let question = self.state.questions.remove(at);
            heard.events.push(Event::PermissionWithdrawn { request: question.request });
        }
    }
}

impl Retry<'_> {
    fn notice(&self) -> String {
        let error = text::string(self.error).unwrap_or_default();
        let status = text::number(self.error_status).map(|status| format!(" ({status})")).unwrap_or_default();
        let attempt = text::number(self.attempt).unwrap_or_default();
        let most = text::number(self.max_retries).unwrap_or_default();
        format!("The model did not answer: {error}{status}. Trying again, {attempt} of {most}.")
    }
}

fn elapsed(seconds: Field<'_>) -> String {
    text::number(seconds).map(|seconds| format!("{seconds} s")).unwrap_or_default()
}
