//! The audit: any change of it is found where it is.

use std::path::Path;

use hostel_broker::audit::AuditEvent;
use hostel_broker::engine::{Engine, EngineOptions, KvBatch, KvOp, SqliteEngine};
use rusqlite::Connection;
use serde_json::json;

use crate::engine::support::{DAY, NOW, open, options};

pub(crate) const RECORDS: u64 = 12;

fn event(number: u64) -> AuditEvent {
    AuditEvent {
        mesh: if number.is_multiple_of(2) { "m" } else { "n" }.to_owned(),
        kind: "member_joined".to_owned(),
        actor: "alice".to_owned(),
        subject: format!("subject {number}"),
        body: json!({"number": number}),
        time_ms: NOW + number,
    }
}

pub(crate) async fn filled(directory: &Path) -> SqliteEngine {
    let engine = open(directory).await;
    for number in 1..=RECORDS {
        // Also several in one transaction, with what they tell of.
        let batch = KvBatch { ops: vec![KvOp::put("a", "k", Vec::new())], audit: vec![event(number)] };
        engine.commit(batch).await.unwrap();
    }
    engine
}

#[tokio::test]
async fn records_are_a_chain() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = filled(scratch.path()).await;
    engine.audit_append(event(RECORDS + 1)).await.unwrap();
    let verified = engine.audit_verify().await.unwrap();
    assert_eq!((verified.records, verified.broken), (RECORDS + 1, None));
    let records = engine.audit_read("m", 2, 3).await.unwrap();
    assert_eq!(records.iter().map(|one| one.no).collect::<Vec<_>>(), [4, 6, 8]);
    assert_eq!((records[0].time_ms, records[0].kind.as_str()), (NOW + 4, "member_joined"));
    assert_eq!((&records[0].subject[..], &records[0].body), ("subject 4", &json!({"number": 4})));
    let next = engine.audit_read("n", 4, 1).await.unwrap().remove(0);
    assert_eq!(next.previous, records[0].digest);
    assert!(engine.audit_read("other", 0, 10).await.unwrap().is_empty());
}

/// A batch that is refused leaves no record.
#[tokio::test]
async fn what_did_not_happen_is_not_told() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = filled(scratch.path()).await;
    let batch = KvBatch { ops: vec![KvOp::check("a", "k", 0)], audit: vec![event(99)] };
    assert!(engine.commit(batch).await.is_err());
    assert_eq!(engine.audit_verify().await.unwrap().records, RECORDS);
}

#[tokio::test]
async fn every_changed_byte_is_found_in_its_record() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = filled(scratch.path()).await;
    let raw = Connection::open(scratch.path().join("broker.db")).unwrap();
    for no in [1, 5, RECORDS] {
        for column in ["mesh", "kind", "actor", "subject", "body", "previous", "digest"] {
            let select = format!("SELECT CAST({column} AS BLOB), typeof({column}) FROM audit WHERE no = {no}");
            let (original, kind): (Vec<u8>, String) =
                raw.query_row(&select, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            let set = |bytes: &[u8]| {
                let to = if kind == "text" { "CAST(? AS TEXT)" } else { "?" };
                raw.execute(&format!("UPDATE audit SET {column} = {to} WHERE no = {no}"), [bytes]).unwrap();
            };
            for place in 0..original.len() {
                let mut changed = original.clone();
                changed[place] ^= 1;
                set(&changed);
                let verified = engine.audit_verify().await.unwrap();
                let broken = verified.broken.unwrap_or_else(|| panic!("{column} of {no}, byte {place}"));
                assert_eq!((broken.no, verified.records), (no, no - 1), "{column}, byte {place}: {}", broken.what);
            }
            set(&original);
        }
        raw.execute("UPDATE audit SET time_ms = time_ms + 1 WHERE no = ?", [no as i64]).unwrap();
        assert_eq!(engine.audit_verify().await.unwrap().broken.unwrap().no, no);
        raw.execute("UPDATE audit SET time_ms = time_ms - 1 WHERE no = ?", [no as i64]).unwrap();
    }
    assert_eq!(engine.audit_verify().await.unwrap().broken, None);
}

