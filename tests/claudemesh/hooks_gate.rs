//! The gate of a real daemon: what it lets through, what it changes, and that nothing gets past it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;

use hostel_tests::claudemesh::hooks::SPEAKS;
use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::codecast::http::Answer;
use hostel_tests::wait;
use serde_json::{Value, json};

/// A gate that does what the text asks for, and counts how often it was asked.
const GATE: &str = "open('asked', 'a').write(json.dumps(event) + '\\n')\n\
     body = event['body'] or ''\n\
     if body.startswith('drop'): print(json.dumps({'action': 'drop', 'reason': 'no such words'}))\n\
     elif body.startswith('shout'): print(json.dumps({'action': 'replace', 'body': body.upper()}))\n\
     elif body.startswith('{\"swap'): print(json.dumps({'action': 'replace', 'body': '{\"swapped\":1}'}))\n\
     elif body.startswith('{\"spoil'): print(json.dumps({'action': 'replace', 'body': 'no JSON'}))\n\
     elif body.startswith('name'): print(json.dumps({'action': 'replace', 'title': 'another', 'body': 'named'}))\n\
     elif body.startswith('clean'): print(json.dumps({'action': 'replace', 'meta': {'clean': True}}))\n\
     elif body.startswith('allow'): print(json.dumps({'action': 'allow'}))\n\
     elif body.startswith('babble'): print('what?')\n\
     elif body.startswith('fail'): sys.exit(1)\n\
     elif body.startswith('hang'): os.execvp('sleep', ['sleep', '1000'])\n";

const POLICY: &str = "[pre-send]\nfs_policy = \"rw\"\nnetwork_policy = \"allow\"\n";

fn lab() -> Lab {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let alice = lab.host("alice");
    alice.put_policy(POLICY);
    alice.put_hook("pre-send", &format!("{SPEAKS}{GATE}"));
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    lab
}

fn send(client: &Client, message: &str, id: &str) -> Answer {
    let meta = json!({"secret": 1});
    client.post("/v1/send", &json!({"to": "bob", "message": message, "client_message_id": id, "meta": meta}))
}

fn blocked(answer: &Answer) -> String {
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]), (403, &json!("blocked_by_pre_send")), "{body}");
    body["detail"].as_str().unwrap().to_owned()
}

/// What bob has under an id.
fn received(lab: &Lab, id: &str) -> Value {
    let bob = lab.host("bob").client(Transport::Socket);
    wait::until(wait::LIMIT, &format!("{id} at bob's"), || {
        let page = bob.get_json("/v1/inbox?limit=1000&mark_seen=false");
        page["items"].as_array()?.iter().find(|item| item["client_message_id"] == id).cloned()
    })
}

fn asked(host: &Host) -> usize {
    host.hook_output("asked").lines().count()
}

#[test]
fn the_gate_lets_through_changes_and_refuses() {
    let lab = lab();
    let alice = lab.host("alice").client(Transport::Socket);
    for (message, id) in [("allow this", "a"), ("whatever", "b")] {
        assert_eq!(send(&alice, message, id).status, 202);
        assert_eq!(
            (&received(&lab, id)["body"], &received(&lab, id)["meta"]),
            (&json!(message), &json!({"secret": 1}))
        );
    }
    assert_eq!(send(&alice, "shout this", "c").status, 202);
    assert_eq!(received(&lab, "c")["body"], "SHOUT THIS");
    assert_eq!(send(&alice, "clean this", "d").status, 202);
    let cleaned = received(&lab, "d");
    assert_eq!((&cleaned["body"], &cleaned["meta"]), (&json!("clean this"), &json!({"clean": true})));
    assert!(blocked(&send(&alice, "drop this", "e")).contains("no such words"));
    assert!(blocked(&send(&alice, "babble", "f")).contains("no JSON"));
    assert!(blocked(&send(&alice, "fail", "g")).contains("ended with 1"));
    // Little time only for the one that takes too long: others may be slow on a busy machine.
    for (policy, hangs) in [(format!("{POLICY}timeout_s = 1\n"), true), (POLICY.to_owned(), false)] {
        lab.host("alice").put_policy(&policy);
        lab.host("alice").run(&["daemon", "reload"]);
        assert!(!hangs || blocked(&send(&alice, "hang", "h")).contains("too long"));
    }
    // What it was told.
    let told: Value = serde_json::from_str(lab.host("alice").hook_output("asked").lines().next().unwrap()).unwrap();
    assert_eq!((&told["event"], &told["kind"], &told["priority"]), (&json!("pre_send"), &json!("dm"), &json!("next")));
    assert_eq!((&told["client_message_id"], &told["to"]["name"]), (&json!("a"), &json!("bob")));
    assert_eq!(told["to"]["pubkey"], lab.host("bob").member("pubkey"));
    // An id that is known is answered from the outbox, also where something else was sent than was asked for.
    let count = asked(lab.host("alice"));
    for (message, id) in [("allow this", "a"), ("shout this", "c"), ("clean this", "d")] {
        let again = send(&alice, message, id);
        assert!(matches!(again.status, 200 | 202), "{}", again.text());
    }
    assert_eq!(send(&alice, "something else", "c").status, 409);
    assert_eq!(send(&alice, "SHOUT THIS", "c").status / 100, 2, "what was sent is the same request too");
    assert_eq!(asked(lab.host("alice")), count, "nobody was asked again");
    // An id that was refused is still free.
    assert_eq!(send(&alice, "allow after all", "e").status, 202);
    assert_eq!(received(&lab, "e")["body"], "allow after all");
}

