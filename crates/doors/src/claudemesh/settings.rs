//! What the door can be told when it is opened, and again while it is open.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_mesh::home;

use crate::claustrum::Secret;

/// How to open the door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The health of the daemon needs no token over TCP.
    pub public_health: bool,
    /// Origins that may ask all the same; compared to the letter.
    pub allowed_origins: Vec<String>,
    /// Names of this machine that a `Host` may have besides those of loopback.
    pub hosts: Vec<String>,
    /// The token of a listener that others can reach. Others have to show this one; on loopback either counts.
    pub external: Option<Arc<Secret>>,
    /// Metrics are served.
    pub metrics: bool,
    /// Switches that are on.
    pub capabilities: Vec<&'static str>,
    /// Where they are switched, for who finds one off.
    pub config_file: Option<PathBuf>,
    /// The bounds.
    pub limits: Limits,
}

/// The bounds of the door.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of an answer's body.
    pub answer: usize,
    /// Requests that are under way at once.
    pub inflight: usize,
    /// Event streams at once.
    pub streams: usize,
    /// Requests a second over TCP; ten times that over the socket. Nought: no limit.
    pub rate: f64,
    /// Requests at once over TCP; ten times that over the socket.
    pub burst: f64,
    /// Bytes of a request's head.
    pub head: usize,
    /// Headers of a request.
    pub headers: usize,
    /// How long a body may take to arrive.
    pub body_wait: Duration,
    /// How long a head may take to arrive, and a connection may say nothing.
    pub head_wait: Duration,
    /// How long a client may take nothing of what is there for it.
    pub answer_wait: Duration,
    /// How often a stream says that it is alive.
    pub keepalive: Duration,
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 1024 * 1024,
            answer: 10 * 1024 * 1024,
            inflight: 64,
            streams: 32,
            rate: 100.0,
            burst: 1000.0,
            head: 64 * 1024,
            headers: 100,
            body_wait: Duration::from_secs(30),
            head_wait: Duration::from_secs(30),
            answer_wait: Duration::from_secs(60),
            keepalive: Duration::from_secs(15),
            // A connection takes two descriptors, its socket and the process at its other end, and the daemon has 1024.
            connections: 256,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            public_health: false,
            allowed_origins: Vec::new(),
            hosts: Vec::new(),
            external: None,
            metrics: true,
            capabilities: Vec::new(),
            config_file: None,
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// What `config.toml` says; the rest as by default. Whoever binds a listener elsewhere than on loopback reads its
    /// token and puts it into `external`.
    #[must_use]
    pub fn of(config: &home::Settings) -> Self {
        let ipc = &config.ipc;
        let limits = Limits {
            body: ipc.max_body_bytes,
            inflight: ipc.max_inflight,
            streams: ipc.max_sse,
            rate: f64::from(ipc.rate_per_s),
            burst: f64::from(ipc.rate_burst),
            ..Limits::default()
        };
        // Whoever calls by the address that was bound on purpose means this daemon.
        let hosts = match ipc.http_bind {
            address if address.is_loopback() || address.is_unspecified() => Vec::new(),
            IpAddr::V4(address) => vec![address.to_string()],
            IpAddr::V6(address) => vec![format!("[{address}]")],
        };
        let switches = &config.capabilities;
        let capabilities = [
            ("state", switches.state),
            ("memory", switches.memory),
            ("vector", switches.vector),
            ("graph", switches.graph),
            ("tasks", switches.tasks),
            ("scheduling", switches.scheduling),
            ("mcp_host", switches.mcp_host),
            ("skill_share", switches.skill_share),
        ];
        Self {
            public_health: ipc.public_health_check,
            allowed_origins: ipc.allowed_origins.clone(),
            hosts,
            external: None,
            metrics: config.metrics.prometheus_enabled,
            capabilities: capabilities.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect(),
            config_file: None,
            limits,
        }
    }
}
