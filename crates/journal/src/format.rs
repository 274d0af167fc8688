//! The bytes of a journal: block headers, record headers and the payloads with a fixed shape. All little-endian.
//!
//! Decoding is pure, bounded and total: every input gives a value or an error, nothing panics and nothing is read from
//! outside the slice. What decodes encodes back to the same fields.
//!
//! The module does no input or output and does not know the order of records: that is the reader's and recovery's work.

mod payload;

pub use payload::{Exit, Mark, Meta, Note, decode_lost};

/// Output is numbered in frames of this many bytes: a record of n bytes takes ceil(n / 32768) numbers.
pub const FRAME_BYTES: usize = 32 * 1024;
/// A file is a row of blocks of this size; a record never crosses from one into the next.
pub const BLOCK_BYTES: u64 = 1 << 20;
/// The longest payload of one record.
pub const MAX_PAYLOAD: usize = 256 * 1024;
/// The longest label of a [`Meta`].
pub const MAX_LABEL: usize = 64 * 1024;
/// Bytes of a block header.
pub const BLOCK_HEADER_BYTES: usize = 64;
/// Bytes of a record header.
pub const RECORD_HEADER_BYTES: usize = 32;
/// The smallest record on disk; where a block has less room left, the rest of it is skipped.
pub const MIN_RECORD_BYTES: u64 = 40;
/// Reason in a LOST record: the keeper that held the process ended before the process did.
pub const LOST_KEEPER_ENDED: u32 = 1;

const MAGIC: u32 = u32::from_le_bytes(*b"HJB1");
const META_FIXED_BYTES: usize = 72;

/// Why bytes are not the header or payload they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Fewer bytes than the structure has.
    #[error("too few bytes")]
    Short,
    /// All zero: never written, or dropped by retention.
    #[error("nothing written here")]
    Empty,
    /// A block header that does not begin with the magic number.
    #[error("wrong magic number")]
    Magic,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// A record header of another length than 32.
    #[error("wrong header length")]
    HeaderLength,
    /// A payload length that its record type cannot have.
    #[error("impossible payload length")]
    PayloadLength,
    /// A field with a value that is not allowed.
    #[error("impossible value")]
    Value,
}

/// The two streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a record holds; the numbers are the ones on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of standard output.
    Out,
    /// Bytes of standard error.
    Err,
    /// How the process ended; the last record.
    Exit,
    /// The process ended unseen; the last record, written by recovery.
    Lost,
    /// Who the process is; the first record.
    Meta,
    /// A point in standard input that somebody asked to find again.
    Mark,
    /// Something that happened to the recording itself.
    Note,
    /// A type of a later version: skipped, takes no number.
    Unknown(u8),
}

impl Kind {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Out,
            2 => Self::Err,
            3 => Self::Exit,
            4 => Self::Lost,
            5 => Self::Meta,
            6 => Self::Mark,
            7 => Self::Note,
            other => Self::Unknown(other),
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Out => 1,
            Self::Err => 2,
            Self::Exit => 3,
            Self::Lost => 4,
            Self::Meta => 5,
            Self::Mark => 6,
            Self::Note => 7,
            Self::Unknown(byte) => byte,
        }
    }

    /// Whether records of this kind end a journal.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Exit | Self::Lost)
    }
}

/// The first 64 bytes of a block: what a reader must know to start here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// None are defined; written as 0.
    pub flags: u32,
    /// Place of the block in the file, from 0.
    pub block_no: u64,
    /// The number the next numbered record will get.
    pub next_seq: u64,
    /// Bytes of standard output in all blocks before.
    pub out_bytes: u64,
    /// Bytes of standard error in all blocks before.
    pub err_bytes: u64,
    /// First eight bytes of the process id.
    pub file_id_low: u64,
    /// Wall clock when the block began.
    pub time_ns: u64,
}

impl BlockHeader {
    /// The header as it stands on disk.
    pub fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut out = [0; BLOCK_HEADER_BYTES];
        let mut writer = Put(&mut out);
        writer.bytes(&MAGIC.to_le_bytes());
        writer.bytes(&self.flags.to_le_bytes());
        for field in [self.block_no, self.next_seq, self.out_bytes, self.err_bytes, self.file_id_low, self.time_ns] {
            writer.bytes(&field.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// Reads a header from the front of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes = bytes.get(..BLOCK_HEADER_BYTES).ok_or(FormatError::Short)?;
        let mut take = Take(bytes);
        if take.u32()? != MAGIC {
            let empty = bytes.iter().all(|&byte| byte == 0);
            return Err(if empty { FormatError::Empty } else { FormatError::Magic });
        }
        check_seal(bytes)?;
        Ok(Self {
            flags: take.u32()?,
            block_no: take.u64()?,
            next_seq: take.u64()?,
            out_bytes: take.u64()?,
            err_bytes: take.u64()?,
            file_id_low: take.u64()?,
            time_ns: take.u64()?,
        })
    }
}

/// The 32 bytes before every payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of payload, without padding; at most [`MAX_PAYLOAD`].
    pub len: u32,
    /// What the payload is.
    pub kind: Kind,
    /// [`PAYLOAD_SUM`]; others are passed over.
    pub flags: u8,
    /// First number the record takes, or for records that take none the next one.
    pub seq: u64,
    /// Wall clock when the record was written.
    pub time_ns: u64,
    /// CRC-32C of the payload where the flag says so. Readers that do not know the flag find the zeros they pass over.
    pub payload_sum: u32,
}

