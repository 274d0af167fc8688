//! The life of a mesh daemon and of the broker: started once, found by handshake, ended in order, and never a copy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::common;
use crate::mesh_common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;

use common::finish;
use common::own_port;
use common::send;
use common::wait_until;
use mesh_common::Host;
use serde_json::Value;

fn mode(path: impl AsRef<Path>) -> u32 {
    let path = path.as_ref();
    std::fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

#[test]
fn its_files_have_the_contracts_modes() {
    let alice = Host::new();
    let dir = alice.dir("lab");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), "[ipc]\ntcp_enabled = true\n").unwrap();
    alice.create("lab", "alice");
    for (file, expected) in [
        ("pid", 0o600),
        ("sock", 0o600),
        ("http.port", 0o644),
        ("local_token", 0o600),
        ("keypair.json", 0o600),
        ("host_fingerprint.json", 0o600),
        ("outbox.db", 0o600),
        ("inbox.db", 0o600),
        ("schema_version", 0o644),
        ("daemon.log", 0o644),
        ("hooks", 0o700),
        (".", 0o700),
    ] {
        assert_eq!(mode(dir.join(file)), expected, "{file}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("config.toml")).unwrap(), "[ipc]\ntcp_enabled = true\n");
    assert_eq!((mode(alice.meshes()), mode(alice.meshes().join("config.json"))), (0o700, 0o600));
    let link = alice.meshes().join("daemon/daemon.sock");
    assert_eq!(std::fs::read_link(&link).unwrap(), PathBuf::from("lab/sock"));
    let broker = alice.house.home().join("broker");
    for (file, expected) in
        [(".", 0o700), ("pid", 0o600), ("port", 0o644), ("admin_token", 0o600), ("broker.db", 0o600), ("blobs", 0o700)]
    {
        assert_eq!(mode(broker.join(file)), expected, "broker/{file}");
    }
    let first: Value = {
        let log = std::fs::read_to_string(dir.join("daemon.log")).unwrap();
        serde_json::from_str(log.lines().find(|line| line.contains("daemon_started")).unwrap()).unwrap()
    };
    assert_eq!((&first["level"], &first["meshes"][0]), (&"info".into(), &"lab".into()));
    assert!(first["ts"].is_string() && first["pid"].is_u64());
    // The caps hold: descriptors by number, memory by its data segment.
    let pid = alice.daemon_pid("lab");
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("Max open files").contains("1024"), "{limits}");
    assert!(line("Max data size").contains("268435456"), "{limits}");
    alice.good(["daemon", "down"]);
    for gone in ["pid", "sock", "http.port"] {
        assert!(!dir.join(gone).exists(), "{gone}");
    }
    assert!(link.symlink_metadata().is_err());
}

