//! The settings in force, section by section, and what is built in.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hostel_agents::Mode;
use hostel_house::sessions::MeshPolicy;

use super::values::OnFull;
use super::values::Reattach;
use crate::paths;

/// The codecast door's port, by contract.
pub(crate) const CODECAST_PORT: u16 = 9100;

/// What the codecast door calls itself. The real head compares this with its own version and starts the daemon anew,
/// losing its streams, when they differ; so it is that head's version and not ours.
const CODECAST_VERSION: &str = "0.3.2";

/// What the zeroclaw door calls itself: the real client refuses any version but its own.
const ZEROCLAW_VERSION: &str = "0.8.4";

/// The claustrum door.
#[derive(Clone, Debug)]
pub(crate) struct ClaustrumSettings {
    /// Whether `hostel up` opens the door at all.
    pub(crate) enabled: bool,
    /// Further endpoints beside `run/claustrum.sock`.
    pub(crate) listen: Vec<PathBuf>,
    /// What the door calls itself; none = our own.
    pub(crate) reported_version: Option<String>,
    /// Whether `server.shutdown` needs the token.
    pub(crate) shutdown_needs_auth: bool,
    /// What a reattach does to those who already receive the process.
    pub(crate) reattach: Reattach,
}

/// The codecast door.
#[derive(Clone, Debug)]
pub(crate) struct CodecastSettings {
    /// Whether `hostel up` opens the door at all.
    pub(crate) enabled: bool,
    /// Where `hostel up` opens it, if it is free.
    pub(crate) listen: Vec<SocketAddr>,
    /// What the door calls itself.
    pub(crate) reported_version: String,
    /// The certificate for addresses other machines can reach; none = the contract's own file.
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key.
    pub(crate) tls_key: Option<PathBuf>,
    /// Who may come in from other machines; none = the contract's own file.
    pub(crate) tokens_file: Option<PathBuf>,
    /// The mode of sessions whose client names none and whose agent has none.
    pub(crate) mode: Mode,
}

/// The zeroclaw door.
#[derive(Clone, Debug)]
pub(crate) struct ZeroclawSettings {
    /// Whether `hostel up` opens the door at all.
    pub(crate) enabled: bool,
    /// Further endpoints beside `run/zeroclaw.sock`.
    pub(crate) listen: Vec<PathBuf>,
    /// What the door calls itself.
    pub(crate) reported_version: String,
    /// Live sessions made through this door.
    pub(crate) session_limit: usize,
    /// How long an agent's question waits for an answer.
    pub(crate) approval_wait: Duration,
    /// The door for other machines.
    pub(crate) wss: WssSettings,
}

/// The zeroclaw door for other machines: TLS, and a token.
#[derive(Clone, Debug)]
pub(crate) struct WssSettings {
    pub(crate) enabled: bool,
    pub(crate) bind: IpAddr,
    pub(crate) port: u16,
    /// The certificate; none = one of our own, made once.
    pub(crate) cert: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
    /// The token; none = one of our own, made once.
    pub(crate) token_file: Option<PathBuf>,
    /// Users of this machine whose connections are those of others: proxies.
    pub(crate) proxy_users: Vec<u32>,
}

/// How sessions behave.
#[derive(Clone, Debug)]
pub(crate) struct SessionSettings {
    /// Prompts that may wait in one session.
    pub(crate) queue: usize,
    /// Agent processes kept warm.
    pub(crate) warm: usize,
    /// How long one of them may be idle.
    pub(crate) idle: Duration,
    /// How long a turn may take.
    pub(crate) turn_limit: Duration,
    /// How long an agent has to stop by itself.
    pub(crate) stop_grace: Duration,
    /// The longest line of an agent that is read.
    pub(crate) line_limit: u64,
    /// The longest prompt.
    pub(crate) prompt_limit: u64,
    /// How long closed sessions are kept.
    pub(crate) keep_archived: Duration,
    /// How long an agent's question waits, unless the door says otherwise.
    pub(crate) approval_wait: Duration,
    /// What becomes of messages from meshes in a session that does not say.
    pub(crate) mesh: MeshPolicy,
}

