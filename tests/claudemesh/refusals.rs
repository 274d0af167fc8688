//! Refusals that need something to happen first: a revocation, a name that means two, a file that was changed on its way,
//! a row that was given up, a log that was shortened.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::codecast::http::{Answer, Connection};
use hostel_tests::wait;
use rusqlite::Connection as Database;
use rustix::process::Signal;
use serde_json::{Value, json};

fn refused(answer: &Answer, status: u16, word: &str) -> Value {
    let json = answer.json();
    assert_eq!((answer.status, &json["error"]), (status, &Value::from(word)), "{json}");
    assert!(json["detail"].is_string() && json.get("field").is_some(), "{json}");
    json
}

fn bodies(client: &Client) -> Vec<String> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().expect("items").iter().rev();
    items.map(|item| item["body"].as_str().expect("a body").to_owned()).collect()
}

fn wait_for_bodies(client: &Client, expected: &[&str]) {
    let found = wait::eventually(&format!("{expected:?} in the inbox"), || {
        let found = bodies(client);
        if found.len() >= expected.len() { Ok(found) } else { Err(format!("{found:?}")) }
    });
    assert_eq!(found, expected);
}

/// A request whose head is there and whose body is not: it has been let in, and is decided later.
fn half(client: &Client, path: &str, length: usize) -> Connection {
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in client.headers() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {length}\r\n\r\n"));
    let mut connection = client.connect();
    connection.send(head.as_bytes()).unwrap();
    connection
}

#[test]
fn a_revoked_daemon_refuses_tells_why_and_ends_with_78() {
    let mut lab = Lab::start(&["alice", "bob"]);
    let bob = Transport::ALL.map(|transport| lab.host("bob").client(transport));
    let mut events = bob[0].events("?events=member_revoked", &[]);
    let mut others = lab.host("alice").client(Transport::Socket).events("?events=member_revoked", &[]);
    let body = json!({"to": "alice", "message": "too late"}).to_string();
    let mut waiting: Vec<Connection> = bob.iter().map(|client| half(client, "/v1/send", body.len())).collect();
    // The head of each has been read once a later request is answered.
    for client in &bob {
        assert_eq!(client.get("/v1/version").status, 200);
    }
    let key = lab.host("bob").member("pubkey");
    let printed = lab.host("alice").run(&["member", "revoke", "bob", "--mesh", "lab"]);
    assert!(printed.contains("revoked"), "{printed}");
    // Both hear of it: the one who is out, and whoever administers the mesh.
    let event = events.named("member_revoked");
    assert_eq!((&event["mesh"], &event["pubkey"]), (&json!("lab"), &json!(key)));
    assert_eq!(others.named("member_revoked")["pubkey"], json!(key));
    for connection in &mut waiting {
        connection.send(body.as_bytes()).unwrap();
        refused(&connection.answer(), 503, "member_revoked");
    }
    let ended = lab.host_mut("bob").ended();
    assert_eq!(ended.code(), Some(78), "{ended}");
    assert!(lab.host("bob").printed().contains("\"msg\":\"member_revoked\""), "{}", lab.host("bob").printed());
    // For good: a supervisor that starts it again gets the same answer.
    lab.host_mut("bob").launch(&[]);
    assert_eq!(lab.host_mut("bob").ended().code(), Some(78));
    let alice = lab.host("alice").client(Transport::Tcp);
    refused(&alice.post("/v1/send", &json!({"to": "bob", "message": "x"})), 404, "peer_not_found");
    assert!(bodies(&alice).is_empty());
}

