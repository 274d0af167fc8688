//! `codex app-server`: one thread over many turns, spoken to in JSON-RPC lines without the `jsonrpc` field.
//!
//! Invariant: what the driver itself wants to say stands in one queue in the order it came up, so that the mark of an
//! input always means the front of it. Ids of requests are fixed by the order of marks, never by time.
//!
//! A turn is told only when the thread is idle: on a busy one it would quietly steer the running turn.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ask::Question;
use super::tokens::Tokens;
use crate::driver::{Driver, Encoded, Exit, Heard, Input, TurnOver};
use crate::ending;
use crate::event::{Event, Outcome, Usage};
use crate::launch::Setup;
use crate::raw::Raw;
use crate::text::{Gathered, ToolNames};

/// Questions, automatic answers and changes of files that may wait at once.
pub(super) const WAITING_LIMIT: usize = 256;

/// The ids of the handshake; those of turns follow.
pub(super) const INITIALIZE: u64 = 1;
pub(super) const THREAD: u64 = 2;

/// Notifications that would only fill the journal: their content comes with the item, or is nothing to a session.
const UNWANTED: [&str; 8] = [
    "account/rateLimits/updated",
    "configWarning",
    "deprecationNotice",
    "item/commandExecution/outputDelta",
    "remoteControl/status/changed",
    "thread/started",
    "thread/status/changed",
    "turn/diff/updated",
];

/// How far the conversation has come.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) enum Phase {
    /// The thread is not there yet.
    #[default]
    Handshake,
    /// The thread is there.
    Open,
    /// There will be none.
    Broken,
}

/// The turn that runs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Turn {
    /// The id of our request for it.
    pub(super) request: u64,
    /// Codex's id of it, once told.
    pub(super) id: Option<String>,
    /// The last error that was told.
    pub(super) complaint: Option<String>,
}

/// Saved as it is; what an older program did not save yet has its default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) thread: Option<String>,
    pub(super) turn: Option<Turn>,
    /// The id of the last request that was sent, or will be from the queue.
    pub(super) last_id: u64,
    pub(super) outbox: VecDeque<String>,
    pub(super) questions: Vec<Question>,
    /// What items would change, for the questions about them.
    pub(super) changes: VecDeque<(String, Raw)>,
    pub(super) tools: ToolNames,
    /// The message that is being said, and its thought.
    pub(super) message: Gathered,
    pub(super) thought: Gathered,
    /// Tokens of the thread now, and before the running turn.
    pub(super) total: Option<Tokens>,
    pub(super) before: Option<Tokens>,
}

pub(super) struct Server {
    setup: Setup,
    pub(super) state: State,
}

