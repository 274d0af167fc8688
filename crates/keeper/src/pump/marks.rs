//! Marks: points in standard input that are written to the journal before the bytes are handed to the child.
//!
//! Invariant: marks are written in order, and none overtakes output that was read before it. No quota holds them back.

use super::{Mark, Pump, find, pressure};
use crate::state::{Event, SlotKey};

impl Pump {
    pub(super) fn mark(&mut self, key: SlotKey, mark: Mark) {
        if let Some(child) = self.child(key) {
            child.marks.push_back(mark);
        }
        self.release_marks(key);
    }

    /// Writes the marks that wait, in order, and tells the control thread of each.
    pub(super) fn release_marks(&mut self, key: SlotKey) {
        let Some(child) = find(&mut self.children, key) else {
            return;
        };
        // A mark is small and somebody waits for it: no quota holds it back. Nothing may overtake output that was read.
        if child.pending.is_some() {
            return;
        }
        let (written, result) = child.write_marks(&self.setting);
        if written > 0 {
            self.notes.mark_dirty(child);
        }
        for _ in 0..written {
            self.events.push(Event::MarkWritten(key));
        }
        if let Err(error) = result {
            self.hold(key, pressure::reason(&error));
        }
    }
}
