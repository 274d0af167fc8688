//! Cursors over a journal that may still be growing at its end and shrinking at its front.
//!
//! A reader never goes past the `committed` offset it is given, hands out only records whose header is verified and
//! whose number is the expected one, and never hands out bytes of a block that was dropped while it read them. Each
//! read is one `pread` of at most 256 KiB, a second one to complete the last record, and 64 bytes to see that the block
//! is still there.
//!
//! It keeps no state between calls besides the caller's [`Cursor`], writes nothing and takes no lock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::batch::{Batch, is_visible};
use crate::blocks::{Block, partition_point, read_meta};
use crate::file::{self, Warm};
use crate::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, FormatError, MIN_RECORD_BYTES, Meta, RECORD_HEADER_BYTES, RecordHeader, Stream,
};
use crate::id::ProcessId;
use crate::writer::invalid_data;

/// Why a journal could not be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file does not hold what was committed.
    #[error("journal is damaged at byte {offset}: {what}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What was found.
        what: &'static str,
    },
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            ReadError::Damaged { .. } => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Whether a read may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// It may.
    Allowed,
    /// It may not: what is not in memory gives [`Fill::WouldBlock`]. File systems that cannot tell are read anyway.
    Never,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// At least one item.
    Items,
    /// The cursor has seen everything that was committed.
    Empty,
    /// There is more, but on disk; read again with [`Blocking::Allowed`].
    WouldBlock,
}

/// Read at a time to count: what is counted is looked at once.
const TOTALS_WINDOW: usize = 64 * 1024;

/// Bytes of each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of standard output.
    pub out: u64,
    /// Of standard error.
    pub err: u64,
}

impl Totals {
    /// Those of one stream.
    pub fn of(self, stream: Stream) -> u64 {
        match stream {
            Stream::Out => self.out,
            Stream::Err => self.err,
        }
    }
}

/// A place in a journal. It belongs to one reader's journal and is good for as long as that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    offset: u64,
    /// Items up to this number are left out.
    after: u64,
    /// The number the next record must have; none at the beginning of a block that was jumped to.
    expected: Option<u64>,
}

impl Cursor {
    /// A cursor at the beginning of any journal, even of one that does not exist yet. The first item it gives has a
    /// number above `after_seq`; [`Reader::seek`] gets there faster.
    pub fn start(after_seq: u64) -> Self {
        Self { offset: 0, after: after_seq, expected: None }
    }

    fn at_block(block: u64, after_seq: u64) -> Self {
        Self { offset: block.saturating_mul(BLOCK_BYTES), ..Self::start(after_seq) }
    }

