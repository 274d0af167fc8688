//! One process as the pump sees it: two pipes, one journal, and how it ended.
//!
//! The journal file is made late (at the first output, or some time after the start) because
//! making a file costs more than starting a process. No policy here: when to read, hold or rest
//! is the pump's decision.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use hostel_journal::{Exit, HEADROOM, MAX_PAYLOAD, Meta, Position, ProcessId, Stream, TAILROOM, Writer};
use hostel_syncpoint::points;
use rustix::event::epoll;

use super::{HOT_BYTES, HOT_PIPE, HOT_WINDOW, Setting, now_ns, stream_key, watch};
use crate::proto::{Held, Note, NoteExit, OnFull};
use crate::state::{Bounds, NewChild, Progress, SlotKey};

/// Size a pipe is given back when its stream has cooled down.
const COLD_PIPE: usize = 64 * 1024;

/// One of the two output pipes.
#[derive(Default)]
pub(crate) struct Pipe {
    fd: Option<OwnedFd>,
    attached: bool,
    /// Since when, and how much it has moved since.
    window: Option<(Instant, usize)>,
    enlarged: bool,
}

impl Pipe {
    pub(crate) fn new(fd: Option<OwnedFd>) -> Self {
        Self { fd, ..Self::default() }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn into_fd(self) -> Option<OwnedFd> {
        self.fd
    }

    /// Measures the flow. `true` when the pipe was enlarged just now.
    pub(crate) fn warm_up(&mut self, bytes: usize, now: Instant, may_enlarge: bool) -> bool {
        match self.window {
            Some((since, moved)) if now.duration_since(since) < HOT_WINDOW => {
                self.window = Some((since, moved + bytes));
            }
            _ => self.window = Some((now, bytes)),
        }
        let hot = self.window.is_some_and(|(_, moved)| moved >= HOT_BYTES);
        if self.enlarged || !hot || !may_enlarge {
            return false;
        }
        self.window = None;
        // EPERM means that the user's budget of pipe memory is used up: stay small.
        self.enlarged = self.fd.as_ref().is_some_and(|fd| rustix::pipe::fcntl_setpipe_size(fd, HOT_PIPE).is_ok());
        self.enlarged
    }
}

/// A mark that waits to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) mark: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// How much of each stream was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) out: u64,
    pub(crate) err: u64,
}

impl Kept {
    fn of(self, stream: Stream) -> u64 {
        match stream {
            Stream::Out => self.out,
            Stream::Err => self.err,
        }
    }

    pub(crate) fn count(&mut self, stream: Stream, bytes: usize) {
        match stream {
            Stream::Out => self.out += bytes as u64,
            Stream::Err => self.err += bytes as u64,
        }
    }
}

/// Where the journal is.
pub(crate) enum Store {
    /// Nothing was written yet; there is no file.
    None,
    Open(Box<Writer>),
    /// The file exists, its descriptor was given back.
    Closed(Position),
}

/// What became of an attempt to end a process.
pub(crate) enum Finish {
    NotYet,
    Already,
    Done(NoteExit),
    Failed(io::Error),
}

/// One process.
pub(crate) struct PumpChild {
    pub(crate) key: SlotKey,
    pub(crate) id: ProcessId,
    pub(crate) label: Vec<u8>,
    pub(crate) pid: u32,
    pub(crate) start_ns: u64,
    pub(crate) quota: u64,
    pub(crate) on_full: OnFull,
    pub(crate) bounds: Bounds,
    /// Bytes of each stream that were kept, while there is a bound.
    pub(crate) kept: Kept,
    pub(crate) out: Pipe,
    pub(crate) err: Pipe,
    pub(crate) store: Store,
    /// The next number of a process without a file.
    pub(crate) silent_seq: u64,
    /// Output that was read but could not be written.
    pub(crate) pending: Option<(Stream, Vec<u8>)>,
    pub(crate) marks: VecDeque<Mark>,
    pub(crate) exit: Option<Exit>,
    /// Bytes read since the exit was known.
    pub(crate) last_words: usize,
    /// The pipes are about to be closed, whoever still holds them.
    pub(crate) is_closing: bool,
    pub(crate) ended: Option<NoteExit>,
    pub(crate) held: Held,
    /// A timer will try again.
    pub(crate) retry_is_set: bool,
    pub(crate) dirty: bool,
    /// When its progress was told of last, and whether a timer will tell it again.
    pub(crate) told: Instant,
    pub(crate) will_tell: bool,
    pub(crate) last_active: Instant,
    pub(crate) progress: Arc<Progress>,
}

impl PumpChild {
    pub(crate) fn new(new: NewChild) -> Self {
        Self {
            key: new.key,
            id: new.id,
            label: new.label,
            pid: new.pid,
            start_ns: new.start_ns,
            quota: new.quota,
            on_full: new.on_full,
            bounds: new.bounds,
            kept: Kept::default(),
            out: Pipe::new(new.stdout),
            err: Pipe::new(new.stderr),
            store: Store::None,
            silent_seq: 1,
            pending: None,
            marks: VecDeque::new(),
            exit: None,
            last_words: 0,
            is_closing: false,
            ended: None,
            held: Held::No,
            retry_is_set: false,
            dirty: false,
            told: Instant::now(),
            will_tell: false,
            last_active: Instant::now(),
            progress: new.progress,
        }
    }

