//! The sections of `config.toml`, with what is built in.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// What somebody should look at.
    Warn,
    /// What happened.
    #[default]
    Info,
    /// Everything.
    Debug,
}

impl LogLevel {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// What to do when the key is found on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClonePolicy {
    /// Do not start.
    #[default]
    Refuse,
    /// Say so, every time.
    Warn,
    /// Take it for the key's machine from now on.
    Allow,
}

/// When what was accepted is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FsyncMode {
    /// Before it is answered.
    #[default]
    Strict,
    /// A moment later: a power cut may take what was accepted in the last 50 ms.
    Batched,
}

/// `[daemon]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// The mesh this file is for, if it says so.
    pub mesh: Option<String>,
    /// The member's name.
    pub display_name: Option<String>,
    /// How much is logged.
    pub log_level: LogLevel,
    /// What the log and the one before it may have together.
    pub log_max_bytes: u64,
    /// How old a line of them may be.
    pub log_max_age_days: u32,
}

impl Default for Daemon {
    fn default() -> Self {
        Self {
            mesh: None,
            display_name: None,
            log_level: LogLevel::default(),
            log_max_bytes: 100_000_000,
            log_max_age_days: 14,
        }
    }
}

/// `[ipc]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ipc {
    /// Whether there is a loopback HTTP door.
    pub tcp_enabled: bool,
    /// Its port; 0: a free one.
    pub http_port: u16,
    /// Its address; anything but loopback needs `http_external_auth`.
    pub http_bind: IpAddr,
    /// A file with the token of those who come from elsewhere.
    pub http_external_auth: Option<PathBuf>,
    /// The socket's mode.
    pub uds_mode: u32,
    /// Whether `/v1/health` needs no token.
    pub public_health_check: bool,
    /// Web pages that may call.
    pub allowed_origins: Vec<String>,
    /// The longest body of a request.
    pub max_body_bytes: usize,
    /// Requests at once.
    pub max_inflight: usize,
    /// Event streams at once.
    pub max_sse: usize,
    /// Requests per second and token; 0: any number.
    pub rate_per_s: u32,
    /// Requests at once before that counts.
    pub rate_burst: u32,
}

impl Default for Ipc {
    fn default() -> Self {
        Self {
            tcp_enabled: true,
            http_port: 0,
            http_bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            http_external_auth: None,
            uds_mode: 0o600,
            public_health_check: false,
            allowed_origins: Vec::new(),
            max_body_bytes: 1024 * 1024,
            max_inflight: 64,
            max_sse: 32,
            rate_per_s: 100,
            rate_burst: 1000,
        }
    }
}

/// `[broker]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Instead of those that `config.json` names.
    pub urls: Vec<String>,
    /// How long an answer to a message may take.
    pub ack_timeout_s: u64,
    /// How often a sign of life is asked for.
    pub ping_s: u64,
    /// After so long without one the connection is made again.
    pub silence_s: u64,
    /// Certificates (PEM) of authorities for brokers whose own certificate the invite did not name.
    pub ca_file: Option<PathBuf>,
}

impl Default for Broker {
    fn default() -> Self {
        Self { urls: Vec::new(), ack_timeout_s: 30, ping_s: 30, silence_s: 75, ca_file: None }
    }
}

/// `[outbox]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    /// Messages that may wait.
    pub max_queue_size: u64,
    /// How long one may wait; if not said, as long as the broker's memory for ids allows.
    pub max_age_hours: Option<u32>,
    /// The file's size.
    pub max_bytes: u64,
    /// When an accepted message is on the disk: always before it is answered. `Batched` is told to be of no effect.
    pub fsync_mode: FsyncMode,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { max_queue_size: 10_000, max_age_hours: None, max_bytes: 5_000_000_000, fsync_mode: FsyncMode::Strict }
    }
}

