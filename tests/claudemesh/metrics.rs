//! Numbers: every name and label of the contract is there at the first scrape, in a form a strict parser accepts, and
//! they count what happens.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::collections::{BTreeMap, BTreeSet};

use hostel_tests::claudemesh::{Client, Lab, Transport};
use hostel_tests::wait;
use serde_json::json;

/// A family as it stands in the text.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads Prometheus' text form and takes nothing that its rules do not allow.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line has no end");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("help has a text");
            assert!(is_name(name), "{line}");
            let family = families.entry(name.to_owned()).or_default();
            assert!(family.help.is_empty() && family.samples.is_empty(), "help of {name} comes twice or late");
            help.clone_into(&mut family.help);
            current = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type is named");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let family = families.entry(name.to_owned()).or_default();
            assert!(family.kind.is_empty() && family.samples.is_empty(), "type of {name} comes twice or late");
            kind.clone_into(&mut family.kind);
            current = Some(name.to_owned());
        } else {
            assert!(!line.starts_with('#') && !line.is_empty(), "{line}");
            let (name, labels, value) = sample(line);
            let owner = current.clone().expect("a sample has a family");
            let suffix = name.strip_prefix(&owner).unwrap_or_else(|| panic!("{name} stands below {owner}"));
            let family = families.get_mut(&owner).unwrap();
            match family.kind.as_str() {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                "counter" => assert!(suffix.is_empty() && name.ends_with("_total") && value >= 0.0, "{line}"),
                "gauge" => assert!(suffix.is_empty() && !name.ends_with("_total"), "{line}"),
                other => panic!("{owner} has the type {other:?}"),
            }
            assert!(series.insert((name.clone(), labels.clone())), "twice: {line}");
            family.samples.push((name, labels, value));
        }
    }
    for (name, family) in &families {
        assert!(!family.help.is_empty() && !family.kind.is_empty() && !family.samples.is_empty(), "{name}: {family:?}");
        if family.kind == "histogram" {
            histogram(name, family);
        }
    }
    families
}

fn is_name(name: &str) -> bool {
    let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == ':';
    name.chars().next().is_some_and(first) && name.chars().all(|letter| first(letter) || letter.is_ascii_digit())
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
    assert!(value.is_finite(), "{line}");
    let Some((name, rest)) = series.split_once('{') else {
        assert!(is_name(series), "{line}");
        return (series.to_owned(), BTreeMap::new(), value);
    };
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_suffix('}').expect("labels end");
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").expect("a label has a value");
        assert!(is_name(label) && !label.contains(':') && !label.starts_with("__"), "{line}");
        let mut text = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next().expect("a value ends") {
                (at, '"') => break at,
                (_, '\\') => match letters.next().expect("something is escaped").1 {
                    'n' => text.push('\n'),
                    letter @ ('\\' | '"') => text.push(letter),
                    letter => panic!("\\{letter} in {line}"),
                },
                (_, letter) => text.push(letter),
            }
        };
        assert!(labels.insert(label.to_owned(), text).is_none(), "{label} twice in {line}");
        rest = &after[end + 1..];
        rest = match rest.strip_prefix(',') {
            Some(more) => more,
            None => {
                assert!(rest.is_empty(), "{line}");
                rest
            }
        };
    }
    (name.to_owned(), labels, value)
}

/// Bounds with what is below each, the sum, the count.
type Buckets = (Vec<(f64, f64)>, Option<f64>, Option<f64>);

/// Buckets grow, end with +Inf, and that one is the count.
fn histogram(name: &str, family: &Family) {
    let mut all: BTreeMap<BTreeMap<String, String>, Buckets> = BTreeMap::new();
    for (series, labels, value) in &family.samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le");
        let entry = all.entry(labels).or_default();
        match series.strip_prefix(name).unwrap() {
            "_bucket" => {
                let bound = bound.expect("a bucket has a bound");
                entry.0.push((if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() }, *value));
            }
            "_sum" => entry.1 = Some(*value),
            _ => entry.2 = Some(*value),
        }
    }
    for (labels, (buckets, sum, count)) in all {
        assert!(sum.is_some(), "{name} {labels:?} has no sum");
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{name} {labels:?}");
        let last = buckets.last().unwrap();
        assert_eq!((last.0, Some(last.1)), (f64::INFINITY, count), "{name} {labels:?}");
    }
}

