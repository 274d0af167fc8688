//! The other end of a connection.
//!
//! Guarantee: who a peer is was fixed when it connected. The process is held by a descriptor, so one that ended is noticed,
//! and its number cannot become another peer's. Looking at it happens on the threads of `lookups`, never on the caller's.
//!
//! What a peer may do is decided elsewhere, by its [`Standing`].

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::holders::holders_of;
use crate::lookups;
use crate::process::Process;
use crate::standing::Standing;
use crate::tcp::{self, Ends, OtherEnd};
use crate::tree::{self, PeerInfo};

/// How often the holder of a TCP connection is looked for, and the pause before each further look. The system's tables are
/// not of one moment: a process that is just being made holds what its parent has until it becomes another program.
const HOLDER_ATTEMPTS: u32 = 5;
const HOLDER_PAUSE: Duration = Duration::from_millis(20);

/// The other end of a connection. Clones are the same peer.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    end: End,
    /// What was found out; only what does not change as long as the processes live.
    known: Mutex<Option<Known>>,
}

enum End {
    Process(Process),
    Tcp { ends: Ends, proxies: Arc<[u32]> },
    Own,
    Unknown,
}

#[derive(Clone)]
struct Known {
    standing: Standing,
    processes: Vec<Process>,
    info: Option<PeerInfo>,
}

impl Peer {
    /// The process that connected a unix socket. Makes system calls that do not wait.
    #[must_use]
    pub fn of_unix(socket: impl AsFd) -> Self {
        Self::new(Process::of_socket(socket).map_or(End::Unknown, End::Process))
    }

    /// Whoever connected over TCP. Only looked for when somebody wants to know.
    #[must_use]
    pub fn of_tcp(ends: Ends) -> Self {
        Self::behind_proxies(ends, Arc::new([]))
    }

    /// Whoever connected over TCP, perhaps through a proxy on this machine: a connection of one of these users is taken for
    /// one of somebody elsewhere.
    #[must_use]
    pub fn behind_proxies(ends: Ends, proxies: Arc<[u32]>) -> Self {
        Self::new(End::Tcp { ends, proxies })
    }

    /// A process that somebody else has found. Reads `/proc`, so not for a thread of the runtime.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        Self::new(Process::found(pid).map_or(End::Unknown, |(process, _)| End::Process(process)))
    }

    /// This process itself, for whoever it speaks to inside.
    #[must_use]
    pub fn own() -> Self {
        Self::new(End::Own)
    }

    /// Somebody the system does not know.
    #[must_use]
    pub fn unknown() -> Self {
        Self::new(End::Unknown)
    }

    fn new(end: End) -> Self {
        Peer(Arc::new(Inner { end, known: Mutex::new(None) }))
    }

    /// The process id of whoever connected a unix socket.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &self.0.end {
            End::Process(process) => Some(process.pid()),
            _ => None,
        }
    }

    /// The user of whoever connected a unix socket.
    #[must_use]
    pub fn uid(&self) -> Option<u32> {
        match &self.0.end {
            End::Process(process) => Some(process.uid()),
            _ => None,
        }
    }

    /// The two ends of a TCP connection.
    #[must_use]
    pub fn ends(&self) -> Option<Ends> {
        match &self.0.end {
            End::Tcp { ends, .. } => Some(*ends),
            _ => None,
        }
    }

    /// What the peer is to this user, as of now: somebody who was known and is gone is unknown.
    pub async fn standing(&self) -> Standing {
        match &self.0.end {
            End::Own => Standing::Owner,
            _ => self.known().await.map_or(Standing::Unknown, |known| known.standing),
        }
    }

    /// The process, as it was when it was first looked at, for people and records. None for this process itself, for
    /// somebody elsewhere, and for whoever cannot be found.
    pub async fn info(&self) -> Option<PeerInfo> {
        self.known().await.and_then(|known| known.info)
    }

    /// Whether the peer is a process, or descends from it. `None` if that cannot be found out. Somebody elsewhere and this
    /// process itself belong to nobody's tree.
    pub async fn belongs_to(&self, root: u32, root_started: u64) -> Option<bool> {
        if matches!(self.0.end, End::Own) {
            return Some(false);
        }
        let known = self.known().await?;
        if known.standing == Standing::Remote {
            return Some(false);
        }
        lookups::run(move || {
            let mut belongs = Some(false);
            for process in &known.processes {
                match process.look_up(|pid, stat| tree::belongs_to(pid, stat, root, root_started)) {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => belongs = None,
                }
            }
            belongs.filter(|_| !known.processes.is_empty())
        })
        .await
        .flatten()
    }

    async fn known(&self) -> Option<Known> {
        let kept = self.0.known.lock().clone();
        if let Some(known) = kept
            && known.processes.iter().all(Process::is_alive)
        {
            return Some(known);
        }
        let found = match &self.0.end {
            End::Process(process) if process.is_alive() => {
                let process = process.clone();
                lookups::run(move || Known::of_process(process)).await
            }
            End::Tcp { ends, proxies } => find(*ends, proxies).await,
            _ => None,
        };
        let found = found.filter(|found| found.standing != Standing::Unknown);
        self.0.known.lock().clone_from(&found);
        found
    }
}

impl Known {
    fn of_process(process: Process) -> Known {
        let info = process.look_up(|pid, stat| PeerInfo::with(pid, stat, process.uid()));
        Known { standing: Standing::of(&process), info, processes: vec![process] }
    }

    fn of_somebody(standing: Standing) -> Known {
        Known { standing, info: None, processes: Vec::new() }
    }

    fn of_holders(processes: Vec<Process>) -> Known {
        let first = processes.first();
        let info = first.and_then(|process| process.look_up(|pid, stat| PeerInfo::with(pid, stat, process.uid())));
        Known { standing: Standing::of_all(&processes), info, processes }
    }
}

async fn find(ends: Ends, proxies: &Arc<[u32]>) -> Option<Known> {
    for attempt in 0..HOLDER_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(HOLDER_PAUSE).await;
        }
        let proxies = Arc::clone(proxies);
        let found = lookups::run(move || look_for(ends, &proxies)).await?;
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whoever is at the other end of a TCP connection. Reads `/proc`.
fn look_for(ends: Ends, proxies: &[u32]) -> Option<Known> {
    match tcp::other_end(ends) {
        OtherEnd::Remote => Some(Known::of_somebody(Standing::Remote)),
        OtherEnd::Local { inode, uid } if uid == rustix::process::geteuid().as_raw() => {
            let known = Known::of_holders(holders_of(inode)?);
            (known.standing != Standing::Unknown).then_some(known)
        }
        OtherEnd::Local { uid, .. } if proxies.contains(&uid) => Some(Known::of_somebody(Standing::Remote)),
        OtherEnd::Local { .. } => Some(Known::of_somebody(Standing::OtherUser)),
        OtherEnd::Unknown => None,
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Peer({self})")
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.end {
            End::Process(process) => write!(formatter, "pid {}", process.pid()),
            End::Tcp { ends, .. } => ends.theirs.fmt(formatter),
            End::Own => formatter.write_str("this daemon"),
            End::Unknown => formatter.write_str("unknown"),
        }
    }
}
