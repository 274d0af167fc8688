//! `ask_approval`: a question for a person, in the house's inbox.
//!
//! Invariant: a question is asked once. It has an id of its own, under which a house that was restarted finds it again;
//! cancelling the call, or going away, closes the connection and takes the question back.

use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::model::ContentBlock;
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use super::Caller;
use super::Server;
use super::arguments::Ask;
use super::execute::failed;
use super::progress;
use super::sessions::PAUSE;
use super::sessions::no_house;
use super::sudo::Request;
use crate::native::LONGEST_QUESTION as LONGEST;
use crate::native::client::ClientError;

/// What a client is told while a person thinks.
const WAITING: &str = "waiting for a person to answer";

/// What became of a question.
#[derive(Debug, Deserialize)]
pub(super) struct Settled {
    id: String,
    state: String,
    #[serde(default)]
    decider: String,
    #[serde(default)]
    text: String,
}

/// Asks and waits. None when the call was cancelled.
pub(super) async fn ask(
    server: &Server,
    asked: Ask,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let details = asked.details.unwrap_or_default();
    if asked.question.trim().is_empty() {
        return Some(failed("the question is blank"));
    }
    if asked.question.len() > LONGEST.0 || details.len() > LONGEST.1 {
        return Some(failed(format!(
            "the question may have {} bytes and its details {}; put more into a file and name that",
            LONGEST.0, LONGEST.1
        )));
    }
    Some(match question(server, &asked.question, &details, caller, context).await? {
        Ok(settled) => rendered(&settled),
        Err(text) => failed(text),
    })
}

/// Puts a question into the inbox and waits; the error is for the client. None when the call was cancelled.
pub(super) async fn question(
    server: &Server,
    question: &str,
    details: &str,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Option<Result<Settled, String>> {
    let params = json!({
        "question": question,
        "details": details,
        "session": server.session_word(caller),
        "client": format!("{} {}", caller.word(), caller.version),
        "request_id": Request::new_id(),
        "door": super::NAME,
    });
    let waited = progress::waiting(context, WAITING, settled(server, &params, caller)).await?;
    Some(waited.map_err(|error| no_house(&error)))
}

impl Settled {
    /// Whether a person agreed.
    pub(super) fn is_approved(&self) -> bool {
        self.state == "approved"
    }
}

/// Asks, and asks again in the same words where the house went away and came back.
async fn settled(server: &Server, params: &Value, caller: &Caller) -> Result<Settled, ClientError> {
    let mut lost: Option<Instant> = None;
    loop {
        let begun = Instant::now();
        let outcome = async { server.backend.house(caller).await?.call("approval/ask", params).await }.await;
        let error = match outcome {
            Err(error) if error.is_lost() => error,
            outcome => return outcome,
        };
        let since = match lost {
            // It was there in between: this is another loss.
            Some(since) if begun.elapsed() <= server.profile.rejoin => since,
            _ => Instant::now(),
        };
        if since.elapsed() >= server.profile.rejoin {
            return Err(error);
        }
        lost = Some(since);
        tokio::time::sleep(PAUSE).await;
    }
}

fn rendered(settled: &Settled) -> CallToolResult {
    let Settled { id, state, decider, text } = settled;
    let mut said = match state.as_str() {
        "approved" => "Approved".to_owned(),
        "denied" => "Denied".to_owned(),
        "expired" => "Nobody answered in time; take it as no".to_owned(),
        _ => "The question was withdrawn; take it as no".to_owned(),
    };
    if !decider.is_empty() {
        said.push_str(&format!(" by {decider}"));
    }
    if !text.is_empty() {
        said.push_str(&format!(": {text}"));
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(said)]);
    result.structured_content = Some(json!({"answer": state, "text": text, "decider": decider, "id": id}));
    result
}
