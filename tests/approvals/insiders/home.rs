//! A house with every door open, things in it that belong to somebody else, and processes inside that want them.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_tests::client::Client;
use hostel_tests::house::run;
use hostel_tests::sandbox::Sandbox;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, wait};
use serde_json::{Value, json};

pub(crate) const PASSPHRASE: &str = "correct horse battery";

const SETTINGS: &str = r#"
[doors.claustrum]
listen = []
[doors.codecast]
listen = "127.0.0.1:0"
[doors.zeroclaw]
listen = []
[doors.sudo-proxy]
listen = []
[agents.rogue]
kind = "claude"
command = ["sh", "-c", ". \"$ROGUE\""]
"#;

/// A running house whose approver has a passphrase.
pub(crate) struct Home {
    sandbox: Sandbox,
}

impl Home {
    pub(crate) fn start(more: &str) -> Self {
        Self::with_settings(&format!("{SETTINGS}{more}"))
    }

    /// The same, with more settings of the codecast door.
    pub(crate) fn start_codecast(more: &str) -> Self {
        Self::with_settings(&SETTINGS.replace("[doors.codecast]\n", &format!("[doors.codecast]\n{more}\n")))
    }

    fn with_settings(settings: &str) -> Self {
        let sandbox = Sandbox::new("insiders");
        sandbox.write_settings(settings);
        let home = Self { sandbox };
        home.up();
        home.native().ask("approver/set", json!({"passphrase": PASSPHRASE}));
        home
    }

    pub(crate) fn up(&self) {
        let output = run(self.hostel(&["up"]));
        assert!(output.status.success(), "hostel up: {}", String::from_utf8_lossy(&output.stderr));
        self.sandbox.remember();
    }

    pub(crate) fn hostel_home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    pub(crate) fn path(&self) -> &Path {
        self.sandbox.path()
    }

    pub(crate) fn user_home(&self) -> PathBuf {
        self.sandbox.home()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.sandbox.work()
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.sandbox.hostel_home().join("run").join(name)
    }

    pub(crate) fn hostel(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.hostel(words);
        command.env("ROGUE", self.path().join("rogue")).current_dir(self.work());
        command
    }

    /// The token of the claustrum door, which every process of the user can read.
    pub(crate) fn token(&self) -> String {
        let token = fs::read_to_string(self.socket("local_token")).expect("a token");
        token.trim().to_owned()
    }

    /// The address of the codecast door.
    pub(crate) fn codecast_address(&self) -> String {
        let port = fs::read_to_string(self.socket("http.port")).expect("the port is told in its file");
        format!("127.0.0.1:{}", port.trim())
    }

    /// The owner of the house: this process, which is outside.
    pub(crate) fn owner(&self) -> Doors {
        Doors {
            native: self.socket("hostel.sock"),
            zeroclaw: self.socket("zeroclaw.sock"),
            claustrum: self.socket("claustrum.sock"),
            sudo: self.socket("sudo.sock"),
            codecast: Way::Tcp(self.codecast_address()),
            token: self.token(),
        }
    }

    pub(crate) fn native(&self) -> Peer {
        native(&self.socket("hostel.sock"))
    }

    /// A hosted process through which everything is said. `how` starts the relay in another way, by `$RELAY`.
    pub(crate) fn hosted(&self, name: &str, how: &str) -> Doors {
        let (relay, doors) = self.relay(name);
        let mut run_it = self.hostel(&["run", "-d", "--name", name, "--", "sh", "-c"]);
        run_it.arg(how.replace("$RELAY", &relay));
        let output = run(run_it);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        doors.wait()
    }

    /// A session whose agent's process is spoken through, in a mode: the doors, and the session's id.
    pub(crate) fn agent(&self, name: &str, mode: &str) -> (Doors, String) {
        let (relay, doors) = self.relay(name);
        fs::write(self.path().join("rogue"), format!("{relay} &\ncat > /dev/null\n")).expect("a script");
        let mut peer = self.native();
        let made = peer.ask("session/new", json!({"agent_alias": "rogue", "cwd": self.work(), "mode": mode}));
        let session = made["session_id"].as_str().expect("an id").to_owned();
        peer.ask("session/send", json!({"session_id": session, "prompt": "go"}));
        (doors.wait(), session)
    }

    /// The command line of a relay to every door, and where it will listen.
    fn relay(&self, name: &str) -> (String, Doors) {
        let owner = self.owner();
        let place = |door: &str| self.path().join(format!("{name}-{door}"));
        let Way::Tcp(address) = &owner.codecast else { panic!("a port") };
        let pairs = [
            (place("native"), owner.native.display().to_string()),
            (place("zeroclaw"), owner.zeroclaw.display().to_string()),
            (place("claustrum"), owner.claustrum.display().to_string()),
            (place("sudo"), owner.sudo.display().to_string()),
            (place("codecast"), format!("tcp:{address}")),
        ];
        let words: Vec<String> =
            pairs.iter().map(|(listen, target)| format!("'{}' '{target}'", listen.display())).collect();
        let doors = Doors {
            native: place("native"),
            zeroclaw: place("zeroclaw"),
            claustrum: place("claustrum"),
            sudo: place("sudo"),
            codecast: Way::Unix(place("codecast")),
            token: self.token(),
        };
        (format!("'{}' {}", binary::relay().display(), words.join(" ")), doors)
    }

    /// The records of the audit of one kind.
    pub(crate) fn audit(&self, kind: &str) -> Vec<Value> {
        let shown = self.native().ask("audit/show", json!({"limit": 10000}));
        let records = shown["records"].as_array().cloned().expect("records");
        records.into_iter().filter(|record| record["kind"] == kind).collect()
    }

