//! A house of its own for each test, and the real program run against it.
//!
//! Whatever a test starts is ended when its house is dropped.

#![allow(dead_code)] // each test file uses its own part

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// How long anything may take before a test gives up on it: only to stop a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The runner finds processes that a test left behind by this variable.
const TEST_ID: &str = "HOSTEL_TEST_ID";

/// What a run of the program left behind.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A house in a temporary directory.
pub(crate) struct House {
    scratch: tempfile::TempDir,
}

impl House {
    pub(crate) fn new() -> Self {
        House { scratch: tempfile::tempdir().unwrap() }
    }

    /// A house that is up.
    pub(crate) fn up() -> Self {
        let house = House::new();
        let outcome = house.hostel(["up"]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        house
    }

    pub(crate) fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// The program, with nothing of the caller's environment but what it needs.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostel"));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path().join("user"))
            .env("HOSTEL_HOME", self.home())
            // Without these a program falls back to directories that the whole machine shares.
            .env("XDG_RUNTIME_DIR", self.path().join("runtime"))
            .env("TMPDIR", self.path())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(mark) = std::env::var_os(TEST_ID) {
            command.env(TEST_ID, mark);
        }
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
        let mut houses = vec![None];
        if let Ok(entries) = std::fs::read_dir(self.home().join("as")) {
            houses.extend(entries.flatten().map(|entry| Some(entry.file_name())));
        }
        for house in houses {
            let mut command = self.command();
            if let Some(house) = house {
                command.arg("--house").arg(house);
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

/// Waits for a program's end, with a bound.
pub(crate) fn finish(child: Child) -> Outcome {
    let pid = child.id().to_string();
    let (done, waiting) = std::sync::mpsc::channel();
    let guard = std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE).is_err() {
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

/// Waits until something is so, looking again after pauses that double.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(5);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}
