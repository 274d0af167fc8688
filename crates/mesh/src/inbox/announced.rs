//! Files that were announced in messages: who shared them, and what they are.
//!
//! A broker lists files and says who shared them. Whether that is so, and whether the bytes are the ones that were shared,
//! follows from the announcement alone. It is kept beside the inbox because files may outlive their announcements.

use std::collections::HashMap;

use hostel_store::StoreError;
use rusqlite::{Connection, Transaction, params};

use super::Inbox;
use super::types::InboxRow;
use crate::schema::signed;

/// Announcements that are kept, the newest.
const MAX_ANNOUNCED: i64 = 10_000;

/// What an announcement says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Of the file, hex.
    pub(crate) sha256: String,
    /// Whether the member that announced it is proven to have done so.
    pub(crate) verified: bool,
}

/// Notes the file that a message announces. A verified announcement is not replaced by another.
pub(super) fn note(transaction: &Transaction<'_>, row: &InboxRow) -> rusqlite::Result<()> {
    let Some(file) = &row.file else { return Ok(()) };
    let text = |name: &str| file.get(name).and_then(serde_json::Value::as_str).filter(|text| text.len() <= 64);
    let (Some(id), Some(sha256)) = (text("id"), text("sha256")) else { return Ok(()) };
    transaction
        .prepare_cached(
            "INSERT INTO announced_files (file_id, sender_member_id, sha256, verified, announced_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (file_id, sender_member_id) DO UPDATE SET sha256 = excluded.sha256,
             verified = excluded.verified, announced_at = excluded.announced_at
             WHERE excluded.verified AND NOT announced_files.verified",
        )?
        .execute(params![id, row.sender_member_id, sha256, row.verified, signed(row.received_at)])
        .map(drop)
}

/// Forgets the oldest announcements where there are too many.
pub(super) fn trim(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction
        .execute(
            "DELETE FROM announced_files WHERE announced_at < (
             SELECT announced_at FROM announced_files ORDER BY announced_at DESC LIMIT 1 OFFSET ?1)",
            [MAX_ANNOUNCED - 1],
        )
        .map(drop)
}

impl Inbox {
    /// What was announced of a file.
    pub(crate) async fn announced(&self, file_id: &str) -> Result<Vec<Announced>, StoreError> {
        let id = file_id.to_owned();
        let read = move |connection: &Connection| {
            let sql = "SELECT sha256, verified FROM announced_files WHERE file_id = ?";
            let mut statement = connection.prepare_cached(sql)?;
            let found =
                statement.query_map([id], |row| Ok(Announced { sha256: row.get(0)?, verified: row.get(1)? }))?;
            found.collect()
        };
        self.store.read(read).await
    }

    /// Senders of all files that are proven to be theirs, by file.
    pub(crate) async fn proven_files(&self) -> Result<HashMap<String, Vec<String>>, StoreError> {
        let read = |connection: &Connection| {
            let sql = "SELECT file_id, sender_member_id FROM announced_files WHERE verified";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            let mut files: HashMap<String, Vec<String>> = HashMap::new();
            while let Some(row) = rows.next()? {
                files.entry(row.get(0)?).or_default().push(row.get(1)?);
            }
            Ok(files)
        };
        self.store.read(read).await
    }
}
