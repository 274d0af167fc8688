//! Streams of the codecast door under everything that can happen to them: cut, stalled, long, killed.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod auth;
mod cut;
mod ends;
mod http2;
mod long;
mod restart;
mod stalled;

use hostel_tests::codecast::Daemon;
use serde_json::Value;

/// A line of a played CLI's prompt that takes until somebody writes the file `go` in the project.
const WAIT_FOR_GO: &str = "tool until [ -e go ]; do sleep 0.02; done";

/// Ends the wait of [`WAIT_FOR_GO`].
fn go(daemon: &Daemon) {
    std::fs::write(daemon.project().join("go"), "").unwrap();
}

/// The numbers that `stream N` says, in the order in which they came.
fn numbers(events: &[Value]) -> Vec<u64> {
    let partials = events.iter().filter(|event| event["type"] == "partial");
    partials.filter_map(|event| event["content"].as_str().unwrap().trim().parse().ok()).collect()
}

/// Nothing of `0..count` is missing from the two parts of an answer, and each part is in order. Gives how many came
/// twice.
fn complete(count: u64, first: &[u64], second: &[u64]) -> usize {
    for part in [first, second] {
        assert!(part.windows(2).all(|pair| pair[0] + 1 == pair[1]), "events are missing in the middle or out of order");
    }
    let read_to = first.last().map_or(0, |last| last + 1);
    match second.first() {
        Some(next) => assert!(*next <= read_to, "events {read_to} to {next} are lost"),
        None => assert_eq!(read_to, count, "the rest is lost"),
    }
    let end = second.last().map_or(read_to, |last| last + 1).max(read_to);
    assert_eq!(end, count, "the end is lost");
    usize::try_from(read_to - second.first().copied().unwrap_or(read_to)).unwrap()
}
