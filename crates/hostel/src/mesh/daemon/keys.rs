//! The member's key: replaced by the daemon that uses it.

use std::process::ExitCode;

use hostel_mesh::KeyOptions;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;
use crate::text;

/// Names a step of a rotation at which the daemon is killed: for tests of what is left behind.
#[cfg(debug_assertions)]
const DIE_AT: &str = "CLAUDEMESH_INTERNAL_DIE_AT";

/// `daemon rotate-keypair`.
pub(super) async fn rotate(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "rotating the key").await?.of_member();
    let answer = client.post("/v1/rotate-keypair", &json!({})).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let short = |name: &str| -> String { text::printable(show::field(&answer, name)).chars().take(16).collect() };
    desk.ui.line(&format!("key replaced: {}… is now {}…", short("old_pubkey"), short("pubkey")))?;
    if let Some(until) = answer.get("opens_until").and_then(Value::as_str) {
        desk.ui.note(&format!("what was sealed for the old one can be opened until {}", text::printable(until)));
    }
    Ok(ExitCode::SUCCESS)
}

/// How the daemon keeps its key.
pub(super) fn options(desk: &Desk<'_>) -> KeyOptions {
    KeyOptions { places: Some(desk.host.places().clone()), at_step: at_step() }
}

/// Kills the daemon at the step that the environment names.
#[cfg(debug_assertions)]
fn at_step() -> Option<hostel_mesh::AtStep> {
    let wanted = std::env::var(DIE_AT).ok().filter(|step| !step.is_empty())?;
    Some(std::sync::Arc::new(move |step: hostel_mesh::Step| {
        if step.as_str() == wanted {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
        }
    }))
}

/// What people run cannot be told to die.
#[cfg(not(debug_assertions))]
fn at_step() -> Option<hostel_mesh::AtStep> {
    None
}
