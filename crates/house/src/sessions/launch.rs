//! Starting an agent's process: which program, with what around it, within which limits.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostel_agents::{Hosting, Mode, Setup};
use hostel_guard::{Guard, Layers, Setting, Shown, launcher};
use rustix::process::{Pid, Resource, Rlimit};
use sha2::{Digest as _, Sha256};

use super::session::Session;
use super::types::AgentLimits;
use crate::processes::program;
use crate::processes::{Process, ProcessId, Processes, SpawnError, SpawnGuard, SpawnSpec};

/// What a process for this session's next turn is to be. A prompt of which nobody can prove that the house took it is given
/// to one that asks before it writes.
pub(crate) fn setup(session: &Session, prompt: &str, unproved: bool) -> Setup {
    let command = session.hub.agent(session.agent()).map(|agent| agent.command.clone()).unwrap_or_default();
    let (mode, model, resume, usage) =
        session.change(|state| (state.mode, state.model.clone(), state.cli_session.clone(), state.usage));
    Setup {
        kind: session.kind(),
        hosting: session.hosting(),
        mode: if unproved { mode.min(Mode::Ask) } else { mode },
        model,
        resume,
        cwd: session.cwd().to_string_lossy().into_owned(),
        command,
        prompt: (session.hosting() == Hosting::PerMessage).then(|| prompt.to_owned()),
        root: rustix::process::geteuid().is_root(),
        used: Some(usage),
    }
}

/// Whether a process that was started for `then` can serve a turn that would start `now`.
pub(crate) fn still_fits(then: &Setup, now: &Setup) -> bool {
    then.hosting == Hosting::Warm
        && then.mode == now.mode
        && then.model == now.model
        && then.command == now.command
        && then.cwd == now.cwd
}

/// Whether a process has the guard that a new one would get.
pub(crate) fn has_guard(process: &Process, session: &Session) -> bool {
    let (wanted, least) = (session.guard(), session.least_layers());
    match process.confinement() {
        Some(confinement) => confinement.guard == wanted && confinement.layers.cover(least),
        None => wanted.setting == Setting::Off && least.is_none(),
    }
}

/// Has the machine tried again if a launcher could not do what had been found possible.
pub(crate) fn note_failed_guard(processes: &Processes, id: ProcessId) {
    let failed = |process: &Arc<Process>| {
        let code = process.status().exit.map(|exit| exit.code);
        process.confinement().is_some() && code == Some(i32::from(launcher::GUARD_FAILED))
    };
    if processes.by_id(id).is_some_and(|process| failed(&process)) {
        processes.guards().doubt();
    }
}

/// Starts it. Asking again with the same id starts nothing twice.
pub(crate) async fn start(session: &Session, setup: &Setup, id: ProcessId) -> Result<Arc<Process>, String> {
    let launch = hostel_agents::launch(setup);
    let agent = session.hub.agent(session.agent());
    let mut env = session.hub.options.environment.clone();
    let agent_env = agent.map(|agent| agent.env.as_slice()).unwrap_or_default();
    let as_os = |(name, value): &(String, String)| (OsString::from(name), OsString::from(value));
    // First: whatever the agent or the session says itself counts over it.
    let own = session.own_file();
    for (name, value) in
        own.into_iter().chain(launch.env.iter().chain(agent_env).map(as_os)).chain(session.env.iter().cloned())
    {
        env.retain(|(known, _)| *known != name);
        env.push((name, value));
    }
    let cwd = session.cwd().to_owned();
    let name = if launch.program.is_empty() { session.kind().name() } else { &launch.program };
    let failed = |error: io::Error, advice: String| format!("Failed to spawn {name}: {error}{advice}");
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let found = resolve(launch.program.clone(), path.map(OsStr::to_owned), cwd.clone()).await;
    let missing = || {
        let advice = format!(
            "; `{name}` is not on the PATH of the daemon: install it, or set `command` in [agents.{}] of hostel.toml",
            session.agent()
        );
        failed(io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error()), advice)
    };
    let program = found.ok_or_else(missing)?;
    let guard =
        SpawnGuard { guard: session.guard(), shown: session.own_directory().await, least: session.least_layers() };
    let argv = std::iter::once(launch.program.clone()).chain(launch.args).map(OsString::from).collect();
    let spec = SpawnSpec {
        name: process_name(session, id),
        door: session.door().to_owned(),
        program,
        argv,
        env,
        cwd: Some(cwd.clone()),
        id: Some(id),
        socket_stdin: true,
        session: Some(session.id().to_owned()),
        asked_by: None,
        owned_input: true,
        guard: Some(guard),
    };
    session.hub.processes.spare([id]);
    let process = session.hub.processes.spawn(spec).await.map_err(|error| match error {
        SpawnError::Chdir { errno } => failed(
            io::Error::from_raw_os_error(errno),
            format!("; the directory `{}` cannot be entered", cwd.display()),
        ),
        SpawnError::Exec { errno } if errno == rustix::io::Errno::NOENT.raw_os_error() => missing(),
        SpawnError::Exec { errno } => failed(io::Error::from_raw_os_error(errno), String::new()),
        SpawnError::Limit(words) | SpawnError::Guard(words) | SpawnError::Keeper(words) => {
            format!("Failed to spawn {name}: {words}")
        }
    })?;
    limit(session, &process);
    Ok(process)
}

