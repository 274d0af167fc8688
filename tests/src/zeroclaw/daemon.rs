//! A zeroclaw daemon with a directory of its own, to start, to kill and to start again.
//!
//! It runs in the foreground, as its contract has it, so it is this process's own child. When it goes out of scope it
//! is asked to end, and what is left of daemon, keeper and children is killed by pid and start time.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;
use tempfile::TempDir;

use super::peer::Peer;
use crate::house::set_base_environment;
use crate::procfs::{self, Identity};
use crate::{binary, wait};

/// How a daemon is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Flags after `daemon --config-dir …`.
    pub flags: Vec<String>,
    /// The text of `hostel.toml`.
    pub settings: String,
    /// More environment.
    pub environment: Vec<(String, String)>,
    /// `.secret_key` of the data directory.
    pub key: Option<String>,
}

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    root: TempDir,
    options: Options,
    child: Option<Child>,
    known: BTreeSet<Identity>,
}

impl Daemon {
    /// A running daemon, all by default.
    pub fn start() -> Self {
        Self::start_with(Options::default())
    }

    /// A running daemon.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_with(options: Options) -> Self {
        let mut daemon = Self::prepare(options);
        daemon.serve();
        daemon
    }

    /// A place for a daemon, without one.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn prepare(options: Options) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-zc-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home", "work", "config/data"] {
            fs::create_dir_all(root.path().join(name)).expect("a fresh directory");
        }
        fs::write(root.path().join("hostel/hostel.toml"), &options.settings).expect("a settings file");
        if let Some(key) = &options.key {
            fs::write(root.path().join("config/data/.secret_key"), key).expect("a key file");
        }
        Self { root, options, child: None, known: BTreeSet::new() }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.root.path().join("hostel")
    }

    /// A directory for sessions to work in.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.root.path().join("config/data")
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.data().join("daemon.sock")
    }

    /// The house's own socket, once there is a house.
    ///
    /// # Panics
    /// If there is none.
    pub fn native_socket(&self) -> PathBuf {
        let house = self.houses().into_iter().next().expect("a house");
        house.join("run/hostel.sock")
    }

    /// A command with this place's environment that runs `hostel` with these arguments.
    pub fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments);
        set_base_environment(&mut command, &self.root.path().join("home"));
        command.env("HOSTEL_HOME", self.hostel_home());
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).current_dir(self.work());
        command
    }

    /// Starts the daemon and gives it back before it serves.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(&mut self) {
        let config = self.root.path().join("config");
        let mut arguments = vec!["as", "zeroclaw", "daemon", "--config-dir", crate::house::path_text(&config)];
        arguments.extend(self.options.flags.iter().map(String::as_str));
        let printed = OpenOptions::new().create(true).append(true).open(self.root.path().join("printed"));
        let printed = printed.expect("a file for output");
        let mut command = self.hostel(&arguments);
        command.stdout(printed.try_clone().expect("a second handle")).stderr(printed);
        let child = command.spawn().expect("the program under test can be started");
        self.known.extend(Identity::of(i32::try_from(child.id()).expect("a pid")));
        self.child = Some(child);
    }

    /// Starts the daemon and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn serve(&mut self) {
        self.spawn();
        wait::until(wait::LIMIT, "the socket to accept", || {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().expect("a child")) {
                panic!("the daemon ended with {status}:\n{}", self.printed());
            }
            UnixStream::connect(self.socket()).ok()
        });
        self.remember();
    }

    /// The daemon's process id.
    ///
    /// # Panics
    /// If none was started.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a daemon").id()
    }

    /// Connects and says nothing.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(&self) -> Peer {
        Peer::connect(&self.socket()).unwrap_or_else(|error| panic!("cannot connect: {error}\n{}", self.printed()))
    }

    /// Connects and introduces itself.
    pub fn client(&self) -> Peer {
        let mut peer = self.connect();
        peer.initialize();
        peer
    }

    /// A client of the house's own socket.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn native(&self) -> Peer {
        let mut peer = Peer::connect(&self.native_socket()).expect("our own socket accepts");
        peer.initialize();
        peer
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// If none was started.
    pub fn kill(&mut self) {
        self.remember();
        let mut child = self.child.take().expect("a daemon");
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
    }

    /// Sends a signal to the daemon.
    ///
    /// # Panics
    /// If none was started.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a pid");
        Identity::of(pid).expect("a running daemon").signal(signal);
    }

    /// Waits until the daemon has ended by itself.
    ///
    /// # Panics
    /// If it does not.
    pub fn ended(&mut self, limit: Duration) -> ExitStatus {
        let mut child = self.child.take().expect("a daemon");
        wait::until(limit, "the daemon to end", || child.try_wait().expect("a child"))
    }

    fn houses(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.hostel_home().join("as")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    fn remember(&mut self) {
        for house in self.houses() {
            let Ok(connection) = UnixStream::connect(house.join("run/keeper.sock")) else { continue };
            let Ok(credentials) = socket_peercred(&connection) else { continue };
            let pid = credentials.pid.as_raw_nonzero().get();
            self.known.extend(Identity::of(pid));
            self.known.extend(procfs::descendants(pid));
        }
    }

    /// Everything the daemon printed.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.root.path().join("printed")).unwrap_or_default()).into_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.remember();
        if let Some(mut child) = self.child.take() {
            if let Some(daemon) = Identity::of(i32::try_from(child.id()).unwrap_or(0)) {
                daemon.signal(Signal::TERM);
            }
            // Whether a stop works is for the tests to say; here it only must be over.
            wait::attempt(Duration::from_secs(10), || child.try_wait().ok().flatten());
            child.kill().ok();
            child.wait().ok();
        }
        self.remember();
        for process in &self.known {
            process.signal(Signal::KILL);
        }
        if thread::panicking() {
            let printed = self.printed();
            let skipped = printed.lines().count().saturating_sub(40);
            let tail: Vec<&str> = printed.lines().skip(skipped).collect();
            eprintln!("---- last lines of the daemon's log\n{}\n----", tail.join("\n"));
        }
    }
}
