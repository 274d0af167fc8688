//! Appending and reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_broker::engine::{
    Append, AppendError, Engine, EngineError, EngineOptions, Gate, Guard, HistoryQuery, KvBatch, KvOp, SqliteEngine,
};
use hostel_wire::frames::{Kind, Priority};

use crate::engine::support::{NOW, dm, open, options};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_rise_in_the_order_of_submission() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let mut tail = engine.tail("m").unwrap();
    let mut tickets = Vec::new();
    for number in 0..3000 {
        tickets.push(engine.submit_append(dm("m", &format!("id {number}"))).await.unwrap());
    }
    for (number, ticket) in tickets.into_iter().enumerate() {
        let done = ticket.done().await.unwrap();
        assert_eq!((done.seq, done.duplicate, done.history_available), (number as u64 + 1, false, true));
        assert_eq!((done.id.len(), done.ts_ms), (32, NOW));
        // Readers know before senders do.
        assert!(*tail.borrow_and_update() >= done.seq);
    }
    let bounds = engine.bounds("m").unwrap();
    assert_eq!((bounds.first_seq, bounds.last_seq), (1, 3000));
    assert!(engine.bounds("other").is_none() && engine.tail("other").is_none());
    let refused = engine.append(dm("other", "x")).await;
    assert!(matches!(refused, Err(AppendError::Engine(EngineError::NoLog(_)))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_share_one_log_without_gaps() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    for mesh in ["m", "n"] {
        engine.ensure_log(mesh).await.unwrap();
    }
    let mut tasks = Vec::new();
    for caller in 0..8 {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move {
            let mut seqs = Vec::new();
            for number in 0..100 {
                let mesh = if number % 2 == 0 { "m" } else { "n" };
                let append = Append { sender: format!("sender {caller}"), ..dm(mesh, &format!("id {number}")) };
                seqs.push((mesh, engine.append(append).await.unwrap().seq));
            }
            assert!(seqs.windows(3).all(|three| three[0].1 < three[2].1));
            seqs
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    for mesh in ["m", "n"] {
        let mut seqs: Vec<u64> = all.iter().filter(|(of, _)| *of == mesh).map(|(_, seq)| *seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=400).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn an_id_is_used_once() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    engine.ensure_log("n").await.unwrap();
    let first = engine.append(dm("m", "a")).await.unwrap();
    // The payload is not compared: a retry is sealed anew. The fingerprint is.
    let again = engine.append(Append { bytes: "sealed anew".into(), ..dm("m", "a") }).await.unwrap();
    assert!(again.duplicate && again.history_available);
    assert_eq!((again.seq, &again.id), (first.seq, &first.id));
    let other = engine.append(Append { fingerprint: [2; 32], ..dm("m", "a") }).await;
    assert!(matches!(&other, Err(AppendError::Reused { id }) if *id == first.id), "{other:?}");
    // Another sender, another mesh, no id at all: each is new.
    assert!(!engine.append(Append { sender: "bob".into(), ..dm("m", "a") }).await.unwrap().duplicate);
    assert!(!engine.append(dm("n", "a")).await.unwrap().duplicate);
    for _ in 0..2 {
        assert!(!engine.append(dm("m", "")).await.unwrap().duplicate);
    }
    assert_eq!(engine.bounds("m").unwrap().last_seq, 4);
    let known = engine.lookup("m", "alice", "a").await.unwrap().unwrap();
    assert_eq!((known.seq, &known.id, known.fingerprint, known.ts_ms), (1, &first.id, [1; 32], NOW));
    assert_eq!(engine.lookup("m", "alice", "b").await.unwrap(), None);
    // The same from disk.
    engine.close().await;
    let engine = open(scratch.path()).await;
    assert_eq!(engine.lookup("m", "alice", "a").await.unwrap().unwrap(), known);
    assert!(engine.append(dm("m", "a")).await.unwrap().duplicate);
}

#[tokio::test]
async fn duplicates_within_one_batch_are_duplicates() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let mut tickets = Vec::new();
    for fingerprint in [1, 1, 2] {
        tickets.push(engine.submit_append(Append { fingerprint: [fingerprint; 32], ..dm("m", "a") }).await.unwrap());
    }
    let mut done = Vec::new();
    for ticket in tickets {
        done.push(ticket.done().await);
    }
    assert!(matches!(&done[0], Ok(one) if !one.duplicate && one.seq == 1));
    assert!(matches!(&done[1], Ok(one) if one.duplicate && one.seq == 1));
    assert!(matches!(&done[2], Err(AppendError::Reused { .. })));
}

#[tokio::test]
async fn guards_are_checked_where_the_entry_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let revision = engine.put("member", "m/bob", b"1".to_vec()).await.unwrap();
    let guard = |key: &str, revision| vec![Guard { bucket: "member", key: key.to_owned(), revision }];
    let with = |id: &str, guards| Append { guards, ..dm("m", id) };
    engine.append(with("a", guard("m/bob", revision))).await.unwrap();
    engine.append(with("b", guard("m/nobody", 0))).await.unwrap();
    let now = engine.put("member", "m/bob", b"2".to_vec()).await.unwrap();
    let stale = engine.append(with("c", guard("m/bob", revision))).await;
    assert!(matches!(&stale, Err(AppendError::Stale(guard)) if guard.key == "m/bob"), "{stale:?}");
    // The id is free, and the next number is not used up.
    assert_eq!(engine.lookup("m", "alice", "c").await.unwrap(), None);
    assert_eq!(engine.append(with("c", guard("m/bob", now))).await.unwrap().seq, 3);
    // What is there is there, whatever has changed.
    assert!(engine.append(with("a", guard("m/bob", revision))).await.unwrap().duplicate);
    let reused = engine.append(Append { fingerprint: [9; 32], ..with("a", guard("m/bob", revision)) }).await;
    assert!(matches!(reused, Err(AppendError::Reused { .. })), "{reused:?}");
    engine.delete("member", "m/bob").await.unwrap();
    let gone = engine.append(with("d", guard("m/bob", now))).await;
    assert!(matches!(gone, Err(AppendError::Stale(_))), "{gone:?}");
}

#[tokio::test]
async fn a_lane_keeps_its_order_when_one_of_it_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let lane = Arc::new(AtomicU64::new(0));
    let stale = vec![Guard { bucket: "member", key: "m/bob".into(), revision: 7 }];
    let at = |place: u64, guards: &[Guard]| Append {
        gate: Some(Gate { lane: Arc::clone(&lane), place }),
        guards: guards.to_vec(),
        ..dm("m", &format!("id {place}"))
    };
    // One batch: the second fails, so the third and fourth may not pass; another lane is not held up.
    let mut tickets = Vec::new();
    for append in [at(1, &[]), at(2, &stale), at(3, &[]), dm("m", "elsewhere"), at(4, &[])] {
        tickets.push(engine.submit_append(append).await.unwrap());
    }
    let mut done = Vec::new();
    for ticket in tickets {
        done.push(ticket.done().await.map(|done| done.seq));
    }
    assert!(matches!(done[0], Ok(1)) && matches!(done[3], Ok(2)), "{done:?}");
    assert!(matches!(done[1], Err(AppendError::Stale(_))), "{done:?}");
    assert!(matches!((&done[2], &done[4]), (Err(AppendError::Blocked), Err(AppendError::Blocked))), "{done:?}");
    assert_eq!(lane.load(Ordering::Acquire), 2);
    let blocked = engine.append(at(3, &[])).await;
    assert!(matches!(blocked, Err(AppendError::Blocked)), "{blocked:?}");
    // It fails once more, and then it comes.
    assert!(matches!(engine.append(at(2, &stale)).await, Err(AppendError::Stale(_))));
    assert!(matches!(engine.append(at(3, &[])).await, Err(AppendError::Blocked)));
    for place in 2..5 {
        assert_eq!(engine.append(at(place, &[])).await.unwrap().seq, place + 1);
    }
}

/// The disk fails for one of a batch: nothing of it is there, nobody is told otherwise, and lanes are shut.
#[tokio::test]
async fn a_failed_commit_takes_back_its_batch_and_shuts_its_lanes() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let raw = rusqlite::Connection::open(scratch.path().join("broker.db")).unwrap();
    let trigger =
        "CREATE TRIGGER bad BEFORE INSERT ON log WHEN NEW.client_id = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END";
    raw.execute_batch(trigger).unwrap();
    let lane = Arc::new(AtomicU64::new(0));
    let at = |place: u64, id: &str| Append { gate: Some(Gate { lane: Arc::clone(&lane), place }), ..dm("m", id) };
    let mut tickets = Vec::new();
    for append in [at(1, "a"), dm("m", "bad"), at(2, "b")] {
        tickets.push(engine.submit_append(append).await.unwrap());
    }
    for ticket in tickets {
        let done = ticket.done().await;
        assert!(matches!(done, Err(AppendError::Engine(_))), "{done:?}");
    }
    assert_eq!((lane.load(Ordering::Acquire), engine.bounds("m").unwrap().last_seq), (1, 0));
    assert_eq!(engine.lookup("m", "alice", "a").await.unwrap(), None);
    assert!(matches!(engine.append(at(2, "b")).await, Err(AppendError::Blocked)));
    assert_eq!(engine.append(at(1, "a")).await.unwrap().seq, 1);
    assert_eq!(engine.append(at(2, "b")).await.unwrap().seq, 2);
}

