//! `hostel mcp` on the command line.

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

#[derive(Args, Debug)]
pub(crate) struct Mcp {
    /// Do not start the house when it is not up
    #[arg(long)]
    pub(crate) no_start: bool,

    /// Push messages of the mesh to the client even if it did not say that it takes them
    #[arg(long)]
    pub(crate) channel: bool,

    #[command(subcommand)]
    pub(crate) action: Option<McpAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Enter the server into an agent's own configuration
    #[command(
        after_help = "Examples:\n  hostel mcp install claude\n  hostel mcp install codex --dry-run\n  hostel mcp install gemini --scope project\n  hostel mcp install opencode\n\nEverything else in the file stays as it is. Installing twice changes nothing."
    )]
    Install(Install),
    /// Take the server out of an agent's configuration again
    #[command(after_help = "Examples:\n  hostel mcp uninstall claude\n  hostel mcp uninstall gemini --scope project")]
    Uninstall(Install),
}

#[derive(Args, Debug)]
pub(crate) struct Install {
    /// Whose configuration
    #[arg(value_name = "CLIENT", value_enum)]
    pub(crate) client: Client,

    /// For everything you do (user), for this directory (project), or for this directory and you alone (local: only
    /// claude)
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::User)]
    pub(crate) scope: Scope,

    /// The name it goes by there
    #[arg(long, value_name = "NAME", default_value = "hostel")]
    pub(crate) name: String,

    /// Push messages of the mesh to the client, which does not say by itself that it takes them
    #[arg(long)]
    pub(crate) channel: bool,

    /// Say what would be written, write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// An agent that speaks MCP.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Client {
    Claude,
    Codex,
    Gemini,
    Opencode,
}

impl Client {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Claude => "claude",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Opencode => "opencode",
        }
    }
}

/// How far a configuration reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Scope {
    User,
    Project,
    Local,
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
        }
    }
}
