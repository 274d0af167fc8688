//! `hostel backup` and `hostel restore` on the command line, and what they have in common with those of a mesh.

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

// A backup, and how it is opened. (No doc comment: it would become the text of the command.)
#[derive(Args, Debug)]
pub(crate) struct Source {
    /// The file that `backup` wrote
    #[arg(long = "in", value_name = "PATH")]
    pub(crate) input: PathBuf,

    /// Read the passphrase from this descriptor instead of asking for it
    #[arg(long, value_name = "N")]
    pub(crate) passphrase_fd: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct Restore {
    #[command(flatten)]
    pub(crate) source: Source,

    /// Leave out the meshes: only the house
    #[arg(long)]
    pub(crate) no_meshes: bool,

    /// Put it in the place of a house, or of meshes, that are here; those are kept beside
    #[arg(long)]
    pub(crate) force: bool,
}
