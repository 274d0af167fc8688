//! The daemon: a house opened, its doors served, and everything put away again.
//!
//! Invariant: whoever holds the lock holds the house. A daemon that another one took over from leaves at once and
//! touches nothing; any other end closes the doors first, then decides about processes, then says goodbye.
//!
//! What a door says is the door's business, what a process does the keeper's.

pub(crate) mod consent;
pub(crate) mod doors;
pub(crate) mod guard;
pub(crate) mod launch;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod opening;
pub(crate) mod sockets;

mod housekeeping;
mod signals;
mod system;
mod up;

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

use hostel_doors::claustrum::Log;
use hostel_doors::native;
use hostel_doors::native::Phase;
use hostel_doors::native::protocol::DoorAddress;
use hostel_doors::zeroclaw;
use hostel_doors::zeroclaw::LogRing;
use hostel_house::approvals::Approvals;
use hostel_house::housekeeping::Housekeeping;
use hostel_house::housekeeping::TimeSource;
use hostel_house::insiders::Insiders;
use hostel_house::pipelines::Pipelines;
use hostel_house::processes::Processes;
use hostel_house::sessions::Cause;
use hostel_house::sessions::MailLimits;
use hostel_house::sessions::Scope;
use hostel_house::sessions::SessionOptions;
use hostel_house::sessions::Sessions;
use hostel_house::sessions::Status;
use hostel_house::store;
use hostel_tasks::SpawnBoxed as _;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::codecast::PortFile;
use crate::config::Settings;
use crate::config::agents;
use crate::config::agents::Defaults;
use crate::error::CommandError;
use crate::mesh::speaker;
use crate::notify;
use crate::paths;
use crate::paths::HouseDir;
use crate::postman;
use doors::Door;
use doors::Serving;
use lock::DaemonLock;
use log::Logs;
use signals::Signals;
use sockets::Bound;
use sockets::Occupant;
use sockets::occupant;
use system::connection_limit;

pub(crate) use system::hide_memory;
pub(crate) use system::journal_dir;
pub(crate) use system::keeper_options;
pub(crate) use system::mark_inside;
pub(crate) use system::own_program;
pub(crate) use system::raise_open_files;
pub(crate) use system::runtime;
pub(crate) use up::run as run_up;

/// How long a daemon that was taken over from may take to leave.
const TAKE_OVER: Duration = Duration::from_secs(10);

/// How long the system may take to give back what a killed daemon held.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// How long connections may take to hear our goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long the writer of `state.db` may take to write what stands in line and to leave one complete file.
const CLOSING_STORE: Duration = Duration::from_secs(5);

/// How long a door may take to tell those it serves what becomes of what they asked for.
const ANSWERING: Duration = Duration::from_secs(5);

/// How often busy sessions are looked at while they are being stopped.
const STOPPING: Duration = Duration::from_millis(5);

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
    /// The log's last lines.
    pub(crate) ring: LogRing,
    pub(crate) processes: Processes,
    pub(crate) sessions: Sessions,
    pub(crate) approvals: Approvals,
    /// The database that both are in.
    store: store::Store,
    /// What gives back disk space.
    pub(crate) housekeeping: Housekeeping,
    /// The processes inside the house, and what they may do.
    pub(crate) insiders: Insiders,
    /// The commands that were allowed.
    pub(crate) pipelines: Pipelines,
    pub(crate) started: Instant,
    signals: Signals,
    ended_by: Arc<OnceLock<Signal>>,
    /// The end of the terminal it was started from ends the daemon.
    hangup_ends: bool,
    /// The program we run from, open since our start.
    program: Arc<OwnedFd>,
    native: Bound,
    /// The same for agents, in the directory that they see.
    native_for_agents: Bound,
    _lock: DaemonLock,
}

/// What a house opens with.
pub(crate) struct Opening {
    /// Every door but our own.
    pub(crate) doors: Vec<Door>,
    /// What is told of them.
    pub(crate) addresses: Vec<DoorAddress>,
    /// The file that tells a port, for as long as it accepts.
    pub(crate) port_file: Option<PortFile>,
    /// The door whose methods our own socket has too.
    pub(crate) zeroclaw: zeroclaw::Door,
    /// What happens at the end.
    pub(crate) policy: Policy,
}

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

