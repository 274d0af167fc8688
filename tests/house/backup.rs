//! A whole house in a file: taken while it runs, put back elsewhere, with its record intact, its sessions, its journals,
//! its broker and its meshes; and what is refused.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use hostel_tests::claudemesh::{Host, Lab, Options, Space, Transport};
use hostel_tests::process::Process;
use hostel_tests::zeroclaw::Peer;
use hostel_tests::{binary, house, wait};
use rusqlite::Connection;
use serde_json::{Value, json};

const PASSPHRASE: &str = "several words for a house";

/// A house and the user it belongs to.
struct House {
    root: PathBuf,
    user: PathBuf,
    process: Process,
}

impl House {
    fn at(root: &Path, user: &Path) -> Self {
        fs::create_dir_all(user).unwrap();
        let process = Process::new("the house", user.join("printed"));
        Self { root: root.to_owned(), user: user.to_owned(), process }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        house::set_base_environment(&mut command, &self.user);
        command.env("HOSTEL_HOME", &self.root).env("CLAUDEMESH_INTERNAL_NO_AUTOSPAWN", "1");
        // The daemons of meshes are the test's own.
        command.env("HOSTEL_MESH_DAEMONS", "false").env("HOSTEL_MESH_BROKER", "false");
        command.env("HOSTEL_DOORS_CODECAST_ENABLED", "false");
        command.args(words).current_dir(&self.user).stdin(Stdio::null());
        command
    }

    fn try_run(&self, words: &[&str]) -> Output {
        house::run(self.command(words))
    }

    fn with_passphrase(&self, words: &[&str], passphrase: &str) -> Output {
        let file = self.user.join("passphrase");
        fs::write(&file, format!("{passphrase}\n")).unwrap();
        let mut command = self.command(words);
        command.args(["--passphrase-fd", "0"]).stdin(File::open(&file).unwrap());
        house::run(command)
    }

    fn run(&self, words: &[&str]) -> String {
        worked(&self.try_run(words))
    }

    fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = ["--json"].iter().chain(words).copied().collect();
        serde_json::from_str(&self.run(&words)).unwrap()
    }

    fn up(&mut self) {
        self.process.start(self.command(&["up", "--foreground"]));
        let socket = self.root.join("run/hostel.sock");
        self.process.wait_ready(|| Peer::connect(&socket));
    }

    fn down(&mut self) {
        self.run(&["down"]);
        if self.process.is_started() {
            self.process.ended();
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if self.process.is_started() {
            // Before the daemon is ended: it tells the keeper to end what it holds.
            house::run(self.command(&["down"]));
        }
    }
}

