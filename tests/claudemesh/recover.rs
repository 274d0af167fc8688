//! Really damaged files: what is found, what is saved and what is lost, in each of the three ways to go on.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Space, Transport};
use hostel_tests::wait;
use rusqlite::Connection;
use serde_json::{Value, json};

const PAGE: usize = 4096;
const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n";

fn lab() -> Lab {
    Lab::start_with(&Options { config: QUICK.to_owned(), ..Options::of(&["alice", "bob"]) })
}

fn send(client: &Client, to: &str, id: &str) {
    let body = format!("{id} {}", "x".repeat(900));
    let answer = client.post("/v1/send", &json!({"to": to, "message": body, "client_message_id": id}));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn ids(client: &Client, from: &str) -> Vec<String> {
    let page = client.get_json(&format!("/v1/inbox?limit=1000&mark_seen=false&from={from}"));
    let items = page["items"].as_array().expect("items").iter().rev();
    items.map(|item| item["client_message_id"].as_str().expect("an id").to_owned()).collect()
}

/// Alice has so many messages for bob that no broker has taken, and has ended.
fn with_queue(count: usize) -> (Lab, Vec<String>) {
    let mut lab = lab();
    lab.kill_broker();
    let alice = lab.host("alice").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the broker to be missed", || alice.get_json("/v1/health")["connected"] == false);
    let queued: Vec<String> = (0..count).map(|number| format!("row-{number:04}")).collect();
    for id in &queued {
        send(&alice, "bob", id);
    }
    lab.host_mut("alice").stop();
    settle(&lab.host("alice").directory().join("outbox.db"));
    (lab, queued)
}

/// Brings everything into the file itself: what lies in the log beside it would make up for what is damaged.
fn settle(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    connection.close().unwrap();
}

/// The pages of a file that are leaves of a table and hold this text.
fn leaves(bytes: &[u8], text: &str) -> Vec<usize> {
    let holds = |page: &[u8]| page.windows(text.len()).any(|window| window == text.as_bytes());
    bytes.chunks(PAGE).enumerate().filter(|(_, page)| page[0] == 0x0d && holds(page)).map(|(place, _)| place).collect()
}

/// The ids a page speaks of.
fn named_in(page: &[u8], queued: &[String]) -> Vec<String> {
    let holds = |id: &&String| page.windows(id.len()).any(|window| window == id.as_bytes());
    queued.iter().filter(holds).cloned().collect()
}

fn recover(host: &Host, way: &str) -> Value {
    let printed = host.run(&["daemon", "recover", "--mesh", "lab", way, "--confirm", "--json"]);
    let told: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(told["ok"], true, "{told}");
    told
}

fn look(host: &Host) -> (i32, Value) {
    let output = host.try_run(&["daemon", "recover", "--mesh", "lab", "--json"]);
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    });
    (output.status.code().unwrap_or(-1), told)
}

/// Files that were set aside.
fn corrupt(directory: &Path) -> Vec<String> {
    let names =
        fs::read_dir(directory).unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.contains(".corrupt-")).collect();
    names.sort();
    names
}

/// Everything is up again, and exactly these arrive, in order.
fn delivered(lab: &mut Lab, expected: &[String]) {
    lab.start_broker();
    lab.host_mut("alice").start();
    lab.hosts.iter().for_each(Host::wait_connected);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    wait::until_true(wait::LIMIT, "the outbox to be drained", || alice.get_json("/v1/health")["queue_depth"] == 0);
    wait::until_true(wait::LIMIT, "everything to arrive", || ids(&bob, "alice").len() >= expected.len());
    assert_eq!(ids(&bob, "alice"), expected);
    let mut sent = expected.to_vec();
    send(&alice, "bob", "after");
    sent.push("after".to_owned());
    wait::until_true(wait::LIMIT, "a new message to arrive", || ids(&bob, "alice") == sent);
}

