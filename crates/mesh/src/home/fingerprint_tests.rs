//! The matrix of machines and records.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

const ID_A: &str = "0123456789abcdef0123456789abcdef";
const ID_B: &str = "fedcba9876543210fedcba9876543210";
const MAC_A: &str = "00:16:3e:00:00:0a";
const MAC_B: &str = "00:16:3e:00:00:0b";

/// A machine made of files.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new(id: Option<&str>, interfaces: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        if let Some(id) = id {
            fs::write(root.path().join("machine-id"), format!("{id}\n")).unwrap();
        }
        for (name, mac) in interfaces {
            let dir = root.path().join("net").join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("address"), format!("{mac}\n")).unwrap();
            fs::write(dir.join("type"), "1\n").unwrap();
        }
        Self { root }
    }

    fn sources(&self) -> Sources {
        let root = self.root.path();
        Sources {
            machine_ids: vec![root.join("machine-id"), root.join("dbus-machine-id")],
            interfaces: root.join("net"),
        }
    }

    fn host(&self) -> Host {
        Host::read(&self.sources())
    }
}

fn host(id: Option<&str>, mac: Option<&str>) -> Host {
    Host { id: id.map(|id| format!("linux:{id}")), macs: mac.map(str::to_owned).into_iter().collect() }
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("host_fingerprint.json")
    }

    fn check(&self, host: &Host, policy: ClonePolicy) -> Verdict {
        check(&self.path(), host, policy, false, 7).unwrap().verdict
    }

    fn recorded(&self) -> Record {
        serde_json::from_slice(&fs::read(self.path()).unwrap()).unwrap()
    }
}

#[test]
fn facts_about_a_machine() {
    let machine = Machine::new(
        Some(ID_A),
        &[
            ("eth1", MAC_B),
            ("eth0", MAC_A),
            ("docker0", "00:16:3e:00:00:01"),
            ("wlan0", "02:16:3e:00:00:02"),
            ("ap0", "00:16:3e:00:00:03"),
            ("zero0", "00:00:00:00:00:00"),
            ("odd0", "00:16:3e"),
        ],
    );
    assert_eq!(machine.host(), Host { id: Some(format!("linux:{ID_A}")), macs: vec![MAC_A.into(), MAC_B.into()] });
    assert_eq!(Machine::new(None, &[]).host(), Host::default());
    assert_eq!(Machine::new(Some("uninitialized"), &[]).host(), Host::default());
    assert_eq!(Machine::new(Some(&"0".repeat(32)), &[]).host(), Host::default());
    // Not ethernet; and an interface that is made of nothing but software.
    let machine = Machine::new(None, &[("ib0", MAC_A)]);
    fs::write(machine.root.path().join("net/ib0/type"), "32\n").unwrap();
    let made = machine.root.path().join("sys/devices/virtual/net/team0");
    fs::create_dir_all(&made).unwrap();
    fs::write(made.join("address"), MAC_B).unwrap();
    fs::write(made.join("type"), "1").unwrap();
    std::os::unix::fs::symlink(&made, machine.root.path().join("net/team0")).unwrap();
    assert_eq!(machine.host(), Host::default());
}

#[test]
fn the_second_place_of_the_id() {
    let machine = Machine::new(None, &[]);
    fs::write(machine.root.path().join("dbus-machine-id"), ID_B).unwrap();
    assert_eq!(machine.host().id, Some(format!("linux:{ID_B}")));
}

#[test]
fn the_sum_is_the_shipped_one() {
    let record = Record::of(format!("linux:{ID_A}"), MAC_A.into());
    let expected = sha256(format!("v2\0linux:{ID_A}\0{MAC_A}").as_bytes());
    assert_eq!(record.fingerprint, encoding::hex(&expected));
}

