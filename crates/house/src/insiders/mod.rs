//! Processes inside the house: what they may do at the doors, and what is theirs.
//!
//! A process is inside when it descends from the keeper or carries a mark of a house; one that cannot be recognised is
//! treated the same. What it owns follows from its origin, the session or hosted command that it descends from.
//!
//! Invariant: every door asks before it does anything for a peer. A method that the [`table`] does not name is denied, and
//! a refusal changes nothing, says who may do it and how, and is recorded in the audit. Identical refusals are recorded
//! once a minute.
//!
//! Never: decides what the owner of the house may do. Who may answer a request is decided by `approvals`.

mod refusals;
mod rights;
pub mod table;

use std::sync::Arc;

use hostel_agents::Mode;
use parking_lot::Mutex;

use hostel_guard::Confinement;
use hostel_peer::{Peer, Standing};

use crate::approvals::Approvals;
use crate::processes::{Origin, Process, Processes};
use crate::sessions::{MeshPolicy, Session, Sessions};

pub use refusals::Refusal;
pub use rights::{RaiseError, Rights};
pub use table::{Door, Own, Rule};

use refusals::Recorded;

/// How many makers of makers are followed when it is found out whose a session is.
const MAKERS: usize = 64;

/// A process inside the house, or one that cannot be recognised.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Insider {
    /// The session or hosted command it descends from, where that is known.
    pub origin: Option<Origin>,
    /// It was found to be inside; else nothing could be found out about it, perhaps for the moment.
    pub recognised: bool,
    /// The guard around it. Whatever it has the house start gets one that is at least as strict.
    pub guard: Confinement,
}

/// What knows the processes inside a house. Cheap to clone.
#[derive(Clone)]
pub struct Insiders {
    inner: Arc<Inner>,
}

struct Inner {
    processes: Processes,
    sessions: Sessions,
    approvals: Approvals,
    recorded: Mutex<Recorded>,
}

impl std::fmt::Debug for Insiders {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Insiders")
    }
}

impl Insiders {
    /// The insiders of a house.
    #[must_use]
    pub fn new(processes: Processes, sessions: Sessions, approvals: Approvals) -> Self {
        Insiders { inner: Arc::new(Inner { processes, sessions, approvals, recorded: Mutex::default() }) }
    }

    /// What the peer of one connection may do. `label` is its name in the audit.
    #[must_use]
    pub fn rights(&self, door: Door, peer: Peer, label: String) -> Rights {
        Rights::new(self.clone(), door, peer, label)
    }

    /// Who is at the other end, if it is a process inside the house or cannot be recognised; none for the owner of the
    /// house, and for somebody elsewhere, who is let in by a token alone.
    pub async fn find(&self, door: Door, peer: &Peer) -> Option<Insider> {
        match self.inner.approvals.standing(peer).await {
            Standing::Owner | Standing::Remote => return None,
            // Root is let in at one door only, and may do what it likes anyway.
            Standing::OtherUser if door == Door::Claustrum && peer.uid() == Some(0) => return None,
            Standing::Insider => {}
            Standing::OtherUser => return Some(self.nobody(true)),
            Standing::Unknown => return Some(self.nobody(false)),
        }
        // A connection that several hold is nobody's in particular, unless they are of one origin.
        let processes = &self.inner.processes;
        let hosts: Vec<_> = peer.lines().await.into_iter().map(|line| processes.host_of(&line)).collect();
        let mut origins = hosts.iter().map(|host| host.as_ref().map(|host| host.origin()));
        let first = origins.next().flatten();
        let origin = first.filter(|first| origins.all(|other| other.as_ref() == Some(first)));
        // A guard, though, is that of all of them.
        let handed_on = |host: &Option<Arc<Process>>| match host {
            Some(host) => processes.handed_on(host),
            None => processes.strictest(),
        };
        let guards = hosts.iter().map(handed_on).reduce(|one, other| one.at_least(&other));
        let guard = guards.unwrap_or_else(|| processes.strictest());
        Some(Insider { origin, recognised: true, guard })
    }

    /// An insider of whom nothing is known.
    fn nobody(&self, recognised: bool) -> Insider {
        Insider { origin: None, recognised, guard: self.inner.processes.strictest() }
    }

    /// The session that an insider runs in.
    #[must_use]
    pub fn session_of(&self, insider: &Insider) -> Option<Arc<Session>> {
        match insider.origin.as_ref()? {
            Origin::Session(id) => self.inner.sessions.get(id),
            Origin::Process(_) => None,
        }
    }

    /// The most rights that an insider can hand on: those of its own session. Without one it has those of a session that
    /// asks, and takes no messages.
    fn most(&self, insider: &Insider) -> (Mode, MeshPolicy) {
        self.session_of(insider).map_or((Mode::Ask, MeshPolicy::Off), |session| (session.mode(), session.info().mesh))
    }

    /// Whether something is of an insider's own origin: it came from there, or from a session that was made from there.
    async fn is_of(&self, insider: &Insider, came_from: &Origin) -> bool {
        let Some(own) = &insider.origin else { return false };
        let mut at = came_from.clone();
        for _ in 0..MAKERS {
            if at == *own {
                return true;
            }
            let Origin::Session(id) = &at else { return false };
            let made_by = match self.inner.sessions.get(id) {
                Some(session) => session.made_by().cloned(),
                None => self.inner.sessions.stored(id).await.ok().flatten().and_then(|stored| stored.made_by),
            };
            match made_by {
                Some(maker) => at = maker,
                None => return false,
            }
        }
        false
    }

    /// Whether a process was started from an insider's own session or command.
    async fn started(&self, insider: &Insider, process: &Process) -> bool {
        match process.asked_by() {
            Some(asked_by) if !process.is_input_owned() => self.is_of(insider, asked_by).await,
            _ => false,
        }
    }

    /// Whether an insider may see what a process prints: one that it has started, or the one it runs in.
    async fn sees(&self, insider: &Insider, process: &Process) -> bool {
        let origin = process.origin();
        insider.origin.as_ref() == Some(&origin) || self.is_of(insider, &origin).await
    }
}
