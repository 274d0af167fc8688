//! How entries of the log get into the inbox: many in one transaction, together with the place they bring us to, and
//! only then one acknowledgement for all of them.
//!
//! Invariant: what is acknowledged is stored. The place moves only by entries that came in their turn, so nothing below
//! it was skipped; urgent ones that came ahead are kept beside it. What is wrong is counted, dropped, and passed: it
//! would only come again. What is there already is acknowledged all the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::frames::Kind;
use hostel_wire::frames::client::{ClientAck, ClientFrame, EntryMark};
use hostel_wire::frames::server::Push;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::calls::Line;
use super::{End, Role, news, open};
use crate::events::NewEvent;
use crate::inbox::{Arrival, Content, Cursor, Stored, Unreadable};
use crate::mesh::core::Core;
use crate::shared;
use crate::topics::Ask;

/// Entries that are stored together: half of what a broker sends before it waits, so that one half is opened while the
/// other is stored.
const BATCH: usize = 128;

/// We say which part of what we have stored would survive a power cut.
pub(super) const ACK_SYNCED: &str = "ack_synced";

/// How often the inbox is synced while something comes: the broker keeps what a power cut could take back.
const SYNC_EVERY: Duration = Duration::from_secs(2);

/// Places above the cursor that are kept.
const MOST_ABOVE: usize = 4096;

/// Entries that are opened and not stored yet.
#[derive(Default)]
struct Opened {
    /// How many entries it is, whatever became of them.
    entries: usize,
    arrivals: Vec<Arrival>,
    events: Vec<NewEvent>,
    ahead: Vec<u64>,
    revoked: Option<End>,
}

/// Entries that are being stored; says what to answer, or why that is the end. On a task of its own, so that what was
/// begun is done to its end, and told to who listens, also when the connection goes meanwhile.
type Storing = JoinHandle<Result<Option<ClientAck>, End>>;

