//! Outbox and inbox with their own writing threads: callers share commits, and one that leaves in the middle harms nobody.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support::hang_limit;
use crate::store_support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use hostel_mesh::inbox::{Cursor, Inbox, InboxOptions, Stored};
use hostel_mesh::outbox::{Lane, Outbox, OutboxOptions, RequeueError, Status};
use store_support::{Hands, acked, arrival, dm, inbox_options, outbox_options};
use tokio::task::JoinSet;

async fn threaded(directory: &Path, hands: &Hands) -> Outbox {
    Outbox::open(OutboxOptions { inline: false, ..outbox_options(directory, hands) }).await.unwrap()
}

/// What is accepted while others accept is on disk when it is answered, once, whoever else has sent it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_are_all_served() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = threaded(scratch.path(), &hands).await;
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let outbox = outbox.clone();
        callers.spawn(async move {
            let mut new = 0;
            for number in 0..50 {
                // Two callers send each id.
                let id = format!("{}-{number}", caller / 2);
                new += usize::from(!outbox.accept(dm(&id, "bob", "hello")).await.unwrap().duplicate);
            }
            new
        });
    }
    let mut new = 0;
    while let Some(caller) = callers.join_next().await {
        new += caller.unwrap();
    }
    assert_eq!((new, outbox.depth().pending, outbox.duplicates()), (16 * 50, 16 * 50, 16 * 50));
    drop(outbox);
    let again = threaded(scratch.path(), &hands).await;
    assert_eq!(again.depth().pending, 16 * 50);
}

/// The drain is woken by an accept, also if it was not waiting at that moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_is_never_missed() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = threaded(scratch.path(), &hands).await;
    let drain = tokio::spawn({
        let outbox = outbox.clone();
        async move {
            let mut seen = 0;
            while seen < 200 {
                outbox.woken().notified().await;
                // Wake-ups are not counted: whoever was woken claims until nothing is left.
                loop {
                    let rows = outbox.claim(64, usize::MAX, |_| true).await.unwrap().rows;
                    if rows.is_empty() {
                        break;
                    }
                    seen += rows.len();
                    outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
                }
            }
        }
    });
    for number in 0..200 {
        outbox.accept(dm(&format!("m{number}"), "bob", "hello")).await.unwrap();
    }
    tokio::time::timeout(hang_limit(), drain).await.unwrap().unwrap();
    assert_eq!(outbox.depth().pending + outbox.depth().inflight, 0);
}

/// Callers and drains that are dropped at any point: nothing is lost, nothing is handed out twice at once, lanes keep
/// their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_leaves_in_the_middle_harms_nobody() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = threaded(scratch.path(), &hands).await;
    let mut log: Vec<(Lane, String)> = Vec::new();
    for round in 0..60_u64 {
        let mut leaving = JoinSet::new();
        for number in 0..8_u64 {
            let outbox = outbox.clone();
            leaving.spawn(async move {
                let id = format!("{round:02}-{number}");
                let take = outbox.accept(dm(&id, ["bob", "carol"][number as usize % 2], &id));
                let polls = (round + number) % 7;
                leave_after(polls, take).await.is_some()
            });
        }
        let claimed = leave_after(round % 5, outbox.claim(3, usize::MAX, |_| true)).await;
        let has_rows = claimed.is_some_and(|claimed| !claimed.unwrap().rows.is_empty());
        while leaving.join_next().await.is_some() {}
        if round % 2 == 0 || has_rows {
            // Who has rows says what became of them. What was claimed for somebody who has left before nobody releases
            // half of the time.
            leave_after(round % 3, outbox.release_all()).await;
            outbox.release_all().await.unwrap();
        }
        let rows = outbox.claim(4, usize::MAX, |_| true).await.unwrap().rows;
        log.extend(rows.iter().map(|row| (row.lane.clone(), row.client_message_id.clone())));
        let settled = outbox.acked(rows.iter().map(|row| acked(row, 1)).collect());
        if round % 4 == 0 {
            // Whether it was heard is not known; it is heard again after the release.
            leave_after(round % 6, settled).await;
            outbox.release_all().await.unwrap();
            outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
        } else {
            settled.await.unwrap();
        }
    }
    loop {
        let rows = outbox.claim(100, usize::MAX, |_| true).await.unwrap().rows;
        if rows.is_empty() {
            break;
        }
        log.extend(rows.iter().map(|row| (row.lane.clone(), row.client_message_id.clone())));
        outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
    }
    let all = outbox.list(None, 10_000).await.unwrap();
    assert!(
        all.iter().all(|row| row.status == Status::Done),
        "{:?}",
        all.iter().find(|row| row.status != Status::Done)
    );
    let sent: BTreeSet<&String> = log.iter().map(|(_, id)| id).collect();
    assert_eq!((sent.len(), log.len()), (all.len(), all.len()), "each once");
    assert_eq!(outbox.depth(), hostel_mesh::outbox::Depth::default());
    for to in ["bob", "carol"] {
        let accepted = all.iter().rev().filter(|row| row.lane.dest_ref == to).map(|row| &row.client_message_id);
        let logged = log.iter().filter(|(lane, _)| lane.dest_ref == to).map(|(_, id)| id);
        assert!(logged.eq(accepted), "the order of acceptance, for {to}");
    }
}

/// Polls a future a few times and drops it, unless it is ready before.
async fn leave_after<T>(polls: u64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
        std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
        std::task::Poll::Pending => {
            left -= 1;
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        }
    })
    .await
}

