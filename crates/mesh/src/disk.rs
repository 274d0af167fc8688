//! How full a database is: rows against their limit, bytes of its files against theirs, whichever is nearer.
//!
//! Invariant: levels follow from the numbers alone. It deletes nothing and refuses nothing; its callers do.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_store::StoreError;

/// What fullness means for who wants to put something in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Nothing to say.
    #[default]
    Ok,
    /// 80 %: somebody should know.
    High,
    /// 95 %: nothing new is taken.
    Full,
    /// 100 %: nothing new at all; only what comes in and what goes out.
    Degraded,
}

impl Level {
    /// Of `used` out of `limit`; a limit of 0 is none.
    #[must_use]
    pub fn of(used: u64, limit: u64) -> Self {
        if limit == 0 {
            return Self::Ok;
        }
        let (used, limit) = (u128::from(used) * 100, u128::from(limit));
        match used {
            used if used >= limit * 100 => Self::Degraded,
            used if used >= limit * 95 => Self::Full,
            used if used >= limit * 80 => Self::High,
            _ => Self::Ok,
        }
    }
}

/// How full a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Rows that count.
    pub rows: u64,
    /// How many there may be; 0: any number.
    pub max_rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// How many there may be; 0: any number.
    pub max_bytes: u64,
    /// The disk itself has no room, whatever the limits say.
    pub is_disk_full: bool,
}

/// A disk with less room than this is full: SQLite's log needs some for every write.
const MIN_FREE_BYTES: u64 = 1 << 20;

/// Whether the disk that a database lies on has no room. What cannot be asked has.
#[must_use]
pub fn is_disk_full(database: &Path) -> bool {
    let Some(directory) = database.parent().filter(|directory| directory.is_absolute()) else { return false };
    let Ok(found) = rustix::fs::statvfs(directory) else { return false };
    // Some of a disk is kept for root.
    let blocks = if rustix::process::geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    found.f_blocks > 0 && blocks.saturating_mul(found.f_frsize) < MIN_FREE_BYTES
}

/// Whether SQLite says that a disk has no room.
pub(crate) fn says_disk_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Sqlite(text) if text.contains("disk is full"))
}

impl Pressure {
    /// The graver of the two.
    #[must_use]
    pub fn level(&self) -> Level {
        let disk = if self.is_disk_full { Level::Degraded } else { Level::Ok };
        Level::of(self.rows, self.max_rows).max(Level::of(self.bytes, self.max_bytes)).max(disk)
    }

    /// The nearer of the two, in percent; not less than 100 on a full disk.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let share = |used: u64, limit: u64| if limit == 0 { 0.0 } else { used as f64 * 100.0 / limit as f64 };
        let disk = if self.is_disk_full { 100.0 } else { 0.0 };
        share(self.rows, self.max_rows).max(share(self.bytes, self.max_bytes)).max(disk)
    }
}

/// A refusal for want of room says something about the disk for this long.
const REFUSAL_COUNTS_MS: u64 = 60_000;

/// Whether a disk has refused a write for want of room a moment ago. Quotas of file systems show up nowhere else.
#[derive(Debug, Default)]
pub(crate) struct DiskRefusal {
    /// When the last write was refused, in time that passes, and one more; 0: the last write was not.
    at: AtomicU64,
}

impl DiskRefusal {
    pub(crate) fn note(&self, is_refused: bool, passing_ms: u64) {
        let at = if is_refused { passing_ms.saturating_add(1) } else { 0 };
        self.at.store(at, Ordering::Relaxed);
    }

    pub(crate) fn is_recent(&self, passing_ms: u64) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        at > 0 && passing_ms.saturating_sub(at) < REFUSAL_COUNTS_MS
    }
}

/// Bytes of a database and of the log SQLite keeps beside it.
#[must_use]
pub fn bytes_of(database: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    size(database) + size(&beside(database, "-wal"))
}

/// Gives a damaged file another name, together with what SQLite keeps beside it; says which. A file that is not there
/// has been moved before. The log goes first: if the process ends in between, the next one finds the damaged file again.
/// Were the file first, the next process would make an empty one, and SQLite would delete the log beside it.
pub(crate) fn set_aside(path: &Path, now_ms: u64) -> std::io::Result<PathBuf> {
    let aside = beside(path, &format!(".corrupt-{now_ms}"));
    for suffix in ["-wal", "-shm", ""] {
        let (from, to) = (beside(path, suffix), beside(&aside, suffix));
        match std::fs::rename(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(std::io::Error::new(error.kind(), format!("`{}`: {error}", from.display()))),
        }
    }
    Ok(aside)
}

/// A file SQLite keeps beside a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_begin_where_the_contract_says() {
        for (used, level) in
            [(79, Level::Ok), (80, Level::High), (94, Level::High), (95, Level::Full), (100, Level::Degraded)]
        {
            assert_eq!(Level::of(used, 100), level, "{used}");
        }
        assert_eq!(Level::of(u64::MAX, 0), Level::Ok);
        assert_eq!(Level::of(u64::MAX, u64::MAX), Level::Degraded);
    }

    #[test]
    fn a_refusal_counts_until_a_write_succeeds_or_for_a_while() {
        let refusal = DiskRefusal::default();
        assert!(!refusal.is_recent(0));
        refusal.note(true, 0);
        assert!(refusal.is_recent(59_999) && !refusal.is_recent(60_001));
        refusal.note(false, 5);
        assert!(!refusal.is_recent(6));
    }

    #[test]
    fn the_log_of_a_damaged_database_is_moved_before_the_database() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("inbox.db");
        for suffix in ["", "-wal"] {
            std::fs::write(beside(&path, suffix), suffix).unwrap();
        }
        // The move fails at the database, as if the process ended there.
        std::fs::create_dir_all(beside(&path, ".corrupt-7").join("in the way")).unwrap();
        set_aside(&path, 7).unwrap_err();
        assert!(path.exists(), "the next start finds it damaged again");
        assert_eq!(std::fs::read_to_string(beside(&path, ".corrupt-7-wal")).unwrap(), "-wal", "the log is safe");
        std::fs::remove_dir_all(beside(&path, ".corrupt-7")).unwrap();
        assert_eq!(set_aside(&path, 7).unwrap(), beside(&path, ".corrupt-7"));
    }

    #[test]
    fn the_nearer_limit_counts() {
        let pressure = Pressure { rows: 10, max_rows: 100, bytes: 96, max_bytes: 100, is_disk_full: false };
        assert_eq!(pressure.level(), Level::Full);
        assert!((pressure.percent() - 96.0).abs() < 1e-9);
        assert_eq!(Pressure { rows: 100, ..pressure }.level(), Level::Degraded);
        let full = Pressure { is_disk_full: true, ..Pressure::default() };
        assert_eq!((full.level(), full.percent()), (Level::Degraded, 100.0));
    }
}
