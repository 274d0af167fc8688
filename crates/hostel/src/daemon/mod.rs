//! The daemon: a house opened, its doors served, and everything put away again.
//!
//! Invariant: whoever holds the lock holds the house. A daemon that another one took over from leaves at once and
//! touches nothing; any other end closes the doors first, then decides about processes, then says goodbye.
//!
//! What a door says is the door's business, what a process does the keeper's.

pub(crate) mod launch;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod sockets;

mod up;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use hostel_doors::claustrum;
use hostel_doors::claustrum::Log;
use hostel_doors::claustrum::Metrics;
use hostel_doors::claustrum::Secret;
use hostel_doors::claustrum::ShutdownReason;
use hostel_doors::native;
use hostel_doors::native::Phase;
use hostel_doors::native::protocol::DoorAddress;
use hostel_house::processes::KeeperOptions;
use hostel_house::processes::Processes;
use hostel_house::processes::Retention;
use rustix::process::Resource;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use crate::config::OnFull;
use crate::config::Reattach;
use crate::config::Settings;
use crate::error::CommandError;
use crate::paths;
use crate::paths::HouseDir;
use lock::DaemonLock;
use sockets::Bound;
use sockets::Occupant;
use sockets::occupant;

pub(crate) use up::run as run_up;

/// How long a daemon that was taken over from may take to leave.
const TAKE_OVER: Duration = Duration::from_secs(10);

/// How long the system may take to give back what a killed daemon held.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// How often exited processes are looked through.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// How long connections may take to hear our goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// The hidden sub-command that becomes another command and ends with its parent.
pub(crate) const HELPER: &str = "helper-process";

/// What to do about a daemon that holds the house already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rival {
    /// Leave the house to it.
    Respect,
    /// Take its place; its processes become ours.
    Supersede,
}

/// A house that is ours, with its own door bound and nobody served yet.
pub(crate) struct House {
    pub(crate) dir: HouseDir,
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    pub(crate) processes: Processes,
    started: Instant,
    native: Bound,
    _lock: DaemonLock,
}

/// A claustrum door to serve.
pub(crate) struct ClaustrumDoor {
    pub(crate) bound: Bound,
    pub(crate) settings: DoorSettings,
}

/// Makes a door's settings.
pub(crate) type DoorSettings = Box<dyn Fn() -> claustrum::Settings + Send>;

/// What a daemon does when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Signals and a door's shutdown request leave processes running.
    pub(crate) keep_on_signal: bool,
    /// A door's shutdown request ends the daemon; else only that door's processes.
    pub(crate) doors_may_end: bool,
    /// How long processes have to end by themselves before they are killed.
    pub(crate) grace: Duration,
}

/// Why a daemon ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reason {
    Superseded,
    /// Somebody asked; the value says whether processes stay.
    Asked {
        keep: bool,
    },
}

/// The daemon's threads: half of the cores. The keeper and the processes that print want the others, and a stream that
/// hops between cores costs more than it gains (on two cores, one thread moves an eighth more than two).
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread().worker_threads((cores / 2).max(1)).enable_all().build()
}

/// Where the journals of a house are. Below a directory that was asked for each house has one of its own: a keeper takes
/// every journal it finds for one of its own.
pub(crate) fn journal_dir(dir: &HouseDir, settings: &Settings) -> PathBuf {
    match &settings.journal.dir {
        Some(shared) => shared.join(dir.key()),
        None => dir.journal(),
    }
}

/// How to reach the keeper of a house.
pub(crate) fn keeper_options(dir: &HouseDir, settings: &Settings) -> Result<KeeperOptions, CommandError> {
    Ok(KeeperOptions {
        run_dir: dir.run(),
        journal_dir: journal_dir(dir, settings),
        program: own_program()?,
        cgroup_root: None,
        total_quota: settings.journal.quota,
        process_quota: settings.journal.per_process_quota,
        floor: settings.journal.floor.unwrap_or(0),
        drop_oldest: settings.journal.on_full == OnFull::DropOldest,
        child_umask: current_umask(),
        child_nofile: rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
    })
}

