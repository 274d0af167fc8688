//! The verbs of `daemon` that look after what is kept: backup, recovery, removal.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// The file to write; one that is there is replaced
    #[arg(long, value_name = "PATH")]
    pub(crate) out: PathBuf,

    /// Read the passphrase from this descriptor instead of asking for it
    #[arg(long, value_name = "N")]
    pub(crate) passphrase_fd: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The file that `backup` wrote
    #[arg(long = "in", value_name = "PATH")]
    pub(crate) input: PathBuf,

    /// Read the passphrase from this descriptor instead of asking for it
    #[arg(long, value_name = "N")]
    pub(crate) passphrase_fd: Option<u32>,

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
