//! The way out: rows are claimed, and settled, tried later, given up or released.
//!
//! Invariant: what is handed out is on disk, and nobody else gets it meanwhile. That it is under way is in the database
//! before it is handed out, or, for what was accepted a moment ago, soon after: until then a crash leaves it waiting, and
//! the broker recognises what it has. What is heard about an earlier claim of a row changes nothing, except that the
//! broker has it: that is true whenever it was said.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hostel_store::StoreError;
use hostel_syncpoint::points;
use rusqlite::Transaction;

use super::age::{backoff, chance};
use super::queue::{Entry, LONGEST_WAIT_MS, Queue};
use super::rows::{self, Content, Open};
use super::types::{AckedRow, Claimed, DeadRow, Lane, Payload, RefusedRow, RetryRow, Row, RowKey};
use super::{Inner, Outbox};
use crate::schema::{RowId, signed};

/// What was under way at a crash is tried again after this.
const AFTER_CRASH_MS: u64 = 500;

/// Bytes that are kept of an error's text.
const MOST_ERROR: usize = 500;

/// The code of a row that is too old.
const EXPIRED: &str = "expired";

/// The code of a row whose lane is held up by an earlier one.
const LANE_BLOCKED: &str = "lane_blocked";

impl Outbox {
    /// Claims what is to be sent next, in order: urgent rows first, then older ones, within the bounds (but at least one
    /// row). Lanes that `allow` refuses are passed over.
    pub async fn claim(
        &self,
        max_rows: usize,
        max_bytes: usize,
        allow: impl Fn(&Lane) -> bool + Send + 'static,
    ) -> Result<Claimed, StoreError> {
        self.claim_as(0, max_rows, max_bytes, allow).await
    }

    /// The same for one of several who claim: lanes of which another has something under way are passed over as well.
    pub async fn claim_as(
        &self,
        by: u64,
        max_rows: usize,
        max_bytes: usize,
        allow: impl Fn(&Lane) -> bool + Send + 'static,
    ) -> Result<Claimed, StoreError> {
        let bounds = Bounds { by, max_rows, max_bytes };
        match self.at_hand(&bounds, &allow) {
            AtHand::Nothing => return Ok(Claimed::default()),
            AtHand::Rows(raw) => return self.read(raw, Vec::new()).await,
            AtHand::Elsewhere => {}
        }
        let holder = Arc::new(());
        let held = Arc::downgrade(&holder);
        let claim = self.change(points::OUTBOX_CLAIMED, move |transaction, queue, inner| {
            if held.strong_count() == 0 {
                return Ok(Default::default());
            }
            let (rows, dead) = take(transaction, queue, inner, &bounds, allow)?;
            let keys = rows.iter().map(|raw| raw.key).collect();
            inner.handing.lock().push(Handing { holder: held, keys });
            Ok((rows, dead))
        });
        let (raw, dead) = claim.await?;
        let claimed = self.read(raw, dead).await?;
        self.inner.handing.lock().retain(|handing| !std::ptr::eq(handing.holder.as_ptr(), &raw const *holder));
        Ok(claimed)
    }

    /// Claims what is next, if all of it is at hand, without asking the database. That it is under way is written down
    /// with whatever is written next, so that a message need not wait for the disk once more before it leaves.
    fn at_hand(&self, bounds: &Bounds, allow: impl Fn(&Lane) -> bool) -> AtHand {
        let inner = &self.inner;
        let (now, judged, most_age) = (inner.clock.now_ms(), inner.ages.now_ms(), inner.most_age());
        let mut queue = inner.queue.lock();
        if inner.unsure.load(Ordering::Relaxed) || !inner.handing.lock().is_empty() {
            return AtHand::Elsewhere;
        }
        let (mut claimed, mut bytes, mut after): (Vec<Raw>, _, _) = (Vec::new(), 0_usize, None);
        while claimed.len() < bounds.max_rows {
            // Most of the time there is nothing, and the writer need not hear of it.
            let Some((lane, entry)) = queue.ready(bounds.by, &mut after, now, &allow) else { break };
            let size = entry.bytes as usize;
            if !claimed.is_empty() && bytes.saturating_add(size) > bounds.max_bytes {
                break;
            }
            // What is not on disk yet comes later than what is, and there will be a sign.
            if queue.is_unsettled(entry.no) {
                break;
            }
            let content = if is_over(&entry, judged, most_age) { None } else { queue.at_hand(entry.no) };
            let Some(content) = content else {
                for raw in claimed.into_iter().rev() {
                    queue.back(raw.key.no, raw.entry.attempts, None);
                    queue.keep(raw.key.no, raw.content);
                }
                return AtHand::Elsewhere;
            };
            queue.take(&lane, entry.no);
            bytes += size;
            let key = RowKey { no: entry.no, claim: queue.fly(bounds.by, &lane, entry, true) };
            claimed.push(Raw { key, entry, lane, content });
        }
        drop(queue);
        if claimed.is_empty() {
            return AtHand::Nothing;
        }
        let (keys, inner): (Vec<RowKey>, _) = (claimed.iter().map(|raw| raw.key).collect(), Arc::clone(inner));
        // A full line is no harm: what becomes of the rows is written all the same.
        self.store.try_submit_patiently(points::OUTBOX_CLAIMED, move |transaction| {
            let queue = inner.queue.lock();
            let mut flying = keys.iter().filter(|key| queue.flies(key.no, key.claim));
            flying.try_for_each(|key| rows::under_way(transaction, key.no))
        });
        AtHand::Rows(claimed)
    }

