//! The verbs of `daemon` that look after what is kept: backup, recovery, removal.

use clap::Args;

pub(crate) use crate::backup::cli::Backup;
use crate::backup::cli::Source;

#[derive(Args, Debug)]
pub(crate) struct Restore {
    #[command(flatten)]
    pub(crate) source: Source,

    /// Put it in the place of the identity that is here; that one is kept beside it
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Removal {
    /// Yes, really
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Recover {
    /// Read what can be read, send nothing, and decide later
    #[arg(long, group = "way")]
    pub(crate) read_only: bool,

    /// Keep what can be read and have the rest from the broker again
    #[arg(long, group = "way")]
    pub(crate) from_broker: bool,

    /// Begin with nothing
    #[arg(long, group = "way")]
    pub(crate) fresh: bool,

    /// Yes, really; needed with a way where there is no terminal
    #[arg(long, requires = "way")]
    pub(crate) confirm: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Reload {
    /// Every daemon that runs
    #[arg(long)]
    pub(crate) all: bool,
}
