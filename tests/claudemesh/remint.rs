//! What a host has accepted when it gets another identity: every message arrives, and none twice, whoever sends it.
//!
//! An id belongs to the member that has accepted the message. It may be in the broker's log without anybody here knowing,
//! it may never have been sent, and where the host was copied the original has it too.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use hostel_tests::claudemesh::wire::State;
use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport, Wire};
use hostel_tests::wait;
use serde_json::{Value, json};

const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n";

/// What bob posts before his line is tampered with; no test counts it.
const READY: &str = "ready";

/// Alice and carol, who are written to, and bob, whose line can be tampered with. All can read and post in the topic.
fn lab() -> (Lab, Wire) {
    let lab = Lab::prepare(&Options { config: QUICK.to_owned(), ..Options::of(&["alice", "bob", "carol"]) });
    let wire = Wire::to(lab.broker_port().expect("the broker runs"));
    let mut lab = lab;
    lab.host("bob").configure(&format!("[ipc]\ntcp_enabled = true\n{QUICK}{}", wire.settings()));
    for name in ["alice", "bob", "carol"] {
        lab.host_mut(name).start();
        lab.host(name).wait_connected();
        let subscribed = client(&lab, name).post("/v1/topic/subscribe", &json!({"topic": "ops"}));
        assert_eq!(subscribed.status, 200, "{}", subscribed.text());
    }
    // A host gets the topic's key some time after it has subscribed, and cannot post without it. On a line that swallows
    // the broker's answers bob would never get it.
    accept(&client(&lab, "bob"), "/v1/topic/post", &json!({"topic": "ops", "message": READY}));
    wait_sent(lab.host("bob"));
    (lab, wire)
}

fn client(lab: &Lab, name: &str) -> Client {
    lab.host(name).client(Transport::Socket)
}

fn accept(client: &Client, path: &str, body: &Value) {
    let answer = client.post(path, body);
    assert_eq!(answer.status, 202, "{}", answer.text());
}

/// Has a host accept some messages of each kind.
fn accept_some(client: &Client, word: &str) {
    for number in 0..3 {
        accept(client, "/v1/send", &json!({"to": "alice", "message": format!("{word}: dm {number}")}));
        accept(client, "/v1/topic/post", &json!({"topic": "ops", "message": format!("{word}: post {number}")}));
    }
    accept(client, "/v1/send", &json!({"to": "*", "message": format!("{word}: all")}));
}

/// What alice and carol have to have of that.
fn expect_some(word: &str, alice: &mut Vec<String>, carol: &mut Vec<String>) {
    for number in 0..3 {
        alice.push(format!("{word}: dm {number}"));
        alice.push(format!("{word}: post {number}"));
        carol.push(format!("{word}: post {number}"));
    }
    alice.push(format!("{word}: all"));
    carol.push(format!("{word}: all"));
}

/// The texts of all messages, with the keys they came from.
fn received(client: &Client) -> Vec<(String, String)> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let items = page["items"].as_array().expect("items").iter().rev();
    let messages = items.map(|item| (text(item, "body"), text(item, "sender_pubkey")));
    messages.filter(|(body, _)| body != READY).collect()
}

fn bodies(client: &Client) -> Vec<String> {
    received(client).into_iter().map(|(body, _)| body).collect()
}

fn count(client: &Client, word: &str) -> usize {
    bodies(client).iter().filter(|body| body.starts_with(word)).count()
}

/// Waits until everything a host has accepted is with the broker; nothing was given up.
fn wait_sent(host: &Host) {
    let client = host.client(Transport::Socket);
    wait::until_true(wait::LIMIT, &format!("{} to have sent everything", host.name), || {
        let page = client.get_json("/v1/outbox?limit=1000");
        let rows = page["items"].as_array().expect("items");
        let bad: Vec<&Value> =
            rows.iter().filter(|row| row["status"] == "dead" || row["status"] == "aborted").collect();
        assert!(bad.is_empty(), "{bad:?}");
        rows.iter().all(|row| row["status"] == "done")
    });
}