#[test]
fn a_name_that_is_the_beginning_of_a_key_means_nobody_until_it_is_said_which() {
    let mut lab = Lab::start(&["alice", "bob"]);
    let key = lab.host("alice").member("pubkey");
    let prefix = key[..16].to_owned();
    let mut namesake = Host::new(&prefix, lab.path());
    namesake.configure("[ipc]\ntcp_enabled = true\n");
    namesake.run(&["join", &lab.host("alice").invite(1), "--name", &prefix]);
    assert_eq!(namesake.member("displayName"), prefix);
    namesake.start();
    namesake.wait_connected();
    let other = namesake.member("pubkey");
    lab.hosts.push(namesake);
    for transport in Transport::ALL {
        let bob = lab.host("bob").client(transport);
        wait::until_true(wait::LIMIT, "bob to know the newcomer", || {
            bob.get("/v1/member/list").text().contains(&other)
        });
        let id = format!("free-{}", transport.name());
        let send = |to: &str, id: &str| {
            bob.post("/v1/send", &json!({"to": to, "message": format!("for {to}"), "client_message_id": id}))
        };
        let json = refused(&send(&prefix, &id), 409, "ambiguous_target");
        assert_eq!(json["field"], "to");
        let mut candidates: Vec<&str> = json["candidates"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
        candidates.sort_unstable();
        let mut expected = [key.as_str(), other.as_str()];
        expected.sort_unstable();
        assert_eq!(candidates, expected);
        let file = lab.path().join("shared.txt");
        fs::write(&file, "x").unwrap();
        refused(&bob.post("/v1/file/share", &json!({"path": file, "to": prefix})), 409, "ambiguous_target");
        // A whole key means one; the id that was refused is free.
        assert_eq!(send(&key, &id).status, 202);
        assert_eq!(send(&other, &format!("other-{}", transport.name())).status, 202);
        // One more digit, and the name fits no longer.
        assert_eq!(send(&key[..17], &format!("longer-{}", transport.name())).status, 202);
    }
    let alice = lab.host("alice").client(Transport::Socket);
    let (whole, longer) = (format!("for {key}"), format!("for {}", &key[..17]));
    wait_for_bodies(&alice, &[&whole, &longer, &whole, &longer]);
    let namesake = lab.host(&prefix).client(Transport::Socket);
    let whole = format!("for {other}");
    wait_for_bodies(&namesake, &[&whole, &whole]);
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path) } else { vec![path] }
        })
        .collect()
}

