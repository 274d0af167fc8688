//! Two hosts in a mesh whose agent `fake` does what its prompt says, and sessions launched there.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use hostel_tests::binary;
use hostel_tests::claudemesh::letter;
use hostel_tests::mcp::Place;
use hostel_tests::wait;
use hostel_tests::zeroclaw::Peer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A host whose agent `fake` does what its prompt says.
pub(crate) struct Host(pub(crate) Place);

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.0.hostel(&["down"]));
    }
}

impl Host {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let fake = binary::testchild().with_file_name("fakecli").display().to_string();
        fs::create_dir_all(place.house()).unwrap();
        let log = place.path("agent.log").display().to_string();
        let settings = format!(
            "[agents.fake]\nkind = \"claude\"\nmode = \"auto\"\ncommand = [{fake:?}, \"claude\"]\n\
             env = {{ FAKECLI_LOG = {log:?} }}\n"
        );
        fs::write(place.house().join("hostel.toml"), settings).unwrap();
        Self(place)
    }

    /// The program under the contract's name.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.0.command(binary::hostel());
        command.arg0("claudemesh");
        command
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.command().arg("--json").args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn good(&self, words: &[&str]) {
        let output = self.command().args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    pub(crate) fn code(&self, words: &[&str]) -> (i32, String) {
        let output = self.command().args(words).stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.command().args(["--json", "daemon", "status", "--mesh", "lab"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    pub(crate) fn key(&self) -> String {
        self.json(&["list"])[0]["pubkey"].as_str().unwrap().to_owned()
    }

    /// Who is called so and connected, as this host sees it.
    pub(crate) fn peer(&self, name: &str) -> Option<Value> {
        let peers = self.json(&["peers"]);
        peers.as_array().unwrap().iter().find(|peer| peer["displayName"] == name).cloned()
    }

    pub(crate) fn wait_peer(&self, name: &str) -> Value {
        wait::eventually(&format!("the session {name} to be seen"), || {
            let peers = self.json(&["peers"]);
            let found = peers.as_array().unwrap().iter().find(|peer| peer["displayName"] == name).cloned();
            found.ok_or_else(|| peers.to_string())
        })
    }

    pub(crate) fn wait_no_peer(&self, name: &str) {
        wait::until_true(wait::LIMIT * 2, "the session to be gone", || self.peer(name).is_none());
    }

    /// Waits for a message with this text in the whole inbox.
    pub(crate) fn wait_received(&self, body: &str) -> Value {
        wait::eventually(&format!("the message {body:?}"), || {
            let inbox = self.json(&["inbox", "--keep-unread", "--limit", "1000"]);
            let found = inbox.as_array().unwrap().iter().find(|item| item["body"] == body).cloned();
            found.ok_or_else(|| inbox.to_string())
        })
    }

    /// The house, asked as a person's own program asks it.
    pub(crate) fn house(&self) -> Peer {
        let mut peer = Peer::connect(&self.0.house().join("run/hostel.sock")).unwrap();
        peer.initialize();
        peer
    }

    /// Kills the house's daemon at once, and starts another.
    pub(crate) fn restart_house(&self) {
        let mut peer = Peer::connect(&self.0.house().join("run/hostel.sock")).unwrap();
        let pid = i32::try_from(peer.initialize()["server_pid"].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        wait::until_true(wait::LIMIT, "the house to be gone", || {
            fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
        });
        self.0.up();
    }

    /// Kills the daemon of mesh `lab` at once.
    pub(crate) fn kill_mesh_daemon(&self) {
        let status = self.status();
        let pid = status["pid"].as_i64().unwrap_or_else(|| panic!("no pid in {status}"));
        let pid = i32::try_from(pid).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        wait::until_true(wait::LIMIT, "the daemon to be gone", || self.status()["running"] == false);
    }

    /// Everything an agent was given, in order, as the agents themselves wrote it down.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let log = fs::read_to_string(self.0.path("agent.log")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let prompts = lines.filter(|line| line["event"] == "prompt");
        prompts.map(|line| line["prompt"].as_str().unwrap().to_owned()).collect()
    }

    /// The texts of the messages among them.
    pub(crate) fn letters(&self) -> Vec<String> {
        self.prompts().iter().filter_map(|prompt| letter(prompt)).collect()
    }

    /// Waits until there are this many, and gives them.
    pub(crate) fn wait_letters(&self, count: usize) -> Vec<String> {
        wait::eventually(&format!("{count} messages to be put to the agent"), || {
            let letters = self.letters();
            if letters.len() >= count { Ok(letters) } else { Err(format!("{letters:?}")) }
        })
    }

    /// Waits until so many requests wait for an answer, and gives them.
    pub(crate) fn wait_pending(&self, count: usize) -> Vec<Value> {
        wait::until(wait::LIMIT, &format!("{count} requests"), || {
            let pending = self.house().ask("approval/list", json!({}))["approvals"].as_array().unwrap().clone();
            if pending.len() == count { Ok(pending) } else { Err(format!("{pending:?}")) }
        })
    }

    pub(crate) fn decide(&self, request: &Value, decision: &str) {
        let answer = json!({"session_id": "", "request_id": request["id"], "decision": decision});
        self.house().ask("session/approve", answer);
    }

    /// The live session of the house that has this name, once it is there.
    pub(crate) fn session(&self, name: &str) -> Value {
        wait::until(wait::LIMIT, "the session", || {
            let peer = Peer::connect(&self.0.house().join("run/hostel.sock")).ok();
            let rows = peer.map(|mut peer| {
                peer.initialize();
                peer.ask("session/list", json!({}))["sessions"].as_array().unwrap().clone()
            });
            rows.into_iter().flatten().find(|row| row["name"] == name)
        })
    }

    /// What is left of tokens.
    pub(crate) fn tokens(&self) -> usize {
        fs::read_dir(self.0.house().join("launch")).map_or(0, |files| files.flatten().count())
    }
}

/// Two hosts in mesh `lab`, both connected.
pub(crate) fn pair() -> (Host, Host) {
    let (alice, bob) = (Host::new(), Host::new());
    let made = alice.json(&["create", "lab", "--name", "alice"]);
    bob.good(&["join", made["invite"].as_str().unwrap(), "--name", "bob"]);
    for host in [&alice, &bob] {
        wait::until_true(wait::LIMIT, "the daemon to be connected", || host.status()["health"]["connected"] == true);
    }
    (alice, bob)
}

/// A launched session whose prompts come from a pipe.
pub(crate) struct Launched {
    pub(crate) child: Child,
    prompts: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Launched {
    pub(crate) fn start(host: &Host, name: &str) -> Self {
        Self::with(host, name, &[])
    }

    /// The same with more options.
    pub(crate) fn with(host: &Host, name: &str, more: &[&str]) -> Self {
        let mut command = host.command();
        command.args(["launch", "--agent", "fake", "--name", name]).args(more);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (prompts, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (say, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, prompts, answers }
    }

    pub(crate) fn ask(&mut self, prompt: &str) {
        writeln!(self.prompts.as_mut().unwrap(), "{prompt}").unwrap();
    }

    /// Has the agent run a verb, and waits for a line of its answer that has this in it.
    pub(crate) fn verb(&mut self, words: &str, wanted: &str) -> String {
        self.ask(&format!("tool {} mesh {words}", binary::hostel().display()));
        self.wait(wanted)
    }

    /// Waits for a line of its answers that has this in it.
    pub(crate) fn wait(&mut self, wanted: &str) -> String {
        let mut heard = Vec::new();
        let over = loop {
            match self.answers.recv_timeout(wait::LIMIT * 2) {
                Ok(line) if line.contains(wanted) => return line,
                Ok(line) => heard.push(line),
                Err(over) => break over,
            }
        };
        // What the command complained of is above, in the output of this test.
        panic!("no {wanted:?} in {heard:?}: {over}; the command: {:?}", self.child.try_wait());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.prompts = None;
        wait::until(wait::LIMIT, "the end of the command", || self.child.try_wait().unwrap())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
