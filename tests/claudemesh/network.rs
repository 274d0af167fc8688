//! A mesh of two machines with a cable between them: TLS with the certificate of the invite and no other, and a cable
//! that is pulled out without anybody being told.
//!
//! The machines are network namespaces with a pair of virtual interfaces. Where those cannot be made the reason is
//! printed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs::{self, OpenOptions};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Space, Stream, Transport};
use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

const DAEMON: &str =
    "[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n[broker]\nping_s = 1\nsilence_s = 3\n";
const BROKER: &str = "[broker]\nping = \"1s\"\nsilence = \"3s\"\nlease = \"1s\"\n";
const URL: &str = "wss://10.77.0.1:7443/ws";

/// Alice's machine has the broker, bob's is at the other end of the cable.
struct Machines {
    // Before the directory and the spaces: what runs in them must be gone first.
    alice: Host,
    bob: Host,
    broker: Option<Child>,
    root: TempDir,
    here: Arc<Space>,
    there: Arc<Space>,
}

impl Machines {
    fn start() -> Option<Self> {
        let (here, there) = (Arc::new(Space::network()?), Arc::new(Space::network()?));
        here.connect(&there);
        let root = tempfile::Builder::new().prefix("hostel-net-").tempdir().unwrap();
        let mut alice = Host::new("alice", root.path());
        let mut bob = Host::new("bob", root.path());
        alice.move_into(&here);
        bob.move_into(&there);
        for host in [&alice, &bob] {
            host.configure(&format!("[ipc]\ntcp_enabled = true\n{DAEMON}"));
        }
        let mut machines = Self { alice, bob, broker: None, root, here, there };
        fs::write(machines.house().join("hostel.toml"), BROKER).unwrap();
        machines.start_broker();
        machines.alice.run(&["mesh", "create", "lab", "--name", "alice"]);
        machines.alice.start();
        machines.alice.wait_connected();
        Some(machines)
    }

    fn house(&self) -> std::path::PathBuf {
        self.root.path().join("alice/hostel")
    }

    fn start_broker(&mut self) {
        let output = OpenOptions::new().create(true).append(true).open(self.root.path().join("broker.out")).unwrap();
        let mut command =
            self.alice.command(&["broker", "up", "--foreground", "--listen", "10.77.0.1:7443", "--url", URL]);
        command.stdout(output.try_clone().unwrap()).stderr(output);
        self.broker = Some(command.spawn().unwrap());
        wait::until_true(wait::LIMIT, "the broker to accept", || {
            self.alice.try_run(&["broker", "status"]).status.success()
        });
    }

