//! `hostel gc`: journals of exited processes that are past their time.

use std::process::ExitCode;

use hostel_doors::native::protocol::Collect;
use hostel_doors::native::protocol::Collected;
use serde_json::json;

use super::Context;
use crate::cli::Gc;
use crate::error::CommandError;
use crate::session::short;
use crate::text;

pub(super) async fn run(context: &Context<'_>, arguments: &Gc) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let request = Collect { dry_run: arguments.dry_run, all: arguments.all };
    let mut houses = Vec::new();
    for (house, mut client) in context.houses.live().await? {
        let collected: Collected = client.call("journal/gc", &request).await?;
        houses.push((house.label, collected));
    }
    if ui.json() {
        let houses: Vec<serde_json::Value> = houses
            .iter()
            .map(|(label, collected)| {
                json!({"house": label, "removed": collected.removed, "freed_bytes": collected.freed_bytes})
            })
            .collect();
        ui.data(&json!({"dry_run": arguments.dry_run, "houses": houses}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut count = 0_usize;
    let mut freed = 0_u64;
    for (_, collected) in &houses {
        for process in &collected.removed {
            ui.line(&format!(
                "{}  {}  {}",
                short(&process.id),
                text::printable(&process.name),
                text::size(process.bytes)
            ))?;
        }
        count += collected.removed.len();
        freed = freed.saturating_add(collected.freed_bytes);
    }
    let verb = if arguments.dry_run { "would be removed" } else { "removed" };
    let noun = if count == 1 { "journal" } else { "journals" };
    ui.line(&format!("{count} {noun} {verb}, {}", text::size(freed)))?;
    Ok(ExitCode::SUCCESS)
}
