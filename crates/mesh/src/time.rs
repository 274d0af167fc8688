//! What time it is in a mesh: as the broker has it, and for what is thrown away when it is old.
//!
//! Invariant: the broker's time is what it last said, and since then time that passed: to what our own clock is set
//! meanwhile changes nothing. Nothing is older than it is by both of the two: a clock that is ahead, or is set forward,
//! throws nothing away as long as the broker says otherwise, or for a day while the daemon runs. Before the broker was
//! heard, a clock that is more than a day ahead of what the daemon before believed is doubted in the same way.
//!
//! It shows nobody the time: what people see is their own machine's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_wire::{BelievedTime, BelievingClock, Clock};

/// The time of a mesh. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MeshTime {
    clock: Clock,
    /// What the broker said, and when that was, in time that passes; 0: it has not said anything.
    heard: Arc<(AtomicU64, AtomicU64)>,
    /// Our own clock, as it is believed since this start, and since the daemon before.
    started: BelievingClock,
    kept: BelievingClock,
}

impl MeshTime {
    pub(crate) fn new(clock: Clock) -> Self {
        let (started, kept) = (clock.believing(), clock.believing());
        Self { clock, heard: Arc::default(), started, kept }
    }

    /// Goes on from what the daemon before believed.
    pub(crate) fn resume(&self, kept: BelievedTime) {
        self.kept.resume(kept);
    }

    /// What is believed now, for the next daemon.
    pub(crate) fn believed(&self) -> BelievedTime {
        match self.heard() {
            Some(broker) => BelievedTime { time_ms: broker.min(self.started.believed().time_ms), doubted_ms: 0 },
            None => self.kept.believed(),
        }
    }

    /// The broker says what time it is.
    pub(crate) fn note(&self, broker_ms: u64) {
        self.heard.1.store(self.clock.passing_ms(), Ordering::Relaxed);
        self.heard.0.store(broker_ms, Ordering::Release);
    }

    fn heard(&self) -> Option<u64> {
        let said = Some(self.heard.0.load(Ordering::Acquire)).filter(|said| *said != 0)?;
        let passed = self.clock.passing_ms().saturating_sub(self.heard.1.load(Ordering::Relaxed));
        Some(said.saturating_add(passed))
    }

    /// The time as the broker has it; our own before it has said so.
    pub(crate) fn broker_ms(&self) -> u64 {
        self.heard().unwrap_or_else(|| self.clock.now_ms())
    }

    /// By which what was written with our own time is thrown away when it is old.
    pub(crate) fn ages(&self) -> Clock {
        let time = self.clone();
        Clock::of(move || time.believed().time_ms)
    }

    /// For what waits, both when it began to and until when: to what our own clock is set changes nothing. Never the
    /// broker's alone, which may be wrong as well, and right again before the wait is over. Only where both say that it is
    /// later it is: a machine that starts with a clock that is behind, as those without a battery do, is set soon, and
    /// what it notes from then on must not look old to a daemon that is started later.
    pub(crate) fn waiting(&self) -> Clock {
        let (time, unset) = (self.clone(), self.clock.unset());
        Clock::of(move || {
            let agreed = time.heard().map_or(0, |broker| broker.min(time.clock.now_ms()));
            unset.now_ms().max(agreed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3_600_000;

    /// A clock that can be set, in a machine in which time passes.
    fn machine() -> (MeshTime, impl Fn(u64), impl Fn(u64)) {
        let (wall, passing) = (Arc::new(AtomicU64::new(100 * DAY)), Arc::new(AtomicU64::new(0)));
        let (shown, passed) = (Arc::clone(&wall), Arc::clone(&passing));
        let clock = Clock::of_both(move || shown.load(Ordering::Relaxed), move || passed.load(Ordering::Relaxed));
        let also = Arc::clone(&wall);
        let set = move |ms| wall.store(ms, Ordering::Relaxed);
        let pass = move |ms| {
            also.fetch_add(ms, Ordering::Relaxed);
            passing.fetch_add(ms, Ordering::Relaxed);
        };
        (MeshTime::new(clock), set, pass)
    }

    #[test]
    fn the_brokers_time_goes_on_whatever_ours_is_set_to() {
        let (time, set, pass) = machine();
        assert_eq!(time.broker_ms(), 100 * DAY, "our own is all there is");
        time.note(103 * DAY);
        pass(5);
        set(40 * DAY);
        assert_eq!(time.broker_ms(), 103 * DAY + 5);
        time.note(102 * DAY);
        assert_eq!(time.broker_ms(), 102 * DAY, "its own was set");
    }

    #[test]
    fn nothing_grows_old_by_a_clock() {
        let (time, set, pass) = machine();
        let (ages, waiting) = (time.ages(), time.waiting());
        set(140 * DAY);
        pass(DAY);
        assert_eq!((ages.now_ms(), waiting.now_ms()), (101 * DAY, 101 * DAY), "set forward");
        set(50 * DAY);
        assert_eq!((ages.now_ms(), waiting.now_ms()), (50 * DAY, 101 * DAY), "set back");
        // A machine that was started with a wrong clock knows better once the broker is heard.
        let (time, _, pass) = machine();
        let (ages, waiting) = (time.ages(), time.waiting());
        time.note(60 * DAY);
        pass(DAY);
        assert_eq!((ages.now_ms(), waiting.now_ms()), (61 * DAY, 101 * DAY));
    }

    #[test]
    fn a_clock_that_is_wrong_at_the_start_makes_nothing_old_before_the_broker_is_heard() {
        let (time, set, pass) = machine();
        let ages = time.ages();
        set(140 * DAY);
        time.resume(BelievedTime { time_ms: 100 * DAY, doubted_ms: 0 });
        pass(DAY / 2);
        assert_eq!(ages.now_ms(), 100 * DAY + DAY / 2);
        assert_eq!(time.believed(), BelievedTime { time_ms: 100 * DAY + DAY / 2, doubted_ms: DAY / 2 });
        time.note(101 * DAY);
        let believed = BelievedTime { time_ms: 100 * DAY + DAY / 2, doubted_ms: 0 };
        assert_eq!(time.believed(), believed, "the broker is heard, and the clock was right at the start");
    }

    #[test]
    fn a_clock_that_was_behind_at_the_start_makes_nothing_old_later() {
        let (time, set, pass) = machine();
        let (ages, waiting) = (time.ages(), time.waiting());
        time.note(140 * DAY);
        assert_eq!(waiting.now_ms(), 100 * DAY, "ours says otherwise");
        set(140 * DAY);
        pass(5);
        // What is noted now is as old as it is when the daemon is started again with the right clock.
        assert_eq!((ages.now_ms(), waiting.now_ms()), (100 * DAY + 5, 140 * DAY + 5));
        set(180 * DAY);
        assert_eq!(waiting.now_ms(), 140 * DAY + 5, "the broker says otherwise");
        time.note(u64::MAX);
        set(100 * DAY);
        assert_eq!((ages.now_ms(), waiting.now_ms()), (100 * DAY, 100 * DAY + 5));
    }
}