/// Compares what alice and carol have with what they have to have, once nothing more can come of what was sent before.
fn check(lab: &Lab, from: &Client, alice: &[String], carol: &[String]) {
    for (name, wanted) in [("alice", alice), ("carol", carol)] {
        accept(from, "/v1/send", &json!({"to": name, "message": "end"}));
        let reader = client(lab, name);
        wait::until_true(wait::LIMIT, &format!("the end at {name}"), || bodies(&reader).contains(&"end".to_owned()));
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        bodies(&reader).into_iter().filter(|body| body != "end").for_each(|body| *found.entry(body).or_default() += 1);
        let wanted: BTreeMap<String, usize> = wanted.iter().map(|body| (body.clone(), 1)).collect();
        assert_eq!(found, wanted, "{name}");
    }
}

/// What of a kind came in which order.
fn in_order(client: &Client, part: &str) -> Vec<String> {
    bodies(client).into_iter().filter(|body| body.contains(part)).collect()
}

#[test]
fn what_was_under_way_and_what_waited_arrives_once() {
    let (mut lab, wire) = lab();
    let (alice, carol) = (client(&lab, "alice"), client(&lab, "carol"));
    let old_key = lab.host("bob").member("pubkey");
    // The broker has these, and bob does not know it.
    wire.set(State::Deaf);
    accept_some(&client(&lab, "bob"), "lost ack");
    wait::until_true(wait::LIMIT, "the broker to have them", || {
        count(&alice, "lost ack") == 7 && count(&carol, "lost ack") == 4
    });
    lab.host_mut("bob").kill();
    // These were never sent.
    wire.set(State::Cut);
    lab.host_mut("bob").start();
    accept_some(&client(&lab, "bob"), "waiting");
    let file = lab.path().join("notes.txt");
    fs::write(&file, "some notes").unwrap();
    let shared = json!({"path": file, "to": "alice", "message": "waiting: file"});
    let shared = client(&lab, "bob").post("/v1/file/share", &shared);
    assert_eq!(shared.status, 200, "{}", shared.text());
    lab.host_mut("bob").kill();
    // Not only in its memory.
    lab.kill_broker();
    lab.start_broker();
    wire.set(State::Open);
    lab.host_mut("bob").launch(&["--remint"]);
    lab.host_mut("bob").wait_ready();
    let new_key = lab.host("bob").member("pubkey");
    assert_ne!(new_key, old_key);
    let bob = client(&lab, "bob");
    accept_some(&bob, "new");
    wait_sent(lab.host("bob"));
    let (mut to_alice, mut to_carol) = (vec!["waiting: file".to_owned()], Vec::new());
    for word in ["lost ack", "waiting", "new"] {
        expect_some(word, &mut to_alice, &mut to_carol);
    }
    check(&lab, &bob, &to_alice, &to_carol);
    for (body, key) in received(&alice).iter().chain(&received(&carol)) {
        let wanted = if body.starts_with("lost ack") { &old_key } else { &new_key };
        assert_eq!(key, wanted, "{body}");
    }
    // In the order in which they were accepted, whoever has sent them.
    for part in ["dm", "post"] {
        let words = ["lost ack", "waiting", "new"].iter();
        let wanted: Vec<String> =
            words.flat_map(|word| (0..3).map(move |number| format!("{word}: {part} {number}"))).collect();
        assert_eq!(in_order(&alice, &format!(": {part} ")), wanted);
    }
    assert!(lab.host("bob").metric("cm_daemon_dedupe_total", &["direction=\"out\""]) >= 7);
}

/// A second host with everything the first one has.
fn copy_of(host: &Host, name: &str, root: &Path) -> Host {
    let copy = Host::new(name, root);
    let mut command = Command::new("cp");
    command.arg("-a").arg(host.home().join(".claudemesh")).arg(copy.home());
    assert!(command.status().unwrap().success());
    copy
}

