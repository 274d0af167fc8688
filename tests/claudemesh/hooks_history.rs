//! What hooks of a real daemon run for, and what not: history that comes again runs none, news runs all, and an answer for
//! which there is no room waits.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

/// One at a time, so that they run in their order.
const CONFIG: &str = "[hooks]\nconcurrency = 1\n[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n[outbox]\nmax_queue_size = 20\n";

const POLICY: &str = "[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n";

/// Notes every message it is run for.
const NOTES: &str = "#!/usr/bin/python3\nimport json, sys\n\
     open('runs', 'a').write(json.load(sys.stdin)['body'].split()[0] + '\\n')\n";

fn lab(script: &str) -> Lab {
    let mut lab = Lab::prepare(&Options { config: CONFIG.to_owned(), ..Options::of(&["alice", "bob"]) });
    lab.host("bob").put_policy(POLICY);
    lab.host("bob").put_hook("on-dm", script);
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    lab
}

fn client(host: &Host) -> Client {
    host.client(Transport::Socket)
}

/// Sends to bob, and waits until the broker has it.
fn send(lab: &Lab, id: &str) {
    let alice = client(lab.host("alice"));
    // Long enough to fill pages of a database.
    let message = json!({"to": "bob", "message": format!("{id} {}", "x".repeat(900)), "client_message_id": id});
    assert_eq!(alice.post("/v1/send", &message).status, 202);
    wait::until_true(wait::LIMIT, &format!("{id} to be taken"), || alice.get_json("/v1/health")["queue_depth"] == 0);
}

/// What bob has from alice.
fn received(lab: &Lab) -> Vec<String> {
    let page = client(lab.host("bob")).get_json("/v1/inbox?limit=1000&mark_seen=false&from=alice");
    let items = page["items"].as_array().expect("items");
    items.iter().map(|item| item["client_message_id"].as_str().expect("an id").to_owned()).collect()
}

fn runs(lab: &Lab) -> Vec<String> {
    lab.host("bob").hook_output("runs").lines().map(str::to_owned).collect()
}

/// A message that is new runs its hook, and everything before it has run or never will.
fn news(lab: &Lab, id: &str) {
    send(lab, id);
    wait::until_true(wait::LIMIT, &format!("a hook for {id}"), || runs(lab).iter().any(|run| run == id));
}

/// Ends bob once every hook that began since the start is over, so that none of them is owed; `since` is how many had run
/// before it.
fn stop(lab: &mut Lab, since: &mut usize) {
    let over = |lab: &Lab| lab.host("bob").metric("cm_daemon_hook_invocations_total", &["on-dm", "exit=\"0\""]);
    wait::until_true(wait::LIMIT, "every hook to be over", || over(lab) == (runs(lab).len() - *since) as u64);
    lab.host_mut("bob").stop();
    *since = runs(lab).len();
}

/// Starts bob, who then has all of these.
fn back(lab: &mut Lab, all: &[&str]) {
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    wait::until_true(wait::LIMIT, "everything to come again", || {
        let here = received(lab);
        all.iter().all(|id| here.iter().any(|known| known == id))
    });
}

fn recover(host: &Host, way: &str) -> Value {
    let printed = host.run(&["daemon", "recover", "--mesh", "lab", way, "--confirm", "--json"]);
    serde_json::from_str(&printed).expect("JSON")
}