/// The contract's sixteen names with their types and labels, and what was added to them.
const FAMILIES: [(&str, &str, &[&str]); 22] = [
    ("cm_daemon_connected", "gauge", &["mesh"]),
    ("cm_daemon_reconnects_total", "counter", &["mesh", "reason"]),
    ("cm_daemon_lag_ms", "gauge", &["mesh"]),
    ("cm_daemon_outbox_depth", "gauge", &["mesh", "status"]),
    ("cm_daemon_outbox_age_seconds", "gauge", &["mesh"]),
    ("cm_daemon_dedupe_total", "counter", &["direction", "mesh"]),
    ("cm_daemon_disk_pct", "gauge", &["kind", "mesh"]),
    ("cm_daemon_send_total", "counter", &["kind", "mesh", "status"]),
    ("cm_daemon_recv_total", "counter", &["from_type", "kind", "mesh"]),
    ("cm_daemon_hook_invocations_total", "counter", &["exit", "hook", "mesh"]),
    ("cm_daemon_hook_duration_seconds", "histogram", &["hook", "mesh"]),
    ("cm_daemon_hook_capability_calls_total", "counter", &["hook", "mesh", "scope"]),
    ("cm_daemon_ipc_request_total", "counter", &["endpoint", "status", "transport"]),
    ("cm_daemon_ipc_duration_seconds", "histogram", &["endpoint"]),
    ("cm_daemon_local_token_rotations_total", "counter", &["mesh"]),
    ("cm_daemon_clone_suspected_total", "counter", &["mesh"]),
    ("cm_daemon_invalid_inbound_total", "counter", &["mesh", "reason"]),
    ("cm_daemon_decrypt_archived_total", "counter", &["mesh"]),
    ("cm_daemon_decrypt_stale_total", "counter", &["mesh"]),
    ("cm_daemon_hook_unenforceable_total", "counter", &["hook", "mesh", "reason"]),
    ("cm_daemon_inbox_rows", "gauge", &["mesh"]),
    ("cm_daemon_history_gap_total", "counter", &["mesh"]),
];

/// Label values that are there before anything has happened.
const KNOWN: [(&str, &str, &[&str]); 8] = [
    ("cm_daemon_outbox_depth", "status", &["pending", "inflight", "dead"]),
    ("cm_daemon_dedupe_total", "direction", &["out", "in"]),
    ("cm_daemon_disk_pct", "kind", &["outbox", "inbox"]),
    ("cm_daemon_send_total", "kind", &["dm", "topic", "broadcast", "group"]),
    ("cm_daemon_send_total", "status", &["queued", "done", "dead", "duplicate", "rejected"]),
    ("cm_daemon_recv_total", "kind", &["dm", "topic", "broadcast", "group"]),
    ("cm_daemon_ipc_request_total", "transport", &["uds", "tcp"]),
    (
        "cm_daemon_hook_duration_seconds",
        "hook",
        &[
            "on-message",
            "on-dm",
            "on-mention",
            "on-topic",
            "on-file-share",
            "on-disconnect",
            "on-reconnect",
            "on-startup",
            "pre-send",
        ],
    ),
];

fn scrape(client: &Client) -> BTreeMap<String, Family> {
    let answer = client.get("/v1/metrics");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    parse(&answer.text())
}

fn value(families: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = families[name].samples.iter();
    let fits = |have: &BTreeMap<String, String>| {
        labels.iter().all(|(label, value)| have.get(*label).is_some_and(|have| have == value))
    };
    samples
        .filter(|(series, have, _)| (series == name || series.ends_with("_count")) && fits(have))
        .map(|(_, _, value)| value)
        .sum()
}

