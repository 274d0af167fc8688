//! `hostel sessions`: the sessions of every house, and what can be done with one.

mod export;
mod mesh;
mod mode;

use std::collections::HashSet;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::now_ns;
use crate::cli::Sessions;
use crate::cli::SessionsAction;
use crate::conversation::short;
use crate::conversation::wire::SessionRow;
use crate::conversation::wire::moment;
use crate::conversation::words;
use crate::error::CommandError;
use crate::houses;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;
use crate::ui::Ui;

/// Messages that `show` prints.
const MESSAGES: usize = 6;

/// Columns of one such message.
const MESSAGE_WIDTH: usize = 300;

pub(super) async fn run(context: &Context<'_>, arguments: Sessions) -> Result<ExitCode, CommandError> {
    match arguments.action {
        None => list(context, arguments.all).await,
        Some(SessionsAction::List { all }) => list(context, all || arguments.all).await,
        Some(_) if arguments.all => {
            Err(CommandError::usage("`--all` before the action is about the list").hint("see `hostel sessions --help`"))
        }
        Some(SessionsAction::Show { id }) => show(context, &id).await,
        Some(SessionsAction::Interrupt { ids, all }) => {
            let method = if all { "session/interrupt" } else { "session/cancel" };
            each(context, &ids, method, "interrupted").await
        }
        Some(SessionsAction::Close { ids }) => each(context, &ids, "session/close", "closed").await,
        Some(SessionsAction::Delete { ids }) => each(context, &ids, "session/delete", "deleted").await,
        Some(SessionsAction::Mesh { id, policy }) => mesh::run(context, &id, policy).await,
        Some(SessionsAction::Mode { id, mode, passphrase }) => mode::run(context, &id, mode, passphrase).await,
        Some(SessionsAction::Export { id, format, out }) => export::run(context, &id, format, out.as_deref()).await,
    }
}

