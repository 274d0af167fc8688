//! Records of which each holds the digest of the one before: their digests, and looking for the first that is not as it
//! was written.
//!
//! Invariant: looking reads a batch at a time, so that records of any number take little memory and keep no reader for long.
//! What is appended meanwhile is read as well.
//!
//! The rooms that keep such records have them in a table `audit`, numbered from 1 without gaps, and note the last one in
//! `audit_head`, so that one that is cut off is missed. A room whose records end some day notes the last one it let go, and
//! the first that is left must follow that one. It cannot keep away whoever may write to the file; it makes what they do
//! visible.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use sha2::{Digest as _, Sha256};

use super::{Store, StoreError};

/// A record that a survey has come to.
#[derive(Debug)]
pub struct Surveyed<'a> {
    /// Its number.
    pub no: u64,
    /// The number that should have come next.
    pub expected: u64,
    /// Its time.
    pub time: i64,
    /// The texts, in the order of [`Chain::texts`].
    pub texts: &'a [&'a [u8]],
    /// The digest that stands in it of the record before.
    pub previous: &'a [u8],
    /// The digest that stands in it.
    pub digest: [u8; 32],
    /// Records that are missing before it, or that it does not follow the one before.
    pub gap: Option<String>,
    /// Its content is not what was written.
    pub changed: Option<String>,
}

/// Looks at every record of a survey, and at the rest of the database at the moment of the last one.
pub trait Surveyor: Send + 'static {
    /// The next record.
    fn record(&mut self, record: &Surveyed<'_>);

    /// The end, with what is wrong with the note of the last record.
    fn end(&mut self, connection: &Connection, wrong: Option<(u64, String)>) -> rusqlite::Result<()>;
}

/// Records that are read at once.
const BATCH: i64 = 1000;

const ANOTHER_BEFORE: &str = "it does not follow the record before: the digest it holds of that one is another";

const CHANGED: &str = "its content is not what was written: the digest is another";

/// What is digested of a record, besides its number and the digest before it.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    /// What every digest begins with: records of one kind are none of another.
    pub tag: &'static [u8],
    /// The column with the time.
    pub time: &'static str,
    /// The columns with texts, in this order.
    pub texts: &'static [&'static str],
    /// The table with the number and the digest of the last record that was let go; none if none ever goes.
    pub base: Option<&'static str>,
}

/// What a look through the records found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Records that are as they were written, from the first that is kept.
    pub records: u64,
    /// The first that is not.
    pub broken: Option<Broken>,
}

/// A record that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its number.
    pub no: u64,
    /// What is wrong with it.
    pub what: String,
}

/// How far it is whole.
struct Whole {
    no: i64,
    digest: [u8; 32],
    /// Records that were looked at, and whether the first are among them.
    records: u64,
    begun: bool,
}

/// What a batch showed.
enum Step {
    /// It is whole so far, and may go on.
    Whole(Whole),
    /// It is whole up to its end.
    End(Whole),
    /// It is whole so far; this record is not as it was written, for this reason.
    Broken(Whole, i64, String),
}

impl Chain {
    /// The digest of a record: everything in it, each part with its length so that nothing can move between them.
    #[must_use]
    pub fn digest(&self, no: i64, time: i64, texts: &[&[u8]], previous: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.tag);
        hash.update(no.to_le_bytes());
        hash.update(time.to_le_bytes());
        for part in texts.iter().chain([&previous]) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Looks through all records and finds the first that is not as it was written.
    pub async fn verify(self, store: &Store) -> Result<Verified, StoreError> {
        let mut whole = Whole { no: 0, digest: [0; 32], records: 0, begun: false };
        loop {
            let step = store.read(move |connection| self.batch(connection, whole)).await?;
            whole = match step {
                Step::Whole(further) => further,
                Step::End(last) => return Ok(Verified { records: last.records, broken: None }),
                Step::Broken(last, no, what) => {
                    let broken = Some(Broken { no: no as u64, what });
                    return Ok(Verified { records: last.records, broken });
                }
            };
        }
    }

    /// Looks through all records, also behind one that is not as it was written.
    pub async fn survey<S: Surveyor>(self, store: &Store, surveyor: S) -> Result<S, StoreError> {
        let mut whole = Whole { no: 0, digest: [0; 32], records: 0, begun: false };
        let mut surveyor = surveyor;
        loop {
            let step = store.read(move |connection| {
                let mut surveyor = surveyor;
                let further = self.survey_batch(connection, whole, &mut surveyor)?;
                Ok((surveyor, further))
            });
            match step.await? {
                (further, Some(place)) => (surveyor, whole) = (further, place),
                (surveyor, None) => return Ok(surveyor),
            }
        }
    }

