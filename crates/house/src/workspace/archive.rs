//! Unpacking a gzip-compressed tar archive into a directory that it replaces.
//!
//! Order of effects: the destination is judged, the archive is opened, its gzip header is read, and only then is
//! the destination wiped, made anew and filled; the marker comes last. So a bad archive costs nothing, and a
//! destination with the marker is complete. Once opened, the archive file is removed on every way out.
//!
//! Nothing is written outside the destination: names are checked as text, and every step below it is taken from
//! an open directory without following links. Links, devices and extended attributes are never created; modes,
//! owners and times of the archive are never applied.

mod below;
mod gunzip;
mod tarball;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::errno::PathError;
use super::{files, paths};
use below::Below;
use gunzip::Gunzip;
use tarball::{DIRECTORY, Member, REGULAR, Source, Tarball};

/// The empty file that marks a destination as completely filled.
pub const MARKER: &str = ".synced";

const COPY_BUFFER: usize = 64 * 1024;
const READ_BUFFER: usize = 64 * 1024;
const DIRECTORY_MODE: u32 = 0o700;

/// How much an archive may unfold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Decompressed bytes in total, headers and padding included.
    pub total_bytes: u64,
    /// Members of any kind.
    pub members: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { total_bytes: 16 * 1024 * 1024 * 1024, members: 2_000_000 }
    }
}

/// A failed extraction and the number of files the answer to it must name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Failure {
    /// Zero for a refused member, else the files written so far.
    pub file_count: u64,
    /// What went wrong.
    pub cause: ExtractError,
}

