//! How rows of the outbox end, and what an operator may do: too old, given up, sent again, forgotten, lost by a log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use hostel_mesh::outbox::{DestKind, NewMessage, Outbox, OutboxError, RefusedRow, RequeueError, Row, Status};
use hostel_wire::frames::Priority;
use store_support::{DAY, HOUR, Hands, acked, claim_all, dm, ids, outbox, outbox_options};

#[tokio::test]
async fn a_damaged_outbox_is_not_opened() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let path = scratch.path().join("outbox.db");
    {
        let outbox = outbox(scratch.path(), &hands).await;
        for number in 0..200 {
            outbox.accept(dm(&format!("m{number}"), "bob", &"hello ".repeat(50))).await.unwrap();
        }
    }
    // Everything into the one file.
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut pages = whole.clone();
    for byte in &mut pages[8192..] {
        *byte ^= 0x55;
    }
    for damaged in [pages, b"this is no database, and never was one".repeat(100)] {
        std::fs::write(&path, damaged).unwrap();
        let refused = Outbox::open(outbox_options(scratch.path(), &hands)).await.err().unwrap();
        assert!(matches!(refused, OutboxError::Corrupt(_)), "{refused:?}");
        assert!(refused.to_string().contains("`claudemesh daemon recover`"), "{refused}");
    }
    std::fs::write(&path, whole).unwrap();
    assert_eq!(outbox(scratch.path(), &hands).await.depth().pending, 200);
}

/// Looking through a large outbox takes long: it is done while it is in use, and only if it was not closed.
#[tokio::test]
async fn a_large_outbox_is_looked_through_after_the_start() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let path = scratch.path().join("outbox.db");
    let first = outbox(scratch.path(), &hands).await;
    first.accept(dm("a", "bob", "hello")).await.unwrap();
    assert!(!first.is_unchecked());
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch("CREATE TABLE large (bytes); INSERT INTO large VALUES (zeroblob(70 << 20))").unwrap();
    // As if killed.
    drop((first, raw));
    let second = outbox(scratch.path(), &hands).await;
    assert!(second.is_unchecked());
    assert_eq!(second.look_through().await.unwrap(), None);
    assert!(!second.is_unchecked());
    drop(second.close());
    let third = outbox(scratch.path(), &hands).await;
    assert!(!third.is_unchecked(), "it was closed");
    assert_eq!(third.depth().pending, 1);
    drop(third);
    // Damage that is found while it is in use refuses the next start, however it ended.
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    let place = bytes.windows(5).rposition(|five| five == b"hello").unwrap();
    let page = place / 4096 * 4096;
    bytes[page..page + 64].fill(0xff);
    let fourth = outbox(scratch.path(), &hands).await;
    std::fs::write(&path, &bytes).unwrap();
    let found = fourth.look_through().await.unwrap();
    assert!(found.is_some());
    drop(fourth.close());
    std::fs::write(&path, &bytes).unwrap();
    let refused = Outbox::open(outbox_options(scratch.path(), &hands)).await.err().unwrap();
    assert!(matches!(refused, OutboxError::Corrupt(_)), "{refused:?}");
    // Recovered, it is opened again.
    std::fs::write(&path, whole).unwrap();
    assert_eq!(outbox(scratch.path(), &hands).await.depth().pending, 1);
}

