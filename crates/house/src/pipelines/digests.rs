//! Reads files and computes their digests; remembers the digests of files that only root can change.
//!
//! Guarantee: the digest of a file that anybody but root can change comes from reading it now. The times of a file prove
//! nothing there: a program that has mapped the file writes to it without changing them.
//!
//! Reading blocks on a slow disk and has a time limit; [`Remembered::is_current`] never blocks.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hostel_keeper::lease::{self, LeaseError};
use hostel_keeper::proto::Pin;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::elf::{self, ElfNames};
use super::plan::Resolved;

/// A file that takes longer than this to read has no digest, and so cannot be run.
pub(super) const MAX_READ_TIME: Duration = Duration::from_secs(20);
/// Bytes read at a time.
const READ_BYTES: usize = 128 * 1024;
/// Bytes of the beginning of a file that are kept: as many as the kernel looks at for `#!`.
pub(super) const HEAD_BYTES: usize = 256;
/// Programs that are remembered.
const MAX_REMEMBERED: usize = 1024;
/// A file that changed this recently may change again within the same tick of its times: it is not remembered.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Tells one file, and one version of it, from another without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Signature {
    pub(super) dev: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
    pub(super) ctime_ns: i64,
}

impl Signature {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest);
        Self {
            dev: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// What the keeper compares in the last instant before it executes the file.
    pub(super) fn pin(self) -> Pin {
        let Self { dev, inode, size, mtime_ns, ctime_ns } = self;
        Pin { dev, inode, size, mtime_ns, ctime_ns }
    }

    /// Whether the file has not changed for a while before `now`, counted from 1970.
    fn is_settled(&self, now: Duration) -> bool {
        let last = self.ctime_ns.max(self.mtime_ns);
        i64::try_from(now.as_nanos()).unwrap_or(0).saturating_sub(last) > SETTLED_AFTER.as_nanos() as i64
    }

    /// The signature of the file at a path, if the kernel can tell without waiting for a disk. `EAGAIN`: it cannot.
    fn at_once(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED)?;
        let ask = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&fd, "", ask, StatxFlags::BASIC_STATS)?;
        let ns = |time: rustix::fs::StatxTimestamp| {
            time.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(i64::from(time.tv_nsec))
        };
        Ok(Signature {
            dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            mtime_ns: ns(stat.stx_mtime),
            ctime_ns: ns(stat.stx_ctime),
        })
    }
}

/// Whether the kernel knows, without waiting for a disk, that there is no file at a path.
pub(super) fn is_known_to_be_missing(path: &Path) -> bool {
    matches!(
        Signature::at_once(path),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ)
    )
}

/// A file that was opened and read to its end.
pub(super) struct ReadFile {
    pub(super) signature: Signature,
    /// SHA-256 of its content. All zeros for a file that may be executed but not read.
    pub(super) digest: [u8; 32],
    /// Its first bytes.
    pub(super) head: Vec<u8>,
    /// None if it may not be read.
    pub(super) file: Option<File>,
    /// The lease that was taken before the file was read, or why there is none; none if none was wanted.
    pub(super) lease: Option<Result<(), LeaseError>>,
    uid: u32,
    mode: u32,
}

impl ReadFile {
    /// Whether it could be read at all.
    pub(super) fn is_readable(&self) -> bool {
        self.file.is_some()
    }

    /// The loader and the library directories that it names, if it is a binary.
    pub(super) fn elf_names(&self) -> Option<ElfNames> {
        self.file.as_ref().filter(|_| elf::is_elf(&self.head)).and_then(elf::names_of)
    }

    /// Whether nobody but root can write to the file, wherever it is.
    pub(super) fn is_of_root_alone(&self) -> bool {
        self.uid == 0 && self.mode & 0o022 == 0
    }

    /// Whether executing the file gives rights that a copy of it would not give.
    pub(super) fn gives_rights(&self) -> bool {
        let capabilities =
            self.file.as_ref().map(|file| rustix::fs::fgetxattr(file, "security.capability", &mut [0u8; 0]));
        self.mode & 0o6000 != 0 || matches!(capabilities, Some(Ok(_)))
    }

    /// Whether anybody could run it, and whether it has been as it is for a while.
    fn may_be_remembered(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        can_be_run_by_somebody(self.mode) && self.signature.is_settled(now)
    }
}

