//! What the messages of a house's backup say: files one after the other, and how many there were.
//!
//! ```text
//! P{json}   a directory
//! F{json}   a file begins
//! D bytes   more of it
//! E{json}   it ends: its size and its SHA-256
//! Z{json}   everything ends: how many files, how many bytes
//! ```
//!
//! Invariant: a path is relative and stays below where it is put: no part of it is empty, `.`, `..`, or holds a NUL.

use serde::{Deserialize, Serialize};

use super::{BackupError, FRAME};

/// Bytes of a file in one message.
pub const PIECE: usize = FRAME - 1;

/// The longest path, and the most parts of one.
const LONGEST: usize = 4096;
const DEEPEST: usize = 64;

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Where it is, with `/` between its parts.
    pub path: String,
    /// Who may do what with it; the lowest nine bits.
    pub mode: u32,
}

/// The end of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Its bytes.
    pub size: u64,
    /// Hex.
    pub sha256: String,
}

/// The end of everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sum {
    /// How many files there were.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// A directory.
    Directory(Item),
    /// A file begins.
    File(Item),
    /// More of it.
    Data(&'a [u8]),
    /// It ends.
    End(End),
    /// Everything ends.
    Sum(Sum),
}

impl<'a> Record<'a> {
    /// Reads a message.
    pub fn parse(message: &'a [u8]) -> Result<Self, BackupError> {
        let odd = BackupError::Damaged("a piece of it makes no sense");
        let (kind, rest) = message.split_first().ok_or(odd)?;
        fn json<T: for<'de> Deserialize<'de>>(rest: &[u8]) -> Result<T, BackupError> {
            serde_json::from_slice(rest).map_err(|_| BackupError::Damaged("a piece of it makes no sense"))
        }
        let item = |rest: &[u8]| -> Result<Item, BackupError> {
            let item: Item = json(rest)?;
            match is_safe(&item.path) && item.mode <= 0o777 {
                true => Ok(item),
                false => Err(BackupError::Damaged("a path in it leads elsewhere")),
            }
        };
        match kind {
            b'P' => Ok(Self::Directory(item(rest)?)),
            b'F' => Ok(Self::File(item(rest)?)),
            b'D' => Ok(Self::Data(rest)),
            b'E' => Ok(Self::End(json(rest)?)),
            b'Z' => Ok(Self::Sum(json(rest)?)),
            _ => Err(odd),
        }
    }

    /// Writes it; `None` for more than fits into one message.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let (kind, rest) = match self {
            Self::Directory(item) => (b'P', serde_json::to_vec(item).ok()?),
            Self::File(item) => (b'F', serde_json::to_vec(item).ok()?),
            Self::Data(bytes) => (b'D', bytes.to_vec()),
            Self::End(end) => (b'E', serde_json::to_vec(end).ok()?),
            Self::Sum(sum) => (b'Z', serde_json::to_vec(sum).ok()?),
        };
        let bytes = [&[kind], &rest[..]].concat();
        (bytes.len() <= FRAME).then_some(bytes)
    }
}

/// Whether a path stays below where it is put.
#[must_use]
pub fn is_safe(path: &str) -> bool {
    let parts = path.split('/');
    path.len() <= LONGEST
        && parts.clone().count() <= DEEPEST
        && parts.into_iter().all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_paths_stay_below() {
        let item = |path: &str| Item { path: path.to_owned(), mode: 0o600 };
        for record in [
            Record::Directory(item("house/journal")),
            Record::File(item("house/state.db")),
            Record::Data(b"bytes"),
            Record::Data(b""),
            Record::End(End { size: 5, sha256: "00".repeat(32) }),
            Record::Sum(Sum { files: 1, bytes: 5 }),
        ] {
            assert_eq!(Record::parse(&record.to_bytes().unwrap()), Ok(record));
        }
        for path in
            ["", "/etc/passwd", "a//b", "../x", "a/../../x", "a/.", "a/", "a\0b", &"a/".repeat(100), &"a".repeat(5000)]
        {
            let written = Record::File(item(path)).to_bytes().unwrap();
            assert!(Record::parse(&written).is_err(), "{path}");
        }
        let open = Record::File(Item { mode: 0o4755, ..item("x") }).to_bytes().unwrap();
        assert!(Record::parse(&open).is_err(), "no file gets more than nine bits");
        assert_eq!(Record::Data(&[0; FRAME]).to_bytes(), None);
        for message in [&b""[..], b"X", b"F", b"F{}", b"E[]"] {
            assert!(Record::parse(message).is_err());
        }
    }
}
