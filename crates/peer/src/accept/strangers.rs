//! The places of those who have not shown who they are.
//!
//! Guarantee: one user of this machine, or one address elsewhere, has at most its share of the pool, so that it cannot keep
//! the others out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// How many strangers there may be.
#[derive(Clone, Copy, Debug)]
pub struct StrangerLimits {
    /// Of all together.
    pub total: usize,
    /// Of one user or one address.
    pub per_source: usize,
    /// How long one may take to show a token.
    pub time: Duration,
}

impl Default for StrangerLimits {
    fn default() -> Self {
        StrangerLimits { total: 64, per_source: 16, time: Duration::from_secs(10) }
    }
}

/// Where a connection comes from, as far as shares are concerned.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Source {
    /// A user of this machine.
    User(u32),
    /// A process of this machine, nobody knows whose.
    Nobody,
    /// Another machine. Of an IPv6 address only the network counts, since a machine has as many addresses in it as it likes.
    Address(IpAddr),
    /// A proxy of this machine, which speaks for others. It has no share of its own; all places are its.
    Proxy,
}

impl Source {
    pub(super) fn of_address(address: IpAddr) -> Self {
        Source::Address(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
        })
    }
}

/// The pool.
#[derive(Debug)]
pub(super) struct Strangers {
    limits: StrangerLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_source: HashMap<Source, usize>,
}

/// One place of the pool; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    pool: Arc<Strangers>,
    source: Source,
}

impl Strangers {
    pub(super) fn new(limits: StrangerLimits) -> Arc<Self> {
        Arc::new(Strangers { limits, taken: Mutex::default() })
    }

    pub(super) fn time(&self) -> Duration {
        self.limits.time
    }

    /// A place, if there is one for this source.
    pub(super) fn take(self: &Arc<Self>, source: Source) -> Option<Stranger> {
        let mut taken = self.taken.lock();
        let of_source = taken.by_source.get(&source).copied().unwrap_or_default();
        let share = if source == Source::Proxy { self.limits.total } else { self.limits.per_source };
        if taken.total >= self.limits.total || of_source >= share {
            return None;
        }
        taken.total += 1;
        taken.by_source.insert(source, of_source + 1);
        Some(Stranger { pool: Arc::clone(self), source })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut taken = self.pool.taken.lock();
        taken.total = taken.total.saturating_sub(1);
        if let Some(count) = taken.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                taken.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(total: usize, per_source: usize) -> Arc<Strangers> {
        Strangers::new(StrangerLimits { total, per_source, ..StrangerLimits::default() })
    }

    #[test]
    fn nobody_has_more_than_their_share() {
        let pool = pool(5, 2);
        let mallory: Vec<_> = std::iter::from_fn(|| pool.take(Source::User(1))).collect();
        assert_eq!(mallory.len(), 2);
        let bob: Vec<_> = std::iter::from_fn(|| pool.take(Source::User(2))).collect();
        let nobody = pool.take(Source::Nobody);
        assert_eq!((bob.len(), nobody.is_some()), (2, true));
        assert!(pool.take(Source::User(3)).is_none(), "the pool has an end");
        drop(mallory);
        assert!(pool.take(Source::User(3)).is_some());
        drop((bob, nobody));
        assert!(pool.taken.lock().by_source.is_empty(), "nothing is kept of those who left");
        assert_eq!(std::iter::from_fn(|| pool.take(Source::Proxy)).collect::<Vec<_>>().len(), 5);
    }

    #[test]
    fn one_network_is_one_source() {
        let of = |text: &str| Source::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::1"), of("2001:db8:1:2:ffff::7"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
