//! Leaving a mesh: the broker is told, the daemon and its service end, the keys are forgotten. What was received stays.

use std::process::ExitCode;

use hostel_mesh::home::Memberships;
use hostel_wire::Clock;
use serde_json::json;

use super::join::refused;
use crate::mesh::Desk;
use crate::mesh::cli::Leave;
use crate::mesh::daemon;
use crate::mesh::failure::Failure;
use crate::mesh::route;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Leave) -> Result<ExitCode, Failure> {
    let joined = desk.host.joined(desk.mesh.as_deref())?;
    let mesh = joined.slug.clone();
    let mut told = false;
    if !arguments.local {
        let enrol = route::enrol(desk, &joined, Clock::system());
        enrol
            .leave(&joined)
            .await
            .map_err(|error| refused(&error).hint("to forget the mesh here all the same, add `--local`"))?;
        told = true;
    }
    // Only now: a daemon that is still up while the broker cannot be told has lost nothing. First who would start it again.
    let service = daemon::service::withdraw(desk, &mesh).await;
    daemon::stop(desk, &mesh).await?;
    let directory = desk.host.dir(&mesh);
    // Whoever joins again here does not take these for its own. An outbox that cannot be read keeps nobody here.
    let owed = hostel_mesh::outbox::belongs_to(&directory.outbox(), &joined.member_id).await.unwrap_or(0);
    Memberships::remove(desk.host.places(), &mesh).map_err(|error| Failure::io(error.to_string()))?;
    let secrets = [
        directory.keypair(),
        directory.keypair_archive(),
        directory.keypair_next(),
        directory.local_token(),
        directory.local_token_prev(),
        // Keys of topics.
        directory.path().join("topics.json"),
    ];
    for secret in secrets {
        std::fs::remove_file(secret).ok();
    }
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "mesh": mesh, "broker_told": told, "directory": directory.path(), "outbox_owed": owed,
            "service_removed": service.removed,
            "service_left": service.left.iter().map(|(path, _)| path).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("left mesh `{mesh}`"))?;
    if let Some(path) = &service.removed {
        desk.ui.line(&format!("{mesh}: removed {}", path.display()))?;
    }
    for (path, by_hand) in &service.left {
        desk.ui
            .note(&format!("its service `{}` is still there and would fail at every start: {by_hand}", path.display()));
    }
    if !told {
        desk.ui.note(&format!(
            "the broker was not told: the mesh's owner can take this member out with `{} member revoke`",
            desk.called
        ));
    }
    if owed > 0 {
        desk.ui.note(&format!(
            "{owed} accepted messages were not confirmed by the broker: after joining again each is given up, and \
             `{} daemon outbox requeue` sends it",
            desk.called
        ));
    }
    desk.ui.note(&format!("what was received is still in `{}`", directory.path().display()));
    Ok(ExitCode::SUCCESS)
}
