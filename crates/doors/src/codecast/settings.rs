//! What the door can be told when it is opened.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hostel_agents::Mode;
use tokio_rustls::TlsAcceptor;

/// How to open the door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What `health.check` reports as `version`.
    pub version: String,
    /// What `health.check` reports as `rustVersion`.
    pub rust_version: String,
    /// What `~` stands for; projects are in `Projects` below it, skills in `.codecast/skills`.
    pub home: PathBuf,
    /// TLS and tokens, for a listener that others can reach. Without, only this user on this machine is served.
    pub auth: Option<Auth>,
    /// What uptime is counted from.
    pub started: Instant,
    /// What a session may do whose client does not say. The contract has `auto`: its clients cannot answer questions.
    pub mode: Mode,
    /// How long a question of an agent waits for a person. The contract has no way to answer one, so it should last
    /// until somebody looks at the other doors.
    pub approval_wait: Duration,
    /// The bounds.
    pub limits: Limits,
}

/// What callers from elsewhere need.
#[derive(Clone)]
pub struct Auth {
    /// Makes connections secret.
    pub tls: TlsAcceptor,
    /// `tokens.yaml`; it need not exist, and is read again whenever it changes.
    pub tokens: PathBuf,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Auth").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// The bounds of the door.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// How long a request may take to arrive, its head and its body each.
    pub request: Duration,
    /// How long TLS may take to begin.
    pub handshake: Duration,
    /// How often a stream says that it is alive.
    pub ping: Duration,
    /// Events one `session.reconnect` gives at most; the next one goes on.
    pub reconnect_events: usize,
    /// Bytes of events one `session.reconnect` gives at most.
    pub reconnect_bytes: usize,
    /// How many bytes a client is taken to be behind in reading when it vanishes and nothing better is known.
    pub behind: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            body: 2 * 1024 * 1024,
            request: Duration::from_secs(120),
            handshake: Duration::from_secs(10),
            ping: Duration::from_secs(30),
            reconnect_events: 20_000,
            reconnect_bytes: 8 * 1024 * 1024,
            behind: socket_buffers(),
        }
    }
}

impl Settings {
    /// The defaults: this machine only.
    #[must_use]
    pub fn new(version: String, rust_version: String, home: PathBuf) -> Self {
        Self {
            version,
            rust_version,
            home,
            auth: None,
            started: Instant::now(),
            mode: Mode::Auto,
            approval_wait: Duration::from_secs(24 * 60 * 60),
            limits: Limits::default(),
        }
    }
}

/// What the kernel may hold for a client that does not read: its receive buffer and our send buffer.
fn socket_buffers() -> u64 {
    const USUAL: u64 = 8 * 1024 * 1024;
    let largest = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        text.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()
    };
    let sum = largest("tcp_rmem").unwrap_or(USUAL).saturating_add(largest("tcp_wmem").unwrap_or(USUAL));
    sum.clamp(USUAL, 8 * USUAL)
}
