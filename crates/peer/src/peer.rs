//! The other end of a connection.
//!
//! Guarantee: who a peer is was fixed when it connected. The process is held by a descriptor, so one that ended is noticed,
//! and its number cannot become another peer's. Looking at it happens on the threads of `lookups`, never on the caller's.
//!
//! What a peer may do is decided elsewhere, by its [`Standing`].

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::sync::Mutex;

use crate::holders::holders_of;
use crate::lookups;
use crate::process::Process;
use crate::standing::Standing;
use crate::sys;
use crate::tcp::{self, Ends, OtherEnd};
use crate::tree::{self, Ancestor, PeerInfo};

/// How often the holder of a TCP connection is looked for, and the pause before each further look. The system's tables are
/// not of one moment: a process that is just being made holds what its parent has until it becomes another program.
const HOLDER_ATTEMPTS: u32 = 5;
const HOLDER_PAUSE: Duration = Duration::from_millis(20);

/// Where a connection comes from, as far as the kernel tells without a search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// A user of this machine.
    User(u32),
    /// Another machine or network namespace.
    Elsewhere(IpAddr),
    /// This machine, nobody knows whose.
    Unknown,
}

/// The other end of a connection. Clones are the same peer.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    end: End,
    /// What was found out; only what does not change as long as the processes live. Held during a lookup, so that several
    /// who want to know wait for one.
    known: Mutex<Option<Known>>,
}

enum End {
    Process(Process),
    Tcp {
        ends: Ends,
        proxies: Arc<[u32]>,
    },
    Own,
    /// Nobody that can be looked at: gone, or of another process namespace. The user may be known all the same.
    Unknown {
        uid: Option<u32>,
    },
}

#[derive(Clone)]
struct Known {
    standing: Standing,
    /// The end of a TCP connection that the processes hold.
    held: Option<(Ends, OtherEnd)>,
    processes: Vec<Process>,
    info: Option<PeerInfo>,
}

impl Peer {
    /// The process that connected a unix socket. Makes system calls that do not wait.
    #[must_use]
    pub fn of_unix(socket: impl AsFd) -> Self {
        let uid = || sys::peer_credentials(&socket).ok().map(|(_, uid)| uid);
        Self::new(Process::of_socket(&socket).map_or_else(|| End::Unknown { uid: uid() }, End::Process))
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
        Self::new(Process::found(pid).map_or(End::Unknown { uid: None }, |(process, _)| End::Process(process)))
    }

    /// This process itself, for whoever it speaks to inside.
    #[must_use]
    pub fn own() -> Self {
        Self::new(End::Own)
    }

