//! Events of the house as `session/update` lines.
//!
//! Invariant: flat params with `type` and `session_id`; `seq` and `turn` beside them, so that whoever is cut off knows
//! where to go on. What streamed in pieces is not said again as a whole.

use std::collections::HashMap;

use hostel_agents::Decision;
use hostel_agents::Event;
use hostel_agents::Outcome;
use hostel_agents::Usage;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Approvals;
use hostel_house::sessions::Entry;

use super::keys::Object;
use super::keys::Spelling;
use super::time;

/// What every line starts with.
const HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":"session/update","params":"#;

/// Open questions whose approval is remembered, for the day they are withdrawn.
const REMEMBERED: usize = 64;

/// Writes updates of one session.
pub(crate) struct Updates {
    session: String,
    spelling: Spelling,
    /// Also what the contract's own clients are not told: that a turn has started.
    full: bool,
    /// The approvals of questions, by the agent's own id.
    asked: HashMap<String, String>,
    /// Knows how long an open question still waits.
    approvals: Option<Approvals>,
}

impl Updates {
    pub(crate) fn new(session: &str, spelling: Spelling, full: bool) -> Self {
        Updates { session: session.to_owned(), spelling, full, asked: HashMap::new(), approvals: None }
    }

    /// A question that is still open is sent with the time that is left for it.
    #[must_use]
    pub(crate) fn timed_by(self, approvals: Approvals) -> Self {
        Updates { approvals: Some(approvals), ..self }
    }

    /// Adds the line of an event, if it has one.
    pub(crate) fn push(&mut self, lines: &mut Vec<u8>, entry: &Entry) {
        let mark = |update: &mut Object<'_>| {
            update.value("seq", &entry.seq).value("turn", &entry.turn);
        };
        match &entry.event {
            Event::TurnStarted { turn, prompt, door } if self.full => self.line(lines, "turn_started", |update| {
                update.value("seq", &entry.seq).value("turn", turn).value("prompt", prompt).value("door", door);
            }),
            Event::TextDelta { text } | Event::Text { text, streamed: false } if !text.is_empty() => {
                self.line(lines, "agent_message_chunk", |update| {
                    update.value("text", text);
                    mark(update);
                });
            }
            Event::ThoughtDelta { text } | Event::Thought { text, streamed: false } if !text.is_empty() => {
                self.line(lines, "agent_thought_chunk", |update| {
                    update.value("text", text);
                    mark(update);
                });
            }
            Event::ToolCall { id, name, input } => self.line(lines, "tool_call", |update| {
                update.value("tool_call_id", id).value("name", name).value("raw_input", input);
                mark(update);
            }),
            Event::ToolResult { id, name, output, failed } => self.line(lines, "tool_result", |update| {
                update.value("tool_call_id", id).value("name", name).value("raw_output", output);
                update.value("failed", failed);
                mark(update);
            }),
            Event::PermissionAsked { request, approval, call, tool, input, summary, timeout_secs } => {
                if self.asked.len() < REMEMBERED {
                    self.asked.insert(request.clone(), approval.clone());
                }
                let expires = self.approvals.as_ref().and_then(|approvals| approvals.expires_ns(approval));
                let left = expires.map_or(*timeout_secs, seconds_until);
                self.line(lines, "approval_request", |update| {
                    update.value("request_id", approval).value("tool_name", tool);
                    update.value("arguments_summary", summary).value("timeout_secs", &left);
                    update.value("tool_call_id", call).value("raw_input", input);
                    mark(update);
                });
            }
            Event::PermissionAnswered { request, approval, decision } => {
                self.asked.remove(request);
                self.resolved(lines, approval, word(decision), mark);
            }
            Event::PermissionWithdrawn { request } => {
                if let Some(approval) = self.asked.remove(request) {
                    self.resolved(lines, &approval, "withdrawn", mark);
                }
            }
            Event::Plan { entries } => self.line(lines, "plan", |update| {
                update.value("entries", entries);
                mark(update);
            }),
            Event::ContextUsage { used, limit } => self.line(lines, "context_usage", |update| {
                if let Some(used) = used {
                    update.value("input_tokens", used);
                }
                if let Some(limit) = limit {
                    update.value("max_context_tokens", limit);
                }
                mark(update);
            }),
            Event::Notice { message } => self.line(lines, "notice", |update| {
                update.value("message", message);
                mark(update);
            }),
            Event::Error { message } => self.line(lines, "error", |update| {
                update.value("message", message);
                mark(update);
            }),
            Event::TurnEnded { turn, outcome, text, usage } => {
                self.line(lines, "turn_complete", |update| {
                    update.value("outcome", outcome).value("content", text);
                    update.value("seq", &entry.seq).value("turn", turn);
                    update.value("usage", &spelled_usage(usage, self.spelling));
                });
            }
            Event::TurnStarted { .. }
            | Event::Init { .. }
            | Event::TextDelta { .. }
            | Event::Text { .. }
            | Event::ThoughtDelta { .. }
            | Event::Thought { .. }
            | Event::ToolBegan { .. }
            | Event::ToolProgress { .. }
            | Event::Result { .. } => {}
        }
    }

    /// A question that was asked before this stream began.
    pub(crate) fn push_approval(&self, lines: &mut Vec<u8>, approval: &Approval) {
        let left = seconds_until(approval.expires_ns);
        self.line(lines, "approval_request", |update| {
            update.value("request_id", &approval.id).value("tool_name", &approval.tool);
            update.value("arguments_summary", &approval.summary).value("timeout_secs", &left);
            update.value("raw_input", &approval.input).value("turn", &approval.turn);
        });
    }

    /// The end of a turn that never was one: the prompt was refused.
    pub(crate) fn push_refused(&self, lines: &mut Vec<u8>, why: &str) {
        self.line(lines, "turn_complete", |update| {
            update.value("outcome", &Outcome::Failed).value("content", why);
        });
    }

    /// Events that are gone for good.
    pub(crate) fn push_gap(&self, lines: &mut Vec<u8>, from: u64, to: u64) {
        self.line(lines, "gap", |update| {
            update.value("from_seq", &from).value("to_seq", &to);
        });
    }

    /// The end of a stream that is not the end of a turn.
    pub(crate) fn push_end(&self, lines: &mut Vec<u8>, kind: &str, last_seq: u64) {
        self.line(lines, kind, |update| {
            update.value("last_seq", &last_seq);
        });
    }

    fn resolved(&self, lines: &mut Vec<u8>, approval: &str, decision: &str, mark: impl FnOnce(&mut Object<'_>)) {
        self.line(lines, "approval_resolved", |update| {
            update.value("request_id", approval).value("decision", decision);
            mark(update);
        });
    }

    fn line(&self, lines: &mut Vec<u8>, kind: &str, fill: impl FnOnce(&mut Object<'_>)) {
        lines.extend_from_slice(HEAD);
        let mut update = Object::open(lines, self.spelling);
        update.value("type", kind).value("session_id", &self.session);
        fill(&mut update);
        update.close();
        lines.extend_from_slice(b"}\n");
    }
}

/// Whole seconds until then, those begun included.
fn seconds_until(moment_ns: u64) -> u64 {
    moment_ns.saturating_sub(time::now_ns()).div_ceil(1_000_000_000)
}

/// What a turn or a session cost, in the spellings that are wanted.
pub(crate) fn spelled_usage(usage: &Usage, spelling: Spelling) -> serde_json::Value {
    super::keys::spell(serde_json::to_value(usage).unwrap_or_default(), spelling)
}

/// A decision as `session/approve` calls it.
pub(crate) fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allow_once",
        Decision::AllowChangeable => "allow_changeable",
        Decision::AllowAlways => "allow_always",
        Decision::Reject(_) => "reject",
        Decision::RejectWithEdit(_) => "reject_with_edit",
        Decision::Answers(_) => "answers",
    }
}

