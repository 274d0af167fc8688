//! What all connections of the door share.
//!
//! Nothing here is needed to serve a process again after a restart: the counters start anew and
//! everything else is read from the house.

use super::Secret;
use super::flag::Flag;
use super::log::Log;
use super::metrics::Metrics;
use super::request::{Gate, METHODS};
use super::settings::{Limits, LoginPath, Reattach, Settings};
use super::shellenv::LoginShell;
use super::stream::Subscription;
use super::{environment, server};
use hostel_house::insiders::Insiders;
use hostel_house::processes::{Process, Processes};
use hostel_house::workspace::git::Git;
use hostel_house::workspace::paths;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The name under which the house knows this door.
pub const NAME: &str = "claustrum";

/// The open door.
pub(crate) struct Door {
    pub(crate) processes: Processes,
    pub(crate) insiders: Insiders,
    pub(crate) log: Log,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) git: Git,
    pub(crate) home: Option<PathBuf>,
    pub(crate) protected: Vec<PathBuf>,
    /// What a child's environment is made from.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Where bare commands are looked up.
    pub(crate) search_path: Option<OsString>,
    pub(crate) login_shell: LoginShell,
    /// Set when a client asked the daemon to stop.
    pub(crate) shutdown: Flag,
    /// The result of `server.version`.
    pub(crate) version: Vec<u8>,
    /// The result of `server.capabilities`.
    pub(crate) capabilities: Vec<u8>,
    token: Secret,
    shutdown_needs_auth: bool,
    reattach: Reattach,
    /// By name, like everything a client can ask for.
    running: Mutex<HashMap<String, Arc<Hosted>>>,
    subscribers: Mutex<HashMap<String, Vec<Weak<Subscription>>>>,
}

/// What the door remembers of a running process, for counting and logging only.
#[derive(Debug)]
pub(crate) struct Hosted {
    process: Arc<Process>,
    /// The last frame whose bytes are counted.
    pub(crate) streamed: AtomicU64,
    /// Input bytes that are counted.
    applied: AtomicU64,
    /// Whether its full input queue has been logged.
    warned: AtomicBool,
}

impl Door {
    pub(crate) fn open(processes: Processes, insiders: Insiders, settings: Settings) -> Arc<Self> {
        let search_path = settings.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let environment = environment::base(settings.environment);
        let login_shell = match settings.login_path {
            LoginPath::Inherit => LoginShell::not_asked(),
            LoginPath::Ask { helper } => {
                let guards = Arc::clone(processes.guards());
                LoginShell::ask(environment.clone(), helper, guards, settings.log.clone())
            }
        };
        let mut git = Git::new(settings.limits.git).from(processes.guards().own_programs());
        for private in environment::PRIVATE {
            git = git.hiding(private);
        }
        let protected = settings.home.iter().cloned().chain(settings.protected);
        let door = Arc::new(Self {
            git,
            protected: protected.collect(),
            home: settings.home,
            environment,
            search_path,
            login_shell,
            shutdown: Flag::default(),
            version: server::version(&settings.version),
            capabilities: server::capabilities(&settings.version, METHODS.map(|(_, name)| name)),
            token: settings.token,
            shutdown_needs_auth: settings.shutdown_needs_auth,
            reattach: settings.reattach,
            log: settings.log,
            metrics: settings.metrics,
            limits: settings.limits.at_least_one(),
            running: Mutex::default(),
            subscribers: Mutex::default(),
            insiders,
            processes,
        });
        // Those an earlier daemon left running are as much ours as the ones to come.
        for process in door.processes.list() {
            let status = process.status();
            if process.door() == NAME && status.running {
                door.host(&process, status.last_seq, status.stdin_applied);
            }
        }
        door
    }

    pub(crate) fn gate(&self) -> Gate<'_> {
        Gate { token: &self.token, shutdown_needs_auth: self.shutdown_needs_auth }
    }

    /// A path parameter with its `~` expanded.
    pub(crate) fn path(&self, sent: &str) -> PathBuf {
        paths::expand_home(Path::new(sent), self.home.as_deref())
    }

    /// Counts and logs for a running process until it ends. `streamed` and `applied` are what an
    /// earlier daemon has counted: frames and input bytes.
    pub(crate) fn host(self: &Arc<Self>, process: &Arc<Process>, streamed: u64, applied: u64) -> Arc<Hosted> {
        let hosted = Arc::new(Hosted {
            process: Arc::clone(process),
            streamed: AtomicU64::new(streamed),
            applied: AtomicU64::new(applied),
            warned: AtomicBool::new(false),
        });
        let name = process.name().to_owned();
        self.running.lock().insert(name, Arc::clone(&hosted));
        let door = Arc::clone(self);
        let followed = Arc::clone(&hosted);
        hostel_tasks::spawn(async move {
            let hosted = followed;
            let exit = loop {
                // The limit only bounds one wait; the process may run for years.
                if let Some(exit) = hosted.process.wait_exit(Duration::from_secs(24 * 3600)).await {
                    break exit;
                }
            };
            door.metrics.exits.add(1);
            door.log.info(format_args!(
                "[process.Manager] Process {} exited with code {}",
                hosted.process.name(),
                exit.code
            ));
            let mut running = door.running.lock();
            if let Some(known) = running.get(hosted.process.name())
                && Arc::ptr_eq(known, &hosted)
            {
                running.remove(hosted.process.name());
            }
        });
        hosted
    }

    /// What is remembered of a running process.
    pub(crate) fn hosted(&self, process: &Process) -> Option<Arc<Hosted>> {
        let running = self.running.lock();
        let hosted = running.get(process.name())?;
        (hosted.process.id() == process.id()).then(|| Arc::clone(hosted))
    }

    /// Counts input: `applied` bytes have been accepted in all.
    pub(crate) fn count_stdin(&self, process: &Process, applied: u64) {
        if let Some(hosted) = self.hosted(process) {
            let before = hosted.applied.fetch_max(applied, Ordering::Relaxed);
            self.metrics.stdin_bytes.add(applied.saturating_sub(before));
        }
    }

    /// Logs once per process that its input queue is full.
    pub(crate) fn warn_full(&self, process: &Process) {
        let first = self.hosted(process).is_some_and(|hosted| !hosted.warned.swap(true, Ordering::Relaxed));
        if first {
            self.log.warn(format_args!("[process.Manager] stdin backpressure: queue full for {}", process.name()));
        }
    }

    /// Takes note of a new subscription. In transfer mode a reattach ends those of all others.
    pub(crate) fn subscribed(&self, subscription: &Arc<Subscription>, reattached: bool) {
        if self.reattach == Reattach::Share {
            return;
        }
        let mut subscribers = self.subscribers.lock();
        subscribers.retain(|_, others| {
            others.retain(|other| other.strong_count() > 0);
            !others.is_empty()
        });
        let name = subscription.process.name().to_owned();
        let others = subscribers.entry(name).or_default();
        if reattached {
            for other in others.drain(..).filter_map(|other| other.upgrade()) {
                other.stop.set();
            }
        }
        others.push(Arc::downgrade(subscription));
    }
}
