//! Files and who may stop them: no byte of one leaves its host before the gate has let it through, and none of a blocked
//! peer's appears.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

/// A gate that does what the text beside the file says, and writes down that it was asked.
const GATE: &str = "#!/usr/bin/python3\nimport json, os, sys, time\ntold = json.load(sys.stdin)\n\
     open('asked', 'a').write(json.dumps(told) + '\\n')\n\
     word = told['body'].split(' ')[0]\n\
     if word == 'slow':\n    time.sleep(1.5)\n\
     if word == 'late':\n    time.sleep(30)\n\
     if word == 'crash':\n    os.kill(os.getpid(), 9)\n\
     if word == 'fail':\n    sys.exit(3)\n\
     if word == 'babble':\n    print('who knows')\n\
     elif word in ('drop', 'slow'):\n    print(json.dumps({'action': 'drop', 'reason': 'not this one'}))\n";

const POLICY: &str = "[pre-send]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\ntimeout_s = 2\n";

fn client(lab: &Lab, name: &str) -> Client {
    lab.host(name).client(Transport::Socket)
}

fn started(mut lab: Lab) -> Lab {
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    lab
}

/// Files below a directory.
fn below(directory: &PathBuf) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

fn listed(client: &Client) -> Vec<String> {
    let files = client.get_json("/v1/file/list")["files"].as_array().unwrap().clone();
    files.iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_byte_of_a_file_leaves_before_the_gate_has_decided() {
    let lab = Lab::prepare(&Options::of(&["alice", "bob", "carol"]));
    lab.host("alice").put_policy(POLICY);
    lab.host("alice").put_hook("pre-send", GATE);
    let lab = started(lab);
    let alice = client(&lab, "alice");
    let blobs = lab.broker_home().join("broker/blobs");
    let spool = lab.host("alice").directory().join("files");
    for word in ["drop", "slow", "late", "crash", "fail", "babble"] {
        for to in [Some("bob"), Some("carol"), None] {
            let file = lab.path().join(format!("{word}.txt"));
            fs::write(&file, format!("secret {word}")).unwrap();
            let answer =
                alice.post("/v1/file/share", &json!({"path": file, "to": to, "message": format!("{word} it")}));
            assert_eq!((answer.status, &answer.json()["error"]), (403, &json!("blocked_by_pre_send")), "{word} {to:?}");
        }
    }
    // What is let through comes after all of those, on the same way.
    for (number, to) in [Some("bob"), None].into_iter().enumerate() {
        let file = lab.path().join(format!("good-{number}.txt"));
        fs::write(&file, "open").unwrap();
        let answer = alice.post("/v1/file/share", &json!({"path": file, "to": to, "message": "allow it"}));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let bob = client(&lab, "bob");
    wait::until_true(wait::LIMIT, "both files to be listed", || listed(&bob).len() == 2);
    let mut names = listed(&bob);
    names.sort();
    assert_eq!(names, ["good-0.txt", "good-1.txt"]);
    assert_eq!(listed(&client(&lab, "carol")), ["good-1.txt"]);
    assert_eq!(below(&blobs).len(), 2, "the broker has nothing else");
    let announced = wait::until(wait::LIMIT, "both announcements", || {
        let page = bob.get_json("/v1/inbox?mark_seen=false");
        let items = page["items"].as_array()?.clone();
        (items.len() == 2).then_some(items)
    });
    assert!(announced.iter().all(|item| item["verified"] == true), "{announced:?}");
    let files = bob.get_json("/v1/file/list")["files"].as_array().unwrap().clone();
    assert!(files.iter().all(|file| file["verified"] == true), "{files:?}");
    for file in &files {
        let out = lab.path().join("got.txt");
        let path = format!("/v1/file/get?id={}&out={}", file["id"].as_str().unwrap(), out.display());
        let got = bob.get(&path);
        assert_eq!((got.status, &got.json()["verified"]), (200, &json!(true)), "{}", got.text());
        assert_eq!(fs::read_to_string(&out).unwrap(), "open");
    }
    wait::until_true(wait::LIMIT, "nothing to be left on the way out", || below(&spool).is_empty());
    // It was told of each, with the file.
    let asked: Vec<Value> =
        lab.host("alice").hook_output("asked").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked.len(), 20);
    assert!(asked.iter().all(|told| told["kind"] == "file" && told["meta"]["file"]["sha256"].is_string()));
}

#[test]
fn files_of_a_blocked_peer_do_not_appear() {
    let lab = Lab::start(&["alice", "bob", "carol"]);
    let (alice, bob, carol) = (client(&lab, "alice"), client(&lab, "bob"), client(&lab, "carol"));
    let share = |name: &str, to: Option<&str>| {
        let file = lab.path().join(name);
        fs::write(&file, name).unwrap();
        let answer = alice.post("/v1/file/share", &json!({"path": file, "to": to}));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["fileId"].as_str().unwrap().to_owned()
    };
    let settled =
        || wait::until_true(wait::LIMIT, "the outbox to be empty", || alice.get_json("/v1/health")["queue_depth"] == 0);
    let before = share("before.txt", Some("bob"));
    settled();
    assert_eq!(listed(&bob), ["before.txt"]);
    lab.host("bob").run(&["peer", "block", "alice"]);
    let mut events = alice.events("?events=outbox_dead", &[]);
    let after = share("after.txt", Some("bob"));
    share("all.txt", None);
    // The sender hears that it was blocked, and the broker keeps nothing of it.
    let dead = events.named("outbox_dead");
    assert_eq!(dead["reason"], "blocked", "{dead}");
    settled();
    assert_eq!(listed(&carol), ["all.txt"], "others have what is for everybody");
    assert_eq!(listed(&bob), Vec::<String>::new());
    let out = lab.path().join("out.txt");
    for id in [&before, &after] {
        let got = bob.get(&format!("/v1/file/get?id={id}&out={}", out.display()));
        assert!(got.status == 403 || got.status == 404, "{}", got.text());
    }
    assert!(!out.exists());
    assert!(!below(&lab.broker_home().join("broker/blobs")).iter().any(|blob| blob.to_string_lossy().contains(&after)));
    // Unblocked, what was shared before is there again, and what comes is taken.
    lab.host("bob").run(&["peer", "unblock", "alice"]);
    share("later.txt", Some("bob"));
    settled();
    let mut names = listed(&bob);
    names.sort();
    assert_eq!(names, ["all.txt", "before.txt", "later.txt"]);
}
