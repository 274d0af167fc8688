//! What the broker can know: nothing of any message, neither in its files nor in its memory.

use std::fs;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::needles::{Memory, Needles};

/// A word nobody has said before.
pub(super) fn word() -> String {
    let mut random = Random::new(random::seed());
    (0..24).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[(random.bits() % 36) as usize])).collect()
}

/// Asks until it is accepted.
pub(super) fn accepted(client: &Client, path: &str, body: &Value) {
    let answer = client.post(path, body);
    assert!(matches!(answer.status, 200 | 202), "{path} {body}: {} {}", answer.status, answer.text());
}

/// The bodies in an inbox, `null` included.
pub(super) fn bodies(client: &Client) -> Vec<Value> {
    let page = client.get_json("/v1/inbox?mark_seen=false&limit=500");
    page["items"].as_array().expect("items").iter().map(|item| item["body"].clone()).collect()
}

/// Waits until all of these are in an inbox.
pub(super) fn wait_for(host: &Host, wanted: &[String]) {
    let client = host.client(Transport::Socket);
    let mut there = Vec::new();
    let complete = wait::attempt(wait::LIMIT, || {
        there = bodies(&client);
        wanted.iter().all(|body| there.iter().any(|known| known == body)).then_some(())
    });
    assert!(complete.is_some(), "{} has {there:?} and not {wanted:?}", host.name);
}

/// Puts the members of these hosts into a group.
pub(super) fn join_group(hosts: &[Host], group: &str) {
    for host in hosts {
        let path = host.home().join(".claudemesh/config.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a file")).expect("JSON");
        config["groups"] = json!([{"name": group}]);
        fs::write(&path, config.to_string()).expect("a file");
    }
}

#[test]
fn the_brokers_files_and_memory_hold_no_word_of_any_message() {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    join_group(&lab.hosts, "crew");
    lab.hosts.iter_mut().for_each(Host::start);
    lab.hosts.iter().for_each(Host::wait_connected);
    let word = word();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    for client in [&alice, &bob] {
        accepted(client, "/v1/topic/subscribe", &json!({"topic": "quiet"}));
    }
    let body = |kind: &str| format!("{kind} {word} said");
    let of = |to: &str, kind: &str| json!({"to": to, "message": body(kind), "meta": {"word": word, word.clone(): 1}, "replyToId": format!("r-{word}")});
    accepted(&alice, "/v1/send", &of("bob", "direct"));
    accepted(&alice, "/v1/send", &of("*", "all"));
    accepted(&alice, "/v1/send", &of("@crew", "group"));
    accepted(&alice, "/v1/send", &of("#general", "general"));
    let post = json!({"topic": "quiet", "message": body("topic"), "meta": {"word": word}, "mentions": ["bob"]});
    accepted(&alice, "/v1/topic/post", &post);
    // Its name and its size are the broker's to know.
    let file = lab.path().join("shared.txt");
    fs::write(&file, format!("{word} ").repeat(20_000)).expect("a file");
    let shared = [Some("bob"), None].map(|to| {
        let mut request = json!({"path": file, "message": body(to.unwrap_or("everybody"))});
        if let Some(to) = to {
            request["to"] = json!(to);
        }
        let answer = alice.post("/v1/file/share", &request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["fileId"].as_str().expect("an id").to_owned()
    });
    wait_for(lab.host("bob"), &["direct", "all", "group", "general", "topic"].map(body));
    for (number, id) in shared.iter().enumerate() {
        let out = lab.path().join(format!("got-{number}.txt"));
        let path = format!("/v1/file/get?id={id}&out={}", out.display());
        wait::until_true(wait::LIMIT, "the file", || bob.get(&path).status == 200);
        assert_eq!(fs::read(&out).expect("a file"), fs::read(&file).expect("a file"));
    }

    let needles = Needles::of(&word);
    look_at_broker(&lab, &needles);
    // It reads its files again, and everything goes to somebody else once more.
    lab.host_mut("bob").stop();
    for kind in ["later", "latest"] {
        accepted(&alice, "/v1/send", &of("bob", kind));
    }
    lab.kill_broker();
    lab.start_broker();
    lab.host_mut("bob").start();
    wait_for(lab.host("bob"), &["later", "latest"].map(body));
    look_at_broker(&lab, &needles);

    // Nor is it in what the daemons say about their work.
    for host in &lab.hosts {
        let found = needles.find(host.printed().as_bytes());
        assert!(found.is_empty(), "{} logs what is said: {found:?}", host.name);
    }
    // The same search finds it where it must be.
    let (found, _) = needles.in_files(&lab.host("bob").directory());
    assert!(found.iter().any(|place| place.contains("inbox.db")), "it is in no inbox: {found:?}");
    if let Some(memory) = Memory::of(lab.host("bob").identity()) {
        assert!(!needles.in_memory(&memory).is_empty(), "it is not in the memory of who has just received it");
    }
}

fn look_at_broker(lab: &Lab, needles: &Needles) {
    let (mut found, bytes) = needles.in_files(&lab.path().join("broker"));
    found.extend(needles.find(lab.broker_printed().as_bytes()));
    let mut looked = format!("{bytes} bytes of files");
    match Memory::of(lab.broker()) {
        Some(memory) => {
            found.extend(needles.in_memory(&memory));
            let known = Needles::of(&lab.host("alice").member("pubkey"));
            assert!(
                !known.in_memory(&memory).is_empty(),
                "the broker does not know who is there: this is not its memory"
            );
            looked = format!("{looked}, {} bytes of memory", memory.size());
        }
        None => eprintln!("SKIPPED: nobody may look into the broker's memory here"),
    }
    let (_, db) = needles.in_files(&lab.path().join("broker/broker/broker.db"));
    assert!(db > 0, "the broker has no log");
    assert!(found.is_empty(), "the broker knows it:\n{}", found.join("\n"));
    eprintln!("looked at {looked} of the broker: no word of any message");
}