impl House {
    /// Takes the house: lock, keeper, sessions, own socket. `defaults` says which agents are there unsaid.
    pub(crate) async fn open(
        dir: HouseDir,
        settings: Settings,
        logs: Logs,
        rival: Rival,
        defaults: Defaults,
    ) -> Result<Self, CommandError> {
        let program = system::open_own_program()?;
        dir.create()?;
        // What this daemon starts is inside, also what was started without a mark.
        let add = || hostel_peer::registry::registry().add_this_process();
        hostel_tasks::spawn_blocking(add).await.unwrap_or_default();
        system::refuse_inside(&dir)?;
        let journal = journal_dir(&dir, &settings);
        paths::private_directory(&journal)?;
        guard::prepare(&dir)?;
        let options = keeper_options(&dir, &settings)?;
        system::raise_open_files();
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
        let before = consent::Before::look(&dir, &journal);
        let processes = Processes::connect(options).await.map_err(|error| CommandError::failure(error.to_string()))?;
        if processes.house_key().is_none() {
            logs.log.warn(format_args!(
                "[hostel] the keeper does not recognise this program as its daemon, or is older: it keeps the house key, \
                 and agents that run already are started again; `hostel down && hostel up` starts a keeper of this program"
            ));
        }
        let lock = match free {
            Some(lock) => lock,
            // The keeper has told the other daemon to leave.
            None => DaemonLock::take_over(&lock_path, TAKE_OVER).await.map_err(lock_error)?.ok_or_else(held)?,
        };
        // Only now: two daemons must never go on with the same sessions.
        let (store, sessions, approvals) = open_sessions(&dir, &settings, &processes, defaults).await?;
        before.tell(&settings, &journal, &approvals).await?;
        let housekeeping = open_housekeeping(&dir, &settings, &processes, &sessions).await?;
        // Before anybody can reach us: whoever does may tell us to end at once.
        let signals =
            Signals::install().map_err(|error| CommandError::failure(format!("cannot be told of signals: {error}")))?;
        let native = bind(&dir.socket())?;
        let native_for_agents = bind(&dir.agents_socket())?;
        let started = Instant::now();
        let Logs { log, ring } = logs;
        let pipelines = consent::pipelines(&settings, &processes, &approvals).await?;
        let insiders = Insiders::new(processes.clone(), sessions.clone(), approvals.clone());
        let ended_by = Arc::default();
        Ok(House {
            dir,
            settings,
            log,
            ring,
            processes,
            sessions,
            approvals,
            store,
            housekeeping,
            insiders,
            pipelines,
            started,
            signals,
            ended_by,
            hangup_ends: false,
            program,
            native,
            native_for_agents,
            _lock: lock,
        })
    }

    /// The daemon ends with the terminal it was started from.
    pub(crate) fn end_with_terminal(&mut self) {
        self.hangup_ends = true;
    }

    /// Where the signal will be that ended the daemon, if one did.
    pub(crate) fn ended_by(&self) -> Arc<OnceLock<Signal>> {
        Arc::clone(&self.ended_by)
    }

