//! Databases made anew from what can be read of damaged ones.
//!
//! Invariant: the new database is complete and on the disk before it is called ready; until then the damaged one is
//! where it was, untouched. A message is queued again only if it is, to the last byte, the one that was accepted: the
//! digest that was made then says so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use hostel_store::{Options, Schema, Store, Synchronous};
use hostel_wire::fingerprint;
use hostel_wire::frames::Priority;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params};

use super::copy::{self, Columns};
use super::{READY, RecoverError, SavedInbox, SavedOutbox};
use crate::authors;
use crate::disk;
use crate::inbox::{Cursor, begins_again};
use crate::outbox::{Payload, Status};
use crate::schema;

/// Lost messages that are named.
const NAMED: usize = 1000;

/// The ids of messages, by the numbers of their rows.
const IDS: &str = "SELECT no, client_message_id FROM outbox INDEXED BY sqlite_autoindex_outbox_1 \
                   ORDER BY client_message_id";

/// The same of what has come.
const NUMBERS: &str = "SELECT no, '' FROM inbox INDEXED BY inbox_received ORDER BY received_at";

fn sqlite(error: &rusqlite::Error) -> RecoverError {
    RecoverError::Database(error.to_string())
}

/// Makes a new outbox of what can be read. Whose it is is said by who opens it next; rows that another member had accepted
/// say so themselves.
pub(super) fn outbox(dir: &Path, now_ms: u64) -> Result<SavedOutbox, RecoverError> {
    let draft = Draft::make(dir, &schema::OUTBOX)?;
    let mut saved = SavedOutbox::default();
    draft.fill(|from, to| {
        let ids = copy::index(from, IDS);
        let known: Vec<i64> = ids.keys().copied().collect();
        let mut judge = |columns: &mut Columns| is_intact(columns);
        let copied = copy::table(from, to, "outbox", &known, &mut judge)?;
        copy_confirmed(from, to);
        let count = |rule: &str| {
            to.query_row(&format!("SELECT count(*) FROM outbox WHERE owed {rule}"), [], |row| row.get::<_, i64>(0))
        };
        saved.queued = count("IS NOT NULL")?.cast_unsigned();
        saved.settled = count("IS NULL")?.cast_unsigned();
        note_lost(&mut saved, &copied.lost, &ids);
        Ok(())
    })?;
    draft.ready(now_ms)?;
    Ok(saved)
}

fn note_lost(saved: &mut SavedOutbox, lost: &[i64], ids: &BTreeMap<i64, String>) {
    let mut lost = lost.to_vec();
    lost.sort_unstable();
    lost.dedup();
    saved.lost_count = lost.len() as u64;
    saved.lost = lost.iter().filter_map(|no| ids.get(no)).filter(|id| !id.is_empty()).take(NAMED).cloned().collect();
}

/// Whether a row of the outbox is the request that was accepted; whether it is still owed follows from its state.
fn is_intact(columns: &mut Columns) -> bool {
    let text = |name: &str| match columns.get(name) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let (Some(Value::Blob(said)), Some(Value::Blob(payload))) =
        (columns.get("request_fingerprint"), columns.get("payload"))
    else {
        return false;
    };
    let Ok(payload) = serde_json::from_slice::<Payload>(payload) else { return false };
    let (Some(kind), Some(to), Some(priority)) =
        (text("dest_kind"), text("dest_ref"), text("priority").and_then(Priority::parse))
    else {
        return false;
    };
    let body = payload.body.as_bytes();
    let made = fingerprint::request(kind, to, payload.reply_to.as_deref(), priority, payload.meta.as_ref(), body);
    if made.ok().as_ref().map(<[u8; 32]>::as_slice) != Some(said.as_slice()) {
        return false;
    }
    // A state that cannot be read is taken for waiting: the broker knows the id if it has it already.
    let status = text("status").and_then(Status::parse).unwrap_or(Status::Pending);
    let owed = matches!(status, Status::Pending | Status::Inflight);
    columns.insert("status".to_owned(), Value::Text(status.as_str().to_owned()));
    columns.insert("owed".to_owned(), if owed { Value::Integer(1) } else { Value::Null });
    true
}