/// A host is copied with messages that were sent and others that were not, and both live on.
fn both_live_on(copy_first: bool) {
    let (mut lab, wire) = lab();
    let alice = client(&lab, "alice");
    wire.set(State::Deaf);
    accept_some(&client(&lab, "bob"), "lost ack");
    wait::until_true(wait::LIMIT, "the broker to have them", || count(&alice, "lost ack") == 7);
    lab.host_mut("bob").kill();
    wire.set(State::Cut);
    lab.host_mut("bob").start();
    accept_some(&client(&lab, "bob"), "waiting");
    lab.host_mut("bob").kill();
    let mut copy = copy_of(lab.host("bob"), "copy", lab.path());
    wire.set(State::Open);
    if copy_first {
        copy.launch(&["--remint"]);
        copy.wait_ready();
        wait_sent(&copy);
        lab.host_mut("bob").start();
    } else {
        lab.host_mut("bob").start();
        copy.launch(&["--remint"]);
        copy.wait_ready();
        wait_sent(&copy);
    }
    wait_sent(lab.host("bob"));
    assert_ne!(copy.member("memberId"), lab.host("bob").member("memberId"));
    // From here on they are two: the same words under the same id are two messages, one of each.
    let (first, second) = (client(&lab, "bob"), copy.client(Transport::Socket));
    for one in [&first, &second] {
        accept(one, "/v1/send", &json!({"to": "alice", "message": "daily report", "client_message_id": "daily"}));
    }
    wait_sent(lab.host("bob"));
    wait_sent(&copy);
    wait::until_true(wait::LIMIT, "a report of each", || count(&alice, "daily report") >= 2);
    let reports: Vec<String> =
        received(&alice).into_iter().filter(|(body, _)| body == "daily report").map(|(_, key)| key).collect();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports.contains(&copy.member("pubkey")) && reports.contains(&lab.host("bob").member("pubkey")));
    let (mut to_alice, mut to_carol) = (Vec::new(), Vec::new());
    for word in ["lost ack", "waiting"] {
        expect_some(word, &mut to_alice, &mut to_carol);
    }
    // Compared without the reports.
    let end = |from: &Client| {
        for name in ["alice", "carol"] {
            accept(from, "/v1/send", &json!({"to": name, "message": format!("end {}", from.port)}));
            let reader = client(&lab, name);
            let text = format!("end {}", from.port);
            wait::until_true(wait::LIMIT, &format!("the end at {name}"), || bodies(&reader).contains(&text));
        }
    };
    end(&first);
    end(&second);
    for (name, mut wanted) in [("alice", to_alice), ("carol", to_carol)] {
        let mut found: Vec<String> = bodies(&client(&lab, name));
        found.retain(|body| body.contains(": "));
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn of_a_copied_host_both_send_and_each_message_arrives_once_the_copy_first() {
    both_live_on(true);
}

#[test]
fn of_a_copied_host_both_send_and_each_message_arrives_once_the_original_first() {
    both_live_on(false);
}

#[test]
fn killed_at_any_step_of_it_nothing_is_lost_or_comes_twice() {
    let (mut lab, wire) = lab();
    let alice = client(&lab, "alice");
    wire.set(State::Deaf);
    accept_some(&client(&lab, "bob"), "lost ack");
    wait::until_true(wait::LIMIT, "the broker to have them", || count(&alice, "lost ack") == 7);
    lab.host_mut("bob").kill();
    wire.set(State::Cut);
    lab.host_mut("bob").start();
    accept_some(&client(&lab, "bob"), "waiting");
    lab.host_mut("bob").kill();
    let first = lab.host("bob").member("memberId");
    let is_known = |lab: &Lab, name: &str| {
        let members = client(lab, "alice").get_json("/v1/member/list");
        members["members"].as_array().unwrap().iter().any(|member| member["displayName"] == name)
    };
    // The broker is not there: nothing is changed.
    lab.host_mut("bob").launch(&["--remint"]);
    assert!(!lab.host_mut("bob").ended().success());
    assert_eq!(lab.host("bob").member("memberId"), first);
    // The broker has made the new identity, and bob is killed before it hears of it.
    wire.set(State::Deaf);
    lab.host_mut("bob").launch(&["--remint"]);
    wait::until_true(wait::LIMIT, "the old one to have another name", || is_known(&lab, "bob-old"));
    lab.host_mut("bob").kill();
    assert_eq!(lab.host("bob").member("memberId"), first);
    // The old identity still works, should somebody go on with it.
    wire.set(State::Cut);
    lab.host_mut("bob").start();
    accept_some(&client(&lab, "bob"), "in between");
    lab.host_mut("bob").kill();
    // Killed as soon as the new one is written down, and again with the next.
    wire.set(State::Open);
    let mut last = first;
    for round in 0..2 {
        lab.host_mut("bob").launch(&["--remint"]);
        let now = wait::until(wait::LIMIT, "the new identity to be written down", || {
            Some(lab.host("bob").member("memberId")).filter(|member| *member != last)
        });
        lab.host_mut("bob").kill();
        last = now;
        if round == 0 {
            lab.kill_broker();
            lab.start_broker();
        }
    }
    lab.host_mut("bob").start();
    assert_eq!(lab.host("bob").member("memberId"), last);
    let bob = client(&lab, "bob");
    accept_some(&bob, "new");
    wait_sent(lab.host("bob"));
    let (mut to_alice, mut to_carol) = (Vec::new(), Vec::new());
    for word in ["lost ack", "waiting", "in between", "new"] {
        expect_some(word, &mut to_alice, &mut to_carol);
    }
    check(&lab, &bob, &to_alice, &to_carol);
}

#[test]
fn who_leaves_and_joins_again_is_told_what_may_have_been_sent() {
    let (mut lab, wire) = lab();
    let alice = client(&lab, "alice");
    wire.set(State::Deaf);
    let lost = json!({"to": "alice", "message": "lost ack", "client_message_id": "lost"});
    accept(&client(&lab, "bob"), "/v1/send", &lost);
    wait::until_true(wait::LIMIT, "the broker to have it", || count(&alice, "lost ack") == 1);
    lab.host_mut("bob").kill();
    wire.set(State::Open);
    // Nothing shows that who joins is who has left.
    let left: Value = serde_json::from_str(&lab.host("bob").run(&["leave", "--mesh", "lab", "--json"])).unwrap();
    assert_eq!(left["outbox_owed"], 1, "{left}");
    let link = lab.host("alice").invite(1);
    lab.host("bob").run(&["join", &link, "--name", "bob"]);
    lab.host_mut("bob").start();
    let bob = client(&lab, "bob");
    let given_up = wait::until(wait::LIMIT, "it to be given up", || {
        let page = bob.get_json("/v1/outbox?status=dead&limit=10");
        page["items"].as_array().expect("items").first().cloned()
    });
    assert_eq!(given_up["client_message_id"], "lost", "{given_up}");
    assert!(given_up["last_error"].as_str().is_some_and(|why| why.contains("origin_unknown")), "{given_up}");
    accept(&bob, "/v1/send", &json!({"to": "alice", "message": "end"}));
    wait::until_true(wait::LIMIT, "the end", || count(&alice, "end") == 1);
    assert_eq!(bodies(&alice), ["lost ack", "end"]);
    // Whoever wants it sent all the same says so.
    let again = bob.post("/v1/outbox/requeue", &json!({"id": "lost"}));
    assert_eq!(again.status, 200, "{}", again.text());
    wait::until_true(wait::LIMIT, "it to come again", || count(&alice, "lost ack") == 2);
}
