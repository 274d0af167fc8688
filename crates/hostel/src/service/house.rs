//! `hostel service`: the house as a service.
//!
//! Invariant: the supervisor keeps the daemon alone. Keeper, broker and mesh daemons outlive every restart of it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::Scope;
use super::cli::Install;
use super::cli::Kind;
use super::cli::ServiceAction;
use super::cli::Where;
use super::manager;
use super::manager::Manager;
use super::place;
use super::text_of;
use super::unit::Confinement;
use super::unit::Unit;
use crate::commands::Context;
use crate::error::CommandError;
use crate::mesh;
use crate::mesh::failure::Failure;

/// Variables that say where things are, and are passed on if they are set.
pub(crate) const PLACES: [&str; 3] = ["CLAUDEMESH_CONFIG_DIR", "CLAUDEMESH_DAEMON_DIR", "CLAUDEMESH_BROKER_URL"];

/// How long the service of a house may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// `hostel service`.
pub(crate) fn run(context: &Context<'_>, arguments: &super::cli::Service) -> Result<ExitCode, CommandError> {
    let served = match &arguments.action {
        ServiceAction::Install(arguments) => mesh::wait(install(context, arguments)),
        ServiceAction::Uninstall(place) => mesh::wait(uninstall(context, place)),
        ServiceAction::Status(place) => mesh::wait(status(context, place)),
    };
    served.or_else(|failure| mesh::answer_failure(context.ui, failure))
}

/// The service of a house.
pub(crate) fn unit(home: &Path, scope: Scope) -> Result<Unit, Failure> {
    let program = super::program()?;
    let command = [program.as_str(), "--home", &text_of(home)?, "up", "--foreground"].map(str::to_owned).to_vec();
    let user = match scope {
        Scope::User => None,
        Scope::System => {
            // Before its first start a house has no directory; its owner is then whoever has the one above.
            let there = home.ancestors().find(|path| path.exists()).unwrap_or(home);
            Some(place::owner_of(there)?)
        }
    };
    let mut environment = variables(&PLACES)?;
    // Agents are found by their names, and a supervisor's own path knows few of them.
    environment.extend(variables(&["PATH"])?);
    Ok(Unit {
        name: "hostel".to_owned(),
        label: "hostel.house".to_owned(),
        description: format!("hostel house in {}", text_of(home)?),
        written_by: "hostel service install",
        command,
        reload: None,
        environment,
        scope,
        user,
        confinement: Confinement::House,
    })
}

/// Variables that are set, as they are.
pub(crate) fn variables(names: &[&str]) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for name in names {
        if let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) {
            found.push(((*name).to_owned(), text_of(Path::new(&value))?));
        }
    }
    Ok(found)
}

/// Whether the house is a service, and whose; another house's does not count.
pub(crate) fn installed(home: &Path) -> Option<Scope> {
    let of = |scope| {
        let unit = unit(home, scope).ok()?;
        let path = place::directory(Kind::Systemd, scope).ok()?.join(unit.file_name());
        let text = std::fs::read_to_string(path).ok()?;
        let command = unit.systemd().ok()?.lines().find(|line| line.starts_with("ExecStart="))?.to_owned();
        // The program may have moved since; the house it is for has not.
        let words = |line: &str| line.split_once(" --home ").map(|(_, rest)| rest.to_owned());
        let there = text.lines().find(|line| line.starts_with("ExecStart="))?;
        (words(there) == words(&command)).then_some(scope)
    };
    of(Scope::User).or_else(|| of(Scope::System))
}

/// Starts the house through its service, if there is one that can; whether it did.
pub(crate) async fn start(context: &Context<'_>) -> Result<bool, Failure> {
    let Some(scope) = installed(&context.home) else { return Ok(false) };
    let unit = unit(&context.home, scope)?;
    let manager = Manager::of(scope);
    if let Some(absence) = manager.absence().await {
        context.ui.note(&format!("hostel.service is installed and cannot be started: {absence}; going on without"));
        return Ok(false);
    }
    // The machine's services start by themselves; a user can only wait for them.
    if scope == Scope::User || rustix::process::geteuid().is_root() {
        manager.start(&unit.file_name()).await?;
    }
    appears(context, scope).await?;
    Ok(true)
}

