//! Sessions whose database refuses writes: they retry, are counted, and can still be stopped.
//!
//! Invariant: an agent whose turn somebody has stopped is told to end although that cannot be written down. What becomes of
//! the turn is written once the database takes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::time::Instant;

use super::Sessions;
use super::hub::Hub;
use super::session::Session;
use crate::store::StoreError;

/// The sessions of a house that wait for the database.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    count: AtomicUsize,
    last_error: Mutex<String>,
}

/// Sessions that cannot go on because the database takes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// How many.
    pub sessions: usize,
    /// The last error of the database.
    pub error: String,
}

impl Sessions {
    /// Sessions that cannot go on because the database takes nothing.
    #[must_use]
    pub fn stalled(&self) -> Option<Stalled> {
        let stalls = &self.hub.stalls;
        let sessions = stalls.count.load(Ordering::Acquire);
        (sessions > 0).then(|| Stalled { sessions, error: stalls.last_error.lock().clone() })
    }
}

/// Marks one session as waiting for the database while it lives.
pub(super) struct Stall {
    hub: Arc<Hub>,
    session: Arc<Session>,
    told_to_end: Option<Instant>,
    is_killed: bool,
}

impl Stall {
    pub(super) fn begin(session: &Arc<Session>) -> Self {
        let hub = Arc::clone(&session.hub);
        hub.stalls.count.fetch_add(1, Ordering::AcqRel);
        Self { hub, session: Arc::clone(session), told_to_end: None, is_killed: false }
    }

    pub(super) fn refused(&self, error: &StoreError) {
        *self.hub.stalls.last_error.lock() = error.to_string();
    }

    /// Tells the agent's process to end if its turn was stopped or the session closed, and kills it if it does not.
    pub(super) fn stop_if_asked(&mut self) {
        let (is_stopped, process) = self.session.change(|state| {
            let is_stopped = state.running.is_some_and(|running| running.cause.is_some()) || state.closing.is_some();
            (is_stopped, state.process)
        });
        let process = process.and_then(|id| self.hub.processes.by_id(id)).filter(|process| process.is_running());
        let (true, Some(process)) = (is_stopped, process) else { return };
        match self.told_to_end {
            None => {
                self.told_to_end = Some(Instant::now());
                hostel_tasks::spawn(async move { process.kill(Signal::TERM).await });
            }
            Some(since) if !self.is_killed && since.elapsed() >= self.hub.options.stop_grace => {
                self.is_killed = true;
                hostel_tasks::spawn(async move { drop(process.kill_tree().await) });
            }
            Some(_) => {}
        }
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.hub.stalls.count.fetch_sub(1, Ordering::AcqRel);
    }
}
