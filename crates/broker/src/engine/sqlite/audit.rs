//! The audit's tables: writing behind the last record, reading, and looking through all of it.
//!
//! Invariant: the last record is read inside the transaction that writes behind it, by the one writer: the chain cannot
//! fork. Verifying reads a batch at a time, so that an audit of any length takes little memory.

use hostel_store::{Store, StoreError};
use hostel_wire::encoding;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Transaction, params};
use serde_json::Value;

use crate::audit::{AuditEvent, AuditRecord, Broken, Parts, Verified};

/// Records that are read at once when all of them are looked through.
const BATCH: i64 = 1000;

const COLUMNS: &str = "no, time_ms, mesh, kind, actor, subject, body, previous, digest";

/// Writes records behind the last one.
pub(super) fn append(transaction: &Transaction<'_>, events: &[AuditEvent]) -> rusqlite::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut head = transaction.prepare_cached("SELECT no, digest FROM audit_head")?;
    let (mut no, mut previous) = head.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?)))?;
    let mut insert =
        transaction.prepare_cached(&format!("INSERT INTO audit ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"))?;
    for AuditEvent { mesh, kind, actor, subject, body, time_ms } in events {
        no += 1;
        let (time_ms, body) = (i64::try_from(*time_ms).unwrap_or(i64::MAX), body.to_string());
        let parts = Parts {
            no,
            time_ms,
            mesh: mesh.as_bytes(),
            kind: kind.as_bytes(),
            actor: actor.as_bytes(),
            subject: subject.as_bytes(),
            body: body.as_bytes(),
        };
        let digest = parts.digest(&previous);
        insert.execute(params![no, time_ms, mesh, kind, actor, subject, body, previous, digest])?;
        previous = digest;
    }
    transaction.prepare_cached("UPDATE audit_head SET no = ?, digest = ?")?.execute(params![no, previous])?;
    Ok(())
}

/// A mesh's records after a number, oldest first.
pub(super) fn read(
    connection: &Connection,
    mesh: &str,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Vec<AuditRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM audit WHERE mesh = ? AND no > ? ORDER BY no LIMIT ?");
    let mut select = connection.prepare_cached(&sql)?;
    let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    select.query_map(params![mesh, bound(after), bound(limit as u64)], record)?.collect()
}

/// What somebody has tampered with is shown as it is.
fn record(row: &Row<'_>) -> rusqlite::Result<AuditRecord> {
    let text = |index| bytes(row, index).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let hex = |index| bytes(row, index).map(encoding::hex);
    let body = text(6)?;
    Ok(AuditRecord {
        no: row.get::<_, i64>(0)? as u64,
        time_ms: row.get::<_, i64>(1)? as u64,
        mesh: text(2)?,
        kind: text(3)?,
        actor: text(4)?,
        subject: text(5)?,
        body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        previous: hex(7)?,
        digest: hex(8)?,
    })
}

/// How far the chain is whole.
struct Chain {
    no: i64,
    digest: [u8; 32],
}

/// What a batch showed.
enum Step {
    Whole(Chain),
    End(Chain),
    /// It is whole so far; this record is not as it was written, for this reason.
    Broken(Chain, i64, String),
}

/// Looks through all records and finds the first that is not as it was written.
pub(super) async fn verify(store: &Store) -> Result<Verified, StoreError> {
    let mut chain = Chain { no: 0, digest: [0; 32] };
    loop {
        let step = store.read(move |connection| batch(connection, chain)).await?;
        chain = match step {
            Step::Whole(further) => further,
            Step::End(last) => return Ok(Verified { records: last.no as u64, broken: None }),
            Step::Broken(last, no, what) => {
                let broken = Some(Broken { no: no as u64, what });
                return Ok(Verified { records: last.no as u64, broken });
            }
        };
    }
}

/// Goes on along the chain by one batch. The note of the last record is read at the same moment, so that what is appended
/// meanwhile does not look like tampering.
fn batch(connection: &Connection, mut chain: Chain) -> rusqlite::Result<Step> {
    let moment = connection.unchecked_transaction()?;
    let sql = format!("SELECT {COLUMNS} FROM audit WHERE no > ? ORDER BY no LIMIT ?");
    let mut select = moment.prepare_cached(&sql)?;
    // The first batch also finds what was slipped in before the first record.
    let after = if chain.no == 0 { i64::MIN } else { chain.no };
    let mut rows = select.query([after, BATCH])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        match check(row, &chain)? {
            Ok(digest) => chain = Chain { no: chain.no + 1, digest },
            Err(what) => {
                let no = chain.no + 1;
                return Ok(Step::Broken(chain, no, what));
            }
        }
        count += 1;
    }
    if count == BATCH {
        return Ok(Step::Whole(chain));
    }
    let next = chain.no + 1;
    let (no, what) = match head(&moment)? {
        None => (next, "the note of the last record is missing or unreadable".to_owned()),
        Some(head) if head.no > chain.no => (next, format!("records {next} to {} are missing at the end", head.no)),
        Some(head) if head.no < chain.no => {
            (head.no.max(0) + 1, "it comes after the record that was noted as the last one".to_owned())
        }
        Some(head) if head.digest != chain.digest => {
            (chain.no.max(1), "it is not the record that was noted as the last one".to_owned())
        }
        Some(_) => return Ok(Step::End(chain)),
    };
    Ok(Step::Broken(chain, no, what))
}

fn head(connection: &Connection) -> rusqlite::Result<Option<Chain>> {
    let mut select = connection.prepare_cached("SELECT no, digest FROM audit_head")?;
    let mut rows = select.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (no, digest) = (integer(row, 0)?, bytes(row, 1)?.try_into().ok());
    Ok(no.zip(digest).map(|(no, digest)| Chain { no, digest }))
}

/// The digest of a record that follows; else what is wrong with it.
fn check(row: &Row<'_>, chain: &Chain) -> rusqlite::Result<Result<[u8; 32], String>> {
    let wanted = chain.no + 1;
    let (Some(no), Some(time_ms)) = (integer(row, 0)?, integer(row, 1)?) else {
        return Ok(Err("its number or time is none".to_owned()));
    };
    if no > wanted {
        return Ok(Err(match no - wanted {
            1 => format!("record {wanted} is missing"),
            _ => format!("records {wanted} to {} are missing", no - 1),
        }));
    }
    if no < wanted {
        return Ok(Err(format!("a record with the number {no} was slipped in")));
    }
    let part = |index| bytes(row, index);
    let (previous, digest) = (part(7)?, part(8)?);
    if previous != chain.digest {
        return Ok(Err("it does not follow the record before: the digest it holds of that one is another".to_owned()));
    }
    let (mesh, kind, actor, subject, body) = (part(2)?, part(3)?, part(4)?, part(5)?, part(6)?);
    let found = Parts { no, time_ms, mesh, kind, actor, subject, body }.digest(previous);
    Ok(match digest == found {
        true => Ok(found),
        false => Err("its content is not what was written: the digest is another".to_owned()),
    })
}

fn integer(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<i64>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    })
}

fn bytes<'a>(row: &'a Row<'_>, index: usize) -> rusqlite::Result<&'a [u8]> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    })
}
