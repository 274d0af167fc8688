//! The mesh daemons and the broker killed at their points: what was accepted arrives once and in order, and what was
//! asked for is there, once.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::procfs::Identity;
use hostel_tests::syncpoints::SyncPoints;
use hostel_tests::{binary, house, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::has_points;

/// The points on the way of a message.
pub(super) const MESSAGES: &[&str] = &[
    "mesh.outbox.accepted",
    "mesh.outbox.claimed",
    "broker.log.appended",
    "mesh.outbox.acked",
    "mesh.inbox.stored",
    "mesh.hooks.cursor-moved",
    "mesh.inbox.seen",
    "mesh.inbox.deleted",
    "mesh.outbox.released",
    "mesh.outbox.pruned",
];

/// The points of a daemon that starts or connects, and of one that hears of another.
pub(super) const STARTS: &[&str] = &[
    "mesh.outbox.recovered",
    "mesh.outbox.given-up",
    "broker.cursor.stored",
    "mesh.event.stored",
    "mesh.roster.written",
    "mesh.outbox.owner-changed",
    "broker.log.epoch-renewed",
    "mesh.outbox.owed-again",
];

/// The points of requests that change something at the daemon or at the broker.
pub(super) const REQUESTS: &[&str] = &[
    "mesh.token.previous-written",
    "mesh.token.written",
    "broker.member.stored",
    "broker.invite.stored",
    "broker.grant.stored",
    "broker.topic.stored",
    "broker.subscription.stored",
    "broker.seal.stored",
    "mesh.topics.written",
    "mesh.sessions.written",
    "mesh.author.trusted",
];

/// The points of what members share: state, files, and the record of what they do.
pub(super) const SHARED: &[&str] = &[
    "broker.shared.stored",
    "broker.audit.appended",
    "mesh.outbox.requeued",
    "mesh.file.kept",
    "broker.file.bytes-written",
    "broker.file.stored",
    "mesh.file.settled",
];

/// The points of a rotation of keys, in the order in which it comes to them.
pub(super) const ROTATION: &[&str] = &[
    "mesh.key.next-written",
    "mesh.key.archive-written",
    "mesh.key.lineage-written",
    "mesh.membership.written",
    "mesh.key.current-written",
];

/// The points of becoming a member, in the order in which one comes to them.
pub(super) const BEGINNING: &[&str] = &[
    "broker.identity.stored",
    // Before the mesh: once that is stored, the repeated command needs no log.
    "broker.log.created",
    "broker.mesh.stored",
    "broker.session.stored",
    "mesh.key.pending-written",
    "mesh.membership.written",
    "mesh.fingerprint.written",
    "mesh.inbox.history-line",
];

/// Reconnecting is quick: these tests are not about waiting.
const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n\
                     [capabilities]\nstate = true\ntasks = true\n";

/// A hook that notes the first word of every message it is run for.
const NOTES: &str = "#!/usr/bin/python3\nimport json, sys\n\
     open('runs', 'a').write(json.load(sys.stdin)['body'].split()[0] + '\\n')\n";

/// A lab whose processes are all listened to, and what alice said to bob in it.
struct Field {
    lab: Lab,
    points: SyncPoints,
    said: Vec<String>,
    /// How many of them are deleted.
    deleted: usize,
    _directory: TempDir,
}

impl Field {
    fn start() -> Self {
        let mut field = Self::prepare(&["alice", "bob"]);
        field.begin();
        field
    }

    fn begin(&mut self) {
        for name in ["alice", "bob"] {
            self.lab.host_mut(name).start();
        }
        self.wait_connected();
        self.talk("the beginning");
    }

    /// A message to bob that alice's daemon has given up: it was accepted, and the broker never got it.
    fn give_up_a_message(&mut self, word: &str) -> String {
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

    fn wait_connected(&self) {
        for name in ["alice", "bob"] {
            self.lab.host(name).wait_connected();
        }
    }

    /// The host of alice or bob that is this process.
    fn name_of(&self, process: Identity) -> Option<&'static str> {
        ["alice", "bob"].into_iter().find(|name| self.lab.host(name).identity() == process)
    }

    /// The text of one more message.
    fn next(&mut self, word: &str) -> String {
        let text = format!("{} {word}", self.said.len() + self.deleted);
        self.said.push(text.clone());
        text
    }

    /// Has a daemon that starts die at a point; it does not run afterwards.
    fn die_starting(&mut self, name: &str, point: &str, more: &[&str]) {
        self.points.kill_next(point);
        self.lab.host_mut(name).launch(more);
        let died = self.points.met();
        self.points.disarm();
        assert_eq!(died, self.lab.host(name).identity(), "another process was at {point}");
        self.lab.host_mut(name).kill();
    }

    fn prepare(members: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("hostel-pts-").tempdir().expect("a temporary directory");
        let points = SyncPoints::listen(directory.path());
        let variable = points.variable();
        let mut options = Options { config: QUICK.to_owned(), ..Options::of(members) };
        options.broker_variables.push(variable.clone());
        let mut lab = Lab::prepare(&options);
        for host in &mut lab.hosts {
            host.set_variable(&variable.0, &variable.1);
        }
        Self { lab, points, said: Vec::new(), deleted: 0, _directory: directory }
    }

    fn client(&self, name: &str) -> Client {
        self.lab.host(name).client(Transport::Socket)
    }

    /// Arms a point, does something, waits until a process has died there, and starts that one again. Gives what a daemon
    /// that died had answered before.
    fn die(&mut self, point: &str, action: impl FnOnce(&Lab) -> Option<(u16, Value)> + Send) -> Option<(u16, Value)> {
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

    fn restart(&mut self, point: &str, died: Identity) {
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
    fn talk(&mut self, after: &str) {
        let text = self.next(&format!("after {after}"));
        insist(&self.client("alice"), "POST", "/v1/send", &message(&text));
        self.check(after);
    }

    fn check(&self, after: &str) {
        let bob = self.client("bob");
        let found = wait::attempt(wait::LIMIT, || (bodies(&bob).len() >= self.said.len()).then_some(()));
        assert!(found.is_some(), "{after}: bob has {:?} of {:?}", bodies(&bob), self.said);
        assert_eq!(bodies(&bob), self.said, "{after}");
    }
}

fn message(text: &str) -> Value {
    json!({"to": "bob", "message": text, "client_message_id": text})
}

/// What was said, oldest first; not the announcements of files.
fn bodies(client: &Client) -> Vec<String> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().expect("items").iter().rev().filter(|item| item["body"] != "");
    items.map(|item| item["body"].as_str().unwrap_or("(unreadable)").to_owned()).collect()
}

/// Asks until it is answered as it should be.
fn insist(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let mut last = None;
    let done = wait::attempt(wait::LIMIT, || {
        last = client.try_request(method, path, body);
        last.clone().filter(|(status, _)| (200..300).contains(status)).map(|(_, answer)| answer)
    });
    done.unwrap_or_else(|| panic!("{method} {path} {body}: {last:?}"))
}

fn post(lab: &Lab, name: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    lab.host(name).client(Transport::Socket).try_request("POST", path, body)
}

#[test]
fn messages_arrive_once() {
    if !has_points() {
        return;
    }
    let mut field = Field::prepare(&["alice", "bob"]);
    field.lab.host("bob").put_policy("[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n");
    field.lab.host("bob").put_hook("on-dm", NOTES);
    field.begin();
    for point in MESSAGES {
        match *point {
            "mesh.inbox.seen" => {
                let id = newest(&field.client("bob"));
                let told = field.die(point, |lab| post(lab, "bob", "/v1/inbox/seen", &json!({"ids": [id]})));
                assert_eq!(told, None, "{point}: the reader was told");
                assert!(newest_row(&field.client("bob"))["seen_at"].is_string(), "the message is not marked as seen");
            }
            "mesh.inbox.deleted" => {
                let id = newest(&field.client("bob"));
                let told = field.die(point, |lab| {
                    let bob = lab.host("bob").client(Transport::Socket);
                    bob.try_request("DELETE", &format!("/v1/inbox/{id}"), &Value::Null)
                });
                assert_eq!(told, None, "{point}: the reader was told");
                field.deleted += 1;
                field.said.pop();
            }
            // The broker dies with a message that it has not acknowledged.
            "mesh.outbox.released" => {
                field.lab.broker().freeze();
                let text = field.next(point);
                insist(&field.client("alice"), "POST", "/v1/send", &message(&text));
                field.points.kill_next(point);
                field.lab.kill_broker();
                let died = field.points.met();
                field.points.disarm();
                field.lab.start_broker();
                field.restart(point, died);
            }
            "mesh.outbox.pruned" => {
                let told = field.die(point, |lab| post(lab, "alice", "/v1/outbox/prune", &json!({"confirm": true})));
                assert_eq!(told, None, "{point}: the asker was told");
                insist(&field.client("alice"), "POST", "/v1/outbox/prune", &json!({"confirm": true}));
            }
            _ => {
                let text = field.next(point);
                let told = field.die(point, |lab| post(lab, "alice", "/v1/send", &message(&text)));
                assert!(told.is_none() || *point != "mesh.outbox.accepted", "the sender was told: {told:?}");
                insist(&field.client("alice"), "POST", "/v1/send", &message(&text));
            }
        }
        field.talk(point);
    }
    // The hook has run for every message.
    let bob = field.lab.host("bob");
    for text in &field.said {
        let number = text.split(' ').next().expect("a number");
        wait::until_true(wait::LIMIT, &format!("the hook to run for {text}"), || {
            bob.hook_output("runs").lines().any(|run| run == number)
        });
    }
}

#[test]
fn starts_lose_nothing() {
    if !has_points() {
        return;
    }
    let mut field = Field::prepare(&["alice", "bob"]);
    field.begin();
    for point in STARTS {
        match *point {
            "mesh.outbox.recovered" | "mesh.outbox.given-up" => {
                field.lab.host_mut("alice").kill();
                field.die_starting("alice", point, &[]);
                field.lab.host_mut("alice").start();
            }
            // What was accepted stays accepted under another identity.
            "mesh.outbox.owner-changed" => {
                field.lab.host_mut("alice").kill();
                field.die_starting("alice", point, &["--remint"]);
                field.lab.host_mut("alice").start();
            }
            // Bob goes and comes: the broker keeps its place, alice hears of it, or bob of alice.
            "broker.cursor.stored" | "mesh.event.stored" | "mesh.roster.written" => {
                field.points.kill_next(point);
                field.lab.host_mut("bob").kill();
                field.lab.host_mut("bob").launch(&[]);
                let died = field.points.met();
                field.points.disarm();
                if died != field.lab.host("bob").identity() {
                    field.lab.host_mut("bob").wait_ready();
                }
                field.restart(point, died);
            }
            // The broker gets a copy of earlier days: what it lost is sent to it again.
            _ => {
                let place = field.lab.broker_home().join("broker");
                let copy = field.lab.path().join(format!("copy-{point}"));
                field.lab.kill_broker();
                copy_files(&place, &copy);
                field.lab.start_broker();
                field.wait_connected();
                field.talk(&format!("copy for {point}"));
                field.lab.kill_broker();
                fs::remove_dir_all(&place).expect("the broker's files can go");
                copy_files(&copy, &place);
                field.points.kill_next(point);
                field.lab.start_broker();
                let died = field.points.met();
                field.points.disarm();
                field.restart(point, died);
            }
        }
        field.wait_connected();
        field.talk(point);
    }
}

fn copy_files(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp can be run");
    assert!(status.success(), "cp ended with {status}");
}

fn newest_row(client: &Client) -> Value {
    client.get_json("/v1/inbox?limit=1&mark_seen=false")["items"][0].clone()
}

fn newest(client: &Client) -> String {
    newest_row(client)["id"].as_str().expect("an id").to_owned()
}

#[test]
fn requests_are_carried_out_once() {
    if has_points() {
        carry_out(REQUESTS);
    }
}

#[test]
fn what_is_shared_is_there_once() {
    if has_points() {
        carry_out(SHARED);
    }
}

fn carry_out(points: &[&str]) {
    let mut field = Field::start();
    let file = field.lab.path().join("shared.txt");
    fs::write(&file, "content").expect("a file");
    for point in points {
        let word = point.replace('.', "-");
        let (path, body) = match *point {
            "mesh.token.previous-written" | "mesh.token.written" => ("/v1/token/rotate", json!({})),
            "broker.member.stored" => ("/v1/member/rename", json!({"displayName": "alicia"})),
            "broker.invite.stored" => ("/v1/invite/create", json!({})),
            "mesh.author.trusted" => ("/v1/safety", json!({"peer": "bob"})),
            "broker.grant.stored" => ("/v1/grant/set", json!({"peer": "bob", "capabilities": ["dm"]})),
            "broker.topic.stored" | "mesh.topics.written" => ("/v1/topic/subscribe", json!({"topic": word})),
            // Bob has made the topic, and has its key.
            "broker.subscription.stored" | "broker.seal.stored" => {
                insist(&field.client("bob"), "POST", "/v1/topic/subscribe", &json!({"topic": word}));
                ("/v1/topic/subscribe", json!({"topic": word}))
            }
            "mesh.sessions.written" => {
                let (token, pid) = (format!("{:064x}", point.len()), std::process::id());
                let name = format!("s{}", point.len());
                let body = json!({"token": token, "session_id": name, "mesh": "lab", "display_name": name, "pid": pid});
                ("/v1/sessions/register", body)
            }
            // Bob's own connection carries sessions and stays; the attempt is recorded.
            "broker.audit.appended" => ("/v1/member/kick", json!({"target": "bob"})),
            "mesh.outbox.requeued" => {
                let text = field.give_up_a_message(point);
                ("/v1/outbox/requeue", json!({"id": text, "new_client_message_id": "requeued"}))
            }
            "broker.shared.stored" => ("/v1/state/set", json!({"key": "k", "value": 7, "client_message_id": "set-k"})),
            _ => ("/v1/file/share", json!({"path": file})),
        };
        let told = field.die(point, |lab| post(lab, "alice", path, &body));
        // A file is settled after its sharer was told.
        assert!(told.is_none() || *point == "mesh.file.settled", "{point}: the asker was told {told:?}");
        // What was queued again is on its way under its new id, and cannot be queued once more.
        if *point != "mesh.outbox.requeued" {
            insist(&field.client("alice"), "POST", path, &body);
        }
        field.talk(point);
    }
    if points.contains(&"broker.shared.stored") {
        assert_eq!(field.client("bob").get_json("/v1/state/get?key=k")["value"], 7);
    }
}

#[test]
fn a_rotation_of_keys_is_finished_or_given_up() {
    if !has_points() {
        return;
    }
    let mut field = Field::start();
    for point in ROTATION {
        field.die(point, |lab| post(lab, "alice", "/v1/rotate-keypair", &json!({})));
        field.talk(point);
        let alice = field.lab.host("alice");
        let kept = std::fs::read_to_string(alice.directory().join("keypair.json")).expect("a key");
        let kept: Value = serde_json::from_str(&kept).expect("JSON");
        wait::until_true(wait::LIMIT, "config.json and keypair.json to agree", || {
            kept["ed25519_public"] == json!(alice.member("pubkey"))
        });
    }
}

/// A broker without a lab around it.
struct Broker {
    home: TempDir,
    variable: (String, String),
    child: Option<Child>,
}

impl Broker {
    fn launch(&mut self) {
        let mut command = Command::new(binary::hostel());
        command.args(["as", "claudemesh", "broker", "up", "--foreground"]);
        house::set_base_environment(&mut command, self.home.path());
        command.env("HOSTEL_HOME", self.home.path()).env(&self.variable.0, &self.variable.1);
        command.current_dir(self.home.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the program can be started"));
    }

    /// Starts and waits until it accepts; gives its port, which it keeps.
    fn start(&mut self) -> u16 {
        self.launch();
        wait::until(wait::LIMIT, "the broker to accept", || {
            let text = fs::read_to_string(self.home.path().join("broker/port")).ok()?;
            let port = text.trim().parse::<u16>().ok()?;
            std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(|_| port)
        })
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.reap();
    }
}

fn succeed(command: Command) {
    let output = house::run(command);
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_beginning_is_finished_later() {
    if !has_points() {
        return;
    }
    let root = tempfile::Builder::new().prefix("hostel-beg-").tempdir().expect("a temporary directory");
    let points = SyncPoints::listen(root.path());
    let variable = points.variable();
    let home = tempfile::Builder::new().prefix("hostel-bro-").tempdir().expect("a temporary directory");
    let mut broker = Broker { home, variable: variable.clone(), child: None };
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| Host::new(name, root.path()));
    for host in [&mut alice, &mut bob] {
        host.configure(&format!("{QUICK}[ipc]\ntcp_enabled = true\n"));
        host.set_variable(&variable.0, &variable.1);
    }
    let mut link = String::new();
    for point in BEGINNING {
        points.kill_next(point);
        match *point {
            "broker.identity.stored" => {
                broker.launch();
                points.met();
                broker.reap();
            }
            "broker.mesh.stored" | "broker.log.created" | "broker.session.stored" => {
                points.disarm();
                let port = broker.start();
                points.kill_next(point);
                let url = format!("ws://127.0.0.1:{port}/ws");
                // The session is stored when everything else of a new mesh is, so its mesh is another one. The command
                // below repeats the other creations, which must then give this very mesh and no second one of its name.
                let made = *point == "broker.session.stored";
                let slug = if made { "other" } else { "lab" };
                let mut create = alice.command(&["mesh", "create", slug, "--name", "alice", "--broker", &url]);
                create.env("HOSTEL_HOME", broker.home.path());
                let output = house::run(create);
                points.met();
                assert_eq!(output.status.success(), made, "{point}: the command ended with {}", output.status);
                broker.reap();
            }
            "mesh.key.pending-written" | "mesh.membership.written" => {
                if link.is_empty() {
                    points.disarm();
                    let url = format!("ws://127.0.0.1:{}/ws", broker.start());
                    let mut create = alice.command(&["mesh", "create", "lab", "--name", "alice", "--broker", &url]);
                    create.env("HOSTEL_HOME", broker.home.path());
                    succeed(create);
                    alice.start();
                    alice.wait_connected();
                    link = alice.invite(2);
                    points.kill_next(point);
                }
                let output = house::run(bob.command(&["join", &link, "--name", "bob"]));
                points.met();
                assert!(!output.status.success(), "the command ended well although it was killed");
            }
            _ => {
                if *point == "mesh.fingerprint.written" {
                    points.disarm();
                    succeed(bob.command(&["join", &link, "--name", "bob"]));
                    points.kill_next(point);
                }
                bob.launch(&[]);
                assert_eq!(points.met(), bob.identity(), "another process was at {point}");
                bob.kill();
            }
        }
        points.disarm();
    }
    bob.start();
    bob.wait_connected();
    insist(&alice.client(Transport::Socket), "POST", "/v1/send", &message("hello"));
    let bob = bob.client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the message", || bodies(&bob) == ["hello"]);
}
