//! The numbers the link works with, as the settings have them at this moment.
//!
//! Invariant: nothing is copied out of the settings for longer than one use, so that what is changed in them counts
//! without a new connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::home::{Live, Settings};

/// Rows under way at once, and their bytes.
const WINDOW_ROWS: usize = 256;
const WINDOW_BYTES: usize = 1024 * 1024;

/// How a lost connection is made again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reconnect {
    pub(crate) initial_ms: u64,
    pub(crate) max_ms: u64,
    pub(crate) multiplier: f64,
    pub(crate) jitter_pct: u32,
}

/// The numbers.
#[derive(Debug, Clone)]
pub(crate) struct Tuning {
    settings: Live<Settings>,
    pub(crate) leave_on_end: bool,
    pub(crate) ephemeral: bool,
    /// Rows under way at once.
    pub(crate) window_rows: usize,
    /// Their bytes.
    pub(crate) window_bytes: usize,
}

impl Tuning {
    pub(crate) fn new(settings: Live<Settings>, leave_on_end: bool, ephemeral: bool) -> Self {
        Self { settings, leave_on_end, ephemeral, window_rows: WINDOW_ROWS, window_bytes: WINDOW_BYTES }
    }

    /// How a lost connection is made again.
    pub(crate) fn reconnect(&self) -> Reconnect {
        let settings = self.settings.get();
        Reconnect {
            initial_ms: settings.reconnect.initial_backoff_ms,
            max_ms: settings.reconnect.max_backoff_ms,
            multiplier: settings.reconnect.backoff_multiplier,
            jitter_pct: settings.reconnect.jitter_pct,
        }
    }

    /// How long the broker may take to take a message; then the connection is made again.
    pub(crate) fn ack_timeout(&self) -> Duration {
        Duration::from_secs(self.settings.get().broker.ack_timeout_s.max(1))
    }

    /// How often a sign of life is asked for.
    pub(crate) fn ping(&self) -> Duration {
        Duration::from_secs(self.settings.get().broker.ping_s.max(1))
    }

    /// How long the broker may be silent.
    pub(crate) fn silent(&self) -> Duration {
        Duration::from_secs(self.settings.get().broker.silence_s.max(1))
    }

    /// Further features that are required, and that would be welcome; they count from the next connection on.
    pub(crate) fn features(&self) -> (Vec<String>, Vec<String>) {
        let settings = self.settings.get();
        (settings.features.require.clone(), settings.features.optional.clone())
    }

    /// Tells when any of it may have changed.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Settings>> {
        self.settings.watch()
    }
}
