//! One session, as doors see it: what it is like, what is set about it, its events.
//!
//! Invariant: what is set is on disk before it is in memory. The work itself is done by the session's runner, a task
//! that exists only while there is something to do; prompts come and go by `queue`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_agents::{Hosting, Kind, Mode};
use hostel_syncpoint::points;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::log::{Events, Log};
use super::mail;
use super::rights::{self, Provenance};
use super::rows::{self, OpenTurn, SessionRow};
use super::runner::Runner;
use super::state::{Queued, Running, State};
use super::types::{Cause, ModeChange, ModeError, Scope, SessionInfo, Standing, Status};
use super::{Hub, detached, now_ns};
use crate::approvals;
use crate::processes::Origin;
use crate::store::StoreError;

/// The longest text a door may keep with a session.
const DOOR_STATE_LIMIT: usize = 4096;

/// One session.
pub struct Session {
    pub(crate) hub: Arc<Hub>,
    no: i64,
    id: String,
    agent: String,
    kind: Kind,
    door: String,
    cwd: PathBuf,
    hosting: Hosting,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) approval_wait: Duration,
    created_ns: u64,
    provenance: Provenance,
    state: Mutex<State>,
    pub(crate) log: Arc<Log>,
    /// Orders what changes the queue.
    pub(super) gate: tokio::sync::Mutex<()>,
    /// Something is to be done.
    pub(crate) wake: Notify,
    /// Counts runners that have ended.
    rests: watch::Sender<u64>,
    /// Some of the events are still being read again from the journal.
    behind: watch::Sender<bool>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Session {
    /// A session as it is stored. Its rights are those that the house itself wrote; others are the least there are.
    pub(crate) fn from_row(hub: &Arc<Hub>, row: SessionRow, door_states: Vec<(String, String)>) -> Arc<Self> {
        let row = row.believed(hub.approvals.ledger());
        let closed = row.standing != Standing::Live;
        let state = State {
            name: row.name,
            owner: row.owner,
            mode: row.mode,
            model: row.model,
            model_told: row.model_told,
            cli_session: row.cli_session,
            standing: row.standing,
            active_ns: row.active_ns,
            usage: row.usage,
            queue: VecDeque::new(),
            running: None,
            turns: row.turns,
            untold: VecDeque::new(),
            interrupted: None,
            process: None,
            pid: None,
            confinement: None,
            runner: false,
            retire: false,
            closing: closed.then_some(Cause::SessionRemoved),
            address: row.address,
            mesh: row.mesh,
            counted: false,
            door_states: door_states.into_iter().collect(),
        };
        Arc::new(Self {
            no: row.no,
            id: row.id,
            agent: row.agent,
            kind: row.kind,
            door: row.door,
            cwd: row.cwd,
            hosting: row.hosting,
            env: row.env,
            approval_wait: row.approval_wait,
            created_ns: row.created_ns,
            provenance: row.provenance,
            state: Mutex::new(state),
            log: Arc::new(Log::new(hub.store.clone(), row.no, row.last_seq, closed)),
            gate: tokio::sync::Mutex::default(),
            wake: Notify::new(),
            rests: watch::Sender::new(0),
            behind: watch::Sender::new(false),
            hub: Arc::clone(hub),
        })
    }

    /// Goes on with what the last daemon left.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<(), StoreError> {
        let no = self.no;
        let open = self.hub.store.read(move |connection| rows::open_turns(connection, no)).await?;
        let open = self.only_ours(open).await?;
        let untold = self.hub.store.read(move |connection| rows::untold_turns(connection, no)).await?;
        self.change(|state| {
            state.untold = untold.into();
            for turn in open {
                match turn.cause {
                    cause if turn.running => {
                        state.running = Some(Running { turn: turn.turn, cause });
                        state.interrupted = Some(turn);
                    }
                    // It was to stop at the moment it was taken up.
                    Some(cause) => state.untold.push_back((turn.turn, cause)),
                    None => {
                        let OpenTurn { turn, prompt, door, unproved, .. } = turn;
                        state.queue.push_back(Queued { turn, prompt, door, unproved });
                    }
                }
            }
        });
        if let Some(cause) = self.change(|state| state.closing) {
            self.stop(Scope::Everything, cause).await;
        }
        self.behind.send_replace(true);
        self.ensure_runner();
        Ok(())
    }

    /// Turns without those whose rows are not the house's own. The start has looked at all rows; this is about those that
    /// were changed since.
    async fn only_ours(&self, open: Vec<OpenTurn>) -> Result<Vec<OpenTurn>, StoreError> {
        let (no, now) = (self.no, now_ns());
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let (ours, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|turn| turn.row(no).is_ours(&ledger));
        if others.is_empty() {
            return Ok(ours);
        }
        let strike = move |transaction: &rusqlite::Transaction<'_>| {
            others.iter().map(|turn| turn.row(no)).try_for_each(|row| {
                row.strike(transaction, &ledger, now)?;
                approvals::record_changed_prompt(transaction, &ledger, &row)
            })
        };
        self.hub.store.write(points::TAMPERING_RECORDED, strike).await?;
        Ok(ours)
    }

    /// Everything was read again.
    pub(crate) fn caught_up(&self) {
        self.behind.send_if_modified(std::mem::take);
    }

    /// Waits until the events are as far as they were before the daemon started: until then `last_seq` may be smaller
    /// than what somebody has seen.
    pub async fn current(&self) {
        // The sender lives as long as the session.
        self.behind.subscribe().wait_for(|behind| !*behind).await.ok();
    }

    pub(crate) fn no(&self) -> i64 {
        self.no
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The door it came in by.
    #[must_use]
    pub fn door(&self) -> &str {
        &self.door
    }

    /// The agent's alias.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// How the agent is talked to.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it works.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// How long its processes live.
    #[must_use]
    pub fn hosting(&self) -> Hosting {
        self.hosting
    }

    /// Whether something is going on.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state.lock().status()
    }

    /// The session as it is now.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        let last_seq = self.log.last_seq();
        let state = self.state.lock();
        SessionInfo {
            id: self.id.clone(),
            name: state.name.clone(),
            agent: self.agent.clone(),
            kind: self.kind,
            door: self.door.clone(),
            owner: state.owner.clone(),
            cwd: self.cwd.clone(),
            mode: state.mode,
            model_chosen: state.model.clone(),
            model_reported: state.model_told.clone(),
            cli_session_id: state.cli_session.clone(),
            hosting: self.hosting,
            standing: state.standing,
            status: state.status(),
            running_turn: state.running.map(|running| running.turn),
            queued: state.waiting(),
            last_seq,
            turns: state.turns,
            created_ns: self.created_ns,
            active_ns: state.active_ns,
            usage: state.usage,
            pid: state.pid,
            address: state.address.clone(),
            launched: self.launched(),
            mesh: state.mesh,
            made_by: self.provenance.made_by.clone(),
            guard: Some(self.hub.processes.guards().status(&self.guard(), state.confinement.as_ref())),
        }
    }

    /// Number of the last event.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.log.last_seq()
    }

    /// A cursor into its events.
    #[must_use]
    pub fn events(&self, after_seq: u64) -> Events {
        Events::new(&self.log, after_seq)
    }

    /// Changes the state and keeps the count of busy sessions true.
    pub(crate) fn change<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = work(&mut state);
        let busy = state.status() == Status::Busy;
        if busy != state.counted {
            state.counted = busy;
            match busy {
                true => self.hub.busy.fetch_add(1, Ordering::Relaxed),
                false => self.hub.busy.fetch_sub(1, Ordering::Relaxed),
            };
        }
        result
    }

    /// What it may do, from the next turn on. The change and its record in the audit are one write.
    pub async fn set_mode(self: &Arc<Self>, change: ModeChange) -> Result<(), ModeError> {
        let session = Arc::clone(self);
        detached(async move { session.set_mode_now(change).await }).await?
    }

    async fn set_mode_now(&self, change: ModeChange) -> Result<(), ModeError> {
        // Changes come one after the other: each is judged by the mode it really replaces, and the rights of a session
        // are sealed together.
        let _gate = self.gate.lock().await;
        let (before, mode) = (self.state.lock().mode, change.mode);
        if before == mode {
            return Ok(());
        }
        if mode > before && !change.may_raise {
            return Err(ModeError::Raises(before));
        }
        let (no, id) = (self.no, self.id.clone());
        let ledger = Arc::clone(self.hub.approvals.ledger());
        let write = move |transaction: &rusqlite::Transaction<'_>| {
            rights::change(transaction, &ledger, no, |rights| rights.mode = mode.name().to_owned())?;
            approvals::record_mode(transaction, &ledger, &id, before, mode, &change.who)
        };
        self.hub.store.write(points::SESSION_CHANGED, write).await?;
        self.change(|state| state.mode = mode);
        Ok(())
    }

    /// What it may do now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.state.lock().mode
    }

    /// Who asked for it, where that was a process inside the house.
    #[must_use]
    pub fn made_by(&self) -> Option<&Origin> {
        self.provenance.made_by.as_ref()
    }

    /// Where it comes from.
    pub(crate) fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The model, from the next turn on; none for the agent's own choice.
    pub async fn set_model(self: &Arc<Self>, model: Option<String>) -> Result<(), StoreError> {
        self.set_text("model", model, |state, model| state.model = model).await
    }

    /// The CLI's conversation to go on with, from the next process on.
    pub async fn set_cli_session_id(self: &Arc<Self>, id: String) -> Result<(), StoreError> {
        self.set_text("cli_session", Some(id), |state, id| {
            // A process that talks about something else is of no use any more.
            state.retire |= state.cli_session != id;
            state.cli_session = id;
        })
        .await?;
        self.wake.notify_one();
        Ok(())
    }

    /// Whose it is.
    pub async fn set_owner(self: &Arc<Self>, owner: Option<String>) -> Result<(), StoreError> {
        self.set_text("owner", owner, |state, owner| state.owner = owner).await
    }

    /// Its name, and with it what it is called in a mesh.
    pub async fn set_name(self: &Arc<Self>, name: Option<String>) -> Result<(), StoreError> {
        let session = Arc::clone(self);
        let setting = async move {
            let (no, id, stored) = (session.no, session.id.clone(), name.clone());
            let ledger = Arc::clone(session.hub.approvals.ledger());
            let write = move |transaction: &rusqlite::Transaction<'_>| {
                rows::set_text(transaction, &ledger, no, "name", stored.as_deref())?;
                mail::address_of(transaction, no, &id, stored.as_deref())
            };
            let address = session.hub.store.write(points::SESSION_NAMED, write).await?;
            session.change(|state| (state.name, state.address) = (name, address));
            session.hub.tell();
            Ok(())
        };
        detached(setting).await?
    }

    /// On disk, then in memory, even if the caller stops waiting.
    async fn set_text(
        self: &Arc<Self>,
        column: &'static str,
        value: Option<String>,
        set: impl FnOnce(&mut State, Option<String>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let session = Arc::clone(self);
        let setting = async move {
            let (no, stored) = (session.no, value.clone());
            let ledger = Arc::clone(session.hub.approvals.ledger());
            let write = move |transaction: &rusqlite::Transaction<'_>| {
                rows::set_text(transaction, &ledger, no, column, stored.as_deref())
            };
            session.hub.store.write(points::SESSION_CHANGED, write).await?;
            session.change(|state| set(state, value));
            Ok(())
        };
        detached(setting).await?
    }

    /// What a door keeps with this session.
    #[must_use]
    pub fn door_state(&self, door: &'static str) -> Option<String> {
        self.state.lock().door_states.get(door).cloned()
    }

    /// Keeps a small text with this session: at once in memory, soon on disk. One that is too long is not kept.
    pub fn set_door_state(&self, door: &'static str, text: String) {
        if text.len() > DOOR_STATE_LIMIT {
            return;
        }
        self.state.lock().door_states.insert(door.to_owned(), text.clone());
        let no = self.no;
        // A full line means that the disk is behind; the next change is written again.
        self.hub.store.try_submit(points::DOOR_STATE_STORED, move |transaction| {
            rows::set_door_state(transaction, no, door, &text)
        });
    }

    /// The idle process has to make room.
    pub(crate) fn retire_process(&self) {
        self.change(|state| state.retire = true);
        self.wake.notify_one();
    }

    /// Starts the runner if there is none, and wakes it if there is.
    pub(crate) fn ensure_runner(self: &Arc<Self>) {
        let start = self.change(|state| !std::mem::replace(&mut state.runner, true));
        match start {
            true => drop(hostel_tasks::spawn(Runner::new(Arc::clone(self)).run())),
            false => self.wake.notify_one(),
        }
    }

    /// The runner has nothing left to do. Whether it may go is decided here, so that no prompt comes in between.
    pub(crate) fn runner_leaves(&self) -> bool {
        let leaves = self.change(|state| {
            let leaves = state.queue.is_empty() && state.untold.is_empty() && state.running.is_none();
            if leaves {
                state.runner = false;
            }
            leaves.then_some(state.closing.is_some())
        });
        if let Some(closed) = leaves {
            self.log.rest();
            self.runner_is_gone(closed);
        }
        leaves.is_some()
    }

    /// There is no store any more, as the daemon ends: nobody is to wait for what the next daemon will do.
    pub(crate) fn runner_gives_up(&self) {
        self.change(|state| state.runner = false);
        self.runner_is_gone(true);
    }

    fn runner_is_gone(&self, closed: bool) {
        if closed {
            self.hub.gone(self);
        }
        self.rests.send_modify(|count| *count += 1);
    }

    /// Waits until its runner has nothing to do. `false` when it takes too long.
    pub(crate) async fn rested(&self) -> bool {
        let mut rests = self.rests.subscribe();
        let rest = async {
            while self.state.lock().runner {
                // The sender lives as long as the session.
                rests.changed().await.ok();
            }
        };
        tokio::time::timeout(self.hub.patience(), rest).await.is_ok()
    }
}