/// Receives until the connection ends. What comes while something is stored is opened meanwhile.
pub(super) async fn receive(
    core: &Arc<Core>,
    role: &Role,
    line: &Line,
    mut cursor: Cursor,
    mut pushes: mpsc::Receiver<Push>,
) -> End {
    let mut batch = Vec::with_capacity(BATCH);
    let mut stored = cursor.clone();
    let mut opened = Opened::default();
    let mut storing: Option<Storing> = None;
    // What an earlier connection has stored may not be synced either.
    let mut sync_due = role.is_member().then(|| Instant::now() + SYNC_EVERY);
    loop {
        tokio::select! {
            biased;
            done = either(&mut storing), if storing.is_some() => {
                storing = None;
                let told = match done {
                    Ok(Some(ack)) => line.tell(ClientFrame::ClientAck(ack).encode()).await.is_ok(),
                    Ok(None) => true,
                    Err(end) => return end,
                };
                if !told {
                    return End::lost("closed", "the connection has ended");
                }
            }
            count = pushes.recv_many(&mut batch, BATCH - opened.entries), if opened.entries < BATCH => {
                if count == 0 {
                    return End::lost("closed", "the connection has ended");
                }
                shared::await_keys(core, &batch).await;
                open_all(core, role.is_member(), &mut cursor, &mut batch, &mut opened);
            }
            () = sleep_until(sync_due), if storing.is_none() && opened.entries == 0 => {
                // Everything up to the place is stored, for nothing is on its way.
                sync_due = None;
                if stored.seq > 0 {
                    if let Err(error) = core.inbox.sync().await {
                        return End::lost("storage", error);
                    }
                    let ack = ClientAck { synced: Some(stored.seq), ..ClientAck::default() };
                    if line.tell(ClientFrame::ClientAck(ack).encode()).await.is_err() {
                        return End::lost("closed", "the connection has ended");
                    }
                }
            }
        }
        if storing.is_none() && opened.entries > 0 {
            let moved = cursor != stored;
            stored = cursor.clone();
            if moved && role.is_member() {
                sync_due.get_or_insert_with(|| Instant::now() + SYNC_EVERY);
            }
            // The next connection begins where this one has stored: it waits for that.
            let turn = Arc::clone(&core.storing).lock_owned().await;
            let opened = std::mem::take(&mut opened);
            let stores = store(Arc::clone(core), role.is_member(), opened, cursor.clone(), moved);
            storing = Some(hostel_tasks::spawn(async move {
                let stored = stores.await;
                drop(turn);
                stored
            }));
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn either(storing: &mut Option<Storing>) -> Result<Option<ClientAck>, End> {
    match storing {
        Some(storing) => storing.await.unwrap_or_else(|error| Err(End::lost("error", error))),
        None => std::future::pending().await,
    }
}

/// Opens entries, and moves past them.
fn open_all(core: &Arc<Core>, is_member: bool, cursor: &mut Cursor, batch: &mut Vec<Push>, opened: &mut Opened) {
    opened.entries += batch.len();
    for push in batch.drain(..) {
        if push.subtype.as_deref() == Some("system") {
            match push.event.as_deref() {
                Some("caught_up") => {}
                _ => match news::take(core, &push) {
                    Ok(told) => opened.events.extend(told),
                    Err(end) => opened.revoked = Some(end),
                },
            }
        } else if matches!(push.kind, Some(Kind::State | Kind::Task)) {
            // One's own as well: the log is where changes have their order. What came before is not told again.
            if push.seq > cursor.seq {
                match shared::event(core, &push) {
                    Ok(event) => opened.events.extend(event),
                    Err(reason) => invalid(core, reason, &push),
                }
            }
        } else if push.sender_member_id != core.me.member_id {
            // Whatever lies before the place is stored, and only the member's connection has one.
            let in_order = is_member && push.seq > cursor.seq;
            match open::arrival(core, &push, in_order) {
                Ok(arrival) => opened.arrivals.push(count(core, arrival)),
                Err(reason) => invalid(core, reason, &push),
            }
        }
        pass(cursor, &push, &mut opened.ahead);
    }
}

fn invalid(core: &Core, reason: &'static str, push: &Push) {
    core.metrics.invalid(reason);
    core.log.debug("invalid_inbound", json!({"reason": reason, "seq": push.seq}));
}

/// Stores entries together with the place they bring us to.
async fn store(
    core: Arc<Core>,
    is_member: bool,
    opened: Opened,
    cursor: Cursor,
    moved: bool,
) -> Result<Option<ClientAck>, End> {
    let Opened { arrivals, events, ahead, revoked, .. } = opened;
    let seq = Some(cursor.seq).filter(|seq| *seq > 0);
    if !arrivals.is_empty() || !events.is_empty() || moved {
        let place = (is_member && moved).then_some(cursor);
        let closed: BTreeSet<Ask> = arrivals.iter().filter_map(key_asked_for).collect();
        let stored = core.inbox.store(arrivals, events, place).await;
        let stored = stored.map_err(|error| End::lost("storage", format!("inbox: {error}")))?;
        for one in &stored {
            match one {
                Stored::New(row) => core.count_received(row),
                Stored::Duplicate => core.metrics.deduped("in", 1),
            }
        }
        // Only now: a key that came between opening and storing opens nothing, for nothing was waiting for it yet.
        closed.into_iter().for_each(|ask| core.topics.ask(ask));
    }
    if let Some(end) = revoked {
        return Err(end);
    }
    // Also when nothing moved: the broker waits for an answer to what it sent twice.
    let owed = seq.is_some() || !ahead.is_empty();
    Ok(owed.then(|| ClientAck { seq, above: ahead, ..ClientAck::default() }))
}

/// The key that something waits for.
fn key_asked_for(arrival: &Arrival) -> Option<Ask> {
    match &arrival.content {
        Content::KeyPending(sealed) => Some(Ask::Read(sealed.topic_id.clone(), sealed.key_epoch)),
        Content::Open(_) | Content::Unreadable(_) => None,
    }
}

/// Moves past an entry.
fn pass(cursor: &mut Cursor, push: &Push, ahead: &mut Vec<u64>) {
    if push.seq == 0 {
        return;
    }
    if push.ahead {
        ahead.push(push.seq);
        if push.seq > cursor.seq
            && cursor.above.len() < MOST_ABOVE
            && let Err(place) = cursor.above.binary_search(&push.seq)
        {
            cursor.above.insert(place, push.seq);
        }
        return;
    }
    // Marks of the broker's, as `caught_up`, are no entries and have no id.
    if push.seq > cursor.seq && !push.message_id.is_empty() {
        cursor.last_entry = Some(EntryMark { seq: push.seq, id: push.message_id.clone() });
    }
    cursor.seq = cursor.seq.max(push.seq);
    let seq = cursor.seq;
    cursor.above.retain(|above| *above > seq);
}

fn count(core: &Core, arrival: Arrival) -> Arrival {
    match &arrival.content {
        Content::Unreadable(why) => {
            open::count(core, *why);
            if *why == Unreadable::Failed {
                core.metrics.decrypt_stale();
            }
        }
        Content::Open(_) | Content::KeyPending(_) => {}
    }
    arrival
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(seq: u64, ahead: bool) -> Push {
        Push { seq, ahead, ..Push::default() }
    }

    #[test]
    fn the_place_moves_by_entries_in_their_turn_alone() {
        let mut cursor = Cursor { epoch: "e".into(), seq: 10, ..Cursor::default() };
        let mut ahead = Vec::new();
        for (seq, early) in [(50, true), (80, true), (50, true), (11, false)] {
            pass(&mut cursor, &push(seq, early), &mut ahead);
        }
        assert_eq!((cursor.seq, cursor.above.as_slice()), (11, &[50, 80][..]));
        assert_eq!(ahead, [50, 80, 50]);
        pass(&mut cursor, &push(60, false), &mut ahead);
        assert_eq!((cursor.seq, cursor.above.as_slice()), (60, &[80][..]));
        pass(&mut cursor, &push(40, false), &mut ahead);
        pass(&mut cursor, &push(0, false), &mut ahead);
        assert_eq!(cursor.seq, 60, "never back");
    }
}
