//! What a house hides from its agents, and the directory of what they do see of it.
//!
//! Invariant: agents reach the house through the sockets in `run/agents` alone. In their view that directory is the house's
//! `run`, so programs find the sockets where they always are.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_doors::claustrum::Log;
use hostel_guard::Guard;
use hostel_guard::Guards;
use hostel_guard::HouseView;
use hostel_guard::Shown;
use hostel_mesh::home::Places;

use super::own_program;
use super::system;
use super::system::OWN_LINK;
use crate::config::Settings;
use crate::error::CommandError;
use crate::paths;
use crate::paths::HouseDir;

/// The name by which agents ask for root's rights.
pub(crate) const SUDO: &str = "sudo";

/// Another house of the same user, the meshes, and the directories of the doors' own endpoints, which hold nothing else.
const IN_HOME: [&str; 5] = ["~/.hostel", "~/.claudemesh", "~/.codecast", "~/.claude/remote", "~/.zeroclaw/data"];

/// The guards of this house.
pub(crate) fn guards(dir: &HouseDir, settings: &Settings) -> Result<Guards, CommandError> {
    let usual = Guard { setting: settings.guard.setting, grants: settings.guard.grant.iter().cloned().collect() };
    Ok(Guards::new(house_view(dir, settings)?, usual))
}

/// What agents of this house do not see.
fn house_view(dir: &HouseDir, settings: &Settings) -> Result<HouseView, CommandError> {
    let program = own_program()?;
    let mut view = HouseView {
        hidden: hidden(dir, settings),
        shown: shown(dir),
        read_only: settings.guard.read_only.clone(),
        required: settings.named_guard_paths(),
        own_programs: settings.guard.programs,
        own_roots: vec![dir.mesh_sessions(), dir.launches()],
        commands: Some(Shown { from: dir.agents().join("bin"), to: dir.run().join("bin") }),
        program,
        environments: environments(settings),
        ..HouseView::default()
    };
    if settings.sudo_proxy.enabled && dir.is_main() {
        let name = crate::sudo_proxy::SOCKET_NAME.to_owned();
        view.runtime_links.push((name, dir.sudo_proxy_socket()));
    }
    Ok(view)
}

/// What agents of this house have as their environment: all of it vanishes for whatever is started for one of them.
fn environments(settings: &Settings) -> Vec<Vec<(OsString, OsString)>> {
    let usual = system::child_environment();
    let mut environments = vec![usual.clone()];
    for agent in settings.agents.values() {
        let own: Vec<_> = agent.env().map(|(name, value)| (name.into(), value.into())).collect();
        if !own.is_empty() {
            environments.push([usual.clone(), own].concat());
        }
    }
    environments
}

fn hidden(dir: &HouseDir, settings: &Settings) -> Vec<PathBuf> {
    let (codecast, zeroclaw) = (&settings.codecast, &settings.zeroclaw);
    let files = [
        &codecast.tls_key,
        &codecast.tokens_file,
        &zeroclaw.wss.key,
        &zeroclaw.wss.token_file,
        &settings.approvals.notify.secret_file,
        &settings.journal.dir,
    ];
    let mut hidden = vec![dir.home().to_owned(), dir.root().to_owned()];
    hidden.extend(files.into_iter().flatten().cloned());
    if let Ok(places) = Places::from_environment() {
        hidden.extend([places.config_dir().to_owned(), places.daemon_root().to_owned()]);
    }
    hidden.extend(IN_HOME.into_iter().map(paths::expand));
    hidden.extend(settings.guard.hide.iter().cloned());
    hidden.retain(|path| path.is_absolute());
    hidden.sort_unstable();
    hidden.dedup();
    hidden
}

fn shown(dir: &HouseDir) -> Vec<Shown> {
    let mut shown = vec![Shown { from: dir.agents(), to: dir.run() }];
    if !dir.is_main() {
        let main = HouseDir::at(dir.home());
        shown.push(Shown { from: main.agents(), to: main.run() });
    }
    if let Ok(places) = Places::from_environment() {
        shown.push(Shown { from: places.agents_root(), to: places.daemon_root().to_owned() });
    }
    shown
}

/// Finds out which guard the machine allows, before the first agent wants one, and says so in the log.
pub(super) async fn try_out(guards: Arc<Guards>, log: Log) {
    let absent = |guards: &Guards| guards.absent().into_iter().map(Path::to_owned).collect::<Vec<_>>();
    let tried = hostel_tasks::spawn_blocking(move || (guards.look(), guards.usual_status(), absent(&guards))).await;
    let Ok((found, usual, absent)) = tried else { return };
    let reason = found.why_not_full().map(|reason| format!("; {reason}")).unwrap_or_default();
    log.info(format_args!(
        "[hostel] guard of agents: {} (setting {}, this machine allows {}{reason})",
        usual.active.name(),
        usual.setting.name(),
        found.layers().name()
    ));
    for path in absent {
        log.warn(format_args!(
            "[hostel] `{}` does not exist: a guard that is made now does not protect it when it appears",
            path.display()
        ));
    }
}

/// Makes the directories of ours that agents must not see: what does not exist when a view is made can appear in it later,
/// and an agent could make it and put something into it. One whose parent is missing stays missing, and one that cannot be
/// made nobody of this user can make.
fn claim() {
    let make = |path: &Path, whole: bool| {
        std::fs::DirBuilder::new().recursive(whole).mode(0o700).create(path).unwrap_or_default();
    };
    for path in IN_HOME.into_iter().map(paths::expand).filter(|path| path.is_absolute()) {
        make(&path, false);
    }
    if let Ok(places) = Places::from_environment() {
        make(places.config_dir(), true);
        // Meshes that are joined later appear in it.
        make(&places.agents_root(), true);
    }
}

/// Makes what agents are shown and what they must not see. A machine without `sudo` gets none of it either way: agents who ask for it ask here.
pub(super) fn prepare(dir: &HouseDir) -> Result<(), CommandError> {
    let commands = dir.agents().join("bin");
    for directory in [dir.agents(), commands.clone()] {
        paths::private_directory(&directory)?;
    }
    claim();
    let program = own_program()?;
    if program == Path::new(OWN_LINK) {
        // The file is gone; the link of an earlier start leads nowhere, and the next start makes it anew.
        return Ok(());
    }
    let link = commands.join(SUDO);
    let linked = match std::fs::read_link(&link) {
        Ok(target) if target == program => Ok(()),
        Ok(_) => std::fs::remove_file(&link).and_then(|()| std::os::unix::fs::symlink(&program, &link)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::os::unix::fs::symlink(&program, &link),
        Err(error) => Err(error),
    };
    linked.map_err(|error| CommandError::failure(format!("cannot make `{}`: {error}", link.display())))
}
