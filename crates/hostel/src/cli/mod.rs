//! The command line, as clap sees it: every verb, flag, help text and example.
//!
//! Invariant: help, man pages and completions all come from these definitions; nothing is documented twice.
//!
//! It holds no behaviour. Rules about combinations are checked by the verb itself.

mod approvals;
pub(crate) mod generate;
mod sessions;
mod space;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;

pub(crate) use approvals::Approvals;
pub(crate) use approvals::ApprovalsAction;
pub(crate) use approvals::Approver;
pub(crate) use approvals::ApproverAction;
pub(crate) use approvals::Audit;
pub(crate) use approvals::AuditAction;
pub(crate) use approvals::GrantTerms;
pub(crate) use approvals::PassphraseFrom;
pub(crate) use approvals::Reviewed;
pub(crate) use approvals::Scope;
pub(crate) use sessions::MeshPolicy;
pub(crate) use sessions::Mode;
pub(crate) use sessions::Send;
pub(crate) use sessions::Sessions;
pub(crate) use sessions::SessionsAction;
pub(crate) use sessions::TranscriptFormat;
pub(crate) use sessions::Watch;
pub(crate) use space::Gc;
pub(crate) use space::Journal;
pub(crate) use space::JournalAction;

/// Hosts processes and AI agents on this machine and never loses a byte of them.
///
/// A daemon (`hostel up`) starts your commands and agents through a keeper process that outlives it: stop, crash or
/// upgrade the daemon, and they run on; come back, and what they said is complete.
#[derive(Debug, Parser)]
#[command(
    name = "hostel",
    version,
    propagate_version = false,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = false,
    after_help = "Examples:\n  hostel up                      start the house\n  hostel run -- make test        host a command and stream it\n  hostel run \"fix the tests\"     ask an agent and stream what it does\n  hostel sessions                the agents' sessions\n  hostel approvals               what waits for your permission\n  hostel mesh peers              the other hosts of a mesh\n  hostel ps                      what runs\n  hostel logs -f build           follow what it prints\n  hostel down                    end everything\n\nEach verb has its own page: hostel VERB --help"
)]
pub(crate) struct Cli {
    /// Print data as JSON instead of text for people
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,

    /// The house's directory [default: ~/.hostel]
    #[arg(long, global = true, value_name = "DIR", env = "HOSTEL_HOME", hide_env_values = true, display_order = 901)]
    pub(crate) home: Option<PathBuf>,

    /// Ask only this house: `home`, or the name of a folder under `as/`
    #[arg(long, global = true, value_name = "NAME", display_order = 902)]
    pub(crate) house: Option<String>,

