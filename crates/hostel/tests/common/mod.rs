//! A house of its own for each test, and the real program run against it.
//!
//! Whatever a test starts is ended when its house is dropped.

#![allow(dead_code)] // each test file uses its own part

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// The limit against hangs: whatever takes longer never happens. HOSTEL_TEST_SCALE stretches it.
pub(crate) fn limit() -> Duration {
    let scale = std::env::var("HOSTEL_TEST_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    Duration::from_secs(120).mul_f64(scale)
}

/// The variable by which the runner of the tests finds what a test leaves behind.
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
        let scratch = tempfile::tempdir().unwrap();
        for name in ["runtime", "tmp"] {
            std::fs::DirBuilder::new().mode(0o700).create(scratch.path().join(name)).unwrap();
        }
        House { scratch }
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
            .env("XDG_RUNTIME_DIR", self.path().join("runtime"))
            .env("TMPDIR", self.path().join("tmp"))
            .envs(std::env::var_os(TEST_ID).map(|id| (TEST_ID, id)))
            .current_dir(self.path())
            .stdin(Stdio::null())
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

/// Observes again and again, with growing pauses, until it is as wanted; gives that observation, or fails with the last.
pub(crate) fn wait_until<T: Debug>(what: &str, mut observe: impl FnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + limit();
    let mut pause = Duration::from_millis(5);
    loop {
        let observed = observe();
        if wanted(&observed) {
            return observed;
        }
        assert!(Instant::now() < end, "waited in vain until {what}; last seen: {observed:?}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// A port that nobody else uses while this process lives, nor the hundred behind it.
///
/// The kernel gives ports of its own choice from a range above these, so that no connection and no listener of anybody
/// takes one of them meanwhile. Tests, also those of another clone, tell each other by names in the same namespace.
pub(crate) fn own_port() -> u16 {
    for block in 0..170_u16 {
        let name = SocketAddr::from_abstract_name(format!("hostel-test-ports-{block}")).unwrap();
        let Ok(claim) = UnixListener::bind_addr(&name) else { continue };
        let port = 10_000 + block * 128;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            // Until this process ends.
            std::mem::forget(claim);
            return port;
        }
    }
    panic!("all ports for tests are in use");
}