/// Whatever the gate refuses does not leave the host, and neither does a file while the gate is still asked.
#[test]
fn a_file_leaves_when_the_gate_has_agreed() {
    let lab = lab();
    let [alice, bob] = ["alice", "bob"].map(|name| lab.host(name).client(Transport::Socket));
    let file = lab.path().join("plan.txt");
    fs::write(&file, "plan").unwrap();
    let share = |message: &str| alice.post("/v1/file/share", &json!({"path": file, "message": message}));
    for _ in 0..5 {
        assert!(blocked(&share("drop this")).contains("no such words"));
    }
    let shared = share("allow this");
    assert_eq!(shared.status, 200, "{}", shared.text());
    let listed = || bob.get_json("/v1/file/list")["files"].as_array().unwrap().clone();
    // Files leave in the order in which they were shared: this one would come last.
    wait::until_true(wait::LIMIT, "the file at the broker", || {
        listed().iter().any(|file| file["id"] == shared.json()["fileId"])
    });
    assert_eq!(listed().len(), 1, "{:?}", listed());
    assert_eq!(fs::read_dir(lab.broker_home().join("broker/blobs")).unwrap().count(), 1);
}

#[test]
fn shared_state_and_tasks_go_through_the_gate() {
    let config = "[capabilities]\nstate = true\ntasks = true\n";
    let mut lab = Lab::prepare(&Options { config: config.to_owned(), ..Options::of(&["alice", "bob"]) });
    lab.host("alice").put_policy(POLICY);
    lab.host("alice").put_hook("pre-send", &format!("{SPEAKS}{GATE}"));
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    let [alice, bob] = ["alice", "bob"].map(|name| lab.host(name).client(Transport::Socket));
    let set = |key: &str, value: Value| {
        alice.post("/v1/state/set", &json!({"key": key, "value": value, "client_message_id": format!("set {key}")}))
    };
    let seen = |key: &str| bob.get(&format!("/v1/state/get?key={key}"));
    for (key, value, sent) in [
        ("plain", json!({"a": [1, "drop"]}), json!({"a": [1, "drop"]})),
        ("text", json!("shout this"), json!("SHOUT THIS")),
        ("json", json!({"swap": true}), json!({"swapped": 1})),
    ] {
        let written = set(key, value.clone());
        assert_eq!(written.status, 200, "{}", written.text());
        assert_eq!(seen(key).json()["value"], sent);
        // The same request is the same, whatever was made of it.
        assert_eq!(set(key, value).json()["duplicate"], true, "{key}");
        assert_eq!(seen(key).json()["version"], written.json()["version"]);
    }
    for (key, value) in
        [("no", json!("drop this")), ("fail", json!("fail")), ("spoilt", json!({"spoil": 1})), ("meta", json!("clean"))]
    {
        blocked(&set(key, value));
        assert_eq!(seen(key).json()["error"], "state_not_found");
    }
    // Removing is told as well, and has nothing that could be changed.
    assert_eq!(set("text", Value::Null).status, 409, "the id is the entry's own");
    assert_eq!(alice.request("DELETE", "/v1/state?key=text", &[], b"").status, 200);
    assert_eq!(seen("text").json()["error"], "state_not_found");
    let create = |body: &str| alice.post("/v1/task/create", &json!({"title": "a task", "body": body}));
    blocked(&create("drop this"));
    let made = create("name it").json();
    assert_eq!((&made["task"]["title"], &made["task"]["body"]), (&json!("another"), &json!("named")), "{made}");
    let id = made["task"]["id"].as_str().unwrap();
    let task = || bob.get_json(&format!("/v1/task/get?id={id}"))["task"].clone();
    assert_eq!((&task()["title"], &task()["body"]), (&json!("another"), &json!("named")));
    assert_eq!(bob.get_json("/v1/task/list?status=all")["items"].as_array().unwrap().len(), 1);
    assert_eq!(alice.post("/v1/task/claim", &json!({"id": id})).status, 200);
    let complete = |result: Value| alice.post("/v1/task/complete", &json!({"id": id, "result": result}));
    blocked(&complete(json!("drop this")));
    assert_eq!(task()["status"], "claimed");
    assert_eq!(complete(json!("shout")).status, 200);
    assert_eq!(task()["result"], "SHOUT");
    // What it was told.
    let told = lab.host("alice").hook_output("asked");
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = |kind: &str, step: &str| {
        told.iter().find(|told| told["kind"] == kind && told["step"] == step).cloned().unwrap_or_default()
    };
    let (set, removed, made) = (first("state", "set"), first("state", "remove"), first("task", "create"));
    assert_eq!((&set["event"], &set["to"]), (&json!("pre_send"), &json!({"key": "plain"})));
    assert_eq!((&set["body"], &set["client_message_id"]), (&json!("{\"a\":[1,\"drop\"]}"), &json!("set plain")));
    assert_eq!((&removed["to"]["key"], &removed["body"]), (&json!("text"), &Value::Null));
    assert_eq!((&made["title"], &made["body"]), (&json!("a task"), &json!("drop this")));
    assert_eq!(first("task", "claim")["to"], json!({"task": id}));
    assert_eq!(first("task", "complete")["body"], "drop this");
}

