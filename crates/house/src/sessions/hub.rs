//! What all sessions of a house share, and which of them there are.
//!
//! Invariant: a session is live, or closing, or neither. While its runner still works on a closed one nobody else may
//! touch its rows: two would number the same events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use super::session::Session;
use super::stall::Stalls;
use super::types::{AgentSpec, SessionOptions};
use super::warm::Warm;
use crate::approvals::Approvals;
use crate::processes::Processes;
use crate::store::Store;

/// How long a runner may take beyond what is by the rules.
const LATE: Duration = Duration::from_secs(30);

/// What all sessions of a house share.
pub(crate) struct Hub {
    pub(crate) store: Store,
    pub(crate) processes: Processes,
    pub(crate) approvals: Approvals,
    pub(crate) options: SessionOptions,
    pub(crate) warm: Warm,
    pub(crate) busy: AtomicUsize,
    /// Sessions that wait for the database.
    pub(super) stalls: Stalls,
    /// Held, for the time of one write, by whoever brings a session back or does away with one that is closed.
    pub(super) lifecycle: tokio::sync::Mutex<()>,
    pub(super) live: RwLock<Live>,
    pub(super) changed: watch::Sender<u64>,
    /// People may have been asked about letters; until then nothing has to be looked at when they decide.
    pub(super) letters_asked: AtomicBool,
    /// A letter was asked about.
    pub(super) letter_asked: Arc<Notify>,
}

#[derive(Default)]
pub(super) struct Live {
    pub(super) by_id: HashMap<String, Arc<Session>>,
    /// By row, which is the order in which they were made.
    pub(super) in_order: BTreeMap<i64, Arc<Session>>,
    pub(super) by_door: HashMap<String, usize>,
    /// Closed, and their runners still at work.
    closing: HashMap<String, Arc<Session>>,
}

impl Hub {
    pub(super) fn new(store: Store, processes: Processes, approvals: Approvals, options: SessionOptions) -> Arc<Self> {
        let warm = Warm::new(options.warm);
        Arc::new(Self {
            store,
            processes,
            approvals,
            options,
            warm,
            busy: AtomicUsize::new(0),
            stalls: Stalls::default(),
            lifecycle: tokio::sync::Mutex::default(),
            live: RwLock::default(),
            changed: watch::Sender::new(0),
            letters_asked: AtomicBool::new(true),
            letter_asked: Arc::default(),
        })
    }

    pub(super) fn enter(&self, session: &Arc<Session>) {
        let mut live = self.live.write();
        if live.in_order.insert(session.no(), Arc::clone(session)).is_none() {
            *live.by_door.entry(session.door().to_owned()).or_default() += 1;
        }
        live.by_id.insert(session.id().to_owned(), Arc::clone(session));
        drop(live);
        self.tell();
    }

    /// It was closed; its runner has to see to the rest.
    pub(super) fn leave(&self, session: &Arc<Session>) {
        let mut live = self.live.write();
        if live.in_order.remove(&session.no()).is_some() {
            live.by_id.remove(session.id());
            if let Some(count) = live.by_door.get_mut(session.door()) {
                *count = count.saturating_sub(1);
            }
        }
        live.closing.insert(session.id().to_owned(), Arc::clone(session));
        drop(live);
        self.tell();
    }

    /// Nobody works on it any more.
    pub(super) fn gone(&self, session: &Session) {
        let mut live = self.live.write();
        if live.closing.get(session.id()).is_some_and(|closing| std::ptr::eq(&raw const **closing, session)) {
            live.closing.remove(session.id());
        }
        drop(live);
        self.tell();
    }

    /// How long closing a session may take: what stopping an agent takes by the rules, and then some.
    pub(super) fn patience(&self) -> Duration {
        self.options.stop_grace.saturating_mul(4).saturating_add(LATE)
    }

    /// The session of that id that was closed and is still worked on.
    pub(super) fn closing(&self, id: &str) -> Option<Arc<Session>> {
        self.live.read().closing.get(id).cloned()
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.live.read().by_id.get(id).cloned()
    }

    /// The set of sessions has changed, or something about one that others follow.
    pub(super) fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn agent(&self, alias: &str) -> Option<&AgentSpec> {
        self.options.agents.iter().find(|agent| agent.alias == alias)
    }
}
