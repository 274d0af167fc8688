//! The words of `hostel gc` and `hostel journal`.

use clap::Args;
use clap::Subcommand;

#[derive(Args, Debug)]
pub(crate) struct Gc {
    /// Say what would go, remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Every exited process, however recent
    #[arg(long)]
    pub(crate) all: bool,

    /// Remove without asking
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Journal {
    #[command(subcommand)]
    pub(crate) action: JournalAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalAction {
    /// Read journals from the first byte to the last; exits with 1 if something is damaged
    #[command(
        after_help = "Examples:\n  hostel journal verify\n  hostel journal verify 5f0c2d4be0a94f6f9a3c1f7a8b2e6d10\n  hostel journal verify ./copy.j\n\nLooks at every block, every record, their order, and the checksums of what was printed. Needs no\ndaemon and changes nothing. A journal that is being written is checked up to its last record."
    )]
    Verify {
        /// Ids of processes, or files; all journals of the house if none is named
        #[arg(value_name = "ID|FILE")]
        journals: Vec<String>,
    },
}
