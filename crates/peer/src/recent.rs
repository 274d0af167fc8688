//! A few results of the last second.
//!
//! What a lookup found a moment ago is as good as what it would find now: parents of a process may change after any look.
//! What must hold at this instant (that a process is still the same) is never taken from here.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a result counts.
const LIFETIME: Duration = Duration::from_secs(1);

/// Results that are kept. If all of them still count, a new one is not kept.
const CAPACITY: usize = 64;

/// Results by what they were found for.
pub(crate) struct Recent<K, V>(Mutex<Vec<Entry<K, V>>>);

struct Entry<K, V> {
    key: K,
    value: V,
    until: Instant,
}

impl<K: Eq, V: Clone> Recent<K, V> {
    pub(crate) const fn new() -> Self {
        Recent(Mutex::new(Vec::new()))
    }

    /// The result for a key, looked up if none was within the last second. Failures are not kept.
    pub(crate) fn get_or_look_up(&self, key: K, look_up: impl FnOnce() -> Option<V>) -> Option<V> {
        let now = Instant::now();
        if let Some(known) = self.known(&key, now) {
            return Some(known);
        }
        let value = look_up()?;
        self.keep(key, value.clone(), now);
        Some(value)
    }

    fn known(&self, key: &K, now: Instant) -> Option<V> {
        let entries = self.0.lock();
        entries.iter().find(|entry| entry.key == *key && now < entry.until).map(|entry| entry.value.clone())
    }

    fn keep(&self, key: K, value: V, now: Instant) {
        let mut entries = self.0.lock();
        entries.retain(|entry| now < entry.until && entry.key != key);
        if entries.len() < CAPACITY {
            entries.push(Entry { key, value, until: now + LIFETIME });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_for_a_second() {
        let (recent, start) = (Recent::new(), Instant::now());
        recent.keep(1, "a", start);
        let last = start + LIFETIME.saturating_sub(Duration::from_nanos(1));
        assert_eq!((recent.known(&1, start), recent.known(&1, last)), (Some("a"), Some("a")));
        assert_eq!(recent.known(&1, start + LIFETIME), None, "its second is over");
        assert_eq!(recent.known(&2, start), None, "another key");
        recent.keep(1, "b", last);
        assert_eq!(recent.known(&1, last), Some("b"));
        assert_eq!(recent.0.lock().len(), 1);
    }

    #[test]
    fn what_counts_is_not_pushed_out_and_what_is_over_makes_room() {
        let (recent, start) = (Recent::new(), Instant::now());
        for key in 0..2 * CAPACITY {
            recent.keep(key, key, start);
        }
        let kept = || recent.0.lock().len();
        assert_eq!((kept(), recent.known(&0, start)), (CAPACITY, Some(0)));
        recent.keep(1000, 1000, start + LIFETIME);
        assert_eq!((kept(), recent.known(&1000, start + LIFETIME)), (1, Some(1000)));
    }

    #[test]
    fn failures_are_looked_up_again() {
        let recent = Recent::new();
        assert_eq!(recent.get_or_look_up(1, || None), None::<u8>);
        assert_eq!(recent.get_or_look_up(1, || Some(7)), Some(7));
        assert_eq!(recent.get_or_look_up(1, || panic!("it is known")), Some(7));
    }
}
