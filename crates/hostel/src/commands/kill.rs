//! `hostel kill ID…`: a signal to processes and everything they started.

use std::process::ExitCode;

use hostel_doors::native::protocol;
use hostel_doors::native::protocol::Killed;
use serde_json::json;

use super::Context;
use crate::cli::Kill;
use crate::error::CommandError;
use crate::text;

pub(super) async fn run(context: &Context<'_>, arguments: &Kill) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let wait_ms = match &arguments.wait {
        Some(wait) => {
            let wait = text::parse_duration(wait).map_err(CommandError::usage)?;
            Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
        }
        None => None,
    };
    let mut outcomes = Vec::new();
    let mut alive = Vec::new();
    for id in &arguments.ids {
        let (house, mut client, process) = context.houses.find(id).await?;
        let request = protocol::Kill {
            id: process.id.clone(),
            signal: Some(arguments.signal.clone()),
            wait_ms,
            escalate: !arguments.no_escalate,
        };
        let killed: Killed = client.call("process/kill", &request).await?;
        let name = process.name;
        if ui.json() {
            outcomes.push(json!({
                "id": process.id, "name": name, "house": house.label, "died": killed.died,
                "already_exited": killed.already_exited, "escalated": killed.escalated,
            }));
        } else {
            let text = match (killed.already_exited, killed.died, killed.escalated) {
                (true, _, _) => "had exited already".to_owned(),
                (false, true, false) => "ended".to_owned(),
                (false, true, true) => "ended, KILL was needed".to_owned(),
                (false, false, _) if wait_ms.is_none() => format!("{} sent", arguments.signal),
                (false, false, _) => "still runs".to_owned(),
            };
            ui.line(&format!("{}: {text}", text::printable(&name)))?;
        }
        if wait_ms.is_some() && !killed.died {
            alive.push(name);
        }
    }
    if ui.json() {
        ui.data(&json!({"killed": outcomes}))?;
    }
    if alive.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(CommandError::failure(format!("still running: {}", alive.join(", ")))
        .hint("look at what is left with `hostel ps --tree`"))
}
