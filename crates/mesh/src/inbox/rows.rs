//! The statements of `inbox.db` that several of its parts need.
//!
//! It decides nothing.

use std::sync::{Arc, LazyLock};

use hostel_wire::frames::client::EntryMark;
use hostel_wire::frames::{Kind, Priority};
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, ToSql, Transaction, params};
use serde_json::Value;

use super::types::{Arrival, Content, Cursor, InboxRow, Plain, Sealed, Unreadable};
use crate::schema::{RowId, signed};

/// The state of a row whose key is missing.
pub(super) const KEY_PENDING: &str = "key_pending";

/// The state of a row that was deleted and is kept so that it does not come again.
pub(super) const DELETED: &str = "deleted";

/// What is shown: everything that was not deleted and does not wait for its key.
pub(super) const VISIBLE: &str = "(i.decrypt_state IS NULL OR i.decrypt_state NOT IN ('key_pending', 'deleted'))";

/// The columns of a row that is shown, of the table `inbox` as `i`.
pub(crate) const ROW_COLUMNS: &str = "i.no, i.mesh, i.sender_member_id, i.client_message_id, i.broker_message_id, \
     i.broker_seq, i.kind, i.topic, i.sender_pubkey, i.sender_member_pubkey, i.sender_name, i.body, i.meta, i.priority, \
     i.mentions, i.mention, i.reply_to_id, i.file, i.created_at, i.stored_at, i.received_at, i.seen_at, \
     i.recipient_pubkey, i.recipient_session, i.decrypt_state, i.verified";

/// Reads what `ROW_COLUMNS` names, from column `at` on.
pub(crate) fn read_row(row: &Row<'_>, at: usize) -> rusqlite::Result<InboxRow> {
    let time = |column: usize| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(at + column)?.map(i64::cast_unsigned))
    };
    let json = |column: usize| -> rusqlite::Result<Option<Value>> {
        let text: Option<&str> = row.get_ref(at + column)?.as_str_or_null()?;
        Ok(text.and_then(|text| serde_json::from_str(text).ok()))
    };
    let word = |column: usize| row.get_ref(at + column)?.as_str().map_err(rusqlite::Error::from);
    let stored_at = row.get::<_, i64>(at + 19)?.cast_unsigned();
    let sender_pubkey: String = row.get(at + 8)?;
    let mentions = json(14)?.and_then(|mentions| serde_json::from_value(mentions).ok()).unwrap_or_default();
    Ok(InboxRow {
        id: RowId::new(stored_at, row.get(at)?).text(),
        mesh: row.get(at + 1)?,
        sender_member_id: row.get(at + 2)?,
        client_message_id: row.get(at + 3)?,
        broker_message_id: row.get(at + 4)?,
        broker_seq: row.get::<_, i64>(at + 5)?.cast_unsigned(),
        kind: Kind::parse(word(6)?).unwrap_or(Kind::Dm),
        topic: row.get(at + 7)?,
        sender_member_pubkey: row.get::<_, Option<String>>(at + 9)?.unwrap_or_else(|| sender_pubkey.clone()),
        sender_pubkey,
        sender_name: row.get(at + 10)?,
        body: row.get(at + 11)?,
        meta: json(12)?,
        priority: Priority::parse(word(13)?).unwrap_or_default(),
        mentions,
        mention: row.get(at + 15)?,
        reply_to_id: row.get(at + 16)?,
        file: json(17)?,
        created_at: time(18)?,
        received_at: row.get::<_, i64>(at + 20)?.cast_unsigned(),
        seen_at: time(21)?,
        recipient_pubkey: row.get(at + 22)?,
        recipient_session: row.get(at + 23)?,
        decrypt_error: row.get(at + 24)?,
        verified: row.get(at + 25)?,
    })
}

/// JSON texts of an arrival, made before the writer is asked.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) meta: Option<String>,
    pub(super) mentions: Option<String>,
    pub(super) file: Option<String>,
}

impl Texts {
    pub(super) fn of(plain: &Plain) -> Self {
        Self {
            meta: plain.meta.as_ref().map(Value::to_string),
            mentions: (!plain.mentions.is_empty()).then(|| Value::from(plain.mentions.clone()).to_string()),
            file: plain.file.as_ref().map(Value::to_string),
        }
    }
}

