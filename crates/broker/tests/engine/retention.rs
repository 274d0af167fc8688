//! Forgetting.

use hostel_broker::engine::{Append, Engine, HistoryQuery, Pruned, SqliteEngine};

use crate::support::{DAY, NOW, dm, open};

async fn prune_all(engine: &SqliteEngine, now: u64) -> Pruned {
    let mut all = Pruned::default();
    loop {
        let part = engine.prune(now).await.unwrap();
        all.entries += part.entries;
        all.ids += part.ids;
        if !part.more {
            return all;
        }
    }
}

#[tokio::test]
async fn entries_go_before_their_ids_do() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    engine.ensure_log("quiet").await.unwrap();
    let first = engine.append(dm("m", "a")).await.unwrap();
    let later = Append { now_ms: NOW + DAY, expires_ms: NOW + 31 * DAY, forget_ms: NOW + 61 * DAY, ..dm("m", "b") };
    engine.append(later).await.unwrap();
    assert_eq!(prune_all(&engine, NOW + 29 * DAY).await, Pruned::default());
    assert_eq!(prune_all(&engine, NOW + 30 * DAY).await, Pruned { entries: 1, ids: 0, more: false });
    for _ in 0..2 {
        let bounds = engine.bounds("m").unwrap();
        assert_eq!((bounds.first_seq, bounds.last_seq), (2, 2));
        let again = engine.append(dm("m", "a")).await.unwrap();
        assert!(again.duplicate && !again.history_available);
        assert_eq!((again.seq, &again.id), (1, &first.id));
        let known = engine.lookup("m", "alice", "a").await.unwrap().unwrap();
        assert!(!known.history_available && engine.lookup("m", "alice", "b").await.unwrap().unwrap().history_available);
        assert_eq!(engine.entry("m", &first.id).await.unwrap().map(|entry| entry.seq), None);
        // Who reads from before the beginning gets the beginning.
        assert_eq!(engine.read("m", 0, 10, usize::MAX).await.unwrap()[0].seq, 2);
    }
    assert_eq!(prune_all(&engine, NOW + 60 * DAY).await, Pruned { entries: 1, ids: 1, more: false });
    let bounds = engine.bounds("m").unwrap();
    assert_eq!((bounds.first_seq, bounds.last_seq), (3, 2));
    assert!(engine.read("m", 0, 10, usize::MAX).await.unwrap().is_empty());
    assert_eq!(engine.lookup("m", "alice", "a").await.unwrap(), None);
    assert!(engine.lookup("m", "alice", "b").await.unwrap().is_some());
    // Numbers go on.
    let anew =
        Append { now_ms: NOW + 60 * DAY, expires_ms: NOW + 90 * DAY, forget_ms: NOW + 120 * DAY, ..dm("m", "a") };
    let anew = engine.append(anew).await.unwrap();
    assert_eq!((anew.seq, anew.duplicate), (3, false));
    engine.close().await;
    let engine = open(scratch.path()).await;
    let bounds = engine.bounds("m").unwrap();
    assert_eq!((bounds.first_seq, bounds.last_seq), (3, 3));
    assert_eq!(engine.bounds("quiet").unwrap().first_seq, 1);
}

#[tokio::test]
async fn much_goes_in_pieces_and_gives_room_back() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let mut tickets = Vec::new();
    for number in 0..1700 {
        let append = Append { bytes: vec![1; 4000].into(), ..dm("m", &format!("id {number}")) };
        tickets.push(engine.submit_append(append).await.unwrap());
    }
    for ticket in tickets {
        ticket.done().await.unwrap();
    }
    let first = engine.prune(NOW + 30 * DAY).await.unwrap();
    assert!(first.more && first.entries < 1700, "{first:?}");
    assert_eq!(engine.bounds("m").unwrap().first_seq, first.entries + 1);
    prune_all(&engine, NOW + 30 * DAY).await;
    assert_eq!(engine.bounds("m").unwrap().first_seq, 1701);
    let free = || -> i64 {
        let raw = rusqlite::Connection::open(scratch.path().join("broker.db")).unwrap();
        raw.query_row("PRAGMA freelist_count", [], |row| row.get(0)).unwrap()
    };
    let before = free();
    engine.append(dm("m", "one more")).await.unwrap();
    prune_all(&engine, NOW + 30 * DAY).await;
    assert!(before > 0 && free() < before, "{before} {}", free());
    assert!(engine.history("m", HistoryQuery { limit: 5, ..HistoryQuery::default() }).await.unwrap().is_empty());
}

/// An id is kept at least as long as its entry, whatever is asked.
#[tokio::test]
async fn an_id_outlives_its_entry() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    engine.append(Append { forget_ms: 0, ..dm("m", "a") }).await.unwrap();
    assert_eq!(prune_all(&engine, NOW + DAY).await, Pruned::default());
    // For ever is for ever.
    engine.append(Append { expires_ms: u64::MAX, forget_ms: u64::MAX, ..dm("m", "b") }).await.unwrap();
    assert_eq!(prune_all(&engine, u64::MAX - 1).await.entries, 2);
}
