//! Messages that came before their key: kept, hidden and silent, until they can be opened.

use std::sync::Arc;

use hostel_store::StoreError;
use hostel_syncpoint::points;
use hostel_wire::frames::{Kind, Priority};
use rusqlite::{Connection, params};

use super::arrive::announce;
use super::rows::{self, KEY_PENDING};
use super::types::{InboxRow, MissingKey, Plain, Unreadable, Waiting};
use super::{Inbox, announced};
use crate::authors;
use crate::events::{Batch, Told, trim};
use crate::schema::signed;

impl Inbox {
    /// Keys that messages wait for.
    pub async fn missing_keys(&self) -> Result<Vec<MissingKey>, StoreError> {
        let read = |connection: &Connection| {
            let sql = format!(
                "SELECT topic_id, key_epoch, count(*) FROM inbox WHERE decrypt_state = '{KEY_PENDING}'
                 GROUP BY topic_id, key_epoch"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let keys = statement.query_map([], |row| {
                let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
                Ok(MissingKey { topic_id: row.get(0)?, key_epoch: number(1)?, count: number(2)? })
            })?;
            keys.collect()
        };
        self.store.read(read).await
    }

    /// Messages that wait for a key, in order, after the row `after` (0 at first), at most `limit`.
    pub async fn waiting(
        &self,
        topic_id: &str,
        key_epoch: u64,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Waiting>, StoreError> {
        let topic = topic_id.to_owned();
        let read = move |connection: &Connection| {
            let sql = format!(
                "SELECT no, sender_member_id, sender_pubkey, client_message_id, kind, topic_id, key_epoch, body_version,
                 request_fingerprint, nonce, ciphertext, group_name, in_order, sender_member_pubkey, broker_seq, priority,
                 sender_name FROM inbox
                 WHERE decrypt_state = '{KEY_PENDING}' AND topic_id = ?1 AND key_epoch = ?2 AND no > ?3
                 ORDER BY no LIMIT ?4"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let found = statement.query_map(params![topic, signed(key_epoch), after, limit as i64], |row| {
                let sender_pubkey: String = row.get(2)?;
                let member_pubkey: Option<String> = row.get(13)?;
                Ok(Waiting {
                    no: row.get(0)?,
                    sender_member_id: row.get(1)?,
                    sender_member_pubkey: member_pubkey.unwrap_or_else(|| sender_pubkey.clone()),
                    sender_pubkey,
                    broker_seq: row.get::<_, i64>(14)?.cast_unsigned(),
                    sender_name: row.get(16)?,
                    priority: Priority::parse(row.get_ref(15)?.as_str()?).unwrap_or_default(),
                    client_message_id: row.get(3)?,
                    kind: Kind::parse(row.get_ref(4)?.as_str()?).unwrap_or(Kind::Topic),
                    sealed: rows::sealed(row, 5)?,
                })
            })?;
            found.collect()
        };
        self.store.read(read).await
    }

    /// What waited is open, or will never be. It keeps the place and the time at which it came; what can be read is told.
    pub async fn decrypted(
        &self,
        opened: Vec<(i64, Result<Plain, Unreadable>)>,
    ) -> Result<Vec<Arc<InboxRow>>, StoreError> {
        let inner = Arc::clone(&self.inner);
        let pins = self.inner.authors.take_changes();
        let learned: Vec<String> = pins.iter().map(|(id, _)| id.clone()).collect();
        let ticket = self.store.submit(points::INBOX_OPENED, move |transaction| {
            authors::rows::store(transaction, &pins)?;
            let now = inner.arrives_ms();
            let (mut batch, mut shown, mut new) = (Batch::default(), Vec::with_capacity(opened.len()), Vec::new());
            for (no, content) in opened {
                if !rows::opened(transaction, no, content.as_ref().map_err(|why| *why))? {
                    continue;
                }
                let Some(row) = rows::by_number(transaction, no)?.map(Arc::new) else { continue };
                announced::note(transaction, &row)?;
                shown.push(Arc::clone(&row));
                new.extend(content.ok().map(|plain| (no, row, plain.events)));
            }
            announce(transaction, &inner, now, new, &mut batch)?;
            trim(transaction, batch.told.last().map_or(0, Told::n))?;
            Ok((shown, batch))
        });
        let written = ticket.await.inspect_err(|_| self.inner.authors.give_back(learned))?;
        self.events().tell(written).await
    }
}
