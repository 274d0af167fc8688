//! How full a database is: rows against their limit, bytes of its files against theirs, whichever is nearer.
//!
//! Invariant: levels follow from the numbers alone. It deletes nothing and refuses nothing; its callers do.

use std::path::{Path, PathBuf};

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
}

impl Pressure {
    /// The graver of the two.
    #[must_use]
    pub fn level(&self) -> Level {
        Level::of(self.rows, self.max_rows).max(Level::of(self.bytes, self.max_bytes))
    }

    /// The nearer of the two, in percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let share = |used: u64, limit: u64| if limit == 0 { 0.0 } else { used as f64 * 100.0 / limit as f64 };
        share(self.rows, self.max_rows).max(share(self.bytes, self.max_bytes))
    }
}

/// Bytes of a database and of the log SQLite keeps beside it.
#[must_use]
pub fn bytes_of(database: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    size(database) + size(&beside(database, "-wal"))
}

/// Gives a damaged file another name, together with what SQLite keeps beside it; says which. A file that is not there
/// has been moved before.
pub(crate) fn set_aside(path: &Path, now_ms: u64) -> std::io::Result<PathBuf> {
    let aside = beside(path, &format!(".corrupt-{now_ms}"));
    for suffix in ["", "-wal", "-shm"] {
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
    fn the_nearer_limit_counts() {
        let pressure = Pressure { rows: 10, max_rows: 100, bytes: 96, max_bytes: 100 };
        assert_eq!(pressure.level(), Level::Full);
        assert!((pressure.percent() - 96.0).abs() < 1e-9);
        assert_eq!(Pressure { rows: 100, ..pressure }.level(), Level::Degraded);
    }
}
