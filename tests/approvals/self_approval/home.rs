//! A house of `hostel up` whose approver has a passphrase, and requests that come from elsewhere.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_tests::client::Client;
use hostel_tests::house;
use hostel_tests::sandbox::Sandbox;
use hostel_tests::sudo_proxy::moment;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, wait};
use serde_json::{Value, json};

/// What the approver knows, and here everybody else as well.
pub(crate) const PASSPHRASE: &str = "correct horse battery";

const SETTINGS: &str = r#"
[doors.claustrum]
listen = []
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
    sandbox: Sandbox,
    count: Cell<u32>,
}

impl Home {
    /// A running house with more settings.
    pub(crate) fn start(more: &str) -> Self {
        let sandbox = Sandbox::new("self");
        sandbox.write_settings(&format!("{SETTINGS}{more}"));
        let home = Self { sandbox, count: Cell::new(0) };
        let output = house::run(home.hostel(&["up"]));
        assert!(output.status.success(), "hostel up: {}", String::from_utf8_lossy(&output.stderr));
        home.sandbox.remember();
        home.native().ask("approver/set", json!({"passphrase": PASSPHRASE}));
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.sandbox.path()
    }

    pub(crate) fn hostel_home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.sandbox.work()
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
        let mut command = self.sandbox.hostel(arguments);
        command.env("ROGUE", self.path().join("rogue"));
        // A directory that programs can be put into which the daemon runs.
        let path = std::env::var("PATH").expect("a path");
        command.env("PATH", format!("{}:{path}", self.path().join("bin").display()));
        command
    }

    /// A client of the claustrum door: this process.
    pub(crate) fn claustrum(&self) -> Client {
        let token = fs::read_to_string(self.hostel_home().join("run/local_token")).expect("a token");
        Client::connect(&self.socket("claustrum.sock"), token.trim()).expect("the claustrum door accepts")
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
        wait::eventually(&format!("a request of the kind {kind}"), || {
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

    /// Waits until the command that was asked for has left its whole trace, and has run once.
    pub(crate) fn wait_for_trace(&self) {
        wait::content(&self.trace(), "the trace of the command", |text| text.ends_with('\n'));
        assert_eq!(fs::read_to_string(self.trace()).expect("a trace"), "ran\n");
    }

    /// What somebody heard, once they have.
    pub(crate) fn wait_for(&self, heard: &Path) -> String {
        // The file is put in its place when it is complete.
        wait::content(heard, "what somebody heard", |text| (!text.is_empty()).then(|| text.to_owned()))
    }
}
