//! A token bucket: so many at once, so many a second after that.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A bucket that fills by itself.
pub(super) struct Bucket {
    /// Per second; none: nothing is limited.
    rate: f64,
    burst: f64,
    level: Mutex<(f64, Instant)>,
}

impl Bucket {
    /// A full bucket. A rate of nought limits nothing.
    pub(super) fn new(rate: f64, burst: f64) -> Self {
        let burst = burst.max(1.0);
        Self { rate, burst, level: Mutex::new((burst, Instant::now())) }
    }

    /// Takes one out; else says when there will be one.
    pub(super) fn take(&self) -> Result<(), Duration> {
        if self.rate <= 0.0 || !self.rate.is_finite() {
            return Ok(());
        }
        let now = Instant::now();
        let mut level = self.level.lock();
        let (left, at) = *level;
        let filled = (left + now.saturating_duration_since(at).as_secs_f64() * self.rate).min(self.burst);
        if filled >= 1.0 {
            *level = (filled - 1.0, now);
            return Ok(());
        }
        *level = (filled, now);
        Err(Duration::from_secs_f64(((1.0 - filled) / self.rate).clamp(0.0, 3600.0)))
    }
}

/// Whole seconds for `Retry-After`: never nought, or the caller would be back at once.
pub(super) fn seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn full_then_by_the_second() {
        let bucket = Bucket::new(2.0, 3.0);
        for _ in 0..3 {
            bucket.take().unwrap();
        }
        let wait = bucket.take().unwrap_err();
        assert!(wait > Duration::from_millis(490) && wait <= Duration::from_millis(500), "{wait:?}");
        assert_eq!(seconds(wait), 1);
        tokio::time::advance(Duration::from_millis(501)).await;
        bucket.take().unwrap();
        assert!(bucket.take().is_err(), "asking in vain costs nothing and gives nothing");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..10).filter(|_| bucket.take().is_ok()).count(), 3, "it never holds more than the burst");
    }

    #[tokio::test(start_paused = true)]
    async fn nought_limits_nothing() {
        let bucket = Bucket::new(0.0, 1.0);
        assert!((0..10_000).all(|_| bucket.take().is_ok()));
    }

    #[test]
    fn a_wait_is_at_least_a_second() {
        assert_eq!(seconds(Duration::ZERO), 1);
        assert_eq!(seconds(Duration::from_millis(1001)), 2);
    }
}