/// What processes printed: where it is kept, how much and how long.
#[derive(Clone, Debug)]
pub(crate) struct JournalSettings {
    /// Another place for the journals; none = `journal/` in the house.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) quota: u64,
    /// One journal; none = a quarter of the quota.
    pub(crate) per_process_quota: Option<u64>,
    pub(crate) on_full: OnFull,
    /// Disk space that is left to others; none = the smaller of 1 GiB and 5% of the file system.
    pub(crate) floor: Option<u64>,
    pub(crate) keep_count: u64,
    pub(crate) keep_age: Duration,
    /// Journals of exited processes together; none = half of the quota.
    pub(crate) keep_bytes: Option<u64>,
    /// How long a daemon runs before it removes anything because of its age.
    pub(crate) age_delay: Duration,
}

impl JournalSettings {
    pub(crate) fn per_process_quota(&self) -> u64 {
        self.per_process_quota.unwrap_or(self.quota / 4)
    }

    pub(crate) fn keep_bytes(&self) -> u64 {
        self.keep_bytes.unwrap_or(self.quota / 2)
    }
}

/// Bounds of waits and queues.
#[derive(Clone, Debug)]
pub(crate) struct LimitSettings {
    /// Connections to our own socket.
    pub(crate) connections: usize,
    /// How long `run`, `attach` and `logs -f` look for a daemon that went away.
    pub(crate) reconnect: Duration,
    /// How long a launcher waits for its daemon.
    pub(crate) start: Duration,
    /// How long a daemon has to end gracefully.
    pub(crate) shutdown: Duration,
    /// The size of the daemon's log before it is turned over.
    pub(crate) log: u64,
}

impl Default for ClaustrumSettings {
    fn default() -> Self {
        ClaustrumSettings {
            enabled: true,
            listen: paths::default_claustrum_endpoint().into_iter().collect(),
            reported_version: None,
            shutdown_needs_auth: true,
            reattach: Reattach::Share,
        }
    }
}

impl Default for CodecastSettings {
    fn default() -> Self {
        CodecastSettings {
            enabled: true,
            listen: vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), CODECAST_PORT)],
            reported_version: CODECAST_VERSION.to_owned(),
            tls_cert: None,
            tls_key: None,
            tokens_file: None,
            // The contract's: its clients have no way to answer a question.
            mode: Mode::Auto,
        }
    }
}

impl Default for ZeroclawSettings {
    fn default() -> Self {
        ZeroclawSettings {
            enabled: true,
            listen: paths::default_zeroclaw_endpoint().into_iter().collect(),
            reported_version: ZEROCLAW_VERSION.to_owned(),
            session_limit: 64,
            approval_wait: Duration::from_secs(120),
            wss: WssSettings {
                enabled: false,
                bind: Ipv4Addr::UNSPECIFIED.into(),
                port: 9781,
                cert: None,
                key: None,
                token_file: None,
                proxy_users: Vec::new(),
            },
        }
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings {
            queue: 32,
            warm: 4,
            idle: Duration::from_secs(600),
            turn_limit: Duration::from_secs(3_600),
            stop_grace: Duration::from_secs(5),
            line_limit: 32 << 20,
            prompt_limit: 8 << 20,
            keep_archived: Duration::from_secs(30 * 86_400),
            approval_wait: Duration::from_secs(86_400),
            mesh: MeshPolicy::Off,
        }
    }
}

impl Default for JournalSettings {
    fn default() -> Self {
        JournalSettings {
            dir: None,
            quota: 10 << 30,
            per_process_quota: None,
            on_full: OnFull::Hold,
            floor: None,
            keep_count: 1_000,
            keep_age: Duration::from_secs(7 * 86_400),
            keep_bytes: None,
            age_delay: Duration::from_secs(600),
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        LimitSettings {
            connections: 4_096,
            reconnect: Duration::from_secs(30),
            start: Duration::from_secs(10),
            shutdown: Duration::from_secs(10),
            log: 8 << 20,
        }
    }
}
