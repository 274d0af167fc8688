//! Events of a session, made from what the fuzzer says.

use arbitrary::Arbitrary;
use hostel_agents::{Event, Outcome, Raw, Usage};
use serde_json::Value;
use serde_json::value::RawValue;

/// Of one input, so that long texts stay seldom.
const MOST_BYTES: usize = 2 << 20;
/// A text that fits into no line.
const LONG: usize = 200 * 1024;

/// A text, and how often it is repeated.
#[derive(Arbitrary, Debug)]
pub struct Text {
    pub piece: String,
    pub times: u8,
}

/// Something that happened in a turn.
#[derive(Arbitrary, Debug)]
pub enum Said {
    Delta(Text),
    Whole(Text),
    Thought(Text),
    Init(Text, Option<Text>, Option<Text>, Option<String>),
    ToolBegan(Text),
    ToolCall(Text, Text),
    Progress(Text, Text, Option<String>),
    ToolResult(Text, Text, bool),
    Error(Text),
    Asked(Text, Text, String, u64),
    Result(Option<Text>, Option<String>),
    Started,
    Ended(u8, Text),
}

/// The events.
pub fn told(said: &[Said]) -> Vec<Event> {
    let mut room = MOST_BYTES;
    said.iter().map(|said| said.event(&mut room)).collect()
}

impl Text {
    fn make(&self, room: &mut usize) -> String {
        // One of 256, and none that comes up by itself: a line at the limit costs as much as a thousand short ones.
        let times = if self.times == 0xa7 { LONG / self.piece.len().max(1) } else { usize::from(self.times % 4) };
        let text = self.piece.repeat(times.min(*room / self.piece.len().max(1)));
        *room -= text.len();
        text
    }
}

/// A JSON value: the text itself if it is one, else the text as a string.
fn raw(text: &str) -> Raw {
    match RawValue::from_string(text.to_owned()) {
        Ok(value) if serde_json::from_str::<Value>(text).is_ok() => Raw(value),
        _ => Raw::of(&text),
    }
}

impl Said {
    fn event(&self, room: &mut usize) -> Event {
        match self {
            Said::Delta(text) => Event::TextDelta { text: text.make(room) },
            Said::Whole(text) => Event::Text { text: text.make(room), streamed: true },
            Said::Thought(text) => Event::ThoughtDelta { text: text.make(room) },
            Said::Init(subtype, session, model, line) => Event::Init {
                subtype: subtype.make(room),
                session_id: session.as_ref().map(|session| session.make(room)),
                model: model.as_ref().map(|model| model.make(room)),
                raw: line.as_deref().map(raw),
            },
            Said::ToolBegan(name) => Event::ToolBegan { name: name.make(room) },
            Said::ToolCall(name, input) => {
                Event::ToolCall { id: String::new(), name: name.make(room), input: raw(&input.make(room)) }
            }
            Said::Progress(name, message, line) => Event::ToolProgress {
                name: name.make(room),
                message: message.make(room),
                raw: line.as_deref().map(raw),
            },
            Said::ToolResult(name, output, failed) => Event::ToolResult {
                id: String::new(),
                name: name.make(room),
                output: output.make(room),
                failed: *failed,
            },
            Said::Error(message) => Event::Error { message: message.make(room) },
            Said::Asked(tool, summary, input, timeout_secs) => Event::PermissionAsked {
                request: "r".to_owned(),
                approval: "a".to_owned(),
                call: String::new(),
                tool: tool.make(room),
                input: raw(input),
                summary: summary.make(room),
                timeout_secs: *timeout_secs,
            },
            Said::Result(session, line) => Event::Result {
                session_id: session.as_ref().map(|session| session.make(room)),
                raw: line.as_deref().map(raw),
            },
            Said::Started => Event::TurnStarted { turn: 1, prompt: String::new(), door: String::new() },
            Said::Ended(outcome, text) => Event::TurnEnded {
                turn: 1,
                outcome: [Outcome::Completed, Outcome::Failed, Outcome::Cancelled][usize::from(outcome % 3)],
                text: text.make(room),
                usage: Usage::default(),
            },
        }
    }
}
