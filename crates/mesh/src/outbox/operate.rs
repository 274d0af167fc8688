//! What operators and housekeeping do to the outbox: look, send again under another id, forget, repair.
//!
//! Invariant: an id that was used stays bound to its row; sending again always makes another row with another id. What
//! is still owed is never forgotten here, except that it is too old.

use std::sync::atomic::Ordering;

use hostel_store::StoreError;
use hostel_syncpoint::{SyncPoint, points};
use hostel_wire::ids;
use rusqlite::{OptionalExtension as _, Transaction, params};

use super::queue::{Entry, Queue};
use super::types::{Confirmed, DeadRow, Lane, MOST_ID, OutboxRow, RequeueError, Requeued, Status};
use super::{Inner, Outbox, drain, rows};
use crate::disk::Level;
use crate::schema::{RowId, signed};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Done rows are kept this long: their ids are recognised, and a log that lost them gets them again.
const KEEP_DONE_MS: u64 = 7 * DAY_MS;

/// Done rows are kept this long even where room is scarce.
const KEEP_DONE_LEAST_MS: u64 = DAY_MS;

/// Rows that were given up are kept this long.
const KEEP_FAILED_MS: u64 = 30 * DAY_MS;

/// Rows looked at in one transaction of housekeeping.
const BATCH: i64 = 500;

/// Pages given back to the disk in one transaction, and how many must be free before it is worth it.
const PAGES: i64 = 2000;

/// Rows listed at most.
const MOST_LISTED: usize = 10_000;

impl Outbox {
    /// The row with a caller's id.
    pub async fn lookup(&self, client_message_id: &str) -> Result<Option<OutboxRow>, StoreError> {
        let id = client_message_id.to_owned();
        self.store.read(move |connection| Ok(rows::find(connection, &id)?.map(|(_, row)| row))).await
    }

    /// Rows in a state, or all, newest first.
    pub async fn list(&self, status: Option<Status>, limit: usize) -> Result<Vec<OutboxRow>, StoreError> {
        self.store.read(move |connection| rows::list(connection, status, limit.min(MOST_LISTED))).await
    }

    /// Gives a row up that waits or was given up, and makes another of it with another id: the same content, the same
    /// way, the same fingerprint. `id` is the row's id or the caller's.
    pub async fn requeue(
        &self,
        id: &str,
        new_client_message_id: Option<String>,
        by: &str,
    ) -> Result<Requeued, RequeueError> {
        let now = self.inner.clock.now_ms();
        let new_id = new_client_message_id.unwrap_or_else(|| ids::ulid(now));
        if new_id.is_empty() || new_id.len() > MOST_ID {
            return Err(RequeueError::BadId);
        }
        let (id, by) = (id.to_owned(), by.to_owned());
        self.change(points::OUTBOX_REQUEUED, move |transaction, queue, inner| {
            requeue(transaction, queue, inner, &id, new_id, &by)
        })
        .await?
    }

    /// Forgets rows that are settled for longer than this: done, dead and aborted ones, or those of one state.
    pub async fn prune(&self, status: Option<Status>, older_than_ms: u64) -> Result<u64, StoreError> {
        let before = self.inner.clock.now_ms().saturating_sub(older_than_ms);
        let kept = |settled: Status| if status.is_none_or(|status| status == settled) { before } else { 0 };
        let keep = Keep { done: kept(Status::Done), dead: kept(Status::Dead), aborted: kept(Status::Aborted) };
        self.forget(keep).await
    }

    /// Gives up what waits and has become too old.
    pub async fn expire(&self) -> Result<Vec<DeadRow>, StoreError> {
        let mut all = Vec::new();
        loop {
            let dead = self
                .change(points::OUTBOX_GIVEN_UP, |transaction, queue, inner| drain::expire(transaction, queue, inner))
                .await?;
            if dead.is_empty() {
                return Ok(all);
            }
            all.extend(dead);
        }
    }

