//! One agent in a house: what it is called, which words make it do what, and how it is seen at work.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use hostel_tests::agents::FakeModel;
use hostel_tests::wait;
use serde_json::Value;

use super::Door;
use super::stage::Stage;

/// An agent and its house.
pub(crate) struct World {
    /// For people: the program and its version.
    pub(crate) title: String,
    /// The agent's name in the house.
    pub(crate) alias: &'static str,
    /// What it can do.
    pub(crate) traits: Traits,
    /// The words of its prompts.
    pub(crate) words: Words,
    /// The house.
    pub(crate) stage: Stage,
    /// Who sees its prompts.
    pub(crate) witness: Witness,
}

/// What differs between agents, as their programs are today.
#[derive(Clone, Copy)]
pub(crate) struct Traits {
    /// It tells its answer in pieces even in a process for one message.
    pub(crate) streams_alone: bool,
    /// It can ask a person even from a process for one message.
    pub(crate) asks_alone: bool,
    /// A tool that was refused is not the end of its turn.
    pub(crate) takes_no: bool,
}

/// The words that make it do something.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Before a shell command that has to be asked for.
    pub(crate) ask: &'static str,
    /// Prompts that fail as if the model's API had failed, and what the error must contain.
    pub(crate) failures: &'static [(&'static str, &'static str)],
}

#[allow(dead_code, reason = "each tier has its own")]
/// Who knows that a prompt has reached its destination.
pub(crate) enum Witness {
    /// The model.
    Model(FakeModel),
    /// The log of a played CLI.
    Log(PathBuf),
}

impl World {
    /// Whether answers come in pieces by that door.
    pub(crate) fn streams(&self, door: Door) -> bool {
        door == Door::Zeroclaw || self.traits.streams_alone
    }

    /// Whether it can ask by that door.
    pub(crate) fn asks(&self, door: Door) -> bool {
        door == Door::Zeroclaw || self.traits.asks_alone
    }

    /// Waits until the agent has begun to work on a prompt.
    pub(crate) fn wait_for_work(&self, prompt: &str) {
        let begun = || match &self.witness {
            Witness::Model(model) => model.asked().iter().any(|asked| !asked.errand && asked.prompt == prompt),
            Witness::Log(log) => noted(log, prompt),
        };
        wait::until_true(self.stage.limit(), &format!("the agent to begin with {prompt:?}"), begun);
    }

    /// Waits until nobody listens to the model's answer any more. A played CLI has no model.
    pub(crate) fn wait_for_silence(&self, prompt: &str) {
        let Witness::Model(model) = &self.witness else { return };
        wait::until_true(self.stage.limit(), &format!("the model to be left alone with {prompt:?}"), || {
            let asked = model.asked();
            let mut asked = asked.iter().filter(|asked| !asked.errand && asked.prompt == prompt);
            asked.all(|asked| asked.outcome.as_deref() == Some("client went away"))
        });
    }
}

fn noted(log: &Path, prompt: &str) -> bool {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.any(|line| line["event"] == "prompt" && line["prompt"] == prompt)
}