#[tokio::test]
async fn records_that_were_removed_slipped_in_or_cut_off_are_found() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = filled(scratch.path()).await;
    let raw = Connection::open(scratch.path().join("broker.db")).unwrap();
    let cases = [
        ("DELETE FROM audit WHERE no = 1", 1, "record 1 is missing"),
        ("DELETE FROM audit WHERE no = 5", 5, "record 5 is missing"),
        ("DELETE FROM audit WHERE no > 9", 10, "records 10 to 12 are missing at the end"),
        ("DELETE FROM audit", 1, "records 1 to 12 are missing at the end"),
        (
            "INSERT INTO audit SELECT 0, time_ms, mesh, kind, actor, subject, body, previous, digest FROM audit WHERE no = 1",
            1,
            "slipped in",
        ),
        (
            "INSERT INTO audit SELECT 13, time_ms, mesh, kind, actor, subject, body, digest, digest FROM audit WHERE no = 12",
            13,
            "not what was written",
        ),
        ("DELETE FROM audit_head", 13, "missing or unreadable"),
        ("UPDATE audit_head SET no = 11", 12, "noted as the last one"),
        ("UPDATE audit_head SET digest = zeroblob(32)", 12, "noted as the last one"),
        ("UPDATE audit SET no = 20 WHERE no = 7", 7, "record 7 is missing"),
    ];
    for (damage, no, what) in cases {
        let copy = tempfile::tempdir().unwrap();
        let target = copy.path().join("broker.db");
        raw.execute("VACUUM INTO ?", [target.to_str().unwrap()]).unwrap();
        let damaged = open(copy.path()).await;
        Connection::open(&target).unwrap().execute_batch(damage).unwrap();
        let broken = damaged.audit_verify().await.unwrap().broken.unwrap_or_else(|| panic!("{damage}"));
        assert_eq!(broken.no, no, "{damage}: {}", broken.what);
        assert!(broken.what.contains(what), "{damage}: {}", broken.what);
    }
    assert_eq!(engine.audit_verify().await.unwrap().broken, None);
}

/// More records than are read at once, while others are appended.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_audit_is_verified_while_it_grows() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = open(scratch.path()).await;
    let events = |count: u64| KvBatch { ops: Vec::new(), audit: (0..count).map(event).collect() };
    engine.commit(events(2500)).await.unwrap();
    let writer = {
        let engine = engine.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                engine.commit(events(10)).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        assert_eq!(engine.audit_verify().await.unwrap().broken, None);
    }
    writer.await.unwrap();
    assert_eq!(engine.audit_verify().await.unwrap().records, 3000);
}

fn events(numbers: std::ops::Range<u64>) -> KvBatch {
    KvBatch { ops: Vec::new(), audit: numbers.map(event).collect() }
}

async fn bounded(directory: &Path, records: u64, days: u32) -> SqliteEngine {
    let bounds = EngineOptions { audit_records: records, audit_days: days, ..options(directory) };
    SqliteEngine::open(bounds).await.unwrap()
}

/// The numbers of the first and the last record that are kept, in both meshes.
async fn kept(engine: &SqliteEngine) -> (u64, u64, usize) {
    let mut all = Vec::new();
    for mesh in ["m", "n"] {
        all.extend(engine.audit_read(mesh, 0, 100_000).await.unwrap().into_iter().map(|one| one.no));
    }
    all.sort_unstable();
    (all[0], all[all.len() - 1], all.len())
}

/// However fast somebody writes, there are never more than may be kept.
#[tokio::test]
async fn records_that_are_too_many_go_as_others_are_written() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = bounded(scratch.path(), 100, 0).await;
    for number in 0..40 {
        engine.commit(events(number * 7..number * 7 + 7)).await.unwrap();
        let (first, last, count) = kept(&engine).await;
        assert_eq!(last, number * 7 + 7);
        assert_eq!((first, count as u64), (last.saturating_sub(100) + 1, last.min(100)));
        let verified = engine.audit_verify().await.unwrap();
        assert_eq!((verified.records, verified.broken), (last.min(100), None));
    }
    // One transaction with more than may be kept in all.
    engine.commit(events(0..300)).await.unwrap();
    assert_eq!(kept(&engine).await, (481, 580, 100));
    engine.close().await;
    drop(engine);
    // A lower bound is reached step by step, and nothing starts again at 1.
    let engine = bounded(scratch.path(), 10, 0).await;
    engine.audit_append(event(1)).await.unwrap();
    assert_eq!(kept(&engine).await, (483, 581, 99));
    let pruned = engine.prune(NOW).await.unwrap();
    assert_eq!((pruned.audit, pruned.more), (89, false));
    assert_eq!(kept(&engine).await, (572, 581, 10));
    assert_eq!(engine.audit_verify().await.unwrap().broken, None);
}

