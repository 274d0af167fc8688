//! Rows of the outbox on their way: which goes next, what waits behind which, and what a refusal, a crash or a clock does to
//! that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use hostel_mesh::outbox::{NewMessage, RetryRow, Row, Status};
use hostel_wire::frames::Priority;
use store_support::{DAY, Hands, acked, claim_all, dm, ids, outbox};

#[tokio::test]
async fn urgent_ones_go_first_then_older_ones() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    let all = [
        ("a", Priority::Low),
        ("b", Priority::Next),
        ("c", Priority::Now),
        ("d", Priority::Next),
        ("e", Priority::Now),
    ];
    for (id, priority) in all {
        outbox.accept(NewMessage { priority, ..dm(id, id, "hello") }).await.unwrap();
    }
    assert_eq!(ids(&claim_all(&outbox).await), ["c", "e", "b", "d", "a"]);
    assert!(claim_all(&outbox).await.is_empty());
}

#[tokio::test]
async fn claims_are_bounded_by_rows_and_bytes() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for number in 0..6 {
        outbox.accept(dm(&format!("m{number}"), "bob", &"x".repeat(1000))).await.unwrap();
    }
    let claim = async |rows, bytes| outbox.claim(rows, bytes, |_| true).await.unwrap().rows.len();
    assert_eq!(claim(0, usize::MAX).await, 0);
    assert_eq!(claim(10, 1).await, 1, "one always goes");
    assert_eq!(claim(10, 2500).await, 2);
    assert_eq!(claim(2, usize::MAX).await, 2);
    assert_eq!(outbox.depth().inflight, 5);
    assert_eq!(outbox.claim(10, usize::MAX, |lane| lane.dest_ref != "bob").await.unwrap().rows, []);
}

fn later(row: &Row, code: &str, after: Option<u64>) -> RetryRow {
    RetryRow { key: row.key, code: code.to_owned(), error: "later".to_owned(), retry_after_ms: after }
}

#[tokio::test]
async fn a_transient_refusal_holds_its_lane_and_no_other() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for id in ["b1", "b2", "b3", "b4"] {
        outbox.accept(dm(id, "bob", "hello")).await.unwrap();
    }
    outbox.accept(dm("c1", "carol", "hello")).await.unwrap();
    let rows = claim_all(&outbox).await;
    assert_eq!(ids(&rows), ["b1", "b2", "b3", "b4", "c1"]);
    outbox.acked(vec![acked(&rows[0], 1)]).await.unwrap();
    let refusals = vec![
        later(&rows[1], "rate_limited", None),
        later(&rows[2], "lane_blocked", None),
        later(&rows[3], "lane_blocked", None),
    ];
    outbox.retry(refusals).await.unwrap();
    outbox.accept(dm("b5", "bob", "hello")).await.unwrap();
    outbox.accept(dm("c2", "carol", "hello")).await.unwrap();
    assert_eq!(ids(&claim_all(&outbox).await), ["c2"]);
    let waits = outbox.next_due().unwrap() - hands.now();
    assert!((375..=500).contains(&waits), "{waits}");
    let row = outbox.lookup("b2").await.unwrap().unwrap();
    assert_eq!((row.attempts, row.last_error_code.as_deref()), (1, Some("rate_limited")));
    assert_eq!(row.next_attempt_at, Some(hands.now() + waits));
    assert_eq!(outbox.lookup("b3").await.unwrap().unwrap().attempts, 0, "it was only behind");
    hands.forward(500);
    let again = claim_all(&outbox).await;
    assert_eq!(ids(&again), ["b2", "b3", "b4", "b5"]);
    // What is heard about the first claim changes nothing for the second.
    outbox.retry(vec![later(&rows[2], "rate_limited", None)]).await.unwrap();
    assert_eq!(outbox.depth().inflight, 6);
    // The broker may say how long.
    outbox.retry(vec![later(&again[0], "rate_limited", Some(20_000))]).await.unwrap();
    hands.forward(19_999);
    assert!(claim_all(&outbox).await.is_empty());
    hands.forward(1);
    assert_eq!(ids(&claim_all(&outbox).await), ["b2", "b3", "b4", "b5"]);
}

#[tokio::test]
async fn who_waited_behind_one_that_is_gone_waits_no_longer() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    outbox.accept(dm("a", "bob", "hello")).await.unwrap();
    outbox.accept(dm("b", "bob", "hello")).await.unwrap();
    let rows = claim_all(&outbox).await;
    outbox.retry(vec![later(&rows[0], "rate_limited", Some(60_000))]).await.unwrap();
    assert!(claim_all(&outbox).await.is_empty());
    outbox.requeue("a", Some("a2".to_owned()), "op").await.unwrap();
    assert_eq!(ids(&claim_all(&outbox).await), ["b", "a2"]);
}

#[tokio::test]
async fn a_clock_that_is_set_back_stops_nothing_for_long() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    hands.forward(DAY);
    let outbox = outbox(scratch.path(), &hands).await;
    outbox.accept(dm("x", "bob", "hello")).await.unwrap();
    let rows = claim_all(&outbox).await;
    outbox.retry(vec![later(&rows[0], "rate_limited", None)]).await.unwrap();
    assert!(claim_all(&outbox).await.is_empty());
    hands.forward(u64::MAX - DAY + 1); // a day back
    assert_eq!(outbox.next_due(), Some(0));
    assert_eq!(ids(&claim_all(&outbox).await), ["x"]);
}