#[tokio::test]
async fn what_is_too_old_is_given_up() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    outbox.accept(dm("old", "bob", "hello")).await.unwrap();
    hands.forward(100 * HOUR);
    outbox.accept(dm("young", "bob", "hello")).await.unwrap();
    hands.forward(68 * HOUR - 1);
    assert_eq!(outbox.expire().await.unwrap(), []);
    hands.forward(1);
    let claimed = outbox.claim(10, usize::MAX, |_| true).await.unwrap();
    assert_eq!((ids(&claimed.rows), claimed.dead.len()), (vec!["young"], 1));
    assert_eq!((claimed.dead[0].client_message_id.as_str(), claimed.dead[0].code.as_str()), ("old", "expired"));
    hands.forward(101 * HOUR);
    assert_eq!(outbox.expire().await.unwrap(), [], "it may be in the log");
    outbox.release_all().await.unwrap();
    assert_eq!(outbox.expire().await.unwrap().len(), 1);
    assert_eq!(outbox.depth().dead, 2);
    // A broker that forgets sooner brings the end nearer, for rows that wait as well.
    outbox.accept(dm("third", "bob", "hello")).await.unwrap();
    assert_eq!(outbox.window(7), Ok(144));
    hands.forward(144 * HOUR);
    let claimed = outbox.claim(10, usize::MAX, |_| true).await.unwrap();
    assert_eq!((claimed.rows.len(), claimed.dead.len()), (0, 1));
}

#[tokio::test]
async fn a_time_to_live_beyond_the_window_is_refused() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let with = |hours| {
        let mut options = outbox_options(scratch.path(), &hands);
        options.max_age_hours = Some(hours);
        Outbox::open(options)
    };
    assert!(matches!(with(721).await.err().unwrap(), OutboxError::Age(_)));
    let outbox = with(700).await.unwrap();
    assert_eq!(outbox.window(0), Ok(700));
    assert!(outbox.window(30).is_err());
    assert!(outbox.window(3).is_err());
}

#[tokio::test]
async fn sending_again_makes_another_row() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    let mut message = dm("dead", "bob/work", "hello");
    message.payload.session = Some("work".to_owned());
    message.sender_session = Some("s1".to_owned());
    message.priority = Priority::Now;
    outbox.accept(message).await.unwrap();
    let rows = claim_all(&outbox).await;
    let refused = RefusedRow { key: rows[0].key, code: "blocked".to_owned(), error: "no".to_owned() };
    outbox.refused(vec![refused]).await.unwrap();
    assert_eq!(outbox.depth().dead, 1);

    let old = outbox.lookup("dead").await.unwrap().unwrap();
    assert!(matches!(outbox.requeue("nothing", None, "op").await, Err(RequeueError::NotFound)));
    assert!(matches!(outbox.requeue(&old.id, Some(String::new()), "op").await, Err(RequeueError::BadId)));
    assert!(matches!(outbox.requeue(&old.id, Some("dead".to_owned()), "op").await, Err(RequeueError::IdTaken)));
    let requeued = outbox.requeue(&old.id, None, "op").await.unwrap();
    assert_eq!(requeued.aborted_row_id, old.id);
    let old = outbox.lookup("dead").await.unwrap().unwrap();
    assert_eq!((old.status, old.aborted_by.as_deref()), (Status::Aborted, Some("op")));
    assert_eq!((old.aborted_at, old.superseded_by.as_ref()), (Some(hands.now()), Some(&requeued.new_row_id)));
    let again = claim_all(&outbox).await;
    assert_eq!(ids(&again), [requeued.new_client_message_id.as_str()]);
    assert_eq!(
        (&again[0].lane, &again[0].payload, again[0].fingerprint),
        (&rows[0].lane, &rows[0].payload, rows[0].fingerprint)
    );
    for id in ["dead", &requeued.new_client_message_id] {
        let refused = outbox.requeue(id, None, "op").await;
        assert!(matches!(refused, Err(RequeueError::WrongState(_))), "{refused:?}");
    }
    assert_eq!(outbox.depth().dead, 0);
    // One that waits as well.
    outbox.accept(dm("waits", "bob", "hello")).await.unwrap();
    outbox.requeue("waits", Some("instead".to_owned()), "op").await.unwrap();
    assert_eq!(ids(&claim_all(&outbox).await), ["instead"]);
    assert_eq!(outbox.list(Some(Status::Aborted), 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_was_kept_long_enough_is_forgotten() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for number in 0..1200 {
        outbox.accept(dm(&format!("m{number}"), "bob", "hello")).await.unwrap();
    }
    let rows = claim_all(&outbox).await;
    outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
    outbox.accept(dm("dead", "carol", "hello")).await.unwrap();
    hands.forward(7 * DAY);
    assert_eq!(outbox.sweep().await.unwrap(), 0);
    hands.forward(1);
    assert_eq!(outbox.sweep().await.unwrap(), 1000);
    assert_eq!(outbox.expire().await.unwrap().len(), 201, "the rest had not been sent");
    hands.forward(22 * DAY);
    assert_eq!(outbox.sweep().await.unwrap(), 0);
    assert_eq!(outbox.prune(Some(Status::Done), 0).await.unwrap(), 0);
    assert_eq!(outbox.prune(None, DAY).await.unwrap(), 201);
    assert_eq!(outbox.depth().dead, 0);
    assert_eq!(outbox.list(None, 10).await.unwrap(), []);
    assert!(!outbox.accept(dm("m1", "bob", "another")).await.unwrap().duplicate, "its row is gone, so it is free");
}

#[tokio::test]
async fn what_is_owed_is_never_pruned() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for id in ["a", "b"] {
        outbox.accept(dm(id, id, "hello")).await.unwrap();
    }
    outbox.claim(1, usize::MAX, |_| true).await.unwrap();
    hands.forward(40 * DAY);
    assert_eq!(outbox.prune(None, 0).await.unwrap(), 0);
    assert_eq!(outbox.sweep().await.unwrap(), 0);
    assert_eq!(outbox.depth().pending + outbox.depth().inflight, 2);
}

