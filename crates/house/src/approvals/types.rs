//! The nouns of consent: a request, what it is about, who asks, where it stands.
//!
//! Invariant: a subject is exact. What is stored, what a person is shown and what is carried out are the same bytes, and
//! their digest is in every record of the audit about it.
//!
//! Nothing here decides or writes.

use std::time::Duration;

use hostel_agents::{Decision, Raw};
use hostel_peer::PeerInfo;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::pipelines::{Outcome, Pipeline};
use crate::processes::ProcessId;
use crate::seals::Seal;
use crate::sessions::Letter;
use crate::store::StoreError;

/// Where a request stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// Nobody has answered.
    Pending,
    /// Somebody agreed.
    Approved,
    /// Somebody refused.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// Whoever asked no longer wants to know.
    Withdrawn,
}

impl State {
    pub(super) const ALL: [State; 5] =
        [State::Pending, State::Approved, State::Denied, State::Expired, State::Withdrawn];

    /// The word for it on the wire and on disk.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Denied => "denied",
            State::Expired => "expired",
            State::Withdrawn => "withdrawn",
        }
    }
}

/// What kind of request it is: who may decide depends on it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// An agent wants to use a tool.
    Tool,
    /// A command pipeline as the daemon's user.
    Pipeline,
    /// A command pipeline as root.
    Privileged,
    /// A plain question.
    Question,
    /// A message that came over a mesh, to be put to an agent.
    Letter,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [Kind::Tool, Kind::Pipeline, Kind::Privileged, Kind::Question, Kind::Letter];

    /// The word for it on the wire and on disk.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Tool => "agent_tool",
            Kind::Pipeline => "pipeline",
            Kind::Privileged => "privileged_pipeline",
            Kind::Question => "question",
            Kind::Letter => "mesh_message",
        }
    }
}

/// What is asked, exactly.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// May an agent use a tool?
    Tool {
        /// The tool.
        tool: String,
        /// What it would get.
        input: Raw,
    },
    /// May this run?
    Pipeline(Pipeline),
    /// Yes or no?
    Question {
        /// The question.
        text: String,
        /// What belongs to it.
        details: String,
    },
    /// May this message be put to an agent?
    Letter {
        /// The session's id.
        session: String,
        /// What people call the session.
        name: String,
        /// The message.
        letter: Letter,
    },
}

impl Subject {
    /// What kind of request it makes.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Subject::Tool { .. } => Kind::Tool,
            Subject::Pipeline(pipeline) if pipeline.privilege.is_privileged() => Kind::Privileged,
            Subject::Pipeline(_) => Kind::Pipeline,
            Subject::Question { .. } => Kind::Question,
            Subject::Letter { .. } => Kind::Letter,
        }
    }

    /// The pipeline, if it is one.
    #[must_use]
    pub fn pipeline(&self) -> Option<&Pipeline> {
        match self {
            Subject::Pipeline(pipeline) => Some(pipeline),
            _ => None,
        }
    }

    /// The bytes that are stored and that the digest is of. None if it cannot be written down, which text always can.
    pub(super) fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

