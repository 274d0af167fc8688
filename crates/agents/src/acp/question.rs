//! Questions of the agent: whether a tool may be used.
//!
//! Invariant: every question gets exactly one answer of ours: a person's, or `cancelled` when there is no person to
//! ask any more. A question is known by its JSON-RPC id as JSON text, so that `7` and `"7"` are two questions.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::acp::Acp;
use crate::acp::update::{self, Update};
use crate::driver::{Decision, Encoded, Heard};
use crate::event::Event;
use crate::jsonrpc;
use crate::text::{self, Field};

/// Questions that may be open at once; more are cancelled.
const OPEN_LIMIT: usize = 64;

/// Answers that are remembered of one question.
const OPTIONS_LIMIT: usize = 32;

/// A question the agent waits for.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Question {
    /// The id of the request, as JSON.
    pub(super) id: String,
    /// The call it is about.
    call: String,
    /// The answers it offers.
    options: Vec<Choice>,
}

#[derive(Clone, Deserialize, Serialize)]
struct Choice {
    id: String,
    kind: String,
    name: String,
}

impl Question {
    /// The option that says what the person decided. `None` where only `cancelled` does not say more than that.
    fn option(&self, decision: &Decision) -> Option<&str> {
        let of_kind = |kind: &str| self.options.iter().find(|option| option.kind == kind);
        let option = match decision {
            Decision::AllowOnce | Decision::AllowChangeable => of_kind("allow_once"),
            Decision::AllowAlways => of_kind("allow_always").or_else(|| of_kind("allow_once")),
            Decision::Reject(_) | Decision::RejectWithEdit(_) => of_kind("reject_once"),
            Decision::Answers(answers) => self
                .options
                .iter()
                .find(|option| answers.iter().any(|(_, answer)| *answer == option.name || *answer == option.id)),
        };
        option.map(|option| &*option.id)
    }
}

impl Acp {
    /// `session/request_permission`.
    pub(super) fn asked(&mut self, id: &str, params: Field<'_>, heard: &mut Heard) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Asked<'a> {
            #[serde(borrow)]
            tool_call: Option<Update<'a>>,
            #[serde(borrow)]
            options: Field<'a>,
        }
        let Some(Asked { tool_call: Some(tool), options }) = text::object(params) else {
            self.say(jsonrpc::refusal(id, jsonrpc::INVALID_PARAMS, "Invalid params"));
            return;
        };
        self.drop_question(id, heard);
        let full = self.state.questions.len() >= OPEN_LIMIT;
        let Some(turn) = self.state.turn.as_mut().filter(|turn| !turn.cancelling && !full) else {
            self.say(cancelled(id));
            return;
        };
        let call = text::owned(tool.tool_call_id).unwrap_or_default();
        let (name, known) = turn.called(self.setup.kind, &call, &tool, heard);
        let input = update::input(&tool).or(known).unwrap_or_else(|| update::description(&tool));
        heard.events.push(Event::PermissionAsked {
            request: id.to_owned(),
            approval: String::new(),
            call: call.clone(),
            summary: text::summary(&name, &update::detail(&tool)),
            tool: name,
            input,
            timeout_secs: 0,
        });
        self.state.questions.push(Question { id: id.to_owned(), call, options: choices(options) });
    }

    /// `$/cancel_request`: the agent takes a question back.
    pub(super) fn withdraw(&mut self, params: Field<'_>, heard: &mut Heard) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: Field<'a>,
        }
        let id = text::object::<Cancelled<'_>>(params).and_then(|cancelled| cancelled.request_id);
        if let Some(id) = id
            && self.drop_question(id.get(), heard)
        {
            self.say(cancelled(id.get()));
        }
    }

    /// A person's answer is on its way.
    pub(super) fn answered(&mut self, request: &str, decision: &Decision) {
        let Some(at) = self.state.questions.iter().position(|question| question.id == request) else { return };
        let question = self.state.questions.remove(at);
        let allowed = question.option(decision).is_some()
            && !matches!(decision, Decision::Reject(_) | Decision::RejectWithEdit(_));
        if let Some(turn) = self.state.turn.as_mut().filter(|_| !allowed) {
            turn.refused(&question.call);
        }
    }

    /// Nobody will answer what is open.
    pub(super) fn forget_questions(&mut self, heard: &mut Heard) {
        for question in std::mem::take(&mut self.state.questions) {
            if let Some(turn) = &mut self.state.turn {
                turn.refused(&question.call);
            }
            self.say(cancelled(&question.id));
            heard.events.push(Event::PermissionWithdrawn { request: question.id });
        }
    }

    fn drop_question(&mut self, id: &str, heard: &mut Heard) -> bool {
        let Some(at) = self.state.questions.iter().position(|question| question.id == id) else { return false };
        let question = self.state.questions.remove(at);
        heard.events.push(Event::PermissionWithdrawn { request: question.id });
        true
    }

    pub(super) fn encode_decision(&self, request: &str, decision: &Decision) -> Encoded {
        let Some(question) = self.state.questions.iter().find(|question| question.id == request) else {
            return Encoded::Nothing;
        };
        Encoded::Bytes(match question.option(decision) {
            Some(option) => {
                let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
                jsonrpc::response(&question.id, &outcome)
            }
            None => cancelled(&question.id),
        })
    }
}

fn cancelled(id: &str) -> Vec<u8> {
    jsonrpc::response(id, &json!({ "outcome": { "outcome": "cancelled" } }))
}

fn choices(options: Field<'_>) -> Vec<Choice> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Offered<'a> {
        #[serde(borrow)]
        option_id: Field<'a>,
        #[serde(borrow)]
        kind: Field<'a>,
        #[serde(borrow)]
        name: Field<'a>,
    }
    let offered = text::list(options).into_iter().take(OPTIONS_LIMIT);
    let choices = offered.filter_map(|raw| {
        let offered: Offered<'_> = text::parse(raw.get())?;
        Some(Choice {
            id: text::owned(offered.option_id)?,
            kind: text::owned(offered.kind).unwrap_or_default(),
            name: text::owned(offered.name).unwrap_or_default(),
        })
    });
    choices.collect()
}
