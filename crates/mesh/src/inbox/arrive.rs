//! What comes in: rows, the place in the log and the events, in one transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hostel_store::StoreError;
use hostel_syncpoint::points;
use rusqlite::Transaction;

use super::rows::{self, TOGETHER, Texts, Trace};
use super::types::{Arrival, Content, Cursor, InboxRow, Stored};
use super::{Inbox, Inner, announced, audience};
use crate::authors;
use crate::disk;
use crate::events::{Batch, NewEvent, Told, append, append_messages, trim};

/// The limit is looked at after this part of it has come.
const LOOKS_PER_LIMIT: u64 = 64;

/// What a row takes besides its text.
const ROW_BYTES: u64 = 600;

impl Inbox {
    /// Stores what has come and how far the log is read with it, and tells of what is new; `events` are told as well.
    /// What came before is recognised. The answers are in the order of the arrivals.
    pub async fn store(
        &self,
        arrivals: Vec<Arrival>,
        events: Vec<NewEvent>,
        cursor: Option<Cursor>,
    ) -> Result<Vec<Stored>, StoreError> {
        let bytes = arrivals.iter().map(size).sum();
        let arrivals: Vec<(Arrival, Texts)> = arrivals.into_iter().map(ready).collect();
        let inner = Arc::clone(&self.inner);
        // What was learned from these messages about who wrote them is stored with them or not at all.
        let pins = self.inner.authors.take_changes();
        let learned: Vec<String> = pins.iter().map(|(id, _)| id.clone()).collect();
        let ticket = self.store.submit(points::INBOX_STORED, move |transaction| {
            authors::rows::store(transaction, &pins)?;
            let now = inner.arrives_ms();
            let mut batch = Batch::default();
            let stored = store(transaction, &inner, now, arrivals, &mut batch)?;
            tell(transaction, &inner, now, events, &mut batch)?;
            trim(transaction, batch.told.last().map_or(0, Told::n))?;
            if let Some(cursor) = &cursor {
                rows::set_cursor(transaction, cursor)?;
            }
            Ok((stored, batch))
        });
        let written = ticket.await.inspect_err(|_| self.inner.authors.give_back(learned))?;
        let stored = self.events().tell(written).await;
        let refused = stored.as_ref().err().is_some_and(disk::says_disk_full);
        self.inner.disk_refusal.note(refused, self.inner.clock.passing_ms());
        let stored = stored?;
        self.inner.count(bytes);
        let new = stored.iter().filter(|stored| matches!(stored, Stored::New(_))).count();
        self.inner.rows.fetch_add(new as u64, Ordering::Relaxed);
        self.inner.duplicates.fetch_add((stored.len() - new) as u64, Ordering::Relaxed);
        Ok(stored)
    }
}

impl Inner {
    /// So many bytes have come; after a part of the limit somebody looks whether it is exceeded.
    fn count(&self, bytes: u64) {
        let max_bytes = self.max_bytes.load(Ordering::Relaxed);
        let arrived = self.arrived_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if max_bytes > 0 && arrived >= (max_bytes / LOOKS_PER_LIMIT).max(1) {
            self.arrived_bytes.store(0, Ordering::Relaxed);
            self.crowded.notify_one();
        }
    }
}

/// About how many bytes an arrival takes.
fn size(arrival: &Arrival) -> u64 {
    let text = match &arrival.content {
        Content::Open(plain) => plain.body.len(),
        Content::KeyPending(sealed) => sealed.ciphertext.len(),
        Content::Unreadable(_) => 0,
    };
    text as u64 + ROW_BYTES
}

/// Writes texts out before the writer is asked.
fn ready(arrival: Arrival) -> (Arrival, Texts) {
    let texts = match &arrival.content {
        Content::Open(plain) => Texts::of(plain),
        Content::KeyPending(_) | Content::Unreadable(_) => Texts::default(),
    };
    (arrival, texts)
}

