//! Nobody approves themselves.
//!
//! Whoever runs inside a house knows the passphrase here, has its sockets, its files and its command line, and still
//! decides nothing: not by our own socket, not by the zeroclaw socket, not by `hostel approvals`, and not after having
//! left its group, its session, its parents and its environment. Nor does a process of the requester's own tree decide
//! what that requester asked. Somebody outside does.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod attempts;
mod home;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use hostel_tests::{binary, wait};
use rustix::process::{Pid, Signal};
use serde_json::json;

use attempts::{Attempt, EVASIONS, Evasion};
use home::{Home, PASSPHRASE};

/// An agent's question and a command, both waiting.
struct Asked {
    session: String,
    question: String,
    command: String,
}

fn ask(home: &Home) -> Asked {
    let mut peer = home.native();
    let made = peer.ask("session/new", json!({"agent_alias": "echo", "cwd": home.work(), "mode": "ask"}));
    let session = made["session_id"].as_str().expect("an id").to_owned();
    peer.ask("session/send", json!({"session_id": session, "prompt": "approve"}));
    home.ask_for_command("outside", &format!("echo ran >> {}", home.trace().display()));
    let question = home.pending("agent_tool");
    let command = home.pending("pipeline");
    Asked { session, question, command }
}

impl Asked {
    /// Everything somebody could try.
    fn attempts(&self, home: &Home) -> Vec<Attempt> {
        let mut all = Vec::new();
        for approval in [&self.question, &self.command] {
            all.extend([
                Attempt::native(
                    "approval/decide",
                    json!({"id": approval, "decision": "allow_once", "passphrase": PASSPHRASE}),
                ),
                Attempt::unlocked(json!({"id": approval, "decision": "allow_once"})),
                Attempt::command(home, &["approvals", "approve", approval, "--yes", "--passphrase-fd", "0"]),
            ]);
        }
        let decision = json!({"session_id": self.session, "request_id": self.question, "decision": "allow_once"});
        let mut shown = decision.clone();
        shown["passphrase"] = json!(PASSPHRASE);
        all.extend([
            Attempt::native("session/approve", decision.clone()),
            Attempt::native("session/approve", shown.clone()),
            Attempt::zeroclaw("session/approve", decision),
            Attempt::zeroclaw("session/approve", shown),
            // What would help others to decide, or keep them from it.
            Attempt::native("approval/watch", json!({"face": true})),
            Attempt::native("approver/set", json!({"passphrase": "another one", "old": PASSPHRASE})),
            Attempt::native("approver/clear", json!({"passphrase": PASSPHRASE})),
            Attempt::native("approver/confirm", json!({"passphrase": PASSPHRASE})),
        ]);
        all
    }

    /// Nothing has been decided.
    fn check(&self, home: &Home, what: &str) {
        assert_eq!(home.state(&self.question), "pending", "the question, after {what}");
        assert_eq!(home.state(&self.command), "pending", "the command, after {what}");
        assert!(!home.trace().exists(), "something ran, after {what}");
        let status = home.native().ask("approver/status", json!({}));
        assert_eq!(status["set"], true, "the passphrase, after {what}");
    }

    /// Somebody outside decides both.
    fn decide(&self, home: &Home) {
        let mut person = home.native();
        person.ask(
            "session/approve",
            json!({"session_id": self.session, "request_id": self.question, "decision": "allow_once"}),
        );
        person.ask("approval/unlock", json!({"passphrase": PASSPHRASE}));
        person.ask("approval/decide", json!({"id": self.command, "decision": "allow_once"}));
        assert_eq!((home.state(&self.question), home.state(&self.command)), ("approved".into(), "approved".into()));
        home.wait_for_trace();
    }
}

/// Everything is tried in every way by a process that the house hosts.
#[test]
fn a_hosted_process_decides_nothing_and_a_person_does() {
    let home = Home::start("");
    let asked = ask(&home);
    for evasion in EVASIONS {
        for (number, attempt) in asked.attempts(&home).iter().enumerate() {
            let what = format!("{evasion:?} of attempt {number}: {attempt:?}");
            let heard = home.heard();
            let script = attempt.script(&home, evasion, &heard);
            let mut run = home.hostel(&["run", "-d", "--", "sh", "-c"]);
            run.arg(&script);
            let output = hostel_tests::house::run(run);
            assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            attempt.check_refused(&home.wait_for(&heard), &what);
            asked.check(&home, &what);
        }
    }
    // Each of them is on record.
    let mut peer = home.native();
    let audit = peer.ask("audit/show", json!({}));
    assert!(audit.to_string().contains("inside this house"), "the attempts are not in the audit");
    assert_eq!(peer.ask("audit/verify", json!({}))["broken"], json!(null));
    drop(peer);
    asked.decide(&home);
}

/// The same from inside an agent's own process, which asks and would like to answer.
#[test]
fn an_agents_process_decides_nothing() {
    let rogue = "[agents.rogue]\nkind = \"claude\"\ncommand = [\"sh\", \"-c\", \". \\\"$ROGUE\\\"\"]\n";
    let home = Home::start(rogue);
    let asked = ask(&home);
    let (script, mut tried) = (home.path().join("rogue"), Vec::new());
    let mut lines = String::new();
    for evasion in [Evasion::None, Evasion::DoubleForkEmpty] {
        for attempt in asked.attempts(&home) {
            let heard = home.heard();
            lines += &format!("{}\n", attempt.script(&home, evasion, &heard));
            tried.push((evasion, attempt, heard));
        }
    }
    fs::write(&script, lines + "cat > /dev/null\n").expect("a script");
    let mut peer = home.native();
    let made = peer.ask("session/new", json!({"agent_alias": "rogue", "cwd": home.work()}));
    peer.ask("session/send", json!({"session_id": made["session_id"], "prompt": "go"}));
    for (evasion, attempt, heard) in &tried {
        let what = format!("{evasion:?} of {attempt:?}");
        attempt.check_refused(&home.wait_for(heard), &what);
        asked.check(&home, &what);
    }
    asked.decide(&home);
}

