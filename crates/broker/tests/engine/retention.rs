//! Forgetting.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hostel_broker::engine::{
    Append, AppendError, Engine, EngineOptions, Gate, HistoryQuery, Pruned, Room, SqliteEngine,
};

use hostel_wire::frames::Kind;

use crate::engine::support::{DAY, NOW, dm, open, options};

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
    assert_eq!(prune_all(&engine, NOW + 30 * DAY).await, Pruned { entries: 1, ids: 0, audit: 0, more: false });
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
    assert_eq!(prune_all(&engine, NOW + 60 * DAY).await, Pruned { entries: 1, ids: 1, audit: 0, more: false });
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

fn large(id: &str) -> Append {
    Append { bytes: vec![1; 9_000].into(), ..dm("m", id) }
}

async fn small(directory: &std::path::Path) -> SqliteEngine {
    SqliteEngine::open(EngineOptions { log_bytes: 100_000, ..options(directory) }).await.unwrap()
}

/// How much the rows take, by the database's own sums.
fn summed(directory: &std::path::Path) -> (u64, u64) {
    let raw = rusqlite::Connection::open(directory.join("broker.db")).unwrap();
    let sql = "SELECT bytes,
        (SELECT coalesce(sum(octet_length(body) + octet_length(audience) + octet_length(client_id) + 200), 0) FROM log)
        + (SELECT coalesce(sum(2 * octet_length(client_id) + 200), 0) FROM dedupe) FROM logs WHERE mesh = 'm'";
    raw.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))).unwrap()
}

/// A log has a limit in bytes. Refused is only what is new; its lane keeps its order and its id stays free.
#[tokio::test]
async fn a_full_log_takes_nothing_new_until_there_is_room() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = small(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let mut taken = 0;
    let refused = loop {
        let audience = vec!["bob".to_owned(), "carol".to_owned()];
        match engine.append(Append { audience, ..large(&format!("ä {taken}")) }).await {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, AppendError::Full), "{refused}");
    assert_eq!(taken, 10);
    let room = engine.room("m").unwrap();
    assert!(room.is_short() && room.used <= room.limit && room.percent() > 90.0, "{room:?}");
    assert_eq!(summed(scratch.path()), (room.used, room.used));
    // It rings, also for who comes later.
    engine.pressed().notified().await;
    // What is there is there; what is not can be said later, in its turn.
    assert!(engine.append(Append { audience: Vec::new(), ..large("ä 3") }).await.unwrap().duplicate);
    let lane = Arc::new(AtomicU64::new(0));
    let at = |place: u64, bytes: usize| Append {
        gate: Some(Gate { lane: Arc::clone(&lane), place }),
        bytes: vec![1; bytes].into(),
        ..dm("m", &format!("lane {place}"))
    };
    assert!(matches!(engine.append(at(1, 30_000)).await, Err(AppendError::Full)));
    assert!(matches!(engine.append(at(2, 1)).await, Err(AppendError::Blocked)));
    // The broker's own news are few and always fit.
    engine.append(Append { sender: String::new(), client_id: String::new(), ..dm("m", "") }).await.unwrap();
    // Nothing goes that somebody may still need, and no more than has to.
    assert_eq!(engine.trim("m", 2, room.enough()).await.unwrap(), Pruned { entries: 2, ids: 0, audit: 0, more: false });
    assert_eq!(engine.trim("m", 2, room.enough()).await.unwrap(), Pruned::default());
    assert!(matches!(engine.append(at(1, 30_000)).await, Err(AppendError::Full)), "still too long");
    assert_eq!(engine.trim("m", u64::MAX, 60_000).await.unwrap(), Pruned { entries: 2, ids: 0, audit: 0, more: false });
    assert_eq!(engine.bounds("m").unwrap().first_seq, 5);
    let again = engine.append(large("ä 0")).await.unwrap();
    assert!(again.duplicate && !again.history_available, "its id is remembered");
    engine.append(at(1, 30_000)).await.unwrap();
    engine.append(at(2, 1)).await.unwrap();
    let used = engine.room("m").unwrap().used;
    assert_eq!(summed(scratch.path()), (used, used));
    engine.close().await;
    drop(engine);
    let engine = small(scratch.path()).await;
    assert_eq!(engine.room("m").unwrap(), Room { used, limit: 100_000 });
    prune_all(&engine, u64::MAX - 1).await;
    assert_eq!((engine.room("m").unwrap().used, summed(scratch.path())), (0, (0, 0)));
}

/// The members of a large group are stored once, counted once, and go with the last message to them.
#[tokio::test]
async fn a_large_audience_is_stored_once() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let members: Vec<String> = (0..2000).map(|number| format!("member-{number:020}")).collect();
    let used = || engine.room("m").unwrap().used;
    let to_group = |id: &str, day: u64| Append {
        kind: Kind::Group,
        audience: members.clone(),
        now_ms: NOW + day * DAY,
        expires_ms: NOW + (30 + day) * DAY,
        ..dm("m", id)
    };
    engine.append(to_group("a", 0)).await.unwrap();
    let one = used();
    assert!(one > 50_000, "{one}");
    for day in 1..10 {
        engine.append(to_group(&format!("later {day}"), day)).await.unwrap();
    }
    assert!(used() < one + 10_000, "{} after {one}", used());
    engine.close().await;
    let engine = open(scratch.path()).await;
    let entries = engine.read("m", 0, 100, usize::MAX).await.unwrap();
    assert!(entries.len() == 10 && entries.iter().all(|entry| entry.audience[..] == members[..]));
    let raw = rusqlite::Connection::open(scratch.path().join("broker.db")).unwrap();
    let count =
        |table: &str| raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((count("audiences"), count("audience_members")), (1, 1));
    assert_eq!(prune_all(&engine, NOW + 38 * DAY).await.entries, 9);
    assert_eq!(count("audiences"), 1, "there is a message to it");
    assert_eq!(engine.read("m", 0, 100, usize::MAX).await.unwrap()[0].audience[..], members[..]);
    assert_eq!(prune_all(&engine, NOW + 39 * DAY).await.entries, 1);
    assert_eq!((count("audiences"), count("audience_members")), (0, 0));
    prune_all(&engine, NOW + 100 * DAY).await;
    assert_eq!(engine.room("m").unwrap().used, 0);
}
