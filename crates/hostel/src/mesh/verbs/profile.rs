//! What peers see of this host, and whether a peer is who it seems to be.

use std::process::ExitCode;

use hostel_mesh::home::Memberships;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Profile;
use crate::mesh::cli::Verify;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;
use crate::text;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Profile) -> Result<ExitCode, Failure> {
    let mut change = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            change.insert(name.to_owned(), value);
        }
    };
    put("summary", arguments.summary.clone().map(Value::from));
    put("status", arguments.status.map(|status| status.name().into()));
    put("visible", arguments.visible.map(Value::from));
    put("title", arguments.title.clone().map(Value::from));
    put("bio", arguments.bio.clone().map(Value::from));
    if change.is_empty() {
        return Err(Failure::arguments("there is nothing to change")
            .hint("write for example `claudemesh profile --summary \"training run 7\"`"));
    }
    let client = route::daemon(desk, "the profile").await?;
    let answer = client.post("/v1/profile", &Value::Object(change)).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
    } else {
        let applied: Vec<&str> = show::list(&answer, "applied").iter().filter_map(Value::as_str).collect();
        desk.ui.line(&format!("set: {}", text::printable(&applied.join(", "))))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn rename(desk: &Desk<'_>, name: &str) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "renaming").await?;
    let answer = client.post("/v1/member/rename", &json!({"displayName": name})).await?;
    // The next start goes by it too.
    let joined = desk.host.joined(desk.mesh.as_deref())?;
    Memberships::rename(desk.host.places(), &joined.slug, show::field(&answer, "displayName"))
        .map_err(|error| Failure::io(error.to_string()))?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
    } else {
        desk.ui.line(&format!("this host is now called {}", text::printable(show::field(&answer, "displayName"))))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn verify(desk: &Desk<'_>, arguments: &Verify) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "safety numbers").await?;
    let answer = match arguments.trust {
        true => client.post("/v1/safety", &json!({"peer": arguments.peer})).await?,
        false => client.get(&with_query("/v1/safety", &[("peer", Some(&arguments.peer))])).await?,
    };
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let who = answer.get("peer").unwrap_or(&Value::Null);
    desk.ui.line(&format!(
        "{} ({})",
        text::printable(show::field(who, "displayName")),
        show::short_key(show::field(who, "pubkey"))
    ))?;
    desk.ui.line(&text::printable(show::field(&answer, "safetyNumber")))?;
    if let Some(claimed) = who.get("claimedPubkey").and_then(Value::as_str) {
        let key = show::short_key(claimed);
        desk.ui.note(&format!(
            "the broker names another key for this peer, {key}, which the peer has not signed; messages with it are \
             refused. If the peer says that the key is its own, accept it with `--trust`"
        ));
    }
    desk.ui.note("compare it with what the peer sees, over a channel that is not this mesh");
    Ok(ExitCode::SUCCESS)
}
