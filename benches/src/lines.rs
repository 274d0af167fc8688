//! The child of the latency scenario: one short line at a fixed pace, each the time it was written.
//!
//! The clock is the machine's monotonic one, which every process reads alike.

use std::io::Write as _;
use std::time::Duration;
use std::time::Instant;

use anyhow::Result;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanoseconds
}

/// Prints `count` lines, one each `interval`, late ones at once.
pub(crate) fn print(interval: Duration, count: u64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut line = Vec::with_capacity(32);
    let mut due = Instant::now();
    for _ in 0..count {
        due += interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        line.clear();
        writeln!(line, "{}", now_ns())?;
        out.write_all(&line)?;
        out.flush()?;
    }
    Ok(())
}
