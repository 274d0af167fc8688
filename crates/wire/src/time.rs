//! The time of day as a value, so that tests and simulations can set it.
//!
//! Invariant: there are two kinds of time. What is shown, and what is compared with what others say, is the time of day,
//! which may be set at any moment. How long something has lasted is told by time that only passes: a clock that is set
//! ages nothing.
//!
//! It never waits; waiting is tokio's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

type Read = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A clock of the wall, in milliseconds since 1970. Cheap to clone.
#[derive(Clone)]
pub struct Clock {
    wall: Read,
    /// Time that only passes, where that is not the same.
    passing: Option<Read>,
}

impl Clock {
    /// The machine's own.
    #[must_use]
    pub fn system() -> Self {
        let wall = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        };
        Self::of_both(wall, since_boot_ms)
    }

    /// One that says what `read` says, and is never set.
    #[must_use]
    pub fn of(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { wall: Arc::new(read), passing: None }
    }

    /// One that shows what `wall` says and may be set, while time passes as `passing` says.
    #[must_use]
    pub fn of_both(
        wall: impl Fn() -> u64 + Send + Sync + 'static,
        passing: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall), passing: Some(Arc::new(passing)) }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.wall)()
    }

    /// Milliseconds since some moment, of time that only passes.
    #[must_use]
    pub fn passing_ms(&self) -> u64 {
        self.passing.as_ref().unwrap_or(&self.wall)()
    }

    /// A clock that shows what this one shows now and goes on from there, to whatever this one is set later.
    #[must_use]
    pub fn unset(&self) -> Self {
        let Some(passing) = self.passing.clone() else { return self.clone() };
        let (shown, began) = (self.now_ms(), passing());
        Self::of(move || shown.saturating_add(passing().saturating_sub(began)))
    }

    /// A clock by which things are thrown away when they are old: what this one shows, or what it would show if it had
    /// never been set forward, whichever is earlier. One that was set by mistake throws nothing away. What it was set to
    /// and stays at for a day is no mistake: on a machine that starts with a clock that is behind, things grow old too.
    #[must_use]
    pub fn cautious(&self) -> Self {
        self.believing().clock()
    }

    /// The same, as a value that can go on from what an earlier process believed.
    #[must_use]
    pub fn believing(&self) -> BelievingClock {
        let belief = self
            .passing
            .as_ref()
            .map(|passing| Arc::new(Mutex::new(Belief { shown: self.now_ms(), at: passing(), doubt: None })));
        BelievingClock { clock: self.clone(), belief }
    }
}

/// Clocks that differ by less than this agree.
const AGREE_MS: u64 = 60_000;

/// What a clock was set forward to is believed after this long.
const BELIEVED_MS: u64 = 24 * 3_600_000;

/// A clock at a start that is ahead of what was believed before by more than this is doubted.
const START_AHEAD_MS: u64 = 24 * 3_600_000;

/// What a process keeps on disk of the time it believes, so that the next one doubts a clock that is wrong at its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BelievedTime {
    /// The time that was believed, in milliseconds since 1970.
    pub time_ms: u64,
    /// How long the clock had shown a later time by then without being believed. This adds up over restarts, so that a
    /// machine that never runs for a whole day believes its clock as well.
    pub doubted_ms: u64,
}

/// A clock that is believed only when it has not been set forward, or when that was long ago. Cheap to clone.
#[derive(Clone)]
pub struct BelievingClock {
    clock: Clock,
    /// Absent for a clock that is never set.
    belief: Option<Arc<Mutex<Belief>>>,
}

impl BelievingClock {
    /// Goes on from what an earlier process believed. A clock that is more than a day ahead of that is not believed until
    /// it has shown it for a day of time that passes.
    pub fn resume(&self, kept: BelievedTime) {
        let Some(belief) = &self.belief else { return };
        let (wall, passing) = (self.clock.now_ms(), self.clock.passing_ms());
        let ahead = wall.saturating_sub(kept.time_ms);
        let mut belief = belief.lock().unwrap_or_else(PoisonError::into_inner);
        *belief = match ahead > START_AHEAD_MS {
            true => {
                let doubt = Doubt { ahead, since: passing, before: kept.doubted_ms };
                Belief { shown: kept.time_ms, at: passing, doubt: Some(doubt) }
            }
            false => Belief { shown: wall, at: passing, doubt: None },
        };
    }