#[test]
fn the_matrix() {
    let here = host(Some(ID_A), Some(MAC_A));
    let is_clone = |verdict: &Verdict| matches!(verdict, Verdict::Clone { .. });
    for (other, expected) in [
        (host(Some(ID_A), Some(MAC_A)), Some(Verdict::Same)),
        (host(Some(ID_A), Some(MAC_B)), Some(Verdict::Rewritten)),
        (host(Some(ID_A), None), Some(Verdict::Rewritten)),
        (host(Some(ID_B), Some(MAC_A)), None),
        (host(Some(ID_B), Some(MAC_B)), None),
        (host(None, Some(MAC_A)), Some(Verdict::Rewritten)),
        (host(None, Some(MAC_B)), None),
        (host(None, None), Some(Verdict::Unavailable)),
    ] {
        let place = Place::new();
        assert_eq!(place.check(&here, ClonePolicy::Refuse), Verdict::Written);
        let before = place.recorded();
        let verdict = place.check(&other, ClonePolicy::Refuse);
        match expected {
            Some(expected) => assert_eq!(verdict, expected, "{other:?}"),
            None => {
                assert!(is_clone(&verdict), "{other:?}");
                assert_eq!(place.recorded(), before, "a refusal writes nothing");
                // Said to be right, it is right from then on.
                let accepted = check(&place.path(), &other, ClonePolicy::Refuse, true, 8).unwrap();
                assert_eq!(accepted.verdict, Verdict::Accepted);
                assert_eq!(accepted.fingerprint, Some(place.recorded().fingerprint));
                assert_eq!(place.check(&other, ClonePolicy::Refuse), Verdict::Same);
                assert!(is_clone(&place.check(&here, ClonePolicy::Refuse)));
            }
        }
    }
}

#[test]
fn policies() {
    let (here, other) = (host(Some(ID_A), Some(MAC_A)), host(Some(ID_B), Some(MAC_B)));
    for (policy, again_is_same) in
        [(ClonePolicy::Refuse, false), (ClonePolicy::Warn, false), (ClonePolicy::Allow, true)]
    {
        let place = Place::new();
        place.check(&here, policy);
        let Verdict::Clone { recorded, here: found, policy: said } = place.check(&other, policy) else {
            panic!("another machine")
        };
        assert_eq!((recorded.host_id, found.host_id), (format!("linux:{ID_A}"), format!("linux:{ID_B}")));
        assert_eq!(said, policy);
        assert_eq!(place.check(&other, policy) == Verdict::Same, again_is_same);
    }
}

#[test]
fn a_machine_that_says_nothing() {
    let place = Place::new();
    assert_eq!(place.check(&Host::default(), ClonePolicy::Refuse), Verdict::Unavailable);
    assert!(place.recorded().host_id.starts_with("random:"));
    assert_eq!(place.check(&Host::default(), ClonePolicy::Refuse), Verdict::Same);
    let first = place.recorded();
    assert_eq!(place.check(&host(Some(ID_A), None), ClonePolicy::Refuse), Verdict::Rewritten);
    assert_ne!(place.recorded(), first);
}

#[test]
fn a_dongle_changes_nothing() {
    let place = Place::new();
    place.check(&host(None, Some(MAC_B)), ClonePolicy::Refuse);
    let both = Host { id: None, macs: vec![MAC_A.into(), MAC_B.into()] };
    assert_eq!(place.check(&both, ClonePolicy::Refuse), Verdict::Same);
}

#[test]
fn what_is_not_understood_is_left_alone() {
    for text in ["{}", "not json", r#"{"schema_version":3,"fingerprint":"x","host_id":"y","stable_mac":"z"}"#] {
        let place = Place::new();
        fs::write(place.path(), text).unwrap();
        let result = check(&place.path(), &host(Some(ID_A), None), ClonePolicy::Refuse, false, 7).unwrap();
        assert_eq!(result.verdict, Verdict::UnknownSchema);
        assert!(result.fingerprint.is_some());
        assert_eq!(fs::read_to_string(place.path()).unwrap(), text);
    }
}

#[test]
fn accepting_by_hand() {
    let place = Place::new();
    place.check(&host(Some(ID_A), Some(MAC_A)), ClonePolicy::Refuse);
    let other = host(Some(ID_B), Some(MAC_B));
    let prefix = accept(&place.path(), &other, 9).unwrap();
    assert_eq!(prefix.len(), 16);
    assert!(place.recorded().fingerprint.starts_with(&prefix));
    assert_eq!(place.check(&other, ClonePolicy::Refuse), Verdict::Same);
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o600);
}
