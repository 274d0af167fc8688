//! How to wait for a client's next request: asleep, or awake for a moment first.
//!
//! Waking a sleeping thread on an idle machine takes longer than answering a ping; on a busy one
//! staying awake steals time from the client it waits for. Which is better shows only in practice,
//! so both are tried on clients that ask in quick succession, and the better one is used for most
//! requests. A client that pauses is always waited for asleep: it costs nothing.

use std::time::Duration;

/// How long a wait stays awake.
pub(crate) const AWAKE: Duration = Duration::from_micros(50);

/// Requests after which the other way is tried again.
const ROUND: u32 = 640;
/// How many of a round try the way that is not in favour: under one in a hundred, so that trying
/// does not show in the slowest hundredth of the answers.
const TRIAL: u32 = 6;
/// Waits count as no longer than this: a pause says nothing about waking up.
const PAUSE: f64 = 200e-6;
/// Average waits asleep from which staying awake is not even tried.
const SLOW: f64 = 100e-6;
/// How much better staying awake must be.
const MARGIN: f64 = 0.85;
/// The weight of a new wait in an average.
const WEIGHT: f64 = 1.0 / 6.0;

/// What one client's waits have been like.
#[derive(Debug)]
pub(crate) struct Patience {
    asleep: f64,
    awake: f64,
    place: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { asleep: PAUSE, awake: PAUSE, place: 0 }
    }
}

impl Patience {
    /// Whether to stay awake for the next wait.
    pub(crate) fn stay_awake(&self) -> bool {
        if self.asleep >= SLOW && self.awake >= SLOW {
            return false;
        }
        let favoured = self.awake < self.asleep * MARGIN;
        favoured != (self.place < TRIAL)
    }

    /// Takes note of a wait.
    pub(crate) fn waited(&mut self, awake: bool, time: Duration) {
        let time = time.as_secs_f64().min(PAUSE);
        let average = if awake { &mut self.awake } else { &mut self.asleep };
        *average += (time - *average) * WEIGHT;
        self.place = (self.place + 1) % ROUND;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the last thousand of many waits stayed awake.
    fn awake_of_thousand(asleep_micros: u64, awake_micros: u64) -> usize {
        let mut patience = Patience::default();
        let mut stayed = Vec::new();
        for _ in 0..10_000 {
            let awake = patience.stay_awake();
            let micros = if awake { awake_micros } else { asleep_micros };
            patience.waited(awake, Duration::from_micros(micros));
            stayed.push(awake);
        }
        stayed[9_000..].iter().filter(|awake| **awake).count()
    }

    #[test]
    fn the_better_way_is_used_and_the_other_tried() {
        let quick = awake_of_thousand(40, 20);
        assert!((900..1000).contains(&quick), "{quick}");
        let busy = awake_of_thousand(10, 15);
        assert!((1..100).contains(&busy), "{busy}");
        let equal = awake_of_thousand(20, 19);
        assert!((1..100).contains(&equal), "{equal}");
    }

    #[test]
    fn a_client_that_pauses_is_waited_for_asleep() {
        assert_eq!(awake_of_thousand(5_000, 10), 0);
        assert_eq!(awake_of_thousand(150, 10), 0);
    }
}
