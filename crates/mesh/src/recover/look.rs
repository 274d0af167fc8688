//! What is wrong with the files of a mesh's directory.
//!
//! It changes nothing: databases are opened for reading alone.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use serde_json::Value;

use crate::home::files;
use crate::schema;

/// Files of JSON that a daemon keeps, and how much of one is read.
const FILES: [&str; 7] = [
    "topics.json",
    "roster.json",
    "sessions.json",
    "files.json",
    "keypair.json",
    "keypair-archive.json",
    "host_fingerprint.json",
];
const LARGEST: u64 = 16 * 1024 * 1024;

/// Complaints of SQLite that are repeated.
const COMPLAINTS: usize = 3;

/// How a database is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "detail", rename_all = "snake_case")]
pub enum Database {
    /// There is none: an empty one is made at the next start.
    Missing,
    /// As it should be.
    Sound,
    /// Not as it should be, in SQLite's words.
    Damaged(String),
    /// A later program made it.
    TooNew(String),
}

impl Database {
    /// Whether it cannot be used.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

/// How a small file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its name.
    pub name: &'static str,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What is to be sent.
    pub outbox: Database,
    /// What has come.
    pub inbox: Database,
    /// Small files that are there.
    pub files: Vec<Kept>,
    /// What is wrong with `schema_version`.
    pub schema: Option<String>,
    /// Why the daemon only reads.
    pub read_only: Option<String>,
}

impl Found {
    /// Whether something is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        let files = self.files.iter().any(|kept| kept.problem.is_some());
        self.outbox.is_damaged() || self.inbox.is_damaged() || self.schema.is_some() || files
    }

    /// What a later program made, if something is.
    #[must_use]
    pub fn too_new(&self) -> Option<&str> {
        [&self.outbox, &self.inbox].into_iter().find_map(|database| match database {
            Database::TooNew(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Looks at everything.
#[must_use]
pub fn look(dir: &Path) -> Found {
    let mut outbox = database(&dir.join("outbox.db"), &schema::OUTBOX);
    let mut schema_problem = None;
    match schema::check(dir) {
        Ok(_) => {}
        Err(error @ schema::SchemaError::TooNew { .. }) => outbox = Database::TooNew(error.to_string()),
        Err(error) => schema_problem = Some(error.to_string()),
    }
    let mut inbox = database(&dir.join("inbox.db"), &schema::INBOX);
    if inbox == Database::Sound && dir.join("inbox.db.damaged").exists() {
        inbox = Database::Damaged("it was found to be damaged while it was in use".to_owned());
    }
    Found {
        outbox,
        inbox,
        files: FILES.into_iter().filter_map(|name| file(dir, name)).collect(),
        schema: schema_problem,
        read_only: super::read_only(dir).unwrap_or_else(|error| Some(error.to_string())),
    }
}

fn database(path: &Path, schema: &hostel_store::Schema) -> Database {
    if !path.exists() {
        return Database::Missing;
    }
    let known = i64::try_from(schema.steps.len()).unwrap_or(i64::MAX);
    match complaints(path, schema) {
        Ok((version, _)) if version > known => Database::TooNew(format!(
            "{} is of version {version}, this program knows {known}; use the later program",
            schema.name
        )),
        Ok((_, lines)) if lines == ["ok"] => Database::Sound,
        Ok((_, lines)) => Database::Damaged(lines.join("; ")),
        Err(error) => Database::Damaged(error.to_string()),
    }
}

/// The version a database says it has, and what SQLite says of it.
fn complaints(path: &Path, schema: &hostel_store::Schema) -> rusqlite::Result<(i64, Vec<String>)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({COMPLAINTS})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    // SQLite begins some of its complaints with a line of their own.
    let lines: Vec<String> = lines.iter().map(|line| line.lines().collect::<Vec<_>>().join(" ")).collect();
    let of_ours = usize::try_from(version) == Ok(schema.steps.len());
    if of_ours && lines == ["ok"] && !is_as_made(&connection, schema.steps) {
        return Ok((version, vec!["its tables are not those that were made".to_owned()]));
    }
    Ok((version, lines))
}

/// Whether a database has the tables that some version made.
pub(super) fn was_made(connection: &Connection, schema: &hostel_store::Schema) -> bool {
    (1..=schema.steps.len()).rev().any(|version| is_as_made(connection, &schema.steps[..version]))
}

/// Whether a database has the tables that these steps make: SQLite believes whatever stands there.
fn is_as_made(connection: &Connection, steps: &[&str]) -> bool {
    let tables = |connection: &Connection| {
        let mut statement = connection.prepare("SELECT name, rootpage > 0, sql FROM sqlite_schema ORDER BY name")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, row.get::<_, Option<String>>(2)?))
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    let fresh = || {
        let fresh = Connection::open_in_memory()?;
        for step in steps {
            fresh.execute_batch(step)?;
        }
        tables(&fresh)
    };
    matches!((tables(connection), fresh()), (Ok(there), Ok(made)) if there == made)
}

fn file(dir: &Path, name: &'static str) -> Option<Kept> {
    let problem = match files::read_bounded(&dir.join(name), LARGEST) {
        Ok(None) => return None,
        Ok(Some(bytes)) => {
            let bytes = zeroize::Zeroizing::new(bytes);
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(Value::Object(_) | Value::Array(_)) => None,
                Ok(_) => Some("it is no object".to_owned()),
                // Not the parser's own words: they may quote a key.
                Err(error) => Some(format!("it is not JSON (line {}, column {})", error.line(), error.column())),
            }
        }
        Err(error) => Some(error.to_string()),
    };
    Some(Kept { name, problem })
}
