//! `hostel up`: the house started in the background, or held in this terminal.

use std::ffi::OsString;
use std::process::ExitCode;
use std::process::Stdio;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::protocol::DoorAddress;
use hostel_doors::native::protocol::HouseStatus;
use serde_json::json;

use super::Context;
use super::approver::Alarm;
use super::wait;
use crate::cli::Up;
use crate::config::Settings;
use crate::conversation::words;
use crate::daemon;
use crate::daemon::launch;
use crate::daemon::launch::Launcher;
use crate::daemon::launch::Outcome;
use crate::daemon::log::append;
use crate::error::CommandError;
use crate::inbox::visible;
use crate::mesh::fleet;
use crate::paths::HouseDir;
use crate::service;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;
use crate::ui::Ui;

pub(super) fn run(context: &Context<'_>, arguments: &Up) -> Result<ExitCode, CommandError> {
    let dir = HouseDir::at(&context.home);
    if arguments.launched {
        let launcher =
            Launcher::take().map_err(|error| CommandError::failure(format!("cannot leave the launcher: {error}")))?;
        return match Settings::load(&dir.config_file(), &arguments.settings) {
            Ok(settings) => daemon::run_up(dir, settings, Some(launcher), |_| ()),
            Err(error) => {
                launcher.failed(&error.to_string());
                Err(error)
            }
        };
    }
    let settings = Settings::load(&dir.config_file(), &arguments.settings)?;
    if let Some(status) = running(context)? {
        return show(context, &settings, &status, true);
    }
    if arguments.foreground && super::init::is_first() {
        return super::init::run(context, arguments);
    }
    if arguments.foreground {
        let ui = *context.ui;
        let (home, mesh) = (context.home.clone(), settings.mesh.clone());
        return daemon::run_up(dir, settings, None, move |doors| {
            announce(&ui, doors);
            fleet::up_beside(&home, &mesh);
        });
    }
    // What the supervisor starts has the settings of the file alone.
    let by_service = arguments.settings.is_empty()
        && crate::mesh::wait(service::house::start(context)).map_err(CommandError::from)?;
    let started = match by_service {
        true => Ok(()),
        false => start(context, &dir, &settings, arguments),
    };
    match running(context)? {
        // Ours or that of somebody who was faster: either way the house is up.
        Some(status) => show(context, &settings, &status, started.is_err()),
        None => Err(started
            .err()
            .unwrap_or_else(|| CommandError::failure("the daemon started and went away again"))
            .hint(format!("its log is `{}`", dir.daemon_log().display()))),
    }
}

/// The status of a house that is up; none if nobody answers.
fn running(context: &Context<'_>) -> Result<Option<HouseStatus>, CommandError> {
    let mut status = None;
    wait(async {
        // Somebody else in the daemon's place would not let another one begin.
        let connected = match context.houses.main().connect().await {
            Err(error @ ClientError::NotTheDaemon { .. }) => return Err(error.into()),
            connected => connected,
        };
        if let Ok(mut client) = connected {
            status = Some(client.call("house/status", &json!({})).await?);
        }
        Ok(ExitCode::SUCCESS)
    })?;
    Ok(status)
}

/// What people have to hear of since the daemon started.
fn alarms(context: &Context<'_>) -> Result<Vec<Alarm>, CommandError> {
    #[derive(serde::Deserialize)]
    struct Status {
        #[serde(default)]
        alarms: Vec<Alarm>,
    }
    let mut alarms = Vec::new();
    wait(async {
        if let Ok(mut client) = context.houses.main().connect().await {
            alarms = client.call::<Status>("approver/status", &json!({})).await?.alarms;
        }
        Ok(ExitCode::SUCCESS)
    })?;
    Ok(alarms)
}

