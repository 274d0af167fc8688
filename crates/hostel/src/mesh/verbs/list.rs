//! Which meshes are joined here, and whether their daemons run.

use std::process::ExitCode;

use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::daemon;
use crate::mesh::failure::Failure;
use crate::mesh::show;
use crate::ui::Paint;
use crate::ui::Table;

pub(crate) async fn run(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    let mut table = Table::new(&["MESH", "NAME HERE", "DAEMON", "KEY", "?BROKER"]);
    for joined in desk.host.meshes()? {
        let up = daemon::running(desk, &joined.slug).await.is_some();
        let key = joined.key.public().hex();
        let name = joined.display_name.clone().unwrap_or_default();
        let broker = joined.broker_urls.first().cloned().unwrap_or_default();
        rows.push(json!({
            "mesh": joined.slug, "name": joined.name, "meshId": joined.mesh_id, "memberId": joined.member_id,
            "pubkey": key, "displayName": joined.display_name, "brokerUrls": joined.broker_urls,
            "joinedAt": joined.joined_at, "owner": joined.owner_key.is_some(), "daemon": up,
        }));
        table.row(vec![
            (Paint::Bold, joined.slug),
            (Paint::Plain, name),
            if up { (Paint::Green, "up".to_owned()) } else { (Paint::Dim, "stopped".to_owned()) },
            (Paint::Dim, show::short_key(&key)),
            (Paint::Dim, broker),
        ]);
    }
    for problem in desk.host.problems() {
        desk.ui.note(&problem);
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    } else if rows.is_empty() {
        desk.ui.line("(none)")?;
        desk.ui.note(&format!("make one with `{0} create NAME`, or join one with `{0} join INVITE`", desk.called));
    } else {
        desk.ui.line(&table.render(desk.ui))?;
    }
    Ok(ExitCode::SUCCESS)
}
