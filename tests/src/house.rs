//! A claustrum daemon with a directory of its own, to start, to kill and to start again.
//!
//! Everything it needs lies below one temporary directory: `HOSTEL_HOME`, `HOME`, the socket, the
//! token file and what the launcher printed. The environment is built from nothing, so that a test
//! means the same on every machine. When the house goes out of scope the daemon is asked to stop,
//! and what is left of daemon, keeper and children is killed by pid and start time.
//!
//! The same code starts the real claustrum: it takes the same flags.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::binary;
use crate::client::Client;
use crate::procfs::{self, Identity};
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
    root: TempDir,
    options: Options,
    daemon: Option<Identity>,
    known: BTreeSet<Identity>,
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
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn prepare(options: Options) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-test-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
        }
        Self { root, options, daemon: None, known: BTreeSet::new(), beside: Vec::new() }
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
        self.root.path()
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.root.path().join("hostel")
    }

    /// `HOME` of the daemon.
    pub fn home(&self) -> PathBuf {
        self.options.home.clone().unwrap_or_else(|| self.root.path().join("home"))
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.root.path().join("s")
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
        set_base_environment(command, &self.home());
        command.env("HOSTEL_HOME", self.hostel_home());
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null());
        // The daemon keeps this directory: never one of the repository's own.
        command.current_dir(self.path());
    }

    /// Writes the token file afresh (the daemon removes it after reading) and gives its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_token(&self) -> PathBuf {
        let path = self.root.path().join("token");
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
            Program::Oracle(_) => wait::until(wait::LIMIT, "the socket to accept", || self.try_connect().ok()),
        };
        self.remember_daemon(connection.server_pid());
        self.remember_keepers();
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
        wait::until(wait::LIMIT, "the launcher of -serve to return", || {
            launcher.try_wait().expect("a launcher can be waited for")
        })
    }

    fn append(&self, name: &str) -> File {
        OpenOptions::new().create(true).append(true).open(self.root.path().join(name)).expect("a file for output")
    }

    /// Keeps another house's directory for as long as this one lives.
    pub fn keep_beside(&mut self, other: House) {
        self.beside.push(other);
    }

    /// Notes whose socket this is, so that it will be ended with the house.
    pub fn remember_daemon(&mut self, pid: i32) {
        self.daemon = Identity::of(pid);
        self.known.extend(self.daemon);
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
        self.remember_keepers();
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
        let mut found: Vec<PathBuf> = fs::read_dir(self.hostel_home().join("as"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        found.sort();
        found
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

    /// The keepers that run now, by the sockets in the house directories.
    pub fn keepers(&self) -> Vec<Identity> {
        self.house_directories()
            .iter()
            .filter_map(|house| {
                let connection = UnixStream::connect(house.join("run/keeper.sock")).ok()?;
                let credentials = socket_peercred(&connection).ok()?;
                Identity::of(credentials.pid.as_raw_nonzero().get())
            })
            .collect()
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

    fn remember_keepers(&mut self) {
        for keeper in self.keepers() {
            self.known.insert(keeper);
            self.known.extend(procfs::descendants(keeper.pid));
        }
        if let Some(daemon) = self.daemon {
            self.known.extend(procfs::descendants(daemon.pid));
        }
    }

    /// Everything the launchers and daemons printed.
    pub fn printed(&self) -> String {
        let mut text = String::new();
        for name in ["printed.out", "printed.err"] {
            text.push_str(&String::from_utf8_lossy(&fs::read(self.root.path().join(name)).unwrap_or_default()));
        }
        text
    }

    /// What was printed plus the house's own log files: where log lines may be.
    pub fn log(&self) -> String {
        let mut text = self.printed();
        for house in self.house_directories() {
            for entry in fs::read_dir(house.join("log")).into_iter().flatten().flatten() {
                text.push_str(&String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()));
            }
        }
        text
    }

    /// Waits for a log line that contains `part`, and gives it.
    ///
    /// # Panics
    /// If none appears.
    pub fn wait_for_log(&self, part: &str) -> String {
        wait::attempt(Duration::from_secs(10), || {
            self.log().lines().find(|line| line.contains(part)).map(str::to_owned)
        })
        .unwrap_or_else(|| panic!("no log line with {part:?}; the log is:\n{}", self.log()))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.remember_keepers();
        if self.daemon.is_some_and(Identity::alive) {
            self.run_stop(&self.options.token.clone());
            if let Some(daemon) = self.daemon {
                // Whether a stop works is for the tests to say; here it only must be over.
                wait::attempt(Duration::from_secs(5), || (!daemon.alive()).then_some(()));
            }
        }
        self.remember_keepers();
        for process in &self.known {
            process.signal(Signal::KILL);
        }
        if thread::panicking() {
            let log = self.log();
            let skipped = log.lines().count().saturating_sub(40);
            let tail: Vec<&str> = log.lines().skip(skipped).collect();
            eprintln!("---- last lines of the daemon's log\n{}\n----", tail.join("\n"));
        }
    }
}

/// An environment with nothing of the machine in it but `PATH`.
pub fn set_base_environment(command: &mut Command, home: &Path) {
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
    command.env("HOME", home);
    command.env("SHELL", "/bin/sh");
    command.env("LC_ALL", "C");
    // A test that wants a broker starts one, and so knows it and can end it.
    command.env("HOSTEL_MESH_BROKER", "false");
    // git: no configuration of the machine, a fixed author, fixed dates, so that ids repeat.
    command.env("GIT_CONFIG_NOSYSTEM", "1");
    command.env("GIT_CONFIG_COUNT", "2");
    command.env("GIT_CONFIG_KEY_0", "init.defaultBranch").env("GIT_CONFIG_VALUE_0", "master");
    command.env("GIT_CONFIG_KEY_1", "safe.directory").env("GIT_CONFIG_VALUE_1", "*");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "A Tester");
        command.env(format!("GIT_{role}_EMAIL"), "tester@example.invalid");
        command.env(format!("GIT_{role}_DATE"), "2001-02-03T04:05:06Z");
    }
    for name in ["LLVM_PROFILE_FILE", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// Runs a command to its end, with a deadline.
///
/// # Panics
/// If it cannot be started or does not end.
pub fn run(mut command: Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
    let mut read_out = child.stdout.take().expect("stdout is a pipe");
    let mut read_err = child.stderr.take().expect("stderr is a pipe");
    let out = thread::spawn(move || read_all(&mut read_out));
    let err = thread::spawn(move || read_all(&mut read_err));
    let ended = wait::attempt(Duration::from_secs(60), || child.try_wait().expect("a child can be waited for"));
    let Some(status) = ended else {
        // It is our own child and unreaped: its pid cannot be somebody else's.
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
        panic!("{shown} did not end");
    };
    // A daemon that inherited the pipes would hold these threads: that is a finding, not a wait.
    let finished = wait::attempt(Duration::from_secs(10), || (out.is_finished() && err.is_finished()).then_some(()));
    assert!(finished.is_some(), "{shown} ended, but something it started still holds its stdout or stderr");
    Output {
        status,
        stdout: out.join().expect("the reader does not panic"),
        stderr: err.join().expect("the reader does not panic"),
    }
}

fn read_all(source: &mut impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).expect("a pipe can be read");
    bytes
}

/// A path of the tests' own making as text.
///
/// # Panics
/// If it is not UTF-8.
pub fn path_text(path: &Path) -> &str {
    path.to_str().expect("the tests make plain paths")
}
