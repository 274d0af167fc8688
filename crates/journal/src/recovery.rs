//! Finding the true end of a journal whose writer is gone.
//!
//! The end is behind the last record of which everything is there: walking back over blocks without a good header, then
//! forward over records as long as checksum, length and number hold. Records of types that only a newer program knows are
//! passed over, as by readers: they are whole. Recovering twice gives the same as once.
//!
//! Only [`recover`] writes, and only its caller can know that no writer is alive: it must hold the keeper's lock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::aside::SetAside;
use crate::blocks::{Block, partition_point, read_meta};
use crate::file;
use crate::format::{
    self, BLOCK_BYTES, BLOCK_HEADER_BYTES, BlockHeader, Exit, Kind, LOST_KEEPER_ENDED, MIN_RECORD_BYTES, Meta,
    RECORD_HEADER_BYTES, RecordHeader,
};
use crate::id::ProcessId;
use crate::writer::{Position, Writer, invalid_data};

/// Blocks without a header that are walked back over before giving up: 64 GiB.
const MAX_WALK_BACK: usize = 1 << 16;
const WINDOW: usize = 64 * 1024;

/// The state of a journal nobody writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Who the process is.
    pub meta: Meta,
    /// Where the journal ends; [`Writer::resume`] takes it.
    pub position: Position,
    /// How the process ended, if that is recorded.
    pub end: Option<End>,
    /// Bytes behind the last whole record: cut off by [`recover`], only counted by [`inspect`].
    pub truncated: u64,
    /// Whether this call wrote the LOST record that `end` shows.
    pub lost_appended: bool,
}

/// The last record of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its number.
    pub seq: u64,
    /// Wall clock when it was recorded.
    pub time_ns: u64,
    /// What it says.
    pub kind: EndKind,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndKind {
    /// As recorded by its keeper.
    Exit(Exit),
    /// Unseen, for this reason.
    Lost(u32),
}

/// Cuts the journal of `id` back to its last whole record. If it has no end and another keeper than `keeper_id` wrote
/// it, the process is lost and that becomes its end. A file without a META record is refused with `InvalidData`: its
/// creation was interrupted and nothing was ever committed.
pub fn recover(dir: BorrowedFd<'_>, id: ProcessId, keeper_id: &[u8; 16], now_ns: u64) -> io::Result<Recovered> {
    let file = file::open_writable(dir, id)?;
    let mut recovered = examine(file.as_fd(), Some(id))?;
    if recovered.truncated > 0 {
        file::truncate(&file, recovered.position.committed)?;
    }
    if recovered.end.is_none() && recovered.meta.keeper_id != *keeper_id {
        let mut writer = Writer::new(file, id, recovered.position);
        let seq = writer.append_lost(LOST_KEEPER_ENDED, now_ns)?;
        recovered.position = writer.position();
        recovered.end = Some(End { seq, time_ns: now_ns, kind: EndKind::Lost(LOST_KEEPER_ENDED) });
        recovered.lost_appended = true;
    }
    Ok(recovered)
}

