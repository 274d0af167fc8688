//! Rows that can still be read, out of a damaged database into a sound one.
//!
//! A damaged page takes its rows with it and no others: the table is walked from its beginning to the first page that
//! cannot be read and from its end to the last one, and every number in between that an index knows, or that lies
//! between two that were read, is asked for by itself.
//!
//! Invariant: a row is copied whole or not at all; what cannot be taken for certain is left out and counted.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};

/// Numbers between two rows that are asked for one by one.
const MOST_BETWEEN: i64 = 1_000_000;

/// Numbers after the last row that was read that are asked for where the end of the table cannot be.
const MOST_AFTER: i64 = 20_000;

/// Rows of one transaction.
const BATCH: u64 = 1000;

/// The columns of a row, by name.
pub(super) type Columns = BTreeMap<String, Value>;

/// Whether a row is what was written; it may be put right first.
pub(super) type Judge<'a> = dyn FnMut(&mut Columns) -> bool + 'a;

/// What became of the rows of a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    /// Numbers that were seen somewhere and whose rows were not copied.
    pub(super) lost: Vec<i64>,
}

/// Opens a damaged database for reading, in whatever state it is.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // A file that was cut off is read as far as it goes, and a cell that makes no sense is not followed.
    connection.pragma_update(None, "writable_schema", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

/// Copies what can be read of a table whose key is the number `no`. `known` are numbers that indexes have.
pub(super) fn table(
    from: &Connection,
    to: &Connection,
    table: &str,
    known: &[i64],
    judge: &mut Judge<'_>,
) -> rusqlite::Result<Copied> {
    let mut names = columns(to, table)?;
    // An earlier program has not had all of them.
    let had = columns(from, table).unwrap_or_default();
    if had.iter().any(|name| name == "no") {
        names.retain(|name| had.contains(name));
    }
    let mut work = Work { from, to, table, names, judge, count: 0, copied: Copied::default() };
    to.execute_batch("BEGIN")?;
    let up = work.walk(Direction::Up, i64::MIN)?;
    if let Walked::Stopped(low) = up {
        let low = low.unwrap_or(0);
        let down = work.walk(Direction::Down(low), i64::MAX)?;
        let high = match down {
            Walked::Stopped(Some(high)) => high,
            // Nothing at the end: as far as somebody knows, and some way beyond.
            _ => known.last().copied().unwrap_or(low).saturating_add(MOST_AFTER),
        };
        work.between(low, high, known)?;
    }
    to.execute_batch("COMMIT")?;
    Ok(work.copied)
}

/// Numbers and texts that an index has, as far as it can be read from either end.
pub(super) fn index(from: &Connection, sql: &str) -> BTreeMap<i64, String> {
    let mut found = BTreeMap::new();
    for direction in ["ASC", "DESC"] {
        let Ok(mut statement) = from.prepare(&format!("{sql} {direction}")) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            let Ok(no) = row.get::<_, i64>(0) else { continue };
            let text = row.get_ref(1).ok().and_then(|value| value.as_str().ok()).unwrap_or_default().to_owned();
            if i64::try_from(found.len()).unwrap_or(i64::MAX) >= MOST_BETWEEN {
                return found;
            }
            found.insert(no, text);
        }
    }
    found
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA table_info({table})"))?;
    let names = statement.query_map([], |row| row.get::<_, String>(1))?;
    names.collect()
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    /// Until this number, which was read already.
    Down(i64),
}

enum Walked {
    /// To the end.
    Through,
    /// A page cannot be read; the last number before that.
    Stopped(Option<i64>),
}

struct Work<'a, 'b> {
    from: &'a Connection,
    to: &'a Connection,
    table: &'a str,
    names: Vec<String>,
    judge: &'a mut Judge<'b>,
    count: u64,
    copied: Copied,
}