    /// Forgets what is old enough, and gives room back.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let now = self.inner.ages.now_ms();
        let scarce = self.inner.measure().level() >= Level::High;
        let done = if scarce { KEEP_DONE_LEAST_MS } else { KEEP_DONE_MS };
        let failed = now.saturating_sub(KEEP_FAILED_MS);
        self.forget(Keep { done: now.saturating_sub(done), dead: failed, aborted: failed }).await
    }

    /// The furthest place in a log that was confirmed.
    pub async fn confirmed(&self, epoch: &str) -> Result<Option<Confirmed>, StoreError> {
        let epoch = epoch.to_owned();
        let read = move |connection: &rusqlite::Connection| {
            let mut select = connection.prepare_cached("SELECT seq, entry_id FROM confirmed WHERE epoch = ?")?;
            let confirmed = |row: &rusqlite::Row<'_>| {
                Ok(Confirmed { seq: row.get::<_, i64>(0)?.cast_unsigned(), entry_id: row.get(1)? })
            };
            select.query_row([epoch], confirmed).optional()
        };
        self.store.read(read).await
    }

    /// The log as the broker has it now ends at `last_seq`. Rows it had confirmed beyond that, or in another log, are
    /// owed again, under their old ids and in their old order.
    pub async fn requeue_unlogged(&self, epoch: &str, last_seq: u64) -> Result<u64, StoreError> {
        let epoch = epoch.to_owned();
        self.change(points::OUTBOX_OWED_AGAIN, move |transaction, queue, inner| {
            unlogged(transaction, queue, inner, &epoch, last_seq)
        })
        .await
    }

    async fn forget(&self, keep: Keep) -> Result<u64, StoreError> {
        let (mut forgotten, mut after) = (0, 0);
        loop {
            let inner = std::sync::Arc::clone(&self.inner);
            let step = self.store.write(points::OUTBOX_PRUNED, move |transaction| {
                let step = forget(transaction, keep, after)?;
                inner.dead.fetch_sub(step.dead.min(inner.dead.load(Ordering::Relaxed)), Ordering::Relaxed);
                Ok(step)
            });
            let step = step.await?;
            forgotten += step.forgotten;
            match step.next {
                Some(next) => after = next,
                None => break,
            }
        }
        while forgotten > 0 && self.store.write(SyncPoint::NONE, give_back).await? {}
        self.inner.measure();
        Ok(forgotten)
    }
}

/// Rows settled before these times are forgotten.
#[derive(Clone, Copy)]
struct Keep {
    done: u64,
    dead: u64,
    aborted: u64,
}

#[derive(Default)]
struct Step {
    forgotten: u64,
    dead: u64,
    next: Option<i64>,
}

/// Looks at some rows, oldest first, and ends where no row can be old enough.
fn forget(transaction: &Transaction<'_>, keep: Keep, after: i64) -> rusqlite::Result<Step> {
    let mut statement = transaction.prepare_cached(
        "SELECT no, status, enqueued_at, coalesce(delivered_at, aborted_at, enqueued_at) FROM outbox WHERE no > ?1
         ORDER BY no LIMIT ?2",
    )?;
    let mut step = Step::default();
    let (mut looked, mut old) = (Vec::new(), false);
    let mut found = statement.query([after, BATCH])?;
    while let Some(row) = found.next()? {
        let (no, enqueued_at, settled_at) =
            (row.get::<_, i64>(0)?, row.get::<_, i64>(2)?.cast_unsigned(), row.get::<_, i64>(3)?.cast_unsigned());
        old = enqueued_at < keep.done.max(keep.dead).max(keep.aborted);
        let status = Status::parse(row.get_ref(1)?.as_str()?);
        looked.push((no, status, settled_at));
    }
    drop(found);
    let mut delete = transaction.prepare_cached("DELETE FROM outbox WHERE no = ?")?;
    for (no, status, settled_at) in &looked {
        let before = match status {
            Some(Status::Done) => keep.done,
            Some(Status::Dead) => keep.dead,
            Some(Status::Aborted) => keep.aborted,
            Some(Status::Pending | Status::Inflight) | None => 0,
        };
        if *settled_at < before {
            delete.execute([no])?;
            step.forgotten += 1;
            step.dead += u64::from(*status == Some(Status::Dead));
        }
    }
    step.next = looked.last().map(|(no, ..)| *no).filter(|_| old && looked.len() as i64 == BATCH);
    Ok(step)
}

/// Gives some free pages back to the disk; whether there are more.
fn give_back(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let free = || rows::number(transaction, "PRAGMA freelist_count");
    if free()? < PAGES {
        return Ok(false);
    }
    let mut statement = transaction.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut steps = statement.query([])?;
    while steps.next()?.is_some() {}
    drop(steps);
    // A database that was made without this ability gives nothing back: then this is not tried again and again.
    let left = free()?;
    Ok(left >= PAGES && rows::number(transaction, "PRAGMA auto_vacuum")? == 2)
}

