//! Hosts of a mesh, each with a house and a home of its own, on one machine.
//!
//! Whatever a test starts is ended when its host is dropped: `hostel down` ends daemons and broker.

#![allow(dead_code)] // each test file uses its own part

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::common::House;
use super::common::Outcome;
use super::common::finish;
use super::common::wait_until;

/// One host.
pub(crate) struct Host {
    pub(crate) house: House,
}

impl Host {
    pub(crate) fn new() -> Self {
        Host { house: House::new() }
    }

    /// The directory of all meshes.
    pub(crate) fn meshes(&self) -> PathBuf {
        self.house.user().join(".claudemesh")
    }

    /// The directory of one mesh's daemon.
    pub(crate) fn dir(&self, mesh: &str) -> PathBuf {
        self.meshes().join("daemon").join(mesh)
    }

    /// The program under the contract's name.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.house.command();
        command.arg0("claudemesh");
        command
    }

    /// Runs a verb under the contract's name.
    pub(crate) fn claudemesh<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Outcome {
        finish(self.command().args(words).spawn().unwrap())
    }

    /// Runs a verb that has to work.
    pub(crate) fn good<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> String {
        let outcome = self.claudemesh(words);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome.out
    }

    /// Runs a verb that has to work, for its data.
    pub(crate) fn json<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Value {
        let mut command = self.command();
        command.arg("--json").args(words);
        let outcome = finish(command.spawn().unwrap());
        assert_eq!(outcome.code, 0, "{outcome:?}");
        serde_json::from_str(&outcome.out).unwrap_or_else(|error| panic!("{error} in {outcome:?}"))
    }

    /// Makes a mesh; its first invite.
    pub(crate) fn create(&self, mesh: &str, name: &str) -> String {
        let made = self.json(["create", mesh, "--name", name]);
        made["invite"].as_str().unwrap().to_owned()
    }

    pub(crate) fn join(&self, invite: &str, name: &str) -> Value {
        self.json(["join", invite, "--name", name])
    }

    /// Waits until the daemon of a mesh is connected to its broker.
    pub(crate) fn wait_connected(&self, mesh: &str) {
        let status = || {
            let mut command = self.command();
            command.args(["--json", "daemon", "status", "--mesh", mesh]);
            finish(command.spawn().unwrap())
        };
        wait_until("the daemon is connected", status, |outcome| {
            let status: Value = serde_json::from_str(&outcome.out).unwrap_or_default();
            status["health"]["connected"] == true
        });
    }

    /// Waits until something with this text is in the inbox; that item.
    pub(crate) fn wait_received(&self, body: &str) -> Value {
        let inbox = || self.json(["inbox", "--limit", "1000", "--keep-unread"]);
        let find = |items: &Value| items.as_array().unwrap().iter().find(|item| item["body"] == body).cloned();
        find(&wait_until("the message arrives", inbox, |items| find(items).is_some())).unwrap()
    }

    /// The process id of a mesh's daemon.
    pub(crate) fn daemon_pid(&self, mesh: &str) -> String {
        self.json(["daemon", "status", "--mesh", mesh])["pid"].to_string()
    }
}

/// Two hosts in mesh `lab`: alice, who made it, and bob, both connected.
pub(crate) fn pair() -> (Host, Host) {
    let (alice, bob) = (Host::new(), Host::new());
    let invite = alice.create("lab", "alice");
    bob.join(&invite, "bob");
    alice.wait_connected("lab");
    bob.wait_connected("lab");
    (alice, bob)
}
