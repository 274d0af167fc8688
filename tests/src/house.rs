//! A claustrum daemon in a sandbox of its own, to start, to kill and to start again.
//!
//! The launcher of `-serve` ends, so the daemon is no child of the test: the sandbox ends it with everything else.
//!
//! The same code starts the real claustrum: it takes the same flags.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::thread;

use rustix::process::Signal;

use crate::binary;
use crate::client::Client;
pub use crate::process::run;
use crate::process::show_log;
use crate::procfs::Identity;
use crate::sandbox::Sandbox;
pub use crate::sandbox::set_base_environment;
use crate::wait;

/// Which program plays the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// `hostel as claustrum …`.
    Hostel,
    /// A real claustrum.
    Oracle(PathBuf),
}

/// How a house is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program.
    pub program: Program,
    /// The token every request must carry.
    pub token: String,
    /// More flags for `-serve`.
    pub flags: Vec<String>,
    /// More environment for the launcher.
    pub environment: Vec<(String, String)>,
    /// `HOME`, if not the house's own.
    pub home: Option<PathBuf>,
    /// Shell text that runs before the program in the same process (`ulimit -n 64`).
    pub before: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: Program::Hostel,
            token: "token-of-the-tests".to_owned(),
            flags: Vec::new(),
            environment: Vec::new(),
            home: None,
            before: None,
        }
    }
}

/// A house with its daemon.
#[derive(Debug)]
pub struct House {
    sandbox: Sandbox,
    options: Options,
    daemon: Option<Identity>,
    beside: Vec<House>,
}

impl House {
    /// A house with a running daemon, all by default.
    pub fn start() -> Self {
        Self::start_with(Options::default())
    }

    /// A house with a running daemon.
    ///
    /// # Panics
    /// If the launcher fails or nothing accepts afterwards.
    pub fn start_with(options: Options) -> Self {
        let mut house = Self::prepare(options);
        house.serve();
        house
    }

    /// A house without a daemon yet.
    pub fn prepare(options: Options) -> Self {
        Self { sandbox: Sandbox::new("claustrum"), options, daemon: None, beside: Vec::new() }
    }

    /// Has a variable in the environment of everything that is started from now on.
    pub fn add_variable(&mut self, variable: (String, String)) {
        self.options.environment.push(variable);
    }

    /// How it was started.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    /// `HOME` of the daemon.
    pub fn home(&self) -> PathBuf {
        self.options.home.clone().unwrap_or_else(|| self.sandbox.home())
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.sandbox.path().join("s")
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.options.token
    }

    /// The daemon's pid.
    ///
    /// # Panics
    /// If none was started.
    pub fn daemon(&self) -> Identity {
        self.daemon.expect("the house has a daemon")
    }

