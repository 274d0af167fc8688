//! `daemon down` and `daemon restart`.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::ending;
use super::memory;
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
        let (mut ended, mut failed) = (Vec::new(), None);
        for mesh in desk.host.slugs()? {
            let (row, line) = match stop(desk, &mesh).await {
                Ok(None) => continue,
                Ok(Some(pid)) => {
                    (json!({"mesh": mesh, "stopped": true, "pid": pid}), format!("{mesh}: stopped (was pid {pid})"))
                }
                // The others are to end all the same.
                Err(failure) => {
                    let line = format!("{mesh}: {}", failure.message());
                    failed = Some(failure.exit_code());
                    (json!({"mesh": mesh, "stopped": false, "error": failure.word()}), line)
                }
            };
            ended.push(row);
            if !desk.ui.json() {
                desk.ui.line(&line)?;
            }
        }
        if desk.ui.json() {
            desk.ui.data(&ended)?;
        } else if ended.is_empty() {
            desk.ui.line("daemon: not running")?;
        }
        return Ok(failed.map_or(ExitCode::SUCCESS, ExitCode::from));
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
    if !arguments.all {
        let mesh = desk.host.joined(desk.mesh.as_deref())?.slug;
        let started = restart_one(desk, &mesh).await?;
        if desk.ui.json() {
            desk.ui.data(&vec![json!({"ok": true, "mesh": mesh, "pid": started.pid})])?;
        } else {
            desk.ui.line(&format!("{mesh}: daemon started (pid {})", started.pid))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut rows, mut failed) = (Vec::new(), None);
    for mesh in desk.host.slugs()? {
        if status::running(desk, &mesh).await.is_none() {
            continue;
        }
        // One that does not come back is no reason to leave the others as they are.
        let (row, line) = match restart_one(desk, &mesh).await {
            Ok(started) => (
                json!({"ok": true, "mesh": mesh, "pid": started.pid}),
                format!("{mesh}: daemon started (pid {})", started.pid),
            ),
            Err(failure) => {
                let row = json!({"ok": false, "mesh": mesh, "error": failure.word(), "detail": failure.message()});
                let line = format!("{mesh}: {}", failure.message());
                failed = Some(failure.exit_code());
                (row, line)
            }
        };
        if !desk.ui.json() {
            desk.ui.line(&line)?;
        }
        rows.push(row);
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    } else if rows.is_empty() {
        desk.ui.line("daemon: not running")?;
    }
    Ok(failed.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Ends a daemon and starts it with the flags it had.
async fn restart_one(desk: &Desk<'_>, mesh: &str) -> Result<up::Started, Failure> {
    if let Some(daemon) = status::running(desk, mesh).await
        && daemon.client.socket() != desk.host.dir(mesh).sock()
    {
        return Err(Failure::daemon(1, "ephemeral", format!("the daemon of `{mesh}` is ephemeral"))
            .hint("its identity ends with it: stop it with `claudemesh daemon down`, and start another one"));
    }
    stop(desk, mesh).await?;
    up::start(desk, mesh, &memory::arguments(&desk.host.dir(mesh))).await
}