/// What the daemon runs itself is its own child and not the keeper's; a repository can have git run anything.
#[test]
fn what_the_daemon_runs_decides_nothing() {
    let home = Home::start("[guard]\nprograms = \"path\"\n");
    let bin = home.path().join("bin");
    fs::create_dir(&bin).expect("a fresh directory");
    let asked = ask(&home);
    for evasion in EVASIONS {
        for attempt in asked.attempts(&home) {
            let what = format!("{evasion:?} of {attempt:?}");
            let heard = home.heard();
            let git = bin.join("git");
            fs::write(&git, format!("#!/bin/sh\n{}\n", attempt.script(&home, evasion, &heard))).expect("a program");
            fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("a program");
            home.claustrum().call("git.status", &json!({"path": home.work()}).to_string());
            attempt.check_refused(&home.wait_for(&heard), &what);
            asked.check(&home, &what);
        }
    }
    asked.decide(&home);
}

/// A requester outside the house has a tree of its own, and nobody of it decides: not a sibling, not a child.
#[test]
fn the_requesters_own_tree_decides_nothing() {
    let home = Home::start("");
    let question = home.pending_of(|home| {
        // It asks, and when that waits its sibling and the sibling's child try to agree.
        let request = home.request("own", &format!("echo ran >> {}", home.trace().display()));
        let speaker = binary::speaker();
        let (socket, heard) = (home.socket("sudo.sock"), home.path().join("own.answer"));
        let script = format!(
            "'{}' '{}' '{}' '{request}' &\nuntil [ -e go ]; do sleep 0.02; done\n. ./go\nwait\n",
            speaker.display(),
            socket.display(),
            heard.display()
        );
        home.detached(&script);
    });
    let decision = json!({"id": question, "decision": "allow_once", "passphrase": PASSPHRASE});
    let attempt = Attempt::native("approval/decide", decision);
    let unlocked = Attempt::unlocked(json!({"id": question, "decision": "allow_once"}));
    let by_command = Attempt::command(&home, &["approvals", "approve", &question, "--yes", "--passphrase-fd", "0"]);
    let mut tried = Vec::new();
    let mut lines = String::new();
    for attempt in [&attempt, &unlocked, &by_command] {
        for evasion in [Evasion::None, Evasion::Setsid] {
            let heard = home.heard();
            // As a sibling, and as a child of one.
            let line = attempt.script(&home, evasion, &heard);
            lines += &format!("{line}\n");
            tried.push((evasion, attempt, heard));
        }
    }
    let draft = home.path().join("go.draft");
    fs::write(&draft, lines).expect("a script");
    fs::rename(&draft, home.path().join("go")).expect("a script in its place");
    for (evasion, attempt, heard) in &tried {
        attempt.check_refused_as(&home.wait_for(heard), "own tree", &format!("{evasion:?} of {attempt:?}"));
        assert_eq!(home.state(&question), "pending");
    }
    // The same words from elsewhere are enough.
    let mut person = home.native();
    let decision = json!({"id": question, "decision": "allow_once", "passphrase": PASSPHRASE});
    person.ask("approval/decide", decision);
    home.wait_for_trace();
}

/// All houses of a directory have one approver: what one of them hosts decides in none.
#[test]
fn what_another_house_hosts_decides_nothing() {
    let home = Home::start("");
    let config = home.path().join("zeroclaw");
    fs::create_dir(&config).expect("a fresh directory");
    let mut other = home.hostel(&["as", "zeroclaw", "daemon", "--config-dir", &config.display().to_string()]);
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("another house");
    let socket = wait::eventually("the other house", || {
        let houses = fs::read_dir(home.hostel_home().join("as")).ok()?.flatten();
        let sockets = houses.map(|house| house.path().join("run/hostel.sock"));
        sockets.into_iter().find(|socket| UnixStream::connect(socket).is_ok())
    });
    let unlock = json!({"jsonrpc": "2.0", "id": 2, "method": "approval/unlock", "params": {"passphrase": PASSPHRASE}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocol_version": 1}});
    let speak = |heard: &Path| {
        let (speaker, socket, heard) = (binary::speaker(), socket.display(), heard.display());
        format!("'{}' '{socket}' '{heard}' '{hello}' '{unlock}'", speaker.display())
    };
    for hidden in ["", "env -i ", "env -i setsid --fork "] {
        let heard = home.heard();
        let mut run = home.hostel(&["run", "-d", "--", "sh", "-c"]);
        run.arg(format!("{hidden}{}", speak(&heard)));
        assert!(hostel_tests::house::run(run).status.success());
        let heard = home.wait_for(&heard);
        assert!(heard.contains("inside this house"), "{hidden}: {heard}");
    }
    let heard = home.heard();
    home.detached(&speak(&heard));
    let heard = home.wait_for(&heard);
    assert!(heard.contains(r#""unlocked":true"#), "{heard}");
    let ended = Pid::from_raw(other.id().try_into().expect("an id")).expect("an id");
    rustix::process::kill_process(ended, Signal::TERM).expect("it runs");
    other.wait().expect("its end");
}
