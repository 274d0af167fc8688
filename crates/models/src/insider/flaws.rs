//! Ways in which an implementation could be wrong. The model with any one of them must be found out.

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// What is to be carried out is told by the row.
    BelievesRows,
    /// A daemon that starts believes every row with a seal of the house's own.
    BelievesSeals,
    /// A daemon that starts believes every row.
    BelievesEverything,
    /// The keeper is never told that a commit happened.
    NeverConfirms,
    /// A write is acknowledged before the keeper knows that it happened.
    TellsTooEarly,
    /// Each row may be of before or after the last commit, whatever the others are.
    MixesCommits,
    /// After a lost key rows are believed.
    BelievesLostKeys,
    /// The count of wrong passphrases is read from its row.
    CountsOnDisk,
    /// The digest is read from the file whenever it is needed.
    ReadsTheFile,
    /// Settings apply as the file has them.
    BelievesSettings,
    /// After a lost key the settings apply as the file has them.
    BelievesSettingsOnce,
    /// After a lost key what was appended to the audit is believed of the approver, whoever has signed it.
    BelievesAppendedTestimony,
}

impl Flaw {
    pub const ALL: [Flaw; 12] = [
        Flaw::BelievesRows,
        Flaw::BelievesSeals,
        Flaw::BelievesEverything,
        Flaw::NeverConfirms,
        Flaw::TellsTooEarly,
        Flaw::MixesCommits,
        Flaw::BelievesLostKeys,
        Flaw::CountsOnDisk,
        Flaw::ReadsTheFile,
        Flaw::BelievesSettings,
        Flaw::BelievesSettingsOnce,
        Flaw::BelievesAppendedTestimony,
    ];

    /// The faults by which it may be found.
    pub fn shows(self) -> &'static [&'static str] {
        match self {
            Flaw::BelievesRows => &[UNASKED, TWICE],
            Flaw::BelievesSeals | Flaw::NeverConfirms | Flaw::TellsTooEarly => {
                &[TWICE, REUSED, GUESSED, UNASKED, OTHER_DIGEST]
            }
            Flaw::BelievesEverything | Flaw::BelievesLostKeys => {
                &[UNASKED, TWICE, REUSED, GUESSED, LOOSENED, OTHER_DIGEST]
            }
            Flaw::MixesCommits => &[REUSED, UNASKED, TWICE],
            Flaw::CountsOnDisk => &[GUESSED],
            Flaw::ReadsTheFile => &[OTHER_DIGEST],
            Flaw::BelievesSettings | Flaw::BelievesSettingsOnce => &[LOOSENED],
            Flaw::BelievesAppendedTestimony => &[OTHER_DIGEST, LOOSENED],
        }
    }
}

pub const UNASKED: &str = "it ran without a decision";
pub const TWICE: &str = "it ran more often than it was decided";
pub const REUSED: &str = "a grant for one request approved another";
pub const GUESSED: &str = "more wrong passphrases were taken than the count allows";
pub const OTHER_DIGEST: &str = "another passphrase than the approver's is in force";
pub const LOOSENED: &str = "settings that nobody confirmed are in force";
pub const LOST: &str = "a decision was lost although nobody interfered";
