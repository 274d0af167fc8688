//! What there is: sessions, their messages, clients.
//!
//! Invariant: everything is paged or bounded. A session is described in the same words everywhere.

use std::time::Duration;

use hostel_house::sessions::SessionInfo;
use hostel_house::sessions::Standing;
use hostel_house::sessions::Status;
use hostel_house::sessions::TurnInfo;
use hostel_house::store::StoreError;
use serde_json::Value;
use serde_json::json;
use tokio::time::Instant;

use super::PROTOCOL_VERSION;
use super::Params;
use super::time;
use super::visitor::Visitor;
use super::visitor::internal;
use super::visitor::no_session;
use crate::native::protocol::GuardInfo;
use crate::rpc::Outcome;

/// Sessions of one answer, unless asked for fewer, and at most.
const SESSIONS: (usize, usize) = (100, 1000);

/// Messages of one answer, unless asked for fewer, and at most.
const MESSAGES: (usize, usize) = (100, 1000);

/// How long the disk may take to have what was told.
const SETTLING: Duration = Duration::from_secs(1);

/// `status`. As the contract has it, sessions that can be brought back are counted as active; the ids are of live ones.
pub(crate) async fn status(visitor: &Visitor) -> Outcome {
    let settings = &visitor.house().settings;
    let sessions = &visitor.house().sessions;
    let stored = sessions.stored_count().await.map_err(internal)?;
    let mut ids = Vec::new();
    for session in sessions.list() {
        if visitor.rights.sees_session(session.id()).await {
            ids.push(session.id().to_owned());
        }
    }
    // A process inside the house is told of its own alone.
    let stored = if visitor.rights.insider().await.is_some() { 0 } else { stored };
    Ok(json!({
        "server_version": visitor.greeting.version,
        "protocol_version": PROTOCOL_VERSION,
        "active_sessions": ids.len().max(stored),
        "session_ids": ids,
        "config_dir": settings.config_dir.display().to_string(),
        "config_file": settings.config_file.display().to_string(),
        "config_kind": settings.config_kind,
        "local_ipc_endpoint": settings.endpoint.display().to_string(),
    }))
}

/// `tui/list`.
pub(crate) fn clients(visitor: &Visitor) -> Value {
    let known: Vec<Value> = visitor
        .house()
        .known
        .lock()
        .values()
        .map(|known| {
            json!({
                "tui_id": known.id,
                "connected_at": time::rfc3339(known.connected_ns),
                "connected_at_unix": known.connected_ns / 1_000_000_000,
                "peer_label": known.label,
                "transport": known.transport,
            })
        })
        .collect();
    json!({"tuis": known})
}

/// `session/list`. The contract's clients see what can be brought back; ours what is live, unless they ask for all.
pub(crate) async fn list(visitor: &Visitor, params: &Params) -> Outcome {
    let all = params.flag("all")?;
    let query = params.text("query")?.map(str::to_lowercase).filter(|query| !query.trim().is_empty());
    let limit = params.count("limit")?.unwrap_or(SESSIONS.0).clamp(1, SESSIONS.1);
    let sessions = &visitor.house().sessions;
    let wanted = |info: &SessionInfo| match all {
        Some(true) => true,
        None if !visitor.face.is_native() => info.standing != Standing::Killed,
        _ => info.standing == Standing::Live,
    };
    let mut found = Vec::new();
    for info in sessions.stored_list(SESSIONS.1).await.map_err(internal)? {
        if found.len() >= limit {
            break;
        }
        if !wanted(&info) || !visitor.rights.sees_session(&info.id).await {
            continue;
        }
        // What the store tells of a live session may be a moment old.
        let info = sessions.get(&info.id).map_or(info, |session| session.info());
        let fits = match &query {
            None => true,
            Some(query) => named_so(&info, query) || said(&sessions.turns(&info.id).await.map_err(internal)?, query),
        };
        if fits {
            let mut entry = describe(&info);
            if visitor.face.is_native() {
                entry["address"] = json!(info.address);
                entry["mesh"] = json!(info.mesh.word());
                if let Some(guard) = info.guard.clone() {
                    entry["guard"] = json!(GuardInfo::from(guard));
                }
                if let Some(launched) = &info.launched {
                    entry["launched"] = json!({"mesh": launched.mesh, "name": launched.name});
                }
            }
            found.push(entry);
        }
    }
    Ok(json!({"sessions": found}))
}

fn named_so(info: &SessionInfo, query: &str) -> bool {
    info.name.as_ref().is_some_and(|name| name.to_lowercase().contains(query)) || info.id.to_lowercase().contains(query)
}

fn said(turns: &[TurnInfo], query: &str) -> bool {
    turns.iter().any(|turn| turn.prompt.to_lowercase().contains(query) || turn.answer.to_lowercase().contains(query))
}