#[test]
fn a_damaged_page_of_the_outbox_takes_its_own_messages_and_no_others() {
    let (mut lab, queued) = with_queue(120);
    let directory = lab.host("alice").directory();
    let path = directory.join("outbox.db");
    let mut bytes = fs::read(&path).unwrap();
    // A page in the middle is overwritten, and in another one a byte of a message is changed.
    let page = leaves(&bytes, "row-0060")[0];
    let hit = named_in(&bytes[page * PAGE..(page + 1) * PAGE], &queued);
    assert!(!hit.is_empty());
    bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5);
    let other = leaves(&bytes, "row-0090")[0];
    let inside = bytes[other * PAGE..(other + 1) * PAGE].windows(4).position(|window| window == b"xxxx").unwrap();
    bytes[other * PAGE + inside + 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    // It does not start, and says what to do.
    let alice = lab.host("alice");
    let output = alice.try_run(&["daemon", "up", "--foreground", "--mesh", "lab"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(
        complaint.contains("outbox.db is damaged") && complaint.contains("claudemesh daemon recover --mesh lab"),
        "{complaint}"
    );
    // Looking changes nothing; the start before it may have counted itself in the file's head.
    let bytes = fs::read(&path).unwrap();
    let (code, found) = look(alice);
    assert_eq!(
        (code, &found["found"]["outbox"]["state"], &found["found"]["inbox"]["state"]),
        (1, &json!("damaged"), &json!("sound")),
        "{found}"
    );
    assert!(fs::read(&path).unwrap() == bytes);
    let unconfirmed = alice.try_run(&["daemon", "recover", "--mesh", "lab", "--from-broker"]);
    assert_eq!(unconfirmed.status.code(), Some(3), "{}", String::from_utf8_lossy(&unconfirmed.stderr));
    let told = recover(alice, "--from-broker");
    let outbox = &told["recovered"]["outbox"];
    let lost: Vec<String> = serde_json::from_value(outbox["lost"].clone()).unwrap();
    assert_eq!(outbox["lost_count"], lost.len());
    assert!(hit.iter().all(|id| lost.contains(id)), "{hit:?} in {lost:?}");
    assert_eq!(lost.len(), hit.len() + 1, "the one whose text was changed is not sent");
    assert_eq!(outbox["queued"], queued.len() - lost.len());
    let aside = corrupt(&directory);
    assert!(aside.iter().any(|name| name.starts_with("outbox.db.corrupt-")), "{aside:?}");
    let kept: PathBuf = directory.join(&aside[0]);
    assert!(fs::read(kept).unwrap() == bytes, "what was damaged is kept as it was");
    let saved: Vec<String> = queued.iter().filter(|id| !lost.contains(id)).cloned().collect();
    delivered(&mut lab, &saved);
    // All is well now.
    lab.host_mut("alice").stop();
    assert_eq!(look(lab.host("alice")).0, 0);
}

#[test]
fn an_outbox_without_its_beginning_is_read_all_the_same() {
    let (mut lab, queued) = with_queue(60);
    let path = lab.host("alice").directory().join("outbox.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..PAGE].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(look(lab.host("alice")).0, 1);
    let told = recover(lab.host("alice"), "--from-broker");
    assert_eq!(told["recovered"]["outbox"], json!({"queued": 60, "settled": 0, "lost": [], "lost_count": 0}), "{told}");
    delivered(&mut lab, &queued);
}

#[test]
fn an_outbox_that_was_cut_off_gives_what_is_left() {
    let (mut lab, queued) = with_queue(120);
    let path = lab.host("alice").directory().join("outbox.db");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / PAGE / 2 * PAGE + 700]).unwrap();
    assert_eq!(look(lab.host("alice")).0, 1);
    let told = recover(lab.host("alice"), "--from-broker");
    let saved = told["recovered"]["outbox"]["queued"].as_u64().unwrap();
    assert!(saved > 20 && saved < 120, "{told}");
    lab.start_broker();
    lab.host_mut("alice").start();
    lab.hosts.iter().for_each(Host::wait_connected);
    let bob = lab.host("bob").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "what was saved to arrive", || ids(&bob, "alice").len() as u64 >= saved);
    let got = ids(&bob, "alice");
    assert_eq!(got.len() as u64, saved);
    assert!(got.is_sorted() && got.iter().all(|id| queued.contains(id)), "{got:?}");
}