/// The file we run from; through the system's own link once the file was replaced or removed.
pub(crate) fn own_program() -> Result<PathBuf, CommandError> {
    let own = std::env::current_exe()
        .map_err(|error| CommandError::failure(format!("cannot find our own program file: {error}")))?;
    Ok(if own.is_file() { own } else { PathBuf::from("/proc/self/exe") })
}

/// The mask children get: ours. The system tells it; where it does not, it is read by setting it for an instant.
fn current_umask() -> u32 {
    let told = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    told.unwrap_or_else(|| {
        let mask = rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        rustix::process::umask(mask);
        mask.bits()
    })
}

impl House {
    /// Takes the house: lock, keeper, own socket.
    pub(crate) async fn open(dir: HouseDir, settings: Settings, log: Log, rival: Rival) -> Result<Self, CommandError> {
        dir.create()?;
        let journal = journal_dir(&dir, &settings);
        paths::private_directory(&journal)?;
        let options = keeper_options(&dir, &settings)?;
        raise_open_files();
        let lock_path = dir.daemon_lock();
        let lock_error =
            |error: io::Error| CommandError::failure(format!("cannot lock `{}`: {error}", lock_path.display()));
        let free = match rival {
            Rival::Respect => wait_for_lock(&dir).await.map_err(lock_error)?,
            Rival::Supersede => DaemonLock::try_take(&lock_path).map_err(lock_error)?,
        };
        let held = || {
            CommandError::failure(format!("another daemon holds `{}` and does not answer", dir.root().display()))
                .hint(format!("its process id is in `{}`", lock_path.display()))
        };
        if free.is_none() && rival == Rival::Respect {
            return Err(held());
        }
        let processes = Processes::connect(options).await.map_err(|error| CommandError::failure(error.to_string()))?;
        let lock = match free {
            Some(lock) => lock,
            // The keeper has told the other daemon to leave.
            None => DaemonLock::take_over(&lock_path, TAKE_OVER).await.map_err(lock_error)?.ok_or_else(held)?,
        };
        let native = bind(&dir.socket())?;
        Ok(House { dir, settings, log, processes, started: Instant::now(), native, _lock: lock })
    }

