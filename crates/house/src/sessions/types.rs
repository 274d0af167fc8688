//! The nouns of sessions: what is asked for, what is told, what can go wrong.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Event, Hosting, Kind, Mode, Usage};
use hostel_guard::{Confinement, Guard, GuardStatus};
use serde::{Deserialize, Serialize};

use super::mail::{Launched, MailLimits, MeshPolicy};
use crate::processes::Origin;
use crate::store::StoreError;

/// An agent people can ask for by name.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// Its name.
    pub alias: String,
    /// How it is talked to.
    pub kind: Kind,
    /// The program and its first arguments; empty for the CLI's own name.
    pub command: Vec<String>,
    /// Variables over the daemon's own.
    pub env: Vec<(String, String)>,
    /// The model, unless the session chooses one.
    pub model: Option<String>,
    /// The mode, unless the session chooses one.
    pub mode: Option<Mode>,
    /// Where it works, unless the session says.
    pub cwd: Option<PathBuf>,
    /// What its processes may use.
    pub limits: AgentLimits,
    /// The guard around its processes.
    pub guard: Guard,
}

/// What an agent's processes may use; nothing set means no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AgentLimits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Hundredths of a core.
    pub cpu_percent: Option<u32>,
}

/// How sessions behave in a house.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The agents, by name.
    pub agents: Vec<AgentSpec>,
    /// What agents get as their environment, before their own additions.
    pub environment: Vec<(OsString, OsString)>,
    /// Prompts that may wait in one session, the running one not counted.
    pub queue: usize,
    /// Processes kept warm at once; the one idle for longest goes first.
    pub warm: usize,
    /// How long a warm process may be idle.
    pub idle: Duration,
    /// How long a turn may take.
    pub turn_limit: Duration,
    /// How long an agent has to stop by itself before it is killed.
    pub stop_grace: Duration,
    /// The longest line of an agent that is read; longer ones are passed over.
    pub line_limit: usize,
    /// The longest prompt.
    pub prompt_limit: usize,
    /// How long archived sessions are kept.
    pub keep_archived: Duration,
    /// What becomes of messages from meshes in a session that does not say.
    pub mesh: MeshPolicy,
    /// How much of them is taken.
    pub mail: MailLimits,
    /// A variable that tells each agent a file of its session's own: the variable, and the directory of the files.
    pub own_file: Option<(OsString, PathBuf)>,
}

/// A session to make.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id; a UUID is made up if none.
    pub id: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// The agent's alias.
    pub agent: String,
    /// Where it works, absolute; the agent's own place if none.
    pub cwd: Option<PathBuf>,
    /// What it may do; the agent's own default, else `Ask`, if none.
    pub mode: Option<Mode>,
    /// The model.
    pub model: Option<String>,
    /// How long its processes live.
    pub hosting: Hosting,
    /// The door it came in by.
    pub door: &'static str,
    /// Whose it is, in the door's own terms.
    pub owner: Option<String>,
    /// Variables over the agent's.
    pub env: Vec<(OsString, OsString)>,
    /// How long a question to a person waits.
    pub approval_wait: Duration,
    /// What becomes of messages from meshes; the house's own choice if none.
    pub mesh: Option<MeshPolicy>,
    /// Who asks for it from inside the house; none for somebody outside.
    pub maker: Option<Maker>,
}

/// A process inside the house that asks for a session: the session gets no more rights than its maker has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Maker {
    /// What the process descends from; the session is nobody's inside where that is not known.
    pub origin: Option<Origin>,
    /// The most that the session may do by itself.
    pub mode: Mode,
    /// The most that messages from meshes may become in it.
    pub mesh: MeshPolicy,
    /// The guard around the process; that of the session is at least as strict.
    pub guard: Confinement,
}

/// A change of a session's mode.
#[derive(Clone, Debug)]
pub struct ModeChange {
    /// What the session may do from the next turn on.
    pub mode: Mode,
    /// Who changes it, for the record.
    pub who: String,
    /// Whether they may give it more rights than it has.
    pub may_raise: bool,
}

/// Why a mode was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// It would give more rights than the session has, and whoever asks may not.
    #[error("the session is in mode `{}`, which may do less", .0.name())]
    Raises(Mode),
    /// The disk did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether something is going on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing runs and nothing waits.
    Idle,
    /// A turn runs or waits, or its end is not among the events yet.
    Busy,
}

/// Whether a session can be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It takes prompts.
    Live,
    /// It was closed; it can be brought back.
    Archived,
    /// It was ended for good.
    Killed,
}

