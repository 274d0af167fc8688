//! What there is: on disk, in the daemon, at the keeper, with the clients and the people.
//!
//! What starts with `seen_` is no part of the world: it is what the faults are judged by.

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An agent's question; its asker lives at the keeper and outlives the daemon.
    Tool,
    /// A command of a client's, as the user.
    Plain,
    /// A command of a client's, as root.
    Privileged,
}

/// Where a request stands on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    Absent,
    Pending,
    Approved,
    Denied,
    Expired,
    Withdrawn,
}

/// Who settled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Nobody,
    Person,
    /// A rule or a grant.
    Policy,
    /// Somebody of the requester's own tree: never to be found.
    Requester,
}

/// What is on disk about the execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    Open,
    Ran,
    NotRun,
    /// Nobody can know any more.
    Lost,
}

/// The row of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub standing: Standing,
    pub by: Source,
    /// Approved by a daemon that knew of the second keeper: only the keeper of the approval can know that it was never
    /// started.
    pub by_second_keeper: bool,
    pub ending: Ending,
    /// Withdrawn because the key was lost while it was pending: its id may be used again, also after later restarts.
    pub asks_again: bool,
}

/// A process under an id that was chosen with the approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    Unknown,
    Running,
    Ended,
    /// Its keeper died; the daemon that was there then knows that it was started.
    Lost,
    /// The same, and that daemon had heard of its end.
    Heard,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    NotYet,
    Connected,
    /// The daemon died under it; it may come back.
    Cut,
    /// It left, or has its answer.
    Gone,
}

/// How far the daemon is with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler {
    None,
    /// Only with [`super::flaws::Flaw::AdmitsInTwoSteps`]: the id was not found and is not remembered yet.
    Looked,
    /// The id is remembered, nothing is on disk.
    Admitted,
    /// It is on disk and waits to be settled.
    Waiting,
    /// The client is gone: to be withdrawn.
    Withdrawing,
    /// It is approved and not started.
    Approved,
    /// The keeper of the approval does not know it: it is about to be started.
    Starting,
    Running,
    /// It is over, which is not on disk yet.
    Over(Ending),
    /// All is on disk, and the client is still to hear of it.
    Answering(Answer),
}

/// What a client hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Ran,
    Denied,
    Expired,
    Withdrawn,
    NotRun,
    Lost,
}

/// A request whose connection a restart of ours has cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Orphan {
    No,
    /// Who has its id and bytes may take it.
    Open,
    /// The wait is over and this is being written.
    Closing,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub client: Client,
    /// It sends the bytes of the first connection.
    pub same_bytes: bool,
    pub handler: Handler,
}

impl Line {
    pub const NONE: Line = Line { client: Client::NotYet, same_bytes: true, handler: Handler::None };
}

/// Everything about one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub kind: Kind,
    pub row: Row,
    /// The daemon knows the id.
    pub remembered: bool,
    pub orphan: Orphan,
    pub lines: [Line; 2],
    /// Under the stored id, and under one that a flaw chose later.
    pub processes: [Process; 2],
    pub seen_runs: u8,
    pub seen_settled: u8,
    pub seen_credited: u8,
}

/// Somebody who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Person {
    Idle,
    /// Saw the request pending and answers; that is not written yet.
    Deciding(u8),
}

/// What a person says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Yes,
    No,
    /// Yes, and whatever comes later.
    Always,
}

/// What the settings say of plain requests at the moment they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    Ask,
    Allow,
    Deny,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub requests: [Request; 2],
    /// In no order: people are alike.
    pub people: [Person; 2],
    pub daemon_up: bool,
    /// It was started at least once before.
    pub restarted: bool,
    pub session_grant: bool,
    /// How often a grant on disk may still be used.
    pub counted_grant: u8,
    pub keeper_may_die: bool,
    pub keeper_died: bool,
    /// The daemon knows of it.
    pub keeper_noticed: bool,
    /// Everything on disk is sealed with the second keeper's key. A daemon that starts before finds that the key is lost.
    pub rekeyed: bool,
    /// A person gave the session grant to this daemon, rightly.
    pub seen_given: bool,
    pub seen_counted: u8,
    /// What a step did wrong.
    pub seen_fault: Option<&'static str>,
}

impl Request {
    pub fn new(kind: Kind) -> Self {
        let row = Row {
            standing: Standing::Absent,
            by: Source::Nobody,
            by_second_keeper: false,
            ending: Ending::Open,
            asks_again: false,
        };
        Request {
            kind,
            row,
            remembered: false,
            orphan: Orphan::No,
            lines: [Line::NONE; 2],
            processes: [Process::Unknown; 2],
            seen_runs: 0,
            seen_settled: 0,
            seen_credited: 0,
        }
    }
}

impl World {
    /// A daemon that has just been started, and nothing asked yet.
    pub fn new(kinds: [Kind; 2], counted_grant: u8, keeper_may_die: bool) -> Self {
        World {
            requests: kinds.map(Request::new),
            people: [Person::Idle; 2],
            daemon_up: true,
            restarted: false,
            session_grant: false,
            counted_grant,
            keeper_may_die,
            keeper_died: false,
            keeper_noticed: false,
            rekeyed: false,
            seen_given: false,
            seen_counted: 0,
            seen_fault: None,
        }
    }
}
