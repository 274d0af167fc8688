//! Clients of the sudo-proxy door in a tree of processes of their own, so that a test may decide what they ask.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_tests::procfs::Identity;
use hostel_tests::sudo_proxy::moment;
use hostel_tests::{binary, wait};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Some requests and the process that sends them.
pub(crate) struct Askers {
    folder: TempDir,
    process: Identity,
}

/// A request by an id and the words of its command.
pub(crate) type Request = (String, Vec<String>);

/// A request for a shell that leaves its id in a file, and then does something else.
pub(crate) fn tracing(id: &str, traces: &Path, then: &str) -> Request {
    let script = format!("echo {id} >> {}; {then}", traces.display());
    (id.to_owned(), vec!["sh".to_owned(), "-c".to_owned(), script])
}

impl Askers {
    /// Clients that come back when they are cut off.
    pub(crate) fn send(socket: &Path, requests: &[Request]) -> Self {
        Self::begin(socket, requests, &[])
    }

    /// Clients that do not.
    pub(crate) fn send_once(socket: &Path, requests: &[Request]) -> Self {
        Self::begin(socket, requests, &["once"])
    }

    fn begin(socket: &Path, requests: &[Request], more: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("hostel-ask-").tempdir().expect("a temporary directory");
        for (id, argv) in requests {
            let request = json!({
                "id": id, "session": "askers", "time": format!("{}Z", moment::from_now(0)), "pipeline": [argv],
                "reason": "a test", "privileged": false,
            });
            fs::write(folder.path().join(format!("{id}.request")), format!("{request}\n")).expect("a request");
        }
        let ids: Vec<String> = requests.iter().map(|(id, _)| id.clone()).collect();
        Self::start(socket, folder, &ids, more)
    }

    /// Somebody else sends the very same bytes once more.
    pub(crate) fn repeat(&self, socket: &Path, ids: &[String]) -> Self {
        let folder = tempfile::Builder::new().prefix("hostel-ask-").tempdir().expect("a temporary directory");
        for id in ids {
            let name = format!("{id}.request");
            fs::copy(self.folder.path().join(&name), folder.path().join(&name)).expect("a copy");
        }
        Self::start(socket, folder, ids, &[])
    }

    fn start(socket: &Path, folder: TempDir, ids: &[String], more: &[&str]) -> Self {
        // Without a parent of ours it belongs to nobody's tree but its own.
        let status = Command::new("setsid")
            .arg("--fork")
            .arg(binary::asker())
            .args([socket, folder.path()])
            .args(more)
            .stdin(Stdio::null())
            .status()
            .expect("setsid can be run");
        assert!(status.success(), "setsid ended with {status}");
        let pid = wait::until(wait::LIMIT, "the clients", || fs::read_to_string(folder.path().join("pid")).ok());
        let process = Identity::of(pid.parse().expect("a pid")).expect("the clients run");
        let askers = Self { folder, process };
        for id in ids {
            wait::until_true(wait::LIMIT, "a request to be sent", || askers.file(id, "sent").exists());
        }
        askers
    }

    fn file(&self, id: &str, ending: &str) -> PathBuf {
        self.folder.path().join(format!("{id}.{ending}"))
    }

    /// The answer to a request, waited for.
    pub(crate) fn answer(&self, id: &str) -> Value {
        let file = self.file(id, "answer");
        let text = wait::until(wait::LIMIT, &format!("the answer to {id}"), || fs::read_to_string(&file).ok());
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Whether it was answered.
    pub(crate) fn is_answered(&self, id: &str) -> bool {
        self.file(id, "answer").exists()
    }

    /// Waits until a client has noticed that its daemon is gone.
    pub(crate) fn wait_lost(&self, id: &str) {
        wait::until_true(wait::LIMIT, "a client to be cut off", || self.file(id, "lost").exists());
    }

    /// All clients leave.
    pub(crate) fn leave(&self) {
        self.process.signal(Signal::KILL);
        self.process.wait_gone(wait::LIMIT);
    }
}

impl Drop for Askers {
    fn drop(&mut self) {
        self.process.signal(Signal::KILL);
    }
}

/// The ids in a file of traces, in order.
pub(crate) fn traces(path: &Path) -> Vec<String> {
    let mut ids: Vec<String> = fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect();
    ids.sort_unstable();
    ids
}
