//! What happened, line by line: printed for who looks (`HOSTEL_TRACE=1`), and as one digest for who compares.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

static SILENT: AtomicBool = AtomicBool::new(false);

/// Traces that begin from now on print nothing, or may again.
pub fn silence(silent: bool) {
    SILENT.store(silent, Ordering::Relaxed);
}

#[derive(Clone)]
pub struct Trace(Arc<Inner>);

struct Inner {
    now_ms: AtomicU64,
    stamps: AtomicU64,
    print: bool,
    digest: Mutex<Sha256>,
    lines: AtomicU64,
}

impl Trace {
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            now_ms: AtomicU64::new(0),
            stamps: AtomicU64::new(0),
            print: std::env::var_os("HOSTEL_TRACE").is_some() && !SILENT.load(Ordering::Relaxed),
            digest: Mutex::new(Sha256::new()),
            lines: AtomicU64::new(0),
        }))
    }

    pub fn note(&self, what: impl Display) {
        let line = format!("{:>9} {what}", self.now_ms());
        if self.0.print {
            eprintln!("{line}");
        }
        self.0.lines.fetch_add(1, Ordering::Relaxed);
        self.0.digest.lock().update(line);
    }

    /// For who looks, not for who compares.
    pub fn aside(&self, what: impl Display) {
        if self.0.print {
            eprintln!("{:>9} {what}", self.now_ms());
        }
    }

    pub fn prints(&self) -> bool {
        self.0.print
    }

    pub fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Ordering::Relaxed)
    }

    pub fn set_now(&self, now_ms: u64) {
        self.0.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// A number that is larger than all before it: what happened first has the smaller one.
    pub fn stamp(&self) -> u64 {
        self.0.stamps.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn digest(&self) -> (u64, String) {
        let digest = self.0.digest.lock().clone().finalize();
        let text = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        (self.0.lines.load(Ordering::Relaxed), text)
    }
}