    /// What is believed now, to be kept on disk. Keep it every few minutes: the doubt is counted when this is asked.
    #[must_use]
    pub fn believed(&self) -> BelievedTime {
        let (wall, passing) = (self.clock.now_ms(), self.clock.passing_ms());
        let Some(belief) = &self.belief else { return BelievedTime { time_ms: wall, doubted_ms: 0 } };
        let mut belief = belief.lock().unwrap_or_else(PoisonError::into_inner);
        let time_ms = belief.look(wall, passing);
        BelievedTime { time_ms, doubted_ms: belief.doubt.map_or(0, |doubt| doubt.lasted(passing)) }
    }

    /// The time that is believed, as a clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        match self.belief {
            None => self.clock.clone(),
            Some(_) => {
                let own = self.clone();
                Clock::of(move || own.believed().time_ms)
            }
        }
    }
}

impl std::fmt::Debug for BelievingClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BelievingClock")
    }
}

/// What a cautious clock takes for the time.
struct Belief {
    /// What was shown at a moment of time that passes, and was believed.
    shown: u64,
    at: u64,
    doubt: Option<Doubt>,
}

/// The clock is ahead of what is believed.
#[derive(Clone, Copy)]
struct Doubt {
    /// By so much.
    ahead: u64,
    /// Since then, in time that passes.
    since: u64,
    /// And for so long in earlier processes.
    before: u64,
}

impl Doubt {
    fn lasted(&self, passing: u64) -> u64 {
        passing.saturating_sub(self.since).saturating_add(self.before)
    }
}

impl Belief {
    fn look(&mut self, wall: u64, passing: u64) -> u64 {
        let unset = self.shown.saturating_add(passing.saturating_sub(self.at));
        let ahead = wall.saturating_sub(unset);
        if wall > unset && ahead <= AGREE_MS {
            self.doubt = None;
            return unset;
        }
        let same = self.doubt.filter(|doubt| doubt.ahead.abs_diff(ahead) <= AGREE_MS);
        let doubt = same.unwrap_or(Doubt { ahead, since: passing, before: 0 });
        // Set back, it is believed at once: that throws nothing away.
        if wall <= unset || doubt.lasted(passing) >= BELIEVED_MS {
            *self = Self { shown: wall, at: passing, doubt: None };
            return wall;
        }
        self.doubt = Some(doubt);
        unset
    }
}

/// Milliseconds since the machine was started, those in which it slept included.
fn since_boot_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or_default(), u64::try_from(time.tv_nsec).unwrap_or_default());
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// A time as the contract writes it: RFC 3339 with milliseconds, in UTC.
#[must_use]
pub fn iso(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    format!("{time:.3}")
}

