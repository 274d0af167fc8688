//! Agent sessions: durable conversations with the CLIs, served by processes that come and go.
//!
//! Invariant: what was taken is on disk before the taker hears of it. A prompt is put to its agent exactly once; an
//! event has one number for ever; a daemon that is killed at any instant is followed by one that goes on where it
//! was, because the truth is in `state.db` and in the journals, and events are a function of those.
//!
//! It knows no wire. Doors make sessions, send prompts and follow events; they never touch a process.

mod conversation;
pub mod fuzzing;
mod launch;
mod lines;
mod log;
mod rows;
mod runner;
mod session;
mod types;
mod warm;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hostel_agents::Usage;
use parking_lot::RwLock;
use tokio::sync::watch;

pub use log::Events;
pub use session::Session;
pub use types::{
    AgentLimits, AgentSpec, Cause, Entry, NewSession, NextEvents, Prompt, Scope, SendError, Sent, SessionError,
    SessionInfo, SessionOptions, Standing, Status, TurnInfo,
};

use crate::approvals::Approvals;
use crate::processes::Processes;
use crate::store::{Store, StoreError};
use log::Log;
use rows::SessionRow;
use warm::Warm;

/// The longest id a caller may choose for a session.
const ID_LIMIT: usize = 256;

/// Nanoseconds of wall clock.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

/// What all sessions of a house share.
pub(crate) struct Hub {
    pub(crate) store: Store,
    pub(crate) processes: Processes,
    pub(crate) approvals: Approvals,
    pub(crate) options: SessionOptions,
    pub(crate) warm: Warm,
    pub(crate) busy: AtomicUsize,
    live: RwLock<Live>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Live {
    by_id: HashMap<String, Arc<Session>>,
    /// By row, which is the order in which they were made.
    in_order: BTreeMap<i64, Arc<Session>>,
    by_door: HashMap<String, usize>,
}

impl Hub {
    fn enter(&self, session: &Arc<Session>) {
        let mut live = self.live.write();
        if live.in_order.insert(session.no(), Arc::clone(session)).is_none() {
            *live.by_door.entry(session.door().to_owned()).or_default() += 1;
        }
        live.by_id.insert(session.id().to_owned(), Arc::clone(session));
        drop(live);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn leave(&self, session: &Session) {
        let mut live = self.live.write();
        if live.in_order.remove(&session.no()).is_some() {
            live.by_id.remove(session.id());
            if let Some(count) = live.by_door.get_mut(session.door()) {
                *count = count.saturating_sub(1);
            }
        }
        drop(live);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn agent(&self, alias: &str) -> Option<&AgentSpec> {
        self.options.agents.iter().find(|agent| agent.alias == alias)
    }
}

/// The sessions of a house. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    hub: Arc<Hub>,
}

impl Sessions {
    /// Loads what there is and goes on with what was going on.
    pub async fn open(
        store: Store,
        processes: Processes,
        approvals: Approvals,
        options: SessionOptions,
    ) -> Result<Self, SessionError> {
        let warm = Warm::new(options.warm);
        let hub = Arc::new(Hub {
            store,
            processes,
            approvals,
            options,
            warm,
            busy: AtomicUsize::new(0),
            live: RwLock::default(),
            changed: watch::Sender::new(0),
        });
        let (rows, restless, states, ids) = hub
            .store
            .read(|connection| {
                Ok((
                    rows::live_sessions(connection)?,
                    rows::restless_sessions(connection)?,
                    rows::door_states(connection)?,
                    rows::all_processes(connection, None)?,
                ))
            })
            .await?;
        hub.processes.spare(ids);
        let mut by_session: HashMap<i64, Vec<(String, String)>> = HashMap::new();
        for (session, door, state) in states {
            by_session.entry(session).or_default().push((door, state));
        }
        let mut restless: HashSet<i64> = restless.into_iter().collect();
        for row in rows {
            let (no, states) = (row.no, by_session.remove(&row.no).unwrap_or_default());
            let session = Session::from_row(&hub, row, states);
            hub.enter(&session);
            if restless.remove(&no) {
                session.recover().await?;
            }
        }
        // What was being closed when the last daemon ended is closed now.
        for no in restless {
            let found = hub.store.read(move |connection| rows::session_by_no(connection, no)).await?;
            if let Some(row) = found {
                Session::from_row(&hub, row, Vec::new()).recover().await?;
            }
        }
        Ok(Self { hub })
    }

    /// The agents, by name.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentSpec> {
        let mut agents = self.hub.options.agents.clone();
        agents.sort_by(|left, right| left.alias.cmp(&right.alias));
        agents
    }