async fn fill(engine: &SqliteEngine, count: u64) {
    engine.ensure_log("m").await.unwrap();
    let mut tickets = Vec::new();
    for number in 1..=count {
        let (kind, dest) = match number % 4 {
            0 => (Kind::Topic, "t1"),
            1 => (Kind::Topic, "t2"),
            2 => (Kind::Dm, "bob"),
            _ => (Kind::Group, "ops"),
        };
        let append = Append {
            kind,
            dest: dest.to_owned(),
            priority: if number % 10 == 0 { Priority::Now } else { Priority::Low },
            audience: if kind == Kind::Group { vec!["bob".into(), "carol".into()] } else { Vec::new() },
            bytes: vec![number as u8; 100].into(),
            ..dm("m", &format!("id {number}"))
        };
        tickets.push(engine.submit_append(append).await.unwrap());
    }
    for ticket in tickets {
        ticket.done().await.unwrap();
    }
}

async fn check_reads(engine: &SqliteEngine) {
    let seqs = |entries: Vec<Arc<hostel_broker::engine::Entry>>| entries.iter().map(|one| one.seq).collect::<Vec<_>>();
    assert_eq!(seqs(engine.read("m", 0, 5, usize::MAX).await.unwrap()), [1, 2, 3, 4, 5]);
    assert_eq!(seqs(engine.read("m", 97, 50, usize::MAX).await.unwrap()), [98, 99, 100]);
    assert_eq!(seqs(engine.read("m", 100, 50, usize::MAX).await.unwrap()), [0_u64; 0]);
    // Whole entries up to a number of bytes, and one in any case.
    assert_eq!(seqs(engine.read("m", 10, 50, 250).await.unwrap()), [11, 12]);
    assert_eq!(seqs(engine.read("m", 10, 50, 1).await.unwrap()), [11]);
    assert_eq!(seqs(engine.read_urgent("m", 10, 45, 50, usize::MAX).await.unwrap()), [20, 30, 40]);
    assert_eq!(seqs(engine.read_urgent("m", 10, 99, 2, usize::MAX).await.unwrap()), [20, 30]);
    let query = |topic: Option<&str>, member: Option<&str>| HistoryQuery {
        topic: topic.map(str::to_owned),
        with_member: member.map(str::to_owned),
        limit: 3,
        max_bytes: usize::MAX,
        ..HistoryQuery::default()
    };
    assert_eq!(seqs(engine.history("m", query(Some("t1"), None)).await.unwrap()), [100, 96, 92]);
    assert_eq!(seqs(engine.history("m", query(None, Some("bob"))).await.unwrap()), [98, 94, 90]);
    let older = HistoryQuery { before_seq: Some(9), after_seq: Some(1), ..query(None, None) };
    assert_eq!(seqs(engine.history("m", older).await.unwrap()), [8, 7, 6]);
    let entry = engine.read("m", 10, 1, usize::MAX).await.unwrap().remove(0);
    assert_eq!(
        (entry.kind, entry.dest.as_str(), &entry.audience[..]),
        (Kind::Group, "ops", &["bob", "carol"].map(String::from)[..])
    );
    assert_eq!((entry.sender.as_str(), entry.client_id.as_str(), entry.fingerprint), ("alice", "id 11", [1; 32]));
    assert_eq!((entry.priority, entry.ts_ms, &entry.bytes[..]), (Priority::Low, NOW, &[11; 100][..]));
    assert_eq!(engine.entry("m", &entry.id).await.unwrap().unwrap().seq, 11);
    let mut forged = entry.id.clone();
    forged.replace_range(0..1, if forged.starts_with('x') { "y" } else { "x" });
    assert!(engine.entry("m", &forged).await.unwrap().is_none());
    assert!(engine.entry("m", "nonsense").await.unwrap().is_none());
}

