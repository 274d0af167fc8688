//! A house that is up, in a sandbox of its own, with the doors under test.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hostel_tests::house::{path_text, run};
use hostel_tests::sandbox::Sandbox;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{procfs, wait};
use serde_json::Value;

/// A house.
pub(crate) struct Stage {
    sandbox: Sandbox,
    path: String,
    codecast: Option<SocketAddr>,
    keeper: i32,
    /// Why agents here have less than a complete guard.
    no_guard: Option<String>,
    limit: Duration,
}

impl Stage {
    /// A place for a house in which programs of `bin` are found first; nothing waits longer than `limit`.
    pub(crate) fn prepare(bin: &Path, limit: Duration) -> Self {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
        let path = format!("{}:{path}", path_text(bin));
        Self { sandbox: Sandbox::new("agents"), path, codecast: None, keeper: 0, no_guard: None, limit }
    }

    /// Opens the house with this entry for its agent.
    pub(crate) fn open(&mut self, agent: &str) {
        // An empty list means a free port, told when the house is up.
        let settings = format!(
            "[doors.claustrum]\nenabled = false\n\n[doors.codecast]\nlisten = []\n\n[doors.zeroclaw]\nlisten = []\n\n{agent}"
        );
        self.sandbox.write_settings(&settings);
        let output = run(self.hostel(&["up", "--json"]));
        assert!(output.status.success(), "hostel up: {}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).expect("what hostel up says is JSON");
        let status = &told["status"];
        self.keeper = i32::try_from(status["keeper"]["pid"].as_i64().unwrap_or(0)).expect("a process id");
        let guard = &status["guard"];
        self.no_guard = (guard["active"] != "full").then(|| guard["why_not_stronger"].to_string());
        let doors = status["doors"].as_array().expect("a list of doors");
        let address = doors.iter().find(|door| door["name"] == "codecast" && door["open"] == true);
        let address = address.and_then(|door| door["address"].as_str()).expect("an open codecast door");
        self.codecast = Some(address.parse().expect("an address"));
    }

    fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.hostel(arguments);
        command.env("PATH", &self.path);
        command
    }

    /// The directory everything lies in.
    pub(crate) fn root(&self) -> &Path {
        self.sandbox.path()
    }

    /// How long anything may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// A file of the house that exists while the house is up.
    pub(crate) fn secret(&self) -> PathBuf {
        self.sandbox.hostel_home().join("state.db")
    }

    /// Why agents here have less than a complete guard; none if they have one.
    pub(crate) fn no_guard(&self) -> Option<&str> {
        self.no_guard.as_deref()
    }

    /// A fresh directory for a session to work in.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        let path = self.sandbox.work().join(name);
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
        let mut peer = Peer::connect(&self.sandbox.hostel_home().join("run").join(socket)).expect("the socket accepts");
        peer.set_limit(self.limit);
        peer.initialize();
        peer
    }

    /// Waits until the keeper has no child left.
    pub(crate) fn expect_nobody(&self) {
        wait::until(self.limit, "the processes of closed sessions to end", || {
            let left = procfs::descendants(self.keeper).into_iter().filter(|process| process.alive());
            let left: Vec<String> = left.map(|process| procfs::command_line(process.pid)).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
    }
}
