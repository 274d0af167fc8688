//! The inbox over the years: what goes when it is old or too much, and how it is opened in whatever state it was left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use hostel_mesh::inbox::{Arrival, Content, Cursor, Health, Inbox, InboxOptions, Opened, Scope, Sealed};
use hostel_wire::Clock;
use rusqlite::Connection;
use store_support::{DAY, Hands, all, arrival, bodies, cursor, inbox, inbox_options, sealed, store};

#[tokio::test]
async fn old_rows_go_and_so_does_what_is_too_much() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let mut options = inbox_options(scratch.path(), &hands);
    options.max_bytes = 400_000;
    let (inbox, _) = Inbox::open(options).await.unwrap();
    let batch =
        |from: u64| (from..from + 600).map(|n| arrival("bob", &format!("m{n}"), n, &format!("word{n}"))).collect();
    store(&inbox, batch(0)).await;
    hands.forward(15 * DAY);
    store(&inbox, vec![arrival("bob", "young", 9000, "young")]).await;
    hands.forward(15 * DAY);
    assert_eq!(inbox.sweep().await.unwrap(), 0);
    hands.forward(1);
    assert_eq!(inbox.sweep().await.unwrap(), 600);
    assert_eq!(inbox.counts().rows, 1);
    assert_eq!(inbox.search("word5", 10, Scope::Member).await.unwrap().found, []);
    for round in 1..20 {
        store(&inbox, batch(round * 1000)).await;
        hands.forward(1);
    }
    let before = inbox.counts().rows;
    let size = || {
        Connection::open(scratch.path().join("inbox.db"))
            .unwrap()
            .query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let full = size();
    let swept = inbox.sweep().await.unwrap();
    assert!(swept > 0 && swept < before, "{swept} of {before}");
    let kept = all(&inbox).await;
    assert_eq!(kept[0].body.as_deref(), Some("word19599"), "the newest stay");
    assert!(!inbox.vacuum_if_due().await.unwrap(), "the week begins with the first look");
    hands.forward(7 * DAY);
    assert!(size() < full, "the room is given back at once: {} of {full}", size());
    assert!(inbox.vacuum_if_due().await.unwrap());
    assert!(!inbox.vacuum_if_due().await.unwrap());
}

#[tokio::test]
async fn the_limit_holds_while_messages_come() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let mut options = inbox_options(scratch.path(), &hands);
    options.max_bytes = 4 << 20;
    let (inbox, _) = Inbox::open(options).await.unwrap();
    let body = "x".repeat(20_000);
    for round in 0..40 {
        let batch = (0..20).map(|n| arrival("bob", &format!("m{round}-{n}"), round * 20 + n, &body)).collect();
        store(&inbox, batch).await;
        hands.forward(1);
        // What the daemon's housekeeping does when the inbox says that much has come.
        if inbox.crowded().notified().now_or_never().is_some() {
            inbox.keep_limit().await.unwrap();
        }
    }
    checkpoint(&scratch.path().join("inbox.db"));
    let pressure = inbox.pressure();
    assert!(pressure.bytes < 6 << 20, "{pressure:?}");
    let newest = all(&inbox).await;
    assert!(newest.len() > 50 && newest[0].broker_seq >= 780, "{}", newest.len());
}

