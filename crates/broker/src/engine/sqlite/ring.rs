//! The newest entries of a log, shared by all who read them.
//!
//! Invariant: numbers without gaps up to the last entry on disk, within a bound of bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::types::Entry;

/// What an entry takes besides its content.
const OVERHEAD: usize = 512;

#[derive(Default)]
pub(super) struct Ring {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
}

fn size(entry: &Entry) -> usize {
    // Whoever delivers keeps the frame with it, which is about as long.
    OVERHEAD + 2 * entry.bytes.len()
}

impl Ring {
    pub(super) fn push(&mut self, entry: Arc<Entry>, most_bytes: usize) {
        let follows = self.entries.back().is_none_or(|last| last.seq + 1 == entry.seq);
        if !follows {
            self.entries.clear();
            self.bytes = 0;
        }
        self.bytes += size(&entry);
        self.entries.push_back(entry);
        while self.bytes > most_bytes {
            let Some(gone) = self.entries.pop_front() else { break };
            self.bytes -= size(&gone);
        }
    }

    /// Entries after a number, if the ring has them all.
    pub(super) fn after(&self, seq: u64, limit: usize, max_bytes: usize) -> Option<Vec<Arc<Entry>>> {
        let first = self.entries.front()?.seq;
        let skip = usize::try_from((seq + 1).checked_sub(first)?).ok()?;
        let mut bytes = 0_usize;
        let mut out = Vec::new();
        for entry in self.entries.iter().skip(skip).take(limit) {
            bytes = bytes.saturating_add(entry.bytes.len());
            if bytes > max_bytes && !out.is_empty() {
                break;
            }
            out.push(Arc::clone(entry));
        }
        Some(out)
    }

    /// Removes what is before a number.
    pub(super) fn forget_before(&mut self, seq: u64) {
        while self.entries.front().is_some_and(|entry| entry.seq < seq) {
            if let Some(gone) = self.entries.pop_front() {
                self.bytes -= size(&gone);
            }
        }
    }
}
