//! One session, as doors see it: take prompts, stop them, follow events.
//!
//! Invariant: everything that changes the queue goes through one gate, in order, and is on disk before it is in
//! memory. The work itself is done by the session's runner, a task that exists only while there is something to do.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_agents::{Hosting, Kind, Mode, Usage};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::log::{Events, Log};
use super::rows::{self, OpenTurn, SessionRow};
use super::runner::Runner;
use super::types::{Cause, Prompt, Scope, SendError, Sent, SessionInfo, Standing, Status};
use super::{Hub, now_ns};
use crate::store::StoreError;

/// The longest text a door may keep with a session.
const DOOR_STATE_LIMIT: usize = 4096;

/// A prompt that waits.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) turn: u64,
    pub(crate) prompt: String,
    pub(crate) door: String,
}

/// The turn that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) turn: u64,
    pub(crate) cause: Option<Cause>,
}

/// What changes about a session.
pub(crate) struct State {
    pub(crate) name: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) mode: Mode,
    pub(crate) model: Option<String>,
    pub(crate) model_told: Option<String>,
    pub(crate) cli_session: Option<String>,
    pub(crate) standing: Standing,
    pub(crate) active_ns: u64,
    pub(crate) usage: Usage,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) running: Option<Running>,
    pub(crate) turns: u64,
    /// Prompts that were cancelled while they waited; their end is not among the events yet.
    pub(crate) untold: VecDeque<(u64, Cause)>,
    /// A turn that was running when the last daemon ended.
    pub(crate) interrupted: Option<OpenTurn>,
    pub(crate) pid: Option<u32>,
    /// A runner is at work.
    pub(crate) runner: bool,
    /// The idle process is to go.
    pub(crate) retire: bool,
    /// The session is being closed.
    pub(crate) closing: Option<Cause>,
    /// Counted among the busy ones.
    counted: bool,
    door_states: HashMap<String, String>,
}

impl State {
    /// How many prompts wait. The first of an idle session is as good as running: its runner is on its way.
    fn waiting(&self) -> usize {
        self.queue.len() - usize::from(self.running.is_none() && !self.queue.is_empty())
    }

