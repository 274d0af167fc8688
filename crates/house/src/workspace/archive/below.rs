//! Making files and directories below one directory and nowhere else.
//!
//! Every component is opened from the directory above it with links refused, so a link that somebody slips in
//! while an archive is being unpacked leads to an error and never out of the destination.
//!
//! Relative paths given here are already cleaned: no empty, `.` or `..` components.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use crate::workspace::PathError;

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Never waiting: a pipe that stands where the file should be is an error.
const FILE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::TRUNC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
/// The kernel's limit for a path in one piece. We never pass one, but everybody who looks at the result would.
const LONGEST_PATH: usize = 4095;

/// An open destination.
pub(super) struct Below {
    root: OwnedFd,
    path: PathBuf,
    /// The directory used last, with its relative path: archives list the files of a directory in a row.
    recent: Option<(Vec<u8>, OwnedFd)>,
}

impl Below {
    pub(super) fn open(path: &Path) -> Result<Self, PathError> {
        let root = open(path, DIRECTORY_FLAGS, Mode::empty()).map_err(|errno| failure("open", path, errno))?;
        Ok(Self { root, path: path.to_path_buf(), recent: None })
    }

    /// The destination's path and `relative` below it, for error texts.
    pub(super) fn full_path(&self, relative: &[u8]) -> PathBuf {
        if relative.is_empty() { self.path.clone() } else { self.path.join(OsStr::from_bytes(relative)) }
    }

    /// Makes a directory and those above it; existing ones are fine.
    pub(super) fn make_directories(&mut self, relative: &[u8]) -> Result<(), PathError> {
        self.directory(relative).map(drop)
    }

    /// Makes the directories above a file.
    pub(super) fn make_parents(&mut self, relative: &[u8]) -> Result<(), PathError> {
        self.directory(split(relative).0).map(drop)
    }

    /// Creates or empties a file. The directories above it must exist.
    pub(super) fn create(&mut self, relative: &[u8]) -> Result<File, PathError> {
        let full = self.full_path(relative);
        let (parent, name) = split(relative);
        if name.is_empty() {
            return Err(failure("open", &full, Errno::ISDIR));
        }
        let directory = self.directory(parent)?;
        let file = openat(directory, name, FILE_FLAGS, Mode::RUSR | Mode::WUSR);
        file.map(File::from).map_err(|errno| failure("open", &full, errno))
    }

    fn directory(&mut self, relative: &[u8]) -> Result<BorrowedFd<'_>, PathError> {
        if relative.is_empty() {
            return Ok(self.root.as_fd());
        }
        let known = self.recent.as_ref().is_some_and(|(path, _)| path == relative);
        if !known {
            let opened = self.walk(relative)?;
            self.recent = Some((relative.to_vec(), opened));
        }
        Ok(self.recent.as_ref().map_or(self.root.as_fd(), |(_, directory)| directory.as_fd()))
    }

    /// Opens a directory component by component, making what is missing.
    fn walk(&self, relative: &[u8]) -> Result<OwnedFd, PathError> {
        let full = self.full_path(relative);
        if full.as_os_str().len() > LONGEST_PATH {
            return Err(failure("mkdir", &full, Errno::NAMETOOLONG));
        }
        let mut walked = self.path.clone();
        let mut current: Option<OwnedFd> = None;
        for component in relative.split(|byte| *byte == b'/') {
            let above = current.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            walked.push(OsStr::from_bytes(component));
            let next = open_or_make(above, component).map_err(|errno| failure("mkdir", &walked, errno))?;
            current = Some(next);
        }
        current.ok_or_else(|| failure("mkdir", &full, Errno::NOENT))
    }
}

fn open_or_make(above: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    match openat(above, name, DIRECTORY_FLAGS, Mode::empty()) {
        Err(Errno::NOENT) => {}
        answered => return answered,
    }
    match mkdirat(above, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => openat(above, name, DIRECTORY_FLAGS, Mode::empty()),
        Err(errno) => Err(errno),
    }
}

/// The directory part and the last component.
fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&relative[..slash], &relative[slash + 1..]),
        None => (b"", relative),
    }
}

fn failure(op: &'static str, path: &Path, errno: Errno) -> PathError {
    PathError { op, path: path.to_path_buf(), errno: errno.raw_os_error() }
}
