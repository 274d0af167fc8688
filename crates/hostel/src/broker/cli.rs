//! `hostel broker` on the command line.

use clap::Args;
use clap::Subcommand;

#[derive(Args, Debug)]
pub(crate) struct Broker {
    #[command(subcommand)]
    pub(crate) action: BrokerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerAction {
    /// Start the broker that meshes of this host use
    #[command(
        after_help = "Examples:\n  hostel broker up\n  hostel broker up --foreground\n  hostel broker up --listen 0.0.0.0:7443 --url wss://lab.example.org:7443/ws\n\nIt listens on loopback; with --listen and --url also for other machines, and then with TLS and a\ncertificate of its own. What was said once is remembered for the next start."
    )]
    Up(Up),
    /// Stop it; mesh daemons keep what they have to send and come back to it
    #[command(after_help = "Examples:\n  hostel broker down")]
    Down,
    /// Show whether it runs and where it listens
    #[command(
        after_help = "Examples:\n  hostel broker status\n  hostel broker status --json\n\nExits with 1 when it does not run."
    )]
    Status,
}

#[derive(Args, Debug, Default)]
pub(crate) struct Up {
    /// Stay in this terminal
    #[arg(long)]
    pub(crate) foreground: bool,

    /// Where to listen: on loopback instead of a port of the system's choice, elsewhere in addition and with TLS
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// How other machines reach it: wss://HOST[:PORT]/ws
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// How the background process knows that it is one
    #[arg(long, hide = true)]
    pub(crate) launched: bool,
}
