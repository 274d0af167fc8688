//! What gemini prints with `--output-format stream-json`.
//!
//! Invariant: an answer comes in pieces alone; the whole is told before a tool is called and at the end.

use serde::{Deserialize, Serialize};

use crate::driver::{Exit, Heard};
use crate::ending::Closing;
use crate::event::{Event, Outcome, Usage};
use crate::oneshot::Lines;
use crate::raw::Raw;
use crate::text::{self, Field, Gathered, ToolNames};

use super::{tool_name, tool_of_call};

#[derive(Default, Deserialize, Serialize)]
pub(super) struct GeminiLines {
    session_id: Option<String>,
    text: Gathered,
    tools: ToolNames,
    closing: Option<Closing>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Field<'a>,
    #[serde(borrow)]
    session_id: Field<'a>,
    #[serde(borrow)]
    model: Field<'a>,
    #[serde(borrow)]
    role: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    delta: Field<'a>,
    #[serde(borrow)]
    tool_name: Field<'a>,
    #[serde(borrow)]
    tool_id: Field<'a>,
    #[serde(borrow)]
    parameters: Field<'a>,
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    output: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    severity: Field<'a>,
    #[serde(borrow)]
    stats: Field<'a>,
}

impl Lines for GeminiLines {
    fn line(&mut self, json: &str, heard: &mut Heard) {
        let Some(line) = text::parse::<Line<'_>>(json) else { return };
        match text::string(line.kind).as_deref() {
            Some("init") => {
                self.session_id = text::owned(line.session_id);
                heard.events.push(Event::Init {
                    subtype: "init".to_owned(),
                    session_id: self.session_id.clone(),
                    model: text::owned(line.model),
                    raw: Raw::line(json),
                });
            }
            Some("message") if text::string(line.role).as_deref() == Some("assistant") => self.said(&line, heard),
            Some("tool_use") => self.called(&line, heard),
            Some("tool_result") => self.returned(&line, heard),
            Some("error") => self.erred(&line, heard),
            Some("result") => self.closed(json, &line, heard),
            _ => {}
        }
    }

    fn end(&mut self, _exit: Exit, heard: &mut Heard) -> Option<Closing> {
        self.flush(heard);
        self.closing.take()
    }

    fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }
}

impl GeminiLines {
    fn flush(&mut self, heard: &mut Heard) {
        heard.events.extend(self.text.take().map(|text| Event::Text { text, streamed: true }));
    }

    fn said(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let text = text::content(line.content);
        if text::is_true(line.delta) {
            self.text.push(&text);
            heard.events.push(Event::TextDelta { text });
        } else {
            self.flush(heard);
            heard.events.push(Event::Text { text, streamed: false });
        }
    }

    fn called(&mut self, line: &Line<'_>, heard: &mut Heard) {
        self.flush(heard);
        let id = text::owned(line.tool_id).unwrap_or_default();
        let name = tool_name(&text::string(line.tool_name).unwrap_or_default());
        self.tools.learn(&id, &name);
        let input = line.parameters.map_or_else(Raw::null, Raw::from);
        heard.events.push(Event::ToolCall { id, name, input });
    }

    fn returned(&mut self, line: &Line<'_>, heard: &mut Heard) {
        self.flush(heard);
        let id = text::owned(line.tool_id).unwrap_or_default();
        let known = self.tools.take(&id);
        let name = known.or_else(|| tool_of_call(&id).map(tool_name)).unwrap_or_default();
        let failed = text::string(line.status).as_deref() == Some("error");
        let output = line.output.map(|raw| text::owned(Some(raw)).unwrap_or_else(|| raw.get().to_owned()));
        let output = match message(line.error).filter(|_| failed).or(output) {
            None if failed => "The tool failed.".to_owned(),
            output => output.unwrap_or_default(),
        };
        heard.events.push(Event::ToolResult { id, name, output, failed });
    }

    fn erred(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let message = text::words(line.message).or_else(|| message(line.error));
        let message = message.unwrap_or_else(|| "Unknown error".to_owned());
        heard.events.push(Event::Error { message: message.clone() });
        if text::string(line.severity).as_deref() != Some("warning") && self.closing.is_none() {
            self.closing = Some(Closing { outcome: Outcome::Failed, reason: message, usage: Usage::default() });
        }
    }

    fn closed(&mut self, json: &str, line: &Line<'_>, heard: &mut Heard) {
        self.flush(heard);
        let usage = usage(line.stats);
        if text::string(line.status).as_deref() == Some("error") {
            let reason = message(line.error).unwrap_or_else(|| "The turn failed.".to_owned());
            heard.events.push(Event::Error { message: reason.clone() });
            self.closing = Some(Closing { outcome: Outcome::Failed, reason, usage });
        } else {
            heard.events.push(Event::Result { session_id: self.session_id.clone(), raw: Raw::line(json) });
            self.closing = Some(Closing { outcome: Outcome::Completed, reason: String::new(), usage });
        }
    }
}

/// The message of an error, which may be all of it.
fn message(error: Field<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Error<'a> {
        #[serde(borrow)]
        message: Field<'a>,
    }
    text::words(error).or_else(|| text::words(text::object::<Error<'_>>(error)?.message))
}

fn usage(stats: Field<'_>) -> Usage {
    #[derive(Deserialize)]
    struct Stats<'a> {
        #[serde(borrow)]
        input_tokens: Field<'a>,
        #[serde(borrow)]
        output_tokens: Field<'a>,
        #[serde(borrow)]
        cached: Field<'a>,
    }
    text::object::<Stats<'_>>(stats).map_or_else(Usage::default, |stats| Usage {
        input_tokens: text::number(stats.input_tokens).unwrap_or(0),
        output_tokens: text::number(stats.output_tokens).unwrap_or(0),
        cached_tokens: text::number(stats.cached).unwrap_or(0),
        cost_usd: 0.0,
    })
}
