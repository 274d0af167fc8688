//! An identity in a file: what a backup holds and never holds, how it comes back, what is refused, and how a mesh is
//! left or begun anew on a host.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use hostel_tests::claudemesh::{Client, Host, Lab, Options, Space, Transport};
use hostel_tests::{house, wait};
use serde_json::{Value, json};

/// Reconnecting is quick: these tests are not about waiting.
const QUICK: &str = "[reconnect]\ninitial_backoff_ms = 100\nmax_backoff_ms = 500\n";

const PASSPHRASE: &str = "several words, grüße";

fn lab() -> Lab {
    Lab::start_with(&Options { config: QUICK.to_owned(), ..Options::of(&["alice", "bob"]) })
}

/// Runs a command with a passphrase on its standard input.
fn with_passphrase(host: &Host, arguments: &[&str], passphrase: &str) -> Output {
    let file = host.home().join("passphrase");
    fs::write(&file, format!("{passphrase}\n")).unwrap();
    let mut command = host.command(arguments);
    command.args(["--passphrase-fd", "0"]).stdin(File::open(&file).unwrap());
    house::run(command)
}

fn backup(host: &Host, path: &Path) -> Output {
    with_passphrase(host, &["daemon", "backup", "--mesh", "lab", "--out", path.to_str().unwrap()], PASSPHRASE)
}

fn restore(host: &Host, path: &Path, passphrase: &str, more: &[&str]) -> Output {
    let mut arguments = vec!["daemon", "restore", "--in", path.to_str().unwrap()];
    arguments.extend_from_slice(more);
    with_passphrase(host, &arguments, passphrase)
}

fn worked(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "ended with {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned() + &said
}

fn refused(output: &Output, said: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains(said), "`{said}` is not in: {complaint}");
}

