//! `config.toml`: what a user may set.
//!
//! Invariant: a file that is not there means what is built in. A key that is not known is said and skipped, so that a
//! newer file works with an older daemon; a value of the wrong kind or size is an error that names its line.
//!
//! It reads. The one thing it writes is a file full of comments where there is none.

mod reader;
mod sections;
mod text;

use std::io;
use std::path::{Path, PathBuf};

use super::files;
use reader::Reader;

pub use sections::{
    Broker, Capabilities, ClonePolicy, Clones, Crypto, Daemon, Disk, Features, Fleet, FsyncMode, Hooks, Inbox, Ipc,
    LogLevel, Metrics, Outbox, Reconnect,
};

const LIMIT: u64 = 256 * 1024;

/// The least an outbox may be given. The log SQLite keeps beside it has up to 16 MB, and 8 MB of free pages are kept for
/// later: an outbox for less would stay full after everything in it was sent.
pub const LEAST_OUTBOX: u64 = 64_000_000;

/// The least memory a daemon works with.
pub const LEAST_MEMORY: u64 = 64_000_000;

/// Something to be said about a file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Counted from 1.
    pub line: usize,
    /// For people.
    pub text: String,
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// Why settings could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value is wrong, or it is not TOML.
    #[error("{}: {notice}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        notice: Notice,
    },
}

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// The daemon itself.
    pub daemon: Daemon,
    /// Its local doors.
    pub ipc: Ipc,
    /// Its brokers.
    pub broker: Broker,
    /// What is to be sent.
    pub outbox: Outbox,
    /// What was received.
    pub inbox: Inbox,
    /// How long to wait before connecting again.
    pub reconnect: Reconnect,
    /// Scripts.
    pub hooks: Hooks,
    /// Keys.
    pub crypto: Crypto,
    /// What to do on another machine.
    pub clone: Clones,
    /// Space.
    pub disk: Disk,
    /// What is asked of brokers.
    pub features: Features,
    /// Numbers for others.
    pub metrics: Metrics,
    /// Parts of the surface that are off unless switched on.
    pub capabilities: Capabilities,
}

impl Settings {
    /// Reads a file; without one, what is built in.
    pub fn load(path: &Path) -> Result<(Self, Vec<Notice>), SettingsError> {
        let text =
            files::read_text(path, LIMIT).map_err(|source| SettingsError::Io { path: path.to_owned(), source })?;
        let parsed = Self::parse(&text.unwrap_or_default());
        parsed.map_err(|notice| SettingsError::Wrong { path: path.to_owned(), notice })
    }

    /// Reads a text: the settings, and what should be said about it.
    pub fn parse(text: &str) -> Result<(Self, Vec<Notice>), Notice> {
        let mut reader = Reader::new(text)?;
        let mut settings = Self::default();
        settings.read(&mut reader)?;
        let misplaced = reader.misplaced("fleet");
        let mut notices = reader.unknown();
        notices.extend(settings.idle(&reader));
        notices.extend(misplaced.map(|line| Notice {
            line,
            text: "`fleet` counts for all daemons: it belongs into the `config.toml` of the directory above".to_owned(),
        }));
        Ok((settings, notices))
    }

    /// What is asked for and has no effect: whoever wrote it should know.
    fn idle(&self, reader: &Reader<'_>) -> Vec<Notice> {
        let asked = [
            (
                !self.inbox.fts_enabled,
                ("inbox", "fts_enabled"),
                "`inbox.fts_enabled = false` has no effect: what was received can always be searched",
            ),
            (
                self.outbox.fsync_mode == FsyncMode::Batched,
                ("outbox", "fsync_mode"),
                "`outbox.fsync_mode = \"batched\"` has no effect: what was accepted is always on the disk",
            ),
        ];
        let idle = asked.into_iter().filter(|(asked, ..)| *asked);
        let idle = idle.map(|(_, place, text)| (place, text.to_owned()));
        let unbuilt = self.capabilities.unbuilt().into_iter().map(|switch| {
            let text = format!("`capabilities.{switch} = true` has no effect: this release does not have it");
            (("capabilities", switch), text)
        });
        idle.chain(unbuilt).map(|((section, key), text)| Notice { line: reader.line(section, key), text }).collect()
    }