impl Work<'_, '_> {
    fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.names.join(", "), self.table)
    }

    fn walk(&mut self, direction: Direction, start: i64) -> rusqlite::Result<Walked> {
        let (rule, order) = match direction {
            Direction::Up => (">=", "ASC"),
            Direction::Down(_) => ("<=", "DESC"),
        };
        let sql = format!("{} WHERE no {rule} ?1 ORDER BY no {order}", self.select());
        let from = self.from;
        let Ok(mut statement) = from.prepare(&sql) else { return Ok(Walked::Stopped(None)) };
        let Ok(mut rows) = statement.query([start]) else { return Ok(Walked::Stopped(None)) };
        let mut last = None;
        loop {
            match rows.next() {
                Ok(None) => return Ok(Walked::Through),
                Err(_) => return Ok(Walked::Stopped(last)),
                Ok(Some(row)) => {
                    let no = number(row, &self.names);
                    // A tree whose numbers do not go on in order leads round in circles.
                    let goes_on = match (no, last, direction) {
                        (None, ..) => false,
                        (Some(no), Some(last), Direction::Up) => no > last,
                        (Some(no), Some(last), Direction::Down(_)) => no < last,
                        (Some(_), None, _) => true,
                    };
                    match (no, direction) {
                        (Some(no), Direction::Down(until)) if no <= until => return Ok(Walked::Through),
                        (Some(_), _) if goes_on => {}
                        _ => return Ok(Walked::Stopped(last)),
                    }
                    last = no;
                    self.take(row)?;
                }
            }
        }
    }

    /// Asks for single numbers between two that were read.
    fn between(&mut self, low: i64, high: i64, known: &[i64]) -> rusqlite::Result<()> {
        let dense = low.saturating_add(1)..high.min(low.saturating_add(MOST_BETWEEN));
        let end = dense.end;
        let beyond = known.iter().copied().filter(|no| *no >= end && *no < high);
        let sql = format!("{} WHERE no = ?1", self.select());
        let from = self.from;
        for no in dense.chain(beyond) {
            let Ok(mut statement) = from.prepare_cached(&sql) else { return Ok(()) };
            let found = match statement.query([no]) {
                Ok(mut rows) => match rows.next() {
                    Ok(Some(row)) if number(row, &self.names) == Some(no) => {
                        self.take(row)?;
                        true
                    }
                    _ => false,
                },
                Err(_) => false,
            };
            if !found && known.binary_search(&no).is_ok() {
                self.copied.lost.push(no);
            }
        }
        Ok(())
    }

    /// Copies a row, if it is one.
    fn take(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let no = number(row, &self.names).unwrap_or_default();
        let Some(mut columns) = read(row, &self.names) else {
            self.copied.lost.push(no);
            return Ok(());
        };
        if !(self.judge)(&mut columns) {
            self.copied.lost.push(no);
            return Ok(());
        }
        let marks = vec!["?"; self.names.len()].join(", ");
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({marks}) ON CONFLICT (no) DO NOTHING",
            self.table,
            self.names.join(", ")
        );
        let values = self.names.iter().map(|name| columns.get(name).cloned().unwrap_or(Value::Null));
        match self.to.prepare_cached(&sql)?.execute(params_from_iter(values)) {
            Ok(_) => {}
            // A value that does not fit its column is none that was written.
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.code == rusqlite::ErrorCode::ConstraintViolation
                    || error.code == rusqlite::ErrorCode::TypeMismatch =>
            {
                self.copied.lost.push(no);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        self.count += 1;
        if self.count.is_multiple_of(BATCH) {
            self.to.execute_batch("COMMIT; BEGIN")?;
        }
        Ok(())
    }
}

fn number(row: &Row<'_>, names: &[String]) -> Option<i64> {
    let place = names.iter().position(|name| name == "no")?;
    row.get_ref(place).ok()?.as_i64().ok()
}

/// The values of a row; `None` if one of them cannot be.
fn read(row: &Row<'_>, names: &[String]) -> Option<Columns> {
    let mut columns = Columns::new();
    for (place, name) in names.iter().enumerate() {
        let value = match row.get_ref(place).ok()? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(number) => Value::Real(number),
            ValueRef::Text(bytes) => Value::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        };
        columns.insert(name.clone(), value);
    }
    Some(columns)
}
