//! Sessions come, are brought back, and go for good.
//!
//! Invariant: what is done here runs to its end even if the caller stops waiting, and touches nothing of a session
//! whose runner is still at work.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Kind, Usage};
use hostel_syncpoint::{SyncPoint, points};
use tokio::sync::MutexGuard;

use super::mail;
use super::rights::{self, Provenance};
use super::rows::{self, SessionRow};
use super::session::Session;
use super::types::{Cause, NewSession, SessionError, SessionOptions, Standing};
use super::{Hub, Sessions, detached, now_ns};
use crate::approvals::Approvals;
use crate::processes::Processes;
use crate::store::{Store, StoreError};

/// The longest id a caller may choose for a session.
const ID_LIMIT: usize = 256;

/// Runs of events that are deleted in one write.
const RUNS_AT_ONCE: usize = 32;

impl Sessions {
    /// Loads what there is and goes on with what was going on.
    pub async fn open(
        store: Store,
        processes: Processes,
        approvals: Approvals,
        options: SessionOptions,
    ) -> Result<Self, SessionError> {
        let hub = Hub::new(store, processes, approvals, options);
        let unaddressed = |connection: &rusqlite::Connection| mail::has_missing(connection);
        if hub.store.read(unaddressed).await? {
            hub.store.write(points::ADDRESSES_ASSIGNED, mail::missing_addresses).await?;
        }
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
        hub.processes.spare(ids.iter().copied());
        hub.processes.mark_agents(&ids);
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
                let session = Session::from_row(&hub, row, Vec::new());
                hub.leave(&session);
                session.recover().await?;
            }
        }
        hostel_tasks::spawn(mail::look_after(Arc::downgrade(&hub)));
        // The last daemon may have had no time for it.
        let processes = hub.processes.clone();
        hostel_tasks::spawn(async move {
            for id in ids {
                processes.release(id).await;
            }
        });
        Ok(Self { hub })
    }

    /// Makes a session. It is on disk when this returns; nothing is started.
    pub async fn create(&self, new: NewSession) -> Result<Arc<Session>, SessionError> {
        let sessions = self.clone();
        detached(async move { sessions.create_now(new).await }).await?
    }

    async fn create_now(&self, new: NewSession) -> Result<Arc<Session>, SessionError> {
        let agent = self.hub.agent(&new.agent).ok_or_else(|| self.no_agent(&new.agent))?;
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
        if !exists(cwd.clone()).await {
            return Err(SessionError::NoDirectory(cwd.display().to_string()));
        }
        let mode = allowed(new.mode, agent.mode.unwrap_or_default(), new.maker.as_ref().map(|maker| maker.mode))
            .map_err(|most| more_rights(&format!("mode `{}`", most.name())))?;
        let mesh = allowed(new.mesh, self.hub.options.mesh, new.maker.as_ref().map(|maker| maker.mesh))
            .map_err(|most| more_rights(&format!("mesh policy `{}`", most.word())))?;
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
            mode,
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
            address: String::new(),
            mesh,
            mesh_since: now / 1_000_000,
            provenance: new.maker.map_or_else(Provenance::default, |maker| Provenance {
                made_by: maker.origin,
                guard: Some(maker.guard),
            }),
            seal: Vec::new(),
        };
        let (stored, ledger) = (row.clone(), Arc::clone(self.hub.approvals.ledger()));
        let inserted = self.hub.store.write(points::SESSION_CREATED, move |transaction| {
            if rows::find_session(transaction, &stored.id)?.is_some() {
                return Ok(None);
            }
            let no = rows::insert_session(transaction, &stored, &ledger)?;
            let address = mail::address_of(transaction, no, &stored.id, stored.name.as_deref())?;
            Ok(Some((no, address)))
        });
        (row.no, row.address) =
            inserted.await?.ok_or_else(|| SessionError::BadId(format!("there is a session `{}` already", row.id)))?;
        let session = Session::from_row(&self.hub, row, Vec::new());
        self.hub.enter(&session);
        Ok(session)
    }

    /// Why there is no such agent.
    fn no_agent(&self, alias: &str) -> SessionError {
        if let Some(kind) = Kind::named(alias)
            && let Some(package) = kind.package()
        {
            return SessionError::MissingCli { cli: kind.name(), package };
        }
        let known: Vec<String> = self.agents().into_iter().map(|agent| agent.alias).collect();
        SessionError::UnknownAgent { alias: alias.to_owned(), known: known.join(", ") }
    }

    /// Brings an archived session back. One that is still closing is waited for.
    pub async fn revive(&self, id: &str) -> Result<Arc<Session>, SessionError> {
        if let Some(session) = self.get(id) {
            return Ok(session);
        }
        let (sessions, id) = (self.clone(), id.to_owned());
        detached(async move { sessions.revive_now(&id).await }).await?
    }

    async fn revive_now(&self, id: &str) -> Result<Arc<Session>, SessionError> {
        let _alone = self.at_rest(id).await?;
        if let Some(session) = self.get(id) {
            return Ok(session);
        }
        let (wanted, now) = (id.to_owned(), now_ns());
        let revived = self.hub.store.write(points::SESSION_REVIVED, move |transaction| {
            let Some(row) = rows::find_session(transaction, &wanted)? else { return Ok(None) };
            if row.standing == Standing::Archived {
                rows::set_standing(transaction, row.no, Standing::Live, now)?;
            }
            let states = rows::door_states_of(transaction, row.no)?;
            Ok(Some((row, states)))
        });
        match revived.await? {
            None => Err(SessionError::NotFound(id.to_owned())),
            Some((row, _)) if row.standing == Standing::Killed => Err(SessionError::Killed(id.to_owned())),
            Some((row, states)) => {
                let session = Session::from_row(&self.hub, SessionRow { standing: Standing::Live, ..row }, states);
                self.hub.enter(&session);
                Ok(session)
            }
        }
    }

    /// Waits until nobody works on a session that was closed, and keeps everybody else from bringing it back.
    async fn at_rest(&self, id: &str) -> Result<MutexGuard<'_, ()>, StoreError> {
        let mut changed = self.hub.changed.subscribe();
        loop {
            let rest = async {
                while self.hub.closing(id).is_some() {
                    // The sender lives as long as the house.
                    changed.changed().await.ok();
                }
            };
            if tokio::time::timeout(self.hub.patience(), rest).await.is_err() {
                return Err(StoreError::Busy(format!("the session `{id}` is still being closed; try again later")));
            }
            let alone = self.hub.lifecycle.lock().await;
            if self.hub.closing(id).is_none() {
                return Ok(alone);
            }
        }
    }

    /// The same for a session that is to be closed, whether it is in use or not.
    async fn closed(&self, id: &str, cause: Cause) -> Result<MutexGuard<'_, ()>, StoreError> {
        loop {
            if let Some(session) = self.get(id) {
                session.close(cause).await?;
            }
            let alone = self.at_rest(id).await?;
            if self.get(id).is_none() {
                return Ok(alone);
            }
        }
    }

    /// Ends a session for good; its history stays readable.
    pub async fn kill(&self, id: &str) -> Result<bool, StoreError> {
        let (sessions, id) = (self.clone(), id.to_owned());
        let killing = async move {
            let _alone = sessions.closed(&id, Cause::AdminKill).await?;
            let (now, ledger) = (now_ns(), Arc::clone(sessions.hub.approvals.ledger()));
            let killed = sessions.hub.store.write(points::SESSION_KILLED, move |transaction| {
                let Some(row) = rows::find_session(transaction, &id)? else { return Ok(false) };
                rows::set_standing(transaction, row.no, Standing::Killed, now)?;
                rights::forget(&ledger, row.no);
                Ok(true)
            });
            killed.await
        };
        detached(killing).await?
    }

    /// Ends a session and forgets it, with its history and its journals.
    pub async fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let (sessions, id) = (self.clone(), id.to_owned());
        let deleting = async move {
            let alone = sessions.closed(&id, Cause::SessionRemoved).await?;
            sessions.erase(&id, alone).await
        };
        detached(deleting).await?
    }

    /// A long history goes in pieces, so that nobody else waits for the disk because of it.
    async fn erase(&self, id: &str, alone: MutexGuard<'_, ()>) -> Result<bool, StoreError> {
        let processes = loop {
            let (id, now, ledger) = (id.to_owned(), now_ns(), Arc::clone(self.hub.approvals.ledger()));
            let erased = self.hub.store.write(points::SESSION_ERASED, move |transaction| {
                let Some(row) = rows::find_session(transaction, &id)? else { return Ok(Some(None)) };
                if !rows::delete_events(transaction, row.no, RUNS_AT_ONCE)? {
                    // What is no longer whole cannot be brought back.
                    rows::set_standing(transaction, row.no, Standing::Killed, now)?;
                    rights::forget(&ledger, row.no);
                    return Ok(None);
                }
                let processes = rows::all_processes(transaction, Some(row.no))?;
                rows::delete_session(transaction, row.no, &ledger)?;
                Ok(Some(Some(processes)))
            });
            if let Some(erased) = erased.await? {
                break erased;
            }
        };
        drop(alone);
        let Some(processes) = processes else { return Ok(false) };
        for process in processes {
            self.hub.processes.forget(process).await;
        }
        Ok(true)
    }

    /// Sessions that were closed before this moment, those closed first at the front, as many as one round may erase.
    pub(crate) async fn closed_before(&self, moment_ns: u64) -> Result<Vec<String>, StoreError> {
        self.hub.store.read(move |connection| rows::closed_before(connection, moment_ns)).await
    }

    /// Forgets closed sessions with their journals, and what mail keeps for too long. Returns how many sessions.
    pub(crate) async fn forget_closed(&self, expired: Vec<String>, now_ns: u64) -> Result<usize, StoreError> {
        let limits = self.hub.options.mail;
        self.hub.store.write(SyncPoint::NONE, move |transaction| mail::trim(transaction, &limits, now_ns)).await?;
        let mut count = 0;
        for id in expired {
            let sessions = self.clone();
            let forgetting = async move {
                let alone = sessions.at_rest(&id).await?;
                // Somebody may have brought it back since.
                match sessions.get(&id) {
                    Some(_) => Ok(false),
                    None => sessions.erase(&id, alone).await,
                }
            };
            count += usize::from(detached(forgetting).await??);
        }
        Ok(count)
    }

    pub(crate) fn keep_archived(&self) -> Duration {
        self.hub.options.keep_archived
    }

    pub(crate) fn store(&self) -> Store {
        self.hub.store.clone()
    }
}

