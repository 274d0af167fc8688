//! What members share, on the command line: state and tasks.

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

use super::Urgency;

#[derive(Args, Debug)]
pub(crate) struct State {
    #[command(subcommand)]
    pub(crate) action: StateAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateAction {
    /// Write a value
    #[command(
        after_help = "Examples:\n  hostel mesh state set deploy/version 42\n  hostel mesh state set deploy/owner ada\n  hostel mesh state set deploy/lock '{\"host\":\"worker-3\"}' --if-version 0     only if it is not there\n  jq .plan plan.json | hostel mesh state set plan -\n\nThe value is JSON; what is no JSON is taken as a text, and --text takes everything as one. With\n--if-version it is written only over that version; exit code 6 says that it has another."
    )]
    Set(StateSet),
    /// Print a value
    #[command(
        after_help = "Examples:\n  hostel mesh state get deploy/version\n  hostel mesh state get deploy/lock --json     with its version"
    )]
    Get(StateKey),
    /// List keys with their versions
    #[command(
        after_help = "Examples:\n  hostel mesh state list\n  hostel mesh state list --prefix deploy/ --values --json"
    )]
    List(StateList),
    /// Print changes as they come
    #[command(
        after_help = "Examples:\n  hostel mesh state watch\n  hostel mesh state watch --prefix deploy/ --json\n  hostel mesh state watch --after 6f1c-120\n\nOne line per change. Ctrl-C ends it; --after goes on where one was."
    )]
    Watch(StateWatch),
    /// Remove a key
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n  hostel mesh state delete deploy/lock\n  hostel mesh state delete deploy/lock --if-version 17"
    )]
    Delete(StateDelete),
}

#[derive(Args, Debug)]
pub(crate) struct StateKey {
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

#[derive(Args, Debug)]
pub(crate) struct StateSet {
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: String,

    /// The value; `-` reads it from standard input
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) value: String,

    /// Take the value as a text, whatever it looks like
    #[arg(long)]
    pub(crate) text: bool,

    /// Only if the key has this version; 0: only if it is not there
    #[arg(long, value_name = "VERSION")]
    pub(crate) if_version: Option<u64>,

    /// An id of your own: the same one twice writes once
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct StateDelete {
    /// The key
    #[arg(value_name = "KEY")]
    pub(crate) key: String,

    /// Only if the key has this version
    #[arg(long, value_name = "VERSION")]
    pub(crate) if_version: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct StateList {
    /// Only keys that begin so
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,

    /// With their values
    #[arg(long)]
    pub(crate) values: bool,

    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) limit: u32,

    /// Go on after this key
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct StateWatch {
    /// Only keys that begin so
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,

    /// Go on after this event
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Task {
    #[command(subcommand)]
    pub(crate) action: TaskAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskAction {
    /// Make a task
    #[command(
        after_help = "Examples:\n  hostel mesh task create \"rebuild the index\"\n  hostel mesh task create \"look at the OOM\" --body \"worker-3, since noon\" --assignee ada --priority now\n  hostel mesh task create \"nightly run\" --idempotency-key nightly-2026-01-01"
    )]
    Create(TaskCreate),
    /// Take a task on: exactly one who tries gets it
    #[command(
        after_help = "Examples:\n  hostel mesh task claim 01jh3q5w6e7r8t9y0a1s2d3f4g\n  hostel mesh task claim 01jh3q5w6e7r8t9y0a1s2d3f4g --lease 600     others may claim it after 10 minutes\n\nExit code 6 says that somebody else has it."
    )]
    Claim(TaskClaim),
    /// Say that a task one has claimed is done
    #[command(
        after_help = "Examples:\n  hostel mesh task complete 01jh3q5w6e7r8t9y0a1s2d3f4g\n  hostel mesh task complete 01jh3q5w6e7r8t9y0a1s2d3f4g --result '{\"rows\":812}'"
    )]
    Complete(TaskComplete),
    /// Let a task go that one has claimed
    #[command(after_help = "Examples:\n  hostel mesh task release 01jh3q5w6e7r8t9y0a1s2d3f4g")]
    Release(TaskId),
    /// List tasks, the oldest first
    #[command(
        after_help = "Examples:\n  hostel mesh task list\n  hostel mesh task list --status all --json\n\nWithout --status: those that are not done."
    )]
    List(TaskList),
    /// Show a task with all of its content
    #[command(after_help = "Examples:\n  hostel mesh task show 01jh3q5w6e7r8t9y0a1s2d3f4g")]
    Show(TaskId),
}

#[derive(Args, Debug)]
pub(crate) struct TaskId {
    /// The task
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Args, Debug)]
pub(crate) struct TaskCreate {
    /// What is to be done, in one line
    #[arg(value_name = "TITLE")]
    pub(crate) title: String,

    /// The rest; `-` reads it from standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,

    /// Who is to do it
    #[arg(long, value_name = "PEER")]
    pub(crate) assignee: Option<String>,

    /// How urgent it is
    #[arg(long, value_enum, default_value_t = Urgency::Next)]
    pub(crate) priority: Urgency,

    /// An id of your own: the same one twice makes one task
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TaskClaim {
    /// The task
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// After so many seconds others may claim it
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lease: Option<u64>,

    /// An id of your own: the same claim twice is one claim
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TaskComplete {
    /// The task
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// What came of it: JSON, or a text; `-` reads it from standard input
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub(crate) result: Option<String>,
}

/// Which tasks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum TaskState {
    Open,
    Claimed,
    Completed,
    All,
}

#[derive(Args, Debug)]
pub(crate) struct TaskList {
    /// Only those that are so
    #[arg(long, value_enum)]
    pub(crate) status: Option<TaskState>,

    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub(crate) limit: u32,

    /// Go on after this task
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
}
