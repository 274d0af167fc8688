//! A sudo-proxy daemon, real or ours, on a terminal of its own or on none.
//!
//! The environment is built from nothing. When the daemon goes out of scope, what is left of it, its keeper and its
//! children is killed by pid and start time.

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

use super::client::Client;
use super::terminal::Terminal;
use crate::house::{path_text, set_base_environment};
use crate::procfs::{self, Identity};
use crate::{binary, wait};

/// Which program plays the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Program {
    /// `hostel as sudo-proxy …`.
    #[default]
    Hostel,
    /// `hostel up --foreground`, with this door among the others.
    House,
    /// A real sudo-proxy.
    Oracle(PathBuf),
}

/// How a daemon is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The program.
    pub program: Program,
    /// Flags after `--socket …`.
    pub flags: Vec<String>,
    /// The text of `hostel.toml`.
    pub settings: String,
    /// More environment.
    pub environment: Vec<(String, String)>,
    /// Without a terminal.
    pub detached: bool,
}

impl Options {
    /// How long an answer may take. The real program is given less: where it does otherwise, it often does nothing.
    pub fn patience(&self) -> Duration {
        match self.program {
            Program::Hostel | Program::House => wait::LIMIT,
            Program::Oracle(_) => Duration::from_secs(6),
        }
    }
}

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    root: TempDir,
    options: Options,
    child: Option<Child>,
    known: BTreeSet<Identity>,
    terminal: Option<Terminal>,
    /// Where the last question that was waited for ended.
    questioned: usize,
}

impl Daemon {
    /// A running daemon.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start(options: Options) -> Self {
        let mut daemon = Self::prepare(options);
        daemon.serve();
        daemon
    }

    /// A place for a daemon, without one.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn prepare(options: Options) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-sp-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home", "work", "run", "config"] {
            fs::create_dir_all(root.path().join(name)).expect("a fresh directory");
        }
        fs::write(root.path().join("hostel/hostel.toml"), &options.settings).expect("a settings file");
        Self { root, options, child: None, known: BTreeSet::new(), terminal: None, questioned: 0 }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// A directory for commands to work in.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        match self.options.program {
            Program::House => self.hostel_home().join("run/sudo.sock"),
            _ => self.root.path().join("run/sudo-proxy.sock"),
        }
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.root.path().join("hostel")
    }

    /// The terminal.
    ///
    /// # Panics
    /// If the daemon has none.
    pub fn terminal(&mut self) -> &mut Terminal {
        self.terminal.as_mut().expect("a daemon with a terminal")
    }

    /// How it was started.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Waits for the next question and gives it.
    ///
    /// # Panics
    /// If none is asked.
    pub fn question(&mut self) -> String {
        let start = self.questioned;
        let seen = self.terminal().wait(start, wait::LIMIT, |seen| seen.contains("default=N"));
        self.questioned = self.terminal().length();
        seen.expect("a question")
    }

    /// Presses a key that answers a question which is on the terminal.
    ///
    /// # Panics
    /// If the daemon has no terminal, or the real one does not react.
    pub fn answer(&mut self, key: &str) {
        let patient = self.options.program == Program::Hostel;
        let start = self.terminal().length();
        // The real one throws away what is typed shortly after it has asked; ours must not.
        for _ in 0..20 {
            self.terminal().press(key);
            if patient || self.terminal().wait(start, Duration::from_millis(500), |seen| seen.contains('→')).is_ok() {
                return;
            }
        }
        panic!("the key {key:?} has no effect");
    }

    /// Whether the daemon has no terminal.
    pub fn is_detached(&self) -> bool {
        self.options.detached
    }

    /// Gives a command this place's environment.
    pub fn set_environment(&self, command: &mut Command) {
        set_base_environment(command, &self.root.path().join("home"));
        command.env("HOSTEL_HOME", self.hostel_home());
        command.env("XDG_RUNTIME_DIR", self.root.path().join("run"));
        command.env("XDG_CONFIG_HOME", self.root.path().join("config"));
        command.env("TERM", "dumb").env("NO_COLOR", "1");
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
        command.current_dir(self.work());
    }

    /// A command with this place's environment that runs `hostel` with these arguments.
    pub fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments);
        self.set_environment(&mut command);
        command.stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn serve(&mut self) {
        let socket = self.socket();
        // `setsid` makes the terminal the daemon's own before it becomes the daemon.
        let mut command = Command::new("setsid");
        if !self.options.detached {
            command.arg("--ctty");
        }
        match &self.options.program {
            Program::Hostel => command.arg(binary::hostel()).args(["as", "sudo-proxy"]),
            Program::House => command.arg(binary::hostel()).args(["up", "--foreground"]),
            Program::Oracle(path) => command.arg(path),
        };
        if self.options.program != Program::House {
            command.args(["--socket", path_text(&socket)]);
        }
        command.args(&self.options.flags);
        self.set_environment(&mut command);
        let printed = OpenOptions::new().create(true).append(true).open(self.root.path().join("printed"));
        let printed = printed.expect("a file for output");
        if self.options.detached {
            command.stdin(Stdio::null()).stdout(printed.try_clone().expect("a second handle"));
        } else {
            let (terminal, slave) = Terminal::open();
            command.stdin(slave.try_clone().expect("a second handle")).stdout(slave);
            self.terminal = Some(terminal);
            self.questioned = 0;
        }
        let child = command.stderr(printed).spawn().expect("the program under test can be started");
        self.known.extend(Identity::of(i32::try_from(child.id()).expect("a pid")));
        self.child = Some(child);
        wait::until(wait::LIMIT, "the socket to accept", || {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().expect("a child")) {
                panic!("the daemon ended with {status}:\n{}", self.printed());
            }
            UnixStream::connect(&socket).ok()
        });
        self.remember();
    }

    /// Connects.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(&self) -> Client {
        Client::connect(&self.socket()).unwrap_or_else(|error| panic!("cannot connect: {error}\n{}", self.printed()))
    }

    /// The daemon's process id.
    ///
    /// # Panics
    /// If none was started.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a daemon").id()
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

    /// Waits until the daemon has ended by itself.
    ///
    /// # Panics
    /// If it does not.
    pub fn ended(&mut self, limit: Duration) -> ExitStatus {
        let mut child = self.child.take().expect("a daemon");
        wait::until(limit, "the daemon to end", || child.try_wait().expect("a child"))
    }

    /// What runs as a child of the daemon or of its keepers, directly or not.
    pub fn descendants(&mut self) -> BTreeSet<Identity> {
        self.remember();
        self.known.iter().copied().filter(|process| process.alive()).collect()
    }

    fn houses(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.hostel_home().join("as")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).chain([self.hostel_home()]).collect()
    }

    /// The journals of everything that runs or ran here and is kept.
    pub fn journals(&self) -> Vec<PathBuf> {
        let entries = self.houses().into_iter().filter_map(|house| fs::read_dir(house.join("journal")).ok()).flatten();
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "j")).collect()
    }

    fn remember(&mut self) {
        if let Some(child) = &self.child {
            self.known.extend(procfs::descendants(i32::try_from(child.id()).unwrap_or(0)));
        }
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
            let painted = self.terminal.as_ref().map(|terminal| terminal.painted(0)).unwrap_or_default();
            eprintln!("---- printed\n{}\n---- painted\n{painted}\n----", self.printed());
        }
    }
}
