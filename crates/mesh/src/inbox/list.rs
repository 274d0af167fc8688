//! Pages of the inbox, newest first or oldest first, and what is done to single rows.

use std::time::Duration;

use hostel_store::StoreError;
use hostel_syncpoint::points;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Transaction, params, params_from_iter};

use super::Inbox;
use super::rows::{DELETED, ROW_COLUMNS, VISIBLE, read_row};
use super::types::{From, InboxError, InboxQuery, InboxRow, Page, Scope};
use crate::schema::{RowId, signed};

/// A page has this many rows if nobody says otherwise, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;

/// How long one page or one search may take.
pub(super) const LONGEST_READ: Duration = Duration::from_secs(5);

/// Rows changed in one transaction.
const BATCH: i64 = 500;

/// What a row takes besides its text, when a page is cut by bytes.
const ROW_BYTES: usize = 800;

/// The condition of a scope, with the session as its parameter where there is one.
pub(super) fn scoped(scope: &Scope, conditions: &mut Vec<&'static str>, values: &mut Vec<Sql>) {
    if let Scope::Session(session) = scope {
        conditions
            .push("(i.recipient_session = ? OR (i.recipient_session IS NULL AND i.kind IN ('topic', 'group', 'all')))");
        values.push(session.clone().into());
    }
}

/// The condition of a scope for what may be changed: a session changes only what is addressed to it.
fn owned(scope: &Scope) -> (&'static str, Option<String>) {
    match scope {
        Scope::Member => ("?2 IS NULL", None),
        Scope::Session(session) => ("recipient_session = ?2", Some(session.clone())),
    }
}

/// A place in the order of pages.
#[derive(Clone, Copy)]
struct Place {
    received_at: u64,
    no: i64,
}

impl Place {
    fn text(self) -> String {
        format!("{:x}-{:x}", self.received_at, self.no)
    }

    fn parse(text: &str) -> Option<Self> {
        let (received_at, no) = text.split_once('-')?;
        let received_at = u64::from_str_radix(received_at, 16).ok()?;
        Some(Self { received_at, no: i64::from_str_radix(no, 16).ok()? })
    }
}

impl Inbox {
    /// What announcements said of the newest files, newest first.
    pub async fn announced_files(&self, limit: u32) -> Result<Vec<serde_json::Value>, StoreError> {
        let read = move |connection: &Connection| {
            let sql = "SELECT file FROM inbox INDEXED BY inbox_files WHERE file IS NOT NULL ORDER BY no DESC LIMIT ?";
            let mut statement = connection.prepare_cached(sql)?;
            let texts = statement.query_map([limit], |row| row.get::<_, String>(0))?;
            texts.collect::<rusqlite::Result<Vec<_>>>()
        };
        let texts = self.store.read_within(LONGEST_READ, read).await?;
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
    }

    /// A page of what is wanted. With `mark_seen` its rows count as seen from now on; they are shown as they were.
    pub async fn list(&self, query: InboxQuery) -> Result<Page, InboxError> {
        let place = match &query.cursor {
            Some(text) => Some(Place::parse(text).ok_or(InboxError::BadCursor)?),
            None => None,
        };
        let (scope, mark) = (query.scope.clone(), query.mark_seen);
        let (mut page, unseen) =
            self.store.read_within(LONGEST_READ, move |connection| read_page(connection, &query, place)).await?;
        if mark && !unseen.is_empty() {
            let now = self.inner.clock.now_ms();
            page.marked_seen = self
                .store
                .write(points::INBOX_SEEN, move |transaction| mark_seen(transaction, &unseen, &scope, now))
                .await?;
        }
        Ok(page)
    }

    /// These count as seen; how many did not before.
    pub async fn seen(&self, ids: Vec<String>, scope: Scope) -> Result<u64, StoreError> {
        let ids: Vec<RowId> = ids.iter().filter_map(|id| RowId::parse(id)).collect();
        if ids.is_empty() {
            return Ok(0);
        }
        let now = self.inner.clock.now_ms();
        self.store.write(points::INBOX_SEEN, move |transaction| mark_seen(transaction, &ids, &scope, now)).await
    }

    /// Deletes a message; `false` if there is none of that id. Should it come again, it is recognised.
    pub async fn delete(&self, id: &str, scope: Scope) -> Result<bool, StoreError> {
        let Some(id) = RowId::parse(id) else { return Ok(false) };
        let now = self.inner.clock.now_ms();
        let delete = move |transaction: &Transaction<'_>| {
            let (condition, session) = owned(&scope);
            let sql = format!("{} no = ?3 AND stored_at = ?4 AND {condition}", erase());
            let changed = transaction.execute(&sql, params![signed(now), session, id.no, signed(id.time)])?;
            Ok(changed == 1)
        };
        self.store.write(points::INBOX_DELETED, delete).await
    }

    /// Deletes everything received before then; how many that were.
    pub async fn delete_before(&self, before: u64, scope: Scope) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let (now, scope) = (self.inner.clock.now_ms(), scope.clone());
            let delete = move |transaction: &Transaction<'_>| {
                let (condition, session) = owned(&scope);
                let sql = format!(
                    "{} no IN (SELECT i.no FROM inbox i WHERE i.received_at < ?3 AND {VISIBLE} AND {condition} LIMIT ?4)",
                    erase()
                );
                transaction.execute(&sql, params![signed(now), session, signed(before), BATCH])
            };
            match self.store.write(points::INBOX_DELETED, delete).await? {
                0 => return Ok(deleted),
                some => deleted += some as u64,
            }
        }
    }

    /// Topics with the number of posts in them that nobody has seen.
    pub async fn unseen_by_topic(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let sql = format!(
            "SELECT i.topic, count(*) FROM inbox i WHERE i.seen_at IS NULL AND i.topic IS NOT NULL AND {VISIBLE}
             GROUP BY i.topic"
        );
        let read = move |connection: &rusqlite::Connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let topics = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
            topics.collect()
        };
        self.store.read_within(LONGEST_READ, read).await
    }
}