#[test]
fn nothing_that_can_be_read_is_an_outcome_too() {
    let (mut lab, _) = with_queue(10);
    let directory = lab.host("alice").directory();
    fs::write(directory.join("outbox.db"), vec![0x5a; 3 * PAGE]).unwrap();
    fs::write(directory.join("topics.json"), "{\"topics\": garbage").unwrap();
    fs::write(directory.join("sessions.json"), "").unwrap();
    let (code, found) = look(lab.host("alice"));
    let problems: Vec<&str> = found["found"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|file| !file["problem"].is_null())
        .filter_map(|file| file["name"].as_str())
        .collect();
    assert_eq!((code, problems), (1, vec!["topics.json", "sessions.json"]), "{found}");
    let told = recover(lab.host("alice"), "--from-broker");
    assert_eq!(told["recovered"]["outbox"]["queued"], 0, "{told}");
    let aside = corrupt(&directory);
    for name in ["outbox.db", "topics.json", "sessions.json"] {
        assert!(aside.iter().any(|aside| aside.starts_with(&format!("{name}.corrupt-"))), "{name} in {aside:?}");
    }
    delivered(&mut lab, &[]);
}

#[test]
fn reading_goes_on_while_somebody_decides() {
    let mut lab = lab();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    for number in 0..20 {
        send(&bob, "alice", &format!("in-{number:02}"));
    }
    wait::until_true(wait::LIMIT, "messages to be here", || ids(&alice, "bob").len() == 20);
    lab.kill_broker();
    wait::until_true(wait::LIMIT, "the broker to be missed", || alice.get_json("/v1/health")["connected"] == false);
    send(&alice, "bob", "waits");
    lab.host_mut("alice").stop();
    let directory = lab.host("alice").directory();
    let path = directory.join("outbox.db");
    settle(&path);
    let mut bytes = fs::read(&path).unwrap();
    // The index is damaged, the message is not.
    let index = bytes.chunks(PAGE).position(|page| page[0] == 0x0a).expect("an index has a leaf");
    bytes[index * PAGE..(index + 1) * PAGE].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let told = recover(lab.host("alice"), "--read-only");
    assert_eq!((&told["recovered"]["read_only"], &told["recovered"]["outbox"]), (&json!(true), &Value::Null), "{told}");
    assert!(fs::read(&path).unwrap() == bytes, "the outbox waits for a decision");
    lab.start_broker();
    // Also after another start.
    for _ in 0..2 {
        lab.host_mut("alice").start();
        lab.hosts.iter().for_each(Host::wait_connected);
        let alice = lab.host("alice").client(Transport::Socket);
        assert_eq!(alice.get_json("/v1/health")["state"], "degraded");
        assert_eq!(ids(&alice, "bob").len() % 20, 0);
        for (path, body) in [
            ("/v1/send", json!({"to": "bob", "message": "x"})),
            ("/v1/topic/post", json!({"topic": "general", "message": "x"})),
            ("/v1/file/share", json!({"path": "/etc/hostname", "to": "bob"})),
        ] {
            let answer = alice.post(path, &body);
            assert_eq!(
                (answer.status, &answer.json()["error"]),
                (503, &json!("degraded")),
                "{path}: {}",
                answer.text()
            );
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(
                detail.contains("this daemon only reads: outbox.db is damaged") && detail.contains("daemon recover"),
                "{detail}"
            );
        }
        // What comes still comes, and can be listened to.
        let mut events = alice.events("?events=message", &[]);
        let bob = lab.host("bob").client(Transport::Socket);
        let answer = bob.post("/v1/send", &json!({"to": "alice", "message": "still there?"}));
        assert_eq!(answer.status, 202);
        assert_eq!(events.named("message")["body"], "still there?");
        drop(events);
        let found = ids(&alice, "bob").len();
        assert!(found > 20);
        let page = alice.get_json("/v1/inbox?limit=1000&mark_seen=false&from=bob");
        for item in page["items"].as_array().unwrap().iter().filter(|item| item["body"] == "still there?") {
            let id = item["id"].as_str().unwrap();
            assert_eq!(alice.request("DELETE", &format!("/v1/inbox/{id}"), &[], b"").status, 200);
        }
        lab.host_mut("alice").stop();
    }
    let status = lab.host("alice").try_run(&["daemon", "recover", "--mesh", "lab"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("the daemon only reads"), "{status:?}");
    let told = recover(lab.host("alice"), "--from-broker");
    assert_eq!(told["recovered"]["outbox"]["queued"], 1, "{told}");
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
    let bob = lab.host("bob").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "what waited to arrive", || ids(&bob, "alice") == ["waits"]);
    assert_eq!(lab.host("alice").client(Transport::Socket).get_json("/v1/health")["state"], "ok");
}

