//! `hostel df`: what the journals of every house take on disk.

use std::process::ExitCode;

use hostel_doors::native::protocol::Usage;
use serde_json::json;

use super::Context;
use crate::error::CommandError;
use crate::session::short;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(super) async fn run(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let mut houses = Vec::new();
    for (house, mut client) in context.houses.live().await? {
        let usage: Usage = client.call("journal/usage", &json!({})).await?;
        houses.push((house.label, usage));
    }
    if ui.json() {
        let houses: Vec<serde_json::Value> =
            houses.iter().map(|(label, usage)| json!({"house": label, "usage": usage})).collect();
        ui.data(&json!({"houses": houses}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut summary = Table::new(&["HOUSE", ">USED", ">QUOTA", ">FREE ON DISK", ">JOURNALS", "DIRECTORY"]);
    for (label, usage) in &houses {
        let tight = usage.quota_bytes > 0 && usage.bytes / 9 >= usage.quota_bytes / 10;
        summary.row(vec![
            (Paint::Bold, label.clone()),
            (if tight { Paint::Yellow } else { Paint::Plain }, text::size(usage.bytes)),
            (Paint::Plain, text::size(usage.quota_bytes)),
            (Paint::Plain, text::size(usage.free_bytes)),
            (Paint::Plain, usage.files.to_string()),
            (Paint::Plain, usage.dir.clone()),
        ]);
    }
    ui.line(&summary.render(ui))?;
    let mut processes = Table::new(&["NAME", "ID", "STATE", ">SIZE"]);
    let mut any = false;
    for process in houses.iter().flat_map(|(_, usage)| &usage.processes) {
        any = true;
        processes.row(vec![
            (Paint::Plain, process.name.clone()),
            (Paint::Dim, short(&process.id).to_owned()),
            (Paint::Plain, process.state.name().to_owned()),
            (Paint::Plain, text::size(process.bytes)),
        ]);
    }
    if any {
        ui.line("")?;
        ui.line(&processes.render(ui))?;
    }
    Ok(ExitCode::SUCCESS)
}