/// Several nodes push the same entries while those who store it leave in the middle: rows and place never disagree.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_place_in_the_log_is_never_ahead_of_the_rows() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let open = async || {
        let options = InboxOptions { inline: false, ..inbox_options(scratch.path(), &hands) };
        Inbox::open(options).await.unwrap().0
    };
    let mut new = 0;
    for round in 0..12_u64 {
        let inbox = Arc::new(open().await);
        let from = inbox.cursor().await.unwrap().seq;
        assert_eq!(inbox.counts().rows, from, "round {round}");
        let mut pushing = JoinSet::new();
        for batch in 0..10_u64 {
            let inbox = Arc::clone(&inbox);
            let first = from + batch * 5;
            // Each batch begins with what the last one ended with.
            let arrivals =
                (first.max(1)..=first + 5).map(|seq| arrival("bob", &format!("m{seq}"), seq, "hi")).collect();
            let cursor = Cursor { epoch: "e1".to_owned(), seq: first + 5, ..Cursor::default() };
            let stored = inbox.store(arrivals, Vec::new(), Some(cursor));
            if batch >= round % 10 {
                let stored = leave_after(round % 4, stored).await;
                drop(stored);
                break;
            }
            new += stored.await.unwrap().iter().filter(|stored| matches!(stored, Stored::New(_))).count();
            pushing.spawn(async move { inbox.counts() });
        }
        while pushing.join_next().await.is_some() {}
        // What stood in line is written, whoever has left.
        let writer = inbox.close();
        while writer.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
    let inbox = open().await;
    let place = inbox.cursor().await.unwrap().seq;
    assert!(place > 100 && new > 0, "{place}");
    assert_eq!(inbox.counts().rows, place);
}

/// A commit that fails takes back everything it stood for, in memory as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_the_disk_refuses_did_not_happen() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = threaded(scratch.path(), &hands).await;
    for id in ["a", "b", "c"] {
        outbox.accept(dm(id, "bob", "hello")).await.unwrap();
    }
    let first = outbox.claim(1, usize::MAX, |_| true).await.unwrap().rows;
    // Somebody else holds the database for longer than the writer waits.
    let other = rusqlite::Connection::open(scratch.path().join("outbox.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (accepted, claimed, settled) = tokio::join!(
        outbox.accept(dm("d", "bob", "hello")),
        outbox.claim(10, usize::MAX, |_| true),
        outbox.acked(vec![acked(&first[0], 1)]),
    );
    assert!(accepted.is_err() && settled.is_err(), "{accepted:?} {settled:?}");
    let depth = outbox.depth();
    assert_eq!(depth.pending + depth.inflight, 3, "what was refused is not counted");
    // What is on disk and at hand can be sent all the same.
    let claimed = claimed.unwrap().rows;
    assert_eq!(store_support::ids(&claimed), ["b", "c"]);
    other.execute_batch("ROLLBACK").unwrap();
    assert!(!outbox.accept(dm("d", "bob", "something else")).await.unwrap().duplicate, "the id was free");
    // That those two are under way was refused as well; nobody else gets them for that.
    let rest = outbox.claim(10, usize::MAX, |_| true).await.unwrap().rows;
    assert_eq!(store_support::ids(&rest), ["d"]);
    outbox.acked(vec![acked(&first[0], 1)]).await.unwrap();
    assert!(outbox.claim(10, usize::MAX, |_| true).await.unwrap().rows.is_empty());
    outbox.acked(claimed.iter().chain(&rest).map(|row| acked(row, 2)).collect()).await.unwrap();
    assert_eq!(outbox.depth(), hostel_mesh::outbox::Depth::default());
    assert_eq!(outbox.list(Some(Status::Done), 10).await.unwrap().len(), 4);
}

/// What was accepted a moment ago is handed out before the database says that it is under way; everybody is told all the
/// same, and whatever was not written by a crash waits again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_claim_may_be_ahead_of_the_database() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = threaded(scratch.path(), &hands).await;
    for id in ["a", "b", "c"] {
        outbox.accept(dm(id, "bob", "hello")).await.unwrap();
    }
    let rows = outbox.claim(2, usize::MAX, |_| true).await.unwrap().rows;
    assert_eq!(store_support::ids(&rows), ["a", "b"]);
    let again = outbox.accept(dm("a", "bob", "hello")).await.unwrap();
    assert_eq!((again.status, again.duplicate), (Status::Inflight, true));
    let refused = outbox.requeue("b", None, "somebody").await;
    assert!(matches!(refused, Err(RequeueError::WrongState(Status::Inflight))), "{refused:?}");
    hands.forward(365 * store_support::DAY);
    let dead = outbox.expire().await.unwrap();
    assert_eq!(dead.iter().map(|row| row.client_message_id.as_str()).collect::<Vec<_>>(), ["c"]);
    outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
    assert_eq!(outbox.depth().pending + outbox.depth().inflight, 0);
    assert_eq!(outbox.list(Some(Status::Done), 10).await.unwrap().len(), 2);
}

/// A process that ends while something is under way: it is there once, and waits, whatever was written of the claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_under_way_at_the_end_waits_again() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    for round in 0..5 {
        let outbox = threaded(scratch.path(), &hands).await;
        hands.forward(60_000);
        outbox.accept(dm(&format!("m{round}"), "bob", "hello")).await.unwrap();
        let mut claimed = 0;
        while let rows = outbox.claim(100, usize::MAX, |_| true).await.unwrap().rows
            && !rows.is_empty()
        {
            claimed += rows.len();
        }
        assert_eq!(claimed, round + 1);
        let writer = outbox.close();
        drop(outbox);
        while writer.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    }
    let outbox = threaded(scratch.path(), &hands).await;
    assert_eq!((outbox.depth().pending, outbox.depth().inflight), (5, 0));
}
