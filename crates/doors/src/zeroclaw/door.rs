//! What all connections of the door share.
//!
//! Invariant: every connection that was let in is counted for exactly as long as it is open. The limit of live
//! sessions is never passed, also when many clients ask at the same instant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_house::approvals::Approvals;
use hostel_house::insiders::Insiders;
use hostel_house::processes::Processes;
use hostel_house::sessions::NewSession;
use hostel_house::sessions::Session;
use hostel_house::sessions::SessionError;
use hostel_house::sessions::Sessions;
use hostel_house::workspace::git::Git;
use hostel_house::workspace::git::Limits;
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::sync::watch;

use super::NAME;
use super::Settings;
use super::turns::Turns;
use crate::claustrum::Log;

/// How long git may take to tell a branch: clients ask every second.
const GIT: Limits = Limits { time: Duration::from_secs(2), output: 1 << 20, concurrent: 4 };

/// How many clients there are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Clients {
    /// Connected now, initialized or not.
    pub connected: usize,
    /// Connected at any time.
    pub ever: u64,
}

/// The door. Cheap to clone.
#[derive(Clone)]
pub struct Door(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) sessions: Sessions,
    pub(crate) approvals: Approvals,
    pub(crate) processes: Processes,
    pub(crate) insiders: Insiders,
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    pub(crate) turns: Turns,
    pub(crate) git: Git,
    /// Who is connected and has said who it is, by connection.
    pub(crate) known: Mutex<BTreeMap<u64, Known>>,
    clients: watch::Sender<Clients>,
    next: AtomicU64,
    /// Held together by those who make sessions, and alone by one who stands at the limit.
    gate: RwLock<()>,
    making: AtomicUsize,
}

/// A client that has introduced itself.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) id: String,
    pub(crate) connected_ns: u64,
    pub(crate) label: String,
    pub(crate) transport: &'static str,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Door {
    /// A door into this house.
    #[must_use]
    pub fn new(
        sessions: Sessions,
        approvals: Approvals,
        processes: Processes,
        insiders: Insiders,
        settings: Settings,
        log: Log,
    ) -> Self {
        let git = Git::new(GIT).from(processes.guards().own_programs());
        Door(Arc::new(Inner {
            sessions,
            approvals,
            processes,
            insiders,
            settings,
            log,
            turns: Turns::default(),
            git,
            known: Mutex::default(),
            clients: watch::Sender::new(Clients::default()),
            next: AtomicU64::new(0),
            gate: RwLock::new(()),
            making: AtomicUsize::new(0),
        }))
    }

    /// How many clients there are, from now on.
    #[must_use]
    pub fn clients(&self) -> watch::Receiver<Clients> {
        self.0.clients.subscribe()
    }

    /// A client is here.
    pub(super) fn count(&self) -> Counted {
        self.0.clients.send_modify(|clients| {
            clients.connected += 1;
            clients.ever += 1;
        });
        Counted(self.clone())
    }

    /// A number for a connection.
    pub(super) fn number(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a session, if there is room for one more of this door's.
    pub(super) async fn create(&self, new: NewSession) -> Result<Arc<Session>, SessionError> {
        self.admitted(new.door, || self.0.sessions.create(new)).await
    }

    /// Brings a session back, if there is room for one more of this door's.
    pub(super) async fn revive(&self, door: &str, id: &str) -> Result<Arc<Session>, SessionError> {
        self.admitted(door, || self.0.sessions.revive(id)).await
    }

    async fn admitted<F>(&self, door: &str, make: impl FnOnce() -> F) -> Result<Arc<Session>, SessionError>
    where
        F: Future<Output = Result<Arc<Session>, SessionError>>,
    {
        if door != NAME {
            return make().await;
        }
        let limit = self.0.settings.session_limit;
        let full = || SessionError::Limit(format!("all {limit} sessions of this door are in use; close one"));
        {
            let _together = self.0.gate.read().await;
            let making = Making::one_more(&self.0.making);
            if self.0.sessions.count_of(door) + making.count <= limit {
                return make().await;
            }
        }
        // At the limit one at a time: those who are being made are then counted once and exactly.
        let _alone = self.0.gate.write().await;
        if self.0.sessions.count_of(door) >= limit {
            return Err(full());
        }
        make().await
    }
}

/// A session being made; dropped when it is made.
struct Making<'a> {
    all: &'a AtomicUsize,
    count: usize,
}

impl<'a> Making<'a> {
    fn one_more(all: &'a AtomicUsize) -> Self {
        Making { all, count: all.fetch_add(1, Ordering::AcqRel) + 1 }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A client, while it is connected.
pub(super) struct Counted(Door);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.clients.send_modify(|clients| clients.connected -= 1);
    }
}