fn send(client: &Client, to: &str, id: &str) {
    let answer = client.post("/v1/send", &json!({"to": to, "message": id, "client_message_id": id}));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn post(client: &Client, topic: &str, id: &str) {
    let answer = client.post("/v1/topic/post", &json!({"topic": topic, "message": id, "client_message_id": id}));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn ids(client: &Client) -> Vec<String> {
    let page = client.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().expect("items").iter().rev();
    items.map(|item| item["client_message_id"].as_str().expect("an id").to_owned()).collect()
}

fn wait_for(client: &Client, expected: &[&str]) {
    let mut found = wait::eventually(&format!("{expected:?} in the inbox"), || {
        let found = ids(client);
        if found.len() >= expected.len() { Ok(found) } else { Err(format!("{found:?}")) }
    });
    found.sort();
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn wait_idle(client: &Client) {
    wait::until_true(wait::LIMIT, "nothing to be owed", || client.get_json("/v1/health")["queue_depth"] == 0);
}

#[test]
fn an_identity_moves_to_another_host_with_its_topics_and_history() {
    let mut lab = lab();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    let subscribed = bob.post("/v1/topic/subscribe", &json!({"topic": "alerts"}));
    assert_eq!(subscribed.status, 200, "{}", subscribed.text());
    post(&bob, "alerts", "bob-post");
    wait_idle(&bob);
    send(&alice, "bob", "dm-before");
    post(&alice, "alerts", "post-before");
    wait_for(&bob, &["dm-before", "post-before"]);
    // While the daemon runs, and again: the file is replaced.
    let path = lab.path().join("bob.backup");
    for _ in 0..2 {
        let said = worked(&backup(lab.host("bob"), &path));
        assert!(said.contains("bob.backup"), "{said}");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let leftovers = fs::read_dir(lab.path())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".bob.backup"));
    assert_eq!(leftovers.count(), 0, "nothing is left beside it");
    let bytes = fs::read(&path).unwrap();
    assert_eq!(&bytes[..12], b"HOSTELBK\x01m\x02\x00");
    for secret in [lab.host("bob").member("secretKey"), bob.token.clone()] {
        assert!(!contains(&bytes, secret.as_bytes()), "nothing of it is in the clear");
    }
    let pubkey = lab.host("bob").member("pubkey");
    // The old machine is gone for good.
    lab.host_mut("bob").stop();
    send(&alice, "bob", "dm-between");
    post(&alice, "alerts", "post-between");
    wait_idle(&alice);
    let mut moved = Host::new("moved", lab.path());
    let said = worked(&restore(&moved, &path, PASSPHRASE, &[]));
    assert!(said.contains("this host is bob in `lab` again"), "{said}");
    assert_eq!(moved.member("pubkey"), pubkey);
    let directory = moved.directory();
    let mode = |name: &str| fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("keypair.json"), mode("topics.json"), mode("config.toml")), (0o600, 0o600, 0o644));
    for name in ["local_token", "host_fingerprint.json", "inbox.db", "outbox.db"] {
        assert!(!directory.join(name).exists(), "{name} is not part of a backup");
    }
    assert_eq!(
        fs::read(directory.join("topics.json")).unwrap(),
        fs::read(lab.host("bob").directory().join("topics.json")).unwrap()
    );
    moved.start();
    moved.wait_connected();
    let bob = moved.client(Transport::Socket);
    wait_for(&bob, &["dm-before", "post-before", "dm-between", "post-between"]);
    // It is the same member to others: subscribed, and able to post with the topic's key.
    assert_eq!(bob.get_json("/v1/health")["member_pubkey"], pubkey.as_str());
    let topics = bob.get_json("/v1/topic/list");
    let alerts = topics["topics"].as_array().unwrap().iter().find(|topic| topic["name"] == "alerts").unwrap().clone();
    assert_eq!(alerts["subscribed"], true);
    send(&bob, "alice", "answer");
    wait::until_true(wait::LIMIT, "the answer to arrive", || ids(&alice).contains(&"answer".to_owned()));
    assert!(directory.join("host_fingerprint.json").exists(), "written fresh at the first start");
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn what_cannot_be_restored_says_why_and_changes_nothing() {
    let mut lab = lab();
    let path = lab.path().join("bob.backup");
    worked(&backup(lab.host("bob"), &path));
    // The daemon runs, and the mesh is joined.
    refused(&restore(lab.host("bob"), &path, PASSPHRASE, &[]), "this host already has an identity in `lab`");
    refused(&restore(lab.host("bob"), &path, PASSPHRASE, &["--force"]), "the daemon of `lab` runs");
    let before = fs::read(lab.host("bob").home().join(".claudemesh/config.json")).unwrap();
    lab.host_mut("bob").stop();
    refused(&restore(lab.host("bob"), &path, PASSPHRASE, &[]), "`--force` puts the backup in its place");
    let elsewhere = Host::new("elsewhere", lab.path());
    refused(&restore(&elsewhere, &path, "not the passphrase", &[]), "the passphrase is not the one it was made with");
    let whole = fs::read(&path).unwrap();
    let other = lab.path().join("other.backup");
    let attempt = |bytes: &[u8], said: &str| {
        fs::write(&other, bytes).unwrap();
        refused(&restore(&elsewhere, &other, PASSPHRASE, &[]), said);
    };
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 4;
    attempt(&flipped, "it is damaged: its bytes are not those that were written");
    attempt(&whole[..whole.len() - 9], "it is damaged");
    attempt(b"PK\x03\x04 something else", "it is not a backup of this program");
    let mut newer = whole.clone();
    newer[8] = 9;
    attempt(&newer, "its format is version 9, this program knows 1");
    let mut costly = whole.clone();
    costly[16] = 0x7f;
    attempt(&costly, "its header makes no sense");
    let mut house = whole.clone();
    house[9] = b'h';
    attempt(&house, "it is a backup of a house, not of a mesh's identity");
    attempt(b"CMB1 and not much more", "it is damaged: it ends inside its header");
    attempt(b"CMB2 of another program", "it is a `.cmb` backup (`CMB2`) of claudemesh-cli");
    refused(&restore(&elsewhere, &lab.path().join("nowhere"), PASSPHRASE, &[]), "there is no such file");
    assert!(!elsewhere.home().join(".claudemesh/config.json").exists(), "nothing was written");
    assert_eq!(fs::read(lab.host("bob").home().join(".claudemesh/config.json")).unwrap(), before);
    // A short passphrase is refused for a new backup, and a place that cannot be is said before one is asked for.
    let short = with_passphrase(lab.host("bob"), &["daemon", "backup", "--mesh", "lab", "--out", "x.backup"], "short");
    let complaint = String::from_utf8_lossy(&short.stderr).into_owned();
    assert!(!short.status.success() && complaint.contains("fewer than 12 characters"), "{complaint}");
    refused(&backup(lab.host("bob"), &lab.path().join("nowhere/x.backup")), "there is no directory");
    refused(&backup(lab.host("bob"), lab.path()), "it is a directory");
    // With --force the same identity is put back over itself, and runs.
    worked(&restore(lab.host("bob"), &path, PASSPHRASE, &["--force"]));
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    send(&alice, "bob", "after");
    wait::until_true(wait::LIMIT, "a message after the restore", || ids(&bob).contains(&"after".to_owned()));
}

#[test]
fn two_machines_with_one_identity_are_noticed() {
    let mut lab = lab();
    let path = lab.path().join("bob.backup");
    worked(&backup(lab.host("bob"), &path));
    let Some(space) = another_machine(lab.path()) else { return };
    let mut moved = Host::new("moved", lab.path());
    moved.move_into(&space);
    worked(&restore(&moved, &path, PASSPHRASE, &[]));
    let mut events = lab.host("alice").client(Transport::Socket).events("?events=member_clone_suspected", &[]);
    moved.start();
    moved.wait_connected();
    let event = events.named("member_clone_suspected");
    assert_eq!(event["mesh"], "lab", "{event}");
    lab.host_mut("bob").stop();
}

/// A machine with another id.
fn another_machine(directory: &Path) -> Option<Arc<Space>> {
    if !Path::new("/etc/machine-id").exists() {
        Space::skipped("this machine has no /etc/machine-id that another could be put over");
        return None;
    }
    let space = Space::mounts()?;
    let file = directory.join("machine");
    fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    space.run(&format!("mount --bind {} /etc/machine-id", file.display()));
    Some(Arc::new(space))
}

#[test]
fn a_full_disk_leaves_no_half_a_backup() {
    let Some(space) = Space::mounts().map(Arc::new) else { return };
    let mut lab = Lab::prepare(&Options::of(&["alice"]));
    let place = lab.path().join("small");
    fs::create_dir(&place).unwrap();
    space.run(&format!(
        "mount -t tmpfs -o size=16k none {0} && dd if=/dev/zero of={0}/filler bs=4k count=4 2>/dev/null || true",
        place.display()
    ));
    let alice = lab.host_mut("alice");
    alice.move_into(&space);
    let path = place.join("alice.backup");
    let output = backup(alice, &path);
    refused(&output, "No space left on device");
    let listed = space.path(&place);
    let names: Vec<_> =
        fs::read_dir(listed).unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    assert_eq!(names, ["filler"], "nothing is left of it");
}

#[test]
fn uninstall_leaves_the_mesh_and_takes_everything_away() {
    let mut lab = lab();
    let bob = lab.host("bob");
    let directory = bob.directory();
    let pubkey = bob.member("pubkey");
    let output = bob.try_run(&["daemon", "uninstall", "--mesh", "lab"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("add `--confirm`"));
    assert!(directory.join("keypair.json").exists());
    let said = bob.run(&["daemon", "uninstall", "--mesh", "lab", "--confirm"]);
    assert!(said.contains("`lab` is gone from this host"), "{said}");
    assert!(!directory.exists());
    let config: Value =
        serde_json::from_str(&fs::read_to_string(bob.home().join(".claudemesh/config.json")).unwrap()).unwrap();
    assert_eq!(config["meshes"], json!([]));
    assert_eq!(lab.host_mut("bob").ended().code(), Some(0), "the daemon was ended, not killed");
    let alice = lab.host("alice").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the others to know that bob left", || {
        let members = alice.get_json("/v1/member/list");
        let bob =
            members["members"].as_array().unwrap().iter().find(|member| member["pubkey"] == pubkey.as_str()).cloned();
        bob.is_none_or(|bob| bob["left"] == true)
    });
    // Where the broker is away it goes all the same, and that is said.
    lab.kill_broker();
    lab.host_mut("alice").stop();
    let alice = lab.host("alice");
    let output = alice.try_run(&["daemon", "uninstall", "--mesh", "lab", "--confirm"]);
    let said = worked(&output);
    assert!(said.contains("the broker was not told") && said.contains("member revoke"), "{said}");
    assert!(!alice.directory().exists());
}