    fn stop_broker(&mut self) {
        let Some(mut child) = self.broker.take() else { return };
        if let Some(identity) = i32::try_from(child.id()).ok().and_then(Identity::of) {
            identity.signal(Signal::TERM);
        }
        if wait::attempt(Duration::from_secs(10), || child.try_wait().ok().flatten()).is_none() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Bob joins by an invite, and his daemon starts.
    fn join(&mut self) {
        let link = self.alice.invite(1);
        assert!(link.contains("&cert="), "{link}");
        self.bob.run(&["join", &link, "--name", "bob"]);
        assert_eq!(self.bob.member("brokerUrl"), URL);
        self.bob.start();
        self.bob.wait_connected();
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.stop_broker();
        if std::thread::panicking() {
            self.alice.tell("the broker", &fs::read_to_string(self.root.path().join("broker.out")).unwrap_or_default());
        }
    }
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

/// How often a connection was tried and not made, for whatever reason.
fn attempts(client: &Client) -> u64 {
    let text = client.get("/v1/metrics").text();
    let counts = text.lines().filter(|line| line.starts_with("cm_daemon_reconnect"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Waits until a daemon has found out by the silence that its connection is none. On a machine that is held up the other
/// end may have found out before, for another reason, and it was made again.
fn silent(ends: &mut Stream) {
    while ends.named("daemon_disconnect")["reason"] != "silent" {}
}

#[test]
fn machines_speak_tls_and_only_with_the_certificate_of_the_invite() {
    let Some(mut machines) = Machines::start() else { return };
    // An invite whose certificate is another one's, or has none, lets nobody in and leaves nothing behind.
    let link = machines.alice.invite(9);
    let (plain, digests) = link.rsplit_once("&cert=").expect("the certificate is in the invite");
    let (digest, key) = digests.split_once("&key=").expect("and its key");
    let other = |digits: &str| digits.chars().map(|digit| if digit == '0' { '1' } else { '0' }).collect::<String>();
    let forgeries = [
        format!("{plain}&cert={}&key={}", other(digest), other(key)),
        format!("{plain}&cert={}", other(digest)),
        format!("{plain}&key={key}"),
        plain.to_owned(),
    ];
    for forged in forgeries {
        let output = machines.bob.try_run(&["join", &forged, "--name", "bob"]);
        assert!(!output.status.success(), "{output:?}");
        let config = fs::read_to_string(machines.bob.home().join(".claudemesh/config.json")).unwrap_or_default();
        assert!(!config.contains("\"slug\""), "{config}");
    }
    machines.join();
    let (alice, bob) = (machines.alice.client(Transport::Socket), machines.bob.client(Transport::Socket));
    send(&bob, "alice", "over the cable");
    wait_for_bodies(&alice, &["over the cable"]);
    send(&alice, "bob", "and back");
    wait_for_bodies(&bob, &["and back"]);
    let shared = machines.root.path().join("shared.txt");
    fs::write(&shared, "a file over the cable").unwrap();
    let answer = alice.post("/v1/file/share", &json!({"path": shared, "to": "bob"}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["fileId"].as_str().unwrap().to_owned();
    let out = machines.root.path().join("got.txt");
    wait::until_true(wait::LIMIT, "the file to come over", || {
        bob.get(&format!("/v1/file/get?id={id}&out={}", out.display())).status == 200
    });
    assert_eq!(fs::read_to_string(&out).unwrap(), "a file over the cable");
    // Without encryption nobody is served.
    machines.bob.stop();
    let plain = DAEMON.replace("[broker]\n", "[broker]\nurls = [\"ws://10.77.0.1:7443/ws\"]\n");
    machines.bob.configure(&format!("[ipc]\ntcp_enabled = true\n{plain}"));
    machines.bob.start();
    let bob = machines.bob.client(Transport::Socket);
    wait::until_true(wait::LIMIT, "bob to try in vain", || attempts(&bob) >= 3);
    assert_eq!(bob.get_json("/v1/health")["connected"], false);
    machines.bob.stop();
    machines.bob.configure(&format!("[ipc]\ntcp_enabled = true\n{DAEMON}"));
    machines.bob.start();
    machines.bob.wait_connected();
    // Another certificate is another broker, whoever has its address: bob keeps what he has to say.
    machines.stop_broker();
    let broker = machines.house().join("broker");
    for name in ["cert.pem", "key.pem"] {
        fs::rename(broker.join(name), broker.join(format!("{name}.kept"))).unwrap();
    }
    machines.start_broker();
    machines.alice.wait_connected();
    let bob = machines.bob.client(Transport::Socket);
    let before = attempts(&bob);
    send(&bob, "alice", "not for strangers");
    wait::until_true(wait::LIMIT, "bob to try in vain", || attempts(&bob) >= before + 3);
    assert_eq!(bob.get_json("/v1/health")["connected"], false);
    assert_eq!(bodies(&machines.alice.client(Transport::Socket)), ["over the cable"]);
    // The right one again, and it goes out.
    machines.stop_broker();
    for name in ["cert.pem", "key.pem"] {
        fs::rename(broker.join(format!("{name}.kept")), broker.join(name)).unwrap();
    }
    machines.start_broker();
    machines.bob.wait_connected();
    wait_for_bodies(&machines.alice.client(Transport::Socket), &["over the cable", "not for strangers"]);
    // A certificate that is renewed under the same key is no other broker, for who has joined and for who joins.
    machines.stop_broker();
    let key = rcgen::KeyPair::from_pem(&fs::read_to_string(broker.join("key.pem")).unwrap()).unwrap();
    let renewed = rcgen::CertificateParams::new(vec!["lab.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    assert_ne!(fs::read_to_string(broker.join("cert.pem")).unwrap(), renewed.pem());
    fs::write(broker.join("cert.pem"), renewed.pem()).unwrap();
    machines.start_broker();
    machines.bob.wait_connected();
    send(&machines.bob.client(Transport::Socket), "alice", "renewed");
    let all = ["over the cable", "not for strangers", "renewed"];
    wait_for_bodies(&machines.alice.client(Transport::Socket), &all);
    let link = machines.alice.invite(1);
    let again = machines.bob.run(&["join", &link, "--name", "bob", "--json"]);
    assert!(again.contains("\"alreadyMember\":true"), "{again}");
    // Another key is, until the broker's host has invited anew: its daemon knows which one it has now.
    machines.stop_broker();
    for name in ["cert.pem", "key.pem"] {
        fs::remove_file(broker.join(name)).unwrap();
    }
    machines.start_broker();
    machines.alice.stop();
    machines.alice.start();
    machines.alice.wait_connected();
    let anew = machines.alice.invite(1);
    assert_ne!(anew.split("&cert=").nth(1), link.split("&cert=").nth(1));
    let again = machines.bob.run(&["join", &anew, "--name", "bob", "--json"]);
    assert!(again.contains("\"alreadyMember\":true"), "{again}");
    machines.bob.stop();
    machines.bob.start();
    machines.bob.wait_connected();
}

#[test]
fn a_cable_that_is_pulled_out_is_noticed_by_silence_on_both_ends() {
    let Some(mut machines) = Machines::start() else { return };
    machines.join();
    let (alice, bob) = (machines.alice.client(Transport::Socket), machines.bob.client(Transport::Socket));
    // Idle for longer than the limit: signs of life are enough. A machine that stands still for that long gives none, so
    // one such time of several is asked for.
    wait::until_true(wait::LIMIT * 2, "a connection that outlasts some quiet time", || {
        let before = attempts(&bob);
        // Nothing may happen in this time, which is longer than silence is allowed.
        std::thread::sleep(Duration::from_secs(4));
        attempts(&bob) == before && bob.get_json("/v1/health")["connected"] == true
    });
    let mut ends = bob.events("?events=daemon_disconnect,daemon_reconnect", &[]);
    let mut peers = alice.events("?events=peer_leave,peer_join", &[]);
    machines.there.set_cable(false);
    let pulled = Instant::now();
    // Nobody is told, so both have to find out: bob's daemon, and the broker on alice's machine.
    silent(&mut ends);
    assert!(pulled.elapsed() >= Duration::from_millis(500), "silence takes its time: {:?}", pulled.elapsed());
    assert_eq!(peers.named("peer_leave")["name"], "bob");
    send(&alice, "bob", "said into the silence");
    send(&bob, "alice", "said from the other side");
    assert!(bodies(&bob).is_empty() && bodies(&alice).is_empty());
    machines.there.set_cable(true);
    ends.named("daemon_reconnect");
    assert_eq!(peers.named("peer_join")["name"], "bob");
    wait_for_bodies(&bob, &["said into the silence"]);
    wait_for_bodies(&alice, &["said from the other side"]);
    drop(Arc::clone(&machines.here));
}

#[test]
fn a_broker_or_a_daemon_that_stands_still_is_let_go_and_found_again() {
    let options = Options { config: DAEMON.to_owned(), broker: BROKER.to_owned(), ..Options::of(&["alice", "bob"]) };
    let lab = Lab::start_with(&options);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let mut ends = bob.events("?events=daemon_disconnect,daemon_reconnect", &[]);
    // The broker stands still: its connections are open and nothing comes.
    lab.broker().freeze();
    silent(&mut ends);
    lab.broker().signal(Signal::CONT);
    ends.named("daemon_reconnect");
    lab.hosts.iter().for_each(Host::wait_connected);
    // A daemon stands still: the others hear that it is gone, and what is for it waits.
    let mut peers = alice.events("?events=peer_leave,peer_join", &[]);
    let bob_runs = lab.host("bob").identity();
    bob_runs.freeze();
    assert_eq!(peers.named("peer_leave")["name"], "bob");
    send(&alice, "bob", "for later");
    bob_runs.signal(Signal::CONT);
    wait_for_bodies(&bob, &["for later"]);
    lab.host("bob").wait_connected();
}
