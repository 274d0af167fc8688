//! The audit: any change of it is found where it is.

use std::path::Path;

use hostel_broker::audit::AuditEvent;
use hostel_broker::engine::{Engine, KvBatch, KvOp, SqliteEngine};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{NOW, open};

const RECORDS: u64 = 12;

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

async fn filled(directory: &Path) -> SqliteEngine {
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
