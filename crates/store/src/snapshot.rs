//! A copy of a database as it is at one moment, while others write to it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{BUSY, StoreError, make_private};

/// Pages copied in one step.
const PAGES: i32 = 1024;

/// How long until a step that was hindered is tried again.
const LOOK: Duration = Duration::from_millis(5);

/// Copies a database into a new file, 0600. What is committed while it runs is not part of the copy.
pub fn snapshot(from: &Path, to: &Path) -> Result<(), StoreError> {
    copy(from, to, BUSY)
}

/// The same, waiting this long for a lock somebody else holds.
fn copy(from: &Path, to: &Path, patience: Duration) -> Result<(), StoreError> {
    let name = from.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let failed = |error: rusqlite::Error| StoreError::of(&name, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(failed)?;
    source.busy_timeout(patience).map_err(failed)?;
    // One reading transaction for all steps: the moment is this one.
    source.execute_batch("BEGIN").map_err(failed)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).map_err(failed)?;
    make_private(&name, to)?;
    let mut copy = Connection::open(to).map_err(failed)?;
    // It is waited for below.
    copy.busy_timeout(Duration::ZERO).map_err(failed)?;
    {
        let backup = Backup::new(&source, &mut copy).map_err(failed)?;
        let mut hindered = None;
        loop {
            match backup.step(PAGES).map_err(failed)? {
                StepResult::Done => break,
                StepResult::More => hindered = None,
                // Somebody else holds a lock on one of the two; a while is waited for that, as everywhere.
                _ if hindered.get_or_insert_with(Instant::now).elapsed() < patience => std::thread::sleep(LOOK),
                _ => return Err(StoreError::Busy(format!("{name}: somebody holds a lock on it or on its copy"))),
            }
        }
    }
    copy.close().map_err(|(_, error)| failed(error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_let_go_is_not_waited_for_for_ever() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("a.db"), scratch.path().join("b.db"));
        Connection::open(&from).unwrap().execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (7)").unwrap();
        let holder = Connection::open(&to).unwrap();
        holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let refused = copy(&from, &to, Duration::from_millis(20));
        assert!(matches!(refused, Err(StoreError::Busy(_))), "{refused:?}");
        holder.execute_batch("ROLLBACK").unwrap();
        snapshot(&from, &to).unwrap();
        let n: i64 = holder.query_row("SELECT n FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(n, 7);
    }
}
