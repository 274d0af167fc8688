//! `session_read`: what happened in a session, from a number on.

use rmcp::model::CallToolResult;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use super::House;
use super::no_house;
use super::shape::shaped;
use crate::mcp::Caller;
use crate::mcp::Server;
use crate::mcp::arguments::SessionRead;
use crate::mcp::execute::failed;
use crate::native::client::ClientError;
use crate::native::client::Message;

/// Events of one answer, unless asked for fewer, and at most.
const EVENTS: (u64, u64) = (200, 1000);

/// The most bytes of events in one answer.
const BYTES: usize = 256 << 10;

/// Reads events.
pub(in crate::mcp) async fn read(server: &Server, asked: SessionRead, caller: &Caller) -> CallToolResult {
    let limit = asked.limit.unwrap_or(EVENTS.0).clamp(1, EVENTS.1);
    let mut house = match House::open(server, caller).await {
        Ok(house) => house,
        Err(error) => return failed(no_house(&error)),
    };
    let row = match house.find(&asked.session).await {
        Ok(row) => row,
        Err(text) => return failed(text),
    };
    match events(house, &row.session_id, asked.after, usize::try_from(limit).unwrap_or(usize::MAX)).await {
        Ok(read) => CallToolResult::structured(json!({
            "session": row.session_id, "events": read.events, "last_seq": read.last_seq, "more": read.more,
        })),
        Err(error) => failed(no_house(&error)),
    }
}

struct Read {
    events: Vec<Value>,
    last_seq: u64,
    more: bool,
}

async fn events(mut house: House<'_>, session: &str, after: u64, limit: usize) -> Result<Read, ClientError> {
    let params = json!({"session_id": session, "since_seq": after, "follow": false});
    // The answer comes first, then the events, then that these were all.
    let _: Value = house.ask("session/attach", &params).await?;
    let (_questions, mut messages) = house.client.split();
    let mut read = Read { events: Vec::new(), last_seq: after, more: false };
    let mut bytes = 0;
    loop {
        let Message::Notification { method, params } = messages.next().await? else { continue };
        if method != "session/update" {
            continue;
        }
        let update: Update =
            serde_json::from_str(params.get()).map_err(|error| ClientError::Protocol(error.to_string()))?;
        match update.r#type.as_str() {
            "replay_complete" | "session_closed" | "replay_failed" => return Ok(read),
            _ => {}
        }
        let event = shaped(serde_json::from_str(params.get()).unwrap_or_default());
        bytes += event.to_string().len();
        // One event may stand for several updates of the same number: a page ends between numbers.
        let full = read.events.len() >= limit || (bytes > BYTES && !read.events.is_empty());
        if full && update.seq != read.last_seq {
            read.more = true;
            return Ok(read);
        }
        read.last_seq = read.last_seq.max(update.seq).max(update.to_seq);
        read.events.push(without_session(event));
    }
}

/// What an update says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Update {
    r#type: String,
    seq: u64,
    to_seq: u64,
}

fn without_session(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("session_id");
    }
    event
}
