//! `state.db`: its steps, its writer, its readers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hostel_house::store::{self, StoreError};
use hostel_syncpoint::SyncPoint;
use rusqlite::Connection;

use crate::support::within;

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

/// A released step never changes: the database it makes is compared with the one it made then. With
/// HOSTEL_UPDATE=1 the snapshot of a new step is written.
#[test]
fn the_steps_make_what_they_always_made() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("state.db");
    drop(store::open(&path).unwrap());
    let found = schema(&path);
    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/state-9.sql");
    if std::env::var_os("HOSTEL_UPDATE").is_some() {
        std::fs::write(&snapshot, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&snapshot).unwrap());
}

/// A database as the first release made it gets what the later steps add, and loses nothing.
#[test]
fn a_database_of_the_first_release_is_brought_up_to_date() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("state.db");
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let first = std::fs::read_to_string(snapshots.join("state-1.sql")).unwrap();
    let old = Connection::open(&path).unwrap();
    // SQLite makes that one by itself; an index comes after its table.
    let mut parts: Vec<&str> = first.split(";\n").filter(|part| !part.contains("sqlite_sequence")).collect();
    parts.sort_by_key(|part| !part.contains("CREATE TABLE"));
    old.execute_batch(&parts.join(";\n")).unwrap();
    old.execute_batch(
        "PRAGMA user_version = 1;
         INSERT INTO sessions (no, id, agent, kind, door, cwd, mode, hosting, standing, env, approval_wait, created_ns,
         active_ns) VALUES (7, 's', 'a', 'echo', 'd', x'', 'ask', 'warm', 'live', x'', 0, 0, 0);
         INSERT INTO approvals (id, kind, session, request, tool, input, summary, state, created_ns, expires_ns)
         VALUES ('old', 'agent_tool', 7, 'r', 'Bash', '{}', 'a tool', 'pending', 1, 2);",
    )
    .unwrap();
    drop(old);
    drop(store::open(&path).unwrap());
    assert_eq!(schema(&path), std::fs::read_to_string(snapshots.join("state-9.sql")).unwrap());
    let now = Connection::open(&path).unwrap();
    let kept: (String, String, i64) = now
        .query_row("SELECT id, run, (SELECT no FROM audit_head) FROM approvals WHERE session = 7", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(kept, ("old".to_owned(), "none".to_owned(), 0));
    let session: (Option<String>, String) = now
        .query_row("SELECT address, mesh FROM sessions WHERE no = 7", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(session, (None, "off".to_owned()));
}

#[test]
fn a_database_of_a_later_program_is_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("state.db");
    drop(store::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let Err(refused) = store::open(&path) else { panic!("opened") };
    assert!(matches!(refused, StoreError::TooNew { found: 99, .. }), "{refused}");
    assert!(schema(&path).starts_with("-- version 99"));
}

#[test]
fn the_file_is_private() {
    use std::os::unix::fs::MetadataExt as _;
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("state.db");
    let _store = store::open(&path).unwrap();
    for entry in std::fs::read_dir(scratch.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{}", entry.path().display());
    }
}

fn insert(transaction: &rusqlite::Transaction<'_>, door: &str) -> rusqlite::Result<usize> {
    transaction.execute(
        "INSERT INTO sessions (id, agent, kind, door, cwd, mode, hosting, standing, env, approval_wait, created_ns,
         active_ns) VALUES (?1, 'a', 'echo', ?1, x'', 'ask', 'warm', 'live', x'', 0, 0, 0)",
        [door],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_write_takes_back_only_itself() {
    let scratch = tempfile::tempdir().unwrap();
    let store = store::open(&scratch.path().join("state.db")).unwrap();
    let mut tickets = Vec::new();
    for number in 0..100 {
        let work = move |transaction: &rusqlite::Transaction<'_>| {
            insert(transaction, &format!("door {number}"))?;
            // Every third one fails after it has written something.
            match number % 3 {
                0 => insert(transaction, &format!("door {number}")),
                _ => Ok(1),
            }
        };
        tickets.push((number, store.submit(SyncPoint::NONE, work).await.unwrap()));
    }
    for (number, ticket) in tickets {
        assert_eq!(ticket.done().await.is_ok(), number % 3 != 0, "write {number}");
    }
    let count = |connection: &Connection| connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0));
    let kept: i64 = store.read(count).await.unwrap();
    assert_eq!(kept, 66);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_line_is_written_before_the_end_and_nothing_after() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("state.db");
    let store = store::open(&path).unwrap();
    let ticket = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "before")).await.unwrap();
    let writer = store.close();
    ticket.done().await.unwrap();
    while writer.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
    let after = store.write(SyncPoint::NONE, |transaction| insert(transaction, "after")).await;
    assert!(matches!(after, Err(StoreError::Closed)), "{after:?}");
}