fn requeue(
    transaction: &Transaction<'_>,
    queue: &mut Queue,
    inner: &Inner,
    id: &str,
    new_id: String,
    by: &str,
) -> rusqlite::Result<Result<Requeued, RequeueError>> {
    let by_id = match RowId::parse(id) {
        Some(id) => rows::find_by_id(transaction, id)?,
        None => None,
    };
    let found = match by_id {
        Some(found) => Some(found),
        None => rows::find(transaction, id)?,
    };
    let Some((no, old)) = found else { return Ok(Err(RequeueError::NotFound)) };
    // The queue may know before the database that it is under way.
    let status = if queue.flight(no).is_some() { Status::Inflight } else { old.status };
    if !matches!(status, Status::Pending | Status::Dead) {
        return Ok(Err(RequeueError::WrongState(status)));
    }
    if rows::find(transaction, &new_id)?.is_some() {
        return Ok(Err(RequeueError::IdTaken));
    }
    let (new_no, now) = (queue.next_no(), inner.clock.now_ms());
    let new_row_id = RowId::new(now, new_no).text();
    let expires_at = inner.expiry(now);
    transaction.execute(
        "INSERT INTO outbox (no, client_message_id, request_fingerprint, sender_session, dest_kind, dest_ref, priority,
         status, enqueued_at, expires_at, payload)
         SELECT ?1, ?2, request_fingerprint, sender_session, dest_kind, dest_ref, priority, 'pending', ?3, ?4, payload
         FROM outbox WHERE no = ?5",
        params![new_no, new_id, signed(now), signed(expires_at), no],
    )?;
    transaction.execute(
        "UPDATE outbox SET status = 'aborted', owed = NULL, aborted_at = ?2, aborted_by = ?3, superseded_by = ?4, next_attempt_at = 0
         WHERE no = ?1",
        params![no, signed(now), by, new_row_id],
    )?;
    match old.status {
        Status::Dead => drop(inner.dead.fetch_sub(1, Ordering::Relaxed)),
        _ => queue.settle(no),
    }
    let bytes = u32::try_from(old.payload_bytes).unwrap_or(u32::MAX);
    queue.put(old.lane, Entry { no: new_no, enqueued_at: now, expires_at, attempts: 0, bytes });
    inner.woken.notify_one();
    Ok(Ok(Requeued { aborted_row_id: old.id, new_row_id, new_client_message_id: new_id }))
}

fn unlogged(
    transaction: &Transaction<'_>,
    queue: &mut Queue,
    inner: &Inner,
    epoch: &str,
    last_seq: u64,
) -> rusqlite::Result<u64> {
    // Most of the time the log has everything, and that is known without looking at rows.
    let confirmed: Option<i64> = transaction
        .prepare_cached("SELECT seq FROM confirmed WHERE epoch = ?")?
        .query_row([epoch], |row| row.get(0))
        .optional()?;
    let others: bool = transaction
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM confirmed WHERE epoch <> ?)")?
        .query_row([epoch], |row| row.get(0))?;
    if !others && confirmed.is_none_or(|seq| seq.cast_unsigned() <= last_seq) {
        return Ok(0);
    }
    let now = inner.ages.now_ms();
    let mut statement = transaction.prepare(
        "UPDATE outbox SET status = 'pending', owed = 1, delivered_at = NULL, next_attempt_at = 0, last_error_code = 'unlogged',
         last_error = 'the log of the broker no longer has it', broker_message_id = NULL, broker_epoch = NULL,
         broker_seq = NULL
         WHERE status = 'done' AND expires_at > ?1 AND (broker_epoch IS NOT ?2 OR broker_seq > ?3)
         RETURNING no, enqueued_at, expires_at, attempts, length(payload), sender_session, dest_kind, dest_ref, priority",
    )?;
    let again = statement.query_map(params![signed(now), epoch, signed(last_seq)], |row| {
        let entry = Entry {
            no: row.get(0)?,
            enqueued_at: row.get::<_, i64>(1)?.cast_unsigned(),
            expires_at: row.get::<_, i64>(2)?.cast_unsigned(),
            attempts: row.get(3)?,
            bytes: row.get(4)?,
        };
        Ok((entry, rows::lane(row, 5)?))
    })?;
    let mut again: Vec<(Entry, Lane)> = again.collect::<rusqlite::Result<_>>()?;
    again.sort_unstable_by_key(|(entry, _)| std::cmp::Reverse(entry.no));
    let count = again.len() as u64;
    for (entry, lane) in again {
        queue.put(lane, entry);
    }
    // What was confirmed in logs that are gone, or beyond the end of this one, counts no more.
    transaction.execute("DELETE FROM confirmed WHERE epoch <> ?1 OR seq > ?2", params![epoch, signed(last_seq)])?;
    inner.woken.notify_one();
    Ok(count)
}
