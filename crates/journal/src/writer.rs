//! The one writer of a journal: each record goes out in a single `pwrite` behind the last whole one.
//!
//! After every call, successful or not, the file ends with a whole record at [`Position::committed`]; if even cutting
//! back fails, nothing is appended until it succeeds. A record is never changed once it is written.
//!
//! The writer never reads output back, never syncs, and does not check quotas: it says how full it is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::file;
use crate::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, BlockHeader, Exit, FormatError, Kind, MAX_LABEL, MAX_PAYLOAD, MIN_RECORD_BYTES,
    Mark, Meta, Note, RECORD_HEADER_BYTES, RecordHeader, Stream, Take, stored_len,
};
use crate::id::ProcessId;

/// Bytes the caller leaves free before a payload, for a block header and a record header.
pub const HEADROOM: usize = BLOCK_HEADER_BYTES + RECORD_HEADER_BYTES;
/// Bytes the caller leaves free after a payload, for padding.
pub const TAILROOM: usize = 8;

const LONGEST_FIXED_PAYLOAD: usize = 40;
/// A dropped block's header goes first and with its whole page, so that a file system without room to rewrite a part
/// of a page can still free it.
const PAGE: u64 = 4096;

/// How far a journal has come: all a writer must know to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// End of the last whole record; readers may go up to here.
    pub committed: u64,
    /// The oldest block that was not dropped.
    pub first_block: u64,
    /// The number the next frame will get; the first is 1.
    pub next_seq: u64,
    /// Bytes of standard output so far, dropped ones included.
    pub out_bytes: u64,
    /// Bytes of standard error so far, dropped ones included.
    pub err_bytes: u64,
}

impl Position {
    /// Length of the encoded form.
    pub const BYTES: usize = 40;

    /// Where an empty journal stands.
    pub const START: Self = Self { committed: 0, first_block: 0, next_seq: 1, out_bytes: 0, err_bytes: 0 };

    /// A fixed, little-endian form.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let fields = [self.committed, self.first_block, self.next_seq, self.out_bytes, self.err_bytes];
        for (chunk, field) in out.chunks_exact_mut(8).zip(fields) {
            chunk.copy_from_slice(&field.to_le_bytes());
        }
        out
    }

    /// Reads the form that [`Position::to_bytes`] gives.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take(bytes);
        Ok(Self {
            committed: take.u64()?,
            first_block: take.u64()?,
            next_seq: take.u64()?,
            out_bytes: take.u64()?,
            err_bytes: take.u64()?,
        })
    }

    /// Bytes of the file that were not dropped: what counts against a quota.
    pub fn kept_bytes(&self) -> u64 {
        self.committed.saturating_sub(self.first_block.saturating_mul(BLOCK_BYTES))
    }

    /// Bytes left in the block that `committed` lies in; 0 where the next record begins a block.
    fn left_in_block(&self) -> u64 {
        self.committed.next_multiple_of(BLOCK_BYTES) - self.committed
    }
}

/// Appends records to one journal.
#[derive(Debug)]
pub struct Writer {
    file: OwnedFd,
    id: ProcessId,
    position: Position,
    /// A failed write may have left bytes behind `committed`.
    tail_unclean: bool,
    /// EXIT or LOST was written: nothing may follow.
    ended: bool,
}

impl Writer {
    /// Creates the file `<id>.j` in `dir` with its META record. Fails if there is one already.
    pub fn create(dir: BorrowedFd<'_>, meta: &Meta, now_ns: u64) -> io::Result<Self> {
        check_label(meta)?;
        let file = file::create(dir, meta.id)?;
        let begun = Self::begin(file, meta, now_ns);
        if begun.is_err() {
            // The error that matters is the first one, and recovery refuses a file without META anyway.
            drop(crate::remove(dir, meta.id));
        }
        begun
    }

    /// Creates a journal without a name on the file system of `dir`: it is gone with its last descriptor.
    pub fn create_unnamed(dir: BorrowedFd<'_>, meta: &Meta, now_ns: u64) -> io::Result<Self> {
        check_label(meta)?;
        Self::begin(file::create_unnamed(dir)?, meta, now_ns)
    }

