//! What people decided about letters: agreed ones become prompts, the others stay in their mailboxes.
//!
//! Invariant: that a letter becomes a prompt, and that its request is done with, are one write, and only if the request is
//! approved on disk at that moment. A restart finds what was decided and not done. The prompt is made of what was shown.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hostel_syncpoint::points;
use rusqlite::Transaction;

use super::rows::{self, Settled, State};
use super::taking::boundary;
use super::{DOOR, MeshPolicy};
use crate::approvals::{self, Approval, Subject};
use crate::sessions::rows as tables;
use crate::sessions::session::Session;
use crate::sessions::types::Standing;
use crate::sessions::{Hub, detached, now_ns};
use crate::store::StoreError;

/// Letters that are looked at in one go.
const AT_ONCE: usize = 256;

/// How long until what there was no room for, or the disk refused, is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Acts on decisions as they come, for as long as the house is there.
pub(crate) async fn look_after(hub: Weak<Hub>) {
    let Some((mut decisions, mut changes, asked)) =
        hub.upgrade().map(|hub| (hub.approvals.changed(), hub.changed.subscribe(), Arc::clone(&hub.letter_asked)))
    else {
        return;
    };
    loop {
        decisions.borrow_and_update();
        changes.borrow_and_update();
        let Some(house) = hub.upgrade() else { return };
        let waits = match settle(&house).await {
            Ok(waits) => waits,
            Err(StoreError::Closed) => return,
            Err(_) => true,
        };
        drop(house);
        let told = tokio::select! {
            told = decisions.changed() => told,
            // A session may have been brought back.
            told = changes.changed() => told,
            () = asked.notified() => Ok(()),
            () = tokio::time::sleep(AGAIN), if waits => Ok(()),
        };
        if told.is_err() {
            return;
        }
    }
}

/// Acts on what was decided; says whether something has to wait.
async fn settle(hub: &Arc<Hub>) -> Result<bool, StoreError> {
    if !hub.letters_asked.swap(false, Ordering::AcqRel) {
        return Ok(false);
    }
    let looked = act(hub).await;
    // What waits for a decision, or could not be looked at, is looked at again.
    let left = hub.store.read(rows::is_asked).await;
    if looked.is_err() || left.unwrap_or(true) {
        hub.letters_asked.store(true, Ordering::Release);
    }
    looked
}

async fn act(hub: &Arc<Hub>) -> Result<bool, StoreError> {
    let found = hub.store.read(|connection| rows::settled(connection, AT_ONCE)).await?;
    let mut waits = found.len() == AT_ONCE;
    for settled in found {
        // What the house itself knows of it: the row may say what it likes.
        let known = match &settled.approval {
            Some(approval) => hub.approvals.authentic(approval).await?,
            None => None,
        };
        let approval = match known {
            Some(approval) if approval.state == approvals::State::Pending => continue,
            Some(approval) if approval.state == approvals::State::Approved && settled.approved => approval,
            _ => {
                decline(hub, settled.no).await?;
                continue;
            }
        };
        let session = settled.session.as_deref().and_then(|id| hub.get(id));
        // One that is closed at this moment is looked at again when it is back.
        let Some(session) = session else { continue };
        waits |= !detached(async move { session.take_decided(settled, approval).await }).await??;
    }
    Ok(waits)
}

async fn decline(hub: &Hub, no: i64) -> Result<(), StoreError> {
    hub.store
        .write(points::MAIL_DECLINED, move |transaction| rows::conclude(transaction, no, State::Declined, 0))
        .await
        .map(drop)
}

impl Session {
    /// Takes a letter that somebody agreed to; `false` if there is no room yet.
    async fn take_decided(self: &Arc<Self>, settled: Settled, approval: Approval) -> Result<bool, StoreError> {
        let _gate = self.gate.lock().await;
        let (standing, policy) = self.change(|state| (state.standing, state.mesh));
        if standing != Standing::Live {
            return Ok(true);
        }
        // What was decided is what was shown, also whom the letter is for: that the row of the letter names this session proves
        // nothing. Whoever wants no messages meanwhile gets none.
        let letter = match &approval.subject {
            Subject::Letter { session, letter, .. } if session == self.id() && policy != MeshPolicy::Off => letter,
            _ => {
                decline(&self.hub, settled.no).await?;
                return Ok(true);
            }
        };
        let Some(turn) = self.room_for_letter() else { return Ok(false) };
        let prompt = letter.prompt(boundary());
        let (session, now, text, request) = (self.no(), now_ns(), prompt.clone(), approval.no);
        let approvals = self.hub.approvals.clone();
        let write = move |transaction: &Transaction<'_>| {
            let agreed = approvals.take_letter_answer(transaction, request)?;
            let state = if agreed { State::Queued } else { State::Declined };
            let taken = rows::conclude(transaction, settled.no, state, turn)? && agreed;
            if taken {
                tables::insert_turn(transaction, approvals.ledger(), session, turn, &text, DOOR, now)?;
            }
            Ok(taken)
        };
        if self.hub.store.write(points::MAIL_DECIDED, write).await? {
            self.enter_letter(turn, prompt, now);
        }
        Ok(true)
    }
}
