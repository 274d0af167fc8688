//! The mesh daemons and the broker killed at their points: what was accepted arrives once and in order, and what was
//! asked for is there, once.

pub(super) mod beginning;
mod field;
pub(super) mod later;

use std::fs;
use std::path::Path;
use std::process::Command;

use hostel_tests::claudemesh::{Client, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::has_points;
use field::{Field, insist, message, post};

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

/// A hook that notes the first word of every message it is run for.
const NOTES: &str = "#!/usr/bin/python3\nimport json, sys\n\
     open('runs', 'a').write(json.load(sys.stdin)['body'].split()[0] + '\\n')\n";

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

/// Each share of a file is listed once and announced once.
fn check_shared(bob: &Client, count: usize, after: &str) {
    let ids = |items: &Value, id: fn(&Value) -> &Value| -> Vec<String> {
        let ids = items.as_array().expect("a list").iter().map(id);
        let mut ids: Vec<String> = ids.filter_map(Value::as_str).map(str::to_owned).collect();
        ids.sort();
        ids
    };
    let announced = || {
        let page = bob.get_json("/v1/inbox?limit=1000&mark_seen=false");
        ids(&page["items"], |item| &item["meta"]["file"]["id"])
    };
    wait::until_true(wait::LIMIT, &format!("{after}: {count} announcements of files"), || announced().len() >= count);
    let listed = ids(&bob.get_json("/v1/file/list")["files"], |file| &file["id"]);
    assert_eq!((announced().len(), &listed), (count, &announced()), "{after}");
}

fn carry_out(points: &[&str]) {
    let mut field = Field::start();
    let file = field.lab.path().join("shared.txt");
    fs::write(&file, "content").expect("a file");
    let mut shared = 0;
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
        let repeated = match *point {
            // What was queued again is on its way under its new id, and cannot be queued once more.
            "mesh.outbox.requeued" => false,
            // Whoever shares is told before the broker has the file.
            "broker.file.bytes-written" | "broker.file.stored" | "mesh.file.settled" => false,
            _ => true,
        };
        if repeated {
            insist(&field.client("alice"), "POST", path, &body);
        }
        field.talk(point);
        if path == "/v1/file/share" {
            shared += 1;
            check_shared(&field.client("bob"), shared, point);
        }
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
