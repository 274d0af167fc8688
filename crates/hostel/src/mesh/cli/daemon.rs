//! `daemon` and its verbs on the command line.

use clap::Args;
use clap::Subcommand;

#[derive(Args, Debug)]
pub(crate) struct Daemon {
    #[command(subcommand)]
    pub(crate) action: DaemonAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonAction {
    /// Start the daemon of a mesh
    #[command(
        visible_alias = "start",
        after_help = "Examples:\n  hostel mesh daemon up\n  hostel mesh daemon up --mesh lab --foreground\n  hostel mesh daemon up --all\n  hostel mesh daemon up --ephemeral --ttl 2h\n\nReturns once the socket answers. Exits with 1 if it runs already, 2 if no mesh is joined, 4 if this\nlooks like a copy of another machine: then `--accept-cloned-identity` keeps the identity here, and\n`--remint` makes a new one. A daemon whose member is revoked ends with 78."
    )]
    Up(Up),
    /// Stop the daemon of a mesh
    #[command(
        visible_alias = "stop",
        after_help = "Examples:\n  hostel mesh daemon down\n  hostel mesh daemon down --all"
    )]
    Down(Down),
    /// Show every daemon: connected, queue, lag
    #[command(
        visible_alias = "ps",
        after_help = "Examples:\n  hostel mesh daemon status\n  hostel mesh daemon status --mesh lab\n  hostel mesh daemon status --json\n\nExits with 1 when none runs. With --mesh it is about that one alone."
    )]
    Status,
    /// Show the daemon's version
    #[command(after_help = "Examples:\n  hostel mesh daemon version\n  hostel mesh daemon version --json")]
    Version,
    /// Stop the daemon and start it again
    #[command(after_help = "Examples:\n  hostel mesh daemon restart --mesh lab")]
    Restart(Restart),
    /// Print the daemon's log
    #[command(
        after_help = "Examples:\n  hostel mesh daemon logs\n  hostel mesh daemon logs -f --mesh lab\n  hostel mesh daemon logs -n 500"
    )]
    Logs(Logs),
    /// Search what was received
    #[command(after_help = "Examples:\n  hostel mesh daemon search OOM")]
    Search(super::Search),
    /// Replace the token for loopback HTTP; the old one is good for another minute
    #[command(after_help = "Examples:\n  hostel mesh daemon rotate-token")]
    RotateToken,
    /// Say that this machine is the daemon's home from now on
    #[command(
        after_help = "Examples:\n  hostel mesh daemon accept-host\n\nFor a machine whose parts were replaced. Two machines with one identity disturb each other: on a\ncopy use `daemon up --remint` instead."
    )]
    AcceptHost,
    /// Look at what waits to be sent, or did not go out
    #[command(
        after_help = "Examples:\n  hostel mesh daemon outbox\n  hostel mesh daemon outbox --failed\n  hostel mesh daemon outbox requeue 01jh3q5w6e7r8t9y0a1s2d3f4g\n  hostel mesh daemon outbox prune --confirm\n\nWithout a verb it is `list`."
    )]
    Outbox(Outbox),
}

#[derive(Args, Debug, Default)]
pub(crate) struct Up {
    /// Stay in this terminal
    #[arg(long)]
    pub(crate) foreground: bool,

    /// Every mesh that is joined
    #[arg(long, conflicts_with_all = ["foreground", "name", "ephemeral", "remint", "accept_cloned_identity"])]
    pub(crate) all: bool,

    /// What this host is called; counts at the first start, later only with --rename
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Take the name of --name although there is one already
    #[arg(long, requires = "name")]
    pub(crate) rename: bool,

    /// A new identity that is never written down and leaves the mesh at the end
    #[arg(long, conflicts_with = "persistent")]
    pub(crate) ephemeral: bool,

    /// With --ephemeral: end after this long
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<String>,

    /// Keep the identity although this looks like a CI job
    #[arg(long)]
    pub(crate) persistent: bool,

    /// This is the same host although it does not look like it
    #[arg(long, conflicts_with = "remint")]
    pub(crate) accept_cloned_identity: bool,

    /// Make a new identity for this host; the old one retires after a day
    #[arg(long)]
    pub(crate) remint: bool,

    /// Only the socket, no loopback HTTP
    #[arg(long)]
    pub(crate) no_tcp: bool,

    /// Answer /v1/health over HTTP without a token
    #[arg(long)]
    pub(crate) public_health: bool,

    /// Behave as in a container: only the socket
    #[arg(long)]
    pub(crate) container: bool,

    /// How the background process knows that it is one
    #[arg(long, hide = true)]
    pub(crate) launched: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Down {
    /// Every daemon that runs
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Restart {
    /// Every daemon that runs
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// Go on printing as the daemon does
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// How many lines to begin with
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) lines: usize,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Outbox {
    #[command(subcommand)]
    pub(crate) action: Option<OutboxAction>,

    #[command(flatten)]
    pub(crate) list: OutboxList,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxAction {
    /// List rows of the outbox
    #[command(
        after_help = "Examples:\n  hostel mesh daemon outbox list\n  hostel mesh daemon outbox list --failed --json"
    )]
    List(OutboxList),
    /// Send a row that failed again, under a new id
    #[command(
        after_help = "Examples:\n  hostel mesh daemon outbox requeue 01jh3q5w6e7r8t9y0a1s2d3f4g\n\nThe old id stays bound to the old row."
    )]
    Requeue(Requeue),
    /// Remove rows that are done with
    #[command(
        after_help = "Examples:\n  hostel mesh daemon outbox prune --confirm\n\nRemoves what was delivered, failed or aborted. What waits to be sent stays."
    )]
    Prune(Prune),
}

#[derive(Args, Debug)]
pub(crate) struct OutboxList {
    /// Those that wait
    #[arg(long, group = "state")]
    pub(crate) pending: bool,

    /// Those on their way
    #[arg(long, group = "state")]
    pub(crate) inflight: bool,

    /// Those that were delivered
    #[arg(long, group = "state")]
    pub(crate) done: bool,

    /// Those that were given up
    #[arg(long, visible_alias = "dead", group = "state")]
    pub(crate) failed: bool,

    /// Those that were replaced
    #[arg(long, group = "state")]
    pub(crate) aborted: bool,

    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) limit: u32,
}

impl OutboxList {
    /// The state that is asked for.
    pub(crate) fn status(&self) -> Option<&'static str> {
        let chosen = [
            (self.pending, "pending"),
            (self.inflight, "inflight"),
            (self.done, "done"),
            (self.failed, "dead"),
            (self.aborted, "aborted"),
        ];
        chosen.into_iter().find(|(chosen, _)| *chosen).map(|(_, name)| name)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Requeue {
    /// The row's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The new message id [default: a fresh one]
    #[arg(long = "new-client-id", value_name = "KEY")]
    pub(crate) new_client_id: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Prune {
    /// Yes, really
    #[arg(long)]
    pub(crate) confirm: bool,
}
