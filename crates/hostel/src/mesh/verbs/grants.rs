//! What single peers may do to this host: block, unblock, grant, list.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Capability;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::route::Route;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

/// Sets what a peer may do; none is what everybody may.
pub(crate) async fn set(desk: &Desk<'_>, peer: &str, capabilities: Option<&[Capability]>) -> Result<ExitCode, Failure> {
    let names = capabilities.map(|some| some.iter().map(|one| one.name().to_owned()).collect::<Vec<_>>());
    let unknown = |failure: Failure| match failure.word() {
        "peer_not_found" => failure.hint("see who there is with `claudemesh peers --all`"),
        _ => failure,
    };
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => {
            let body = json!({"peer": peer, "capabilities": names});
            client.post("/v1/grant/set", &body).await.map_err(unknown)?
        }
        Route::Cold(cold) => cold.grant(peer, names).await.map_err(unknown)?,
    };
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = answer.get("peer").map(|peer| show::field(peer, "displayName")).unwrap_or(peer);
    desk.ui.line(&format!("{}: {}", text::printable(name), words(answer.get("capabilities"))))?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the peers for whom something was set.
pub(crate) async fn list(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => client.get("/v1/grant/list").await?,
        Route::Cold(cold) => cold.grants().await?,
    };
    let grants = show::list(&answer, "grants");
    if desk.ui.json() {
        desk.ui.data(&grants)?;
        return Ok(ExitCode::SUCCESS);
    }
    if grants.is_empty() {
        desk.ui.line("(none: every peer may do everything)")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["NAME", "KEY", "MAY"]);
    for grant in grants {
        let capabilities = grant.get("capabilities");
        let paint = if is_empty(capabilities) { Paint::Red } else { Paint::Plain };
        table.row(vec![
            (Paint::Bold, show::field(grant, "displayName").to_owned()),
            (Paint::Dim, show::address_key(show::field(grant, "pubkey"))),
            (paint, words(capabilities)),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

fn is_empty(capabilities: Option<&Value>) -> bool {
    capabilities.and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// What somebody may do, for people.
fn words(capabilities: Option<&Value>) -> String {
    match capabilities.and_then(Value::as_array) {
        None => "may do everything".to_owned(),
        Some(none) if none.is_empty() => "blocked".to_owned(),
        Some(some) => some.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
    }
}
