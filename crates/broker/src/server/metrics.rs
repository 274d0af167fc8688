//! What a broker counts, as Prometheus reads it.
//!
//! Invariant: every name is there from the first scrape, with zeros for the label values that are known. Words that come
//! from outside never become labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_wire::frames::Priority;
use parking_lot::Mutex;

use crate::engine::Room;

/// Reasons that are there from the first scrape.
const REJECTED_HELLOS: &[&str] = &[
    "bad_signature",
    "capacity",
    "features",
    "malformed",
    "no_hello",
    "revoked",
    "timestamp_skew",
    "unauthorized",
    "connections",
];
const REJECTED_SENDS: &[&str] = &[
    "blocked",
    "forbidden",
    "idempotency_key_reused",
    "insufficient_storage",
    "invalid",
    "lane_blocked",
    "message_too_large",
    "origin_unknown",
    "rate_limited",
    "recipient_revoked",
    "recipient_unknown",
    "roster_changed",
    "stale_key_epoch",
    "topic_not_found",
    "unavailable",
];
const INVALID: &[&str] = &["binary", "malformed", "too_big", "unknown_type", "unexpected"];
const CAPS: &[&str] = &["broadcast", "dm"];

/// The counters.
pub(crate) struct Metrics {
    pub(crate) connections: AtomicU64,
    pub(crate) active: AtomicU64,
    pub(crate) routed: [AtomicU64; 3],
    pub(crate) duplicates: AtomicU64,
    pub(crate) pushed: AtomicU64,
    pub(crate) in_window: AtomicU64,
    pub(crate) sweeps: AtomicU64,
    pub(crate) http: AtomicU64,
    rejected_hellos: Labelled,
    rejected_sends: Labelled,
    dropped: Labelled,
    invalid: Labelled,
}

/// A counter for each of some words. All of them are ours, so they are few.
struct Labelled(Mutex<BTreeMap<&'static str, u64>>);

impl Labelled {
    fn new(known: &[&'static str]) -> Self {
        Self(Mutex::new(known.iter().map(|word| (*word, 0)).collect()))
    }

    fn add(&self, word: &'static str) {
        *self.0.lock().entry(word).or_default() += 1;
    }

    fn write(&self, out: &mut String, name: &str, label: &str) {
        for (word, count) in &*self.0.lock() {
            writeln!(out, "{name}{{{label}=\"{word}\"}} {count}").ok();
        }
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            connections: zero(),
            active: zero(),
            routed: [zero(), zero(), zero()],
            duplicates: zero(),
            pushed: zero(),
            in_window: zero(),
            sweeps: zero(),
            http: zero(),
            rejected_hellos: Labelled::new(REJECTED_HELLOS),
            rejected_sends: Labelled::new(REJECTED_SENDS),
            dropped: Labelled::new(CAPS),
            invalid: Labelled::new(INVALID),
        }
    }

    /// One more.
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection was refused.
    pub(crate) fn rejected_hello(&self, reason: &'static str) {
        self.rejected_hellos.add(reason);
    }

    /// A message was refused.
    pub(crate) fn rejected_send(&self, reason: &'static str) {
        self.rejected_sends.add(reason);
    }

    /// An entry was kept from a reader who does not want it.
    pub(crate) fn dropped_by_grant(&self, capability: &'static str) {
        self.dropped.add(capability);
    }

    /// A frame made no sense.
    pub(crate) fn invalid_frame(&self, reason: &'static str) {
        self.invalid.add(reason);
    }

    /// A message is in the log.
    pub(crate) fn routed(&self, priority: Priority) {
        let [now, next, low] = &self.routed;
        Self::count(match priority {
            Priority::Now => now,
            Priority::Next => next,
            Priority::Low => low,
        });
    }

    /// All of it.
    pub(crate) fn text(&self, healthy: bool, logs: &[Room]) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut out = String::with_capacity(4096);
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        };
        head(&mut out, "broker_connections_total", "counter", "Connections that said hello and were let in");
        writeln!(out, "broker_connections_total {}", read(&self.connections)).ok();
        head(&mut out, "broker_connections_rejected_total", "counter", "Connections that were refused");
        self.rejected_hellos.write(&mut out, "broker_connections_rejected_total", "reason");
        head(&mut out, "broker_connections_active", "gauge", "Connections that are open");
        writeln!(out, "broker_connections_active {}", read(&self.active)).ok();
        head(&mut out, "broker_messages_routed_total", "counter", "Messages that were put into a log");
        for (priority, counter) in ["now", "next", "low"].iter().zip(&self.routed) {
            writeln!(out, "broker_messages_routed_total{{priority=\"{priority}\"}} {}", read(counter)).ok();
        }
        head(&mut out, "broker_messages_rejected_total", "counter", "Messages that were refused");
        self.rejected_sends.write(&mut out, "broker_messages_rejected_total", "reason");
        head(
            &mut out,
            "broker_messages_dropped_by_grant_total",
            "counter",
            "Entries kept from readers who bar their sender",
        );
        self.dropped.write(&mut out, "broker_messages_dropped_by_grant_total", "cap");
        head(&mut out, "broker_messages_duplicate_total", "counter", "Messages that were in the log already");
        writeln!(out, "broker_messages_duplicate_total {}", read(&self.duplicates)).ok();
        head(&mut out, "broker_messages_pushed_total", "counter", "Entries that were sent to readers");
        writeln!(out, "broker_messages_pushed_total {}", read(&self.pushed)).ok();
        head(&mut out, "broker_queue_depth", "gauge", "Entries that were sent and are not acknowledged");
        writeln!(out, "broker_queue_depth {}", read(&self.in_window)).ok();
        head(&mut out, "broker_log_bytes", "gauge", "What all logs take, with the ids they remember");
        writeln!(out, "broker_log_bytes {}", logs.iter().map(|log| log.used).sum::<u64>()).ok();
        head(&mut out, "broker_log_full_pct", "gauge", "How full the fullest log is");
        writeln!(out, "broker_log_full_pct {}", logs.iter().map(Room::percent).fold(0.0, f64::max)).ok();
        head(&mut out, "broker_ttl_sweeps_total", "counter", "Sweeps of what is too old");
        writeln!(out, "broker_ttl_sweeps_total {}", read(&self.sweeps)).ok();
        head(&mut out, "broker_hook_requests_total", "counter", "HTTP requests besides the WebSocket");
        writeln!(out, "broker_hook_requests_total {}", read(&self.http)).ok();
        head(&mut out, "broker_invalid_frames_total", "counter", "Frames that made no sense");
        self.invalid.write(&mut out, "broker_invalid_frames_total", "reason");
        head(&mut out, "broker_db_healthy", "gauge", "Whether the database answers");
        writeln!(out, "broker_db_healthy {}", u8::from(healthy)).ok();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_from_the_start() {
        let text = Metrics::new().text(true, &[]);
        for line in [
            "broker_connections_total 0",
            "broker_connections_rejected_total{reason=\"bad_signature\"} 0",
            "broker_connections_active 0",
            "broker_messages_routed_total{priority=\"now\"} 0",
            "broker_messages_rejected_total{reason=\"rate_limited\"} 0",
            "broker_messages_dropped_by_grant_total{cap=\"dm\"} 0",
            "broker_queue_depth 0",
            "broker_log_bytes 0",
            "broker_log_full_pct 0",
            "broker_ttl_sweeps_total 0",
            "broker_hook_requests_total 0",
            "broker_db_healthy 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }
}
