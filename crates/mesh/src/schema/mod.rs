//! What the databases of a mesh daemon look like, and which version of that this program knows.
//!
//! Invariant: steps go forward only, one transaction each; a released step never changes (a snapshot test holds the
//! database it makes). A directory that a later program has used is refused before anything in it is opened.

mod row_id;

pub(crate) use row_id::RowId;

use std::io::Write as _;
use std::path::Path;

use hostel_store::Schema;

/// The steps of `outbox.db`.
pub const OUTBOX: Schema = Schema {
    name: "outbox.db",
    steps: &[include_str!("outbox/0001.sql"), include_str!("outbox/0002.sql"), include_str!("outbox/0003.sql")],
};

/// The steps of `inbox.db`.
pub const INBOX: Schema = Schema {
    name: "inbox.db",
    steps: &[include_str!("inbox/0001.sql"), include_str!("inbox/0002.sql"), include_str!("inbox/0003.sql")],
};

/// Both together, as the file `schema_version` has it: one more for every step after each first.
pub const VERSION: u32 = (OUTBOX.steps.len() + INBOX.steps.len() - 1) as u32;

/// The file's name.
const FILE: &str = "schema_version";

/// Why the directory may not be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A later program was here.
    #[error("`{path}` says version {found}, this program knows {known}; install the version that wrote it")]
    TooNew {
        /// The file.
        path: String,
        /// What it says.
        found: u32,
        /// What we know.
        known: u32,
    },
    /// It does not say a number.
    #[error("`{path}` does not hold a version: `{text}`")]
    Unreadable {
        /// The file.
        path: String,
        /// What it says.
        text: String,
    },
    /// The disk's own reason.
    #[error("`{path}`: {error}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
}

/// Looks before anything is opened: `None` for a directory that was never used.
pub fn check(directory: &Path) -> Result<Option<u32>, SchemaError> {
    let path = directory.join(FILE);
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SchemaError::Io { path: shown, error }),
    };
    match text.trim().parse() {
        Ok(found) if found > VERSION => Err(SchemaError::TooNew { path: shown, found, known: VERSION }),
        Ok(found) => Ok(Some(found)),
        Err(_) => Err(SchemaError::Unreadable { path: shown, text: text.chars().take(40).collect() }),
    }
}

/// Writes the version down, once both databases are of it.
pub fn record(directory: &Path) -> Result<(), SchemaError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let (path, fresh) = (directory.join(FILE), directory.join(".schema_version.new"));
    let write = || {
        std::fs::remove_file(&fresh).ok();
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&fresh)?;
        file.write_all(format!("{VERSION}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)
    };
    write().map_err(|error| SchemaError::Io { path: path.display().to_string(), error })
}

/// As SQLite can hold it: what is beyond is as good as the largest number there is.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
