//! An outbox that fills up, by rows, by bytes and because the disk has no room: it says so in time, refuses what it
//! cannot promise, loses nothing of what it has promised, and takes messages again once there is room.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use hostel_tests::claudemesh::{Client, Lab, Options, Space, Transport};
use hostel_tests::codecast::http::Answer;
use hostel_tests::wait;
use rusqlite::Connection;
use serde_json::{Value, json};

fn lab(config: &str) -> Lab {
    Lab::start_with(&Options { config: config.to_owned(), ..Options::of(&["alice", "bob"]) })
}

/// Kills the broker and waits until the daemons know.
fn without_broker(lab: &mut Lab) {
    lab.kill_broker();
    for host in &lab.hosts {
        let client = host.client(Transport::Socket);
        wait::until_true(wait::LIMIT, "the daemon to see that the broker is gone", || {
            client.get_json("/v1/health")["connected"] == false
        });
    }
}

fn send(client: &Client, id: &str, message: &str) -> Answer {
    client.post("/v1/send", &json!({"to": "bob", "message": message, "client_message_id": id}))
}

fn refused(answer: &Answer, status: u16, word: &str) {
    assert_eq!((answer.status, &answer.json()["error"]), (status, &Value::from(word)), "{}", answer.text());
}

/// Ids of what somebody has from somebody, oldest first.
fn received(client: &Client, from: &str) -> Vec<String> {
    let page = client.get_json(&format!("/v1/inbox?limit=1000&mark_seen=false&from={from}"));
    let items = page["items"].as_array().expect("items").iter().rev();
    items.map(|item| item["client_message_id"].as_str().expect("an id").to_owned()).collect()
}

