//! What the house tells about a session, one update at a time, as the terminal needs it.
//!
//! Invariant: an update of a type nobody here knows is passed over, never an error, so that an older program can watch
//! a newer house. A known type with missing fields gets empty ones.
//!
//! It holds the texts as the agent wrote them. Making them harmless is the business of whoever prints them.

use serde::Deserialize;
use serde_json::value::RawValue;

/// One numbered update of a session.
#[derive(Debug)]
pub(crate) struct Update {
    /// The event's number; 0 where an update has none.
    pub(crate) seq: u64,
    /// The turn it belongs to; 0 outside of turns.
    pub(crate) turn: u64,
    /// When it happened, nanoseconds since the epoch; 0 where nobody said.
    pub(crate) time_ns: u64,
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, PartialEq)]
pub(crate) enum What {
    TurnStarted {
        prompt: String,
        door: String,
    },
    Text(String),
    Thought(String),
    ToolCall {
        id: String,
        name: String,
        input: serde_json::Value,
    },
    ToolResult {
        id: String,
        name: String,
        output: String,
        failed: bool,
    },
    Asked(Question),
    Answered {
        request_id: String,
        decision: String,
        /// What the agent was told with a refusal, where that is known.
        reason: String,
    },
    Plan(Vec<Step>),
    Notice(String),
    Error(String),
    TurnEnded {
        outcome: Outcome,
        content: String,
        usage: Usage,
    },
    /// These numbers are gone for good.
    Gap {
        from: u64,
        to: u64,
    },
    /// Everything there was has been told.
    Replayed,
    /// The session was closed; nothing follows.
    Closed,
    /// The house cannot read on.
    Broken,
    /// Something for others.
    Other,
}

/// The agent asks whether it may.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Question {
    pub(crate) request_id: String,
    pub(crate) tool: String,
    pub(crate) summary: String,
    /// What the tool would get.
    pub(crate) input: serde_json::Value,
    pub(crate) timeout_secs: u64,
}

/// One step of a plan.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) content: String,
    pub(crate) status: String,
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Completed,
    Failed,
    Cancelled,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) cost_usd: f64,
}

/// All fields any update may have. The house also sends each under its other spelling, which is passed over.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields<'a> {
    r#type: String,
    seq: u64,
    turn: u64,
    time_ns: u64,
    text: String,
    message: String,
    prompt: String,
    door: String,
    tool_call_id: String,
    name: String,
    #[serde(borrow)]
    raw_input: Option<&'a RawValue>,
    #[serde(borrow)]
    raw_output: Option<&'a RawValue>,
    failed: bool,
    request_id: String,
    tool_name: String,
    arguments_summary: String,
    timeout_secs: u64,
    decision: String,
    entries: Vec<Step>,
    outcome: String,
    content: String,
    reason: String,
    usage: Usage,
    from_seq: u64,
    to_seq: u64,
    dropped_messages: u64,
}

impl Update {
    /// Reads the parameters of a `session/update`.
    pub(crate) fn parse(params: &str) -> serde_json::Result<Update> {
        let fields: Fields<'_> = serde_json::from_str(params)?;
        let (seq, turn, time_ns) = (fields.seq, fields.turn, fields.time_ns);
        Ok(Update { seq, turn, time_ns, what: fields.what() })
    }
}

impl Fields<'_> {
    fn what(self) -> What {
        match self.r#type.as_str() {
            "turn_started" => What::TurnStarted { prompt: self.prompt, door: self.door },
            "agent_message_chunk" => What::Text(self.text),
            "agent_thought_chunk" => What::Thought(self.text),
            "tool_call" => What::ToolCall { id: self.tool_call_id, name: self.name, input: json_of(self.raw_input) },
            "tool_result" => What::ToolResult {
                id: self.tool_call_id,
                name: self.name,
                output: self.raw_output.map(text_of).unwrap_or_default(),
                failed: self.failed,
            },
            "approval_request" => What::Asked(Question {
                request_id: self.request_id,
                tool: self.tool_name,
                summary: self.arguments_summary,
                input: json_of(self.raw_input),
                timeout_secs: self.timeout_secs,
            }),
            "approval_resolved" => {
                What::Answered { request_id: self.request_id, decision: self.decision, reason: self.reason }
            }
            "plan" => What::Plan(self.entries),
            "notice" => What::Notice(first_of([self.message, self.text])),
            "error" => What::Error(first_of([self.message, self.text])),
            "history_trimmed" => What::Notice(format!(
                "the agent dropped {} earlier messages from its memory{}{}",
                self.dropped_messages,
                if self.reason.is_empty() { "" } else { ": " },
                self.reason
            )),
            "turn_complete" => What::TurnEnded {
                outcome: match self.outcome.as_str() {
                    "failed" => Outcome::Failed,
                    "cancelled" => Outcome::Cancelled,
                    // The contract: unknown words count as completed.
                    _ => Outcome::Completed,
                },
                content: self.content,
                usage: self.usage,
            },
            "gap" => What::Gap { from: self.from_seq, to: self.to_seq },
            "replay_complete" => What::Replayed,
            "session_closed" => What::Closed,
            "replay_failed" => What::Broken,
            _ => What::Other,
        }
    }
}

/// A tool's output: a text, or whatever else as JSON.
fn text_of(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

fn json_of(raw: Option<&RawValue>) -> serde_json::Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn first_of<const N: usize>(texts: [String; N]) -> String {
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(params: &str) -> What {
        Update::parse(params).unwrap().what
    }

    #[test]
    fn both_spellings_at_once_are_no_trouble() {
        let update = Update::parse(
            r#"{"type":"tool_call","session_id":"s","sessionId":"s","tool_call_id":"c1","toolCallId":"c1","name":"Bash",
                "raw_input":{"command":"ls"},"rawInput":{"command":"ls"},"seq":7,"turn":2}"#,
        )
        .unwrap();
        assert_eq!((update.seq, update.turn), (7, 2));
        let input = serde_json::json!({"command": "ls"});
        assert_eq!(update.what, What::ToolCall { id: "c1".into(), name: "Bash".into(), input });
    }

    #[test]
    fn every_kind_is_understood_and_strangers_are_passed_over() {
        assert_eq!(what(r#"{"type":"agent_message_chunk","text":"Hel"}"#), What::Text("Hel".into()));
        assert_eq!(
            what(r#"{"type":"tool_result","tool_call_id":"c","name":"n","raw_output":"a\nb","failed":true}"#),
            What::ToolResult { id: "c".into(), name: "n".into(), output: "a\nb".into(), failed: true }
        );
        assert_eq!(
            what(r#"{"type":"tool_result","raw_output":{"ok":1}}"#),
            What::ToolResult { id: "".into(), name: "".into(), output: r#"{"ok":1}"#.into(), failed: false }
        );
        assert_eq!(what(r#"{"type":"error","message":"no"}"#), What::Error("no".into()));
        assert_eq!(what(r#"{"type":"gap","from_seq":3,"to_seq":9}"#), What::Gap { from: 3, to: 9 });
        assert_eq!(
            what(r#"{"type":"turn_complete","outcome":"failed","content":"why","usage":{"input_tokens":5}}"#),
            What::TurnEnded {
                outcome: Outcome::Failed,
                content: "why".into(),
                usage: Usage { input_tokens: 5, ..Usage::default() }
            }
        );
        assert_eq!(what(r#"{"type":"something_new","x":[1,2]}"#), What::Other);
        assert_eq!(what(r#"{"type":"approval_request"}"#), What::Asked(Question::default()));
        assert!(Update::parse(r#"{"type":"#).is_err());
    }
}