/// A session in the words of `session/list`.
pub(crate) fn describe(info: &SessionInfo) -> Value {
    let mut entry = json!({
        "session_id": info.id,
        "session_key": info.id,
        "created_at": time::rfc3339(info.created_ns),
        "last_activity": time::rfc3339(info.active_ns),
        "message_count": message_count(info),
        "agent_alias": info.agent,
        "status": status_word(info.status),
        "standing": match info.standing {
            Standing::Live => "live",
            Standing::Archived => "archived",
            Standing::Killed => "killed",
        },
        "mode": info.mode.name(),
        "hosting": info.hosting,
        "cwd": info.cwd.display().to_string(),
        "door": info.door,
        "queued": info.queued,
        "last_seq": info.last_seq,
        "turns": info.turns,
        "usage": info.usage,
    });
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            entry[key] = value;
        }
    };
    put("name", info.name.as_ref().map(|name| json!(name)));
    put("model", info.model_chosen.as_ref().or(info.model_reported.as_ref()).map(|model| json!(model)));
    put("running_turn", info.running_turn.map(|turn| json!(turn)));
    put("cli_session_id", info.cli_session_id.as_ref().map(|id| json!(id)));
    put("pid", info.pid.map(|pid| json!(pid)));
    entry
}

/// Whether something is going on, as a word.
pub(crate) fn status_word(status: Status) -> &'static str {
    match status {
        Status::Idle => "idle",
        Status::Busy => "busy",
    }
}

/// How many messages `session/messages` has: a question for each turn, and an answer for each that has ended.
pub(crate) fn message_count(info: &SessionInfo) -> u64 {
    let open = info.queued as u64 + u64::from(info.status == Status::Busy);
    (2 * info.turns).saturating_sub(open)
}

/// `session/messages`: a page, counted from the end.
pub(crate) async fn messages(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let limit = params.count("limit")?.unwrap_or(MESSAGES.0).min(MESSAGES.1);
    let before = params.count("before_index")?;
    let sessions = &visitor.house().sessions;
    if sessions.get(id).is_none() && sessions.stored(id).await.map_err(internal)?.is_none() {
        return Err(no_session(id));
    }
    let all = as_messages(&settled_turns(visitor, id).await.map_err(internal)?);
    let (start, end) = page(all.len(), limit, before);
    let shown = all.get(start..end).unwrap_or_default();
    Ok(json!({"session_id": id, "messages": shown, "total": all.len(), "start": start}))
}

/// The turns of a session. The end of one is told a moment before it is on disk; that moment is waited for.
async fn settled_turns(visitor: &Visitor, id: &str) -> Result<Vec<TurnInfo>, StoreError> {
    let sessions = &visitor.house().sessions;
    let deadline = Instant::now() + SETTLING;
    loop {
        let running = sessions.get(id).and_then(|session| session.info().running_turn);
        let turns = sessions.turns(id).await?;
        let over = |turn: &TurnInfo| turn.state == "running" && Some(turn.turn) != running;
        if !turns.iter().any(over) || Instant::now() >= deadline {
            return Ok(turns);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn page(total: usize, limit: usize, before: Option<usize>) -> (usize, usize) {
    let end = before.unwrap_or(total).min(total);
    (end.saturating_sub(limit), end)
}

fn as_messages(turns: &[TurnInfo]) -> Vec<Value> {
    let mut messages = Vec::with_capacity(turns.len() * 2);
    for turn in turns {
        messages.push(json!({"role": "user", "content": turn.prompt}));
        let content = match turn.state.as_str() {
            "queued" | "running" => continue,
            "completed" => turn.answer.clone(),
            other if turn.answer.is_empty() => format!("[{other}]"),
            // What it said before it was stopped, or why it said nothing.
            other => format!("{}\n[{other}]", turn.answer),
        };
        messages.push(json!({"role": "assistant", "content": content}));
    }
    messages
}

#[cfg(test)]
mod tests {
    use hostel_agents::Usage;

    use super::*;

    #[test]
    fn pages_are_counted_from_the_end() {
        assert_eq!(page(10, 4, None), (6, 10));
        assert_eq!(page(10, 4, Some(6)), (2, 6));
        assert_eq!(page(10, 4, Some(2)), (0, 2));
        assert_eq!(page(10, 4, Some(99)), (6, 10));
        assert_eq!(page(0, 4, None), (0, 0));
    }

    #[test]
    fn turns_are_questions_and_answers() {
        let turn = |state: &str, answer: &str| TurnInfo {
            turn: 1,
            prompt: "q".into(),
            door: "zeroclaw".into(),
            state: state.into(),
            answer: answer.into(),
            queued_ns: 0,
            ended_ns: 0,
            usage: Usage::default(),
        };
        let messages = as_messages(&[
            turn("completed", "a"),
            turn("cancelled", "client_rpc"),
            turn("cancelled", ""),
            turn("running", ""),
        ]);
        let contents: Vec<&str> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(contents, ["q", "a", "q", "client_rpc\n[cancelled]", "q", "[cancelled]", "q"]);
        assert_eq!(messages[1]["role"], "assistant");
        assert!(said(&[turn("completed", "The Answer")], "the answer"));
    }
}