#[test]
fn there_is_one_daemon_and_its_verbs_say_so() {
    let alice = Host::new();
    alice.create("lab", "alice");
    let pid = alice.daemon_pid("lab");
    let outcome = alice.claudemesh(["daemon", "up"]);
    assert_eq!((outcome.code, outcome.err), (1, format!("daemon already running (pid {pid})\n")));
    let outcome = alice.claudemesh(["daemon", "up", "--foreground"]);
    assert_eq!((outcome.code, outcome.err), (1, format!("daemon already running (pid {pid})\n")));
    let text = alice.good(["daemon", "status", "--mesh", "lab"]);
    let socket = alice.dir("lab").join("sock");
    assert!(text.starts_with(&format!("daemon: running (pid {pid})\nsocket: {}\n", socket.display())), "{text}");
    let rows = alice.json(["daemon", "ps"]);
    assert_eq!((&rows[0]["mesh"], &rows[0]["running"]), (&"lab".into(), &true.into()));
    assert!(alice.good(["daemon", "status"]).starts_with("MESH  STATE"));
    let version = alice.good(["daemon", "version"]);
    assert!(version.starts_with(&format!("daemon {} (ipc v1, schema ", env!("CARGO_PKG_VERSION"))), "{version}");
    assert_eq!(alice.json(["daemon", "version"])["mesh"], "lab");
    assert_eq!(alice.good(["daemon", "outbox", "list", "--failed"]), "(empty)\n");
    assert_eq!(alice.claudemesh(["daemon", "outbox", "prune"]).code, 3);
    assert_eq!(alice.claudemesh(["daemon", "outbox", "requeue", "nothing"]).code, 1);
    let token = std::fs::read_to_string(alice.dir("lab").join("local_token")).unwrap();
    assert_eq!(token.len(), 44);
    alice.good(["daemon", "rotate-token"]);
    assert_ne!(std::fs::read_to_string(alice.dir("lab").join("local_token")).unwrap(), token);
    assert!(alice.good(["daemon", "logs"]).contains("daemon_started"));
    let outcome = alice.claudemesh(["daemon", "restart"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let again = alice.daemon_pid("lab");
    assert_ne!(again, pid);
    let stopped = alice.json(["daemon", "stop"]);
    assert_eq!((&stopped["stopped"], stopped["pid"].to_string()), (&true.into(), again));
    assert_eq!(alice.good(["daemon", "down"]), "daemon: not running\n");
    let token = std::fs::read_to_string(alice.dir("lab").join("local_token")).unwrap();
    alice.good(["daemon", "rotate-token"]);
    assert_ne!(std::fs::read_to_string(alice.dir("lab").join("local_token")).unwrap(), token);
}

#[test]
fn a_crash_leaves_nothing_in_the_way() {
    let alice = Host::new();
    alice.create("lab", "alice");
    let pid = alice.daemon_pid("lab");
    send("KILL", &pid);
    wait_until("nobody answers", || alice.claudemesh(["daemon", "status"]), |status| status.code == 1);
    assert!(alice.dir("lab").join("sock").exists(), "a stale socket is what this test is about");
    alice.good(["daemon", "up"]);
    assert_ne!(alice.daemon_pid("lab"), pid);
    // Somebody who accepts and says nothing, or serves another mesh, is not our daemon.
    alice.good(["daemon", "down"]);
    let silent = UnixListener::bind(alice.dir("lab").join("sock")).unwrap();
    assert_eq!(alice.claudemesh(["daemon", "status", "--mesh", "lab"]).code, 1);
    drop(silent);
    alice.good(["daemon", "up"]);
}

#[test]
fn a_copy_of_another_host_is_refused() {
    let alice = Host::new();
    alice.create("lab", "alice");
    alice.good(["daemon", "down"]);
    let file = alice.dir("lab").join("host_fingerprint.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    record["host_id"] = "linux:another".into();
    record["stable_mac"] = "00:16:3e:00:00:01".into();
    record["fingerprint"] = "ab".repeat(32).into();
    std::fs::write(&file, record.to_string()).unwrap();
    for words in [&["daemon", "up"][..], &["daemon", "up", "--foreground"]] {
        let outcome = alice.claudemesh(words);
        assert_eq!(outcome.code, 4, "{outcome:?}");
        assert!(outcome.err.contains("recorded linux:another, here "), "{outcome:?}");
        assert!(outcome.err.contains("--remint") && outcome.err.contains("--accept-cloned-identity"), "{outcome:?}");
    }
    assert_eq!(alice.house.hostel(["mesh", "daemon", "up"]).code, 4);
    alice.good(["daemon", "up", "--accept-cloned-identity"]);
    alice.good(["daemon", "down"]);
    alice.good(["daemon", "up"]);
    alice.good(["daemon", "down"]);
    std::fs::write(&file, record.to_string()).unwrap();
    let accepted = alice.good(["daemon", "accept-host"]);
    assert_eq!(accepted.trim_end().strip_prefix("host fingerprint accepted: ").unwrap().len(), 16);
    alice.good(["daemon", "up"]);
    alice.good(["daemon", "down"]);
    // The other way out: a new identity, and the old one retires.
    let before = alice.json(["list"])[0]["memberId"].clone();
    std::fs::write(&file, record.to_string()).unwrap();
    alice.good(["daemon", "up", "--remint"]);
    alice.wait_connected("lab");
    assert_ne!(alice.json(["list"])[0]["memberId"], before);
}

#[test]
fn in_the_foreground_it_says_one_line_and_ends_with_its_signal() {
    let alice = Host::new();
    alice.create("lab", "alice");
    alice.good(["daemon", "down"]);
    let mut child = alice
        .command()
        .args(["--json", "daemon", "up", "--foreground", "--mesh", "lab"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&told["ok"], &told["detached"], &told["mesh"]), (&true.into(), &false.into(), &"lab".into()));
    assert_eq!(told["pid"], child.id());
    alice.wait_connected("lab");
    send("TERM", &child.id().to_string());
    assert_eq!(finish(child).code, 0);
    let mut child = alice.command().args(["broker", "up", "--foreground"]).spawn().unwrap();
    let outcome = {
        // The broker of `create` still runs.
        let outcome = finish(child);
        assert_eq!(outcome.code, 1, "{outcome:?}");
        outcome
    };
    assert!(outcome.err.starts_with("broker already running (pid "), "{outcome:?}");
    let port = std::fs::read_to_string(alice.house.home().join("broker/port")).unwrap();
    assert!(alice.good(["broker", "down"]).starts_with("broker: stopped (was pid "));
    child = alice.command().args(["--json", "broker", "up", "--foreground"]).stderr(Stdio::null()).spawn().unwrap();
    line.clear();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["port"].to_string(), port.trim());
    assert_eq!(told["url"], format!("ws://127.0.0.1:{}/ws", port.trim()));
    send("TERM", &child.id().to_string());
    assert_eq!(finish(child).code, 0);
}

#[test]
fn an_ephemeral_daemon_leaves_nothing_behind() {
    let alice = Host::new();
    alice.create("lab", "alice");
    alice.good(["daemon", "down"]);
    let before: Vec<PathBuf> =
        std::fs::read_dir(alice.dir("lab")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut child = alice
        .command()
        .args(["--json", "daemon", "up", "--foreground", "--ephemeral", "--name", "passer-by"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&told["ephemeral"], &told["http_port"]), (&true.into(), &Value::Null));
    alice.wait_connected("lab");
    assert!(alice.good(["peers", "--all"]).contains("passer-by"));
    let after: Vec<PathBuf> = std::fs::read_dir(alice.dir("lab")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(before.len(), after.len(), "{after:?}");
    assert!(alice.good(["daemon", "down"]).starts_with("daemon: stopped"));
    assert_eq!(finish(child).code, 0);
    alice.good(["daemon", "up"]);
    alice.wait_connected("lab");
    let members = alice.json(["member", "list"]);
    let passer = members.as_array().unwrap().iter().find(|member| member["displayName"] == "passer-by");
    assert!(passer.is_none_or(|member| member["left"] == true), "{members}");
    alice.good(["daemon", "down"]);
    let outcome =
        finish(alice.command().args(["daemon", "up", "--foreground", "--ephemeral", "--ttl", "1s"]).spawn().unwrap());
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn the_house_starts_them_they_outlive_it_and_end_with_it() {
    let alice = Host::new();
    alice.create("lab", "alice");
    alice.good(["daemon", "down"]);
    alice.good(["broker", "down"]);
    let up = alice.house.json(["--json", "up"]);
    let names: Vec<&str> = up["mesh"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["broker", "mesh lab"], "{up}");
    alice.wait_connected("lab");
    let (daemon, broker) = (alice.daemon_pid("lab"), alice.json(["broker", "status"])["pid"].clone());
    alice.house.crash();
    assert_eq!(alice.daemon_pid("lab"), daemon);
    let again = alice.house.json(["--json", "up"]);
    assert!(again["mesh"].as_array().unwrap().iter().all(|row| row["already"] == true), "{again}");
    assert_eq!((alice.daemon_pid("lab"), &alice.json(["broker", "status"])["pid"]), (daemon, &broker));
    let doctor = alice.house.hostel(["doctor"]);
    assert!(doctor.out.contains("lab: connected"), "{doctor:?}");
    let kept = alice.house.hostel(["down", "--keep"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    alice.wait_connected("lab");
    let down = alice.house.hostel(["down"]);
    assert_eq!(down.code, 0, "{down:?}");
    assert!(down.out.contains("1 mesh daemon ended"), "{down:?}");
    assert_eq!(alice.claudemesh(["daemon", "status"]).code, 1);
    assert_eq!(alice.claudemesh(["broker", "status"]).code, 1);
    let off = alice.house.json(["--json", "up", "--set", "mesh.broker=false", "--set", "mesh.daemons=false"]);
    assert_eq!(off["mesh"].as_array().unwrap().len(), 0, "{off}");
}

#[test]
fn a_mesh_for_several_machines_speaks_tls_and_its_certificate_is_in_the_invite() {
    let (alice, bob) = (Host::new(), Host::new());
    // Any address that is not loopback's own name will do: here 0.0.0.0, reached through loopback.
    let free = own_port();
    let listen = format!("0.0.0.0:{free}");
    let url = format!("wss://127.0.0.1:{free}/ws");
    let made = alice.json(["create", "lab", "--name", "alice", "--listen", &listen, "--url", &url]);
    assert_eq!((&made["thisMachineOnly"], &made["brokerUrl"]), (&false.into(), &url.as_str().into()));
    let invite = made["invite"].as_str().unwrap();
    assert!(invite.contains("&cert="), "{invite}");
    let joined = bob.join(invite, "bob");
    assert_eq!(joined["brokerUrl"], url.as_str());
    alice.wait_connected("lab");
    bob.wait_connected("lab");
    bob.good(["send", "alice", "over TLS"]);
    alice.wait_received("over TLS");
    // Another certificate is another broker.
    let (link, cert) = alice.json(["invite", "create"])["invite"]
        .as_str()
        .unwrap()
        .rsplit_once("&cert=")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let forged =
        format!("{link}&cert={}", cert.chars().map(|digit| if digit == '0' { '1' } else { '0' }).collect::<String>());
    let carol = Host::new();
    let outcome = carol.claudemesh(["join", &forged]);
    assert_ne!(outcome.code, 0, "{outcome:?}");
    assert_eq!(mode(alice.house.home().join("broker/key.pem")), 0o600);
}