/// Flag of a record whose header holds the checksum of its payload.
pub const PAYLOAD_SUM: u8 = 1;

impl RecordHeader {
    /// The header as it stands on disk.
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        let mut writer = Put(&mut out);
        writer.bytes(&self.len.to_le_bytes());
        writer.bytes(&[self.kind.to_byte(), self.flags]);
        writer.bytes(&(RECORD_HEADER_BYTES as u16).to_le_bytes());
        writer.bytes(&self.seq.to_le_bytes());
        writer.bytes(&self.time_ns.to_le_bytes());
        writer.bytes(&self.payload_sum.to_le_bytes());
        seal(&mut out);
        out
    }

    /// The same with the checksum of its payload.
    #[must_use]
    pub fn summed(self, payload: &[u8]) -> Self {
        Self { flags: self.flags | PAYLOAD_SUM, payload_sum: crc32c::crc32c(payload), ..self }
    }

    /// Whether a payload is the one that was written; none if that was not recorded.
    pub fn fits(&self, payload: &[u8]) -> Option<bool> {
        (self.flags & PAYLOAD_SUM != 0).then(|| self.payload_sum == crc32c::crc32c(payload))
    }

    /// Reads a header from the front of `bytes`. [`FormatError::Empty`] means that the rest of the block is unused.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES).ok_or(FormatError::Short)?;
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(FormatError::Empty);
        }
        check_seal(bytes)?;
        Self::decode_checked(bytes)
    }

    /// Reads a header whose checksum was verified before.
    pub(crate) fn decode_checked(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take(bytes);
        let len = take.u32()?;
        let [kind, flags] = take.array()?;
        if usize::from(u16::from_le_bytes(take.array()?)) != RECORD_HEADER_BYTES {
            return Err(FormatError::HeaderLength);
        }
        let kind = Kind::from_byte(kind);
        let shortest = match kind {
            Kind::Out | Kind::Err => 1,
            Kind::Exit => 40,
            Kind::Lost => 4,
            Kind::Meta => META_FIXED_BYTES,
            Kind::Mark => 20,
            Kind::Note => 8,
            Kind::Unknown(0) => return Err(FormatError::Value),
            Kind::Unknown(_) => 0,
        };
        if !(shortest..=MAX_PAYLOAD).contains(&(len as usize)) {
            return Err(FormatError::PayloadLength);
        }
        Ok(Self { len, kind, flags, seq: take.u64()?, time_ns: take.u64()?, payload_sum: take.u32()? })
    }

    /// Bytes of header, payload and padding together.
    pub fn stored_len(&self) -> usize {
        stored_len(self.len as usize)
    }

    /// How many numbers the record takes.
    pub fn numbers(&self) -> u64 {
        match self.kind {
            Kind::Out | Kind::Err => (self.len as usize).div_ceil(FRAME_BYTES) as u64,
            Kind::Exit | Kind::Lost => 1,
            Kind::Meta | Kind::Mark | Kind::Note | Kind::Unknown(_) => 0,
        }
    }
}

/// Bytes on disk of a record with a payload of `len` bytes.
pub fn stored_len(len: usize) -> usize {
    RECORD_HEADER_BYTES.saturating_add(len).next_multiple_of(8)
}

/// Writes the checksum of everything before it into the last four bytes.
fn seal(header: &mut [u8]) {
    if let Some((body, sum)) = header.split_last_chunk_mut::<4>() {
        *sum = crc32c::crc32c(body).to_le_bytes();
    }
}

fn check_seal(header: &[u8]) -> Result<(), FormatError> {
    let (body, sum) = header.split_last_chunk::<4>().ok_or(FormatError::Short)?;
    if u32::from_le_bytes(*sum) == crc32c::crc32c(body) { Ok(()) } else { Err(FormatError::Checksum) }
}

/// Fills a buffer from the front; what does not fit is left out, which the sizes above rule out.
struct Put<'a>(&'a mut [u8]);

impl Put<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        let rest = std::mem::take(&mut self.0);
        if let Some((head, tail)) = rest.split_at_mut_checked(bytes.len()) {
            head.copy_from_slice(bytes);
            self.0 = tail;
        }
    }
}

/// Reads fields from the front of a slice.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl Take<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(FormatError::Short)?;
        self.0 = tail;
        Ok(*head)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }
}
