//! Other settings for a mesh that runs.
//!
//! Invariant: either all of them count from now on or none does. The connection stays; what waits and what is under way
//! is not touched.

use super::Mesh;
use crate::home::Settings;
use crate::hooks::HooksLoaded;
use crate::link::dial::BrokerUrl;
use crate::outbox::Limits;

/// Why everything stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// A setting that cannot be, although the file that says it can be read.
    #[error("`{section}.{key}`: {reason}")]
    Setting {
        /// The section it stands in.
        section: &'static str,
        /// Its key.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// The file about hooks; names it and the line.
    #[error("{0}")]
    Hooks(String),
}

impl Mesh {
    /// As `config.toml` was last read.
    #[must_use]
    pub fn settings(&self) -> std::sync::Arc<Settings> {
        self.core.settings.get()
    }

    /// Goes on with other settings. `broker_urls` says where the brokers are, if somebody has said something else about
    /// that: they are tried when the connection is lost.
    pub fn reload(&self, settings: Settings, broker_urls: Option<&[String]>) -> Result<HooksLoaded, ReloadError> {
        let core = &self.core;
        let mut urls = Vec::new();
        for text in broker_urls.into_iter().flatten() {
            let bad = |error: &dyn std::fmt::Display| ReloadError::Setting {
                section: "broker",
                key: "urls",
                reason: error.to_string(),
            };
            let url = BrokerUrl::parse(text).map_err(|error| bad(&error))?;
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        let running = core.settings.get();
        // It changes nothing if it is refused. Before the hooks: what was read of their file could not be taken back.
        if let Err(error) = core.outbox.set_age(settings.outbox.max_age_hours) {
            return Err(ReloadError::Setting { section: "outbox", key: "max_age_hours", reason: error.to_string() });
        }
        let hooks = match core.hooks.reload(&settings.hooks) {
            Ok(hooks) => hooks,
            Err(error) => {
                // What was in force stays in force, the settings of hooks as well.
                core.outbox.set_age(running.outbox.max_age_hours).ok();
                core.hooks.reload(&running.hooks).ok();
                return Err(ReloadError::Hooks(error.to_string()));
            }
        };
        core.outbox.set_limits(outbox_limits(&settings));
        core.inbox.set_limits(settings.inbox.retention_days, settings.inbox.max_bytes);
        if !urls.is_empty() {
            *core.urls.write() = urls;
        }
        // Who waits for a change finds everything else changed already.
        core.settings.set(settings);
        Ok(hooks)
    }
}

/// How much an outbox may hold: its own limit, or what of the disk is for it, whichever is less.
pub(super) fn outbox_limits(settings: &Settings) -> Limits {
    let max_bytes = match settings.disk.reserved_bytes {
        0 => settings.outbox.max_bytes,
        reserved => settings.outbox.max_bytes.min(reserved),
    };
    Limits { max_rows: settings.outbox.max_queue_size, max_bytes }
}
