//! The numbers of `health.check`.
//!
//! Nothing here grows with the number of sessions, and the process's size is looked up at most once a second: the
//! call is made by everything that wants to know whether the daemon lives.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

/// How long a figure is good for.
const GOOD_FOR_MS: u64 = 1000;
/// What the contract's own numbers are made with, whatever the machine's pages are.
const PAGE_BYTES: u64 = 4096;

/// Megabytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Memory {
    #[serde(rename = "heapTotal")]
    heap_total: u64,
    #[serde(rename = "heapUsed")]
    heap_used: u64,
    rss: u64,
}

/// How large this process is and for how long it has been there.
pub(super) struct Vitals {
    started: Instant,
    statm: Option<File>,
    /// Milliseconds since the start when the figure was taken, plus one; 0 for never.
    taken: AtomicU64,
    megabytes: AtomicU64,
}

impl Vitals {
    pub(super) fn new(started: Instant) -> Self {
        let statm = File::open("/proc/self/statm").ok();
        Self { started, statm, taken: AtomicU64::new(0), megabytes: AtomicU64::new(0) }
    }

    /// Whole seconds.
    pub(super) fn uptime(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    pub(super) fn memory(&self) -> Memory {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let taken = self.taken.load(Ordering::Relaxed);
        if taken == 0 || now.saturating_sub(taken) >= GOOD_FOR_MS {
            self.taken.store(now, Ordering::Relaxed);
            self.megabytes.store(self.read().unwrap_or(0), Ordering::Relaxed);
        }
        let rss = self.megabytes.load(Ordering::Relaxed);
        Memory { heap_total: rss, heap_used: rss / 2, rss }
    }

    fn read(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        let pages = resident_pages(text.get(..length)?)?;
        Some(pages.saturating_mul(PAGE_BYTES) / (1024 * 1024))
    }
}

/// The second number of `statm`.
fn resident_pages(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_size() {
        let vitals = Vitals::new(Instant::now());
        let memory = vitals.memory();
        assert!(memory.rss > 0, "{memory:?}");
        assert_eq!((memory.heap_total, memory.heap_used), (memory.rss, memory.rss / 2));
        assert_eq!(vitals.memory(), memory, "the figure is kept");
    }

    #[test]
    fn the_second_number_counts() {
        assert_eq!(resident_pages(b"10 20 30\n"), Some(20));
        assert_eq!(resident_pages(b"10"), None);
        assert_eq!(resident_pages(b"\xff 1"), None);
    }
}