    /// Where in the file the next read begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Reads one journal.
#[derive(Debug)]
pub struct Reader {
    file: OwnedFd,
    id: ProcessId,
    /// The file system cannot read without waiting, so there is no use in asking again.
    always_waits: AtomicBool,
}

impl Reader {
    /// Opens the journal of `id` in the folder `dir`.
    pub fn open(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<Self> {
        Ok(Self::new(file::open_readable(dir, id)?, id))
    }

    /// Opens a journal by its path; the process is the one its META record names.
    pub fn open_path(path: &Path) -> io::Result<Self> {
        let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        Self::from_fd(rustix::fs::open(path, how, Mode::empty())?)
    }

    /// Reads from a descriptor; the process is the one its META record names.
    pub fn from_fd(file: OwnedFd) -> io::Result<Self> {
        let id = read_meta(&file)?.id;
        Ok(Self::new(file, id))
    }

    fn new(file: OwnedFd, id: ProcessId) -> Self {
        Self { file, id, always_waits: AtomicBool::new(false) }
    }

    /// The process whose journal this is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Who the process is. May wait for the disk.
    pub fn meta(&self) -> io::Result<Meta> {
        let meta = read_meta(&self.file)?;
        if meta.id == self.id { Ok(meta) } else { Err(invalid_data("journal of another process")) }
    }

    /// The oldest number that was not dropped, or 0 if nothing is numbered yet. May wait for the disk.
    pub fn first_seq(&self, committed: u64) -> io::Result<u64> {
        let mut cursor = Cursor::start(0);
        let mut batch = Batch::with_capacity(0);
        while self.read(&mut cursor, committed, &mut batch, Blocking::Allowed)? == Fill::Items {
            use crate::Item::{Exit, Lost, Output};
            let numbered = |item: &crate::Item<'_>| matches!(item, Output { .. } | Exit { .. } | Lost { .. });
            if let Some(item) = batch.items().find(numbered) {
                return Ok(item.seq());
            }
        }
        Ok(0)
    }

    /// Bytes that were written of each stream up to `committed`, dropped ones included. Every block begins with what came
    /// before it, so that only the last one is read. May wait for the disk.
    pub fn totals(&self, committed: u64) -> Result<Totals, ReadError> {
        let Some(last) = committed.div_ceil(BLOCK_BYTES).checked_sub(1) else { return Ok(Totals::default()) };
        let Some(Block::Live(header)) = self.judge(last, Blocking::Allowed)? else {
            return Err(damaged(last.saturating_mul(BLOCK_BYTES), "no block header"));
        };
        let mut totals = Totals { out: header.out_bytes, err: header.err_bytes };
        let (mut cursor, mut batch) = (Cursor::at_block(last, 0), Batch::with_capacity(TOTALS_WINDOW));
        while self.read(&mut cursor, committed, &mut batch, Blocking::Allowed)? == Fill::Items {
            for item in batch.items() {
                match item {
                    crate::Item::Output { stream: Stream::Out, data, .. } => totals.out += data.len() as u64,
                    crate::Item::Output { stream: Stream::Err, data, .. } => totals.err += data.len() as u64,
                    _ => {}
                }
            }
        }
        Ok(totals)
    }

    /// A cursor whose next item has a number above `after_seq`, or is the oldest kept one if that is higher. Reads a
    /// header per step of a binary search; may wait for the disk.
    pub fn seek(&self, committed: u64, after_seq: u64) -> Result<Cursor, ReadError> {
        let blocks = committed.div_ceil(BLOCK_BYTES);
        // The last block that begins at or below `after_seq`: marks and notes just before the next number may stand at
        // its end, so a block that begins exactly behind `after_seq` is one too far.
        let next = partition_point(0, blocks, |block| {
            let begins = self.begins_with(block)?;
            Ok::<_, ReadError>(begins.is_none_or(|seq| seq <= after_seq))
        })?;
        let start = match next.checked_sub(1) {
            Some(block) if self.begins_with(block)?.is_some() => block,
            _ => next,
        };
        Ok(Cursor::at_block(start, after_seq))
    }

    /// The number a block begins with, or none if it was dropped.
    fn begins_with(&self, block: u64) -> Result<Option<u64>, ReadError> {
        match self.judge(block, Blocking::Allowed)? {
            Some(Block::Live(header)) => Ok(Some(header.next_seq)),
            Some(Block::Dropped) => Ok(None),
            None | Some(Block::Missing | Block::Damaged) => {
                Err(damaged(block.saturating_mul(BLOCK_BYTES), "no block header"))
            }
        }
    }

    /// Judges a block's header as it is now; none if that would mean waiting.
    fn judge(&self, block: u64, blocking: Blocking) -> io::Result<Option<Block>> {
        // A header that is being dropped at this moment may be seen half zero. That lasts for an instant.
        const TRIES: usize = 64;
        let mut judged = Block::Damaged;
        for _ in 0..TRIES {
            let mut bytes = [0; BLOCK_HEADER_BYTES];
            let start = block.saturating_mul(BLOCK_BYTES);
            let Some(count) = self.fetch(&mut bytes, start, blocking)? else {
                return Ok(None);
            };
            judged = Block::judge(bytes.get(..count).unwrap_or_default(), block, self.id.low());
            if judged != Block::Damaged {
                break;
            }
            std::thread::yield_now();
        }
        Ok(Some(judged))
    }

    /// Reads at `offset`: until the buffer is full or the file ends if waiting is allowed, else what is in memory.
    fn fetch(&self, buffer: &mut [u8], offset: u64, blocking: Blocking) -> io::Result<Option<usize>> {
        if blocking == Blocking::Never && !self.always_waits.load(Ordering::Relaxed) {
            match file::read_warm(&self.file, buffer, offset)? {
                // The end of the file is for the waiting read to judge.
                Warm::Read(0) | Warm::Cold => return Ok(None),
                Warm::Read(count) => return Ok(Some(count)),
                Warm::Unsupported => self.always_waits.store(true, Ordering::Relaxed),
            }
        }
        file::read_full(&self.file, buffer, offset).map(Some)
    }

    /// Fills `batch` with what follows `cursor`, up to `committed`, and moves the cursor behind it. An error leaves the
    /// cursor where the damage is.
    pub fn read(
        &self,
        cursor: &mut Cursor,
        committed: u64,
        batch: &mut Batch,
        blocking: Blocking,
    ) -> Result<Fill, ReadError> {
        batch.clear();
        // Every round moves the cursor forward or returns.
        while cursor.offset < committed {
            let block = cursor.offset / BLOCK_BYTES;
            let block_end = (block + 1).saturating_mul(BLOCK_BYTES);
            if block_end - cursor.offset < MIN_RECORD_BYTES {
                cursor.offset = block_end;
                continue;
            }
            let limits = Limits { block, block_end, committed };
            let Some(walk) = self.walk(*cursor, &limits, batch, blocking)? else {
                return Ok(Fill::WouldBlock);
            };
            match self.judge(block, blocking)? {
                None => return Ok(Fill::WouldBlock),
                Some(Block::Live(_)) => {}
                Some(Block::Dropped) => {
                    let blocks = committed.div_ceil(BLOCK_BYTES);
                    let first =
                        partition_point(block + 1, blocks, |block| self.begins_with(block).map(|seq| seq.is_none()))?;
                    *cursor = Cursor::at_block(first, cursor.after);
                    continue;
                }
                Some(Block::Missing | Block::Damaged) => {
                    return Err(damaged(block.saturating_mul(BLOCK_BYTES), "no block header"));
                }
            }

            let stuck = walk.end == 0;
            cursor.offset += walk.end as u64;
            cursor.expected = walk.expected;
            if walk.visible {
                batch.set(walk.begin..walk.end, cursor.after);
            }
            match walk.stop {
                Stop::RestUnused if block_end < committed => cursor.offset = block_end,
                Stop::RestUnused if stuck => {
                    return Err(damaged(cursor.offset, "nothing where a record was committed"));
                }
                Stop::Committed if stuck => return Ok(Fill::Empty),
                Stop::Bytes if stuck && blocking == Blocking::Never => {
                    return Ok(Fill::WouldBlock);
                }
                Stop::Bytes if stuck => {
                    return Err(damaged(cursor.offset, "the file ends before what was committed"));
                }
                Stop::Damaged(what) if stuck => return Err(damaged(cursor.offset, what)),
                _ => {}
            }
            if walk.visible {
                return Ok(Fill::Items);
            }
        }
        Ok(Fill::Empty)
    }

    /// Reads from the cursor on into the batch's buffer and verifies records, all within one block.
    fn walk(&self, cursor: Cursor, limits: &Limits, batch: &mut Batch, blocking: Blocking) -> io::Result<Option<Walk>> {
        let limit = limits.block_end.min(limits.committed);
        // At most a window, so it fits a usize.
        let wanted = (limit - cursor.offset).min(batch.window as u64) as usize;
        let window = batch.buffer.get_mut(..wanted).unwrap_or_default();
        let Some(mut filled) = self.fetch(window, cursor.offset, blocking)? else {
            return Ok(None);
        };
        let mut walk = Walk { begin: 0, end: 0, expected: cursor.expected, visible: false, stop: Stop::Bytes };
        if cursor.offset.is_multiple_of(BLOCK_BYTES) {
            let header = batch.buffer.get(..filled).unwrap_or_default();
            match Block::judge(header, limits.block, self.id.low()) {
                Block::Live(header) if cursor.expected.is_none_or(|seq| seq == header.next_seq) => {
                    walk.expected = Some(header.next_seq);
                    walk.begin = BLOCK_HEADER_BYTES;
                    walk.end = BLOCK_HEADER_BYTES;
                }
                Block::Missing => {
                    if limit - cursor.offset < BLOCK_HEADER_BYTES as u64 {
                        walk.stop = Stop::Committed;
                    }
                    return Ok(Some(walk));
                }
                _ => {
                    walk.stop = Stop::Damaged("wrong block header");
                    return Ok(Some(walk));
                }
            }
        }

        loop {
            let offset = cursor.offset + walk.end as u64;
            if limits.block_end - offset < MIN_RECORD_BYTES {
                // The caller steps over so short a rest by itself.
                break;
            }
            if offset + RECORD_HEADER_BYTES as u64 > limits.committed {
                walk.stop = Stop::Committed;
                break;
            }
            let bytes = batch.buffer.get(walk.end..filled).unwrap_or_default();
            let header = match RecordHeader::decode(bytes) {
                Ok(header) => header,
                Err(FormatError::Short) => break,
                Err(FormatError::Empty) => {
                    walk.stop = Stop::RestUnused;
                    break;
                }
                Err(_) => {
                    walk.stop = Stop::Damaged("wrong record header");
                    break;
                }
            };
            let record_end = offset + header.stored_len() as u64;
            let next = header.seq.checked_add(header.numbers());
            if record_end > limits.block_end {
                walk.stop = Stop::Damaged("record longer than its block");
                break;
            }
            if next.is_none() || walk.expected.is_some_and(|expected| expected != header.seq) {
                walk.stop = Stop::Damaged("record out of order");
                break;
            }
            if record_end > limits.committed {
                walk.stop = Stop::Committed;
                break;
            }
            let end = walk.end + header.stored_len();
            if end > filled {
                // Completing the last record costs a call; reading its beginning again would cost a copy.
                if batch.buffer.len() < end {
                    batch.buffer.resize(end, 0);
                }
                let rest = batch.buffer.get_mut(filled..end).unwrap_or_default();
                match self.fetch(rest, cursor.offset + filled as u64, blocking)? {
                    Some(count) if filled + count == end => filled = end,
                    _ => break,
                }
            }
            walk.visible |= is_visible(&header, cursor.after);
            walk.expected = next;
            walk.end = end;
        }
        Ok(Some(walk))
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// How far a walk may go.
struct Limits {
    block: u64,
    block_end: u64,
    committed: u64,
}

/// What a walk found: verified records in `begin..end` of the buffer.
struct Walk {
    begin: usize,
    end: usize,
    expected: Option<u64>,
    visible: bool,
    stop: Stop,
}

/// Why a walk went no further.
enum Stop {
    /// The next record is not, or not wholly, committed.
    Committed,
    /// The next record is not, or not wholly, in the buffer.
    Bytes,
    /// Zeros: the writer went on in the next block.
    RestUnused,
    /// The next bytes are no record.
    Damaged(&'static str),
}

fn damaged(offset: u64, what: &'static str) -> ReadError {
    ReadError::Damaged { offset, what }
}
