//! What the door can be told when it is opened.
//!
//! Every bound has a default that an honest client never meets.

use super::Secret;
use super::log::Log;
use super::metrics::Metrics;
use hostel_house::workspace::{archive, files, git};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// How to open the door.
#[derive(Debug)]
pub struct Settings {
    /// What clients must show.
    pub token: Secret,
    /// What `server.version` and `server.capabilities` report.
    pub version: String,
    /// The daemon's environment, from which every child's is made.
    pub environment: Vec<(OsString, OsString)>,
    /// What `~` stands for, and what no client may wipe.
    pub home: Option<PathBuf>,
    /// Further directories that no client may wipe, ours first of all.
    pub protected: Vec<PathBuf>,
    /// Whether children get the `PATH` of the user's login shell.
    pub login_path: LoginPath,
    /// Where log lines go.
    pub log: Log,
    /// What is counted; shared with whoever shows it.
    pub metrics: Arc<Metrics>,
    /// What becomes of earlier subscribers when a client reattaches.
    pub reattach: Reattach,
    /// Whether `server.shutdown` needs the token like everything else.
    pub shutdown_needs_auth: bool,
    /// The bounds.
    pub limits: Limits,
}

/// Where children's `PATH` comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginPath {
    /// From the login shell, asked once in the background; the first spawn waits for the answer.
    Ask {
        /// Words to put before the shell's own command line. The program they name must end when
        /// its parent does and then become that command (see [`super::shellenv::become_command`]).
        /// Empty: the shell is started directly and outlives a daemon that is killed meanwhile.
        helper: Vec<OsString>,
    },
    /// From the daemon.
    Inherit,
}

/// What a reattach does to other connections that receive the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reattach {
    /// They go on receiving.
    Share,
    /// They stay open but receive no more of it.
    Transfer,
}

/// The bounds of the door.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// Requests of one connection that may run at once; a long one counts several times. The
    /// connection is not read beyond that.
    pub in_flight: u32,
    /// Bytes of short replies that may wait for a client that does not read.
    pub unsent_replies: usize,
    /// The largest file `files.read` returns, whatever `maxBytes` says.
    pub read_bytes: u64,
    /// The most entries `files.list` returns.
    pub list_entries: usize,
    /// `files.*` requests of one connection at work at once; others of it wait.
    pub files_at_once: usize,
    /// `git.*` requests of one connection at work at once; others of it wait.
    pub git_at_once: usize,
    /// What one archive may unfold to.
    pub archive: archive::Limits,
    /// What one run of git may use.
    pub git: git::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            in_flight: 256,
            unsent_replies: 1024 * 1024,
            read_bytes: 64 * 1024 * 1024,
            list_entries: files::DEFAULT_LIST_CEILING,
            files_at_once: 4,
            git_at_once: 8,
            archive: archive::Limits::default(),
            git: git::Limits::default(),
        }
    }
}

impl Limits {
    /// The same without zeros: a bound of nothing would make the door wait for ever.
    pub(crate) fn at_least_one(mut self) -> Self {
        self.connections = self.connections.max(1);
        self.in_flight = self.in_flight.max(1);
        self.files_at_once = self.files_at_once.max(1);
        self.git_at_once = self.git_at_once.max(1);
        self
    }
}

impl Settings {
    /// The defaults, with this process's own environment and home.
    pub fn new(token: Secret, version: String, log: Log) -> Self {
        Self {
            token,
            version,
            environment: std::env::vars_os().collect(),
            home: std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
            protected: Vec::new(),
            login_path: LoginPath::Ask { helper: Vec::new() },
            log,
            metrics: Arc::new(Metrics::default()),
            reattach: Reattach::Share,
            shutdown_needs_auth: true,
            limits: Limits::default(),
        }
    }
}