/// The beginning of a statement that takes everything out of a row but what recognises it. `?1` is the time.
fn erase() -> String {
    format!(
        "UPDATE inbox SET decrypt_state = '{DELETED}', body = NULL, meta = NULL, file = NULL, mentions = NULL,
         nonce = NULL, ciphertext = NULL, seen_at = coalesce(seen_at, ?1)
         WHERE (decrypt_state IS NULL OR decrypt_state NOT IN ('key_pending', 'deleted')) AND"
    )
}

fn mark_seen(transaction: &Transaction<'_>, ids: &[RowId], scope: &Scope, now: u64) -> rusqlite::Result<u64> {
    let (condition, session) = owned(scope);
    let sql =
        format!("UPDATE inbox SET seen_at = ?1 WHERE no = ?3 AND stored_at = ?4 AND seen_at IS NULL AND {condition}");
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut marked = 0;
    for id in ids {
        marked += statement.execute(params![signed(now), session, id.no, signed(id.time)])? as u64;
    }
    Ok(marked)
}

/// A page, and those of it that nobody had seen.
fn read_page(
    connection: &rusqlite::Connection,
    query: &InboxQuery,
    place: Option<Place>,
) -> rusqlite::Result<(Page, Vec<RowId>)> {
    let limit = if query.limit == 0 { USUAL } else { query.limit.min(MOST) };
    let (sql, values) = statement(query, place, limit + 1);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(values))?;
    let (mut page, mut unseen, mut bytes, mut last) = (Page::default(), Vec::new(), 0, None);
    while let Some(row) = found.next()? {
        let item = read_row(row, 0)?;
        bytes += size(&item);
        let full = page.items.len() == limit || (query.max_bytes > 0 && bytes > query.max_bytes);
        if full && let Some(last) = last {
            page.next = Some(Place::text(last));
            break;
        }
        let no = row.get(0)?;
        let place = Place { received_at: item.received_at, no };
        if query.oldest_first {
            page.places.push(place.text());
        }
        last = Some(place);
        if item.seen_at.is_none() {
            unseen.push(RowId::new(row.get::<_, i64>(19)?.cast_unsigned(), no));
        }
        page.items.push(item);
    }
    Ok((page, unseen))
}

fn statement(query: &InboxQuery, place: Option<Place>, limit: usize) -> (String, Vec<Sql>) {
    let (mut conditions, mut values): (Vec<&'static str>, Vec<Sql>) = (vec![VISIBLE], Vec::new());
    if let Some(since) = query.since {
        conditions.push("i.received_at >= ?");
        values.push(signed(since).into());
    }
    if let Some(place) = place {
        conditions.push(match query.oldest_first {
            true => "(i.received_at, i.no) > (?, ?)",
            false => "(i.received_at, i.no) < (?, ?)",
        });
        values.extend([Sql::from(signed(place.received_at)), place.no.into()]);
    }
    if let Some(topic) = &query.topic {
        conditions.push("i.topic = ?");
        values.push(topic.clone().into());
    }
    match &query.from {
        None => {}
        Some(From::Pubkey(key)) => {
            conditions.push("(i.sender_pubkey = ? OR i.sender_member_pubkey = ?)");
            values.extend([Sql::from(key.clone()), key.clone().into()]);
        }
        Some(From::Member(member)) => {
            conditions.push("i.sender_member_id = ?");
            values.push(member.clone().into());
        }
        Some(From::Name(name)) => {
            conditions.push("i.sender_name = ? COLLATE NOCASE");
            values.push(name.clone().into());
        }
    }
    if let Some(session) = &query.session {
        conditions.push("i.recipient_session = ?");
        values.push(session.clone().into());
    }
    if query.unread_only {
        conditions.push("i.seen_at IS NULL");
    }
    scoped(&query.scope, &mut conditions, &mut values);
    values.push((limit as i64).into());
    let which = conditions.join(" AND ");
    let way = if query.oldest_first { "ASC" } else { "DESC" };
    (
        format!("SELECT {ROW_COLUMNS} FROM inbox i WHERE {which} ORDER BY i.received_at {way}, i.no {way} LIMIT ?"),
        values,
    )
}

/// About what a row takes in an answer.
pub(super) fn size(row: &InboxRow) -> usize {
    let meta = row.meta.as_ref().map_or(0, |meta| meta.to_string().len());
    row.body.as_ref().map_or(0, String::len) + meta + ROW_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// Whatever a page is asked for, a large inbox is not walked through for it.
    #[test]
    fn senders_are_found_by_an_index() {
        let connection = Connection::open_in_memory().unwrap();
        for step in schema::INBOX.steps {
            connection.execute_batch(step).unwrap();
        }
        let text = || "somebody".to_owned();
        for from in [From::Name(text()), From::Pubkey(text()), From::Member(text())] {
            let (sql, values) = statement(&InboxQuery { from: Some(from), ..InboxQuery::default() }, None, 10);
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = plan.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert!(steps.iter().all(|step| !step.contains("SCAN")), "{steps:?}");
        }
    }
}
