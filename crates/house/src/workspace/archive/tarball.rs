//! The tar structure: a sequence of members, each a header block and its data.
//!
//! Long names (GNU and PAX) and PAX sizes are applied to the member they describe; such extension headers are
//! bounded, because their content is held in memory. A PAX *global* header is handed out as a member of its own.
//!
//! Sparse files, links and devices are reported by their type flag and never interpreted.

use super::StreamFault;

/// Type flag of a regular file.
pub(super) const REGULAR: u8 = b'0';
/// Type flag of a directory.
pub(super) const DIRECTORY: u8 = b'5';

const REGULAR_OLD: u8 = 0;
const SPARSE: u8 = b'S';
const PAX_LOCAL: u8 = b'x';
const PAX_GLOBAL: u8 = b'g';
const GNU_LONG_NAME: u8 = b'L';
const GNU_LONG_LINK: u8 = b'K';
/// Types whose size field means nothing: no data follows.
const HEADER_ONLY: &[u8] = b"123456";

const BLOCK: usize = 512;
const NAME: std::ops::Range<usize> = 0..100;
const MAGIC: std::ops::Range<usize> = 257..263;
const POSIX_MAGIC: &[u8] = b"ustar\0";
/// Only with the POSIX magic; other formats keep other things here.
const PREFIX: std::ops::Range<usize> = 345..500;
const KIND: usize = 156;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const SIZE: std::ops::Range<usize> = 124..136;
/// Mode, owner, group and time: not applied, but a block in which they make no sense is no header.
const UNUSED_NUMBERS: [std::ops::Range<usize>; 4] = [100..108, 108..116, 116..124, 136..148];
/// The largest extension header; honest ones are a few hundred bytes.
const EXTENSION_LIMIT: u64 = 1024 * 1024;

/// Where the bytes of a tarball come from.
pub(super) trait Source {
    /// Fills some of `buffer`; zero means the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamFault>;

    /// Called once after the last member, to verify what a container format may still have to say.
    fn finish(&mut self) -> Result<(), StreamFault> {
        Ok(())
    }
}

impl Source for &[u8] {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamFault> {
        let (taken, rest) = self.split_at(buffer.len().min(self.len()));
        buffer[..taken.len()].copy_from_slice(taken);
        *self = rest;
        Ok(taken.len())
    }
}

/// One member: what it is called, what it is, and how much data follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    pub(super) kind: u8,
    pub(super) size: u64,
}

/// A reader of members.
pub(super) struct Tarball<S> {
    source: S,
    /// Data of the current member that was not read yet.
    remaining: u64,
    /// Zeros that fill the current member's last block.
    padding: u64,
    /// The source said it has no more, as opposed to having broken off.
    source_ended: bool,
}

