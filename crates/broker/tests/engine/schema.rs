//! `broker.db`: its steps.

use std::path::Path;

use hostel_broker::engine::{EngineError, SqliteEngine};
use hostel_store::StoreError;
use rusqlite::Connection;

use crate::support::{open, options};

/// Every table and index as SQLite remembers it.
fn schema(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name").unwrap();
    let parts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let parts: Vec<String> = parts.map(|part| part.unwrap()).collect();
    format!("-- version {version}\n{};\n", parts.join(";\n"))
}

/// A released step never changes: the database it makes is compared with the one it made then. With HOSTEL_UPDATE=1 the
/// snapshot of a new step is written.
#[tokio::test]
async fn the_steps_make_what_they_always_made() {
    let scratch = tempfile::tempdir().unwrap();
    drop(open(scratch.path()).await);
    let found = schema(&scratch.path().join("broker.db"));
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/broker-1.sql");
    if std::env::var_os("HOSTEL_UPDATE").is_some() {
        std::fs::write(&snapshot, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&snapshot).unwrap());
}

#[tokio::test]
async fn a_database_of_a_later_program_is_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    drop(open(scratch.path()).await);
    let path = scratch.path().join("broker.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let Err(refused) = SqliteEngine::open(options(scratch.path())).await else { panic!("opened") };
    assert!(matches!(refused, EngineError::Store(StoreError::TooNew { found: 99, .. })), "{refused}");
    assert!(schema(&path).starts_with("-- version 99"));
}

#[tokio::test]
async fn the_files_are_private() {
    use std::os::unix::fs::MetadataExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let _engine = open(scratch.path()).await;
    for entry in std::fs::read_dir(scratch.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{}", entry.path().display());
    }
}
