//! Several mesh daemons of one user: caps with clear errors, shares of a budget, the table, logs that are followed through
//! every turn, restarts that lose nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};

use hostel_tests::claudemesh::{Lab, Options, Supervised};
use hostel_tests::{binary, wait};
use serde_json::Value;

/// A home with a broker and these meshes, whose daemons are not up.
fn joined(meshes: &[&str]) -> Supervised {
    let home = Supervised::new();
    let output = home.hostel(&["broker", "up"]);
    assert!(output.status.success(), "{output:?}");
    for mesh in meshes {
        home.good(&["create", mesh, "--name", "box", "--no-start"]);
    }
    home
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn row(rows: &Value, mesh: &str) -> Value {
    rows.as_array().unwrap().iter().find(|row| row["mesh"] == mesh).cloned().unwrap_or_default()
}

#[test]
fn no_more_daemons_run_than_the_cap_says() {
    let home = joined(&["a", "b", "c"]);
    let config = home.home().join(".claudemesh/daemon/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[fleet]\nmax_daemons = 2\ntotal_memory_budget = \"400MB\"\n").unwrap();

    let output = home.claudemesh(&["--json", "daemon", "up", "--all"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&row(&rows, "a")["ok"], &row(&rows, "b")["ok"]), (&Value::Bool(true), &Value::Bool(true)), "{rows}");
    assert_eq!(row(&rows, "c")["error"], "fleet_full");

    // By whatever way: the message names the cap and the file.
    for words in [&["daemon", "up", "--mesh", "c"][..], &["daemon", "up", "--mesh", "c", "--foreground"]] {
        let output = home.claudemesh(words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = said(&output);
        assert!(text.contains("max_daemons = 2") && text.contains(config.to_str().unwrap()), "{text}");
    }

    // Each has its share of the memory: two of three meshes may run.
    let status = home.json(&["daemon", "ps"]);
    for mesh in ["a", "b"] {
        let row = row(&status, mesh);
        assert_eq!((&row["running"], &row["state"]), (&Value::Bool(true), &row["state"]), "{row}");
        for key in ["pid", "connected", "queue", "uptime_s", "socket"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
        let limits = fs::read_to_string(format!("/proc/{}/limits", row["pid"])).unwrap();
        let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
        assert!(data.contains(" 200000000 "), "{data}");
    }
    assert_eq!(row(&status, "c")["running"], false);
    assert_eq!(row(&status, "c")["last_exit"]["error"], "fleet_full");

    // A stopped one makes room; a raised cap does too.
    home.good(&["daemon", "down", "--mesh", "a"]);
    home.good(&["daemon", "up", "--mesh", "c"]);
    fs::write(&config, "[fleet]\nmax_daemons = 3\n").unwrap();
    home.good(&["daemon", "up", "--mesh", "a"]);
    let table = home.good(&["daemon", "ps"]);
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["MESH", "STATE", "PID", "CONNECTED", "QUEUE", "LAG", "UPTIME"]);
    assert_eq!(table.lines().count(), 4, "{table}");

    // A file with a mistake keeps nothing from running, and lets nothing start.
    fs::write(&config, "[fleet]\nmax_daemons = many\n").unwrap();
    assert_eq!(home.json(&["daemon", "ps"]).as_array().unwrap().len(), 3);
    home.good(&["daemon", "down", "--mesh", "a"]);
    let output = home.claudemesh(&["daemon", "up", "--mesh", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("config.toml: line 2"), "{output:?}");
    fs::write(&config, "[fleet]\ntotal_memory_budget = \"64MB\"\n").unwrap();
    let output = home.claudemesh(&["daemon", "up", "--mesh", "a"]);
    assert!(said(&output).contains("total_memory_budget"), "{output:?}");
    home.good(&["daemon", "down", "--all"]);
    assert_eq!(home.claudemesh(&["daemon", "ps"]).status.code(), Some(1));
}

#[test]
fn a_restart_loses_neither_messages_nor_flags() {
    let home = joined(&["a", "b"]);
    home.good(&["daemon", "up", "--mesh", "a", "--no-tcp", "--public-health"]);
    home.good(&["daemon", "up", "--mesh", "b"]);
    // A daemon that was never connected knows no topic.
    wait::eventually("both to be connected", || {
        let rows = home.json(&["daemon", "ps"]);
        let all = rows.as_array().is_some_and(|rows| rows.iter().all(|row| row["connected"] == true));
        if all { Ok(()) } else { Err(rows) }
    });
    let output = home.hostel(&["broker", "down"]);
    assert!(output.status.success(), "{output:?}");
    for mesh in ["a", "b"] {
        for number in 0..5 {
            home.good(&["post", "general", &format!("message {number}"), "--mesh", mesh]);
        }
    }
    let waiting = |mesh: &str| {
        home.json(&["daemon", "outbox", "--pending", "--mesh", mesh])["items"].as_array().map_or(0, Vec::len)
            + home.json(&["daemon", "outbox", "--inflight", "--mesh", mesh])["items"].as_array().map_or(0, Vec::len)
    };
    let pids = |home: &Supervised| -> Vec<u64> {
        ["a", "b"]
            .iter()
            .map(|mesh| home.json(&["daemon", "status", "--mesh", mesh])["pid"].as_u64().unwrap())
            .collect()
    };
    assert_eq!((waiting("a"), waiting("b")), (5, 5));
    let before = pids(&home);
    let rows = home.json(&["daemon", "restart", "--all"]);
    assert!(rows.as_array().unwrap().iter().all(|row| row["ok"] == true), "{rows}");
    assert!(pids(&home).iter().zip(&before).all(|(now, then)| now != then));
    assert_eq!((waiting("a"), waiting("b")), (5, 5));
    let flags: Value = serde_json::from_slice(&fs::read(home.mesh("a").join("started_with")).unwrap()).unwrap();
    assert_eq!((&flags["no_tcp"], &flags["public_health"]), (&Value::Bool(true), &Value::Bool(true)));
    assert!(!home.mesh("a").join("http.port").exists());
    let output = home.hostel(&["broker", "up"]);
    assert!(output.status.success(), "{output:?}");
    wait::until_true(wait::LIMIT * 3, "everything to be sent", || waiting("a") + waiting("b") == 0);
}

#[test]
fn a_log_is_followed_through_every_turn() {
    let home = joined(&["lab"]);
    home.good(&["daemon", "up"]);
    home.good(&["daemon", "down"]);
    let log = home.mesh("lab").join("daemon.log");
    fs::write(&log, "").unwrap();
    let mut command = home.command(binary::hostel());
    command.args(["as", "claudemesh", "daemon", "logs", "-f"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // A writer that turns its file over as the daemon does, after every tenth line.
    let write = |number: usize| {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&log).unwrap();
        writeln!(file, "{{\"n\":{number}}}").unwrap();
        if number % 10 == 9 {
            fs::rename(&log, home.mesh("lab").join("daemon.log.1")).unwrap();
            fs::write(&log, "").unwrap();
        }
    };
    // Never more than one turn ahead of the reader, so that nothing is gone before it can be read.
    let mut next = 0;
    for count in [1, 3, 5, 7, 10, 4].into_iter().cycle().take(30) {
        (next..next + count).for_each(write);
        for number in next..next + count {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(line["n"], number);
        }
        next += count;
    }
    child.kill().unwrap();
    child.wait().unwrap();

    // And the daemon itself keeps to its bound.
    fs::write(home.mesh("lab").join("config.toml"), "[daemon]\nlog_max_bytes = \"64KiB\"\n").unwrap();
    fs::write(&log, "{\"msg\":\"old\"}\n".repeat(2600)).unwrap();
    home.good(&["daemon", "up"]);
    let older = fs::read_to_string(home.mesh("lab").join("daemon.log.1")).unwrap();
    assert!(older.starts_with("{\"msg\":\"old\"}"));
    let newest = fs::read_to_string(&log).unwrap();
    assert!(newest.contains("daemon_started") && !newest.contains("\"old\""), "{newest}");
    for line in newest.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["level"].is_string() && line["msg"].is_string() && !line["ts"].is_null(), "{line}");
    }
}

#[test]
fn a_revoked_daemon_is_shown_as_one() {
    let mut lab = Lab::start_with(&Options::of(&["alice", "bob"]));
    let key = lab.host("bob").member("pubkey");
    lab.host("alice").run(&["member", "revoke", &key]);
    assert_eq!(lab.host_mut("bob").ended().code(), Some(78));
    let output = lab.host("bob").try_run(&["--json", "daemon", "status"]);
    assert_eq!(output.status.code(), Some(1));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["state"], "revoked", "{rows}");
    assert_eq!((&rows[0]["last_exit"]["exit"], &rows[0]["last_exit"]["error"]), (&78.into(), &"member_revoked".into()));
    let table = lab.host("bob").try_run(&["daemon", "ps"]);
    assert!(said(&table).contains("revoked"), "{table:?}");
}
