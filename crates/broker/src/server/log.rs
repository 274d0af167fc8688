//! Lines for whoever runs the broker.

use std::sync::Arc;

use serde_json::{Map, Value};

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For who looks for a fault.
    Debug,
    /// What happened.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something could not be done.
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
}

type Sink = dyn Fn(Level, &str, Map<String, Value>) + Send + Sync;

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub struct Log(Arc<Sink>);

impl Log {
    /// Lines go to `sink`: how much it matters, a word for what happened, and the rest. It must not wait.
    #[must_use]
    pub fn new(sink: impl Fn(Level, &str, Map<String, Value>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Nobody hears of anything.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_, _, _| {})
    }

    pub(crate) fn line(&self, level: Level, message: &str, fields: Value) {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        (self.0)(level, message, fields);
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}
