//! What is written to claude: prompts, interrupts, answers to its questions.
//!
//! Invariant: every line is one JSON value; claude ends at a line that is none.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::driver::{Decision, Shown};
use crate::raw::Raw;
use crate::text;

/// What claude is told when no words came with a refusal.
const NO: &str = "The user said no.";

/// A question of claude's that waits for an answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Question {
    /// Its id as text.
    pub(super) request: String,
    /// Its id as it was written.
    pub(super) id: Raw,
    /// The call it is about, empty where nobody said.
    pub(super) call: String,
    /// The tool.
    pub(super) tool: String,
    /// What the tool would get.
    pub(super) input: Raw,
}

#[derive(Serialize)]
struct Reply<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
struct Response<'a> {
    subtype: &'static str,
    request_id: &'a Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Answer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    behavior: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_input: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_permissions: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl Question {
    /// The line that answers it, about the call that was shown.
    pub(super) fn answer(&self, decision: &Decision, shown: Option<Shown<'_>>) -> String {
        let Shown { tool, input } = shown.unwrap_or(Shown { tool: &self.tool, input: &self.input });
        let allow = |updated_input, updated_permissions| Answer {
            behavior: "allow",
            updated_input: Some(updated_input),
            updated_permissions,
            message: None,
        };
        let response = match decision {
            Decision::AllowOnce | Decision::AllowChangeable => allow(input.clone(), None),
            Decision::AllowAlways => allow(input.clone(), Some(rule(tool))),
            Decision::Answers(answers) => allow(with_answers(input, answers), None),
            Decision::Reject(words) | Decision::RejectWithEdit(words) => Answer {
                behavior: "deny",
                updated_input: None,
                updated_permissions: None,
                message: Some(if words.trim().is_empty() { NO } else { words }),
            },
        };
        reply(&self.id, "success", Some(response), None)
    }
}

/// A rule that allows the tool for this session.
///
/// Claude offers rules with its question, but those name the very command: one made of several commands is asked
/// about again, word for word the same, as claude checks each of them by itself.
fn rule(tool: &str) -> Vec<Value> {
    vec![json!({
        "type": "addRules",
        "rules": [{"toolName": tool}],
        "behavior": "allow",
        "destination": "session",
    })]
}

/// The input of a multiple choice with the answers in it. Any other tool is simply allowed.
fn with_answers(shown: &Raw, answers: &[(String, String)]) -> Raw {
    match text::parse::<Map<String, Value>>(shown.get()) {
        Some(mut input) if input.contains_key("questions") => {
            let answers: Map<String, Value> =
                answers.iter().map(|(question, answer)| (question.clone(), json!(answer))).collect();
            input.insert("answers".to_owned(), Value::Object(answers));
            Raw::of(&input)
        }
        _ => shown.clone(),
    }
}

/// The line that says we have no answer to a request.
pub(super) fn refuse(id: &Raw, why: &str) -> String {
    reply(id, "error", None, Some(why))
}

fn reply(request_id: &Raw, subtype: &'static str, response: Option<Answer<'_>>, error: Option<&str>) -> String {
    let reply = Reply { kind: "control_response", response: Response { subtype, request_id, response, error } };
    line(&reply)
}

/// The line of a prompt.
pub(super) fn prompt(text: &str) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        message: Message<'a>,
        parent_tool_use_id: (),
        session_id: &'static str,
    }
    #[derive(Serialize)]
    struct Message<'a> {
        role: &'static str,
        content: &'a str,
    }
    let message = Message { role: "user", content: text };
    line(&Line { kind: "user", message, parent_tool_use_id: (), session_id: "" })
}

/// The line that stops the running turn.
pub(super) fn interrupt(number: u64) -> String {
    line(&json!({
        "type": "control_request",
        "request_id": format!("interrupt-{number}"),
        "request": {"subtype": "interrupt"},
    }))
}

fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned());
    line.push('\n');
    line
}