    /// Reads claimed rows, here and not on the writer, for whom others wait.
    async fn read(&self, raw: Vec<Raw>, dead: Vec<DeadRow>) -> Result<Claimed, StoreError> {
        let (mut claimed, mut unreadable) = (Claimed { rows: Vec::with_capacity(raw.len()), dead }, Vec::new());
        for raw in raw {
            match raw.read() {
                Ok(row) => claimed.rows.push(row),
                Err(refused) => unreadable.push(refused),
            }
        }
        claimed.dead.extend(self.refused(unreadable).await?);
        Ok(claimed)
    }

    /// The broker has these.
    pub async fn acked(&self, acked: Vec<AckedRow>) -> Result<(), StoreError> {
        if acked.is_empty() {
            return Ok(());
        }
        self.change(points::OUTBOX_ACKED, move |transaction, queue, inner| {
            let now = inner.clock.now_ms();
            let mut furthest: HashMap<&str, (u64, &str)> = HashMap::new();
            for row in &acked {
                rows::done(transaction, row.key.no, now, &row.broker_message_id, &row.epoch, row.seq)?;
                queue.settle(row.key.no);
                if let Some(seq) = row.seq {
                    let known = furthest.entry(&row.epoch).or_default();
                    *known = (*known).max((seq, &row.broker_message_id));
                }
            }
            if queue.has_turned_away() {
                inner.woken.notify_one();
            }
            furthest.into_iter().try_for_each(|(epoch, (seq, id))| rows::confirm(transaction, epoch, seq, id))
        })
        .await
    }

    /// The broker will not have these yet. Each waits for its next try, and with it, in order, what is under way behind
    /// it in its lane.
    pub async fn retry(&self, refused: Vec<RetryRow>) -> Result<(), StoreError> {
        if refused.is_empty() {
            return Ok(());
        }
        self.change(points::OUTBOX_RETRIED, move |transaction, queue, inner| {
            for row in &refused {
                if queue.flies(row.key.no, row.key.claim) {
                    retry(transaction, queue, inner, row)?;
                }
            }
            inner.woken.notify_one();
            Ok(())
        })
        .await
    }

    /// The broker will never have these.
    pub async fn refused(&self, refused: Vec<RefusedRow>) -> Result<Vec<DeadRow>, StoreError> {
        if refused.is_empty() {
            return Ok(Vec::new());
        }
        self.change(points::OUTBOX_GIVEN_UP, move |transaction, queue, inner| {
            let mut dead = Vec::new();
            for row in refused {
                if queue.flies(row.key.no, row.key.claim) {
                    dead.extend(give_up(transaction, queue, inner, row.key.no, &row.code, &row.error)?);
                }
            }
            inner.woken.notify_one();
            Ok(dead)
        })
        .await
    }

    /// The connection these were sent on is lost: they wait again, each in its old place. That costs them nothing.
    pub async fn release(&self, keys: Vec<RowKey>) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.change(points::OUTBOX_RELEASED, move |transaction, queue, inner| {
            release_claims(transaction, queue, inner, &keys)
        })
        .await
    }

    /// As `release`, for everything that is under way.
    pub async fn release_all(&self) -> Result<(), StoreError> {
        self.change(points::OUTBOX_RELEASED, |transaction, queue, inner| {
            let flying = queue.flying();
            release(transaction, queue, inner, &flying)
        })
        .await
    }
}

/// Rows that are on their way to who has claimed them. Should that one leave before it has them, they wait again, and
/// nobody gets what is behind them before that.
pub(super) struct Handing {
    holder: Weak<()>,
    keys: Vec<RowKey>,
}

