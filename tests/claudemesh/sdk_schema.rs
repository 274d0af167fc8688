//! The schema that the SDKs are made from, against real daemons: every operation is called, and every answer, refusal,
//! event and update has exactly the fields that the schema names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hostel_tests::claudemesh::{Client, Lab, Options, Stream, Transport};
use hostel_tests::codecast::http::Answer;
use hostel_tests::schema::{Operation, Schema};
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, house, wait};
use rusqlite::Connection as Database;
use serde_json::{Value, json};

/// Calls operations, and remembers which.
struct Caller {
    schema: Schema,
    operations: Vec<Operation>,
    called: BTreeSet<String>,
}

impl Caller {
    fn new(of: &str) -> Self {
        let schema = Schema::read();
        let operations = schema.operations(of);
        Self { schema, operations, called: BTreeSet::new() }
    }

    fn operation(&mut self, name: &str) -> Operation {
        self.called.insert(name.to_owned());
        let found = self.operations.iter().find(|operation| operation.name == name);
        found.unwrap_or_else(|| panic!("the schema has no operation `{name}`")).clone()
    }

    fn check(&self, definition: &str, value: &Value) {
        self.schema.check(definition, value).unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Asks a mesh daemon as the schema says: what goes into the path, the query and the body.
    fn request(&mut self, client: &Client, name: &str, with: &Value) -> (Operation, Answer) {
        let operation = self.operation(name);
        let mut path = operation.path.clone();
        let mut rest = with.as_object().unwrap().clone();
        if let Some((fixed, part)) = operation.path.split_once(':') {
            path = format!("{fixed}{}", rest.remove(part).unwrap().as_str().unwrap());
        }
        let answer = match operation.method.as_str() {
            "POST" => client.request("POST", &path, &[], Value::Object(rest).to_string().as_bytes()),
            method => {
                let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let pairs: Vec<String> =
                    rest.iter().map(|(name, value)| format!("{name}={}", encoded(&plain(value)))).collect();
                let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
                client.request(method, &format!("{path}{query}"), &[], b"")
            }
        };
        (operation, answer)
    }

    /// Asks for something that works, with arguments the schema knows.
    fn call(&mut self, client: &Client, name: &str, with: &Value) -> Value {
        let (operation, answer) = self.request(client, name, with);
        match &operation.takes {
            Some(takes) => self.check(takes, with),
            None => assert_eq!(*with, json!({}), "{name} takes nothing"),
        }
        let (good, _) = &operation.statuses;
        assert!(good.contains(&u64::from(answer.status)), "{name}: {} {}", answer.status, answer.text());
        if operation.answer.contains('/') {
            assert!(answer.header("content-type").unwrap().starts_with(&operation.answer), "{:?}", answer.headers);
            return Value::Null;
        }
        let answer = answer.json();
        self.check(&operation.answer, &answer);
        answer
    }

    /// Asks for something that is refused.
    fn refused(&mut self, client: &Client, name: &str, with: &Value, code: &str) {
        let (operation, answer) = self.request(client, name, with);
        let (_, bad) = &operation.statuses;
        assert!(bad.contains(&u64::from(answer.status)), "{name}: {} {}", answer.status, answer.text());
        let answer = answer.json();
        self.check("Refusal", &answer);
        assert_eq!(answer["error"], code, "{answer}");
    }

    /// Takes events until one of that name, each as the schema says.
    fn event(&mut self, stream: &mut Stream, wanted: &str) -> Value {
        loop {
            let (name, data) = stream.event();
            let definition = self.schema.definition_of("events", &name).unwrap().to_owned();
            self.check(&definition, &data);
            self.called.insert(format!("event {name}"));
            if name == wanted {
                return data;
            }
        }
    }

    /// Everything was called, and everything was seen of a table (`events` or `updates`) but what the schema itself gives a
    /// reason for.
    fn finish(&self, called: bool, table: &str) {
        let wanted = self.operations.iter().filter(|_| called).map(|operation| operation.name.clone());
        let excused = |name: &str| self.schema.root["x-untested"][table].get(name).is_some();
        let names = self.schema.root.get(table).and_then(Value::as_object).into_iter().flat_map(|names| names.keys());
        let kind = table.trim_end_matches('s');
        let (unseen, seen): (Vec<&String>, Vec<&String>) = names.partition(|name| excused(name));
        let wanted = wanted.chain(seen.into_iter().map(|name| format!("{kind} {name}")));
        let missing: Vec<String> = wanted.filter(|name| !self.called.contains(name)).collect();
        assert!(missing.is_empty(), "never seen: {missing:?}");
        let seen: Vec<&&String> =
            unseen.iter().filter(|name| self.called.contains(&format!("{kind} {name}"))).collect();
        assert!(seen.is_empty(), "the schema says that these cannot be tried: {seen:?}");
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[test]
fn a_mesh_daemon_says_what_the_schema_says() {
    let lab = Lab::start(&["alice", "bob"]);
    for transport in Transport::ALL {
        let mut caller = Caller::new("mesh");
        let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
        about_itself(&mut caller, &alice);
        messages(&mut caller, &alice, &bob, transport.name());
        topics(&mut caller, &alice, &bob, transport.name());
        files(&mut caller, &alice, &bob, lab.path(), transport.name());
        refusals(&mut caller, &alice);
        caller.called.insert("events".to_owned());
        caller.finish(true, "");
    }
}

#[test]
fn every_event_is_what_the_schema_says() {
    let mut caller = Caller::new("mesh");
    let config = "[outbox]\nmax_queue_size = 20\n[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";
    let mut lab = Lab::prepare(&Options { config: config.to_owned(), ..Options::of(&["alice", "bob"]) });
    lab.host("bob").put_policy("[on-dm]\n");
    lab.host("bob").put_hook("on-dm", "#!/bin/sh\ncat >/dev/null\n");
    for name in ["alice", "bob"] {
        lab.host_mut(name).start();
        lab.host(name).wait_connected();
    }
    what_arrives(&mut caller, &lab);
    keys(&mut caller, &mut lab);
    what_is_missed(&mut caller, &mut lab);
    the_outbox(&mut caller, &mut lab);
    comings_and_goings(&mut caller, &mut lab);
    caller.finish(false, "events");
}

/// What messages, files and hooks tell.
fn what_arrives(caller: &mut Caller, lab: &Lab) {
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let mut stream = bob.events("", &[]);
    caller.call(&alice, "send", &json!({"to": "bob", "message": "a hook runs for this"}));
    caller.event(&mut stream, "message");
    assert_eq!(caller.event(&mut stream, "hook_executed")["exit"], 0);
    let path = lab.path().join("seen.txt");
    std::fs::write(&path, "hello").unwrap();
    caller.call(&alice, "file_share", &json!({"path": path, "to": "bob"}));
    caller.event(&mut stream, "file_shared");
    caller.event(&mut bob.events("?last_event_id=nonsense-1", &[]), "gap");
}

/// What is told of keys: of a member's own, and of a topic's that nobody is there to hand on.
fn keys(caller: &mut Caller, lab: &mut Lab) {
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let (mut others, mut own) = (alice.events("", &[]), bob.events("", &[]));
    lab.host("bob").run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
    caller.event(&mut others, "member_keypair_rotated");
    assert_eq!(caller.event(&mut own, "member_keypair_rotated")["self"], true);
    lab.host("bob").wait_connected();

    caller.call(&alice, "topic_subscribe", &json!({"topic": "quiet"}));
    caller.call(&alice, "topic_post", &json!({"topic": "quiet", "message": "m", "client_message_id": "quiet"}));
    sent(&alice, "quiet");
    lab.host_mut("alice").stop();
    caller.call(&bob, "topic_subscribe", &json!({"topic": "quiet"}));
    assert_eq!(caller.event(&mut own, "topic_key_missing")["topic"], "quiet");
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
}

/// What is told of a log that was shortened meanwhile.
fn what_is_missed(caller: &mut Caller, lab: &mut Lab) {
    let alice = lab.host("alice").client(Transport::Socket);
    let mut stream = lab.host("bob").client(Transport::Socket).events("?events=message", &[]);
    caller.call(&alice, "send", &json!({"to": "bob", "message": "kept"}));
    caller.event(&mut stream, "message");
    let place = stream.last_id.clone().expect("an event has an id");
    lab.host_mut("bob").stop();
    for id in ["lost-1", "lost-2", "lost-3"] {
        caller.call(&alice, "send", &json!({"to": "bob", "message": "lost", "client_message_id": id}));
        sent(&alice, id);
    }
    lab.kill_broker();
    let database = Database::open(lab.broker_home().join("broker/broker.db")).unwrap();
    database.execute("DELETE FROM log", []).unwrap();
    database.execute("UPDATE logs SET first_seq = last_seq + 1, bytes = 0", []).unwrap();
    drop(database);
    lab.start_broker();
    lab.host_mut("bob").start();
    let bob = lab.host("bob").client(Transport::Socket);
    caller.event(&mut bob.events(&format!("?last_event_id={place}"), &[]), "history_gap");
    for name in ["alice", "bob"] {
        lab.host(name).wait_connected();
    }
}

/// What an outbox tells that fills up and grows old.
fn the_outbox(caller: &mut Caller, lab: &mut Lab) {
    let alice = lab.host("alice").client(Transport::Socket);
    let mut stream = alice.events("", &[]);
    lab.kill_broker();
    caller.event(&mut stream, "daemon_disconnect");
    for number in 0..16 {
        caller.call(&alice, "send", &json!({"to": "bob", "message": format!("waits {number}")}));
    }
    assert_eq!(caller.event(&mut stream, "outbox_pressure_high")["level"], "high");
    let place = stream.last_id.clone().expect("an event has an id");
    lab.host_mut("alice").stop();
    // As if a week had passed.
    let database = Database::open(lab.host("alice").directory().join("outbox.db")).unwrap();
    assert!(database.execute("UPDATE outbox SET expires_at = 1 WHERE status = 'pending'", []).unwrap() > 0);
    drop(database);
    lab.start_broker();
    lab.host_mut("alice").start();
    let alice = lab.host("alice").client(Transport::Socket);
    caller.event(&mut alice.events(&format!("?last_event_id={place}"), &[]), "outbox_dead");
    for name in ["alice", "bob"] {
        lab.host(name).wait_connected();
    }
}

/// Waits until a message is at the broker: it is answered as done when it comes again.
fn sent(client: &Client, id: &str) {
    wait::until_true(wait::LIMIT, "a message to be sent", || {
        let listed = client.get_json("/v1/outbox?limit=1000");
        let rows = listed["items"].as_array().expect("items");
        rows.iter().any(|row| row["client_message_id"] == id && row["status"] == "done")
    });
}

fn about_itself(caller: &mut Caller, alice: &Client) {
    let version = caller.call(alice, "version", &json!({}));
    let root = &caller.schema.root;
    assert_eq!(version["ipc_api"], root["ipc_api"], "sdk/schema/schema.json speaks of another version");
    assert_eq!(version["ipc_minor"], root["ipc_minor"], "sdk/schema/schema.json speaks of another minor");
    assert_eq!(version["daemon_version"], root["version"], "the SDKs have the daemon's version");
    caller.call(alice, "health", &json!({}));
    caller.call(alice, "compat", &json!({}));
    caller.call(alice, "metrics", &json!({}));
    caller.call(alice, "heartbeat", &json!({}));
    caller.call(
        alice,
        "profile",
        &json!({"summary": "s", "status": "idle", "visible": true, "avatar": "a", "title": "t",
                                          "bio": "b", "capabilities": ["c"]}),
    );
    let peers = caller.call(alice, "peers", &json!({"all": true, "mesh": "lab"}));
    assert!(peers["peers"].as_array().is_some_and(|peers| !peers.is_empty()), "{peers}");
}

fn messages(caller: &mut Caller, alice: &Client, bob: &Client, transport: &str) {
    let mut stream = bob.events("?events=message", &[]);
    let id = format!("first-{transport}");
    let first = json!({"to": "bob", "message": "wörds to find", "priority": "now", "meta": {"a": [1]},
                       "mentions": ["bob"], "client_message_id": id, "mesh": "lab"});
    caller.call(alice, "send", &first);
    let event = caller.event(&mut stream, "message");
    let answer = json!({"to": "bob", "message": "again", "replyToId": event["id"], "priority": "low"});
    caller.call(alice, "send", &answer);
    caller.event(&mut stream, "message");
    caller.call(alice, "send", &first);
    let mut other = first.clone();
    other["message"] = json!("another text");
    caller.refused(alice, "send", &other, "idempotency_key_reused");

    let page = caller.call(
        bob,
        "inbox",
        &json!({"limit": 1, "from": "alice", "mark_seen": false, "unread_only": true,
                                                 "since": "2001-01-01T00:00:00Z", "mesh": "lab"}),
    );
    caller.call(bob, "inbox", &json!({"cursor": page["next"], "limit": 1, "mark_seen": false}));
    caller.call(bob, "inbox", &json!({"order": "oldest"}));
    caller.call(bob, "inbox", &json!({"session": "nobody", "topic": "none"}));
    let found = caller.call(bob, "inbox_search", &json!({"q": "wörds", "limit": 5, "mesh": "lab"}));
    assert_eq!(found["items"][0]["client_message_id"], id.as_str());
    let row = &page["items"][0]["id"];
    caller.call(bob, "inbox_seen", &json!({"ids": [row]}));
    caller.call(bob, "inbox_delete", &json!({"id": row}));
    caller.refused(bob, "inbox_delete", &json!({"id": row}), "not_found");
    caller.call(bob, "inbox_delete_before", &json!({"before": "2001-01-01T00:00:00+01:00"}));

    let mut lost = bob.events("?last_event_id=nonsense-1", &[]);
    assert!(lost.head.header("last-event-id").is_some(), "{:?}", lost.head.headers);
    caller.event(&mut lost, "gap");
}

fn topics(caller: &mut Caller, alice: &Client, bob: &Client, transport: &str) {
    let topic = format!("alerts-{transport}");
    caller.call(alice, "topic_subscribe", &json!({"topic": topic, "mesh": "lab"}));
    let mut stream = alice.events(&format!("?topic={topic}"), &[]);
    caller.call(bob, "topic_subscribe", &json!({"topic": topic}));
    let post = json!({"topic": topic, "message": "m", "priority": "next", "meta": {}, "mentions": ["alice"],
                      "client_message_id": topic, "mesh": "lab"});
    caller.call(bob, "topic_post", &post);
    assert_eq!(caller.event(&mut stream, "message")["mention"], true);
    caller.call(alice, "topic_list", &json!({}));
    caller.call(alice, "inbox", &json!({"topic": topic}));
    caller.call(bob, "topic_unsubscribe", &json!({"topic": topic}));
    caller.refused(bob, "topic_post", &json!({"topic": "nowhere", "message": "m"}), "topic_not_found");
}

fn files(caller: &mut Caller, alice: &Client, bob: &Client, place: &Path, transport: &str) {
    let path = place.join(format!("file-{transport}.txt"));
    std::fs::write(&path, "hello").unwrap();
    let mut stream = bob.events("?events=file_shared,message", &[]);
    let share = json!({"path": path, "to": "bob", "message": "look", "persistent": true, "tags": ["t"], "mesh": "lab"});
    let shared = caller.call(alice, "file_share", &share);
    caller.event(&mut stream, "file_shared");
    caller.call(bob, "file_list", &json!({}));
    caller.call(bob, "file_get", &json!({"id": shared["fileId"], "out": place.join(format!("out-{transport}.txt"))}));
    caller.refused(bob, "file_get", &json!({"id": "none", "out": "/nowhere"}), "file_not_found");
    caller.refused(alice, "file_share", &json!({"path": "/nowhere/at/all"}), "file_not_found");
}

fn refusals(caller: &mut Caller, alice: &Client) {
    caller.refused(alice, "send", &json!({"to": "nobody", "message": "m"}), "peer_not_found");
    caller.refused(alice, "send", &json!({"to": "bob"}), "invalid");
    caller.refused(alice, "send", &json!({"to": "bob", "message": "m".repeat(1_100_000)}), "payload_too_large");
    caller.refused(alice, "send", &json!({"to": "bob", "message": "m".repeat(300_000)}), "message_too_large");
    caller.refused(alice, "inbox", &json!({"since": "yesterday"}), "invalid");
    caller.refused(alice, "inbox_search", &json!({"q": " "}), "bad_query");
    caller.refused(alice, "peers", &json!({"mesh": "another"}), "mesh_not_found");
    caller.refused(alice, "profile", &json!({"status": "asleep"}), "invalid");
}

/// What daemons tell of each other.
fn comings_and_goings(caller: &mut Caller, lab: &mut Lab) {
    let alice = lab.host("alice").client(Transport::Socket);
    let mut stream = alice.events("", &[]);
    lab.host_mut("bob").stop();
    caller.event(&mut stream, "peer_leave");
    lab.host_mut("bob").start();
    caller.event(&mut stream, "peer_join");
    lab.host("bob").wait_connected();
    let bob = lab.host("bob").client(Transport::Socket);
    let renamed = bob.post("/v1/member/rename", &json!({"displayName": "robert"}));
    assert_eq!(renamed.status, 200, "{}", renamed.text());
    caller.event(&mut stream, "system");
    lab.kill_broker();
    caller.event(&mut stream, "daemon_disconnect");
    lab.start_broker();
    caller.event(&mut stream, "daemon_reconnect");
    lab.host("alice").wait_connected();
    lab.host("bob").wait_connected();
    let mut last = bob.events("?events=member_revoked", &[]);
    let revoked = alice.post("/v1/member/revoke", &json!({"target": "robert"}));
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    assert_eq!(caller.event(&mut last, "member_revoked")["self"], true);
    caller.event(&mut stream, "member_revoked");
}

/// A house of its own.
struct House {
    root: tempfile::TempDir,
    child: Child,
}

impl House {
    fn start() -> Self {
        let root = tempfile::Builder::new().prefix("hostel-schema-").tempdir().unwrap();
        let child = Self::command(root.path(), &["up", "--foreground"]).spawn().unwrap();
        let mut house = Self { root, child };
        wait::listener(&house.root.path().join("run/hostel.sock"), &mut house.child, String::new);
        house
    }

    fn command(root: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        house::set_base_environment(&mut command, root);
        command.env("HOSTEL_HOME", root).env("HOSTEL_DOORS_CODECAST_ENABLED", "false");
        command.args(words).current_dir(root).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // Also the keeper and the agents.
        Self::command(self.root.path(), &["down"]).status().ok();
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Calls of the house; the peer has checked and folded the two spellings.
struct Rpc {
    caller: Caller,
    peer: Peer,
}

impl Rpc {
    fn call(&mut self, name: &str, with: Value) -> Value {
        let operation = self.caller.operation(name);
        match &operation.takes {
            Some(takes) => self.caller.check(takes, &with),
            None => assert_eq!(with, json!({}), "{name} takes nothing"),
        }
        let answer = self.peer.ask(&operation.method, with);
        self.caller.check(&operation.answer, &answer);
        answer
    }

    /// Takes updates until one of that type, each as the schema says.
    fn update(&mut self, wanted: &str) -> Value {
        loop {
            let frame = self.peer.update();
            let kind = frame["type"].as_str().expect("a type").to_owned();
            let definition = self.caller.schema.definition_of("updates", &kind).unwrap().to_owned();
            self.caller.check(&definition, &frame);
            self.caller.called.insert(format!("update {kind}"));
            if kind == wanted {
                return frame;
            }
        }
    }
}

#[test]
fn the_house_says_what_the_schema_says() {
    let house = House::start();
    let peer = Peer::connect(&house.root.path().join("run/hostel.sock")).unwrap();
    let mut rpc = Rpc { caller: Caller::new("house"), peer };
    let protocol = rpc.caller.schema.root["native_protocol"].clone();
    rpc.call("initialize", json!({"protocol_version": protocol}));
    rpc.call("agents_list", json!({}));
    let cwd = house.root.path();
    let made = rpc.call(
        "session_new",
        json!({"agent_alias": "echo", "cwd": cwd, "name": "schema", "mode": "ask",
                                              "model": "m", "hosting": "warm", "mesh": "off"}),
    );
    let of = |more: Value| {
        let mut with = json!({"session_id": made["session_id"]});
        for (name, value) in more.as_object().unwrap() {
            with[name] = value.clone();
        }
        with
    };
    rpc.call("session_attach", of(json!({"since_seq": 0, "follow": true})));
    for prompt in ["hello", "tool", "think", "fail"] {
        rpc.call("session_send", of(json!({"prompt": prompt})));
        rpc.update("turn_complete");
    }
    rpc.call("session_send", of(json!({"prompt": "approve"})));
    let asked = rpc.update("approval_request")["request_id"].clone();
    let edited = json!({"request_id": asked, "decision": "reject_with_edit", "replacement": "no"});
    rpc.call("session_approve", of(edited));
    rpc.update("approval_resolved");
    rpc.update("turn_complete");
    rpc.call("session_send", of(json!({"prompt": "sleep 60"})));
    rpc.update("agent_message_chunk");
    rpc.call("session_list", json!({"query": "schema", "limit": 5, "all": true}));
    rpc.call("session_cancel", of(json!({})));
    rpc.update("turn_complete");
    rpc.call("session_interrupt", of(json!({})));
    rpc.call("session_messages", of(json!({"limit": 2, "before_index": 4})));
    rpc.call("session_list", json!({}));
    rpc.call("session_detach", of(json!({})));
    rpc.call("session_attach", of(json!({"since_seq": 0, "follow": false})));
    rpc.update("replay_complete");
    rpc.call("session_attach", of(json!({})));
    rpc.call("session_close", of(json!({})));
    rpc.update("session_closed");
    rpc.call("session_kill", of(json!({})));
    rpc.call("session_delete", of(json!({})));
    rpc.caller.finish(true, "updates");
}
