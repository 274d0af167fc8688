//! The command line of consent: the inbox, the approver's passphrase, the audit.

use clap::Args;
use clap::Subcommand;
use clap::ValueEnum;

#[derive(Args, Debug)]
pub(crate) struct Approvals {
    #[command(subcommand)]
    pub(crate) action: Option<ApprovalsAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsAction {
    /// List what waits for an answer
    #[command(after_help = "Examples:\n  hostel approvals list\n  hostel approvals list --all --json")]
    List {
        /// Also what was settled
        #[arg(short, long)]
        all: bool,
    },
    /// Show one in full: who asks, why, and exactly what
    #[command(
        after_help = "Examples:\n  hostel approvals show 7c1e\n\nCharacters that could deceive (invisible ones, those that change direction, letters that look\nlike others) are spelled out, for example ⟨U+202E⟩; blanks inside a word are shown as ␣."
    )]
    Show {
        /// Id of the approval, or the first four or more characters of it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Allow what is asked for
    #[command(
        after_help = "Examples:\n  hostel approvals approve 7c1e\n  hostel approvals approve --always 7c1e              this tool, for the rest of the session\n  hostel approvals approve 7c1e --for 10m             and the same again for 10 minutes\n  hostel approvals approve 7c1e --changeable          although others can change what root would run\n  hostel approvals approve 7c1e --for 1h --count 5 --scope requester\n  pass show hostel | hostel approvals approve 7c1e --passphrase-fd 0 --digest 9f86d081884c\n\nThe request is shown in full before the passphrase is asked for, as by `hostel approvals show`.\nWith `--passphrase-fd` and nobody at a terminal, `--digest` or `--yes` says what is approved."
    )]
    Approve {
        /// Ids of the approvals
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// This tool for the rest of the session
        #[arg(long, conflicts_with_all = ["lasting", "count", "scope", "argv", "privileged"])]
        always: bool,
        /// Confirm that others can change what would run as root
        #[arg(long, conflicts_with_all = ["always", "lasting", "count", "scope", "argv", "privileged"])]
        changeable: bool,
        #[command(flatten)]
        grant: GrantTerms,
        #[command(flatten)]
        reviewed: Reviewed,
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
    /// Refuse what is asked for; an agent goes on without
    #[command(
        after_help = "Examples:\n  hostel approvals deny 7c1e\n  hostel approvals deny 7c1e --reason \"use the staging database\""
    )]
    Deny {
        /// Ids of the approvals
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Told to the agent
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
    /// Print each request as it comes, and how it was settled
    #[command(after_help = "Examples:\n  hostel approvals watch\n  hostel approvals watch --json\n\nCtrl-C ends it.")]
    Watch,
    /// Explain which rules a request met, and what decided
    #[command(after_help = "Examples:\n  hostel approvals why 7c1e\n  hostel approvals why 7c1e --json")]
    Why {
        /// Id of the approval, or the first four or more characters of it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List the grants that are in force
    #[command(after_help = "Examples:\n  hostel approvals grants\n  hostel approvals grants --json")]
    Grants,
    /// End a grant
    #[command(after_help = "Examples:\n  hostel approvals revoke 12\n  hostel approvals revoke 12 --house home")]
    Revoke {
        /// Numbers of the grants
        #[arg(value_name = "GRANT", required = true)]
        grants: Vec<u64>,
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
}

/// What is to be allowed beyond the request itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct GrantTerms {
    /// Also allow the same again for this long, at most 24h [default: 10m, with any of the following]
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) lasting: Option<String>,

    /// Also allow the same again, this many times at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,

    /// Whom to allow the same again [default: session]
    #[arg(long, value_name = "WHOM", value_enum)]
    pub(crate) scope: Option<Scope>,

    /// Allow not only the same, but commands whose words fit these patterns: one for each word, `**` for the rest
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) argv: Vec<String>,

    /// Yes, also though it runs as root
    #[arg(long)]
    pub(crate) privileged: bool,
}

impl GrantTerms {
    /// Whether there is to be a grant at all.
    pub(crate) fn wanted(&self) -> bool {
        self.lasting.is_some() || self.count.is_some() || self.scope.is_some() || !self.argv.is_empty()
    }
}

/// What is approved, where nobody is at a terminal to read it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Reviewed {
    /// Approve only the request with this digest; its first 12 or more characters are enough
    #[arg(long, value_name = "HEX", conflicts_with = "yes")]
    pub(crate) digest: Option<String>,

    /// Approve it whatever it is, though nobody has read it
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Whom a grant is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Scope {
    /// The session that asked.
    Session,
    /// The same tree of processes.
    Requester,
}

impl Scope {
    /// As it is on the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Scope::Session => "session",
            Scope::Requester => "requester",
        }
    }
}

/// Where the approver's passphrase comes from.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PassphraseFrom {
    /// Read the passphrase from this descriptor, up to the end of its first line, instead of the terminal
    #[arg(long, value_name = "N")]
    pub(crate) passphrase_fd: Option<u32>,
}

#[derive(Args, Debug)]
pub(crate) struct Approver {
    #[command(subcommand)]
    pub(crate) action: ApproverAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApproverAction {
    /// Set the passphrase, or change it
    #[command(
        after_help = "Examples:\n  hostel approver set\n  hostel approver set --passphrase-fd 3 3< new.txt\n  hostel approver set --passphrase-fd 3 --old-passphrase-fd 4 3< new.txt 4< old.txt\n\nIt is asked for twice, without being shown. At least 8 characters. To change one, the old one is\nneeded."
    )]
    Set {
        #[command(flatten)]
        passphrase: PassphraseFrom,
        /// Read the passphrase in force from this descriptor
        #[arg(long, value_name = "N")]
        old_passphrase_fd: Option<u32>,
    },
    /// Say whether a passphrase is set, and what waits for the approver's word
    #[command(after_help = "Examples:\n  hostel approver status\n  hostel approver status --json")]
    Status,
    /// Put settings in force that ask less of people than before
    #[command(
        after_help = "Examples:\n  hostel approver confirm\n  hostel approver confirm --passphrase-fd 3 3< passphrase.txt\n\nWith a passphrase set, rules that allow something new and `strict = false` apply only after this.\nAfter the keeper has ended (a reboot, `hostel down`) rules that allow apply again once the\npassphrase was shown, here or with an answer."
    )]
    Confirm {
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
    /// Remove the passphrase: nothing can be answered from `hostel approvals` any more
    #[command(after_help = "Examples:\n  hostel approver clear")]
    Clear {
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Audit {
    #[command(subcommand)]
    pub(crate) action: AuditAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditAction {
    /// Print the record, oldest first
    #[command(
        after_help = "Examples:\n  hostel audit show\n  hostel audit show --since 120\n  hostel audit show --follow --json"
    )]
    Show {
        /// Only what came after this entry
        #[arg(long, value_name = "N", default_value_t = 0)]
        since: u64,
        /// Go on with what is added, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },
    /// Check the record: digests, signatures, and that whatever was started was decided; exits with 1 if something is wrong
    #[command(
        after_help = "Examples:\n  hostel audit verify\n  hostel audit verify --endorsements\n  hostel audit verify --json\n\nEach lifetime of the keeper is a segment with a key of its own. A segment is `endorsed` if the\napprover's passphrase was used in it; --endorsements checks that with the passphrase."
    )]
    Verify {
        /// Check endorsements as well, with the approver's passphrase
        #[arg(long)]
        endorsements: bool,
        #[command(flatten)]
        passphrase: PassphraseFrom,
    },
}