    fn begin(file: OwnedFd, meta: &Meta, now_ns: u64) -> io::Result<Self> {
        let mut writer = Self::new(file, meta.id, Position::START);
        let payload = meta.encode();
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&payload);
        buffer.resize(HEADROOM + payload.len() + TAILROOM, 0);
        writer.append(Kind::Meta, &mut buffer, payload.len(), now_ns)?;
        Ok(writer)
    }

    /// Opens the journal of `id` again and goes on at `position`. Bytes behind it are cut off.
    pub fn resume(dir: BorrowedFd<'_>, id: ProcessId, position: Position) -> io::Result<Self> {
        Self::resume_fd(file::open_writable(dir, id)?, id, position)
    }

    /// As [`Writer::resume`], for a descriptor that was kept open. It must be readable and writable.
    pub fn resume_fd(file: OwnedFd, id: ProcessId, position: Position) -> io::Result<Self> {
        let size = file::size(&file)?;
        if position.committed == 0 || size < position.committed {
            return Err(invalid_data("journal is shorter than what was committed"));
        }
        let block = (position.committed - 1) / BLOCK_BYTES;
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        file::read_full(&file, &mut bytes, block * BLOCK_BYTES)?;
        match BlockHeader::decode(&bytes) {
            Ok(header) if header.block_no == block && header.file_id_low == id.low() => {}
            _ => return Err(invalid_data("journal has no such block")),
        }
        if size > position.committed {
            file::truncate(&file, position.committed)?;
        }
        Ok(Self::new(file, id, position))
    }

    pub(crate) fn new(file: OwnedFd, id: ProcessId, position: Position) -> Self {
        Self { file, id, position, tail_unclean: false, ended: false }
    }

    /// The process whose journal this is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// How far the journal has come.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The payload that fits best now: what is left of the block, or a whole record if the next one begins a block.
    /// Never 0. A longer payload is accepted too and wastes the rest of the block.
    pub fn room(&self) -> usize {
        let left = self.position.left_in_block();
        if left < MIN_RECORD_BYTES {
            return MAX_PAYLOAD;
        }
        // At most a block, so it fits a usize.
        (left as usize - RECORD_HEADER_BYTES).min(MAX_PAYLOAD)
    }

    /// Appends `buffer[HEADROOM..HEADROOM + len]` as output with one `pwrite`. The first [`HEADROOM`] bytes of `buffer`
    /// are scratch; everything behind is as before when the call returns, so a failed call can be repeated.
    pub fn append_output(&mut self, stream: Stream, buffer: &mut [u8], len: usize, now_ns: u64) -> io::Result<()> {
        let kind = match stream {
            Stream::Out => Kind::Out,
            Stream::Err => Kind::Err,
        };
        if len == 0 || len > MAX_PAYLOAD {
            return Err(invalid_input("output records hold 1 to 131072 bytes"));
        }
        self.append(kind, buffer, len, now_ns).map(drop)
    }

    /// Appends the end of the process and returns its number. Nothing can be appended afterwards.
    pub fn append_exit(&mut self, exit: &Exit, now_ns: u64) -> io::Result<u64> {
        self.append_fixed(Kind::Exit, &exit.encode(), now_ns)
    }

    /// Appends that the end of the process was not seen, and returns its number. Nothing can be appended afterwards.
    pub fn append_lost(&mut self, reason: u32, now_ns: u64) -> io::Result<u64> {
        self.append_fixed(Kind::Lost, &reason.to_le_bytes(), now_ns)
    }

    /// Appends a mark for `len` bytes of standard input from `stdin_offset`.
    pub fn append_mark(&mut self, mark: u64, stdin_offset: u64, len: u32, now_ns: u64) -> io::Result<()> {
        let mark = Mark { mark, stdin_offset, len };
        self.append_fixed(Kind::Mark, &mark.encode(), now_ns).map(drop)
    }

    /// Appends a note about the recording.
    pub fn append_note(&mut self, note: Note, now_ns: u64) -> io::Result<()> {
        self.append_fixed(Kind::Note, &note.encode(), now_ns).map(drop)
    }

    fn append_fixed(&mut self, kind: Kind, payload: &[u8], now_ns: u64) -> io::Result<u64> {
        let mut buffer = [0; HEADROOM + LONGEST_FIXED_PAYLOAD + TAILROOM];
        let room = buffer.get_mut(HEADROOM..HEADROOM + payload.len());
        room.ok_or_else(|| invalid_input("payload too long"))?.copy_from_slice(payload);
        self.append(kind, &mut buffer, payload.len(), now_ns)
    }

    /// Writes one record and returns its first number.
    fn append(&mut self, kind: Kind, buffer: &mut [u8], len: usize, now_ns: u64) -> io::Result<u64> {
        if self.ended {
            return Err(invalid_input("the journal has ended"));
        }
        if self.tail_unclean {
            file::truncate(&self.file, self.position.committed)?;
            self.tail_unclean = false;
        }
        let record = RecordHeader {
            len: u32::try_from(len).map_err(|_| invalid_input("payload too long"))?,
            kind,
            flags: 0,
            seq: self.position.next_seq,
            time_ns: now_ns,
            payload_sum: 0,
        };
        // Only a file somebody made up gets so far.
        let next_seq = record.seq.checked_add(record.numbers());
        let next_seq = next_seq.ok_or_else(|| invalid_data("the numbers are used up"))?;
        let end = BLOCK_HEADER_BYTES + stored_len(len);
        let Some(whole) = buffer.get_mut(..end) else {
            return Err(invalid_input("buffer without room for the padding"));
        };
        let Some((block_part, rest)) = whole.split_first_chunk_mut::<BLOCK_HEADER_BYTES>() else {
            return Err(invalid_input("buffer without room for the headers"));
        };
        let Some((record_part, rest)) = rest.split_first_chunk_mut::<RECORD_HEADER_BYTES>() else {
            return Err(invalid_input("buffer without room for the headers"));
        };
        *record_part = record.summed(rest.get(..len).unwrap_or_default()).encode();
        // The caller may keep more data behind the payload: lend the padding's place and give it back.
        let mut lent = [0; TAILROOM];
        let padding = rest.get_mut(len..).unwrap_or_default();
        for (saved, byte) in lent.iter_mut().zip(padding.iter_mut()) {
            *saved = std::mem::take(byte);
        }

        let new_block = self.position.left_in_block() < record.stored_len() as u64;
        let (start, offset) = if new_block {
            let offset = self.position.committed.next_multiple_of(BLOCK_BYTES);
            *block_part = BlockHeader {
                flags: 0,
                block_no: offset / BLOCK_BYTES,
                next_seq: self.position.next_seq,
                out_bytes: self.position.out_bytes,
                err_bytes: self.position.err_bytes,
                file_id_low: self.id.low(),
                time_ns: now_ns,
            }
            .encode();
            (0, offset)
        } else {
            (BLOCK_HEADER_BYTES, self.position.committed)
        };

        let bytes = whole.get(start..).unwrap_or_default();
        let result = file::write_all(&self.file, bytes, offset);
        let written = bytes.len() as u64;
        let padding = whole.get_mut(HEADROOM + len..).unwrap_or_default();
        for (byte, saved) in padding.iter_mut().zip(lent) {
            *byte = saved;
        }
        if let Err(error) = result {
            self.tail_unclean = file::truncate(&self.file, self.position.committed).is_err();
            return Err(error);
        }

        self.position.committed = offset + written;
        self.position.next_seq = next_seq;
        let total = match kind {
            Kind::Out => Some(&mut self.position.out_bytes),
            Kind::Err => Some(&mut self.position.err_bytes),
            _ => None,
        };
        if let Some(total) = total {
            *total = total.saturating_add(len as u64);
        }
        self.ended = kind.is_end();
        Ok(record.seq)
    }

    /// Gives up the oldest blocks until at least `bytes` are freed, but never one of the last two, and returns how many
    /// bytes became holes. META stays. Fails without a change where the file system has no holes.
    pub fn drop_oldest(&mut self, bytes: u64) -> io::Result<u64> {
        let first = self.position.first_block;
        let last = self.position.committed.saturating_sub(1) / BLOCK_BYTES;
        let wanted = bytes.div_ceil(BLOCK_BYTES);
        let kept = first.saturating_add(wanted).min(last.saturating_sub(1));
        if kept <= first {
            return Ok(0);
        }
        // META lies in block 0 and must survive it.
        let start = if first == 0 { BLOCK_HEADER_BYTES as u64 + self.meta_stored_len()? } else { first * BLOCK_BYTES };
        // Headers go before contents: a reader that finds the header still there after reading contents knows that
        // what it read was still whole.
        for block in first..kept {
            let len = if block == 0 { BLOCK_HEADER_BYTES as u64 } else { PAGE };
            file::punch(&self.file, block * BLOCK_BYTES, len)?;
        }
        let end = kept * BLOCK_BYTES;
        file::punch(&self.file, start, end - start)?;
        self.position.first_block = kept;
        Ok(end - start)
    }

    fn meta_stored_len(&self) -> io::Result<u64> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        file::read_full(&self.file, &mut bytes, BLOCK_HEADER_BYTES as u64)?;
        match RecordHeader::decode(&bytes) {
            Ok(header) if header.kind == Kind::Meta => Ok(header.stored_len() as u64),
            _ => Err(invalid_data("journal has no META record")),
        }
    }

    /// Gives the descriptor away, to be resumed with [`Writer::resume_fd`] and the last [`Writer::position`].
    pub fn into_fd(self) -> OwnedFd {
        self.file
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn check_label(meta: &Meta) -> io::Result<()> {
    if meta.label.len() > MAX_LABEL {
        return Err(invalid_input("a label holds at most 4096 bytes"));
    }
    Ok(())
}

fn invalid_input(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

pub(crate) fn invalid_data(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
