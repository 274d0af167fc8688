//! Moments as the contract writes them.

use jiff::Timestamp;

/// A moment of wall clock in nanoseconds, as RFC 3339 with milliseconds.
pub(crate) fn rfc3339(ns: u64) -> String {
    let moment = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{moment:.3}")
}

/// Now.
pub(crate) fn now() -> String {
    rfc3339(now_ns())
}

/// Now in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_with_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_790_000_000_123_456_789), "2026-09-21T14:13:20.123Z");
    }
}