impl Session {
    /// The guard around its processes: its agent's, and where somebody inside the house made it, no weaker one than its
    /// maker had.
    #[must_use]
    pub fn guard(&self) -> Guard {
        let own = self.hub.agent(self.agent()).map_or_else(Guard::default, |agent| agent.guard.clone());
        self.provenance().guard.as_ref().map_or_else(|| own.clone(), |kept| own.at_least(&kept.guard))
    }

    /// The layers that its processes must have.
    pub(crate) fn least_layers(&self) -> Layers {
        self.provenance().guard.as_ref().map_or_else(Layers::default, |kept| kept.layers)
    }

    /// The directory with the session's own token, which its agent sees although everything around it is hidden. It is made
    /// if it is not there yet: the token comes later.
    pub(crate) async fn own_directory(&self) -> Vec<Shown> {
        let own = self.own_file().map(|(_, file)| PathBuf::from(file));
        let Some(file) = self.launched().map(|launched| launched.token_file).or(own) else { return Vec::new() };
        let Some(directory) = file.parent().map(Path::to_owned) else { return Vec::new() };
        if !self.hub.processes.guards().is_own_directory(&directory) {
            return Vec::new();
        }
        let made = directory.clone();
        let make = move || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(made);
        // A session without a token has no voice in a mesh, and works all the same.
        hostel_tasks::spawn_blocking(make).await.map(Result::unwrap_or_default).unwrap_or_default();
        vec![Shown { from: directory.clone(), to: directory }]
    }

    /// The variable that tells the agent of this session's own file, and that file, where sessions have such. The file has
    /// a directory of its own: a guard shows directories, because what is shown as a file does not change with it.
    #[must_use]
    pub fn own_file(&self) -> Option<(OsString, OsString)> {
        let (variable, directory) = self.hub.options.own_file.as_ref()?;
        let digest = Sha256::digest(self.id().as_bytes());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some((variable.clone(), directory.join(format!("s-{name}")).join("token").into_os_string()))
    }
}

/// The file to run, looked for where a file system that does not answer holds up nobody else.
async fn resolve(program: String, path: Option<OsString>, cwd: PathBuf) -> Option<PathBuf> {
    let looking = move || program::resolve(OsStr::new(&program), path.as_deref(), &cwd);
    hostel_tasks::spawn_blocking(looking).await.ok().flatten()
}

/// A name by which people find the process: the agent, the session, and something that makes it unique.
fn process_name(session: &Session, id: ProcessId) -> String {
    let short = |text: &str, len: usize| text.chars().take(len).collect::<String>();
    format!("{}-{}-{}", session.agent(), short(session.id(), 8), short(&id.to_string(), 12))
}

/// Memory and processor time: by the process's cgroup where it has one, by resource limits otherwise (which know no
/// share of a processor).
pub(crate) fn limit(session: &Session, process: &Process) {
    let limits = session.hub.agent(session.agent()).map(|agent| agent.limits).unwrap_or_default();
    if limits == AgentLimits::default()
        || session.hub.processes.limit_cgroup(process.id(), limits.memory, limits.cpu_percent)
    {
        return;
    }
    if let (Some(memory), Some(pid)) = (limits.memory, Pid::from_raw(process.pid() as i32)) {
        let bound = Rlimit { current: Some(memory), maximum: Some(memory) };
        // Not the address space: run times reserve far more of it than they use.
        rustix::process::prlimit(Some(pid), Resource::Data, bound).ok();
    }
}
