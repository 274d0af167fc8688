//! Whose outbox it is. A host that gets a new identity keeps what it has accepted, and so does a copy of a host.
//!
//! An id belongs to the member that has accepted the request. The broker may have it from that member, without anybody
//! here having heard of it; where the host was copied, the original may send it any time. So a row keeps the member it was
//! accepted by, and is sent with that: the broker then looks for the id where the other would have left it.
//!
//! Invariant: rows that were accepted by one member are marked before another accepts anything, in one transaction. What
//! stays on this host follows the host.

use std::path::Path;

use hostel_store::{Options, Store, StoreError};
use hostel_syncpoint::points;
use hostel_wire::fingerprint;
use hostel_wire::frames::Priority;
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::types::{DestKind, Payload};
use super::{OutboxError, check, opening, rows};
use crate::{recover, schema};

/// Writes down whose rows these are before somebody else takes over; nothing if there are none yet. Each row has it for
/// itself then, whatever happens to the rest. How many of them the broker has not confirmed. An outbox that a recovery has
/// made ready takes its place first: it has these rows. A damaged one is left to be recovered.
pub async fn belongs_to(path: &Path, member: &str) -> Result<u64, OutboxError> {
    if let Some(dir) = path.parent() {
        recover::finish(dir).map_err(|error| OutboxError::Store(StoreError::Sqlite(format!("outbox.db: {error}"))))?;
    }
    if !path.exists() {
        return Ok(0);
    }
    let how = Options { inline: true, incremental_vacuum: true, ..Options::default() };
    let store = Store::open(path, &schema::OUTBOX, how).map_err(opening)?;
    if let Err(damaged) = check(&store).await {
        drop(store.close());
        return Err(damaged);
    }
    let member = member.to_owned();
    let settled = store.write(points::OUTBOX_OWNER, move |transaction| {
        settle(transaction, &member)?;
        mark(transaction, &member)?;
        rows::number(transaction, "SELECT count(*) FROM outbox WHERE owed IS NOT NULL")
    });
    let settled = settled.await;
    // Its only connection ends with it: another may open the file.
    drop(store.close());
    settled.map(i64::cast_unsigned).map_err(opening)
}

/// From now on this member accepts.
pub(super) fn settle(transaction: &Transaction<'_>, member: &str) -> rusqlite::Result<()> {
    let before: Option<String> = transaction.query_row("SELECT member FROM owner", [], |row| row.get(0)).optional()?;
    match before {
        Some(before) if before == member => return Ok(()),
        Some(before) => hand_over(transaction, &before, member)?,
        None => {}
    }
    transaction.execute("INSERT OR REPLACE INTO owner (only_one, member) VALUES (1, ?)", [member]).map(drop)
}

fn mark(transaction: &Transaction<'_>, member: &str) -> rusqlite::Result<()> {
    transaction.execute("UPDATE outbox SET origin = ? WHERE origin IS NULL", [member]).map(drop)
}

fn hand_over(transaction: &Transaction<'_>, old: &str, new: &str) -> rusqlite::Result<()> {
    mark(transaction, old)?;
    // What goes from this host to itself has never left it and does not now. No broker has seen its fingerprint.
    let mut own = transaction.prepare(
        "SELECT no FROM outbox WHERE dest_kind = 'dm' AND (dest_ref = ?1 OR substr(dest_ref, 1, length(?1) + 1) = ?1 || '/')",
    )?;
    let own: Vec<i64> = own.query_map([old], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut select = transaction.prepare("SELECT dest_ref, priority, payload FROM outbox WHERE no = ?")?;
    let mut update = transaction.prepare("UPDATE outbox SET dest_ref = ?2, request_fingerprint = ?3 WHERE no = ?1")?;
    for no in own {
        let (dest, priority, payload): (String, String, Vec<u8>) =
            select.query_row([no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let dest = format!("{new}{}", dest.get(old.len()..).unwrap_or_default());
        // What cannot be read is given up when it is its turn.
        let Ok(payload) = serde_json::from_slice::<Payload>(&payload) else { continue };
        let made = fingerprint::request(
            DestKind::Dm.as_str(),
            &dest,
            payload.reply_to.as_deref(),
            Priority::parse(&priority).unwrap_or_default(),
            payload.meta.as_ref(),
            payload.body.as_bytes(),
        );
        if let Ok(made) = made {
            update.execute(params![no, dest, made])?;
        }
    }
    Ok(())
}