    /// Goes on by one batch; none when that was the last.
    fn survey_batch(
        self,
        connection: &Connection,
        mut whole: Whole,
        surveyor: &mut impl Surveyor,
    ) -> rusqlite::Result<Option<Whole>> {
        let moment = connection.unchecked_transaction()?;
        let mut select = moment.prepare_cached(&self.select())?;
        let after = if whole.begun { whole.no } else { i64::MIN };
        whole.begun = true;
        let mut rows = select.query([after, BATCH])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            let (no, time) = (integer(row, 0)?.unwrap_or(0), integer(row, 1)?.unwrap_or(0));
            let (previous, digest) = (bytes(row, 2)?, bytes(row, 3)?);
            let texts: Vec<&[u8]> = (0..self.texts.len()).map(|at| bytes(row, 4 + at)).collect::<Result<_, _>>()?;
            let gap = match no - (whole.no + 1) {
                0 if previous == whole.digest => None,
                0 => Some(ANOTHER_BEFORE.to_owned()),
                1 => Some(format!("record {} is missing", whole.no + 1)),
                2.. => Some(format!("records {} to {} are missing", whole.no + 1, no - 1)),
                _ => Some(format!("a record with the number {no} was slipped in")),
            };
            let found = self.digest(no, time, &texts, previous);
            let changed = (digest != found).then(|| CHANGED.to_owned());
            let digest = digest.try_into().unwrap_or(found);
            let expected = (whole.no + 1) as u64;
            let (no_found, texts) = (no as u64, texts.as_slice());
            surveyor.record(&Surveyed { no: no_found, expected, time, texts, previous, digest, gap, changed });
            whole = Whole { no, digest, records: whole.records + 1, begun: true };
        }
        if count == BATCH {
            return Ok(Some(whole));
        }
        let wrong = self.wrong_end(&moment, &whole)?.map(|(no, what)| (no as u64, what));
        surveyor.end(&moment, wrong)?;
        Ok(None)
    }

    fn select(&self) -> String {
        let (time, texts) = (self.time, self.texts.join(", "));
        format!("SELECT no, {time}, previous, digest, {texts} FROM audit WHERE no > ? ORDER BY no LIMIT ?")
    }

    /// What is wrong with the note of the last record.
    fn wrong_end(self, moment: &Connection, whole: &Whole) -> rusqlite::Result<Option<(i64, String)>> {
        let next = whole.no + 1;
        Ok(match note(moment, "audit_head")? {
            None => Some((next, "the note of the last record is missing or unreadable".to_owned())),
            Some((last, _)) if last > whole.no => {
                Some((next, format!("records {next} to {last} are missing at the end")))
            }
            Some((last, _)) if last < whole.no => {
                Some((last.max(0) + 1, "it comes after the record that was noted as the last one".to_owned()))
            }
            Some((_, digest)) if digest != whole.digest => {
                Some((whole.no.max(1), "it is not the record that was noted as the last one".to_owned()))
            }
            Some(_) => None,
        })
    }

    /// Goes on by one batch. The notes of the first and the last record are read at the same moment, so that what is
    /// appended or let go meanwhile does not look like tampering.
    fn batch(self, connection: &Connection, mut whole: Whole) -> rusqlite::Result<Step> {
        let moment = connection.unchecked_transaction()?;
        if let Some(table) = self.base {
            match note(&moment, table)? {
                Some((no, digest)) if no > whole.no => whole = Whole { no, digest, ..whole },
                Some(_) => {}
                None => {
                    let no = whole.no + 1;
                    let what = "the note of the last record that was let go is missing or unreadable".to_owned();
                    return Ok(Step::Broken(whole, no, what));
                }
            }
        }
        let mut select = moment.prepare_cached(&self.select())?;
        // The first batch also finds what was slipped in before the first record.
        let after = if whole.begun { whole.no } else { i64::MIN };
        whole.begun = true;
        let mut rows = select.query([after, BATCH])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            match self.check(row, &whole)? {
                Ok(digest) => whole = Whole { no: whole.no + 1, digest, records: whole.records + 1, begun: true },
                Err(what) => {
                    let no = whole.no + 1;
                    return Ok(Step::Broken(whole, no, what));
                }
            }
            count += 1;
        }
        if count == BATCH {
            return Ok(Step::Whole(whole));
        }
        Ok(match self.wrong_end(&moment, &whole)? {
            None => Step::End(whole),
            Some((no, what)) => Step::Broken(whole, no, what),
        })
    }

    /// The digest of a record that follows; else what is wrong with it.
    fn check(&self, row: &Row<'_>, whole: &Whole) -> rusqlite::Result<Result<[u8; 32], String>> {
        let wanted = whole.no + 1;
        let (Some(no), Some(time)) = (integer(row, 0)?, integer(row, 1)?) else {
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
        let (previous, digest) = (bytes(row, 2)?, bytes(row, 3)?);
        if previous != whole.digest {
            return Ok(Err(ANOTHER_BEFORE.to_owned()));
        }
        let texts: Vec<&[u8]> = (0..self.texts.len()).map(|at| bytes(row, 4 + at)).collect::<Result<_, _>>()?;
        let found = self.digest(no, time, &texts, previous);
        Ok(match digest == found {
            true => Ok(found),
            false => Err(CHANGED.to_owned()),
        })
    }
}

/// The number and digest that a table of one row holds.
fn note(connection: &Connection, table: &str) -> rusqlite::Result<Option<(i64, [u8; 32])>> {
    let mut select = connection.prepare_cached(&format!("SELECT no, digest FROM {table}"))?;
    let mut rows = select.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (no, digest) = (integer(row, 0)?, bytes(row, 1)?.try_into().ok());
    Ok(no.zip(digest))
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
