//! What a process inside could try, one attempt for each method of the table that is not allowed to it.

use std::collections::BTreeSet;
use std::fs;

use hostel_tests::binary;
use serde_json::{Value, json};

use super::home::{Doors, Home, PASSPHRASE};

/// Things of the owner that a process inside would like to have.
pub(crate) struct Targets {
    pub(crate) session: String,
    pub(crate) question: String,
    pub(crate) agent: String,
    pub(crate) command: String,
}

impl Targets {
    pub(crate) fn of(home: &Home) -> Self {
        let (session, question) = home.owners_session();
        let agent = home.agent_process(&session);
        let command = home.owners_process("owned");
        Targets { session, question, agent, command }
    }

    /// Everything about them that an attack could have changed.
    pub(crate) fn state(&self, home: &Home) -> Value {
        let mut owner = home.native();
        let processes = owner.ask("process/list", json!({}));
        let rows: Vec<Value> = processes["processes"]
            .as_array()
            .cloned()
            .expect("processes")
            .into_iter()
            .filter(|one| one["id"] == self.agent.as_str() || one["id"] == self.command.as_str())
            .map(|one| json!({"id": one["id"], "state": one["state"], "stdin": one["stdin_applied"], "name": one["name"]}))
            .collect();
        let status = owner.ask("house/status", json!({}));
        let session = home.session(&self.session);
        let question = owner.ask("approval/get", json!({"id": self.question}));
        json!({
            "processes": rows,
            "keeper": [status["keeper"]["pid"], status["keeper"]["since_ns"]],
            "session": [
                session["mode"], session["mesh"], session["standing"], session["name"], session["turns"],
                session["queued"], session["running_turn"],
            ],
            "question": [question["approval"]["state"], question["approval"]["decision"]],
            "approver": owner.ask("approver/status", json!({})),
            "grants": owner.ask("approval/grants", json!({})),
            "path": fs::read_to_string(home.path().join("owned.input")).unwrap_or_default(),
        })
    }
}

/// The names of a door's methods with this rule, as the document has them.
pub(crate) fn in_document(door: &str, rule: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(binary::repository().join("docs/insiders.md")).expect("the document");
    let (_, section) = text.split_once(&format!("\n### {door}\n")).unwrap_or_else(|| panic!("no section {door}"));
    let section = section.split("\n### ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (method, word) = (cells.next()?.trim_matches('`').to_owned(), cells.next()?);
        (word == rule).then_some(method)
    });
    rows.collect()
}

/// What became of an attempt, as the door answered it.
pub(crate) struct Attempt {
    pub(crate) method: &'static str,
    pub(crate) answer: Value,
}

impl Attempt {
    /// Whether a door refused it because of who asked.
    pub(crate) fn is_refused(&self) -> bool {
        let text = self.answer.to_string();
        text.contains("inside this house") && self.answer.get("result").is_none()
    }
}

/// Everything at the native socket that is denied, or that is about things of others.
pub(crate) fn native(doors: &Doors, targets: &Targets) -> Vec<Attempt> {
    let Targets { session, question, agent, command } = targets;
    let data = base64(b"{\"behavior\":\"allow\"}\n");
    let list: Vec<(&'static str, Value)> = vec![
        ("process/strays", json!({})),
        ("process/tree", json!({"id": command})),
        ("process/attach", json!({"id": command, "follow": false})),
        ("process/stdin", json!({"id": agent, "data": data})),
        ("process/stdin", json!({"id": command, "data": data})),
        ("process/close_stdin", json!({"id": agent})),
        ("process/close_stdin", json!({"id": command})),
        ("process/kill", json!({"id": agent, "signal": "KILL", "wait_ms": 100})),
        ("process/kill", json!({"id": command, "signal": "KILL", "wait_ms": 100})),
        ("process/spawn", json!({"argv": ["true"], "name": "owned", "replace": true})),
        ("journal/usage", json!({})),
        ("journal/gc", json!({"all": true})),
        ("keeper/upgrade", json!({"path": "/bin/true"})),
        ("keeper/upgrade", json!({})),
        ("house/down", json!({"keep": true})),
        ("house/down", json!({})),
        ("approval/get", json!({"id": question})),
        ("approval/why", json!({"id": question})),
        ("approval/watch", json!({})),
        ("approval/watch", json!({"face": true})),
        ("approval/shown", json!({"id": question})),
        ("approval/unlock", json!({"passphrase": PASSPHRASE})),
        ("approval/lock", json!({})),
        ("approval/decide", json!({"id": question, "decision": "allow_once", "passphrase": PASSPHRASE})),
        ("approval/grants", json!({})),
        ("approval/revoke", json!({"grant": 1, "passphrase": PASSPHRASE})),
        ("approver/status", json!({})),
        ("approver/set", json!({"passphrase": "another one", "old": PASSPHRASE})),
        ("approver/clear", json!({"passphrase": PASSPHRASE})),
        ("approver/confirm", json!({"passphrase": PASSPHRASE})),
        ("audit/show", json!({})),
        ("audit/verify", json!({})),
        ("audit/last", json!({})),
        ("session/export", json!({"session_id": session})),
    ];
    let mut all = made(doors.native(), list);
    all.extend(made(doors.native(), sessions(targets)));
    all
}

/// Everything at the zeroclaw socket, likewise.
pub(crate) fn zeroclaw(doors: &Doors, targets: &Targets) -> Vec<Attempt> {
    made(doors.zeroclaw(), sessions(targets))
}

