//! How fast a member may send and ask: a bucket that refills with time.
//!
//! Invariant: an id is charged once. A send that is repeated within a minute or two (its ack was lost, its lane was
//! blocked) costs nothing again, and neither does one that turns out to be a duplicate.
//!
//! It never waits and never refuses for good: who is refused hears when to come back.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a charged id is remembered, at least.
const MINUTE: Duration = Duration::from_secs(60);

/// The buckets of all members of all meshes.
pub(crate) struct Rates {
    per_second: f64,
    burst: f64,
    hasher: RandomState,
    buckets: Mutex<HashMap<u64, Arc<Bucket>>>,
}

/// One member's bucket.
pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    hasher: RandomState,
    state: Mutex<State>,
}

struct State {
    tokens: f64,
    at: Instant,
    /// Ids charged in the running minute and in the one before, as hashes.
    now: HashSet<u64>,
    before: HashSet<u64>,
    turned: Instant,
}

impl Rates {
    /// Buckets of `burst` tokens that get `per_second` back; 0: without a bottom.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            burst: f64::from(burst.max(1)),
            hasher: RandomState::new(),
            buckets: Mutex::default(),
        }
    }

    /// The bucket of a member. All its connections share it.
    pub(crate) fn of(&self, mesh: &str, member: &str) -> Arc<Bucket> {
        let key = self.hasher.hash_one((mesh, member));
        let bucket = || {
            let now = Instant::now();
            let state = State { tokens: self.burst, at: now, now: HashSet::new(), before: HashSet::new(), turned: now };
            let hasher = self.hasher.clone();
            Bucket { per_second: self.per_second, burst: self.burst, hasher, state: Mutex::new(state) }
        };
        Arc::clone(self.buckets.lock().entry(key).or_insert_with(|| Arc::new(bucket())))
    }

    /// Forgets buckets nobody uses that are full again.
    pub(crate) fn sweep(&self) {
        let full = Duration::from_secs_f64(self.burst / self.per_second.max(1.0)).max(2 * MINUTE);
        self.buckets
            .lock()
            .retain(|_, bucket| Arc::strong_count(bucket) > 1 || bucket.state.lock().at.elapsed() < full);
    }
}

impl Bucket {
    /// Takes a token for this id, or says how long until there is one. The answer is whether it cost anything.
    pub(crate) fn take(&self, id: &str) -> Result<bool, Duration> {
        if self.per_second == 0.0 {
            return Ok(false);
        }
        let (now, id) = (Instant::now(), self.hasher.hash_one(id));
        let mut state = self.state.lock();
        state.turn(now);
        if state.now.contains(&id) || state.before.contains(&id) {
            return Ok(false);
        }
        self.charge(&mut state, now)?;
        state.now.insert(id);
        Ok(true)
    }

    /// Takes a token for something without an id, or says how long until there is one.
    pub(crate) fn take_one(&self) -> Result<(), Duration> {
        match self.per_second == 0.0 {
            true => Ok(()),
            false => self.charge(&mut self.state.lock(), Instant::now()),
        }
    }

    fn charge(&self, state: &mut State, now: Instant) -> Result<(), Duration> {
        let gained = now.saturating_duration_since(state.at).as_secs_f64() * self.per_second;
        state.tokens = (state.tokens + gained).min(self.burst);
        state.at = now;
        if state.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - state.tokens) / self.per_second));
        }
        state.tokens -= 1.0;
        Ok(())
    }

    /// Gives a token back: what it was taken for was in the log already.
    pub(crate) fn give_back(&self) {
        let mut state = self.state.lock();
        state.tokens = (state.tokens + 1.0).min(self.burst);
    }
}

impl State {
    /// Moves on to the next minute.
    fn turn(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.turned);
        if elapsed < MINUTE {
            return;
        }
        self.before = if elapsed < 2 * MINUTE { std::mem::take(&mut self.now) } else { HashSet::new() };
        self.now = HashSet::new();
        self.turned = now;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_a_steady_rate() {
        let rates = Rates::new(100, 10);
        let bucket = rates.of("m", "a");
        for n in 0..10 {
            bucket.take(&format!("id-{n}")).unwrap();
        }
        let wait = bucket.take("one more").unwrap_err();
        assert!(wait <= Duration::from_millis(10), "{wait:?}");
        tokio::time::advance(wait + Duration::from_millis(1)).await;
        bucket.take("one more").unwrap();
        bucket.take("and another").unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_is_charged_once() {
        let rates = Rates::new(1, 2);
        let bucket = rates.of("m", "a");
        assert!(bucket.take("same").unwrap());
        for _ in 0..5 {
            assert!(!bucket.take("same").unwrap());
        }
        bucket.take("other").unwrap();
        bucket.take("third").unwrap_err();
        // Across the turn of the minute as well.
        tokio::time::advance(Duration::from_secs(61)).await;
        bucket.take("same").unwrap();
        bucket.take("x").unwrap();
        bucket.take("y").unwrap();
        bucket.take("z").unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn members_do_not_share_and_idle_ones_are_forgotten() {
        let rates = Rates::new(1, 1);
        rates.of("m", "a").take("1").unwrap();
        rates.of("m", "b").take("1").unwrap();
        let held = rates.of("m", "a");
        held.take("2").unwrap_err();
        tokio::time::advance(Duration::from_secs(300)).await;
        rates.sweep();
        assert_eq!(rates.buckets.lock().len(), 1);
        drop(held);
        rates.sweep();
        assert_eq!(rates.buckets.lock().len(), 0);
    }
}
