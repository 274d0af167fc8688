//! A house of an ordinary user with a passphrase, an agent without a guard and one with it, and the owner outside.
//!
//! The agents are `fakecli`, whose prompt `tool COMMAND` runs a command. Attacks are functions of the Python files in
//! `attacker`, which an agent runs as its tool. The owner speaks through a relay that runs as the same user outside.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hostel_tests::client::Client;
use hostel_tests::procfs::Identity;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::Place;

/// What the approver knows. The attacker knows it as well, unless a test says otherwise.
pub(crate) const PASSPHRASE: &str = "correct horse battery";

/// Tells the test how far an attack is; waits for what the test has to say.
const SIGNALS: &str = "work/signals";

pub(crate) const ATTACKER: [(&str, &str); 10] = [
    ("doors.py", include_str!("attacker/doors.py")),
    ("deciding.py", include_str!("attacker/deciding.py")),
    ("exact.py", include_str!("attacker/exact.py")),
    ("house.py", include_str!("attacker/house.py")),
    ("input.py", include_str!("attacker/input.py")),
    ("limits.py", include_str!("attacker/limits.py")),
    ("others.py", include_str!("attacker/others.py")),
    ("programs.py", include_str!("attacker/programs.py")),
    ("rows.py", include_str!("attacker/rows.py")),
    ("rules.py", include_str!("attacker/rules.py")),
];

/// Whether the attacker's session has a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Off,
    Auto,
}

/// Every attack is made with and without a guard. What breaks the house for whoever comes next is without one, so that
/// stands last.
pub(crate) const BOTH: [Guard; 2] = [Guard::Auto, Guard::Off];

impl Guard {
    /// The agent that has it.
    pub(crate) fn agent(self) -> &'static str {
        match self {
            Guard::Off => "bare",
            Guard::Auto => "fake",
        }
    }
}

/// A house and what surrounds it.
pub(crate) struct Scene {
    pub(crate) place: Place,
    relay: Child,
    count: Cell<u32>,
    codecast: String,
    mcp: String,
}

impl Scene {
    /// A house with more settings.
    pub(crate) fn up(more: &str) -> Self {
        Self::prepare(more, |_| {})
    }

    /// The same, with something done to the place before the house is started.
    pub(crate) fn prepare(more: &str, prepare: impl FnOnce(&mut Place)) -> Self {
        let mut place = Place::new();
        for (name, text) in ATTACKER {
            place.write(&format!("work/attacker/{name}"), text);
        }
        place.write(&format!("{SIGNALS}/.keep"), "");
        prepare(&mut place);
        write_settings(&place, more);
        place.start();
        let address = fs::read_to_string(place.home().join("run/http.port")).expect("the port is told in its file");
        let codecast = format!("127.0.0.1:{}", address.trim());
        let relay = start_relay(&place);
        let mut scene = Scene { place, relay, count: Cell::new(0), codecast, mcp: String::new() };
        let doors = scene.owner().ask("house/status", json!({}))["doors"].clone();
        let mcp =
            doors.as_array().and_then(|doors| doors.iter().find(|door| door["name"] == "mcp")?["address"].as_str());
        scene.mcp = mcp.unwrap_or_default().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        scene.owner().ask("approver/set", json!({"passphrase": PASSPHRASE}));
        scene
    }

    /// Whether agents get both layers here.
    pub(crate) fn is_full(&self) -> bool {
        self.place.is_full()
    }

    /// The owner at the house's own socket: a process of the user outside of the house.
    pub(crate) fn owner(&self) -> Peer {
        let mut peer = Peer::connect(&self.place.path().join("owner-hostel")).expect("the relay accepts");
        peer.folds = false;
        peer.initialize();
        peer
    }