    /// Serves every door until the daemon is to end, then puts everything away. `ready` is called once every door
    /// accepts.
    pub(crate) async fn serve(
        mut self,
        doors: Vec<ClaustrumDoor>,
        addresses: Vec<DoorAddress>,
        policy: Policy,
        ready: impl FnOnce(),
    ) -> Result<(), CommandError> {
        let (phase, phases) = watch::channel(Phase::Open);
        let (down, mut asked) = mpsc::channel(4);
        let native = Arc::new(native::Settings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            home: self.dir.root().to_owned(),
            doors: addresses,
            environment: std::env::vars_os()
                .filter(|(name, _)| !claustrum::environment::PRIVATE.iter().any(|own| name == own))
                .collect(),
            started: self.started,
            connections: connection_limit(self.settings.limits.connections),
            retention: retention(&self.settings),
            journal_dir: journal_dir(&self.dir, &self.settings),
            program: own_program()?,
            down: down.clone(),
        });
        let socket_error = |error: io::Error| CommandError::failure(format!("cannot serve a socket: {error}"));
        let listener = self.native.listener().map_err(socket_error)?;
        let own = tokio::spawn(native::serve(listener, self.processes.clone(), native, phases.clone()));
        let mut served = JoinSet::new();
        let mut files = vec![self.native.file()];
        for door in doors {
            files.push(door.bound.file());
            served.spawn(serve_claustrum(
                door,
                self.processes.clone(),
                self.log.clone(),
                phases.clone(),
                down.clone(),
                policy,
            ));
        }
        let mut terminate = signal(SignalKind::terminate()).map_err(socket_error)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(socket_error)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(socket_error)?;
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        ready();
        let mut keepers_lost = 0;
        let reason = loop {
            tokio::select! {
                () = self.processes.superseded() => break Reason::Superseded,
                Some(keep) = asked.recv() => break Reason::Asked { keep },
                _ = terminate.recv() => break Reason::Asked { keep: policy.keep_on_signal },
                _ = interrupt.recv() => break Reason::Asked { keep: policy.keep_on_signal },
                // The terminal we came from is none of our business.
                _ = hangup.recv() => {}
                lost = self.processes.keeper_died(&mut keepers_lost) => {
                    self.log.error(format_args!("[hostel] the keeper died and {lost} processes with it; another keeper is here"));
                }
                _ = housekeeping.tick() => self.tidy().await,
            }
        };
        let Reason::Asked { keep } = reason else {
            self.log.info(format_args!("[hostel] another daemon took over, leaving"));
            self.log.flush(FAREWELL);
            return Ok(());
        };
        phase.send_replace(Phase::Leaving);
        self.native.close();
        for file in &files {
            file.unlink();
        }
        self.put_away(keep, policy).await;
        phase.send_replace(Phase::Closing { keep });
        let goodbye = async {
            drop(own.await);
            while served.join_next().await.is_some() {}
        };
        // Who does not hear our goodbye will notice by itself.
        drop(tokio::time::timeout(FAREWELL, goodbye).await);
        self.log.flush(FAREWELL);
        Ok(())
    }

    async fn put_away(&self, keep: bool, policy: Policy) {
        let running = self.processes.running();
        if keep && !policy.doors_may_end {
            self.log.info(format_args!("[hostel] {running} processes run on with the keeper"));
            return;
        }
        if keep {
            self.log.info(format_args!(
                "[Server] -keep-children: leaving {running} running child process(es) alive across shutdown"
            ));
            return;
        }
        let limit = policy.grace + self.settings.limits.shutdown;
        match tokio::time::timeout(limit, self.processes.stop_keeper(policy.grace)).await {
            Ok(Ok(0)) => self.log.info(format_args!("[hostel] {running} processes and the keeper ended")),
            Ok(Ok(left)) => self.log.error(format_args!("[hostel] {left} processes could not be killed")),
            Ok(Err(error)) => self.log.error(format_args!("[hostel] the keeper did not end: {error}")),
            Err(_) => self.log.error(format_args!("[hostel] the keeper did not end in time")),
        }
    }

    /// Lets go of what is past its time.
    async fn tidy(&self) {
        match self.processes.collect_garbage(retention(&self.settings), false).await {
            Ok(collected) if collected.removed.is_empty() => {}
            Ok(collected) => self.log.info(format_args!(
                "[hostel] forgot {} exited processes, {} bytes",
                collected.removed.len(),
                collected.freed_bytes
            )),
            Err(error) => self.log.warn(format_args!("[hostel] cannot look through the journals: {error}")),
        }
    }
}

fn retention(settings: &Settings) -> Retention {
    Retention {
        max_count: usize::try_from(settings.journal.keep_count).unwrap_or(usize::MAX),
        max_age: settings.journal.keep_age,
        max_bytes: settings.journal.keep_bytes,
    }
}

