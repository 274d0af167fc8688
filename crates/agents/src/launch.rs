//! How an agent process is started.

use serde::{Deserialize, Serialize};

use crate::event::Usage;

/// The programs we know how to talk to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Any program that speaks the Agent Client Protocol on its standard input and output.
    Acp,
    /// The one that is built in.
    Echo,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [Kind::Claude, Kind::Codex, Kind::Gemini, Kind::Opencode, Kind::Acp, Kind::Echo];

    /// Its name in settings and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Claude => "claude",
            Kind::Codex => "codex",
            Kind::Gemini => "gemini",
            Kind::Opencode => "opencode",
            Kind::Acp => "acp",
            Kind::Echo => "echo",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The npm package its CLI comes in; none for a kind that is no CLI of its own name.
    #[must_use]
    pub fn package(self) -> Option<&'static str> {
        match self {
            Kind::Claude => Some("@anthropic-ai/claude-code"),
            Kind::Codex => Some("@openai/codex"),
            Kind::Gemini => Some("@google/gemini-cli"),
            Kind::Opencode => Some("opencode-ai"),
            Kind::Acp | Kind::Echo => None,
        }
    }
}

/// How much an agent may do by itself. The order is the order of rights: a later mode may do more than an earlier one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing that writes.
    Plan,
    /// Asks before anything that writes.
    #[default]
    Ask,
    /// Edits in the project; asks for the rest where the CLI can ask.
    Code,
    /// Everything.
    Auto,
}

impl Mode {
    /// Its name in settings and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Code => "code",
            Mode::Plan => "plan",
            Mode::Ask => "ask",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mode> {
        [Mode::Auto, Mode::Code, Mode::Plan, Mode::Ask].into_iter().find(|mode| mode.name() == name)
    }
}

/// How long an agent process lives.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hosting {
    /// Over many turns.
    Warm,
    /// For one prompt.
    PerMessage,
}

/// What a process is wanted for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Setup {
    /// The CLI.
    pub kind: Kind,
    /// How long it lives.
    pub hosting: Hosting,
    /// What it may do.
    pub mode: Mode,
    /// The model that was chosen, if one was.
    #[serde(default)]
    pub model: Option<String>,
    /// The CLI's id of the conversation to go on with.
    #[serde(default)]
    pub resume: Option<String>,
    /// The working directory, absolute.
    pub cwd: String,
    /// The program and its first arguments instead of the CLI's own name; empty for that.
    #[serde(default)]
    pub command: Vec<String>,
    /// The one prompt of a `PerMessage` process.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The process will run as root: claude wants to be told that it is in a sandbox.
    #[serde(default)]
    pub root: bool,
    /// What the conversation to go on with has used so far, if the house knows: some CLIs tell totals of the whole
    /// conversation, and a turn is the difference.
    #[serde(default)]
    pub used: Option<Usage>,
}

/// How to start it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Launch {
    /// The program: a path, or a name to be looked for on the PATH.
    pub program: String,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Variables over those it would get anyway.
    pub env: Vec<(String, String)>,
    /// The prompt is among the arguments: the turn begins with the process, and its stdin is closed at once.
    pub prompt_in_args: bool,
}
