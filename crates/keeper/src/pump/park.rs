//! The pump at rest: all it held, handed over so that another image of the program goes on.

use std::os::fd::OwnedFd;

use hostel_journal::{Exit, Position, ProcessId, Stream};

use super::Pump;
use super::child::{Kept, Mark, PumpChild, Store};
use super::notes::Notes;
use crate::proto::{Held, Limits, Note, NoteExit};
use crate::state::{NewChild, SlotKey};

/// Proof that a park was asked for.
pub(super) struct Parking;

/// Everything the pump holds of one process. What the control thread knows as well is not here.
pub(crate) struct ParkedChild {
    pub(crate) key: SlotKey,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) position: Option<Position>,
    pub(crate) silent_seq: u64,
    pub(crate) kept: Kept,
    pub(crate) pending: Option<(Stream, Vec<u8>)>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) exit: Option<Exit>,
    pub(crate) ended: Option<NoteExit>,
}

/// Everything the pump holds.
pub(crate) struct ParkedPump {
    pub(crate) limits: Limits,
    /// The connection for notes, for a pump that goes on in this image of the program.
    pub(crate) notes: Notes,
    pub(crate) children: Vec<ParkedChild>,
}

impl Parking {
    pub(super) fn finish(self, mut pump: Pump) -> ParkedPump {
        let notes = std::mem::take(&mut pump.notes);
        let limits = pump.pressure.limits();
        let children = std::mem::take(&mut pump.children).into_iter().flatten().map(ParkedChild::from).collect();
        ParkedPump { limits, notes, children }
    }
}

impl ParkedChild {
    /// What is known of the output, for whoever asks before the pump has taken it up.
    pub(crate) fn note(&self, id: ProcessId) -> Note {
        let (committed, next_seq) = match &self.position {
            Some(position) => (position.committed, position.next_seq),
            None => (0, self.silent_seq),
        };
        Note { id, committed, next_seq, held: Held::No, has_file: self.position.is_some(), exit: self.ended }
    }
}

impl From<PumpChild> for ParkedChild {
    fn from(mut child: PumpChild) -> Self {
        child.close_file();
        Self {
            key: child.key,
            position: match child.store {
                Store::Closed(position) => Some(position),
                Store::None | Store::Open(_) => None,
            },
            stdout: child.out.into_fd(),
            stderr: child.err.into_fd(),
            silent_seq: child.silent_seq,
            kept: child.kept,
            pending: child.pending,
            marks: child.marks.into(),
            exit: child.exit,
            ended: child.ended,
        }
    }
}

impl Pump {
    /// Goes on with the connection for notes; whatever has news is told again.
    pub(crate) fn adopt_notes(&mut self, notes: Notes) {
        self.notes = notes.resumed();
        for child in self.children.iter_mut().flatten() {
            child.dirty = false;
            self.notes.mark_dirty(child);
        }
        self.notes.writable(&self.epoll);
    }

    /// Takes up a parked process; `new` is what the control thread knows of it, pipes included.
    pub(crate) fn adopt(&mut self, new: NewChild, parked: ParkedChild) {
        let mut child = PumpChild::new(new);
        let key = child.key;
        if let Some(position) = parked.position {
            child.store = Store::Closed(position);
        }
        child.silent_seq = parked.silent_seq;
        child.kept = parked.kept;
        child.pending = parked.pending;
        child.marks = parked.marks.into();
        child.exit = parked.exit;
        child.ended = parked.ended;
        child.progress.publish(&child.note());
        let waits = child.pending.is_some() || !child.marks.is_empty();
        let unfinished = child.exit.is_some() && !child.finished();
        if waits {
            child.held = Held::Disk;
        }
        // A child that waits is not read before what it waits with is written.
        self.add(child);
        // What waited is tried at once; what ended meanwhile is finished.
        self.retry(key);
        if unfinished && !self.try_finish(key) {
            self.drain_later(key);
        }
    }
}