#[tokio::test]
async fn records_that_are_too_old_go_in_pieces() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = bounded(scratch.path(), 0, 3).await;
    engine.commit(events(0..1200)).await.unwrap();
    let later = AuditEvent { time_ms: NOW + 2 * DAY, ..event(2) };
    engine.audit_append(later).await.unwrap();
    assert_eq!(engine.prune(NOW + 3 * DAY).await.unwrap().audit, 0);
    let first = engine.prune(NOW + 4 * DAY).await.unwrap();
    assert_eq!((first.audit, first.more), (500, true));
    assert_eq!(engine.audit_verify().await.unwrap().records, 701);
    engine.prune(NOW + 4 * DAY).await.unwrap();
    let last = engine.prune(NOW + 4 * DAY).await.unwrap();
    assert_eq!((last.audit, last.more), (200, false));
    assert_eq!(kept(&engine).await, (1201, 1201, 1));
    // The newest stays, whatever the time is: the chain goes on from it.
    assert_eq!(engine.prune(NOW + 4000 * DAY).await.unwrap().audit, 0);
    engine.audit_append(event(3)).await.unwrap();
    let verified = engine.audit_verify().await.unwrap();
    assert_eq!((verified.records, verified.broken), (2, None));
}

/// A chain that has lost its beginning is as good as a whole one.
#[tokio::test]
async fn changes_after_the_beginning_went_are_found() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = bounded(scratch.path(), 10, 0).await;
    for number in 0..3 {
        engine.commit(events(number * 6..number * 6 + 6)).await.unwrap();
    }
    assert_eq!(kept(&engine).await, (9, 18, 10));
    let raw = Connection::open(scratch.path().join("broker.db")).unwrap();
    let cases = [
        ("DELETE FROM audit WHERE no = 9", 9, "record 9 is missing"),
        ("UPDATE audit SET subject = 'x' WHERE no = 9", 9, "not what was written"),
        ("UPDATE audit SET previous = zeroblob(32) WHERE no = 9", 9, "does not follow"),
        ("UPDATE audit_base SET digest = zeroblob(32)", 9, "does not follow"),
        ("UPDATE audit_base SET no = 7", 8, "record 8 is missing"),
        ("UPDATE audit_base SET no = 9", 10, "slipped in"),
        ("UPDATE audit_base SET no = 30", 31, "slipped in"),
        ("DELETE FROM audit_base", 1, "missing or unreadable"),
        (
            "INSERT INTO audit SELECT 8, time_ms, mesh, kind, actor, subject, body, previous, digest FROM audit WHERE no = 9",
            9,
            "slipped in",
        ),
    ];
    for (damage, no, what) in cases {
        let copy = tempfile::tempdir().unwrap();
        let target = copy.path().join("broker.db");
        raw.execute("VACUUM INTO ?", [target.to_str().unwrap()]).unwrap();
        let damaged = bounded(copy.path(), 10, 0).await;
        Connection::open(&target).unwrap().execute_batch(damage).unwrap();
        let broken = damaged.audit_verify().await.unwrap().broken.unwrap_or_else(|| panic!("{damage}"));
        assert_eq!(broken.no, no, "{damage}: {}", broken.what);
        assert!(broken.what.contains(what), "{damage}: {}", broken.what);
    }
    assert_eq!(engine.audit_verify().await.unwrap().broken, None);
}

/// Records go while somebody looks through them.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_is_verified_while_its_beginning_goes() {
    let scratch = tempfile::tempdir().unwrap();
    let engine = bounded(scratch.path(), 2500, 0).await;
    engine.commit(events(0..2500)).await.unwrap();
    let writer = {
        let engine = engine.clone();
        tokio::spawn(async move {
            for _ in 0..100 {
                engine.commit(events(0..50)).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        assert_eq!(engine.audit_verify().await.unwrap().broken, None);
    }
    writer.await.unwrap();
    assert_eq!(engine.audit_verify().await.unwrap().records, 2500);
}