    /// Which sections of `new` say something else.
    #[must_use]
    pub fn changes(&self, new: &Self) -> Vec<&'static str> {
        let sections = [
            ("daemon", self.daemon != new.daemon),
            ("ipc", self.ipc != new.ipc),
            ("broker", self.broker != new.broker),
            ("outbox", self.outbox != new.outbox),
            ("inbox", self.inbox != new.inbox),
            ("reconnect", self.reconnect != new.reconnect),
            ("hooks", self.hooks != new.hooks),
            ("crypto", self.crypto != new.crypto),
            ("clone", self.clone != new.clone),
            ("disk", self.disk != new.disk),
            ("features", self.features != new.features),
            ("metrics", self.metrics != new.metrics),
            ("capabilities", self.capabilities != new.capabilities),
        ];
        sections.into_iter().filter(|(_, differs)| *differs).map(|(section, _)| section).collect()
    }

    /// The line of a text where a key stands; the first if it does not.
    #[must_use]
    pub fn line_of(text: &str, section: &str, key: &str) -> usize {
        Reader::new(text).map_or(1, |reader| reader.line(section, key))
    }

    /// The same, with what counts only after a restart as `running` has it.
    #[must_use]
    pub fn until_restart(mut self, running: &Self) -> Self {
        self.daemon.mesh.clone_from(&running.daemon.mesh);
        self.daemon.log_max_bytes = running.daemon.log_max_bytes;
        self.daemon.log_max_age_days = running.daemon.log_max_age_days;
        self.ipc.http_port = running.ipc.http_port;
        self.ipc.http_bind = running.ipc.http_bind;
        self.ipc.http_external_auth.clone_from(&running.ipc.http_external_auth);
        self.ipc.tcp_enabled = running.ipc.tcp_enabled;
        self.ipc.uds_mode = running.ipc.uds_mode;
        self.broker.ca_file.clone_from(&running.broker.ca_file);
        self.outbox.fsync_mode = running.outbox.fsync_mode;
        self.metrics.otel_endpoint.clone_from(&running.metrics.otel_endpoint);
        self.metrics.otel_interval_s = running.metrics.otel_interval_s;
        self
    }

    /// Which keys of `new` differ and count only after a restart.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let mut keys = Vec::new();
        let mut differs = |key, differs| {
            if differs {
                keys.push(key);
            }
        };
        differs("daemon.mesh", self.daemon.mesh != new.daemon.mesh);
        differs("ipc.http_port", self.ipc.http_port != new.ipc.http_port);
        differs("ipc.http_bind", self.ipc.http_bind != new.ipc.http_bind);
        differs("ipc.tcp_enabled", self.ipc.tcp_enabled != new.ipc.tcp_enabled);
        differs("ipc.uds_mode", self.ipc.uds_mode != new.ipc.uds_mode);
        differs("ipc.http_external_auth", self.ipc.http_external_auth != new.ipc.http_external_auth);
        differs("broker.ca_file", self.broker.ca_file != new.broker.ca_file);
        differs("outbox.fsync_mode", self.outbox.fsync_mode != new.outbox.fsync_mode);
        differs("daemon.log_max_bytes", self.daemon.log_max_bytes != new.daemon.log_max_bytes);
        differs("daemon.log_max_age_days", self.daemon.log_max_age_days != new.daemon.log_max_age_days);
        differs("metrics.otel_endpoint", self.metrics.otel_endpoint != new.metrics.otel_endpoint);
        differs("metrics.otel_interval_s", self.metrics.otel_interval_s != new.metrics.otel_interval_s);
        keys
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Notice> {
        const DAY_YEARS: u64 = 36_500;
        const HOUR_S: u64 = 3_600;
        let r = reader;
        r.text("daemon", "mesh", &mut self.daemon.mesh)?;
        r.text("daemon", "display_name", &mut self.daemon.display_name)?;
        let levels = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug];
        r.one_of("daemon", "log_level", &levels.map(|level| (level.as_str(), level)), &mut self.daemon.log_level)?;
        r.size("daemon", "log_max_bytes", 64 * 1024..=u64::MAX, &mut self.daemon.log_max_bytes)?;
        r.number("daemon", "log_max_age_days", 1..=DAY_YEARS, &mut self.daemon.log_max_age_days)?;

        r.flag("ipc", "tcp_enabled", &mut self.ipc.tcp_enabled)?;
        r.number("ipc", "http_port", 0..=65_535, &mut self.ipc.http_port)?;
        r.address("ipc", "http_bind", &mut self.ipc.http_bind)?;
        r.path("ipc", "http_external_auth", &mut self.ipc.http_external_auth)?;
        r.mode("ipc", "uds_mode", &mut self.ipc.uds_mode)?;
        r.flag("ipc", "public_health_check", &mut self.ipc.public_health_check)?;
        r.texts("ipc", "allowed_origins", &mut self.ipc.allowed_origins)?;
        r.size("ipc", "max_body_bytes", 1024..=64 * 1024 * 1024, &mut self.ipc.max_body_bytes)?;
        r.number("ipc", "max_inflight", 1..=65_536, &mut self.ipc.max_inflight)?;
        r.number("ipc", "max_sse", 0..=65_536, &mut self.ipc.max_sse)?;
        r.number("ipc", "rate_per_s", 0..=10_000_000, &mut self.ipc.rate_per_s)?;
        r.number("ipc", "rate_burst", 1..=10_000_000, &mut self.ipc.rate_burst)?;
        r.refuse(
            "ipc",
            "http_bind",
            !self.ipc.http_bind.is_loopback() && self.ipc.http_external_auth.is_none(),
            || "an address that is not loopback needs `http_external_auth`, a file with a token of its own".into(),
        )?;

        r.texts("broker", "urls", &mut self.broker.urls)?;
        r.number("broker", "ack_timeout_s", 1..=HOUR_S, &mut self.broker.ack_timeout_s)?;
        r.number("broker", "ping_s", 1..=HOUR_S, &mut self.broker.ping_s)?;
        r.number("broker", "silence_s", 2..=24 * HOUR_S, &mut self.broker.silence_s)?;
        let hasty = self.broker.silence_s <= self.broker.ping_s;
        r.refuse("broker", "silence_s", hasty, || {
            "it must be longer than `ping_s`, or every pause ends a connection".into()
        })?;
        r.path("broker", "ca_file", &mut self.broker.ca_file)?;

        r.number("outbox", "max_queue_size", 1..=100_000_000, &mut self.outbox.max_queue_size)?;
        let mut hours = 0_u32;
        if r.number("outbox", "max_age_hours", 1..=24 * 365, &mut hours)? {
            self.outbox.max_age_hours = Some(hours);
        }
        r.size("outbox", "max_bytes", LEAST_OUTBOX..=u64::MAX, &mut self.outbox.max_bytes)?;
        // The older name of the second one says how long.
        let modes =
            [("strict", FsyncMode::Strict), ("batched", FsyncMode::Batched), ("batched_50ms", FsyncMode::Batched)];
        r.one_of("outbox", "fsync_mode", &modes, &mut self.outbox.fsync_mode)?;

        r.number("inbox", "retention_days", 0..=DAY_YEARS, &mut self.inbox.retention_days)?;
        r.flag("inbox", "fts_enabled", &mut self.inbox.fts_enabled)?;
        r.size("inbox", "max_bytes", 1_000_000..=u64::MAX, &mut self.inbox.max_bytes)?;

        r.number("reconnect", "initial_backoff_ms", 1..=HOUR_S * 1000, &mut self.reconnect.initial_backoff_ms)?;
        r.number("reconnect", "max_backoff_ms", 1..=24 * HOUR_S * 1000, &mut self.reconnect.max_backoff_ms)?;
        r.fraction("reconnect", "backoff_multiplier", 1.0..=100.0, &mut self.reconnect.backoff_multiplier)?;
        r.number("reconnect", "jitter_pct", 0..=100, &mut self.reconnect.jitter_pct)?;
        let backwards = self.reconnect.max_backoff_ms < self.reconnect.initial_backoff_ms;
        r.refuse("reconnect", "max_backoff_ms", backwards, || "it is shorter than `initial_backoff_ms`".into())?;

        r.flag("hooks", "enabled", &mut self.hooks.enabled)?;
        r.number("hooks", "concurrency", 1..=1024, &mut self.hooks.concurrency)?;
        r.number("hooks", "default_timeout_s", 1..=HOUR_S, &mut self.hooks.default_timeout_s)?;
        r.size("hooks", "stdin_limit", 1024..=64 * 1024 * 1024, &mut self.hooks.stdin_limit)?;

        r.number("crypto", "key_grace_period_days", 1..=30, &mut self.crypto.key_grace_period_days)?;
        r.number("crypto", "max_archived_keys", 1..=256, &mut self.crypto.max_archived_keys)?;

        let policies = [("refuse", ClonePolicy::Refuse), ("warn", ClonePolicy::Warn), ("allow", ClonePolicy::Allow)];
        r.one_of("clone", "policy", &policies, &mut self.clone.policy)?;
        r.size("disk", "reserved_bytes", LEAST_OUTBOX..=u64::MAX, &mut self.disk.reserved_bytes)?;
        r.texts("features", "require", &mut self.features.require)?;
        r.texts("features", "optional", &mut self.features.optional)?;
        r.flag("metrics", "prometheus_enabled", &mut self.metrics.prometheus_enabled)?;
        r.text("metrics", "otel_endpoint", &mut self.metrics.otel_endpoint)?;
        r.number("metrics", "otel_interval_s", 1..=HOUR_S, &mut self.metrics.otel_interval_s)?;

        let on = &mut self.capabilities;
        for (key, value) in [
            ("state", &mut on.state),
            ("memory", &mut on.memory),
            ("vector", &mut on.vector),
            ("graph", &mut on.graph),
            ("tasks", &mut on.tasks),
            ("scheduling", &mut on.scheduling),
            ("mcp_host", &mut on.mcp_host),
            ("skill_share", &mut on.skill_share),
        ] {
            r.flag("capabilities", key, value)?;
        }
        Ok(())
    }
}