/// What may wait for company is written in its place in line, with whoever comes next, and alone a moment later.
#[tokio::test(flavor = "multi_thread")]
async fn a_patient_write_keeps_its_place_and_waits_for_nobody_for_long() {
    let scratch = tempfile::tempdir().unwrap();
    let store = store::open(&scratch.path().join("state.db")).unwrap();
    let count = |transaction: &rusqlite::Transaction<'_>| -> rusqlite::Result<i64> {
        transaction.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
    };
    let patient = store.submit_patiently(SyncPoint::NONE, |transaction| insert(transaction, "patient")).await.unwrap();
    let seen = store.write(SyncPoint::NONE, count).await.unwrap();
    assert_eq!(seen, 1, "what is written after it finds it");
    patient.done().await.unwrap();
    for number in 0..20 {
        let alone =
            store.submit_patiently(SyncPoint::NONE, move |transaction| insert(transaction, &format!("alone {number}")));
        let alone = alone.await.unwrap().done();
        within("a write that is alone", alone).await.unwrap();
    }
    // The writer gives its memory back when it has nothing to do for a while; nothing else may come of that.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(store.write(SyncPoint::NONE, count).await.unwrap(), 21);
    let last = store.submit_patiently(SyncPoint::NONE, |transaction| insert(transaction, "last")).await.unwrap();
    drop(store.close());
    last.done().await.expect("the end waits for what stands in line");
}

/// As SQLite does by itself when the disk is full: everything of the transaction is taken back at once.
fn lose_everything(transaction: &rusqlite::Transaction<'_>) -> rusqlite::Result<usize> {
    transaction.execute_batch("ROLLBACK")?;
    Err(rusqlite::Error::QueryReturnedNoRows)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_wrong_when_a_whole_transaction_is_lost() {
    let scratch = tempfile::tempdir().unwrap();
    let store = store::open(&scratch.path().join("state.db")).unwrap();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel::<()>();
    // The first keeps the writer busy until the others stand in line, so that they are written together.
    let busy = move |_: &rusqlite::Transaction<'_>| {
        begun.send(()).unwrap();
        Ok(held.recv().is_ok())
    };
    let first = store.submit(SyncPoint::NONE, busy).await.unwrap();
    began.await.unwrap();
    let before = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "before")).await.unwrap();
    let lost = store.submit(SyncPoint::NONE, lose_everything).await.unwrap();
    let after = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "after")).await.unwrap();
    hold.send(()).unwrap();
    first.done().await.unwrap();
    for (what, ticket) in [("before", before), ("lost", lost), ("after", after)] {
        let told = ticket.done().await;
        assert!(matches!(told, Err(StoreError::Sqlite(_))), "{what}: {told:?}");
    }
    let count = |connection: &Connection| connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0));
    let kept: i64 = store.read(count).await.unwrap();
    assert_eq!(kept, 0);
    store.write(SyncPoint::NONE, |transaction| insert(transaction, "later")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_somebody_else_holds_is_not_taken_for_closed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("state.db");
    let store = store::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.write(SyncPoint::NONE, |transaction| insert(transaction, "refused")).await;
    assert!(matches!(refused, Err(StoreError::Sqlite(_))), "{refused:?}");
    other.execute_batch("COMMIT").unwrap();
    store.write(SyncPoint::NONE, |transaction| insert(transaction, "taken")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_share_few_connections() {
    let scratch = tempfile::tempdir().unwrap();
    let store = store::open(&scratch.path().join("state.db")).unwrap();
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (store, at_once, most) = (store.clone(), Arc::clone(&at_once), Arc::clone(&most));
        readers.spawn(async move {
            let work = move |_: &Connection| {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // A reader that takes its time, so that others come meanwhile.
                std::thread::sleep(std::time::Duration::from_millis(2));
                at_once.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            };
            store.read(work).await
        });
    }
    while let Some(read) = readers.join_next().await {
        read.unwrap().unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?} at once");
}