/// Makes every page but the first unreadable that holds a text.
fn damage(path: &Path, text: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    connection.close().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let mut damaged = 0;
    for page in bytes.chunks_mut(4096).skip(1) {
        if page.windows(text.len()).any(|window| window == text.as_bytes()) {
            page[..64].fill(0xff);
            damaged += 1;
        }
    }
    assert!(damaged > 0, "nothing to damage");
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_reset_runs_no_hooks_for_history() {
    let mut lab = lab(NOTES);
    for id in ["one", "two", "three"] {
        news(&lab, id);
    }
    stop(&mut lab, &mut 0);
    lab.host("bob").run(&["daemon", "reset", "--mesh", "lab", "--confirm"]);
    send(&lab, "before");
    // Killed while it comes again: the line stays where it was drawn.
    for _ in 0..2 {
        lab.host_mut("bob").start();
        lab.host_mut("bob").kill();
    }
    back(&mut lab, &["one", "two", "three", "before"]);
    news(&lab, "four");
    // What comes while the daemon is away is news now.
    lab.host_mut("bob").kill();
    send(&lab, "five");
    back(&mut lab, &["five"]);
    news(&lab, "six");
    // History ran when it was news. What was running when its daemon was killed may run again.
    let runs = runs(&lab);
    let count = |id: &str| runs.iter().filter(|run| *run == id).count();
    assert_eq!(["one", "two", "three", "before"].map(count), [1, 1, 1, 0], "{runs:?}");
    assert!(["four", "five", "six"].iter().all(|id| count(id) >= 1), "{runs:?}");
}

#[test]
fn a_recovery_runs_no_hooks_for_history() {
    let (mut lab, mut since) = (lab(NOTES), 0);
    for id in ["one", "two"] {
        news(&lab, id);
    }
    // A sound inbox knows what it had: what came meanwhile is news.
    stop(&mut lab, &mut since);
    assert_eq!(recover(lab.host("bob"), "--from-broker")["recovered"]["history"], true);
    send(&lab, "three");
    back(&mut lab, &["one", "two", "three"]);
    news(&lab, "four");
    assert_eq!(runs(&lab), ["one", "two", "three", "four"]);
    // A damaged one does not.
    stop(&mut lab, &mut since);
    damage(&lab.host("bob").directory().join("inbox.db"), "two xxxx");
    let told = recover(lab.host("bob"), "--from-broker");
    assert!(told["recovered"]["inbox"].is_object(), "{told}");
    back(&mut lab, &["one", "two", "three", "four"]);
    news(&lab, "five");
    // Nothing is kept, and nobody can say where the log ends.
    stop(&mut lab, &mut since);
    lab.kill_broker();
    assert_eq!(recover(lab.host("bob"), "--fresh")["recovered"]["history"], true);
    lab.start_broker();
    lab.host("alice").wait_connected();
    back(&mut lab, &["one", "two", "three", "four", "five"]);
    news(&lab, "six");
    // The end of the log is known: there is no history at all.
    stop(&mut lab, &mut since);
    assert_eq!(recover(lab.host("bob"), "--fresh")["recovered"]["history"], false);
    send(&lab, "seven");
    back(&mut lab, &["seven"]);
    news(&lab, "eight");
    assert_eq!(runs(&lab), ["one", "two", "three", "four", "five", "six", "seven", "eight"]);
}

#[test]
fn an_answer_waits_until_there_is_room_for_it() {
    let waits = "#!/bin/sh\n: >running\nwhile ! [ -e go ]; do sleep 0.05; done\necho '{\"reply\":\"here\"}'\n";
    let mut lab = lab(waits);
    let (alice, bob) = (client(lab.host("alice")), client(lab.host("bob")));
    send(&lab, "question");
    let running = lab.host("bob").hooks().join("running");
    wait::until_true(wait::LIMIT, "the hook to run", || running.exists());
    lab.kill_broker();
    wait::until_true(wait::LIMIT, "the broker to be missed", || bob.get_json("/v1/health")["connected"] == false);
    let mut filled = 0;
    let full = wait::until(wait::LIMIT, "the outbox to be full", || {
        let answer = bob.post("/v1/send", &json!({"to": "alice", "message": "filling"}));
        filled += usize::from(answer.status == 202);
        (answer.status == 507).then(|| answer.json())
    });
    assert_eq!(full["error"], "insufficient_storage");
    fs::write(lab.host("bob").hooks().join("go"), "").unwrap();
    let waiting = wait::until(wait::LIMIT, "the answer to be refused", || {
        lab.host("bob").logged("hook_reply_waits").into_iter().next()
    });
    assert_eq!((&waiting["hook"], &waiting["code"]), (&json!("on-dm"), &json!("insufficient_storage")));
    assert!(lab.host("bob").logged("hook_executed").is_empty(), "it is not over while its answer waits");
    lab.start_broker();
    let run = wait::until(wait::LIMIT, "the answer to be taken", || {
        lab.host("bob").logged("hook_executed").into_iter().next()
    });
    assert_eq!((&run["exit"], &run["replied"]), (&json!(0), &json!(true)));
    let all = wait::until(wait::LIMIT, "everything at alice's", || {
        let page = alice.get_json("/v1/inbox?limit=1000&mark_seen=false");
        let items = page["items"].as_array()?.clone();
        (items.len() > filled).then_some(items)
    });
    let answers: Vec<&Value> = all.iter().filter(|item| item["reply_to_id"] == "question").collect();
    assert_eq!((answers.len(), all.len()), (1, filled + 1), "{answers:?}");
    assert_eq!(answers[0]["body"], "here");
    assert_eq!(lab.host("bob").logged("hook_reply_waits").len(), 1, "said once");
    assert_eq!(lab.host("bob").metric("cm_daemon_hook_invocations_total", &["on-dm", "exit=\"0\""]), 1);
}