#[test]
fn everything_is_there_from_the_first_scrape_and_counts() {
    let lab = Lab::start(&["alice", "bob"]);
    let (alice, bob) = (lab.hosts[0].client(Transport::Socket), lab.hosts[1].client(Transport::Tcp));
    let first = scrape(&alice);
    for (name, kind, labels) in FAMILIES {
        let family = first.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(family.kind, kind, "{name}");
        for (series, have, _) in &family.samples {
            let have: Vec<&str> = have.keys().map(String::as_str).filter(|label| *label != "le").collect();
            assert_eq!(have, labels, "{series}");
        }
    }
    for (name, label, values) in KNOWN {
        let have: BTreeSet<&str> = first[name].samples.iter().map(|(_, labels, _)| labels[label].as_str()).collect();
        for value in values {
            assert!(have.contains(value), "{name} has no {label}=\"{value}\": {have:?}");
        }
    }
    let strangers: Vec<&String> =
        first.keys().filter(|name| !FAMILIES.iter().any(|(known, ..)| known == name)).collect();
    assert!(strangers.iter().all(|name| name.starts_with("cm_daemon_")), "{strangers:?}");
    assert!((value(&first, "cm_daemon_connected", &[]) - 1.0).abs() < f64::EPSILON);
    assert!(value(&first, "cm_daemon_send_total", &[]).abs() < f64::EPSILON);

    // What happens is counted, on both sides and on both transports.
    let sent = alice.post("/v1/send", &json!({"to": "bob", "message": "hello"}));
    assert_eq!(sent.status, 202, "{}", sent.text());
    assert_eq!(bob.post("/v1/token/rotate", &json!({})).status, 200);
    let bob = lab.hosts[1].client(Transport::Tcp);
    wait::until_true(wait::LIMIT, "the message to be counted", || {
        let (alice, bob) = (scrape(&alice), scrape(&bob));
        let near = |value: f64, wanted: f64| (value - wanted).abs() < f64::EPSILON;
        near(value(&alice, "cm_daemon_send_total", &[("kind", "dm"), ("status", "queued")]), 1.0)
            && near(value(&alice, "cm_daemon_send_total", &[("kind", "dm"), ("status", "done")]), 1.0)
            && near(value(&bob, "cm_daemon_recv_total", &[("kind", "dm"), ("from_type", "member")]), 1.0)
            && near(value(&bob, "cm_daemon_inbox_rows", &[]), 1.0)
            && near(value(&bob, "cm_daemon_local_token_rotations_total", &[]), 1.0)
    });
    let (alice, bob) = (scrape(&alice), scrape(&bob));
    let asked = [("endpoint", "/v1/metrics"), ("status", "200")];
    assert!(value(&alice, "cm_daemon_ipc_request_total", &[asked[0], asked[1], ("transport", "uds")]) >= 1.0);
    assert!(value(&bob, "cm_daemon_ipc_request_total", &[asked[0], asked[1], ("transport", "tcp")]) >= 1.0);
    assert!(value(&alice, "cm_daemon_ipc_duration_seconds", &[("endpoint", "/v1/send")]) >= 1.0);
}

#[test]
fn an_endpoint_nobody_was_built_for_is_said() {
    let mut lab = Lab::prepare(&hostel_tests::claudemesh::Options::of(&["alice"]));
    let host = &mut lab.hosts[0];
    host.configure("[ipc]\ntcp_enabled = true\n[metrics]\notel_endpoint = \"http://127.0.0.1:1\"\n");
    host.start();
    // A program that was built for it says that the collector is away instead.
    wait::until_true(wait::LIMIT, "a line about it", || {
        let log = std::fs::read_to_string(host.directory().join("daemon.log")).unwrap();
        log.contains("built without the feature `otel`") || log.contains("otel_unreachable")
    });
}
