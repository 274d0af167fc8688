//! Mesh daemons as services: `install-service`, `uninstall-service`, and asking a service instead of starting a daemon
//! of one's own.
//!
//! Invariant: one unit per mesh. Where one is installed and its supervisor runs, nobody else starts that daemon; two of
//! them would only quarrel about the lock.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use hostel_mesh::home::Membership;
use hostel_mesh::home::surroundings::Surroundings;
use serde_json::Value;
use serde_json::json;

use super::budget;
use super::down;
use super::status;
use crate::mesh::Desk;
use crate::mesh::cli::InstallService;
use crate::mesh::cli::UninstallService;
use crate::mesh::cli::Up;
use crate::mesh::failure::Failure;
use crate::service;
use crate::service::Scope;
use crate::service::cli::Kind;
use crate::service::house;
use crate::service::manager;
use crate::service::manager::Manager;
use crate::service::place;
use crate::service::text_of;
use crate::service::unit::Confinement;
use crate::service::unit::Unit;

/// How long a service may take until its daemon answers.
const PATIENCE: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(50);

/// The service of one mesh's daemon.
fn unit(desk: &Desk<'_>, mesh: &str, scope: Scope, persistent: bool) -> Result<Unit, Failure> {
    let places = desk.host.places();
    let mut command = vec![service::program()?, "--home".to_owned(), text_of(&desk.home)?];
    command.extend(["mesh", "--mesh", mesh, "daemon"].map(str::to_owned));
    let mut reload = command.clone();
    reload.push("reload".to_owned());
    command.extend(["up", "--foreground"].map(str::to_owned));
    if persistent {
        command.push("--persistent".to_owned());
    }
    let user = match scope {
        Scope::User => None,
        Scope::System => Some(place::owner_of(places.config_dir())?),
    };
    let name = match &user {
        None => format!("claudemesh-daemon-{mesh}"),
        Some(user) => format!("claudemesh-daemon-{user}-{mesh}"),
    };
    let mut environment = vec![("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())];
    environment.extend(house::variables(&house::PLACES)?);
    let mut writable: Vec<PathBuf> = vec![places.config_dir().to_owned()];
    if !places.daemon_root().starts_with(places.config_dir()) {
        writable.push(places.daemon_root().to_owned());
    }
    Ok(Unit {
        name,
        label: format!("com.claudemesh.daemon.{mesh}"),
        description: format!("claudemesh daemon of mesh {mesh}"),
        written_by: "claudemesh daemon install-service",
        command,
        reload: Some(reload),
        environment,
        scope,
        user,
        confinement: Confinement::Daemon { memory: budget::share(desk)?.memory, writable },
    })
}

/// Whether a mesh's daemon is a service, and of whom.
pub(crate) fn installed(desk: &Desk<'_>, mesh: &str) -> Option<(Unit, Scope)> {
    let user = unit(desk, mesh, Scope::User, false).ok()?;
    let system = unit(desk, mesh, Scope::System, false).ok()?;
    match place::installed(&user, &system)? {
        Scope::User => Some((user, Scope::User)),
        Scope::System => Some((system, Scope::System)),
    }
}

/// Starts the daemon through its service, if there is one that can; its process id.
pub(super) async fn start(desk: &Desk<'_>, mesh: &str, arguments: &Up) -> Result<Option<u32>, Failure> {
    let Some((unit, scope)) = installed(desk, mesh) else { return Ok(None) };
    let manager = Manager::of(scope);
    if let Some(absence) = manager.absence().await {
        desk.ui.note(&format!("{} is installed and cannot be started: {absence}; going on without", unit.file_name()));
        return Ok(None);
    }
    if (Up { persistent: false, ..arguments.clone() }) != Up::default() {
        // What was asked for is not what the unit says, and happens once.
        let again = format!("`{} start {}`", scope.systemctl(), unit.name);
        desk.ui.note(&format!("this daemon is not the service {}; after `daemon down`, {again} is", unit.file_name()));
        return Ok(None);
    }
    // The machine's services start by themselves; a user can only wait for them.
    if scope == Scope::User || rustix::process::geteuid().is_root() {
        manager.start(&unit.file_name()).await?;
    }
    match appears(desk, mesh).await {
        Some(pid) => Ok(Some(pid)),
        None => Err(not_up(&unit, scope)),
    }
}

async fn appears(desk: &Desk<'_>, mesh: &str) -> Option<u32> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(pid) = status::running(desk, mesh).await.and_then(|daemon| daemon.pid()) {
            return Some(pid);
        }
        if tokio::time::Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn not_up(unit: &Unit, scope: Scope) -> Failure {
    let message = format!("the service {} did not come up within 8 s", unit.file_name());
    Failure::daemon(1, "service_not_up", message)
        .hint(format!("see why with `{} status {}`", scope.systemctl(), unit.name))
        .hint(format!("and with `{} -u {}`", scope.journalctl(), unit.name))
}

/// `daemon install-service`.
pub(super) async fn install(desk: &Desk<'_>, arguments: &InstallService) -> Result<ExitCode, Failure> {
    let install = &arguments.install;
    let (kind, scope) = (service::kind(install.place.kind)?, install.place.scope());
    let meshes: Vec<Membership> = match arguments.all {
        true => desk.host.meshes()?,
        false => vec![desk.host.joined_for_daemon(desk.mesh.as_deref())?],
    };
    if meshes.is_empty() {
        return Err(Failure::daemon(2, "no_mesh", "no mesh is joined on this host")
            .hint("join one with `claudemesh join INVITE`, or make one with `claudemesh create NAME`"));
    }
    let persistent = install.allow_ci_persistent && Surroundings::here().ci.is_some();
    let mut units = Vec::new();
    for joined in &meshes {
        let unit = unit(desk, &joined.slug, scope, persistent)?;
        let path = place::file(&unit, kind, &install.place)?;
        units.push((joined.slug.clone(), unit, path));
    }
    if install.print {
        return print(desk, kind, &units);
    }
    service::refuse_ci(install.allow_ci_persistent)?;
    place::check_rights(&install.place)?;
    for (_, unit, path) in &units {
        place::write(unit, kind, path)?;
    }
    let manager = Manager::of(scope);
    let absence = match (install.place.dir.is_some(), kind) {
        (true, _) => Some("it was written to a directory of your choice".to_owned()),
        (_, Kind::Launchd) => Some("this is no Mac".to_owned()),
        _ => manager.absence().await,
    };
    let mut rows = Vec::new();
    if absence.is_none() {
        manager.reload().await?;
    }
    for (mesh, unit, path) in &units {
        let mut pid = None;
        if absence.is_none() {
            // The service takes over from a daemon that runs; what waits to be sent is on disk.
            if !install.no_start {
                down::stop(desk, mesh).await?;
            }
            manager.enable(&unit.file_name(), !install.no_start).await?;
            if !install.no_start {
                pid = Some(appears(desk, mesh).await.ok_or_else(|| not_up(unit, scope))?);
            }
        }
        rows.push(json!({
            "ok": true, "mesh": mesh, "unit": unit.file_name(), "path": path, "scope": scope.word(), "pid": pid,
            "cannot_start": absence,
        }));
        if !desk.ui.json() {
            desk.ui.line(&format!("{mesh}: written {}", path.display()))?;
            if let Some(pid) = pid {
                desk.ui.line(&format!("{mesh}: daemon started (pid {pid})"))?;
            }
        }
    }
    let lingers = match scope {
        Scope::User if absence.is_none() => manager::lingers().await,
        _ => None,
    };
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "services": rows, "lingers": lingers}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(why) = absence {
        cannot_start(desk, scope, &why, &units)?;
    } else if lingers == Some(false) {
        desk.ui.line("It ends when you log out. To have it run from boot on, without a login:")?;
        desk.ui.line("  loginctl enable-linger")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(desk: &Desk<'_>, kind: Kind, units: &[(String, Unit, PathBuf)]) -> Result<ExitCode, Failure> {
    let mut rows: Vec<Value> = Vec::new();
    for (mesh, unit, path) in units {
        let text = place::text(unit, kind)?;
        if !desk.ui.json() {
            desk.ui.raw(text.as_bytes())?;
        }
        rows.push(json!({"mesh": mesh, "path": path, "text": text}));
    }
    if desk.ui.json() {
        desk.ui.data(&rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cannot_start(desk: &Desk<'_>, scope: Scope, why: &str, units: &[(String, Unit, PathBuf)]) -> Result<(), Failure> {
    let names: Vec<&str> = units.iter().map(|(_, unit, _)| unit.name.as_str()).collect();
    let systemctl = scope.systemctl();
    desk.ui.line(&format!("It cannot be started here: {why}."))?;
    desk.ui.line("Where a systemd runs:")?;
    desk.ui.line(&format!("  {systemctl} daemon-reload && {systemctl} enable --now {}", names.join(" ")))?;
    desk.ui.line("Here:")?;
    for (mesh, ..) in units {
        desk.ui.line(&format!("  {} daemon up --mesh {mesh}", desk.called))?;
    }
    Ok(())
}

/// `daemon uninstall-service`.
pub(super) async fn uninstall(desk: &Desk<'_>, arguments: &UninstallService) -> Result<ExitCode, Failure> {
    let (kind, scope) = (service::kind(arguments.place.kind)?, arguments.place.scope());
    place::check_rights(&arguments.place)?;
    let meshes = match arguments.all {
        true => desk.host.slugs()?,
        false => vec![desk.host.slug(desk.mesh.as_deref())?],
    };
    let manager = Manager::of(scope);
    let mut absence = None;
    if arguments.place.dir.is_none() && kind == Kind::Systemd {
        absence = Some(manager.absence().await.is_some());
    }
    let mut rows = Vec::new();
    for mesh in meshes {
        let unit = unit(desk, &mesh, scope, false)?;
        let path = place::file(&unit, kind, &arguments.place)?;
        let there = path.exists();
        place::check_ours(&unit, kind, &path)?;
        if there && absence == Some(false) {
            manager.disable(&unit.file_name()).await?;
        }
        let removed = place::remove(&path)?;
        if there && absence == Some(false) {
            manager.reload().await?;
        }
        if !desk.ui.json() && removed {
            desk.ui.line(&format!("{mesh}: removed {}", path.display()))?;
        }
        rows.push(json!({"mesh": mesh, "removed": removed, "path": path}));
    }
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "services": rows}))?;
    } else if rows.iter().all(|row| row["removed"] == false) {
        desk.ui.line("no service is installed")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of the services of a mesh that leaves this host.
#[derive(Debug, Default)]
pub(crate) struct Withdrawn {
    /// The user's own: its file is gone.
    pub(crate) removed: Option<PathBuf>,
    /// What is still there, and how it is taken away.
    pub(crate) left: Vec<(PathBuf, String)>,
}

/// Takes the services of a mesh away that would start its daemon once it is gone: the user's own is ended and removed,
/// the machine's takes root and is named. Nothing that goes wrong here keeps the mesh from being removed.
pub(crate) async fn withdraw(desk: &Desk<'_>, mesh: &str) -> Withdrawn {
    let mut withdrawn = Withdrawn::default();
    for scope in [Scope::User, Scope::System] {
        let Ok(unit) = unit(desk, mesh, scope, false) else { continue };
        let Ok(directory) = place::directory(Kind::Systemd, scope) else { continue };
        let path = directory.join(unit.file_name());
        if !place::is_of(&unit, &path).unwrap_or_default() {
            continue;
        }
        let (systemctl, shown) = (scope.systemctl(), path.display());
        let by_hand = match scope {
            Scope::User => format!("{systemctl} disable --now {}; rm '{shown}'", unit.name),
            Scope::System => format!("sudo {systemctl} disable --now {}; sudo rm '{shown}'", unit.name),
        };
        let gone = match scope {
            Scope::User => take_away(&unit, scope, &path).await,
            Scope::System => false,
        };
        match gone {
            true => withdrawn.removed = Some(path),
            false => withdrawn.left.push((path, by_hand)),
        }
    }
    withdrawn
}

async fn take_away(unit: &Unit, scope: Scope, path: &Path) -> bool {
    let manager = Manager::of(scope);
    let runs = manager.absence().await.is_none();
    let ended = !runs || manager.disable(&unit.file_name()).await.is_ok();
    let gone = ended && place::remove(path).is_ok();
    if gone && runs {
        // The file is gone; at the latest the next boot knows.
        manager.reload().await.ok();
    }
    gone
}
