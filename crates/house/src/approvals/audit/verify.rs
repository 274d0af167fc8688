//! Looking through the audit for the first record that is not as it was written.
//!
//! Invariant: it reads a batch at a time, so that an audit of any length takes little memory and keeps no reader for long.
//! What is appended while it reads is read as well.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::digest_of;
use crate::store::{Store, StoreError};

/// Records that are read at once.
const BATCH: i64 = 1000;

/// What a look through the audit found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verified {
    /// Records that are as they were written, from the first on.
    pub records: u64,
    /// The first that is not.
    pub broken: Option<Broken>,
}

/// A record that is not as it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Broken {
    /// Its number.
    pub no: u64,
    /// What is wrong with it.
    pub what: String,
}

/// How far the chain is whole.
struct Chain {
    no: i64,
    digest: [u8; 32],
}

pub(super) async fn run(store: &Store) -> Result<Verified, StoreError> {
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

/// What a batch showed.
enum Step {
    /// The chain is whole so far, and may go on.
    Whole(Chain),
    /// It is whole up to its end.
    End(Chain),
    /// It is whole so far; this record is not as it was written, for this reason.
    Broken(Chain, i64, String),
}

/// Goes on along the chain by one batch. The note of the last record is read at the same moment, so that what is appended
/// meanwhile does not look like tampering.
fn batch(connection: &Connection, mut chain: Chain) -> rusqlite::Result<Step> {
    let moment = connection.unchecked_transaction()?;
    let mut statement = moment.prepare_cached(
        "SELECT no, time_ns, kind, approval, body, previous, digest FROM audit WHERE no > ? ORDER BY no LIMIT ?",
    )?;
    // The first batch also finds what was slipped in before the first record.
    let after = if chain.no == 0 { i64::MIN } else { chain.no };
    let mut rows = statement.query([after, BATCH])?;
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
    Ok(match head(&moment)? {
        None => {
            let no = chain.no + 1;
            Step::Broken(chain, no, "the note of the last record is missing or unreadable".to_owned())
        }
        Some(head) if head.no > chain.no => {
            let no = chain.no + 1;
            Step::Broken(chain, no, format!("records {no} to {} are missing at the end", head.no))
        }
        Some(head) if head.no < chain.no => {
            let no = head.no.max(0) + 1;
            Step::Broken(chain, no, "it comes after the record that was noted as the last one".to_owned())
        }
        Some(head) if head.digest != chain.digest => {
            let no = chain.no.max(1);
            Step::Broken(chain, no, "it is not the record that was noted as the last one".to_owned())
        }
        Some(_) => Step::End(chain),
    })
}

fn head(connection: &Connection) -> rusqlite::Result<Option<Chain>> {
    let mut statement = connection.prepare_cached("SELECT no, digest FROM audit_head")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (no, digest) = (integer(row, 0)?, bytes(row, 1)?.try_into().ok());
    Ok(no.zip(digest).map(|(no, digest)| Chain { no, digest }))
}

/// The digest of a record that follows; else what is wrong with it.
fn check(row: &Row<'_>, chain: &Chain) -> rusqlite::Result<Result<[u8; 32], String>> {
    let wanted = chain.no + 1;
    let (no, time) = (integer(row, 0)?, integer(row, 1)?);
    let (Some(no), Some(time)) = (no, time) else { return Ok(Err("its number or time is none".to_owned())) };
    if no > wanted {
        let missing = match no - wanted {
            1 => format!("record {wanted} is missing"),
            _ => format!("records {wanted} to {} are missing", no - 1),
        };
        return Ok(Err(missing));
    }
    if no < wanted {
        return Ok(Err(format!("a record with the number {no} was slipped in")));
    }
    let (kind, approval, body) = (bytes(row, 2)?, bytes(row, 3)?, bytes(row, 4)?);
    let (previous, digest) = (bytes(row, 5)?, bytes(row, 6)?);
    if previous != chain.digest {
        return Ok(Err("it does not follow the record before: the digest it holds of that one is another".to_owned()));
    }
    let found = digest_of(no, time, kind, approval, body, previous);
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