/// Serves one claustrum door. A shutdown request either ends the daemon or, in a house with other doors, only what
/// came in by this one.
async fn serve_claustrum(
    mut door: ClaustrumDoor,
    processes: Processes,
    log: Log,
    mut phases: watch::Receiver<Phase>,
    down: mpsc::Sender<bool>,
    policy: Policy,
) {
    let closing = loop {
        let listener = match door.bound.listener() {
            Ok(listener) => listener,
            Err(error) => {
                log.error(format_args!("[hostel] cannot serve {}: {error}", door.bound.path().display()));
                return;
            }
        };
        let mut watched = phases.clone();
        let stop = async move {
            drop(watched.wait_for(|phase| *phase != Phase::Open).await);
        };
        let closing = claustrum::serve(listener, processes.clone(), (door.settings)(), stop).await;
        if closing.reason == ShutdownReason::Stopped || policy.doors_may_end {
            break closing;
        }
        log.info(format_args!("[hostel] a client asked the claustrum door to end what came in by it"));
        for process in processes.list() {
            if process.door() == claustrum::NAME && process.status().running {
                process.kill_tree().await;
            }
        }
        drop(closing);
    };
    door.bound.close();
    if closing.reason == ShutdownReason::Asked {
        // A full queue means that somebody else has asked already.
        down.try_send(policy.keep_on_signal).unwrap_or_default();
    }
    // Its clients stay until processes are put away: one that sees its connection close may rely on that.
    drop(phases.wait_for(|phase| matches!(phase, Phase::Closing { .. })).await);
    drop(closing);
}

/// Makes the settings of a claustrum door of this house, as often as it is opened.
pub(crate) fn door_settings(house: &House, token: &[u8], counters: &Arc<Metrics>) -> DoorSettings {
    let ours = house.settings.claustrum.clone();
    let version = ours.reported_version.unwrap_or_else(|| crate::claustrum::DEFAULT_VERSION.to_owned());
    let token = Zeroizing::new(token.to_vec());
    let log = house.log.clone();
    let protected = vec![house.dir.root().to_owned(), journal_dir(&house.dir, &house.settings)];
    let counters = Arc::clone(counters);
    let connections = connection_limit(house.settings.limits.connections);
    Box::new(move || {
        let mut settings = claustrum::Settings::new(Secret::new(token.to_vec()), version.clone(), log.clone());
        settings.shutdown_needs_auth = ours.shutdown_needs_auth;
        settings.limits.connections = connections;
        settings.reattach = match ours.reattach {
            Reattach::Share => claustrum::Reattach::Share,
            Reattach::Transfer => claustrum::Reattach::Transfer,
        };
        settings.protected.clone_from(&protected);
        settings.metrics = Arc::clone(&counters);
        if let Ok(program) = own_program() {
            settings.login_path = claustrum::LoginPath::Ask { helper: vec![program.into_os_string(), HELPER.into()] };
        }
        settings
    })
}

/// How many connections a door takes: as many as were asked for, but never so many that no descriptor is left for the
/// journals of those who are already here.
fn connection_limit(asked: usize) -> usize {
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    asked.min(usize::try_from(files / 2).unwrap_or(usize::MAX)).max(1)
}

/// Takes the lock of a house whose daemon may have died this instant; none if that daemon lives.
async fn wait_for_lock(dir: &HouseDir) -> io::Result<Option<DaemonLock>> {
    let deadline = Instant::now() + LAST_BREATH;
    loop {
        let step = DaemonLock::take_over(&dir.daemon_lock(), Duration::from_millis(50)).await?;
        if step.is_some() || Instant::now() >= deadline || occupant(&dir.socket()) == Occupant::Listening {
            return Ok(step);
        }
    }
}

/// Binds a socket of ours, however long its path is.
pub(crate) fn bind(path: &std::path::Path) -> Result<Bound, CommandError> {
    let problem = |error: io::Error| CommandError::failure(format!("cannot listen on `{}`: {error}", path.display()));
    let dial = hostel_keeper::socket_path::shorten(path).map_err(problem)?;
    Bound::replace(path, dial.as_ref()).map_err(problem)
}

/// A daemon with a thousand clients needs more descriptors than a shell; children get the old limit back.
fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused is as good as not tried: the soft limit stays.
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap_or_default();
}

/// Nobody of the same user may look into our memory, which holds tokens.
pub(crate) fn hide_memory() {
    // A system without this protection is served all the same.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap_or_default();
}
