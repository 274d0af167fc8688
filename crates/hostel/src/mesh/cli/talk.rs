//! What is said in a mesh, on the command line: messages, topics, the inbox, files, events.

use std::path::PathBuf;

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

/// How urgent a message is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Urgency {
    Now,
    #[default]
    Next,
    Low,
}

impl Urgency {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Urgency::Now => "now",
            Urgency::Next => "next",
            Urgency::Low => "low",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Send {
    /// Who is to receive it
    #[arg(value_name = "TO")]
    pub(crate) to: String,

    /// What to say; `-` reads it from standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: String,

    #[command(flatten)]
    pub(crate) terms: Terms,
}

/// What a message may carry besides its text.
#[derive(Args, Debug)]
pub(crate) struct Terms {
    /// How urgent it is
    #[arg(long, value_enum, default_value_t = Urgency::Next)]
    pub(crate) priority: Urgency,

    /// The message this one answers
    #[arg(long, value_name = "ID")]
    pub(crate) reply_to: Option<String>,

    /// Data for programs, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) meta: Option<String>,

    /// An id of your own: the same one sent twice is sent once
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Post {
    /// The topic, with or without `#`
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: String,

    /// What to say; `-` reads it from standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: String,

    /// Somebody who should look; may be repeated
    #[arg(long = "mention", value_name = "NAME")]
    pub(crate) mentions: Vec<String>,

    #[command(flatten)]
    pub(crate) terms: Terms,
}

#[derive(Args, Debug)]
pub(crate) struct TopicName {
    /// The topic, with or without `#`
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: String,
}

#[derive(Args, Debug)]
pub(crate) struct Topic {
    #[command(subcommand)]
    pub(crate) action: TopicAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopicAction {
    /// List topics
    #[command(after_help = "Examples:\n  hostel mesh topic list")]
    List,
    /// Post to a topic
    #[command(after_help = "Examples:\n  hostel mesh topic post alerts \"OOM on worker-3\"")]
    Post(Post),
    /// Receive a topic's posts from now on
    #[command(alias = "join", after_help = "Examples:\n  hostel mesh topic subscribe alerts")]
    Subscribe(TopicName),
    /// Stop receiving a topic's posts
    #[command(alias = "leave", after_help = "Examples:\n  hostel mesh topic unsubscribe alerts")]
    Unsubscribe(TopicName),
}

#[derive(Args, Debug)]
pub(crate) struct Inbox {
    /// Only what was not seen yet
    #[arg(long)]
    pub(crate) unread: bool,

    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) limit: u32,

    /// Only what was received at this time or later (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only this topic
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,

    /// Only from this peer
    #[arg(long, value_name = "PEER")]
    pub(crate) from: Option<String>,

    /// Leave what is shown unread
    #[arg(long)]
    pub(crate) keep_unread: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Search {
    /// The words to look for
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,

    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) limit: u32,
}

#[derive(Args, Debug)]
pub(crate) struct File {
    #[command(subcommand)]
    pub(crate) action: FileAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FileAction {
    /// Share a file as it is now
    #[command(
        after_help = "Examples:\n  hostel mesh file share ./core.dump --to ada --message \"the crash\"\n  hostel mesh file share ./notes.md --persistent\n\nWithout --to it is for everybody in the mesh. It is kept for a day, with --persistent for good."
    )]
    Share(FileShare),
    /// Fetch a file
    #[command(
        after_help = "Examples:\n  hostel mesh file get 01jh3q5w6e7r8t9y0a1s2d3f4g\n  hostel mesh file get 01jh3q5w6e7r8t9y0a1s2d3f4g --out /tmp/core.dump"
    )]
    Get(FileGet),
    /// List the files one may fetch
    #[command(after_help = "Examples:\n  hostel mesh file list\n  hostel mesh file list --json")]
    List,
}

#[derive(Args, Debug)]
pub(crate) struct FileShare {
    /// The file
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// Who may read it
    #[arg(long, value_name = "PEER")]
    pub(crate) to: Option<String>,

    /// A word about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,

    /// Keep it until it is deleted
    #[arg(long)]
    pub(crate) persistent: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FileGet {
    /// The file's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Where to put it [default: its own name, in this directory]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,

    /// Also take a file that its sender is not proven to have shared
    #[arg(long)]
    pub(crate) unverified: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Only these events, separated by commas
    #[arg(long, value_name = "EVENTS", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Only messages of this topic
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,

    /// Go on after this event
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
}