async fn list(context: &Context<'_>, all: bool) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    let mut rows = Vec::new();
    let mut asking = HashSet::new();
    for (house, mut client) in live {
        for (row, value) in houses::sessions(&mut client, all).await? {
            rows.push((house.label.clone(), row, value));
        }
        for (approval, _) in houses::approvals(&mut client, false).await? {
            asking.insert(approval.session_id);
        }
    }
    if ui.json() {
        let sessions: Vec<Value> = rows.into_iter().map(|(house, _, value)| with_house(value, house)).collect();
        ui.data(&json!({"sessions": sessions}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        ui.note(if all {
            "there was no session yet; start one with `hostel run \"PROMPT\"`"
        } else {
            "no session is open; start one with `hostel run \"PROMPT\"`, `hostel sessions --all` shows closed ones"
        });
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = vec![
        "ID",
        "NAME",
        "AGENT",
        "STATUS",
        "?MODE",
        "?GUARD",
        ">?TURNS",
        "?ACTIVE",
        ">?TOKENS",
        ">?COST",
        "DIRECTORY",
    ];
    if several {
        columns.insert(0, "HOUSE");
    }
    let mut table = Table::new(&columns);
    let now = now_ns();
    for (house, row, _) in &rows {
        let (paint, status) = status(row, asking.contains(&row.session_id));
        let tokens = row.usage.input_tokens.saturating_add(row.usage.output_tokens);
        let known = |amount: bool, text: String| if amount { text } else { "-".to_owned() };
        let mut cells = vec![
            (Paint::Bold, short(&row.session_id).to_owned()),
            (Paint::Plain, text::cut(row.name.as_deref().unwrap_or("-"), 24).into_owned()),
            (Paint::Plain, text::cut(&row.agent_alias, 16).into_owned()),
            (paint, status),
            (Paint::Plain, row.mode.clone()),
            guard_cell(row),
            (Paint::Plain, row.turns.to_string()),
            (Paint::Plain, text::ago(row.active_ns(), now)),
            (Paint::Plain, known(tokens > 0, text::count(tokens))),
            (Paint::Plain, known(row.usage.cost_usd > 0.0, text::dollars(row.usage.cost_usd))),
            (Paint::Dim, at_home(&row.cwd)),
        ];
        if several {
            cells.insert(0, (Paint::Dim, house.clone()));
        }
        table.row(cells);
    }
    ui.line(&table.render(ui))?;
    let open: Vec<&str> =
        rows.iter().filter(|(_, row, _)| asking.contains(&row.session_id)).map(|(_, row, _)| row.handle()).collect();
    if !open.is_empty() {
        let (who, verb) = if open.len() == 1 { ("one", "asks") } else { ("some", "ask") };
        ui.note(&format!("{who} of them {verb} for permission; see `hostel approvals`"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a session is doing, as a word.
fn status(row: &SessionRow, asks: bool) -> (Paint, String) {
    match row.standing.as_str() {
        "archived" => return (Paint::Dim, "closed".to_owned()),
        "killed" => return (Paint::Dim, "ended".to_owned()),
        _ => {}
    }
    if row.status != "busy" {
        return (Paint::Plain, "idle".to_owned());
    }
    let (paint, word) = if asks { (Paint::Yellow, "asks") } else { (Paint::Green, "works") };
    match row.queued {
        0 => (paint, word.to_owned()),
        queued => (paint, format!("{word} +{queued}")),
    }
}

/// How much of the guard is enforced. What was asked for and cannot be had is not to be overlooked.
fn guard_cell(row: &SessionRow) -> (Paint, String) {
    match &row.guard {
        None => (Paint::Dim, "-".to_owned()),
        Some(guard) => {
            let paint = if guard.active == "full" || guard.setting == "off" { Paint::Plain } else { Paint::Yellow };
            (paint, guard.active.clone())
        }
    }
}

/// A directory as people write it.
fn at_home(cwd: &str) -> String {
    match std::env::var("HOME").ok().filter(|home| !home.is_empty()).and_then(|home| cwd.strip_prefix(&home)) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => cwd.to_owned(),
    }
}

fn with_house(mut value: Value, house: String) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.insert("house".to_owned(), house.into());
    }
    value
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Messages {
    messages: Vec<Message>,
    total: usize,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    role: String,
    content: String,
}

async fn show(context: &Context<'_>, id: &str) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (house, mut client, row) = context.houses.find_session(id).await?;
    let asked = json!({"session_id": row.session_id, "limit": MESSAGES});
    if ui.json() {
        let values = houses::sessions(&mut client, true).await?;
        let value = values.into_iter().find(|(found, _)| found.session_id == row.session_id).map(|(_, value)| value);
        let mut value = with_house(value.unwrap_or_default(), house.label);
        let messages: Value = client.call("session/messages", &asked).await?;
        value["messages"] = messages.get("messages").cloned().unwrap_or_default();
        ui.data(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let pending = houses::approvals(&mut client, false).await?;
    let pending: Vec<String> = pending
        .into_iter()
        .filter(|(approval, _)| approval.session_id == row.session_id)
        .map(|(approval, _)| format!("{} {}", short(&approval.id), approval.summary))
        .collect();
    let messages: Messages = client.call("session/messages", &asked).await?;
    facts(ui, &house.label, &row, &pending)?;
    if messages.messages.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    ui.line("")?;
    let earlier = messages.total.saturating_sub(messages.messages.len());
    if earlier > 0 {
        ui.line(
            &ui.paint(Paint::Dim, &format!("{earlier} earlier messages; `hostel watch --no-follow {}`", row.handle())),
        )?;
    }
    for message in &messages.messages {
        let asked = message.role == "user";
        let (mark, paint) = if asked { ("› ", Paint::Bold) } else { ("  ", Paint::Plain) };
        let content = message.content.split_whitespace().collect::<Vec<_>>().join(" ");
        let width = ui.columns().map_or(MESSAGE_WIDTH, |columns| (columns * 3).saturating_sub(2));
        let content = text::printable(&content).into_owned();
        ui.line(&ui.paint(paint, &format!("{mark}{}", text::fit(&content, width))))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn facts(ui: &Ui, house: &str, row: &SessionRow, pending: &[String]) -> Result<(), CommandError> {
    let now = now_ns();
    let when = |time_ns: u64| match time_ns {
        0 => String::new(),
        time => format!("{}, {}", text::ago(time, now), moment(time)),
    };
    let mut facts = vec![
        ("session", row.session_id.clone()),
        ("name", row.name.clone().unwrap_or_default()),
        ("agent", row.agent_alias.clone()),
        ("model", row.model.clone().unwrap_or_default()),
        ("mode", row.mode.clone()),
        ("guard", row.guard.as_ref().map(words::guard).unwrap_or_default()),
        ("status", status(row, !pending.is_empty()).1),
        ("running", row.running_turn.map(|turn| format!("turn {turn}")).unwrap_or_default()),
        ("waiting", if row.queued > 0 { format!("{} prompts", row.queued) } else { String::new() }),
        ("directory", row.cwd.clone()),
        ("hosting", row.hosting.clone()),
        ("process", row.pid.map(|pid| format!("pid {pid}")).unwrap_or_default()),
        ("door", row.door.clone()),
        ("address", row.address.clone()),
        ("mesh", row.mesh.clone()),
        ("house", house.to_owned()),
        ("created", when(row.created_ns())),
        ("active", when(row.active_ns())),
        ("turns", row.turns.to_string()),
        ("events", row.last_seq.to_string()),
        ("usage", words::cost(&row.usage)),
    ];
    facts.extend(pending.iter().map(|pending| ("asks", pending.clone())));
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        ui.line(&format!("{}{}", ui.paint(Paint::Dim, &format!("{name:<11}")), text::printable(value)))?;
    }
    Ok(())
}

/// One request about each session; all are tried, the first failure is told.
async fn each(context: &Context<'_>, ids: &[String], method: &str, done: &str) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let mut outcomes = Vec::new();
    let mut failed = None;
    for id in ids {
        let one = async {
            let (house, mut client, row) = context.houses.find_session(id).await?;
            if !row.live() && method != "session/delete" {
                return Ok((house, row, false));
            }
            match client.call::<Value>(method, &json!({"session_id": row.session_id})).await {
                Ok(answer) => {
                    let idle = answer.get("interrupted") == Some(&Value::Bool(false));
                    Ok((house, row, !idle))
                }
                // Nothing runs in it.
                Err(error) if error.code() == Some(NO_TURN) && method == "session/cancel" => Ok((house, row, false)),
                Err(error) => Err(CommandError::from(error)),
            }
        };
        match one.await {
            Ok((house, row, changed)) => {
                outcomes.push(json!({"session_id": row.session_id, "house": house.label, done: changed}));
                if !ui.json() {
                    let idle = if row.live() { "nothing runs in it" } else { "was closed already" };
                    let said = if changed { done } else { idle };
                    ui.line(&format!("{}: {said}", text::printable(row.handle())))?;
                }
            }
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    ui.error(&earlier);
                }
            }
        }
    }
    if ui.json() {
        ui.data(&json!({"sessions": outcomes}))?;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The house's word for "no turn of this session runs".
const NO_TURN: i64 = -32000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_in_one_word() {
        let row = |standing: &str, status: &str, queued: u64| SessionRow {
            standing: standing.into(),
            status: status.into(),
            queued,
            ..SessionRow::default()
        };
        assert_eq!(status(&row("live", "idle", 0), false), (Paint::Plain, "idle".into()));
        assert_eq!(status(&row("live", "busy", 0), false), (Paint::Green, "works".into()));
        assert_eq!(status(&row("live", "busy", 2), true), (Paint::Yellow, "asks +2".into()));
        assert_eq!(status(&row("archived", "idle", 0), false), (Paint::Dim, "closed".into()));
    }
}
