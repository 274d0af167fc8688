//! Settings read again while a daemon runs: what counts at once, what waits for a restart, and a file with a mistake.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use std::fs;

use hostel_tests::claudemesh::{Client, Host, Lab, Transport};
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

const TCP: &str = "[ipc]\ntcp_enabled = true\n";

fn reload(client: &Client) -> Value {
    let answer = client.post("/v1/reload", &json!({}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn log(host: &Host) -> String {
    fs::read_to_string(host.directory().join("daemon.log")).unwrap_or_default()
}

/// How often the connection to the broker was made.
fn connections(host: &Host) -> usize {
    log(host).lines().filter(|line| line.contains("\"broker_status\"") && line.contains("\"open\"")).count()
}

#[test]
fn what_is_changed_counts_at_once_and_the_connection_stays() {
    let lab = Lab::start(&["alice", "bob"]);
    let host = lab.host("alice");
    let [socket, tcp] = Transport::ALL.map(|transport| host.client(transport));
    let before =
        wait::until(wait::LIMIT, "the connection in the log", || Some(connections(host)).filter(|count| *count > 0));
    assert_eq!(reload(&socket)["changed"], json!([]), "nothing was changed");
    host.configure(
        "[daemon]\nlog_level = \"debug\"\n[ipc]\ntcp_enabled = true\nmax_sse = 1\nmax_body_bytes = 2048\n\
         public_health_check = true\nrate_burst = 50\nrate_per_s = 1\n[outbox]\nmax_queue_size = 2\n\
         [inbox]\nretention_days = 1\n[reconnect]\nmax_backoff_ms = 700\n",
    );
    let told = reload(&tcp);
    assert_eq!(told["changed"], json!(["daemon", "ipc", "outbox", "inbox", "reconnect"]), "{told}");
    assert_eq!(told["restart_needed"], json!([]));
    // The door: one stream, short bodies, a health for everybody, a small bucket.
    let stream = socket.events("", &[]);
    let answer = socket.get("/v1/events");
    assert_eq!((answer.status, &answer.json()["error"]), (429, &json!("too_many_streams")));
    drop(stream);
    let long = json!({"to": "bob", "message": "x".repeat(4096)});
    assert_eq!(socket.post("/v1/send", &long).status, 413);
    let mut stranger = tcp.clone();
    stranger.token = "nobody".to_owned();
    assert_eq!(stranger.get("/v1/health").status, 200);
    assert_eq!(stranger.get("/v1/inbox").status, 401);
    // However slow this machine is: one in a second comes back to the bucket.
    wait::until_true(wait::LIMIT, "the bucket to be empty", || (0..60).any(|_| tcp.get("/v1/version").status == 429));
    // The log.
    assert!(!log(host).is_empty());
    // Back to what it was, over the signal.
    host.configure(TCP);
    host.identity().signal(Signal::HUP);
    wait::until_true(wait::LIMIT, "the signal to be heard", || log(host).matches("config_reloaded").count() >= 3);
    assert_eq!(socket.post("/v1/send", &long).status, 202);
    assert_eq!(stranger.get("/v1/health").status, 401);
    assert_eq!(socket.get_json("/v1/health")["connected"], true);
    assert_eq!(connections(host), before, "the connection was never made again");
    assert!(!log(host).contains("daemon_disconnect"));
}

#[test]
fn the_outbox_and_the_waits_follow() {
    let mut lab = Lab::start(&["alice", "bob"]);
    lab.kill_broker();
    let host = lab.host("alice");
    let alice = host.client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the broker to be missed", || alice.get_json("/v1/health")["connected"] == false);
    let send = |id: &str| alice.post("/v1/send", &json!({"to": "bob", "message": "x", "client_message_id": id})).status;
    for id in ["1", "2", "3"] {
        assert_eq!(send(id), 202);
    }
    host.configure(&format!("{TCP}[outbox]\nmax_queue_size = 3\n"));
    reload(&alice);
    assert_eq!(send("4"), 507, "three are the most now");
    assert_eq!(alice.get_json("/v1/health")["state"], "degraded");
    // Waits between two tries are long by now; whoever makes them short does not wait for the long one.
    host.configure(&format!("{TCP}[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 100\n"));
    lab.start_broker();
    let host = lab.host("alice");
    reload(&host.client(Transport::Socket));
    assert_eq!(host.client(Transport::Socket).post("/v1/send", &json!({"to": "bob", "message": "x"})).status, 202);
    host.wait_connected();
}

#[test]
fn a_file_with_a_mistake_changes_nothing_and_names_it() {
    let lab = Lab::start(&["alice"]);
    let host = lab.host("alice");
    let alice = host.client(Transport::Socket);
    host.configure(&format!("{TCP}max_sse = 1\n"));
    reload(&alice);
    let file = host.directory().join("config.toml");
    let file = file.display();
    for (text, said) in [
        (
            format!("{TCP}max_sse = 5\n[reconnect]\njitter_pct = 500\n"),
            format!("{file}: line 5: `reconnect.jitter_pct` must be a number from 0 to 100"),
        ),
        (format!("{TCP}max_sse = \"many\"\n"), format!("{file}: line 3: `ipc.max_sse` must be")),
        (format!("{TCP}max_sse = 5\n[outbox\n"), format!("{file}: line 4: ")),
        (
            format!("{TCP}max_sse = 5\n[outbox]\nmax_age_hours = 5000\n"),
            format!("{file}: line 5: `outbox.max_age_hours`"),
        ),
        (
            format!("[daemon]\nmesh = \"other\"\n{TCP}max_sse = 5\n"),
            format!("{file}: line 2: `daemon.mesh` is `other`, and this daemon serves `lab`"),
        ),
        (format!("{TCP}max_sse = 5\n[broker]\nurls = [\"ftp://nowhere\"]\n"), format!("{file}: line 5: `broker.urls`")),
    ] {
        host.configure(&text);
        let answer = alice.post("/v1/reload", &json!({}));
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!("invalid_config")), "{}", answer.text());
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&said), "`{said}` is not in `{detail}`");
        assert_eq!(detail.matches("config.toml").count(), 1, "{detail}");
        let stream = alice.events_soon();
        assert_eq!(alice.get("/v1/events").status, 429, "the last good settings are in force");
        drop(stream);
        assert_eq!(alice.get_json("/v1/health")["connected"], true);
        // The command says the same, and what it means.
        let output = host.try_run(&["daemon", "reload", "--mesh", "lab"]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(&said) && complaint.contains("goes on with the settings it had"), "{complaint}");
    }
    assert!(log(host).contains("config_reload_refused"));
    // A file that is gone means what is built in.
    host.configure(TCP);
    assert_eq!(reload(&alice)["changed"], json!(["ipc"]));
}

#[test]
fn what_needs_a_restart_is_named_and_left_alone() {
    let mut lab = Lab::start(&["alice"]);
    let host = lab.host("alice");
    let alice = host.client(Transport::Tcp);
    host.configure(
        "[daemon]\nmesh = \"lab\"\n[ipc]\ntcp_enabled = false\nhttp_port = 1\nhttp_bind = \"::1\"\nmax_sse = 3\n",
    );
    let told = reload(&alice);
    assert_eq!(told["restart_needed"], json!(["daemon.mesh", "ipc.http_port", "ipc.http_bind", "ipc.tcp_enabled"]));
    assert_eq!(told["changed"], json!(["ipc"]), "the rest counts");
    assert_eq!(alice.get("/v1/health").status, 200, "it listens where it did");
    let said = host.try_run(&["daemon", "reload", "--mesh", "lab"]);
    let notes = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && notes.contains("`ipc.http_port` counts after"), "{notes}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("lab: nothing has changed"));
    // Without a daemon there is nothing to be told.
    lab.host_mut("alice").stop();
    let output = lab.host("alice").try_run(&["daemon", "reload", "--mesh", "lab"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("daemon: not running"));
}
