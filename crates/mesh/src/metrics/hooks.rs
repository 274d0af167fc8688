//! What is counted of hooks.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Counts, Page, one_of};
use crate::hooks::sandbox::REASONS;

/// Hooks that may exist.
const HOOKS: [&str; 9] = [
    "on-message",
    "on-dm",
    "on-mention",
    "on-topic",
    "on-file-share",
    "on-disconnect",
    "on-reconnect",
    "on-startup",
    "pre-send",
];

/// How one may end: with a code, or otherwise.
const EXITS: [&str; 11] = ["0", "1", "2", "126", "127", "other", "signal", "timeout", "failed", "refused", "dropped"];

/// What a token may be used for.
const SCOPES: [&str; 4] = ["reply:event", "dm:send", "topic:post", "denied"];

/// Upper bounds of the histogram, in seconds.
const BUCKETS: [(&str, f64); 8] =
    [("0.01", 0.01), ("0.05", 0.05), ("0.1", 0.1), ("0.5", 0.5), ("1", 1.0), ("5", 5.0), ("30", 30.0), ("60", 60.0)];

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    runs: Counts,
    calls: Counts,
    unenforced: Counts,
    durations: Mutex<BTreeMap<&'static str, Durations>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

impl Hooks {
    /// One was run, or was to be.
    pub(crate) fn ran(&self, hook: &str, exit: &str) {
        self.runs.add(one_of(&HOOKS, hook, "on-message"), one_of(&EXITS, exit, "other"), 1);
    }

    /// So long it took.
    pub(crate) fn took(&self, hook: &str, took: Duration) {
        let mut durations = self.durations.lock();
        let durations = durations.entry(one_of(&HOOKS, hook, "on-message")).or_default();
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|(_, end)| seconds <= *end) {
            durations.buckets[bucket] += 1;
        }
        durations.sum += seconds;
        durations.count += 1;
    }

    /// One has used its token.
    pub(crate) fn called(&self, hook: &str, scope: &str) {
        self.calls.add(one_of(&HOOKS, hook, "on-message"), one_of(&SCOPES, scope, "denied"), 1);
    }

    /// Something of its policy could not be enforced.
    pub(crate) fn unenforced(&self, hook: &str, reason: &str) {
        self.unenforced.add(one_of(&HOOKS, hook, "on-message"), one_of(&REASONS, reason, "launcher"), 1);
    }

    /// The families.
    pub(super) fn show(&self, page: &mut Page<'_>) {
        page.family("cm_daemon_hook_invocations_total", "counter", "Hooks that were run.");
        self.counted(page, "cm_daemon_hook_invocations_total", ("exit", &EXITS), &self.runs);
        page.family("cm_daemon_hook_duration_seconds", "histogram", "How long hooks took.");
        let all = self.durations.lock().clone();
        for hook in HOOKS {
            let durations = all.get(hook).copied().unwrap_or_default();
            let mut below = 0;
            for ((bound, _), count) in BUCKETS.iter().zip(durations.buckets) {
                below += count;
                page.count("cm_daemon_hook_duration_seconds_bucket", &[("hook", hook), ("le", bound)], below);
            }
            page.count("cm_daemon_hook_duration_seconds_bucket", &[("hook", hook), ("le", "+Inf")], durations.count);
            page.mesh("cm_daemon_hook_duration_seconds_sum", &[("hook", hook)], durations.sum);
            page.count("cm_daemon_hook_duration_seconds_count", &[("hook", hook)], durations.count);
        }
        page.family("cm_daemon_hook_capability_calls_total", "counter", "Calls of hooks with a capability.");
        self.counted(page, "cm_daemon_hook_capability_calls_total", ("scope", &SCOPES), &self.calls);
        page.family("cm_daemon_hook_unenforceable_total", "counter", "Hooks whose policy could not be enforced.");
        self.counted(page, "cm_daemon_hook_unenforceable_total", ("reason", &REASONS), &self.unenforced);
    }

    /// The first value of each hook from the first scrape on, the others once there are any.
    fn counted(&self, page: &mut Page<'_>, name: &str, label: (&str, &[&'static str]), counts: &Counts) {
        let (label, values) = label;
        for hook in HOOKS {
            for (place, value) in values.iter().enumerate() {
                let count = counts.get(hook, value);
                if place == 0 || count > 0 {
                    page.count(name, &[("hook", hook), (label, value)], count);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_is_shown() {
        let hooks = Hooks::default();
        hooks.ran("on-dm", "timeout");
        hooks.took("on-dm", Duration::from_millis(70));
        hooks.called("on-dm", "somebody's own words");
        hooks.unenforced("on-topic", "network");
        let mut page = Page::new("lab");
        hooks.show(&mut page);
        for line in [
            "cm_daemon_hook_invocations_total{mesh=\"lab\",hook=\"on-dm\",exit=\"timeout\"} 1",
            "cm_daemon_hook_invocations_total{mesh=\"lab\",hook=\"on-dm\",exit=\"0\"} 0",
            "cm_daemon_hook_duration_seconds_bucket{mesh=\"lab\",hook=\"on-dm\",le=\"0.05\"} 0",
            "cm_daemon_hook_duration_seconds_bucket{mesh=\"lab\",hook=\"on-dm\",le=\"0.1\"} 1",
            "cm_daemon_hook_duration_seconds_bucket{mesh=\"lab\",hook=\"on-dm\",le=\"+Inf\"} 1",
            "cm_daemon_hook_duration_seconds_sum{mesh=\"lab\",hook=\"on-dm\"} 0.07",
            "cm_daemon_hook_capability_calls_total{mesh=\"lab\",hook=\"on-dm\",scope=\"denied\"} 1",
            "cm_daemon_hook_unenforceable_total{mesh=\"lab\",hook=\"on-topic\",reason=\"network\"} 1",
        ] {
            assert!(page.text.lines().any(|other| other == line), "{line}\n{}", page.text);
        }
    }
}