#[test]
fn reset_forgets_messages_and_stays_a_member() {
    let mut lab = lab();
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Socket));
    send(&alice, "bob", "one");
    wait_for(&bob, &["one"]);
    let directory = lab.host("bob").directory();
    let key = fs::read(directory.join("keypair.json")).unwrap();
    fs::write(directory.join("mine.txt"), "not yours").unwrap();
    lab.kill_broker();
    let said: Value =
        serde_json::from_str(&lab.host("bob").run(&["daemon", "reset", "--mesh", "lab", "--confirm", "--json"]))
            .unwrap();
    assert_eq!(said["ok"], true);
    lab.host_mut("bob").ended();
    let there = |name: &str| directory.join(name).exists();
    assert!(!there("inbox.db") && !there("outbox.db") && !there("local_token") && !there("daemon.log"));
    assert!(
        there("keypair.json") && there("config.toml") && there("topics.json") && there("hooks") && there("mine.txt")
    );
    assert_eq!(fs::read(directory.join("keypair.json")).unwrap(), key);
    lab.start_broker();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let bob = lab.host("bob").client(Transport::Socket);
    wait_for(&bob, &["one"]);
}

#[test]
fn a_newer_schema_is_refused_with_the_way_out() {
    let lab = Lab::prepare(&Options::of(&["alice"]));
    let alice = lab.host("alice");
    let file: PathBuf = alice.directory().join("schema_version");
    fs::write(&file, "99\n").unwrap();
    let output = alice.try_run(&["daemon", "up", "--foreground", "--mesh", "lab"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let known = lab_schema(&said);
    let expected = format!(
        "cannot open mesh `lab`: `{}` says version 99, this program knows {known}; install the version that wrote it\n  \
         use the version of this program that wrote it, or a later one\n",
        file.display()
    );
    assert!(said.contains(&expected), "{said}\nis not\n{expected}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "99\n", "nothing is changed");
    assert!(!alice.directory().join("outbox.db").exists(), "nothing is opened");
}

/// What claudemesh-cli wrote: its `config.json` in a box under a passphrase.
fn earlier(config: &[u8]) -> Vec<u8> {
    use dryoc::classic::crypto_aead_xchacha20poly1305_ietf::crypto_aead_xchacha20poly1305_ietf_encrypt as encrypt;
    use dryoc::classic::crypto_pwhash::{PasswordHashAlgorithm, crypto_pwhash};
    let (salt, nonce, mut key) = ([3; 16], [4; 24], [0; 32]);
    let (passphrase, algorithm) = (PASSPHRASE.as_bytes(), PasswordHashAlgorithm::Argon2id13);
    crypto_pwhash(&mut key, passphrase, &salt, 2, 64 << 20, algorithm).unwrap();
    let mut sealed = vec![0; config.len() + 16];
    encrypt(&mut sealed, config, None, &nonce, &key).unwrap();
    [&b"CMB1"[..], &salt, &nonce, &sealed].concat()
}

#[test]
fn a_backup_of_claudemesh_cli_is_put_back() {
    let mut lab = lab();
    lab.host_mut("bob").stop();
    let config = fs::read(lab.host("bob").home().join(".claudemesh/config.json")).unwrap();
    let mut several: Value = serde_json::from_slice(&config).unwrap();
    let mut other = several["meshes"][0].clone();
    (other["slug"], other["meshId"]) = (json!("attic"), json!("01hzzzzzzzzzzzzzzzzzzzzzzz"));
    several["meshes"].as_array_mut().unwrap().insert(0, other);
    let path = lab.path().join("bob.cmb");
    fs::write(&path, earlier(several.to_string().as_bytes())).unwrap();
    let mut elsewhere = Host::new("elsewhere", lab.path());
    refused(&restore(&elsewhere, &path, "other words, quite", &[]), "it does not open");
    refused(&restore(&elsewhere, &path, PASSPHRASE, &[]), "the backup holds these meshes: attic, lab");
    refused(&restore(&elsewhere, &path, PASSPHRASE, &["--mesh", "cellar"]), "the backup holds these meshes");
    assert!(!elsewhere.home().join(".claudemesh/config.json").exists(), "nothing was written");
    let said = worked(&restore(&elsewhere, &path, PASSPHRASE, &["--mesh", "lab"]));
    assert!(said.contains("this host is bob in `lab` again\n"), "{said}");
    // Its settings were not in it.
    elsewhere.configure(&format!("[ipc]\ntcp_enabled = true\n{QUICK}"));
    elsewhere.start();
    elsewhere.wait_connected();
    send(&lab.host("alice").client(Transport::Socket), "bob", "welcome back");
    wait_for(&elsewhere.client(Transport::Socket), &["welcome back"]);
    // Only one, and it needs no name; what is here already is in the way.
    fs::write(&path, earlier(&config)).unwrap();
    elsewhere.stop();
    refused(&restore(&elsewhere, &path, PASSPHRASE, &[]), "already has an identity in `lab`");
    worked(&restore(&elsewhere, &path, PASSPHRASE, &["--force"]));
}

/// The version this program knows, as it says so itself.
fn lab_schema(said: &str) -> u32 {
    let digits = said.split("this program knows ").nth(1).expect("it says what it knows");
    digits.split(';').next().unwrap().trim().parse().expect("a number")
}

#[test]
fn version_and_compat_say_what_fits() {
    let lab = Lab::start(&["alice"]);
    for transport in Transport::ALL {
        let alice = lab.host("alice").client(transport);
        let version = alice.get_json("/v1/version");
        assert_eq!((&version["ipc_api"], &version["mesh"]), (&json!("v1"), &json!("lab")));
        for key in ["daemon_version", "ipc_minor", "schema_version", "broker_protocol_min", "broker_protocol_max"] {
            assert!(!version[key].is_null(), "{key} in {version}");
        }
        let features: Vec<&str> =
            version["ipc_features"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for feature in
            ["send", "topics", "inbox", "search", "files", "events_resume", "reload", "rotate_keypair", "hooks"]
        {
            assert!(features.contains(&feature), "{feature} in {features:?}");
        }
        assert!(version["broker_features_negotiated"].as_object().is_some_and(|features| !features.is_empty()));
        let compat = alice.get_json("/v1/compat");
        assert_eq!(compat["daemon"], version["daemon_version"]);
        for key in ["python", "go", "ts"] {
            let range = compat["compatible_sdks"][key].as_str().unwrap();
            assert!(range.starts_with(">=") && range.contains(",<"), "{range}");
        }
        assert!(compat["compatible_brokers"].is_array() && compat["compatible_clis"].is_array());
    }
}

/// Somebody on a host's socket who says this of themselves, and has no topics.
fn pretend(host: &Host, version: &Value) {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    let listener = UnixListener::bind(host.directory().join("sock")).unwrap();
    let version = version.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut first) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if first.is_empty() {
                    line.clone_into(&mut first);
                }
                line.clear();
            }
            let body = if first.contains("/v1/version") { version.as_str() } else { r#"{"topics":[]}"# };
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
            let mut stream = stream;
            stream.write_all((head + body).as_bytes()).ok();
        }
    });
}

