//! The points of what cannot be done at once and is done later: a message that comes before its key, one that the broker
//! turns away for now, and an earlier key that is handed on to members who come after it was replaced.

use std::fs;

use hostel_tests::claudemesh::{Client, Host, Lab, Transport};
use hostel_tests::wait;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::field::{Field, QUICK, insist, post};
use crate::points::has_points;

/// The point of a message whose key came after it.
pub(in crate::points) const OPENED: &[&str] = &["mesh.inbox.opened"];

/// The point of a message that the broker has turned away for now.
pub(in crate::points) const TURNED_AWAY: &[&str] = &["mesh.outbox.retried"];

/// The point of an earlier key that is sealed with a later one.
pub(in crate::points) const HANDED_ON: &[&str] = &["broker.record.stored"];

fn broker_database(lab: &Lab) -> Connection {
    Connection::open(lab.broker_home().join("broker/broker.db")).expect("the broker's database")
}

fn wait_sent(client: &Client) {
    wait::until_true(wait::LIMIT, "everything to be sent", || client.get_json("/v1/health")["queue_depth"] == 0);
}

fn post_to_topic(field: &mut Field, word: &str) -> String {
    let text = field.next(word);
    let body = json!({"topic": "alerts", "message": text, "client_message_id": text});
    insist(&field.client("alice"), "POST", "/v1/topic/post", &body);
    text
}

/// Takes bob's keys of topics away, from bob and from the broker. None of the three may run.
fn lose_keys_of_bob(lab: &Lab) {
    let bob = lab.host("bob");
    let copies = "DELETE FROM kv WHERE bucket = 'seal' AND key LIKE ?";
    let removed = broker_database(lab).execute(copies, [format!("%/{}", bob.member("memberId"))]);
    assert!(removed.is_ok_and(|removed| removed > 0), "the broker had copies of keys for bob");
    fs::remove_file(bob.directory().join("topics.json")).expect("bob had keys");
}

#[test]
fn what_came_before_its_key_is_told_once() {
    if !has_points() {
        return;
    }
    let mut field = Field::start();
    for point in OPENED {
        for name in ["alice", "bob"] {
            insist(&field.client(name), "POST", "/v1/topic/subscribe", &json!({"topic": "alerts"}));
        }
        post_to_topic(&mut field, "with a key");
        field.check("the first post");
        let mut events = field.client("bob").events("?events=message", &[]);
        field.talk("the first post");
        events.named("message");
        let last = events.last_id.take().expect("an event has an id");
        drop(events);
        // While bob is away alice posts, and then she goes as well: nobody has the key whom bob could ask.
        field.lab.host_mut("bob").stop();
        let text = post_to_topic(&mut field, point);
        wait_sent(&field.client("alice"));
        field.lab.host_mut("alice").stop();
        field.lab.kill_broker();
        lose_keys_of_bob(&field.lab);
        field.lab.start_broker();
        field.lab.host_mut("bob").start();
        let inbox = Connection::open(field.lab.host("bob").directory().join("inbox.db")).expect("bob's inbox");
        wait::until_true(wait::LIMIT, "a message that waits for its key", || {
            let count = "SELECT count(*) FROM inbox WHERE decrypt_state = 'key_pending'";
            inbox.query_row(count, [], |row| row.get::<_, i64>(0)).expect("a number") == 1
        });
        drop(inbox);
        field.points.kill_next(point);
        field.lab.host_mut("alice").start();
        let died = field.points.met();
        assert_eq!(died, field.lab.host("bob").identity(), "another process was at {point}");
        field.points.disarm();
        field.restart(point, died);
        field.check(point);
        // It is told once, in its place.
        let header = ("Last-Event-ID".to_owned(), last);
        let mut events = field.client("bob").events("?events=message", &[header]);
        assert_eq!(events.named("message")["body"], json!(text));
        field.talk(point);
        assert_eq!(events.named("message")["body"], json!(field.said.last()));
    }
}

const SMALL_LOG: &str = "[broker]\nlog_size = \"1 MiB\"\n";

