//! Keys of topics that are not there yet: what a session posted and waited, what goes out without a daemon, and what a
//! list cannot open.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use std::fs;

use hostel_tests::claudemesh::{Client, Lab, Options, Transport};
use hostel_tests::wait;
use rusqlite::Connection;
use serde_json::{Value, json};

const CONFIG: &str = "[capabilities]\nstate = true\ntasks = true\n[reconnect]\ninitial_backoff_ms = 50\n\
    max_backoff_ms = 500\n";

const TOKEN: &str = "5e551011e55105e551011e55105e551011e55105e551011e55105e551011e551";

fn lab(members: &[&str]) -> Lab {
    Lab::start_with(&Options { config: CONFIG.to_owned(), ..Options::of(members) })
}

fn items(client: &Client) -> Vec<Value> {
    client.get_json("/v1/inbox?limit=100&mark_seen=false")["items"].as_array().expect("items").clone()
}

/// The message with this text, once it is there.
fn received(client: &Client, body: &str) -> Value {
    wait::until(wait::LIMIT, &format!("`{body}`"), || items(client).into_iter().find(|item| item["body"] == body))
}

fn wait_sent(client: &Client) {
    wait::until_true(wait::LIMIT, "everything to be sent", || client.get_json("/v1/health")["queue_depth"] == 0);
}

fn broker_db(lab: &Lab) -> Connection {
    Connection::open(lab.broker_home().join("broker/broker.db")).unwrap()
}

/// A post of a session that is opened when its key comes is the session's, as if the key had been there.
#[test]
fn what_waited_for_its_key_keeps_the_session_that_wrote_it() {
    let mut lab = lab(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    for client in [&alice, &bob] {
        assert_eq!(client.post("/v1/topic/subscribe", &json!({"topic": "alerts"})).status, 200);
    }
    let session = json!({"token": TOKEN, "session_id": "s-1", "mesh": "lab", "display_name": "fix",
        "pid": std::process::id()});
    let registered = alice.post("/v1/sessions/register", &session);
    assert_eq!(registered.status, 200, "{}", registered.text());
    assert_eq!(alice.post("/v1/topic/post", &json!({"topic": "alerts", "message": "of the host"})).status, 202);
    assert_eq!(received(&bob, "of the host")["sender_name"], "alice");
    // While bob is away a session posts, and then the host goes as well: nobody has the key whom bob could ask.
    lab.host_mut("bob").stop();
    let of_session = [("Authorization".to_owned(), format!("ClaudeMesh-Session {TOKEN}"))];
    let post = json!({"topic": "alerts", "message": "of a session"}).to_string();
    let posted = alice.request("POST", "/v1/topic/post", &of_session, post.as_bytes());
    assert_eq!(posted.status, 202, "{}", posted.text());
    wait_sent(&alice);
    lab.host_mut("alice").stop();
    lab.kill_broker();
    let removed = broker_db(&lab)
        .execute(
            "DELETE FROM kv WHERE bucket = 'seal' AND key LIKE ?",
            [format!("%/{}", lab.host("bob").member("memberId"))],
        )
        .unwrap();
    assert!(removed > 0, "bob had copies of keys");
    fs::remove_file(lab.host("bob").directory().join("topics.json")).unwrap();
    lab.start_broker();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let inbox = Connection::open(lab.host("bob").directory().join("inbox.db")).unwrap();
    wait::until_true(wait::LIMIT, "a message that waits for its key", || {
        let count = "SELECT count(*) FROM inbox WHERE decrypt_state = 'key_pending'";
        inbox.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    });
    lab.host_mut("alice").start();
    let item = received(&lab.host("bob").client(Transport::Socket), "of a session");
    assert_eq!((&item["sender_name"], &item["topic"]), (&json!("alice/fix"), &json!("alerts")));
}

/// Without a daemon the same rules hold as with one.
#[test]
fn without_a_daemon_mentions_are_names_and_keys_are_those_that_count_now() {
    let mut lab = lab(&["alice", "bob", "carol"]);
    lab.host_mut("bob").stop();
    let alice = lab.host("alice").client(Transport::Socket);
    let bob = lab.host("bob");
    bob.run(&["post", "general", "--mention", "@Alice", "named"]);
    let item = received(&alice, "named");
    assert_eq!((&item["mentions"], &item["mention"]), (&json!(["alice"]), &json!(true)));
    bob.run(&["send", "#general", "look, @ALICE and @nobody-here"]);
    let item = received(&alice, "look, @ALICE and @nobody-here");
    assert_eq!((&item["mentions"], &item["mention"]), (&json!(["alice", "nobody-here"]), &json!(true)));
    let mut many = vec!["post".to_owned(), "general".to_owned(), "too many".to_owned()];
    many.extend((0..17).flat_map(|number| ["--mention".to_owned(), format!("m{number}")]));
    for arguments in [many, ["post", "general", "--mention", "no name", "what"].map(str::to_owned).to_vec()] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let refused = bob.try_run(&arguments);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("at most 16 names"), "{said}");
    }
    // A revocation: everything that follows has another key, which bob's files do not have.
    assert_eq!(alice.post("/v1/member/revoke", &json!({"target": "carol"})).status, 200);
    assert_eq!(alice.post("/v1/topic/post", &json!({"topic": "general", "message": "without carol"})).status, 202);
    wait_sent(&alice);
    bob.run(&["post", "general", "under the new key"]);
    assert_eq!(received(&alice, "under the new key")["sender_name"], "bob");
}

