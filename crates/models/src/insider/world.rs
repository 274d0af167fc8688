//! What there is: on disk, in the daemon, at the keeper; and what is true of it.

/// What is stored, one row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    /// 0: none, or over; 1: pending; 2: approved, to be carried out.
    Request,
    /// 0: none, or over; 1: may be used once.
    Grant,
    /// Wrong passphrases in a row; [`LOCKED`]: none is taken.
    Count,
    /// 0: the approver's digest; 1: the insider's; 2: the one that the approver has changed it to.
    Digest,
    /// 0: strict; 1: loose; 2: strict, until the passphrase proves what applied before.
    Policy,
}

impl Thing {
    pub const ALL: [Thing; 5] = [Thing::Request, Thing::Grant, Thing::Count, Thing::Digest, Thing::Policy];

    /// How many contents it can have.
    pub fn contents(self) -> u8 {
        match self {
            Thing::Request | Thing::Count | Thing::Policy | Thing::Digest => 3,
            Thing::Grant => 2,
        }
    }
}

pub const PENDING: u8 = 1;
pub const APPROVED: u8 = 2;
pub const LOCKED: u8 = 2;
pub const LOOSE: u8 = 1;
pub const UNPROVED: u8 = 2;
pub const THEIRS: u8 = 1;
pub const CHANGED: u8 = 2;

/// The content of every thing.
pub type Contents = [u8; 5];

/// A row: what it says, and whether its seal is one of the house's own, of the key with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub says: u8,
    pub sealed: Option<bool>,
}

/// What a write leads to once it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// What the start found is in force.
    Start,
    Asked,
    /// A person agreed.
    Agreed,
    /// The grant agreed.
    Granted,
    Revoked,
    /// It was carried out, and the keeper may forget it.
    Finished,
    /// A wrong passphrase was taken.
    Guessed,
    /// The approver showed the passphrase.
    Shown,
    Confirmed,
    /// The approver has changed the passphrase.
    Changed,
}

/// How far a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The keeper knows what is coming.
    Intended,
    /// It is on disk.
    Committed,
}

/// What the daemon does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Daemon {
    Down,
    /// It knows these contents.
    Up(Contents),
    /// It writes these contents; what it knew before that is in force.
    Writing {
        known: Contents,
        next: Contents,
        effect: Effect,
        phase: Phase,
    },
}

/// What the keeper keeps for the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deposit {
    pub confirmed: Option<Contents>,
    pub intended: Option<Contents>,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// What is on disk; [`World::UNTOLD`] where the insider chooses it when a daemon starts.
    pub rows: [Row; 5],
    /// Contents that the house has written under the present key, one bit each. In the model without a mistake this is
    /// always 0: there the insider has copies of everything.
    pub copies: [u8; 5],
    /// The audit has the approver's record that the passphrase was changed, signed with the one of before.
    pub recorded_change: bool,
    /// The digest in the approver's file.
    pub file: u8,
    pub daemon: Daemon,
    /// Which keeper it is; the second has another key.
    pub second_key: bool,
    pub deposit: Deposit,
    /// The keeper knows the process of the request.
    pub started: bool,
    /// A start of the process was asked for and it is not known to be over.
    pub running: bool,

    // What is true, and decides whether something is wrong.
    pub seen_agreed: bool,
    pub seen_granted: u8,
    pub seen_revoked: bool,
    pub seen_runs: u8,
    /// Wrong passphrases that were taken since the last right one, under this key.
    pub seen_guesses: u8,
    /// A write that the daemon died in, so that nobody was told of it. The next start decides whether it counts.
    pub unheard: Option<Effect>,
    pub seen_confirmed: bool,
    pub seen_changed: bool,
    pub seen_fault: Option<&'static str>,
}

impl World {
    /// Stands for rows that are not part of the state.
    pub const UNTOLD: [Row; 5] = [Row { says: 0, sealed: None }; 5];

    /// A house that is up, with a grant for one request and a passphrase.
    pub fn new() -> Self {
        let contents: Contents = [0, 1, 0, 0, 0];
        World {
            rows: contents.map(|says| Row { says, sealed: Some(false) }),
            copies: contents.map(|says| 1 << says),
            recorded_change: false,
            file: 0,
            daemon: Daemon::Up(contents),
            second_key: false,
            deposit: Deposit { confirmed: Some(contents), intended: None },
            started: false,
            running: false,
            seen_agreed: false,
            seen_granted: 0,
            seen_revoked: false,
            seen_runs: 0,
            seen_guesses: 0,
            unheard: None,
            seen_confirmed: false,
            seen_changed: false,
            seen_fault: None,
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
