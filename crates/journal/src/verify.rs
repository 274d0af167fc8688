//! Checks every byte of a journal: block headers, record headers, their order, and the checksums of payloads.
//!
//! Guarantees: nothing is written, memory is bounded by one block, and damage in one block does not keep the others from
//! being checked. A journal that is still being written is checked up to its last whole record.
//!
//! Records of earlier versions have no checksum of their payload: they are counted, and only their headers are checked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::blocks::{Block, read_meta};
use crate::file;
use crate::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, BlockHeader, FormatError, MIN_RECORD_BYTES, RECORD_HEADER_BYTES, RecordHeader,
};

/// Faults that are described; further ones are counted.
pub const MAX_FAULTS: usize = 100;

/// One damaged place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Where in the file.
    pub offset: u64,
    /// Description of the damage.
    pub what: &'static str,
}

/// Result of checking one journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Records that are whole.
    pub records: u64,
    /// Whole records whose payload has no checksum.
    pub without_sum: u64,
    /// Blocks that were given up by retention.
    pub dropped_blocks: u64,
    /// How the process ended is recorded.
    pub has_end: bool,
    /// Bytes behind the last whole record, of a write that was interrupted or is under way.
    pub unfinished_bytes: u64,
    /// Damaged places, in the order of the file.
    pub faults: Vec<Fault>,
    /// How many more faults there are.
    pub further_faults: u64,
}

impl Verified {
    fn fault(&mut self, offset: u64, what: &'static str) {
        match self.faults.len() < MAX_FAULTS {
            true => self.faults.push(Fault { offset, what }),
            false => self.further_faults += 1,
        }
    }
}

/// Checks a journal from its beginning to its end.
///
/// # Errors
/// The file cannot be read, or has no META record.
pub fn verify(file: BorrowedFd<'_>) -> io::Result<Verified> {
    let id_low = read_meta(file)?.id.low();
    let size = file::size(file.as_fd())?;
    let blocks = size.div_ceil(BLOCK_BYTES);
    let mut verified = Verified::default();
    let mut buffer = vec![0; usize::try_from(BLOCK_BYTES.min(size)).unwrap_or(0)];
    let mut expected = None;
    for number in 0..blocks {
        let start = number.saturating_mul(BLOCK_BYTES);
        let count = file::read_full(file.as_fd(), &mut buffer, start)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        let is_last = number + 1 == blocks;
        match Block::judge(bytes, number, id_low) {
            Block::Live(header) => {
                if expected.is_some_and(|seq| seq != header.next_seq) {
                    verified.fault(start, "block header with a wrong number");
                }
                expected = walk(&mut verified, bytes, start, &header, is_last);
            }
            // Only the front of a file is given up.
            Block::Dropped if expected.is_none() && verified.records == 0 => verified.dropped_blocks += 1,
            Block::Missing if is_last => verified.unfinished_bytes = count as u64,
            Block::Dropped | Block::Missing | Block::Damaged => {
                verified.fault(start, "no block header");
                expected = None;
            }
        }
    }
    Ok(verified)
}

/// Checks the records of one block; returns the number the next one must begin with, if that is known.
fn walk(verified: &mut Verified, bytes: &[u8], start: u64, block: &BlockHeader, is_last: bool) -> Option<u64> {
    let mut seq = block.next_seq;
    let mut at = BLOCK_HEADER_BYTES;
    let end = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
    while (end - at) as u64 >= MIN_RECORD_BYTES {
        let rest = bytes.get(at..).unwrap_or_default();
        let offset = start + at as u64;
        let header = match RecordHeader::decode(rest) {
            Ok(header) => header,
            // The rest of a block that the next record did not fit into.
            Err(FormatError::Empty) if !is_last => return Some(seq),
            Err(FormatError::Empty | FormatError::Short) if is_last => {
                verified.unfinished_bytes = rest.len() as u64;
                return Some(seq);
            }
            Err(_) => {
                verified.fault(offset, "wrong record header");
                return None;
            }
        };
        let Some(payload) = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.len as usize) else {
            match is_last {
                true => verified.unfinished_bytes = rest.len() as u64,
                false => verified.fault(offset, "record longer than its block"),
            }
            return Some(seq);
        };
        if header.seq != seq {
            verified.fault(offset, "record out of order");
        }
        match header.fits(payload) {
            Some(true) => {}
            Some(false) => verified.fault(offset, "payload does not fit its checksum"),
            None => verified.without_sum += 1,
        }
        verified.records += 1;
        verified.has_end |= header.kind.is_end();
        seq = header.seq.saturating_add(header.numbers());
        at += header.stored_len();
        if at > end {
            verified.fault(offset, "record longer than its block");
            return None;
        }
    }
    Some(seq)
}
