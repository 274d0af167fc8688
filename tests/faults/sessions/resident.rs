//! A `hostel up` house with the played CLIs on its PATH, to start, to kill and to start again.
//!
//! All of it lies below one temporary directory. When it goes out of scope the daemon, the keeper and everything the
//! keeper holds are killed by pid and start time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hostel_tests::house::{self, set_base_environment};
use hostel_tests::procfs::{self, Identity};
use hostel_tests::syncpoints::SyncPoints;
use hostel_tests::{agents, binary, wait};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::cast::Cast;
use super::native::Native;

/// What every house of these tests is told.
const SETTINGS: &str = r#"
[doors.claustrum]
enabled = false
[doors.codecast]
listen = []
[doors.zeroclaw]
listen = []
session_limit = 1000
[sessions]
warm = 16
stop_grace = "1s"
"#;

/// How long an agent has to stop by itself in these houses.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// A house and its daemon.
pub(crate) struct Resident {
    // Before the directory, which its socket is in.
    points: Option<SyncPoints>,
    root: TempDir,
    variables: Vec<(String, String)>,
    daemon: Option<Identity>,
    known: BTreeSet<Identity>,
}

impl Resident {
    /// A running house.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// A running house with more settings of its `[sessions]` (and of tables after that).
    pub(crate) fn start_with(more: &str) -> Self {
        let mut resident = Self::prepare(more);
        resident.serve();
        resident
    }

    /// A running house of which every sync point is heard.
    pub(crate) fn start_with_points(more: &str) -> Self {
        let mut resident = Self::prepare(more);
        resident.listen();
        resident.serve();
        resident
    }

    /// Hears of every sync point from the next start on.
    pub(crate) fn listen(&mut self) {
        self.points = Some(SyncPoints::listen(self.root.path()));
    }