    /// Makes a session. It is on disk when this returns; nothing is started.
    pub async fn create(&self, new: NewSession) -> Result<Arc<Session>, SessionError> {
        let agent = self.hub.agent(&new.agent).ok_or_else(|| {
            let known: Vec<String> = self.agents().into_iter().map(|agent| agent.alias).collect();
            SessionError::UnknownAgent { alias: new.agent.clone(), known: known.join(", ") }
        })?;
        let id = match new.id {
            Some(id) if id.is_empty() || id.len() > ID_LIMIT || id.chars().any(char::is_control) => {
                return Err(SessionError::BadId(format!(
                    "a session's id has 1 to {ID_LIMIT} bytes and no control characters"
                )));
            }
            Some(id) => id,
            None => uuid::Uuid::new_v4().to_string(),
        };
        let cwd = match new.cwd.or_else(|| agent.cwd.clone()) {
            Some(cwd) => cwd,
            None => std::env::home_dir().unwrap_or_else(|| "/".into()),
        };
        if !cwd.exists() {
            return Err(SessionError::NoDirectory(cwd.display().to_string()));
        }
        let now = now_ns();
        let mut row = SessionRow {
            no: 0,
            id,
            name: new.name,
            agent: agent.alias.clone(),
            kind: agent.kind,
            door: new.door.to_owned(),
            owner: new.owner,
            cwd,
            mode: new.mode.or(agent.mode).unwrap_or_default(),
            model: new.model.or_else(|| agent.model.clone()),
            model_told: None,
            cli_session: None,
            hosting: new.hosting,
            standing: Standing::Live,
            env: new.env,
            approval_wait: new.approval_wait,
            created_ns: now,
            active_ns: now,
            last_seq: 0,
            usage: Usage::default(),
            turns: 0,
        };
        let stored = row.clone();
        let inserted = self.hub.store.write(move |transaction| {
            if rows::find_session(transaction, &stored.id)?.is_some() {
                return Ok(None);
            }
            rows::insert_session(transaction, &stored).map(Some)
        });
        row.no =
            inserted.await?.ok_or_else(|| SessionError::BadId(format!("there is a session `{}` already", row.id)))?;
        let session = Session::from_row(&self.hub, row, Vec::new());
        self.hub.enter(&session);
        Ok(session)
    }

    /// A session that takes prompts.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.hub.live.read().by_id.get(id).cloned()
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
        Ok(row.map(info_of))
    }

    /// Sessions in use or not, the most recently used first.
    pub async fn stored_list(&self, limit: usize) -> Result<Vec<SessionInfo>, StoreError> {
        let rows = self.hub.store.read(move |connection| rows::recent_sessions(connection, limit)).await?;
        Ok(rows.into_iter().map(|row| self.get(&row.id).map_or_else(|| info_of(row), |live| live.info())).collect())
    }

    /// Brings an archived session back.
    pub async fn revive(&self, id: &str) -> Result<Arc<Session>, SessionError> {
        if let Some(session) = self.get(id) {
            return Ok(session);
        }
        let wanted = id.to_owned();
        let now = now_ns();
        let revived = self.hub.store.write(move |transaction| {
            let Some(row) = rows::find_session(transaction, &wanted)? else { return Ok(None) };
            if row.standing == Standing::Archived {
                rows::set_standing(transaction, row.no, Standing::Live, now)?;
            }
            Ok(Some(row))
        });
        match revived.await? {
            None => Err(SessionError::NotFound(id.to_owned())),
            Some(row) if row.standing == Standing::Killed => Err(SessionError::Killed(id.to_owned())),
            Some(row) => {
                // Two may have come at once: the first to enter is the one.
                if let Some(session) = self.get(id) {
                    return Ok(session);
                }
                let session = Session::from_row(&self.hub, SessionRow { standing: Standing::Live, ..row }, Vec::new());
                self.hub.enter(&session);
                Ok(session)
            }
        }
    }

    /// Ends a session for good; its history stays readable.
    pub async fn kill(&self, id: &str) -> Result<bool, StoreError> {
        if let Some(session) = self.get(id) {
            session.close(Cause::AdminKill).await?;
        }
        let (id, now) = (id.to_owned(), now_ns());
        let killed = self.hub.store.write(move |transaction| {
            let Some(row) = rows::find_session(transaction, &id)? else { return Ok(false) };
            rows::set_standing(transaction, row.no, Standing::Killed, now)?;
            Ok(true)
        });
        killed.await
    }

    /// Ends a session and forgets it, with its history and its journals.
    pub async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        if let Some(session) = self.get(id) {
            session.close(Cause::SessionRemoved).await?;
        }
        let id = id.to_owned();
        let deleted = self.hub.store.write(move |transaction| {
            let Some(row) = rows::find_session(transaction, &id)? else { return Ok(None) };
            let processes = rows::all_processes(transaction, Some(row.no))?;
            rows::delete_session(transaction, row.no)?;
            Ok(Some(processes))
        });
        let Some(processes) = deleted.await? else { return Ok(false) };
        for process in processes {
            self.hub.processes.forget(process).await;
        }
        Ok(true)
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
        if let Some(session) = self.get(id) {
            return Ok(Some(session.events(after_seq)));
        }
        let id = id.to_owned();
        let row = self.hub.store.read(move |connection| rows::find_session(connection, &id)).await?;
        Ok(row.map(|row| {
            let log = Arc::new(Log::new(self.hub.store.clone(), row.no, row.last_seq, true));
            Events::new(&log, after_seq)
        }))
    }

    /// Forgets sessions that were closed long ago. Returns how many.
    pub async fn tidy(&self) -> Result<usize, StoreError> {
        let keep = u64::try_from(self.hub.options.keep_archived.as_nanos()).unwrap_or(u64::MAX);
        let moment = now_ns().saturating_sub(keep);
        let expired = self.hub.store.read(move |connection| rows::closed_before(connection, moment)).await?;
        let mut count = 0;
        for id in expired {
            count += usize::from(self.delete(&id).await?);
        }
        Ok(count)
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
    }
}
