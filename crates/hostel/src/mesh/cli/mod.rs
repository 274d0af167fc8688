//! `hostel mesh` and `claudemesh` on the command line: one definition of every verb for both names.
//!
//! Invariant: examples are written for `hostel mesh`; the personality rewrites the name, and nothing else differs.
//!
//! It holds no behaviour. Rules about combinations are checked by the verb itself.

mod care;
mod daemon;
mod launch;
mod people;
mod shared;
mod talk;

use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;

pub(crate) use care::Backup;
pub(crate) use care::Recover;
pub(crate) use care::Reload;
pub(crate) use care::Removal;
pub(crate) use care::Restore;
pub(crate) use daemon::Daemon;
pub(crate) use daemon::DaemonAction;
pub(crate) use daemon::Down;
pub(crate) use daemon::Hooks;
pub(crate) use daemon::HooksAction;
pub(crate) use daemon::InstallService;
pub(crate) use daemon::Logs;
pub(crate) use daemon::Outbox;
pub(crate) use daemon::OutboxAction;
pub(crate) use daemon::OutboxList;
pub(crate) use daemon::Requeue;
pub(crate) use daemon::Restart;
pub(crate) use daemon::UninstallService;
pub(crate) use daemon::Up;
pub(crate) use launch::Launch;
pub(crate) use people::Audit;
pub(crate) use people::Capability;
pub(crate) use people::Invite;
pub(crate) use people::InviteAction;
pub(crate) use people::InviteCreate;
pub(crate) use people::Member;
pub(crate) use people::MemberAction;
pub(crate) use people::Peer;
pub(crate) use people::PeerAction;
pub(crate) use people::Peers;
pub(crate) use people::Profile;
pub(crate) use people::Rename;
pub(crate) use people::Verify;
pub(crate) use shared::State;
pub(crate) use shared::StateAction;
pub(crate) use shared::StateDelete;
pub(crate) use shared::StateList;
pub(crate) use shared::StateSet;
pub(crate) use shared::StateWatch;
pub(crate) use shared::Task;
pub(crate) use shared::TaskAction;
pub(crate) use shared::TaskCreate;
pub(crate) use shared::TaskList;
pub(crate) use shared::TaskState;
pub(crate) use talk::Events;
pub(crate) use talk::File;
pub(crate) use talk::FileAction;
pub(crate) use talk::FileGet;
pub(crate) use talk::FileShare;
pub(crate) use talk::Inbox;
pub(crate) use talk::Post;
pub(crate) use talk::Search;
pub(crate) use talk::Send;
pub(crate) use talk::Terms;
pub(crate) use talk::Topic;
pub(crate) use talk::TopicAction;
pub(crate) use talk::TopicName;
pub(crate) use talk::Urgency;

#[derive(Args, Debug)]
pub(crate) struct Mesh {
    /// Which mesh; needed only where several are joined
    #[arg(long, global = true, value_name = "MESH", display_order = 800)]
    pub(crate) mesh: Option<String>,

