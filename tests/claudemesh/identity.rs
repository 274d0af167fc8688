//! Who a daemon is: copies on another machine, an identity that moved, a new one for a copy, and two daemons with one key.
//!
//! Another machine is a namespace with another `/etc/machine-id`. Where that cannot be made the reason is printed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Space, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

/// Reconnecting is quick: these tests are not about waiting.
const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 1000\n";

/// A machine that has this id.
fn machine(directory: &Path, id: &str) -> Option<Arc<Space>> {
    if !Path::new("/etc/machine-id").exists() {
        Space::skipped("this machine has no /etc/machine-id that another could be put over");
        return None;
    }
    let space = Space::mounts()?;
    let file = directory.join(format!("machine-{id}"));
    fs::write(&file, format!("{id}\n")).unwrap();
    space.run(&format!("mount --bind {} /etc/machine-id", file.display()));
    Some(Arc::new(space))
}

fn lab() -> Lab {
    Lab::start_with(&Options { config: QUICK.to_owned(), ..Options::of(&["alice", "bob"]) })
}

fn send(client: &Client, to: &str, message: &str) {
    let answer = client.post("/v1/send", &json!({"to": to, "message": message}));
    assert_eq!(answer.status, 202, "{}", answer.text());
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

/// A second host with everything the first one has.
fn copy_of(host: &Host, name: &str, root: &Path) -> Host {
    let copy = Host::new(name, root);
    let mut command = Command::new("cp");
    command.arg("-a").arg(host.home().join(".claudemesh")).arg(copy.home());
    assert!(command.status().unwrap().success());
    copy
}

fn record(host: &Host) -> Value {
    let text = fs::read_to_string(host.directory().join("host_fingerprint.json")).expect("a record of the host");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_copy_on_another_machine_does_not_start_until_somebody_says_that_it_moved() {
    let mut lab = lab();
    let id = "0123456789abcdef0123456789abcdef";
    let Some(space) = machine(lab.path(), id) else { return };
    lab.host_mut("bob").stop();
    let before = (record(lab.host("bob")), lab.host("bob").member("pubkey"));
    let home = before.0["host_id"].as_str().unwrap().to_owned();
    assert!(home.starts_with("linux:") && !home.contains(id), "{home}");
    let bob = lab.host_mut("bob");
    bob.move_into(&space);
    bob.launch(&[]);
    assert_eq!(bob.ended().code(), Some(4));
    // Both machines are named, and both ways out.
    let printed = bob.printed();
    for part in [home.as_str(), &format!("linux:{id}"), "--remint", "--accept-cloned-identity"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // The background start says the same, and nothing was changed by trying.
    let output = bob.try_run(&["daemon", "up", "--mesh", "lab", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!((record(bob), bob.member("pubkey")), before);
    // It is the same host, moved: the same member, and from now on at home here.
    bob.launch(&["--accept-cloned-identity"]);
    bob.wait_ready();
    bob.wait_connected();
    assert_eq!(record(bob)["host_id"], format!("linux:{id}"));
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Tcp));
    assert_eq!(bob.get_json("/v1/health")["member_pubkey"], json!(before.1));
    send(&alice, "bob", "welcome");
    wait_for_bodies(&bob, &["welcome"]);
    // Once said it need not be said again; and where it came from it is now a copy.
    lab.host_mut("bob").stop();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    lab.host_mut("bob").stop();
    let mut left = copy_of(lab.host("bob"), "left-behind", lab.path());
    left.launch(&[]);
    assert_eq!(left.ended().code(), Some(4));
}

#[test]
fn a_copy_gets_an_identity_of_its_own_and_both_live_on() {
    let mut lab = lab();
    let Some(space) = machine(lab.path(), "fedcba9876543210fedcba9876543210") else { return };
    lab.host_mut("bob").stop();
    let mut copy = copy_of(lab.host("bob"), "copy", lab.path());
    let (old_key, old_member) = (lab.host("bob").member("pubkey"), lab.host("bob").member("memberId"));
    copy.move_into(&space);
    copy.launch(&["--remint"]);
    copy.wait_ready();
    copy.wait_connected();
    assert_ne!(copy.member("pubkey"), old_key);
    assert_ne!(copy.member("memberId"), old_member);
    // The original is started where it was, with what it had, and neither pushes the other out.
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    assert_eq!(lab.host("bob").member("pubkey"), old_key);
    let alice = lab.host("alice").client(Transport::Socket);
    let named = |key: &str| {
        let members = alice.get_json("/v1/member/list");
        let found = members["members"].as_array().unwrap().iter().find(|member| member["pubkey"] == key).cloned();
        found.map(|member| member["displayName"].as_str().unwrap_or_default().to_owned())
    };
    let new_key = copy.member("pubkey");
    wait::until_true(wait::LIMIT, "alice to know both", || named(&new_key).is_some_and(|name| name == "bob"));
    wait::until_true(wait::LIMIT, "the old one to have another name", || {
        named(&old_key).is_some_and(|name| name != "bob")
    });
    let (first, second) = (lab.host("bob").client(Transport::Socket), copy.client(Transport::Socket));
    send(&alice, "bob", "for whoever is called bob");
    send(&alice, &old_key, "for the original");
    wait_for_bodies(&second, &["for whoever is called bob"]);
    wait_for_bodies(&first, &["for the original"]);
    send(&first, "alice", "from the original");
    send(&second, "alice", "from the copy");
    wait::until_true(wait::LIMIT, "both to be heard", || bodies(&alice).len() == 2);
    let page = alice.get_json("/v1/inbox?mark_seen=false");
    for item in page["items"].as_array().unwrap() {
        let key = if item["body"] == "from the copy" { &new_key } else { &old_key };
        assert_eq!(item["sender_pubkey"], json!(key));
    }
    for client in [&first, &second] {
        let text = client.get("/v1/metrics").text();
        assert!(text.contains("cm_daemon_clone_suspected_total{mesh=\"lab\"} 0\n"), "{text}");
    }
    // At the next start the new one is at home.
    copy.stop();
    copy.start();
    copy.wait_connected();
    assert_eq!(copy.member("pubkey"), new_key);
}

fn connected(host: &Host) -> bool {
    host.client(Transport::Socket).get_json("/v1/health")["connected"] == true
}

/// How often a daemon has noticed another one with its key.
fn noticed(host: &Host) -> u64 {
    let text = host.client(Transport::Socket).get("/v1/metrics").text();
    let line = text.lines().find(|line| line.starts_with("cm_daemon_clone_suspected_total{"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the counter is there")
}

/// Two daemons with one key, the second one on another machine if there can be one; the first is connected.
fn twins(broker: &str) -> (Lab, Host, bool) {
    let mut lab = Lab::start_with(&Options {
        config: QUICK.to_owned(),
        broker: broker.to_owned(),
        ..Options::of(&["alice", "bob"])
    });
    lab.host_mut("bob").stop();
    let mut twin = copy_of(lab.host("bob"), "twin", lab.path());
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let space = machine(lab.path(), "00112233445566778899aabbccddeeff");
    if let Some(space) = &space {
        twin.move_into(space);
    }
    twin.configure(&format!("[ipc]\ntcp_enabled = true\n{QUICK}[clone]\npolicy = \"warn\"\n"));
    (lab, twin, space.is_some())
}

#[test]
fn of_two_daemons_with_one_key_the_newer_stays_and_nothing_is_lost() {
    let (lab, mut twin, elsewhere) = twins("");
    let begun = Instant::now();
    let alice = lab.host("alice").client(Transport::Socket);
    let mut alarms = alice.events("?events=member_clone_suspected", &[]);
    twin.start();
    twin.wait_connected();
    wait::until_true(wait::LIMIT, "the first one to notice", || noticed(lab.host("bob")) > 0);
    assert!(lab.host("bob").printed().contains("replaced_by_other_connection"), "{}", lab.host("bob").printed());
    if elsewhere {
        let alarm = alarms.named("member_clone_suspected");
        assert_eq!((&alarm["mesh"], &alarm["name"]), (&json!("lab"), &json!("bob")), "{alarm}");
        let audit = lab.host("alice").run(&["audit", "--mesh", "lab", "--json"]);
        assert!(audit.contains("member_clone_suspected"), "{audit}");
    }
    // Both work while they take turns: what is sent to bob is in the inbox of each, once and in order, and what each of
    // them accepts arrives.
    let (first, second) = (lab.host("bob").client(Transport::Socket), twin.client(Transport::Socket));
    let texts: Vec<String> = (0..20).map(|number| format!("message {number}")).collect();
    for text in &texts {
        send(&alice, "bob", text);
    }
    for number in 0..5 {
        send(&first, "alice", &format!("first {number}"));
        send(&second, "alice", &format!("second {number}"));
    }
    let expected: Vec<&str> = texts.iter().map(String::as_str).collect();
    wait_for_bodies(&first, &expected);
    wait_for_bodies(&second, &expected);
    wait::until_true(wait::LIMIT, "everything of both to arrive", || bodies(&alice).len() >= 10);
    let got = bodies(&alice);
    for who in ["first", "second"] {
        let of: Vec<&String> = got.iter().filter(|body| body.starts_with(who)).collect();
        assert_eq!(of, (0..5).map(|number| format!("{who} {number}")).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    }
    assert_eq!(got.len(), 10, "{got:?}");
    // They do not push each other out as fast as they can: each waits the longest pause first, which is a second, less
    // some jitter.
    let (turns, most) = (noticed(lab.host("bob")) + noticed(&twin), 20 + 4 * begun.elapsed().as_secs());
    assert!(turns < most, "{turns} turns in {:?}", begun.elapsed());
    // When one goes the other has the connection to itself. That it was pushed out just before may still be news to it:
    // only what comes over its connection shows that it is there.
    twin.stop();
    let came = |text: &str| {
        send(&alice, "bob", text);
        wait::until_true(wait::LIMIT, text, || bodies(&first).last().is_some_and(|body| body == text));
    };
    came("alone again");
    lab.host("bob").wait_connected();
    let settled = noticed(lab.host("bob"));
    came("last");
    assert!(connected(lab.host("bob")));
    assert_eq!(noticed(lab.host("bob")), settled);
}

#[test]
fn where_the_older_is_preferred_the_newer_waits_until_it_is_gone() {
    let (mut lab, mut twin, _) = twins("[broker]\nconcurrency = \"prefer_oldest\"\n");
    let alice = lab.host("alice").client(Transport::Socket);
    twin.start();
    wait::until_true(wait::LIMIT, "the newer one to notice", || noticed(&twin) > 0);
    assert!(!connected(&twin) && connected(lab.host("bob")));
    assert_eq!(noticed(lab.host("bob")), 0);
    send(&alice, "bob", "one");
    wait_for_bodies(&lab.host("bob").client(Transport::Socket), &["one"]);
    assert!(bodies(&twin.client(Transport::Socket)).is_empty());
    lab.host_mut("bob").stop();
    twin.wait_connected();
    send(&alice, "bob", "two");
    wait_for_bodies(&twin.client(Transport::Socket), &["one", "two"]);
}

#[test]
fn where_both_are_allowed_both_stay() {
    let (lab, mut twin, _) = twins("[broker]\nconcurrency = \"allow_concurrent\"\n");
    let alice = lab.host("alice").client(Transport::Socket);
    twin.start();
    twin.wait_connected();
    send(&alice, "bob", "for both");
    wait_for_bodies(&lab.host("bob").client(Transport::Socket), &["for both"]);
    wait_for_bodies(&twin.client(Transport::Socket), &["for both"]);
    assert!(connected(lab.host("bob")) && connected(&twin));
    assert!(!lab.host("bob").printed().contains("replaced_by_other_connection"));
}