#[tokio::test]
async fn a_log_that_lost_rows_gets_them_again() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for number in 1..=5 {
        outbox.accept(dm(&format!("m{number}"), "bob", "hello")).await.unwrap();
    }
    let rows = outbox.claim(4, usize::MAX, |_| true).await.unwrap().rows;
    outbox.acked((1..=4).map(|seq| acked(&rows[seq as usize - 1], seq)).collect()).await.unwrap();
    assert_eq!(outbox.requeue_unlogged("e1", 4).await.unwrap(), 0);
    assert_eq!(outbox.requeue_unlogged("e1", 2).await.unwrap(), 2);
    let again = claim_all(&outbox).await;
    assert_eq!(ids(&again), ["m3", "m4", "m5"], "in the old order, under the old ids");
    outbox.acked((3..=5).map(|seq| acked(&again[seq as usize - 3], seq)).collect()).await.unwrap();
    assert_eq!(outbox.requeue_unlogged("e1", 5).await.unwrap(), 0);
    assert_eq!(outbox.requeue_unlogged("e2", 100).await.unwrap(), 5, "another log has none of them");
    assert_eq!(outbox.requeue_unlogged("e2", 100).await.unwrap(), 0);
    assert_eq!(ids(&claim_all(&outbox).await), ["m1", "m2", "m3", "m4", "m5"]);
}

#[tokio::test]
async fn what_is_given_up_says_what_it_was() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    outbox.accept(dm("dm", "bob", "hello")).await.unwrap();
    outbox.accept(NewMessage { dest_kind: DestKind::Topic, ..dm("topic", "t-1", "hello") }).await.unwrap();
    outbox.accept(NewMessage { dest_kind: DestKind::All, ..dm("all", "*", "hello") }).await.unwrap();
    let mut file = dm("file", "bob", "hello");
    file.payload.file_id = Some("f-1".to_owned());
    outbox.accept(file).await.unwrap();
    let refused = |row: &Row| RefusedRow { key: row.key, code: "blocked".to_owned(), error: "no".to_owned() };
    let rows = claim_all(&outbox).await;
    let dead = outbox.refused(rows.iter().map(refused).collect()).await.unwrap();
    assert_eq!(dead.len(), 4);
    for row in dead {
        assert_eq!(row.kind(), row.client_message_id);
    }
}
