//! Lines of the daemon's log: one JSON object each, with `level`, `msg`, `ts` and what belongs to it.
//!
//! It writes no file; whoever opens the mesh says where lines go. Bodies, keys and tokens never get into one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hostel_wire::{Clock, iso};
use serde_json::{Map, Value};

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For who looks for a fault.
    Debug,
    /// As usual.
    Info,
    /// Somebody may want to look.
    Warn,
    /// Somebody must.
    Error,
}

impl Level {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// Reads what `as_str` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Debug, Self::Info, Self::Warn, Self::Error].into_iter().find(|level| level.as_str() == text)
    }
}

type Sink = dyn Fn(Level, &str) + Send + Sync;

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    sink: Arc<Sink>,
    clock: Clock,
    /// The least level that is written; clones share it.
    least: Arc<AtomicU8>,
}

impl Log {
    /// Each line of at least `least` goes to `sink`, without a line end. The sink must not wait for long.
    pub fn new(clock: Clock, least: Level, sink: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self { sink: Arc::new(sink), clock, least: Arc::new(AtomicU8::new(least as u8)) }
    }

    /// Lines go nowhere.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(Clock::system(), Level::Error, |_, _| {})
    }

    /// From now on each line of at least this level is written, by every clone.
    pub fn set_level(&self, least: Level) {
        self.least.store(least as u8, Ordering::Relaxed);
    }

    /// Writes a line; `fields` is an object.
    pub fn line(&self, level: Level, msg: &str, fields: Value) {
        if (level as u8) < self.least.load(Ordering::Relaxed) {
            return;
        }
        let mut line = Map::new();
        line.insert("level".to_owned(), level.as_str().into());
        line.insert("msg".to_owned(), msg.into());
        line.insert("ts".to_owned(), iso(self.clock.now_ms()).into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        (self.sink)(level, &Value::Object(line).to_string());
    }

    /// Writes a line that belongs to the record, however little else is logged.
    pub fn record(&self, msg: &str, fields: Value) {
        let least = self.least.load(Ordering::Relaxed);
        let level = if (Level::Warn as u8) < least {
            Level::Error
        } else if (Level::Info as u8) < least {
            Level::Warn
        } else {
            Level::Info
        };
        self.line(level, msg, fields);
    }

    /// As usual.
    pub fn info(&self, msg: &str, fields: Value) {
        self.line(Level::Info, msg, fields);
    }

    /// Somebody may want to look.
    pub fn warn(&self, msg: &str, fields: Value) {
        self.line(Level::Warn, msg, fields);
    }

    /// Somebody must look.
    pub fn error(&self, msg: &str, fields: Value) {
        self.line(Level::Error, msg, fields);
    }

    /// For who looks for a fault.
    pub fn debug(&self, msg: &str, fields: Value) {
        self.line(Level::Debug, msg, fields);
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("least", &self.least.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}
