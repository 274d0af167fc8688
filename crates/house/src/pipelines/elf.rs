//! Which other files a binary names: the loader that the kernel starts in its place (`PT_INTERP`), and the places it has
//! its libraries looked for in (`DT_RUNPATH`, `DT_RPATH`, and libraries that are named by a path).
//!
//! Guarantee: every read is bounded, whatever the file says. A file that is no little-endian ELF file, or whose tables do
//! not fit together, names nothing; the kernel does not start most of these.
//!
//! Only the file itself is read. What its libraries load, and what a program opens while it runs, is not known here.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A larger table of segments is refused by the kernel.
const MAX_SEGMENT_TABLE_BYTES: usize = 65_536;
/// Bytes of the dynamic section that are read.
const MAX_DYNAMIC_BYTES: usize = 65_536;
/// A longer name of a loader is refused by the kernel.
const MAX_LOADER_BYTES: usize = 4096;
/// A longer list of directories is not read.
const MAX_TEXT_BYTES: usize = 16_384;
/// Texts of the dynamic section that are read.
const MAX_TEXTS: usize = 512;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_DEPAUDIT: u64 = 0x6fff_fefb;
const DT_AUDIT: u64 = 0x6fff_fefc;
const DT_AUXILIARY: u64 = 0x7fff_fffd;
const DT_FILTER: u64 = 0x7fff_ffff;

/// What an ELF file begins with.
const MAGIC: &[u8] = b"\x7fELF";

/// The files and directories that a binary names, as they are written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ElfNames {
    /// The program that loads it.
    pub(super) loader: Option<Vec<u8>>,
    /// Directories that libraries are looked for in, and libraries that are named by a path.
    pub(super) libraries: Vec<Vec<u8>>,
}

