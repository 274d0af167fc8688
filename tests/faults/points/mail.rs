//! The daemon killed while messages of a mesh become prompts of a session: each is put once, or not at all if a person
//! said so.

use hostel_tests::claudemesh::{Lab, Transport, letter};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::{has_points, restart_after_death, until};
use crate::sessions::resident::Resident;

pub(super) const POINTS: &[&str] = &[
    "doors.mesh-token.written",
    "house.mail.queued",
    "house.mail.kept",
    "house.mail.passed",
    "house.mail.asked",
    "house.mail.decided",
    "house.mail.declined",
];

#[test]
fn messages_become_prompts_once() {
    if !has_points() {
        return;
    }
    let lab = Lab::start(&["alice", "bob"]);
    let mut house = Resident::prepare("prompt_limit = \"16KiB\"\n");
    let bob = lab.host("bob").home().join(".claudemesh");
    house.set_variable("CLAUDEMESH_CONFIG_DIR", bob.to_str().expect("a plain path"));
    house.set_variable("CLAUDEMESH_DAEMON_DIR", bob.join("daemon").to_str().expect("a plain path"));
    // The daemons of the mesh are the test's own.
    house.set_variable("HOSTEL_MESH_DAEMONS", "false");
    house.listen();
    house.serve();
    let mut mail = Mail { lab, house, session: String::new(), expected: Vec::new() };
    for point in POINTS {
        match *point {
            "doors.mesh-token.written" => mail.registered(point),
            "house.mail.asked" | "house.mail.decided" | "house.mail.declined" => mail.asked(point),
            "house.mail.passed" => mail.announced(point),
            "house.mail.kept" => mail.arrived(point, "build", &"x".repeat(20 << 10), false),
            _ => mail.arrived(point, "build", point, true),
        }
        mail.settle(point);
    }
    assert_eq!(mail.house.points().reached()["house.mail.passed"], 1, "a message is passed over once");
}

struct Mail {
    lab: Lab,
    house: Resident,
    session: String,
    /// The texts that must be prompts, in order.
    expected: Vec<String>,
}

impl Mail {
    fn send(&self, to: &str, text: &str) {
        let alice = self.lab.host("alice").client(Transport::Socket);
        let answer = alice.post("/v1/send", &json!({"to": to, "message": text}));
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    fn letters(&self) -> Vec<String> {
        let asked = json!({"session_id": self.session, "limit": 1000});
        let answer = self.house.native().ask("session/messages", asked);
        let messages = answer["messages"].as_array().expect("messages");
        let prompts = messages.iter().filter(|message| message["role"] == "user");
        prompts.filter_map(|message| letter(message["content"].as_str().unwrap_or_default())).collect()
    }

    /// One more message, after which every one must have become a prompt, once and in order.
    fn settle(&mut self, point: &str) {
        let last = format!("after {point}");
        self.send("bob/build", &last);
        if self.house.native().listed(&self.session).expect("a list")["mesh"] == "ask" {
            self.answer("allow_once");
        }
        self.expected.push(last);
        let found = wait::attempt(wait::LIMIT, || (self.letters().len() >= self.expected.len()).then_some(()));
        assert!(found.is_some(), "{point}: {:?} of {:?}", self.letters(), self.expected);
        assert_eq!(self.letters(), self.expected, "{point}");
    }

    /// A session gets a token of the mesh when it is made.
    fn registered(&mut self, point: &str) {
        self.house.points().kill_next(point);
        let new = json!({"agent_alias": "echo", "name": "build", "mesh": "on", "cwd": self.house.work()});
        self.house.native().begin("session/new", new).expect("a request");
        restart_after_death(&mut self.house, point);
        let listed = self.house.native().ask("session/list", json!({"all": true}))["sessions"].clone();
        self.session = listed[0]["session_id"].as_str().expect("an id").to_owned();
    }

    fn arrived(&mut self, point: &str, to: &str, text: &str, is_prompt: bool) {
        self.house.points().kill_next(point);
        self.send(&format!("bob/{to}"), text);
        restart_after_death(&mut self.house, point);
        if is_prompt {
            self.expected.push(text.to_owned());
        }
    }

    /// The announcement of a file lies in the mailbox and is none for an agent: it is passed over once, and what comes
    /// after it is put.
    fn announced(&mut self, point: &str) {
        let file = self.lab.path().join("shared.txt");
        std::fs::write(&file, "content").expect("a file");
        self.house.points().kill_next(point);
        let alice = self.lab.host("alice").client(Transport::Socket);
        let shared = alice.post("/v1/file/share", &json!({"path": file, "to": "bob/build"}));
        assert_eq!(shared.status, 200, "{}", shared.text());
        // The mailbox is read when a message comes, and that is after the announcement.
        self.send("bob/build", point);
        restart_after_death(&mut self.house, point);
        self.expected.push(point.to_owned());
    }

    fn pending(&self) -> Vec<Value> {
        let list = self.house.native().ask("approval/list", json!({}));
        list["approvals"].as_array().expect("a list").clone()
    }

    fn answer(&self, decision: &str) {
        until("one question about a message", || self.pending().len() == 1);
        let params = json!({"session_id": "", "request_id": self.pending()[0]["id"], "decision": decision});
        self.house.native().ask("session/approve", params);
    }

    /// A person is asked about a message; what was agreed to is put once, what was refused never.
    fn asked(&mut self, point: &str) {
        self.house.native().ask("session/configure", json!({"session_id": self.session, "mesh": "ask"}));
        self.house.points().kill_next(point);
        self.send("bob/build", point);
        if point == "house.mail.asked" {
            restart_after_death(&mut self.house, point);
            return self.agreed(point);
        }
        until("a question about a message", || self.pending().len() == 1);
        let decision = if point == "house.mail.declined" { "reject" } else { "allow_once" };
        let params = json!({"session_id": "", "request_id": self.pending()[0]["id"], "decision": decision});
        let mut native = self.house.native();
        native.begin("session/approve", params).expect("a request");
        restart_after_death(&mut self.house, point);
        assert_eq!(self.pending(), [] as [Value; 0], "{point}: the question stands again");
        if decision == "allow_once" {
            self.expected.push(point.to_owned());
        }
    }

    fn agreed(&mut self, point: &str) {
        self.answer("allow_once");
        self.expected.push(point.to_owned());
    }
}
