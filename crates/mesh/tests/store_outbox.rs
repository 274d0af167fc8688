//! The outbox: what a repeated id gets, what a restart finds, what operators may do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod store_support;

use hostel_mesh::disk::Level;
use hostel_mesh::outbox::{
    AcceptError, DestKind, Limits, NewMessage, Outbox, OutboxError, RefusedRow, RequeueError, RetryRow, Row, Status,
};
use hostel_wire::frames::Priority;
use serde_json::json;
use store_support::{DAY, HOUR, Hands, acked, claim_all, dm, ids, outbox, outbox_options};

/// Brings the row `id` into a state.
async fn bring(outbox: &Outbox, id: &str, status: Status) {
    outbox.accept(dm(id, "bob", "hello")).await.unwrap();
    if status == Status::Pending {
        return;
    }
    if status == Status::Aborted {
        outbox.requeue(id, Some(format!("{id}-again")), "op").await.unwrap();
        return;
    }
    let rows = claim_all(outbox).await;
    let row = rows.iter().find(|row| row.client_message_id == id).unwrap();
    match status {
        Status::Done => outbox.acked(vec![acked(row, 7)]).await.unwrap(),
        Status::Dead => {
            let refused = RefusedRow { key: row.key, code: "blocked".to_owned(), error: "no".to_owned() };
            assert_eq!(outbox.refused(vec![refused]).await.unwrap().len(), 1);
        }
        Status::Pending | Status::Inflight | Status::Aborted => {}
    }
}

#[tokio::test]
async fn a_repeated_id_gets_what_the_table_says() {
    for status in Status::ALL {
        let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
        let outbox = outbox(scratch.path(), &hands).await;
        bring(&outbox, "x", status).await;
        let same = outbox.accept(dm("x", "bob", "hello")).await;
        let other = outbox.accept(dm("x", "bob", "something else")).await;
        let broker = (status == Status::Done).then(|| "broker-7".to_owned());
        match status {
            Status::Pending | Status::Inflight | Status::Done => {
                let same = same.unwrap();
                assert_eq!((same.status, same.duplicate), (status, true));
                assert_eq!(same.broker_message_id, broker);
                assert_eq!(same.client_message_id, "x");
            }
            Status::Dead | Status::Aborted => {
                let Err(AcceptError::Reused(conflict)) = same else { panic!("{status:?}: {same:?}") };
                assert_eq!(conflict.code(), format!("outbox_{}_fingerprint_match", status.as_str()));
                assert!(conflict.same && conflict.reason.is_some(), "{conflict:?}");
            }
        }
        let Err(AcceptError::Reused(conflict)) = other else { panic!("{status:?}: {other:?}") };
        assert_eq!(conflict.code(), format!("outbox_{}_fingerprint_mismatch", status.as_str()));
        assert_eq!(conflict.broker_message_id, broker);
        assert_eq!(conflict.fingerprint_prefix.len(), 16);
        assert_eq!(outbox.lookup("x").await.unwrap().unwrap().status, status, "asking changed the row");
    }
}

