//! Records with revisions.

use hostel_broker::engine::{Append, Engine, KvBatch, KvChange, KvError, KvOp};

use crate::engine::support::{dm, open};

#[tokio::test]
async fn revisions_rise_over_everything_and_never_repeat() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let mut changes = engine.watch();
    let one = engine.put("a", "k", b"1".to_vec()).await.unwrap();
    let two = engine.put("b", "k", b"2".to_vec()).await.unwrap();
    assert!(two > one);
    let entry = engine.get("a", "k").await.unwrap().unwrap();
    assert_eq!((entry.revision, &entry.value[..]), (one, &b"1"[..]));
    engine.delete("a", "k").await.unwrap();
    assert_eq!(engine.get("a", "k").await.unwrap(), None);
    let again = engine.put("a", "k", b"1".to_vec()).await.unwrap();
    assert!(again > two);
    for (bucket, revision) in [("a", one), ("b", two), ("a", 0), ("a", again)] {
        let change = KvChange { bucket: bucket.to_owned(), key: "k".to_owned(), revision };
        assert_eq!(changes.recv().await.unwrap(), change);
    }
    engine.close().await;
    let engine = open(scratch.path()).await;
    assert!(engine.put("a", "l", Vec::new()).await.unwrap() > again);
}

#[tokio::test]
async fn a_comparison_that_fails_leaves_everything() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let one = engine.cas("a", "k", 0, b"1".to_vec()).await.unwrap();
    let refused = engine.cas("a", "k", 0, b"2".to_vec()).await;
    assert!(matches!(&refused, Err(KvError::Conflict { bucket, key }) if bucket == "a" && key == "k"), "{refused:?}");
    let two = engine.cas("a", "k", one, b"2".to_vec()).await.unwrap();
    let batch = KvBatch::of([KvOp::put("a", "other", Vec::new()), KvOp::delete("a", "k"), KvOp::check("a", "k", one)]);
    assert!(engine.commit(batch).await.is_err());
    assert_eq!(engine.get("a", "other").await.unwrap(), None);
    assert_eq!(engine.get("a", "k").await.unwrap().unwrap().revision, two);
}

#[tokio::test]
async fn a_scan_gives_what_begins_so_in_order() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let keys = ["m/b", "m/a", "m", "m0", "l/z", "m/", "m/é"];
    let batch = KvBatch::of(keys.iter().map(|key| KvOp::put("x", key, key.as_bytes().to_vec())));
    let revision = engine.commit(batch).await.unwrap().revision;
    engine.put("y", "m/a", Vec::new()).await.unwrap();
    let found = engine.scan("x", "m/").await.unwrap();
    assert_eq!(found.iter().map(|one| one.key.as_str()).collect::<Vec<_>>(), ["m/", "m/a", "m/b", "m/é"]);
    assert!(found.iter().all(|one| one.revision == revision && one.value == one.key.as_bytes()));
    assert_eq!(engine.scan("x", "").await.unwrap().len(), keys.len());
    assert!(engine.scan("z", "").await.unwrap().is_empty());
}

#[tokio::test]
async fn the_broker_is_the_same_after_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let id = engine.broker_id();
    assert_eq!(id.len(), 32);
    engine.close().await;
    assert_eq!(open(scratch.path()).await.broker_id(), id);
    let elsewhere = tempfile::tempdir().unwrap();
    assert_ne!(open(elsewhere.path()).await.broker_id(), id);
}

#[tokio::test]
async fn records_are_written_with_their_entry_and_only_once() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let with = |id: &str, value: &str| Append {
        writes: vec![KvOp::put("state", "m/k", value.as_bytes().to_vec()), KvOp::delete("state", "m/gone")],
        ..dm("m", id)
    };
    engine.put("state", "m/gone", Vec::new()).await.unwrap();
    let mut changes = engine.watch();
    assert!(!engine.append(with("a", "1")).await.unwrap().duplicate);
    let entry = engine.get("state", "m/k").await.unwrap().unwrap();
    assert_eq!((&entry.value[..], engine.get("state", "m/gone").await.unwrap()), (&b"1"[..], None));
    assert_eq!(changes.recv().await.unwrap().revision, entry.revision);
    assert_eq!(changes.recv().await.unwrap().revision, 0);
    // The same entry again writes nothing; another use of its id neither.
    assert!(engine.append(with("a", "2")).await.unwrap().duplicate);
    assert!(engine.append(Append { fingerprint: [9; 32], ..with("a", "3") }).await.is_err());
    assert_eq!(engine.get("state", "m/k").await.unwrap().unwrap(), entry);
    assert!(!engine.append(with("b", "4")).await.unwrap().duplicate);
    engine.close().await;
    let engine = open(scratch.path()).await;
    let after = engine.get("state", "m/k").await.unwrap().unwrap();
    assert_eq!(&after.value[..], b"4");
    assert!(after.revision > entry.revision);
}

#[tokio::test]
async fn records_come_in_pages() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    for key in ["m/a", "m/b", "m/c", "n/a"] {
        engine.put("b", key, vec![0; 10]).await.unwrap();
    }
    let page = |after: &'static str, limit, bytes| {
        let engine = engine.clone();
        async move {
            let found = engine.page("b", "m/", after, limit, bytes).await.unwrap();
            found.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
        }
    };
    assert_eq!(page("", 10, 1000).await, ["m/a", "m/b", "m/c"]);
    assert_eq!(page("m/a", 1, 1000).await, ["m/b"]);
    assert_eq!(page("", 10, 25).await, ["m/a", "m/b"]);
    assert_eq!(page("m/b", 10, 0).await, ["m/c"], "always one if there is one");
    assert!(page("m/c", 10, 1000).await.is_empty());
}