/// How far brokers have confirmed what we sent; what cannot be read is learned again.
fn copy_confirmed(from: &Connection, to: &Connection) {
    // A database of an earlier version has no ids there.
    let known = from.prepare("SELECT epoch, seq, entry_id FROM confirmed");
    let Ok(mut statement) = known.or_else(|_| from.prepare("SELECT epoch, seq, NULL FROM confirmed")) else { return };
    let Ok(mut rows) = statement.query([]) else { return };
    while let Ok(Some(row)) = rows.next() {
        let epoch = row.get_ref(0).ok().and_then(|value| value.as_str().ok());
        let (Some(epoch), Ok(seq)) = (epoch, row.get::<_, i64>(1)) else { continue };
        let id: Option<String> = row.get(2).unwrap_or_default();
        let insert = "INSERT OR IGNORE INTO confirmed (epoch, seq, entry_id) VALUES (?1, ?2, ?3)";
        to.execute(insert, params![epoch, seq, id]).ok();
    }
}

/// Makes a new inbox of what can be read. It has no place in the broker's log: what is missing comes again.
pub(super) fn inbox(dir: &Path, now_ms: u64) -> Result<SavedInbox, RecoverError> {
    let draft = Draft::make(dir, &schema::INBOX)?;
    let mut saved = SavedInbox::default();
    draft.fill(|from, to| {
        let known: Vec<i64> = copy::index(from, NUMBERS).into_keys().collect();
        let copied = copy::table(from, to, "inbox", &known, &mut |_| true)?;
        saved.kept = to.query_row("SELECT count(*) FROM inbox", [], |row| row.get::<_, i64>(0))?.cast_unsigned();
        saved.lost = copied.lost.len() as u64;
        let pins: Vec<_> = authors::rows::salvage(from).into_iter().collect();
        authors::rows::store(to, &pins)?;
        copy_announced(from, to);
        Ok(())
    })?;
    draft.ready(now_ms)?;
    Ok(saved)
}

/// Files that were announced; what cannot be read of them is missing, as if their announcements had never come.
fn copy_announced(from: &Connection, to: &Connection) {
    let columns = "file_id, sender_member_id, sha256, verified, announced_at";
    let Ok(mut statement) = from.prepare(&format!("SELECT {columns} FROM announced_files")) else { return };
    let Ok(mut rows) = statement.query([]) else { return };
    let insert = format!("INSERT OR IGNORE INTO announced_files ({columns}) VALUES (?1, ?2, ?3, ?4, ?5)");
    while let Ok(Some(row)) = rows.next() {
        let values: rusqlite::Result<Vec<Value>> = (0..5).map(|column| row.get(column)).collect();
        let Ok(values) = values else { continue };
        to.execute(&insert, rusqlite::params_from_iter(values)).ok();
    }
}

/// An empty inbox that begins at a place in the broker's log.
pub(super) fn empty_inbox(dir: &Path, place: &Cursor) -> Result<(), RecoverError> {
    let path = dir.join(schema::INBOX.name);
    make(&path, &schema::INBOX)?;
    let connection = Connection::open(&path).map_err(|error| sqlite(&error))?;
    connection
        .execute(
            "INSERT INTO cursor (only_one, epoch, seq, above) VALUES (1, ?1, ?2, '[]')",
            params![place.epoch, schema::signed(place.seq)],
        )
        .map(drop)
        .map_err(|error| sqlite(&error))
}

