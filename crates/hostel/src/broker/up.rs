//! `broker up`: in the background, or held in this terminal.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::address;
use super::address::Addresses;
use super::cli::Up;
use super::down;
use super::health;
use super::health::Health;
use super::place::Place;
use super::serve;
use crate::daemon::launch;
use crate::daemon::launch::Launcher;
use crate::daemon::launch::Outcome;
use crate::daemon::log::append;
use crate::mesh;
use crate::mesh::Desk;
use crate::mesh::failure::Failure;
use crate::text;

/// How long a broker may take to be there; its log may have to be looked through first.
const START: Duration = Duration::from_secs(30);

/// Where somebody wants a broker to listen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) listen: Option<String>,
    pub(crate) url: Option<String>,
}

pub(super) fn run(desk: &Desk<'_>, arguments: &Up) -> Result<ExitCode, Failure> {
    let place = Place::of(&desk.home);
    let asked = Asked { listen: arguments.listen.clone(), url: arguments.url.clone() };
    if arguments.launched {
        let launcher =
            Launcher::take().map_err(|error| Failure::internal(format!("cannot leave the launcher: {error}")))?;
        return match prepare(&place, &asked) {
            Ok(addresses) => serve::run(&place, &addresses, Some(launcher), |_| ()),
            Err(failure) => {
                launcher.failed(&failure.to_string());
                Err(failure)
            }
        };
    }
    let addresses = prepare(&place, &asked)?;
    if let Some(pid) = place.holder() {
        let hint = match asked.listen.is_some() || asked.url.is_some() {
            true => "to have it listen elsewhere, stop it first with `claudemesh broker down`",
            false => "see where it listens with `claudemesh broker status`",
        };
        return Err(Failure::daemon(1, "already_running", format!("broker already running (pid {pid})"))
            .hint(hint)
            .with_data(json!({"ok": false, "reason": "already_running", "pid": pid})));
    }
    if arguments.foreground {
        let ui = *desk.ui;
        return serve::run(&place, &addresses, None, move |health| {
            // A closed terminal is no reason to stop.
            tell(&ui, health, false).ok();
        });
    }
    let health = mesh::wait(start(&desk.home, &asked))?;
    tell(desk.ui, &health, true)?;
    Ok(ExitCode::SUCCESS)
}

fn prepare(place: &Place, asked: &Asked) -> Result<Addresses, Failure> {
    address::read(asked.listen.as_deref(), asked.url.as_deref(), &place.listening())
}

/// Starts the broker of a house in the background, unless it is up. One that listens elsewhere than is asked for is
/// started anew; mesh daemons find it again by themselves.
pub(crate) async fn start(home: &Path, asked: &Asked) -> Result<Health, Failure> {
    let place = Place::of(home);
    let addresses = prepare(&place, asked)?;
    if let Some(health) = health::running(&place).await {
        if addresses.beyond == place.listening() {
            return Ok(health);
        }
        down::stop(&place).await?;
    }
    place.create()?;
    let mut words: Vec<OsString> =
        vec!["--home".into(), home.as_os_str().to_owned(), "broker".into(), "up".into(), "--launched".into()];
    if let Some(listen) = &asked.listen {
        words.extend(["--listen".into(), listen.into()]);
    }
    if let Some(url) = &asked.url {
        words.extend(["--url".into(), url.into()]);
    }
    let log = append(&place.log()).map_err(|error| Failure::io(format!("cannot open the broker's log: {error}")))?;
    let mut command = launch::own_program("hostel".as_ref(), &words);
    // A panic's last words belong into the log.
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::from(log));
    let launched = hostel_tasks::spawn_blocking(move || launch::launch(command, b"", START)).await;
    let log_hint = format!("its log is `{}`", place.log().display());
    let failed = |text: String| Failure::daemon(1, "broker_not_started", text);
    let started = match launched {
        Ok(Ok(Outcome::Ready)) => Ok(()),
        Ok(Ok(Outcome::Failed(reason))) => Err(failed(reason)),
        Ok(Ok(Outcome::Ended(_))) => Err(failed("the broker ended while starting".to_owned()).hint(&log_hint)),
        Ok(Ok(Outcome::TimedOut)) => {
            Err(failed(format!("the broker was not ready within {}", text::duration(START))).hint(&log_hint))
        }
        Ok(Err(error)) => Err(failed(format!("cannot start the broker: {error}"))),
        Err(error) => Err(failed(format!("cannot start the broker: {error}"))),
    };
    match health::running(&place).await {
        // Ours or that of somebody who was faster: either way it is up.
        Some(health) => Ok(health),
        None => Err(started
            .err()
            .unwrap_or_else(|| failed("the broker started and went away again".to_owned()).hint(log_hint))),
    }
}

fn tell(ui: &crate::ui::Ui, health: &Health, detached: bool) -> Result<(), Failure> {
    if ui.json() {
        ui.data(&json!({
            "ok": true, "detached": detached, "pid": health.pid, "port": health.port, "url": health.url(),
            "public_url": health.answer.get("public_url"), "certificate": health.answer.get("certificate"),
        }))?;
        return Ok(());
    }
    ui.line(&format!("broker started (pid {})", health.pid))?;
    ui.line(&format!("  here: {}", health.url()))?;
    Ok(())
}
