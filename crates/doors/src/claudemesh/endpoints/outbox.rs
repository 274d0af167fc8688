//! `/v1/outbox`, for operators.

use serde_json::json;

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::respond::Asked;
use super::Outcome;

const DEFAULT_LIMIT: usize = 100;
const MOST: usize = 1000;

pub(super) async fn list(asked: &Asked) -> Outcome {
    let query = asked.query();
    let status = query.text("status")?;
    let limit = query.clamped("limit", DEFAULT_LIMIT, 1, MOST)?;
    let items = asked.door.mesh.outbox_list(status.as_deref(), limit).await?;
    Ok(answer::ok(&json!({"items": items})))
}

pub(super) async fn requeue(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let id = fields.required("id")?;
    let new = fields.text_of(&["new_client_message_id", "newClientMessageId"])?;
    Ok(answer::ok(&asked.door.mesh.outbox_requeue(&id, new).await?))
}

pub(super) async fn prune(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    if fields.flag("confirm")? != Some(true) {
        return Err(Refused::field("confirm", "`confirm` must be true: what is removed is gone"));
    }
    let status = fields.text("status")?;
    let removed = asked.door.mesh.outbox_prune(status.as_deref()).await?;
    Ok(answer::ok(&json!({"ok": true, "removed": removed})))
}