impl<S: Source> Tarball<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, remaining: 0, padding: 0, source_ended: false }
    }

    /// The next member, or `None` at the end of the archive. Unread data of the one before is skipped.
    pub(super) fn next(&mut self) -> Result<Option<Member>, StreamFault> {
        let mut long_name: Option<Vec<u8>> = None;
        let mut extension = Extension::default();
        loop {
            if !self.skip_rest()? {
                return Ok(None);
            }
            let Some(block) = self.header_block()? else {
                return Ok(None);
            };
            let mut size = number(&block[SIZE])?;
            for field in UNUSED_NUMBERS {
                check_number(&block[field])?;
            }
            let kind = block[KIND];
            match kind {
                PAX_LOCAL => extension = Extension::parse(&self.extension(size)?)?,
                GNU_LONG_NAME => long_name = Some(text(&self.extension(size)?).to_vec()),
                GNU_LONG_LINK => drop(self.extension(size)?),
                PAX_GLOBAL => {
                    // Never applied, but a damaged one is told as damage.
                    Extension::parse(&self.extension(size)?)?;
                    let name = name(&block);
                    return Ok(Some(Member { name, kind, size }));
                }
                _ => {
                    // An empty long name says nothing.
                    let name =
                        long_name.filter(|name| !name.is_empty()).or(extension.path).unwrap_or_else(|| name(&block));
                    let kind = match kind {
                        _ if extension.sparse => SPARSE,
                        REGULAR_OLD if name.ends_with(b"/") => DIRECTORY,
                        REGULAR_OLD => REGULAR,
                        kind => kind,
                    };
                    if let Some(stated) = extension.size {
                        size = stated;
                    }
                    if HEADER_ONLY.contains(&kind) {
                        size = 0;
                    }
                    self.expect_data(size);
                    return Ok(Some(Member { name, kind, size }));
                }
            }
        }
    }

    /// Some data of the current member; zero at its end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamFault> {
        let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.source.read(&mut buffer[..wanted])?;
        if count == 0 {
            self.source_ended = true;
            return Err(StreamFault::UnexpectedEnd);
        }
        self.remaining -= count as u64;
        Ok(count)
    }

    /// To be called after the last member.
    pub(super) fn finish(mut self) -> Result<(), StreamFault> {
        self.source.finish()
    }

    fn expect_data(&mut self, size: u64) {
        self.remaining = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    /// Skips to the next header. False when the archive ends in the padding: nothing was lost then.
    fn skip_rest(&mut self) -> Result<bool, StreamFault> {
        let mut discarded = [0; 16 * BLOCK];
        while self.read(&mut discarded)? > 0 {}
        self.remaining = std::mem::take(&mut self.padding);
        while self.remaining > 0 {
            match self.read(&mut discarded) {
                Ok(_) => {}
                Err(StreamFault::UnexpectedEnd) if self.source_ended => return Ok(false),
                Err(fault) => return Err(fault),
            }
        }
        Ok(true)
    }

    /// A checked header block, or `None` at the end: no more bytes, or two blocks of zeros (the second may be missing).
    fn header_block(&mut self) -> Result<Option<[u8; BLOCK]>, StreamFault> {
        let Some(block) = self.block()? else {
            return Ok(None);
        };
        if is_zero(&block) {
            return match self.block()? {
                Some(second) if !is_zero(&second) => Err(StreamFault::TarHeader),
                _ => Ok(None),
            };
        }
        if checksum_holds(&block)? { Ok(Some(block)) } else { Err(StreamFault::TarHeader) }
    }

    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, StreamFault> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.source.read(&mut block[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(StreamFault::UnexpectedEnd),
                count => filled += count,
            }
        }
        Ok(Some(block))
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, StreamFault> {
        if size > EXTENSION_LIMIT {
            return Err(StreamFault::FieldTooLong);
        }
        self.expect_data(size);
        let mut content = Vec::new();
        let mut part = [0; 8 * BLOCK];
        loop {
            match self.read(&mut part)? {
                0 => return Ok(content),
                count => content.extend_from_slice(&part[..count]),
            }
        }
    }
}

/// The records of a PAX header that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extension {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl Extension {
    /// Parses records of the form `LENGTH KEY=VALUE\n`, where the length counts the whole record.
    fn parse(mut content: &[u8]) -> Result<Self, StreamFault> {
        let mut found = Self::default();
        while !content.is_empty() {
            let (record, rest) = split_record(content).ok_or(StreamFault::TarHeader)?;
            content = rest;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(StreamFault::TarHeader)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                // An empty value takes an earlier record back.
                b"path" if value.is_empty() => found.path = None,
                b"path" if value.contains(&0) => return Err(StreamFault::TarHeader),
                b"path" => found.path = Some(value.to_vec()),
                b"size" if value.is_empty() => found.size = None,
                b"size" => found.size = Some(decimal(value).ok_or(StreamFault::TarHeader)?),
                _ if key.starts_with(b"GNU.sparse.") => found.sparse = true,
                _ => {}
            }
        }
        Ok(found)
    }
}

