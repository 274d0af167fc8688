//! Tasks: make, claim, complete, let go, list, show.

use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::cli::TaskAction;
use crate::mesh::cli::TaskState;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;
use crate::mesh::verbs::send::message as spoken;
use crate::mesh::verbs::state::taken;
use crate::mesh::verbs::state::value;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

/// What needs a daemon.
const WHAT: &str = "tasks";

pub(crate) async fn run(desk: &Desk<'_>, action: &TaskAction) -> Result<ExitCode, Failure> {
    match action {
        TaskAction::Create(arguments) => create(desk, arguments).await,
        TaskAction::Claim(arguments) => {
            let mut body = json!({"id": arguments.id});
            if let Some(seconds) = arguments.lease {
                body["lease_s"] = seconds.into();
            }
            if let Some(key) = &arguments.idempotency_key {
                body["client_message_id"] = key.as_str().into();
            }
            step(desk, "/v1/task/claim", &body, "claimed").await
        }
        TaskAction::Complete(arguments) => {
            let mut body = json!({"id": arguments.id});
            if let Some(result) = &arguments.result {
                body["result"] = value(&spoken(result)?, false);
            }
            step(desk, "/v1/task/complete", &body, "completed").await
        }
        TaskAction::Release(arguments) => step(desk, "/v1/task/release", &json!({"id": arguments.id}), "let go").await,
        TaskAction::List(arguments) => list(desk, arguments).await,
        TaskAction::Show(arguments) => one(desk, &arguments.id).await,
    }
}

async fn create(desk: &Desk<'_>, arguments: &cli::TaskCreate) -> Result<ExitCode, Failure> {
    let mut body = json!({"title": arguments.title, "priority": arguments.priority.name()});
    if let Some(words) = &arguments.body {
        body["body"] = spoken(words)?.into();
    }
    if let Some(who) = &arguments.assignee {
        body["assignee"] = who.as_str().into();
    }
    if let Some(key) = &arguments.idempotency_key {
        body["client_message_id"] = key.as_str().into();
    }
    let client = route::daemon(desk, WHAT).await?;
    let answer = taken(client.ask(Method::POST, "/v1/task/create", Some(&body)).await?)?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
    } else {
        // The id alone: that is what the next command wants.
        desk.ui.line(show::field(answer.get("task").unwrap_or(&Value::Null), "id"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn step(desk: &Desk<'_>, path: &str, body: &Value, word: &str) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, WHAT).await?;
    let answer = taken(client.ask(Method::POST, path, Some(body)).await?)?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let task = answer.get("task").unwrap_or(&Value::Null);
    desk.ui.line(&format!("{word}: {}", text::printable(show::field(task, "title"))))?;
    Ok(ExitCode::SUCCESS)
}

async fn list(desk: &Desk<'_>, arguments: &cli::TaskList) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, WHAT).await?;
    let limit = arguments.limit.to_string();
    let status = match arguments.status {
        None | Some(TaskState::All) => None,
        Some(TaskState::Open) => Some("open"),
        Some(TaskState::Claimed) => Some("claimed"),
        Some(TaskState::Completed) => Some("completed"),
    };
    let query = [("status", status), ("limit", Some(limit.as_str())), ("cursor", arguments.after.as_deref())];
    let mut answer = client.get(&with_query("/v1/task/list", &query)).await?;
    if arguments.status.is_none()
        && let Some(Value::Array(tasks)) = answer.get_mut("items")
    {
        tasks.retain(|task| show::field(task, "status") != "completed");
    }
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let tasks = show::list(&answer, "items");
    if tasks.is_empty() {
        desk.ui.line("(nothing)")?;
    } else {
        let mut table = Table::new(&["ID", "STATUS", "PRIORITY", "FOR", "BY", "?SINCE", "TITLE"]);
        for task in tasks {
            let paint = match show::field(task, "status") {
                "open" => Paint::Green,
                "claimed" => Paint::Yellow,
                _ => Paint::Dim,
            };
            table.row(vec![
                (Paint::Plain, show::field(task, "id").to_owned()),
                (paint, show::field(task, "status").to_owned()),
                (Paint::Plain, show::field(task, "priority").to_owned()),
                (Paint::Plain, name(task, "assignee")),
                (Paint::Plain, name(task, "claimed_by")),
                (Paint::Dim, show::time(show::field(task, "created_at"))),
                (Paint::Bold, show::field(task, "title").to_owned()),
            ]);
        }
        desk.ui.line(&table.render(desk.ui))?;
    }
    if let Some(next) = answer.get("next").and_then(Value::as_str) {
        desk.ui.note(&format!("there are more; go on with `--after {}`", text::printable(next)));
    }
    super::state::tell_unreadable(desk, &answer);
    Ok(ExitCode::SUCCESS)
}

/// The name of a member in a task; its id where the name is not known.
fn name(task: &Value, field: &str) -> String {
    let Some(who) = task.get(field).filter(|who| who.is_object()) else { return String::new() };
    match show::field(who, "name") {
        "" => show::field(who, "member_id").to_owned(),
        name => name.to_owned(),
    }
}

async fn one(desk: &Desk<'_>, id: &str) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, WHAT).await?;
    let answer = client.get(&with_query("/v1/task/get", &[("id", Some(id))])).await?;
    let task = answer.get("task").unwrap_or(&Value::Null);
    if desk.ui.json() {
        desk.ui.data(task)?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&desk.ui.paint(Paint::Bold, &text::printable(show::field(task, "title"))))?;
    let rows = [
        ("status", show::field(task, "status").to_owned()),
        ("priority", show::field(task, "priority").to_owned()),
        ("for", name(task, "assignee")),
        ("made by", name(task, "created_by")),
        ("made", show::time(show::field(task, "created_at"))),
        ("claimed by", name(task, "claimed_by")),
        ("lease until", show::time(show::field(task, "lease_until"))),
        ("completed", show::time(show::field(task, "completed_at"))),
    ];
    for (label, words) in rows.iter().filter(|(_, words)| !words.is_empty()) {
        desk.ui.line(&format!("{} {}", desk.ui.paint(Paint::Dim, &format!("{label}:")), text::printable(words)))?;
    }
    for (label, content) in [("body", task.get("body")), ("result", task.get("result"))] {
        let Some(content) = content.filter(|content| !content.is_null()) else { continue };
        let words = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        desk.ui.line(&format!("\n{}", desk.ui.paint(Paint::Dim, label)))?;
        for line in words.lines() {
            desk.ui.line(&text::printable(line))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
