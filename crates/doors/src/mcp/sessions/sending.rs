//! `session_send`: a prompt, once, and its answer where that is waited for.
//!
//! Invariant: a prompt whose taking nobody confirmed is sent again only when the house shows that it was not taken.
//! Waiting no longer, or being cancelled, leaves the turn as it is.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::model::ContentBlock;
use rmcp::service::RequestContext;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;
use tokio::time::timeout_at;

use super::ATTEMPTS;
use super::House;
use super::Row;
use super::memory::Sent;
use super::no_house;
use super::shape::cut;
use crate::mcp::Caller;
use crate::mcp::Server;
use crate::mcp::arguments::SessionSend;
use crate::mcp::execute::failed;
use crate::mcp::progress;
use crate::native::client::ClientError;
use crate::native::client::Message;
use crate::native::client::Messages;
use crate::native::protocol::LINE_LIMIT;

/// The wait for an answer, unless another was asked for, and at most.
const WAIT: (u64, u64) = (120_000, 600_000);

/// The most of an answer that is given.
const ANSWER: usize = 256 << 10;

/// The longest name of a request.
const NAME: usize = 256;

/// Messages that are looked through for a prompt.
const PAGE: u64 = 1000;

/// What a client is told meanwhile.
const WAITING: &str = "waiting for the agent's answer";

/// Sends a prompt. None when the call was cancelled.
pub(in crate::mcp) async fn send(
    server: &Server,
    asked: SessionSend,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    if asked.prompt.trim().is_empty() {
        return Some(failed("the prompt is blank"));
    }
    if asked.prompt.len() > LINE_LIMIT / 2 {
        return Some(failed(format!("the prompt may have {} bytes; put it into a file and name that", LINE_LIMIT / 2)));
    }
    if asked.request_id.as_ref().is_some_and(|name| name.is_empty() || name.len() > NAME) {
        return Some(failed(format!("request_id may have 1 to {NAME} bytes")));
    }
    // What was begun is ended, whoever stops waiting: half a send would not be known as one.
    let (server, caller, context) = (server.clone(), caller.clone(), context.clone());
    let work = async move {
        let name = name(&asked, &context);
        let sent = hostel_tasks::spawn({
            let (server, caller, asked) = (server.clone(), caller.clone(), asked.clone());
            async move { once(&server, &asked, &caller, name).await }
        });
        match sent.await {
            Ok(Ok(taken)) if asked.wait => follow(&server, &caller, &context, taken, asked.timeout).await,
            Ok(Ok(taken)) => Some(result(&taken, "waiting", "")),
            Ok(Err(text)) => Some(failed(text)),
            Err(error) => Some(failed(error.to_string())),
        }
    };
    work.await
}

/// The name of a request: the one it was given, or its number on this connection. Where there is no connection that
/// lasts, a number says nothing.
fn name(asked: &SessionSend, context: &RequestContext<RoleServer>) -> Option<String> {
    if let Some(name) = &asked.request_id {
        return Some(format!("named {name}"));
    }
    let connection = match crate::mcp::server::http_session(context) {
        Some(None) => return None,
        Some(Some(session)) => session,
        None => "stdio".to_owned(),
    };
    Some(format!("numbered {connection} {}", context.id))
}

/// A prompt that was taken.
struct Taken {
    session: String,
    sent: Sent,
    repeated: bool,
}

/// Sends a prompt unless that was done before.
async fn once(server: &Server, asked: &SessionSend, caller: &Caller, name: Option<String>) -> Result<Taken, String> {
    let mut memory = server.memory.hold().await;
    let mut house = House::open(server, caller).await.map_err(|error| no_house(&error))?;
    let row = house.find(&asked.session).await?;
    let session = row.session_id.clone();
    let name = name.map(|name| format!("{session} {name}"));
    if let Some(name) = &name
        && let Some(sent) = memory.find(name, &asked.prompt)?
    {
        return Ok(Taken { session, sent, repeated: true });
    }
    if !row.is_live() {
        let params = json!({"session_id": session, "agent_alias": row.agent_alias});
        let _: Value = house.ask("session/new", &params).await.map_err(|error| no_house(&error))?;
    }
    let sent = put(&mut house, &row, &asked.prompt).await?;
    if let Some(name) = name {
        memory.put(name, &asked.prompt, sent);
    }
    Ok(Taken { session, sent, repeated: false })
}

/// Puts a prompt to a session, again where it was lost on the way.
async fn put(house: &mut House<'_>, row: &Row, prompt: &str) -> Result<Sent, String> {
    let params = json!({"session_id": row.session_id, "prompt": prompt});
    for _ in 0..ATTEMPTS {
        match house.client.call("session/send", &params).await {
            Err(error) if error.is_lost() => {}
            outcome => return outcome.map_err(|error| no_house(&error)),
        }
        house.again().await.map_err(|error| no_house(&error))?;
        if let Some(sent) = taken(house, row, prompt).await.map_err(|error| no_house(&error))? {
            return Ok(sent);
        }
    }
    Err("the house went away before it confirmed the prompt, again and again".to_owned())
}