    /// Serves every door until the daemon is to end, then puts everything away. `ready` is called once every door
    /// accepts; `over` ends the daemon as a signal would.
    pub(crate) async fn serve(
        mut self,
        opening: Opening,
        ready: impl FnOnce(),
        over: impl Future<Output = ()>,
    ) -> Result<(), CommandError> {
        let Opening { doors, addresses, port_file, zeroclaw, policy } = opening;
        let (phase, phases) = watch::channel(Phase::Open);
        let (leaving, leave) = watch::channel(None);
        let (down, mut asked) = mpsc::channel(4);
        let native = Arc::new(native::Settings {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            home: self.dir.root().to_owned(),
            doors: addresses,
            environment: system::child_environment(),
            started: self.started,
            connections: connection_limit(self.settings.limits.connections),
            housekeeping: self.housekeeping.clone(),
            journal_dir: journal_dir(&self.dir, &self.settings),
            program: Arc::clone(&self.program),
            sessions: Some(zeroclaw),
            insiders: self.insiders.clone(),
            down: down.clone(),
        });
        let socket_error = |error: io::Error| CommandError::failure(format!("cannot serve a socket: {error}"));
        let listener = self.native.listener().map_err(socket_error)?;
        let own = native::serve(listener, self.processes.clone(), Arc::clone(&native), phases.clone());
        let own = hostel_tasks::spawn(own);
        let listener = self.native_for_agents.listener().map_err(socket_error)?;
        let agents = native::serve(listener, self.processes.clone(), Arc::clone(&native), phases.clone());
        let agents = hostel_tasks::spawn(agents);
        hostel_tasks::spawn(guard::try_out(Arc::clone(self.processes.guards()), self.log.clone()));
        let serving = Serving {
            processes: self.processes.clone(),
            sessions: self.sessions.clone(),
            insiders: self.insiders.clone(),
            native,
            log: self.log.clone(),
            phases,
            leave,
            down,
            policy,
        };
        let mut served = JoinSet::new();
        // Those that answer for what runs have to be heard before it is ended.
        let mut answering = JoinSet::new();
        let mut files = vec![self.native.file(), self.native_for_agents.file()];
        for door in doors {
            files.extend(door.file());
            let group = if door.answers_for_commands() { &mut answering } else { &mut served };
            group.spawn_boxed(door.serve(serving.clone()));
        }
        let abandoned = consent::look_after(self.approvals.clone(), self.pipelines.clone(), self.log.clone());
        let news = notify::run(
            self.settings.approvals.notify.clone(),
            self.settings.guard.programs,
            self.dir.own_label(),
            self.approvals.clone(),
            self.sessions.clone(),
            self.log.clone(),
        );
        let (abandoned, news) = (hostel_tasks::spawn(abandoned), hostel_tasks::spawn(news));
        let alarms = hostel_tasks::spawn(consent::log_alarms(self.approvals.clone(), self.log.clone()));
        let limits = consent::watch_limits(self.processes.clone(), self.approvals.clone());
        let limits = hostel_tasks::spawn(limits);
        // The house of a personality has the contract's own ways in, and no other.
        let mail = postman::run(self.sessions.clone(), self.dir.mesh_sessions(), self.log.clone());
        let mail = self.dir.is_main().then(|| hostel_tasks::spawn(mail));
        let journals = journal_dir(&self.dir, &self.settings);
        housekeeping::report_unreadable(&self.processes.unreadable_journals().0, &journals, &self.log);
        let keeping = housekeeping::run(self.housekeeping.clone(), journals, self.log.clone());
        let keeping = hostel_tasks::spawn(keeping);
        ready();
        let mut keepers_lost = 0;
        tokio::pin!(over);
        let reason = loop {
            tokio::select! {
                () = &mut over => break Reason::Asked { keep: policy.keep_on_signal },
                () = self.processes.superseded() => break Reason::Superseded,
                Some(keep) = asked.recv() => break Reason::Asked { keep },
                signal = self.signals.told_to_end(self.hangup_ends) => {
                    self.ended_by.set(signal).unwrap_or_default();
                    break Reason::Asked { keep: policy.keep_on_signal };
                }
                lost = self.processes.keeper_died(&mut keepers_lost) => {
                    self.log.error(format_args!("[hostel] the keeper died and {lost} processes with it; another keeper is here"));
                }
            }
        };
        keeping.abort();
        let Reason::Asked { keep } = reason else {
            self.log.info(format_args!("[hostel] another daemon took over, leaving"));
            self.log.flush(FAREWELL);
            return Ok(());
        };
        phase.send_replace(Phase::Leaving);
        self.native.close();
        self.native_for_agents.close();
        for file in &files {
            file.unlink();
        }
        if let Some(file) = port_file {
            file.remove();
        }
        abandoned.abort();
        news.abort();
        alarms.abort();
        limits.abort();
        if let Some(mail) = &mail {
            mail.abort();
        }
        leaving.send_replace(Some(keep));
        drop(tokio::time::timeout(ANSWERING, async { while answering.join_next().await.is_some() {} }).await);
        self.put_away(keep, policy).await;
        phase.send_replace(Phase::Closing { keep });
        let goodbye = async {
            drop(own.await);
            drop(agents.await);
            while served.join_next().await.is_some() {}
        };
        // Who does not hear our goodbye will notice by itself.
        drop(tokio::time::timeout(FAREWELL, goodbye).await);
        if !self.store.closed(CLOSING_STORE).await {
            self.log
                .warn(format_args!("[hostel] the last changes of state.db stay in state.db-wal: copy both or neither"));
        }
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
        let deadline = Instant::now() + policy.grace;
        self.stop_sessions(deadline).await;
        let grace = deadline.saturating_duration_since(Instant::now());
        let limit = grace + self.settings.limits.shutdown;
        match tokio::time::timeout(limit, self.processes.stop_keeper(grace)).await {
            Ok(Ok(0)) => self.log.info(format_args!("[hostel] {running} processes and the keeper ended")),
            Ok(Ok(left)) => self.log.error(format_args!("[hostel] {left} processes could not be killed")),
            Ok(Err(error)) => self.log.error(format_args!("[hostel] the keeper did not end: {error}")),
            Err(_) => self.log.error(format_args!("[hostel] the keeper did not end in time")),
        }
    }