#[cfg(test)]
mod tests {
    use hostel_agents::PlanEntry;
    use hostel_agents::Raw;
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    fn sent(updates: &mut Updates, events: Vec<Event>) -> Vec<Value> {
        let mut lines = Vec::new();
        for (index, event) in events.into_iter().enumerate() {
            updates.push(&mut lines, &Entry { seq: index as u64 + 1, turn: 4, time_ns: 0, event });
        }
        let lines = String::from_utf8(lines).unwrap();
        lines
            .lines()
            .map(|line| {
                let mut frame: Value = serde_json::from_str(line).unwrap();
                assert_eq!((&frame["jsonrpc"], &frame["method"]), (&json!("2.0"), &json!("session/update")));
                frame["params"].take()
            })
            .collect()
    }

    fn snake(full: bool, events: Vec<Event>) -> Vec<Value> {
        sent(&mut Updates::new("s", Spelling::Snake, full), events)
    }

    #[test]
    fn text_and_thoughts_are_said_once() {
        let text = |text: &str| text.to_owned();
        let events = || {
            vec![
                Event::TurnStarted { turn: 4, prompt: text("hi"), door: text("zeroclaw") },
                Event::TextDelta { text: text("Hel") },
                Event::Text { text: text("Hel"), streamed: true },
                Event::Text { text: text("whole"), streamed: false },
                Event::Text { text: text(""), streamed: false },
                Event::ThoughtDelta { text: text("hm") },
                Event::Thought { text: text("hm"), streamed: true },
                Event::Thought { text: text("so"), streamed: false },
                Event::ToolBegan { name: text("x") },
                Event::Result { session_id: None, raw: None },
            ]
        };
        let chunk = |kind: &str, text: &str, seq: u64| json!({"type": kind, "session_id": "s", "text": text, "seq": seq, "turn": 4});
        let plain = vec![
            chunk("agent_message_chunk", "Hel", 2),
            chunk("agent_message_chunk", "whole", 4),
            chunk("agent_thought_chunk", "hm", 6),
            chunk("agent_thought_chunk", "so", 8),
        ];
        assert_eq!(snake(false, events()), plain);
        let full = snake(true, events());
        assert_eq!(
            full[0],
            json!({"type": "turn_started", "session_id": "s", "seq": 1, "turn": 4, "prompt": "hi", "door": "zeroclaw"})
        );
        assert_eq!(full[1..], plain);
    }