/// Waits until the house of a service that was started answers.
async fn appears(context: &Context<'_>, scope: Scope) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while context.houses.main().connect().await.is_err() {
        if tokio::time::Instant::now() >= deadline {
            return Err(Failure::daemon(1, "service_not_up", "hostel.service did not come up within 10 s")
                .hint(format!("see why with `{} status hostel`", scope.systemctl()))
                .hint(format!("and with `{} -u hostel`", scope.journalctl())));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

async fn install(context: &Context<'_>, arguments: &Install) -> Result<ExitCode, Failure> {
    let ui = context.ui;
    let (kind, scope) = (super::kind(arguments.place.kind)?, arguments.place.scope());
    let unit = unit(&context.home, scope)?;
    let path = place::file(&unit, kind, &arguments.place)?;
    let text = place::text(&unit, kind)?;
    if arguments.print {
        match ui.json() {
            true => ui.data(&json!({"unit": unit.file_name(), "path": path, "text": text}))?,
            false => ui.raw(text.as_bytes())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    super::refuse_ci(arguments.allow_ci_persistent)?;
    place::check_rights(&arguments.place)?;
    if path.exists() {
        check_house(context, kind, &arguments.place, &path)?;
    }
    place::write(&unit, kind, &path)?;
    let manager = Manager::of(scope);
    let absence = match (arguments.place.dir.is_some(), kind) {
        (true, _) => Some("it was written to a directory of your choice".to_owned()),
        (_, Kind::Launchd) => Some("this is no Mac".to_owned()),
        _ => manager.absence().await,
    };
    let mut started = false;
    if absence.is_none() {
        manager.reload().await?;
        // One that runs already is what the service would be: it goes, and comes back as the service. What it hosts
        // runs on meanwhile.
        if !arguments.no_start {
            end_daemon(context).await?;
        }
        manager.enable(&unit.file_name(), !arguments.no_start).await?;
        started = !arguments.no_start;
        if started {
            appears(context, scope).await?;
        }
    }
    let lingers = match scope {
        Scope::User if absence.is_none() => manager::lingers().await,
        _ => None,
    };
    if ui.json() {
        ui.data(&json!({
            "ok": true, "unit": unit.file_name(), "path": path, "scope": scope.word(), "started": started,
            "cannot_start": absence, "lingers": lingers,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    ui.line(&format!("written: {}", path.display()))?;
    match absence {
        Some(why) => {
            ui.line(&format!("It cannot be started here: {why}."))?;
            ui.line("Where a systemd runs:")?;
            ui.line(&format!("  {} daemon-reload && {} enable --now hostel", scope.systemctl(), scope.systemctl()))?;
            ui.line("Here, or as process 1 of a container:")?;
            ui.line("  hostel up --foreground")?;
        }
        None => {
            let when = if started { "started, and starts again" } else { "starts" };
            ui.line(&format!("The house is {when} at every {}.", if scope == Scope::User { "login" } else { "boot" }))?;
            if lingers == Some(false) {
                ui.line("It ends when you log out. To have it run from boot on, without a login:")?;
                ui.line("  loginctl enable-linger")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses to touch the service of another house.
fn check_house(context: &Context<'_>, kind: Kind, asked: &Where, path: &Path) -> Result<(), Failure> {
    let another = kind == Kind::Systemd && asked.dir.is_none() && installed(&context.home) != Some(asked.scope());
    match another {
        false => Ok(()),
        true => Err(Failure::daemon(1, "exists", format!("`{}` is the service of another house", path.display()))
            .hint("that one is taken out with `hostel --home ITS-DIRECTORY service uninstall`")),
    }
}

/// Ends the daemon of the house, if one answers, and leaves keeper and processes alone.
async fn end_daemon(context: &Context<'_>) -> Result<(), Failure> {
    match crate::commands::end_daemon_alone(context).await {
        Ok(()) => Ok(()),
        Err(error) => Err(Failure::daemon(1, "did_not_stop", format!("the daemon that runs does not end: {error}"))),
    }
}

async fn uninstall(context: &Context<'_>, arguments: &Where) -> Result<ExitCode, Failure> {
    let ui = context.ui;
    let (kind, scope) = (super::kind(arguments.kind)?, arguments.scope());
    place::check_rights(arguments)?;
    let unit = unit(&context.home, scope)?;
    let path = place::file(&unit, kind, arguments)?;
    let there = path.exists();
    place::check_ours(&unit, kind, &path)?;
    if there {
        check_house(context, kind, arguments, &path)?;
    }
    let manager = Manager::of(scope);
    let present = arguments.dir.is_none() && kind == Kind::Systemd && manager.absence().await.is_none();
    if there && present {
        manager.disable(&unit.file_name()).await?;
    }
    let removed = place::remove(&path)?;
    if there && present {
        manager.reload().await?;
    }
    if ui.json() {
        ui.data(&json!({"ok": true, "removed": removed, "path": path}))?;
    } else if removed {
        ui.line(&format!("removed: {}", path.display()))?;
        ui.line("What the house keeps runs on; `hostel up` finds it, `hostel down` ends it.")?;
    } else {
        ui.line("no service is installed")?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(context: &Context<'_>, arguments: &Where) -> Result<ExitCode, Failure> {
    let ui = context.ui;
    let (kind, scope) = (super::kind(arguments.kind)?, arguments.scope());
    let unit = unit(&context.home, scope)?;
    let path = place::file(&unit, kind, arguments)?;
    let installed = path.exists();
    let manager = Manager::of(scope);
    let absence = match kind {
        Kind::Systemd => manager.absence().await,
        _ => Some("this is no Mac".to_owned()),
    };
    let (mut active, mut enabled) = (None, None);
    if installed && absence.is_none() {
        active = manager.word("is-active", &unit.file_name()).await;
        enabled = manager.word("is-enabled", &unit.file_name()).await;
    }
    let lingers = if scope == Scope::User { manager::lingers().await } else { None };
    if ui.json() {
        ui.data(&json!({
            "installed": installed, "path": path, "scope": scope.word(), "active": active, "enabled": enabled,
            "cannot_start": absence, "lingers": lingers,
        }))?;
    } else {
        let state = if installed { "installed" } else { "not installed" };
        ui.line(&format!("service: {state} ({})", path.display()))?;
        if let (Some(active), Some(enabled)) = (&active, &enabled) {
            ui.line(&format!("state: {active}, {enabled}"))?;
        }
        if let Some(why) = &absence {
            ui.line(&format!("systemd: {why}"))?;
        }
        match lingers {
            Some(true) => ui.line("lingering: yes, it runs without a login")?,
            Some(false) => ui.line("lingering: no, it ends at logout; `loginctl enable-linger` changes that")?,
            None => {}
        }
    }
    Ok(if installed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
