//! The end of a process: its pipes run dry, or are closed in time, and its last frame is written.

use hostel_journal::Stream;

use super::child::Finish;
use super::{HOT_PIPE, Moved, Pump, Timer, find, pressure};
use crate::proto::Held;
use crate::state::{Event, SlotKey};
use std::os::fd::AsFd as _;

impl Pump {
    /// Gives whoever holds the pipes of an ended process the time it has.
    pub(super) fn drain_later(&mut self, key: SlotKey) {
        if let Some(drain) = self.child(key).map(|child| child.bounds.drain) {
            self.at(drain, Timer::Drain, key);
        }
    }

    /// The pipes of an ended process are held by somebody else for too long: take what is in them
    /// now, at most what a pipe can hold, and close them.
    pub(super) fn end_drain(&mut self, key: SlotKey) {
        if let Some(child) = self.child(key) {
            child.is_closing = true;
        }
        // What was held because of a quota is not any more.
        self.retry(key);
        for stream in [Stream::Out, Stream::Err] {
            let mut taken = 0;
            while taken < HOT_PIPE
                && let Moved::Bytes(bytes) = self.read_stream(key, stream, true)
            {
                taken += bytes;
            }
        }
        let Some(child) = find(&mut self.children, key) else { return };
        // What is still in the pipe of a held child must not be thrown away.
        if child.held != Held::No {
            return self.drain_later(key);
        }
        self.hot_streams -= child.close_all(self.epoll.as_fd());
        self.try_finish(key);
    }

    /// Ends a process whose pipes are closed and whose exit is known. Says whether it is over.
    pub(super) fn try_finish(&mut self, key: SlotKey) -> bool {
        let Some(child) = find(&mut self.children, key) else {
            return true;
        };
        match child.finish(&self.setting) {
            Finish::NotYet => false,
            Finish::Already => true,
            Finish::Done(exit) => {
                self.notes.mark_dirty(child);
                // The daemon hears of it before the process id can be given back.
                self.notes.send(&self.epoll, &mut self.children);
                self.events.push(Event::Finished(key, exit));
                true
            }
            Finish::Failed(error) => {
                self.hold(key, pressure::reason(&error));
                false
            }
        }
    }
}