    fn status(&self) -> Status {
        match self.running.is_none() && self.queue.is_empty() {
            true => Status::Idle,
            false => Status::Busy,
        }
    }
}

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
    state: Mutex<State>,
    pub(crate) log: Arc<Log>,
    /// Orders what changes the queue.
    gate: tokio::sync::Mutex<()>,
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
    pub(crate) fn from_row(hub: &Arc<Hub>, row: SessionRow, door_states: Vec<(String, String)>) -> Arc<Self> {
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
            pid: None,
            runner: false,
            retire: false,
            closing: closed.then_some(Cause::SessionRemoved),
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
        let (open, untold) = self
            .hub
            .store
            .read(move |connection| Ok((rows::open_turns(connection, no)?, rows::untold_turns(connection, no)?)))
            .await?;
        self.change(|state| {
            for turn in open {
                if turn.running {
                    state.running = Some(Running { turn: turn.turn, cause: turn.cause });
                    state.interrupted = Some(turn);
                } else {
                    state.queue.push_back(Queued { turn: turn.turn, prompt: turn.prompt, door: turn.door });
                }
            }
            state.untold = untold.into();
        });
        if let Some(cause) = self.change(|state| state.closing) {
            self.stop(Scope::Everything, cause).await;
        }
        self.behind.send_replace(true);
        self.ensure_runner();
        Ok(())
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

    /// Takes a prompt. When this returns it is on disk and will be put to the agent exactly once.
    pub async fn send(self: &Arc<Self>, prompt: Prompt) -> Result<Sent, SendError> {
        let limit = self.hub.options.prompt_limit;
        if prompt.text.len() > limit {
            return Err(SendError::TooLong { len: prompt.text.len(), limit });
        }
        let _gate = self.gate.lock().await;
        let turn = {
            let state = self.state.lock();
            if state.standing != Standing::Live {
                return Err(SendError::Closed);
            }
            if state.status() == Status::Busy && state.waiting() >= self.hub.options.queue {
                return Err(SendError::QueueFull(state.waiting()));
            }
            state.turns + 1
        };
        let after_seq = self.log.last_seq();
        let (no, now, text, door) = (self.no, now_ns(), prompt.text.clone(), prompt.door);
        self.hub.store.write(move |transaction| rows::insert_turn(transaction, no, turn, &text, door, now)).await?;
        let position = self.change(|state| {
            state.turns = turn;
            state.active_ns = now;
            state.queue.push_back(Queued { turn, prompt: prompt.text, door: prompt.door.to_owned() });
            state.waiting()
        });
        self.ensure_runner();
        Ok(Sent { turn, position, after_seq })
    }

    /// Takes a prompt back that still waits. Its turn ends cancelled.
    pub async fn withdraw(self: &Arc<Self>, turn: u64) -> bool {
        let _gate = self.gate.lock().await;
        self.cancel_queued(Cause::ClientRpc, |queued| queued.turn == turn).await > 0
    }

    /// Cancels prompts that wait, on disk and then in memory. Returns how many.
    async fn cancel_queued(self: &Arc<Self>, cause: Cause, which: impl Fn(&Queued) -> bool) -> usize {
        let turns: Vec<u64> = {
            let mut state = self.state.lock();
            let (gone, kept) = state.queue.drain(..).partition(|queued| which(queued));
            state.queue = kept;
            let gone: VecDeque<Queued> = gone;
            gone.iter().map(|queued| queued.turn).collect()
        };
        if turns.is_empty() {
            return 0;
        }
        let (no, now, cancelled) = (self.no, now_ns(), turns.clone());
        let written = self.hub.store.write(move |transaction| {
            cancelled.iter().try_for_each(|turn| rows::cancel_queued(transaction, no, *turn, cause, now))
        });
        // A disk that does not take it lets the prompt run after the next start, which is no loss.
        written.await.ok();
        self.change(|state| state.untold.extend(turns.iter().map(|turn| (*turn, cause))));
        self.ensure_runner();
        turns.len()
    }

    /// Stops the running turn, or that and everything that waits. Returns whether there was something to stop; does
    /// not wait for its end.
    pub async fn interrupt(self: &Arc<Self>, scope: Scope, cause: Cause) -> bool {
        let _gate = self.gate.lock().await;
        self.stop(scope, cause).await
    }

    async fn stop(self: &Arc<Self>, scope: Scope, cause: Cause) -> bool {
        let running = self.state.lock().running;
        let waiting = match (scope, running) {
            (Scope::Everything, _) => self.cancel_queued(cause, |_| true).await,
            // The runner has not come to it yet: it is as good as running.
            (Scope::Running, None) => {
                let first = self.state.lock().queue.front().map(|queued| queued.turn);
                self.cancel_queued(cause, |queued| Some(queued.turn) == first).await
            }
            (Scope::Running, Some(_)) => 0,
        };
        let Some(running) = self.state.lock().running else { return waiting > 0 };
        let (no, turn) = (self.no, running.turn);
        let written = self.hub.store.write(move |transaction| rows::set_cause(transaction, no, turn, cause));
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
        {
            let _gate = self.gate.lock().await;
            let first = self.change(|state| {
                let first = state.standing == Standing::Live;
                state.standing = Standing::Archived;
                first
            });
            if first {
                let (no, now) = (self.no, now_ns());
                self.hub
                    .store
                    .write(move |transaction| rows::set_standing(transaction, no, Standing::Archived, now))
                    .await?;
                self.hub.leave(self);
                self.stop(Scope::Everything, cause).await;
                self.change(|state| state.closing = Some(cause));
                self.ensure_runner();
            }
        }
        let mut rests = self.rests.subscribe();
        while self.state.lock().runner {
            if rests.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// What it may do, from the next turn on.
    pub async fn set_mode(&self, mode: Mode) -> Result<(), StoreError> {
        self.set_text("mode", Some(mode.name().to_owned())).await?;
        self.change(|state| state.mode = mode);
        Ok(())
    }

    /// The model, from the next turn on; none for the agent's own choice.
    pub async fn set_model(&self, model: Option<String>) -> Result<(), StoreError> {
        self.set_text("model", model.clone()).await?;
        self.change(|state| state.model = model);
        Ok(())
    }

    /// The CLI's conversation to go on with, from the next process on.
    pub async fn set_cli_session_id(&self, id: String) -> Result<(), StoreError> {
        self.set_text("cli_session", Some(id.clone())).await?;
        self.change(|state| {
            let changed = state.cli_session.as_ref() != Some(&id);
            state.cli_session = Some(id);
            // A process that talks about something else is of no use any more.
            state.retire |= changed;
        });
        self.wake.notify_one();
        Ok(())
    }

    /// Whose it is.
    pub async fn set_owner(&self, owner: Option<String>) -> Result<(), StoreError> {
        self.set_text("owner", owner.clone()).await?;
        self.change(|state| state.owner = owner);
        Ok(())
    }

    /// Its name.
    pub async fn set_name(&self, name: Option<String>) -> Result<(), StoreError> {
        self.set_text("name", name.clone()).await?;
        self.change(|state| state.name = name);
        Ok(())
    }

    async fn set_text(&self, column: &'static str, value: Option<String>) -> Result<(), StoreError> {
        let no = self.no;
        let work =
            move |transaction: &rusqlite::Transaction<'_>| rows::set_text(transaction, no, column, value.as_deref());
        self.hub.store.write(work).await
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
        self.hub.store.try_submit(move |transaction| rows::set_door_state(transaction, no, door, &text));
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
            true => drop(tokio::spawn(Runner::new(Arc::clone(self)).run())),
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
            leaves
        });
        if leaves {
            self.log.rest();
            self.rests.send_modify(|count| *count += 1);
        }
        leaves
    }
}
