//! Leaving a mesh: the broker is told, the daemon ends, the keys are forgotten.

use std::process::ExitCode;

use hostel_mesh::enrol::Enrol;
use hostel_mesh::home::Memberships;
use hostel_wire::Clock;
use serde_json::json;

use super::join::refused;
use crate::mesh::Desk;
use crate::mesh::cli::Leave;
use crate::mesh::daemon;
use crate::mesh::failure::Failure;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Leave) -> Result<ExitCode, Failure> {
    let joined = desk.host.joined(desk.mesh.as_deref())?;
    let mesh = joined.slug.clone();
    let mut told = false;
    if !arguments.local {
        let enrol = Enrol::new(desk.host.places().clone(), Clock::system());
        enrol
            .leave(&joined)
            .await
            .map_err(|error| refused(&error).hint("to forget the mesh here all the same, add `--local`"))?;
        told = true;
    }
    // Only now: a daemon that is still up while the broker cannot be told has lost nothing.
    daemon::stop(desk, &mesh).await?;
    Memberships::remove(desk.host.places(), &mesh).map_err(|error| Failure::io(error.to_string()))?;
    let directory = desk.host.dir(&mesh);
    for secret in [directory.keypair(), directory.local_token(), directory.local_token_prev()] {
        std::fs::remove_file(secret).ok();
    }
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "mesh": mesh, "broker_told": told, "directory": directory.path()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("left mesh `{mesh}`"))?;
    if !told {
        desk.ui.note(&format!(
            "the broker was not told: the mesh's owner can take this member out with `{} member revoke`",
            desk.called
        ));
    }
    desk.ui.note(&format!("what was received is still in `{}`", directory.path().display()));
    Ok(ExitCode::SUCCESS)
}