#[test]
fn a_file_that_was_changed_on_its_way_is_not_written() {
    let lab = Lab::start(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Tcp));
    let shared = lab.path().join("numbers.bin");
    // Several chunks of 256 KiB, and a last one that is not full.
    let content: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(&shared, &content).unwrap();
    let answer = alice.post("/v1/file/share", &json!({"path": shared, "to": "bob"}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["fileId"].as_str().unwrap().to_owned();
    let place = lab.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("got.bin");
    let get = |client: &Client| client.get(&format!("/v1/file/get?id={id}&out={}", out.display()));
    wait::until_true(wait::LIMIT, "the file to be there", || get(&bob).status == 200);
    assert_eq!(fs::read(&out).unwrap(), content);
    let blob = files(&lab.broker_home().join("broker/blobs"))
        .into_iter()
        .find(|path| fs::metadata(path).unwrap().len() >= 700_000)
        .expect("the broker has the sealed file");
    let sealed = fs::read(&blob).unwrap();
    // In its head, in each chunk, in its last byte.
    for place_in_file in [0, 10, 40, 1000, 262_300, 524_700, sealed.len() - 20, sealed.len() - 1] {
        let mut changed = sealed.clone();
        changed[place_in_file] ^= 1;
        fs::write(&blob, &changed).unwrap();
        fs::write(&out, "what was here before").unwrap();
        for client in [&bob, &lab.host("bob").client(Transport::Socket)] {
            refused(&get(client), 409, "hash_mismatch");
        }
        assert_eq!(fs::read(&out).unwrap(), b"what was here before", "byte {place_in_file}");
        assert_eq!(files(&place), std::slice::from_ref(&out), "nothing half done is left");
    }
    fs::write(&blob, &sealed).unwrap();
    assert_eq!(get(&bob).status, 200);
    assert_eq!(fs::read(&out).unwrap(), content);
}

fn conflict(answer: &Answer, conflict: &str) -> Value {
    let json = refused(answer, 409, "idempotency_key_reused");
    assert_eq!(json["conflict"], conflict, "{json}");
    let prefix = json["daemon_fingerprint_prefix"].as_str().expect("the beginning of the fingerprint");
    assert!(prefix.len() == 16 && prefix.bytes().all(|byte| byte.is_ascii_hexdigit()), "{json}");
    json
}

fn send(client: &Client, to: &str, message: &str, id: &str) -> Answer {
    client.post("/v1/send", &json!({"to": to, "message": message, "client_message_id": id}))
}

/// The row of an id.
fn row(client: &Client, id: &str) -> Option<Value> {
    let page = client.get_json("/v1/outbox?limit=1000");
    page["items"].as_array().expect("items").iter().find(|item| item["client_message_id"] == id).cloned()
}

fn wait_for_status(client: &Client, id: &str, status: &str) -> Value {
    wait::until(wait::LIMIT, &format!("{id} to be {status}"), || row(client, id).filter(|row| row["status"] == status))
}

#[test]
fn an_id_that_is_under_way_is_answered_by_what_it_says() {
    let lab = Lab::start(&["alice", "bob"]);
    for transport in Transport::ALL {
        let alice = lab.host("alice").client(transport);
        let id = format!("under-way-{}", transport.name());
        // A broker that reads nothing answers nothing.
        lab.broker().freeze();
        assert_eq!(send(&alice, "bob", "one", &id).status, 202);
        wait_for_status(&alice, &id, "inflight");
        let again = send(&alice, "bob", "one", &id);
        assert_eq!((again.status, &again.json()["status"]), (202, &json!("inflight")), "{}", again.text());
        let json = conflict(&send(&alice, "bob", "two", &id), "outbox_inflight_fingerprint_mismatch");
        assert_eq!(json["broker_message_id"], Value::Null);
        lab.broker().signal(Signal::CONT);
        let done = wait::until(wait::LIMIT, "the answer of the broker", || {
            Some(send(&alice, "bob", "one", &id)).filter(|answer| answer.status == 200)
        });
        assert_eq!((&done.json()["status"], &done.json()["duplicate"]), (&json!("done"), &json!(true)));
    }
    wait_for_bodies(&lab.host("bob").client(Transport::Socket), &["one", "one"]);
}

#[test]
fn an_id_that_became_too_old_is_dead_and_one_that_was_given_up_aborted() {
    let mut lab = Lab::start(&["alice", "bob"]);
    let alice = lab.host("alice").client(Transport::Socket);
    let mut events = alice.events("?events=daemon_disconnect", &[]);
    lab.kill_broker();
    events.named("daemon_disconnect");
    let last = events.last_id.clone().expect("an event has an id");
    drop(events);
    assert_eq!(send(&alice, "bob", "one", "old").status, 202);
    lab.host_mut("alice").stop();
    // As if a week had passed.
    let database = Database::open(lab.host("alice").directory().join("outbox.db")).unwrap();
    assert_eq!(database.execute("UPDATE outbox SET expires_at = 1", []).unwrap(), 1);
    drop(database);
    lab.start_broker();
    lab.host_mut("alice").start();
    let alice = lab.host("alice").client(Transport::Socket);
    let dead = wait_for_status(&alice, "old", "dead");
    assert!(dead["last_error"].is_string(), "{dead}");
    let mut events = alice.events(&format!("?events=outbox_dead&last_event_id={last}"), &[]);
    let event = events.named("outbox_dead");
    assert_eq!((&event["client_message_id"], &event["reason"]), (&json!("old"), &json!("expired")), "{event}");
    for transport in Transport::ALL {
        let alice = lab.host("alice").client(transport);
        let json = conflict(&send(&alice, "bob", "one", "old"), "outbox_dead_fingerprint_match");
        assert!(json["detail"].as_str().unwrap().contains("expired"), "{json}");
        conflict(&send(&alice, "bob", "two", "old"), "outbox_dead_fingerprint_mismatch");
        conflict(&send(&alice, "*", "one", "old"), "outbox_dead_fingerprint_mismatch");
    }
    let id = dead["id"].as_str().unwrap();
    let printed =
        lab.host("alice").run(&["daemon", "outbox", "requeue", id, "--new-client-id", "new", "--mesh", "lab"]);
    assert!(printed.contains("new"), "{printed}");
    for transport in Transport::ALL {
        let alice = lab.host("alice").client(transport);
        conflict(&send(&alice, "bob", "one", "old"), "outbox_aborted_fingerprint_match");
        conflict(&send(&alice, "bob", "two", "old"), "outbox_aborted_fingerprint_mismatch");
    }
    lab.host("alice").wait_connected();
    wait_for_status(&alice, "new", "done");
    // Nothing of the old id ever went out, and a last word shows that nothing is on its way.
    assert_eq!(send(&alice, "bob", "last", "last").status, 202);
    wait_for_bodies(&lab.host("bob").client(Transport::Socket), &["one", "last"]);
    conflict(&send(&alice, "bob", "one", "old"), "outbox_aborted_fingerprint_match");
}

#[test]
fn what_the_broker_refuses_for_good_is_dead_and_its_id_bound() {
    let mut lab = Lab::start(&["owner", "alice", "bob"]);
    let alice = lab.host("alice").client(Transport::Socket);
    let mut events = alice.events("?events=daemon_disconnect", &[]);
    lab.kill_broker();
    events.named("daemon_disconnect");
    let last = events.last_id.clone().expect("an event has an id");
    drop(events);
    assert_eq!(send(&alice, "bob", "for bob", "refused").status, 202);
    lab.host_mut("alice").kill();
    lab.start_broker();
    lab.host("owner").wait_connected();
    lab.host("owner").run(&["member", "revoke", "bob", "--mesh", "lab"]);
    lab.host_mut("alice").start();
    let alice = lab.host("alice").client(Transport::Socket);
    wait_for_status(&alice, "refused", "dead");
    let mut events = alice.events(&format!("?events=outbox_dead&last_event_id={last}"), &[]);
    let event = events.named("outbox_dead");
    assert_eq!((&event["client_message_id"], &event["reason"]), (&json!("refused"), &json!("recipient_revoked")));
    let json = conflict(&send(&alice, "owner", "for bob", "refused"), "outbox_dead_fingerprint_mismatch");
    assert!(json["detail"].as_str().unwrap().contains("recipient_revoked"), "{json}");
    let printed = lab.host("alice").run(&["daemon", "outbox", "list", "--failed", "--mesh", "lab"]);
    assert!(printed.contains("cid=refused"), "{printed}");
    // It holds nothing up.
    assert_eq!(send(&alice, "owner", "for the owner", "next").status, 202);
    wait_for_bodies(&lab.host("owner").client(Transport::Tcp), &["for the owner"]);
}

#[test]
fn a_log_that_was_shortened_meanwhile_is_told_once() {
    let mut lab = Lab::start(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let mut events = bob.events("?events=message", &[]);
    assert_eq!(send(&alice, "bob", "kept", "kept").status, 202);
    events.named("message");
    let last = events.last_id.clone().expect("an event has an id");
    drop(events);
    lab.host_mut("bob").stop();
    for id in ["lost-1", "lost-2", "lost-3"] {
        assert_eq!(send(&alice, "bob", id, id).status, 202);
        wait_for_status(&alice, id, "done");
    }
    lab.kill_broker();
    // As a sweep leaves it a month later: everything in the log is too old.
    let database = Database::open(lab.broker_home().join("broker/broker.db")).unwrap();
    assert!(database.execute("DELETE FROM log", []).unwrap() >= 4);
    database.execute("UPDATE logs SET first_seq = last_seq + 1, bytes = 0", []).unwrap();
    drop(database);
    lab.start_broker();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let bob = lab.host("bob").client(Transport::Tcp);
    let resumed = |client: &Client| client.events(&format!("?events=history_gap,message&last_event_id={last}"), &[]);
    let event = resumed(&bob).named("history_gap");
    assert_eq!(event["mesh"], "lab");
    let (from, to) = (event["from"].as_u64().unwrap(), event["to"].as_u64().unwrap());
    assert!(to >= from + 2, "three entries are gone: {event}");
    assert!(bob.get("/v1/metrics").text().contains("cm_daemon_history_gap_total{mesh=\"lab\"} 1\n"));
    // What comes after it comes, and a second start has nothing to tell.
    assert_eq!(send(&alice, "bob", "after", "after").status, 202);
    wait_for_bodies(&bob, &["kept", "after"]);
    lab.host_mut("bob").stop();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    assert_eq!(send(&alice, "bob", "last", "last").status, 202);
    let bob = lab.host("bob").client(Transport::Socket);
    let mut stream = resumed(&bob);
    let mut names = Vec::new();
    while !names.contains(&"message last".to_owned()) {
        let (name, data) = stream.event();
        names.push(format!("{name} {}", data["body"].as_str().unwrap_or_default()));
    }
    assert_eq!(names, ["history_gap ", "message after", "message last"]);
}

#[test]
fn a_broker_whose_records_were_set_back_gets_again_what_it_lost() {
    let mut lab = Lab::start_with(&Options {
        config: "[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n".to_owned(),
        ..Options::of(&["alice", "bob"])
    });
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    assert_eq!(send(&alice, "bob", "one", "one").status, 202);
    wait_for_bodies(&bob, &["one"]);
    wait_for_status(&alice, "one", "done");
    // A backup of this moment.
    lab.kill_broker();
    let backup = lab.path().join("backup");
    fs::create_dir(&backup).unwrap();
    let names = ["broker.db", "broker.db-wal", "broker.db-shm"];
    let database = lab.broker_home().join("broker");
    let copy = |from: &Path, to: &Path| {
        for name in names {
            fs::remove_file(to.join(name)).ok();
            if from.join(name).exists() {
                fs::copy(from.join(name), to.join(name)).unwrap();
            }
        }
    };
    copy(&database, &backup);
    lab.start_broker();
    lab.host("alice").wait_connected();
    assert_eq!(send(&alice, "bob", "two", "two").status, 202);
    wait_for_status(&alice, "two", "done");
    lab.host_mut("bob").stop();
    assert_eq!(send(&alice, "bob", "three", "three").status, 202);
    wait_for_status(&alice, "three", "done");
    lab.kill_broker();
    copy(&backup, &database);
    lab.start_broker();
    lab.host("alice").wait_connected();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    assert_eq!(send(&alice, "bob", "four", "four").status, 202);
    let bob = lab.host("bob").client(Transport::Socket);
    wait_for_bodies(&bob, &["one", "two", "three", "four"]);
}

#[test]
fn what_the_broker_does_not_answer_in_time_is_refused() {
    let lab = Lab::start(&["alice"]);
    lab.broker().freeze();
    // Both at once: each takes the whole time.
    let mut waiting: Vec<Connection> = Transport::ALL
        .iter()
        .map(|transport| {
            let client = lab.host("alice").client(*transport);
            let mut connection = client.connect();
            client.send_on(&mut connection, "GET", "/v1/file/list", &[], b"");
            connection
        })
        .collect();
    for connection in &mut waiting {
        refused(&connection.answer(), 503, "broker_unavailable");
    }
    lab.broker().signal(Signal::CONT);
    let alice = lab.host("alice").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the broker to answer again", || alice.get("/v1/file/list").status == 200);
}