/// What [`recover`] would find, without changing anything.
pub fn inspect(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<Recovered> {
    examine(file::open_readable(dir, id)?.as_fd(), Some(id))
}

/// As [`inspect`], for a journal that was set aside.
pub fn inspect_set_aside(dir: BorrowedFd<'_>, journal: &SetAside) -> io::Result<Recovered> {
    examine(file::open_readable_as(dir, &journal.file)?.as_fd(), Some(journal.id))
}

/// As [`inspect`], for any readable descriptor.
pub fn inspect_fd(file: BorrowedFd<'_>) -> io::Result<Recovered> {
    examine(file, None)
}

fn examine(file: BorrowedFd<'_>, id: Option<ProcessId>) -> io::Result<Recovered> {
    let meta = read_meta(file)?;
    if id.is_some_and(|id| id != meta.id) {
        return Err(invalid_data("journal of another process"));
    }
    let size = file::size(file)?;
    let id_low = meta.id.low();
    let blocks = size.div_ceil(BLOCK_BYTES);
    let mut window = Window::new(file);
    for block in (0..blocks).rev().take(MAX_WALK_BACK) {
        let Block::Live(header) = Block::read(file, block, id_low)? else {
            continue;
        };
        let Some((mut position, end)) = walk(&mut window, &header, size)? else {
            continue;
        };
        position.first_block = partition_point(0, block, |block| {
            Block::read(file, block, id_low).map(|judged| !matches!(judged, Block::Live(_)))
        })?;
        return Ok(Recovered {
            meta,
            position,
            end,
            truncated: size.saturating_sub(position.committed),
            lost_appended: false,
        });
    }
    Err(invalid_data("journal has no whole block"))
}

/// Follows the records of one block; none if its first record is not whole.
fn walk(window: &mut Window<'_>, block: &BlockHeader, size: u64) -> io::Result<Option<(Position, Option<End>)>> {
    let start = block.block_no.saturating_mul(BLOCK_BYTES);
    let block_end = start.saturating_add(BLOCK_BYTES);
    let first = start.saturating_add(BLOCK_HEADER_BYTES as u64);
    let mut position = Position {
        committed: first,
        first_block: 0,
        next_seq: block.next_seq,
        out_bytes: block.out_bytes,
        err_bytes: block.err_bytes,
    };
    let mut end = None;
    while end.is_none() && block_end.saturating_sub(position.committed) >= MIN_RECORD_BYTES {
        let offset = position.committed;
        let Ok(header) = RecordHeader::decode(window.at(offset, RECORD_HEADER_BYTES)?) else {
            break;
        };
        let record_end = offset.saturating_add(header.stored_len() as u64);
        let is_meta = header.kind == Kind::Meta;
        let must_be_meta = offset == BLOCK_HEADER_BYTES as u64;
        let fits = record_end <= size.min(block_end);
        let Some(next_seq) = header.seq.checked_add(header.numbers()) else {
            break;
        };
        if !fits || is_meta != must_be_meta || header.seq != position.next_seq {
            break;
        }
        let len = u64::from(header.len);
        match header.kind {
            Kind::Out => position.out_bytes = position.out_bytes.saturating_add(len),
            Kind::Err => position.err_bytes = position.err_bytes.saturating_add(len),
            Kind::Exit | Kind::Lost => {
                let payload_at = offset + RECORD_HEADER_BYTES as u64;
                let payload = window.at(payload_at, header.len as usize)?;
                let kind = match header.kind {
                    Kind::Exit => Exit::decode(payload).map(EndKind::Exit),
                    _ => format::decode_lost(payload).map(EndKind::Lost),
                };
                // The length was checked with the header, so only a file that shrinks meanwhile gets here.
                let kind = kind.map_err(|_| invalid_data("journal changes while it is read"))?;
                end = Some(End { seq: header.seq, time_ns: header.time_ns, kind });
            }
            Kind::Meta | Kind::Mark | Kind::Note | Kind::Unknown(_) => {}
        }
        position.next_seq = next_seq;
        position.committed = record_end;
    }
    Ok((position.committed > first).then_some((position, end)))
}

/// A moving view of the file, so that a block of short records does not cost a system call for each.
struct Window<'a> {
    file: BorrowedFd<'a>,
    buffer: Vec<u8>,
    offset: u64,
    filled: usize,
}

impl<'a> Window<'a> {
    fn new(file: BorrowedFd<'a>) -> Self {
        Self { file, buffer: vec![0; WINDOW], offset: 0, filled: 0 }
    }

    /// The bytes at `offset`, fewer than `len` if the file ends or `len` is larger than the window.
    fn at(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let held = self.offset..=self.offset.saturating_add(self.filled as u64);
        let wanted_end = offset.saturating_add(len as u64);
        if !(held.contains(&offset) && held.contains(&wanted_end)) {
            self.filled = file::read_full(self.file, &mut self.buffer, offset)?;
            self.offset = offset;
        }
        // Within the window after the line above.
        let start = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(len).min(self.filled);
        Ok(self.buffer.get(start..end).unwrap_or_default())
    }
}
