//! A house of `hostel up` with a directory of its own, and somebody who can answer its questions.
//!
//! Who answers runs outside of the test's own tree of processes, as a person's terminal would: one inside the
//! requester's tree is refused.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::{binary, process, wait};

const PASSPHRASE: &str = "a passphrase of the tests";

/// A house and its surroundings.
#[derive(Debug)]
pub struct Place {
    sandbox: Sandbox,
    runs: AtomicUsize,
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// A place where nothing runs yet.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn new() -> Self {
        let sandbox = Sandbox::new("mcp");
        // A house is made by whoever starts it; a server that must not start one leaves nothing.
        fs::remove_dir(sandbox.hostel_home()).expect("an empty directory");
        fs::write(sandbox.join("passphrase"), format!("{PASSPHRASE}\n")).expect("the passphrase");
        Self { sandbox, runs: AtomicUsize::new(0) }
    }

    /// A house that is up and has a passphrase.
    pub fn with_house() -> Self {
        let place = Self::new();
        place.up();
        place.set_passphrase();
        place
    }

    /// Somewhere below.
    pub fn path(&self, name: &str) -> PathBuf {
        self.sandbox.join(name)
    }

    /// `HOSTEL_HOME`.
    pub fn house(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    /// A command with nothing but this place around it.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.sandbox.command(program.as_ref());
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOSTEL_DOORS_CODECAST_ENABLED", "false").current_dir(self.sandbox.work());
        command
    }

    /// Runs `hostel`.
    pub fn hostel(&self, words: &[&str]) -> Output {
        let mut command = self.command(binary::hostel());
        command.args(words);
        process::run(command)
    }

    /// Runs `hostel`, which must succeed, and gives what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn succeed(&self, words: &[&str]) -> String {
        let output = self.hostel(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Starts the house.
    pub fn up(&self) {
        self.succeed(&["up"]);
    }

    /// Sets the approver's passphrase.
    ///
    /// # Panics
    /// If it is not taken.
    pub fn set_passphrase(&self) {
        let (code, printed) = self.outside(&["approver", "set", "--passphrase-fd", "3"]);
        assert_eq!(code, 0, "{printed}");
    }

    /// Answers a request with the passphrase: `["approve", id]` or `["deny", id, …]`.
    ///
    /// # Panics
    /// If the answer is not taken.
    pub fn answer(&self, words: &[&str]) {
        let unread: &[&str] = if words.contains(&"approve") { &["--yes"] } else { &[] };
        let words: Vec<&str> = [&["approvals"], words, unread, &["--passphrase-fd", "3"]].concat();
        let (code, printed) = self.outside(&words);
        assert_eq!(code, 0, "{printed}");
    }

    /// Runs `hostel` as nobody's child, with the passphrase on descriptor 3.
    fn outside(&self, words: &[&str]) -> (i32, String) {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let (out, done) = (self.path(&format!("out-{number}")), self.path(&format!("done-{number}")));
        // Nobody's child once the shell is gone: before that it is of our tree, and may not answer what we ask.
        let script = r#"out=$1 done=$2; shift 2; (while kill -0 $$ 2>&-; do sleep 0.01; done
            "$@" >"$out" 2>&1 3<"$PASSPHRASE"; echo $? >"$done.part"; mv "$done.part" "$done") &"#;
        let status = self
            .command("sh")
            .env("PASSPHRASE", self.path("passphrase"))
            .args(["-c", script, "outside"])
            .args([&out, &done])
            .arg(binary::hostel())
            .args(words)
            .stdin(Stdio::null())
            .status()
            .expect("a shell");
        assert!(status.success());
        let code = wait::content(&done, "the exit code of a command outside", |text| text.trim().parse::<i32>());
        (code, fs::read_to_string(&out).unwrap_or_default())
    }

    /// What waits for an answer, oldest first.
    ///
    /// # Panics
    /// If the house cannot be asked.
    pub fn pending(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.succeed(&["approvals", "list", "--json"])).expect("JSON");
        let mut found = list["approvals"].as_array().expect("a list").clone();
        found.reverse();
        found
    }

    /// Waits until this many wait for an answer.
    pub fn wait_pending(&self, count: usize) -> Vec<Value> {
        wait::eventually(&format!("{count} pending requests"), || {
            let pending = self.pending();
            if pending.len() == count { Ok(pending) } else { Err(format!("{pending:?}")) }
        })
    }

    /// The state of a request.
    pub fn state(&self, id: &str) -> String {
        let shown: Value =
            serde_json::from_str(&self.succeed(&["approvals", "list", "--all", "--json"])).expect("JSON");
        let all = shown["approvals"].as_array().expect("a list");
        let found = all.iter().find(|approval| approval["id"] == id).expect("a known approval");
        found["state"].as_str().expect("a state").to_owned()
    }

    /// The daemon's process.
    ///
    /// # Panics
    /// If there is none.
    pub fn daemon(&self) -> i32 {
        let status: Value = serde_json::from_str(&self.succeed(&["up", "--json"])).expect("JSON");
        let pid = status["status"]["pid"].as_i64().expect("a pid");
        i32::try_from(pid).expect("a pid")
    }

    /// Where the MCP door listens, and its token.
    ///
    /// # Panics
    /// If it does not.
    pub fn door(&self) -> (SocketAddr, String) {
        let port = fs::read_to_string(self.house().join("run/mcp.port")).expect("the port's file");
        let token = fs::read_to_string(self.house().join("run/local_token")).expect("the token's file");
        let port: u16 = port.trim().parse().expect("a port");
        (SocketAddr::from(([127, 0, 0, 1], port)), token.trim().to_owned())
    }
}
