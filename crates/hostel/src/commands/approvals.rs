//! `hostel approvals`: what agents ask permission for, in every house, and the answers.
//!
//! Invariant: an answer is given to one question that was seen to be open, and what the house made of it is told.

mod watch;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Context;
use super::now_ns;
use crate::cli::Approvals;
use crate::cli::ApprovalsAction;
use crate::conversation::short;
use crate::conversation::summary;
use crate::conversation::wire::ApprovalRow;
use crate::conversation::wire::moment;
use crate::conversation::words;
use crate::error::CommandError;
use crate::houses;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(super) async fn run(context: &Context<'_>, arguments: Approvals) -> Result<ExitCode, CommandError> {
    match arguments.action {
        None => list(context, false).await,
        Some(ApprovalsAction::List { all }) => list(context, all).await,
        Some(ApprovalsAction::Show { id }) => show(context, &id).await,
        Some(ApprovalsAction::Approve { ids, always }) => {
            let decision = if always { "allow_always" } else { "allow_once" };
            decide(context, &ids, decision, None).await
        }
        Some(ApprovalsAction::Deny { ids, reason }) => decide(context, &ids, "reject", reason.as_deref()).await,
        Some(ApprovalsAction::Watch) => watch::run(context).await,
    }
}

async fn list(context: &Context<'_>, all: bool) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    let mut rows = Vec::new();
    for (house, mut client) in live {
        for (row, value) in houses::approvals(&mut client, all).await? {
            rows.push((house.label.clone(), row, value));
        }
    }
    if ui.json() {
        let approvals: Vec<Value> = rows
            .into_iter()
            .map(|(house, _, mut value)| {
                value["house"] = house.into();
                value
            })
            .collect();
        ui.data(&json!({"approvals": approvals}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        ui.note(if all { "nobody has asked for anything yet" } else { "nothing waits for an answer" });
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = vec!["ID", "?SESSION", "TOOL", "?ASKED", if all { "STATE" } else { "?WAITS" }, "FOR"];
    if several {
        columns.insert(0, "HOUSE");
    }
    let mut table = Table::new(&columns);
    let now = now_ns();
    for (house, row, _) in &rows {
        let state = if all { state(row) } else { (Paint::Yellow, left(row, now)) };
        let mut cells = vec![
            (Paint::Bold, short(&row.id).to_owned()),
            (Paint::Plain, short(&row.session_id).to_owned()),
            (Paint::Plain, text::cut(&row.tool, 24).into_owned()),
            (Paint::Plain, text::ago(row.created_ns(), now)),
            state,
            (Paint::Plain, row.summary.clone()),
        ];
        if several {
            cells.insert(0, (Paint::Dim, house.clone()));
        }
        table.row(cells);
    }
    ui.line(&table.render(ui))?;
    if rows.iter().any(|(_, row, _)| row.pending()) {
        ui.note("read one with `hostel approvals show ID`, answer with `hostel approvals approve ID` or `deny ID`");
    }
    Ok(ExitCode::SUCCESS)
}

fn state(row: &ApprovalRow) -> (Paint, String) {
    let paint = match row.state.as_str() {
        "pending" => Paint::Yellow,
        "approved" => Paint::Green,
        "denied" => Paint::Red,
        _ => Paint::Dim,
    };
    (paint, row.state.clone())
}

/// How long the house still waits.
fn left(row: &ApprovalRow, now: u64) -> String {
    match row.expires_ns() {
        0 => "-".to_owned(),
        expires => text::duration(Duration::from_secs(expires.saturating_sub(now) / 1_000_000_000)),
    }
}

async fn show(context: &Context<'_>, id: &str) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (house, _, row, mut value) = context.houses.find_approval(id).await?;
    if ui.json() {
        value["house"] = house.label.into();
        ui.data(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = now_ns();
    let settled = match (row.pending(), row.decider.as_deref()) {
        (true, _) => String::new(),
        (false, Some(decider)) if !decider.is_empty() => format!("by {decider}"),
        (false, _) => String::new(),
    };
    let facts = [
        ("approval", row.id.clone()),
        ("session", format!("{}, turn {}", row.session_id, row.turn)),
        ("tool", row.tool.clone()),
        ("summary", row.summary.clone()),
        ("state", row.state.clone()),
        ("decided", settled),
        ("asked", format!("{}, {}", text::ago(row.created_ns(), now), moment(row.created_ns()))),
        ("waits", if row.pending() { left(&row, now) } else { String::new() }),
        ("house", house.label),
    ];
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        ui.line(&format!("{}{}", ui.paint(Paint::Dim, &format!("{name:<10}")), text::printable(fact)))?;
    }
    let whole = summary::whole(&row.input);
    if !whole.is_empty() {
        ui.line("")?;
        ui.line(&whole)?;
    }
    if row.pending() {
        let id = short(&row.id);
        ui.note(&format!("answer with `hostel approvals approve {id}` or `hostel approvals deny {id}`"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn decide(
    context: &Context<'_>,
    ids: &[String],
    decision: &str,
    reason: Option<&str>,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let mut outcomes = Vec::new();
    let mut failed = None;
    for id in ids {
        match decide_one(context, id, decision, reason).await {
            Ok((row, mut value)) => {
                if !ui.json() {
                    let (paint, said) = words::verdict(decision);
                    let what = text::printable(&row.summary).into_owned();
                    ui.line(&format!("{} {}: {what}", short(&row.id), ui.paint(paint, said)))?;
                }
                if let Some(fields) = value.as_object_mut() {
                    fields.remove("input");
                }
                outcomes.push(value);
            }
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    ui.error(&earlier);
                }
            }
        }
    }
    if ui.json() {
        ui.data(&json!({"approvals": outcomes}))?;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

async fn decide_one(
    context: &Context<'_>,
    id: &str,
    decision: &str,
    reason: Option<&str>,
) -> Result<(ApprovalRow, Value), CommandError> {
    let (house, mut client, row, _) = context.houses.find_approval(id).await?;
    if !row.pending() {
        return Err(settled(&row));
    }
    let mut params = json!({"session_id": row.session_id, "request_id": row.id, "decision": decision});
    if let Some(reason) = reason {
        params["replacement"] = reason.into();
    }
    let _: Value = client.call("session/approve", &params).await?;
    // The contract acknowledges whatever comes; what really became of it is in the list.
    let rows = houses::approvals(&mut client, true).await?;
    let (now, mut value) = rows.into_iter().find(|(now, _)| now.id == row.id).unwrap_or((row, Value::Null));
    value["house"] = house.label.into();
    let wanted = if decision == "reject" { "denied" } else { "approved" };
    if now.state == wanted { Ok((now, value)) } else { Err(settled(&now)) }
}

fn settled(row: &ApprovalRow) -> CommandError {
    let by = row.decider.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {by}")).unwrap_or_default();
    let id = short(&row.id);
    CommandError::failure(format!("{id} cannot be answered any more, it is {}{by}", text::printable(&row.state)))
        .hint("see what waits with `hostel approvals`")
}
