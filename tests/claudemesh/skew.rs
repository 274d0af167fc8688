//! Clocks that are days off, and clocks that are set while daemons and brokers run: everything is delivered once and in
//! order, and nothing is lost, given up, refused or ended because of what a clock shows.
//!
//! The daemons and the broker are the real ones; libfaketime shows each of them another time of day.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use hostel_tests::claudemesh::hooks::SPEAKS;
use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport, WallClock};
use hostel_tests::wait;
use serde_json::{Value, json};

const CONFIG: &str = "[capabilities]\ntasks = true\n[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// Hosts whose clocks can be set, and a broker whose clock can be.
struct Clocks {
    hosts: Vec<WallClock>,
    broker: WallClock,
    // After the clocks: they lie below it, in no directory of a host.
    _directory: tempfile::TempDir,
}

impl Clocks {
    fn of(&self, name: &str) -> &WallClock {
        &self.hosts[NAMES.iter().position(|known| *known == name).unwrap()]
    }
}

/// Three members whose clocks are so many days ahead, and a broker whose clock is. None where there is no libfaketime.
fn lab(days: [i64; 3], broker_days: i64) -> Option<(Lab, Clocks)> {
    let directory = tempfile::tempdir().unwrap();
    let clock = |name: &str, days| {
        let clock = WallClock::new(directory.path(), name)?;
        clock.set_days(days);
        Some(clock)
    };
    let broker = clock("broker", broker_days)?;
    let hosts: Vec<WallClock> = NAMES.iter().zip(days).map(|(name, days)| clock(name, days).unwrap()).collect();
    let mut lab = Lab::prepare(&Options {
        config: CONFIG.to_owned(),
        broker_variables: broker.variables(),
        ..Options::of(&NAMES)
    });
    for (host, clock) in lab.hosts.iter_mut().zip(&hosts) {
        clock.rule(host);
        host.start();
    }
    for host in &lab.hosts {
        host.wait_connected();
        assert_eq!(socket(host).post("/v1/topic/subscribe", &json!({"topic": "ops"})).status, 200);
    }
    Some((lab, Clocks { hosts, broker, _directory: directory }))
}

fn socket(host: &Host) -> Client {
    host.client(Transport::Socket)
}

fn take(client: &Client, path: &str, body: &Value) {
    let answer = client.post(path, body);
    assert_eq!(answer.status, 202, "{body}: {}", answer.text());
}

/// Everybody says these numbers to everybody, each by itself and in a topic.
fn talk(lab: &Lab, numbers: std::ops::Range<u64>) {
    for number in numbers {
        for me in NAMES {
            let client = socket(lab.host(me));
            for other in NAMES.iter().filter(|other| **other != me) {
                take(&client, "/v1/send", &json!({"to": other, "message": format!("{me}:{number}")}));
            }
            take(&client, "/v1/topic/post", &json!({"topic": "ops", "message": format!("{me} to all:{number}")}));
        }
    }
}

/// What came, by who said it and where, in the order in which it came.
fn heard(client: &Client) -> BTreeMap<String, Vec<u64>> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let mut heard = BTreeMap::<String, Vec<u64>>::new();
    for item in page["items"].as_array().unwrap().iter().rev() {
        let Some((from, number)) = item["body"].as_str().and_then(|body| body.split_once(':')) else { continue };
        heard.entry(from.to_owned()).or_default().push(number.parse().unwrap());
    }
    heard
}

/// Waits until everybody has heard everything up to this number, and has it once and in order.
fn all_heard(lab: &Lab, up_to: u64) {
    for me in NAMES {
        let others = NAMES.iter().filter(|other| **other != me);
        let expected: BTreeMap<String, Vec<u64>> = others
            .flat_map(|other| [(*other).to_owned(), format!("{other} to all")])
            .map(|from| (from, (0..up_to).collect()))
            .collect();
        let count = |heard: &BTreeMap<String, Vec<u64>>| heard.values().map(Vec::len).sum::<usize>();
        let client = socket(lab.host(me));
        wait::until_true(wait::LIMIT, &format!("everything to come to {me}"), || {
            count(&heard(&client)) >= count(&expected)
        });
        assert_eq!(heard(&client), expected, "{me} has all of it, once and in order");
    }
}