    /// Has a variable in the environment of everything that is started from now on.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn points(&self) -> &SyncPoints {
        self.points.as_ref().expect("the house is listened to")
    }

    /// A house whose daemon was never started.
    pub(crate) fn prepare(more: &str) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-res-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home", "work"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
        }
        fs::write(root.path().join("hostel/hostel.toml"), format!("{SETTINGS}{more}")).expect("a settings file");
        agents::fake_clis(&root.path().join("bin"));
        Self { points: None, root, variables: Vec::new(), daemon: None, known: BTreeSet::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// A directory for sessions to work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    /// `HOSTEL_HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.path().join("hostel")
    }

    /// A socket of the house.
    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.home().join("run").join(name)
    }

    /// A command of hostel's with this house's environment.
    pub(crate) fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments);
        set_base_environment(&mut command, &self.path().join("home"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path().join("bin").display()));
        command.env("HOSTEL_HOME", self.home());
        command.env("FAKECLI_LOG", self.path().join("cli.jsonl"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(self.points.as_ref().map(SyncPoints::variable));
        command.stdin(Stdio::null()).current_dir(self.path());
        command
    }

    /// Starts the daemon, again if need be; it is up when this returns.
    pub(crate) fn serve(&mut self) {
        let output = house::run(self.hostel(&["up"]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "hostel up ended with {}: {said}\n{}", output.status, self.daemon_log());
        self.daemon = peer_of(&self.socket("hostel.sock"));
        assert!(self.daemon.is_some(), "hostel up returned, but nobody listens: {}", self.daemon_log());
        self.remember();
    }

    /// Starts a daemon and kills it after that long, wherever it is by then.
    pub(crate) fn false_start(&self, after: Duration) {
        let mut command = self.hostel(&["up", "--foreground"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("hostel can be started");
        thread::sleep(after);
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
    }

    /// Replaces the keeper's program in its running process.
    pub(crate) fn upgrade_keeper(&self) {
        let output = house::run(self.hostel(&["keeper", "upgrade"]));
        assert!(output.status.success(), "hostel keeper upgrade: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn daemon(&self) -> Identity {
        self.daemon.expect("the house has a daemon")
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let daemon = self.daemon();
        daemon.signal(Signal::KILL);
        daemon.wait_gone(wait::LIMIT);
        self.remember();
    }

    /// Lets the daemon end in good order; its processes live on.
    pub(crate) fn terminate(&mut self) {
        let daemon = self.daemon();
        daemon.signal(Signal::TERM);
        daemon.wait_gone(wait::LIMIT);
        self.remember();
    }

    /// Kills the daemon and starts another.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.serve();
    }

    pub(crate) fn keeper(&self) -> Identity {
        peer_of(&self.socket("keeper.sock")).expect("the house has a keeper")
    }

    /// The process that serves a session.
    pub(crate) fn process_of(&self, session: &str) -> Identity {
        let pid = self.native().listed(session).expect("it is listed")["pid"].as_i64().expect("it has a process");
        Identity::of(i32::try_from(pid).expect("a pid")).expect("it runs")
    }

    /// The processes the keeper holds, and theirs.
    pub(crate) fn held(&self) -> Vec<Identity> {
        procfs::descendants(self.keeper().pid).into_iter().filter(|process| process.alive()).collect()
    }

    /// Waits until the keeper holds nothing.
    pub(crate) fn wait_empty(&self) {
        let empty = wait::attempt(wait::LIMIT, || self.held().is_empty().then_some(()));
        if empty.is_none() {
            let left: Vec<String> = self.held().iter().map(|left| procfs::command_line(left.pid)).collect();
            panic!("processes are left over: {left:?}");
        }
    }

    fn remember(&mut self) {
        self.known.extend(self.daemon);
        if let Some(keeper) = peer_of(&self.socket("keeper.sock")) {
            self.known.insert(keeper);
            self.known.extend(procfs::descendants(keeper.pid));
        }
    }

    /// A client of our own socket.
    pub(crate) fn native(&self) -> Native {
        Native::introduced(&self.socket("hostel.sock")).expect("our own socket accepts")
    }

    /// A client of the zeroclaw socket.
    pub(crate) fn zeroclaw(&self) -> Native {
        Native::introduced(&self.socket("zeroclaw.sock")).expect("the zeroclaw socket accepts")
    }

    /// A client of the codecast door.
    pub(crate) fn cast(&self) -> Cast {
        Cast::new(codecast_address(&self.socket("http.port")).expect("the port is told in its file"))
    }

    /// What the played CLIs noted, in order.
    pub(crate) fn cli_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("cli.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of the log is JSON")).collect()
    }

    /// The prompts the played CLIs got, in order.
    pub(crate) fn cli_prompts(&self) -> Vec<String> {
        let log = self.cli_log();
        let prompts = log.iter().filter(|line| line["event"] == "prompt");
        prompts.map(|line| line["prompt"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn daemon_log(&self) -> String {
        let text = fs::read_to_string(self.home().join("log/daemon.log")).unwrap_or_default();
        let skipped = text.lines().count().saturating_sub(40);
        text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Resident {
    /// Kills everything that belongs to the house.
    pub(crate) fn end(&mut self) {
        self.remember();
        // First of all the daemon: it would start another keeper.
        if let Some(daemon) = self.daemon {
            daemon.signal(Signal::KILL);
            wait::attempt(Duration::from_secs(5), || (!daemon.alive()).then_some(()));
        }
        self.remember();
        for process in &self.known {
            process.signal(Signal::KILL);
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.end();
        if thread::panicking() {
            eprintln!("---- last lines of the daemon's log\n{}\n----", self.daemon_log());
        }
    }
}

/// Where the codecast door is now, by its port file.
pub(crate) fn codecast_address(port_file: &Path) -> io::Result<SocketAddr> {
    let text = fs::read_to_string(port_file)?;
    let port = text.trim().parse::<u16>().map_err(|_| io::Error::other(format!("no port: {text:?}")))?;
    Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))
}

/// Who listens on a socket.
fn peer_of(socket: &Path) -> Option<Identity> {
    let connection = UnixStream::connect(socket).ok()?;
    Identity::of(socket_peercred(&connection).ok()?.pid.as_raw_nonzero().get())
}
