//! A sudo-proxy daemon, real or ours, in a sandbox of its own, on a terminal of its own or on none.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use super::client::Client;
use super::terminal::Terminal;
use crate::house::path_text;
use crate::process::Process;
use crate::procfs::Identity;
use crate::sandbox::Sandbox;
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

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    // Before the sandbox, whose end is the end of all processes.
    process: Process,
    sandbox: Sandbox,
    options: Options,
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
        let sandbox = Sandbox::new("sp");
        sandbox.make("config");
        sandbox.write_settings(&options.settings);
        let process = Process::new("the daemon", &sandbox.join("printed"));
        Self { process, sandbox, options, terminal: None, questioned: 0 }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// A directory for commands to work in.
    pub fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        match self.options.program {
            Program::House => self.hostel_home().join("run/sudo.sock"),
            _ => self.sandbox.join("run/sudo-proxy.sock"),
        }
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.sandbox.hostel_home()
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

    /// Waits for the next question, all pages of it, and gives it.
    ///
    /// # Panics
    /// If none is asked.
    pub fn question(&mut self) -> String {
        let start = self.questioned;
        let seen = self.terminal().wait_question(start, wait::limit());
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
        self.sandbox.set_environment(command);
        command.env("XDG_CONFIG_HOME", self.sandbox.join("config"));
        command.env("TERM", "dumb").env("NO_COLOR", "1");
        command.envs(self.options.environment.iter().map(|(key, value)| (key, value)));
        command.current_dir(self.work());
    }

    /// A command with this place's environment that runs `hostel` with these arguments.
    pub fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.hostel(arguments);
        self.set_environment(&mut command);
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
        if self.options.detached {
            self.process.start(command);
        } else {
            let (terminal, slave) = Terminal::open();
            command.stdin(slave.try_clone().expect("a second handle")).stdout(slave);
            self.terminal = Some(terminal);
            self.questioned = 0;
            self.process.start_with_stdout(command);
        }
        self.process.wait_ready(|| UnixStream::connect(&socket));
        self.sandbox.remember();
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
        self.process.pid()
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        self.sandbox.remember();
        self.process.kill();
    }

    /// Waits until the daemon has ended by itself.
    pub fn ended(&mut self, limit: Duration) -> ExitStatus {
        self.process.ended_within(limit)
    }

    /// What runs as a child of the daemon or of its keepers, directly or not.
    pub fn descendants(&mut self) -> BTreeSet<Identity> {
        if self.process.is_started() {
            self.sandbox.adopt(self.process.identity());
        }
        self.sandbox.running()
    }

    /// The journals of everything that runs or ran here and is kept.
    pub fn journals(&self) -> Vec<PathBuf> {
        let houses = self.sandbox.houses();
        let entries = houses.into_iter().filter_map(|house| fs::read_dir(house.join("journal")).ok()).flatten();
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|ending| ending == "j")).collect()
    }

    /// Everything the daemon printed.
    pub fn printed(&self) -> String {
        self.process.printed()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The real one starts commands as its own children; once it is gone nobody could tell whose they are.
        self.descendants();
        if let (true, Some(terminal)) = (thread::panicking(), &self.terminal) {
            eprintln!("---- painted\n{}\n----", terminal.painted(0));
        }
    }
}
