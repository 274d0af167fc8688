//! Services under a real systemd: installed, killed, restarted and taken away. Where none can be run that is said.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::fs;
use std::path::Path;

use hostel_tests::claudemesh::Systemd;
use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::Value;

const HOUSE: &str = "hostel.service";
const DAEMON: &str = "claudemesh-daemon-lab.service";

fn json(systemd: &Systemd, words: &[&str]) -> Value {
    let printed = systemd.hostel(&[&["--json"], words].concat());
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{words:?}: {error}: {printed}"))
}

/// The keeper, and a process it keeps.
fn kept(systemd: &Systemd) -> (Option<i64>, Option<i64>) {
    let list = json(systemd, &["ps"]);
    let rows = list["processes"].as_array().or(list.as_array()).expect("a list");
    let process = rows.iter().find(|row| row["name"] == "long" && row["state"] == "running");
    let keeper = json(systemd, &["keeper", "status"])["keepers"][0]["keeper"]["pid"].as_i64();
    (keeper, process.and_then(|row| row["pid"].as_i64()))
}

/// The process of a unit, once it is another one than before.
fn another(systemd: &Systemd, unit: &str, before: i32) -> i32 {
    wait::eventually("the unit to come back", || systemd.main_pid(unit).filter(|pid| *pid != before))
}

fn kill(pid: i32) {
    Identity::of(pid).expect("it runs").signal(Signal::KILL);
}

fn word(systemd: &Systemd, question: &str, unit: &str) -> String {
    String::from_utf8_lossy(&systemd.systemctl(&[question, unit]).stdout).trim().to_owned()
}

#[test]
fn a_house_and_a_daemon_live_through_a_real_systemd() {
    let Some(systemd) = Systemd::start(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    fs::create_dir(systemd.path().join("house")).unwrap();
    let config = "[doors.codecast]\nenabled = false\n[mesh]\nbroker = false\n";
    fs::write(systemd.path().join("house/hostel.toml"), config).unwrap();
    for unit in [HOUSE, DAEMON] {
        systemd.hasten(unit);
    }
    the_house(&systemd);
    a_daemon(&systemd);
    let before = kept(&systemd);
    systemd.hostel(&["service", "uninstall"]);
    assert!(!systemd.units().join(HOUSE).exists());
    assert_eq!(systemd.main_pid(HOUSE), None);
    systemd.hostel(&["up"]);
    assert_eq!(kept(&systemd), before, "what the house keeps runs on without the service");
    systemd.hostel(&["down"]);
    let keeper = i32::try_from(before.0.unwrap()).unwrap();
    wait::eventually("the keeper to be gone", || Identity::of(keeper).is_none_or(|one| !one.alive()));
}

fn the_house(systemd: &Systemd) {
    let installed = json(systemd, &["service", "install"]);
    assert_eq!((&installed["started"], &installed["cannot_start"]), (&Value::Bool(true), &Value::Null), "{installed}");
    assert_eq!((word(systemd, "is-active", HOUSE), word(systemd, "is-enabled", HOUSE)), words("active", "enabled"));
    systemd.hostel(&["run", "-d", "--name", "long", "--", "sleep", "600"]);
    let before = kept(systemd);
    assert!(before.0.is_some() && before.1.is_some(), "{before:?}");
    // The keeper is in the service's control group, as it was started by it: what ends is the daemon alone.
    let group = fs::read_to_string(format!("/proc/{}/cgroup", before.0.unwrap())).unwrap();
    assert!(group.contains("hostel.service"), "{group}");

    let daemon = systemd.main_pid(HOUSE).unwrap();
    kill(daemon);
    let daemon = another(systemd, HOUSE, daemon);
    systemd.hostel(&["up"]);
    assert_eq!(kept(systemd), before, "killed");

    let restarted = systemd.systemctl(&["restart", HOUSE]);
    assert!(restarted.status.success(), "{restarted:?}");
    another(systemd, HOUSE, daemon);
    systemd.hostel(&["up"]);
    assert_eq!(kept(systemd), before, "restarted");
    let status = json(systemd, &["service", "status"]);
    assert_eq!((&status["active"], &status["enabled"]), (&Value::from("active"), &Value::from("enabled")), "{status}");
}

fn a_daemon(systemd: &Systemd) {
    systemd.hostel(&["broker", "up"]);
    systemd.hostel(&["mesh", "create", "lab", "--name", "box", "--no-start"]);
    systemd.hostel(&["mesh", "daemon", "install-service"]);
    assert_eq!((word(systemd, "is-active", DAEMON), word(systemd, "is-enabled", DAEMON)), words("active", "enabled"));
    let connected = || {
        wait::eventually("the daemon to be connected", || {
            let output = systemd.try_hostel(&["--json", "mesh", "daemon", "status", "--mesh", "lab"]);
            let status: Value = serde_json::from_slice(&output.stdout).ok()?;
            status["pid"].as_i64().filter(|_| status["health"]["connected"] == true)
        })
    };
    let daemon = systemd.main_pid(DAEMON).unwrap();
    assert_eq!(connected(), i64::from(daemon), "the service is the daemon");
    kill(daemon);
    let daemon = another(systemd, DAEMON, daemon);
    assert_eq!(connected(), i64::from(daemon));
    // What it may not write to, it cannot.
    let mounts = fs::read_to_string(format!("/proc/{daemon}/mountinfo")).unwrap();
    let of = |place: &str| mounts.lines().any(|line| line.split(' ').nth(4) == Some(place));
    assert!(of("/tmp"), "a /tmp of its own: {mounts}");
    systemd.hostel(&["mesh", "daemon", "uninstall-service"]);
    assert!(!systemd.units().join(DAEMON).exists());
    assert_eq!(systemd.main_pid(DAEMON), None);
    wait::eventually("the daemon to be gone", || Identity::of(daemon).is_none_or(|one| !one.alive()));
    systemd.hostel(&["broker", "down"]);
}

fn words(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}
