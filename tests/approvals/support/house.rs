//! A house that is up, requests that come in by its sudo-proxy door, and the command line.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_tests::house::run;
use hostel_tests::procfs::Identity;
use hostel_tests::sandbox::Sandbox;
use hostel_tests::sudo_proxy::moment;
use hostel_tests::{binary, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What everybody who may approve knows here.
pub(crate) const PASSPHRASE: &str = "correct horse battery";

/// What a run of the program left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A house.
pub(crate) struct House {
    sandbox: Sandbox,
    environment: Vec<(String, String)>,
}

impl House {
    /// A house that is up, without a passphrase.
    pub(crate) fn up() -> Self {
        Self::up_with("", &[])
    }

    /// A house that is up and whose approver has a passphrase.
    pub(crate) fn with_passphrase() -> Self {
        let house = Self::up();
        house.set_passphrase();
        house
    }

    /// A house with these settings and variables.
    pub(crate) fn up_with(settings: &str, environment: &[(&str, &str)]) -> Self {
        // The codecast door's own port may be anybody's on this machine.
        let settings = format!("[doors.codecast]\nlisten = \"127.0.0.1:0\"\n{settings}");
        let sandbox = Sandbox::new("inbox");
        sandbox.write_settings(&settings);
        let environment = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let house = Self { sandbox, environment };
        house.start();
        house
    }

    pub(crate) fn start(&self) {
        let outcome = self.hostel(&["up"]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }

    pub(crate) fn set_passphrase(&self) {
        let outcome = self.hostel_with(&["approver", "set", "--passphrase-fd", "0"], &format!("{PASSPHRASE}\n"));
        assert_eq!(outcome.code, 0, "{outcome:?}");
    }

    pub(crate) fn path(&self) -> &Path {
        self.sandbox.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox.hostel_home()
    }

    /// The program with these words.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.hostel(words);
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.current_dir(self.sandbox.work());
        command
    }

    pub(crate) fn hostel(&self, words: &[&str]) -> Outcome {
        outcome(&run(self.command(words)))
    }

    /// With something on its standard input.
    pub(crate) fn hostel_with(&self, words: &[&str], input: &str) -> Outcome {
        let file = self.sandbox.path().join("input");
        let mut written = fs::File::create(&file).expect("a file");
        written.write_all(input.as_bytes()).expect("a file takes text");
        let mut command = self.command(words);
        command.stdin(fs::File::open(&file).expect("the same file"));
        outcome(&run(command))
    }

    /// Answers with the passphrase. What is approved is not read.
    pub(crate) fn answer(&self, words: &[&str]) -> Outcome {
        let unread: &[&str] = if words.contains(&"approve") { &["--yes"] } else { &[] };
        let words: Vec<&str> = [&["approvals"], words, unread, &["--passphrase-fd", "0"]].concat();
        self.hostel_with(&words, &format!("{PASSPHRASE}\n"))
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let outcome = self.hostel(words);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        serde_json::from_str(&outcome.out).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }

    /// What waits, as the list has it.
    pub(crate) fn pending(&self) -> Vec<Value> {
        self.json(&["approvals", "list", "--json"])["approvals"].as_array().expect("a list").clone()
    }

    /// Waits until so many requests wait, and gives their ids.
    pub(crate) fn waiting(&self, count: usize) -> Vec<String> {
        wait::eventually(&format!("{count} requests to wait"), || {
            let pending = self.pending();
            let ids = pending.iter().map(|row| row["id"].as_str().expect("an id").to_owned());
            if pending.len() == count { Ok(ids.collect()) } else { Err(format!("{pending:?}")) }
        })
    }

    /// A client in a tree of processes of its own sends a request; its answer is waited for elsewhere.
    pub(crate) fn ask(&self, name: &str, more: &Value) -> Asked {
        let folder = self.sandbox.path().join(format!("ask-{name}"));
        fs::create_dir(&folder).expect("a fresh directory");
        let mut request = json!({"id": name, "host": "workstation", "session": "project-alpha",
            "time": format!("{}Z", moment::from_now(0)), "reason": "a test", "privileged": false});
        for (key, value) in more.as_object().expect("members") {
            request[key] = value.clone();
        }
        fs::write(folder.join("it.request"), format!("{request}\n")).expect("a request");
        let status = Command::new("setsid")
            .arg("--fork")
            .arg(binary::asker())
            .args([&self.home().join("run/sudo.sock"), &folder])
            .stdin(Stdio::null())
            .status()
            .expect("setsid can be run");
        assert!(status.success(), "{status}");
        let pid = wait::content(&folder.join("pid"), "a pid", str::parse::<i32>);
        if let Some(client) = Identity::of(pid) {
            self.sandbox.adopt(client);
        }
        Asked { folder }
    }

    /// The same for one command.
    pub(crate) fn ask_run(&self, name: &str, argv: &[&str]) -> Asked {
        self.ask(name, &json!({"pipeline": [argv]}))
    }

    /// Ends the daemon as a crash would; processes run on.
    pub(crate) fn crash(&self) {
        let lock = fs::read_to_string(self.home().join("run/daemon.lock")).expect("a lock");
        let daemon = Identity::of(lock.trim().parse().expect("a pid")).expect("a daemon");
        daemon.signal(Signal::KILL);
        daemon.wait_gone(wait::LIMIT);
    }
}

fn outcome(output: &std::process::Output) -> Outcome {
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let outcome = outcome(&run(self.command(&["down"])));
        // A second panic would only hide the first.
        assert!(outcome.code == 0 || std::thread::panicking(), "{outcome:?}");
    }
}

/// A request that was sent.
pub(crate) struct Asked {
    folder: PathBuf,
}

impl Asked {
    /// Whether the door has answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.folder.join("it.answer").exists()
    }

    /// The door's answer.
    pub(crate) fn answer(&self) -> Value {
        wait::json(&self.folder.join("it.answer"))
    }
}
