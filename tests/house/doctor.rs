//! `hostel doctor` on an installation where something is wrong: each thing is found, said, and comes with what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::claudemesh::Supervised;
use serde_json::Value;

fn report(home: &Supervised) -> Value {
    let output = home.hostel(&["--json", "doctor"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(output.status.success(), report["ok"] == true, "{output:?}");
    report
}

/// The findings of a check with these words.
fn find<'a>(report: &'a Value, check: &str, words: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["check"] == check && finding["text"].as_str().unwrap().contains(words)).collect()
}

fn expect(report: &Value, check: &str, words: &str, verdict: &str) {
    let found = find(report, check, words);
    assert!(found.iter().any(|finding| finding["verdict"] == verdict), "{check}: {words}: {verdict}\n{report:#}");
    assert!(verdict == "good" || found.iter().all(|finding| finding["hint"].is_string()), "{found:?}");
}

#[test]
fn each_thing_that_is_wrong_is_found() {
    let home = Supervised::new();
    assert!(home.hostel(&["broker", "up"]).status.success());
    home.good(&["create", "lab", "--name", "box"]);
    assert!(home.hostel(&["up"]).status.success());
    let fine = report(&home);
    assert_eq!(fine["ok"], true, "{fine:#}");
    for (check, words) in [
        ("clock", "plausible"),
        ("daemon", "answers"),
        ("keeper", "answers"),
        ("broker", "answers on"),
        ("mesh", "lab: connected"),
        ("fleet", "1 of at most 10"),
        ("service", "none is installed"),
    ] {
        expect(&fine, check, words, "good");
    }
    assert!(!find(&fine, "mesh space", "left").is_empty());

    let mesh = home.mesh("lab");
    let mode = |name: &str, mode: u32| fs::set_permissions(mesh.join(name), fs::Permissions::from_mode(mode)).unwrap();
    mode("local_token", 0o644);
    mode("sock", 0o666);
    fs::write(mesh.join("keypair-archive.json"), "not json").unwrap();
    mode("keypair-archive.json", 0o600);
    fs::write(mesh.join("hooks/on-message"), "#!/bin/sh\n").unwrap();
    fs::write(mesh.join("config.toml"), "[ipc]\nmax_sse = \"many\"\n").unwrap();
    fs::write(home.home().join(".claudemesh/daemon/config.toml"), "[fleet]\nmax_daemons = 0\n").unwrap();
    let log = fs::File::options().append(true).open(mesh.join("inbox.db")).unwrap();
    log.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600)).unwrap();
    let broken = report(&home);
    assert_eq!(broken["ok"], false);
    for (check, words, verdict) in [
        ("files", "local_token is open to others", "bad"),
        ("files", "sock is open to others", "bad"),
        ("keys", "keypair-archive.json cannot be read", "warning"),
        ("hooks", "lab: none is run", "warning"),
        ("configuration", "config.toml: line 2", "bad"),
        ("fleet", "line 2", "bad"),
        ("clock", "in the future", "warning"),
    ] {
        expect(&broken, check, words, verdict);
    }
    // For people: one line each, with what to do after it.
    let text = String::from_utf8(home.hostel(&["doctor"]).stdout).unwrap();
    let line = text.lines().find(|line| line.contains("local_token")).unwrap();
    assert!(line.starts_with("bad") && line.contains("chmod 600"), "{line}");

    fs::remove_file(home.home().join(".claudemesh/daemon/config.toml")).unwrap();
    fs::remove_file(mesh.join("config.toml")).unwrap();
    home.good(&["daemon", "down"]);
    expect(&report(&home), "mesh", "lab: its daemon is not up", "warning");
    assert!(home.hostel(&["broker", "down"]).status.success());
    expect(&report(&home), "broker", "is not up", "warning");
}