#[tokio::test]
async fn every_part_of_a_request_counts_for_its_fingerprint() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    let first = || {
        let mut message = dm("x", "bob", "hello");
        message.payload.meta = Some(json!({"b": 1, "a": [2]}));
        message
    };
    outbox.accept(first()).await.unwrap();
    let mut reordered = first();
    reordered.payload.meta = serde_json::from_str(r#"{"a":[2],"b":1.0}"#).ok();
    assert!(outbox.accept(reordered).await.unwrap().duplicate);
    let changes: [fn(&mut NewMessage); 5] = [
        |message| message.dest_ref = "carol".to_owned(),
        |message| message.payload.body.push('!'),
        |message| message.payload.meta = None,
        |message| message.payload.reply_to = Some("m".to_owned()),
        |message| message.priority = Priority::Low,
    ];
    for change in changes {
        let mut message = first();
        change(&mut message);
        let refused = outbox.accept(message).await;
        assert!(matches!(refused, Err(AcceptError::Reused(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_refused_request_leaves_its_id_free() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let mut options = outbox_options(scratch.path(), &hands);
    options.limits = Limits { max_rows: 20, max_bytes: 0 };
    let outbox = Outbox::open(options).await.unwrap();
    let mut bad = dm("x", "bob", "hello");
    bad.payload.meta = Some(json!(u64::MAX));
    assert!(matches!(outbox.accept(bad).await, Err(AcceptError::Meta(_))));
    for number in 0..19 {
        outbox.accept(dm(&format!("m{number}"), "bob", "hello")).await.unwrap();
    }
    assert!(matches!(outbox.accept(dm("x", "bob", "hello")).await, Err(AcceptError::Full)));
    assert!(outbox.accept(dm("m3", "bob", "hello")).await.unwrap().duplicate, "what is there is still recognised");
    let long = "x".repeat(257);
    for id in ["", &long] {
        assert!(matches!(outbox.accept(dm(id, "bob", "hello")).await, Err(AcceptError::BadId)));
    }
    assert_eq!(outbox.lookup("x").await.unwrap(), None);
    let rows = claim_all(&outbox).await;
    outbox.acked(rows.iter().map(|row| acked(row, 1)).collect()).await.unwrap();
    assert!(!outbox.accept(dm("x", "bob", "another")).await.unwrap().duplicate);
}

#[tokio::test]
async fn without_an_id_one_is_made() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    let message = NewMessage { client_message_id: None, ..dm("", "bob", "hello") };
    let (first, second) = (outbox.accept(message.clone()).await.unwrap(), outbox.accept(message).await.unwrap());
    assert_ne!(first.client_message_id, second.client_message_id);
    assert!(hostel_wire::ids::is_ulid(&first.client_message_id) && hostel_wire::ids::is_ulid(&first.id));
    assert_eq!(outbox.lookup(&first.client_message_id).await.unwrap().unwrap().id, first.id);
}

#[tokio::test]
async fn levels_follow_rows_and_bytes() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let mut options = outbox_options(scratch.path(), &hands);
    options.limits = Limits { max_rows: 100, max_bytes: 0 };
    let outbox = Outbox::open(options).await.unwrap();
    let mut levels = outbox.levels();
    let mut told = Vec::new();
    for number in 0.. {
        let taken = outbox.accept(dm(&format!("m{number}"), "bob", "hello")).await;
        if levels.has_changed().unwrap() {
            told.push((number + 1, *levels.borrow_and_update()));
        }
        if let Err(error) = taken {
            assert!(matches!(error, AcceptError::Full), "{error}");
            assert_eq!(number, 95);
            break;
        }
    }
    assert_eq!(told, [(80, Level::High), (95, Level::Full)]);
    outbox.set_limits(Limits { max_rows: 95, max_bytes: 0 });
    assert!(matches!(outbox.accept(dm("new", "bob", "hello")).await, Err(AcceptError::Degraded)));
    let used = outbox.pressure().bytes;
    assert!(used > 95 * 200, "{used}");
    outbox.set_limits(Limits { max_rows: 0, max_bytes: used * 100 / 96 });
    assert!(matches!(outbox.accept(dm("new", "bob", "hello")).await, Err(AcceptError::Full)));
    outbox.set_limits(Limits { max_rows: 0, max_bytes: used * 10 });
    assert_eq!(outbox.pressure().level(), Level::Ok);
    outbox.accept(dm("new", "bob", "hello")).await.unwrap();
}

/// What is counted between two measurements may be more than the files turn out to take: nobody is told that it is fuller
/// than it is, and nobody is refused although there is room.
#[tokio::test]
async fn it_is_full_only_when_the_files_are() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let mut options = outbox_options(scratch.path(), &hands);
    let limit = 24_000_000;
    options.limits = Limits { max_rows: 0, max_bytes: limit };
    let path = options.path.clone();
    let outbox = Outbox::open(options).await.unwrap();
    let mut levels = outbox.levels();
    let body = "x".repeat(60_000);
    for number in 0..1000 {
        let taken = outbox.accept(dm(&format!("m{number}"), "bob", &body)).await;
        let percent = hostel_mesh::disk::bytes_of(&path) * 100 / limit;
        if levels.has_changed().unwrap() {
            let least = match *levels.borrow_and_update() {
                Level::Ok => 0,
                Level::High => 79,
                Level::Full => 94,
                Level::Degraded => 99,
            };
            assert!(percent >= least, "told {:?} at {percent} %", *levels.borrow());
        }
        match taken {
            Ok(_) => {}
            // SQLite's log grows by leaps: the files may pass both marks at once.
            Err(AcceptError::Full | AcceptError::Degraded) => {
                assert!(percent >= 95, "refused at {percent} %");
                assert!(outbox.pressure().percent() >= 95.0);
                // Room that came by itself counts at once.
                outbox.set_limits(Limits { max_rows: 0, max_bytes: 10 * limit });
                outbox.accept(dm("more", "bob", &body)).await.unwrap();
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the limit is never met");
}

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
async fn rows_are_listed_by_state_newest_first() {
    let (scratch, hands) = (tempfile::tempdir().unwrap(), Hands::new());
    let outbox = outbox(scratch.path(), &hands).await;
    for status in Status::ALL {
        bring(&outbox, status.as_str(), status).await;
    }
    for status in Status::ALL {
        let rows = outbox.list(Some(status), 10).await.unwrap();
        assert!(rows.iter().all(|row| row.status == status));
        assert!(rows.iter().any(|row| row.client_message_id == status.as_str()) || status == Status::Pending);
    }
    let all = outbox.list(None, 100).await.unwrap();
    assert_eq!(all.len(), 6);
    assert!(all.is_sorted_by(|a, b| a.id > b.id));
    assert_eq!(outbox.list(None, 2).await.unwrap(), all[..2]);
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
