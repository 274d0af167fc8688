//! What the two threads say to each other, and the little they share.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hostel_journal::{Exit, ProcessId};

use crate::proto::{Held, Limits, Note, NoteExit, OnFull, PipelineTerms};
use crate::pump::ParkedPump;

/// Names a slot of the child table for as long as one process lives in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SlotKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// The pump's progress on one process, readable by the control thread at any time.
#[derive(Debug)]
pub(crate) struct Progress {
    committed: AtomicU64,
    next_seq: AtomicU64,
    held: AtomicU32,
    has_file: AtomicBool,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            committed: AtomicU64::new(0),
            next_seq: AtomicU64::new(1),
            held: AtomicU32::new(0),
            has_file: AtomicBool::new(false),
        }
    }
}

impl Progress {
    /// Publishes a note. `committed` goes last: whoever sees it also sees the rest.
    pub(crate) fn publish(&self, note: &Note) {
        self.has_file.store(note.has_file, Ordering::Relaxed);
        self.held.store(note.held.to_wire(), Ordering::Relaxed);
        self.next_seq.store(note.next_seq, Ordering::Relaxed);
        self.committed.store(note.committed, Ordering::Release);
    }

    /// The newest note of `id`.
    pub(crate) fn note(&self, id: ProcessId, exit: Option<NoteExit>) -> Note {
        let committed = self.committed.load(Ordering::Acquire);
        Note {
            id,
            committed,
            next_seq: self.next_seq.load(Ordering::Relaxed),
            held: Held::from_wire(self.held.load(Ordering::Relaxed)).unwrap_or(Held::No),
            has_file: self.has_file.load(Ordering::Relaxed),
            exit,
        }
    }
}

/// A started process, handed to the pump.
pub(crate) struct NewChild {
    pub(crate) key: SlotKey,
    pub(crate) id: ProcessId,
    pub(crate) label: Vec<u8>,
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) quota: u64,
    pub(crate) on_full: OnFull,
    pub(crate) bounds: Bounds,
    pub(crate) progress: Arc<Progress>,
}

/// What bounds the output of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// So many bytes of each stream are kept, the rest is dropped; 0 keeps everything.
    pub(crate) keep_bytes: u64,
    /// How long somebody else may hold its pipes after its end.
    pub(crate) drain: Duration,
}

impl Bounds {
    /// Everything is kept, and whoever holds the pipes has five seconds.
    pub(crate) const NONE: Self = Self { keep_bytes: 0, drain: Duration::from_secs(5) };

    pub(crate) fn of(terms: Option<&PipelineTerms>) -> Self {
        let Some(terms) = terms else { return Self::NONE };
        let drain = match terms.drain_ms {
            0 => Self::NONE.drain,
            some => Duration::from_millis(some).min(Self::NONE.drain),
        };
        Self { keep_bytes: terms.keep_bytes, drain }
    }
}

/// Control to pump.
pub(crate) enum Command {
    Add(Box<NewChild>),
    /// The process itself ended; its pipes may still be held.
    Exited(SlotKey, Exit),
    /// Write a mark before the input it announces goes to the pipe.
    Mark {
        key: SlotKey,
        mark: u64,
        offset: u64,
        len: u32,
    },
    /// A new connection for notes; the older one is dropped.
    Notes(OwnedFd),
    Limits(Limits),
    Forget(SlotKey),
    /// Give every ended process that printed nothing a file, so that its end outlives the keeper.
    Flush,
    /// Stop between two records and hand everything over.
    Park,
}

/// Pump to control.
pub(crate) enum Event {
    /// The last frame is written; the process may be reaped.
    Finished(SlotKey, NoteExit),
    MarkWritten(SlotKey),
    Flushed,
    Parked(Box<ParkedPump>),
}