    pub(crate) fn stream(&self, stream: Stream) -> &Pipe {
        match stream {
            Stream::Out => &self.out,
            Stream::Err => &self.err,
        }
    }

    pub(crate) fn stream_mut(&mut self, stream: Stream) -> &mut Pipe {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    /// Bytes of a stream that may still be kept; 0 means that the rest is read and dropped.
    pub(crate) fn may_keep(&self, stream: Stream) -> usize {
        match self.bounds.keep_bytes {
            0 => usize::MAX,
            bound => usize::try_from(bound.saturating_sub(self.kept.of(stream))).unwrap_or(usize::MAX),
        }
    }

    /// The process has ended and what remains is bounded: at most what its two pipes can hold.
    pub(crate) fn is_writing_last_words(&self) -> bool {
        self.is_closing || self.exit.is_some() && self.last_words < 2 * HOT_PIPE
    }

    pub(crate) fn finished(&self) -> bool {
        self.ended.is_some()
    }

    /// There is something to write: in memory, or in a pipe.
    pub(crate) fn wants_room(&self) -> bool {
        let unread = |stream| {
            let fd = self.stream(stream).fd().filter(|_| self.may_keep(stream) > 0);
            fd.is_some_and(|fd| rustix::io::ioctl_fionread(fd).is_ok_and(|bytes| bytes > 0))
        };
        self.pending.is_some() || unread(Stream::Out) || unread(Stream::Err)
    }

    /// Bytes the journal occupies on paper.
    pub(crate) fn store_bytes(&self) -> u64 {
        match &self.store {
            Store::None => 0,
            Store::Open(writer) => writer.position().committed,
            Store::Closed(position) => position.committed,
        }
    }

    /// The progress to tell the daemon.
    pub(crate) fn note(&self) -> Note {
        let (committed, next_seq, has_file) = match &self.store {
            Store::None => (0, self.silent_seq, false),
            Store::Open(writer) => (writer.position().committed, writer.position().next_seq, true),
            Store::Closed(position) => (position.committed, position.next_seq, true),
        };
        Note { id: self.id, committed, next_seq, held: self.held, has_file, exit: self.ended }
    }

    /// Payload bytes the next record may carry.
    pub(crate) fn room(&self) -> usize {
        match &self.store {
            Store::Open(writer) => writer.room(),
            // Its position tells, but opening it anew is rare: the first record is kept small.
            Store::Closed(_) => hostel_journal::FRAME_BYTES,
            Store::None => MAX_PAYLOAD,
        }
    }

    pub(crate) fn writer(&mut self, setting: &Setting) -> io::Result<&mut Writer> {
        let opened = match &self.store {
            Store::Open(_) => None,
            Store::Closed(position) => Some(Writer::resume(setting.journal.as_fd(), self.id, *position)?),
            Store::None => Some(Writer::create(
                setting.journal.as_fd(),
                &Meta {
                    id: self.id,
                    boot_id: setting.boot_id,
                    keeper_id: setting.keeper_id,
                    pid: self.pid,
                    // The number of one that is over may be another's by now.
                    start_ticks: if self.finished() { 0 } else { crate::tree::start_ticks(self.pid).unwrap_or(0) },
                    start_ns: self.start_ns,
                    label: self.label.clone(),
                },
                now_ns(),
            )?),
        };
        if let Some(writer) = opened {
            self.store = Store::Open(Box::new(writer));
        }
        match &mut self.store {
            Store::Open(writer) => Ok(writer),
            Store::None | Store::Closed(_) => Err(io::Error::other("journal is not open")),
        }
    }

    /// Appends `len` bytes that stand in `buffer` behind its headroom. What could not be written
    /// stays in `pending`.
    pub(crate) fn append(
        &mut self,
        setting: &Setting,
        stream: Stream,
        buffer: &mut [u8],
        len: usize,
    ) -> io::Result<()> {
        let written = match self.writer(setting) {
            Ok(writer) if len <= writer.room() => writer.append_output(stream, buffer, len, now_ns()).map(|()| len),
            // A file opened just now has less room than was read: in pieces, below.
            Ok(_) => Ok(0),
            Err(error) => Err(error),
        };
        if matches!(written, Ok(count) if count == len) {
            points::KEEPER_OUTPUT.reach();
            return Ok(());
        }
        self.pending = Some((stream, buffer[HEADROOM..HEADROOM + len].to_vec()));
        written?;
        self.write_pending(setting)
    }

    /// Writes what could not be written before; what still cannot stays.
    pub(crate) fn write_pending(&mut self, setting: &Setting) -> io::Result<()> {
        let Some((stream, bytes)) = self.pending.take() else { return Ok(()) };
        let mut rest = bytes.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            result = self.writer(setting).and_then(|writer| {
                let len = rest.len().min(writer.room());
                let mut buffer = vec![0; HEADROOM + len + TAILROOM];
                buffer[HEADROOM..HEADROOM + len].copy_from_slice(&rest[..len]);
                writer.append_output(stream, &mut buffer, len, now_ns())?;
                points::KEEPER_OUTPUT.reach();
                rest = &rest[len..];
                Ok(())
            });
        }
        if !rest.is_empty() {
            self.pending = Some((stream, rest.to_vec()));
        }
        result
    }

