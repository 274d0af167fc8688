//! A copy of a database as it is at one moment, while others write to it.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::{BUSY, StoreError, make_private};

/// Pages copied in one step.
const PAGES: i32 = 1024;

/// Copies a database into a new file, 0600. What is committed while it runs is not part of the copy.
pub fn snapshot(from: &Path, to: &Path) -> Result<(), StoreError> {
    let name = from.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let failed = |error: rusqlite::Error| StoreError::of(&name, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(failed)?;
    source.busy_timeout(BUSY).map_err(failed)?;
    // One reading transaction for all steps: the moment is this one.
    source.execute_batch("BEGIN").map_err(failed)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).map_err(failed)?;
    make_private(&name, to)?;
    let mut copy = Connection::open(to).map_err(failed)?;
    {
        let backup = Backup::new(&source, &mut copy).map_err(failed)?;
        loop {
            match backup.step(PAGES).map_err(failed)? {
                StepResult::Done => break,
                StepResult::More => {}
                // Only another connection to the copy could be in the way, and there is none.
                _ => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        }
    }
    copy.close().map_err(|(_, error)| failed(error))
}
