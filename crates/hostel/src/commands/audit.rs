//! `hostel audit`: the record of requests, decisions and what came of them, in every house.
//!
//! Invariant: what is printed is what the record holds; foreign text in it is made visible. `verify` looks at all of it.

use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::client::Client;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use super::Context;
use crate::cli::Audit;
use crate::cli::AuditAction;
use crate::conversation::short;
use crate::conversation::wire::moment;
use crate::conversation::wire::moment_ns;
use crate::conversation::wire::one_spelling;
use crate::error::CommandError;
use crate::houses::House;
use crate::inbox::passphrase;
use crate::inbox::passphrase::Passphrase;
use crate::inbox::visible;
use crate::ui::Paint;
use crate::ui::Ui;

/// Entries of one question to a house.
const BATCH: usize = 1_000;

/// How often a house is asked for more.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shown {
    records: Vec<Value>,
}

#[derive(Deserialize)]
struct Verified {
    records: u64,
    #[serde(default)]
    broken: Option<Broken>,
    #[serde(default)]
    segments: Vec<Segment>,
}

#[derive(Deserialize, Serialize)]
struct Broken {
    no: u64,
    what: String,
}

/// The records of one lifetime of the keeper.
#[derive(Deserialize, Serialize)]
struct Segment {
    first: u64,
    last: u64,
    begun: String,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checked: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<Broken>,
}

#[derive(Serialize)]
struct Verify<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    passphrase: Option<&'a Passphrase>,
}

pub(super) async fn run(context: &Context<'_>, arguments: &Audit) -> Result<ExitCode, CommandError> {
    match &arguments.action {
        AuditAction::Show { since, follow } => show(context, *since, *follow).await,
        AuditAction::Verify { endorsements, passphrase: from } => {
            let shown = match *endorsements || from.passphrase_fd.is_some() {
                true => Some(passphrase::obtain(from.passphrase_fd, "Passphrase of the approver: ")?),
                false => None,
            };
            verify(context, shown.as_ref()).await
        }
    }
}

async fn show(context: &Context<'_>, since: u64, follow: bool) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    let mut houses: Vec<(House, Client, u64)> =
        live.into_iter().map(|(house, client)| (house, client, since)).collect();
    let mut interrupts = signal(SignalKind::interrupt())
        .map_err(|error| CommandError::failure(format!("cannot watch for Ctrl-C: {error}")))?;
    loop {
        for (house, client, position) in &mut houses {
            while more(ui, house, client, position, several).await? {}
        }
        if !follow {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = interrupts.recv() => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Prints the next entries; whether there may be more.
async fn more(
    ui: &Ui,
    house: &House,
    client: &mut Client,
    position: &mut u64,
    several: bool,
) -> Result<bool, CommandError> {
    let shown: Shown = client.call("audit/show", &json!({"after": *position, "limit": BATCH})).await?;
    let found = shown.records.len();
    for mut record in shown.records.into_iter().map(one_spelling) {
        let number = record["no"].as_u64().unwrap_or(0);
        // A house that does not count upwards would be asked for ever.
        *position = number.max(*position + 1);
        if ui.json() {
            record["house"] = house.label.as_str().into();
            ui.data(&record)?;
        } else {
            print(ui, &record, several.then_some(&house.label))?;
        }
    }
    Ok(found == BATCH)
}

fn print(ui: &Ui, record: &Value, house: Option<&String>) -> Result<(), CommandError> {
    let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let seen = |text: &str| visible::text(&visible::word(text));
    let kind = text("kind");
    let paint = match kind.as_str() {
        "decided" | "granted" | "finished" => Paint::Green,
        "refused" | "wrong_passphrase" | "locked_out" | "not_run" | "tampered" | "answered_elsewhere"
        | "settings_rejected" => Paint::Red,
        "requested" | "key_lost" => Paint::Yellow,
        _ => Paint::Plain,
    };
    let approval = match text("approval") {
        empty if empty.is_empty() => "-".to_owned(),
        id => seen(short(&id)),
    };
    let house = house.map(|house| format!("{} ", ui.paint(Paint::Dim, &seen(house)))).unwrap_or_default();
    let details = match &record["body"] {
        Value::Object(fields) => {
            let said = |value: &Value| match value {
                Value::String(text) => visible::text(&visible::code(text)),
                other => visible::text(&visible::code(&other.to_string())),
            };
            let empty = |value: &Value| value.is_null() || value == "" || *value == json!([]);
            let parts: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !empty(value))
                .map(|(key, value)| format!("{}={}", seen(key), said(value)))
                .collect();
            parts.join("  ")
        }
        other => seen(&other.to_string()),
    };
    ui.line(&format!(
        "{:>6}  {}  {house}{}  {approval:<8}  {}",
        record["no"].as_u64().unwrap_or(0),
        moment(moment_ns(&record["time"])),
        ui.paint(paint, &format!("{:<17}", seen(&kind))),
        ui.paint(Paint::Dim, &details),
    ))
}

async fn verify(context: &Context<'_>, passphrase: Option<&Passphrase>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let mut results = Vec::new();
    let mut broken = false;
    for (house, mut client) in context.houses.live().await? {
        let found: Verified = client.call("audit/verify", &Verify { passphrase }).await?;
        broken |= found.broken.is_some();
        if !ui.json() {
            let label = visible::text(&visible::word(&house.label));
            match &found.broken {
                None => {
                    ui.line(&format!("{label}: {} records, {}", found.records, ui.paint(Paint::Green, "intact")))?;
                }
                Some(Broken { no, what }) => {
                    let what = visible::text(&visible::prose(what));
                    let mark = ui.paint(Paint::Red, &format!("record {no} is not as it was written"));
                    ui.line(&format!("{label}: {mark}: {what}"))?;
                }
            }
            for segment in &found.segments {
                print_segment(ui, segment)?;
            }
        }
        let Verified { records, broken, segments } = found;
        results.push(json!({"house": house.label, "records": records, "broken": broken, "segments": segments}));
    }
    if ui.json() {
        ui.data(&json!({"houses": results, "ok": !broken}))?;
    }
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print_segment(ui: &Ui, segment: &Segment) -> Result<(), CommandError> {
    let (paint, words) = match (segment.state.as_str(), segment.checked, &segment.broken) {
        (_, _, Some(Broken { no, what })) => {
            (Paint::Red, format!("broken at record {no}: {}", visible::text(&visible::prose(what))))
        }
        ("endorsed", Some(true), _) => (Paint::Green, "endorsed".to_owned()),
        ("endorsed", _, _) => (Paint::Green, "endorsed (not checked without the passphrase)".to_owned()),
        ("unendorsed", _, _) => (Paint::Yellow, "unendorsed: signed, and the passphrase was not used since".to_owned()),
        ("unkeyed", _, _) => (Paint::Yellow, "unkeyed (before this version)".to_owned()),
        (other, _, _) => (Paint::Plain, visible::text(&visible::word(other))),
    };
    let range = format!("{} to {}", segment.first, segment.last);
    let begun = visible::text(&visible::word(&segment.begun));
    ui.line(&format!("  records {range:<16} since {begun}  {}", ui.paint(paint, &words)))
}
