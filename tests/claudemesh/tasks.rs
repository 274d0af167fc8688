//! Tasks: made once, claimed by exactly one, completed by that one, and sealed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use hostel_tests::claudemesh::lab::Options;
use hostel_tests::claudemesh::{Client, Lab, Stream, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

const FIVE: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

fn lab(members: &[&str]) -> Lab {
    let config = "[capabilities]\ntasks = true\n[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";
    Lab::start_with(&Options { config: config.to_owned(), ..Options::of(members) })
}

fn create(client: &Client, body: &Value) -> String {
    let answer = client.post("/v1/task/create", body);
    assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    answer.json()["task"]["id"].as_str().unwrap().to_owned()
}

fn step(client: &Client, step: &str, body: &Value) -> (u16, Value) {
    let answer = client.post(&format!("/v1/task/{step}"), body);
    (answer.status, answer.json())
}

fn word(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"].as_str().unwrap_or("ok"))
}

#[test]
fn a_task_from_its_beginning_to_its_end() {
    let lab = lab(&["alice", "bob", "carol"]);
    let client = |name: &str| lab.host(name).client(Transport::Socket);
    let (alice, bob, carol) = (client("alice"), client("bob"), client("carol"));
    let mut events = carol.events("?events=task_created,task_claimed,task_released,task_completed", &[]);
    let new = json!({"title": "rebuild the index", "body": "all of it\nplease", "priority": "now", "client_message_id": "k1"});
    let id = create(&alice, &new);
    assert_eq!(create(&alice, &new), id, "the same key makes one task");
    let mut other = new.clone();
    other["title"] = "something else".into();
    assert_eq!(word(&step(&alice, "create", &other)), (409, "idempotency_key_reused"));
    let task = bob.get_json(&format!("/v1/task/get?id={id}"))["task"].clone();
    assert_eq!((&task["title"], &task["body"], &task["status"]), (&new["title"], &new["body"], &json!("open")));
    assert_eq!((&task["priority"], &task["created_by"]["name"]), (&json!("now"), &json!("alice")));
    assert_eq!(word(&step(&bob, "complete", &json!({"id": id}))), (409, "not_claimed"));
    let claim = json!({"id": id, "client_message_id": "c1"});
    let claimed = step(&bob, "claim", &claim);
    assert_eq!((claimed.0, &claimed.1["task"]["claimed_by"]["name"]), (200, &json!("bob")), "{}", claimed.1);
    let again = step(&bob, "claim", &claim);
    assert_eq!((again.0, &again.1["duplicate"]), (200, &json!(true)), "the same claim, not another");
    let taken = step(&carol, "claim", &json!({"id": id}));
    assert_eq!((word(&taken), &taken.1["claimed_by"]["name"]), ((409, "already_claimed"), &json!("bob")));
    assert_eq!(word(&step(&bob, "claim", &json!({"id": id}))), (409, "already_claimed"), "another worker of bob's");
    assert_eq!(word(&step(&carol, "complete", &json!({"id": id}))), (403, "not_the_claimer"));
    assert_eq!(word(&step(&carol, "release", &json!({"id": id}))), (403, "not_the_claimer"));
    assert_eq!(step(&bob, "release", &json!({"id": id})).0, 200);
    assert_eq!(step(&carol, "claim", &json!({"id": id, "lease_s": 600})).0, 200);
    let done = step(&carol, "complete", &json!({"id": id, "result": {"rows": 812}}));
    assert_eq!((done.0, &done.1["task"]["status"]), (200, &json!("completed")));
    assert_eq!(word(&step(&bob, "claim", &json!({"id": id}))), (409, "already_completed"));
    let task = alice.get_json(&format!("/v1/task/get?id={id}"))["task"].clone();
    assert_eq!((&task["result"], &task["claimed_by"]["name"]), (&json!({"rows": 812}), &json!("carol")));
    for (name, by) in [
        ("task_created", json!(null)),
        ("task_claimed", json!("bob")),
        ("task_released", json!(null)),
        ("task_claimed", json!("carol")),
        ("task_completed", json!("carol")),
    ] {
        let (told, data) = events.event();
        assert_eq!((told.as_str(), &data["task"]["title"]), (name, &new["title"]));
        assert_eq!(data["task"]["claimed_by"].get("name").cloned().unwrap_or_default(), by, "{name}");
        assert!(data["task"].get("body").is_none());
    }
    let missing = step(&bob, "claim", &json!({"id": "01jh3q5w6e7r8t9y0a1s2d3f4g"}));
    assert_eq!(word(&missing), (404, "task_not_found"));
    assert_eq!(alice.get("/v1/task/get?id=nothing").status, 404);
}

#[test]
fn tasks_for_one_leases_and_lists() {
    let lab = lab(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Tcp), lab.host("bob").client(Transport::Tcp));
    let assigned = create(&alice, &json!({"title": "for bob", "assignee": "bob"}));
    let refused = step(&alice, "claim", &json!({"id": assigned}));
    assert_eq!(word(&refused), (403, "not_the_assignee"));
    assert_eq!(word(&step(&alice, "create", &json!({"title": "x", "assignee": "nobody"}))), (404, "peer_not_found"));
    let held = create(&bob, &json!({"title": "held"}));
    assert_eq!(step(&alice, "claim", &json!({"id": held, "lease_s": 600})).0, 200);
    assert_eq!(word(&step(&bob, "claim", &json!({"id": held}))), (409, "already_claimed"));
    assert_eq!(step(&alice, "complete", &json!({"id": held})).0, 200);
    let leased = create(&bob, &json!({"title": "leased"}));
    assert_eq!(step(&alice, "claim", &json!({"id": leased, "lease_s": 1})).0, 200);
    wait::until_true(wait::LIMIT, "the lease to end", || step(&bob, "claim", &json!({"id": leased})).0 == 200);
    assert_eq!(word(&step(&alice, "complete", &json!({"id": leased}))), (403, "not_the_claimer"));
    for (body, field) in [
        (json!({"title": ""}), "title"),
        (json!({"title": "a\nb"}), "title"),
        (json!({"title": "x", "priority": "soon"}), "priority"),
        (json!({"title": "x", "body": "x".repeat(70_000)}), "body"),
    ] {
        let answer = step(&alice, "create", &body);
        assert_eq!(answer.1["field"], field, "{answer:?}");
    }
    assert_eq!(step(&alice, "claim", &json!({"id": assigned, "lease_s": 0})).1["field"], "lease_s");
    let ids = |path: &str| -> Vec<String> {
        let page = bob.get_json(path);
        page["items"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("/v1/task/list?status=open"), std::slice::from_ref(&assigned));
    assert_eq!(ids("/v1/task/list?status=claimed"), std::slice::from_ref(&leased));
    assert_eq!(ids("/v1/task/list?status=completed"), std::slice::from_ref(&held));
    let mut all = [assigned.clone(), held.clone(), leased.clone()];
    all.sort();
    let first = bob.get_json("/v1/task/list?limit=1&status=all");
    assert_eq!((&first["items"][0]["id"], &first["next"]), (&json!(all[0]), &json!(all[0])));
    assert_eq!(ids(&format!("/v1/task/list?limit=1&status=all&cursor={}", all[0])), [all[1].clone()]);
    assert_eq!(bob.get("/v1/task/list?status=dancing").status, 400);
    // The verbs say the same.
    let host = lab.host("bob");
    let made = host.run(&["task", "create", "from a shell", "--body", "two\nlines"]).trim().to_owned();
    assert!(host.run(&["task", "list"]).contains("from a shell"));
    host.run(&["task", "claim", &made, "--lease", "600"]);
    assert_eq!(lab.host("alice").try_run(&["task", "claim", &made]).status.code(), Some(6));
    assert_eq!(lab.host("alice").try_run(&["task", "complete", &made]).status.code(), Some(7));
    host.run(&["task", "complete", &made, "--result", "done in time"]);
    let shown = lab.host("alice").run(&["task", "show", &made]);
    assert!(shown.contains("from a shell") && shown.contains("done in time") && shown.contains("lines"), "{shown}");
    assert!(!host.run(&["task", "list"]).contains("from a shell"), "what is done is not listed");
    assert!(host.run(&["task", "list", "--status", "all", "--json"]).contains("from a shell"));
}

#[test]
fn the_end_of_a_lease_is_an_event_also_when_the_broker_was_down() {
    let mut lab = lab(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let mut events = bob.events("?events=task_claimed,task_released,task_completed", &[]);
    let ended = |events: &mut Stream, id: &str| {
        let (name, data) = events.event();
        assert_eq!(
            (name.as_str(), &data["task"]["id"], &data["lease_over"]),
            ("task_released", &json!(id), &json!(true))
        );
        assert_eq!((&data["task"]["status"], &data["task"]["claimed_by"]), (&json!("open"), &json!(null)));
    };
    let one = create(&bob, &json!({"title": "while it runs"}));
    assert_eq!(step(&alice, "claim", &json!({"id": one, "lease_s": 1})).0, 200);
    assert_eq!(events.event().0, "task_claimed");
    ended(&mut events, &one);
    // What was not told when its time was over is told by the next broker, and what was is not told again.
    let two = create(&bob, &json!({"title": "while it does not"}));
    assert_eq!(step(&alice, "claim", &json!({"id": two, "lease_s": 1})).0, 200);
    lab.kill_broker();
    // The lease of one second has to be over while nobody is there to tell of it.
    std::thread::sleep(Duration::from_millis(1100));
    lab.start_broker();
    assert_eq!(events.event().0, "task_claimed");
    ended(&mut events, &two);
    lab.kill_broker();
    lab.start_broker();
    lab.host("alice").wait_connected();
    // Nobody else has it: who is late completes it.
    assert_eq!(step(&alice, "complete", &json!({"id": two})).0, 200);
    let (name, data) = events.event();
    assert_eq!((name.as_str(), &data["task"]["id"]), ("task_completed", &json!(two)));
}

/// Claims everything in the given order; those it got.
fn claim_all(client: &Client, ids: &[String], name: &str) -> Vec<String> {
    let mut got = Vec::new();
    for id in ids {
        let body = json!({"id": id, "client_message_id": format!("{name}-{id}")});
        loop {
            let answer = client.post("/v1/task/claim", &body);
            match (answer.status, answer.json()["error"].as_str()) {
                (200, _) => got.push(id.clone()),
                (409, Some("already_claimed")) => {}
                // Not answered: asked again under the same id.
                (503 | 429, _) => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                (status, _) => panic!("{status}: {}", answer.text()),
            }
            break;
        }
    }
    got
}

#[test]
fn of_five_daemons_exactly_one_gets_each_task_whatever_is_killed() {
    let mut lab = lab(&FIVE);
    let alice = lab.host("alice").client(Transport::Socket);
    let ids: Vec<String> = (0..50).map(|number| create(&alice, &json!({"title": format!("task {number}")}))).collect();
    let mut got: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = FIVE
            .iter()
            .enumerate()
            .flat_map(|(at, name)| (0..2).map(move |worker| (at, *name, worker)))
            .map(|(at, name, worker)| {
                let client = lab.host(name).client(Transport::Socket);
                // Each begins elsewhere, so that they meet in the middle of others' ways.
                let mut order = ids.clone();
                order.rotate_left(at * 10 + worker * 5);
                scope.spawn(move || (name, claim_all(&client, &order, &format!("{name}-{worker}"))))
            })
            .collect();
        lab.kill_broker();
        lab.start_broker();
        for worker in workers {
            let (name, tasks) = worker.join().unwrap();
            got.entry(name).or_default().extend(tasks);
        }
    });
    let mut all: Vec<&String> = got.values().flatten().collect();
    all.sort();
    let mut expected: Vec<&String> = ids.iter().collect();
    expected.sort();
    assert_eq!(all, expected, "each once");
    // What the broker says is what those who claimed were told.
    let listed = alice.get_json("/v1/task/list?limit=1000");
    for task in listed["items"].as_array().unwrap() {
        let by = task["claimed_by"]["name"].as_str().unwrap();
        assert!(got[by].iter().any(|id| task["id"] == id.as_str()), "{task}");
    }
    // A daemon that was killed and comes back still has what it claimed.
    let (name, mine) =
        got.iter().find(|(name, tasks)| **name != "alice" && !tasks.is_empty()).expect("somebody has some");
    let (name, mine) = ((*name).to_owned(), mine[0].clone());
    lab.host_mut(&name).kill();
    lab.host_mut(&name).start();
    lab.host(&name).wait_connected();
    let client = lab.host(&name).client(Transport::Socket);
    assert_eq!(step(&client, "complete", &json!({"id": mine})).0, 200);
}