/// How many rows one statement makes. FTS5 writes out what it has gathered before every statement that has triggers, so
/// a statement for each row would cost several times as much.
pub(super) const TOGETHER: [usize; 3] = [64, 8, 1];

/// Parameters of each row; two more are for all.
const EACH: usize = 30;

/// The statement that makes so many rows.
fn insertion(count: usize) -> String {
    let row = |index: usize| {
        let own = |place: usize| 3 + index * EACH + place;
        let list = |places: std::ops::Range<usize>| {
            places.map(|place| format!("?{}", own(place))).collect::<Vec<_>>().join(", ")
        };
        format!("({}, ?1, {}, ?2, ?2, {})", list(0..1), list(1..18), list(18..EACH))
    };
    let values = (0..count).map(row).collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO inbox (no, mesh, sender_member_id, client_message_id, broker_message_id, broker_seq, kind, topic,
         sender_pubkey, sender_member_pubkey, sender_name, body, meta, priority, mentions, mention, reply_to_id, file,
         created_at, stored_at, received_at, recipient_pubkey, recipient_session, decrypt_state, topic_id, key_epoch,
         body_version, request_fingerprint, nonce, ciphertext, group_name, in_order, verified)
         VALUES {values} ON CONFLICT (mesh, sender_member_id, client_message_id) DO NOTHING"
    )
}

static INSERTIONS: LazyLock<[String; 3]> = LazyLock::new(|| TOGETHER.map(insertion));

/// Makes rows of arrivals, as many as `TOGETHER` has at `size`, numbered from `first`, except for those that were there.
/// The numbers of the rows that were made.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    mesh: &str,
    first: i64,
    now: u64,
    size: usize,
    arrivals: &[(Arrival, Texts)],
) -> rusqlite::Result<Vec<i64>> {
    let mut statement = transaction.prepare_cached(&INSERTIONS[size])?;
    statement.raw_bind_parameter(1, mesh)?;
    statement.raw_bind_parameter(2, signed(now))?;
    for (index, ((arrival, texts), no)) in arrivals.iter().zip(first..).enumerate() {
        bind(&mut statement, 3 + index * EACH, no, arrival, texts)?;
    }
    let last = first + arrivals.len() as i64 - 1;
    if statement.raw_execute()? == arrivals.len() {
        return Ok((first..=last).collect());
    }
    // Which of them there are; asked only now, because for a `RETURNING` SQLite makes a table.
    let mut statement = transaction.prepare_cached("SELECT no FROM inbox WHERE no BETWEEN ? AND ? ORDER BY no")?;
    let made = statement.query_map([first, last], |row| row.get(0))?;
    made.collect()
}

fn bind(statement: &mut Statement<'_>, from: usize, no: i64, arrival: &Arrival, texts: &Texts) -> rusqlite::Result<()> {
    let (plain, sealed, state) = match &arrival.content {
        Content::Open(plain) => (Some(plain), None, None),
        Content::KeyPending(sealed) => (None, Some(sealed), Some(KEY_PENDING)),
        Content::Unreadable(why) => (None, None, Some(why.as_str())),
    };
    let session = plain.and_then(|plain| plain.session.as_ref()).or(arrival.recipient_session.as_ref());
    let values: [&dyn ToSql; EACH] = [
        &no,
        &arrival.sender_member_id,
        &arrival.client_message_id,
        &arrival.broker_message_id,
        &signed(arrival.broker_seq),
        &arrival.kind.as_str(),
        &arrival.topic,
        &arrival.sender_pubkey,
        &arrival.sender_member_pubkey,
        &arrival.sender_name,
        &plain.map(|plain| &plain.body),
        &texts.meta,
        &arrival.priority.as_str(),
        &texts.mentions,
        &plain.is_some_and(|plain| plain.mention),
        &plain.and_then(|plain| plain.reply_to_id.as_ref()),
        &texts.file,
        &arrival.created_at.map(signed),
        &arrival.recipient_pubkey,
        &session,
        &state,
        &sealed.map(|sealed| &sealed.topic_id),
        &sealed.map(|sealed| signed(sealed.key_epoch)),
        &sealed.map(|sealed| sealed.body_version),
        &sealed.map(|sealed| &sealed.request_fingerprint),
        &sealed.map(|sealed| &sealed.nonce),
        &sealed.map(|sealed| &sealed.ciphertext),
        &sealed.and_then(|sealed| sealed.group.as_ref()),
        &sealed.is_some_and(|sealed| sealed.in_order),
        &plain.is_some_and(|plain| plain.verified),
    ];
    for (value, place) in values.into_iter().zip(from..) {
        statement.raw_bind_parameter(place, value)?;
    }
    Ok(())
}

