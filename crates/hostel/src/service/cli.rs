//! The words of services on the command line.

use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

use super::Scope;

/// A supervisor.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    Systemd,
    Launchd,
    #[value(hide = true)]
    Windows,
}

/// Whose service, and where its file is.
#[derive(Args, Debug, Default)]
pub(crate) struct Where {
    /// For you alone, without root (the default)
    #[arg(long, conflicts_with = "system")]
    pub(crate) user: bool,

    /// For the machine: runs without anybody being logged in; takes root
    #[arg(long)]
    pub(crate) system: bool,

    /// Where the file is, instead of where the supervisor looks; nothing is started or stopped then
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// The supervisor [default: the one of this system]
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) kind: Option<Kind>,
}

impl Where {
    pub(crate) fn scope(&self) -> Scope {
        if self.system && !self.user { Scope::System } else { Scope::User }
    }
}

#[derive(Args, Debug, Default)]
pub(crate) struct Install {
    #[command(flatten)]
    pub(crate) place: Where,

    /// Print the file, install nothing
    #[arg(long)]
    pub(crate) print: bool,

    /// Start it at the next boot or login only
    #[arg(long)]
    pub(crate) no_start: bool,

    /// Install it although this looks like a build job
    #[arg(long)]
    pub(crate) allow_ci_persistent: bool,
}

/// `hostel service`.
#[derive(Args, Debug)]
pub(crate) struct Service {
    #[command(subcommand)]
    pub(crate) action: ServiceAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceAction {
    /// Start the house at boot, and again when its daemon fails
    #[command(
        after_help = "Examples:\n  hostel service install\n  hostel service install --print\n  sudo --preserve-env=HOME,HOSTEL_HOME hostel service install --system\n\nWrites hostel.service and starts it. Restarting or stopping the service ends the daemon alone: the\nkeeper and what it keeps run on, until `hostel down`. Of the user's services only those of a user who\nlingers run without a login: `loginctl enable-linger`.\n\nWhere no systemd runs (a container), the file is written and what starts it there is said."
    )]
    Install(Install),
    /// Do not start the house at boot any more
    #[command(
        after_help = "Examples:\n  hostel service uninstall\n\nEnds the daemon and removes hostel.service. Keeper and processes run on; `hostel down` ends them."
    )]
    Uninstall(Where),
    /// Show whether the house is a service, and how it stands
    #[command(
        after_help = "Examples:\n  hostel service status\n  hostel service status --json\n\nExits with 1 when none is installed."
    )]
    Status(Where),
}