fn worked(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ended with {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output, said: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it should be refused: {complaint}");
    assert!(complaint.contains(said), "`{said}` is not in: {complaint}");
}

fn epochs(house: &Path) -> Vec<String> {
    let connection = Connection::open(house.join("broker/broker.db")).unwrap();
    let mut statement = connection.prepare("SELECT epoch FROM logs ORDER BY mesh").unwrap();
    let epochs = statement.query_map([], |row| row.get(0)).unwrap();
    epochs.collect::<Result<_, _>>().unwrap()
}

/// The house of a lab's broker, with a session, a process, an approver and alice's mesh.
fn furnished(lab: &Lab) -> House {
    let mut house = House::at(&lab.broker_home(), &lab.host("alice").home());
    house.up();
    worked(&house.with_passphrase(&["approver", "set"], "the approver's own words"));
    house.run(&["run", "--agent", "echo", "--name", "talk", "what is kept?"]);
    house.run(&["run", "-d", "--name", "counter", "--", "sh", "-c", "echo one; echo two; exec sleep 600"]);
    wait::eventually("the process to speak", || house.run(&["logs", "counter"]).contains("two"));
    house
}

#[test]
fn a_house_comes_back_as_it_was() {
    let mut lab = Lab::start_with(&Options::of(&["alice", "bob"]));
    let bob = lab.host("bob").client(Transport::Socket);
    let sent = bob.post("/v1/send", &json!({"to": "alice", "message": "for the house", "client_message_id": "m1"}));
    assert_eq!(sent.status, 202);
    let alice = lab.host("alice").client(Transport::Socket);
    let received = |client: &hostel_tests::claudemesh::Client| {
        client.get_json("/v1/inbox?mark_seen=false")["items"].as_array().unwrap().len()
    };
    wait::eventually("the message to arrive", || received(&alice) == 1);
    let mut old = furnished(&lab);
    let audited = old.json(&["audit", "verify"])["houses"][0]["records"].as_u64().unwrap();
    assert!(audited > 0);
    // While everything runs.
    let file = lab.path().join("house.backup");
    let made: Value = serde_json::from_str(&worked(
        &old.with_passphrase(&["--json", "backup", "--out", file.to_str().unwrap()], PASSPHRASE),
    ))
    .unwrap();
    assert_eq!(made["meshes"], json!(["lab"]), "{made}");
    assert_eq!(made["left_out"], json!([]), "{made}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let leftovers: Vec<String> = fs::read_dir(&old.root)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".backup-"))
        .collect();
    assert_eq!(leftovers, Vec::<String>::new());
    let sealed = fs::read(&file).unwrap();
    for secret in [lab.host("alice").member("secretKey"), "what is kept?".to_owned(), "for the house".to_owned()] {
        assert!(!sealed.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret} is in the clear");
    }
    // A house that is up is not replaced, also not by force.
    let restore = |house: &House, file: &Path, passphrase: &str, more: &[&str]| {
        let mut words = vec!["restore", "--in", file.to_str().unwrap()];
        words.extend_from_slice(more);
        house.with_passphrase(&words, passphrase)
    };
    refused(&restore(&old, &file, PASSPHRASE, &["--force"]), "is up");
    let pubkey = lab.host("alice").member("pubkey");
    let before = epochs(&old.root);
    old.down();
    lab.host_mut("alice").stop();
    lab.kill_broker();
    refused(&restore(&old, &file, PASSPHRASE, &[]), "there is a house in");
    // Another machine: another user, another place.
    let mut new = House::at(&lab.path().join("second/house"), &lab.path().join("second/user"));
    refused(&restore(&new, &file, "another passphrase", &[]), "the passphrase is not the one it was made with");
    let damaged = lab.path().join("damaged.backup");
    for (bytes, said) in [
        (flipped(&sealed, sealed.len() / 2), "is damaged"),
        (flipped(&sealed, 70), "is damaged: its beginning is not what was written"),
        (sealed[..sealed.len() - 1].to_vec(), "its end is missing"),
        (sealed[..sealed.len() / 2].to_vec(), "is damaged"),
        ([&sealed[..], b"more"].concat(), "there is more after its end"),
        (b"not one".to_vec(), "it is not a backup of this program"),
    ] {
        fs::write(&damaged, bytes).unwrap();
        refused(&restore(&new, &damaged, PASSPHRASE, &[]), said);
        assert!(!new.root.exists(), "nothing is left of what could not be read");
    }
    let told: Value = serde_json::from_str(&worked(&restore(&new, &file, PASSPHRASE, &["--json"]))).unwrap();
    assert_eq!((&told["files"], &told["bytes"], &told["meshes"]), (&made["files"], &made["bytes"], &json!(["lab"])));
    let left: Vec<_> = fs::read_dir(lab.path().join("second"))
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    assert_eq!(left.len(), 2, "nothing is left beside it: {left:?}");
    assert!(!new.root.join("run").exists() && !new.root.join("log").exists());
    assert_eq!(fs::read(new.root.join("approver")).unwrap(), fs::read(old.root.join("approver")).unwrap());
    assert_ne!(epochs(&new.root), before, "members notice that the broker's log is of another time");
    new.up();
    let verified = new.json(&["audit", "verify"]);
    assert_eq!(verified["ok"], true, "{verified}");
    assert!(verified["houses"][0]["records"].as_u64().unwrap() >= audited);
    let sessions = new.run(&["--json", "sessions", "--all"]);
    assert!(sessions.contains("talk"), "{sessions}");
    assert!(new.run(&["watch", "--no-follow", "talk"]).contains("what is kept?"));
    let logs = new.run(&["logs", "counter"]);
    assert!(logs.contains("one") && logs.contains("two"), "{logs}");
    // The mesh is this user's now: same member, its messages, no token of the old machine.
    let directory = new.user.join(".claudemesh/daemon/lab");
    assert!(directory.join("inbox.db").exists() && !directory.join("local_token").exists());
    assert!(!directory.join("host_fingerprint.json").exists());
    let config: Value =
        serde_json::from_str(&fs::read_to_string(new.user.join(".claudemesh/config.json")).unwrap()).unwrap();
    assert_eq!(config["meshes"][0]["pubkey"], pubkey.as_str());
    lab.start_broker();
    let mut moved = Host::new("third", lab.path());
    let user = moved.home();
    fs::remove_dir_all(&user).unwrap();
    std::os::unix::fs::symlink(&new.user, &user).unwrap();
    moved.start();
    moved.wait_connected();
    let alice = moved.client(Transport::Socket);
    assert_eq!(received(&alice), 1);
    let sent = bob.post("/v1/send", &json!({"to": "alice", "message": "again"}));
    assert_eq!(sent.status, 202);
    wait::eventually("a new message to arrive", || received(&alice) == 2);
    moved.stop();
    new.down();
    // A second time only by force, and what was there is kept.
    refused(&restore(&new, &file, PASSPHRASE, &[]), "there is a house in");
    let told: Value = serde_json::from_str(&worked(&restore(&new, &file, PASSPHRASE, &["--json", "--force"]))).unwrap();
    assert_eq!(told["kept"].as_array().unwrap().len(), 2, "{told}");
    for kept in told["kept"].as_array().unwrap() {
        assert!(Path::new(kept.as_str().unwrap()).is_dir());
    }
}

/// What somebody has in the inbox: ids, each as often as it is there.
fn inbox(client: &hostel_tests::claudemesh::Client) -> Vec<String> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().unwrap().iter();
    let mut ids: Vec<String> = items
        .map(|item| {
            assert!(item["body"].is_string(), "it can be read: {item}");
            item["client_message_id"].as_str().unwrap().to_owned()
        })
        .collect();
    ids.sort();
    ids
}

fn wait_inbox(client: &hostel_tests::claudemesh::Client, expected: &[&str]) {
    wait::eventually(&format!("{expected:?} in the inbox"), || inbox(client).len() >= expected.len());
    assert_eq!(inbox(client), expected);
}

/// A process that has ended.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn members_come_back_to_a_broker_that_was_put_back() {
    let config = "[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n".to_owned();
    let mut lab = Lab::start_with(&Options { config, ..Options::of(&["alice", "bob", "carol"]) });
    let client = |lab: &Lab, name: &str| lab.host(name).client(Transport::Socket);
    let say = |lab: &Lab, from: &str, to: &str, id: &str| {
        let sent = client(lab, from).post("/v1/send", &json!({"to": to, "message": id, "client_message_id": id}));
        assert_eq!(sent.status, 202, "{}", sent.text());
    };
    let settled = |lab: &Lab, name: &str| {
        let client = client(lab, name);
        wait::eventually("nothing to be owed", || client.get_json("/v1/health")["queue_depth"] == 0);
    };
    say(&lab, "alice", "bob", "a1");
    say(&lab, "bob", "alice", "b1");
    wait_inbox(&client(&lab, "bob"), &["a1"]);
    wait_inbox(&client(&lab, "alice"), &["b1"]);
    let house = House::at(&lab.broker_home(), &lab.path().join("operator"));
    // What runs that were killed have left goes by the way.
    let left = house.root.join(format!(".backup-{}.db", dead()));
    fs::write(&left, "a copy").unwrap();
    let file = lab.path().join("broker.backup");
    worked(&house.with_passphrase(&["backup", "--out", file.to_str().unwrap()], PASSPHRASE));
    assert!(!left.exists());
    // Since then: the owner and bob have other keys, bob more than one; and carol, who was away, is owed what only the
    // broker had.
    let rotate = |lab: &Lab, name: &str| {
        let printed = lab.host(name).run(&["daemon", "rotate-keypair", "--mesh", "lab", "--json"]);
        serde_json::from_str::<Value>(&printed).unwrap()["pubkey"].as_str().unwrap().to_owned()
    };
    let first = lab.host("bob").member("pubkey");
    lab.host_mut("carol").stop();
    rotate(&lab, "bob");
    say(&lab, "bob", "carol", "b2");
    say(&lab, "bob", "alice", "b3");
    let bobs = rotate(&lab, "bob");
    let alices = rotate(&lab, "alice");
    say(&lab, "alice", "bob", "a2");
    say(&lab, "alice", "carol", "a3");
    wait_inbox(&client(&lab, "alice"), &["b1", "b3"]);
    wait_inbox(&client(&lab, "bob"), &["a1", "a2"]);
    settled(&lab, "alice");
    settled(&lab, "bob");
    lab.kill_broker();
    let left = lab.path().join(format!(".broker.restoring-{}", dead()));
    fs::create_dir_all(left.join("broker")).unwrap();
    worked(&house.with_passphrase(&["restore", "--in", file.to_str().unwrap(), "--force"], PASSPHRASE));
    assert!(!left.exists());
    lab.start_broker();
    // By themselves, with the keys they have.
    for (name, key) in [("alice", &alices), ("bob", &bobs)] {
        lab.host(name).wait_connected();
        assert_eq!(client(&lab, name).get_json("/v1/health")["member_pubkey"], key.as_str());
    }
    lab.host_mut("carol").start();
    wait_inbox(&client(&lab, "carol"), &["a3", "b2"]);
    say(&lab, "carol", "bob", "c1");
    say(&lab, "bob", "alice", "b4");
    say(&lab, "alice", &first, "a4");
    wait_inbox(&client(&lab, "alice"), &["b1", "b3", "b4"]);
    wait_inbox(&client(&lab, "bob"), &["a1", "a2", "a4", "c1"]);
    // Bob too after a restart, the owner invites, and the record says what happened.
    lab.host_mut("bob").kill();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    assert!(lab.host("alice").invite(1).starts_with("ic://"));
    let audit = lab.host("alice").run(&["mesh", "audit", "--mesh", "lab", "--json"]);
    assert!(audit.contains("member_keypair_rotated") && audit.contains("keysBetween"), "{audit}");
    assert!(lab.host("bob").printed().contains("broker_set_back"));
    wait_inbox(&client(&lab, "bob"), &["a1", "a2", "a4", "c1"]);
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[test]
fn a_backup_in_the_middle_of_writes_is_consistent() {
    let lab = Lab::prepare(&Options::of(&["alice"]));
    let mut old = House::at(&lab.path().join("busy"), &lab.path().join("user"));
    old.up();
    // Turns go on while it is taken.
    let talking = {
        let mut command = old.command(&["run", "--agent", "echo", "first"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut talking = vec![talking];
    for number in 0..6 {
        let mut command = old.command(&["run", "--agent", "echo", &format!("prompt number {number}")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        talking.push(command.spawn().unwrap());
    }
    let file = lab.path().join("busy.backup");
    worked(&old.with_passphrase(&["backup", "--out", file.to_str().unwrap()], PASSPHRASE));
    for mut child in talking {
        wait::end_of(&mut child, "a turn");
    }
    old.down();
    let mut new = House::at(&lab.path().join("quiet"), &lab.path().join("user2"));
    worked(&new.with_passphrase(&["restore", "--in", file.to_str().unwrap()], PASSPHRASE));
    let connection = Connection::open(new.root.join("state.db")).unwrap();
    let health: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
    drop(connection);
    new.up();
    assert_eq!(new.json(&["audit", "verify"])["ok"], true);
    new.run(&["sessions", "--all"]);
    new.down();
}

#[test]
fn a_full_disk_leaves_neither_half_a_backup_nor_half_a_house() {
    let Some(space) = Space::mounts().map(Arc::new) else { return };
    let lab = Lab::prepare(&Options::of(&["alice"]));
    let mut old = House::at(&lab.path().join("full"), &lab.path().join("user"));
    old.up();
    old.run(&["run", "--agent", "echo", "x"]);
    old.down();
    let small = lab.path().join("small");
    fs::create_dir(&small).unwrap();
    space.run(&format!("mount -t tmpfs -o size=64k,mode=700 none {}", small.display()));
    let entered = |house: &House, words: &[&str]| {
        let file = house.user.join("passphrase");
        fs::write(&file, format!("{PASSPHRASE}\n")).unwrap();
        let inner = house.command(words);
        let entrance = space.entrance();
        let mut command = Command::new(&entrance[0]);
        command.args(&entrance[1..]).arg(binary::hostel()).args(words).args(["--passphrase-fd", "0"]);
        command.env_clear();
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.stdin(File::open(&file).unwrap());
        house::run(command)
    };
    let out = small.join("house.backup");
    refused(&entered(&old, &["backup", "--out", out.to_str().unwrap()]), "No space left on device");
    let there = |path: &Path| fs::read_dir(space.path(path)).map_or(0, |entries| entries.flatten().count());
    assert_eq!(there(&small), 0, "nothing is left of it");
    let file = lab.path().join("house.backup");
    worked(&old.with_passphrase(&["backup", "--out", file.to_str().unwrap()], PASSPHRASE));
    let new = House::at(&small.join("house"), &lab.path().join("user2"));
    refused(&entered(&new, &["restore", "--in", file.to_str().unwrap()]), "No space left on device");
    assert_eq!(there(&small), 0, "nothing is left of it");
}