/// What was found where a trace was to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trace {
    /// Nothing: it is there now.
    Made,
    /// The trace of this very entry of the log. Whether the message is there too is for its own row to say: a damaged
    /// inbox may have lost the one and kept the other.
    OfThis,
    /// The message, or the trace of another entry with it.
    Known,
}

/// Makes a row that shows nothing and says only that this member's message has come.
pub(super) fn trace(
    transaction: &Transaction<'_>,
    mesh: &str,
    no: i64,
    now: u64,
    member: &str,
    arrival: &Arrival,
) -> rusqlite::Result<Trace> {
    let sql = format!(
        "INSERT INTO inbox (no, mesh, sender_member_id, client_message_id, broker_message_id, broker_seq, kind,
         sender_pubkey, sender_name, priority, stored_at, received_at, seen_at, decrypt_state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '', ?9, ?10, ?10, ?10, '{DELETED}')
         ON CONFLICT (mesh, sender_member_id, client_message_id) DO NOTHING"
    );
    let made = transaction.prepare_cached(&sql)?.execute(params![
        no,
        mesh,
        member,
        arrival.client_message_id,
        arrival.broker_message_id,
        signed(arrival.broker_seq),
        arrival.kind.as_str(),
        arrival.sender_pubkey,
        arrival.priority.as_str(),
        signed(now),
    ])?;
    if made == 1 {
        return Ok(Trace::Made);
    }
    let mut select = transaction.prepare_cached(
        "SELECT broker_message_id FROM inbox WHERE mesh = ? AND sender_member_id = ? AND client_message_id = ?",
    )?;
    let there: String = select.query_row([mesh, member, &arrival.client_message_id], |row| row.get(0))?;
    Ok(if there == arrival.broker_message_id { Trace::OfThis } else { Trace::Known })
}

/// The row that `insert` has made, without asking the database.
pub(super) fn shown(mesh: &str, no: i64, now: u64, arrival: Arrival) -> Arc<InboxRow> {
    let (plain, error) = match arrival.content {
        Content::Open(plain) => (Some(plain), None),
        Content::KeyPending(_) => (None, Some(KEY_PENDING)),
        Content::Unreadable(why) => (None, Some(why.as_str())),
    };
    let readable = plain.is_some();
    let plain = plain.unwrap_or_default();
    Arc::new(InboxRow {
        id: RowId::new(now, no).text(),
        mesh: mesh.to_owned(),
        sender_member_id: arrival.sender_member_id,
        client_message_id: arrival.client_message_id,
        broker_message_id: arrival.broker_message_id,
        broker_seq: arrival.broker_seq,
        kind: arrival.kind,
        topic: arrival.topic,
        sender_member_pubkey: arrival.sender_member_pubkey.unwrap_or_else(|| arrival.sender_pubkey.clone()),
        sender_pubkey: arrival.sender_pubkey,
        sender_name: arrival.sender_name,
        body: readable.then_some(plain.body),
        meta: plain.meta,
        priority: arrival.priority,
        mentions: plain.mentions,
        mention: plain.mention,
        reply_to_id: plain.reply_to_id,
        file: plain.file,
        created_at: arrival.created_at,
        received_at: now,
        seen_at: None,
        recipient_pubkey: arrival.recipient_pubkey,
        recipient_session: plain.session.or(arrival.recipient_session),
        decrypt_error: error.map(str::to_owned),
        verified: plain.verified,
    })
}