fn split_record(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = content.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&content[..space])?).ok()?;
    let record = content.get(space + 1..length)?;
    let record = record.strip_suffix(b"\n")?;
    Some((record, &content[length..]))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A numeric header field: octal text with blanks around it, or binary when the first bit is set.
fn number(field: &[u8]) -> Result<u64, StreamFault> {
    if let [first, rest @ ..] = field
        && first & 0x80 != 0
    {
        // The next bit is the sign; nothing here can be negative.
        if first & 0x40 != 0 {
            return Err(StreamFault::TarHeader);
        }
        return rest.iter().try_fold(u64::from(first & 0x3f), |value, byte| {
            let shifted = value.checked_mul(256).ok_or(StreamFault::TarHeader)?;
            Ok(shifted | u64::from(*byte))
        });
    }
    let filler = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !filler(byte)).unwrap_or(field.len());
    let end = field.iter().rposition(|byte| !filler(byte)).map_or(start, |last| last + 1);
    let digits = text(&field[start..end]);
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8).map(|value| value + u64::from(digit - b'0')).ok_or(StreamFault::TarHeader),
        _ => Err(StreamFault::TarHeader),
    })
}

/// Accepts what [`number`] accepts, and any binary number: times may be negative.
fn check_number(field: &[u8]) -> Result<(), StreamFault> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => Ok(()),
        _ => number(field).map(drop),
    }
}

/// The name in the header itself, its two parts joined.
fn name(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(&block[NAME]);
    let prefix = if &block[MAGIC] == POSIX_MAGIC { text(&block[PREFIX]) } else { b"" };
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// The bytes before the first zero byte.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(field)
}

fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

/// The checksum counts its own field as blanks. Some old writers summed signed bytes; both are accepted.
fn checksum_holds(block: &[u8; BLOCK]) -> Result<bool, StreamFault> {
    let stated = number(&block[CHECKSUM])?;
    let (mut unsigned, mut signed) = (0_u64, 0_i64);
    for (index, byte) in block.iter().enumerate() {
        let byte = if CHECKSUM.contains(&index) { b' ' } else { *byte };
        unsigned += u64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    Ok(stated == unsigned || u64::try_from(signed) == Ok(stated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Ok(0o644));
        assert_eq!(number(b"   644 \0"), Ok(0o644));
        assert_eq!(number(b"\0\0\0\0"), Ok(0));
        assert_eq!(number(b"\0 00017\0 "), Ok(0o17));
        assert_eq!(number(b"17\0x    "), Ok(0o17));
        assert_eq!(number(b"1 7\0"), Err(StreamFault::TarHeader));
        assert_eq!(number(b"12x4"), Err(StreamFault::TarHeader));
        assert_eq!(number(b"777777777777"), Ok(0o777_777_777_777));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Ok((2 << 32) | 1));
        assert_eq!(number(&[0xff; 12]), Err(StreamFault::TarHeader));
        assert_eq!(number(&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(StreamFault::TarHeader));
    }

    #[test]
    fn pax_records_are_taken_apart_by_their_length() {
        let parsed = Extension::parse(b"13 path=a\nb/\n11 size=12\n").unwrap();
        assert_eq!(parsed, Extension { path: Some(b"a\nb/".to_vec()), size: Some(12), sparse: false });
        assert!(Extension::parse(b"22 GNU.sparse.major=1\n").unwrap().sparse);
        for broken in [
            &b"13 path=abc"[..],
            b"99 path=a\n",
            b"x path=a\n",
            b"9 patha\n\n",
            b"2 \n",
            b"0 path=a\n",
            b"11 path=\0a\n",
            b"12 size=-12\n",
            b"27 size=99999999999999999999\n",
        ] {
            assert_eq!(Extension::parse(broken), Err(StreamFault::TarHeader), "{:?}", String::from_utf8_lossy(broken));
        }
    }
}
