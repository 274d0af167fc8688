//! What the most used commands print, as text and as JSON, compared with the files in `snapshots/`.
//!
//! Each test has a house with fixed names, the built-in agent and nothing of the machine in its environment. Before a
//! snapshot is taken the test waits for the state that it shows. `HOSTEL_UPDATE=1` writes the files anew.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hostel_tests::house::{path_text, run, set_base_environment};
use hostel_tests::snapshot::{self, Recorder};
use hostel_tests::{binary, wait};
use serde_json::Value;
use tempfile::TempDir;

/// The first words of the files' names: one for each test.
const AREAS: [&str; 5] = ["approvals", "house", "mesh", "processes", "sessions"];

const PASSPHRASE: &str = "correct horse battery\n";

/// What a hosted command of these tests may need. Everything else in the machine's PATH, such as real agents, would
/// change what `doctor` and `run` print.
const PROGRAMS: [&str; 2] = ["git", "sh"];

fn directory() -> PathBuf {
    binary::repository().join("tests/house/snapshots")
}

/// A user's home and house.
struct House {
    root: TempDir,
    is_in_mesh: bool,
}

impl House {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("snapshot-").tempdir().expect("a temporary directory");
        for name in ["bin", "home", "hostel", "links", "run", "work"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
            fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(0o700))
                .expect("a private directory");
        }
        for name in PROGRAMS {
            let found = ["/usr/local/bin", "/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let program = found.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed"));
            symlink(program, root.path().join("bin").join(name)).expect("a fresh link");
        }
        // The codecast door's own port may be in use on this machine, and which guard it allows differs between machines.
        let settings = "[doors.codecast]\nlisten = \"127.0.0.1:0\"\n[guard]\nsetting = \"off\"\n";
        fs::write(root.path().join("hostel/hostel.toml"), settings).expect("a settings file");
        Self { root, is_in_mesh: false }
    }

    /// A house that is up.
    fn up() -> Self {
        let house = Self::new();
        house.good(&["up"]);
        house
    }

    /// A host that may join meshes. It has no house; broker and mesh daemons are started by `hostel mesh`.
    fn in_mesh() -> Self {
        let mut house = Self::new();
        house.is_in_mesh = true;
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(words);
        set_base_environment(&mut command, &self.path("home"));
        command
            .env("PATH", self.path("bin"))
            .env("HOSTEL_HOME", self.path("hostel"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env("TZ", "UTC")
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        if self.is_in_mesh {
            command.env_remove("HOSTEL_MESH_BROKER");
        }
        command
    }

    fn hostel(&self, words: &[&str]) -> Output {
        run(self.command(words))
    }

    /// With something on its standard input.
    fn hostel_with(&self, words: &[&str], input: &str) -> Output {
        fs::write(self.path("input"), input).expect("a file takes text");
        let mut command = self.command(words);
        command.stdin(fs::File::open(self.path("input")).expect("the same file"));
        run(command)
    }

    /// A command that must succeed.
    fn good(&self, words: &[&str]) -> String {
        let output = self.hostel(words);
        assert!(output.status.success(), "hostel {words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn json(&self, words: &[&str]) -> Value {
        let text = self.good(&[&["--json"], words].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("hostel {words:?}: {error}: {text}"))
    }

    /// Waits until the JSON of a command is as wanted.
    fn wait_for(&self, what: &str, words: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let last = RefCell::new(Value::Null);
        let found = wait::attempt(wait::LIMIT, || {
            last.replace(self.json(words));
            wanted(&last.borrow()).then_some(())
        });
        assert!(found.is_some(), "waited in vain for {what}; hostel {words:?} printed last:\n{:#}", last.borrow());
        last.into_inner()
    }

    /// Waits until so many requests wait for an answer, and gives their ids.
    fn wait_for_requests(&self, count: usize) -> Vec<String> {
        let list = self.wait_for("requests", &["approvals", "list"], |list| length(&list["approvals"]) == count);
        let rows = list["approvals"].as_array().expect("a list").iter();
        rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// Waits until every session has ended its turn.
    fn wait_for_rest(&self) {
        self.wait_for("sessions to rest", &["sessions"], |list| {
            let sessions = list["sessions"].as_array().expect("a list");
            sessions.iter().all(|session| session["status"] == "idle" && session["queued"] == 0)
        });
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.root.disable_cleanup(std::thread::panicking());
        let in_mesh: [&[&str]; 2] = [&["mesh", "daemon", "down", "--all"], &["broker", "down"]];
        let commands = if self.is_in_mesh { &in_mesh[..] } else { &[&["down"][..]] };
        for words in commands {
            let output = self.hostel(words);
            // A second panic would only hide the first.
            assert!(output.status.success() || std::thread::panicking(), "hostel {words:?}: {output:?}");
        }
    }
}

fn length(list: &Value) -> usize {
    list.as_array().expect("a list").len()
}

/// Takes the snapshots of a test.
struct Camera {
    recorder: Recorder,
}

impl Camera {
    fn new(area: &str, houses: &[(&str, &House)]) -> Self {
        assert!(AREAS.contains(&area), "{area} is missing in the list of areas");
        let mut recorder = Recorder::new(directory(), area);
        for (name, house) in houses {
            recorder.replace(path_text(house.root.path()), &format!("<{name}>"));
        }
        recorder.replace(path_text(&binary::hostel()), "<hostel>");
        recorder.replace(env!("CARGO_PKG_VERSION"), "<version>");
        Self { recorder }
    }

    /// The same command as text, then as JSON.
    fn both(&mut self, name: &str, house: &House, words: &[&str]) {
        self.text(name, house, words);
        self.data(name, house, words);
    }

    fn text(&mut self, name: &str, house: &House, words: &[&str]) {
        self.recorder.record(name, words, &house.hostel(words));
    }

    fn data(&mut self, name: &str, house: &House, words: &[&str]) {
        self.text(name, house, &[&["--json"], words].concat());
    }

    fn answer(&mut self, name: &str, house: &House, words: &[&str], passphrase: &str) {
        let words = [words, &["--passphrase-fd", "0"]].concat();
        self.recorder.record(name, &words, &house.hostel_with(&words, passphrase));
    }
}

#[test]
fn every_file_belongs_to_an_area() {
    let stray: Vec<String> = snapshot::names(&directory())
        .into_iter()
        .filter(|name| !AREAS.iter().any(|area| name.starts_with(&format!("{area}-")) && name.ends_with(".txt")))
        .collect();
    assert!(stray.is_empty(), "no test takes these snapshots, remove them: {stray:?} in {}", directory().display());
}

#[test]
fn processes() {
    let house = House::up();
    let mut camera = Camera::new("processes", &[("root", &house)]);
    // The shell waits by itself: with another program there would be a moment in which `ps --tree` shows something else.
    let server = ["sh", "-c", "echo ready; read line"];
    let printed = |name: &str| {
        house.wait_for("a process to print", &["ps"], |list| {
            let processes = list["processes"].as_array().expect("a list");
            processes.iter().any(|process| process["name"] == name && process["last_seq"] == 1)
        });
    };

    camera.both("ps-empty", &house, &["ps"]);
    camera.both("run", &house, &["run", "--name", "build", "--", "sh", "-c", "printf 'one\\ntwo\\n'; exit 3"]);
    camera.both("run", &house, &["run", "--name", "complain", "--", "sh", "-c", "echo wrong >&2"]);
    camera.both("run", &house, &["run", "--name", "missing", "--", "no-such-program"]);
    camera.both("run", &house, &["run"]);
    camera.text("run-detached", &house, &[&["run", "-d", "--name", "web", "--"], &server[..]].concat());
    printed("web");
    camera.data("run-detached", &house, &[&["run", "-d", "--name", "api", "--"], &server[..]].concat());
    printed("api");
    camera.both("run-detached", &house, &[&["run", "-d", "--name", "api", "--"], &server[..]].concat());
    for words in [&["ps"][..], &["ps", "--tree"], &["ps", "-a"]] {
        camera.both("ps", &house, words);
    }
    camera.recorder.hide_sizes("ps");
    camera.both("logs", &house, &["logs", "build"]);
    camera.both("logs", &house, &["logs", "-t", "web"]);
    camera.both("logs", &house, &["logs", "nobody"]);
    camera.text("kill", &house, &["kill", "--wait", "1m", "web"]);
    camera.data("kill", &house, &["kill", "--wait", "1m", "api"]);
    camera.both("kill", &house, &["kill", "web"]);
    camera.both("kill", &house, &["kill", "nobody"]);
    camera.both("attach", &house, &["attach", "web"]);
    camera.both("attach", &house, &["attach", "nobody"]);
    camera.recorder.finish();
}

#[test]
fn sessions() {
    let house = House::up();
    let mut camera = Camera::new("sessions", &[("root", &house)]);
    camera.both("list-empty", &house, &["sessions"]);
    camera.text("run", &house, &["run", "--agent", "echo", "--name", "talk", "hello"]);
    camera.data("run", &house, &["run", "--agent", "echo", "--name", "review", "hello"]);
    camera.both("run", &house, &["run", "--agent", "nobody", "hello"]);
    camera.both("list", &house, &["sessions"]);
    camera.both("show", &house, &["sessions", "show", "talk"]);
    camera.both("show", &house, &["sessions", "show", "nobody"]);
    camera.text("send", &house, &["send", "talk", "and now the documentation"]);
    house.wait_for_rest();
    camera.data("send", &house, &["send", "review", "and now the documentation"]);
    house.wait_for_rest();
    camera.text("send", &house, &["send", "--wait", "talk", "again"]);
    camera.data("send", &house, &["send", "--wait", "review", "again"]);
    camera.both("send", &house, &["send", "nobody", "hello"]);
    camera.text("send", &house, &["send", "--wait", "talk", "fail"]);
    camera.data("send", &house, &["send", "--wait", "review", "fail"]);
    camera.both("watch", &house, &["watch", "--no-follow", "talk"]);
    camera.both("watch", &house, &["watch", "--no-follow", "nobody"]);
    camera.both("export", &house, &["sessions", "export", "talk"]);
    camera.text("export", &house, &["sessions", "export", "--format", "jsonl", "talk"]);
    camera.text("close", &house, &["sessions", "close", "talk"]);
    camera.data("close", &house, &["sessions", "close", "review"]);
    camera.both("close", &house, &["sessions", "close", "nobody"]);
    camera.both("list-all", &house, &["sessions", "--all"]);
    camera.text("delete", &house, &["sessions", "delete", "talk"]);
    camera.data("delete", &house, &["sessions", "delete", "review"]);
    camera.both("delete", &house, &["sessions", "delete", "nobody"]);
    camera.recorder.finish();
}

#[test]
fn approvals() {
    let house = House::up();
    let mut camera = Camera::new("approvals", &[("root", &house)]);
    camera.both("approver-status", &house, &["approver", "status"]);
    camera.both("list-empty", &house, &["approvals", "list"]);
    camera.answer("approver-set", &house, &["approver", "set"], "short\n");
    camera.answer("approver-set", &house, &["approver", "set"], PASSPHRASE);
    // The record of it would otherwise come anywhere between those that follow.
    house.wait_for("an endorsed segment of the audit", &["audit", "verify"], |found| {
        found["houses"][0]["segments"][0]["state"] == "endorsed"
    });
    camera.both("approver-status", &house, &["approver", "status"]);

    // One after the other, so that they are always in the same order.
    for (at, name) in ["docs", "tests", "release", "cleanup"].into_iter().enumerate() {
        house.good(&["run", "--agent", "echo", "--name", name, "-d", "approve"]);
        house.wait_for_requests(at + 1);
    }
    let ids = house.wait_for_requests(4);
    camera.both("list", &house, &["approvals", "list"]);
    camera.both("show", &house, &["approvals", "show", &ids[0]]);
    camera.both("show", &house, &["approvals", "show", "nobody"]);
    camera.both("why", &house, &["approvals", "why", &ids[0]]);
    camera.answer("approve", &house, &["approvals", "approve", &ids[0]], PASSPHRASE);
    camera.answer("approve", &house, &["approvals", "approve", &ids[0], "--digest", "0123456789ab"], PASSPHRASE);
    camera.answer("approve", &house, &["approvals", "approve", &ids[0], "--yes"], "not the passphrase\n");
    camera.answer("approve", &house, &["--json", "approvals", "approve", &ids[0], "--yes"], "not the passphrase\n");
    camera.answer("approve", &house, &["approvals", "approve", &ids[0], "--yes"], PASSPHRASE);
    camera.answer("approve", &house, &["--json", "approvals", "approve", &ids[1], "--yes"], PASSPHRASE);
    camera.answer("approve", &house, &["approvals", "approve", &ids[1], "--yes"], PASSPHRASE);
    camera.answer("approve", &house, &["--json", "approvals", "approve", &ids[1], "--yes"], PASSPHRASE);
    camera.answer("deny", &house, &["approvals", "deny", &ids[2], "--reason", "not on this branch"], PASSPHRASE);
    camera.answer("deny", &house, &["--json", "approvals", "deny", &ids[3]], PASSPHRASE);
    camera.answer("deny", &house, &["approvals", "deny", "nobody"], PASSPHRASE);
    camera.answer("deny", &house, &["--json", "approvals", "deny", "nobody"], PASSPHRASE);
    house.wait_for_rest();
    camera.both("list-all", &house, &["approvals", "list", "--all"]);
    camera.both("show-settled", &house, &["approvals", "show", &ids[0]]);
    camera.both("grants", &house, &["approvals", "grants"]);
    camera.both("audit-show", &house, &["audit", "show"]);
    camera.both("audit-verify", &house, &["audit", "verify"]);
    camera.recorder.finish();
}

#[test]
fn house() {
    let house = House::new();
    let mut camera = Camera::new("house", &[("root", &house)]);
    camera.both("errors", &house, &["ps"]);
    for words in [&[][..], &["nonsense"], &["ps", "--nonsense"], &["logs"], &["--house", "nobody", "ps"]] {
        camera.both("errors", &house, words);
    }
    camera.both("version", &house, &["--version"]);
    camera.text("help", &house, &["--help"]);
    camera.text("help", &house, &["ps", "-h"]);
    camera.both("config", &house, &["config", "path"]);
    camera.both("config", &house, &["config", "check"]);
    camera.both("config-show", &house, &["config", "show"]);
    fs::write(house.path("work/wrong.toml"), "[journal]\nquota = \"much\"\nnonsense = 1\n").expect("a file");
    camera.both("config", &house, &["config", "check", "wrong.toml"]);

    camera.both("down", &house, &["down"]);
    camera.both("up", &house, &["up"]);
    camera.both("keeper-status", &house, &["keeper", "status"]);
    house.good(&["run", "--name", "build", "--", "sh", "-c", "echo done"]);
    // One journal only: `df` shows them in the order of their ids, which are random.
    camera.both("df", &house, &["df"]);
    camera.recorder.hide_sizes("df");
    house.good(&["run", "--name", "test", "--", "sh", "-c", "echo done"]);
    camera.both("gc", &house, &["gc", "--dry-run"]);
    camera.both("gc", &house, &["gc", "--dry-run", "--all"]);
    camera.recorder.hide_sizes("gc");
    camera.text("gc", &house, &["gc", "--all"]);
    camera.text("gc", &house, &["gc", "--all", "--yes"]);
    house.good(&["run", "--name", "build", "--", "sh", "-c", "echo done"]);
    camera.data("gc", &house, &["gc", "--all", "--yes"]);
    for words in [&["doctor"][..], &["--json", "doctor"]] {
        camera.recorder.record("doctor", words, &without_the_machine(house.hostel(words)));
    }
    camera.both("link", &house, &["link", path_text(&house.path("links"))]);
    camera.both("link", &house, &["link", path_text(&house.path("nowhere"))]);
    for client in ["claude", "codex"] {
        camera.both("mcp-install", &house, &["mcp", "install", client, "--dry-run"]);
    }
    camera.text("mcp-install", &house, &["mcp", "install", "claude"]);
    camera.data("mcp-install", &house, &["mcp", "install", "claude"]);
    camera.both("service-install", &house, &["service", "install", "--kind", "systemd", "--print"]);
    for words in [&["down", "--keep"][..], &["down"]] {
        camera.text("down", &house, words);
        house.good(&["up"]);
        camera.data("down", &house, words);
        house.good(&["up"]);
    }
    camera.recorder.finish();
}

/// What `doctor` printed, without what it found out about the machine: whether root can be reached, its limits, its
/// file systems, its service manager.
fn without_the_machine(mut output: Output) -> Output {
    let of_machine =
        |check: &str| ["root", "cgroups", "open files", "journals", "space", "service", "lingering"].contains(&check);
    let text = String::from_utf8(output.stdout).expect("doctor prints text");
    output.stdout = match serde_json::from_str::<Value>(&text) {
        Ok(mut report) => {
            report["findings"]
                .as_array_mut()
                .expect("findings")
                .retain(|one| !of_machine(one["check"].as_str().unwrap()));
            format!("{report}\n").into_bytes()
        }
        Err(_) => {
            let check = |line: &str| {
                line.split_once(' ').and_then(|(_, rest)| rest.trim().split_once(':').map(|two| two.0.to_owned()))
            };
            let kept = text.split_inclusive('\n').filter(|line| !check(line).is_some_and(|check| of_machine(&check)));
            kept.collect::<String>().into_bytes()
        }
    };
    output
}

#[test]
fn mesh() {
    let [box_, ada, bob, other] = [House::in_mesh(), House::in_mesh(), House::in_mesh(), House::in_mesh()];
    let mut camera = Camera::new("mesh", &[("box", &box_), ("ada", &ada), ("bob", &bob), ("other", &other)]);
    camera.both("list", &box_, &["mesh", "list"]);
    camera.both("broker-status", &box_, &["broker", "status"]);
    camera.text("create", &box_, &["mesh", "create", "lab", "--name", "box"]);
    camera.data("create", &other, &["mesh", "create", "lab", "--name", "other"]);
    camera.both("invite", &box_, &["mesh", "invite"]);
    camera.both("invite-list", &box_, &["mesh", "invite", "list"]);
    let invites = [box_.good(&["mesh", "invite"]), box_.good(&["mesh", "invite"])];
    camera.text("join", &ada, &["mesh", "join", "--name", "ada", invites[0].trim()]);
    camera.data("join", &bob, &["mesh", "join", "--name", "bob", invites[1].trim()]);
    camera.both("join", &bob, &["mesh", "join", "--name", "bob", "nonsense"]);
    camera.both("list", &box_, &["mesh", "list"]);
    box_.wait_for("peers", &["mesh", "peers"], |peers| length(peers) == 3);
    camera.both("peers", &box_, &["mesh", "peers"]);
    camera.both("member-list", &box_, &["mesh", "member", "list"]);

    camera.both("send", &box_, &["mesh", "send", "ada", "hello"]);
    camera.both("send", &box_, &["mesh", "send", "nobody", "hello"]);
    camera.both("topics", &box_, &["mesh", "topics"]);
    camera.both("subscribe", &ada, &["mesh", "subscribe", "news"]);
    camera.both("post", &box_, &["mesh", "post", "news", "all is well"]);
    ada.wait_for("four messages", &["mesh", "inbox", "--keep-unread"], |inbox| length(inbox) == 4);
    camera.both("inbox", &ada, &["mesh", "inbox"]);
    camera.both("topics", &ada, &["mesh", "topics"]);
    camera.both("broker-status", &box_, &["broker", "status"]);
    box_.wait_for("an empty queue", &["mesh", "daemon", "status"], |status| status[0]["health"]["inflight"] == 0);
    camera.both("daemon-status", &box_, &["mesh", "daemon", "status"]);
    camera.text("leave", &bob, &["mesh", "leave"]);
    camera.data("leave", &ada, &["mesh", "leave"]);
    camera.both("inbox", &bob, &["mesh", "inbox"]);
    camera.recorder.finish();
}
