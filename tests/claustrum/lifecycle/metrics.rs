//! `-metrics-addr`: six counters, nothing else, and only when asked for.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use hostel_tests::house::{House, Options};
use hostel_tests::{http, procfs, wait};

fn house_with_metrics(address: SocketAddr) -> House {
    House::start_with(Options { flags: vec!["-metrics-addr".to_owned(), address.to_string()], ..Options::default() })
}

fn counters(address: SocketAddr) -> BTreeMap<String, u64> {
    let (_, body) = http::get(address, "/metrics").expect("the metrics are served");
    body.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (name, value) = line.split_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a whole number"))
        })
        .collect()
}

#[test]
fn the_six_counters_are_described_in_order() {
    let address = http::free_address();
    let house = house_with_metrics(address);
    let (head, body) = http::get(address, "/metrics").expect("the metrics are served");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let kind =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-type: ").map(str::to_owned));
    assert_eq!(kind.as_deref(), Some("text/plain; version=0.0.4; charset=utf-8"));
    let expected: String = [
        ("connections_total", "Client connections accepted."),
        ("process_spawns_total", "Processes started via process.spawn."),
        ("process_exits_total", "Managed processes that have exited."),
        ("reattaches_total", "process.reattach calls that found their process."),
        ("stream_bytes_total", "Process stdout/stderr bytes streamed to clients."),
        ("stdin_bytes_total", "Bytes accepted for child stdin."),
    ]
    .iter()
    .map(|(name, help)| {
        format!("# HELP claustrum_{name} {help}\n# TYPE claustrum_{name} counter\nclaustrum_{name} N\n")
    })
    .collect();
    let without_values: String = body
        .lines()
        .map(|line| match line.rsplit_once(' ') {
            Some((name, _)) if !line.starts_with('#') => format!("{name} N\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(without_values, expected);
    let (head, _) = http::get(address, "/other").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    house.wait_for_log(&format!("[Server] metrics: serving Prometheus counters on {address}/metrics"));
}

#[test]
fn the_counters_count() {
    let address = http::free_address();
    let house = house_with_metrics(address);
    // Connections are accepted in order: once this one is served, those made while the daemon started are counted.
    assert_eq!(house.connect().ask("server.ping", "{}"), r#"{"pong":true}"#);
    let before = counters(address);
    let mut client = house.connect();
    client.spawn("count", "cat", &[]);
    client.stdin("count", Some(0), b"hello");
    client.stdin("count", Some(0), b"hello");
    client.stdin("count", Some(3), b"lo world");
    let mut transcript = hostel_tests::frames::Transcript::default();
    client.follow_until("count", &mut transcript, |so_far| so_far.stdout == b"hello world");
    let mut other = house.connect();
    other.reattach("count", 0);
    other.reattach("nobody", 0);
    client.ask("process.killAndWait", r#"{"id":"count"}"#);
    client.call("process.spawn", r#"{"id":"failed","command":"/nowhere/at/all"}"#);
    wait::eventually("the exit to be counted", || {
        counters(address)["claustrum_process_exits_total"] == before["claustrum_process_exits_total"] + 1
    });
    let after = counters(address);
    let grown = |name: &str| after[&format!("claustrum_{name}")] - before[&format!("claustrum_{name}")];
    assert_eq!(grown("connections_total"), 2);
    assert_eq!(grown("process_spawns_total"), 1);
    assert_eq!(grown("process_exits_total"), 1);
    assert_eq!(grown("reattaches_total"), 1);
    assert_eq!(grown("stream_bytes_total"), 11);
    assert_eq!(grown("stdin_bytes_total"), 11);
    // Counts only.
    let (_, body) = http::get(address, "/metrics").expect("the metrics are served");
    assert!(!body.contains(house.token()) && !body.contains("hello") && !body.contains('{'), "{body}");
}

#[test]
fn an_address_in_use_is_logged_and_not_fatal() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    let house = house_with_metrics(address);
    assert_eq!(house.connect().ask("server.ping", "{}"), r#"{"pong":true}"#);
    house.wait_for_log(&format!("[Server] metrics: listen {address}: "));
}

#[test]
fn the_listener_goes_with_the_daemon() {
    let address = http::free_address();
    let mut house = house_with_metrics(address);
    http::get(address, "/metrics").expect("the metrics are served");
    house.stop();
    assert!(http::get(address, "/metrics").is_err(), "somebody still serves the metrics");
}

#[test]
fn without_the_flag_nobody_listens() {
    let house = House::start();
    let Some(open) = procfs::descriptors(house.daemon().pid) else {
        hostel_tests::skip("only root may look at the daemon's descriptors");
        return;
    };
    let inodes: Vec<String> = open
        .iter()
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let inode = line.split_ascii_whitespace().nth(9).unwrap_or_default();
            assert!(!inodes.iter().any(|own| own == inode), "the daemon has a TCP socket: {line}");
        }
    }
}
