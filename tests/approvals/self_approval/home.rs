//! A house of `hostel up` whose approver has a passphrase, and requests that come from elsewhere.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hostel_tests::house::{self, set_base_environment};
use hostel_tests::procfs::{self, Identity};
use hostel_tests::sudo_proxy::moment;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, wait};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// What the approver knows, and here everybody else as well.
pub(crate) const PASSPHRASE: &str = "correct horse battery";

const SETTINGS: &str = r#"
[doors.claustrum]
enabled = false
[doors.codecast]
enabled = false
[doors.zeroclaw]
listen = []
[doors.sudo-proxy]
enabled = true
listen = []
approval_wait = "10m"
[doors.mcp]
enabled = false
"#;

/// A running house.
pub(crate) struct Home {
    root: TempDir,
    known: BTreeSet<Identity>,
    count: Cell<u32>,
}

impl Home {
    /// A running house with more settings.
    pub(crate) fn start(more: &str) -> Self {
        let root = tempfile::Builder::new().prefix("hostel-self-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home", "work"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
        }
        fs::write(root.path().join("hostel/hostel.toml"), format!("{SETTINGS}{more}")).expect("a settings file");
        let mut home = Self { root, known: BTreeSet::new(), count: Cell::new(0) };
        let output = house::run(home.hostel(&["up"]));
        assert!(output.status.success(), "hostel up: {}", String::from_utf8_lossy(&output.stderr));
        home.remember();
        home.native().ask("approver/set", json!({"passphrase": PASSPHRASE}));
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn hostel_home(&self) -> PathBuf {
        self.path().join("hostel")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    /// What the command that is asked for leaves.
    pub(crate) fn trace(&self) -> PathBuf {
        self.work().join("trace")
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.hostel_home().join("run").join(name)
    }

    /// A file for what somebody hears.
    pub(crate) fn heard(&self) -> PathBuf {
        self.count.set(self.count.get() + 1);
        self.path().join(format!("heard-{}", self.count.get()))
    }

    /// A command of hostel's with this house's environment.
    pub(crate) fn hostel(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments);
        set_base_environment(&mut command, &self.path().join("home"));
        command.env("HOSTEL_HOME", self.hostel_home());
        command.env("ROGUE", self.path().join("rogue"));
        command.stdin(Stdio::null()).current_dir(self.path());
        command
    }

    /// A client of our own socket: this process, which is outside.
    pub(crate) fn native(&self) -> Peer {
        let mut peer = Peer::connect(&self.socket("hostel.sock")).expect("our own socket accepts");
        peer.folds = false;
        peer.initialize();
        peer
    }

    /// A request line for a shell.
    pub(crate) fn request(&self, id: &str, script: &str) -> String {
        let time = format!("{}Z", moment::from_now(0));
        json!({"id": id, "time": time, "pipeline": [["sh", "-c", script]], "privileged": false}).to_string()
    }

    /// Runs a script in a tree of its own.
    pub(crate) fn detached(&self, script: &str) {
        let mut command = Command::new("setsid");
        // It begins when its parent is gone: until then it is of our own tree.
        command.args(["--fork", "sh", "-c", &format!("read -r begin\n{script}")]).current_dir(self.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("setsid can be run");
        let begin = child.stdin.take();
        assert!(child.wait().expect("it ends").success());
        drop(begin);
    }

    /// Somebody elsewhere asks for a command.
    pub(crate) fn ask_for_command(&self, id: &str, script: &str) {
        let (speaker, socket) = (binary::speaker(), self.socket("sudo.sock"));
        let heard = self.path().join(format!("{id}.answer"));
        let request = self.request(id, script);
        self.detached(&format!("'{}' '{}' '{}' '{request}'", speaker.display(), socket.display(), heard.display()));
    }

    fn list(&self) -> Vec<Value> {
        let list = self.native().ask("approval/list", json!({}));
        list["approvals"].as_array().cloned().unwrap_or_default()
    }

    /// The request of this kind, once it waits.
    pub(crate) fn pending(&self, kind: &str) -> String {
        wait::until(wait::LIMIT, &format!("a request of the kind {kind}"), || {
            let found = self.list().into_iter().find(|approval| approval["kind"] == kind)?;
            Some(found["id"].as_str().expect("an id").to_owned())
        })
    }

    /// The command that somebody asks for.
    pub(crate) fn pending_of(&self, ask: impl FnOnce(&Self)) -> String {
        ask(self);
        self.pending("pipeline")
    }

    pub(crate) fn state(&self, approval: &str) -> String {
        let kept = self.native().ask("approval/get", json!({"id": approval}));
        kept["approval"]["state"].as_str().expect("a state").to_owned()
    }

    /// What somebody heard, once they have.
    pub(crate) fn wait_for(&self, heard: &Path) -> String {
        wait::until(Duration::from_secs(40), "somebody to have tried", || fs::read_to_string(heard).ok())
    }

    fn remember(&mut self) {
        for name in ["hostel.sock", "keeper.sock"] {
            let Ok(connection) = UnixStream::connect(self.socket(name)) else { continue };
            let Ok(credentials) = socket_peercred(&connection) else { continue };
            let pid = credentials.pid.as_raw_nonzero().get();
            self.known.extend(Identity::of(pid));
            self.known.extend(procfs::descendants(pid));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.remember();
        for process in &self.known {
            process.signal(Signal::KILL);
        }
        if thread::panicking() {
            let log = fs::read_to_string(self.hostel_home().join("log/daemon.log")).unwrap_or_default();
            let skipped = log.lines().count().saturating_sub(40);
            let tail: Vec<&str> = log.lines().skip(skipped).collect();
            eprintln!("---- last lines of the daemon's log\n{}\n----", tail.join("\n"));
        }
    }
}
