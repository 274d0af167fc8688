//! `hostel keeper status|upgrade`.

use std::process::ExitCode;

use hostel_doors::native::protocol::HouseStatus;
use hostel_doors::native::protocol::Upgrade;
use hostel_doors::native::protocol::Upgraded;
use serde_json::json;

use super::Context;
use super::now_ns;
use crate::cli::Keeper;
use crate::cli::KeeperAction;
use crate::error::CommandError;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(super) async fn run(context: &Context<'_>, arguments: &Keeper) -> Result<ExitCode, CommandError> {
    match &arguments.action {
        KeeperAction::Status => status(context).await,
        KeeperAction::Upgrade => upgrade(context).await,
    }
}

async fn status(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let mut keepers = Vec::new();
    for (house, mut client) in context.houses.live().await? {
        let status: HouseStatus = client.call("house/status", &json!({})).await?;
        keepers.push((house.label, status.keeper));
    }
    if ui.json() {
        let keepers: Vec<serde_json::Value> =
            keepers.iter().map(|(label, keeper)| json!({"house": label, "keeper": keeper})).collect();
        ui.data(&json!({"keepers": keepers}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["HOUSE", ">PID", "BUILD", ">PROTOCOL", "STARTED", ">PROCESSES", "CGROUP"]);
    for (label, keeper) in keepers {
        let cells = vec![
            (Paint::Bold, label),
            (Paint::Plain, keeper.pid.to_string()),
            (Paint::Plain, keeper.build),
            (Paint::Plain, keeper.proto.to_string()),
            (Paint::Plain, text::ago(keeper.since_ns, now_ns())),
            (Paint::Plain, format!("{} of {}", keeper.children, keeper.child_limit)),
            (Paint::Plain, if keeper.cgroup { "yes" } else { "no" }.to_owned()),
        ];
        table.row(cells);
    }
    ui.line(&table.render(ui))?;
    Ok(ExitCode::SUCCESS)
}

/// Has the keeper become the program that the daemon runs from. A daemon of another build than this command is told of
/// first: most likely the new program is in place and the daemon was not started again.
async fn upgrade(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let house = context.houses.one()?;
    let mut client = house.connect().await?;
    let status: HouseStatus = client.call("house/status", &json!({})).await?;
    let own = env!("CARGO_PKG_VERSION");
    if status.version != own {
        return Err(CommandError::failure(format!(
            "the daemon is version {} and this program is {own}: the keeper becomes what the daemon is",
            status.version
        ))
        .hint("restart the daemon first: `hostel down --keep && hostel up`"));
    }
    let upgraded: Upgraded = client.call("keeper/upgrade", &Upgrade {}).await?;
    if ui.json() {
        ui.data(&upgraded)?;
    } else {
        ui.line(&format!(
            "the keeper (pid {}) went from build {} to {}; its processes noticed nothing",
            upgraded.pid, upgraded.build_before, upgraded.build_after
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
