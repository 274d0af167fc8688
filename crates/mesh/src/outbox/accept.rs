//! Taking a message: one transaction that makes a row, or says what became of the row that has its id.
//!
//! Invariant: the decision is a function of that row's state and of whether it is the same request. Nothing that is
//! refused leaves a trace. What a row says is at hand only when it is on disk.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use hostel_store::StoreError;
use hostel_syncpoint::points;
use hostel_wire::encoding::{hex, unhex_array};
use hostel_wire::{fingerprint, ids};
use rusqlite::Transaction;

use super::queue::{Entry, Queue};
use super::rows::{self, Content, Fresh};
use super::types::{AcceptError, Accepted, Conflict, Lane, MOST_ID, NewMessage, OutboxRow, Payload, Status};
use super::{Inner, Outbox};
use crate::disk::{self, Level};
use crate::schema::RowId;

/// The files are measured after this many rows; in between, what was put in is added up.
const MEASURE_EVERY: u64 = 64;

/// What a row takes besides what it says.
const ROW_BYTES: u64 = 400;

impl Outbox {
    /// Takes a message, or recognises it. On disk when it returns.
    pub async fn accept(&self, message: NewMessage) -> Result<Accepted, AcceptError> {
        let fresh = self.fresh(message)?;
        let (inner, after) = (Arc::clone(&self.inner), Arc::clone(&self.inner));
        let placed = Arc::<OnceLock<(Arc<Lane>, i64)>>::default();
        let given = Arc::clone(&placed);
        let taken = self.store.write_then(
            points::OUTBOX_ACCEPTED,
            move |transaction| {
                let taken = take(transaction, &inner, fresh)?;
                if let Ok(Taken::Row { no, lane, .. }) = &taken {
                    given.set((Arc::clone(lane), *no)).ok();
                }
                Ok(taken)
            },
            move |taken| match taken {
                Ok(taken) => {
                    after.disk_refusal.note(false, 0);
                    Ok(taken.map(|taken| taken.settle(&after)))
                }
                Err(error) => {
                    // The disk has not got the row: it does not wait, and is not counted.
                    if let Some((lane, no)) = placed.get() {
                        after.queue.lock().refused(lane, *no);
                    }
                    after.unsure.store(true, Ordering::Relaxed);
                    after.disk_refusal.note(disk::says_disk_full(&error), after.clock.passing_ms());
                    Err(error)
                }
            },
        );
        taken.await.map_err(refused)?
    }

    /// Whether an id has a row.
    pub async fn knows(&self, client_message_id: &str) -> Result<bool, StoreError> {
        let id = client_message_id.to_owned();
        self.store.read(move |connection| Ok(rows::find(connection, &id)?.is_some())).await
    }

    /// Those of these files that a row announces.
    pub(crate) async fn announced_files(&self, files: Vec<String>) -> Result<BTreeSet<String>, StoreError> {
        if files.is_empty() {
            return Ok(BTreeSet::new());
        }
        self.store.read(move |connection| rows::announced_files(connection, files)).await
    }

    /// Everything that can be made ready before the writer is asked.
    fn fresh(&self, message: NewMessage) -> Result<Fresh, AcceptError> {
        let now = self.inner.clock.now_ms();
        let NewMessage { client_message_id, sender_session, dest_kind, dest_ref, priority, payload } = message;
        let client_message_id = client_message_id.unwrap_or_else(|| ids::ulid(now));
        if client_message_id.is_empty() || client_message_id.len() > MOST_ID {
            return Err(AcceptError::BadId);
        }
        let fingerprint = fingerprint::request(
            dest_kind.as_str(),
            &dest_ref,
            payload.reply_to.as_deref(),
            priority,
            payload.meta.as_ref(),
            payload.body.as_bytes(),
        )?;
        let lane = Lane { sender_session, dest_kind, dest_ref, priority };
        let payload = serde_json::to_vec(&payload).map_err(|error| StoreError::Sqlite(error.to_string()))?;
        Ok(Fresh { client_message_id, fingerprint, lane, payload, now, expires_at: self.inner.expiry(now) })
    }
}

/// What was done about a request, before it is on disk.
enum Taken {
    /// A row was made, and has its place.
    Row { no: i64, lane: Arc<Lane>, accepted: Accepted, content: Content },
    /// There was one, and that is the answer.
    Known(Accepted),
}

