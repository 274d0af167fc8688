//! How long to wait before the next connection.
//!
//! Invariant: the wait grows by a factor up to a cap and starts again after a welcome; no two daemons that lost the same
//! broker come back in the same instant.

use std::time::Duration;

use hostel_wire::random;

use crate::mesh::tuning::Reconnect;

/// The waits between connections.
#[derive(Debug)]
pub(super) struct Backoff {
    terms: Reconnect,
    next_ms: u64,
}

impl Backoff {
    pub(super) fn new(terms: Reconnect) -> Self {
        Self { terms, next_ms: terms.initial_ms }
    }

    /// The settings may say something else by now.
    pub(super) fn adopt(&mut self, terms: Reconnect) {
        self.terms = terms;
    }

    /// There was a welcome.
    pub(super) fn reset(&mut self) {
        self.next_ms = self.terms.initial_ms;
    }

    /// As long as it gets: for what will not be better soon.
    pub(super) fn longest(&mut self) -> Duration {
        self.next_ms = self.terms.max_ms;
        self.next()
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let now = self.next_ms.min(self.terms.max_ms);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "milliseconds up to a cap"
        )]
        let grown = (now as f64 * self.terms.multiplier.max(1.0)).min(self.terms.max_ms as f64) as u64;
        self.next_ms = grown;
        Duration::from_millis(random::jittered(now, self.terms.jitter_pct))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_to_the_cap_and_starts_again() {
        let terms = Reconnect { initial_ms: 500, max_ms: 30_000, multiplier: 2.0, jitter_pct: 25 };
        let mut backoff = Backoff::new(terms);
        for base in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            let wait = u64::try_from(backoff.next().as_millis()).unwrap();
            assert!(wait >= base * 3 / 4 && wait <= base * 5 / 4, "{wait} for {base}");
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(625));
        assert!(backoff.longest() >= Duration::from_millis(22_500));
    }
}