/// Whether a file that begins with these bytes may be a binary.
pub(super) fn is_elf(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// What a binary names, read from the file itself.
pub(super) fn names_of(file: &File) -> Option<ElfNames> {
    names_in(&|offset, length| {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
            match file.read_at(room, offset.saturating_add(filled as u64)) {
                Ok(read) if read > 0 => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        bytes.truncate(filled);
        bytes
    })
}

/// What a binary names. `read_at` returns at most that many bytes from an offset, and fewer at the end of the file.
fn names_in(read_at: &dyn Fn(u64, usize) -> Vec<u8>) -> Option<ElfNames> {
    let file = ElfFile::open(read_at)?;
    let loader = match file.segments.iter().find(|segment| segment.kind == PT_INTERP) {
        Some(segment) => Some(file.loader(segment)?),
        None => None,
    };
    Some(ElfNames { loader, libraries: file.libraries() })
}

/// Fields of one width, in the byte order of the file.
fn number(bytes: &[u8], offset: usize, width: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

struct ElfFile<'a> {
    read_at: &'a dyn Fn(u64, usize) -> Vec<u8>,
    is_64: bool,
    segments: Vec<Segment>,
}

impl<'a> ElfFile<'a> {
    fn open(read_at: &'a dyn Fn(u64, usize) -> Vec<u8>) -> Option<Self> {
        let header = read_at(0, 64);
        let is_64 = match (is_elf(&header), header.get(4), header.get(5)) {
            (true, Some(1), Some(1)) => false,
            (true, Some(2), Some(1)) => true,
            _ => return None,
        };
        let (table, entry_size, count) = match is_64 {
            true => (number(&header, 32, 8)?, number(&header, 54, 2)?, number(&header, 56, 2)?),
            false => (number(&header, 28, 4)?, number(&header, 42, 2)?, number(&header, 44, 2)?),
        };
        let expected_size: usize = if is_64 { 56 } else { 32 };
        let bytes = expected_size.checked_mul(usize::try_from(count).ok()?)?;
        if entry_size != expected_size as u64 || bytes > MAX_SEGMENT_TABLE_BYTES {
            return None;
        }
        let table = read_at(table, bytes);
        let segment = |entry: &[u8]| {
            let (offset, address, size) = match is_64 {
                true => (number(entry, 8, 8)?, number(entry, 16, 8)?, number(entry, 32, 8)?),
                false => (number(entry, 4, 4)?, number(entry, 8, 4)?, number(entry, 16, 4)?),
            };
            Some(Segment { kind: number(entry, 0, 4)?, offset, address, size })
        };
        let segments: Option<Vec<Segment>> = table.chunks_exact(expected_size).map(segment).collect();
        Some(ElfFile { read_at, is_64, segments: segments.filter(|found| found.len() as u64 == count)? })
    }

    /// The name that a segment holds; none if the kernel would not start the file.
    fn loader(&self, segment: &Segment) -> Option<Vec<u8>> {
        let size = usize::try_from(segment.size).ok().filter(|size| (2..=MAX_LOADER_BYTES).contains(size))?;
        let bytes = (self.read_at)(segment.offset, size);
        if bytes.len() != size || bytes.last() != Some(&0) {
            return None;
        }
        Some(until_nul(&bytes)?.to_vec())
    }

    fn libraries(&self) -> Vec<Vec<u8>> {
        let Some(segment) = self.segments.iter().rfind(|segment| segment.kind == PT_DYNAMIC) else {
            return Vec::new();
        };
        let width = if self.is_64 { 8 } else { 4 };
        let size = usize::try_from(segment.size).unwrap_or(usize::MAX).min(MAX_DYNAMIC_BYTES);
        let section = (self.read_at)(segment.offset, size);
        let entry = |bytes: &[u8]| Some((number(bytes, 0, width)?, number(bytes, width, width)?));
        let entries: Vec<(u64, u64)> =
            section.chunks_exact(2 * width).filter_map(entry).take_while(|(tag, _)| *tag != DT_NULL).collect();
        let Some((_, texts)) = entries.iter().rfind(|(tag, _)| *tag == DT_STRTAB) else { return Vec::new() };
        let has_runpath = entries.iter().any(|(tag, _)| *tag == DT_RUNPATH);
        let mut found = Vec::new();
        let names = entries.iter().filter(|(tag, _)| is_name(*tag)).take(MAX_TEXTS);
        for (tag, place) in names {
            let Some(text) = texts.checked_add(*place).and_then(|address| self.text_at(address)) else { continue };
            match *tag {
                // The loader reads no `DT_RPATH` where there is a `DT_RUNPATH`.
                DT_RPATH if has_runpath => {}
                DT_RPATH | DT_RUNPATH => found.extend(text.split(|byte| *byte == b':').map(<[u8]>::to_vec)),
                // Without a slash it is a name that is looked for.
                _ if text.contains(&b'/') => found.push(text),
                _ => {}
            }
        }
        found
    }

    /// The text at an address in memory.
    fn text_at(&self, address: u64) -> Option<Vec<u8>> {
        let holds = |segment: &&Segment| {
            segment.kind == PT_LOAD
                && address.checked_sub(segment.address).is_some_and(|distance| distance < segment.size)
        };
        let segment = self.segments.iter().find(holds)?;
        let offset = segment.offset.checked_add(address - segment.address)?;
        Some(until_nul(&(self.read_at)(offset, MAX_TEXT_BYTES))?.to_vec())
    }
}

fn is_name(tag: u64) -> bool {
    matches!(tag, DT_NEEDED | DT_RPATH | DT_RUNPATH | DT_DEPAUDIT | DT_AUDIT | DT_AUXILIARY | DT_FILTER)
}

fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|byte| *byte == 0).next().filter(|text| text.len() < bytes.len())
}

/// Where a place leads that libraries are looked for in. `origin` is the directory of the binary. A part that the loader
/// replaces by something else of its own (`$LIB`, `$PLATFORM`) ends it: whoever can change the directory above can
/// change what is found.
pub(super) fn library_path(text: &[u8], origin: &Path) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let mut path = PathBuf::from("/");
    for (position, part) in text.split(|byte| *byte == b'/').enumerate() {
        match part {
            b"" | b"." => {}
            part => match [b"$ORIGIN".as_slice(), b"${ORIGIN}"].iter().find_map(|token| part.strip_prefix(*token)) {
                Some(rest) if position == 0 && !rest.contains(&b'$') => {
                    let mut name = origin.as_os_str().to_owned();
                    name.push(OsStr::from_bytes(rest));
                    path.push(name);
                }
                _ if part.contains(&b'$') => break,
                _ => path.push(OsStr::from_bytes(part)),
            },
        }
    }
    path
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