/// Stores arrivals, several with one statement where there are several.
fn store(
    transaction: &Transaction<'_>,
    inner: &Inner,
    now: u64,
    mut arrivals: Vec<(Arrival, Texts)>,
    batch: &mut Batch,
) -> rusqlite::Result<Vec<Stored>> {
    let mut stored = Vec::with_capacity(arrivals.len());
    for (arrival, _) in &mut arrivals {
        trace(transaction, inner, now, arrival)?;
    }
    let mut arrivals = arrivals.into_iter();
    loop {
        let left = arrivals.len();
        let Some(size) = TOGETHER.iter().position(|together| *together <= left) else { return Ok(stored) };
        let some: Vec<(Arrival, Texts)> = arrivals.by_ref().take(TOGETHER[size]).collect();
        let first = inner.last_no.load(Ordering::Relaxed) + 1;
        let made = rows::insert(transaction, &inner.mesh, first, now, size, &some)?;
        inner.last_no.store(first + some.len() as i64 - 1, Ordering::Relaxed);
        let mut made = made.into_iter().peekable();
        let mut new = Vec::new();
        for ((arrival, _), no) in some.into_iter().zip(first..) {
            if made.next_if_eq(&no).is_some() {
                let (row, beside) = show(inner, now, no, arrival);
                announced::note(transaction, &row)?;
                stored.push(Stored::New(Arc::clone(&row)));
                new.extend(beside.map(|beside| (no, row, beside)));
            } else {
                stored.push(Stored::Duplicate);
            }
        }
        announce(transaction, inner, now, new, batch)?;
    }
}

/// One that may come from either of two members, the first of which it is known by: a trace of it is left there. If one
/// is there, it has come, and is taken for that one's, which is recognised.
fn trace(transaction: &Transaction<'_>, inner: &Inner, now: u64, arrival: &mut Arrival) -> rusqlite::Result<()> {
    let Some(origin) = arrival.origin.take().filter(|origin| *origin != arrival.sender_member_id) else {
        return Ok(());
    };
    let no = inner.last_no.load(Ordering::Relaxed) + 1;
    match rows::trace(transaction, &inner.mesh, no, now, &origin, arrival)? {
        Trace::Made => inner.last_no.store(no, Ordering::Relaxed),
        Trace::OfThis => {}
        Trace::Known => arrival.sender_member_id = origin,
    }
    Ok(())
}

/// The row that was made, and the events beside its own; `None` for what cannot be read: it is listed with the reason,
/// and says nothing.
fn show(inner: &Inner, now: u64, no: i64, mut arrival: Arrival) -> (Arc<InboxRow>, Option<Vec<NewEvent>>) {
    let beside = match &mut arrival.content {
        Content::Open(plain) => Some(std::mem::take(&mut plain.events)),
        Content::KeyPending(_) | Content::Unreadable(_) => None,
    };
    (rows::shown(&inner.mesh, no, now, arrival), beside)
}

/// Appends the events of messages, by their rows, and those beside them.
pub(super) fn announce(
    transaction: &Transaction<'_>,
    inner: &Inner,
    now: u64,
    new: Vec<(i64, Arc<InboxRow>, Vec<NewEvent>)>,
    batch: &mut Batch,
) -> rusqlite::Result<()> {
    let rows = new.iter().map(|(no, row, _)| (*no, inner.is_history(row.broker_seq)));
    let numbers = append_messages(transaction, inner.hub.boot(), now, rows)?;
    let mut others = Vec::new();
    for ((_, row, beside), n) in new.into_iter().zip(numbers) {
        let session = audience(row.kind, row.recipient_session.as_deref());
        others.extend(beside.into_iter().map(|event| NewEvent { session: session.clone(), ..event }));
        batch.told.push(Told::Message { n, ts: now, row });
    }
    tell(transaction, inner, now, others, batch)
}

/// Appends events to the ring.
fn tell(
    transaction: &Transaction<'_>,
    inner: &Inner,
    now: u64,
    events: Vec<NewEvent>,
    batch: &mut Batch,
) -> rusqlite::Result<()> {
    for event in events {
        batch.told.push(Told::Event(append(transaction, inner.hub.boot(), now, event)?));
    }
    Ok(())
}
