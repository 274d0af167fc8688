//! Bytes to frames and back.
//!
//! Decoding never allocates and never panics: a frame borrows the bytes it was cut from, and a
//! malformed one is a [`DecodeError`] that ends the connection it came by.

use thiserror::Error;

/// Bytes of a frame before its first field, the length prefix included.
pub const HEADER_BYTES: usize = 16;
/// Largest value of the length prefix.
pub const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;

/// Why a byte stream is not a sequence of frames.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The length prefix exceeds [`MAX_FRAME_BYTES`].
    #[error("frame of {0} bytes is longer than {MAX_FRAME_BYTES}")]
    TooLong(usize),
    /// The length prefix leaves no room for the header.
    #[error("frame of {0} bytes is shorter than its header")]
    TooShort(usize),
    /// A field runs past the end of its frame.
    #[error("field {0} runs past the end of its frame")]
    Truncated(u16),
    /// A required field is missing.
    #[error("field {0} is missing")]
    Missing(u16),
    /// A field has the wrong size or an unknown value.
    #[error("field {0} has a bad value")]
    BadValue(u16),
}

/// One frame, borrowed from the bytes it was cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The frame's type, one of [`super::kind`].
    pub kind: u16,
    /// Reserved, zero.
    pub flags: u16,
    /// Pairs an answer with its request; zero for what was not asked for.
    pub corr: u64,
    body: &'a [u8],
}

/// Cuts the first frame off `bytes`. `None` means that more bytes are needed.
pub fn split(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    split_within(bytes, MAX_FRAME_BYTES)
}

/// As [`split`], for frames that never met a socket: those of a keeper's own state.
pub(crate) fn split_unbounded(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    split_within(bytes, u32::MAX as usize)
}

fn split_within(bytes: &[u8], limit: usize) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some(prefix) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > limit {
        return Err(DecodeError::TooLong(length));
    }
    if length < HEADER_BYTES - 4 {
        return Err(DecodeError::TooShort(length));
    }
    let Some(rest) = bytes.get(4..4 + length) else {
        return Ok(None);
    };
    let (head, body) = rest.split_at(HEADER_BYTES - 4);
    let frame = Frame {
        kind: u16::from_le_bytes([head[0], head[1]]),
        flags: u16::from_le_bytes([head[2], head[3]]),
        corr: u64::from_le_bytes([head[4], head[5], head[6], head[7], head[8], head[9], head[10], head[11]]),
        body,
    };
    Ok(Some((frame, 4 + length)))
}

impl<'a> Frame<'a> {
    /// The frame's fields in order.
    pub fn fields(&self) -> Fields<'a> {
        Fields { rest: self.body }
    }

    /// The first field with this tag.
    pub fn find(&self, tag: u16) -> Result<Option<&'a [u8]>, DecodeError> {
        for field in self.fields() {
            let (found, bytes) = field?;
            if found == tag {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// A required field.
    pub fn bytes(&self, tag: u16) -> Result<&'a [u8], DecodeError> {
        self.find(tag)?.ok_or(DecodeError::Missing(tag))
    }

    /// A required field of exactly `N` bytes.
    pub fn array<const N: usize>(&self, tag: u16) -> Result<[u8; N], DecodeError> {
        self.bytes(tag)?.try_into().map_err(|_| DecodeError::BadValue(tag))
    }

    /// A required 64-bit number.
    pub fn u64(&self, tag: u16) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(tag)?))
    }

    /// An optional 64-bit number.
    pub fn maybe_u64(&self, tag: u16) -> Result<Option<u64>, DecodeError> {
        match self.find(tag)? {
            Some(bytes) => match bytes.try_into() {
                Ok(array) => Ok(Some(u64::from_le_bytes(array))),
                Err(_) => Err(DecodeError::BadValue(tag)),
            },
            None => Ok(None),
        }
    }

    /// A required 32-bit number.
    pub fn u32(&self, tag: u16) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(tag)?))
    }

    /// An optional 32-bit number, `default` when absent.
    pub fn u32_or(&self, tag: u16, default: u32) -> Result<u32, DecodeError> {
        match self.find(tag)? {
            Some(_) => self.u32(tag),
            None => Ok(default),
        }
    }

    /// A required signed 32-bit number.
    pub fn i32(&self, tag: u16) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array(tag)?))
    }
}

/// Iterator over a frame's fields.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u16, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(head) = self.rest.first_chunk::<6>() else {
            self.rest = &[];
            return Some(Err(DecodeError::Truncated(0)));
        };
        let tag = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let Some(bytes) = self.rest.get(6..6usize.saturating_add(length)) else {
            self.rest = &[];
            return Some(Err(DecodeError::Truncated(tag)));
        };
        self.rest = &self.rest[6 + length..];
        Some(Ok((tag, bytes)))
    }
}

/// Appends one frame to a buffer; the length prefix is filled in by [`Builder::finish`].
#[derive(Debug)]
pub struct Builder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Builder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, kind: u16, corr: u64) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&corr.to_le_bytes());
        Self { out, start }
    }

    /// Adds a field of bytes.
    pub fn bytes(self, tag: u16, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(&tag.to_le_bytes());
        self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.out.extend_from_slice(bytes);
        self
    }

    /// Adds a 64-bit number.
    pub fn u64(self, tag: u16, value: u64) -> Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// Adds a 32-bit number.
    pub fn u32(self, tag: u16, value: u32) -> Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// Adds a signed 32-bit number.
    pub fn i32(self, tag: u16, value: i32) -> Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// Ends the frame.
    pub fn finish(self) {
        let length = (self.out.len() - self.start - 4) as u32;
        self.out[self.start..self.start + 4].copy_from_slice(&length.to_le_bytes());
    }
}
