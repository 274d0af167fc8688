//! Keys that are replaced on running daemons: what everybody hears, what still opens, what is refused, and what is left
//! when a daemon is killed in the middle of it.
//!
//! `HOSTEL_ROTATIONS` says how often keys are replaced while five daemons talk.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Reconnecting is quick: these tests are not about waiting.
const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";

fn lab(names: &[&str], more: &str) -> Lab {
    Lab::start_with(&Options { config: format!("{QUICK}{more}"), ..Options::of(names) })
}

fn send(client: &Client, to: &str, message: &str) {
    let answer = client.post("/v1/send", &json!({"to": to, "message": message}));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

/// Bodies, oldest first; what cannot be read shows as such.
fn bodies(client: &Client) -> Vec<String> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().expect("items").iter().rev();
    items.map(|item| item["body"].as_str().unwrap_or("(unreadable)").to_owned()).collect()
}

fn wait_for_bodies(client: &Client, expected: &[&str]) {
    let found = wait::eventually(&format!("{expected:?} in the inbox"), || {
        let found = bodies(client);
        if found.len() >= expected.len() { Ok(found) } else { Err(format!("{found:?}")) }
    });
    assert_eq!(found, expected);
}

fn metric(client: &Client, name: &str) -> u64 {
    let text = client.get("/v1/metrics").text();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn json_of(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// The key, which all its files agree on.
fn key(host: &Host) -> String {
    let configured = host.member("pubkey");
    let kept = json_of(&host.directory().join("keypair.json"));
    assert_eq!(kept["ed25519_public"], json!(configured), "config.json and keypair.json agree");
    assert!(host.member("secretKey").ends_with(&configured), "both halves belong together");
    configured
}

fn rotate(host: &Host) -> Value {
    let printed = host.run(&["daemon", "rotate-keypair", "--mesh", "lab", "--json"]);
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_running_daemon_takes_another_key_and_nothing_is_lost() {
    let mut lab = lab(&["alice", "bob", "carol"], "");
    let socket = |lab: &Lab, name: &str| lab.host(name).client(Transport::Socket);
    let (alice, bob) = (socket(&lab, "alice"), socket(&lab, "bob"));
    let old = key(lab.host("bob"));
    send(&alice, "bob", "before");
    send(&bob, "alice", "from before");
    wait_for_bodies(&bob, &["before"]);
    wait_for_bodies(&alice, &["from before"]);
    lab.host_mut("carol").stop();
    send(&bob, "carol", "of the old key");
    wait::until_true(wait::LIMIT, "it to be sent", || bob.get_json("/v1/health")["queue_depth"] == 0);
    let mut heard = alice.events("?events=member_keypair_rotated", &[]);
    let before = bob.get_json("/v1/health")["pid"].clone();
    let answer = rotate(lab.host("bob"));
    let new = key(lab.host("bob"));
    assert_ne!(old, new);
    assert_eq!((&answer["ok"], &answer["old_pubkey"], &answer["pubkey"]), (&json!(true), &json!(old), &json!(new)));
    assert_eq!((&answer["mesh"], &answer["archived"]), (&json!("lab"), &json!(1)));
    assert!(answer["opens_until"].is_string() && answer["rotated_at"].is_string(), "{answer}");
    let health = bob.get_json("/v1/health");
    assert_eq!((&health["member_pubkey"], &health["connected"], &health["pid"]), (&json!(new), &json!(true), &before));
    let event = heard.named("member_keypair_rotated");
    assert_eq!((&event["mesh"], &event["name"]), (&json!("lab"), &json!("bob")));
    assert_eq!((&event["oldPubkey"], &event["newPubkey"]), (&json!(old), &json!(new)));
    let audit = lab.host("alice").run(&["mesh", "audit", "--mesh", "lab"]);
    assert!(audit.contains("member_keypair_rotated"), "{audit}");
    // The old key's file holds what opens and nothing that signs, for its owner alone.
    let archive = lab.host("bob").directory().join("keypair-archive.json");
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(json_of(&archive)["keys"][0]["ed25519_public"], json!(old));
    assert!(json_of(&archive)["keys"][0].get("ed25519_secret").is_none());
    assert!(!lab.host("bob").directory().join("keypair.next.json").exists());
    for to in ["bob", &new, &old, &old[..16]] {
        send(&alice, to, &format!("to {to}"));
    }
    send(&bob, "alice", "from after");
    wait_for_bodies(
        &bob,
        &["before", "to bob", &format!("to {new}"), &format!("to {old}"), &format!("to {}", &old[..16])],
    );
    wait_for_bodies(&alice, &["from before", "from after"]);
    lab.host_mut("carol").start();
    wait_for_bodies(&socket(&lab, "carol"), &["of the old key"]);
    // The owner too; its invites are signed by another key and stay good.
    let link = lab.host("alice").invite(2);
    rotate(lab.host("alice"));
    let dave = Host::new("dave", lab.path());
    dave.configure("[ipc]\ntcp_enabled = true\n");
    dave.run(&["join", &link, "--name", "dave"]);
    assert!(lab.host("alice").invite(1).starts_with("ic://"));
    // After a restart everything is as it was.
    for name in ["alice", "bob"] {
        lab.host_mut(name).stop();
        lab.host_mut(name).start();
        lab.host(name).wait_connected();
    }
    assert_eq!(key(lab.host("bob")), new);
    send(&socket(&lab, "alice"), "bob", "at last");
    wait::until_true(wait::LIMIT, "the last one", || bodies(&socket(&lab, "bob")).last().unwrap() == "at last");
    assert_eq!(metric(&socket(&lab, "bob"), "cm_daemon_decrypt_stale_total"), 0);
}

#[test]
fn the_ninth_is_refused_a_malformed_archive_is_set_aside_and_old_keys_go() {
    let mut lab = lab(&["alice", "bob"], "");
    for _ in 0..8 {
        rotate(lab.host("bob"));
    }
    let kept = key(lab.host("bob"));
    let refused = lab.host("bob").try_run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
    assert_eq!(refused.status.code(), Some(1), "{}", printed(&refused));
    let archive = lab.host("bob").directory().join("keypair-archive.json");
    let first = json_of(&archive)["keys"][0]["expires_at"].as_str().unwrap().to_owned();
    assert!(
        printed(&refused).contains(&first) && printed(&refused).contains("max_archived_keys"),
        "{}",
        printed(&refused)
    );
    for transport in Transport::ALL {
        let answer = lab.host("bob").client(transport).post("/v1/rotate-keypair", &json!({}));
        assert_eq!((answer.status, &answer.json()["error"]), (409, &json!("too_many_archived_keys")));
        assert_eq!(answer.json()["next_possible_at"], json!(first));
    }
    assert_eq!(key(lab.host("bob")), kept, "nothing has changed");
    // Two of them are over, as if a week had passed.
    lab.host_mut("bob").stop();
    let mut document = json_of(&archive);
    for number in 0..2 {
        document["keys"][number]["expires_at"] = "2020-01-01T00:00:00.000Z".into();
    }
    fs::write(&archive, document.to_string()).unwrap();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    wait::until_true(wait::LIMIT, "them to be taken out", || json_of(&archive)["keys"].as_array().unwrap().len() == 6);
    rotate(lab.host("bob"));
    // What cannot be read is set aside, and the daemon starts.
    lab.host_mut("bob").kill();
    fs::write(&archive, "{\"keys\": [{]}").unwrap();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let names: Vec<String> = fs::read_dir(lab.host("bob").directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("keypair-archive.json.malformed-")), "{names:?}");
    assert!(lab.host("bob").printed().contains("keypair_archive_set_aside"));
    assert_eq!(rotate(lab.host("bob"))["archived"], 1);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    send(&alice, "bob", "still talking");
    wait_for_bodies(&bob, &["still talking"]);
}

#[test]
fn who_has_nothing_to_rotate_is_told_so() {
    let mut lab = lab(&["alice", "bob"], "");
    // Nobody is there to do it.
    lab.host_mut("bob").stop();
    let refused = lab.host("bob").try_run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
    assert_eq!(refused.status.code(), Some(1), "{}", printed(&refused));
    assert!(printed(&refused).contains("daemon up"), "{}", printed(&refused));
    // An identity that is written nowhere.
    let runtime = lab.path().join("run");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    let bob = lab.host_mut("bob");
    bob.set_variable("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
    bob.launch(&["--ephemeral"]);
    let refused = wait::until(wait::LIMIT, "the ephemeral daemon to answer", || {
        let refused = bob.try_run(&["daemon", "rotate-keypair", "--mesh", "lab", "--json"]);
        (!printed(&refused).contains("daemon_not_running") && !printed(&refused).contains("broker_unavailable"))
            .then_some(refused)
    });
    assert!(printed(&refused).contains("ephemeral_identity"), "{}", printed(&refused));
    bob.stop();
    // Who is revoked ends; there is nobody left to ask.
    bob.start();
    bob.wait_connected();
    let kept = key(lab.host("bob"));
    lab.host("alice").run(&["member", "revoke", "bob", "--mesh", "lab"]);
    assert_eq!(lab.host_mut("bob").ended().code(), Some(78));
    let refused = lab.host("bob").try_run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
    assert_eq!(refused.status.code(), Some(1), "{}", printed(&refused));
    assert_eq!(key(lab.host("bob")), kept);
    // Whoever starts it in the background hears why it does not run.
    let started = lab.host("bob").try_run(&["daemon", "up", "--mesh", "lab"]);
    assert_eq!(started.status.code(), Some(78), "{}", printed(&started));
    assert!(
        !printed(&started).contains("daemon started") && printed(&started).contains("revoked"),
        "{}",
        printed(&started)
    );
}

#[test]
fn killed_at_any_step_daemon_and_broker_agree_again() {
    let mut lab = lab(&["alice", "bob"], "");
    let mut expected: Vec<String> = Vec::new();
    let mut answers: Vec<String> = Vec::new();
    // A program for people cannot be told to die.
    if !cfg!(debug_assertions) {
        return;
    }
    for step in ["drawn", "archived", "told", "linked", "configured", "kept"] {
        let alice = lab.host("alice").client(Transport::Socket);
        let bob = lab.host_mut("bob");
        let old = key(bob);
        bob.stop();
        bob.set_variable("CLAUDEMESH_INTERNAL_DIE_AT", step);
        bob.start();
        bob.wait_connected();
        let cut = bob.try_run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
        assert!(!cut.status.success(), "{step}: {}", printed(&cut));
        assert_eq!(bob.ended().code(), None, "{step}: killed by a signal");
        // Sealed for whichever key the broker now tells of.
        send(&alice, "bob", step);
        expected.push(step.to_owned());
        bob.set_variable("CLAUDEMESH_INTERNAL_DIE_AT", "");
        bob.start();
        bob.wait_connected();
        let client = bob.client(Transport::Socket);
        wait::until_true(wait::LIMIT, "the key to be settled", || {
            let next = bob.directory().join("keypair.next.json").exists();
            !next && client.get_json("/v1/health")["member_pubkey"] == json!(key(bob))
        });
        bob.wait_connected();
        let new = key(bob);
        assert_eq!(new == old, step == "drawn", "{step}: what was committed to is carried out, what was not never was");
        let words: Vec<&str> = expected.iter().map(String::as_str).collect();
        wait_for_bodies(&client, &words);
        // What it sends is of the key that everybody knows.
        send(&client, "alice", step);
        answers.push(step.to_owned());
        let words: Vec<&str> = answers.iter().map(String::as_str).collect();
        wait_for_bodies(&alice, &words);
        let page = alice.get_json("/v1/inbox?limit=1&mark_seen=false");
        assert_eq!(page["items"][0]["sender_pubkey"], json!(new), "{step}");
        let members = alice.get_json("/v1/member/list");
        let known = members["members"].as_array().unwrap().iter().find(|member| member["displayName"] == "bob");
        assert_eq!(known.expect("bob is known")["pubkey"], json!(new), "{step}: the broker agrees");
        let aside: Vec<_> = fs::read_dir(bob.directory())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(".old-"))
            .collect();
        assert!(aside.is_empty(), "{step}: {aside:?}");
    }
}

#[test]
fn killed_while_the_broker_stands_still_it_is_the_brokers_word_that_counts() {
    let mut lab = lab(&["alice", "bob"], "");
    let old = key(lab.host("bob"));
    let next = lab.host("bob").directory().join("keypair.next.json");
    lab.broker().freeze();
    let client = lab.host("bob").client(Transport::Socket);
    // Held until the end: a request whose caller has left may not be carried out.
    let mut connection = client.connect();
    client.send_on(&mut connection, "POST", "/v1/rotate-keypair", &[], b"{}");
    wait::until_true(wait::LIMIT, "the archive to be written", || {
        next.exists() && lab.host("bob").directory().join("keypair-archive.json").exists()
    });
    lab.host_mut("bob").kill();
    // What it said lies in the broker's socket, or not; both are right.
    lab.broker().signal(Signal::CONT);
    send(&lab.host("alice").client(Transport::Socket), "bob", "meanwhile");
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let bob = lab.host("bob").client(Transport::Socket);
    wait_for_bodies(&bob, &["meanwhile"]);
    wait::until_true(wait::LIMIT, "the rotation to be finished", || !next.exists() && key(lab.host("bob")) != old);
    lab.host("bob").wait_connected();
    send(&bob, "alice", "done");
    wait_for_bodies(&lab.host("alice").client(Transport::Socket), &["done"]);
}

#[test]
fn five_daemons_talk_while_keys_are_replaced() {
    let names = ["alice", "bob", "carol", "dave", "erin"];
    let rotations: usize = std::env::var("HOSTEL_ROTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let config = "[crypto]\nmax_archived_keys = 200\n[ipc]\nrate_per_s = 0\n";
    let lab = lab(&names, config);
    let clients: BTreeMap<&str, Client> =
        names.iter().map(|name| (*name, lab.host(name).client(Transport::Socket))).collect();
    for client in clients.values() {
        assert_eq!(client.post("/v1/topic/subscribe", &json!({"topic": "ops"})).status, 200);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let talking: Vec<_> = names
        .iter()
        .map(|me| {
            let (me, client, stop) = (*me, clients[me].clone(), Arc::clone(&stop));
            thread::spawn(move || {
                let mut said = 0;
                while !stop.load(Ordering::Relaxed) && said < 25 * rotations.max(2) {
                    for to in names.iter().filter(|to| **to != me) {
                        let id = format!("{me}-{to}-{said}");
                        let body = json!({"to": to, "message": format!("dm {me} {said}"), "client_message_id": id});
                        let answer = client.post("/v1/send", &body);
                        assert_eq!(answer.status, 202, "{}", answer.text());
                    }
                    let (id, message) = (format!("{me}-ops-{said}"), format!("post {me} {said}"));
                    let body = json!({"topic": "ops", "message": message, "client_message_id": id});
                    let answer = client.post("/v1/topic/post", &body);
                    assert_eq!(answer.status, 202, "{}", answer.text());
                    said += 1;
                    thread::sleep(Duration::from_millis(10));
                }
                said
            })
        })
        .collect();
    let mut keys: Vec<String> = names.iter().map(|name| key(lab.host(name))).collect();
    for number in 0..rotations {
        let who = number % names.len();
        let answer = clients[names[who]].post("/v1/rotate-keypair", &json!({}));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let new = answer.json()["pubkey"].as_str().unwrap().to_owned();
        assert_ne!(std::mem::replace(&mut keys[who], new.clone()), new);
        assert_eq!(key(lab.host(names[who])), new);
    }
    stop.store(true, Ordering::Relaxed);
    let said: Vec<usize> = talking.into_iter().map(|one| one.join().expect("everything was taken")).collect();
    for (me, name) in names.iter().enumerate() {
        let client = &clients[name];
        let mut expected: Vec<String> = Vec::new();
        for (other, count) in said.iter().enumerate().filter(|(other, _)| *other != me) {
            for number in 0..*count {
                expected.extend(["dm", "post"].map(|kind| format!("{kind} {} {number}", names[other])));
            }
        }
        wait::until_true(wait::LIMIT, &format!("everything for {name}"), || {
            metric(client, "cm_daemon_inbox_rows") >= expected.len() as u64
        });
        let mut got: Vec<String> = all_bodies(client);
        expected.sort();
        got.sort();
        assert_eq!(got.len(), expected.len(), "{name}: none is lost and none doubled");
        assert_eq!(got, expected, "{name}: all can be read");
        assert_eq!(metric(client, "cm_daemon_decrypt_stale_total"), 0, "{name}");
    }
}

/// Bodies of all pages.
fn all_bodies(client: &Client) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get_json(&format!("/v1/inbox?limit=1000&mark_seen=false{cursor}"));
        let items = page["items"].as_array().expect("items");
        all.extend(items.iter().map(|item| item["body"].as_str().unwrap_or("(unreadable)").to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}
