//! How often and how fast the surface was asked, for a scraper.
//!
//! Invariant: labels are words of ours, never a stranger's: a route's template, a status, a transport. So there are
//! only so many lines, whatever is asked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;

use super::guard::Transport;

/// Upper ends of the histogram's buckets, in seconds.
const BUCKETS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What is shown as never asked before it is asked.
const HEALTH: &str = "/v1/health";

/// What is counted since the daemon started.
#[derive(Default)]
pub(super) struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    requests: BTreeMap<(&'static str, u16, &'static str), u64>,
    durations: BTreeMap<&'static str, Durations>,
}

#[derive(Default)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

impl Metrics {
    /// Counts a request.
    pub(super) fn count(&self, endpoint: &'static str, status: u16, transport: Transport, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut counts = self.counts.lock();
        *counts.requests.entry((endpoint, status, transport.label())).or_default() += 1;
        let durations = counts.durations.entry(endpoint).or_default();
        if let Some(bucket) = BUCKETS.iter().position(|end| seconds <= *end) {
            durations.buckets[bucket] += 1;
        }
        durations.sum += seconds;
        durations.count += 1;
    }

    /// The lines of a scrape.
    pub(super) fn text(&self) -> String {
        let counts = self.counts.lock();
        let mut text = String::from(
            "# HELP cm_daemon_ipc_request_total Requests to the local surface.\n\
             # TYPE cm_daemon_ipc_request_total counter\n",
        );
        // A scraper that sees the name from its first scrape on can compute rates from nought.
        for transport in [Transport::Socket, Transport::Tcp] {
            if !counts.requests.contains_key(&(HEALTH, 200, transport.label())) {
                let labels = format!("endpoint=\"{HEALTH}\",status=\"200\",transport=\"{}\"", transport.label());
                writeln!(text, "cm_daemon_ipc_request_total{{{labels}}} 0").ok();
            }
        }
        for ((endpoint, status, transport), count) in &counts.requests {
            let labels = format!("endpoint=\"{endpoint}\",status=\"{status}\",transport=\"{transport}\"");
            writeln!(text, "cm_daemon_ipc_request_total{{{labels}}} {count}").ok();
        }
        text.push_str(
            "# HELP cm_daemon_ipc_duration_seconds How long the local surface took to answer.\n\
             # TYPE cm_daemon_ipc_duration_seconds histogram\n",
        );
        let none = Durations::default();
        let first = (!counts.durations.contains_key(HEALTH)).then_some((&HEALTH, &none));
        for (endpoint, durations) in first.into_iter().chain(&counts.durations) {
            let mut below = 0;
            for (end, count) in BUCKETS.iter().zip(durations.buckets) {
                below += count;
                let labels = format!("endpoint=\"{endpoint}\",le=\"{end}\"");
                writeln!(text, "cm_daemon_ipc_duration_seconds_bucket{{{labels}}} {below}").ok();
            }
            let (sum, count) = (durations.sum, durations.count);
            writeln!(
                text,
                "cm_daemon_ipc_duration_seconds_bucket{{endpoint=\"{endpoint}\",le=\"+Inf\"}} {count}\n\
                 cm_daemon_ipc_duration_seconds_sum{{endpoint=\"{endpoint}\"}} {sum}\n\
                 cm_daemon_ipc_duration_seconds_count{{endpoint=\"{endpoint}\"}} {count}"
            )
            .ok();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_are_there_from_the_first_scrape() {
        let text = Metrics::default().text();
        assert!(
            text.contains("cm_daemon_ipc_request_total{endpoint=\"/v1/health\",status=\"200\",transport=\"uds\"} 0\n")
        );
        assert!(text.contains("cm_daemon_ipc_duration_seconds_count{endpoint=\"/v1/health\"} 0\n"));
    }

    #[test]
    fn buckets_are_cumulative() {
        let metrics = Metrics::default();
        for millis in [1, 3, 30_000] {
            metrics.count("/v1/send", 202, Transport::Tcp, Duration::from_millis(millis));
        }
        let text = metrics.text();
        for line in [
            "cm_daemon_ipc_request_total{endpoint=\"/v1/send\",status=\"202\",transport=\"tcp\"} 3",
            "cm_daemon_ipc_duration_seconds_bucket{endpoint=\"/v1/send\",le=\"0.001\"} 1",
            "cm_daemon_ipc_duration_seconds_bucket{endpoint=\"/v1/send\",le=\"0.005\"} 2",
            "cm_daemon_ipc_duration_seconds_bucket{endpoint=\"/v1/send\",le=\"10\"} 2",
            "cm_daemon_ipc_duration_seconds_bucket{endpoint=\"/v1/send\",le=\"+Inf\"} 3",
            "cm_daemon_ipc_duration_seconds_count{endpoint=\"/v1/send\"} 3",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
