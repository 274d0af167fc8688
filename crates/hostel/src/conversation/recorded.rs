//! Events of a session as the house keeps them, one to a line, read as updates.
//!
//! Invariant: what streamed in pieces is not said again as a whole, as in the updates that are sent live.

use hostel_agents::Decision;
use hostel_agents::Event;
use hostel_agents::Raw;
use serde::Deserialize;
use serde_json::Value;

use super::update::Outcome;
use super::update::Question;
use super::update::Step;
use super::update::Update;
use super::update::Usage;
use super::update::What;
use super::wire::moment_ns;

/// The answer to `session/export`: a piece of the record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) last_seq: u64,
    pub(crate) done: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    turn: u64,
    #[serde(default)]
    time: Value,
    #[serde(default)]
    event: Option<Event>,
    #[serde(default)]
    gap: Option<Gap>,
}

#[derive(Deserialize)]
struct Gap {
    from_seq: u64,
    to_seq: u64,
}

/// Reads one line of a record.
pub(crate) fn read(line: &str) -> serde_json::Result<Update> {
    let line: Line = serde_json::from_str(line)?;
    let what = match (line.event, line.gap) {
        (Some(event), _) => what(event),
        (None, Some(gap)) => What::Gap { from: gap.from_seq, to: gap.to_seq },
        (None, None) => What::Other,
    };
    Ok(Update { seq: line.seq, turn: line.turn, time_ns: moment_ns(&line.time), what })
}

fn what(event: Event) -> What {
    match event {
        Event::TurnStarted { prompt, door, .. } => What::TurnStarted { prompt, door },
        Event::TextDelta { text } | Event::Text { text, streamed: false } => What::Text(text),
        Event::ThoughtDelta { text } | Event::Thought { text, streamed: false } => What::Thought(text),
        Event::ToolCall { id, name, input } => What::ToolCall { id, name, input: value(&input) },
        Event::ToolResult { id, name, output, failed } => What::ToolResult { id, name, output, failed },
        Event::PermissionAsked { approval, tool, input, summary, timeout_secs, .. } => {
            What::Asked(Question { request_id: approval, tool, summary, input: value(&input), timeout_secs })
        }
        Event::PermissionAnswered { approval, decision, .. } => {
            let (word, reason) = word(decision);
            What::Answered { request_id: approval, decision: word.to_owned(), reason }
        }
        Event::PermissionWithdrawn { request } => {
            What::Answered { request_id: request, decision: "withdrawn".to_owned(), reason: String::new() }
        }
        Event::Plan { entries } => {
            What::Plan(entries.into_iter().map(|entry| Step { content: entry.content, status: entry.status }).collect())
        }
        Event::Notice { message } => What::Notice(message),
        Event::Error { message } => What::Error(message),
        Event::TurnEnded { outcome, text, usage, .. } => What::TurnEnded {
            outcome: match outcome {
                hostel_agents::Outcome::Completed => Outcome::Completed,
                hostel_agents::Outcome::Failed => Outcome::Failed,
                hostel_agents::Outcome::Cancelled => Outcome::Cancelled,
            },
            content: text,
            usage: Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_tokens: usage.cached_tokens,
                cost_usd: usage.cost_usd,
            },
        },
        Event::Init { .. }
        | Event::Text { .. }
        | Event::Thought { .. }
        | Event::ToolBegan { .. }
        | Event::ToolProgress { .. }
        | Event::ContextUsage { .. }
        | Event::Result { .. } => What::Other,
    }
}

fn value(raw: &Raw) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// A decision's word, and what the agent was told with it.
fn word(decision: Decision) -> (&'static str, String) {
    match decision {
        Decision::AllowOnce | Decision::AllowChangeable => ("allow_once", String::new()),
        Decision::AllowAlways => ("allow_always", String::new()),
        Decision::Reject(reason) => ("reject", reason),
        Decision::RejectWithEdit(text) => ("reject_with_edit", text),
        Decision::Answers(_) => ("answers", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_record_are_updates() {
        let line = r#"{"seq":7,"turn":2,"time":"1970-01-01T00:00:01.000Z","event":{"tool_call":{"id":"c","name":"Bash","input":{"command":"ls"}}}}"#;
        let update = read(line).unwrap();
        assert_eq!((update.seq, update.turn, update.time_ns), (7, 2, 1_000_000_000));
        let input = serde_json::json!({"command": "ls"});
        assert_eq!(update.what, What::ToolCall { id: "c".into(), name: "Bash".into(), input });
        let whole = r#"{"seq":8,"turn":2,"event":{"text":{"text":"said in pieces","streamed":true}}}"#;
        assert_eq!(read(whole).unwrap().what, What::Other);
        let gap = r#"{"gap":{"from_seq":3,"to_seq":5}}"#;
        assert_eq!(read(gap).unwrap().what, What::Gap { from: 3, to: 5 });
    }
}