/// Why an archive was not extracted, or not completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The destination is relative or the root directory.
    #[error("destDir must be an absolute, non-root path: {}", paths::quoted(.0.as_os_str()))]
    BadDestination(PathBuf),
    /// The destination is, or contains, a directory that must never be wiped.
    #[error("destDir must not be or contain {}: {}", paths::quoted(.protected.as_os_str()), paths::quoted(.destination.as_os_str()))]
    Protected {
        /// The destination as it was sent.
        destination: PathBuf,
        /// The directory that would have been lost.
        protected: PathBuf,
    },
    /// The archive could not be opened.
    #[error("open archive: {0}")]
    OpenArchive(#[source] PathError),
    /// The compressed stream, or the tar structure in it, is damaged.
    #[error("gzip: {0}")]
    Stream(#[source] StreamFault),
    /// The old destination could not be removed.
    #[error("clean destDir: {0}")]
    Wipe(#[source] PathError),
    /// The new destination could not be made.
    #[error("mkdir destDir: {0}")]
    MakeDestination(#[source] PathError),
    /// A member's name leads out of the destination.
    #[error("unsafe path in archive: {}", OsStr::from_bytes(.member).display())]
    UnsafePath {
        /// The member's name as stored.
        member: Vec<u8>,
    },
    /// A member is neither a regular file nor a directory.
    #[error("unsupported tar entry type {}: {}", char::from(*.kind), OsStr::from_bytes(.member).display())]
    Unsupported {
        /// The tar type flag.
        kind: u8,
        /// The member's name as stored.
        member: Vec<u8>,
    },
    /// A file could not be created.
    #[error("create {}: {error}", OsStr::from_bytes(.member).display())]
    Create {
        /// The member's name as stored.
        member: Vec<u8>,
        /// The kernel's refusal.
        #[source]
        error: PathError,
    },
    /// A directory could not be made or a file not be written.
    #[error(transparent)]
    Member(PathError),
    /// The archive unfolds to more bytes than allowed.
    #[error("extraction size limit exceeded: more than {limit} bytes")]
    TooLarge {
        /// The limit that was hit.
        limit: u64,
    },
    /// The archive has more members than allowed.
    #[error("extraction entry limit exceeded: more than {limit} entries")]
    TooMany {
        /// The limit that was hit.
        limit: u64,
    },
    /// The marker could not be written.
    #[error("write {MARKER}: {0}")]
    Marker(#[source] PathError),
}

/// What is wrong with the bytes of an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// There are no bytes at all.
    #[error("EOF")]
    Empty,
    /// The bytes end in the middle of something.
    #[error("unexpected EOF")]
    UnexpectedEnd,
    /// These are not gzip bytes.
    #[error("gzip: invalid header")]
    InvalidHeader,
    /// The compressed data does not decode.
    #[error("flate: corrupt input")]
    Corrupt,
    /// The decoded data is not what was compressed.
    #[error("gzip: invalid checksum")]
    Checksum,
    /// A tar header block makes no sense.
    #[error("archive/tar: invalid tar header")]
    TarHeader,
    /// A tar extension header is larger than any honest one.
    #[error("archive/tar: header field too long")]
    FieldTooLong,
    /// Reading the archive failed.
    #[error("read: {}", super::errno_text(*.errno))]
    Read {
        /// The kernel's error number.
        errno: i32,
    },
    /// More bytes came out than allowed.
    #[error("more than {limit} bytes")]
    TooLarge {
        /// The limit that was hit.
        limit: u64,
    },
}

impl From<StreamFault> for ExtractError {
    fn from(fault: StreamFault) -> Self {
        match fault {
            StreamFault::TooLarge { limit } => Self::TooLarge { limit },
            fault => Self::Stream(fault),
        }
    }
}

/// Replaces `destination` by the content of `archive` and removes `archive`; answers the number of files.
///
/// `protected` names directories (the user's home, our own) that no destination may be or contain.
pub fn extract_tar(archive: &Path, destination: &Path, protected: &[PathBuf], limits: &Limits) -> Result<u64, Failure> {
    let before = |cause: ExtractError| Failure { file_count: 0, cause };
    let target = judge_destination(destination, protected).map_err(before)?;
    let file = open_archive(archive).map_err(ExtractError::OpenArchive).map_err(before)?;
    let _consumed = RemoveOnDrop(archive);
    let stream = Gunzip::open(BufReader::with_capacity(READ_BUFFER, file), limits.total_bytes)
        .map_err(|fault| before(fault.into()))?;

    wipe(&target).map_err(ExtractError::Wipe).map_err(before)?;
    make_directory(&target).map_err(ExtractError::MakeDestination).map_err(before)?;
    let mut unpacking = Unpacking::new(&target, limits).map_err(ExtractError::MakeDestination).map_err(before)?;
    unpacking.run(stream)
}

/// Makes a directory and what is missing above it; an error names the one that could not be made.
fn make_directory(path: &Path) -> Result<(), PathError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_directory(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if !path.is_dir() => Err(PathError::new("mkdir", path, &error)),
        _ => Ok(()),
    }
}

/// Unpacks gzip-compressed tar bytes into an existing directory: the part of [`extract_tar`] that reads strangers' bytes.
pub fn unpack<R: BufRead>(bytes: R, destination: &Path, limits: &Limits) -> Result<u64, Failure> {
    let before = |cause: ExtractError| Failure { file_count: 0, cause };
    let stream = Gunzip::open(bytes, limits.total_bytes).map_err(|fault| before(fault.into()))?;
    Unpacking::new(&paths::clean(destination), limits)
        .map_err(ExtractError::MakeDestination)
        .map_err(before)?
        .run(stream)
}

/// Like [`unpack`], for tar bytes that are not compressed.
pub fn unpack_plain(bytes: &[u8], destination: &Path, limits: &Limits) -> Result<u64, Failure> {
    Unpacking::new(&paths::clean(destination), limits)
        .map_err(|error| Failure { file_count: 0, cause: ExtractError::MakeDestination(error) })?
        .run(bytes)
}

fn judge_destination(destination: &Path, protected: &[PathBuf]) -> Result<PathBuf, ExtractError> {
    let target = paths::clean(destination);
    if !target.is_absolute() || target == Path::new("/") {
        return Err(ExtractError::BadDestination(destination.to_path_buf()));
    }
    match protected.iter().find(|directory| paths::is_or_contains(&target, directory)) {
        Some(directory) => {
            Err(ExtractError::Protected { destination: destination.to_path_buf(), protected: directory.clone() })
        }
        None => Ok(target),
    }
}

/// Opens the archive; anything but a regular file is refused here, before it would count as consumed.
fn open_archive(path: &Path) -> Result<File, PathError> {
    let refused = |errno: Errno| PathError { op: "open", path: path.to_path_buf(), errno: errno.raw_os_error() };
    let file = files::open_without_waiting(path).map_err(|error| PathError::new("open", path, &error))?;
    let metadata = file.metadata().map_err(|error| PathError::new("stat", path, &error))?;
    if metadata.is_dir() {
        return Err(refused(Errno::ISDIR));
    }
    if !metadata.is_file() {
        return Err(refused(Errno::INVAL));
    }
    Ok(file)
}

/// Removes whatever stands at `target`; a link is removed as a link.
fn wipe(target: &Path) -> Result<(), PathError> {
    let removed = match fs::symlink_metadata(target) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(target),
        Ok(_) => fs::remove_file(target),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PathError::new("unlinkat", target, &error)),
        _ => Ok(()),
    }
}

