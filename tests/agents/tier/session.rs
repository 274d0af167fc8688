//! A session as its client sees it, by whichever door.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use super::Door;
use super::codecast::Codecast;
use super::world::World;
use super::zeroclaw::Zeroclaw;

/// One thing a client is told.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A piece of the answer.
    Piece(String),
    /// A whole block of it, where that is told beside the pieces.
    Block(String),
    /// A tool is called: its name and its input.
    Tool(String),
    /// A person is asked.
    Asked(Question),
    /// Something went wrong.
    Error(String),
    /// The turn is over.
    Over(Outcome),
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// It came to its end.
    Completed,
    /// It did not.
    Failed,
    /// It was stopped.
    Interrupted,
}

/// What an agent asks.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Under which id to answer.
    pub(crate) id: String,
    /// Everything that was said of it.
    pub(crate) words: String,
}

/// A whole turn.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The pieces of the answer, joined.
    pub(crate) pieces: String,
    /// The answer.
    pub(crate) answer: String,
    /// Tools that were called.
    pub(crate) tools: Vec<String>,
    /// What went wrong.
    pub(crate) errors: Vec<String>,
    /// What became of it.
    pub(crate) outcome: Option<Outcome>,
}

/// A session behind a door.
pub(crate) trait Behind {
    /// Its id.
    fn id(&self) -> &str;
    /// Gives it a prompt.
    fn prompt(&mut self, text: &str);
    /// The next thing it tells of the turn, if it means anything; every turn ends with `Over`.
    fn next(&mut self) -> Option<Seen>;
    /// Answers a question.
    fn answer(&mut self, question: &Question, decision: &str);
    /// Stops the turn.
    fn interrupt(&mut self);
    /// Ends the session.
    fn close(&mut self);
}

/// A session and where it works.
pub(crate) struct Session<'a> {
    world: &'a World,
    behind: Box<dyn Behind + 'a>,
    directory: PathBuf,
    told: Told,
    /// When the turn began.
    begun: Instant,
}

impl<'a> Session<'a> {
    /// A new session in a new directory.
    pub(crate) fn new(world: &'a World, door: Door, name: &str, mode: &str) -> Self {
        let directory = world.stage.work(name);
        let behind: Box<dyn Behind> = match door {
            Door::Codecast => Box::new(Codecast::new(world, &directory, mode)),
            Door::Zeroclaw => Box::new(Zeroclaw::new(world, &directory, mode)),
        };
        Self { world, behind, directory, told: Told::default(), begun: Instant::now() }
    }

    /// Gives it a prompt, and does not wait.
    pub(crate) fn begin(&mut self, prompt: &str) {
        (self.told, self.begun) = (Told::default(), Instant::now());
        self.behind.prompt(prompt);
    }

    /// Gives it a prompt and waits for the end of the turn.
    pub(crate) fn turn(&mut self, prompt: &str) -> Told {
        self.begin(prompt);
        self.finish()
    }

    /// A prompt whose answer is known; nothing may go wrong.
    pub(crate) fn expect(&mut self, prompt: &str, answer: &str) -> Told {
        let told = self.turn(prompt);
        assert_eq!(told.outcome, Some(Outcome::Completed), "{told:?}");
        assert_eq!(told.answer, answer, "{told:?}");
        assert!(told.errors.is_empty(), "{told:?}");
        told
    }

    fn hear(&mut self) -> Option<Question> {
        // Signs of life alone are no progress.
        assert!(self.begun.elapsed() < self.world.stage.limit(), "the turn takes too long: {:?}", self.told);
        match self.behind.next()? {
            Seen::Piece(text) => self.told.pieces.push_str(&text),
            Seen::Block(text) => {
                if !self.told.answer.is_empty() {
                    self.told.answer.push_str("\n\n");
                }
                self.told.answer.push_str(&text);
            }
            Seen::Tool(words) => self.told.tools.push(words),
            Seen::Error(words) => self.told.errors.push(words),
            Seen::Over(outcome) => self.told.outcome = Some(outcome),
            Seen::Asked(question) => return Some(question),
        }
        None
    }

    /// Waits for the end of the turn. Nobody is asked on the way.
    pub(crate) fn finish(&mut self) -> Told {
        while self.told.outcome.is_none() {
            if let Some(question) = self.hear() {
                panic!("nobody should be asked: {question:?}");
            }
        }
        std::mem::take(&mut self.told)
    }

    /// Waits for a question.
    pub(crate) fn asked(&mut self) -> Question {
        loop {
            if let Some(question) = self.hear() {
                return question;
            }
            assert!(self.told.outcome.is_none(), "nobody was asked: {:?}", self.told);
        }
    }

    /// Waits until so much of the answer has been told.
    pub(crate) fn heard(&mut self, pieces: usize) {
        while self.told.pieces.split_whitespace().count() < pieces {
            assert!(self.hear().is_none() && self.told.outcome.is_none(), "too early: {:?}", self.told);
        }
    }

    /// Answers a question.
    pub(crate) fn answer(&mut self, question: &Question, decision: &str) {
        self.behind.answer(question, decision);
    }

    /// Stops the turn and waits until it has stopped.
    pub(crate) fn interrupt(&mut self) -> Told {
        self.behind.interrupt();
        let told = self.finish();
        assert_eq!(told.outcome, Some(Outcome::Interrupted), "{told:?}");
        assert!(told.errors.is_empty(), "{told:?}");
        told
    }

    /// What the house says of it: the same for every door, so our own is asked.
    fn listed(&self) -> Value {
        let list = self.world.stage.native().ask("session/list", json!({}));
        let sessions = list["sessions"].as_array().expect("a list of sessions");
        sessions.iter().find(|session| session["session_id"] == self.behind.id()).expect("the session").clone()
    }

    /// The process that serves it now, if there is one.
    pub(crate) fn process(&self) -> Option<i32> {
        self.listed()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
    }

    /// Which guard it has.
    pub(crate) fn guard(&self) -> String {
        self.listed()["guard"]["active"].as_str().expect("the name of a guard").to_owned()
    }

    /// Whether there is such a file.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.directory.join(file).exists()
    }

    /// A file's text, once there is a whole line.
    pub(crate) fn line_of(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        text.strip_suffix('\n').map(str::to_owned)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // After a failure the connection may be in any state, and the house is taken down anyway.
        if !std::thread::panicking() {
            self.behind.close();
        }
    }
}