    /// When to use colour; `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, display_order = 903)]
    pub(crate) color: ColorChoice,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start the house: keeper, daemon and every door
    #[command(
        after_help = "Examples:\n  hostel up\n  hostel up --foreground\n  hostel up --set journal.quota=5GiB\n\nReturns once every door accepts. A house that is up already is left as it is."
    )]
    Up(Up),

    /// End the house: daemon, keeper and every process
    #[command(
        after_help = "Examples:\n  hostel down\n  hostel down --keep    end only the daemon; processes run on and the next `hostel up` finds them"
    )]
    Down(Down),

    /// Host a command, or put a prompt to an agent, and stream what comes
    #[command(
        override_usage = "hostel run [OPTIONS] \"PROMPT\" | hostel run [OPTIONS] -- COMMAND [ARGUMENT]...",
        after_help = "Examples:\n  hostel run -- make test\n  hostel run -d --name web -- python3 -m http.server\n  echo hello | hostel run -- tr a-z A-Z\n  hostel run \"fix the failing test\"\n  hostel run --agent codex --mode plan --cwd ~/project \"how would you split this module?\"\n  git diff | hostel run - > review.md    the prompt comes from standard input\n\nA command: the exit code is its own; a signal gives 128 plus its number.\nCtrl-C sends INT to the command, a second Ctrl-C leaves it running and goes away.\n\nA prompt: exactly one word, no `--`. The answer goes to standard output, everything else to\nstandard error. Exits with 0 when the turn completed, 1 when it failed, 130 after Ctrl-C.\nCtrl-C stops the turn, a second Ctrl-C leaves it running and goes away. Without --agent:\nthe first of claude, codex, gemini, opencode that is there, else the built-in echo."
    )]
    Run(Run),

    /// List the agents' sessions, look at one, close, delete or export it
    #[command(
        after_help = "Examples:\n  hostel sessions\n  hostel sessions --all\n  hostel sessions show 3fa2\n  hostel sessions export 3fa2 --out talk.md\n  hostel sessions close 3fa2\n\nID is a name, an id, or the first four or more characters of an id. Sessions of every house and\nevery door are here."
    )]
    Sessions(Sessions),

    /// Put a prompt to a session
    #[command(
        after_help = "Examples:\n  hostel send 3fa2 \"and now the documentation\"\n  hostel send --wait 3fa2 \"run the tests again\"\n  hostel send 3fa2 - < prompt.txt\n\nThe prompt is on disk when this returns, and is put to the agent once it is done with those\nbefore it. A closed session is opened again."
    )]
    Send(Send),

    /// Show what a session has said and done, and go on as it does
    #[command(
        after_help = "Examples:\n  hostel watch 3fa2\n  hostel watch --no-follow 3fa2 | less -R\n  hostel watch --since 120 --json 3fa2\n\nCtrl-C goes away; the session notices nothing."
    )]
    Watch(Watch),

    /// Read what agents and programs ask permission for, and answer
    #[command(
        after_help = "Examples:\n  hostel approvals                          the inbox, full screen\n  hostel approvals list\n  hostel approvals show 7c1e\n  hostel approvals approve 7c1e\n  hostel approvals deny 7c1e --reason \"not on this branch\"\n  hostel approvals approve 7c1e --for 10m   and the same again for 10 minutes\n  hostel approvals why 7c1e\n  hostel approvals watch\n\nOn a terminal, without a verb, this is the inbox: the request in full, y to approve, n to deny,\ng to grant, w for the rules, ? for the rest. Elsewhere, and with --json, it is the list.\nAnswers take the approver's passphrase, see `hostel approver set`."
    )]
    Approvals(Approvals),

    /// Set, check or remove the passphrase that answers to requests take
    #[command(
        after_help = "Examples:\n  hostel approver set\n  hostel approver status\n  hostel approver clear\n\nOnly a digest of it is kept, in `approver` in the house's directory. Every house below that\ndirectory takes the same one."
    )]
    Approver(Approver),

    /// Show or verify the record of requests, decisions and what came of them
    #[command(
        after_help = "Examples:\n  hostel audit show\n  hostel audit show --since 120 --json\n  hostel audit verify\n\nThe record is only ever added to, and each entry holds the digest of the one before."
    )]
    Audit(Audit),

    /// Serve the house's tools to an agent that speaks MCP, on standard input and output
    #[command(
        after_help = "Examples:\n  hostel mcp install claude    the agent starts it by itself from then on\n  hostel mcp install codex --dry-run\n  hostel mcp uninstall gemini\n  hostel mcp                   what the agent runs\n\nThe tools: execute (a command as root or on another machine, once a person approved it),\nask_approval, session_list, session_send, session_read, mesh_send, mesh_inbox, mesh_peers, and\nstart_server, stop_server, status, update_host for the machines behind execute. Starts the house if it is not up.\nOver HTTP the same tools are at /mcp, see `hostel up`."
    )]
    Mcp(crate::mcp::cli::Mcp),

    /// Talk with other hosts: meshes, messages, topics, files
    #[command(
        after_help = "Examples:\n  hostel mesh create lab            make a mesh, and an invite for the first peer\n  hostel mesh join 'ic://join/…'    join one\n  hostel mesh peers                 who is there\n  hostel mesh send ada \"hello\"\n  hostel mesh inbox\n  hostel mesh daemon status\n\nEverything is encrypted from host to host. What a host has accepted is delivered once, whatever is\nkilled in between. Called as `claudemesh` this program takes these verbs without `mesh`."
    )]
    Mesh(crate::mesh::cli::Mesh),

    /// Look after the embedded broker, which carries the messages of meshes
    #[command(
        after_help = "Examples:\n  hostel broker status\n  hostel broker up\n  hostel broker down\n\n`hostel up` starts it; `hostel mesh create` does if it has to."
    )]
    Broker(crate::broker::cli::Broker),

    /// Write the whole house and its meshes into an encrypted file
    #[command(
        after_help = "Examples:\n  hostel backup --out ~/house.backup\n  hostel backup --out house.backup --passphrase-fd 3 3< passphrase.txt\n\nHolds everything that lasts: sessions, journals, approvals and their record, hostel.toml, the\napprover's digest, the broker, and every mesh that is joined. Not in it: tokens, sockets, logs. The house may\nrun: each database is taken as it is at one moment, and journals at least as far."
    )]
    Backup(crate::backup::cli::Backup),

    /// Put back a house that `hostel backup` has written
    #[command(
        after_help = "Examples:\n  hostel restore --in ~/house.backup\n  hostel --home /srv/house restore --in house.backup --passphrase-fd 3 3< passphrase.txt\n\nOnly where no house is, or into one that is down, with --force: what is there is kept beside it. Meshes\ncome back with it, unless --no-meshes is given. The file is read to its end and compared with its\ndigests before anything is moved."
    )]
    Restore(crate::backup::cli::Restore),

    /// List processes
    #[command(after_help = "Examples:\n  hostel ps\n  hostel ps -a\n  hostel ps --tree\n  hostel ps --json")]
    Ps(Ps),

    /// Print what a process has printed
    #[command(
        after_help = "Examples:\n  hostel logs build\n  hostel logs -f 3fa2\n  hostel logs --since-seq 1200 build\n\nID is a name, or the first four or more digits of an id."
    )]
    Logs(Logs),

    /// Connect this terminal to a process: what it printed, what it prints, and its stdin
    #[command(
        after_help = "Examples:\n  hostel attach web\n  echo status | hostel attach --no-replay console\n\nCtrl-C goes away and leaves the process running."
    )]
    Attach(Attach),

    /// Signal a process and everything it started
    #[command(
        after_help = "Examples:\n  hostel kill web\n  hostel kill --signal INT web\n  hostel kill --wait 10s web    KILL follows if it is still there"
    )]
    Kill(Kill),

    /// Check this house and this machine for trouble
    #[command(
        after_help = "Examples:\n  hostel doctor\n  hostel doctor --json\n\nExits with 1 if something is broken; warnings alone exit with 0."
    )]
    Doctor,

    /// Show how much disk the journals use
    #[command(after_help = "Examples:\n  hostel df\n  hostel df --json")]
    Df,

    /// Remove journals of exited processes that are past their time, at once
    #[command(
        after_help = "Examples:\n  hostel gc --dry-run\n  hostel gc\n  hostel gc --all          every exited process, however recent\n  hostel gc --all --yes    without asking, for scripts\n\nSays what would go and asks. What runs, what somebody reads, and what a session or a pipeline\nneeds stays. Journals of agents go once the events of their turns are stored; the history of a\nsession stays."
    )]
    Gc(Gc),

    /// Check journals for damage
    Journal(Journal),

    /// Make the symlinks by which this program takes other names
    #[command(
        after_help = "Examples:\n  hostel link ~/.local/bin\n\nCalled as `claustrum`, `codecast-daemon`, `zeroclaw`, `sudo-proxy`, `sudo-request`,\n`sudo-proxy-mcp` or `claudemesh` it takes that program's flags, paths and messages."
    )]
    Link(Link),

    /// Start the house at boot: install it as a service, or take it out again
    #[command(
        after_help = "Examples:\n  hostel service install\n  hostel service install --print\n  hostel service status\n  hostel service uninstall\n\nMeshes may have services of their own, see `hostel mesh daemon install-service`."
    )]
    Service(crate::service::cli::Service),

    /// Look at the keeper, or replace it in place
    #[command(after_help = "Examples:\n  hostel keeper status\n  hostel keeper upgrade")]
    Keeper(Keeper),

    /// Show or check the configuration
    #[command(
        after_help = "Examples:\n  hostel config show\n  hostel config check ./hostel.toml\n  hostel config path"
    )]
    Config(Config),

    /// Print the completion script of a shell
    #[command(
        after_help = "Examples:\n  hostel completions bash > ~/.local/share/bash-completion/completions/hostel\n  hostel completions fish > ~/.config/fish/completions/hostel.fish"
    )]
    Completions(Completions),

    /// Print the manual page, or write all of them into a directory
    #[command(after_help = "Examples:\n  hostel man | man -l -\n  hostel man --out ~/.local/share/man/man1")]
    Man(Man),

    /// Act as another program
    #[command(
        override_usage = "hostel as NAME [ARGUMENT]...",
        after_help = "Examples:\n  hostel as claustrum -version\n  hostel as claustrum -serve -socket /tmp/rpc.sock -token-file /tmp/token\n  hostel as codecast-daemon\n  hostel as zeroclaw daemon --ephemeral\n  hostel as sudo-proxy\n  hostel as claudemesh peers\n\nNames: claustrum, codecast-daemon, zeroclaw, sudo-proxy, sudo-request, sudo-proxy-mcp, claudemesh"
    )]
    As(As),
}