/// The same answers from memory and from disk.
#[tokio::test]
async fn entries_are_read_back_as_they_were_appended() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    fill(&engine, 100).await;
    check_reads(&engine).await;
    // Those who read the newest share them.
    let (one, other) = (engine.read("m", 99, 1, 1).await.unwrap(), engine.read("m", 99, 1, 1).await.unwrap());
    assert!(Arc::ptr_eq(&one[0], &other[0]));
    let epoch = engine.bounds("m").unwrap();
    engine.close().await;
    let engine = open(scratch.path()).await;
    check_reads(&engine).await;
    assert_eq!(engine.bounds("m").unwrap(), epoch);
    assert_ne!(engine.ensure_log("n").await.unwrap().epoch, epoch.epoch);
    assert_eq!(engine.ensure_log("m").await.unwrap(), epoch);
}

/// A small memory holds only the last few; the rest comes from disk, without a seam.
#[tokio::test]
async fn a_reader_passes_from_disk_to_memory_without_a_seam() {
    let scratch = tempfile::tempdir().unwrap();
    let options = EngineOptions { recent_bytes: 10_000, ..options(scratch.path()) };
    let engine = SqliteEngine::open(options).await.unwrap();
    fill(&engine, 100).await;
    check_reads(&engine).await;
    let mut seen = 0;
    while let Some(last) = engine.read("m", seen, 7, usize::MAX).await.unwrap().last() {
        assert!(last.seq > seen && last.seq <= seen + 7);
        seen = last.seq;
    }
    assert_eq!(seen, 100);
}

