//! The conversation with one agent process, as a state machine over its journal.
//!
//! Invariant: state changes by what is in the journal and by nothing else. [`Driver::line`] is called for each line
//! the agent printed, [`Driver::sent`] when the mark of an input is read (the keeper writes it before the bytes reach
//! the agent), [`Driver::ended`] at the end. [`Driver::encode`] and [`Driver::wants`] only look. So a daemon that
//! reads a journal again after a crash arrives in exactly the state of the one before.
//!
//! The house sends one input at a time and reads its mark before it sends the next.

use serde::{Deserialize, Serialize};

use crate::event::{Event, Outcome, Usage};
use crate::raw::Raw;

/// What a person decided.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This once.
    AllowOnce,
    /// This once, knowing that others than root can change the code that will run as root.
    AllowChangeable,
    /// This tool for the rest of the session.
    AllowAlways,
    /// No; the agent goes on without it. The text, if any, is told to the agent.
    Reject(String),
    /// No, and this text takes the place of the tool's result.
    RejectWithEdit(String),
    /// Answers to the agent's multiple choice, by question.
    Answers(Vec<(String, String)>),
}

/// A call of a tool as a person was shown it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shown<'a> {
    /// The tool.
    pub tool: &'a str,
    /// What it would get.
    pub input: &'a Raw,
}

/// Something for the agent's standard input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Input<'a> {
    /// What the driver itself wants to say: a handshake, an automatic answer.
    Own,
    /// The prompt of a turn.
    Prompt {
        /// The turn.
        turn: u64,
        /// Its text.
        text: &'a str,
    },
    /// The answer to a question.
    Decision {
        /// The agent's id of it, as in [`Event::PermissionAsked`].
        request: &'a str,
        /// The answer.
        decision: &'a Decision,
        /// What was decided about. An answer that repeats it repeats this; without it, what the agent asked.
        shown: Option<Shown<'a>>,
    },
    /// Stop the running turn.
    Interrupt,
}

/// An input as the agent wants it in its present state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Encoded {
    /// These bytes, at least one.
    Bytes(Vec<u8>),
    /// Not yet: ask again after the next line.
    Later,
    /// The agent has no words for it: a signal to its process has to do.
    Signal,
    /// There is nothing to say any more (the question is gone, no turn runs).
    Nothing,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exit {
    /// Exit status, -1 when a signal ended it or nobody knows.
    pub code: i32,
    /// The signal, 0 if none.
    pub signal: i32,
    /// Its keeper died: how it really ended is not known.
    pub lost: bool,
    /// The house itself had signalled it: its end is no news and no failure.
    pub stopped: bool,
}

/// The agent is done with the running turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOver {
    /// What became of it.
    pub outcome: Outcome,
    /// Why it failed; empty otherwise. For people, and complete: it may be all they see.
    pub reason: String,
    /// What this turn cost.
    pub usage: Usage,
}

/// What was understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// Events in order.
    pub events: Vec<Event>,
    /// After these events the running turn is over.
    pub over: Option<TurnOver>,
}

/// The conversation with one process.
pub trait Driver: Send {
    /// A line of standard output, without its newline (a carriage return may still be there). Anything at all may
    /// come: what is not understood is passed over.
    fn line(&mut self, line: &[u8], heard: &mut Heard);

    /// What the driver wants to say by itself now. The same until `sent(Input::Own)`.
    fn wants(&self) -> Option<Vec<u8>>;

    /// Whether a prompt can be put now: the handshake is done and no turn runs.
    fn ready(&self) -> bool;

    /// An input in the present state. Never changes it.
    fn encode(&self, input: &Input<'_>) -> Encoded;

    /// The input is on its way: its mark was read.
    fn sent(&mut self, input: &Input<'_>, heard: &mut Heard);

    /// Whether standard input is to be closed now.
    fn wants_eof(&self) -> bool;

    /// The process has ended; `stderr` holds its last lines. A running turn is over with this, at the latest.
    fn ended(&mut self, exit: Exit, stderr: &str, heard: &mut Heard);

    /// The CLI's id of the conversation, once known: what a later process resumes.
    fn session_id(&self) -> Option<&str>;

    /// The state as text, taken between turns. `restore` of the same setup gives it back.
    fn save(&self) -> String;
}
