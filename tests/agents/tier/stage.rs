//! A house that is up, in a directory of its own, with a clean environment and the doors under test.
//!
//! When it goes out of scope it is taken down, and whatever is left of daemon, keeper and agents is killed by pid and
//! start time.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hostel_tests::house::{path_text, run, set_base_environment};
use hostel_tests::procfs::{self, Identity};
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, wait};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// A house.
pub(crate) struct Stage {
    root: TempDir,
    path: String,
    codecast: Option<SocketAddr>,
    processes: BTreeSet<Identity>,
    keeper: i32,
    limit: Duration,
}

impl Stage {
    /// A place for a house in which programs of `bin` are found first; nothing waits longer than `limit`.
    pub(crate) fn prepare(bin: &Path, limit: Duration) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-agents-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home", "work"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
        }
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        let path = format!("{}:{path}", path_text(bin));
        Self { root, path, codecast: None, processes: BTreeSet::new(), keeper: 0, limit }
    }

    /// Opens the house with this entry for its agent.
    pub(crate) fn open(&mut self, agent: &str) {
        // An empty list means a free port, told when the house is up.
        let settings = format!(
            "[doors.claustrum]\nenabled = false\n\n[doors.codecast]\nlisten = []\n\n[doors.zeroclaw]\nlisten = []\n\n{agent}"
        );
        fs::write(self.root.path().join("hostel/hostel.toml"), settings).expect("the settings can be written");
        let output = run(self.hostel(&["up", "--json"]));
        assert!(output.status.success(), "hostel up: {}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).expect("what hostel up says is JSON");
        let status = &told["status"];
        let pid = |value: &Value| i32::try_from(value.as_i64().unwrap_or(0)).expect("a process id");
        self.keeper = pid(&status["keeper"]["pid"]);
        self.processes.extend([pid(&status["pid"]), self.keeper].into_iter().filter_map(Identity::of));
        let doors = status["doors"].as_array().expect("a list of doors");
        let address = doors.iter().find(|door| door["name"] == "codecast" && door["open"] == true);
        let address = address.and_then(|door| door["address"].as_str()).expect("an open codecast door");
        self.codecast = Some(address.parse().expect("an address"));
    }

    fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments).stdin(Stdio::null()).current_dir(self.root.path());
        set_base_environment(&mut command, &self.root.path().join("home"));
        command.env("PATH", &self.path).env("HOSTEL_HOME", self.root.path().join("hostel"));
        command
    }

    /// The directory everything lies in.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// How long anything may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// A fresh directory for a session to work in.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        let path = self.root.path().join("work").join(name);
        fs::create_dir(&path).expect("a directory of its own");
        path
    }

    /// The codecast door.
    pub(crate) fn codecast(&self) -> SocketAddr {
        self.codecast.expect("the house is open")
    }

    /// A client of the zeroclaw door.
    pub(crate) fn zeroclaw(&self) -> Peer {
        self.client("zeroclaw.sock")
    }

    /// A client of the house's own socket.
    pub(crate) fn native(&self) -> Peer {
        self.client("hostel.sock")
    }

    fn client(&self, socket: &str) -> Peer {
        let mut peer = Peer::connect(&self.root.path().join("hostel/run").join(socket)).expect("the socket accepts");
        peer.set_limit(self.limit);
        peer.initialize();
        peer
    }

    /// Waits until the keeper has no child left.
    pub(crate) fn expect_nobody(&self) {
        let nobody = || procfs::descendants(self.keeper).iter().all(|process| !process.alive());
        if wait::attempt(self.limit, || nobody().then_some(())).is_none() {
            let left = procfs::descendants(self.keeper);
            let left: Vec<String> = left.iter().map(|process| procfs::command_line(process.pid)).collect();
            panic!("sessions are closed, but there are still: {left:#?}");
        }
    }

    fn remember(&mut self) {
        self.processes.extend(procfs::descendants(self.keeper));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.remember();
        if self.codecast.is_some() {
            // Whether this works is for other tests to say; here it only must be over.
            self.hostel(&["down"]).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
        }
        self.remember();
        for process in &self.processes {
            process.signal(Signal::KILL);
        }
        if thread::panicking() {
            let log = fs::read_to_string(self.root.path().join("hostel/log/daemon.log")).unwrap_or_default();
            let skipped = log.lines().count().saturating_sub(40);
            let tail: Vec<&str> = log.lines().skip(skipped).collect();
            eprintln!("---- last lines of the daemon's log\n{}\n----", tail.join("\n"));
        }
    }
}
