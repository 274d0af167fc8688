//! Any program that speaks the Agent Client Protocol (version 1) on its standard input and output.
//!
//! Invariant: everything the driver says by itself goes through one queue, first in, first out, so that what `wants`
//! showed is what `sent` takes away, whatever lines came in between. What an agent says outside a turn is never part
//! of one: a replayed history, late words, questions nobody can be asked any more.
//!
//! It offers the agent neither files nor terminals, and never answers a question in a person's place but with
//! `cancelled`.

mod opening;
mod question;
mod turn;
mod update;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::command;
use crate::driver::{Driver, Encoded, Exit, Heard, Input};
use crate::ending;
use crate::jsonrpc::{self, Message};
use crate::launch::{Hosting, Launch, Setup};
use crate::text;

use opening::Opening;
use question::Question;
use turn::Turn;

/// Own words that may wait to be sent. An agent that asks for more without reading gets no answer to the rest.
const OUTBOX_LIMIT: usize = 1024;

/// How much of what a program said on standard error is told.
const STDERR_LIMIT: usize = 4096;

pub(crate) fn launch(setup: &Setup) -> Launch {
    command::base(setup, "")
}

pub(crate) fn driver(setup: &Setup) -> Box<dyn Driver> {
    Box::new(Acp::new(setup))
}

pub(crate) fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    let state = serde_json::from_str(saved).map_err(|error| format!("no saved state of an ACP agent: {error}"))?;
    Ok(Box::new(Acp { setup: Setup { prompt: None, ..setup.clone() }, state }))
}

/// The conversation.
struct Acp {
    setup: Setup,
    state: State,
}

/// Where it stands.
#[derive(Default, Deserialize, Serialize)]
struct State {
    /// The id of our next request.
    next_id: u64,
    /// What the driver wants to say, oldest first, as lines.
    outbox: VecDeque<String>,
    /// How far the conversation has been opened.
    opening: Opening,
    /// The running turn.
    turn: Option<Turn>,
    /// A turn has been and is over.
    over: bool,
    /// What the agent waits to be told.
    questions: Vec<Question>,
    /// What the session has cost so far; unknown for one that began in an earlier process.
    cost: Option<f64>,
}

impl Acp {
    fn new(setup: &Setup) -> Self {
        let mut acp = Acp { setup: Setup { prompt: None, ..setup.clone() }, state: State::default() };
        acp.open();
        acp
    }

    /// Something for the agent, in its turn.
    fn say(&mut self, line: Vec<u8>) {
        if self.state.outbox.len() < OUTBOX_LIMIT {
            self.state.outbox.extend(String::from_utf8(line));
        }
    }

    /// A request of ours, in its turn. Gives its id.
    fn ask(&mut self, method: &str, params: &impl Serialize) -> u64 {
        let id = self.state.next_id;
        self.state.next_id += 1;
        self.say(jsonrpc::request(id, method, params));
        id
    }

    /// A process for one prompt that has had it.
    fn spent(&self) -> bool {
        self.setup.hosting == Hosting::PerMessage && self.state.over
    }

    fn respond(&mut self, line: &str, id: u64, result: Result<text::Field<'_>, jsonrpc::Failure>, heard: &mut Heard) {
        if self.state.turn.as_ref().is_some_and(|turn| turn.id == id) {
            self.finish(line, result, heard);
        } else {
            self.opened(line, id, result, heard);
        }
    }
}

impl Driver for Acp {
    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        if self.state.opening.failure.is_some() {
            return;
        }
        let line = text::line(line);
        if let Some(piece) = update::piece(&line) {
            self.piece(piece, heard);
            return;
        }
        match jsonrpc::parse(&line) {
            Some(Message::Notification { method, params }) => match &*method {
                "session/update" => self.update(params, heard),
                "$/cancel_request" => self.withdraw(params, heard),
                _ => {}
            },
            Some(Message::Request { id, method, params }) => match &*method {
                "session/request_permission" => self.asked(id, params, heard),
                _ => {
                    let message = format!("Method not found: {}", text::head(&method, 200));
                    self.say(jsonrpc::refusal(id, jsonrpc::METHOD_NOT_FOUND, &message));
                }
            },
            Some(Message::Response { id: Some(id), result }) => self.respond(&line, id, result, heard),
            Some(Message::Response { id: None, .. }) | None => {}
        }
    }

    fn wants(&self) -> Option<Vec<u8>> {
        self.state.outbox.front().map(|line| line.clone().into_bytes())
    }

    fn ready(&self) -> bool {
        self.state.opening.is_open() && self.state.turn.is_none() && !self.spent()
    }

    fn encode(&self, input: &Input<'_>) -> Encoded {
        match input {
            Input::Own => self.wants().map_or(Encoded::Nothing, Encoded::Bytes),
            Input::Prompt { text, .. } => self.encode_prompt(text),
            Input::Decision { request, decision, .. } => self.encode_decision(request, decision),
            Input::Interrupt => self.encode_interrupt(),
        }
    }

    fn sent(&mut self, input: &Input<'_>, heard: &mut Heard) {
        match input {
            Input::Own => {
                self.state.outbox.pop_front();
            }
            Input::Prompt { .. } => self.begin(),
            Input::Decision { request, decision, .. } => self.answered(request, decision),
            Input::Interrupt => self.interrupted(heard),
        }
    }

    fn wants_eof(&self) -> bool {
        self.state.opening.failure.is_some() || (self.spent() && self.state.outbox.is_empty())
    }

    fn ended(&mut self, exit: Exit, stderr: &str, heard: &mut Heard) {
        self.forget_questions(heard);
        let ran = self.state.turn.take();
        let waiting = !self.spent()
            && self.state.opening.failure.is_none()
            && (!self.state.opening.is_open() || self.setup.hosting == Hosting::PerMessage);
        if let Some(mut turn) = ran {
            turn.flush(heard);
        } else if !waiting {
            return;
        }
        // An exit without fault is none for somebody who waits for an answer: only what it said can explain it.
        let complaint = (exit.code == 0 && exit.signal == 0 && !exit.lost).then(|| {
            let last = text::tail(stderr.trim(), STDERR_LIMIT);
            let colon = if last.is_empty() { "" } else { ": " };
            format!("the agent ended without an answer{colon}{last}")
        });
        self.state.over = true;
        ending::of_process(&self.setup, exit, stderr, None, complaint, heard);
    }

    fn session_id(&self) -> Option<&str> {
        self.state.opening.session_id()
    }

    fn save(&self) -> String {
        serde_json::to_string(&self.state).unwrap_or_default()
    }
}
