//! Messages that stay on this host: between sessions of the member, from the member to its sessions and back.
//!
//! Invariant: they go the way of all others, accepted into the outbox and kept in its order. What settles such a row is
//! that it is in the inbox and on the disk; until then it is owed, whatever is killed in between, and the inbox knows it
//! if it comes twice. No broker is needed for it, and none learns of it: the broker hands nobody their own messages.

use std::sync::Arc;
use std::time::Duration;

use hostel_store::StoreError;
use hostel_wire::frames::Kind;
use serde_json::json;

use super::core::Core;
use crate::inbox::{Arrival, Content, Plain, Stored};
use crate::outbox::{AckedRow, DestKind, Lane, Row, RowKey};

/// Rows that are handed over together, and their bytes.
const ROWS: usize = 256;
const BYTES: usize = 1024 * 1024;

/// Without a sign the outbox is looked at after this long all the same.
const LOOK: Duration = Duration::from_secs(30);

/// After a start, and after something failed: what was under way at a crash waits a moment before it is due.
const SOON: Duration = Duration::from_secs(1);

/// Whether what goes along a lane stays here.
pub(crate) fn stays(core: &Core, lane: &Lane) -> bool {
    lane.dest_kind == DestKind::Dm && member_of(&lane.dest_ref) == core.me.member_id
}

/// The member of a direct message's destination.
fn member_of(reference: &str) -> &str {
    reference.split_once('/').map_or(reference, |(member, _)| member)
}

/// Hands over what stays here, as it comes.
pub(super) async fn deliver(core: &Arc<Core>) {
    let mut wait = SOON;
    loop {
        match round(core).await {
            Ok(true) => continue,
            Ok(false) => {
                tokio::select! {
                    () = core.siblings.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                wait = LOOK;
            }
            Err(error) => {
                core.log.error("siblings_failed", json!({"error": error.to_string()}));
                tokio::time::sleep(SOON).await;
            }
        }
    }
}

/// Hands over some; whether there were any.
async fn round(core: &Arc<Core>) -> Result<bool, StoreError> {
    let ours = {
        let core = Arc::clone(core);
        move |lane: &Lane| stays(&core, lane)
    };
    let claimed = core.outbox.claim(ROWS, BYTES, ours).await?;
    core.report_dead(claimed.dead).await;
    if claimed.rows.is_empty() {
        return Ok(false);
    }
    let keys: Vec<RowKey> = claimed.rows.iter().map(|row| row.key).collect();
    let arrivals = claimed.rows.iter().map(|row| arrival(core, row)).collect();
    let stored = match put(core, arrivals).await {
        Ok(stored) => stored,
        Err(error) => {
            core.outbox.release(keys).await?;
            return Err(error);
        }
    };
    for one in &stored {
        match one {
            Stored::New(row) => core.count_received(row),
            Stored::Duplicate => core.metrics.deduped("in", 1),
        }
    }
    core.metrics.sent("dm", "done", stored.len() as u64);
    let settled = |row: Row| AckedRow { key: row.key, broker_message_id: row.id, epoch: String::new(), seq: None };
    core.outbox.acked(claimed.rows.into_iter().map(settled).collect()).await?;
    Ok(true)
}

/// Stores them so that they are still there when the power goes: nobody would send them again.
async fn put(core: &Core, arrivals: Vec<Arrival>) -> Result<Vec<Stored>, StoreError> {
    let stored = core.inbox.store(arrivals, Vec::new(), None).await?;
    core.inbox.sync().await?;
    Ok(stored)
}

fn arrival(core: &Core, row: &Row) -> Arrival {
    let (me, own_key) = (&core.me, core.pubkey());
    let name = core.display_name();
    let sender = row.lane.sender_session.as_deref();
    let running = sender.and_then(|id| core.sessions.by_id(id));
    let key = running.as_ref().filter(|session| session.entry.presence).map(|session| session.pubkey.clone());
    let payload = &row.payload;
    let own = name.to_lowercase();
    Arrival {
        // It may be here already, from the member that accepted it.
        sender_member_id: row.origin.as_ref().unwrap_or(&me.member_id).clone(),
        client_message_id: row.client_message_id.clone(),
        origin: None,
        // Always the same, however often it is handed over.
        broker_message_id: row.id.clone(),
        broker_seq: 0,
        kind: Kind::Dm,
        topic: None,
        sender_member_pubkey: key.is_some().then(|| own_key.clone()),
        sender_pubkey: key.unwrap_or_else(|| own_key.clone()),
        // The address of who sent it: all of them have the member's name.
        sender_name: match (&running, sender) {
            (Some(session), _) => format!("{name}/{}", session.entry.name),
            (None, Some(id)) => format!("{name}/{id}"),
            (None, None) => name,
        },
        priority: row.lane.priority,
        created_at: Some(row.enqueued_at),
        recipient_pubkey: Some(own_key),
        recipient_session: None,
        content: Content::Open(Plain {
            body: payload.body.clone(),
            meta: payload.meta.clone(),
            reply_to_id: payload.reply_to.clone(),
            mention: payload.mentions.contains(&own),
            mentions: payload.mentions.clone(),
            session: payload.session.as_ref().map(|word| core.sessions.mailbox(word)),
            // It never left this daemon, which knows by their tokens who its sessions are.
            verified: true,
            ..Plain::default()
        }),
    }
}
