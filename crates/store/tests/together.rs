//! Writes that share a commit: who fails, who is told, and what is there afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use hostel_store::{Options, Schema, Store, StoreError, SyncPoint};
use rusqlite::Transaction;

const SCHEMA: Schema = Schema { name: "test.db", steps: &["CREATE TABLE t (name TEXT NOT NULL UNIQUE) STRICT;"] };

fn open(directory: &Path, inline: bool) -> Store {
    Store::open(&directory.join("test.db"), &SCHEMA, Options { inline, ..Options::default() }).unwrap()
}

fn insert(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO t (name) VALUES (?)", [name]).map(drop)
}

async fn names(store: &Store) -> Vec<String> {
    let read = store.read(|connection| {
        let mut statement = connection.prepare("SELECT name FROM t ORDER BY rowid")?;
        statement.query_map([], |row| row.get(0))?.collect()
    });
    read.await.unwrap()
}

/// Holds the writer until it is let go, so that what comes meanwhile is written together.
async fn hold(store: &Store) -> mpsc::Sender<()> {
    let (go, gone) = mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let held = store.submit(SyncPoint::NONE, move |_| {
        begun.send(()).ok();
        gone.recv().ok();
        Ok(())
    });
    drop(held.await.unwrap());
    began.await.unwrap();
    go
}

#[tokio::test]
async fn a_write_that_fails_alone_leaves_nothing_and_says_why() {
    for inline in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path(), inline);
        store.write(SyncPoint::NONE, |transaction| insert(transaction, "a")).await.unwrap();
        let failed = store.write(SyncPoint::NONE, |transaction| {
            insert(transaction, "half")?;
            insert(transaction, "a")
        });
        let error = failed.await.unwrap_err();
        assert!(error.to_string().contains("UNIQUE"), "{error}");
        store.write(SyncPoint::NONE, |transaction| insert(transaction, "b")).await.unwrap();
        assert_eq!(names(&store).await, ["a", "b"]);
    }
}

#[tokio::test]
async fn a_write_that_fails_among_others_takes_back_itself() {
    let scratch = tempfile::tempdir().unwrap();
    let store = open(scratch.path(), false);
    let go = hold(&store).await;
    let one = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "one")).await.unwrap();
    let wrong = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "one")).await.unwrap();
    let two = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "two")).await.unwrap();
    drop(go);
    assert!(one.done().await.is_ok() && wrong.done().await.is_err() && two.done().await.is_ok());
    assert_eq!(names(&store).await, ["one", "two"]);
}

#[tokio::test]
async fn one_that_only_the_disk_can_refuse_takes_the_others_along() {
    let scratch = tempfile::tempdir().unwrap();
    let store = open(scratch.path(), false);
    store.write(SyncPoint::NONE, |transaction| insert(transaction, "there")).await.unwrap();
    let go = hold(&store).await;
    let before = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "before")).await.unwrap();
    let whole = tokio::spawn({
        let store = store.clone();
        async move { store.write_then(SyncPoint::NONE, |transaction| insert(transaction, "there"), |result| result).await }
    });
    tokio::task::yield_now().await;
    let after = store.submit(SyncPoint::NONE, |transaction| insert(transaction, "after")).await.unwrap();
    drop(go);
    let error = whole.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    for told in [before.done().await, after.done().await] {
        assert!(told.unwrap_err().to_string().contains("together with this"));
    }
    assert_eq!(names(&store).await, ["there"]);
}