/// Takes back what was claimed for somebody who has left.
pub(super) fn take_back(transaction: &Transaction<'_>, queue: &mut Queue, inner: &Inner) -> rusqlite::Result<()> {
    let lost: Vec<RowKey> = {
        let mut handing = inner.handing.lock();
        let lost = handing.extract_if(.., |handing| handing.holder.strong_count() == 0);
        lost.flat_map(|handing| handing.keys).collect()
    };
    if lost.is_empty() { Ok(()) } else { release_claims(transaction, queue, inner, &lost) }
}

/// What can be claimed without asking the database.
enum AtHand {
    /// There is nothing to claim.
    Nothing,
    /// These are claimed.
    Rows(Vec<Raw>),
    /// The database must be asked.
    Elsewhere,
}

/// Whether a row is too old to be sent. Rows keep the end they were given; a broker that turned out to forget sooner
/// brings it nearer.
fn is_over(entry: &Entry, now: u64, most_age: u64) -> bool {
    entry.expires_at.min(entry.enqueued_at.saturating_add(most_age)) <= now
}

struct Bounds {
    by: u64,
    max_rows: usize,
    max_bytes: usize,
}

/// A claimed row as the database has it.
struct Raw {
    key: RowKey,
    entry: Entry,
    lane: Arc<Lane>,
    content: Content,
}

impl Raw {
    fn read(self) -> Result<Row, RefusedRow> {
        let Self { key, entry, lane, content } = self;
        let payload: Payload = serde_json::from_slice(&content.payload).map_err(|error| RefusedRow {
            key,
            code: "invalid".to_owned(),
            error: format!("it cannot be read any more: {error}"),
        })?;
        Ok(Row {
            key,
            id: RowId::new(entry.enqueued_at, entry.no).text(),
            client_message_id: content.client_message_id,
            fingerprint: content.fingerprint,
            origin: content.origin,
            lane: Lane::clone(&lane),
            payload,
            attempts: entry.attempts,
            enqueued_at: entry.enqueued_at,
        })
    }
}

fn take(
    transaction: &Transaction<'_>,
    queue: &mut Queue,
    inner: &Inner,
    bounds: &Bounds,
    allow: impl Fn(&Lane) -> bool,
) -> rusqlite::Result<(Vec<Raw>, Vec<DeadRow>)> {
    let (now, judged) = (inner.clock.now_ms(), inner.ages.now_ms());
    let most_age = inner.most_age();
    let (mut claimed, mut dead) = (Vec::new(), Vec::new());
    let (mut bytes, mut after) = (0_usize, None);
    while claimed.len() < bounds.max_rows {
        let Some((lane, entry)) = queue.ready(bounds.by, &mut after, now, &allow) else { break };
        let size = entry.bytes as usize;
        if !claimed.is_empty() && bytes.saturating_add(size) > bounds.max_bytes {
            break;
        }
        queue.take(&lane, entry.no);
        if is_over(&entry, judged, most_age) {
            dead.extend(give_up(transaction, queue, inner, entry.no, EXPIRED, "it became too old to be sent")?);
            continue;
        }
        let Some(content) = rows::claim(transaction, entry.no)? else { continue };
        bytes += size;
        let key = RowKey { no: entry.no, claim: queue.fly(bounds.by, &lane, entry, false) };
        claimed.push(Raw { key, entry, lane, content });
    }
    Ok((claimed, dead))
}

fn retry(transaction: &Transaction<'_>, queue: &mut Queue, inner: &Inner, row: &RetryRow) -> rusqlite::Result<()> {
    let no = row.key.no;
    for later in queue.later(no).into_iter().rev() {
        rows::wait_again(transaction, later)?;
        let attempts = queue.flight(later).map_or(0, |entry| entry.attempts);
        queue.back(later, attempts, None);
    }
    let attempts = queue.flight(no).map_or(0, |entry| entry.attempts);
    if row.code == LANE_BLOCKED && queue.is_behind(no) {
        // It was refused only because of one before it, which speaks for both.
        rows::wait_again(transaction, no)?;
        queue.back(no, attempts, None);
        return Ok(());
    }
    let attempts = attempts.saturating_add(1);
    let wait = backoff(attempts, chance(inner.seed, no, attempts));
    let wait = wait.max(row.retry_after_ms.unwrap_or(0)).min(LONGEST_WAIT_MS);
    let next = inner.clock.now_ms().saturating_add(wait);
    rows::try_later(transaction, no, attempts, next, &row.code, cut(&row.error))?;
    queue.back(no, attempts, Some(next));
    Ok(())
}