    #[test]
    fn tools_plans_and_ends() {
        let input = Raw(serde_json::value::RawValue::from_string(r#"{"file_path": "a"}"#.to_owned()).unwrap());
        let usage = Usage { input_tokens: 5, ..Usage::default() };
        let found = sent(
            &mut Updates::new("s", Spelling::Both, false),
            vec![
                Event::ToolCall { id: "c".into(), name: "Read".into(), input },
                Event::ToolResult { id: "c".into(), name: "Read".into(), output: "a\nb".into(), failed: false },
                Event::Plan {
                    entries: vec![PlanEntry { content: "x".into(), status: "pending".into(), priority: "low".into() }],
                },
                Event::ContextUsage { used: Some(3), limit: None },
                Event::TurnEnded { turn: 4, outcome: Outcome::Cancelled, text: "why".into(), usage },
            ],
        );
        assert_eq!(
            (&found[0]["raw_input"], &found[0]["rawInput"]),
            (&json!({"file_path": "a"}), &found[0]["raw_input"])
        );
        assert_eq!((&found[0]["tool_call_id"], &found[0]["toolCallId"]), (&json!("c"), &json!("c")));
        assert_eq!((&found[1]["raw_output"], &found[1]["sessionId"]), (&json!("a\nb"), &json!("s")));
        assert_eq!(found[2]["entries"], json!([{"content": "x", "status": "pending", "priority": "low"}]));
        assert_eq!((&found[3]["inputTokens"], found[3].get("max_context_tokens")), (&json!(3), None));
        assert_eq!((&found[4]["outcome"], &found[4]["content"]), (&json!("cancelled"), &json!("why")));
        assert_eq!((&found[4]["usage"]["input_tokens"], &found[4]["usage"]["inputTokens"]), (&json!(5), &json!(5)));
    }

    #[test]
    fn questions_are_asked_and_settled_under_the_same_id() {
        let asked = || Event::PermissionAsked {
            request: "r1".into(),
            approval: "uuid".into(),
            call: "c".into(),
            tool: "Bash".into(),
            input: Raw::null(),
            summary: "command: ls".into(),
            timeout_secs: 120,
        };
        let found = snake(
            false,
            vec![
                asked(),
                Event::PermissionAnswered {
                    request: "r1".into(),
                    approval: "uuid".into(),
                    decision: Decision::AllowOnce,
                },
                asked(),
                Event::PermissionWithdrawn { request: "r1".into() },
                Event::PermissionWithdrawn { request: "never asked".into() },
            ],
        );
        assert_eq!(found.len(), 4);
        assert_eq!((&found[0]["request_id"], &found[0]["timeout_secs"]), (&json!("uuid"), &json!(120)));
        assert_eq!((&found[0]["tool_name"], &found[0]["arguments_summary"]), (&json!("Bash"), &json!("command: ls")));
        assert_eq!((&found[1]["type"], &found[1]["decision"]), (&json!("approval_resolved"), &json!("allow_once")));
        assert_eq!((&found[3]["request_id"], &found[3]["decision"]), (&json!("uuid"), &json!("withdrawn")));
    }

    #[test]
    fn what_is_no_event_is_said_too() {
        let updates = Updates::new("s", Spelling::Snake, false);
        let mut lines = Vec::new();
        updates.push_gap(&mut lines, 3, 9);
        updates.push_end(&mut lines, "replay_complete", 12);
        updates.push_refused(&mut lines, "why");
        let text = String::from_utf8(lines).unwrap();
        let params: Vec<Value> =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["params"].take()).collect();
        assert_eq!(params[0], json!({"type": "gap", "session_id": "s", "from_seq": 3, "to_seq": 9}));
        assert_eq!(params[1], json!({"type": "replay_complete", "session_id": "s", "last_seq": 12}));
        assert_eq!(
            params[2],
            json!({"type": "turn_complete", "session_id": "s", "outcome": "failed", "content": "why"})
        );
    }
}