/// The gauge of how full the outbox is.
fn percent(client: &Client) -> f64 {
    let text = client.get("/v1/metrics").text();
    let line = text.lines().find(|line| line.starts_with("cm_daemon_disk_pct{") && line.contains("outbox"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the gauge is there")
}

#[test]
fn rows_are_told_of_at_80_percent_refused_at_95_and_all_but_inbound_at_100() {
    let mut lab = lab("[outbox]\nmax_queue_size = 20\n");
    without_broker(&mut lab);
    let [socket, tcp] = Transport::ALL.map(|transport| lab.host("alice").client(transport));
    let mut events = socket.events("?events=outbox_pressure_high", &[]);
    let mut taken: Vec<String> = Vec::new();
    let mut fill = |count: usize| {
        while taken.len() < count {
            let id = format!("row-{}", taken.len());
            assert_eq!(send(&tcp, &id, "x").status, 202, "{id}");
            taken.push(id);
        }
        taken.clone()
    };
    // One below the first mark: nothing is said.
    fill(15);
    assert!((percent(&socket) - 75.0).abs() < 1e-9);
    fill(16);
    // The first event is the one of 80 percent: 75 said nothing.
    let event = events.named("outbox_pressure_high");
    assert_eq!((&event["level"], &event["percent"], &event["mesh"]), (&json!("high"), &json!(80.0), &json!("lab")));
    // Above it sends are still taken, up to the next mark.
    let taken = fill(19);
    let event = events.named("outbox_pressure_high");
    assert_eq!((&event["level"], &event["percent"]), (&json!("full"), &json!(95.0)));
    for client in [&socket, &tcp] {
        refused(&send(client, "free", "too many"), 507, "insufficient_storage");
        let post = client.post("/v1/topic/post", &json!({"topic": "general", "message": "too many"}));
        refused(&post, 507, "insufficient_storage");
        // What is known is known: no row is made for it.
        let again = send(client, "row-3", "x");
        assert_eq!((again.status, &again.json()["status"]), (202, &json!("queued")), "{}", again.text());
        refused(&send(client, "row-3", "y"), 409, "idempotency_key_reused");
        // Nothing else is held up, and a stream is still opened.
        assert_eq!(client.get_json("/v1/health")["state"], "ok");
        assert_eq!(client.get("/v1/inbox").status, 200);
        drop(client.events("", &[]));
    }
    assert_eq!(socket.get_json("/v1/health")["queue_depth"], 19);
    drop(events);
    // The same rows, and no room at all.
    lab.host_mut("alice").stop();
    lab.host("alice").configure("[ipc]\ntcp_enabled = true\n[outbox]\nmax_queue_size = 19\n");
    lab.host_mut("alice").start();
    for transport in Transport::ALL {
        let client = lab.host("alice").client(transport);
        refused(&send(&client, "free", "too many"), 507, "insufficient_storage");
        refused(&client.get("/v1/events"), 503, "degraded");
        assert_eq!(client.get_json("/v1/health")["state"], "degraded");
        assert_eq!(client.get("/v1/inbox").status, 200);
        assert_eq!(send(&client, "row-3", "x").status, 202);
        assert!((percent(&client) - 100.0).abs() < 1e-9);
    }
    let status = lab.host("alice").run(&["daemon", "status", "--mesh", "lab"]);
    assert!(status.contains("state: degraded"), "{status}");
    // Drained, it is as before: what was taken has arrived once and in order, what was refused never, its id is free.
    lab.start_broker();
    lab.hosts.iter().for_each(hostel_tests::claudemesh::Host::wait_connected);
    let (alice, bob) = (lab.host("alice").client(Transport::Tcp), lab.host("bob").client(Transport::Socket));
    wait::until_true(wait::LIMIT, "the outbox to be drained", || alice.get_json("/v1/health")["queue_depth"] == 0);
    wait::until_true(wait::LIMIT, "everything to arrive", || received(&bob, "alice").len() >= taken.len());
    assert_eq!(alice.get_json("/v1/health")["state"], "ok");
    drop(alice.events("", &[]));
    let answer = send(&alice, "free", "another text than the one that was refused");
    assert_eq!(answer.status, 202, "{}", answer.text());
    wait::until_true(wait::LIMIT, "the last one to arrive", || received(&bob, "alice").len() > taken.len());
    let expected: Vec<String> = taken.iter().cloned().chain(["free".to_owned()]).collect();
    assert_eq!(received(&bob, "alice"), expected);
}

/// Copies a row of an outbox under other ids; how many were made.
fn copy_row(outbox: &Path, id: &str, times: usize) -> usize {
    let columns = "request_fingerprint, dest_kind, dest_ref, priority, status, owed, enqueued_at, expires_at, delivered_at, \
         broker_message_id, broker_epoch, broker_seq, payload, origin";
    let statement = format!(
        "WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {times}) \
         INSERT INTO outbox (client_message_id, {columns}) \
         SELECT 'copy-' || number, {columns} FROM outbox, numbers WHERE client_message_id = '{id}'"
    );
    Connection::open(outbox).unwrap().execute(&statement, []).unwrap()
}

#[test]
fn bytes_fill_it_as_well_and_pruning_what_was_sent_makes_room() {
    let mut lab = lab("[disk]\nreserved_bytes = \"64MB\"\n[reconnect]\nmax_backoff_ms = 1000\n");
    let alice = lab.host("alice").client(Transport::Socket);
    let body = "x".repeat(80_000);
    // What was sent is kept for a day: three quarters of the room are taken by copies of one such row.
    assert_eq!(send(&alice, "sent", &body).status, 202);
    wait::until_true(wait::LIMIT, "the first one to be sent", || alice.get_json("/v1/health")["queue_depth"] == 0);
    lab.host_mut("alice").stop();
    let kept = 1 + copy_row(&lab.host("alice").directory().join("outbox.db"), "sent", 600);
    lab.host_mut("alice").start();
    without_broker(&mut lab);
    let mut events = alice.events("?events=outbox_pressure_high", &[]);
    let mut taken = 0;
    // Far fewer than the 10,000 rows it may hold: it is the bytes that count.
    let answer = loop {
        let answer = send(&alice, &format!("row-{taken}"), &body);
        if answer.status != 202 {
            break answer;
        }
        taken += 1;
        assert!(taken < 1000, "the limit is never met");
    };
    refused(&answer, 507, "insufficient_storage");
    assert!(taken > 50, "refused after {taken} of 80 KB already");
    assert_eq!(events.named("outbox_pressure_high")["level"], "high");
    // It is refused because of what the files take, not because of what was counted.
    let full = percent(&alice);
    assert!(full >= 95.0, "refused at {full} %");
    drop(events);
    lab.start_broker();
    lab.hosts.iter().for_each(hostel_tests::claudemesh::Host::wait_connected);
    wait::until_true(wait::LIMIT, "the outbox to be drained", || alice.get_json("/v1/health")["queue_depth"] == 0);
    // What was sent takes its room.
    refused(&send(&alice, "later", "x"), 507, "insufficient_storage");
    let printed = lab.host("alice").run(&["daemon", "outbox", "prune", "--confirm", "--mesh", "lab"]);
    assert!(printed.contains(&(kept + taken).to_string()), "{printed}");
    assert!(percent(&alice) < 80.0, "{}", percent(&alice));
    let answer = send(&alice, "later", "x");
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn a_disk_without_room_refuses_and_loses_nothing() {
    let Some(space) = Space::mounts().map(Arc::new) else { return };
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let alice = lab.host_mut("alice");
    let directory = alice.own_directory().display().to_string();
    space.run(&format!("mount -t tmpfs -o size=12m,mode=700 none {directory}"));
    alice.move_into(&space);
    // A broken connection is tried again soon: this test is not about waiting.
    alice.configure("[ipc]\ntcp_enabled = true\n[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n");
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(hostel_tests::claudemesh::Host::wait_connected);
    let (alice, bob) = (lab.host("alice").client(Transport::Tcp), lab.host("bob").client(Transport::Socket));
    assert_eq!(send(&alice, "before", "x").status, 202);
    wait::until_true(wait::LIMIT, "the first one to arrive", || received(&bob, "alice") == ["before"]);
    let daemon = lab.host("alice").identity();
    space.try_run(&format!("dd if=/dev/zero of={directory}/filler bs=4k 2>/dev/null")).expect_err("the disk is full");
    // What SQLite has of the disk already takes a few more.
    let mut taken = vec!["before".to_owned()];
    let answer = loop {
        let id = format!("full-{}", taken.len());
        let answer = send(&alice, &id, &"y".repeat(20_000));
        if answer.status != 202 {
            break answer;
        }
        taken.push(id);
        assert!(taken.len() < 500, "a disk without room takes everything");
    };
    refused(&answer, 507, "insufficient_storage");
    refused(&send(&lab.host("alice").client(Transport::Socket), "free", "z"), 507, "insufficient_storage");
    // It says so, and counts nothing that it has refused.
    wait::until_true(wait::LIMIT, "what was taken to go out", || received(&bob, "alice").len() >= taken.len());
    let health = alice.get_json("/v1/health");
    assert_eq!((&health["state"], &health["queue_depth"]), (&json!("degraded"), &json!(0)), "{health}");
    assert!(percent(&alice) >= 100.0, "{}", percent(&alice));
    refused(&alice.get("/v1/events"), 503, "degraded");
    // What comes in meanwhile is kept by the broker.
    let coming: Vec<String> = (0..40).map(|number| format!("in-{number}")).collect();
    for id in &coming {
        let text = "w".repeat(20_000);
        let answer = bob.post("/v1/send", &json!({"to": "alice", "message": text, "client_message_id": id}));
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
    wait::until_true(wait::LIMIT, "the broker to have it all", || bob.get_json("/v1/health")["queue_depth"] == 0);
    assert!(daemon.alive(), "a full disk ends no daemon");
    assert_eq!(alice.get("/v1/version").status, 200);
    // Room again: everything is where it belongs, once and in order, and the refused id is free.
    space.run(&format!("rm {directory}/filler"));
    let answer = wait::until(wait::LIMIT, "a message to be taken", || {
        Some(send(&alice, "free", "another text")).filter(|answer| answer.status == 202)
    });
    assert_eq!(answer.json()["messageId"], "free");
    wait::until_true(wait::LIMIT, "it to be well again", || alice.get_json("/v1/health")["state"] == "ok");
    taken.push("free".to_owned());
    wait::until_true(wait::LIMIT, "everything to go out", || received(&bob, "alice").len() >= taken.len());
    wait::until_true(wait::LIMIT, "everything to come in", || received(&alice, "bob").len() >= coming.len());
    assert_eq!(received(&bob, "alice"), taken);
    assert_eq!(received(&alice, "bob"), coming);
    assert!(daemon.alive());
}

/// A broker's log has a limit. What everybody has goes when it is met; what somebody has not fetched stays, and then new
/// messages wait in the outbox until there is room.
#[test]
fn a_full_log_of_the_broker_holds_messages_back_and_loses_none() {
    let mut lab = Lab::start_with(&Options {
        config: "[reconnect]\nmax_backoff_ms = 1000\n".to_owned(),
        broker: "[broker]\nlog_size = \"1MiB\"\n".to_owned(),
        ..Options::of(&["alice", "bob"])
    });
    let alice = lab.host("alice").client(Transport::Socket);
    let body = "x".repeat(50_000);
    let ids: Vec<String> = (0..40).map(|number| format!("log-{number}")).collect();
    let depth = |client: &Client| client.get_json("/v1/health")["queue_depth"].as_u64().expect("a number");
    // While bob reads, more goes through the log than it may hold.
    for id in &ids[..20] {
        assert_eq!(send(&alice, id, &body).status, 202, "{id}");
    }
    wait::until_true(wait::LIMIT, "the first half to be sent", || depth(&alice) == 0);
    let bob = lab.host("bob").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the first half to arrive", || received(&bob, "alice").len() == 20);
    // While he is away it fills up, and what does not fit waits.
    lab.host_mut("bob").stop();
    for id in &ids[20..] {
        assert_eq!(send(&alice, id, &body).status, 202, "{id}");
    }
    wait::until_true(wait::LIMIT, "the log to be full", || {
        let rows = alice.get_json("/v1/outbox?status=pending&limit=100");
        let items = rows["items"].as_array().expect("items").clone();
        items.iter().any(|row| row["last_error"].as_str().is_some_and(|error| error.contains("full")))
    });
    assert!(depth(&alice) > 0);
    assert_eq!(send(&alice, &ids[31], &body).json()["client_message_id"], ids[31].as_str());
    // A restart of the broker changes nothing about it.
    lab.kill_broker();
    lab.start_broker();
    lab.host_mut("bob").start();
    let bob = lab.host("bob").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "everything to be sent", || depth(&alice) == 0);
    wait::until_true(wait::LIMIT, "everything to arrive", || received(&bob, "alice").len() >= ids.len());
    assert_eq!(received(&bob, "alice"), ids);
}

/// A broker's audit has a limit: the oldest records go as others are written, and the numbers go on.
#[test]
fn the_audit_of_a_broker_keeps_the_newest_records() {
    let lab =
        Lab::start_with(&Options { broker: "[broker]\naudit_records = 100\n".to_owned(), ..Options::of(&["alice"]) });
    let alice = lab.host("alice").client(Transport::Socket);
    let names = |number: usize| format!("alice-{number}");
    for number in 0..120 {
        let renamed = alice.post("/v1/member/rename", &json!({"displayName": names(number)}));
        assert_eq!(renamed.status, 200, "{renamed:?}");
    }
    let audit = alice.get_json("/v1/audit?limit=500");
    let events = audit["events"].as_array().expect("events");
    assert_eq!(events.len(), 100);
    let number = |event: &Value| event["no"].as_u64().expect("a number");
    assert!(events.windows(2).all(|pair| number(&pair[0]) + 1 == number(&pair[1])));
    assert!(events.windows(2).all(|pair| pair[0]["digest"] == pair[1]["previous"]));
    assert!(number(&events[0]) > 20, "{}", events[0]);
    assert!(events.last().expect("one").to_string().contains(&names(119)));
    // What has gone is not made up for: reading from before the beginning gives the beginning.
    assert_eq!(alice.get_json("/v1/audit?after=3&limit=1")["events"][0], events[0]);
}
