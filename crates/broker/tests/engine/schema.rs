//! `broker.db`: its steps.

use std::path::Path;

use hostel_broker::engine::{Append, Engine as _, EngineError, SqliteEngine};
use hostel_store::StoreError;
use rusqlite::Connection;

use crate::engine::support::{dm, open, options};

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

/// Takes the steps after the third back.
const WITHOUT_LATER_STEPS: &str =
    "DROP INDEX log_direct_to; DROP INDEX log_direct_from; DROP TABLE audience_members; DROP TABLE audiences;";

/// A released step never changes: the database it makes is compared with the one it made then. With HOSTEL_UPDATE=1 the
/// snapshot of a new step is written.
#[tokio::test]
async fn the_steps_make_what_they_always_made() {
    let scratch = tempfile::tempdir().unwrap();
    drop(open(scratch.path()).await);
    let found = schema(&scratch.path().join("broker.db"));
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/broker-5.sql");
    if std::env::var_os("HOSTEL_UPDATE").is_some() {
        std::fs::write(&snapshot, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&snapshot).unwrap());
}

/// A database of before is brought up to date: what its logs take is counted as if it had been all along.
#[tokio::test]
async fn a_database_of_the_first_step_is_brought_along() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    for mesh in ["m", "n"] {
        engine.ensure_log(mesh).await.unwrap();
        for number in 0..3 {
            let audience = vec!["bob".to_owned(); number];
            engine.append(Append { audience, ..dm(mesh, &format!("ö {number}")) }).await.unwrap();
        }
    }
    engine.append(dm("n", "one more")).await.unwrap();
    let rooms = |engine: &SqliteEngine| ["m", "n"].map(|mesh| engine.room(mesh).unwrap().used);
    let before = rooms(&engine);
    assert!(before[0] < before[1]);
    engine.close().await;
    drop(engine);
    let path = scratch.path().join("broker.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(WITHOUT_LATER_STEPS).unwrap();
    raw.execute_batch("DROP TABLE audit_base; ALTER TABLE logs DROP COLUMN bytes; PRAGMA user_version = 1;").unwrap();
    drop(raw);
    let first = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/broker-1.sql");
    assert_eq!(schema(&path), std::fs::read_to_string(first).unwrap());
    let engine = open(scratch.path()).await;
    assert_eq!(rooms(&engine), before);
    assert_eq!(engine.read("m", 0, 10, usize::MAX).await.unwrap().len(), 3);
}

/// An audit of before, from whose beginning nothing could go.
#[tokio::test]
async fn a_database_of_the_second_step_is_brought_along() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = crate::engine::audit::filled(scratch.path()).await;
    engine.close().await;
    drop(engine);
    let path = scratch.path().join("broker.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(WITHOUT_LATER_STEPS).unwrap();
    raw.execute_batch("DROP TABLE audit_base; PRAGMA user_version = 2;").unwrap();
    drop(raw);
    let second = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/broker-2.sql");
    assert_eq!(schema(&path), std::fs::read_to_string(second).unwrap());
    let engine = open(scratch.path()).await;
    let verified = engine.audit_verify().await.unwrap();
    assert_eq!((verified.records, verified.broken), (crate::engine::audit::RECORDS, None));
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