#[tokio::test]
async fn an_entry_whose_ticket_is_dropped_is_written_and_told_to_readers() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let mut tail = engine.tail("m").unwrap();
    drop(engine.submit_append(dm("m", "a")).await.unwrap());
    tail.wait_for(|seq| *seq == 1).await.unwrap();
    assert_eq!(engine.read("m", 0, 1, 1).await.unwrap()[0].client_id, "a");
}

#[tokio::test]
async fn closing_writes_what_stands_in_line_and_nothing_after() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    engine.ensure_log("m").await.unwrap();
    let mut tickets = Vec::new();
    for number in 0..50 {
        tickets.push(engine.submit_append(dm("m", &format!("id {number}"))).await.unwrap());
    }
    engine.close().await;
    for ticket in tickets {
        ticket.done().await.unwrap();
    }
    assert!(engine.append(dm("m", "late")).await.is_err());
    assert!(engine.commit(KvBatch::of([KvOp::put("a", "b", Vec::new())])).await.is_err());
    assert_eq!(open(scratch.path()).await.bounds("m").unwrap().last_seq, 50);
}

/// More bytes than may wait: the askers wait, nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_bounded_in_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(EngineOptions { line_bytes: 64 * 1024, ..options(scratch.path()) }).await.unwrap();
    engine.ensure_log("m").await.unwrap();
    let mut tickets = Vec::new();
    for number in 0..100 {
        // One that is larger than the whole line has it alone.
        let size = if number == 50 { 200_000 } else { 20_000 };
        let append = Append { bytes: vec![7; size].into(), ..dm("m", &format!("id {number}")) };
        tickets.push(engine.submit_append(append).await.unwrap());
    }
    for (number, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.done().await.unwrap().seq, number as u64 + 1);
    }
}
