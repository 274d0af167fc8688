//! The real program, run in a sandbox of its own for each test.
//!
//! Sandbox, waits and ports are those of the black-box tests (`hostel_tests`); this adds the program of this crate and
//! the commands that its tests repeat. Whatever a test starts is ended when its house is dropped.

#![allow(dead_code)] // each test file uses its own part

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

pub(crate) use hostel_tests::ports::own_port;
use hostel_tests::sandbox::Sandbox;
use hostel_tests::wait;
pub(crate) use hostel_tests::wait::limit;

/// What a run of the program left behind.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A house in a temporary directory.
pub(crate) struct House {
    sandbox: Sandbox,
}

impl House {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::new("cli");
        // The program makes this directory itself, and these tests look when it does.
        std::fs::remove_dir(sandbox.hostel_home()).unwrap();
        House { sandbox }
    }

    /// A house that is up.
    pub(crate) fn up() -> Self {
        let house = House::new();
        let outcome = house.hostel(["up"]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        house
    }

    /// The directory that holds everything of this test.
    pub(crate) fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// `HOSTEL_HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    /// `HOME`.
    pub(crate) fn user(&self) -> PathBuf {
        self.sandbox.home()
    }

    /// `XDG_RUNTIME_DIR`.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.sandbox.join("run")
    }

    /// The program, with nothing of the caller's environment but what it needs.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.sandbox.command(env!("CARGO_BIN_EXE_hostel"));
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            // These tests use the broker that a mesh brings with it.
            .env_remove("HOSTEL_MESH_BROKER")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The program under the name `claustrum`.
    pub(crate) fn claustrum(&self) -> Command {
        let mut command = self.command();
        command.arg0("claustrum");
        command
    }

    pub(crate) fn hostel<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Outcome {
        finish(self.command().args(words).spawn().unwrap())
    }

    pub(crate) fn hostel_with_input<I: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = I>,
        input: &[u8],
    ) -> Outcome {
        let mut child = self.command().args(words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        finish(child)
    }

    pub(crate) fn json<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> serde_json::Value {
        let outcome = self.hostel(words);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        serde_json::from_str(&outcome.out).unwrap()
    }

    /// The daemon's process id.
    pub(crate) fn daemon(&self) -> String {
        let lock = std::fs::read_to_string(self.home().join("run/daemon.lock")).unwrap();
        lock.trim().to_owned()
    }

    /// Ends the daemon as a crash would.
    pub(crate) fn crash(&self) {
        send("KILL", &self.daemon());
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for house in self.sandbox.houses() {
            let mut command = self.command();
            if house != self.home() {
                command.arg("--house").args(house.file_name());
            }
            let ended = command.arg("down").output().unwrap();
            // A second panic would only hide the first.
            assert!(ended.status.success() || std::thread::panicking(), "{ended:?}");
        }
    }
}

/// Sends a signal to one process.
pub(crate) fn send(signal: &str, pid: &str) {
    let status = Command::new("kill").args(["-s", signal, pid]).status().unwrap();
    assert!(status.success(), "kill -s {signal} {pid}");
}

/// Waits for the end of a program whose output is piped.
pub(crate) fn finish(child: Child) -> Outcome {
    let pid = child.id().to_string();
    let (done, waiting) = std::sync::mpsc::channel();
    let guard = std::thread::spawn(move || {
        if waiting.recv_timeout(limit()).is_err() {
            send("KILL", &pid);
        }
    });
    let output = child.wait_with_output().unwrap();
    done.send(()).ok();
    guard.join().unwrap();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Observes until the observation is as wanted and gives it; fails with the last observation.
pub(crate) fn wait_until<T: Debug>(what: &str, mut observe: impl FnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    wait::eventually(what, || {
        let observed = observe();
        if wanted(&observed) { Ok(observed) } else { Err(format!("{observed:?}")) }
    })
}
