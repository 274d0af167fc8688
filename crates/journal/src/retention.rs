//! What lies in a journal folder, and which journals of ended processes have had their time.
//!
//! [`Retention::expired`] is a pure function of what it is given: it never touches a file, and it never names more
//! journals than the limits ask for.
//!
//! Which processes have ended or are still being read is not known here; the caller leaves those out.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use crate::ProcessId;

/// One journal in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// The process.
    pub id: ProcessId,
    /// Disk space really used; holes do not count.
    pub bytes_on_disk: u64,
    /// Wall clock of the last change.
    pub modified_ns: u64,
}

/// Lists the journals in `dir`, oldest change first. Other files are passed over.
pub fn scan(dir: BorrowedFd<'_>) -> io::Result<Vec<FileInfo>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let Some(id) = ProcessId::from_file_name(entry.file_name().to_bytes()) else {
            continue;
        };
        let stat = match rustix::fs::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Removed since the folder was read.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            continue;
        }
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        found.push(FileInfo {
            id,
            bytes_on_disk: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as u64),
        });
    }
    found.sort_unstable_by_key(|info| (info.modified_ns, info.id));
    Ok(found)
}

/// Disk space that the journal of `id` really uses; 0 if there is none.
pub fn bytes_on_disk(dir: BorrowedFd<'_>, id: ProcessId) -> u64 {
    let stat = rustix::fs::statat(dir, id.file_name(), AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512))
}

/// Removes the journal of `id`. Readers that have it open can go on.
pub fn remove(dir: BorrowedFd<'_>, id: ProcessId) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, id.file_name(), AtFlags::empty())?)
}

/// How much of the past is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// At most so many journals.
    pub max_count: usize,
    /// None whose last change is longer ago than this.
    pub max_age: Duration,
    /// At most so many bytes on disk together.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_count: 1000, max_age: Duration::from_secs(7 * 24 * 60 * 60), max_bytes: 10 << 30 }
    }
}

impl Retention {
    /// Those of `ended` that have to go, oldest first.
    pub fn expired(&self, ended: &[FileInfo], now_ns: u64) -> Vec<ProcessId> {
        let mut by_age: Vec<&FileInfo> = ended.iter().collect();
        by_age.sort_unstable_by_key(|info| (info.modified_ns, info.id));
        let max_age_ns = u64::try_from(self.max_age.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = by_age.iter().fold(0, |sum: u64, info| sum.saturating_add(info.bytes_on_disk));
        let mut count = by_age.len();
        let mut expired = Vec::new();
        for info in by_age {
            let too_old = now_ns.saturating_sub(info.modified_ns) > max_age_ns;
            if !too_old && count <= self.max_count && bytes <= self.max_bytes {
                break;
            }
            expired.push(info.id);
            count -= 1;
            bytes = bytes.saturating_sub(info.bytes_on_disk);
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Journals changed at second 1, 2, 3 …, given in a mixed order.
    fn journals(sizes: &[u64]) -> Vec<FileInfo> {
        let mut all: Vec<FileInfo> = (1..)
            .zip(sizes)
            .map(|(age, &bytes_on_disk)| FileInfo {
                id: ProcessId([age; 16]),
                bytes_on_disk,
                modified_ns: u64::from(age) * SECOND,
            })
            .collect();
        all.reverse();
        let half = all.len() / 2;
        all.rotate_left(half);
        all
    }

    fn expired(retention: Retention, sizes: &[u64], now_s: u64) -> Vec<u8> {
        let ids = retention.expired(&journals(sizes), now_s * SECOND);
        ids.iter().map(|id| id.0[0]).collect()
    }

    const LOOSE: Retention = Retention { max_count: usize::MAX, max_age: Duration::MAX, max_bytes: u64::MAX };

    #[test]
    fn each_limit_takes_the_oldest_first() {
        let sizes = [10, 20, 30, 40, 50];
        assert!(expired(LOOSE, &sizes, 1_000).is_empty());
        assert_eq!(expired(Retention { max_count: 3, ..LOOSE }, &sizes, 9), [1, 2]);
        assert_eq!(expired(Retention { max_bytes: 120, ..LOOSE }, &sizes, 9), [1, 2]);
        assert_eq!(expired(Retention { max_bytes: 119, ..LOOSE }, &sizes, 9), [1, 2, 3]);
        let young = Retention { max_age: Duration::from_secs(6), ..LOOSE };
        assert_eq!(expired(young, &sizes, 9), [1, 2]);
        // A clock that was set back makes nothing old.
        assert!(expired(young, &sizes, 0).is_empty());
    }

    #[test]
    fn the_strictest_limit_decides() {
        let sizes = [10, 20, 30, 40, 50];
        let limits = Retention { max_count: 4, max_age: Duration::from_secs(7), max_bytes: 100 };
        assert_eq!(expired(limits, &sizes, 9), [1, 2, 3]);
        let nothing = Retention { max_count: 0, ..LOOSE };
        assert_eq!(expired(nothing, &sizes, 9), [1, 2, 3, 4, 5]);
        assert!(expired(nothing, &[], 9).is_empty());
    }
}