    #[command(subcommand)]
    pub(crate) verb: MeshVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MeshVerb {
    /// Make a mesh, join it, and print an invite for the first peer
    #[command(
        after_help = "Examples:\n  hostel mesh create lab\n  hostel mesh create lab --listen 0.0.0.0:7443 --url wss://lab.example.org:7443/ws\n  hostel mesh create lab --name build-box --json\n\nWithout options the mesh is for this machine only: the embedded broker listens on loopback. With\n--listen and --url it is for several machines; the broker then speaks TLS with a certificate of its\nown, whose fingerprint is in the invite. Broker and mesh daemon are started if they are not up."
    )]
    Create(Create),

    /// Join a mesh by its invite, and start its daemon
    #[command(
        after_help = "Examples:\n  hostel mesh join 'ic://join/eyJ2IjoxLC…#k=…'\n  hostel mesh join --name worker-3 'ic://join/eyJ2IjoxLC…#k=…'\n\nThe part after # holds the invite's secret and never leaves this machine. Quote the link: # and &\nmean something to shells. Other users of this machine can read the words of a command while it\nruns: `hostel mesh join - <FILE` and `hostel mesh join ./FILE` keep the link from them."
    )]
    Join(Join),

    /// List the meshes that are joined here
    #[command(after_help = "Examples:\n  hostel mesh list\n  hostel mesh list --json")]
    List,

    /// Leave a mesh: tell the broker, stop the daemon, forget the keys
    #[command(
        after_help = "Examples:\n  hostel mesh leave --mesh lab\n  hostel mesh leave --mesh lab --local    forget it here, even if the broker is away\n\nMessages that were received stay in the mesh's directory."
    )]
    Leave(Leave),

    /// Make, list and take back invites
    #[command(
        after_help = "Examples:\n  hostel mesh invite create\n  hostel mesh invite create --uses 5 --expires 2d\n  hostel mesh invite list\n  hostel mesh invite revoke 01jh3q5w6e7r8t9y0a1s2d3f4g\n\nWithout a verb it is `create`; the link is all there is on standard output. Only the mesh's owner can invite, on the host that holds its key."
    )]
    Invite(Invite),

    /// List members, and revoke, ban, kick or disconnect them
    #[command(
        after_help = "Examples:\n  hostel mesh member list\n  hostel mesh member revoke worker-3\n  hostel mesh member unban worker-3\n\nOwner and administrators may do this. A member that is revoked reads nothing that comes after."
    )]
    Member(Member),

    /// Show what the broker has recorded: joins, revocations, suspected clones
    #[command(
        after_help = "Examples:\n  hostel mesh audit\n  hostel mesh audit --after 120 --json\n\nFor owner and administrators. Each record holds the digest of the one before."
    )]
    Audit(Audit),

    /// List who is in the mesh and who is connected
    #[command(
        after_help = "Examples:\n  hostel mesh peers\n  hostel mesh peers --all            also those who are not connected\n  hostel mesh peers --json pubkey,displayName"
    )]
    Peers(Peers),

    /// List peers, and say what one may do to this host
    #[command(
        after_help = "Examples:\n  hostel mesh peer list\n  hostel mesh peer list --json displayName,status\n  hostel mesh peer block worker-3\n  hostel mesh peer grants"
    )]
    Peer(Peer),

    /// Send a message to a peer, a topic, a group or everybody
    #[command(
        after_help = "Examples:\n  hostel mesh send worker-3 \"disk is full\"\n  hostel mesh send --priority now '#alerts' \"OOM on worker-3\"\n  hostel mesh send '*' \"back in five minutes\"\n  make test 2>&1 | tail -20 | hostel mesh send worker-3 -\n\nTO is a name, a public key or the first 16 or more digits of one, `#topic`, `@group`, `*`, or\n`host/session`. With a daemon the message is on disk when this returns and is retried for a week;\nwithout one it is sent at once or not at all."
    )]
    Send(Send),

    /// Post to a topic
    #[command(
        after_help = "Examples:\n  hostel mesh post alerts \"OOM on worker-3\"\n  hostel mesh post alerts --mention ada \"please look\""
    )]
    Post(Post),

    /// Receive a topic's posts from now on; makes a topic that is not there
    #[command(after_help = "Examples:\n  hostel mesh subscribe alerts")]
    Subscribe(TopicName),

    /// Stop receiving a topic's posts
    #[command(after_help = "Examples:\n  hostel mesh unsubscribe alerts")]
    Unsubscribe(TopicName),

    /// List topics
    #[command(after_help = "Examples:\n  hostel mesh topics\n  hostel mesh topics --json")]
    Topics,

    /// Topics under their longer names
    #[command(
        after_help = "Examples:\n  hostel mesh topic list\n  hostel mesh topic post alerts \"OOM\"\n  hostel mesh topic subscribe alerts"
    )]
    Topic(Topic),

    /// Show what was received, newest first
    #[command(
        after_help = "Examples:\n  hostel mesh inbox\n  hostel mesh inbox --unread --limit 20\n  hostel mesh inbox --since 2026-01-01T00:00:00Z --topic alerts\n\nWhat is shown counts as seen, unless --keep-unread is given."
    )]
    Inbox(Inbox),

    /// Search what was received
    #[command(
        after_help = "Examples:\n  hostel mesh search OOM\n  hostel mesh search 'disk NEAR full' --limit 20\n\nThe words are a query of SQLite's full text search."
    )]
    Search(Search),

    /// Share files, fetch them, list them
    #[command(
        after_help = "Examples:\n  hostel mesh file share ./core.dump --to ada\n  hostel mesh file list\n  hostel mesh file get 01jh3q5w6e7r8t9y0a1s2d3f4g --out ./core.dump\n\nFiles are encrypted before they leave; the broker stores what it cannot read."
    )]
    File(File),

    /// Print events as they come
    #[command(
        after_help = "Examples:\n  hostel mesh events\n  hostel mesh events --only message,file_shared --topic alerts\n  hostel mesh events --json --after 6f1c-120\n\nOne line per event, with --json one object per line. Ctrl-C ends it; --after goes on where one was."
    )]
    Events(Events),

    /// Read and write values that all members share
    #[command(
        after_help = "Examples:\n  hostel mesh state set deploy/version 42\n  hostel mesh state get deploy/version\n  hostel mesh state list --prefix deploy/\n  hostel mesh state watch\n\nOff unless `state = true` stands below [capabilities] in config.toml. Keys and values are encrypted\nbefore they leave; the broker sees neither."
    )]
    State(State),

    /// Make tasks and take them on, each by exactly one
    #[command(
        after_help = "Examples:\n  hostel mesh task create \"rebuild the index\"\n  hostel mesh task list\n  hostel mesh task claim 01jh3q5w6e7r8t9y0a1s2d3f4g\n  hostel mesh task complete 01jh3q5w6e7r8t9y0a1s2d3f4g\n\nOff unless `tasks = true` stands below [capabilities] in config.toml. What a task says is encrypted\nbefore it leaves; the broker sees who made it, who has it and whether it is done."
    )]
    Task(Task),

    /// Say what this host is doing, for its peers
    #[command(
        after_help = "Examples:\n  hostel mesh profile --summary \"training run 7\" --status working\n  hostel mesh profile --visible false"
    )]
    Profile(Profile),

    /// Take another name in the mesh
    #[command(after_help = "Examples:\n  hostel mesh rename build-box-2")]
    Rename(Rename),

    /// Print the safety number of a peer, to compare over another channel
    #[command(
        after_help = "Examples:\n  hostel mesh verify ada\n\nBoth sides see the same 30 digits if and only if nobody stands between them."
    )]
    Verify(Verify),

    /// Launch an agent as a session of its own in the mesh
    #[command(
        after_help = "Examples:\n  hostel mesh launch\n  hostel mesh launch --agent claude --name review \"look at the open pull requests\"\n  hostel mesh launch --agent claude --name builds --mode code --messages on\n  hostel mesh launch --agent codex --print \"what did bob ask?\"\n\nPeers see it as HOST/NAME beside the host itself, and can write to it: what they write is shown, and with\n`--messages on` put to the agent, each message once and with no more rights than --mode says. Every verb\nand every MCP tool of the mesh that is used inside speaks for the session and reads its mailbox, not the\nhost's. It ends with this command: at the end of the input, with /quit, with Ctrl-C at the prompt, or when the terminal goes\naway. Ctrl-C in a turn stops the turn.\n\nWithout --agent: the first of claude, codex, gemini, opencode that is there, else the built-in echo."
    )]
    Launch(Launch),

    /// Set this host up: the mesh's tools for its agents, and the daemon as a service
    #[command(
        after_help = "Examples:\n  hostel mesh install\n  hostel mesh install --service\n  hostel mesh install --no-mcp --no-service\n\nEnters the tools into the configuration of every agent that is found, and asks whether the daemon shall\nbe a service. Where nobody can be asked, or no systemd runs, none is installed unless --service says so."
    )]
    Install(Install),

    /// Look after the mesh daemon: one process per mesh
    #[command(
        after_help = "Examples:\n  hostel mesh daemon up\n  hostel mesh daemon status\n  hostel mesh daemon logs -f\n  hostel mesh daemon down\n\n`hostel up` starts one for every mesh that is joined."
    )]
    Daemon(Daemon),
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// What the mesh is called
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What this host is called in it [default: the host's name]
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) display_name: Option<String>,

    /// Where the broker listens for other machines, with TLS
    #[arg(long, value_name = "ADDR", requires = "url")]
    pub(crate) listen: Option<String>,

    /// How other machines reach the broker: wss://HOST[:PORT]/ws
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Use a broker that runs elsewhere instead of the embedded one
    #[arg(long, value_name = "URL", conflicts_with_all = ["listen", "url"])]
    pub(crate) broker: Option<String>,

    /// The file that holds that broker's admin token
    #[arg(long, value_name = "FILE", requires = "broker")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// The SHA-256 digest of that broker's certificate, if it has one of its own
    #[arg(long, value_name = "HEX", requires = "broker")]
    pub(crate) cert: Option<String>,

    /// Start neither broker nor daemon
    #[arg(long)]
    pub(crate) no_start: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Join {
    /// The invite, `-` to read it from standard input, or the path of a file that holds it
    #[arg(value_name = "INVITE")]
    pub(crate) invite: String,

    /// What this host is called in the mesh [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Do not start the mesh daemon
    #[arg(long)]
    pub(crate) no_start: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Install {
    /// Install the daemon as a service without asking
    #[arg(long, conflicts_with = "no_service")]
    pub(crate) service: bool,

    /// Install no service, and do not ask
    #[arg(long)]
    pub(crate) no_service: bool,

    /// Leave the configuration of agents alone
    #[arg(long)]
    pub(crate) no_mcp: bool,

    /// Install the service although this looks like a build job
    #[arg(long)]
    pub(crate) allow_ci_persistent: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Leave {
    /// Forget the mesh here without telling the broker
    #[arg(long)]
    pub(crate) local: bool,
}