#[test]
fn nothing_gets_past_the_gate() {
    let mut lab = lab();
    let host = lab.host("alice");
    let [alice, tcp] = Transport::ALL.map(|transport| host.client(transport));
    alice.post("/v1/topic/subscribe", &json!({"topic": "alerts"}));
    blocked(&tcp.post("/v1/send", &json!({"to": "*", "message": "drop it"})));
    blocked(&alice.post("/v1/topic/post", &json!({"topic": "alerts", "message": "drop it"})));
    blocked(&alice.post("/v1/send", &json!({"to": "#alerts", "message": "drop it"})));
    let file = lab.path().join("file");
    fs::write(&file, "content").unwrap();
    blocked(&alice.post("/v1/file/share", &json!({"path": file, "to": "bob", "message": "drop it"})));
    let shared = alice.post("/v1/file/share", &json!({"path": file, "to": "bob", "message": "clean it"}));
    assert_eq!(shared.status, 200, "{}", shared.text());
    // A session of this host.
    let token = "ab".repeat(32);
    let registered = alice.post(
        "/v1/sessions/register",
        &json!({"token": token, "session_id": "s1", "mesh": "lab", "display_name": "review", "pid": std::process::id()}),
    );
    assert_eq!(registered.status, 200, "{}", registered.text());
    let as_session = [("Authorization".to_owned(), format!("ClaudeMesh-Session {token}"))];
    let body = json!({"to": "bob", "message": "drop it"}).to_string();
    blocked(&alice.request("POST", "/v1/send", &as_session, body.as_bytes()));
    // What a hook answers.
    host.put_policy(&format!("{POLICY}[on-dm]\n"));
    host.put_hook("on-dm", "#!/bin/sh\necho '{\"reply\":\"drop it\"}'\n");
    host.run(&["daemon", "reload"]);
    let bob = lab.host("bob").client(Transport::Socket);
    assert_eq!(bob.post("/v1/send", &json!({"to": "alice", "message": "hi"})).status, 202);
    wait::until_true(wait::LIMIT, "the answer to be stopped", || {
        host.logged("hook_reply_not_sent").iter().any(|line| line["code"] == "blocked_by_pre_send")
    });
    // The announcement of the file is all that got to bob.
    let announced = wait::until(wait::LIMIT, "the file at bob's", || {
        let page = bob.get_json("/v1/inbox?mark_seen=false");
        page["items"].as_array()?.first().cloned()
    });
    assert_eq!((&announced["file"]["name"], &announced["body"]), (&json!("file"), &json!("clean it")));
    // A gate that is there and cannot be asked is shut.
    fs::remove_file(host.hooks().join("pre-send")).unwrap();
    assert!(blocked(&send(&alice, "allow", "x")).contains("no file"));
    // Without the daemon there is nobody to ask it.
    lab.host_mut("alice").stop();
    let sent = lab.host("alice").try_run(&["send", "bob", "hello"]);
    let said = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(!sent.status.success() && said.contains("pre-send"), "{said}");
    // A policy nobody can read, and a gate that lies there.
    let host = lab.host("alice");
    host.put_hook("pre-send", "#!/bin/sh\n");
    host.put_policy("[pre-send\n");
    lab.host_mut("alice").start();
    assert!(blocked(&send(&lab.host("alice").client(Transport::Socket), "allow", "x")).contains("hooks.toml"));
    lab.host("alice").put_policy("[pre-send]\nenabled = false\n");
    lab.host("alice").run(&["daemon", "reload"]);
    assert_eq!(send(&lab.host("alice").client(Transport::Socket), "drop", "x").status, 202);
}
