//! Which sessions keep an idle process, and which of them gives its process up when there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::session::Session;

/// The idle processes of a house, the one idle for longest first.
pub(crate) struct Warm {
    limit: usize,
    idle: Mutex<VecDeque<(i64, Weak<Session>)>>,
}

impl Warm {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, idle: Mutex::default() }
    }

    /// A session's process is idle from now on. Whoever has to make room for it is told.
    pub(crate) fn rest(&self, session: &Arc<Session>) {
        let mut idle = self.idle.lock();
        idle.retain(|(no, _)| *no != session.no());
        idle.push_back((session.no(), Arc::downgrade(session)));
        while idle.len() > self.limit {
            if let Some(oldest) = idle.pop_front().and_then(|(_, session)| session.upgrade()) {
                oldest.retire_process();
            }
        }
    }

    /// It is idle no longer, or there is no process any more.
    pub(crate) fn leave(&self, session: &Session) {
        self.idle.lock().retain(|(no, _)| *no != session.no());
    }
}