    /// A command with the house's environment that runs the program with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let (program, first): (PathBuf, &[&str]) = match &self.options.program {
            Program::Hostel => (binary::hostel(), &["as", "claustrum"]),
            Program::Oracle(path) => (path.clone(), &[]),
        };
        let mut command = match &self.options.before {
            None => Command::new(&program),
            Some(before) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg("-c").arg(format!("{before}\nexec \"$0\" \"$@\"")).arg(&program);
                shell
            }
        };
        command.args(first).args(arguments);
        self.set_environment(&mut command);
        command
    }

    /// A command of hostel's own command line (`hostel ps …`) with the house's environment.
    pub fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments);
        self.set_environment(&mut command);
        command
    }

    /// Gives a command the house's environment and nothing else.
    pub fn set_environment(&self, command: &mut Command) {
        self.sandbox.set_environment(command);
        command.env("HOME", self.home());
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
    }

    /// Writes the token file afresh (the daemon removes it after reading) and gives its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_token(&self) -> PathBuf {
        let path = self.sandbox.path().join("token");
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path).expect("a token file");
        file.write_all(self.options.token.as_bytes()).expect("a token file takes a token");
        path
    }

    /// Starts the daemon, again if need be, and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn serve(&mut self) {
        let status = self.launch();
        assert!(status.success(), "-serve ended with {status}; it printed:\n{}", self.printed());
        // hostel's launcher returns once the socket accepts; claustrum 1.4.0 returns before that.
        let connection = match self.options.program {
            Program::Hostel => self.try_connect().unwrap_or_else(|error| {
                panic!("-serve returned, but the socket does not accept: {error}\n{}", self.printed())
            }),
            Program::Oracle(_) => wait::eventually("the socket to accept", || self.try_connect()),
        };
        self.remember_daemon(connection.server_pid());
        self.sandbox.remember();
    }

    /// Runs `-serve` with the token file and the house's flags, and gives the launcher's status.
    ///
    /// # Panics
    /// If the launcher does not return.
    pub fn launch(&self) -> ExitStatus {
        let token = self.write_token();
        let socket = self.socket();
        let mut arguments = vec!["-serve", "-socket", path_text(&socket), "-token-file", path_text(&token)];
        arguments.extend(self.options.flags.iter().map(String::as_str));
        let mut launcher = self
            .command(&arguments)
            .stdout(self.append("printed.out"))
            .stderr(self.append("printed.err"))
            .spawn()
            .expect("the program under test can be started");
        wait::end_of(&mut launcher, "the launcher of -serve")
    }

    fn append(&self, name: &str) -> File {
        OpenOptions::new().create(true).append(true).open(self.sandbox.path().join(name)).expect("a file for output")
    }

    /// Keeps another house's directory for as long as this one lives.
    pub fn keep_beside(&mut self, other: House) {
        self.beside.push(other);
    }

    /// Notes whose socket this is, so that it will be ended with the house.
    pub fn remember_daemon(&mut self, pid: i32) {
        self.daemon = Identity::of(pid);
        if let Some(daemon) = self.daemon {
            self.sandbox.adopt(daemon);
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn try_connect(&self) -> std::io::Result<Client> {
        Client::connect(&self.socket(), self.token())
    }

    /// Connects.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(&self) -> Client {
        self.try_connect().unwrap_or_else(|error| panic!("cannot connect: {error}\n{}", self.printed()))
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let daemon = self.daemon();
        daemon.signal(Signal::KILL);
        daemon.wait_gone(wait::LIMIT);
    }

    /// Runs `-stop` with the token and waits until the daemon is gone.
    ///
    /// # Panics
    /// If `-stop` fails or the daemon stays.
    pub fn stop(&mut self) {
        self.sandbox.remember();
        let output = self.run_stop(self.token());
        assert!(output.status.success(), "-stop ended with {}", output.status);
        self.daemon().wait_gone(wait::LIMIT);
    }

    /// Runs `-stop` with some token and gives what it printed.
    ///
    /// # Panics
    /// If it does not return.
    pub fn run_stop(&self, token: &str) -> Output {
        let socket = self.socket();
        let mut command = self.command(&["-stop", "-socket", path_text(&socket)]);
        command.env("CLAUDE_RPC_TOKEN", token);
        run(command)
    }

    /// The house directories below `HOSTEL_HOME` (one per personality endpoint).
    pub fn house_directories(&self) -> Vec<PathBuf> {
        self.sandbox.personalities()
    }

    /// The one house directory.
    ///
    /// # Panics
    /// If there is none or more than one.
    pub fn house_directory(&self) -> PathBuf {
        let found = self.house_directories();
        assert_eq!(found.len(), 1, "one house is expected below {}: {found:?}", self.hostel_home().display());
        found[0].clone()
    }

    /// The keepers that run now.
    pub fn keepers(&self) -> Vec<Identity> {
        self.sandbox.keepers()
    }

    /// The one keeper.
    ///
    /// # Panics
    /// If there is none or more than one.
    pub fn keeper(&self) -> Identity {
        let found = self.keepers();
        assert_eq!(found.len(), 1, "one keeper is expected: {found:?}");
        found[0]
    }

    /// Everything the launchers and daemons printed.
    pub fn printed(&self) -> String {
        let mut text = String::new();
        for name in ["printed.out", "printed.err"] {
            text.push_str(&String::from_utf8_lossy(&fs::read(self.sandbox.path().join(name)).unwrap_or_default()));
        }
        text
    }

    /// What was printed plus the house's own log files: where log lines may be.
    pub fn log(&self) -> String {
        self.printed() + &self.sandbox.log()
    }

    /// Waits for a log line that contains `part`, and gives it.
    ///
    /// # Panics
    /// If none appears.
    pub fn wait_for_log(&self, part: &str) -> String {
        wait::log_line(part, || self.log())
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if thread::panicking() {
            show_log("what the launchers and daemons printed", &self.printed());
        }
    }
}

/// A path of the tests' own making as text.
///
/// # Panics
/// If it is not UTF-8.
pub fn path_text(path: &Path) -> &str {
    path.to_str().expect("the tests make plain paths")
}
