//! Finding one's way in a file by its block headers and its META record.
//!
//! Dropped blocks form a run at the front of the file, and the numbers in the headers behind it never fall: that is
//! what makes the binary search right. A block counts as dropped only if its header is all zeros.
//!
//! Nothing here writes, and nothing looks at records other than META.

use std::io;
use std::os::fd::AsFd;

use crate::file;
use crate::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, BlockHeader, FormatError, Kind, MAX_LABEL, Meta, RECORD_HEADER_BYTES, RecordHeader,
};
use crate::writer::invalid_data;

const META_AT: u64 = BLOCK_HEADER_BYTES as u64;

/// What stands at the beginning of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// The header of this block of this file.
    Live(BlockHeader),
    /// Zeros: given up by retention, or never written.
    Dropped,
    /// The file ends before.
    Missing,
    /// Anything else.
    Damaged,
}

impl Block {
    /// Judges the first bytes of a block, as many of them as the file has.
    pub(crate) fn judge(bytes: &[u8], block_no: u64, file_id_low: u64) -> Self {
        match BlockHeader::decode(bytes) {
            Ok(header) if header.block_no == block_no && header.file_id_low == file_id_low => Self::Live(header),
            Err(FormatError::Empty) => Self::Dropped,
            Err(FormatError::Short) => Self::Missing,
            Ok(_) | Err(_) => Self::Damaged,
        }
    }

    /// Reads and judges a block's header, waiting for the disk if need be.
    pub(crate) fn read(file: impl AsFd, block_no: u64, file_id_low: u64) -> io::Result<Self> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let start = block_no.saturating_mul(BLOCK_BYTES);
        let count = file::read_full(file, &mut bytes, start)?;
        let bytes = bytes.get(..count).unwrap_or_default();
        Ok(Self::judge(bytes, block_no, file_id_low))
    }
}

/// The first of `from..to` for which `before` is false, or `to`. All for which it is true must come first.
pub(crate) fn partition_point<E>(from: u64, to: u64, mut before: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Reads META, which stays in its place when block 0 is dropped.
pub(crate) fn read_meta(file: impl AsFd) -> io::Result<Meta> {
    // The fixed part is shorter than the allowance for the header behind the longest label.
    let mut bytes = vec![0; RECORD_HEADER_BYTES + MAX_LABEL + 128];
    let count = file::read_full(&file, &mut bytes, META_AT)?;
    let bytes = bytes.get(..count).unwrap_or_default();
    let header = RecordHeader::decode(bytes).map_err(|error| no_meta(&file, error))?;
    let end = RECORD_HEADER_BYTES + header.len as usize;
    match bytes.get(RECORD_HEADER_BYTES..end) {
        Some(payload) if header.kind == Kind::Meta => Meta::decode(payload).map_err(|error| no_meta(&file, error)),
        // Whole, and of a kind that is not known here.
        _ if matches!(header.kind, Kind::Unknown(_)) => Err(invalid_data(NEWER)),
        _ => Err(invalid_data("journal has no META record")),
    }
}

const NEWER: &str = "journal was written by a newer version of the program";

/// What to say of a file without a META record that can be understood.
fn no_meta(file: impl AsFd, error: FormatError) -> io::Error {
    let mut magic = [0; 4];
    let of_other_version = file::read_full(file, &mut magic, 0).is_ok_and(|count| count == magic.len())
        && magic.starts_with(b"HJB")
        && magic != *b"HJB1";
    match error {
        // The checksum is right, so nothing was damaged.
        FormatError::HeaderLength | FormatError::PayloadLength | FormatError::Value => invalid_data(NEWER),
        _ if of_other_version => invalid_data(NEWER),
        _ => invalid_data("journal has no META record"),
    }
}