/// Opens a file and reads it to its end. `also` gets every piece that was read.
pub(super) fn read(path: &Path, also: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<ReadFile> {
    read_file(path, false, also)
}

/// As [`read`], under a read lease where one can be had: nobody begins to write to what was read as long as the file is
/// kept open and its lease is intact.
pub(super) fn read_leased(path: &Path, also: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<ReadFile> {
    read_file(path, true, also)
}

fn read_file(path: &Path, is_leased: bool, mut also: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<ReadFile> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(Errno::ACCESS.into());
    }
    let file = match open_at_once(path) {
        Ok(file) => file,
        Err(Errno::ACCESS | Errno::PERM) => {
            return Ok(ReadFile {
                signature: Signature::of(&metadata),
                digest: [0; 32],
                head: Vec::new(),
                file: None,
                lease: None,
                uid: metadata.uid(),
                mode: metadata.mode(),
            });
        }
        Err(errno) => return Err(errno.into()),
    };
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(Errno::ACCESS.into());
    }
    let lease = is_leased.then(|| lease::take(&file));
    let (digest, head) = digest_of(&file, MAX_READ_TIME, &mut also)?;
    let signature = Signature::of(&before);
    if Signature::of(&file.metadata()?) != signature {
        // Somebody wrote to it while it was read.
        return Err(Errno::STALE.into());
    }
    Ok(ReadFile { signature, digest, head, file: Some(file), lease, uid: before.uid(), mode: before.mode() })
}

/// Opens a file that may have been replaced by something whose opening waits for another process.
pub(super) fn open_at_once(path: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn can_be_run_by_somebody(mode: u32) -> bool {
    mode & 0o111 != 0
}

/// The digest of the rest of a file, and its first bytes.
fn digest_of(
    mut file: &File,
    longest: Duration,
    also: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<([u8; 32], Vec<u8>)> {
    let deadline = Instant::now() + longest;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut head = Vec::new();
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((hasher.finalize().into(), head)),
            Ok(length) => {
                let piece = buffer.get(..length).unwrap_or_default();
                hasher.update(piece);
                head.extend(piece.iter().take(HEAD_BYTES.saturating_sub(head.len())));
                also(piece)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if Instant::now() > deadline {
            return Err(Errno::FBIG.into());
        }
    }
}

/// A program as it was found, with the files that decide what it does: the program itself and its interpreters.
#[derive(Clone)]
pub(super) struct Remembered {
    pub(super) found: Resolved,
    files: Vec<(PathBuf, Signature)>,
}

static REMEMBERED: LazyLock<Mutex<HashMap<PathBuf, Remembered>>> = LazyLock::new(Mutex::default);

impl Remembered {
    /// The program at a path, if it is remembered and the kernel says at once that no file of it has changed.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let remembered = REMEMBERED.lock().get(path).cloned()?;
        remembered.is_current().then_some(remembered)
    }

    /// Whether all its files are as they were. Only root can change them, and what root changes shows in their times.
    pub(super) fn is_current(&self) -> bool {
        self.files.iter().all(|(path, signature)| Signature::at_once(path) == Ok(*signature))
    }

    /// The signature of the program itself.
    pub(super) fn signature(&self) -> Option<Signature> {
        self.files.first().map(|(_, signature)| *signature)
    }

    /// Remembers a program that only root can change. `files` begins with the program itself.
    pub(super) fn keep(path: &Path, found: &Resolved, files: &[(PathBuf, ReadFile)]) {
        if !files.iter().all(|(_, file)| file.may_be_remembered()) {
            return;
        }
        let files = files.iter().map(|(path, file)| (path.clone(), file.signature)).collect();
        insert(&mut REMEMBERED.lock(), path.to_owned(), Remembered { found: found.clone(), files });
    }
}

/// Adds a program. Where there is no room all others are forgotten: a file that is needed is read again.
fn insert(remembered: &mut HashMap<PathBuf, Remembered>, path: PathBuf, program: Remembered) {
    if remembered.len() >= MAX_REMEMBERED {
        remembered.clear();
    }
    remembered.insert(path, program);
}

#[cfg(test)]
#[path = "digests_tests.rs"]
mod tests;