#[tokio::test]
async fn a_lost_connection_costs_nothing() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for number in 0..50 {
        outbox.accept(dm(&format!("m{number:02}"), ["bob", "carol"][number % 2], "hello")).await.unwrap();
    }
    let rows = claim_all(&outbox).await;
    outbox.acked(vec![acked(&rows[3], 1)]).await.unwrap();
    outbox.release_all().await.unwrap();
    assert_eq!(outbox.depth().inflight, 0);
    let again = claim_all(&outbox).await;
    assert_eq!(again.len(), 49);
    assert!(again.is_sorted_by_key(|row| row.client_message_id.clone()));
    assert!(again.iter().all(|row| row.attempts == 0));
    outbox.release(again[..10].iter().map(|row| row.key).collect()).await.unwrap();
    assert_eq!(outbox.depth().inflight, 39);
    assert_eq!(ids(&claim_all(&outbox).await), ids(&again[..10]));
}

#[tokio::test]
async fn what_was_under_way_at_a_crash_waits_again() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let first = outbox(scratch.path(), &hands).await;
    for id in ["a", "b", "c"] {
        first.accept(dm(id, "bob", "hello")).await.unwrap();
    }
    let rows = first.claim(2, usize::MAX, |_| true).await.unwrap().rows;
    first.acked(vec![acked(&rows[0], 1)]).await.unwrap();
    drop(first);
    let second = outbox(scratch.path(), &hands).await;
    assert_eq!(second.lookup("a").await.unwrap().unwrap().status, Status::Done);
    let row = second.lookup("b").await.unwrap().unwrap();
    assert_eq!((row.status, row.attempts), (Status::Pending, 1));
    assert_eq!(row.next_attempt_at, Some(hands.now() + 500));
    assert!(claim_all(&second).await.is_empty(), "the one behind it must not overtake it");
    hands.forward(500);
    let rows = claim_all(&second).await;
    assert_eq!(ids(&rows), ["b", "c"]);
    assert_eq!(rows[0].payload.body, "hello");
    let id = second.accept(dm("d", "bob", "hello")).await.unwrap().id;
    assert!(id > rows[1].id, "numbers go on");
}

#[tokio::test]
async fn an_ack_counts_whenever_it_is_heard() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    outbox.accept(dm("a", "bob", "hello")).await.unwrap();
    outbox.accept(dm("b", "bob", "hello")).await.unwrap();
    let rows = claim_all(&outbox).await;
    outbox.release_all().await.unwrap();
    outbox.acked(vec![acked(&rows[0], 1)]).await.unwrap();
    assert_eq!(ids(&claim_all(&outbox).await), ["b"]);
    assert_eq!(outbox.lookup("a").await.unwrap().unwrap().broker_seq, Some(1));
}

#[tokio::test]
async fn lanes_of_different_senders_are_different_lanes() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for (id, session) in [("m1", None), ("s1", Some("s")), ("m2", None)] {
        let message = NewMessage { sender_session: session.map(str::to_owned), ..dm(id, "bob", "hello") };
        outbox.accept(message).await.unwrap();
    }
    let member = outbox.claim(10, usize::MAX, |lane| lane.sender_session.is_none()).await.unwrap().rows;
    assert_eq!(ids(&member), ["m1", "m2"]);
    outbox.retry(vec![later(&member[0], "rate_limited", None)]).await.unwrap();
    assert_eq!(ids(&claim_all(&outbox).await), ["s1"]);
}

#[tokio::test]
async fn what_is_under_way_of_a_lane_is_with_one_alone() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for id in ["b1", "b2", "b3", "b4"] {
        outbox.accept(dm(id, "bob", "hello")).await.unwrap();
    }
    outbox.accept(dm("c1", "carol", "hello")).await.unwrap();
    let claim = async |by: u64, rows: usize| outbox.claim_as(by, rows, usize::MAX, |_| true).await.unwrap().rows;
    let first = claim(1, 2).await;
    assert_eq!(ids(&first), ["b1", "b2"]);
    // Another connection gets what is not the first one's, whose own goes on.
    assert_eq!(ids(&claim(2, 9).await), ["c1"]);
    let third = claim(1, 1).await;
    assert_eq!((ids(&third), claim(2, 9).await), (vec!["b3"], vec![]));
    outbox.acked(first.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
    assert_eq!(claim(2, 9).await, [], "one is still under way");
    outbox.release(third.iter().map(|row| row.key).collect()).await.unwrap();
    let rest = claim(2, 9).await;
    assert_eq!(ids(&rest), ["b3", "b4"], "then all of it is the other's, in order");
    // Whoever was turned away is woken when its turn has come.
    outbox.accept(dm("b5", "bob", "hello")).await.unwrap();
    outbox.woken().notified().await;
    assert_eq!(claim(1, 9).await, []);
    outbox.acked(rest.iter().map(|row| acked(row, 2)).collect()).await.unwrap();
    outbox.woken().notified().await;
    assert_eq!(ids(&claim(1, 9).await), ["b5"]);
}