impl Server {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut server = Server { setup: Setup { prompt: None, ..setup.clone() }, state: State::default() };
        server.state.last_id = THREAD;
        server.say(request(
            INITIALIZE,
            "initialize",
            &json!({
                "clientInfo": {"name": "hostel", "title": "Hostel", "version": env!("CARGO_PKG_VERSION")},
                "capabilities": {"optOutNotificationMethods": UNWANTED},
            }),
        ));
        server
    }

    pub(super) fn restore(setup: &Setup, saved: &str) -> Result<Self, serde_json::Error> {
        Ok(Server { setup: Setup { prompt: None, ..setup.clone() }, state: serde_json::from_str(saved)? })
    }

    pub(super) fn say(&mut self, line: String) {
        if self.state.outbox.len() < WAITING_LIMIT {
            self.state.outbox.push_back(line);
        }
    }

    /// The second half of the handshake: a new thread, or an old one without its history.
    pub(super) fn open_thread(&mut self) {
        let mut params = json!({
            "cwd": self.setup.cwd,
            "approvalPolicy": super::approval_policy(self.setup.mode),
            // A person, whatever the user's own settings say.
            "approvalsReviewer": "user",
            "sandbox": super::sandbox(&self.setup),
        });
        if let Some(model) = &self.setup.model {
            params["model"] = json!(model);
        }
        let method = if let Some(id) = &self.setup.resume {
            params["threadId"] = json!(id);
            params["excludeTurns"] = json!(true);
            "thread/resume"
        } else {
            "thread/start"
        };
        // One piece, as the notification needs no answer.
        self.say(format!("{{\"method\":\"initialized\"}}\n{}", request(THREAD, method, &params)));
    }

    /// The turn is over, or the first one cannot begin.
    pub(super) fn close_turn(&mut self, outcome: Outcome, reason: String, heard: &mut Heard) {
        self.flush(heard);
        self.state.turn = None;
        heard.over = Some(TurnOver { outcome, reason, usage: self.usage() });
    }

    /// What the running turn has used; the next one starts from here.
    fn usage(&mut self) -> Usage {
        let used = self.state.total.zip(self.state.before).map(|(total, before)| total.since(before));
        self.state.before = self.state.total.or(self.state.before);
        used.unwrap_or_default().into()
    }

    /// Tells as a whole what has come in pieces and will not be closed by an item of its own.
    pub(super) fn flush(&mut self, heard: &mut Heard) {
        if let Some(text) = self.state.thought.take() {
            heard.events.push(Event::Thought { text, streamed: true });
        }
        if let Some(text) = self.state.message.take() {
            heard.events.push(Event::Text { text, streamed: true });
        }
    }

    fn prompt(&self, text: &str) -> Encoded {
        if !self.ready() {
            return Encoded::Later;
        }
        let params = json!({"threadId": self.state.thread, "input": [{"type": "text", "text": text}]});
        Encoded::Bytes(request(self.state.last_id + 1, "turn/start", &params).into_bytes())
    }

    fn interrupt(&self) -> Encoded {
        match &self.state.turn {
            None => Encoded::Nothing,
            // Codex tells the turn's id at once; without it there is nothing to interrupt.
            Some(Turn { id: None, .. }) => Encoded::Later,
            Some(Turn { id: Some(id), .. }) => {
                let params = json!({"threadId": self.state.thread, "turnId": id});
                Encoded::Bytes(request(self.state.last_id + 1, "turn/interrupt", &params).into_bytes())
            }
        }
    }
}

fn request(id: u64, method: &str, params: &serde_json::Value) -> String {
    format!("{}\n", json!({"id": id, "method": method, "params": params}))
}

impl Driver for Server {
    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        self.read(line, heard);
    }

    fn wants(&self) -> Option<Vec<u8>> {
        self.state.outbox.front().map(|line| line.clone().into_bytes())
    }

    fn ready(&self) -> bool {
        self.state.phase == Phase::Open && self.state.turn.is_none()
    }

    fn encode(&self, input: &Input<'_>) -> Encoded {
        match input {
            Input::Own => self.wants().map_or(Encoded::Nothing, Encoded::Bytes),
            Input::Prompt { text, .. } => self.prompt(text),
            Input::Decision { request, decision, shown } => {
                let question = self.state.questions.iter().find(|question| question.request == *request);
                question
                    .map_or(Encoded::Nothing, |question| Encoded::Bytes(question.answer(decision, *shown).into_bytes()))
            }
            Input::Interrupt => self.interrupt(),
        }
    }

    fn sent(&mut self, input: &Input<'_>, _heard: &mut Heard) {
        match input {
            Input::Own => {
                self.state.outbox.pop_front();
            }
            Input::Prompt { .. } => {
                self.state.last_id += 1;
                self.state.turn = Some(Turn { request: self.state.last_id, ..Turn::default() });
            }
            Input::Decision { request, .. } => self.state.questions.retain(|question| question.request != *request),
            Input::Interrupt => self.state.last_id += 1,
        }
    }

    fn wants_eof(&self) -> bool {
        self.state.phase == Phase::Broken
    }

    fn ended(&mut self, exit: Exit, stderr: &str, heard: &mut Heard) {
        for question in self.state.questions.drain(..) {
            heard.events.push(Event::PermissionWithdrawn { request: question.request });
        }
        // Whoever waits to tell the first prompt has a turn that will not run.
        let waiting = self.state.phase != Phase::Broken && self.state.last_id == THREAD;
        self.state.phase = Phase::Broken;
        if self.state.turn.is_none() && !waiting {
            return;
        }
        self.flush(heard);
        let complaint = self.state.turn.take().and_then(|turn| turn.complaint);
        ending::of_process(&self.setup, exit, stderr, None, complaint, heard);
        let usage = self.usage();
        if let Some(over) = &mut heard.over {
            over.usage = usage;
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.state.thread.as_deref()
    }

    fn save(&self) -> String {
        serde_json::to_string(&self.state).unwrap_or_default()
    }
}