fn take(transaction: &Transaction<'_>, inner: &Inner, fresh: Fresh) -> rusqlite::Result<Result<Taken, AcceptError>> {
    let mut queue = inner.queue.lock();
    let mut level = inner.pressure_of(queue.rows()).level();
    if level >= Level::Full {
        // Nobody is refused because of what was true a while ago.
        inner.weigh();
        level = inner.tell_level(queue.rows()).level();
    }
    if level < Level::Full {
        let no = queue.next_no();
        if rows::insert(transaction, no, &fresh)? {
            return Ok(Ok(queued(inner, &mut queue, no, fresh)));
        }
    }
    match rows::find(transaction, &fresh.client_message_id)? {
        Some((no, mut row)) => {
            // The queue may know before the database that it is under way.
            if row.status == Status::Pending && queue.flight(no).is_some() {
                row.status = Status::Inflight;
            }
            let same = row.fingerprint == fresh.fingerprint || asked(transaction, no)? == Some(fresh.fingerprint);
            let decided = decide(&row, same);
            if decided.is_ok() {
                inner.duplicates.fetch_add(1, Ordering::Relaxed);
            }
            Ok(decided.map(Taken::Known).map_err(|conflict| AcceptError::Reused(Box::new(conflict))))
        }
        None if level == Level::Degraded => Ok(Err(AcceptError::Degraded)),
        None => Ok(Err(AcceptError::Full)),
    }
}

/// What was asked for, where something else was put into the row.
fn asked(transaction: &Transaction<'_>, no: i64) -> rusqlite::Result<Option<[u8; 32]>> {
    let payload = rows::payload(transaction, no)?;
    let payload = payload.and_then(|payload| serde_json::from_slice::<Payload>(&payload).ok());
    Ok(payload.and_then(|payload| payload.asked).and_then(|asked| unhex_array(&asked)))
}

/// The row is made: it takes its place. What the link asks of the writer comes after this.
fn queued(inner: &Inner, queue: &mut Queue, no: i64, fresh: Fresh) -> Taken {
    let Fresh { client_message_id, fingerprint, lane, payload, now, expires_at } = fresh;
    let size = payload.len();
    let entry = Entry { no, enqueued_at: now, expires_at, attempts: 0, bytes: u32::try_from(size).unwrap_or(u32::MAX) };
    let lane = queue.put(lane, entry);
    queue.unsettled(no);
    if inner.accepted.fetch_add(1, Ordering::Relaxed) % MEASURE_EVERY == MEASURE_EVERY - 1 {
        inner.weigh();
    } else {
        inner.count(size as u64 + ROW_BYTES);
    }
    inner.tell_level(queue.rows());
    let accepted = Accepted {
        id: RowId::new(now, no).text(),
        client_message_id: client_message_id.clone(),
        status: Status::Pending,
        broker_message_id: None,
        duplicate: false,
    };
    Taken::Row { no, lane, accepted, content: Content { client_message_id, fingerprint, payload, origin: None } }
}

impl Taken {
    /// It is on disk: the link may look for it, and need not ask the database what it says.
    fn settle(self, inner: &Inner) -> Accepted {
        match self {
            Self::Known(accepted) => accepted,
            Self::Row { no, lane, accepted, content } => {
                inner.queue.lock().settled(&lane, no, content);
                inner.woken.notify_one();
                accepted
            }
        }
    }
}

/// What a request gets whose id has a row already.
fn decide(row: &OutboxRow, same: bool) -> Result<Accepted, Conflict> {
    match (row.status, same) {
        (Status::Pending | Status::Inflight | Status::Done, true) => Ok(Accepted {
            id: row.id.clone(),
            client_message_id: row.client_message_id.clone(),
            status: row.status,
            broker_message_id: row.broker_message_id.clone(),
            duplicate: true,
        }),
        (Status::Dead | Status::Aborted, _) | (_, false) => Err(Conflict {
            status: row.status,
            same,
            fingerprint_prefix: hex(&row.fingerprint[..8]),
            broker_message_id: row.broker_message_id.clone(),
            reason: reason(row),
        }),
    }
}

fn reason(row: &OutboxRow) -> Option<String> {
    match row.status {
        Status::Dead => row.last_error_code.clone().or_else(|| row.last_error.clone()),
        Status::Aborted => row.superseded_by.as_ref().map(|by| format!("superseded by {by}")),
        Status::Pending | Status::Inflight | Status::Done => None,
    }
}

/// A disk without room is the same to the caller as an outbox without room.
fn refused(error: StoreError) -> AcceptError {
    match error {
        error if disk::says_disk_full(&error) => AcceptError::Full,
        other => AcceptError::Store(other),
    }
}