/// Reads an RFC 3339 time of any offset, in milliseconds since 1970; times before that do not exist here.
#[must_use]
pub fn parse_iso(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_clock_that_is_set_ages_nothing() {
        let (wall, passing) = (Arc::new(AtomicU64::new(1_000_000)), Arc::new(AtomicU64::new(5000)));
        let (shown, passed) = (Arc::clone(&wall), Arc::clone(&passing));
        let clock = Clock::of_both(move || shown.load(Ordering::Relaxed), move || passed.load(Ordering::Relaxed));
        let (unset, cautious) = (clock.unset(), clock.cautious());
        wall.store(9_000_000, Ordering::Relaxed);
        passing.store(5300, Ordering::Relaxed);
        assert_eq!((clock.now_ms(), clock.passing_ms(), unset.now_ms()), (9_000_000, 5300, 1_000_300));
        assert_eq!(cautious.now_ms(), 1_000_300, "it was set forward");
        wall.store(10, Ordering::Relaxed);
        assert_eq!(cautious.now_ms(), 10, "it was set back");
        assert_eq!((unset.now_ms(), unset.unset().now_ms(), unset.passing_ms()), (1_000_300, 1_000_300, 1_000_300));
    }

    #[test]
    fn what_a_clock_stays_at_for_a_day_is_believed() {
        const HOUR: u64 = 3_600_000;
        let (wall, passing) = (Arc::new(AtomicU64::new(1000)), Arc::new(AtomicU64::new(0)));
        let (shown, passed) = (Arc::clone(&wall), Arc::clone(&passing));
        let clock = Clock::of_both(move || shown.load(Ordering::Relaxed), move || passed.load(Ordering::Relaxed));
        let cautious = clock.cautious();
        let pass = |ms| {
            wall.fetch_add(ms, Ordering::Relaxed);
            passing.fetch_add(ms, Ordering::Relaxed);
            cautious.now_ms()
        };
        // Started before anybody had set it; set for a moment, and then to the right time.
        wall.store(9000 * HOUR, Ordering::Relaxed);
        assert_eq!(pass(HOUR), 1000 + HOUR);
        wall.store(5000 * HOUR, Ordering::Relaxed);
        assert_eq!(pass(HOUR), 1000 + 2 * HOUR);
        assert_eq!(pass(23 * HOUR), 1000 + 25 * HOUR, "not yet");
        assert_eq!(pass(HOUR), 5025 * HOUR);
        assert_eq!(pass(HOUR), 5026 * HOUR, "and it goes on");
        // Set back, and forward by less: that is still forward.
        wall.store(4000 * HOUR, Ordering::Relaxed);
        assert_eq!(pass(0), 4000 * HOUR);
        wall.store(4900 * HOUR, Ordering::Relaxed);
        assert_eq!(pass(HOUR), 4001 * HOUR);
    }

    #[test]
    fn a_clock_that_is_wrong_at_a_start_is_doubted_over_restarts() {
        const HOUR: u64 = 3_600_000;
        let (wall, passing) = (Arc::new(AtomicU64::new(5000 * HOUR)), Arc::new(AtomicU64::new(70)));
        let (shown, passed) = (Arc::clone(&wall), Arc::clone(&passing));
        let clock = Clock::of_both(move || shown.load(Ordering::Relaxed), move || passed.load(Ordering::Relaxed));
        let pass = |ms| {
            wall.fetch_add(ms, Ordering::Relaxed);
            passing.fetch_add(ms, Ordering::Relaxed);
        };
        let start = |kept| {
            let believing = clock.believing();
            believing.resume(kept);
            believing
        };
        // Less than a day ahead: it was off.
        let kept = BelievedTime { time_ms: 4980 * HOUR, doubted_ms: 0 };
        assert_eq!(start(kept).clock().now_ms(), 5000 * HOUR);
        // More than a day ahead: it is doubted, also by the next process, until that has lasted for a day.
        let kept = BelievedTime { time_ms: 4000 * HOUR, doubted_ms: 0 };
        let first = start(kept);
        pass(10 * HOUR);
        let kept_later = first.believed();
        assert_eq!(kept_later, BelievedTime { time_ms: 4010 * HOUR, doubted_ms: 10 * HOUR });
        // The machine is off for two days.
        wall.fetch_add(50 * HOUR, Ordering::Relaxed);
        let second = start(kept_later);
        pass(13 * HOUR);
        assert_eq!(second.clock().now_ms(), 4023 * HOUR);
        pass(HOUR);
        assert_eq!(second.believed(), BelievedTime { time_ms: wall.load(Ordering::Relaxed), doubted_ms: 0 });
        // The clock is put right: nothing is doubted any more.
        let third = start(kept);
        pass(HOUR);
        wall.store(4001 * HOUR, Ordering::Relaxed);
        assert_eq!(third.believed(), BelievedTime { time_ms: 4001 * HOUR, doubted_ms: 0 });
        // Set back at a start, it is believed at once.
        wall.store(30 * HOUR, Ordering::Relaxed);
        assert_eq!(start(kept).clock().now_ms(), 30 * HOUR);
    }

    #[test]
    fn the_machines_own_goes_on() {
        let clock = Clock::system();
        let (unset, before) = (clock.unset(), clock.passing_ms());
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(clock.passing_ms() >= before + 5);
        assert!(unset.now_ms() > clock.now_ms() - 60_000 && unset.now_ms() < clock.now_ms() + 60_000);
    }
}
