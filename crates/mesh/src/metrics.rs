//! What is counted, and how it is shown: the contract's names in Prometheus' text form.
//!
//! Invariant: every name is there from the first scrape, with a zero for every label value that is known beforehand.
//! Label values come from fixed lists or are cut to one, so nobody outside can make the text grow.
//!
//! The IPC counters are not here; the door that serves requests counts them.

mod hooks;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Kinds of messages, as labels.
const KINDS: [&str; 5] = ["dm", "topic", "broadcast", "group", "file"];
/// What may become of a send.
const SENDS: [&str; 5] = ["queued", "done", "dead", "duplicate", "rejected"];
/// Who a message is from.
const FROM: [&str; 3] = ["member", "session", "system"];
/// Why a connection was made again.
const REASONS: [&str; 9] =
    ["closed", "dial", "error", "hello", "ack_timeout", "silent", "replaced", "storage", "key_rotated"];
/// Why something that came in was dropped.
const INVALID: [&str; 8] = ["frame", "sender", "id", "fingerprint", "kind", "decrypt", "mismatch", "mesh"];
/// Counts with labels from fixed lists.
#[derive(Debug, Default)]
struct Counts(Mutex<BTreeMap<[&'static str; 2], u64>>);

impl Counts {
    fn add(&self, first: &'static str, second: &'static str, count: u64) {
        *self.0.lock().entry([first, second]).or_default() += count;
    }

    fn get(&self, first: &'static str, second: &'static str) -> u64 {
        self.0.lock().get(&[first, second]).copied().unwrap_or_default()
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    sends: Counts,
    receives: Counts,
    reconnects: Counts,
    dedupes: Counts,
    invalid: Counts,
    decrypt_archived: AtomicU64,
    decrypt_stale: AtomicU64,
    history_gaps: AtomicU64,
    token_rotations: AtomicU64,
    clones: AtomicU64,
    /// Of hooks.
    pub(crate) hooks: hooks::Hooks,
}

/// What is measured when it is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges {
    pub(crate) connected: bool,
    pub(crate) lag_ms: u64,
    pub(crate) pending: u64,
    pub(crate) inflight: u64,
    pub(crate) dead: u64,
    pub(crate) oldest_pending_s: f64,
    pub(crate) outbox_pct: f64,
    pub(crate) inbox_pct: f64,
    pub(crate) inbox_rows: u64,
}

/// The list's own copy of a label, or its last resort.
fn one_of(list: &'static [&'static str], label: &str, other: &'static str) -> &'static str {
    list.iter().find(|known| **known == label).copied().unwrap_or(other)
}

/// The label of a kind of entry: broadcasts are `all` on the wire.
fn kind_label(kind: &str) -> &'static str {
    one_of(&KINDS, if kind == "all" { "broadcast" } else { kind }, "dm")
}

impl Metrics {
    /// A message was taken, delivered, or refused.
    pub fn sent(&self, kind: &str, status: &str, count: u64) {
        self.sends.add(kind_label(kind), one_of(&SENDS, status, "rejected"), count);
    }

    /// A message came in that was not there yet.
    pub(crate) fn received(&self, kind: &str, from: &str) {
        self.receives.add(kind_label(kind), one_of(&FROM, from, "member"), 1);
    }

    /// A connection ended and is made again.
    pub(crate) fn reconnected(&self, reason: &str) {
        self.reconnects.add(one_of(&REASONS, reason, "error"), "", 1);
    }

    /// The same message again: `in` or `out`.
    pub(crate) fn deduped(&self, direction: &str, count: u64) {
        self.dedupes.add(if direction == "in" { "in" } else { "out" }, "", count);
    }

    /// Something that came in was wrong.
    pub(crate) fn invalid(&self, reason: &str) {
        self.invalid.add(one_of(&INVALID, reason, "frame"), "", 1);
    }

    /// How often that was so.
    #[must_use]
    pub fn invalid_count(&self, reason: &str) -> u64 {
        self.invalid.get(one_of(&INVALID, reason, "frame"), "")
    }

    /// A message could be opened with no key that counts.
    pub(crate) fn decrypt_stale(&self) {
        self.decrypt_stale.fetch_add(1, Ordering::Relaxed);
    }

    /// A message was opened with a retired key.
    pub fn decrypt_archived(&self) {
        self.decrypt_archived.fetch_add(1, Ordering::Relaxed);
    }

    /// Some of what was missed is gone.
    pub(crate) fn history_gap(&self) {
        self.history_gaps.fetch_add(1, Ordering::Relaxed);
    }

    /// The local token is another one.
    pub fn token_rotated(&self) {
        self.token_rotations.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody else seems to use a member's key.
    pub(crate) fn clone_suspected(&self) {
        self.clones.fetch_add(1, Ordering::Relaxed);
    }

    /// The text, without the IPC families.
    pub(crate) fn text(&self, mesh: &str, gauges: &Gauges) -> String {
        let mut page = Page::new(mesh);
        page.family("cm_daemon_connected", "gauge", "Whether there is a connection to the broker.");
        page.mesh("cm_daemon_connected", &[], f64::from(u8::from(gauges.connected)));
        page.family("cm_daemon_reconnects_total", "counter", "Connections that were made again.");
        for reason in REASONS {
            page.count("cm_daemon_reconnects_total", &[("reason", reason)], self.reconnects.get(reason, ""));
        }
        page.family("cm_daemon_lag_ms", "gauge", "The last round trip to the broker.");
        page.count("cm_daemon_lag_ms", &[], gauges.lag_ms);
        page.family("cm_daemon_outbox_depth", "gauge", "Rows of the outbox.");
        for (status, count) in [("pending", gauges.pending), ("inflight", gauges.inflight), ("dead", gauges.dead)] {
            page.count("cm_daemon_outbox_depth", &[("status", status)], count);
        }
        page.family("cm_daemon_outbox_age_seconds", "gauge", "Age of the oldest row that waits.");
        page.mesh("cm_daemon_outbox_age_seconds", &[], gauges.oldest_pending_s);
        page.family("cm_daemon_dedupe_total", "counter", "Messages that were there already.");
        for direction in ["out", "in"] {
            page.count("cm_daemon_dedupe_total", &[("direction", direction)], self.dedupes.get(direction, ""));
        }
        page.family("cm_daemon_disk_pct", "gauge", "How full a database may be said to be.");
        for (kind, percent) in [("outbox", gauges.outbox_pct), ("inbox", gauges.inbox_pct)] {
            page.mesh("cm_daemon_disk_pct", &[("kind", kind)], percent);
        }
        self.messages(&mut page);
        self.hooks.show(&mut page);
        self.rest(&mut page, gauges);
        page.text
    }

    fn messages(&self, page: &mut Page<'_>) {
        page.family("cm_daemon_send_total", "counter", "Messages of this host.");
        for kind in KINDS {
            for status in SENDS {
                let labels = [("kind", kind), ("status", status)];
                page.count("cm_daemon_send_total", &labels, self.sends.get(kind, status));
            }
        }
        page.family("cm_daemon_recv_total", "counter", "Messages for this host.");
        for kind in KINDS {
            for from in FROM {
                let labels = [("kind", kind), ("from_type", from)];
                page.count("cm_daemon_recv_total", &labels, self.receives.get(kind, from));
            }
        }
    }

    fn rest(&self, page: &mut Page<'_>, gauges: &Gauges) {
        let single = [
            (
                "cm_daemon_local_token_rotations_total",
                "counter",
                "Local tokens that were replaced.",
                &self.token_rotations,
            ),
            ("cm_daemon_clone_suspected_total", "counter", "Times a member's key was seen twice.", &self.clones),
            (
                "cm_daemon_decrypt_archived_total",
                "counter",
                "Messages opened with a retired key.",
                &self.decrypt_archived,
            ),
            ("cm_daemon_decrypt_stale_total", "counter", "Messages that no key opens any more.", &self.decrypt_stale),
            (
                "cm_daemon_history_gap_total",
                "counter",
                "Times the broker no longer had what was missed.",
                &self.history_gaps,
            ),
        ];
        for (name, kind, help, count) in single {
            page.family(name, kind, help);
            page.count(name, &[], count.load(Ordering::Relaxed));
        }
        page.family("cm_daemon_invalid_inbound_total", "counter", "What came in and was dropped.");
        for reason in INVALID {
            page.count("cm_daemon_invalid_inbound_total", &[("reason", reason)], self.invalid.get(reason, ""));
        }
        page.family("cm_daemon_inbox_rows", "gauge", "Messages in the inbox.");
        page.count("cm_daemon_inbox_rows", &[], gauges.inbox_rows);
    }
}

/// The text as it grows.
struct Page<'a> {
    mesh: &'a str,
    text: String,
}

impl<'a> Page<'a> {
    fn new(mesh: &'a str) -> Self {
        Self { mesh, text: String::with_capacity(16 * 1024) }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
    }

    fn count(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.start(name, labels);
        writeln!(self.text, "{value}").ok();
    }

    fn mesh(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.start(name, labels);
        writeln!(self.text, "{value}").ok();
    }

    fn start(&mut self, name: &str, labels: &[(&str, &str)]) {
        // A slug has no character that would have to be escaped.
        write!(self.text, "{name}{{mesh=\"{}\"", self.mesh).ok();
        for (label, value) in labels {
            write!(self.text, ",{label}=\"{value}\"").ok();
        }
        self.text.push_str("} ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_from_the_first_scrape() {
        let text = Metrics::default().text("lab", &Gauges::default());
        for name in [
            "cm_daemon_connected",
            "cm_daemon_reconnects_total",
            "cm_daemon_lag_ms",
            "cm_daemon_outbox_depth",
            "cm_daemon_outbox_age_seconds",
            "cm_daemon_dedupe_total",
            "cm_daemon_disk_pct",
            "cm_daemon_send_total",
            "cm_daemon_recv_total",
            "cm_daemon_hook_invocations_total",
            "cm_daemon_hook_duration_seconds",
            "cm_daemon_hook_capability_calls_total",
            "cm_daemon_local_token_rotations_total",
            "cm_daemon_clone_suspected_total",
            "cm_daemon_invalid_inbound_total",
            "cm_daemon_decrypt_archived_total",
            "cm_daemon_decrypt_stale_total",
            "cm_daemon_hook_unenforceable_total",
            "cm_daemon_inbox_rows",
            "cm_daemon_history_gap_total",
        ] {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
            assert!(text.lines().any(|line| line.starts_with(name) && line.ends_with(" 0")), "{name} has no zero");
        }
    }

    #[test]
    fn what_is_counted_is_shown_and_strangers_get_no_label() {
        let metrics = Metrics::default();
        metrics.sent("all", "queued", 2);
        metrics.invalid("something a peer made up\"} 1\n");
        metrics.reconnected("silent");
        let text = metrics.text("lab", &Gauges { connected: true, ..Gauges::default() });
        assert!(text.contains("cm_daemon_send_total{mesh=\"lab\",kind=\"broadcast\",status=\"queued\"} 2\n"));
        assert!(text.contains("cm_daemon_invalid_inbound_total{mesh=\"lab\",reason=\"frame\"} 1\n"));
        assert!(text.contains("cm_daemon_reconnects_total{mesh=\"lab\",reason=\"silent\"} 1\n"));
        assert!(text.contains("cm_daemon_connected{mesh=\"lab\"} 1\n"));
        assert!(!text.contains("made up"));
    }
}
