//! Hooks of a host: scripts, their policy, and what the daemon writes down of their runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use super::client::Transport;
use super::host::Host;

/// The beginning of a script that speaks with its daemon: `event` is what it was told, `call` asks the daemon.
pub const SPEAKS: &str = r#"#!/usr/bin/python3
import json, os, socket, sys
event = json.load(sys.stdin)
own = os.environ.get("CLAUDEMESH_CAPABILITY_TOKEN")
def call(method, path, body=None, token=own):
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ["CLAUDEMESH_DAEMON_SOCK"])
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    s.sendall(head.encode() + b"\r\n" + data)
    answer = b""
    while True:
        some = s.recv(65536)
        if not some:
            break
        answer += some
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        word = json.loads(body).get("error")
    except ValueError:
        word = None
    return [int(head.split()[1]), word]
def reply(value):
    print(json.dumps({"reply": json.dumps(value)}))
"#;

impl Host {
    /// Where its hooks are.
    pub fn hooks(&self) -> PathBuf {
        self.directory().join("hooks")
    }

    /// Puts a hook there that may be run.
    ///
    /// # Panics
    /// If it cannot.
    pub fn put_hook(&self, name: &str, script: &str) {
        let hooks = self.hooks();
        fs::create_dir_all(&hooks).expect("a directory");
        fs::set_permissions(&hooks, fs::Permissions::from_mode(0o700)).expect("a mode");
        // Beside it first: a script that runs cannot be written to.
        let (fresh, path) = (hooks.join(format!(".{name}.new")), hooks.join(name));
        fs::write(&fresh, script).expect("a file");
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o700)).expect("a mode");
        fs::rename(&fresh, &path).expect("it takes its place");
    }

    /// Writes `hooks.toml`.
    ///
    /// # Panics
    /// If it cannot.
    pub fn put_policy(&self, text: &str) {
        let hooks = self.hooks();
        fs::create_dir_all(&hooks).expect("a directory");
        fs::set_permissions(&hooks, fs::Permissions::from_mode(0o700)).expect("a mode");
        fs::write(hooks.join("hooks.toml"), text).expect("a file");
    }

    /// What a hook has written beside itself; nothing if it has not.
    pub fn hook_output(&self, name: &str) -> String {
        fs::read_to_string(self.hooks().join(name)).unwrap_or_default()
    }

    /// Lines of the log with this name.
    pub fn logged(&self, msg: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.directory().join("daemon.log")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["msg"] == msg).collect()
    }

    /// The value of a metric whose line contains all of these.
    pub fn metric(&self, name: &str, parts: &[&str]) -> u64 {
        let text = self.client(Transport::Socket).get("/v1/metrics").text();
        let fits = |line: &&str| line.starts_with(&format!("{name}{{")) && parts.iter().all(|part| line.contains(part));
        let values = text.lines().filter(fits).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }
}