    /// Stops what sessions do and what waits in them, so that the next daemon finds them idle: a prompt that ran into
    /// the end of its house would only fail.
    async fn stop_sessions(&self, deadline: Instant) {
        let busy = self.sessions.busy();
        if busy == 0 {
            return;
        }
        // All at once: each has to be written down, and what waits together is written together.
        let mut asked = JoinSet::new();
        for session in self.sessions.list() {
            if session.status() == Status::Busy {
                asked.spawn(async move { session.interrupt(Scope::Everything, Cause::ClientRpc).await });
            }
        }
        drop(tokio::time::timeout_at(deadline.into(), asked.join_all()).await);
        while self.sessions.busy() > 0 && Instant::now() < deadline {
            tokio::time::sleep(STOPPING).await;
        }
        let left = self.sessions.busy();
        self.log.info(format_args!("[hostel] {busy} sessions were busy and had to stop, {left} did not in time"));
    }
}

/// The sessions of a house and what their agents ask.
async fn open_sessions(
    dir: &HouseDir,
    settings: &Settings,
    processes: &Processes,
    defaults: Defaults,
) -> Result<(store::Store, Sessions, Approvals), CommandError> {
    let problem = |error: &dyn std::fmt::Display| {
        CommandError::failure(format!("cannot open `{}`: {error}", dir.database().display()))
    };
    let path = std::env::var_os("PATH");
    let ours = &settings.sessions;
    let options = SessionOptions {
        agents: agents::specs(&settings.agents, &settings.guard, defaults, &own_program()?, path.as_deref()),
        environment: postman::without_session(system::child_environment()),
        queue: ours.queue,
        warm: ours.warm,
        idle: ours.idle,
        turn_limit: ours.turn_limit,
        stop_grace: ours.stop_grace,
        line_limit: usize::try_from(ours.line_limit).unwrap_or(usize::MAX),
        prompt_limit: usize::try_from(ours.prompt_limit).unwrap_or(usize::MAX),
        keep_archived: ours.keep_archived,
        mesh: ours.mesh,
        mail: MailLimits::default(),
        own_file: dir.is_main().then(|| (speaker::TOKEN_FILE.into(), dir.mesh_sessions())),
    };
    let store = store::open(&dir.database()).map_err(|error| problem(&error))?;
    let consent = consent::approval_options(dir, settings, processes)?;
    let approvals = Approvals::open(store.clone(), consent).await.map_err(|error| problem(&error))?;
    let sessions = Sessions::open(store.clone(), processes.clone(), approvals.clone(), options);
    let sessions = sessions.await.map_err(|error| problem(&error))?;
    Ok((store, sessions, approvals))
}

async fn open_housekeeping(
    dir: &HouseDir,
    settings: &Settings,
    processes: &Processes,
    sessions: &Sessions,
) -> Result<Housekeeping, CommandError> {
    let options = housekeeping::options(settings);
    let opened = Housekeeping::open(processes.clone(), sessions.clone(), options, TimeSource::system()).await;
    opened.map_err(|error| CommandError::failure(format!("cannot open `{}`: {error}", dir.database().display())))
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
