//! Where a fetched file goes: a name in a directory that is held open.
//!
//! Guarantees: the path is resolved once. From then on only the name counts, in the directory that was found, even if the
//! directory was moved or another one took its place. At the name there is the whole file or what was there before, and
//! nothing is written through a symbolic link. A half-written file is removed when it is not kept.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use hostel_wire::encoding::hex;
use hostel_wire::random;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt as _;

use crate::mesh::Refusal;

/// A name in a directory.
#[derive(Debug)]
pub struct FilePlace {
    /// None: there is no such directory.
    directory: Option<OwnedFd>,
    /// Where that directory was, for messages.
    parent: PathBuf,
    name: OsString,
    /// Whether the directory was found in the view that another process has of the file system.
    foreign: bool,
}

impl FilePlace {
    /// A name in a directory that somebody else has opened, perhaps in the view that another process has of the file
    /// system. None if the path ends in no name.
    #[must_use]
    pub fn within(directory: OwnedFd, path: &Path) -> Option<Self> {
        let parent = path.parent()?.to_owned();
        Some(Self { directory: Some(directory), parent, name: path.file_name()?.to_owned(), foreign: true })
    }

    /// An absolute path at which there is nothing, or a regular file.
    pub(crate) fn at(out: &str) -> Result<Self, Refusal> {
        let path = Path::new(out);
        let (true, Some(parent), Some(name)) = (path.is_absolute(), path.parent(), path.file_name()) else {
            return Err(no_file());
        };
        if out.contains('\0') {
            return Err(no_file());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(parent, flags, Mode::empty()) {
            Ok(directory) => Some(directory),
            // Told when the file is to be written.
            Err(Errno::NOENT) => None,
            Err(error) => return Err(cannot(io::Error::from(error))),
        };
        if !out.as_bytes().ends_with(name.as_bytes()) {
            // `x/` and `x/.` mean a directory.
            return Err(cannot(io::Error::from(Errno::NOTDIR)));
        }
        Ok(Self { directory, parent: parent.to_owned(), name: name.to_owned(), foreign: false })
    }

    /// Refuses what is at the name, unless it is a regular file.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let found = match rustix::fs::statx(directory, &self.name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(cannot(io::Error::from(error))),
        };
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::Symlink => return Err(cannot("there is a symbolic link at `out`")),
            FileType::RegularFile => {}
            _ => return Err(cannot("there is something else than a file at `out`")),
        }
        // In another mount namespace the kernel lets a mount point be replaced, which ends the mount there.
        let known = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
        if self.foreign && (!known || found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
            return Err(cannot("the file at `out` is protected"));
        }
        Ok(())
    }

    /// A file beside the name, which is gone unless it is kept.
    pub(crate) fn begin(&self) -> Result<Beside<'_>, Refusal> {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{}.part", hex(&random::bytes::<8>())));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match &self.directory {
            Some(directory) => rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR),
            None => Err(Errno::NOENT),
        };
        let opened = opened.map_err(|error| {
            cannot(format!("cannot write to `{}`: {}", self.parent.display(), io::Error::from(error)))
        })?;
        Ok(Beside { place: self, name: Some(name), file: tokio::fs::File::from_std(File::from(opened)) })
    }

    fn directory(&self) -> std::os::fd::BorrowedFd<'_> {
        self.directory.as_ref().map_or(CWD, |directory| directory.as_fd())
    }
}

/// A file that is being written.
pub(crate) struct Beside<'a> {
    place: &'a FilePlace,
    /// None: it is no longer there under this name.
    name: Option<OsString>,
    file: tokio::fs::File,
}

impl Beside<'_> {
    /// Writes all of it.
    pub(crate) async fn write(&mut self, plain: &mut Vec<u8>) -> Result<(), Refusal> {
        self.file.write_all(plain).await.map_err(cannot)?;
        plain.clear();
        Ok(())
    }

    /// Moves it to its name.
    pub(crate) async fn keep(mut self) -> Result<(), Refusal> {
        self.file.flush().await.map_err(cannot)?;
        self.file.sync_all().await.map_err(cannot)?;
        self.place.check()?;
        let Some(name) = &self.name else { return Ok(()) };
        let directory = self.place.directory();
        rustix::fs::renameat(directory, name.as_os_str(), directory, self.place.name.as_os_str())
            .map_err(|error| cannot(io::Error::from(error)))?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let name: &OsStr = name;
            rustix::fs::unlinkat(self.place.directory(), name, AtFlags::empty()).ok();
        }
    }
}

fn no_file() -> Refusal {
    Refusal::field("out", "`out` must be an absolute path of a file")
}

fn cannot(detail: impl std::fmt::Display) -> Refusal {
    Refusal::new("cannot_write", detail.to_string()).about("out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_goes_to_the_directory_that_was_opened_wherever_that_is_now() {
        let root = tempfile::tempdir().unwrap();
        let [one, moved, other] = ["one", "moved", "other"].map(|name| root.path().join(name));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&other).unwrap();
        let place = FilePlace::at(one.join("x").to_str().unwrap()).unwrap();
        let mut beside = place.begin().unwrap();
        beside.write(&mut b"hello".to_vec()).await.unwrap();
        std::fs::rename(&one, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &one).unwrap();
        beside.keep().await.unwrap();
        assert_eq!(std::fs::read(moved.join("x")).unwrap(), b"hello");
        // What is not kept is removed there as well.
        drop(place.begin().unwrap());
        assert_eq!(std::fs::read_dir(&moved).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
    }

    #[test]
    fn only_a_file_or_nothing_may_be_at_the_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| FilePlace::at(root.path().join(name).to_str().unwrap()).and_then(|place| place.check());
        std::fs::write(root.path().join("file"), "").unwrap();
        std::fs::create_dir(root.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("file", root.path().join("link")).unwrap();
        assert!(at("file").is_ok() && at("new").is_ok() && at("missing/new").is_ok());
        for wrong in ["directory", "link", "file/x", "file/", "new/", "new/."] {
            assert_eq!(at(wrong).unwrap_err().code(), "cannot_write", "{wrong}");
        }
        for wrong in ["", "relative", "/", "/a/..", "/a\0b"] {
            assert_eq!(FilePlace::at(wrong).unwrap_err().code(), "invalid", "{wrong:?}");
        }
        let missing = FilePlace::at(root.path().join("missing/new").to_str().unwrap()).unwrap();
        assert_eq!(missing.begin().err().unwrap().code(), "cannot_write");
    }
}
