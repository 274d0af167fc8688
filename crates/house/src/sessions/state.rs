//! What changes about a session, as its doors and its runner share it.
//!
//! Invariant: it is looked at and changed under one lock that nobody holds while waiting.

use std::collections::{HashMap, VecDeque};

use hostel_agents::{Mode, Usage};
use hostel_guard::Confinement;

use super::mail::MeshPolicy;
use super::prompts::Proof;
use super::rows::OpenTurn;
use super::types::{Cause, Standing, Status};
use crate::processes::{Process, ProcessId};

/// A prompt that waits.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) turn: u64,
    pub(crate) prompt: String,
    pub(crate) door: String,
    /// Nobody can prove any more that the house took it: its turn asks before it writes.
    pub(crate) unproved: bool,
}

impl Queued {
    /// What its seal covers.
    pub(crate) fn proof(&self) -> Proof {
        Proof::of(&self.prompt, &self.door, self.unproved)
    }
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
    pub(crate) process: Option<ProcessId>,
    pub(crate) pid: Option<u32>,
    /// The guard around that process.
    pub(crate) confinement: Option<Confinement>,
    /// A runner is at work.
    pub(crate) runner: bool,
    /// The idle process is to go.
    pub(crate) retire: bool,
    /// The session is being closed.
    pub(crate) closing: Option<Cause>,
    /// What it is called in a mesh.
    pub(crate) address: String,
    /// What becomes of messages for it.
    pub(crate) mesh: MeshPolicy,
    /// Counted among the busy ones.
    pub(super) counted: bool,
    pub(super) door_states: HashMap<String, String>,
}

impl State {
    /// The process that serves the session from now on.
    pub(super) fn set_process(&mut self, process: Option<&Process>) {
        self.process = process.map(Process::id);
        self.pid = process.map(Process::pid);
        self.confinement = process.and_then(Process::confinement).cloned();
    }

    /// How many prompts wait. The first of an idle session is as good as running: its runner is on its way.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len() - usize::from(self.running.is_none() && !self.queue.is_empty())
    }

    /// A turn is as good as running, or runs.
    pub(super) fn has_turn(&self) -> bool {
        self.running.is_some() || !self.queue.is_empty()
    }

    /// Not idle before the end of everything that was taken is among the events.
    pub(super) fn status(&self) -> Status {
        match self.has_turn() || !self.untold.is_empty() {
            true => Status::Busy,
            false => Status::Idle,
        }
    }
}
