//! A write that panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

use hostel_store::{Options, Schema, Store, SyncPoint};

const SCHEMA: Schema = Schema { name: "test.db", steps: &["CREATE TABLE t (name TEXT NOT NULL UNIQUE) STRICT;"] };

/// Set in the process that panics: where its database is.
const DATABASE: &str = "HOSTEL_STORE_PANIC_TEST";

const SIGABRT: i32 = 6;

#[tokio::test]
async fn a_panic_of_the_writer_ends_the_process_and_what_was_acknowledged_stays() {
    if let Some(path) = std::env::var_os(DATABASE) {
        let store = Store::open(path.as_ref(), &SCHEMA, Options::default()).unwrap();
        let insert = |name: &'static str| {
            store.write(SyncPoint::NONE, move |transaction| {
                transaction.execute("INSERT INTO t (name) VALUES (?)", [name]).map(drop)
            })
        };
        insert("kept").await.unwrap();
        let broken = store.write(SyncPoint::NONE, |_| -> rusqlite::Result<()> { panic!("a mistake in a write") });
        broken.await.ok();
        // The abort may come a moment after the asker was told. A process that outlives this has no writer any more.
        tokio::time::timeout(Duration::from_secs(60), std::future::pending::<()>()).await.ok();
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("test.db");
    let own = std::env::current_exe().unwrap();
    let ended = Command::new(own)
        .args(["--exact", "panics::a_panic_of_the_writer_ends_the_process_and_what_was_acknowledged_stays"])
        .env(DATABASE, &path)
        .output()
        .unwrap();
    assert_eq!(ended.status.signal(), Some(SIGABRT), "{ended:?}");
    let store = Store::open(&path, &SCHEMA, Options::default()).unwrap();
    let names: Vec<String> = store
        .read(|connection| connection.prepare("SELECT name FROM t")?.query_map([], |row| row.get(0))?.collect())
        .await
        .unwrap();
    assert_eq!(names, ["kept"]);
}
