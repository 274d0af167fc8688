//! A house that is none: it speaks our own protocol and shows whatever a test wants to be shown.
//!
//! The doors refuse most hostile strings before anybody sees them; the face must not rely on that.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// The house.
pub(crate) struct Fake {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    approvals: Value,
    watchers: Vec<UnixStream>,
    heard: Vec<Value>,
}

impl Fake {
    /// Listens below a home directory.
    pub(crate) fn listen(home: &Path) -> Self {
        std::fs::create_dir_all(home.join("run")).expect("a fresh directory");
        let listener = UnixListener::bind(home.join("run/hostel.sock")).expect("a socket");
        let shared = Arc::new(Mutex::new(Shared { approvals: json!([]), ..Shared::default() }));
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = Arc::clone(&serving);
                thread::spawn(move || serve(&stream, &serving));
            }
        });
        Self { shared }
    }

    /// Shows this and nothing else.
    pub(crate) fn show(&self, approvals: Value) {
        let mut shared = self.shared.lock().expect("no server breaks");
        let note = json!({"jsonrpc": "2.0", "method": "approval/changed", "params": {"approvals": approvals}});
        shared.approvals = approvals;
        let line = format!("{note}\n");
        shared.watchers.retain_mut(|watcher| watcher.write_all(line.as_bytes()).is_ok());
    }

    /// Every request of that name so far.
    pub(crate) fn heard(&self, method: &str) -> Vec<Value> {
        let shared = self.shared.lock().expect("no server breaks");
        shared
            .heard
            .iter()
            .filter(|request| request["method"] == method)
            .map(|request| request["params"].clone())
            .collect()
    }
}

fn serve(stream: &UnixStream, shared: &Mutex<Shared>) {
    let mut answers = stream.try_clone().expect("a second handle");
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let request: Value = serde_json::from_str(&line).expect("our own program speaks JSON");
        let mut shared = shared.lock().expect("no server breaks");
        shared.heard.push(request.clone());
        let result = match request["method"].as_str() {
            Some("initialize") => {
                json!({"protocol_version": 1, "server_version": "0", "server_pid": 1, "capabilities": []})
            }
            Some("approver/status") => json!({"set": true}),
            Some("approval/watch" | "approval/list") => json!({"approvals": shared.approvals}),
            Some("approval/why") => json!({"why": {"verdict": "it waits for a person"}}),
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        if answers.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
        if request["method"] == "approval/watch" {
            shared.watchers.push(answers.try_clone().expect("a second handle"));
        }
    }
}