/// Starts the daemon in the background and waits until it is up.
fn start(context: &Context<'_>, dir: &HouseDir, settings: &Settings, arguments: &Up) -> Result<(), CommandError> {
    dir.create()?;
    let mut words: Vec<OsString> = vec!["--home".into(), context.home.clone().into(), "up".into(), "--launched".into()];
    for setting in &arguments.settings {
        words.push("--set".into());
        words.push(setting.into());
    }
    let log =
        append(&dir.daemon_log()).map_err(|error| CommandError::failure(format!("cannot open the log: {error}")))?;
    let mut command = launch::own_program("hostel".as_ref(), &words);
    // A panic's last words belong into the log.
    command.stdout(Stdio::null()).stderr(Stdio::from(log));
    let log_hint = format!("its log is `{}`", dir.daemon_log().display());
    match launch::launch(command, b"", settings.limits.start) {
        Ok(Outcome::Ready) => Ok(()),
        Ok(Outcome::Failed(reason)) => Err(CommandError::failure(reason)),
        Ok(Outcome::Ended(status)) => {
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            Err(CommandError::failure(format!("the daemon ended while starting{status}")).hint(log_hint))
        }
        Ok(Outcome::TimedOut) => Err(CommandError::failure(format!(
            "the daemon was not ready within {}",
            text::duration(settings.limits.start)
        ))
        .hint(log_hint)),
        Err(error) => Err(CommandError::failure(format!("cannot start the daemon: {error}"))),
    }
}

fn show(
    context: &Context<'_>,
    settings: &Settings,
    status: &HouseStatus,
    already: bool,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    // Processes of their own: they may have survived, or have to be started again, whatever the daemon did.
    let fleet = fleet::up(ui, &context.home, &settings.mesh);
    if ui.json() {
        let mesh: Vec<_> = fleet.iter().map(fleet::Member::to_json).collect();
        let alarms = alarms(context)?;
        ui.data(&json!({"already_running": already, "status": status, "mesh": mesh, "alarms": alarms}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let since = match already {
        true => "is up already",
        false => "is up",
    };
    ui.line(&format!(
        "hostel {} {since} in {} (daemon {}, keeper {})",
        status.version, status.home, status.pid, status.keeper.pid
    ))?;
    ui.line("")?;
    ui.line(&table(ui, &status.doors))?;
    ui.line("")?;
    if let Some(guard) = &status.guard {
        let line = format!("Guard of agents: {}.", words::guard(guard));
        ui.line(&ui.paint(if guard.active == "full" { Paint::Plain } else { Paint::Yellow }, &line))?;
        ui.line("")?;
    }
    if let Some(line) = fleet::summary(&fleet) {
        ui.line(&line)?;
        ui.line("")?;
    }
    for alarm in alarms(context)? {
        let text = visible::text(&visible::prose(&alarm.text));
        ui.line(&format!("{} {text}", ui.paint(Paint::Red, "alarm")))?;
        ui.line("")?;
    }
    if status.unreadable_journals > 0 {
        let count = status.unreadable_journals;
        let noun =
            if count == 1 { "1 journal cannot be read".to_owned() } else { format!("{count} journals cannot be read") };
        ui.line(&format!(
            "{} {noun}; nothing of it was removed, `hostel doctor` names the files",
            ui.paint(Paint::Red, "alarm")
        ))?;
        ui.line("")?;
    }
    for line in NEXT {
        ui.line(line)?;
    }
    Ok(ExitCode::SUCCESS)
}

const NEXT: [&str; 8] = [
    "Next:",
    "  hostel run \"PROMPT\"       start an agent and watch it answer",
    "  hostel run -- COMMAND     host a command and stream it",
    "  hostel ps                 what runs",
    "  hostel approvals          what waits for your decision",
    "  hostel mesh create NAME   talk with other hosts",
    "  hostel doctor             is everything in order",
    "  hostel down               end everything",
];

fn table(ui: &Ui, doors: &[DoorAddress]) -> String {
    let mut table = Table::new(&["DOOR", "ADDRESS", "STATE", ""]);
    for door in doors {
        let (paint, state) = match door.open {
            true => (Paint::Green, "open"),
            false => (Paint::Yellow, "not open"),
        };
        table.row(vec![
            (Paint::Bold, door.name.clone()),
            (Paint::Plain, door.address.clone()),
            (paint, state.to_owned()),
            (Paint::Dim, door.note.clone().unwrap_or_default()),
        ]);
    }
    table.render(ui)
}

/// What a daemon in the foreground says once it is up; a closed terminal is no reason to stop.
fn announce(ui: &Ui, doors: &[DoorAddress]) {
    let said = match ui.json() {
        true => ui.data(&json!({"already_running": false, "doors": doors})),
        false => ui
            .line(&table(ui, doors))
            .and_then(|()| ui.line("\nCtrl-C ends the daemon; processes run on until `hostel down`.")),
    };
    drop(said);
}
