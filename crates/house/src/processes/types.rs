//! What is asked of the keeper, what is told of it, and why something could not be done.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use hostel_peer::server::ServerError;

use super::{Origin, ProcessId, SpawnGuard};

/// Why there is no keeper to talk to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It could not be started.
    #[error("the keeper cannot be started: {0}")]
    Start(io::Error),
    /// It could not be reached.
    #[error("the keeper cannot be reached: {0}")]
    Reach(io::Error),
    /// The journals cannot be opened.
    #[error("the journal directory cannot be opened: {0}")]
    Journal(io::Error),
    /// The process that serves the keeper's socket cannot be the keeper of this daemon.
    #[error("`{}` cannot be used: {found}; {}", socket.display(), found.advice())]
    NotTheKeeper {
        /// The socket.
        socket: PathBuf,
        /// What was found.
        found: ServerError,
    },
    /// A younger daemon is in charge of this house.
    #[error("a younger daemon is in charge of this house")]
    Superseded,
    /// It writes to another journal directory.
    #[error("the running keeper writes to another journal directory; stop it first (`hostel down`)")]
    OtherJournal,
}

/// Why a process could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// Its working directory cannot be entered.
    #[error("cannot enter the working directory: {}", io::Error::from_raw_os_error(*errno))]
    Chdir {
        /// The kernel's reason.
        errno: i32,
    },
    /// Its program cannot be executed.
    #[error("cannot execute the program: {}", io::Error::from_raw_os_error(*errno))]
    Exec {
        /// The kernel's reason.
        errno: i32,
    },
    /// A limit is reached.
    #[error("{0}")]
    Limit(String),
    /// The guard that it must have cannot be had.
    #[error("{0}")]
    Guard(String),
    /// The keeper could not do it, or is gone.
    #[error("{0}")]
    Keeper(String),
}

/// A process to start.
#[derive(Debug, Clone)]
pub struct SpawnSpec {
    /// The name it will be known by; an older process of that name is replaced and ended.
    pub name: String,
    /// The door it came in by.
    pub door: String,
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments, the first being its own name.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; the daemon's own if none.
    pub cwd: Option<PathBuf>,
    /// Its identity, if it was chosen beforehand: asking again for the same one starts nothing twice.
    pub id: Option<ProcessId>,
    /// Its standard input is a socket, so that its own children cannot reopen it and write into it.
    pub socket_stdin: bool,
    /// The session whose agent it is.
    pub session: Option<String>,
    /// Who asked for it, where that was a process inside the house.
    pub asked_by: Option<Origin>,
    /// Its standard input belongs to this house: nobody can write to it or end it through [`Process::stdin`] and
    /// [`Process::close_stdin`], and the keeper refuses everybody who does not show a token.
    pub owned_input: bool,
    /// The guard around it; none for what the owner of the house starts.
    pub guard: Option<SpawnGuard>,
}

/// The keeper, for people who look after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperStatus {
    /// Its process.
    pub pid: u32,
    /// Its build.
    pub build: String,
    /// The protocol spoken with it.
    pub proto: u32,
    /// What it can do beyond the base protocol.
    pub features: u64,
    /// When it was started.
    pub since_ns: u64,
    /// How many processes run.
    pub children: usize,
    /// How many may run.
    pub child_limit: u32,
    /// Whether processes have cgroups of their own.
    pub cgroup: bool,
}

/// Why an upgrade of the keeper did not happen.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The keeper refused and goes on as it was.
    #[error("{0}")]
    Refused(String),
    /// It did not come back.
    #[error("the keeper did not come back: {0}")]
    Lost(String),
}

/// A process that an earlier daemon, or an earlier link, asked for and that never came to its exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedStart {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}
