//! Looking at files: stat, list, read, validate.
//!
//! Every function takes the path as it was sent (already freed of `~`), follows symbolic links, and returns
//! bounded data. A path that can not be looked at, for whatever reason, counts as missing in `stat`, `read` and
//! `validate`, as the contract has it.
//!
//! Nothing here writes, and nothing here waits: a named pipe or a device is refused instead of opened.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::errno::PathError;
use super::{mode, paths};

/// The largest file `read` returns when the caller sets no smaller limit.
pub const DEFAULT_READ_CEILING: u64 = 256 * 1024 * 1024;
/// The largest directory `list` returns.
pub const DEFAULT_LIST_CEILING: usize = 1_000_000;

/// What `stat` tells about an existing path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// True for a directory, also when reached through a symbolic link.
    pub is_dir: bool,
    /// The kernel's size, also for directories.
    pub size: u64,
    /// The mode as text, see [`mode::mode_text`].
    pub mode: String,
}

/// One visible entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's own name.
    pub name: OsString,
    /// The listed directory's path and the name, joined and cleaned.
    pub path: PathBuf,
    /// True for a directory, also when reached through a symbolic link.
    pub is_dir: bool,
}

/// Why a directory could not be listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The kernel refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The directory holds more entries than one answer may carry.
    #[error("files.list: directory has more than {ceiling} entries")]
    TooMany {
        /// The limit that was hit.
        ceiling: usize,
    },
}

/// Why an existing file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The path is a directory.
    #[error("files.read: path is a directory")]
    Directory,
    /// The path is a pipe, a socket or a device.
    #[error("files.read: not a regular file")]
    NotRegular,
    /// The file is larger than the caller allowed.
    #[error("files.read: file exceeds maxBytes")]
    ExceedsMaxBytes,
    /// The file is larger than one answer may carry.
    #[error("files.read: file exceeds the limit of {ceiling} bytes")]
    ExceedsCeiling {
        /// The limit that was hit.
        ceiling: u64,
    },
    /// The kernel refused.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// What `validate` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// True when the path exists and can be looked at.
    pub valid: bool,
    /// True for a directory.
    pub is_dir: bool,
}

/// Describes a path; `None` when it is missing or can not be looked at.
pub fn stat(path: &Path) -> Option<Stat> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stat { is_dir: metadata.is_dir(), size: metadata.size(), mode: mode::mode_text(metadata.mode()) })
}

/// Says whether a path exists and whether it is a directory.
pub fn validate(path: &Path) -> Validity {
    match fs::metadata(path) {
        Ok(metadata) => Validity { valid: true, is_dir: metadata.is_dir() },
        Err(_) => Validity { valid: false, is_dir: false },
    }
}

/// Lists a directory: visible entries only, sorted by the bytes of their names.
pub fn list(path: &Path, ceiling: usize) -> Result<Vec<Entry>, ListError> {
    let metadata = fs::metadata(path).map_err(|error| PathError::new("open", path, &error))?;
    if !metadata.is_dir() {
        // Known before opening, so that a pipe without a writer can not hold the caller.
        return Err(
            PathError { op: "readdirent", path: path.to_path_buf(), errno: Errno::NOTDIR.raw_os_error() }.into()
        );
    }
    let directory = fs::read_dir(path).map_err(|error| PathError::new("open", path, &error))?;
    let mut entries = Vec::new();
    for found in directory {
        let found = found.map_err(|error| PathError::new("readdirent", path, &error))?;
        let name = found.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        if entries.len() >= ceiling {
            return Err(ListError::TooMany { ceiling });
        }
        let is_dir = match found.file_type() {
            Ok(kind) if kind.is_symlink() => fs::metadata(found.path()).is_ok_and(|target| target.is_dir()),
            Ok(kind) => kind.is_dir(),
            Err(_) => false,
        };
        let joined = paths::join(path, &name);
        entries.push(Entry { name, path: joined, is_dir });
    }
    entries.sort_unstable_by(|left, right| left.name.as_bytes().cmp(right.name.as_bytes()));
    Ok(entries)
}

/// Reads a whole file; `None` when it is missing or can not be looked at.
///
/// The checks come in the contract's order: missing, directory, not a regular file, too large, opening. A file
/// whose real length is more than its stated size (it grew, or the kernel makes it up) meets the same limits.
pub fn read(path: &Path, max_bytes: Option<u64>, ceiling: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let Ok(metadata) = fs::metadata(path) else {
        return Ok(None);
    };
    check(&metadata, max_bytes, ceiling)?;
    let mut file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PathError::new("open", path, &error).into()),
    };
    let opened = file.metadata().map_err(|error| PathError::new("stat", path, &error))?;
    check(&opened, max_bytes, ceiling)?;

    let allowed = max_bytes.unwrap_or(ceiling).min(ceiling);
    let mut content = Vec::with_capacity(usize::try_from(opened.size().min(allowed)).unwrap_or(0));
    (&mut file)
        .take(allowed.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| PathError::new("read", path, &error))?;
    check_size(content.len() as u64, max_bytes, ceiling)?;
    Ok(Some(content))
}

fn check(metadata: &Metadata, max_bytes: Option<u64>, ceiling: u64) -> Result<(), ReadError> {
    if metadata.is_dir() {
        return Err(ReadError::Directory);
    }
    if !metadata.is_file() {
        return Err(ReadError::NotRegular);
    }
    check_size(metadata.size(), max_bytes, ceiling)
}

fn check_size(size: u64, max_bytes: Option<u64>, ceiling: u64) -> Result<(), ReadError> {
    if max_bytes.is_some_and(|limit| size > limit) {
        return Err(ReadError::ExceedsMaxBytes);
    }
    if size > ceiling {
        return Err(ReadError::ExceedsCeiling { ceiling });
    }
    Ok(())
}

/// Opens for reading without ever waiting for the other end of a pipe that took the file's place.
pub(super) fn open_without_waiting(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