fn share(lab: &Lab, from: &str, to: &str) {
    let file = lab.path().join(format!("from-{from}-to-{to}.txt"));
    fs::write(&file, format!("{from} for {to}")).unwrap();
    let answer = socket(lab.host(from)).post("/v1/file/share", &json!({"path": file, "to": to}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    fetch(lab, to, answer.json()["fileId"].as_str().unwrap(), &format!("{from} for {to}"));
}

fn fetch(lab: &Lab, host: &str, id: &str, expected: &str) {
    let (client, out) = (socket(lab.host(host)), lab.path().join(format!("got-by-{host}.txt")));
    let path = format!("/v1/file/get?id={id}&out={}", out.display());
    if wait::attempt(wait::LIMIT, || (client.get(&path).status == 200).then_some(())).is_none() {
        panic!("the file does not come: {}", client.get(&path).text());
    }
    assert_eq!(fs::read_to_string(&out).unwrap(), expected);
    fs::remove_file(out).unwrap();
}

fn rotate(lab: &Lab, name: &str) {
    let (host, before) = (lab.host(name), lab.host(name).member("pubkey"));
    host.run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
    host.wait_connected();
    assert_ne!(host.member("pubkey"), before);
}

fn archive(host: &Host) -> Vec<Value> {
    let text = fs::read_to_string(host.directory().join("keypair-archive.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["keys"].as_array().unwrap().clone()
}

fn archived(host: &Host) -> usize {
    archive(host).len()
}

/// The old token is good for another minute, however long that is by the clock.
fn rotate_token(host: &Host, meanwhile: impl Fn()) {
    let before = host.client(Transport::Tcp);
    assert_eq!(socket(host).post("/v1/token/rotate", &json!({})).status, 200);
    meanwhile();
    assert_ne!(host.client(Transport::Tcp).token, before.token);
    for client in [before, host.client(Transport::Tcp)] {
        assert_eq!(client.get("/v1/health").status, 200, "within a minute both are good");
    }
}

fn task(client: &Client, step: &str, body: &Value) -> (u16, Value) {
    let answer = client.post(&format!("/v1/task/{step}"), body);
    (answer.status, answer.json())
}

fn dead(lab: &Lab) -> usize {
    let failed = |host: &Host| socket(host).get_json("/v1/outbox?status=dead")["items"].as_array().map_or(0, Vec::len);
    lab.hosts.iter().map(failed).sum()
}

/// The hour so many days from now, as an answer writes it.
fn hour(days: i64) -> String {
    let mut date = Command::new("date");
    date.args(["-u", "-d", &format!("{days} days"), "+%Y-%m-%dT%H:"]);
    String::from_utf8(date.output().unwrap().stdout).unwrap().trim().to_owned()
}

/// What a mesh does, once, with whatever clocks it has.
fn live(lab: &mut Lab, round: u64) {
    let at = round * 10;
    talk(lab, at..at + 3);
    all_heard(lab, at + 3);
    let alice = socket(lab.host("alice"));
    share(lab, "alice", "bob");
    share(lab, "bob", "carol");
    rotate(lab, "bob");
    rotate(lab, "carol");
    share(lab, "carol", "bob");
    rotate_token(lab.host("bob"), || {});
    rotate_token(lab.host("carol"), || {});
    let created = task(&socket(lab.host("bob")), "create", &json!({"title": "rebuild"}));
    let id = json!({"id": created.1["task"]["id"], "lease_s": 600});
    assert_eq!((created.0, task(&socket(lab.host("carol")), "claim", &id).0), (200, 200), "{}", created.1);
    assert_eq!(task(&alice, "claim", &id).1["error"], "already_claimed");
    assert_eq!(task(&socket(lab.host("carol")), "complete", &json!({"id": created.1["task"]["id"]})).0, 200);
    talk(lab, at + 3..at + 6);
    all_heard(lab, at + 6);
    for name in ["bob", "carol"] {
        let host = lab.host_mut(name);
        host.kill();
        host.start();
        host.wait_connected();
    }
    talk(lab, at + 6..at + 10);
    all_heard(lab, at + 10);
    assert_eq!(dead(lab), 0);
}

/// The same id is the same message, whatever the clocks say of how long ago it was.
fn say_once(lab: &Lab, id: &str, meanwhile: impl Fn()) {
    let said = json!({"to": "carol", "message": id, "client_message_id": id});
    let (bob, carol) = (socket(lab.host("bob")), socket(lab.host("carol")));
    let times = || {
        let page = carol.get_json("/v1/inbox?limit=1000&mark_seen=false");
        page["items"].as_array().unwrap().iter().filter(|item| item["body"] == id).count()
    };
    take(&bob, "/v1/send", &said);
    wait::until_true(wait::LIMIT, "it to come", || times() > 0);
    meanwhile();
    let again = bob.post("/v1/send", &said);
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("done")), "{}", again.text());
    // What is said behind it has come: it would have, too.
    take(&bob, "/v1/send", &json!({"to": "carol", "message": format!("after {id}")}));
    wait::until_true(wait::LIMIT, "the next to come", || {
        let page = carol.get_json("/v1/inbox?limit=10&mark_seen=false");
        page["items"].as_array().unwrap().iter().any(|item| item["body"] == format!("after {id}"))
    });
    assert_eq!(times(), 1);
}

/// A hook that works until it may go on, and then says something with its token.
const WORKS: &str = "import time
open('works', 'w').close()
for _ in range(2500):
    if os.path.exists('go'):
        break
    time.sleep(0.01)
call('POST', '/v1/topic/post', {'topic': 'jobs', 'message': 'done by token'})
";

const JOBS: &str = "[on-topic-jobs]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n\
    capability_token_scope = [\"topic:jobs:post\"]\n";

/// A hook's token is good while it runs, to whatever the clock is set meanwhile.
fn work(lab: &Lab, meanwhile: impl Fn()) {
    let (alice, bob) = (socket(lab.host("alice")), lab.host("bob"));
    for client in [&alice, &socket(bob)] {
        assert_eq!(client.post("/v1/topic/subscribe", &json!({"topic": "jobs"})).status, 200);
    }
    take(&alice, "/v1/topic/post", &json!({"topic": "jobs", "message": "begin"}));
    wait::until_true(wait::LIMIT, "the hook to run", || bob.hooks().join("works").exists());
    meanwhile();
    fs::write(bob.hooks().join("go"), "").unwrap();
    wait::until_true(wait::LIMIT, "what the hook said", || {
        let page = alice.get_json("/v1/inbox?limit=10&mark_seen=false");
        page["items"].as_array().unwrap().iter().any(|item| item["body"] == "done by token")
    });
}

#[test]
fn hosts_whose_clocks_are_days_off_are_hosts_like_others() {
    let Some((mut lab, clocks)) = lab([0, 3, -3], 0) else { return };
    // They do live in another time.
    for (name, days) in NAMES.iter().zip([0, 3, -3]) {
        let before = hour(days);
        let beat = socket(lab.host(name)).post("/v1/heartbeat", &json!({})).text();
        assert!([before, hour(days)].iter().any(|hour| beat.contains(hour)), "{name}: {beat}");
    }
    live(&mut lab, 0);
    say_once(&lab, "once", || {});
    // An invite is good for as long as the broker says, on whatever host.
    let link = lab.host("alice").run(&["mesh", "invite", "--mesh", "lab", "--uses", "2", "--expires", "1d"]);
    let link = link.lines().map(str::trim).find(|line| line.starts_with("ic://")).unwrap().to_owned();
    let mut dave = Host::new("dave", lab.path());
    dave.configure("[ipc]\ntcp_enabled = true\n");
    clocks.of("bob").rule(&mut dave);
    dave.run(&["join", &link, "--name", "dave"]);
    dave.start();
    dave.wait_connected();
    take(&socket(&dave), "/v1/send", &json!({"to": "carol", "message": "dave:0"}));
    let carol = socket(lab.host("carol"));
    wait::until_true(wait::LIMIT, "what dave said", || heard(&carol).contains_key("dave"));
    // An identity of its own, for a host whose clock is behind.
    let before = lab.host("carol").member("pubkey");
    let host = lab.host_mut("carol");
    host.stop();
    host.launch(&["--remint"]);
    host.wait_ready();
    host.wait_connected();
    assert_ne!(host.member("pubkey"), before);
    take(
        &socket(lab.host("bob")),
        "/v1/send",
        &json!({"to": lab.host("carol").member("pubkey"), "message": "welcome:0"}),
    );
    let carol = socket(lab.host("carol"));
    wait::until_true(wait::LIMIT, "what bob said", || heard(&carol).contains_key("welcome"));
}

#[test]
fn a_broker_whose_clock_is_days_off_is_a_broker_like_others() {
    let Some((mut lab, clocks)) = lab([0, 0, 0], 3) else { return };
    live(&mut lab, 0);
    say_once(&lab, "once", || {});
    // Killed, and started with a clock that is behind.
    lab.kill_broker();
    clocks.broker.set_days(-3);
    lab.start_broker();
    for host in &lab.hosts {
        host.wait_connected();
    }
    live(&mut lab, 1);
    // Its clock decides about invites, and nobody else's.
    let link = lab.host("alice").invite(1);
    clocks.broker.set_days(30);
    let dave = Host::new("dave", lab.path());
    let late = dave.try_run(&["join", &link, "--name", "dave"]);
    assert!(!late.status.success());
    let said = String::from_utf8_lossy(&late.stderr).into_owned() + &String::from_utf8_lossy(&late.stdout);
    assert!(said.contains("expired"), "{said}");
    clocks.broker.set_days(0);
    dave.run(&["join", &link, "--name", "dave"]);
}

#[test]
fn a_hosts_clock_that_is_set_loses_nothing() {
    let Some((mut lab, clocks)) = lab([0, 0, 0], 0) else { return };
    let clock = clocks.of("bob");
    talk(&lab, 0..3);
    rotate(&lab, "bob");
    all_heard(&lab, 3);
    // What waits is not too old because the clock says so.
    lab.kill_broker();
    talk(&lab, 3..5);
    clock.set_days(40);
    talk(&lab, 5..6);
    clock.set_days(-40);
    talk(&lab, 6..7);
    clock.set_days(40);
    lab.start_broker();
    all_heard(&lab, 7);
    assert_eq!(dead(&lab), 0);
    // The connection stands, and the broker's time is still known: keys, files and tokens.
    rotate(&lab, "bob");
    share(&lab, "alice", "bob");
    clock.set_days(0);
    share(&lab, "bob", "alice");
    rotate_token(lab.host("bob"), || clock.set_days(3));
    say_once(&lab, "once", || clock.set_days(-3));
    assert_eq!(archived(lab.host("bob")), 2);
    // Nor does a start with a clock that is wrong forget anything: what came, what is owed, which keys there were.
    lab.host_mut("bob").kill();
    clock.set_days(40);
    lab.host("bob").put_policy(JOBS);
    lab.host("bob").put_hook("on-topic-jobs", &format!("{SPEAKS}{WORKS}"));
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    talk(&lab, 7..9);
    all_heard(&lab, 9);
    assert_eq!((archived(lab.host("bob")), dead(&lab)), (2, 0));
    work(&lab, || clock.set_days(120));
    lab.kill_broker();
    talk(&lab, 9..10);
    lab.host_mut("bob").kill();
    clock.set_days(80);
    lab.host_mut("bob").start();
    lab.start_broker();
    all_heard(&lab, 10);
    assert_eq!(dead(&lab), 0);
    // A clock that is behind at the start and is set right soon, as on a machine without a battery: what is noted from
    // then on is not old at the next start.
    let host = lab.host_mut("bob");
    host.kill();
    clock.set_days(-40);
    host.start();
    host.wait_connected();
    clock.set_days(0);
    let replaced = lab.host("bob").member("pubkey");
    rotate(&lab, "bob");
    lab.kill_broker();
    talk(&lab, 10..11);
    lab.host_mut("bob").kill();
    lab.host_mut("bob").start();
    lab.start_broker();
    all_heard(&lab, 11);
    assert_eq!(dead(&lab), 0);
    let kept = archive(lab.host("bob"));
    let kept = kept.iter().find(|key| key["ed25519_public"] == replaced.as_str()).expect("it is kept");
    assert!(kept["expires_at"].as_str().unwrap() > hour(1).as_str(), "its time has begun when it was replaced");
}

#[test]
fn a_brokers_clock_that_is_set_loses_nothing() {
    let Some((lab, clocks)) = lab([0, 0, 0], 0) else { return };
    talk(&lab, 0..2);
    let file = lab.path().join("plan.txt");
    fs::write(&file, "the plan").unwrap();
    let shared = socket(lab.host("alice")).post("/v1/file/share", &json!({"path": file, "to": "bob"}));
    let file = shared.json()["fileId"].as_str().unwrap().to_owned();
    fetch(&lab, "bob", &file, "the plan");
    let (alice, bob) = (socket(lab.host("alice")), socket(lab.host("bob")));
    let created = task(&alice, "create", &json!({"title": "rebuild"}));
    let id = created.1["task"]["id"].clone();
    assert_eq!(task(&bob, "claim", &json!({"id": id, "lease_s": 3600})).0, 200);
    all_heard(&lab, 2);
    for (round, days) in [3, -3, 40, 0].into_iter().enumerate() {
        clocks.broker.set_days(days);
        let at = 2 + round as u64;
        talk(&lab, at..at + 1);
        all_heard(&lab, at + 1);
        // On the connections that stood before: files that are kept for a day, and a claim for an hour.
        fetch(&lab, "bob", &file, "the plan");
        share(&lab, "carol", "alice");
        assert_eq!(task(&alice, "claim", &json!({"id": id})).1["error"], "already_claimed", "{days} days");
    }
    assert_eq!(task(&bob, "complete", &json!({"id": id})).0, 200);
    clocks.broker.set_days(3);
    rotate(&lab, "carol");
    say_once(&lab, "once", || clocks.broker.set_days(-3));
    assert_eq!(dead(&lab), 0);
}