/// The turn of a prompt that was taken and not confirmed; `row` is the session before.
async fn taken(house: &mut House<'_>, row: &Row, prompt: &str) -> Result<Option<Sent>, ClientError> {
    #[derive(Deserialize)]
    struct Spoken {
        role: String,
        content: String,
    }
    #[derive(Deserialize)]
    struct Page {
        messages: Vec<Spoken>,
    }
    let mut turns = house.turns(&row.session_id).await?;
    for _ in 0..ATTEMPTS {
        let page: Page = house.ask("session/messages", &json!({"session_id": row.session_id, "limit": PAGE})).await?;
        let now = house.turns(&row.session_id).await?;
        // Only a list that nobody added to meanwhile can be counted from its end.
        if now == turns {
            let prompts = page.messages.iter().rev().filter(|message| message.role == "user");
            let mut numbered = prompts.zip((row.turns + 1..=now).rev());
            let found = numbered.find(|(spoken, _)| spoken.content == prompt);
            return Ok(found.map(|(_, turn)| Sent { turn, after_seq: row.last_seq }));
        }
        turns = now;
    }
    Err(ClientError::Protocol("the session is too busy to see whether it has the prompt".to_owned()))
}

fn result(taken: &Taken, state: &str, answer: &str) -> CallToolResult {
    let Taken { session, sent, repeated } = taken;
    let text = match state {
        "waiting" => format!(
            "turn {} of session {session} is in hand; read it with session_read, after {}",
            sent.turn, sent.after_seq
        ),
        "completed" => answer.to_owned(),
        "failed" => format!("the turn failed: {answer}"),
        _ => format!("the turn was cancelled: {answer}"),
    };
    let blocks = vec![ContentBlock::text(text)];
    let mut result = match state {
        "failed" | "cancelled" => CallToolResult::error(blocks),
        _ => CallToolResult::success(blocks),
    };
    result.structured_content = Some(json!({
        "session": session, "turn": sent.turn, "after_seq": sent.after_seq, "state": state, "answer": answer,
        "repeated": repeated,
    }));
    result
}

/// Waits for the end of a turn. None when the call was cancelled.
async fn follow(
    server: &Server,
    caller: &Caller,
    context: &RequestContext<RoleServer>,
    taken: Taken,
    asked: Option<u64>,
) -> Option<CallToolResult> {
    let deadline = Instant::now() + Duration::from_millis(asked.unwrap_or(WAIT.0).min(WAIT.1));
    let end = progress::waiting(context, WAITING, timeout_at(deadline, ended(server, caller, &taken))).await?;
    Some(match end {
        Ok(Ok((outcome, answer))) => result(&taken, &outcome, &cut(answer, ANSWER)),
        Ok(Err(error)) => failed(format!("turn {} is in hand, but: {}", taken.sent.turn, no_house(&error))),
        Err(_) => result(&taken, "waiting", ""),
    })
}

/// The end of a turn: how, and what the agent said.
async fn ended(server: &Server, caller: &Caller, taken: &Taken) -> Result<(String, String), ClientError> {
    let mut house = House::open(server, caller).await?;
    loop {
        let params = json!({"session_id": taken.session, "since_seq": taken.sent.after_seq, "follow": true});
        let _: Value = house.ask("session/attach", &params).await?;
        let House { server, caller, client } = house;
        let (_questions, mut messages) = client.split();
        match listen(&mut messages, taken.sent.turn).await {
            Err(error) if error.is_lost() => {}
            outcome => return outcome,
        }
        house = House { server, caller, client: super::found(server, caller).await? };
    }
}

async fn listen(messages: &mut Messages, wanted: u64) -> Result<(String, String), ClientError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Update {
        r#type: String,
        turn: u64,
        outcome: String,
        content: String,
    }
    loop {
        let Message::Notification { method, params } = messages.next().await? else { continue };
        if method != "session/update" {
            continue;
        }
        let update: Update = serde_json::from_str(params.get()).unwrap_or_default();
        match update.r#type.as_str() {
            "turn_complete" if update.turn == wanted => {
                let outcome = match update.outcome.as_str() {
                    outcome @ ("failed" | "cancelled") => outcome,
                    _ => "completed",
                };
                return Ok((outcome.to_owned(), update.content));
            }
            "session_closed" => return Ok(("cancelled".to_owned(), "the session was closed".to_owned())),
            "replay_failed" => return Err(ClientError::Protocol("the session cannot be read".to_owned())),
            _ => {}
        }
    }
}
