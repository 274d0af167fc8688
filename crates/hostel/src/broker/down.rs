//! `broker down`.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::place::Place;
use crate::daemon::lock::DaemonLock;
use crate::mesh::Desk;
use crate::mesh::daemon::ending;
use crate::mesh::failure::Failure;

/// How long it may take to put everything away.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn run(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let stopped = stop(&Place::of(&desk.home)).await?;
    if desk.ui.json() {
        desk.ui.data(&json!({"stopped": stopped.is_some(), "pid": stopped}))?;
    } else {
        match stopped {
            Some(pid) => desk.ui.line(&format!("broker: stopped (was pid {pid})"))?,
            None => desk.ui.line("broker: not running")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the broker of a house and waits for it; says which process it was.
pub(crate) async fn stop(place: &Place) -> Result<Option<u32>, Failure> {
    let Some(pid) = place.holder() else { return Ok(None) };
    let gone = || !DaemonLock::is_held(&place.pid()).unwrap_or_default();
    match ending::end(pid, PATIENCE, gone).await {
        true => Ok(Some(pid)),
        false => Err(Failure::daemon(1, "did_not_stop", format!("broker: did not stop within 10 s (pid {pid})"))
            .hint(format!("its log is `{}`", place.log().display()))),
    }
}
