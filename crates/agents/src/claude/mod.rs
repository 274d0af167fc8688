//! Claude Code: its command lines and its conversation.
//!
//! Invariant: a prompt is told only when no turn runs, not even one that nobody asked for: claude would join waiting
//! messages into one turn with one result.
//!
//! A process made for one message gets the prompt as an argument or on its standard input, prints lines and ends. A
//! warm process, and one made for a message in `ask` mode, is spoken to in JSON lines: only there it can ask.

mod answer;
mod line;
mod result;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::command;
use crate::driver::{Driver, Encoded, Exit, Heard, Input};
use crate::ending::{self, Closing};
use crate::event::{Event, Usage};
use crate::launch::{Hosting, Launch, Mode, Setup};
use crate::text::ToolNames;
use answer::Question;

/// Questions and automatic answers that may wait at once. Nobody gets near it; what is more is refused or dropped.
const WAITING_LIMIT: usize = 256;

pub(crate) fn launch(setup: &Setup) -> Launch {
    let mut launch = command::base(setup, "claude");
    command::add(&mut launch, ["--print"]);
    match Talk::of(setup) {
        Talk::Argument => {
            launch.args.extend(command::prompt_argument(setup).map(str::to_owned));
            launch.prompt_in_args = true;
        }
        Talk::Stdin => {}
        Talk::Stream => {
            command::add(&mut launch, ["--input-format", "stream-json", "--permission-prompt-tool", "stdio"]);
        }
    }
    command::add(&mut launch, ["--output-format", "stream-json", "--include-partial-messages", "--verbose"]);
    match setup.mode {
        Mode::Auto => command::add(&mut launch, ["--dangerously-skip-permissions"]),
        Mode::Code => command::add(&mut launch, ["--permission-mode", "acceptEdits"]),
        Mode::Plan => command::add(&mut launch, ["--permission-mode", "plan"]),
        // Said all the same: the user's own settings may have another default.
        Mode::Ask => command::add(&mut launch, ["--permission-mode", "default"]),
    }
    if let Some(model) = &setup.model {
        command::add(&mut launch, ["--model", model]);
    }
    if let Some(id) = &setup.resume {
        command::add(&mut launch, ["--resume", id]);
    }
    if setup.root && setup.mode == Mode::Auto {
        // As root claude refuses to skip permissions, unless it is told that it is in a sandbox.
        launch.env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
    }
    launch
}

pub(crate) fn driver(setup: &Setup) -> Box<dyn Driver> {
    let talk = Talk::of(setup);
    // The cost of a conversation is told as a total; where it began is known for a new one alone.
    let cost_seen = if setup.resume.is_none() { Some(0.0) } else { setup.used.map(|used| used.cost_usd) };
    let told = talk == Talk::Argument;
    let state = State { running: told, prompted: told, cost_seen, ..State::default() };
    Box::new(Claude { setup: Setup { prompt: None, ..setup.clone() }, talk, state })
}

pub(crate) fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    let state = serde_json::from_str(saved).map_err(|error| format!("claude: {error}"))?;
    Ok(Box::new(Claude { setup: Setup { prompt: None, ..setup.clone() }, talk: Talk::of(setup), state }))
}

/// How a process is spoken to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Talk {
    /// The prompt is an argument; there is nothing more to say.
    Argument,
    /// The prompt is all of standard input.
    Stdin,
    /// JSON lines both ways.
    Stream,
}

impl Talk {
    fn of(setup: &Setup) -> Talk {
        if setup.hosting == Hosting::Warm || setup.mode == Mode::Ask {
            Talk::Stream
        } else if command::prompt_argument(setup).is_some() {
            Talk::Argument
        } else {
            Talk::Stdin
        }
    }
}

/// What of a message has come in pieces.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Streamed {
    message: Option<String>,
    text: bool,
    thought: bool,
}

/// A turn that nobody asked for, as when a subagent has come back.
///
/// It takes its announcement and some output to be sure of one: prompts wait for it, so a stray line must not do.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
enum Unasked {
    #[default]
    No,
    Announced,
    Runs,
}

