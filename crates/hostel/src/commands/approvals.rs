//! `hostel approvals`: what agents and programs ask permission for, in every house, and the answers.
//!
//! Invariant: an answer is given to one request that was seen to be open, together with the digest of what was seen,
//! and what the house made of it is told.

mod answer;
mod grants;
mod reading;
mod watch;
mod why;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::client::Client;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::now_ns;
use crate::cli::Approvals;
use crate::cli::ApprovalsAction;
use crate::conversation::short;
use crate::conversation::wire::one_spelling;
use crate::error::CommandError;
use crate::houses;
use crate::inbox;
use crate::inbox::hints;
use crate::inbox::page;
use crate::inbox::page::Look;
use crate::inbox::request::Request;
use crate::inbox::visible;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;
use crate::ui::Ui;

/// Columns of a page that does not go to a terminal.
const PAGE: usize = 100;

pub(super) use answer::unset;

pub(super) async fn run(context: &Context<'_>, arguments: Approvals) -> Result<ExitCode, CommandError> {
    match arguments.action {
        None if full_screen(context.ui) => inbox::run(context).await,
        None => list(context, false).await,
        Some(ApprovalsAction::List { all }) => list(context, all).await,
        Some(ApprovalsAction::Show { id }) => show(context, &id).await,
        Some(ApprovalsAction::Approve { ids, always, changeable, grant, reviewed, passphrase }) => {
            let decision = match (always, changeable) {
                (true, _) => "allow_always",
                (false, true) => "allow_changeable",
                (false, false) => "allow_once",
            };
            answer::approve(context, &ids, decision, &grant, &reviewed, passphrase).await
        }
        Some(ApprovalsAction::Deny { ids, reason, passphrase }) => {
            answer::deny(context, &ids, reason.as_deref(), passphrase).await
        }
        Some(ApprovalsAction::Watch) => watch::run(context).await,
        Some(ApprovalsAction::Why { id }) => why::run(context, &id).await,
        Some(ApprovalsAction::Grants) => grants::list(context).await,
        Some(ApprovalsAction::Revoke { grants, passphrase }) => grants::revoke(context, &grants, passphrase).await,
    }
}

/// Whether there is a person at a screen.
fn full_screen(ui: &Ui) -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !ui.json() && !dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// A request as the house wrote it.
pub(super) fn read(value: &Value) -> Result<Request, CommandError> {
    Request::read(value).map_err(|error| CommandError::failure(format!("the daemon's answer makes no sense: {error}")))
}

/// All of a request that came without what is large.
async fn whole(client: &mut Client, value: Value) -> Result<Value, CommandError> {
    #[derive(Deserialize)]
    struct Got {
        approval: Value,
    }
    if value["abridged"] != true {
        return Ok(value);
    }
    let got: Got = client.call("approval/get", &json!({"id": value["id"]})).await?;
    Ok(one_spelling(got.approval))
}

async fn list(context: &Context<'_>, all: bool) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    let mut rows = Vec::new();
    for (house, mut client) in live {
        for (_, value) in houses::approvals(&mut client, all).await? {
            rows.push((house.label.clone(), read(&value)?, value));
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
    let mut columns = vec!["ID", "?WHO", "KIND", "?ASKED", if all { "STATE" } else { "?WAITS" }, "FOR"];
    if several {
        columns.insert(0, "HOUSE");
    }
    let mut table = Table::new(&columns);
    let now = now_ns();
    for (house, row, _) in &rows {
        let state = if all { state(row) } else { (Paint::Yellow, left(row, now)) };
        let who = row.caller();
        let (paint, kind) = kind(row);
        let mut cells = vec![
            (Paint::Bold, short(&row.id).to_owned()),
            (Paint::Plain, text::cut(&who, 24).into_owned()),
            (paint, kind),
            (Paint::Plain, text::ago(row.created_ns(), now)),
            state,
            (Paint::Plain, one_line(row)),
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

/// What kind of request it is, in a word; a tool by its name.
fn kind(row: &Request) -> (Paint, String) {
    match row.kind.as_str() {
        "pipeline" => (Paint::Plain, "run".to_owned()),
        "privileged_pipeline" => (Paint::Red, "run as root".to_owned()),
        "question" => (Paint::Plain, "question".to_owned()),
        "mesh_message" => (Paint::Plain, "mesh message".to_owned()),
        _ => (Paint::Plain, text::cut(&visible::text(&visible::word(&row.tool)), 24).into_owned()),
    }
}

/// What is asked, on one line: a command as it will run, anything else as it is summed up.
pub(super) fn one_line(row: &Request) -> String {
    match row.pipeline() {
        Some(pipeline) => {
            let stages = pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str));
            visible::text(&visible::command(stages))
        }
        None => visible::text(&visible::prose(&row.summary.replace('\n', " "))),
    }
}

fn state(row: &Request) -> (Paint, String) {
    let paint = match row.state.as_str() {
        "pending" => Paint::Yellow,
        "approved" => Paint::Green,
        "denied" => Paint::Red,
        _ => Paint::Dim,
    };
    (paint, row.state.clone())
}

/// How long the house still waits.
fn left(row: &Request, now: u64) -> String {
    row.left(now).map_or_else(|| "-".to_owned(), |left| text::duration(Duration::from_secs(left.as_secs())))
}

async fn show(context: &Context<'_>, id: &str) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (house, mut client, _, value) = context.houses.find_approval(id).await?;
    let mut value = whole(&mut client, value).await?;
    if ui.json() {
        value["house"] = house.label.into();
        ui.data(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = read(&value)?;
    for line in full_page(&row, &house.label, ui.columns().unwrap_or(PAGE).max(20), ui.colours().0) {
        ui.line(&line)?;
    }
    if row.pending() {
        let id = short(&row.id);
        let left = left(&row, now_ns());
        ui.note(&format!(
            "answer with `hostel approvals approve {id}` or `hostel approvals deny {id}`; it waits another {left}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A request in full, with its digest and the name of its house, as painted lines. Files of one that is open are looked at again.
fn full_page(row: &Request, house: &str, columns: usize, colour: bool) -> Vec<String> {
    let mut row = row.clone();
    if row.pending() {
        hints::look_again(&mut row);
    }
    let painted = |line: &page::Line| {
        let text: String = line.iter().map(|span| paint(span.look).apply(&span.text, colour)).collect();
        text.trim_end().to_owned()
    };
    let mut lines: Vec<String> = page::page(&row, columns).iter().map(painted).collect();
    for (label, text) in [("digest", row.digest.as_str()), ("house", house)] {
        let label = Paint::Dim.apply(&format!("{label:<10}"), colour);
        lines.push(format!("{label}{}", visible::text(&visible::word(text))));
    }
    lines
}

fn paint(look: Look) -> Paint {
    match look {
        Look::Plain => Paint::Plain,
        Look::Strong | Look::Accent | Look::Meta => Paint::Bold,
        Look::Dim => Paint::Dim,
        Look::Danger => Paint::Red,
        Look::Caution => Paint::Yellow,
        Look::Escape => Paint::Reverse,
    }
}

/// It was settled before.
fn settled(row: &Request) -> CommandError {
    let by = row.decider.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {by}")).unwrap_or_default();
    let id = short(&row.id);
    let state = text::printable(&row.state);
    let why = row.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let end = text::printable(&by).into_owned() + &text::printable(&why);
    CommandError::failure(format!("{id} cannot be answered any more, it is {state}{end}"))
        .hint("see what waits with `hostel approvals list`")
}
