//! What a peer is to a house: an insider of any house of the user decides in none, since they have the same approver.
//!
//! Who is inside is decided by `hostel_peer`. This module tells it which processes are ours: the keeper of this house, and
//! whoever holds the locks of the houses below the same directory.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use hostel_peer::Peer;
use hostel_peer::registry::registry;

use super::types::KeeperId;
use super::who::{Answer, Household};
use crate::processes::Processes;

/// A house that knows its neighbours.
pub(super) struct Neighbours {
    own: Processes,
    /// The keeper that was registered last; another is started when one is killed.
    registered: AtomicU32,
}

impl Neighbours {
    /// A house in the directory `home`, or below it.
    pub(super) fn new(own: Processes, home: &Path) -> Self {
        registry().add_houses_of(home);
        Neighbours { own, registered: AtomicU32::new(0) }
    }

    async fn register_keeper(&self) {
        let keeper = self.own.keeper_pid();
        if self.registered.load(Ordering::Acquire) != keeper {
            let added = hostel_tasks::spawn_blocking(move || registry().add(keeper)).await;
            if added.is_ok() {
                self.registered.store(keeper, Ordering::Release);
            }
        }
    }
}

impl Household for Neighbours {
    fn standing<'a>(&'a self, peer: &'a Peer) -> Answer<'a> {
        Box::pin(async move {
            self.register_keeper().await;
            peer.standing().await
        })
    }

    fn keeper(&self) -> Option<KeeperId> {
        Some(KeeperId { pid: self.own.keeper_pid(), since_ns: self.own.keeper_since_ns() })
    }
}