    /// The owner at the claustrum door: the whole answer.
    pub(crate) fn claustrum(&self, method: &str, params: &Value) -> Value {
        let socket = self.place.path().join("owner-claustrum");
        let mut client = Client::connect(&socket, &self.token()).expect("the relay accepts");
        serde_json::from_str(&client.call(method, &params.to_string())).expect("an answer")
    }

    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.place.home().join("run/local_token")).expect("a token").trim().to_owned()
    }

    fn next(&self) -> u32 {
        self.count.set(self.count.get() + 1);
        self.count.get()
    }

    /// A file that does not exist, in the directory where agents work.
    pub(crate) fn witness(&self, name: &str) -> PathBuf {
        self.place.work().join(format!("{name}-{}", self.next()))
    }

    /// What every attack knows.
    fn facts(&self, more: &Value, signals: &Path) -> Value {
        let mut facts = json!({
            "house": self.place.home(),
            "home": self.place.sandbox.home(),
            "hostel": self.place.hostel,
            "passphrase": PASSPHRASE,
            "token": self.token(),
            "codecast": self.codecast,
            "mcp": self.mcp,
            "signals": signals,
        });
        for (key, value) in more.as_object().expect("members") {
            facts[key] = value.clone();
        }
        facts
    }

    /// The command line of an attack: the words, and where it leaves what it found.
    fn words(&self, function: &str, facts: &Value) -> (Vec<String>, Attack) {
        let number = self.next();
        self.place.write(&format!("{SIGNALS}/{number}/.keep"), "");
        let signals = self.place.path().join(SIGNALS).join(number.to_string());
        let facts = self.facts(facts, &signals).to_string();
        let facts = self.place.write(&format!("work/facts-{number}.json"), &facts);
        let result = self.place.work().join(format!("result-{number}.json"));
        let program = self.place.work().join("attacker/doors.py");
        let words = [
            "python3".to_owned(),
            program.display().to_string(),
            function.to_owned(),
            facts.display().to_string(),
            result.display().to_string(),
        ];
        (words.to_vec(), Attack { signals, result, user: self.place.user, child: None })
    }

    /// Begins an attack in a session of its own.
    pub(crate) fn begin(&self, guard: Guard, function: &str, facts: &Value) -> Attack {
        self.begin_in(guard, "auto", function, facts)
    }

    /// The same in another mode.
    pub(crate) fn begin_in(&self, guard: Guard, mode: &str, function: &str, facts: &Value) -> Attack {
        let (words, attack) = self.words(function, facts);
        let mut command = self.place.command(&self.place.hostel);
        command.args(["run", "--agent", guard.agent(), "--mode", mode, &format!("tool {}", words.join(" "))]);
        attack.with(command)
    }

    /// An attack to its end: what it found.
    pub(crate) fn attack(&self, guard: Guard, function: &str, facts: &Value) -> Value {
        self.begin(guard, function, facts).end()
    }

    /// Begins the same in a process of the user outside of every house.
    pub(crate) fn begin_outside(&self, function: &str, facts: &Value) -> Attack {
        let (words, attack) = self.words(function, facts);
        let mut command = self.place.command(&words[0]);
        command.args(&words[1..]);
        attack.with(command)
    }

    /// Begins the same in a process that carries the mark and descends from no keeper that lives: what a dead keeper leaves
    /// behind, a hook, or a child of the login shell.
    pub(crate) fn begin_left_behind(&self, function: &str, facts: &Value) -> Attack {
        let (words, attack) = self.words(function, facts);
        let mut command = self.place.command("prlimit");
        // What the keeper gives to a hosted process.
        command.arg("--locks=9223372036854775805").args(words);
        attack.with(command)
    }

    /// The same to its end.
    pub(crate) fn outside(&self, function: &str, facts: &Value) -> Value {
        self.begin_outside(function, facts).end()
    }

    /// A session whose agent starts an attack in the background and then asks whether it may run a command.
    pub(crate) fn begin_asking(&self, guard: Guard, function: &str, facts: &Value, command: &str) -> (String, Attack) {
        let (words, attack) = self.words(function, facts);
        let prompt = format!("tool {} </dev/null >/dev/null 2>&1 &\nask {command}", words.join(" "));
        let made = self.place.json(&["run", "-d", "--agent", guard.agent(), "--mode", "ask", &prompt]);
        (made["session_id"].as_str().unwrap_or_else(|| panic!("an id: {made}")).to_owned(), attack)
    }

    /// A session of the owner's that asks a question: both ids.
    pub(crate) fn asking_session(&self) -> (String, String) {
        let mut owner = self.owner();
        let made = owner.ask("session/new", json!({"agent_alias": "echo", "cwd": self.place.work(), "mode": "ask"}));
        let session = made["session_id"].as_str().expect("an id").to_owned();
        owner.ask("session/send", json!({"session_id": session, "prompt": "approve"}));
        let question = self.question_of(&session);
        (session, question)
    }

    /// What is pending, once `fits` finds something among it.
    fn pending_that(&self, what: &str, fits: impl Fn(&Value) -> bool) -> String {
        let mut owner = self.owner();
        wait::eventually(what, || {
            let listed = owner.ask("approval/list", json!({"limit": 1000}))["approvals"].clone();
            let found = listed.as_array().and_then(|all| all.iter().find(|one| fits(one)).cloned());
            found.and_then(|one| Some(one["id"].as_str()?.to_owned())).ok_or(listed)
        })
    }

    pub(crate) fn question_of(&self, session: &str) -> String {
        self.pending_that("a question of the session", |one| one["session_id"] == session)
    }

    /// The pending command whose words have this one.
    pub(crate) fn command_with(&self, word: &str) -> String {
        self.pending_that("the command", |one| one["kind"] != "agent_tool" && one.to_string().contains(word))
    }

    pub(crate) fn pending(&self) -> Vec<Value> {
        self.owner().ask("approval/list", json!({"limit": 1000}))["approvals"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn state(&self, approval: &str) -> String {
        let kept = self.owner().ask("approval/get", json!({"id": approval}));
        kept["approval"]["state"].as_str().expect("a state").to_owned()
    }

    /// The approver decides.
    pub(crate) fn decide(&self, approval: &str, decision: &str) -> Value {
        let params = json!({"id": approval, "decision": decision, "passphrase": PASSPHRASE});
        self.owner().call("approval/decide", params)
    }

    pub(crate) fn approve(&self, approval: &str) {
        let answer = self.decide(approval, "allow_once");
        assert!(answer.get("error").is_none(), "{answer}");
    }

    /// The owner answers an agent's question.
    pub(crate) fn approve_tool(&self, session: &str, question: &str) {
        let decision = json!({"session_id": session, "request_id": question, "decision": "allow_once"});
        self.owner().ask("session/approve", decision);
    }

    /// Waits until a file exists.
    pub(crate) fn wait_for(&self, path: &Path) {
        wait::eventually(&format!("{} to exist", path.display()), || path.exists());
    }

    /// Everything that waits is denied.
    pub(crate) fn deny_all(&self) {
        for waiting in self.pending() {
            self.decide(waiting["id"].as_str().expect("an id"), "reject");
        }
    }

    /// A session as it is listed.
    pub(crate) fn session(&self, id: &str) -> Value {
        let list = self.owner().ask("session/list", json!({"all": true}));
        let rows = list["sessions"].as_array().cloned().expect("sessions");
        rows.into_iter().find(|row| row["session_id"] == id).unwrap_or_else(|| panic!("there is no session {id}"))
    }

    pub(crate) fn messages(&self, session: &str) -> String {
        self.owner().ask("session/messages", json!({"session_id": session}))["messages"].to_string()
    }

    /// The process of a session's agent: its id and its name.
    pub(crate) fn agent_process(&self, session: &str) -> (String, String) {
        wait::eventually("the agent's process", || {
            let pid = self.session(session).get("pid")?.clone();
            let listed = self.owner().ask("process/list", json!({}));
            let found = listed["processes"].as_array()?.iter().find(|process| process["pid"] == pid)?.clone();
            Some((found["id"].as_str()?.to_owned(), found["name"].as_str()?.to_owned()))
        })
    }

    pub(crate) fn process(&self, id: &str) -> Value {
        let listed = self.owner().ask("process/list", json!({}));
        let rows = listed["processes"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("there is no process {id}"))
    }

    pub(crate) fn keeper(&self) -> Value {
        self.owner().ask("house/status", json!({}))["keeper"].clone()
    }

    pub(crate) fn keeper_pid(&self) -> i32 {
        self.keeper()["pid"].as_i64().and_then(|pid| pid.try_into().ok()).expect("a pid")
    }

    pub(crate) fn daemon_pid(&self) -> i32 {
        self.place.sandbox.daemons().first().expect("a daemon").pid
    }

    /// Kills the daemon and starts it again.
    pub(crate) fn restart(&self) {
        let daemon = *self.place.sandbox.daemons().first().expect("a daemon");
        daemon.signal(Signal::KILL);
        daemon.wait_gone(wait::LIMIT);
        self.place.start();
    }

    /// Waits until a process has ended.
    pub(crate) fn wait_end(&self, pid: i32) {
        if let Some(process) = Identity::of(pid) {
            process.wait_gone(wait::LIMIT);
        }
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let shown = self.owner().ask("audit/show", json!({"limit": 10000}));
        shown["records"].as_array().cloned().expect("records")
    }

    /// What is wrong with the record; null if nothing is.
    pub(crate) fn broken(&self) -> Value {
        self.owner().ask("audit/verify", json!({}))["broken"].take()
    }

    /// Whether tampering was recorded and reported.
    pub(crate) fn is_alarmed(&self) -> bool {
        let alarms = self.owner().ask("approver/status", json!({}))["alarms"].as_array().map_or(0, Vec::len);
        alarms > 0 && self.records().iter().any(|record| record["kind"] == "tampered")
    }

    /// Nothing decided this: neither the state nor the record says so.
    pub(crate) fn check_not_approved(&self, approval: &str, what: &str) {
        assert_ne!(self.state(approval), "approved", "{what}");
        let approved = |record: &Value| {
            record["approval"] == approval && record["kind"] == "decided" && record["body"]["state"] == "approved"
        };
        let found: Vec<Value> = self.records().into_iter().filter(approved).collect();
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.relay.kill().ok();
        self.relay.wait().ok();
    }
}

fn write_settings(place: &Place, more: &str) {
    let fake = format!("kind = \"claude\"\nmode = \"auto\"\ncommand = [{:?}]\n", place.path().join("claude"));
    place.sandbox.write_settings(&format!(
        "[limits]\nreconnect = \"0s\"\n[doors.codecast]\nlisten = \"127.0.0.1:0\"\n[doors.claustrum]\nlisten = []\n[doors.zeroclaw]\nlisten = []\n\
         [doors.sudo-proxy]\nlisten = []\napproval_wait = \"10m\"\n[agents.fake]\n{fake}[agents.bare]\n{fake}guard = \"off\"\n{more}"
    ));
    place.own(&place.home());
}

/// A process of the user outside of the house, through which the test speaks as the owner.
fn start_relay(place: &Place) -> Child {
    let program = place.path().join("relay");
    fs::copy(binary::relay(), &program).expect("a copy that the user can execute");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = place.command(&program);
    let listen = |name: &str| place.path().join(format!("owner-{name}"));
    for name in ["hostel", "claustrum"] {
        command.arg(listen(name)).arg(place.home().join(format!("run/{name}.sock")));
    }
    let child = command.spawn().expect("the relay starts");
    wait::eventually("the relay to listen", || listen("claustrum").exists());
    child
}

/// An attack that runs.
pub(crate) struct Attack {
    signals: PathBuf,
    result: PathBuf,
    user: u32,
    child: Option<Child>,
}

impl Attack {
    fn with(mut self, mut command: Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the attack starts"));
        self
    }

    /// Waits until the attack has come that far; gives what it said.
    pub(crate) fn wait_reached(&self, name: &str) -> String {
        let path = self.signals.join(name);
        wait::eventually(&format!("the attack to reach {name}"), || {
            self.check_crash();
            fs::read_to_string(&path).ok()
        })
    }

    pub(crate) fn has_reached(&self, name: &str) -> bool {
        self.signals.join(name).exists()
    }

    /// Has the attack go on.
    pub(crate) fn tell(&self, name: &str, text: &str) {
        let (draft, path) = (self.signals.join(format!("{name}.draft")), self.signals.join(name));
        fs::write(&draft, format!("{text}\n")).expect("a signal");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&draft, Some(self.user), Some(self.user)).expect("an owner");
        }
        fs::rename(draft, path).expect("a signal in its place");
    }

    fn found(&self) -> Option<Value> {
        let found = fs::read_to_string(&self.result).ok()?;
        Some(serde_json::from_str(&found).expect("JSON"))
    }

    /// A programme that broke attacks nothing.
    fn check_crash(&self) {
        let crashed = self.found().and_then(|found| found["crashed"].as_str().map(str::to_owned));
        assert_eq!(crashed, None, "the attack itself is wrong");
    }

    /// Waits for the end of the attack: what it found.
    pub(crate) fn end(mut self) -> Value {
        if let Some(mut child) = self.child.take() {
            wait::end_of(&mut child, "the attack");
        }
        let found = wait::eventually("what the attack found", || self.found());
        self.check_crash();
        found
    }
}

impl Attack {
    /// As [`Attack::end`] for an attack that may end itself: what it found, if it came that far.
    pub(crate) fn end_anyhow(mut self) -> Option<Value> {
        if let Some(mut child) = self.child.take() {
            wait::end_of(&mut child, "the attack");
        }
        self.check_crash();
        self.found()
    }
}
