//! Who is in a mesh, on the command line: invites, members, peers, profiles.

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Invite {
    #[command(subcommand)]
    pub(crate) action: Option<InviteAction>,

    #[command(flatten)]
    pub(crate) create: InviteCreate,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InviteAction {
    /// Make an invite and print its link
    #[command(
        after_help = "Examples:\n  hostel mesh invite create\n  hostel mesh invite create --uses 5 --expires 2d --role admin"
    )]
    Create(InviteCreate),
    /// List invites
    #[command(after_help = "Examples:\n  hostel mesh invite list\n  hostel mesh invite list --json")]
    List,
    /// Take an invite back
    #[command(after_help = "Examples:\n  hostel mesh invite revoke 01jh3q5w6e7r8t9y0a1s2d3f4g")]
    Revoke {
        /// The invite's id, or its link
        #[arg(value_name = "ID")]
        invite: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct InviteCreate {
    /// How many may join by it
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) uses: u32,

    /// How long it lasts
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub(crate) expires: String,

    /// What those who join may do
    #[arg(long, value_enum, default_value_t = Role::Member)]
    pub(crate) role: Role,
}

/// What a member may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Role {
    Member,
    Admin,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Admin => "admin",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Member {
    #[command(subcommand)]
    pub(crate) action: MemberAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemberAction {
    /// List every member
    #[command(after_help = "Examples:\n  hostel mesh member list\n  hostel mesh member list --json")]
    List,
    /// Take a member's key out of the mesh for good
    #[command(after_help = "Examples:\n  hostel mesh member revoke worker-3")]
    Revoke(Target),
    /// Close a member's connections; its sessions end, its daemon comes back
    #[command(after_help = "Examples:\n  hostel mesh member kick worker-3")]
    Kick(Target),
    /// The same as revoke
    #[command(after_help = "Examples:\n  hostel mesh member ban worker-3")]
    Ban(Target),
    /// Take a revocation back
    #[command(after_help = "Examples:\n  hostel mesh member unban worker-3")]
    Unban(Target),
    /// Close a member's connections; it comes back by itself
    #[command(after_help = "Examples:\n  hostel mesh member disconnect worker-3")]
    Disconnect(Target),
}

#[derive(Args, Debug)]
pub(crate) struct Target {
    /// A member's name, public key or id
    #[arg(value_name = "MEMBER")]
    pub(crate) target: String,
}

#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// Only records after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) after: u64,

    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) limit: u32,
}

#[derive(Args, Debug)]
pub(crate) struct Peers {
    /// Also members that are not connected
    #[arg(short, long)]
    pub(crate) all: bool,

    /// With --json: only these fields, separated by commas
    #[arg(value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Peer {
    #[command(subcommand)]
    pub(crate) action: PeerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeerAction {
    /// List who is in the mesh and who is connected
    #[command(after_help = "Examples:\n  hostel mesh peer list\n  hostel mesh peer list --all --json")]
    List(Peers),
    /// Hear nothing of a peer any more
    #[command(
        after_help = "Examples:\n  hostel mesh peer block worker-3\n  hostel mesh peer unblock worker-3\n\nWhat it sends to this host is refused and it is told so (`blocked`); what it sends to a topic, a group or\neverybody is left out here. It reads nothing of the state this host writes. Others still hear it: to put a\nmember out of the mesh, see `hostel mesh member revoke`."
    )]
    Block(Blocked),
    /// Take a block or a grant back: the peer may do what everybody may
    #[command(after_help = "Examples:\n  hostel mesh peer unblock worker-3")]
    Unblock(Blocked),
    /// Let a peer do some things and no others
    #[command(
        after_help = "Examples:\n  hostel mesh peer grant worker-3 dm                     write to this host, and no more\n  hostel mesh peer grant worker-3 read,broadcast,state-read\n\n`dm` is writing to this host and sharing files with it, `broadcast` what goes to a topic, a group or\neverybody, `state-read` reading the state this host writes, `read` is kept for clients that ask for it. Who\nwas never named may do all four; `peer unblock` goes back to that."
    )]
    Grant(Granted),
    /// List the peers for whom something was set
    #[command(after_help = "Examples:\n  hostel mesh peer grants\n  hostel mesh peer grants --json")]
    Grants,
}

#[derive(Args, Debug)]
pub(crate) struct Blocked {
    /// The peer: a name, a public key or the first 16 or more digits of one
    #[arg(value_name = "PEER")]
    pub(crate) peer: String,
}

#[derive(Args, Debug)]
pub(crate) struct Granted {
    /// The peer: a name, a public key or the first 16 or more digits of one
    #[arg(value_name = "PEER")]
    pub(crate) peer: String,

    /// What it may do, separated by commas or as words of their own
    #[arg(value_name = "CAPABILITY", value_delimiter = ',', required = true)]
    pub(crate) capabilities: Vec<Capability>,
}

/// What a peer may do to this host.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Capability {
    Read,
    Dm,
    Broadcast,
    StateRead,
}

impl Capability {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Capability::Read => "read",
            Capability::Dm => "dm",
            Capability::Broadcast => "broadcast",
            Capability::StateRead => "state-read",
        }
    }
}

/// What one is up to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Status {
    Idle,
    Working,
    Dnd,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Idle => "idle",
            Status::Working => "working",
            Status::Dnd => "dnd",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Profile {
    /// What this host is doing
    #[arg(long, value_name = "TEXT")]
    pub(crate) summary: Option<String>,

    /// Whether it may be disturbed
    #[arg(long, value_enum)]
    pub(crate) status: Option<Status>,

    /// Whether it is listed
    #[arg(long, value_name = "BOOL")]
    pub(crate) visible: Option<bool>,

    /// A title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,

    /// A few words about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) bio: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Rename {
    /// The new name: letters, digits, `_` and `-`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The peer
    #[arg(value_name = "PEER")]
    pub(crate) peer: String,

    /// Accept the key that the broker names for this peer; compare the number first
    #[arg(long)]
    pub(crate) trust: bool,
}
