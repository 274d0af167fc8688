//! `hostel sessions mesh ID [POLICY]`: a session's address in a mesh, and what becomes of messages for it.

use std::process::ExitCode;

use hostel_mesh::home::Memberships;
use serde_json::Value;
use serde_json::json;

use crate::cli::MeshPolicy;
use crate::commands::Context;
use crate::conversation::start::too_old;
use crate::conversation::wire::SessionRow;
use crate::error::CommandError;
use crate::mesh::host::Host;
use crate::text;
use crate::ui::Paint;

pub(super) async fn run(context: &Context<'_>, id: &str, policy: Option<MeshPolicy>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (_, mut client, row) = context.houses.find_session(id).await?;
    if row.mesh.is_empty() {
        return Err(CommandError::failure("the daemon is older than this program and knows no mailboxes")
            .hint("restart it with `hostel down --keep` and `hostel up`; processes run on"));
    }
    let mut now = row.mesh.clone();
    if let Some(policy) = policy {
        if !row.live() {
            return Err(CommandError::failure(format!("the session `{}` is closed", text::printable(row.handle())))
                .hint("a prompt opens it again: `hostel send ID PROMPT`"));
        }
        let params = json!({"session_id": row.session_id, "mesh": policy.name()});
        let answer: Value = client.call("session/configure", &params).await.map_err(too_old)?;
        answer.get("mesh").and_then(Value::as_str).unwrap_or(policy.name()).clone_into(&mut now);
    }
    let addresses = addresses(&row);
    if ui.json() {
        let listed: Vec<Value> =
            addresses.iter().map(|(mesh, address)| json!({"mesh": mesh, "address": address})).collect();
        ui.data(&json!({
            "session_id": row.session_id, "name": row.name, "address": row.address, "mesh": now, "addresses": listed,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let meaning = match now.as_str() {
        "on" => "each message is put to the agent",
        "ask" => "you are asked about each message (`hostel approvals`)",
        _ => "messages lie in the mailbox",
    };
    let fact = |name: &str, value: &str| {
        ui.line(&format!("{}{}", ui.paint(Paint::Dim, &format!("{name:<11}")), text::printable(value)))
    };
    fact("mesh", &format!("{now}: {meaning}"))?;
    for (mesh, address) in &addresses {
        fact("address", &format!("{address} in {mesh}"))?;
    }
    if addresses.is_empty() {
        fact("address", &format!("HOST/{}; no mesh is joined", row.address))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a session is called in each mesh that is joined here and that it is in.
fn addresses(row: &SessionRow) -> Vec<(String, String)> {
    let Ok(host) = Host::quiet() else { return Vec::new() };
    let Ok(known) = Memberships::load(host.places()) else { return Vec::new() };
    let launched = row.launched.as_ref();
    let address = launched.map_or(&row.address, |launched| &launched.name);
    let joined = known.all().iter().filter(|joined| launched.is_none_or(|launched| launched.mesh == joined.slug));
    let named = |own: &Option<String>| own.as_deref().or(known.display_name()).map(str::to_owned);
    joined
        .map(|joined| {
            let host = named(&joined.display_name).unwrap_or_else(|| joined.key.public().hex());
            (joined.slug.clone(), format!("{host}/{address}"))
        })
        .collect()
}