/// Writes the reader's place down.
pub(super) fn set_cursor(transaction: &Transaction<'_>, cursor: &Cursor) -> rusqlite::Result<()> {
    let above = serde_json::to_string(&cursor.above).unwrap_or_else(|_| "[]".to_owned());
    transaction
        .prepare_cached(
            "INSERT INTO cursor (only_one, epoch, seq, above, entry_seq, entry_id) VALUES (1, ?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (only_one) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq, above = excluded.above,
             entry_seq = excluded.entry_seq, entry_id = excluded.entry_id",
        )?
        .execute(params![
            cursor.epoch,
            signed(cursor.seq),
            above,
            cursor.last_entry.as_ref().map(|entry| signed(entry.seq)),
            cursor.last_entry.as_ref().map(|entry| &entry.id)
        ])
        .map(drop)
}

/// The reader's place.
pub(super) fn cursor(connection: &Connection) -> rusqlite::Result<Cursor> {
    let found = connection
        .prepare_cached("SELECT epoch, seq, above, entry_seq, entry_id FROM cursor WHERE only_one = 1")?
        .query_row([], |row| {
            let above = serde_json::from_str(row.get_ref(2)?.as_str()?).unwrap_or_default();
            let last_entry = match (row.get::<_, Option<i64>>(3)?, row.get::<_, Option<String>>(4)?) {
                (Some(seq), Some(id)) => Some(EntryMark { seq: seq.cast_unsigned(), id }),
                _ => None,
            };
            Ok(Cursor { epoch: row.get(0)?, seq: row.get::<_, i64>(1)?.cast_unsigned(), above, last_entry })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

/// A row by its number.
pub(super) fn by_number(connection: &Connection, no: i64) -> rusqlite::Result<Option<InboxRow>> {
    let sql = format!("SELECT {ROW_COLUMNS} FROM inbox i WHERE i.no = ?");
    connection.prepare_cached(&sql)?.query_row([no], |row| read_row(row, 0)).optional()
}

/// A body that waited is open, or will never be; whether it had waited. It keeps the time it came: so what one sender has
/// sent to one place stays in order.
pub(super) fn opened(
    transaction: &Transaction<'_>,
    no: i64,
    content: Result<&Plain, Unreadable>,
) -> rusqlite::Result<bool> {
    let (plain, state) = match content {
        Ok(plain) => (Some(plain), None),
        Err(why) => (None, Some(why.as_str())),
    };
    let texts = plain.map(Texts::of).unwrap_or_default();
    let changed = transaction
        .prepare_cached(
            "UPDATE inbox SET body = ?2, meta = ?3, mentions = ?4, mention = ?5, reply_to_id = ?6, file = ?7,
             recipient_session = coalesce(?8, recipient_session), decrypt_state = ?9,
             sender_name = coalesce(?10, sender_name), topic_id = NULL, key_epoch = NULL,
             body_version = NULL, request_fingerprint = NULL, nonce = NULL, ciphertext = NULL, group_name = NULL,
             in_order = 0, verified = ?11
             WHERE no = ?1 AND decrypt_state = 'key_pending'",
        )?
        .execute(params![
            no,
            plain.map(|plain| &plain.body),
            texts.meta,
            texts.mentions,
            plain.is_some_and(|plain| plain.mention),
            plain.and_then(|plain| plain.reply_to_id.as_ref()),
            texts.file,
            plain.and_then(|plain| plain.session.as_ref()),
            state,
            plain.and_then(|plain| plain.sender_name.as_ref()),
            plain.is_some_and(|plain| plain.verified),
        ])?;
    Ok(changed == 1)
}

/// A sealed body, from column `at` on.
pub(super) fn sealed(row: &Row<'_>, at: usize) -> rusqlite::Result<Sealed> {
    Ok(Sealed {
        topic_id: row.get(at)?,
        key_epoch: row.get::<_, i64>(at + 1)?.cast_unsigned(),
        body_version: row.get(at + 2)?,
        request_fingerprint: row.get(at + 3)?,
        nonce: row.get(at + 4)?,
        ciphertext: row.get(at + 5)?,
        group: row.get(at + 6)?,
        in_order: row.get(at + 7)?,
    })
}

/// A small fact.
pub(crate) fn fact(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached("SELECT value FROM facts WHERE name = ?")?.query_row([name], |row| row.get(0)).optional()
}

/// Writes a small fact down.
pub(crate) fn set_fact(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    let upsert =
        "INSERT INTO facts (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(upsert)?.execute(params![name, value]).map(drop)
}

/// A single number.
pub(super) fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}
