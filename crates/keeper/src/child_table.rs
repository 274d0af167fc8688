//! The children as the control thread sees them: who they are, their input, their phase.
//!
//! Slots are reused, keys are not: a key carries the slot's generation, so a late event for a
//! process that was forgotten finds nothing.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hostel_journal::{Exit, ProcessId};
use rustix::io::Errno;

use crate::key::OwnerDigest;
use crate::proto::{NoteExit, OnFull, Outcome, Phase, State};
use crate::state::{Bounds, Command, Progress, SlotKey};
use crate::{stdin_rule, sys};

/// Input queued for one child.
pub(crate) const STDIN_LIMIT: usize = 16 * 1024 * 1024;
/// Input queued for all children.
pub(crate) const STDIN_TOTAL_LIMIT: usize = 64 * 1024 * 1024;
/// Small inputs are gathered up to this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// Generations fit the epoll key.
const GENERATIONS: u32 = 1 << 24;

/// A spawn that has forked and not yet executed.
pub(crate) struct Starting {
    /// Readable when the exec failed (eight bytes) or worked (end of file).
    pub(crate) failure: OwnedFd,
    /// None if the slot holds it.
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: OwnedFd,
    /// Connection and correlation of everybody who waits for the answer.
    pub(crate) waiters: Vec<(u64, u64)>,
    /// Marks for the pump, once it knows the process.
    pub(crate) marks: Vec<Command>,
    /// What it runs on until then.
    pub(crate) _birth: sys::Birth,
}

/// One piece of queued input.
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    /// It waits until the pump has written its mark.
    pub(crate) gated: bool,
}

/// A child's standard input.
#[derive(Default)]
pub(crate) struct Stdin {
    pub(crate) fd: Option<OwnedFd>,
    /// Registered for "writable".
    pub(crate) attached: bool,
    pub(crate) queue: VecDeque<Chunk>,
    /// Bytes of the front chunk that are written.
    pub(crate) front_sent: usize,
    pub(crate) queued: usize,
    pub(crate) applied: u64,
    pub(crate) written: u64,
    pub(crate) close_when_empty: bool,
}

/// Whether queued input can go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Nothing to do now.
    Idle,
    /// The pipe is full: wait until it takes more.
    Blocked,
    /// The descriptor is to be closed (the child closed its end, or all was written and the end asked for).
    Close,
}

impl Stdin {
    /// Takes a chunk by the offset rule; `total` is the input queued for everybody.
    pub(crate) fn offer(&mut self, offset: Option<u64>, bytes: &[u8], gated: bool, total: usize) -> Outcome {
        let room = STDIN_LIMIT.saturating_sub(self.queued).min(STDIN_TOTAL_LIMIT.saturating_sub(total));
        let verdict =
            stdin_rule::judge(self.applied, offset, bytes.len(), room, self.queued == 0 && total < STDIN_TOTAL_LIMIT);
        self.applied = verdict.applied;
        let fresh = bytes.get(verdict.skip..).unwrap_or_default();
        // After the child closed its end, input is accepted and counted, and goes nowhere.
        if verdict.outcome == Outcome::Accepted && self.fd.is_some() && !fresh.is_empty() {
            self.queued += fresh.len();
            match self
                .queue
                .back_mut()
                .filter(|tail| !gated && !tail.gated && tail.bytes.len() + fresh.len() <= CHUNK_BYTES)
            {
                // Many small inputs must not cost more memory than they have bytes.
                Some(tail) => tail.bytes.extend_from_slice(fresh),
                None => self.queue.push_back(Chunk { bytes: fresh.to_vec(), gated }),
            }
        }
        verdict.outcome
    }

