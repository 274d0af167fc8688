//! A cursor into a process's output: replay and live are the same code.
//!
//! A watch holds no frames. It reads the journal up to what the keeper has committed, hands out
//! what it read, and waits for the next note. A reader that is slow or never comes back costs
//! nothing but its place.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_journal::{Blocking, Cursor, Fill, ReadError, Reader, Stream};
use rustix::io::Errno;
use tokio::sync::watch;

use super::process::{Exit, Process, Progress};

/// Bytes of output read at a time: what stays in the cache of a core between reading, encoding and sending.
const BATCH_BYTES: usize = 64 * 1024;

/// Pauses while the system lacks something that reading needs.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why output cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The journal cannot be opened or read.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The journal is damaged.
    #[error("the journal is damaged: {0}")]
    Damaged(#[from] ReadError),
}

impl WatchError {
    /// Whether the same call may work a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        let error = match self {
            Self::Io(error) | Self::Damaged(ReadError::Io(error)) => error,
            Self::Damaged(_) => return false,
        };
        let lack = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error);
        error.raw_os_error().is_some_and(|errno| lack.contains(&errno))
    }
}

/// What a wait brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The batch holds items.
    Items,
    /// The end of the process was handed out before: there will be no more.
    Ended,
    /// Another process took the name: there will be no more.
    Replaced,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// Output, at most 32 KiB.
    Output {
        /// Which stream.
        stream: Stream,
        /// Its number; they rise by one.
        seq: u64,
        /// When it was written, nanoseconds of wall clock.
        time_ns: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// The end, always last.
    Exit {
        /// Its number.
        seq: u64,
        /// How it ended.
        exit: Exit,
    },
}

/// Items read at once; reused, so that a long stream allocates nothing.
pub struct Batch {
    journal: hostel_journal::Batch,
    /// The end of a process that printed nothing and has no journal.
    silent_exit: Option<(u64, Exit)>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { journal: hostel_journal::Batch::with_capacity(BATCH_BYTES), silent_exit: None }
    }
}

impl Batch {
    /// The items in order.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let lost = Exit { code: -1, signal: 0, lost: true };
        let recorded = self.journal.items().filter_map(move |item| match item {
            hostel_journal::Item::Output { stream, seq, time_ns, data } => {
                Some(Item::Output { stream, seq, time_ns, data })
            }
            hostel_journal::Item::Exit { seq, exit, .. } => {
                Some(Item::Exit { seq, exit: Exit { code: exit.code, signal: exit.signal, lost: false } })
            }
            hostel_journal::Item::Lost { seq, .. } => Some(Item::Exit { seq, exit: lost }),
            hostel_journal::Item::Mark { .. } | hostel_journal::Item::Note { .. } => None,
        });
        let silent = self.silent_exit.map(|(seq, exit)| Item::Exit { seq, exit });
        recorded.chain(silent)
    }

    /// Everything there is, marks included.
    pub(crate) fn records(&self) -> (impl Iterator<Item = hostel_journal::Item<'_>>, Option<(u64, Exit)>) {
        (self.journal.items(), self.silent_exit)
    }

    fn clear(&mut self) {
        self.journal.clear();
        self.silent_exit = None;
    }
}

/// A place in a process's output.
pub struct Watch {
    process: Arc<Process>,
    progress: watch::Receiver<Progress>,
    open: Option<(Arc<Reader>, Cursor)>,
    position: u64,
    ended: bool,
    was_replaced: bool,
    /// Marks are news too.
    with_marks: bool,
}

impl Watch {
    pub(crate) fn new(process: Arc<Process>, after_seq: u64) -> Self {
        let progress = process.progress.subscribe();
        let was_replaced = process.replaced.load(Ordering::Acquire);
        Self { process, progress, open: None, position: after_seq, ended: false, was_replaced, with_marks: false }
    }

    /// Also returns when there is nothing but marks.
    pub(crate) fn with_marks(mut self) -> Self {
        self.with_marks = true;
        self
    }

    /// The process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Number of the last item handed out.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Waits until there is something past the cursor and fills `batch` with it.
    ///
    /// A lack of descriptors or memory is waited out: it says nothing about the journal, and a reader
    /// that gave up would miss what comes.
    pub async fn next(&mut self, batch: &mut Batch) -> Result<Next, WatchError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let progress = *self.progress.borrow_and_update();
            match self.read(&progress, batch) {
                Ok(Some(next)) => return Ok(next),
                Ok(None) => {
                    if self.progress.changed().await.is_err() {
                        return Ok(Next::Ended);
                    }
                }
                Err(error) if error.is_passing() => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what is there now. `None` when there is nothing yet.
    pub fn poll(&mut self, batch: &mut Batch) -> Result<Option<Next>, WatchError> {
        let progress = *self.progress.borrow_and_update();
        self.read(&progress, batch)
    }

    fn read(&mut self, progress: &Progress, batch: &mut Batch) -> Result<Option<Next>, WatchError> {
        // Whoever began to watch a process that had lost its name before means that very process.
        if !self.was_replaced && self.process.replaced.load(Ordering::Acquire) {
            return Ok(Some(Next::Replaced));
        }
        let over = progress.exit.is_some() && self.position >= progress.next_seq.saturating_sub(1);
        if self.ended || over {
            return Ok(Some(Next::Ended));
        }
        batch.clear();
        let found =
            if progress.has_file { self.read_journal(progress, batch)? } else { self.read_silent(progress, batch) };
        if !found {
            return Ok(None);
        }
        for item in batch.items() {
            match item {
                Item::Output { seq, .. } => self.position = seq,
                Item::Exit { seq, .. } => {
                    self.position = seq;
                    self.ended = true;
                }
            }
        }
        Ok(Some(Next::Items))
    }

    fn read_silent(&self, progress: &Progress, batch: &mut Batch) -> bool {
        if let Some(exit) = progress.exit.filter(|_| self.position < progress.next_seq - 1) {
            batch.silent_exit = Some((progress.next_seq - 1, exit));
        }
        batch.silent_exit.is_some()
    }

    fn read_journal(&mut self, progress: &Progress, batch: &mut Batch) -> Result<bool, WatchError> {
        if self.open.is_none() {
            let reader = self.process.reader()?;
            let cursor = reader.seek(progress.committed, self.position)?;
            self.open = Some((reader, cursor));
        }
        let Some((reader, cursor)) = &mut self.open else { return Ok(false) };
        loop {
            let fill = match reader.read(cursor, progress.committed, &mut batch.journal, Blocking::Never)? {
                // Not in memory: read it where waiting for the disk does no harm.
                Fill::WouldBlock => {
                    wait_in_place(|| reader.read(cursor, progress.committed, &mut batch.journal, Blocking::Allowed))?
                }
                fill => fill,
            };
            match fill {
                // Marks alone are no news for a reader of output.
                Fill::Items if !self.with_marks && batch.items().next().is_none() => {}
                Fill::Items => return Ok(true),
                Fill::Empty | Fill::WouldBlock => return Ok(false),
            }
        }
    }
}

/// Waits for a disk, letting others go on where the runtime has threads for that; one that has none waits with us.
fn wait_in_place<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
