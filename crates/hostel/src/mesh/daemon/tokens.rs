//! What lets others in: the token of loopback HTTP, and the record of the host an identity belongs to.

use std::process::ExitCode;

use hostel_mesh::home::GRACE_S;
use hostel_mesh::home::Tokens;
use hostel_mesh::home::fingerprint;
use hostel_mesh::home::fingerprint::Host;
use hostel_wire::Clock;
use serde_json::json;

use super::status;
use crate::mesh::Desk;
use crate::mesh::failure::Failure;

/// `daemon rotate-token`.
pub(super) async fn rotate(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let mesh = desk.host.slug(desk.mesh.as_deref())?;
    let dir = desk.host.dir(&mesh);
    let answer = match status::running(desk, &mesh).await {
        Some(daemon) => daemon.client.post("/v1/token/rotate", &json!({})).await?,
        // Nobody has it in memory: the file is all there is.
        None => {
            let rotated = Tokens::open(&dir, &Clock::system()).and_then(|tokens| tokens.rotate());
            rotated.map_err(|error| {
                Failure::daemon(1, "io", format!("cannot write `{}`: {error}", dir.local_token().display()))
            })?;
            json!({"ok": true, "grace_s": GRACE_S})
        }
    };
    if desk.ui.json() {
        desk.ui.data(&answer)?;
    } else {
        desk.ui.line(&format!("new token in {}", dir.local_token().display()))?;
        desk.ui.note("the old one is good for another 60 s");
    }
    Ok(ExitCode::SUCCESS)
}

/// `daemon accept-host`: this machine is the identity's home from now on.
pub(super) fn accept_host(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let mesh = desk.host.slug(desk.mesh.as_deref())?;
    let file = desk.host.dir(&mesh).host_fingerprint();
    let prefix = fingerprint::accept(&file, &Host::here(), Clock::system().now_ms())
        .map_err(|error| Failure::io(format!("cannot write `{}`: {error}", file.display())).with_exit(1))?;
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "fingerprint_prefix": prefix}))?;
    } else {
        desk.ui.line(&format!("host fingerprint accepted: {prefix}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
