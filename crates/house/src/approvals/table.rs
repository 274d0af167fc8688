//! What waits, in memory: the requests that are pending, and those of before a restart that nobody has come back for.
//!
//! Invariant: a request is entered after it was written and removed after it was settled on disk. What a request is about
//! and how it was settled is told from here; the disk is what the next daemon goes on from. An orphan is handed out once:
//! whoever takes it out of here has it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::types::{Approval, RunState, State};
use hostel_peer::PeerInfo;

/// Hears how a request was settled.
pub(super) type Settled = watch::Receiver<Option<Arc<Approval>>>;

/// A request that waits, and those who wait with it.
struct Waiting {
    approval: Approval,
    settled: watch::Sender<Option<Arc<Approval>>>,
}

/// See above.
pub(super) struct Table {
    waiting: BTreeMap<u64, Waiting>,
    by_id: HashMap<String, u64>,
    /// Places that are kept for requests that are being written.
    pub(super) reserved: usize,
    /// Whose connection was cut off by a restart, by id.
    orphans: HashMap<String, Approval>,
    /// What was approved, is not known to be over, and nobody came back for.
    pub(super) abandoned: Vec<Approval>,
    /// When those who were cut off have had their time.
    pub(super) rejoin_until: Instant,
    /// The last request of before this start.
    pub(super) last_loaded: u64,
}

impl Table {
    /// What the start found: requests that can still have an effect, and those that were settled a moment ago.
    pub(super) fn new(open: Vec<Approval>, unheard: Vec<Approval>, rejoin: Duration) -> Table {
        let mut table = Table {
            waiting: BTreeMap::new(),
            by_id: HashMap::new(),
            reserved: 0,
            orphans: HashMap::new(),
            abandoned: Vec::new(),
            rejoin_until: Instant::now() + rejoin,
            last_loaded: 0,
        };
        let mut orphans = unheard;
        for approval in open {
            let is_unfinished = matches!(approval.run, RunState::Due | RunState::Started);
            if approval.connection.is_some() || is_unfinished {
                orphans.push(approval.clone());
            }
            if approval.state == State::Pending {
                table.last_loaded = table.last_loaded.max(approval.no);
                table.enter(approval);
            }
        }
        table.orphans = orphans.into_iter().map(|approval| (approval.id.clone(), approval)).collect();
        table
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &Approval> {
        self.waiting.values().map(|waiting| &waiting.approval)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Approval> {
        self.by_id.get(id).and_then(|no| self.waiting.get(no)).map(|waiting| &waiting.approval)
    }

    pub(super) fn by_no(&self, no: u64) -> Option<&Approval> {
        self.waiting.get(&no).map(|waiting| &waiting.approval)
    }

    pub(super) fn get_mut(&mut self, no: u64) -> Option<&mut Approval> {
        self.waiting.get_mut(&no).map(|waiting| &mut waiting.approval)
    }

    /// A request that was written and waits.
    pub(super) fn enter(&mut self, approval: Approval) {
        self.by_id.insert(approval.id.clone(), approval.no);
        self.waiting.insert(approval.no, Waiting { approval, settled: watch::Sender::new(None) });
    }

    /// Where to hear how a waiting request is settled; none if it does not wait.
    pub(super) fn hear(&self, id: &str) -> Option<Settled> {
        self.by_id.get(id).and_then(|no| self.waiting.get(no)).map(|waiting| waiting.settled.subscribe())
    }

    /// It was settled, and that is on disk.
    pub(super) fn settled(&mut self, approval: &Approval) {
        if let Some(orphan) = self.orphans.get_mut(&approval.id) {
            orphan.clone_from(approval);
        }
        self.by_id.remove(&approval.id);
        if let Some(waiting) = self.waiting.remove(&approval.no) {
            waiting.settled.send_replace(Some(Arc::new(approval.clone())));
        }
    }

    /// Removes what fits; who waits for it looks on disk. Says whether anything did.
    pub(super) fn remove(&mut self, fits: impl Fn(&Approval) -> bool) -> bool {
        let gone: Vec<u64> = self.pending().filter(|approval| fits(approval)).map(|approval| approval.no).collect();
        for no in &gone {
            if let Some(waiting) = self.waiting.remove(no) {
                self.by_id.remove(&waiting.approval.id);
            }
        }
        !gone.is_empty()
    }

    /// The orphan of this door, id and line, for the process that asked and comes back for it.
    pub(super) fn rejoin(
        &mut self,
        door: &str,
        request_id: &str,
        bytes: &[u8; 32],
        peer: Option<&PeerInfo>,
    ) -> Option<Approval> {
        let is_same = |asked: Option<&PeerInfo>| {
            let identity = |peer: &PeerInfo| (peer.pid, peer.started, peer.uid);
            asked.zip(peer).is_some_and(|(asked, now)| identity(asked) == identity(now))
        };
        let fits = |approval: &&Approval| {
            approval.requester.door == door
                && is_same(approval.requester.peer.as_ref())
                && approval
                    .connection
                    .as_ref()
                    .is_some_and(|connection| connection.request_id == request_id && connection.bytes == *bytes)
        };
        // The newest: an id may be used again once it was forgotten.
        let found = self.orphans.values().filter(fits).max_by_key(|approval| approval.no)?;
        let (id, no) = (found.id.clone(), found.no);
        let orphan = self.orphans.remove(&id)?;
        Some(self.waiting.get(&no).map_or(orphan, |waiting| waiting.approval.clone()))
    }

    /// Whether somebody asked under this id and has not come back for the answer.
    pub(super) fn is_orphan(&self, door: &str, request_id: &str) -> bool {
        self.orphans.values().any(|approval| {
            approval.requester.door == door
                && approval.connection.as_ref().is_some_and(|connection| connection.request_id == request_id)
        })
    }

    /// Their time is over: what nobody came back for. Those that wait are to be withdrawn, those that were approved and are
    /// not over are abandoned.
    pub(super) fn take_orphans(&mut self) -> Vec<Approval> {
        let orphans = std::mem::take(&mut self.orphans);
        let (waiting, others): (Vec<Approval>, Vec<Approval>) =
            orphans.into_values().partition(|approval| approval.state == State::Pending);
        let unfinished = |approval: &Approval| matches!(approval.run, RunState::Due | RunState::Started);
        self.abandoned.extend(others.into_iter().filter(unfinished));
        waiting
    }

    /// One that could not be withdrawn yet.
    pub(super) fn keep_orphan(&mut self, approval: Approval) {
        self.orphans.insert(approval.id.clone(), approval);
    }
}
