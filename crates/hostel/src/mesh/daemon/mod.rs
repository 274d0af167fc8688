//! The mesh daemon: one process per mesh, and the verbs that look after it.
//!
//! Invariant: whoever holds the lock on `pid` is the daemon of that mesh, and only it binds or removes the socket. Exit
//! codes are the contract's: 1 already running or not running, 2 no mesh, 3 not let in, 4 another host's identity,
//! 78 revoked.

pub(crate) mod ending;
pub(crate) mod log;
pub(crate) mod place;
pub(crate) mod signals;

mod asking;
mod backup;
mod budget;
mod caps;
mod down;
mod keys;
mod listen;
mod logs;
mod memory;
#[cfg(any(feature = "otel", test))]
#[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "always tested, used where it was asked for"))]
mod otel;
mod outbox;
mod recover;
pub(crate) mod reload;
mod removal;
mod serve;
pub(crate) mod service;
mod settle;
mod status;
mod tokens;
mod up;

use std::process::ExitCode;

use serde_json::Value;

use super::Desk;
use super::cli::Daemon;
use super::cli::DaemonAction;
use super::failure::Code;
use super::failure::Failure;
use super::hooks;
use super::route;
use super::show;
use super::verbs;
use super::wait;
use crate::text;

pub(crate) use budget::fleet as fleet_caps;
pub(crate) use down::stop;
pub(crate) use memory::ended;
pub(crate) use status::running;
pub(crate) use up::start;

/// Whether the daemon of a mesh was started for another house than ours.
pub(crate) fn belongs_to_another(desk: &Desk<'_>, mesh: &str) -> bool {
    let label = std::fs::read(desk.host.dir(mesh).path().join(settle::HOUSE));
    label.is_ok_and(|house| house != desk.home.as_os_str().as_encoded_bytes())
}

/// Runs a verb of `daemon`.
pub(super) fn run(desk: &Desk<'_>, arguments: Daemon) -> Result<ExitCode, Failure> {
    let served = match arguments.action {
        DaemonAction::Up(arguments) => up::run(desk, &arguments),
        DaemonAction::Down(arguments) => wait(down::run(desk, &arguments)),
        DaemonAction::Status => wait(status::run(desk)),
        DaemonAction::Version => wait(version(desk)),
        DaemonAction::Restart(arguments) => wait(down::restart(desk, &arguments)),
        DaemonAction::Logs(arguments) => wait(logs::run(desk, &arguments)),
        DaemonAction::Search(arguments) => wait(verbs::inbox::search(desk, &arguments)),
        DaemonAction::RotateToken => wait(tokens::rotate(desk)),
        DaemonAction::RotateKeypair => wait(keys::rotate(desk)),
        DaemonAction::AcceptHost => tokens::accept_host(desk),
        DaemonAction::Reload(arguments) => wait(reload::run(desk, &arguments)),
        DaemonAction::Backup(arguments) => backup::run(desk, &arguments),
        DaemonAction::Restore(arguments) => backup::restore(desk, &arguments),
        DaemonAction::Uninstall(arguments) => wait(removal::uninstall(desk, &arguments)),
        DaemonAction::Reset(arguments) => wait(removal::reset(desk, &arguments)),
        DaemonAction::Recover(arguments) => wait(recover::run(desk, &arguments)),
        DaemonAction::Hooks(arguments) => hooks::run(desk, &arguments),
        DaemonAction::Outbox(arguments) => wait(outbox::run(desk, &arguments)),
        DaemonAction::InstallService(arguments) => wait(service::install(desk, &arguments)),
        DaemonAction::UninstallService(arguments) => wait(service::uninstall(desk, &arguments)),
    };
    // Whatever has no code of its own ends as the contract's daemon verbs do.
    served.map_err(|failure| match (failure.own_exit(), failure.code()) {
        (Some(_), _) => failure,
        (None, Code::Arguments) => failure.with_exit(3),
        (None, _) => failure.with_exit(1),
    })
}

async fn version(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "its version").await?;
    let answer = client.ask(hyper::Method::GET, "/v1/version", None).await?;
    if answer.status == 401 {
        return Err(Failure::daemon(3, "unauthorized", "the daemon does not let us in"));
    }
    if answer.status != 200 {
        return Err(Failure::refused(answer.status, &answer.body));
    }
    if desk.ui.json() {
        desk.ui.data(&answer.body)?;
        return Ok(ExitCode::SUCCESS);
    }
    let schema = answer.body.get("schema_version").and_then(Value::as_u64).unwrap_or_default();
    let daemon = text::printable(show::field(&answer.body, "daemon_version")).into_owned();
    desk.ui.line(&format!(
        "daemon {daemon} (ipc {}, schema {schema})",
        text::printable(show::field(&answer.body, "ipc_api"))
    ))?;
    if daemon != env!("CARGO_PKG_VERSION") {
        desk.ui.note(&format!(
            "this program is {}; `{} daemon restart` makes the daemon the same",
            env!("CARGO_PKG_VERSION"),
            desk.called
        ));
    }
    Ok(ExitCode::SUCCESS)
}
