//! Shared state: values all members read and write, compared and set, watched, and sealed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hostel_tests::claudemesh::lab::Options;
use hostel_tests::claudemesh::{Client, Lab, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

const FIVE: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

fn lab(members: &[&str]) -> Lab {
    let config = "[capabilities]\nstate = true\n[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";
    Lab::start_with(&Options { config: config.to_owned(), ..Options::of(members) })
}

fn set(client: &Client, body: &Value) -> Value {
    let answer = client.post("/v1/state/set", body);
    assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    answer.json()
}

/// How much of everything: `HOSTEL_COUNTS` makes the counting longer.
fn times() -> usize {
    std::env::var("HOSTEL_COUNTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn what_one_writes_the_others_read() {
    let lab = lab(&["alice", "bob"]);
    for transport in Transport::ALL {
        let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
        let key = format!("deploy/{}", transport.name());
        let path = format!("/v1/state/get?key={}", key.replace('/', "%2F"));
        assert_eq!(bob.get(&path).json()["error"], "state_not_found");
        let value = json!({"hosts": ["a", "b"], "n": 2.5, "ok": true, "none": null, "ü": "ß"});
        let first = set(&alice, &json!({"key": key, "value": value, "if_version": 0}));
        assert_eq!(
            (&first["ok"], &first["removed"], &first["duplicate"]),
            (&json!(true), &json!(false), &json!(false))
        );
        let read = bob.get_json(&path);
        assert_eq!((&read["value"], &read["version"], &read["key"]), (&value, &first["version"], &json!(key)));
        assert_eq!(read["updated_by"]["name"], "alice");
        // It is there now.
        let refused = bob.post("/v1/state/set", &json!({"key": key, "value": 1, "if_version": 0}));
        assert_eq!((refused.status, &refused.json()["error"]), (409, &json!("version_conflict")));
        assert_eq!(refused.json()["version"], first["version"]);
        let second = set(&bob, &json!({"key": key, "value": "two", "if_version": first["version"]}));
        assert!(second["version"].as_u64() > first["version"].as_u64());
        // The same id writes once, whatever has been written since.
        let again = json!({"key": key, "value": "three", "client_message_id": format!("id-{}", transport.name())});
        let third = set(&alice, &again);
        set(&bob, &json!({"key": key, "value": "four"}));
        let repeated = set(&alice, &again);
        assert_eq!((&repeated["version"], &repeated["duplicate"]), (&third["version"], &json!(true)));
        assert_eq!(bob.get_json(&path)["value"], "four");
        let mut other = again.clone();
        other["value"] = "five".into();
        let reused = alice.post("/v1/state/set", &other);
        assert_eq!((reused.status, &reused.json()["error"]), (409, &json!("idempotency_key_reused")));
        // Removed by null, or by DELETE.
        assert_eq!(set(&alice, &json!({"key": key, "value": null}))["removed"], true);
        assert_eq!(bob.get(&path).status, 404);
        set(&alice, &json!({"key": key, "value": 1, "if_version": 0}));
        let encoded = key.replace('/', "%2F");
        let wrong = alice.request("DELETE", &format!("/v1/state?key={encoded}&if_version=1"), &[], b"");
        assert_eq!(wrong.status, 409);
        assert_eq!(alice.request("DELETE", &format!("/v1/state?key={encoded}"), &[], b"").status, 200);
        let nothing = alice.request("DELETE", &format!("/v1/state?key={encoded}"), &[], b"");
        assert_eq!((nothing.status, &nothing.json()["version"]), (200, &json!(0)));
    }
}

#[test]
fn wrong_requests_are_refused_by_field() {
    let lab = lab(&["alice"]);
    let alice = lab.host("alice").client(Transport::Socket);
    for (body, status, word, field) in [
        (json!({"key": "a"}), 400, "invalid", "value"),
        (json!({"value": 1}), 400, "invalid", "key"),
        (json!({"key": "", "value": 1}), 400, "invalid", "key"),
        (json!({"key": "a\nb", "value": 1}), 400, "invalid", "key"),
        (json!({"key": "x".repeat(513), "value": 1}), 400, "invalid", "key"),
        (json!({"key": "a", "value": 1, "if_version": -1}), 400, "invalid", "if_version"),
        (json!({"key": "a", "value": "x".repeat(65 * 1024)}), 413, "value_too_large", "value"),
    ] {
        let answer = alice.post("/v1/state/set", &body);
        let said = answer.json();
        assert_eq!((answer.status, &said["error"], &said["field"]), (status, &json!(word), &json!(field)), "{said}");
    }
    let number = alice.request("POST", "/v1/state/set", &[], br#"{"key":"a","value":12345678901234567890123}"#);
    assert_eq!((number.status, &number.json()["field"]), (400, &json!("value")));
    let most = json!({"key": "k".repeat(512), "value": "x".repeat(65_000)});
    set(&alice, &most);
    assert_eq!(alice.get(&format!("/v1/state/get?key={}", "k".repeat(512))).json()["value"], most["value"]);
}

#[test]
fn entries_are_listed_by_name_and_in_pages() {
    let lab = lab(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    for name in ["b/2", "a", "b/1", "c", "b/3"] {
        set(&alice, &json!({"key": name, "value": {"of": name}}));
    }
    let names = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
    };
    let all = bob.get_json("/v1/state/list");
    assert_eq!(
        (names(&all), &all["next"]),
        (["a", "b/1", "b/2", "b/3", "c"].map(str::to_owned).to_vec(), &json!(null))
    );
    assert!(all["items"][0].get("value").is_none());
    let some = bob.get_json("/v1/state/list?prefix=b%2F&limit=2&values=true");
    assert_eq!((names(&some), &some["next"]), (vec!["b/1".to_owned(), "b/2".to_owned()], &json!("b/2")));
    assert_eq!(some["items"][1]["value"], json!({"of": "b/2"}));
    let rest = bob.get_json("/v1/state/list?prefix=b%2F&limit=2&cursor=b%2F2");
    assert_eq!((names(&rest), &rest["next"]), (vec!["b/3".to_owned()], &json!(null)));
    // The verbs say the same.
    let host = lab.host("bob");
    assert_eq!(host.run(&["state", "set", "cli", "{\"a\": [1, 2]}"]).lines().count(), 1);
    assert_eq!(host.run(&["state", "get", "cli"]).trim(), "{\"a\":[1,2]}");
    let entry: Value = serde_json::from_str(&host.run(&["state", "get", "cli", "--json"])).unwrap();
    let version = entry["version"].to_string();
    assert_eq!(host.try_run(&["state", "set", "cli", "2", "--if-version", "1"]).status.code(), Some(6));
    host.run(&["state", "set", "cli", "plain words", "--if-version", &version]);
    assert_eq!(host.run(&["state", "get", "cli"]).trim(), "plain words");
    assert!(host.run(&["state", "list", "--prefix", "c", "--values"]).contains("plain words"));
    host.run(&["state", "delete", "cli"]);
    assert_eq!(host.try_run(&["state", "get", "cli"]).status.code(), Some(5));
}

/// Counts one up by comparing and setting, until it has worked.
fn count_up(client: &Client, id: &str) {
    for attempt in 0_u64.. {
        let (value, version) = match client.try_request("GET", "/v1/state/get?key=counter", &Value::Null) {
            Some((200, read)) => (read["value"].as_u64().unwrap(), read["version"].as_u64().unwrap()),
            Some((404, _)) => (0, 0),
            // The broker, the way to it or the daemon is gone for a moment.
            None | Some((503 | 429, _)) => {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            other => panic!("{other:?}"),
        };
        let id = format!("{id}-{attempt}");
        let body = json!({"key": "counter", "value": value + 1, "if_version": version, "client_message_id": id});
        // What was not answered is asked again under the same id: it is known then whether it was done.
        loop {
            match client.try_request("POST", "/v1/state/set", &body) {
                Some((200, _)) => return,
                Some((409, _)) => break,
                None | Some((503 | 429, _)) => std::thread::sleep(Duration::from_millis(20)),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_counter_counts_everybody_once() {
    let lab = lab(&FIVE);
    let (callers, each) = (3, 4 * times());
    std::thread::scope(|scope| {
        for name in FIVE {
            for caller in 0..callers {
                let client = lab.host(name).client(Transport::Socket);
                scope.spawn(move || {
                    for number in 0..each {
                        count_up(&client, &format!("{name}-{caller}-{number}"));
                    }
                });
            }
        }
    });
    let total = FIVE.len() * callers * each;
    for name in FIVE {
        let read = lab.host(name).client(Transport::Socket).get_json("/v1/state/get?key=counter");
        assert_eq!(read["value"], total, "{name}");
    }
}

#[test]
fn a_counter_counts_everybody_once_whatever_is_killed() {
    let mut lab = lab(&["alice", "bob", "carol", "erin"]);
    let each = 12 * times();
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let total = 3 * each;
    std::thread::scope(|scope| {
        let workers: Vec<_> = ["alice", "bob", "carol"]
            .map(|name| {
                let client = lab.host(name).client(Transport::Socket);
                let done = &done;
                scope.spawn(move || {
                    for number in 0..each {
                        count_up(&client, &format!("{name}-{number}"));
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .into_iter()
            .collect();
        let reached = |count: usize| {
            wait::until_true(wait::LIMIT * 2, &format!("{count} counted"), || {
                done.load(Ordering::SeqCst) >= count || over.load(Ordering::SeqCst)
            });
        };
        for round in 1..=3 {
            reached(round * total / 5);
            // One of those who count, in the middle of it, and the broker.
            lab.host_mut("carol").kill();
            lab.kill_broker();
            lab.host_mut("carol").start();
            lab.start_broker();
        }
        for worker in workers {
            worker.join().unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    for name in ["alice", "erin"] {
        lab.host(name).wait_connected();
        let read = lab.host(name).client(Transport::Socket).get_json("/v1/state/get?key=counter");
        assert_eq!(read["value"], total, "{name}");
    }
}

#[test]
fn a_watch_goes_on_where_it_was_and_misses_nothing() {
    let mut lab = lab(&["alice", "bob"]);
    let alice = lab.host("alice").client(Transport::Socket);
    let bob = lab.host("bob").client(Transport::Socket);
    let mut watch = bob.stream("/v1/state/watch?prefix=w%2F", &[]);
    set(&alice, &json!({"key": "other", "value": 0}));
    for number in 0..3 {
        set(&alice, &json!({"key": format!("w/{number}"), "value": number}));
    }
    let mut versions = Vec::new();
    for number in 0..3 {
        let told = watch.named("state_changed");
        assert_eq!((&told["key"], &told["value"]), (&json!(format!("w/{number}")), &json!(number)));
        assert_eq!(told["updated_by"]["name"], "alice");
        versions.push(told["version"].as_u64().unwrap());
    }
    let last = watch.last_id.clone().expect("events have ids");
    drop(watch);
    // Nobody listens, then the daemon is not even there, then the broker was killed.
    set(&alice, &json!({"key": "w/3", "value": 3}));
    lab.host_mut("bob").kill();
    set(&alice, &json!({"key": "w/4", "value": "long".repeat(10_000)}));
    set(&alice, &json!({"key": "w/0", "value": null}));
    lab.kill_broker();
    lab.start_broker();
    lab.host("alice").wait_connected();
    set(&alice, &json!({"key": "w/5", "value": 5}));
    lab.host_mut("bob").start();
    let bob = lab.host("bob").client(Transport::Socket);
    let mut watch = bob.stream("/v1/state/watch?prefix=w%2F", &[("Last-Event-ID".to_owned(), last)]);
    let told: Vec<Value> = (0..4).map(|_| watch.named("state_changed")).collect();
    let keys: Vec<&str> = told.iter().map(|told| told["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["w/3", "w/4", "w/0", "w/5"]);
    assert_eq!((&told[1]["value_omitted"], told[1].get("value")), (&json!(true), None));
    assert_eq!((&told[2]["removed"], &told[3]["value"]), (&json!(true), &json!(5)));
    versions.extend(told.iter().map(|told| told["version"].as_u64().unwrap()));
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    // Who writes hears of it as well, and on the stream of everything.
    let mut events = bob.events("?events=state_changed", &[]);
    set(&bob, &json!({"key": "mine", "value": true}));
    assert_eq!(events.named("state_changed")["key"], "mine");
}

#[test]
fn who_is_revoked_reads_nothing_that_comes_after_and_who_comes_after_reads_everything() {
    let mut lab = lab(&["alice", "bob", "carol"]);
    let alice = lab.host("alice").client(Transport::Socket);
    let bob = lab.host("bob").client(Transport::Socket);
    set(&alice, &json!({"key": "zero", "value": "epoch 0"}));
    assert_eq!(bob.get_json("/v1/state/get?key=zero")["value"], "epoch 0");
    for (round, name) in ["bob", "carol"].into_iter().enumerate() {
        let revoked = alice.post("/v1/member/revoke", &json!({"target": name}));
        assert_eq!(revoked.status, 200, "{}", revoked.text());
        set(&alice, &json!({"key": format!("after {round}"), "value": format!("epoch {}", round + 1)}));
        assert_eq!(lab.host_mut(name).ended().code(), Some(78), "the daemon of a revoked member ends");
    }
    // The keys bob has do not open what is in the broker's hands, and the broker does not give it to him.
    lab.host_mut("bob").launch(&[]);
    assert_eq!(lab.host_mut("bob").ended().code(), Some(78));
    let kept = topic_keys(&lab.host("bob").directory());
    let ours = topic_keys(&lab.host("alice").directory());
    assert!(ours.len() > kept.len() && !ours.iter().all(|key| kept.contains(key)), "there are keys bob never had");
    // A newcomer reads everything, also what was sealed with keys that were there before it came.
    let link = lab.host("alice").invite(1);
    let mut dave = hostel_tests::claudemesh::Host::new("dave", lab.path());
    dave.configure("[ipc]\ntcp_enabled = true\n[capabilities]\nstate = true\n");
    dave.run(&["join", &link, "--name", "dave"]);
    dave.start();
    dave.wait_connected();
    let client = dave.client(Transport::Socket);
    for (key, value) in [("zero", "epoch 0"), ("after%200", "epoch 1"), ("after%201", "epoch 2")] {
        assert_eq!(client.get_json(&format!("/v1/state/get?key={key}"))["value"], value);
    }
    assert_eq!(client.get_json("/v1/state/list")["items"].as_array().unwrap().len(), 3);
    set(&client, &json!({"key": "zero", "value": "by dave"}));
    assert_eq!(alice.get_json("/v1/state/get?key=zero")["updated_by"]["name"], "dave");
}

/// Keys of topics in a daemon's files.
fn topic_keys(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("topics.json")).unwrap();
    let book: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    collect(&book["keys"], &mut found);
    found
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, into)),
        _ => {}
    }
}

#[test]
fn the_broker_has_neither_keys_nor_values() {
    let mut lab = lab(&["alice", "bob"]);
    let alice = lab.host("alice").client(Transport::Socket);
    set(&alice, &json!({"key": "quokka/lantern", "value": {"marmalade": "zeppelin-cockatoo"}}));
    set(&alice, &json!({"key": "quokka/lantern", "value": "zeppelin-cockatoo"}));
    set(&alice, &json!({"key": "quokka/gone", "value": "zeppelin-cockatoo"}));
    set(&alice, &json!({"key": "quokka/gone", "value": null}));
    lab.kill_broker();
    let home = lab.broker_home();
    let mut looked = 0;
    every_file(&home, &mut |path| {
        looked += 1;
        let bytes = fs::read(path).unwrap();
        for word in ["quokka", "lantern", "marmalade", "zeppelin"] {
            let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "`{word}` stands in {}", path.display());
        }
    });
    assert!(looked > 2, "there is something to look at");
    // Without a broker nothing is written, and that is said at once.
    wait::until_true(wait::LIMIT, "the connection to be missed", || {
        alice.get("/v1/health").json()["connected"] == false
    });
    for answer in [
        alice.post("/v1/state/set", &json!({"key": "a", "value": 1})),
        alice.get("/v1/state/get?key=a"),
        alice.get("/v1/state/list"),
    ] {
        assert_eq!((answer.status, &answer.json()["error"]), (503, &json!("broker_unavailable")));
    }
}

/// Every file below a directory.
fn every_file(directory: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            every_file(&path, each);
        } else if path.is_file() {
            each(&path);
        }
    }
}

#[test]
fn there_is_room_for_so_much_and_no_more() {
    let options = Options {
        config: "[capabilities]\nstate = true\n".to_owned(),
        broker: "[broker]\nstate_entries = 2\n".to_owned(),
        ..Options::of(&["alice"])
    };
    let lab = Lab::start_with(&options);
    let alice = lab.host("alice").client(Transport::Socket);
    set(&alice, &json!({"key": "a", "value": 1}));
    set(&alice, &json!({"key": "b", "value": 1}));
    let full = alice.post("/v1/state/set", &json!({"key": "c", "value": 1}));
    assert_eq!((full.status, &full.json()["error"]), (507, &json!("insufficient_storage")));
    set(&alice, &json!({"key": "b", "value": 2}));
    set(&alice, &json!({"key": "a", "value": null}));
    set(&alice, &json!({"key": "c", "value": 1}));
}
