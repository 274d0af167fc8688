//! The answers of the house about sessions and approvals, as far as this program reads them.
//!
//! Invariant: every field but the ids may be missing, so that a newer and an older house are both understood.

use hostel_doors::native::protocol::GuardInfo;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::update::Usage;

/// The answer to `session/list`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct SessionList {
    #[serde(default)]
    pub(crate) sessions: Vec<Value>,
}

/// One session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionRow {
    pub(crate) session_id: String,
    pub(crate) name: Option<String>,
    pub(crate) agent_alias: String,
    /// `idle` or `busy`.
    pub(crate) status: String,
    /// `live`, `archived` or `killed`.
    pub(crate) standing: String,
    pub(crate) mode: String,
    pub(crate) model: Option<String>,
    pub(crate) hosting: String,
    pub(crate) cwd: String,
    pub(crate) door: String,
    pub(crate) queued: u64,
    pub(crate) running_turn: Option<u64>,
    pub(crate) last_seq: u64,
    pub(crate) turns: u64,
    pub(crate) usage: Usage,
    pub(crate) pid: Option<u32>,
    /// What it is called in a mesh.
    pub(crate) address: String,
    /// Where it was launched, if it was: it is called so there, and is in no other mesh.
    pub(crate) launched: Option<LaunchedRow>,
    /// What becomes of messages from meshes: `off`, `ask` or `on`; empty where the house knows none.
    pub(crate) mesh: String,
    /// The guard around its process; none for a session that is not in use.
    pub(crate) guard: Option<GuardInfo>,
    pub(crate) created_at: Value,
    pub(crate) last_activity: Value,
}

/// Where a session was launched.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LaunchedRow {
    pub(crate) mesh: String,
    pub(crate) name: String,
}

impl SessionRow {
    pub(crate) fn created_ns(&self) -> u64 {
        moment_ns(&self.created_at)
    }

    pub(crate) fn active_ns(&self) -> u64 {
        moment_ns(&self.last_activity)
    }

    /// Whether it takes prompts.
    pub(crate) fn live(&self) -> bool {
        matches!(self.standing.as_str(), "" | "live")
    }

    /// What people call it: its name, or the start of its id.
    pub(crate) fn handle(&self) -> &str {
        match &self.name {
            Some(name) if !name.is_empty() => name,
            _ => super::short(&self.session_id),
        }
    }
}

/// The answer to `session/new`.
#[derive(Debug, Deserialize)]
pub(crate) struct Made {
    pub(crate) session_id: String,
    /// What its agent may do without asking.
    #[serde(default)]
    pub(crate) mode: Option<String>,
}

/// The answer to `session/send`: the prompt is on disk.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Sent {
    pub(crate) turn: u64,
    /// 0 when it starts at once, else its place in the queue.
    pub(crate) position: u64,
    pub(crate) after_seq: u64,
}

/// The answer to `session/attach`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attached {
    pub(crate) last_seq: u64,
}

/// The answer to `agents/list`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AgentList {
    #[serde(default)]
    pub(crate) agents: Vec<AgentRow>,
}

/// One agent that can be asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AgentRow {
    pub(crate) alias: String,
    pub(crate) kind: String,
}

/// The answer to `approval/list`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ApprovalList {
    #[serde(default)]
    pub(crate) approvals: Vec<Value>,
}

/// One question of an agent to a person.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApprovalRow {
    pub(crate) id: String,
    pub(crate) session_id: String,
    pub(crate) turn: u64,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) summary: String,
    /// `pending`, `approved`, `denied`, `expired` or `withdrawn`.
    pub(crate) state: String,
    /// The decision's word.
    pub(crate) decision: Value,
    pub(crate) decider: Option<String>,
}

/// A moment: RFC 3339, or nanoseconds since the epoch.
pub(crate) fn moment_ns(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_u64().unwrap_or(0),
        Value::String(text) => {
            text.parse::<jiff::Timestamp>().ok().and_then(|time| u64::try_from(time.as_nanosecond()).ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// A moment for documents, UTC to the second; empty for none.
pub(crate) fn moment(time_ns: u64) -> String {
    if time_ns == 0 {
        return String::new();
    }
    let seconds = i64::try_from(time_ns / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

/// The house writes every field in two spellings, `session_id` and `sessionId`. One is enough: the first.
pub(crate) fn one_spelling(value: Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.into_iter().map(one_spelling).collect()),
        Value::Object(mut fields) => {
            let twins: Vec<String> = fields.keys().filter(|key| key.contains('_')).map(|key| camel(key)).collect();
            for twin in twins {
                fields.remove(&twin);
            }
            // What a tool gets is the tool's own business.
            let foreign = |key: &str| matches!(key, "input" | "raw_input");
            Value::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| if foreign(&key) { (key, value) } else { (key, one_spelling(value)) })
                    .collect(),
            )
        }
        other => other,
    }
}

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_spelling_is_enough() {
        let both = json!({"session_id": "s", "sessionId": "s", "usage": {"input_tokens": 1, "inputTokens": 1}, "cwd": "/",
                          "raw_input": {"a_b": 1, "aB": 2}, "rawInput": {"a_b": 1, "aB": 2}});
        let one =
            json!({"session_id": "s", "usage": {"input_tokens": 1}, "cwd": "/", "raw_input": {"a_b": 1, "aB": 2}});
        assert_eq!(one_spelling(both), one);
    }

    #[test]
    fn moments_in_either_form() {
        assert_eq!(moment_ns(&json!("1970-01-01T00:00:01.500Z")), 1_500_000_000);
        assert_eq!(moment_ns(&json!(7)), 7);
        assert_eq!((moment_ns(&json!(null)), moment_ns(&json!("soon"))), (0, 0));
        assert_eq!((moment(1_500_000_000).as_str(), moment(0).as_str()), ("1970-01-01T00:00:01Z", ""));
    }
}