/// Everything of the database into its one file.
fn checkpoint(path: &std::path::Path) {
    Connection::open(path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_inbox_is_set_aside() {
    for inline in [true, false] {
        let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
        let path = scratch.path().join("inbox.db");
        let options = || hostel_mesh::inbox::InboxOptions { inline, ..inbox_options(scratch.path(), &hands) };
        {
            let (inbox, opened) = Inbox::open(options()).await.unwrap();
            assert_eq!(opened, Opened::default());
            let many = (0..500).map(|n| arrival("bob", &format!("m{n}"), n, &"hello ".repeat(20))).collect();
            inbox.store(many, Vec::new(), Some(cursor(500, &[]))).await.unwrap();
            let writer = inbox.close();
            while writer.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        }
        checkpoint(&path);
        let whole = std::fs::read(&path).unwrap();
        let mut pages = whole.clone();
        let middle = pages.len() / 2;
        for byte in &mut pages[middle..] {
            *byte ^= 0x55;
        }
        for (round, damaged) in [pages, b"this is no database".repeat(1000)].into_iter().enumerate() {
            std::fs::write(&path, &damaged).unwrap();
            hands.forward(1);
            let (inbox, opened) = Inbox::open(options()).await.unwrap();
            let aside = opened.recovered.expect("it was damaged");
            assert_eq!(aside, scratch.path().join(format!("inbox.db.corrupt-{}", hands.now())));
            assert_eq!(std::fs::read(&aside).unwrap().len(), damaged.len(), "round {round}");
            assert_eq!(inbox.cursor().await.unwrap(), Cursor::default(), "everything is to be had again");
            assert_eq!(store(&inbox, vec![arrival("bob", "m1", 1, "again")]).await.len(), 1);
            assert_eq!(bodies(&all(&inbox).await), ["again"]);
            let writer = inbox.close();
            drop(inbox);
            while writer.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
            checkpoint(&path);
        }
    }
}

#[tokio::test]
async fn a_damaged_index_is_made_anew() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let path = scratch.path().join("inbox.db");
    {
        let inbox = inbox(scratch.path(), &hands).await;
        let many = (0..500).map(|n| arrival("bob", &format!("m{n}"), n, &format!("hello word{n}"))).collect();
        store(&inbox, many).await;
    }
    let connection = Connection::open(&path).unwrap();
    connection.execute("DELETE FROM inbox_fts_data WHERE id > 10", []).unwrap();
    drop(connection);
    let (inbox, opened) = Inbox::open(inbox_options(scratch.path(), &hands)).await.unwrap();
    assert_eq!(opened, Opened { rebuilt: true, ..Opened::default() });
    assert_eq!(inbox.search("word77", 10, Scope::Member).await.unwrap().found.len(), 1);
    assert_eq!(inbox.search("hello", 1000, Scope::Member).await.unwrap().found.len(), 500);
    drop(inbox);
    let (_, opened) = Inbox::open(inbox_options(scratch.path(), &hands)).await.unwrap();
    assert_eq!(opened, Opened::default());
}

/// The rows are all there is to know: whatever is inserted, deleted or opened, the index says the same.
#[tokio::test]
async fn the_index_follows_the_rows() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let inbox = inbox(scratch.path(), &hands).await;
    for round in 0..5_u64 {
        let many = (0..40).map(|n| arrival("bob", &format!("{round}-{n}"), n, &format!("w{n} round{round}"))).collect();
        store(&inbox, many).await;
        hands.forward(1);
        let rows = all(&inbox).await;
        for row in rows.iter().step_by(3) {
            inbox.delete(&row.id, Scope::Member).await.unwrap();
        }
    }
    let left = all(&inbox).await;
    for round in 0..5 {
        let word = format!("round{round}");
        let found = inbox.search(&word, 1000, Scope::Member).await.unwrap().found;
        let found: BTreeSet<String> = found.into_iter().map(|found| found.row.id).collect();
        let expected = left.iter().filter(|row| row.body.as_ref().unwrap().contains(&word)).map(|row| row.id.clone());
        assert_eq!(found, expected.collect());
    }
    drop(inbox);
    let connection = Connection::open(scratch.path().join("inbox.db")).unwrap();
    connection.execute("INSERT INTO inbox_fts (inbox_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
}

/// A large inbox that was not closed is used at once and looked through later; what is found then counts at the next
/// start.
#[tokio::test]
async fn a_large_inbox_does_not_hold_up_the_start() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let path = scratch.path().join("inbox.db");
    let open = async || Inbox::open(inbox_options(scratch.path(), &hands)).await.unwrap();
    let sealed = || match sealed(0) {
        Content::KeyPending(sealed) => Content::KeyPending(Sealed { ciphertext: "c".repeat(128 * 1024), ..sealed }),
        other => other,
    };
    let large = |n: u64| Arrival { content: sealed(), ..arrival("bob", &format!("m{n}"), n, "") };
    {
        let (inbox, opened) = open().await;
        assert!(!opened.unchecked);
        for from in (0..600).step_by(60) {
            store(&inbox, (from..from + 60).map(large).collect()).await;
        }
    }
    let (inbox, opened) = open().await;
    assert!(opened.unchecked && inbox.is_unchecked());
    assert_eq!(inbox.look_through().await.unwrap(), Health::Sound);
    assert!(!inbox.is_unchecked());
    drop(inbox.close());
    drop(inbox);
    let (inbox, opened) = open().await;
    assert!(!opened.unchecked, "it was closed");
    drop(inbox);

    checkpoint(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    // Nearly all pages hold the middle of a long text: one whose chain is broken is not noticed at the start.
    let page = bytes.len() / 4096 / 4 * 3;
    bytes[page * 4096..][..64].fill(0x55);
    std::fs::write(&path, &bytes).unwrap();
    let (inbox, opened) = open().await;
    assert!(opened.unchecked && opened.recovered.is_none());
    assert_eq!(inbox.look_through().await.unwrap(), Health::Damaged);
    drop(inbox);
    let (inbox, opened) = open().await;
    assert!(opened.recovered.is_some());
    assert_eq!(inbox.counts().rows, 0);
    drop(inbox);
    let (_, opened) = open().await;
    assert_eq!(opened, Opened::default());
}

#[tokio::test]
async fn a_clock_that_is_set_forward_throws_nothing_away() {
    let scratch = tempfile::tempdir().unwrap();
    let (hands, passing) = (Hands::new(), Hands::new());
    let (shown, passed) = (hands.clone(), passing.clone());
    let clock = Clock::of_both(move || shown.now(), move || passed.now());
    let options = InboxOptions::new(scratch.path().join("inbox.db"), "lab", clock);
    let (inbox, _) = Inbox::open(InboxOptions { inline: true, ..options }).await.unwrap();
    store(&inbox, vec![arrival("alice", "a", 1, "old")]).await;
    hands.forward(40 * DAY);
    assert_eq!(inbox.sweep().await.unwrap(), 0);
    assert_eq!(inbox.events().sweep().await.unwrap(), 0);
    store(&inbox, vec![arrival("alice", "b", 2, "new")]).await;
    // What only passes makes older, and nobody has set anything since.
    passing.forward(31 * DAY);
    assert_eq!(inbox.sweep().await.unwrap(), 1);
    assert_eq!(all(&inbox).await.len(), 1);
}