/// A session at a moment.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The agent's alias.
    pub agent: String,
    /// How the agent is talked to.
    pub kind: Kind,
    /// The door it came in by.
    pub door: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Where it works.
    pub cwd: PathBuf,
    /// What it may do.
    pub mode: Mode,
    /// The model that was chosen.
    pub model_chosen: Option<String>,
    /// The model the agent reported last.
    pub model_reported: Option<String>,
    /// The CLI's own id of the conversation.
    pub cli_session_id: Option<String>,
    /// How long its processes live.
    pub hosting: Hosting,
    /// Whether it is in use.
    pub standing: Standing,
    /// Whether something is going on.
    pub status: Status,
    /// The turn that runs.
    pub running_turn: Option<u64>,
    /// How many prompts wait.
    pub queued: usize,
    /// Number of the last event.
    pub last_seq: u64,
    /// How many turns there have been, queued ones included.
    pub turns: u64,
    /// Nanoseconds of wall clock.
    pub created_ns: u64,
    /// When a message last started or was taken off the queue.
    pub active_ns: u64,
    /// All turns together.
    pub usage: Usage,
    /// The agent's process, while there is one.
    pub pid: Option<u32>,
    /// What it is called in a mesh: the second half of `host/name`.
    pub address: String,
    /// Where it was launched, if it was: it is there under that name, and nowhere else.
    pub launched: Option<Launched>,
    /// What becomes of messages from meshes.
    pub mesh: MeshPolicy,
    /// Who asked for it, where that was a process inside the house.
    pub made_by: Option<Origin>,
    /// The guard around its process, or around the next one; none for a session that is not in use.
    pub guard: Option<GuardStatus>,
}

/// One numbered event.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// The turn it belongs to; 0 before the first.
    pub turn: u64,
    /// Nanoseconds of wall clock, from the journal where it comes from there.
    pub time_ns: u64,
    /// What happened.
    pub event: Event,
}

/// What reading events brought.
#[derive(Clone, Debug, PartialEq)]
pub enum NextEvents {
    /// These, in order, at least one.
    Entries(Vec<Arc<Entry>>),
    /// These numbers are gone for good; reading goes on after them.
    Gap {
        /// The first that is missing.
        from: u64,
        /// The last that is missing.
        to: u64,
    },
    /// The session is closed and everything was handed out.
    Closed,
}

/// A prompt to send.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What is asked.
    pub text: String,
    /// The door it comes in by.
    pub door: &'static str,
}

/// A prompt that was taken: it is on disk and will be put to the agent exactly once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sent {
    /// Its turn.
    pub turn: u64,
    /// 0 when it starts at once, else its place in the queue, from 1.
    pub position: usize,
    /// Number of the last event before it was taken: everything about it comes after this.
    pub after_seq: u64,
}

/// What is to be stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// The running turn.
    Running,
    /// The running turn and everything that waits.
    Everything,
}

/// Why a turn is stopped.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A client asked for it.
    ClientRpc,
    /// Somebody ended the session for good.
    AdminKill,
    /// The session was closed.
    SessionRemoved,
    /// It took too long.
    TimeLimit,
    /// Its entry in `state.db` is not the one that the house wrote.
    Tampered,
}

impl Cause {
    /// The word for it on the wire and on disk.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Cause::ClientRpc => "client_rpc",
            Cause::AdminKill => "admin_kill",
            Cause::SessionRemoved => "session_removed",
            Cause::TimeLimit => "time_limit",
            Cause::Tampered => "tampered",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Cause> {
        [Cause::ClientRpc, Cause::AdminKill, Cause::SessionRemoved, Cause::TimeLimit, Cause::Tampered]
            .into_iter()
            .find(|cause| cause.word() == word)
    }
}

/// One turn as it is remembered.
#[derive(Clone, Debug)]
pub struct TurnInfo {
    /// Its number.
    pub turn: u64,
    /// What was asked.
    pub prompt: String,
    /// The door it came in by.
    pub door: String,
    /// `queued`, `running`, `completed`, `failed` or `cancelled`.
    pub state: String,
    /// The answer, or the reason why there is none.
    pub answer: String,
    /// When it was taken, nanoseconds of wall clock.
    pub queued_ns: u64,
    /// When it ended; 0 before.
    pub ended_ns: u64,
    /// What it cost.
    pub usage: Usage,
}

/// Why there is no such session, or none of the kind that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Nobody knows the agent.
    #[error("there is no agent `{alias}`; there are: {known}")]
    UnknownAgent {
        /// What was asked for.
        alias: String,
        /// What there is.
        known: String,
    },
    /// An agent that would be there by itself if its CLI were installed.
    #[error(
        "the agent `{cli}` cannot be used: the daemon found no `{cli}` on its PATH when it started; install it \
         (`npm install -g {package}`) and start the daemon again, or set `command` in [agents.{cli}] of hostel.toml"
    )]
    MissingCli {
        /// The agent, which is called like its CLI.
        cli: &'static str,
        /// The npm package the CLI comes in.
        package: &'static str,
    },
    /// The directory is not there.
    #[error("the directory `{0}` does not exist; create it, or start the session elsewhere")]
    NoDirectory(String),
    /// The id is taken by a session of another agent, or cannot be one.
    #[error("{0}")]
    BadId(String),
    /// It was killed and cannot come back.
    #[error("the session `{0}` was ended for good")]
    Killed(String),
    /// There is none.
    #[error("there is no session `{0}`")]
    NotFound(String),
    /// A limit is reached.
    #[error("{0}")]
    Limit(String),
    /// A process inside the house asks for a session with more rights than its own.
    #[error("{0}")]
    MoreRights(String),
    /// The disk did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a prompt was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// Too many wait.
    #[error("{0} prompts are waiting already; wait for an answer, or interrupt")]
    QueueFull(usize),
    /// It is too long.
    #[error("the prompt has {len} bytes, {limit} are allowed")]
    TooLong {
        /// How long it is.
        len: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The disk did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}