/// Where nobody has made the key yet that counts, it is said what is missing and what to do.
#[test]
fn without_a_daemon_a_key_that_nobody_has_made_is_named() {
    let mut lab = lab(&["alice", "bob", "carol"]);
    for name in ["alice", "bob", "carol"] {
        lab.host_mut(name).stop();
    }
    lab.host("alice").run(&["member", "revoke", "carol"]);
    let refused = lab.host("bob").try_run(&["post", "general", "hello"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("key") && said.contains("daemon up"), "{said}");
}

/// What cannot be opened is left out of a list, and the list says how much that is.
#[test]
fn lists_say_what_they_cannot_open() {
    let mut lab = lab(&["alice"]);
    let alice = lab.host("alice").client(Transport::Socket);
    for key in ["one", "two", "three"] {
        assert_eq!(alice.post("/v1/state/set", &json!({"key": key, "value": key})).status, 200);
        assert_eq!(alice.post("/v1/task/create", &json!({"title": key})).status, 200);
    }
    lab.kill_broker();
    // One entry and two tasks are exchanged for what nobody has sealed.
    let database = broker_db(&lab);
    for (bucket, field, count) in [("state", "name", 1), ("task", "title", 2)] {
        let mut select = database.prepare("SELECT key, value FROM kv WHERE bucket = ? ORDER BY key LIMIT ?").unwrap();
        let rows = select.query_map((bucket, count), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows: Vec<(String, Vec<u8>)> = rows.map(Result::unwrap).collect();
        assert_eq!(rows.len(), usize::try_from(count).unwrap());
        for (key, value) in rows {
            let mut record: Value = serde_json::from_slice(&value).unwrap();
            let sealed = record[field]["ciphertext"].as_str().expect("a box").to_owned();
            let other = if sealed.starts_with('A') { "B" } else { "A" };
            record[field]["ciphertext"] = format!("{other}{}", &sealed[1..]).into();
            let update = "UPDATE kv SET value = ? WHERE bucket = ? AND key = ?";
            assert_eq!(database.execute(update, (record.to_string().into_bytes(), bucket, key)).unwrap(), 1);
        }
    }
    drop(database);
    lab.start_broker();
    let host = lab.host("alice");
    host.wait_connected();
    let told = |arguments: &[&str]| {
        let output = host.try_run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    let (table, said) = told(&["state", "list"]);
    assert_eq!(table.lines().count(), 3, "two and what is above them: {table}");
    assert_eq!(said, "1 more cannot be read here: its key is missing, or it is damaged\n");
    let (table, said) = told(&["task", "list"]);
    assert_eq!(table.lines().count(), 2, "one and what is above it: {table}");
    assert_eq!(said, "2 more cannot be read here: their keys are missing, or they are damaged\n");
    // For programs it is a number beside the list, and nothing else is printed.
    let (list, said) = told(&["state", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((&list["unreadable"], list["items"].as_array().unwrap().len(), said.as_str()), (&json!(1), 2, ""));
}