/// Saved as it is; what an older program did not save yet has its default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
struct State {
    session_id: Option<String>,
    /// A turn of ours runs.
    running: bool,
    /// Whether a turn runs that nobody asked for.
    unasked: Unasked,
    /// A prompt was told; a process made for one takes no other.
    prompted: bool,
    /// The running turn was asked to stop.
    interrupted: bool,
    /// Its result, while the process made for it has not ended.
    closing: Option<Closing>,
    questions: Vec<Question>,
    /// What the driver itself wants to say.
    outbox: VecDeque<String>,
    /// How often was interrupted, for the ids of these requests.
    interrupts: u64,
    tools: ToolNames,
    streamed: Streamed,
    /// The conversation's cost at the last result, if it is known.
    cost_seen: Option<f64>,
    /// What turns nobody asked for have used; counted with the next one that somebody did.
    carried: Usage,
    /// Tokens of the last reply and what it was a reply to.
    context: Option<u64>,
}

struct Claude {
    setup: Setup,
    talk: Talk,
    state: State,
}

impl Claude {
    fn say(&mut self, line: String) {
        if self.state.outbox.len() < WAITING_LIMIT {
            self.state.outbox.push_back(line);
        }
    }

    fn one_message(&self) -> bool {
        self.setup.hosting == Hosting::PerMessage
    }
}

impl Driver for Claude {
    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        self.read(line, heard);
    }

    fn wants(&self) -> Option<Vec<u8>> {
        self.state.outbox.front().map(|line| line.clone().into_bytes())
    }

    fn ready(&self) -> bool {
        let spent = self.one_message() && self.state.prompted;
        !self.state.running && self.state.unasked != Unasked::Runs && !spent
    }

    fn encode(&self, input: &Input<'_>) -> Encoded {
        match input {
            Input::Own => self.wants().map_or(Encoded::Nothing, Encoded::Bytes),
            Input::Prompt { .. } if !self.ready() => Encoded::Later,
            Input::Prompt { text, .. } => match self.talk {
                Talk::Stream => Encoded::Bytes(answer::prompt(text).into_bytes()),
                // Not one byte would be no input at all, so an empty prompt is at least a line.
                Talk::Argument | Talk::Stdin if text.is_empty() => Encoded::Bytes(b"\n".to_vec()),
                Talk::Argument | Talk::Stdin => Encoded::Bytes(text.as_bytes().to_vec()),
            },
            Input::Decision { request, decision, shown } => {
                let question = self.state.questions.iter().find(|question| question.request == *request);
                question
                    .map_or(Encoded::Nothing, |question| Encoded::Bytes(question.answer(decision, *shown).into_bytes()))
            }
            Input::Interrupt => match self.talk {
                Talk::Stream if self.state.running || self.state.unasked == Unasked::Runs => {
                    Encoded::Bytes(answer::interrupt(self.state.interrupts + 1).into_bytes())
                }
                Talk::Argument | Talk::Stdin if self.state.running => Encoded::Signal,
                _ => Encoded::Nothing,
            },
        }
    }

    fn sent(&mut self, input: &Input<'_>, _heard: &mut Heard) {
        match input {
            Input::Own => {
                self.state.outbox.pop_front();
            }
            Input::Prompt { .. } => {
                self.state.running = true;
                self.state.unasked = Unasked::No;
                self.state.prompted = true;
                self.state.interrupted = false;
                self.state.streamed = Streamed::default();
            }
            Input::Decision { request, .. } => self.state.questions.retain(|question| question.request != *request),
            Input::Interrupt => {
                self.state.interrupts += 1;
                // The turn may have ended while the words were on their way; the next one is not to be blamed.
                self.state.interrupted = self.state.running;
            }
        }
    }

    fn wants_eof(&self) -> bool {
        match self.talk {
            // The house closes the input of a process whose prompt is in its arguments.
            Talk::Argument => false,
            Talk::Stdin => self.state.prompted,
            Talk::Stream => self.one_message() && self.state.closing.is_some(),
        }
    }

    fn ended(&mut self, exit: Exit, stderr: &str, heard: &mut Heard) {
        for question in self.state.questions.drain(..) {
            heard.events.push(Event::PermissionWithdrawn { request: question.request });
        }
        // Whoever waits to tell the first prompt has a turn that will not run.
        let waiting = !std::mem::replace(&mut self.state.prompted, true);
        if !std::mem::take(&mut self.state.running) && !waiting {
            return;
        }
        let mut closing = self.state.closing.take();
        if let Some(closing) = &mut closing {
            result::add(&mut closing.usage, std::mem::take(&mut self.state.carried));
        }
        ending::of_process(&self.setup, exit, stderr, closing, None, heard);
    }

    fn session_id(&self) -> Option<&str> {
        self.state.session_id.as_deref()
    }

    fn save(&self) -> String {
        serde_json::to_string(&self.state).unwrap_or_default()
    }
}
