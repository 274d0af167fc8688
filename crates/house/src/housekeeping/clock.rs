//! The believed time of day, by which housekeeping judges ages.
//!
//! Invariant: a clock that was set by mistake makes nothing old, neither while the daemon runs nor over its restarts. The
//! newest time that was believed is in `state.db`. Where the clock is ahead of it by more than the house can have been away
//! for unnoticed, time goes on from the stored one until the clock has stayed where it is for a day. A clock that is behind
//! is followed at once, because that makes things younger, and the stored time stays until the clock has stayed behind for a
//! day.
//!
//! Ages only; what is shown to people and written beside events is the clock of the wall.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const SECOND_NS: u64 = 1_000_000_000;
/// Clocks that differ by less agree. The difference may be made up of many small corrections, so a look follows it.
const AGREE_NS: u64 = 60 * SECOND_NS;
/// A clock that differs from the expected time is believed after the difference has lasted this long.
const BELIEVED_AFTER_NS: u64 = 24 * 3600 * SECOND_NS;
/// A daemon may have been away for this long without doubt about the clock it finds.
const AWAY_NS: u64 = 24 * 3600 * SECOND_NS;

type Read = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The two clocks of a machine, as values, so that tests can set them.
#[derive(Clone)]
pub struct TimeSource {
    wall_ns: Read,
    passing_ns: Read,
}

impl std::fmt::Debug for TimeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TimeSource")
    }
}

impl TimeSource {
    /// The machine's own.
    #[must_use]
    pub fn system() -> Self {
        let wall = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        };
        let passing = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
            seconds.saturating_mul(SECOND_NS).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
        };
        Self::of(wall, passing)
    }

    /// The time of day, nanoseconds since 1970, which may be set, and time that only passes.
    #[must_use]
    pub fn of(
        wall_ns: impl Fn() -> u64 + Send + Sync + 'static,
        passing_ns: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { wall_ns: Arc::new(wall_ns), passing_ns: Arc::new(passing_ns) }
    }

    pub(super) fn passing_ns(&self) -> u64 {
        (self.passing_ns)()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct BelievedClock {
    source: TimeSource,
    /// The newest time that was believed, and when that was.
    believed_ns: u64,
    at_passing_ns: u64,
    /// The clock differs from that by so much, since then.
    apart: Option<Apart>,
}

#[derive(Debug, Clone, Copy)]
struct Apart {
    /// Ahead if positive.
    by_ns: i128,
    since_passing_ns: u64,
}

impl BelievedClock {
    /// Goes on from what the last daemon believed; none where there was no daemon yet, or an older program.
    pub(super) fn new(source: TimeSource, stored_ns: Option<u64>) -> Self {
        let (wall, passing) = ((source.wall_ns)(), source.passing_ns());
        let believed_ns = match stored_ns {
            Some(stored) if wall < stored || wall - stored > AWAY_NS => stored,
            _ => wall,
        };
        Self { source, believed_ns, at_passing_ns: passing, apart: None }
    }

    /// Returns the believed time of day.
    pub(super) fn now_ns(&mut self) -> u64 {
        let (wall, passing) = ((self.source.wall_ns)(), self.source.passing_ns());
        let expected = self.believed_ns.saturating_add(passing.saturating_sub(self.at_passing_ns));
        let by_ns = i128::from(wall) - i128::from(expected);
        if by_ns.unsigned_abs() <= u128::from(AGREE_NS) {
            return self.believe(wall, passing);
        }
        let same = self.apart.filter(|apart| (apart.by_ns - by_ns).unsigned_abs() <= u128::from(AGREE_NS));
        let apart = same.unwrap_or(Apart { by_ns, since_passing_ns: passing });
        if passing.saturating_sub(apart.since_passing_ns) >= BELIEVED_AFTER_NS {
            return self.believe(wall, passing);
        }
        self.apart = Some(apart);
        wall.min(expected)
    }

    fn believe(&mut self, wall_ns: u64, passing_ns: u64) -> u64 {
        (self.believed_ns, self.at_passing_ns, self.apart) = (wall_ns, passing_ns, None);
        wall_ns
    }

    /// The newest time that was believed, to be stored.
    pub(super) fn newest_ns(&self) -> u64 {
        let passed = self.source.passing_ns().saturating_sub(self.at_passing_ns);
        self.believed_ns.saturating_add(passed)
    }

    /// By how much the clock is doubted: positive if it is ahead.
    pub(super) fn doubt_ns(&self) -> Option<i128> {
        self.apart.map(|apart| apart.by_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const HOUR: u64 = 3600 * SECOND_NS;
    const DAY: u64 = 24 * HOUR;
    const START: u64 = 1_000_000 * HOUR;

    struct Machine {
        wall: Arc<AtomicU64>,
        passing: Arc<AtomicU64>,
    }

    impl Machine {
        fn new() -> Self {
            Self { wall: Arc::new(AtomicU64::new(START)), passing: Arc::new(AtomicU64::new(5)) }
        }

        fn clock(&self, stored: Option<u64>) -> BelievedClock {
            let (wall, passing) = (Arc::clone(&self.wall), Arc::clone(&self.passing));
            let source = TimeSource::of(move || wall.load(Ordering::Relaxed), move || passing.load(Ordering::Relaxed));
            BelievedClock::new(source, stored)
        }

        fn pass(&self, ns: u64) {
            self.wall.fetch_add(ns, Ordering::Relaxed);
            self.passing.fetch_add(ns, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_clock_that_is_set_forward_ages_nothing_for_a_day() {
        let machine = Machine::new();
        let mut clock = machine.clock(Some(START - HOUR));
        assert_eq!(clock.now_ns(), START);
        machine.wall.fetch_add(40 * DAY, Ordering::Relaxed);
        assert_eq!(clock.now_ns(), START);
        machine.pass(23 * HOUR);
        assert_eq!(clock.now_ns(), START + 23 * HOUR);
        assert!(clock.doubt_ns().is_some());
        // Set right again: nothing happened.
        machine.wall.fetch_sub(40 * DAY, Ordering::Relaxed);
        machine.pass(2 * HOUR);
        assert_eq!((clock.now_ns(), clock.doubt_ns()), (START + 25 * HOUR, None));
        // After a day the new time is believed.
        machine.wall.fetch_add(40 * DAY, Ordering::Relaxed);
        clock.now_ns();
        machine.pass(DAY);
        assert_eq!(clock.now_ns(), START + 25 * HOUR + 41 * DAY);
    }

    #[test]
    fn a_start_with_a_clock_that_is_ahead_goes_on_from_the_stored_time() {
        let machine = Machine::new();
        let mut clock = machine.clock(Some(START - 40 * DAY));
        assert_eq!(clock.now_ns(), START - 40 * DAY);
        assert_eq!(clock.newest_ns(), START - 40 * DAY);
        machine.pass(DAY);
        assert_eq!(clock.now_ns(), START + DAY, "the house was away for that long");
    }

    #[test]
    fn a_clock_that_is_behind_makes_things_younger_and_forgets_nothing() {
        let machine = Machine::new();
        let mut clock = machine.clock(Some(START + DAY));
        assert_eq!(clock.now_ns(), START);
        assert_eq!(clock.newest_ns(), START + DAY);
        // A machine without a battery hears the time a little later.
        machine.wall.fetch_add(DAY + 30 * SECOND_NS, Ordering::Relaxed);
        assert_eq!(clock.now_ns(), START + DAY + 30 * SECOND_NS);
    }
}
