//! The order within a lane, on one connection.
//!
//! A daemon sends the messages of a lane (one destination, one priority) without waiting for acks, each with its place
//! in the lane. When one is refused for now, those behind it must not get into the log before it.
//!
//! Invariant: after place k of a lane was refused for now, no later place is let through until k comes again. There are
//! two who refuse, and each keeps to this by itself, in the order in which it sees the messages: who reads them (rate,
//! destination), and who writes them into the log (something has changed, the disk failed). Neither looks at the other's
//! mark: a message that was let through here and is still in line there must not make those behind it be refused here.
//!
//! It never reorders and never holds a message back: what cannot go in is refused at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lanes that are remembered per connection; beyond it those that are open are forgotten, a new one costs nothing.
const MOST: usize = 1024;

/// The lanes of a connection.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: HashMap<String, Lane>,
}

/// A lane.
#[derive(Clone, Default)]
pub(crate) struct Lane {
    /// The first place that was refused for now by who reads; 0: none.
    refused: Arc<AtomicU64>,
    /// The same by who writes.
    gate: Arc<AtomicU64>,
}

impl Lanes {
    /// The lane of this name.
    pub(crate) fn lane(&mut self, name: &str) -> Lane {
        if let Some(lane) = self.lanes.get(name) {
            return lane.clone();
        }
        if self.lanes.len() >= MOST {
            // One that is open and has nothing under way can be made again at any time.
            self.lanes.retain(|_, lane| !lane.is_open() || Arc::strong_count(&lane.gate) > 1);
        }
        let lane = Lane::default();
        if self.lanes.len() < 2 * MOST {
            self.lanes.insert(name.to_owned(), lane.clone());
        }
        lane
    }
}

impl Lane {
    /// Whether this place may be looked at, or must wait for an earlier one. The one that was refused opens the lane.
    pub(crate) fn admits(&self, place: u64) -> bool {
        match self.refused.load(Ordering::Acquire) {
            0 => true,
            refused if place > refused => false,
            refused => {
                if place == refused {
                    self.refused.store(0, Ordering::Release);
                }
                true
            }
        }
    }

    /// This place was refused for now by who reads.
    pub(crate) fn refuse(&self, place: u64) {
        self.refused.compare_exchange(0, place, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    /// This place is settled without the log: whoever writes need not wait for it.
    pub(crate) fn settle(&self, place: u64) {
        self.gate.compare_exchange(place, 0, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    /// What the writer of the log looks at.
    pub(crate) fn gate(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.gate)
    }

    fn is_open(&self) -> bool {
        self.refused.load(Ordering::Acquire) == 0 && self.gate.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_refused_one_waits() {
        let mut lanes = Lanes::default();
        let lane = lanes.lane("dm|bob|next");
        assert!(lane.admits(1));
        assert!(lane.admits(2));
        lane.refuse(2);
        assert!(!lane.admits(3));
        assert!(!lanes.lane("dm|bob|next").admits(4));
        assert!(lanes.lane("dm|bob|now").admits(3), "lanes do not know each other");
        assert!(lane.admits(1), "what was before it is not held up");
        assert!(!lane.admits(3));
        assert!(lane.admits(2), "it comes again");
        assert!(lane.admits(3));
        lane.refuse(3);
        assert!(!lane.admits(4));
    }

    #[test]
    fn who_writes_has_a_mark_of_its_own() {
        let lane = Lane::default();
        lane.gate().store(5, Ordering::Release);
        assert!(lane.admits(6), "who writes will say so");
        lane.settle(6);
        assert_eq!(lane.gate().load(Ordering::Acquire), 5);
        lane.settle(5);
        assert_eq!(lane.gate().load(Ordering::Acquire), 0);
    }

    #[test]
    fn they_are_bounded_and_a_blocked_one_is_kept() {
        let mut lanes = Lanes::default();
        lanes.lane("first").refuse(7);
        for n in 0..10 * MOST {
            lanes.lane(&format!("lane {n}"));
        }
        assert!(lanes.lanes.len() <= 2 * MOST);
        assert!(!lanes.lane("first").admits(8));
    }
}
