//! A process for one prompt that prints lines and ends: nothing can be said to it but the prompt.
//!
//! Invariant: the turn is over when the process is, never before: what is printed after the closing word still counts.
//!
//! It knows no CLI: what the lines mean is the business of [`Lines`].

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::driver::{Driver, Encoded, Exit, Heard, Input};
use crate::ending::{self, Closing};
use crate::launch::{Launch, Setup};
use crate::text;

/// The lines of a CLI and what they come to.
pub(crate) trait Lines: Default + DeserializeOwned + Serialize + Send {
    /// A line.
    fn line(&mut self, line: &str, heard: &mut Heard);

    /// There will be no more. Gives the closing word, if there was one.
    fn end(&mut self, exit: Exit, heard: &mut Heard) -> Option<Closing>;

    /// The CLI's id of the conversation.
    fn session_id(&self) -> Option<&str>;
}

/// A new process of that launch.
pub(crate) fn driver<L: Lines + 'static>(setup: &Setup, launch: &Launch) -> Box<dyn Driver> {
    let state = State { lines: L::default(), running: launch.prompt_in_args, prompted: launch.prompt_in_args };
    Box::new(OneShot { setup: Setup { prompt: None, ..setup.clone() }, state })
}

/// A process as it was saved.
pub(crate) fn restore<L: Lines + 'static>(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    let state: State<L> = serde_json::from_str(saved).map_err(|error| format!("{}: {error}", setup.kind.name()))?;
    Ok(Box::new(OneShot { setup: Setup { prompt: None, ..setup.clone() }, state }))
}

struct OneShot<L> {
    setup: Setup,
    state: State<L>,
}

#[derive(Deserialize, Serialize)]
struct State<L> {
    lines: L,
    running: bool,
    prompted: bool,
}

impl<L: Lines> Driver for OneShot<L> {
    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        self.state.lines.line(&text::line(line), heard);
    }

    fn wants(&self) -> Option<Vec<u8>> {
        None
    }

    fn ready(&self) -> bool {
        !self.state.prompted
    }

    fn encode(&self, input: &Input<'_>) -> Encoded {
        match input {
            Input::Prompt { .. } if self.state.prompted => Encoded::Nothing,
            // Without a byte nothing would be written at all: an empty prompt is an empty line.
            Input::Prompt { text: "", .. } => Encoded::Bytes(b"\n".to_vec()),
            Input::Prompt { text, .. } => Encoded::Bytes(text.as_bytes().to_vec()),
            Input::Interrupt if self.state.running => Encoded::Signal,
            Input::Own | Input::Decision { .. } | Input::Interrupt => Encoded::Nothing,
        }
    }

    fn sent(&mut self, input: &Input<'_>, _heard: &mut Heard) {
        if let Input::Prompt { .. } = input {
            self.state.prompted = true;
            self.state.running = true;
        }
    }

    fn wants_eof(&self) -> bool {
        self.state.prompted
    }

    fn ended(&mut self, exit: Exit, stderr: &str, heard: &mut Heard) {
        let closing = self.state.lines.end(exit, heard);
        self.state.running = false;
        self.state.prompted = true;
        ending::of_process(&self.setup, exit, stderr, closing, None, heard);
    }

    fn session_id(&self) -> Option<&str> {
        self.state.lines.session_id()
    }

    fn save(&self) -> String {
        serde_json::to_string(&self.state).unwrap_or_default()
    }
}