/// After an upgrade a daemon of before runs on: who asks it hears so, beside the answer and never in it.
#[test]
fn a_daemon_of_another_version_is_asked_and_that_is_said() {
    let lab = Lab::prepare(&Options::of(&["alice"]));
    let alice = lab.host("alice");
    pretend(alice, &json!({"daemon_version": "0.0.7", "ipc_api": "v1", "mesh": "lab"}));
    for arguments in [&["topics", "--mesh", "lab", "--json"][..], &["topics", "--json"]] {
        let output = alice.try_run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("the daemon of `lab` runs version 0.0.7, this is "), "{said}");
        assert!(said.contains("claudemesh daemon restart --mesh lab"), "{said}");
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), json!([]));
    }
    // Also where there is no other way than through it.
    let output = alice.try_run(&["daemon", "version", "--mesh", "lab", "--json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("runs version 0.0.7"), "{output:?}");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["daemon_version"], "0.0.7");
}

#[test]
fn a_daemon_of_this_version_needs_no_word() {
    let lab = Lab::start(&["alice"]);
    let output = lab.host("alice").try_run(&["topics", "--mesh", "lab", "--json"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_daemon_of_another_major_is_not_asked_and_that_is_said() {
    let lab = Lab::prepare(&Options::of(&["alice"]));
    let alice = lab.host("alice");
    pretend(alice, &json!({"daemon_version": "7.0.0", "ipc_api": "v2", "mesh": "lab"}));
    // Sending goes without it, over a connection of its own.
    let output = alice.try_run(&["send", "--mesh", "lab", "#general", "hello"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("the daemon of `lab` (7.0.0) speaks v2 of the local interface and this program v1"),
        "{said}"
    );
    // What needs a daemon says why it cannot.
    let output = alice.try_run(&["inbox", "--mesh", "lab"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("speaks v2"), "{said}");
}
