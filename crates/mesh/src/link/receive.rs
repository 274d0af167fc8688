//! How entries of the log get into the inbox: many in one transaction, together with the place they bring us to, and
//! only then one acknowledgement for all of them.
//!
//! Invariant: what is acknowledged is stored. The place moves only by entries that came in their turn, so nothing below
//! it was skipped; urgent ones that came ahead are kept beside it. What is wrong is counted, dropped, and passed: it
//! would only come again. What is there already is acknowledged all the same.

use std::sync::Arc;

use hostel_wire::frames::client::{ClientAck, ClientFrame};
use hostel_wire::frames::server::Push;
use serde_json::json;
use tokio::sync::mpsc;

use super::calls::Line;
use super::{End, Role, news, open};
use crate::inbox::{Arrival, Content, Cursor, Stored, Unreadable};
use crate::mesh::core::Core;

/// Entries that are stored together.
const BATCH: usize = 256;

/// Places above the cursor that are kept.
const MOST_ABOVE: usize = 4096;

/// Receives until the connection ends.
pub(super) async fn receive(
    core: &Arc<Core>,
    role: &Role,
    line: &Line,
    mut cursor: Cursor,
    mut pushes: mpsc::Receiver<Push>,
) -> End {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        if pushes.recv_many(&mut batch, BATCH).await == 0 {
            return End::lost("closed", "the connection has ended");
        }
        if let Err(end) = take(core, role, line, &mut cursor, &mut batch).await {
            return end;
        }
    }
}

async fn take(
    core: &Arc<Core>,
    role: &Role,
    line: &Line,
    cursor: &mut Cursor,
    batch: &mut Vec<Push>,
) -> Result<(), End> {
    let (mut arrivals, mut events, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
    let mut revoked = None;
    let before = cursor.clone();
    for push in batch.drain(..) {
        if push.subtype.as_deref() == Some("system") {
            match push.event.as_deref() {
                Some("caught_up") => {}
                _ => match news::take(core, &push) {
                    Ok(told) => events.extend(told),
                    Err(end) => revoked = Some(end),
                },
            }
        } else if push.sender_member_id != core.me.member_id {
            match open::arrival(core, &push) {
                Ok(arrival) => arrivals.push(count(core, arrival)),
                Err(reason) => {
                    core.metrics.invalid(reason);
                    core.log.debug("invalid_inbound", json!({"reason": reason, "seq": push.seq}));
                }
            }
        }
        pass(cursor, &push, &mut ahead);
    }
    let moved = *cursor != before;
    if !arrivals.is_empty() || !events.is_empty() || moved {
        let place = (role.is_member() && moved).then(|| cursor.clone());
        let stored = core.inbox.store(arrivals, events, place).await;
        let stored = stored.map_err(|error| End::lost("storage", format!("inbox: {error}")))?;
        for one in &stored {
            match one {
                Stored::New(row) => core.count_received(row),
                Stored::Duplicate => core.metrics.deduped("in", 1),
            }
        }
    }
    if let Some(end) = revoked {
        return Err(end);
    }
    // Also when nothing moved: the broker waits for an answer to what it sent twice.
    let seq = Some(cursor.seq).filter(|seq| *seq > 0);
    if seq.is_some() || !ahead.is_empty() {
        let ack = ClientFrame::ClientAck(ClientAck { seq, above: ahead, ..ClientAck::default() });
        line.tell(ack.encode()).await.map_err(|_| End::lost("closed", "the connection has ended"))?;
    }
    Ok(())
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
    cursor.seq = cursor.seq.max(push.seq);
    let seq = cursor.seq;
    cursor.above.retain(|above| *above > seq);
}

fn count(core: &Core, arrival: Arrival) -> Arrival {
    match &arrival.content {
        Content::Unreadable(Unreadable::Failed) => {
            core.metrics.invalid("decrypt");
            core.metrics.decrypt_stale();
        }
        Content::Unreadable(Unreadable::Mismatch) => core.metrics.invalid("mismatch"),
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
        let mut cursor = Cursor { epoch: "e".into(), seq: 10, above: vec![] };
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
