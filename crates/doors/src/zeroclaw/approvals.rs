//! What agents ask of people, told to those it concerns.
//!
//! Invariant: the owner of a session hears of every question of it, whoever prompted; what its own streams tell it
//! anyway is not said twice.

use std::sync::Arc;

use hostel_agents::Raw;
use hostel_house::approvals::Approval;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use super::Params;
use super::code;
use super::elicit;
use super::time;
use super::updates::word;
use super::visitor::Visitor;
use super::visitor::internal;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// Approvals of one answer, unless asked for fewer, and at most.
const LISTED: (usize, usize) = (100, 1000);

/// Announces pending approvals of the client's own sessions, until it leaves.
pub(crate) async fn announce(visitor: Arc<Visitor>) {
    let approvals = visitor.house().approvals.clone();
    let mut changed = approvals.changed();
    let mut asking = JoinSet::new();
    loop {
        changed.borrow_and_update();
        let pending = approvals.pending();
        visitor.forget_told(|told| pending.iter().any(|approval| approval.id == told));
        for approval in pending {
            let owned = visitor.house().sessions.get(&approval.session).is_some_and(|session| visitor.owns(&session));
            if !owned {
                continue;
            }
            if may_elicit(&visitor, &approval.tool, &approval.input).await {
                if visitor.claim(&approval.id) {
                    asking.spawn(elicit::ask(Arc::clone(&visitor), approval));
                }
            } else if !visitor.hears(&approval.session, approval.turn)
                && visitor.claim(&approval.id)
                && tell(&visitor, &approval).await.is_err()
            {
                return;
            }
        }
        tokio::select! {
            more = changed.changed() => {
                if more.is_err() {
                    return;
                }
            }
            () = visitor.poked.notified() => {}
            Some(_) = asking.join_next(), if !asking.is_empty() => {}
        }
    }
}

/// Whether a question is put to this client as a choice instead of a request for approval.
pub(crate) async fn may_elicit(visitor: &Visitor, tool: &str, input: &Raw) -> bool {
    visitor.elicits() && elicit::applies(tool, input) && visitor.peer.may_decide(&visitor.house().processes).await
}

async fn tell(visitor: &Visitor, approval: &Approval) -> std::io::Result<()> {
    let mut lines = Vec::new();
    visitor.updates(&approval.session, false).push_approval(&mut lines, approval);
    visitor.writer.send(&lines).await
}

/// `approval/list`: what is pending, or everything.
pub(crate) async fn list(visitor: &Visitor, params: &Params) -> Outcome {
    let limit = params.count("limit")?.unwrap_or(LISTED.0).clamp(1, LISTED.1);
    let approvals = &visitor.house().approvals;
    let found = match params.flag("all")? {
        Some(true) => approvals.list(limit).await.map_err(internal)?,
        _ => approvals.pending().into_iter().take(limit).collect(),
    };
    Ok(json!({"approvals": found.iter().map(describe).collect::<Vec<_>>()}))
}

/// `approval/get`.
pub(crate) async fn get(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("id")?;
    match visitor.house().approvals.get(id).await.map_err(internal)? {
        Some(approval) => Ok(json!({"approval": describe(&approval)})),
        None => Err(Failure::new(code::NO_SESSION, format!("there is no approval `{id}`"))),
    }
}

/// What `approval/watch` says first, and again at every change: all that is pending.
pub(crate) fn pending(visitor: &Visitor) -> Value {
    let found = visitor.house().approvals.pending();
    json!({"approvals": found.iter().take(LISTED.1).map(describe).collect::<Vec<_>>()})
}

/// Sends what is pending at every change, until the client leaves.
pub(crate) async fn show(visitor: Arc<Visitor>) {
    let mut changed = visitor.house().approvals.changed();
    // Something may have changed since the answer was made.
    changed.mark_changed();
    while changed.changed().await.is_ok() {
        if visitor.notify("approval/changed", pending(&visitor)).await.is_err() {
            return;
        }
    }
}

/// An approval as it is listed.
fn describe(approval: &Approval) -> Value {
    let mut entry = json!({
        "id": approval.id,
        "session_id": approval.session,
        "turn": approval.turn,
        "tool": approval.tool,
        "input": serde_json::from_str::<Value>(approval.input.get()).unwrap_or_default(),
        "summary": approval.summary,
        "state": approval.state.word(),
        "created_at": time::rfc3339(approval.created_ns),
        "expires_at": time::rfc3339(approval.expires_ns),
    });
    if approval.decided_ns > 0 {
        entry["decided_at"] = json!(time::rfc3339(approval.decided_ns));
    }
    if let Some(decision) = &approval.decision {
        entry["decision"] = json!(word(decision));
    }
    if !approval.decider.is_empty() {
        entry["decider"] = json!(approval.decider);
    }
    entry
}
