//! `hostel down`: the house closed, with or without its processes.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::protocol;
use hostel_house::processes::Processes;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::process::Pid;
use rustix::process::PidfdFlags;
use serde_json::json;
use tokio::time::Instant;

use super::Context;
use crate::cli::Down;
use crate::config::Settings;
use crate::daemon;
use crate::daemon::lock::DaemonLock;
use crate::error::CommandError;
use crate::mesh::fleet;
use crate::paths::HouseDir;
use crate::text;

/// How long processes have to end by themselves when there is no daemon to see to it.
const GRACE: Duration = Duration::from_secs(3);

pub(super) async fn run(context: &Context<'_>, arguments: &Down) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    // A broken configuration must not keep a house from being closed.
    let settings = context.settings().unwrap_or_else(|error| {
        ui.note(&format!("hostel: {error}; going on with what is built in"));
        Settings::default()
    });
    let house = context.houses.one()?;
    let limit = settings.limits.shutdown * 2 + GRACE;
    let mut was_up = false;
    match house.connect().await {
        Ok(mut client) => {
            was_up = true;
            let keep = arguments.keep;
            let daemon = handle(client.server().server_pid);
            let _: serde_json::Value = client.call("house/down", &protocol::Down { keep }).await?;
            wait_free(&house.dir.daemon_lock(), limit).await?;
            wait_gone(daemon, limit);
        }
        Err(error) if !error.is_lost() => return Err(error.into()),
        Err(_) => {}
    }
    let keeper_lock = house.dir.run().join(hostel_keeper::LOCK_NAME);
    let mut keeper_ended = was_up && !arguments.keep;
    if !arguments.keep && is_held(&keeper_lock)? {
        if !was_up {
            end_keeper(&house.dir, &settings).await?;
            keeper_ended = true;
        }
        wait_free(&keeper_lock, limit).await?;
    }
    // Only with the main house: a personality's has none.
    let mesh_ended = match !arguments.keep && house.dir.root() == context.home {
        true => fleet::down(ui, &context.home).await.map_err(CommandError::from)?,
        false => fleet::Ended::default(),
    };
    if ui.json() {
        ui.data(&json!({
            "daemon_ended": was_up, "keeper_ended": keeper_ended,
            "broker_ended": mesh_ended.broker, "mesh_daemons_ended": mesh_ended.daemons,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    ui.line(match (was_up, keeper_ended, arguments.keep) {
        (true, _, true) => "the daemon ended; processes run on, `hostel up` finds them again",
        (true, _, false) => "daemon, keeper and processes ended",
        (false, true, _) => "there was no daemon; keeper and processes ended",
        (false, false, _) if mesh_ended.broker => "there was no daemon; the broker ended",
        (false, false, _) if mesh_ended.daemons > 0 => "there was no daemon",
        (false, false, _) => "nothing was up",
    })?;
    match mesh_ended.daemons {
        0 => {}
        1 => ui.line("1 mesh daemon ended")?,
        count => ui.line(&format!("{count} mesh daemons ended"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the daemon of the main house alone, if one answers; keeper and processes run on.
pub(crate) async fn end_daemon_alone(context: &Context<'_>) -> Result<(), CommandError> {
    let house = context.houses.main();
    let settings = context.settings().unwrap_or_default();
    let limit = settings.limits.shutdown * 2 + GRACE;
    let Ok(mut client) = house.connect().await else { return Ok(()) };
    let daemon = handle(client.server().server_pid);
    let _: serde_json::Value = client.call("house/down", &protocol::Down { keep: true }).await?;
    wait_free(&house.dir.daemon_lock(), limit).await?;
    wait_gone(daemon, limit);
    Ok(())
}

/// A handle on a process, by which its end can be awaited; none where the system has no such thing.
fn handle(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits until a process that has put everything away has really ended; there is nothing else to do meanwhile.
fn wait_gone(process: Option<OwnedFd>, limit: Duration) {
    let (Some(process), Ok(limit)) = (process, Timespec::try_from(limit)) else { return };
    let mut watched = [PollFd::new(&process, PollFlags::IN)];
    // A wait that is cut short only means that we say "ended" a moment early.
    rustix::event::poll(&mut watched, Some(&limit)).unwrap_or_default();
}

/// Ends a keeper that has no daemon.
async fn end_keeper(dir: &HouseDir, settings: &Settings) -> Result<(), CommandError> {
    let options = daemon::keeper_options(dir, settings)?;
    let processes = Processes::connect(options).await.map_err(|error| CommandError::failure(error.to_string()))?;
    match processes.stop_keeper(GRACE).await {
        Ok(0) => Ok(()),
        Ok(left) => Err(CommandError::failure(format!("{left} processes could not be killed"))
            .hint("they may belong to another user")),
        Err(error) => Err(CommandError::failure(format!("the keeper did not end: {error}"))),
    }
}

fn is_held(lock: &Path) -> Result<bool, CommandError> {
    if !lock.exists() {
        return Ok(false);
    }
    DaemonLock::is_held(lock)
        .map_err(|error| CommandError::failure(format!("cannot look at `{}`: {error}", lock.display())))
}

/// Waits until whoever holds a lock has ended.
async fn wait_free(lock: &Path, limit: Duration) -> Result<(), CommandError> {
    let deadline = Instant::now() + limit;
    while is_held(lock)? {
        if Instant::now() >= deadline {
            return Err(CommandError::failure(format!(
                "the holder of `{}` did not end within {}",
                lock.display(),
                text::duration(limit)
            ))
            .hint("see what is left with `hostel doctor`"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
