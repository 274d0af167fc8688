//! `daemon down` and `daemon restart`.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::ending;
use super::status;
use super::up;
use crate::daemon::lock::DaemonLock;
use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::failure::Failure;

/// How long a daemon may take to put everything away.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(desk: &Desk<'_>, arguments: &cli::Down) -> Result<ExitCode, Failure> {
    if arguments.all {
        let mut ended = Vec::new();
        for mesh in desk.host.slugs()? {
            if let Some(pid) = stop(desk, &mesh).await? {
                ended.push(json!({"mesh": mesh, "stopped": true, "pid": pid}));
                if !desk.ui.json() {
                    desk.ui.line(&format!("{mesh}: stopped (was pid {pid})"))?;
                }
            }
        }
        if desk.ui.json() {
            desk.ui.data(&ended)?;
        } else if ended.is_empty() {
            desk.ui.line("daemon: not running")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mesh = desk.host.slug(desk.mesh.as_deref())?;
    let stopped = stop(desk, &mesh).await?;
    if desk.ui.json() {
        desk.ui.data(&json!({"stopped": stopped.is_some(), "pid": stopped}))?;
    } else {
        match stopped {
            Some(pid) => desk.ui.line(&format!("daemon: stopped (was pid {pid})"))?,
            None => desk.ui.line("daemon: not running")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the daemon of a mesh and waits for it; says which process it was. One that answers is believed, one that does
/// not is found by the lock it holds.
pub(crate) async fn stop(desk: &Desk<'_>, mesh: &str) -> Result<Option<u32>, Failure> {
    let answering = status::running(desk, mesh).await.and_then(|daemon| daemon.pid());
    let pid_file = desk.host.dir(mesh).pid();
    let locks = desk.host.locks(mesh);
    let held = || locks.iter().any(|lock| DaemonLock::is_held(lock).unwrap_or_default());
    let holder = || held().then(|| std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok()).flatten();
    let Some(pid) = answering.or_else(holder) else { return Ok(None) };
    match ending::end(pid, PATIENCE, || !held()).await {
        true => Ok(Some(pid)),
        false => Err(Failure::daemon(1, "did_not_stop", format!("daemon: did not stop within 5 s (pid {pid})"))
            .hint(format!("its log is `{}`", desk.host.dir(mesh).log().display()))
            .with_data(json!({"stopped": false, "pid": pid}))),
    }
}

pub(super) async fn restart(desk: &Desk<'_>, arguments: &cli::Restart) -> Result<ExitCode, Failure> {
    let meshes = match arguments.all {
        true => {
            let mut running = Vec::new();
            for mesh in desk.host.slugs()? {
                if status::running(desk, &mesh).await.is_some() {
                    running.push(mesh);
                }
            }
            running
        }
        false => vec![desk.host.joined(desk.mesh.as_deref())?.slug],
    };
    let mut rows = Vec::new();
    for mesh in meshes {
        stop(desk, &mesh).await?;
        let started = up::start(desk, &mesh, &cli::Up::default()).await?;
        if !desk.ui.json() {
            desk.ui.line(&format!("{mesh}: daemon started (pid {})", started.pid))?;
        }
        rows.push(json!({"ok": true, "mesh": mesh, "pid": started.pid}));
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    }
    Ok(ExitCode::SUCCESS)
}