    /// A process of the owner that reads its input, as its id.
    pub(crate) fn owners_process(&self, name: &str) -> String {
        let script = format!("cat > '{}'", self.path().join(format!("{name}.input")).display());
        let spawned = self.native().ask("process/spawn", json!({"argv": ["sh", "-c", script], "name": name}));
        spawned["id"].as_str().expect("an id").to_owned()
    }

    /// A session of the owner that asks a question, as its id and that of the question.
    pub(crate) fn owners_session(&self) -> (String, String) {
        let mut peer = self.native();
        let made = peer.ask("session/new", json!({"agent_alias": "echo", "cwd": self.work(), "mode": "ask"}));
        let session = made["session_id"].as_str().expect("an id").to_owned();
        peer.ask("session/send", json!({"session_id": session, "prompt": "approve"}));
        let question = wait::eventually("a question", || {
            let list = self.native().ask("approval/list", json!({}));
            let found = list["approvals"].as_array()?.iter().find(|one| one["session_id"] == session.as_str())?.clone();
            Some(found["id"].as_str()?.to_owned())
        });
        (session, question)
    }

    /// The process of a session's agent, as its id.
    pub(crate) fn agent_process(&self, session: &str) -> String {
        wait::eventually("the agent's process", || {
            let list = self.native().ask("session/list", json!({}));
            let rows = list["sessions"].as_array()?.clone();
            let pid = rows.iter().find(|row| row["session_id"] == session)?.get("pid")?.clone();
            let listed = self.native().ask("process/list", json!({}));
            let processes = listed["processes"].as_array()?.clone();
            Some(processes.iter().find(|process| process["pid"] == pid)?["id"].as_str()?.to_owned())
        })
    }

    /// A session as it is listed.
    pub(crate) fn session(&self, id: &str) -> Value {
        let list = self.native().ask("session/list", json!({"all": true}));
        let rows = list["sessions"].as_array().cloned().expect("sessions");
        rows.into_iter().find(|row| row["session_id"] == id).unwrap_or_else(|| panic!("there is no session {id}"))
    }
}

fn native(socket: &Path) -> Peer {
    let mut peer = Peer::connect(socket).expect("the native socket accepts");
    peer.folds = false;
    peer.initialize();
    peer
}

/// How a door is reached.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Unix(PathBuf),
    Tcp(String),
}

/// The doors of a house, as somebody reaches them.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    native: PathBuf,
    zeroclaw: PathBuf,
    claustrum: PathBuf,
    sudo: PathBuf,
    codecast: Way,
    token: String,
}

impl Doors {
    fn wait(self) -> Self {
        let Way::Unix(last) = &self.codecast else { return self };
        wait::eventually("the relay to listen", || last.exists().then_some(()));
        self
    }

    pub(crate) fn native(&self) -> Peer {
        native(&self.native)
    }

    pub(crate) fn zeroclaw(&self) -> Peer {
        let mut peer = Peer::connect(&self.zeroclaw).expect("the zeroclaw socket accepts");
        peer.initialize();
        peer
    }

    /// One claustrum request: the whole answer.
    pub(crate) fn claustrum(&self, method: &str, params: &Value) -> Value {
        let mut client = Client::connect(&self.claustrum, &self.token).expect("the claustrum socket accepts");
        serde_json::from_str(&client.call(method, &params.to_string())).expect("an answer")
    }

    /// Whether there is a claustrum socket: for an agent under its guard there is none.
    pub(crate) fn has_claustrum(&self) -> bool {
        let stream = UnixStream::connect(&self.claustrum).expect("the relay accepts");
        stream.set_read_timeout(Some(wait::limit())).expect("a time limit");
        let token = &self.token;
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "server.ping", "params": {}, "auth": token});
        // A relay that reaches nobody closes the connection, perhaps before this.
        (&stream).write_all(format!("{ping}\n").as_bytes()).ok();
        let mut answer = String::new();
        match BufReader::new(stream).read_line(&mut answer) {
            Ok(count) => count > 0,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// One sudo-proxy request line: the whole answer.
    pub(crate) fn sudo(&self, line: &Value) -> Value {
        let mut stream = UnixStream::connect(&self.sudo).expect("the sudo-proxy socket accepts");
        stream.set_read_timeout(Some(wait::limit())).expect("a time limit");
        stream.write_all(format!("{line}\n").as_bytes()).expect("a line");
        let mut heard = String::new();
        stream.read_to_string(&mut heard).expect("an answer");
        serde_json::from_str(heard.trim()).unwrap_or_else(|error| panic!("{error}: {heard:?}"))
    }

    /// One codecast call: the whole answer, or the events of a stream as a list.
    pub(crate) fn codecast(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params}).to_string();
        let request = format!(
            "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut heard = String::new();
        match &self.codecast {
            Way::Unix(path) => {
                let mut stream = UnixStream::connect(path).expect("the relay accepts");
                stream.set_read_timeout(Some(wait::limit())).expect("a time limit");
                stream.write_all(request.as_bytes()).expect("a request");
                stream.read_to_string(&mut heard).expect("an answer");
            }
            Way::Tcp(address) => {
                let mut stream = std::net::TcpStream::connect(address).expect("the codecast door accepts");
                stream.set_read_timeout(Some(wait::limit())).expect("a time limit");
                stream.write_all(request.as_bytes()).expect("a request");
                stream.read_to_string(&mut heard).expect("an answer");
            }
        }
        let (_, body) = heard.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no body: {heard:?}"));
        match serde_json::from_str(body) {
            Ok(answer) => answer,
            Err(_) => json!({ "stream": body }),
        }
    }
}