#[test]
fn a_damaged_inbox_is_filled_up_from_the_broker() {
    let mut lab = lab();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let expected: Vec<String> = (0..60).map(|number| format!("in-{number:02}")).collect();
    for id in &expected {
        send(&bob, "alice", id);
    }
    wait::until_true(wait::LIMIT, "messages to be here", || ids(&alice, "bob") == expected);
    // Read ones stay read, deleted ones deleted.
    let page = alice.get_json("/v1/inbox?limit=1000&mark_seen=true");
    let last = page["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(alice.request("DELETE", &format!("/v1/inbox/{last}"), &[], b"").status, 200);
    lab.host_mut("alice").stop();
    let directory = lab.host("alice").directory();
    let path = directory.join("inbox.db");
    settle(&path);
    let mut bytes = fs::read(&path).unwrap();
    let page = leaves(&bytes, "in-30 xxx")[0];
    bytes[page * PAGE + 8..(page + 1) * PAGE].fill(0x11);
    fs::write(&path, &bytes).unwrap();
    let (code, found) = look(lab.host("alice"));
    assert_eq!((code, &found["found"]["inbox"]["state"]), (1, &json!("damaged")), "{found}");
    let told = recover(lab.host("alice"), "--from-broker");
    let kept = told["recovered"]["inbox"]["kept"].as_u64().unwrap();
    assert!((30..60).contains(&kept), "{told}");
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
    let alice = lab.host("alice").client(Transport::Socket);
    let mut sorted: Vec<String> = expected[..59].to_vec();
    wait::until_true(wait::LIMIT, "the rest to come again", || {
        let mut found = ids(&alice, "bob");
        found.sort();
        found.len() >= 59 && found == sorted
    });
    sorted.clear();
    let unread = alice.get_json("/v1/inbox?limit=1000&mark_seen=false&unread_only=true");
    assert_eq!(unread["items"].as_array().unwrap().len() as u64, 60 - kept, "only what came again is new");
    assert!(corrupt(&directory).iter().any(|name| name.starts_with("inbox.db.corrupt-")));
}

#[test]
fn beginning_with_nothing_begins_with_nothing() {
    let mut lab = lab();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    send(&bob, "alice", "old");
    wait::until_true(wait::LIMIT, "the message to be here", || ids(&alice, "bob") == ["old"]);
    lab.host_mut("alice").stop();
    let directory = lab.host("alice").directory();
    fs::write(directory.join("outbox.db"), "rubbish").unwrap();
    let told = recover(lab.host("alice"), "--fresh");
    assert_eq!(told["recovered"]["history"], false, "{told}");
    let aside = corrupt(&directory);
    assert!(
        aside.iter().any(|name| name.starts_with("inbox.db.corrupt-"))
            && aside.iter().any(|name| name.starts_with("outbox.db.corrupt-")),
        "{aside:?}"
    );
    send(&bob, "alice", "new");
    lab.host_mut("alice").start();
    lab.host("alice").wait_connected();
    let alice = lab.host("alice").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "what is new to come", || !ids(&alice, "bob").is_empty());
    assert_eq!(ids(&alice, "bob"), ["new"]);
    // A daemon that runs is not looked into.
    let output = lab.host("alice").try_run(&["daemon", "recover", "--mesh", "lab"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && complaint.contains("already running"), "{complaint}");
}

#[test]
fn a_recovery_that_was_cut_off_is_finished_at_the_next_start() {
    let (mut lab, queued) = with_queue(10);
    let directory = lab.host("alice").directory();
    // As it is between the two renames: the new one is ready, the damaged one is not moved yet.
    fs::rename(directory.join("outbox.db"), directory.join("outbox.db.recovered-1700000000000")).unwrap();
    fs::write(directory.join("outbox.db"), "damaged").unwrap();
    delivered(&mut lab, &queued);
    assert_eq!(corrupt(&directory), ["outbox.db.corrupt-1700000000000"]);
    lab.host_mut("alice").stop();
}

#[test]
fn a_full_disk_changes_nothing() {
    let Some(space) = Space::mounts().map(Arc::new) else { return };
    let mut lab = Lab::prepare(&Options { config: QUICK.to_owned(), ..Options::of(&["alice", "bob"]) });
    let alice = lab.host_mut("alice");
    let directory = alice.own_directory().display().to_string();
    space.run(&format!("mount -t tmpfs -o size=8m,mode=700 none {directory}"));
    alice.move_into(&space);
    alice.configure(&format!("[ipc]\ntcp_enabled = true\n{QUICK}"));
    lab.kill_broker();
    let alice = lab.host_mut("alice");
    alice.start();
    let client = alice.client(Transport::Socket);
    // Without a roster only the topic everybody has is known.
    for number in 0..40 {
        let answer = client.post(
            "/v1/send",
            &json!({"to": "*", "message": "x".repeat(20_000), "client_message_id": format!("m{number}")}),
        );
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
    alice.stop();
    let path = alice.directory().join("outbox.db");
    // SQLite does not find its way into another space: it is settled outside and put back.
    let log = alice.directory().join("outbox.db-wal");
    let outside = tempfile::tempdir().unwrap();
    let copy = outside.path().join("outbox.db");
    fs::copy(&path, &copy).unwrap();
    if log.exists() {
        fs::copy(&log, outside.path().join("outbox.db-wal")).unwrap();
        fs::remove_file(&log).unwrap();
    }
    settle(&copy);
    let mut bytes = fs::read(&copy).unwrap();
    let index = bytes.chunks(PAGE).position(|page| page[0] == 0x0a).expect("an index has a leaf");
    bytes[index * PAGE..(index + 1) * PAGE].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    space.try_run(&format!("dd if=/dev/zero of={directory}/filler bs=4k 2>/dev/null")).expect_err("the disk is full");
    // Room for a beginning, not for the whole.
    space.run(&format!("truncate -s -128K {directory}/filler"));
    let output = alice.try_run(&["daemon", "recover", "--mesh", "lab", "--from-broker", "--confirm"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("the disk has no room"), "{complaint}");
    assert!(fs::read(&path).unwrap() == bytes);
    let names: Vec<String> = fs::read_dir(alice.directory())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!names.iter().any(|name| name.contains(".new") || name.contains(".recovered")), "{names:?}");
    space.run(&format!("rm {directory}/filler"));
    let told = recover(alice, "--from-broker");
    assert_eq!(told["recovered"]["outbox"]["queued"], 40, "{told}");
    drop(lab);
}