/// Together, sealed, more than the small log holds.
const TURNED_AWAY_COUNT: usize = 24;
const TURNED_AWAY_BYTES: usize = 60_000;

#[test]
fn what_the_broker_turns_away_arrives_once() {
    if !has_points() {
        return;
    }
    for point in TURNED_AWAY {
        let mut field = Field::prepare_with(&["alice", "bob"], SMALL_LOG);
        field.begin();
        // The broker keeps for bob what he has not fetched, until its log is full.
        field.lab.host_mut("bob").stop();
        let filler = "x".repeat(TURNED_AWAY_BYTES);
        let letter = |text: &str| json!({"to": "bob", "message": text, "client_message_id": text[..8].trim()});
        let texts: Vec<String> = (0..TURNED_AWAY_COUNT).map(|_| field.next(&format!("{point} {filler}"))).collect();
        field.points.kill_next(point);
        for text in &texts {
            if post(&field.lab, "alice", "/v1/send", &letter(text)).is_none() {
                break;
            }
        }
        let died = field.points.met();
        assert_eq!(died, field.lab.host("alice").identity(), "another process was at {point}");
        field.points.disarm();
        let alice = field.lab.host_mut("alice");
        alice.kill();
        alice.start();
        for text in &texts {
            insist(&field.client("alice"), "POST", "/v1/send", &letter(text));
        }
        let page = field.client("alice").get_json("/v1/outbox?status=pending&limit=1000");
        assert_ne!(page["items"], json!([]), "everything was sent although the broker's log is full");
        // With more room it takes them all.
        field.lab.kill_broker();
        fs::write(field.lab.broker_home().join("hostel.toml"), "").expect("the broker's settings");
        field.lab.start_broker();
        field.lab.host_mut("bob").start();
        field.wait_connected();
        field.talk(point);
    }
}

fn set_state(name: &str, epoch: u64) -> Value {
    json!({"key": name, "value": epoch, "client_message_id": name})
}

fn state(client: &Client, name: &str) -> Value {
    client.get_json(&format!("/v1/state/get?key={name}"))["value"].clone()
}

#[test]
fn an_earlier_key_is_handed_on_once() {
    if !has_points() {
        return;
    }
    for point in HANDED_ON {
        let mut field = Field::prepare(&["alice", "bob", "carol", "dave"]);
        field.begin();
        let alice = field.client("alice");
        // After each revocation there is another key. The first one is known to everybody; the second is handed on.
        insist(&alice, "POST", "/v1/member/revoke", &json!({"target": "carol"}));
        insist(&alice, "POST", "/v1/state/set", &set_state("one", 1));
        insist(&alice, "POST", "/v1/member/revoke", &json!({"target": "dave"}));
        let broker = field.lab.broker();
        field.die(point, |lab| post(lab, "alice", "/v1/state/set", &set_state("two", 2)));
        assert_ne!(field.lab.broker(), broker, "another process than the broker was at {point}");
        insist(&alice, "POST", "/v1/state/set", &set_state("two", 2));
        field.talk(point);
        let count = "SELECT count(*) FROM kv WHERE bucket = 'shared_link'";
        let links = broker_database(&field.lab).query_row(count, [], |row| row.get::<_, i64>(0));
        assert_eq!(links, Ok(1), "there is one earlier key to be handed on");
        // A member that comes later has the present key from alice, and the earlier one from the broker alone.
        let mut erin = Host::new("erin", field.lab.path());
        erin.configure(&format!("{QUICK}[ipc]\ntcp_enabled = true\n"));
        let link = field.lab.host("alice").invite(1);
        erin.run(&["join", &link, "--name", "erin"]);
        erin.start();
        erin.wait_connected();
        let client = erin.client(Transport::Socket);
        assert_eq!(state(&client, "two"), 2);
        for name in ["alice", "bob"] {
            field.lab.host_mut(name).stop();
        }
        assert_eq!(state(&client, "one"), 1);
    }
}