#[test]
fn the_broker_has_no_words_of_a_task_and_a_revoked_member_no_claim() {
    let mut lab = lab(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let id = create(&alice, &json!({"title": "quokka lantern", "body": "marmalade zeppelin"}));
    assert_eq!(step(&bob, "claim", &json!({"id": id})).0, 200);
    assert_eq!(word(&step(&alice, "claim", &json!({"id": id}))), (409, "already_claimed"));
    assert_eq!(alice.post("/v1/member/revoke", &json!({"target": "bob"})).status, 200);
    assert_eq!(step(&alice, "claim", &json!({"id": id})).0, 200, "who is gone holds nothing");
    assert_eq!(step(&alice, "complete", &json!({"id": id, "result": "cockatoo"})).0, 200);
    let task = alice.get_json(&format!("/v1/task/get?id={id}"))["task"].clone();
    assert_eq!((&task["body"], &task["result"]), (&json!("marmalade zeppelin"), &json!("cockatoo")));
    lab.kill_broker();
    for name in ["broker.db", "broker.db-wal"] {
        let bytes = std::fs::read(lab.broker_home().join("broker").join(name)).unwrap_or_default();
        for word in ["quokka", "lantern", "marmalade", "zeppelin", "cockatoo"] {
            let found = bytes.windows(word.len()).any(|window| window == word.as_bytes());
            assert!(!found, "`{word}` stands in {name}");
        }
    }
}