    /// Somebody the system does not know.
    #[must_use]
    pub fn unknown() -> Self {
        Self::new(End::Unknown { uid: None })
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
            End::Unknown { uid } => *uid,
            End::Own | End::Tcp { .. } => None,
        }
    }

    /// Whether this is this process itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.0.end, End::Own)
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

    /// Looks at the peer now, in the background, so that what is known of it later is what it was when it connected.
    pub fn look_at_once(&self) {
        let peer = self.clone();
        hostel_tasks::spawn(async move { drop(peer.known().await) });
    }

    /// The peer as a process: whoever holds its end of a TCP connection on this machine. It keeps the standing that all
    /// holders have together. Unknown where there is none, and for somebody elsewhere.
    pub async fn as_process(&self) -> Peer {
        if !matches!(self.0.end, End::Tcp { .. }) {
            return self.clone();
        }
        match self.known().await {
            Some(known) => match known.processes.first().cloned() {
                Some(first) => Peer(Arc::new(Inner { end: End::Process(first), known: Mutex::new(Some(known)) })),
                None => Peer::unknown(),
            },
            None => Peer::unknown(),
        }
    }

    /// The processes that the peer may be, by number: one for a unix socket, the holders of a TCP connection. None for this
    /// process itself, for somebody elsewhere, and for whoever cannot be found.
    pub async fn pids(&self) -> Vec<u32> {
        self.known().await.map_or_else(Vec::new, |known| known.processes.iter().map(Process::pid).collect())
    }

    /// The lines of parents of those processes: each begins with the process itself, and each of its members comes with the
    /// terminal session that it is in. A line ends early where `/proc` does.
    pub async fn parents(&self) -> Vec<Vec<(u32, u32)>> {
        let Some(known) = self.known().await else { return Vec::new() };
        let look_up = move || {
            let lines = known.processes.iter();
            lines.filter_map(|process| process.look_up(|pid, stat| Some(tree::parents(pid, stat)))).collect()
        };
        lookups::run(look_up).await.unwrap_or_default()
    }

    /// Whether the peer is a process, or descends from it. `None` if that cannot be found out. Somebody elsewhere and this
    /// process itself belong to nobody's tree.
    pub async fn belongs_to(&self, root: u32, root_started: u64) -> Option<bool> {
        if self.is_own() {
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

    /// The processes that the peer may be, each with its parents, nearest first. Empty for somebody elsewhere, for this
    /// process itself, and for whoever cannot be found.
    pub async fn lines(&self) -> Vec<Vec<Ancestor>> {
        let Some(known) = self.known().await else { return Vec::new() };
        let look_up = move || {
            let line = |process: &Process| process.look_up(|pid, stat| Some(tree::line_of(pid, stat)));
            // One that is gone has no parents: what is left of the line says that somebody cannot be told apart.
            known.processes.iter().map(|process| line(process).unwrap_or_default()).collect()
        };
        lookups::run(look_up).await.unwrap_or_default()
    }

    /// The working directory of the peer's process as of now, opened as that process sees it: what is resolved relative to
    /// the descriptor is resolved in the process's own mount namespace. None for this process itself, for somebody
    /// elsewhere, and for whoever cannot be found or is not exactly one process.
    pub async fn directory(&self) -> Option<OwnedFd> {
        let known = self.known().await?;
        let [process] = known.processes.as_slice() else { return None };
        let process = process.clone();
        lookups::run(move || process.look_up(|pid, _| open_directory(pid))).await.flatten()
    }

    /// Where the connection comes from. Asks the kernel, which does not wait; only where that cannot be asked, `/proc` is
    /// read on another thread.
    pub(crate) async fn origin(&self) -> Origin {
        match &self.0.end {
            End::Process(process) => Origin::User(process.uid()),
            End::Own => Origin::User(rustix::process::geteuid().as_raw()),
            End::Unknown { uid } => uid.map_or(Origin::Unknown, Origin::User),
            End::Tcp { ends, .. } => {
                let ends = *ends;
                let found = match tcp::other_end_by_kernel(ends) {
                    Some(found) => Some(found),
                    None => lookups::run(move || tcp::other_end(ends)).await,
                };
                match found {
                    Some(OtherEnd::Local { uid, .. }) => Origin::User(uid),
                    Some(OtherEnd::Remote) => Origin::Elsewhere(ends.theirs.ip().to_canonical()),
                    Some(OtherEnd::Unknown) | None => Origin::Unknown,
                }
            }
        }
    }

    async fn known(&self) -> Option<Known> {
        let mut kept = self.0.known.lock().await;
        if let Some(known) = &*kept
            && known.still_holds()
        {
            return Some(known.clone());
        }
        let found = match &self.0.end {
            End::Process(process) if process.is_alive() => {
                let process = process.clone();
                lookups::run(move || Known::of_process(process)).await
            }
            End::Tcp { ends, proxies } => find(*ends, proxies).await,
            _ => None,
        };
        *kept = found.filter(|found| found.standing != Standing::Unknown);
        kept.clone()
    }
}

impl Known {
    fn of_process(process: Process) -> Known {
        let info = process.look_up(|pid, stat| PeerInfo::with(pid, stat, process.uid()));
        Known { standing: Standing::of(&process), held: None, info, processes: vec![process] }
    }

    fn of_somebody(standing: Standing) -> Known {
        Known { standing, held: None, info: None, processes: Vec::new() }
    }

    fn of_holders(held: (Ends, OtherEnd), processes: Vec<Process>) -> Known {
        let first = processes.first();
        let info = first.and_then(|process| process.look_up(|pid, stat| PeerInfo::with(pid, stat, process.uid())));
        Known { standing: Standing::of_all(&processes), held: Some(held), info, processes }
    }

    /// Whether the processes live, and their end of the connection is still theirs. Does not wait.
    fn still_holds(&self) -> bool {
        let is_held = |(ends, end): (Ends, OtherEnd)| tcp::other_end_by_kernel(ends) == Some(end);
        self.held.is_none_or(is_held) && self.processes.iter().all(Process::is_alive)
    }
}

fn open_directory(pid: u32) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}/cwd"), flags, Mode::empty()).ok()
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
    let end = tcp::other_end(ends);
    match end {
        OtherEnd::Remote => Some(Known::of_somebody(Standing::Remote)),
        OtherEnd::Local { inode, uid } if uid == rustix::process::geteuid().as_raw() => {
            let known = Known::of_holders((ends, end), holders_of(inode)?);
            (known.standing != Standing::Unknown).then_some(known)
        }
        OtherEnd::Local { uid, .. } if proxies.contains(&uid) => Some(Known::of_somebody(Standing::Remote)),
        OtherEnd::Local { .. } => Some(Known::of_somebody(Standing::OtherUser)),
        OtherEnd::Unknown => None,
    }
}

/// Two peers are equal if they are clones of one.
impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Peer {}

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
            End::Unknown { .. } => formatter.write_str("unknown"),
        }
    }
}
