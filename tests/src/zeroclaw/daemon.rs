//! A zeroclaw daemon in a sandbox of its own, to start, to kill and to start again.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;

use super::peer::Peer;
use crate::process::Process;
use crate::sandbox::Sandbox;

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
    // Before the sandbox, whose end is the end of all processes.
    process: Process,
    sandbox: Sandbox,
    options: Options,
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
        let sandbox = Sandbox::new("zc");
        sandbox.make("config/data");
        sandbox.write_settings(&options.settings);
        if let Some(key) = &options.key {
            fs::write(sandbox.join("config/data/.secret_key"), key).expect("a key file");
        }
        let process = Process::new("the daemon", sandbox.join("printed"));
        Self { process, sandbox, options }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    /// A directory for sessions to work in.
    pub fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.sandbox.join("config/data")
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
        let house = self.sandbox.personalities().into_iter().next().expect("a house");
        house.join("run/hostel.sock")
    }

    /// A command with this place's environment that runs `hostel` with these arguments.
    pub fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.hostel(arguments);
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
        command.current_dir(self.work());
        command
    }

    /// Starts the daemon and gives it back before it serves.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(&mut self) {
        let config = self.sandbox.join("config");
        let mut arguments = vec!["as", "zeroclaw", "daemon", "--config-dir", crate::house::path_text(&config)];
        arguments.extend(self.options.flags.iter().map(String::as_str));
        self.process.start(self.hostel(&arguments));
    }

    /// Starts the daemon and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn serve(&mut self) {
        self.spawn();
        let socket = self.socket();
        self.process.wait_ready(|| UnixStream::connect(&socket));
        self.sandbox.remember();
    }

    /// The daemon's process id.
    ///
    /// # Panics
    /// If none was started.
    pub fn pid(&self) -> u32 {
        self.process.pid()
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
    pub fn kill(&mut self) {
        self.sandbox.remember();
        self.process.kill();
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        self.process.identity().signal(signal);
    }

    /// Waits until the daemon has ended by itself.
    pub fn ended(&mut self, limit: Duration) -> ExitStatus {
        self.process.ended_within(limit)
    }

    /// Everything the daemon printed.
    pub fn printed(&self) -> String {
        self.process.printed()
    }
}