    /// Writes the marks that wait, in order; returns how many, and what stopped it.
    pub(crate) fn write_marks(&mut self, setting: &Setting) -> (usize, io::Result<()>) {
        let mut written = 0;
        while let Some(mark) = self.marks.front().copied() {
            // After the end there is nothing to mark; whoever waits is let go.
            if !self.finished()
                && let Err(error) = self
                    .writer(setting)
                    .and_then(|writer| writer.append_mark(mark.mark, mark.offset, mark.len, now_ns()))
            {
                return (written, Err(error));
            }
            points::KEEPER_MARK.reach();
            self.marks.pop_front();
            written += 1;
        }
        (written, Ok(()))
    }

    /// Makes the file of a process that has printed nothing; writes its end too if it has ended.
    pub(crate) fn make_file(&mut self, setting: &Setting) -> io::Result<bool> {
        if !matches!(self.store, Store::None) {
            return Ok(false);
        }
        let exit = self.exit;
        let ended = self.finished();
        let writer = self.writer(setting)?;
        if ended && let Some(exit) = exit {
            writer.append_exit(&exit, now_ns())?;
            self.close_file();
        }
        points::KEEPER_JOURNAL.reach();
        Ok(true)
    }

    /// Returns `false` if the kernel had no room for a registration: that has to be tried again.
    #[must_use]
    pub(crate) fn attach(&mut self, epoll: BorrowedFd<'_>) -> bool {
        let mut is_whole = true;
        for (stream, pipe) in [(Stream::Out, &mut self.out), (Stream::Err, &mut self.err)] {
            if let Some(fd) = pipe.fd.as_ref().filter(|_| !pipe.attached) {
                pipe.attached = watch(epoll, fd.as_fd(), stream_key(self.key, stream)).is_ok();
                is_whole &= pipe.attached;
            }
        }
        is_whole
    }

    pub(crate) fn detach(&mut self, epoll: BorrowedFd<'_>) {
        for pipe in [&mut self.out, &mut self.err] {
            if let Some(fd) = pipe.fd.as_ref().filter(|_| pipe.attached) {
                epoll::delete(epoll, fd).ok();
                pipe.attached = false;
            }
        }
    }

    /// Closes one stream. `true` when its pipe had been enlarged.
    pub(crate) fn close(&mut self, stream: Stream, epoll: BorrowedFd<'_>) -> bool {
        let pipe = self.stream_mut(stream);
        // The registration must go first: while a fresh child still holds a copy of the descriptor,
        // closing ours would leave it behind, and its number may soon be another child's pipe.
        if let Some(fd) = pipe.fd.as_ref().filter(|_| pipe.attached) {
            epoll::delete(epoll, fd).ok();
        }
        let enlarged = pipe.enlarged;
        *pipe = Pipe::default();
        enlarged
    }

    /// Closes both streams; returns how many had been enlarged.
    pub(crate) fn close_all(&mut self, epoll: BorrowedFd<'_>) -> usize {
        usize::from(self.close(Stream::Out, epoll)) + usize::from(self.close(Stream::Err, epoll))
    }

    /// Gives back enlarged pipes; returns how many there were.
    pub(crate) fn cool_down(&mut self) -> usize {
        let mut cooled = 0;
        for pipe in [&mut self.out, &mut self.err] {
            if pipe.enlarged {
                cooled += 1;
                pipe.enlarged = false;
                if let Some(fd) = &pipe.fd {
                    // EBUSY while it holds more than that: it stays large, and is counted as small.
                    rustix::pipe::fcntl_setpipe_size(fd, COLD_PIPE).ok();
                }
            }
        }
        cooled
    }

    /// Gives the journal's descriptor back.
    pub(crate) fn close_file(&mut self) {
        if let Store::Open(writer) = &self.store {
            self.store = Store::Closed(writer.position());
        }
    }

    /// Writes the end, once both pipes are closed, the exit is known and nothing waits.
    pub(crate) fn finish(&mut self, setting: &Setting) -> Finish {
        if self.finished() {
            return Finish::Already;
        }
        let Some(exit) = self.exit else { return Finish::NotYet };
        if self.out.fd.is_some() || self.err.fd.is_some() || self.pending.is_some() || self.held != Held::No {
            return Finish::NotYet;
        }
        if matches!(self.store, Store::None) {
            self.silent_seq += 1;
        } else if let Err(error) = self.writer(setting).and_then(|writer| writer.append_exit(&exit, now_ns())) {
            return Finish::Failed(error);
        } else {
            points::KEEPER_EXIT.reach();
        }
        self.close_file();
        let ended = NoteExit { code: exit.code, signal: exit.signal, wall_ns: exit.wall_ns };
        self.ended = Some(ended);
        Finish::Done(ended)
    }
}