    /// Writes as much as the pipe takes.
    pub(crate) fn write(&mut self) -> Flow {
        let Some(fd) = &self.fd else { return Flow::Idle };
        while let Some(chunk) = self.queue.front() {
            if chunk.gated {
                return Flow::Idle;
            }
            match rustix::io::write(fd, &chunk.bytes[self.front_sent..]) {
                Ok(count) => {
                    self.front_sent += count;
                    self.queued -= count;
                    self.written += count as u64;
                    if self.front_sent == chunk.bytes.len() {
                        self.queue.pop_front();
                        self.front_sent = 0;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flow::Blocked,
                Err(_) => return Flow::Close,
            }
        }
        if self.close_when_empty { Flow::Close } else { Flow::Idle }
    }

    /// Forgets the queue and the descriptor, which the caller has taken out of its epoll set.
    pub(crate) fn close(&mut self) {
        self.fd = None;
        self.attached = false;
        self.queue.clear();
        self.front_sent = 0;
        self.queued = 0;
    }

    pub(crate) fn borrow(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

/// One process.
pub(crate) struct Slot {
    pub(crate) key: SlotKey,
    pub(crate) id: ProcessId,
    pub(crate) label: Vec<u8>,
    pub(crate) command: Vec<u8>,
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
    pub(crate) quota: u64,
    pub(crate) on_full: OnFull,
    pub(crate) bounds: Bounds,
    pub(crate) stdin: Stdin,
    /// Whose token its input takes; anybody's input is taken if none.
    pub(crate) owner: Option<OwnerDigest>,
    /// Its output, held for the process that will read it; gone once that one was started, or with this slot.
    pub(crate) held_stdout: Option<OwnedFd>,
    pub(crate) starting: Option<Starting>,
    /// The process itself has ended (it is a zombie until the pump has written its last frame).
    pub(crate) observed: Option<Exit>,
    pub(crate) ended: Option<NoteExit>,
    pub(crate) progress: Arc<Progress>,
}

impl Slot {
    pub(crate) fn phase(&self) -> Phase {
        match (&self.ended, &self.observed, &self.starting) {
            (Some(_), _, _) => Phase::Exited,
            (None, _, Some(_)) => Phase::Starting,
            (None, Some(_), None) => Phase::Draining,
            (None, None, None) => Phase::Running,
        }
    }

    /// Whether a frame with this token, or none, may write to its input or end it.
    pub(crate) fn may_be_fed(&self, token: Option<&[u8]>) -> bool {
        self.owner.is_none_or(|owner| owner.matches(token))
    }

    pub(crate) fn state(&self) -> State {
        State {
            id: self.id,
            label: self.label.clone(),
            command: self.command.clone(),
            pid: self.pid,
            start_ns: self.start_ns,
            phase: self.phase(),
            note: self.progress.note(self.id, self.ended),
            applied: self.stdin.applied,
            written: self.stdin.written,
        }
    }
}

/// All children.
#[derive(Default)]
pub(crate) struct ChildTable {
    slots: Vec<Option<Slot>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    by_id: HashMap<ProcessId, SlotKey>,
    by_pid: HashMap<u32, SlotKey>,
}

impl ChildTable {
    /// The key the next process will have.
    pub(crate) fn next_key(&mut self) -> SlotKey {
        let slot = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        let generation = self.generations.get(slot as usize).copied().unwrap_or(0);
        SlotKey { slot, generation }
    }

    /// Puts a process where [`ChildTable::next_key`] said.
    pub(crate) fn insert(&mut self, slot: Slot) {
        let index = slot.key.slot as usize;
        self.free.retain(|free| *free != slot.key.slot);
        while self.slots.len() <= index {
            if self.slots.len() < index {
                self.free.push(self.slots.len() as u32);
            }
            self.slots.push(None);
            self.generations.push(0);
        }
        self.generations[index] = slot.key.generation;
        self.by_id.insert(slot.id, slot.key);
        if slot.ended.is_none() {
            self.by_pid.insert(slot.pid, slot.key);
        }
        self.slots[index] = Some(slot);
    }

    pub(crate) fn get(&self, key: SlotKey) -> Option<&Slot> {
        self.slots.get(key.slot as usize)?.as_ref().filter(|slot| slot.key == key)
    }

    pub(crate) fn get_mut(&mut self, key: SlotKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.slot as usize)?.as_mut().filter(|slot| slot.key == key)
    }

    pub(crate) fn key_of(&self, id: ProcessId) -> Option<SlotKey> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn key_of_pid(&self, pid: u32) -> Option<SlotKey> {
        self.by_pid.get(&pid).copied()
    }

    /// The process id is being given back: it no longer names this child.
    pub(crate) fn release_pid(&mut self, pid: u32) {
        self.by_pid.remove(&pid);
    }

    pub(crate) fn remove(&mut self, key: SlotKey) -> Option<Slot> {
        let place = self.slots.get_mut(key.slot as usize)?;
        let slot = place.take_if(|slot| slot.key == key)?;
        self.generations[key.slot as usize] = (key.generation + 1) % GENERATIONS;
        self.free.push(key.slot);
        self.by_id.remove(&slot.id);
        if self.by_pid.get(&slot.pid) == Some(&key) {
            self.by_pid.remove(&slot.pid);
        }
        Some(slot)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    /// How many have not ended.
    pub(crate) fn living(&self) -> usize {
        self.by_pid.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Input queued for all of them.
    pub(crate) fn queued_input(&self) -> usize {
        self.iter().map(|slot| slot.stdin.queued).sum()
    }
}
