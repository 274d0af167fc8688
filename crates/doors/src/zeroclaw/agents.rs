//! The agents people can ask for.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::json;

use super::visitor::Visitor;
use super::visitor::internal;
use crate::rpc::Outcome;

/// Stored sessions that are counted.
const COUNTED: usize = 10_000;

/// `agents/list`.
pub(crate) fn list(visitor: &Visitor) -> Value {
    let agents: Vec<Value> = visitor
        .house()
        .sessions
        .agents()
        .iter()
        .map(|agent| {
            json!({"alias": agent.alias, "enabled": true, "channels": [], "kind": agent.kind.name(), "model": agent.model})
        })
        .collect();
    json!({"agents": agents})
}

/// `agents/status`: the same, with how many sessions each has.
pub(crate) async fn status(visitor: &Visitor) -> Outcome {
    let sessions = &visitor.house().sessions;
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    for session in sessions.list() {
        counts.entry(session.info().agent).or_default().0 += 1;
    }
    for stored in sessions.stored_list(COUNTED).await.map_err(internal)? {
        counts.entry(stored.agent).or_default().1 += 1;
    }
    let agents: Vec<Value> = sessions
        .agents()
        .iter()
        .map(|agent| {
            let (live, stored) = counts.get(&agent.alias).copied().unwrap_or_default();
            json!({
                "alias": agent.alias,
                "enabled": true,
                "live_sessions": live,
                "persisted_sessions": stored,
                "channels": [],
                "kind": agent.kind.name(),
            })
        })
        .collect();
    Ok(json!({"agents": agents}))
}
