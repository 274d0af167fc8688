//! The numbers the link works with, taken from the settings once.

use std::time::Duration;

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
    pub(crate) reconnect: Reconnect,
    /// How long the broker may take to take a message; then the connection is made again.
    pub(crate) ack_timeout: Duration,
    /// Rows under way at once.
    pub(crate) window_rows: usize,
    /// Their bytes.
    pub(crate) window_bytes: usize,
    /// How often a sign of life is asked for.
    pub(crate) ping: Duration,
    /// How long the broker may be silent.
    pub(crate) silent: Duration,
    /// Further features that are required, and that would be welcome.
    pub(crate) require: Vec<String>,
    pub(crate) optional: Vec<String>,
    pub(crate) leave_on_end: bool,
    pub(crate) ephemeral: bool,
}
