//! F8: hooks of a mesh. A confined hook reaches no socket of the house; one that has a token reaches it, and decides nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_tests::claudemesh::hooks::SPEAKS;
use hostel_tests::claudemesh::{Host, Lab, Options, Transport};
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, house, wait};
use serde_json::{Value, json};

use crate::scene::{ATTACKER, PASSPHRASE};

/// A house beside the mesh daemon of a host.
struct House {
    root: PathBuf,
    environment: Command,
}

impl House {
    fn start(host: &Host) -> Self {
        let root = host.home().parent().unwrap().join("hostel");
        fs::create_dir_all(&root).unwrap();
        // A hook has a sandbox of its own, whatever guard agents have.
        let settings = "[doors.mcp]\nenabled = false\n[guard]\nsetting = \"off\"\n";
        fs::write(root.join("hostel.toml"), settings).unwrap();
        let mut environment = Command::new(binary::hostel());
        host.set_environment(&mut environment);
        // The daemons of the mesh are the test's own.
        environment.env("HOSTEL_MESH_DAEMONS", "false").env("HOSTEL_DOORS_CODECAST_ENABLED", "false");
        let house = House { root, environment };
        house.run("up");
        house.owner().ask("approver/set", json!({"passphrase": PASSPHRASE}));
        house
    }

    fn run(&self, word: &str) {
        let mut command = Command::new(binary::hostel());
        command.env_clear().arg(word).current_dir(&self.root).stdin(Stdio::null());
        for (name, value) in self.environment.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let output = house::run(command);
        assert!(output.status.success(), "{word}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn owner(&self) -> Peer {
        let mut peer = Peer::connect(&self.root.join("run/hostel.sock")).unwrap();
        peer.folds = false;
        peer.initialize();
        peer
    }

    /// A session that asks a question: both ids.
    fn asking_session(&self) -> (String, String) {
        let mut owner = self.owner();
        let made = owner.ask("session/new", json!({"agent_alias": "echo", "cwd": self.root, "mode": "ask"}));
        let session = made["session_id"].as_str().unwrap().to_owned();
        owner.ask("session/send", json!({"session_id": session, "prompt": "approve"}));
        let question = wait::eventually("the question", || {
            let listed = owner.ask("approval/list", json!({}));
            Some(listed["approvals"].as_array()?.first()?["id"].as_str()?.to_owned())
        });
        (session, question)
    }

    fn state(&self, approval: &str) -> String {
        let kept = self.owner().ask("approval/get", json!({"id": approval}));
        kept["approval"]["state"].as_str().unwrap().to_owned()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return self.run("down");
        }
        let mut command = Command::new(binary::hostel());
        command.arg("down").env("HOSTEL_HOME", &self.root);
        command.status().ok();
    }
}

/// What the hook for a message has found.
fn told(lab: &Lab, message: &str) -> Value {
    let alice = lab.host("alice").client(Transport::Socket);
    let sent = alice.post("/v1/send", &json!({"to": "bob", "message": message, "client_message_id": message}));
    assert_eq!(sent.status, 202);
    wait::eventually("the hook's answer", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        let answer = page["items"].as_array()?.iter().find(|item| item["reply_to_id"] == message)?.clone();
        serde_json::from_str(answer["body"].as_str()?).ok()
    })
}

/// Whether a process, and so everything that it ever starts, carries the mark of an insider.
fn is_marked(pid: i32) -> bool {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let locks = limits.lines().find(|line| line.starts_with("Max file locks")).unwrap();
    locks.split_whitespace().nth(4) != Some("unlimited")
}

fn script(attacker: &Path, facts: &Value) -> String {
    format!(
        "{SPEAKS}\nsys.path.insert(0, {attacker:?})\nimport deciding, doors\nfacts = json.loads({:?})\n\
         reached = not isinstance(doors.attempt(doors.connect, facts['house'] + '/run/hostel.sock'), dict)\n\
         said = deciding.decide(facts, facts['id']) + deciding.without(facts)\n\
         reply({{'reached': reached, 'ways': len(said)}})\n",
        facts.to_string()
    )
}

#[test]
fn what_a_mesh_daemon_or_a_broker_starts_decides_nothing() {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let attacker = lab.path().join("attacker");
    fs::create_dir(&attacker).unwrap();
    for (name, text) in ATTACKER {
        fs::write(attacker.join(name), text).unwrap();
    }
    let house = House::start(lab.host("bob"));
    let (session, question) = house.asking_session();
    let facts = json!({
        "house": house.root, "hostel": binary::hostel(), "passphrase": PASSPHRASE, "id": question, "session": session,
        "signals": attacker,
    });
    lab.host("bob").put_hook("on-dm", &script(&attacker, &facts));
    let policies = [
        ("[on-dm]\n", false),
        ("[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\ncapability_token_scope = [\"reply:event\"]\n", true),
    ];
    lab.host("bob").put_policy(policies[0].0);
    lab.hosts.iter_mut().for_each(Host::start);
    lab.hosts.iter().for_each(Host::wait_connected);
    for (number, (policy, reaches)) in policies.into_iter().enumerate() {
        lab.host("bob").put_policy(policy);
        lab.host("bob").run(&["daemon", "reload"]);
        let told = told(&lab, &format!("m{number}"));
        assert_eq!(told["reached"], reaches, "{policy}: {told}");
        assert!(told["ways"].as_u64().unwrap() > 8, "{told}");
        assert_eq!(house.state(&question), "pending", "{policy}: {told}");
    }
    // Each attempt that came through is on record, as an insider's.
    let audit = house.owner().ask("audit/show", json!({})).to_string();
    assert!(audit.contains("inside this house"), "{audit}");
    assert!(is_marked(lab.host("bob").identity().pid), "what the mesh daemon starts");
    assert!(is_marked(lab.broker().pid), "what the broker starts");
    // The control: the owner answers by the same method.
    let answer = json!({"session_id": session, "request_id": question, "decision": "allow_once"});
    house.owner().ask("session/approve", answer);
    assert_eq!(house.state(&question), "approved");
}
