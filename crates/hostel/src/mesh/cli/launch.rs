//! Launching an agent into a mesh, on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::cli::MeshPolicy;
use crate::cli::Mode;

#[derive(Args, Debug, Default)]
pub(crate) struct Launch {
    /// What to ask first; then more can be typed
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<OsString>,

    /// Ask only this, print the answer, and end; `-` reads it from standard input
    #[arg(short, long, value_name = "TEXT", conflicts_with = "prompt")]
    pub(crate) print: Option<OsString>,

    /// What the session is called in the mesh [default: the agent and four digits]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The agent to launch
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,

    /// What the agent may do: everything (auto), edits (code), nothing that writes (plan), or nothing without asking
    /// (ask)
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) mode: Option<Mode>,

    /// The model the agent is to use
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// What becomes of messages from the mesh for the session: they lie in its mailbox (off), you are asked about each
    /// (ask), or each is put to the agent (on) [default: `mesh` below [sessions] in hostel.toml, else off]
    #[arg(long, value_name = "POLICY", value_enum, conflicts_with = "print")]
    pub(crate) messages: Option<MeshPolicy>,

    /// Where the agent works
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// What the session is there for, for peers
    #[arg(long, value_name = "TEXT")]
    pub(crate) role: Option<String>,

    /// A group the session is in; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,

    /// Start neither house nor mesh daemon
    #[arg(long)]
    pub(crate) no_start: bool,
}