fn give_up(
    transaction: &Transaction<'_>,
    queue: &mut Queue,
    inner: &Inner,
    no: i64,
    code: &str,
    error: &str,
) -> rusqlite::Result<Option<DeadRow>> {
    let error = cut(error);
    let Some(row) = rows::give_up(transaction, no, code, error)? else { return Ok(None) };
    queue.settle(no);
    inner.dead.fetch_add(1, Ordering::Relaxed);
    let is_file = serde_json::from_slice::<Payload>(&row.payload).is_ok_and(|payload| payload.file_id.is_some());
    Ok(Some(DeadRow {
        id: RowId::new(row.enqueued_at, no).text(),
        client_message_id: row.client_message_id,
        dest_kind: row.dest_kind,
        is_file,
        code: code.to_owned(),
        error: error.to_owned(),
    }))
}

/// Claims that are not the last of their row are passed over.
fn release_claims(
    transaction: &Transaction<'_>,
    queue: &mut Queue,
    inner: &Inner,
    keys: &[RowKey],
) -> rusqlite::Result<()> {
    let mut flying: Vec<i64> = keys.iter().filter(|key| queue.flies(key.no, key.claim)).map(|key| key.no).collect();
    // Latest first: that is the order in which they find their old places fastest.
    flying.sort_unstable_by(|a, b| b.cmp(a));
    release(transaction, queue, inner, &flying)
}

fn release(transaction: &Transaction<'_>, queue: &mut Queue, inner: &Inner, flying: &[i64]) -> rusqlite::Result<()> {
    for no in flying {
        rows::wait_again(transaction, *no)?;
        let attempts = queue.flight(*no).map_or(0, |entry| entry.attempts);
        queue.back(*no, attempts, None);
    }
    inner.woken.notify_one();
    Ok(())
}

/// Rows that wait and have become too old; for who has no connection to claim them for.
pub(super) fn expire(
    transaction: &Transaction<'_>,
    queue: &mut Queue,
    inner: &Inner,
) -> rusqlite::Result<Vec<DeadRow>> {
    let now = inner.ages.now_ms();
    let late: Vec<i64> = transaction
        .prepare_cached(
            "SELECT no FROM outbox WHERE owed IS NOT NULL AND status = 'pending' AND expires_at <= ?
             ORDER BY expires_at LIMIT 1000",
        )?
        .query_map([signed(now)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut dead = Vec::new();
    // One that is on its way may get there.
    for no in late.into_iter().filter(|no| queue.flight(*no).is_none()).collect::<Vec<_>>() {
        dead.extend(give_up(transaction, queue, inner, no, EXPIRED, "it became too old to be sent")?);
    }
    Ok(dead)
}

/// The start: what was under way waits again, and that counts as an attempt; everything that waits takes its place.
pub(super) fn recover(transaction: &Transaction<'_>, queue: &mut Queue, now: u64) -> rusqlite::Result<()> {
    transaction.execute(
        "UPDATE outbox SET status = 'pending', attempts = attempts + 1, next_attempt_at = ?,
         last_error_code = 'interrupted', last_error = 'the daemon ended while it was under way'
         WHERE owed IS NOT NULL AND status = 'inflight'",
        [signed(now + AFTER_CRASH_MS)],
    )?;
    queue.numbers_from(rows::number(transaction, "SELECT coalesce(max(no), 0) FROM outbox")?);
    for Open { entry, lane, next_attempt_at, .. } in rows::open_rows(transaction)? {
        queue.put(lane.clone(), entry);
        queue.hold(&lane, entry.no, next_attempt_at);
    }
    Ok(())
}

/// Reads the queue again. What the database and the old queue agree to be under way stays so, and what the database has
/// not heard of yet.
pub(super) fn reload(transaction: &Transaction<'_>, queue: &mut Queue) -> rusqlite::Result<()> {
    let claims = queue.clear();
    for Open { entry, lane, inflight, next_attempt_at } in rows::open_rows(transaction)? {
        match claims.get(&entry.no).filter(|claim| inflight || claim.ahead) {
            Some(claim) => queue.fly_again(lane, entry, *claim),
            None => {
                if inflight {
                    rows::wait_again(transaction, entry.no)?;
                }
                queue.put(lane.clone(), entry);
                queue.hold(&lane, entry.no, next_attempt_at);
            }
        }
    }
    Ok(())
}

/// The beginning of an error's text.
fn cut(text: &str) -> &str {
    let end = (0..=MOST_ERROR.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
