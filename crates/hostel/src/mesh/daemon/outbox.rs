//! `daemon outbox`: what waits, what failed, and what to do about it.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Outbox;
use crate::mesh::cli::OutboxAction;
use crate::mesh::cli::OutboxList;
use crate::mesh::cli::Requeue;
use crate::mesh::client::Client;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;
use crate::text;

pub(super) async fn run(desk: &Desk<'_>, arguments: &Outbox) -> Result<ExitCode, Failure> {
    if let Some(OutboxAction::Prune(prune)) = &arguments.action
        && !prune.confirm
    {
        return Err(Failure::arguments("what is pruned is gone for good").hint("say so with `--confirm`").with_exit(3));
    }
    let client = route::daemon(desk, "the outbox").await?.of_member();
    match &arguments.action {
        None => list(desk, &client, &arguments.list).await,
        Some(OutboxAction::List(arguments)) => list(desk, &client, arguments).await,
        Some(OutboxAction::Requeue(arguments)) => requeue(desk, &client, arguments).await,
        Some(OutboxAction::Prune(_)) => prune(desk, &client).await,
    }
}

async fn list(desk: &Desk<'_>, client: &Client, arguments: &OutboxList) -> Result<ExitCode, Failure> {
    let limit = arguments.limit.to_string();
    let answer =
        client.get(&with_query("/v1/outbox", &[("status", arguments.status()), ("limit", Some(&limit))])).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let items = show::list(&answer, "items");
    if items.is_empty() {
        desk.ui.line("(empty)")?;
    }
    for item in items {
        desk.ui.line(&row(item))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `status id cid=.. attempts=n -> brokerid last_error=".."`.
fn row(item: &Value) -> String {
    let mut line = format!(
        "{} {} cid={} attempts={}",
        text::printable(show::field(item, "status")),
        text::printable(show::field(item, "id")),
        text::printable(show::field(item, "client_message_id")),
        item.get("attempts").and_then(Value::as_u64).unwrap_or_default()
    );
    match show::field(item, "broker_message_id") {
        "" => {}
        id => line.push_str(&format!(" -> {}", text::printable(id))),
    }
    match show::field(item, "last_error") {
        "" => {}
        error => line.push_str(&format!(" last_error=\"{}\"", text::printable(error))),
    }
    line
}

async fn requeue(desk: &Desk<'_>, client: &Client, arguments: &Requeue) -> Result<ExitCode, Failure> {
    let mut body = json!({"id": arguments.id});
    if let Some(id) = &arguments.new_client_id {
        body["new_client_message_id"] = id.as_str().into();
    }
    let answer = client.post("/v1/outbox/requeue", &body).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
    } else {
        desk.ui.line(&format!(
            "requeued {} as {} (cid={})",
            text::printable(show::field(&answer, "aborted_row_id")),
            text::printable(show::field(&answer, "new_row_id")),
            text::printable(show::field(&answer, "new_client_message_id"))
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn prune(desk: &Desk<'_>, client: &Client) -> Result<ExitCode, Failure> {
    let answer = client.post("/v1/outbox/prune", &json!({"confirm": true})).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
    } else {
        let removed = answer.get("removed").and_then(Value::as_u64).unwrap_or_default();
        let rows = if removed == 1 { "row" } else { "rows" };
        desk.ui.line(&format!("removed {removed} {rows}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_the_contract_prints_them() {
        let item = json!({"status": "dead", "id": "r1", "client_message_id": "c1", "attempts": 3,
            "broker_message_id": "b1", "last_error": "blocked"});
        assert_eq!(row(&item), "dead r1 cid=c1 attempts=3 -> b1 last_error=\"blocked\"");
        let item = json!({"status": "pending", "id": "r1", "client_message_id": "c1", "attempts": 0,
            "broker_message_id": null, "last_error": null});
        assert_eq!(row(&item), "pending r1 cid=c1 attempts=0");
    }
}