/// The same without the one that waits for its turn, for somebody who is not refused.
pub(crate) fn sessions_without_waiting(doors: &Doors, targets: &Targets) -> Vec<Attempt> {
    let mut list = sessions(targets);
    list.retain(|(method, _)| *method != "session/prompt");
    made(doors.zeroclaw(), list)
}

/// The methods that both sockets serve.
fn sessions(targets: &Targets) -> Vec<(&'static str, Value)> {
    let Targets { session, question, .. } = targets;
    vec![
        ("tui/list", json!({})),
        ("session/new", json!({"agent_alias": "echo", "session_id": session})),
        ("session/new", json!({"agent_alias": "echo", "mode": "auto"})),
        ("session/new", json!({"agent_alias": "echo", "mesh": "on"})),
        ("session/prompt", json!({"session_id": session, "prompt": "hello"})),
        ("session/send", json!({"session_id": session, "prompt": "hello"})),
        ("session/cancel", json!({"session_id": session})),
        ("session/interrupt", json!({"session_id": session})),
        ("session/close", json!({"session_id": session})),
        ("session/kill", json!({"session_id": session})),
        ("session/delete", json!({"session_id": session})),
        ("session/attach", json!({"session_id": session, "follow": false})),
        ("session/approve", json!({"session_id": session, "request_id": question, "decision": "allow_once"})),
        ("session/configure", json!({"session_id": session, "mode": "auto"})),
        ("session/configure", json!({"session_id": session, "mesh": "on"})),
        ("session/configure", json!({"session_id": session, "name": "mine"})),
        ("session/messages", json!({"session_id": session})),
        ("session/state", json!({"session_id": session})),
        ("session/git_branch", json!({"session_id": session})),
        ("file/attach", json!({"session_id": session, "files": [{"data_b64": "aGVsbG8=", "filename": "a"}]})),
        ("fs/list_dir", json!({"path": "/"})),
        ("logs/subscribe", json!({})),
        ("logs/query", json!({})),
    ]
}

fn made(mut peer: hostel_tests::zeroclaw::Peer, list: Vec<(&'static str, Value)>) -> Vec<Attempt> {
    let call = |(method, params): (&'static str, Value)| Attempt { method, answer: peer.call(method, params) };
    list.into_iter().map(call).collect()
}

/// Everything at the claustrum socket, with the token.
pub(crate) fn claustrum(doors: &Doors, home: &Home) -> Vec<Attempt> {
    let path = json!({"path": home.work()});
    let agent = agent_name(home);
    let list: Vec<(&'static str, Value)> = vec![
        ("server.shutdown", json!({})),
        ("files.list", path.clone()),
        ("files.validate", path.clone()),
        ("files.stat", path.clone()),
        ("files.read", json!({"path": home.socket("local_token")})),
        ("files.extract_tar", json!({"archivePath": "/nowhere.tar", "destDir": home.work()})),
        ("git.info", path.clone()),
        ("git.status", path.clone()),
        ("git.list_branches", path),
        ("git.worktree_create", json!({"baseRepo": home.work(), "branchName": "b", "worktreePath": home.work()})),
        ("git.worktree_remove", json!({"baseRepo": home.work(), "worktreePath": home.work()})),
        ("process.spawn", json!({"id": "owned", "command": "/bin/true"})),
        ("process.spawn", json!({"id": agent, "command": "/bin/true"})),
        ("process.stdin", json!({"id": agent, "data": base64(b"yes\n")})),
        ("process.stdin", json!({"id": "owned", "data": base64(b"yes\n")})),
        ("process.kill", json!({"id": agent, "signal": "KILL"})),
        ("process.kill", json!({"id": "owned", "signal": "KILL"})),
        ("process.killAndWait", json!({"id": agent, "timeoutMs": 100})),
        ("process.killAndWait", json!({"id": "owned", "timeoutMs": 100})),
        ("process.reattach", json!({"id": "owned"})),
    ];
    list.into_iter().map(|(method, params)| Attempt { method, answer: doors.claustrum(method, &params) }).collect()
}

/// The name of the process of the owner's agent.
fn agent_name(home: &Home) -> String {
    let listed = home.native().ask("process/list", json!({}));
    let processes = listed["processes"].as_array().cloned().expect("processes");
    let names = processes.iter().filter_map(|process| process["name"].as_str());
    names.into_iter().find(|name| name.starts_with("echo-")).expect("an agent's process").to_owned()
}

/// Everything at the codecast port.
pub(crate) fn codecast(doors: &Doors, home: &Home, targets: &Targets) -> Vec<Attempt> {
    let session = json!({"sessionId": targets.session});
    let with = |more: Value| {
        let mut all = session.clone();
        for (key, value) in more.as_object().expect("members") {
            all[key] = value.clone();
        }
        all
    };
    let list: Vec<(&'static str, Value)> = vec![
        ("session.create", json!({"path": home.work(), "cli_type": "echo", "mode": "auto"})),
        ("session.send", with(json!({"message": "hello"}))),
        ("session.reconnect", session.clone()),
        ("session.resume", with(json!({"sdkSessionId": "another"}))),
        ("session.destroy", session.clone()),
        ("session.set_mode", with(json!({"mode": "auto"}))),
        ("session.set_model", with(json!({"model": "other"}))),
        ("session.interrupt", session.clone()),
        ("session.queue_stats", session),
    ];
    list.into_iter().map(|(method, params)| Attempt { method, answer: doors.codecast(method, &params) }).collect()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}
