//! A directory with everything that belongs to one house, and an environment in which programs see nothing else.
//!
//! `HOME`, `HOSTEL_HOME`, `XDG_RUNTIME_DIR` and `TMPDIR` are below the directory, so two tests never share a socket, a
//! lock or a file. Daemons and keepers of all houses in it, and what they started, are ended by pid and start time when
//! it goes out of scope, however the test ended.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::{END_GRACE, show_log};
use crate::procfs::{self, Identity};
use crate::{binary, wait};

/// The runner finds processes that a test left behind by this variable.
pub(crate) const TEST_ID: &str = "HOSTEL_TEST_ID";

/// The directories of every sandbox. `HOSTEL_HOME` may hold secrets and is private from the start.
const DIRECTORIES: [(&str, u32); 5] =
    [("home", 0o755), ("hostel", 0o700), ("run", 0o700), ("tmp", 0o755), ("work", 0o755)];

#[derive(Debug)]
enum Root {
    Temporary(TempDir),
    Within(PathBuf),
}

/// A directory for houses and what belongs to them.
#[derive(Debug)]
pub struct Sandbox {
    root: Root,
    known: Mutex<BTreeSet<Identity>>,
}

impl Sandbox {
    /// A fresh temporary directory.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(prefix: &str) -> Self {
        let root = tempfile::Builder::new().prefix(&format!("hostel-{prefix}-")).tempdir();
        Self::with_root(Root::Temporary(root.expect("a temporary directory")))
    }

    /// A directory that somebody else removes.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn within(path: PathBuf) -> Self {
        Self::with_root(Root::Within(path))
    }

    fn with_root(root: Root) -> Self {
        let sandbox = Self { root, known: Mutex::default() };
        for (name, mode) in DIRECTORIES {
            sandbox.make(name);
            fs::set_permissions(sandbox.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
        }
        sandbox
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        match &self.root {
            Root::Temporary(root) => root.path(),
            Root::Within(path) => path,
        }
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes a directory in it and gives its path.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// `HOME`.
    pub fn home(&self) -> PathBuf {
        self.join("home")
    }

    /// `HOSTEL_HOME`.
    pub fn hostel_home(&self) -> PathBuf {
        self.join("hostel")
    }

    /// A directory for commands to work in.
    pub fn work(&self) -> PathBuf {
        self.join("work")
    }

    /// Writes `hostel.toml`.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_settings(&self, text: &str) {
        fs::write(self.hostel_home().join("hostel.toml"), text).expect("the settings can be written");
    }

    /// `hostel` with these arguments, in this sandbox.
    pub fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(binary::hostel());
        command.args(arguments);
        command
    }

    /// A program in this sandbox.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.set_environment(&mut command);
        command
    }

    /// Gives a command the environment of this sandbox and nothing else.
    pub fn set_environment(&self, command: &mut Command) {
        set_base_environment(command, &self.home());
        command.env("HOSTEL_HOME", self.hostel_home());
        command.env("XDG_RUNTIME_DIR", self.join("run")).env("TMPDIR", self.join("tmp"));
        command.stdin(Stdio::null()).current_dir(self.path());
    }

    /// The directories of the houses: `HOSTEL_HOME` itself and one for each endpoint of a personality.
    pub fn houses(&self) -> Vec<PathBuf> {
        let mut found = self.personalities();
        found.insert(0, self.hostel_home());
        found
    }

    /// The directories of the houses that belong to the endpoint of a personality.
    pub fn personalities(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.hostel_home().join("as")).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        found.sort();
        found
    }

    /// The keepers that run now.
    pub fn keepers(&self) -> Vec<Identity> {
        self.houses().iter().filter_map(|house| listener(&house.join("run/keeper.sock"))).collect()
    }

    /// The daemons that run now and serve our own socket.
    pub fn daemons(&self) -> Vec<Identity> {
        self.houses().iter().filter_map(|house| listener(&house.join("run/hostel.sock"))).collect()
    }

    /// Has a process ended with the sandbox.
    pub fn adopt(&self, process: Identity) {
        self.known().insert(process);
    }

    /// Notes all processes that belong to the houses now. Needed before a keeper is killed: its children are found by
    /// their parent.
    pub fn remember(&self) {
        let roots: Vec<Identity> = self.daemons().into_iter().chain(self.keepers()).collect();
        let mut known = self.known();
        known.extend(roots);
        known.retain(|process| process.alive());
        let below = procfs::descendants_of(known.iter().map(|process| process.pid));
        known.extend(below.into_iter().filter(|process| process.alive()));
    }

    /// The processes that were noted and still run.
    pub fn running(&self) -> BTreeSet<Identity> {
        self.remember();
        self.known().clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<Identity>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything that belongs to the houses.
    pub fn end_processes(&self) {
        self.remember();
        // The daemons first: one that runs starts another keeper. They are asked, so that they can write what a tool
        // that measures coverage wants to read.
        let daemons = self.daemons();
        for daemon in &daemons {
            daemon.signal(Signal::TERM);
        }
        for daemon in &daemons {
            wait::process_end(*daemon, END_GRACE);
            daemon.signal(Signal::KILL);
        }
        // A keeper that stands still starts nothing more, so the list of its children is complete.
        for keeper in self.keepers() {
            keeper.signal(Signal::STOP);
        }
        for _ in 0..3 {
            let running = self.running();
            for process in &running {
                process.signal(Signal::KILL);
            }
            if running.iter().all(|process| wait::process_end(*process, Duration::from_secs(5))) {
                break;
            }
        }
    }

    /// What the daemons of all houses logged.
    pub fn log(&self) -> String {
        let mut text = String::new();
        for house in self.houses() {
            let entries = fs::read_dir(house.join("log")).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            files.sort();
            for file in files {
                text.push_str(&String::from_utf8_lossy(&fs::read(file).unwrap_or_default()));
            }
        }
        text
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.end_processes();
        if thread::panicking() {
            show_log(&format!("the log of {}", self.path().display()), &self.log());
        }
        if let Root::Temporary(root) = &mut self.root {
            keep_if_failed(root);
        }
    }
}

/// Leaves the directory of a test that fails for whoever looks for the reason; the runner says where it is.
pub fn keep_if_failed(directory: &mut TempDir) {
    directory.disable_cleanup(thread::panicking() || std::env::var_os("HOSTEL_TEST_KEEP").is_some());
}

/// The process that listens on a Unix socket.
pub fn listener(socket: &Path) -> Option<Identity> {
    let connection = UnixStream::connect(socket).ok()?;
    let credentials = socket_peercred(&connection).ok()?;
    Identity::of(credentials.pid.as_raw_nonzero().get())
}

/// An environment with nothing of the machine in it but `PATH`.
pub fn set_base_environment(command: &mut Command, home: &Path) {
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()));
    command.env("HOME", home);
    // Without these a program falls back to directories that the whole machine shares.
    command.env("XDG_RUNTIME_DIR", home).env("TMPDIR", std::env::temp_dir());
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
    // The last two say that a house is inside on purpose, where the tests run in a hosted process.
    for name in [TEST_ID, "LLVM_PROFILE_FILE", "RUST_BACKTRACE", "HOSTEL_PROCESS", "HOSTEL_NESTED"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}