/// A sound inbox reads the broker's log from its beginning again; what it has is known by its id and comes only once, and
/// what is new behind the place it had is still news to hooks.
pub(super) fn rewind(dir: &Path) -> Result<(), RecoverError> {
    let path = dir.join(schema::INBOX.name);
    if !path.exists() {
        return Ok(());
    }
    let rewind = || {
        let mut connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let there = "SELECT count(*) FROM sqlite_schema WHERE name = 'cursor'";
        if connection.query_row(there, [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(());
        }
        let transaction = connection.transaction()?;
        begins_again(&transaction)?;
        transaction.execute("DELETE FROM cursor", [])?;
        transaction.commit()
    };
    rewind().map_err(|error| sqlite(&error))
}

/// Makes an empty database with its tables.
fn make(path: &Path, schema: &Schema) -> Result<(), RecoverError> {
    let options =
        Options { synchronous: Synchronous::Normal, inline: true, incremental_vacuum: true, ..Options::default() };
    let store = Store::open(path, schema, options).map_err(|error| RecoverError::Database(error.to_string()))?;
    drop(store.close());
    Ok(())
}

/// A database that is being made beside the damaged one; gone with this value unless it became ready.
struct Draft<'a> {
    schema: &'a Schema,
    damaged: PathBuf,
    path: PathBuf,
    /// A copy of the damaged one with a beginning that can be read, if it needed one.
    patched: PathBuf,
}

impl<'a> Draft<'a> {
    fn make(dir: &Path, schema: &'a Schema) -> Result<Self, RecoverError> {
        let damaged = dir.join(schema.name);
        let draft =
            Self { schema, path: disk::beside(&damaged, ".new"), patched: disk::beside(&damaged, ".patched"), damaged };
        draft.clear();
        make(&draft.path, schema)?;
        Ok(draft)
    }

    /// Fills it from the damaged one.
    fn fill(&self, work: impl FnOnce(&Connection, &Connection) -> rusqlite::Result<()>) -> Result<(), RecoverError> {
        let whole = copy::open(&self.damaged).ok().filter(|from| super::look::was_made(from, self.schema));
        let from = match whole {
            Some(from) => from,
            // Its beginning is the same in every database of this kind: a new one's serves as well.
            None => {
                self.patch()?;
                match copy::open(&self.patched).or_else(|_| copy::open(&self.damaged)) {
                    Ok(from) => from,
                    // Nothing can be read of it at all.
                    Err(_) => return Ok(()),
                }
            }
        };
        let to = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|error| sqlite(&error))?;
        work(&from, &to).map_err(|error| sqlite(&error))?;
        to.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|error| sqlite(&error))?;
        to.close().map_err(|(_, error)| sqlite(&error))
    }

    /// A copy of the damaged database with the first page of a new one, which says where the tables are.
    fn patch(&self) -> Result<(), RecoverError> {
        let failed = RecoverError::io(&self.patched);
        let copy = || {
            fs::copy(&self.damaged, &self.patched)?;
            let log = disk::beside(&self.damaged, "-wal");
            if log.exists() {
                fs::copy(log, disk::beside(&self.patched, "-wal"))?;
            }
            let mut page = Vec::new();
            File::open(&self.path)?.take(PAGE).read_to_end(&mut page)?;
            let mut file = File::options().read(true).write(true).open(&self.patched)?;
            let pages = file.metadata()?.len().div_ceil(PAGE);
            // The number of pages is the old file's, and it has no free ones that could be handed out.
            if let Some(count) = page.get_mut(28..32) {
                count.copy_from_slice(&u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes());
            }
            if let Some(free) = page.get_mut(32..40) {
                free.fill(0);
            }
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&page)
        };
        copy().map_err(failed)
    }

    /// It is complete: from here on it takes the damaged one's place, whatever happens.
    fn ready(self, now_ms: u64) -> Result<(), RecoverError> {
        let ready = disk::beside(&self.damaged, &format!("{READY}{now_ms}"));
        let rename = || {
            File::open(&self.path)?.sync_all()?;
            fs::rename(&self.path, &ready)?;
            match ready.parent() {
                Some(dir) => File::open(dir)?.sync_all(),
                None => Ok(()),
            }
        };
        rename().map_err(RecoverError::io(&ready))
    }

    fn clear(&self) {
        for path in [&self.path, &self.patched] {
            for suffix in ["", "-wal", "-shm"] {
                fs::remove_file(disk::beside(path, suffix)).ok();
            }
        }
    }
}

/// The size of a page, as SQLite makes them.
const PAGE: u64 = 4096;

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