impl Fleet {
    /// Reads `[fleet]` of the file that counts for all daemons of a user; without one, what is built in.
    pub fn load(path: &Path) -> Result<(Self, Vec<Notice>), SettingsError> {
        let text =
            files::read_text(path, LIMIT).map_err(|source| SettingsError::Io { path: path.to_owned(), source })?;
        let parsed = Self::parse(&text.unwrap_or_default());
        parsed.map_err(|notice| SettingsError::Wrong { path: path.to_owned(), notice })
    }

    /// Reads a text: the caps, and what should be said about it.
    pub fn parse(text: &str) -> Result<(Self, Vec<Notice>), Notice> {
        let mut reader = Reader::new(text)?;
        let mut fleet = Self::default();
        reader.number("fleet", "max_daemons", 1..=1000, &mut fleet.max_daemons)?;
        reader.size("fleet", "total_memory_budget", LEAST_MEMORY..=u64::MAX, &mut fleet.total_memory_budget)?;
        reader.size("fleet", "total_disk_budget", 2 * LEAST_OUTBOX..=u64::MAX, &mut fleet.total_disk_budget)?;
        let notices = reader.unknown();
        Ok((fleet, notices))
    }
}

/// Writes a file with every key in a comment, if there is none; says whether it did.
pub fn write_default_settings(path: &Path) -> io::Result<bool> {
    if path.exists() {
        return Ok(false);
    }
    files::write_atomic(path, text::DEFAULT.as_bytes(), 0o644)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
