//! What the outbox takes: what a repeated id gets, what a request is known by, and how full it may be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::store_support;

use hostel_mesh::disk::Level;
use hostel_mesh::outbox::{AcceptError, Limits, NewMessage, Outbox, RefusedRow, Status};
use hostel_wire::frames::Priority;
use serde_json::json;
use store_support::{Hands, acked, claim_all, dm, outbox, outbox_options};

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