#[tokio::test]
async fn what_follows_a_write_is_done_before_the_next_and_without_its_asker() {
    for inline in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path(), inline);
        let seen = Arc::new(AtomicU32::new(0));
        for number in 0..50_u32 {
            let (counted, looked) = (Arc::clone(&seen), Arc::clone(&seen));
            let write = store.write_then(
                SyncPoint::NONE,
                move |transaction| insert(transaction, &format!("m{number}")),
                move |result: Result<(), StoreError>| {
                    result?;
                    Ok(counted.fetch_add(1, Ordering::SeqCst))
                },
            );
            // Every other one leaves as soon as it stands in line.
            if number % 2 == 0 {
                let mut write = Box::pin(write);
                stand_in_line(write.as_mut(), inline).await;
            } else {
                assert_eq!(write.await.unwrap(), number);
            }
            // What is written together with it may come before what follows it; what is written next does not.
            store.write(SyncPoint::NONE, |_| Ok(())).await.unwrap();
            let look = store.write(SyncPoint::NONE, move |_| Ok(looked.load(Ordering::SeqCst)));
            assert_eq!(look.await.unwrap(), number + 1);
        }
        assert_eq!(names(&store).await.len(), 50);
    }
}

#[tokio::test]
async fn a_closed_database_is_one_complete_file() {
    for inline in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path(), inline);
        store.write(SyncPoint::NONE, |transaction| insert(transaction, "a")).await.unwrap();
        // A connection that reads stays open for the next read; it must not keep the log beside the file.
        assert_eq!(names(&store).await, ["a"]);
        store.write(SyncPoint::NONE, |transaction| insert(transaction, "b")).await.unwrap();
        assert!(store.closed(Duration::from_secs(20)).await);
        let copy = scratch.path().join("copy.db");
        std::fs::copy(scratch.path().join("test.db"), &copy).unwrap();
        let copy = rusqlite::Connection::open(&copy).unwrap();
        let count: i64 = copy.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2, "inline: {inline}");
        let log = std::fs::metadata(scratch.path().join("test.db-wal")).map_or(0, |log| log.len());
        assert_eq!(log, 0, "inline: {inline}");
        let late = store.read(|_| Ok(())).await;
        assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    }
}

#[tokio::test]
async fn a_file_shrinks_when_much_of_it_was_deleted() {
    let scratch = tempfile::tempdir().unwrap();
    let store = open(scratch.path(), false);
    let size = || std::fs::metadata(scratch.path().join("test.db")).unwrap().len();
    let fill = |transaction: &Transaction<'_>| {
        for number in 0..400_u32 {
            insert(transaction, &format!("{number:0>60000}"))?;
        }
        Ok(())
    };
    store.write(SyncPoint::NONE, fill).await.unwrap();
    store.write(SyncPoint::NONE, |transaction| transaction.execute("DELETE FROM t", []).map(drop)).await.unwrap();
    let pages =
        |sql: &'static str| store.read(move |connection| connection.query_row(sql, [], |row| row.get::<_, i64>(0)));
    tokio::time::timeout(Duration::from_secs(60), async {
        while pages("PRAGMA page_count").await.unwrap() > 2000 || size() > 8 << 20 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_ended_and_its_connection_serves_others() {
    let scratch = tempfile::tempdir().unwrap();
    let store = open(scratch.path(), false);
    let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let slow = store.read_within(Duration::from_millis(20), move |connection| {
        connection.query_row(endless, [], |row| row.get::<_, i64>(0))
    });
    let ended = slow.await;
    assert!(matches!(&ended, Err(StoreError::Busy(text)) if text.contains("took longer")), "{ended:?}");
    for _ in 0..20 {
        let quick = store.read_within(Duration::from_secs(60), |connection| {
            connection.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))
        });
        assert_eq!(quick.await.unwrap(), 7);
    }
}

/// Polls a future that writes once, or, where the write happens on its caller, twice: then it stands in line.
async fn stand_in_line<F: Future + ?Sized>(mut future: std::pin::Pin<&mut F>, inline: bool) {
    let mut left = if inline { 2 } else { 1 };
    std::future::poll_fn(|context| {
        while left > 0 && future.as_mut().poll(context).is_pending() {
            left -= 1;
        }
        std::task::Poll::Ready(())
    })
    .await;
}
