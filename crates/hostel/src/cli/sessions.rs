//! The part of the command line that is about agents: sessions, prompts and approvals.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

use super::approvals::PassphraseFrom;

/// What an agent may do without asking.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Mode {
    Auto,
    Code,
    Plan,
    Ask,
}

impl Mode {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Code => "code",
            Mode::Plan => "plan",
            Mode::Ask => "ask",
        }
    }
}

/// What becomes of messages that come over a mesh for a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum MeshPolicy {
    /// They lie in the mailbox
    Off,
    /// A person is asked about each
    Ask,
    /// Each is put to the agent
    On,
}

impl MeshPolicy {
    /// Its name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MeshPolicy::Off => "off",
            MeshPolicy::Ask => "ask",
            MeshPolicy::On => "on",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Sessions {
    /// Also those that were closed
    #[arg(short, long)]
    pub(crate) all: bool,

    #[command(subcommand)]
    pub(crate) action: Option<SessionsAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// List sessions
    #[command(after_help = "Examples:\n  hostel sessions list\n  hostel sessions list --all --json")]
    List {
        /// Also those that were closed
        #[arg(short, long)]
        all: bool,
    },
    /// Show one session: its agent, its state, its latest messages
    #[command(after_help = "Examples:\n  hostel sessions show 3fa2\n  hostel sessions show --json 3fa2")]
    Show {
        /// Name or id of the session
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Stop the running turn; prompts that wait come next
    #[command(
        after_help = "Examples:\n  hostel sessions interrupt 3fa2\n  hostel sessions interrupt --all 3fa2    the prompts that wait, too"
    )]
    Interrupt {
        /// Names or ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Also take back every prompt that waits
        #[arg(short, long)]
        all: bool,
    },
    /// Close sessions: their agents end, their history stays, a prompt opens them again
    #[command(after_help = "Examples:\n  hostel sessions close 3fa2\n  hostel sessions close 3fa2 review")]
    Close {
        /// Names or ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Delete sessions with all their history; it cannot be brought back
    #[command(after_help = "Examples:\n  hostel sessions delete 3fa2")]
    Delete {
        /// Names or ids of the sessions
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Show or say what becomes of mesh messages for a session: `HOST/NAME` is its address
    #[command(
        after_help = "Examples:\n  hostel sessions mesh review         its address, and what becomes of messages\n  hostel sessions mesh review ask     ask me about each; see `hostel approvals`\n  hostel sessions mesh review on      put each to the agent, with the rights it has"
    )]
    Mesh {
        /// Name or id of the session
        #[arg(value_name = "ID")]
        id: String,
        /// What becomes of messages from now on
        #[arg(value_name = "POLICY", value_enum)]
        policy: Option<MeshPolicy>,
    },
    /// Show or set what a session's agent may do without asking, from its next turn on
    #[command(
        after_help = "Examples:\n  hostel sessions mode review         show the mode\n  hostel sessions mode review ask     ask me before anything that writes\n  hostel sessions mode review auto    everything I may do, unasked\n\nplan < ask < code < auto. With `approvals.strict`, raising a mode takes the approver's passphrase."
    )]
    Mode {
        /// Name or id of the session
        #[arg(value_name = "ID")]
        id: String,
        /// The mode from the next turn on
        #[arg(value_name = "MODE", value_enum)]
        mode: Option<Mode>,
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
    /// Write a transcript: prompts, answers, tool calls, costs
    #[command(
        after_help = "Examples:\n  hostel sessions export 3fa2 --out talk.md\n  hostel sessions export --format jsonl 3fa2 > events.jsonl"
    )]
    Export {
        /// Name or id of the session
        #[arg(value_name = "ID")]
        id: String,
        /// `markdown` for people, `jsonl` with every numbered event
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TranscriptFormat::Markdown)]
        format: TranscriptFormat,
        /// Write to this file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// The forms of a transcript.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum TranscriptFormat {
    Markdown,
    Jsonl,
}

#[derive(Args, Debug)]
pub(crate) struct Send {
    /// Name or id of the session
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// What to ask; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: OsString,

    /// Stream the turn and wait for its end; the exit code is as with `hostel run`
    #[arg(short, long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Name or id of the session
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Only what came after this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) since: u64,

    /// End with what is there now
    #[arg(long)]
    pub(crate) no_follow: bool,
}
