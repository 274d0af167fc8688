//! The audit: appended to and nothing else, and whatever is done to it is found where it was done.

use hostel_house::approvals::{Action, Broken, DecideError, State, Verified};
use hostel_syncpoint::SyncPoint;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::house::{House, command, connected, finished, rule, terminal};

/// A house with records of several kinds, and how many.
async fn lived_in() -> (House, u64) {
    let house = House::with(|options| options.rules = vec![rule("fine", Action::Allow, &["true"])]).await;
    for number in 0..4 {
        let granted = house.ask(connected(&number.to_string(), &["true"])).await;
        house.approvals.record_started(&granted.id).await.unwrap();
        house.approvals.record_outcome(&granted.id, &finished(number)).await.unwrap();
    }
    let asked = house.ask(command(&["other"])).await;
    house.deny(&asked.id).await.unwrap();
    let records = house.verified().await;
    // The first record names the key that signs the others.
    assert_eq!(records, 1 + 4 * 4 + 2);
    (house, records)
}

/// Somebody who may write to the file and does not care for triggers.
fn intruder(house: &House) -> Connection {
    let connection = Connection::open(house.database()).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection
        .execute_batch(
            "DROP TRIGGER audit_in_order; DROP TRIGGER audit_head_follows; DROP TRIGGER audit_is_not_changed;
             DROP TRIGGER audit_is_not_deleted;",
        )
        .unwrap();
    connection
}

async fn verify(house: &House) -> Verified {
    house.approvals.audit().verify(None).await.unwrap()
}