/// The rights that a new session gets: those that are asked for, else the usual ones, but no more than `most`. Asking for
/// more is an error, which holds `most`.
fn allowed<T: Copy + Ord>(asked: Option<T>, usual: T, most: Option<T>) -> Result<T, T> {
    match (asked, most) {
        (Some(asked), Some(most)) if asked > most => Err(most),
        (Some(asked), _) => Ok(asked),
        (None, Some(most)) => Ok(usual.min(most)),
        (None, None) => Ok(usual),
    }
}

fn more_rights(most: &str) -> SessionError {
    SessionError::MoreRights(format!(
        "a process that runs inside this house makes no session with more rights than its own ({most}); \
         its owner can, from outside the house"
    ))
}

/// Whether something is there, asked where a file system that does not answer holds up nobody else.
async fn exists(path: PathBuf) -> bool {
    hostel_tasks::spawn_blocking(move || path.exists()).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use hostel_agents::Mode;

    use super::*;

    #[test]
    fn a_session_gets_no_more_rights_than_its_maker_has() {
        let mode = |asked, most| allowed(asked, Mode::Code, most);
        assert_eq!(mode(None, None), Ok(Mode::Code));
        assert_eq!(mode(Some(Mode::Auto), None), Ok(Mode::Auto));
        assert_eq!(mode(None, Some(Mode::Ask)), Ok(Mode::Ask), "the usual ones are cut down");
        assert_eq!(mode(None, Some(Mode::Auto)), Ok(Mode::Code));
        assert_eq!(mode(Some(Mode::Plan), Some(Mode::Ask)), Ok(Mode::Plan));
        assert_eq!(mode(Some(Mode::Ask), Some(Mode::Ask)), Ok(Mode::Ask));
        assert_eq!(mode(Some(Mode::Code), Some(Mode::Ask)), Err(Mode::Ask), "asking for more is no accident");
    }
}