/// `[inbox]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbox {
    /// How long messages are kept; 0: for ever.
    pub retention_days: u32,
    /// An older name for whether they can be searched. They always can: `false` is told to be of no effect.
    pub fts_enabled: bool,
    /// The file's size.
    pub max_bytes: u64,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { retention_days: 30, fts_enabled: true, max_bytes: 5_000_000_000 }
    }
}

/// `[reconnect]`
#[derive(Debug, Clone, PartialEq)]
pub struct Reconnect {
    /// The first wait.
    pub initial_backoff_ms: u64,
    /// The longest.
    pub max_backoff_ms: u64,
    /// How each is longer than the one before.
    pub backoff_multiplier: f64,
    /// How much each may differ from that.
    pub jitter_pct: u32,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { initial_backoff_ms: 500, max_backoff_ms: 30_000, backoff_multiplier: 2.0, jitter_pct: 25 }
    }
}

/// `[hooks]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// Whether any are run.
    pub enabled: bool,
    /// At once.
    pub concurrency: usize,
    /// How long one may run.
    pub default_timeout_s: u64,
    /// The most one is told.
    pub stdin_limit: usize,
}

impl Default for Hooks {
    fn default() -> Self {
        Self { enabled: true, concurrency: 8, default_timeout_s: 30, stdin_limit: 256 * 1024 }
    }
}

/// `[crypto]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crypto {
    /// How long a key that was replaced still opens messages.
    pub key_grace_period_days: u32,
    /// How many of them are kept; with so many, the key is not replaced again until one of them goes.
    pub max_archived_keys: u32,
}

impl Default for Crypto {
    fn default() -> Self {
        Self { key_grace_period_days: 7, max_archived_keys: 8 }
    }
}

/// `[clone]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clones {
    /// What to do on another machine.
    pub policy: ClonePolicy,
}

/// `[disk]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// What the outbox may fill.
    pub reserved_bytes: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self { reserved_bytes: 1_000_000_000 }
    }
}

/// `[features]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// Without these the daemon does not stay.
    pub require: Vec<String>,
    /// These it would use.
    pub optional: Vec<String>,
}

/// `[metrics]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// Whether `/v1/metrics` is there.
    pub prometheus_enabled: bool,
    /// Where numbers are sent, by programs that were built for it; others say that they are not.
    pub otel_endpoint: Option<String>,
    /// How often.
    pub otel_interval_s: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { prometheus_enabled: true, otel_endpoint: None, otel_interval_s: 15 }
    }
}

/// `[capabilities]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// `/v1/state`
    pub state: bool,
    /// `/v1/memory`
    pub memory: bool,
    /// `/v1/vector`
    pub vector: bool,
    /// `/v1/graph`
    pub graph: bool,
    /// `/v1/task`
    pub tasks: bool,
    /// `/v1/scheduling`
    pub scheduling: bool,
    /// `/v1/mcp`
    pub mcp_host: bool,
    /// `/v1/skill`
    pub skill_share: bool,
}

impl Capabilities {
    /// Switches that are on although there is nothing behind them in this release.
    #[must_use]
    pub fn unbuilt(&self) -> Vec<&'static str> {
        let switches = [
            ("memory", self.memory),
            ("vector", self.vector),
            ("graph", self.graph),
            ("scheduling", self.scheduling),
            ("mcp_host", self.mcp_host),
            ("skill_share", self.skill_share),
        ];
        switches.into_iter().filter(|(_, on)| *on).map(|(switch, _)| switch).collect()
    }
}

/// `[fleet]`, in the file that all daemons of a user share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// Daemons that may run at once.
    pub max_daemons: u32,
    /// Memory of all of them.
    pub total_memory_budget: u64,
    /// Disk of all of them.
    pub total_disk_budget: u64,
}

impl Default for Fleet {
    fn default() -> Self {
        Self { max_daemons: 10, total_memory_budget: 2_000_000_000, total_disk_budget: 20_000_000_000 }
    }
}
