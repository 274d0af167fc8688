//! The time of day as a value, so that tests and simulations can set it.
//!
//! It never waits; waiting is tokio's.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock of the wall, in milliseconds since 1970. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The machine's own.
    #[must_use]
    pub fn system() -> Self {
        Self::of(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// One that says what `read` says.
    #[must_use]
    pub fn of(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
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
