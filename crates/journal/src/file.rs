//! File operations on journals, each a thin layer over one system call that is restarted after a signal.
//!
//! Files are opened relative to a folder descriptor, never by a path that somebody could swap, never following a
//! symbolic link, always close-on-exec. Nothing here knows the format.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use crate::ProcessId;

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

fn flags(extra: OFlags) -> OFlags {
    OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | extra
}

pub(crate) fn create(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<OwnedFd> {
    let how = flags(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
    let name = id.file_name();
    Ok(retry_on_intr(|| rustix::fs::openat(dir, &name, how, PRIVATE))?)
}

pub(crate) fn create_unnamed(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let how = flags(OFlags::RDWR | OFlags::TMPFILE);
    Ok(retry_on_intr(|| rustix::fs::openat(dir, ".", how, PRIVATE))?)
}

pub(crate) fn open_writable(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<OwnedFd> {
    let name = id.file_name();
    Ok(retry_on_intr(|| rustix::fs::openat(dir, &name, flags(OFlags::RDWR), Mode::empty()))?)
}

pub(crate) fn open_readable(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<OwnedFd> {
    open_readable_as(dir, &id.file_name())
}

pub(crate) fn open_readable_as(dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    Ok(retry_on_intr(|| rustix::fs::openat(dir, name, flags(OFlags::RDONLY), Mode::empty()))?)
}

pub(crate) fn size(file: impl AsFd) -> io::Result<u64> {
    let stat = rustix::fs::fstat(file)?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

pub(crate) fn truncate(file: &OwnedFd, len: u64) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::ftruncate(file, len))?)
}

/// Turns `len` bytes from `offset` into a hole. Edges that are not whole pages are overwritten with zeros.
pub(crate) fn punch(file: &OwnedFd, offset: u64, len: u64) -> io::Result<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(retry_on_intr(|| rustix::fs::fallocate(file, how, offset, len))?)
}

/// Writes everything; after a short write the rest is tried once more so that the caller learns the real reason.
pub(crate) fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::pwrite(file, bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match retry_on_intr(|| rustix::io::pread(&file, &mut *rest, offset + done as u64))? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// What a read without waiting gave.
pub(crate) enum Warm {
    /// So many bytes; possibly fewer than asked for.
    Read(usize),
    /// The bytes are not in memory.
    Cold,
    /// This file system cannot say; ask in the ordinary way.
    Unsupported,
}

/// Reads what is in memory and never waits for a disk.
pub(crate) fn read_warm(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<Warm> {
    let result = retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(buffer)];
        rustix::io::preadv2(&file, &mut slices, offset, ReadWriteFlags::NOWAIT)
    });
    match result {
        Ok(count) => Ok(Warm::Read(count)),
        Err(Errno::AGAIN) => Ok(Warm::Cold),
        // NOSYS: a kernel or a sandbox without the call at all.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Warm::Unsupported),
        Err(error) => Err(error.into()),
    }
}
