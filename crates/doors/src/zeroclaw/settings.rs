//! What the door is told by the program around it.

use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use super::Spelling;
use super::logs::LogRing;
use crate::claustrum::Secret;

/// How the door behaves.
#[derive(Debug)]
pub struct Settings {
    /// The version to report; the contract's client compares it with its own.
    pub server_version: String,
    /// Where the configuration is.
    pub config_dir: PathBuf,
    /// The configuration itself.
    pub config_file: PathBuf,
    /// `default`, `custom` or `temporary`.
    pub config_kind: String,
    /// The socket that is served.
    pub endpoint: PathBuf,
    /// Where `.secret_key` and `uploads/` are.
    pub data_dir: PathBuf,
    /// Live sessions made by this door.
    pub session_limit: usize,
    /// Connections at once, unix and WebSocket each.
    pub connections: usize,
    /// What WebSocket clients must show; without one none is served.
    pub token: Option<Secret>,
    /// Users of this machine whose WebSocket connections are those of somebody elsewhere; root is one of them.
    pub proxy_users: Vec<u32>,
    /// The spellings of keys that are sent.
    pub spelling: Spelling,
    /// How long a question to a person waits in a session of this door.
    pub approval_wait: Duration,
    /// The same for sessions made over our own socket.
    pub native_approval_wait: Duration,
    /// How long a plain question waits that came in by our own socket.
    pub question_wait: Duration,
    /// How long a prompt waits for its turn.
    pub queue_wait: Duration,
    /// Prompts of one session at once, the running one included.
    pub queue_depth: usize,
    /// When the daemon started.
    pub started: Instant,
    /// The daemon's last log lines.
    pub logs: LogRing,
}

impl Settings {
    /// The contract's own values.
    #[must_use]
    pub fn new(server_version: String, data_dir: PathBuf, endpoint: PathBuf) -> Self {
        let config_dir = data_dir.parent().map_or_else(|| data_dir.clone(), PathBuf::from);
        Settings {
            server_version,
            config_file: config_dir.join("config.toml"),
            config_dir,
            config_kind: "default".to_owned(),
            endpoint,
            data_dir,
            session_limit: 64,
            connections: 1024,
            token: None,
            proxy_users: Vec::new(),
            spelling: Spelling::Both,
            approval_wait: Duration::from_secs(120),
            native_approval_wait: Duration::from_secs(24 * 60 * 60),
            question_wait: Duration::from_secs(86_400),
            queue_wait: Duration::from_secs(30),
            queue_depth: 32,
            started: Instant::now(),
            logs: LogRing::new(2000),
        }
    }
}