async fn broken_at(house: &House, no: u64, what: &str) {
    let found = verify(house).await;
    let Some(Broken { no: at, what: said }) = found.broken else { panic!("nothing was found") };
    assert_eq!((at, said.contains(what)), (no, true), "{at}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_say_who_what_and_how_it_ended() {
    let (house, _) = lived_in().await;
    let first = house.approvals.audit().show(0, 1).await.unwrap();
    assert_eq!((first[0].kind.as_str(), first[0].previous), ("segment", [0; 32]));
    let records = house.approvals.audit().show(1, 4).await.unwrap();
    assert_eq!(records[0].previous, first[0].digest);
    let kinds: Vec<&str> = records.iter().map(|record| record.kind.as_str()).collect();
    assert_eq!(kinds, ["requested", "decided", "started", "finished"]);
    assert_eq!(records[0].body["argv"], serde_json::json!([["true"]]));
    assert_eq!(records[0].body["session"], "alpha");
    assert_eq!(records[0].body["digest"], records[1].body["digest"]);
    assert_eq!((&records[1].body["rule"], &records[1].body["state"]), (&"fine".into(), &"approved".into()));
    assert_eq!(records[3].body["exit_codes"], serde_json::json!([0]));
    // Values of the environment are not in it.
    assert!(!records[0].body.to_string().contains("/usr/bin:/bin"));
    for pair in records.windows(2) {
        assert_eq!((pair[1].no, pair[1].previous), (pair[0].no + 1, pair[0].digest));
    }
    let next = house.approvals.audit().show(5, 2).await.unwrap();
    assert_eq!(next.iter().map(|record| record.no).collect::<Vec<_>>(), [6, 7]);
    assert!(house.approvals.audit().show(u64::MAX, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_itself_refuses_changes() {
    let (house, records) = lived_in().await;
    for sql in [
        "UPDATE audit SET body = '{}' WHERE no = 1",
        "DELETE FROM audit WHERE no = 1",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit VALUES (1, 1, 'k', '', '{}', zeroblob(32), zeroblob(32))",
        "INSERT INTO audit VALUES (100, 1, 'k', '', '{}', zeroblob(32), zeroblob(32))",
    ] {
        let outcome = house.store.write(SyncPoint::NONE, move |transaction| transaction.execute(sql, [])).await;
        assert!(outcome.is_err(), "{sql}: {outcome:?}");
    }
    assert_eq!(house.verified().await, records);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_byte_of_any_record_is_found_and_located() {
    let (house, records) = lived_in().await;
    let intruder = intruder(&house);
    let columns = ["time_ns", "kind", "approval", "body", "previous", "digest"];
    for no in 1..=records {
        for column in columns {
            // The house remembers this one and writes a record when it is another: see below.
            if (no, column) == (records, "digest") {
                continue;
            }
            let get = format!("SELECT {column} FROM audit WHERE no = ?");
            let set = format!("UPDATE audit SET {column} = ? WHERE no = ?");
            let right: Value = intruder.query_row(&get, [no as i64], |row| row.get(0)).unwrap();
            for wrong in spoilt(&right) {
                intruder.execute(&set, rusqlite::params![wrong, no as i64]).unwrap();
                let found = verify(&house).await;
                let at = found.broken.map(|broken| broken.no);
                assert_eq!((at, found.records), (Some(no), no - 1), "{column} of {no}: {wrong:?}");
            }
            intruder.execute(&set, rusqlite::params![right, no as i64]).unwrap();
        }
    }
    assert_eq!(house.verified().await, records);
}

/// A value with one byte changed, each in turn (a long one: some), and with one less.
fn spoilt(right: &Value) -> Vec<Value> {
    let flip = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let places = |len: usize| (0..len).step_by((len / 8).max(1));
    match right {
        Value::Integer(number) => (0..63).step_by(7).map(|bit| Value::Integer(number ^ (1 << bit))).collect(),
        Value::Text(text) => {
            let bytes = text.as_bytes();
            let mut all: Vec<Value> =
                places(bytes.len()).filter_map(|at| String::from_utf8(flip(bytes, at)).ok().map(Value::Text)).collect();
            all.push(Value::Text(format!("{text} ")));
            all
        }
        Value::Blob(bytes) => {
            let mut all: Vec<Value> = places(bytes.len()).map(|at| Value::Blob(flip(bytes, at))).collect();
            all.push(Value::Blob(bytes[1..].to_vec()));
            all
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_slipped_in_or_moved_is_found() {
    let (house, records) = lived_in().await;
    let intruder = intruder(&house);
    let spoil = |sql: &str| intruder.execute_batch(sql).unwrap();
    spoil("CREATE TABLE copy AS SELECT * FROM audit; CREATE TABLE head AS SELECT * FROM audit_head;");
    let restore = || {
        intruder
            .execute_batch(
                "BEGIN IMMEDIATE; DELETE FROM audit; INSERT INTO audit SELECT * FROM copy;
                 DELETE FROM audit_head; INSERT INTO audit_head SELECT * FROM head; COMMIT;",
            )
            .unwrap();
    };
    let cases: Vec<(String, u64, &str)> = vec![
        ("DELETE FROM audit WHERE no = 7".into(), 7, "record 7 is missing"),
        ("DELETE FROM audit WHERE no BETWEEN 7 AND 9".into(), 7, "records 7 to 9 are missing"),
        ("DELETE FROM audit WHERE no = 1".into(), 1, "record 1 is missing"),
        (
            "UPDATE audit SET no = 1000 WHERE no = 3; UPDATE audit SET no = 3 WHERE no = 4;
             UPDATE audit SET no = 4 WHERE no = 1000"
                .into(),
            3,
            "does not follow",
        ),
        ("INSERT INTO audit VALUES (0, 1, 'k', '', '{}', zeroblob(32), zeroblob(32))".into(), 1, "slipped in"),
        ("INSERT INTO audit VALUES (-5, 1, 'k', '', '{}', zeroblob(32), zeroblob(32))".into(), 1, "slipped in"),
    ];
    for (sql, no, what) in cases {
        spoil(&sql);
        broken_at(&house, no, what).await;
        restore();
    }
    assert_eq!(house.verified().await, records);
}

/// The house knows the last record itself, so it notices what happens to the end at once, although the note of the last
/// record is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn another_end_is_noticed_and_recorded() {
    let appended = "INSERT INTO audit SELECT max(no) + 1, 1, 'k', '', '{}', zeroblob(32), zeroblob(32) FROM audit";
    for (sql, before_end, what) in [
        ("DELETE FROM audit WHERE no = (SELECT max(no) FROM audit)", Some(0), "is missing"),
        ("DELETE FROM audit WHERE no > (SELECT max(no) - 5 FROM audit)", Some(4), "are missing"),
        ("DELETE FROM audit", None, "are missing"),
        ("UPDATE audit SET digest = zeroblob(32) WHERE no = (SELECT max(no) FROM audit)", Some(0), "is another"),
    ] {
        let (house, records) = lived_in().await;
        intruder(&house).execute_batch(sql).unwrap();
        broken_at(&house, before_end.map_or(1, |count| records - count), what).await;
        let added = house.approvals.audit().show(records, 10).await.unwrap();
        assert_eq!(added.len(), 1, "{sql}: {added:?}");
        assert_eq!((added[0].kind.as_str(), &added[0].body["what"]), ("tampered", &"audit".into()), "{sql}");
        assert_eq!(added[0].body["missing_before"], records + 1, "{sql}");
        // It is said once.
        verify(&house).await;
        assert_eq!(house.approvals.audit().show(records, 10).await.unwrap().len(), 1, "{sql}");
    }
    let (house, records) = lived_in().await;
    intruder(&house).execute_batch(appended).unwrap();
    broken_at(&house, records + 1, "does not follow").await;
    let added = house.approvals.audit().show(records + 1, 10).await.unwrap();
    assert_eq!(added.len(), 1, "{added:?}");
    assert_eq!((added[0].kind.as_str(), &added[0].body["first"]), ("tampered", &(records + 1).into()));
}

/// The house knows the last record itself: it goes on behind that one, and says that somebody changed the note of it.
#[tokio::test(flavor = "multi_thread")]
async fn another_note_of_the_last_record_is_noticed_and_recorded() {
    for sql in [
        "UPDATE audit_head SET digest = zeroblob(32)",
        "UPDATE audit_head SET digest = x'00'",
        "UPDATE audit_head SET no = no - 3",
        "UPDATE audit_head SET no = no + 3",
        "DELETE FROM audit_head",
    ] {
        let (house, records) = lived_in().await;
        intruder(&house).execute_batch(sql).unwrap();
        broken_at(&house, records + 1, "found records before it removed or changed").await;
        let added = house.approvals.audit().show(records, 10).await.unwrap();
        assert_eq!(added.len(), 1, "{sql}: {added:?}");
        assert_eq!((added[0].kind.as_str(), &added[0].body["what"]), ("tampered", &"audit".into()), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_were_taken_back_leave_no_gap() {
    let house = House::with(|options| options.rules = vec![rule("fine", Action::Allow, &["true"])]).await;
    // Every third request is refused by the disk after its records were written.
    let refuse = "CREATE TEMP TRIGGER refuse AFTER INSERT ON audit WHEN NEW.kind = 'decided' AND NEW.no % 3 = 0
                  BEGIN SELECT RAISE(ABORT, 'no room'); END";
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let approvals = house.approvals.clone();
        many.spawn(async move {
            let alone = approvals.request(command(&["true"])).await.is_ok();
            let other = approvals.request(command(&["other"])).await.is_ok();
            (alone, other)
        });
    }
    let taken = many.join_all().await;
    let count: usize = taken.iter().map(|(alone, other)| 2 * usize::from(*alone) + usize::from(*other)).sum();
    assert!(taken.iter().any(|(alone, _)| !alone), "the disk refused nothing");
    assert_eq!(house.verified().await, 1 + count as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_looked_through_while_it_grows() {
    let house = House::with(|options| options.rules = vec![rule("fine", Action::Allow, &["true"])]).await;
    let approvals = house.approvals.clone();
    let writer = tokio::spawn(async move {
        let mut many = tokio::task::JoinSet::new();
        for _ in 0..1500 {
            let approvals = approvals.clone();
            many.spawn(async move { approvals.request(command(&["true"])).await.map(drop) });
            if many.len() > 64 {
                many.join_next().await.unwrap().unwrap().unwrap();
            }
        }
        many.join_all().await;
    });
    let mut looks = 0;
    while !writer.is_finished() {
        assert_eq!(verify(&house).await.broken, None);
        looks += 1;
    }
    writer.await.unwrap();
    assert!(looks > 0);
    // More than one batch.
    assert_eq!(house.verified().await, 1 + 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_on_disk_since_it_was_shown_is_not_approved() {
    use sha2::Digest as _;
    let house = House::new().await;
    let asked = house.ask(command(&["harmless"])).await;
    let intruder = intruder(&house);
    let text: String =
        intruder.query_row("SELECT subject FROM approvals WHERE id = ?", [&asked.id], |row| row.get(0)).unwrap();
    let text = text.replace("harmless", "harmfull");
    let digest = sha2::Sha256::digest(text.as_bytes()).to_vec();
    let changed = intruder
        .execute("UPDATE approvals SET subject = ?, digest = ? WHERE id = ?", rusqlite::params![text, digest, asked.id])
        .unwrap();
    assert_eq!(changed, 1);
    let refused = house.approvals.decide(&asked.id, hostel_agents::Decision::AllowOnce, &terminal()).await;
    assert!(matches!(&refused, Err(DecideError::Refused(why)) if why.contains("was changed")), "{refused:?}");
    let settled = house.approvals.get(&asked.id).await.unwrap().unwrap();
    assert!(settled.state == State::Denied && settled.runs.is_empty() && house.approvals.pending().is_empty());
    // It is denied as it was asked, and the change is on record.
    assert_eq!(settled.digest, asked.digest);
    assert_eq!(house.records(&asked.id).await, ["requested", "tampered", "decided"]);
}
