//! The steps of outbox and inbox, and the file that says which were made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use std::path::Path;

use hostel_mesh::inbox::{Inbox, InboxOpenError};
use hostel_mesh::outbox::{Outbox, OutboxError};
use hostel_mesh::schema::{self, SchemaError};
use rusqlite::Connection;
use store_support::{Hands, inbox, inbox_options, outbox, outbox_options};

/// Every table and index as SQLite remembers it.
fn made(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name").unwrap();
    let parts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let parts: Vec<String> = parts.map(|part| part.unwrap()).collect();
    format!("-- version {version}\n{};\n", parts.join(";\n"))
}

/// A released step never changes: the database it makes is compared with the one it made then. With HOSTEL_UPDATE=1
/// the snapshot of a new step is written.
fn compare(path: &Path, name: &str) {
    let found = made(path);
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("HOSTEL_UPDATE").is_some() {
        std::fs::write(&snapshot, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&snapshot).unwrap());
}

#[tokio::test]
async fn the_steps_make_what_they_always_made() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    drop(outbox(scratch.path(), &hands).await);
    drop(inbox(scratch.path(), &hands).await);
    for schema in [schema::OUTBOX, schema::INBOX] {
        let stem = schema.name.trim_end_matches(".db");
        compare(&scratch.path().join(schema.name), &format!("{stem}-{}.sql", schema.steps.len()));
        // And as each step before the last left it.
        let path = scratch.path().join(format!("{stem}-by-step.db"));
        let connection = Connection::open(&path).unwrap();
        for (step, number) in schema.steps.iter().zip(1..) {
            connection.execute_batch(step).unwrap();
            connection.pragma_update(None, "user_version", number).unwrap();
            compare(&path, &format!("{stem}-{number}.sql"));
        }
    }
}

#[tokio::test]
async fn databases_of_a_later_program_are_refused_and_left_alone() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    drop(outbox(scratch.path(), &hands).await);
    drop(inbox(scratch.path(), &hands).await);
    for name in ["outbox.db", "inbox.db"] {
        Connection::open(scratch.path().join(name)).unwrap().pragma_update(None, "user_version", 99).unwrap();
    }
    let refused = Outbox::open(outbox_options(scratch.path(), &hands)).await.err().unwrap();
    assert!(matches!(&refused, OutboxError::TooNew(text) if text.contains("99")), "{refused}");
    let refused = Inbox::open(inbox_options(scratch.path(), &hands)).await.err().unwrap();
    assert!(matches!(&refused, InboxOpenError::TooNew(text) if text.contains("99")), "{refused}");
    assert!(made(&scratch.path().join("inbox.db")).starts_with("-- version 99"));
}

#[test]
fn the_file_says_which_version_it_is() {
    use std::os::unix::fs::MetadataExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("schema_version");
    assert_eq!(schema::check(scratch.path()).unwrap(), None);
    schema::record(scratch.path()).unwrap();
    schema::record(scratch.path()).unwrap();
    assert_eq!(schema::check(scratch.path()).unwrap(), Some(schema::VERSION));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", schema::VERSION));
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o022, 0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);

    std::fs::write(&file, "99\n").unwrap();
    let refused = schema::check(scratch.path()).unwrap_err();
    assert!(matches!(refused, SchemaError::TooNew { found: 99, .. }), "{refused}");
    for text in ["", "one", "-1", "1.5"] {
        std::fs::write(&file, text).unwrap();
        let refused = schema::check(scratch.path()).unwrap_err();
        assert!(matches!(refused, SchemaError::Unreadable { .. }), "{text}: {refused}");
    }
}

/// The file counts every step of both databases.
#[test]
fn every_step_raises_the_version() {
    assert_eq!(schema::VERSION as usize, schema::OUTBOX.steps.len() + schema::INBOX.steps.len() - 1);
}

#[tokio::test]
async fn the_files_are_private() {
    use std::os::unix::fs::MetadataExt as _;
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let (_outbox, _inbox) = (outbox(scratch.path(), &hands).await, inbox(scratch.path(), &hands).await);
    for entry in std::fs::read_dir(scratch.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{}", entry.path().display());
    }
}
