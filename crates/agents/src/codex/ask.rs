//! The questions of the app server, and the answers to them.
//!
//! Invariant: an answer carries the id of its question exactly as it was written, number or string.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::item;
use crate::driver::{Decision, Shown};
use crate::event::Event;
use crate::raw::Raw;
use crate::text::{self, Field};

/// What is asked, which decides how an answer is worded.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum About {
    /// A command or a change of files.
    Action,
    /// More rights for the rest of the turn.
    Permissions,
    /// A multiple choice.
    Choice,
    /// A form of an MCP server's.
    Form,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Question {
    /// Its id as text.
    pub(super) request: String,
    /// Its id as it was written.
    pub(super) id: Raw,
    /// The thread that asks.
    pub(super) thread: Option<String>,
    about: About,
    input: Raw,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "threadId")]
    thread_id: Field<'a>,
    #[serde(borrow, rename = "itemId")]
    item_id: Field<'a>,
    #[serde(borrow)]
    command: Field<'a>,
    #[serde(borrow)]
    cwd: Field<'a>,
    #[serde(borrow)]
    reason: Field<'a>,
    #[serde(borrow, rename = "grantRoot")]
    grant_root: Field<'a>,
    #[serde(borrow)]
    permissions: Field<'a>,
    #[serde(borrow)]
    questions: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow, rename = "serverName")]
    server_name: Field<'a>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    question: Field<'a>,
}

/// The question in a request, and the event that tells of it; `None` for a request nobody can be asked about.
///
/// `changes` are those of the item the question is about, if it changes files.
pub(super) fn question(
    request: String,
    id: Raw,
    method: &str,
    params: Field<'_>,
    changes: Option<&Raw>,
) -> Option<(Question, Event)> {
    let params: Params<'_> = text::object(params)?;
    let mut input = Map::new();
    let mut keep = |name: &str, field: Field<'_>| {
        if let Some(value) = field.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()) {
            input.insert(name.to_owned(), value);
        }
    };
    let reason = || text::owned(params.reason).unwrap_or_default();
    let (about, tool, gist) = match method {
        "item/commandExecution/requestApproval" => {
            keep("command", params.command);
            keep("cwd", params.cwd);
            (About::Action, "bash", text::owned(params.command).unwrap_or_else(reason))
        }
        "item/fileChange/requestApproval" => {
            let changes = changes.map(|raw| &*raw.0);
            keep("changes", changes);
            keep("grantRoot", params.grant_root);
            let files = item::changed_files(changes).replace('\n', ", ");
            (About::Action, "edit", if files.is_empty() { reason() } else { files })
        }
        "item/permissions/requestApproval" => {
            keep("permissions", params.permissions);
            keep("cwd", params.cwd);
            let wanted = params.permissions.map(|raw| raw.get().to_owned()).unwrap_or_default();
            (About::Permissions, "permissions", wanted)
        }
        "item/tool/requestUserInput" => {
            keep("questions", params.questions);
            let first = text::list(params.questions).first().and_then(|raw| text::parse::<Choice<'_>>(raw.get()));
            let first = first.and_then(|choice| text::owned(choice.question));
            (About::Choice, "request_user_input", first.unwrap_or_default())
        }
        "mcpServer/elicitation/request" => {
            keep("message", params.message);
            keep("server", params.server_name);
            (About::Form, "elicitation", text::owned(params.message).unwrap_or_default())
        }
        _ => return None,
    };
    keep("reason", params.reason);
    let input = Raw::of(&input);
    let event = Event::PermissionAsked {
        request: request.clone(),
        approval: String::new(),
        call: text::owned(params.item_id).unwrap_or_default(),
        tool: tool.to_owned(),
        input: input.clone(),
        summary: text::summary(tool, &gist),
        timeout_secs: 0,
    };
    let thread = text::owned(params.thread_id);
    Some((Question { request, id, thread, about, input }, event))
}

impl Question {
    /// The line that answers it, about what was shown. Codex has no place for the words of a refusal.
    pub(super) fn answer(&self, decision: &Decision, shown: Option<Shown<'_>>) -> String {
        let input = shown.map_or(&self.input, |shown| shown.input);
        let refused = matches!(decision, Decision::Reject(_) | Decision::RejectWithEdit(_));
        let always = *decision == Decision::AllowAlways;
        let result = match self.about {
            About::Action if refused => json!({"decision": "decline"}),
            About::Action if always => json!({"decision": "acceptForSession"}),
            About::Action => json!({"decision": "accept"}),
            About::Permissions => {
                let input = text::parse::<Map<String, Value>>(input.get()).unwrap_or_default();
                let wanted = input.get("permissions").filter(|_| !refused).cloned().unwrap_or_else(|| json!({}));
                json!({"permissions": wanted, "scope": if always { "session" } else { "turn" }})
            }
            About::Choice => json!({"answers": chosen(input, decision)}),
            About::Form if refused => json!({"action": "decline"}),
            About::Form => json!({"action": "accept", "content": {}}),
        };
        reply(&self.id, "result", &result)
    }
}

/// The answers by the ids of their questions; a person answers by the questions' words.
fn chosen(input: &Raw, decision: &Decision) -> Map<String, Value> {
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        questions: Field<'a>,
    }
    let Decision::Answers(answers) = decision else { return Map::new() };
    let questions = text::parse::<Input<'_>>(input.get()).and_then(|input| input.questions);
    let mut chosen = Map::new();
    for raw in text::list(questions) {
        let Some(choice) = text::parse::<Choice<'_>>(raw.get()) else { continue };
        let (id, question) = (text::owned(choice.id), text::owned(choice.question));
        let answer = answers.iter().find(|(asked, _)| Some(asked) == question.as_ref() || Some(asked) == id.as_ref());
        if let (Some(id), Some((_, answer))) = (id, answer) {
            chosen.insert(id, json!({"answers": [answer]}));
        }
    }
    chosen
}

/// The line that says a request is none we know.
pub(super) fn unknown(id: &Raw) -> String {
    reply(id, "error", &json!({"code": -32601, "message": "method not found"}))
}

fn reply(id: &Raw, key: &str, value: &Value) -> String {
    format!("{{\"id\":{},\"{key}\":{value}}}\n", id.get())
}