/// Consumes the archive on every way out. Only a file's name is removed, never a directory.
struct RemoveOnDrop<'a>(&'a Path);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        // A destination that contained the archive has already swallowed it, and no caller could act on a failure.
        drop(fs::remove_file(self.0));
    }
}

/// One extraction below one destination.
struct Unpacking<'a> {
    destination: &'a Path,
    limits: &'a Limits,
    below: Below,
    files: u64,
    buffer: Vec<u8>,
}

impl<'a> Unpacking<'a> {
    fn new(destination: &'a Path, limits: &'a Limits) -> Result<Self, PathError> {
        Ok(Self { destination, limits, below: Below::open(destination)?, files: 0, buffer: vec![0; COPY_BUFFER] })
    }

    fn run<S: Source>(&mut self, source: S) -> Result<u64, Failure> {
        match self.members(Tarball::new(source)) {
            Ok(()) => Ok(self.files),
            Err(cause) => {
                let refused = matches!(cause, ExtractError::UnsafePath { .. } | ExtractError::Unsupported { .. });
                Err(Failure { file_count: if refused { 0 } else { self.files }, cause })
            }
        }
    }

    fn members<S: Source>(&mut self, mut tarball: Tarball<S>) -> Result<(), ExtractError> {
        let mut seen: u64 = 0;
        while let Some(member) = tarball.next()? {
            seen += 1;
            if seen > self.limits.members {
                return Err(ExtractError::TooMany { limit: self.limits.members });
            }
            self.member(&member, &mut tarball)?;
        }
        tarball.finish()?;
        self.below.create(MARKER.as_bytes()).map(drop).map_err(ExtractError::Marker)
    }

    fn member<S: Source>(&mut self, member: &Member, tarball: &mut Tarball<S>) -> Result<(), ExtractError> {
        let relative = self.relative(&member.name)?;
        match member.kind {
            DIRECTORY => self.below.make_directories(&relative).map_err(ExtractError::Member),
            REGULAR => {
                self.below.make_parents(&relative).map_err(ExtractError::Member)?;
                let file = self
                    .below
                    .create(&relative)
                    .map_err(|error| ExtractError::Create { member: member.name.clone(), error })?;
                self.copy(file, &relative, tarball)?;
                self.files += 1;
                Ok(())
            }
            kind => Err(ExtractError::Unsupported { kind, member: member.name.clone() }),
        }
    }

    /// Where a member lands, as a cleaned path relative to the destination; empty for the destination itself.
    fn relative(&self, name: &[u8]) -> Result<Vec<u8>, ExtractError> {
        let landed = paths::join(self.destination, OsStr::from_bytes(name));
        // Component-wise, so a sibling that merely starts with the same letters is outside.
        match landed.strip_prefix(self.destination) {
            Ok(relative) => Ok(relative.as_os_str().as_bytes().to_vec()),
            Err(_) => Err(ExtractError::UnsafePath { member: name.to_vec() }),
        }
    }

    fn copy<S: Source>(
        &mut self,
        mut file: File,
        relative: &[u8],
        tarball: &mut Tarball<S>,
    ) -> Result<(), ExtractError> {
        loop {
            let count = tarball.read(&mut self.buffer)?;
            if count == 0 {
                return Ok(());
            }
            file.write_all(&self.buffer[..count]).map_err(|error| {
                ExtractError::Member(PathError::new("write", &self.below.full_path(relative), &error))
            })?;
        }
    }
}
