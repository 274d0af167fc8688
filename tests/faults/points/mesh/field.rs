//! A lab whose processes can be killed at their points, and what its members have said to each other.

use std::thread;

use hostel_tests::claudemesh::{Client, Lab, Options, Transport};
use hostel_tests::procfs::Identity;
use hostel_tests::syncpoints::SyncPoints;
use hostel_tests::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Reconnecting is quick: these tests are not about waiting.
pub(super) const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n\
                     [capabilities]\nstate = true\ntasks = true\n";

/// A lab whose processes are all listened to, and what alice said to bob in it.
pub(super) struct Field {
    pub(super) lab: Lab,
    pub(super) points: SyncPoints,
    pub(super) said: Vec<String>,
    /// How many of them are deleted.
    pub(super) deleted: usize,
    _directory: TempDir,
}

impl Field {
    pub(super) fn start() -> Self {
        let mut field = Self::prepare(&["alice", "bob"]);
        field.begin();
        field
    }

    pub(super) fn begin(&mut self) {
        for name in ["alice", "bob"] {
            self.lab.host_mut(name).start();
        }
        self.wait_connected();
        self.talk("the beginning");
    }

    /// A message to bob that alice's daemon has given up: it was accepted, and the broker never got it.
    pub(super) fn give_up_a_message(&mut self, word: &str) -> String {
        self.lab.kill_broker();
        let text = self.next(word);
        insist(&self.client("alice"), "POST", "/v1/send", &message(&text));
        self.lab.host_mut("alice").kill();
        let outbox = self.lab.host("alice").directory().join("outbox.db");
        let database = rusqlite::Connection::open(outbox).expect("the outbox");
        let changed = database.execute("UPDATE outbox SET status = 'dead' WHERE client_message_id = ?", [&text]);
        assert_eq!(changed, Ok(1), "the message is in the outbox");
        drop(database);
        self.lab.start_broker();
        self.lab.host_mut("alice").start();
        self.wait_connected();
        text
    }

    pub(super) fn wait_connected(&self) {
        for name in ["alice", "bob"] {
            self.lab.host(name).wait_connected();
        }
    }

    /// The host of alice or bob that is this process.
    fn name_of(&self, process: Identity) -> Option<&'static str> {
        ["alice", "bob"].into_iter().find(|name| self.lab.host(name).identity() == process)
    }

    /// The text of one more message.
    pub(super) fn next(&mut self, word: &str) -> String {
        let text = format!("{} {word}", self.said.len() + self.deleted);
        self.said.push(text.clone());
        text
    }

    /// Has a daemon that starts die at a point; it does not run afterwards.
    pub(super) fn die_starting(&mut self, name: &str, point: &str, more: &[&str]) {
        self.points.kill_next(point);
        self.lab.host_mut(name).launch(more);
        let died = self.points.met();
        self.points.disarm();
        assert_eq!(died, self.lab.host(name).identity(), "another process was at {point}");
        self.lab.host_mut(name).kill();
    }

    pub(super) fn prepare(members: &[&str]) -> Self {
        Self::prepare_with(members, "")
    }

    /// The same with these settings of the broker.
    pub(super) fn prepare_with(members: &[&str], broker: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("hostel-pts-").tempdir().expect("a temporary directory");
        let points = SyncPoints::listen(directory.path());
        let variable = points.variable();
        let mut options = Options { config: QUICK.to_owned(), broker: broker.to_owned(), ..Options::of(members) };
        options.broker_variables.push(variable.clone());
        let mut lab = Lab::prepare(&options);
        for host in &mut lab.hosts {
            host.set_variable(&variable.0, &variable.1);
        }
        Self { lab, points, said: Vec::new(), deleted: 0, _directory: directory }
    }

    pub(super) fn client(&self, name: &str) -> Client {
        self.lab.host(name).client(Transport::Socket)
    }

    /// Arms a point, does something, waits until a process has died there, and starts that one again. Gives what a daemon
    /// that died had answered before.
    pub(super) fn die(
        &mut self,
        point: &str,
        action: impl FnOnce(&Lab) -> Option<(u16, Value)> + Send,
    ) -> Option<(u16, Value)> {
        self.points.kill_next(point);
        let lab = &self.lab;
        let (died, answer) = thread::scope(|scope| {
            let action = scope.spawn(move || action(lab));
            let died = self.points.met();
            (died, action.join().expect("the request does not panic"))
        });
        let daemon = self.name_of(died).is_some();
        self.points.disarm();
        self.restart(point, died);
        answer.filter(|_| daemon)
    }

    pub(super) fn restart(&mut self, point: &str, died: Identity) {
        if self.lab.broker() == died {
            self.lab.kill_broker();
            self.lab.start_broker();
        } else {
            let name = self.name_of(died).unwrap_or_else(|| panic!("{point}: a stranger died"));
            let host = self.lab.host_mut(name);
            host.kill();
            host.start();
        }
        self.wait_connected();
    }

    /// One more message; bob has everything that was accepted, once and in order.
    pub(super) fn talk(&mut self, after: &str) {
        let text = self.next(&format!("after {after}"));
        insist(&self.client("alice"), "POST", "/v1/send", &message(&text));
        self.check(after);
    }

    pub(super) fn check(&self, after: &str) {
        let bob = self.client("bob");
        let found = wait::attempt(wait::LIMIT, || (bodies(&bob).len() >= self.said.len()).then_some(()));
        assert!(found.is_some(), "{after}: bob has {:?} of {:?}", bodies(&bob), self.said);
        assert_eq!(bodies(&bob), self.said, "{after}");
    }
}

pub(super) fn message(text: &str) -> Value {
    json!({"to": "bob", "message": text, "client_message_id": text})
}

/// What was said, oldest first; not the announcements of files.
pub(super) fn bodies(client: &Client) -> Vec<String> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().expect("items").iter().rev().filter(|item| item["body"] != "");
    items.map(|item| item["body"].as_str().unwrap_or("(unreadable)").to_owned()).collect()
}

/// Asks until it is answered as it should be.
pub(super) fn insist(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let mut last = None;
    let done = wait::attempt(wait::LIMIT, || {
        last = client.try_request(method, path, body);
        last.clone().filter(|(status, _)| (200..300).contains(status)).map(|(_, answer)| answer)
    });
    done.unwrap_or_else(|| panic!("{method} {path} {body}: {last:?}"))
}

pub(super) fn post(lab: &Lab, name: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    lab.host(name).client(Transport::Socket).try_request("POST", path, body)
}
