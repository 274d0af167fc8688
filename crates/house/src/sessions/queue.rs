//! Prompts in and out of a session: take them, take them back, stop them, close the session.
//!
//! Invariant: everything here goes through the session's gate, one after the other, is on disk before it is in memory,
//! and runs to its end even if the caller stops waiting: half of it would be worse than either.

use std::collections::VecDeque;
use std::sync::Arc;

use hostel_syncpoint::points;

use super::session::Session;
use super::state::Queued;
use super::types::{Cause, Prompt, Scope, SendError, Sent, Standing};
use super::{detached, now_ns, rows};
use crate::store::StoreError;

impl Session {
    /// Takes a prompt. When this returns it is on disk and will be put to the agent exactly once.
    pub async fn send(self: &Arc<Self>, prompt: Prompt) -> Result<Sent, SendError> {
        let limit = self.hub.options.prompt_limit;
        if prompt.text.len() > limit {
            return Err(SendError::TooLong { len: prompt.text.len(), limit });
        }
        let session = Arc::clone(self);
        detached(async move { session.send_now(prompt).await }).await?
    }

    async fn send_now(self: &Arc<Self>, prompt: Prompt) -> Result<Sent, SendError> {
        let _gate = self.gate.lock().await;
        let turn = self.change(|state| {
            if state.standing != Standing::Live {
                return Err(SendError::Closed);
            }
            if state.has_turn() && state.waiting() >= self.hub.options.queue {
                return Err(SendError::QueueFull(state.waiting()));
            }
            Ok(state.turns + 1)
        })?;
        let after_seq = self.log.last_seq();
        let (no, now, text, door) = (self.no(), now_ns(), prompt.text.clone(), prompt.door);
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let write = move |transaction: &rusqlite::Transaction<'_>| {
            rows::insert_turn(transaction, &ledger, no, turn, &text, door, now)
        };
        self.hub.store.write(points::TURN_QUEUED, write).await?;
        let position = self.change(|state| {
            state.turns = turn;
            state.active_ns = now;
            let door = prompt.door.to_owned();
            state.queue.push_back(Queued { turn, prompt: prompt.text, door, unproved: false });
            state.waiting()
        });
        self.ensure_runner();
        Ok(Sent { turn, position, after_seq })
    }

    /// Takes a prompt back that still waits. Its turn ends cancelled.
    pub async fn withdraw(self: &Arc<Self>, turn: u64) -> bool {
        let session = Arc::clone(self);
        let withdrawn = detached(async move {
            let _gate = session.gate.lock().await;
            session.cancel_queued(Cause::ClientRpc, |queued| queued.turn == turn).await > 0
        });
        withdrawn.await.unwrap_or(false)
    }

    /// Cancels prompts that wait. They are on disk as cancelled when this returns; that they are is written once more
    /// with the event that tells of it. Returns how many.
    async fn cancel_queued(self: &Arc<Self>, cause: Cause, which: impl Fn(&Queued) -> bool) -> usize {
        let turns: Vec<u64> = self.change(|state| {
            let (gone, kept): (VecDeque<_>, VecDeque<_>) = state.queue.drain(..).partition(which);
            state.queue = kept;
            state.untold.extend(gone.iter().map(|queued| (queued.turn, cause)));
            gone.iter().map(|queued| queued.turn).collect()
        });
        if turns.is_empty() {
            return 0;
        }
        let (no, now, count) = (self.no(), now_ns(), turns.len());
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let written = self.hub.store.write(points::TURN_CANCELLED, move |transaction| {
            turns.iter().try_for_each(|turn| rows::cancel_queued(transaction, &ledger, no, *turn, cause, now))
        });
        // What the disk does not take now, the runner insists on.
        written.await.ok();
        self.ensure_runner();
        count
    }

    /// Stops the running turn, or that and everything that waits. Returns whether there was something to stop; does
    /// not wait for its end.
    pub async fn interrupt(self: &Arc<Self>, scope: Scope, cause: Cause) -> bool {
        let session = Arc::clone(self);
        let stopped = detached(async move {
            let _gate = session.gate.lock().await;
            session.stop(scope, cause).await
        });
        stopped.await.unwrap_or(false)
    }

    /// The same for who has the gate, or needs none.
    pub(super) async fn stop(self: &Arc<Self>, scope: Scope, cause: Cause) -> bool {
        let waiting = match scope {
            Scope::Everything => self.cancel_queued(cause, |_| true).await,
            Scope::Running => {
                // Where the runner has not come to it yet, the first is as good as running.
                let first = self.change(|state| match state.running {
                    Some(_) => None,
                    None => state.queue.front().map(|queued| queued.turn),
                });
                let cancelled = self.cancel_queued(cause, |queued| Some(queued.turn) == first).await;
                // One was stopped. What the runner has taken up meanwhile is another.
                if cancelled > 0 {
                    return true;
                }
                0
            }
        };
        let Some(running) = self.change(|state| state.running) else { return waiting > 0 };
        let (no, turn) = (self.no(), running.turn);
        let written = self
            .hub
            .store
            .write(points::TURN_STOPPED, move |transaction| rows::set_cause(transaction, no, turn, cause));
        // What could not be written is done all the same: a restart would only let the turn go on.
        written.await.ok();
        let found = self.change(|state| match &mut state.running {
            Some(running) if running.turn == turn => {
                running.cause.get_or_insert(cause);
                true
            }
            _ => false,
        });
        self.wake.notify_one();
        found || waiting > 0
    }

    /// Closes the session: it is archived and out of the list at once; returns when its process is gone.
    pub async fn close(self: &Arc<Self>, cause: Cause) -> Result<(), StoreError> {
        let session = Arc::clone(self);
        detached(async move { session.close_now(cause).await }).await?
    }

    async fn close_now(self: &Arc<Self>, cause: Cause) -> Result<(), StoreError> {
        {
            let _gate = self.gate.lock().await;
            if self.change(|state| state.standing) == Standing::Live {
                let (no, now) = (self.no(), now_ns());
                let archive = move |transaction: &rusqlite::Transaction<'_>| {
                    rows::set_standing(transaction, no, Standing::Archived, now)
                };
                self.hub.store.write(points::SESSION_ARCHIVED, archive).await?;
                self.change(|state| state.standing = Standing::Archived);
                self.hub.leave(self);
                self.stop(Scope::Everything, cause).await;
                // Only now: the runner tells of what was cancelled before it closes the book.
                self.change(|state| state.closing = Some(cause));
                self.ensure_runner();
            }
        }
        self.rested().await;
        Ok(())
    }
}