#[derive(Args, Debug)]
pub(crate) struct Up {
    /// Stay in this terminal instead of going into the background
    #[arg(long)]
    pub(crate) foreground: bool,

    /// Override a setting, for example `journal.quota=5GiB`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// How the background process knows that it is one
    #[arg(long, hide = true)]
    pub(crate) launched: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Down {
    /// End only the daemon; keeper and processes run on
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Call the process or the session this
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Return at once and leave it to the house
    #[arg(short, long)]
    pub(crate) detach: bool,

    /// Start in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// The agent to ask
    #[arg(long, value_name = "AGENT", help_heading = "Options of a prompt")]
    pub(crate) agent: Option<String>,

    /// What the agent may do: everything (auto), edits (code), nothing that writes (plan), or nothing without asking
    /// (ask)
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Options of a prompt")]
    pub(crate) mode: Option<Mode>,

    /// The model the agent is to use
    #[arg(long, value_name = "MODEL", help_heading = "Options of a prompt")]
    pub(crate) model: Option<String>,

    /// What becomes of messages from a mesh for the session: they lie in its mailbox (off), you are asked about each
    /// (ask), or each is put to the agent (on)
    #[arg(long, value_name = "POLICY", value_enum, help_heading = "Options of a prompt")]
    pub(crate) mesh: Option<MeshPolicy>,

    /// Set a variable for the command; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Options of a command")]
    pub(crate) env: Vec<OsString>,

    /// Give the command an empty stdin instead of ours
    #[arg(long, help_heading = "Options of a command")]
    pub(crate) no_stdin: bool,

    /// End a running process of the same name first
    #[arg(long, help_heading = "Options of a command")]
    pub(crate) replace: bool,

    /// What to ask an agent, one word; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) words: Vec<OsString>,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Ps {
    /// Also those that have exited
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Under each process, everything it started
    #[arg(long)]
    pub(crate) tree: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Logs {
    /// Name or id of the process
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Go on printing as the process does
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only what came after this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) since_seq: u64,

    /// Start each line with the time it was printed
    #[arg(short, long)]
    pub(crate) timestamps: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Attach {
    /// Name or id of the process
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Skip what was printed before now
    #[arg(long)]
    pub(crate) no_replay: bool,

    /// Only watch; keep our stdin to ourselves
    #[arg(long)]
    pub(crate) no_stdin: bool,

    /// Close the process's stdin when ours ends
    #[arg(long, conflicts_with = "no_stdin")]
    pub(crate) close_stdin: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Kill {
    /// Names or ids of the processes
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,

    /// The signal to send: TERM, INT, HUP, KILL, QUIT, USR1, USR2
    #[arg(short, long, value_name = "NAME", default_value = "TERM")]
    pub(crate) signal: String,

    /// Wait this long for the end, then send KILL
    #[arg(short, long, value_name = "TIME")]
    pub(crate) wait: Option<String>,

    /// With --wait: leave a process that does not end alone
    #[arg(long, requires = "wait")]
    pub(crate) no_escalate: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Link {
    /// Where to put the symlinks
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Replace what is there under those names
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Keeper {
    #[command(subcommand)]
    pub(crate) action: KeeperAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeeperAction {
    /// Show the keeper's pid, build and children
    #[command(after_help = "Examples:\n  hostel keeper status\n  hostel keeper status --json")]
    Status,
    /// Replace the keeper with the daemon's build; its processes notice nothing
    #[command(
        after_help = "Examples:\n  hostel keeper upgrade\n  hostel down --keep && hostel up && hostel keeper upgrade"
    )]
    Upgrade,
}

#[derive(Args, Debug)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print every setting, its value and where it comes from
    #[command(after_help = "Examples:\n  hostel config show\n  hostel config show --set journal.quota=5GiB")]
    Show {
        /// Override a setting, for example `journal.quota=5GiB`; may be repeated
        #[arg(long = "set", value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Print where the configuration file is looked for
    #[command(after_help = "Examples:\n  hostel config path")]
    Path,
    /// Read a configuration file and say what is wrong with it
    #[command(after_help = "Examples:\n  hostel config check\n  hostel config check ./hostel.toml")]
    Check {
        /// The file to read, instead of the house's own
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell to complete for
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The shells that have a completion script.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write hostel.1 and a page for each verb into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct As {
    /// The name to act under, and that program's own arguments
    #[arg(value_name = "NAME", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}
