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
    /// Stop the daemon and start it again with the flags it had
    #[command(
        after_help = "Examples:\n  hostel mesh daemon restart --mesh lab\n  hostel mesh daemon restart --all\n\nNothing is lost: what waits to be sent is on disk, what came meanwhile is fetched from the broker. An\nephemeral daemon cannot be restarted: its identity would be another one."
    )]
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
    /// Replace the member's key; the daemon goes on and nothing on its way is lost
    #[command(
        after_help = "Examples:\n  hostel mesh daemon rotate-keypair\n  hostel mesh daemon rotate-keypair --mesh lab --json\n\nThe daemon has to be up and connected. The old key leads to this member for another 24 hours, and what was\nsealed for it can be opened for `key_grace_period_days` (7). Of earlier keys `max_archived_keys` (8) are kept:\nwith so many the next rotation is refused until one of them goes. A rotation that is cut off is finished\nwhen the daemon is connected again."
    )]
    RotateKeypair,
    /// Say that this machine is the daemon's home from now on
    #[command(
        after_help = "Examples:\n  hostel mesh daemon accept-host\n\nFor a machine whose parts were replaced. Two machines with one identity disturb each other: on a\ncopy use `daemon up --remint` instead."
    )]
    AcceptHost,
    /// Read config.toml again, without losing the connection
    #[command(
        after_help = "Examples:\n  hostel mesh daemon reload\n  hostel mesh daemon reload --all\n\nThe same as sending SIGHUP. A file with a mistake changes nothing: the mistake is named with its line and\nthe daemon goes on with the settings it had. `mesh`, `http_port`, `http_bind`, `tcp_enabled` and a few\nothers count after a restart; those that were changed are named."
    )]
    Reload(super::Reload),
    /// Write this host's identity in a mesh into an encrypted file
    #[command(
        after_help = "Examples:\n  hostel mesh daemon backup --out lab.backup\n  hostel mesh daemon backup --out lab.backup --passphrase-fd 3 3< passphrase.txt\n\nHolds the key, archived keys, the membership, topic keys, subscriptions and settings; not the messages,\nnot the hooks, and not the token of loopback HTTP. It is for one machine that takes the place of another:\ntwo that use it at once disturb each other. The daemon may run meanwhile."
    )]
    Backup(super::Backup),
    /// Put an identity back that `backup` has written
    #[command(
        after_help = "Examples:\n  hostel mesh daemon restore --in lab.backup\n  hostel mesh daemon restore --in lab.backup --passphrase-fd 3 3< passphrase.txt\n\nRefused while the daemon runs, and where the mesh is joined already unless --force is given. Messages\ncome from the broker, as far back as it keeps them."
    )]
    Restore(super::Restore),
    /// Leave the mesh and remove everything of it from this host
    #[command(
        after_help = "Examples:\n  hostel mesh daemon uninstall --mesh lab\n  hostel mesh daemon uninstall --mesh lab --confirm\n\nStops the daemon, tells the broker, and removes the membership and the directory with messages, keys,\nsettings and hooks. Where the broker cannot be told, everything is removed all the same and that is said."
    )]
    Uninstall(super::Removal),
    /// Forget messages and other local state; stay a member
    #[command(
        after_help = "Examples:\n  hostel mesh daemon reset --mesh lab\n  hostel mesh daemon reset --mesh lab --confirm\n\nKeeps the membership, keys, topic keys, settings and hooks. Nothing is said to the broker; the next\n`daemon up` has from it what it still keeps. What waits to be sent is lost."
    )]
    Reset(super::Removal),
    /// Look for damaged files and go on with what is left
    #[command(
        after_help = "Examples:\n  hostel mesh daemon recover --mesh lab\n  hostel mesh daemon recover --mesh lab --json\n  hostel mesh daemon recover --mesh lab --from-broker --confirm\n  hostel mesh daemon recover --mesh lab --read-only --confirm\n  hostel mesh daemon recover --mesh lab --fresh --confirm\n\nWithout a way it says what is damaged, and asks on a terminal. Exits with 1 if something is damaged and\nnothing was done about it. Damaged files are kept as `*.corrupt-TIME`."
    )]
    Recover(super::Recover),
    /// Look at this mesh's hooks: scripts that run when something happens
    #[command(
        after_help = "Examples:\n  hostel mesh daemon hooks\n  hostel mesh daemon hooks check\n  hostel mesh daemon hooks init\n\nWithout a verb it is `list`. They need no running daemon."
    )]
    Hooks(Hooks),
    /// Look at what waits to be sent, or did not go out
    #[command(
        after_help = "Examples:\n  hostel mesh daemon outbox\n  hostel mesh daemon outbox --failed\n  hostel mesh daemon outbox requeue 01jh3q5w6e7r8t9y0a1s2d3f4g\n  hostel mesh daemon outbox prune --confirm\n\nWithout a verb it is `list`."
    )]
    Outbox(Outbox),
    /// Start the daemon at boot, and again when it fails
    #[command(
        after_help = "Examples:\n  hostel mesh daemon install-service\n  hostel mesh daemon install-service --mesh lab --print\n  hostel mesh daemon install-service --all\n  hostel mesh daemon install-service --print --kind launchd\n\nWrites one unit per mesh, confined to its own directory, and starts it in place of a daemon that runs.\nFrom then on `daemon up` asks the service instead of starting one of its own. Of the user's services\nonly those of a user who lingers run without a login: `loginctl enable-linger`.\n\nWhere no systemd runs (a container), the file is written and what starts it there is said. On a build\nserver nothing is installed without --allow-ci-persistent."
    )]
    InstallService(InstallService),
    /// Do not start the daemon at boot any more, and stop it
    #[command(
        after_help = "Examples:\n  hostel mesh daemon uninstall-service\n  hostel mesh daemon uninstall-service --all\n\nThe membership and everything on disk stay; `hostel mesh daemon up` goes on with them."
    )]
    UninstallService(UninstallService),
}

#[derive(Args, Debug, Default)]
pub(crate) struct InstallService {
    #[command(flatten)]
    pub(crate) install: crate::service::cli::Install,

    /// Every mesh that is joined
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug, Default)]
pub(crate) struct UninstallService {
    #[command(flatten)]
    pub(crate) place: crate::service::cli::Where,

    /// Every mesh that has one
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Clone, Debug, Default, Eq, PartialEq)]
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
pub(crate) struct Hooks {
    #[command(subcommand)]
    pub(crate) action: Option<HooksAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksAction {
    /// List hooks, and why those that would not run would not
    #[command(after_help = "Examples:\n  hostel mesh daemon hooks list\n  hostel mesh daemon hooks list --json")]
    List,
    /// Say whether everything that is there would run
    #[command(
        after_help = "Examples:\n  hostel mesh daemon hooks check\n\nExits with 1 if hooks.toml is missing or has a mistake, or if a hook would not run."
    )]
    Check,
    /// Write a hooks.toml full of comments, if there is none
    #[command(after_help = "Examples:\n  hostel mesh daemon hooks init")]
    Init,
}

#[derive(Args, Debug)]
pub(crate) struct Down {
    /// Every daemon that runs
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Restart {
    /// Every daemon that runs; one that does not come up again does not hold up the others
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