/// The digest of a subject's stored bytes.
pub(super) fn digest_of(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Who asks. All but `door` and `peer` is what they say themselves.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Requester {
    /// The door it came in by.
    pub door: String,
    /// The session, as told; for a tool the house's own session.
    pub session: String,
    /// The host, as told.
    pub host: String,
    /// The client and its version, as told; for a tool the agent.
    pub client: String,
    /// The process at the other end, as the system knows it.
    pub peer: Option<PeerInfo>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Approval {
    /// Its number in this house.
    pub(crate) no: u64,
    /// Its id.
    pub id: String,
    /// The house's session that asks; empty unless it is about a tool.
    pub session: String,
    /// The turn it is about.
    pub turn: u64,
    /// The tool; the word of the kind unless it is about a tool.
    pub tool: String,
    /// What the tool would get.
    pub input: Raw,
    /// One line for people.
    pub summary: String,
    /// Where it stands.
    pub state: State,
    /// Nanoseconds of wall clock.
    pub created_ns: u64,
    /// When it is refused by itself. Moves while its clock has not begun.
    pub expires_ns: u64,
    /// When it was settled; 0 before.
    pub decided_ns: u64,
    /// The answer.
    pub decision: Option<Decision>,
    /// Who answered, in words.
    pub decider: String,
    /// What kind it is.
    pub kind: Kind,
    /// What is asked, exactly.
    pub subject: Subject,
    /// Who asks.
    pub requester: Requester,
    /// Why, as told.
    pub reason: String,
    /// The rule or grant that decided; empty if a person did.
    pub rule: String,
    /// When a face first showed it; 0 = not yet.
    pub shown_ns: u64,
    /// The processes that carry it out, one for each stage, chosen with the approval.
    pub runs: Vec<ProcessId>,
    /// The keeper that was there when they were chosen: only that one starts them once and never twice.
    pub keeper: Option<KeeperId>,
    /// How far it was carried out.
    pub run: RunState,
    /// How its execution ended, once that is known.
    pub outcome: Option<Outcome>,
    /// SHA-256 of the subject's stored bytes: what was shown.
    pub digest: [u8; 32],
    /// The life that begins when it is shown; 0 once the clock runs.
    pub(super) life_ns: u64,
    /// The connection it belongs to.
    pub(super) connection: Option<Connection>,
    /// The process that asks.
    pub(crate) process: Option<ProcessId>,
    /// The asker's own id of the request.
    pub(crate) request: String,
    /// The number of the event that asked.
    pub(crate) seq: u64,
    pub(super) stored: Stored,
}

/// Parts of a request's row as they stand there. The seal is made of these bytes and not of what they were read as: a later
/// program may write the same thing differently.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    /// The row of the session that asks.
    pub(super) session: Option<i64>,
    pub(super) requester: String,
    pub(super) decision: Option<String>,
    pub(super) outcome: Option<String>,
    /// The request can still have an effect.
    pub(super) open: bool,
    /// A column cannot be read, which the house does not write like that.
    pub(super) unreadable: bool,
    /// The seal that stands in the row.
    pub(super) seal: Option<Seal>,
}

impl Approval {
    /// Whether it can still have an effect, as far as the request itself says. A question of an agent can until its
    /// process has ended, and an agreed message until it is a prompt; whoever ends those closes the request.
    pub(super) fn may_have_effect(&self) -> bool {
        match self.state {
            State::Pending => true,
            _ if self.process.is_some() => true,
            State::Approved => match self.kind {
                Kind::Pipeline | Kind::Privileged => matches!(self.run, RunState::Due | RunState::Started),
                Kind::Letter => true,
                Kind::Question => self.connection.is_some(),
                Kind::Tool => false,
            },
            State::Denied | State::Expired | State::Withdrawn => false,
        }
    }

    /// The asker's own id of the request; empty if it has none.
    #[must_use]
    pub fn told_id(&self) -> &str {
        &self.request
    }
}

/// How far an approved request was carried out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RunState {
    /// There is nothing to carry out.
    None,
    /// It may be, and nothing is known to have been started.
    Due,
    /// It was started, or is about to be.
    Started,
    /// Its outcome is known.
    Over,
}

impl RunState {
    pub(super) const ALL: [RunState; 4] = [RunState::None, RunState::Due, RunState::Started, RunState::Over];

    /// The word for it on disk.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunState::None => "none",
            RunState::Due => "due",
            RunState::Started => "started",
            RunState::Over => "over",
        }
    }
}

/// Which keeper: a number that was given away again is another keeper.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeeperId {
    /// Its process.
    pub pid: u32,
    /// When it was started.
    pub since_ns: u64,
}

/// How long a request waits for an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Life {
    /// This long from now.
    Fixed(Duration),
    /// This long from when a face first shows it; from now if no face is attached.
    FromShown(Duration),
}

/// The connection a request belongs to: who leaves withdraws it, and after a restart of ours the same id and bytes take
/// it up again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Connection {
    /// The request's own id.
    pub request_id: String,
    /// SHA-256 of the whole line.
    pub bytes: [u8; 32],
}

/// A request to be made.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// What is asked.
    pub subject: Subject,
    /// Who asks.
    pub requester: Requester,
    /// One line for people.
    pub summary: String,
    /// Why, as told.
    pub reason: String,
    /// How long it waits.
    pub life: Life,
    /// The connection it belongs to, if it does.
    pub connection: Option<Connection>,
}

/// Why a request was not even made.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Too many wait.
    #[error("{0} requests wait for an answer already")]
    Full(usize),
    /// It is too large to be read by anybody.
    #[error("the request is too large: {size} bytes, at most {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The most there may be.
        limit: usize,
    },
    /// The disk did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such request.
    #[error("there is no approval `{0}`")]
    NotFound(String),
    /// It was settled before.
    #[error("this approval is {} already", .0.word())]
    Settled(State),
    /// Whoever decides may not, or not like this.
    #[error("{0}")]
    Refused(String),
    /// That is not the passphrase.
    #[error("that is not the approver's passphrase; {left} more tries before a pause")]
    WrongPassphrase {
        /// Wrong ones that are taken before nothing is for a while.
        left: u32,
    },
    /// Too many wrong passphrases.
    #[error("too many wrong passphrases: none is taken for another {} s", pause(*until_ns))]
    LockedOut {
        /// Until when, nanoseconds of wall clock.
        until_ns: u64,
    },
    /// It takes the passphrase, and there is none.
    #[error("no approver's passphrase is set; set one with `hostel approver set`")]
    NoPassphraseSet,
    /// The disk did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn pause(until_ns: u64) -> u64 {
    until_ns.saturating_sub(crate::sessions::now_ns()).div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_told_in_whole_seconds_that_are_left() {
        let told = |until_ns| DecideError::LockedOut { until_ns }.to_string();
        let now = crate::sessions::now_ns();
        assert_eq!(told(now), "too many wrong passphrases: none is taken for another 0 s");
        let far = told(now + 1_000_000 * 1_000_000_000);
        let seconds: u64 = far.rsplit(' ').nth(1).unwrap().parse().unwrap();
        assert!((999_000..=1_000_000).contains(&seconds), "{far}");
    }
}
