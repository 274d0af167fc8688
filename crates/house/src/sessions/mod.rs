//! Agent sessions: durable conversations with the CLIs, served by processes that come and go.
//!
//! Invariant: what was taken is on disk before the taker hears of it. A prompt is put to its agent exactly once; an
//! event has one number for ever; a daemon that is killed at any instant is followed by one that goes on where it
//! was, because the truth is in `state.db` and in the journals, and events are a function of those.
//!
//! It knows no wire. Doors make sessions, send prompts and follow events; they never touch a process.

mod conversation;
pub mod fuzzing;
mod hub;
mod launch;
mod lifecycle;
mod lines;
mod log;
mod mail;
pub(crate) mod prompts;
mod queue;
pub(crate) mod rights;
mod rows;
mod run;
mod runner;
mod session;
mod stall;
mod state;
mod types;
mod warm;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

pub use log::Events;
pub use mail::{DOOR as LETTERS, Launched, Letter, MailLimits, MailPlace, MeshPolicy, Taken, variables};
pub use session::Session;
pub use stall::Stalled;
pub use types::{
    AgentLimits, AgentSpec, Cause, Entry, Maker, ModeChange, ModeError, NewSession, NextEvents, Prompt, Scope,
    SendError, Sent, SessionError, SessionInfo, SessionOptions, Standing, Status, TurnInfo,
};

use crate::store::StoreError;
pub(crate) use hub::Hub;
use log::Log;
pub(crate) use rows::ProcessRows;
use rows::SessionRow;

/// Nanoseconds of wall clock.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

/// Runs to its end even if the caller stops waiting.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, StoreError> {
    // It is cut off only when the daemon ends.
    hostel_tasks::spawn(work).await.map_err(|_| StoreError::Closed)
}

/// The sessions of a house. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    hub: Arc<Hub>,
}

impl Sessions {
    /// The agents, by name.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentSpec> {
        let mut agents = self.hub.options.agents.clone();
        agents.sort_by(|left, right| left.alias.cmp(&right.alias));
        agents
    }

    /// A session that takes prompts.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.hub.get(id)
    }

    /// Every session that takes prompts, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Session>> {
        self.hub.live.read().in_order.values().cloned().collect()
    }

    /// How many take prompts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.hub.live.read().in_order.len()
    }

    /// How many of those came in by that door.
    #[must_use]
    pub fn count_of(&self, door: &str) -> usize {
        self.hub.live.read().by_door.get(door).copied().unwrap_or(0)
    }

    /// How many of those are busy.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.hub.busy.load(Ordering::Relaxed)
    }

    /// Counts changes of the set of sessions.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.hub.changed.subscribe()
    }

    /// What a session that exists, in use or not, is like.
    pub async fn stored(&self, id: &str) -> Result<Option<SessionInfo>, StoreError> {
        if let Some(session) = self.get(id) {
            return Ok(Some(session.info()));
        }
        let id = id.to_owned();
        let row = self.hub.store.read(move |connection| rows::find_session(connection, &id)).await?;
        Ok(row.map(|row| self.info_of(row)))
    }

    /// Sessions in use or not, the most recently used first.
    pub async fn stored_list(&self, limit: usize) -> Result<Vec<SessionInfo>, StoreError> {
        let rows = self.hub.store.read(move |connection| rows::recent_sessions(connection, limit)).await?;
        Ok(rows
            .into_iter()
            .map(|row| self.get(&row.id).map_or_else(|| self.info_of(row), |live| live.info()))
            .collect())
    }

    /// What is told of a session that is not in use.
    fn info_of(&self, row: SessionRow) -> SessionInfo {
        info_of(row.believed_to_read(self.hub.approvals.ledger()))
    }

    /// How many are in use or can be brought back.
    pub async fn stored_count(&self) -> Result<usize, StoreError> {
        let stored = self.hub.store.read(rows::count_sessions).await?;
        Ok(usize::try_from(stored).unwrap_or(usize::MAX))
    }

    /// The turns of any session, oldest first.
    pub async fn turns(&self, id: &str) -> Result<Vec<TurnInfo>, StoreError> {
        let id = id.to_owned();
        self.hub.store.read(move |connection| rows::all_turns(connection, &id)).await
    }

    /// The events of a session in use, after this number.
    #[must_use]
    pub fn events(&self, id: &str, after_seq: u64) -> Option<Events> {
        Some(self.get(id)?.events(after_seq))
    }

    /// The events of any session; those of one that is not in use come to an end.
    pub async fn stored_events(&self, id: &str, after_seq: u64) -> Result<Option<Events>, StoreError> {
        if let Some(session) = self.get(id).or_else(|| self.hub.closing(id)) {
            return Ok(Some(session.events(after_seq)));
        }
        let id = id.to_owned();
        let row = self.hub.store.read(move |connection| rows::find_session(connection, &id)).await?;
        Ok(row.map(|row| {
            let log = Arc::new(Log::new(self.hub.store.clone(), row.no, row.last_seq, true));
            Events::new(&log, after_seq)
        }))
    }
}

fn info_of(row: SessionRow) -> SessionInfo {
    SessionInfo {
        id: row.id,
        name: row.name,
        agent: row.agent,
        kind: row.kind,
        door: row.door,
        owner: row.owner,
        cwd: row.cwd,
        mode: row.mode,
        model_chosen: row.model,
        model_reported: row.model_told,
        cli_session_id: row.cli_session,
        hosting: row.hosting,
        standing: row.standing,
        status: Status::Idle,
        running_turn: None,
        queued: 0,
        last_seq: row.last_seq,
        turns: row.turns,
        created_ns: row.created_ns,
        active_ns: row.active_ns,
        usage: row.usage,
        pid: None,
        address: row.address,
        launched: mail::launched(&row.env),
        mesh: row.mesh,
        made_by: row.provenance.made_by,
        guard: None,
    }
}
