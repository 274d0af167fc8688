//! Ways in which an implementation could be wrong. The model with any one of them must be found out.

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A decision is written without looking whether the request is still pending.
    DecidesWithoutLooking,
    /// Whoever decides is told that it counted, also when somebody else was first.
    CreditsEverybody,
    /// The handler acts on a decision before it is on disk.
    ActsBeforeTheWrite,
    /// The requester's own tree may decide.
    RequesterDecides,
    /// A client that leaves is not told to the inbox.
    ForgetsToWithdraw,
    /// What was withdrawn is started if somebody agreed too late.
    StartsTheWithdrawn,
    /// A command goes on when its client has left.
    LeavesChildrenBehind,
    /// A restart chooses new ids for the processes of what was approved before it.
    FreshIdAfterRestart,
    /// The keeper may forget a command that has ended before its end is on disk.
    ForgetsTooEarly,
    /// What another keeper than that of the approval knows nothing of is taken for never started.
    StartsOnAnotherKeeper,
    /// Whatever became of a command whose keeper died, the client hears that it did not run.
    DeniesTheLost,
    /// Ids that were used are forgotten by a restart.
    ForgetsIds,
    /// Looking for an id and remembering it are two steps.
    AdmitsInTwoSteps,
    /// Who comes back after a restart does not take the request away from the next who does.
    RejoinsTwice,
    /// An id is enough to come back.
    RejoinsWithOtherBytes,
    /// Who comes back may take what the end of the wait is already taking.
    RejoinsTooLate,
    /// What nobody came back for is approved.
    FailsOpen,
    /// Rules that changed are applied to what is pending when the daemon starts.
    JudgesAgain,
    /// The session grant covers privileged requests.
    GrantCoversPrivileged,
    /// The session grant is kept over a restart.
    GrantSurvives,
    /// The session grant needs no eligible daemon.
    GrantNeedsNoEligibility,
    /// "Always" for a privileged request is taken for yes and gives the grant.
    AlwaysForPrivileged,
    /// A counted grant is counted after the request is written.
    CountsLater,
}

impl Flaw {
    pub const ALL: [Flaw; 23] = [
        Flaw::DecidesWithoutLooking,
        Flaw::CreditsEverybody,
        Flaw::ActsBeforeTheWrite,
        Flaw::RequesterDecides,
        Flaw::ForgetsToWithdraw,
        Flaw::StartsTheWithdrawn,
        Flaw::LeavesChildrenBehind,
        Flaw::FreshIdAfterRestart,
        Flaw::ForgetsTooEarly,
        Flaw::StartsOnAnotherKeeper,
        Flaw::DeniesTheLost,
        Flaw::ForgetsIds,
        Flaw::AdmitsInTwoSteps,
        Flaw::RejoinsTwice,
        Flaw::RejoinsWithOtherBytes,
        Flaw::RejoinsTooLate,
        Flaw::FailsOpen,
        Flaw::JudgesAgain,
        Flaw::GrantCoversPrivileged,
        Flaw::GrantSurvives,
        Flaw::GrantNeedsNoEligibility,
        Flaw::AlwaysForPrivileged,
        Flaw::CountsLater,
    ];

    /// The faults by which it may be found.
    pub fn shows(self) -> &'static [&'static str] {
        match self {
            Flaw::DecidesWithoutLooking => &["it was settled twice"],
            Flaw::CreditsEverybody => &["two people were told that their decision counted", UNWRITTEN],
            Flaw::ActsBeforeTheWrite | Flaw::RequesterDecides | Flaw::StartsTheWithdrawn => {
                &["it ran without a decision"]
            }
            Flaw::ForgetsToWithdraw => &["it is pending, and nobody waits for it"],
            Flaw::LeavesChildrenBehind => &["it runs, and nobody waits for it"],
            Flaw::FreshIdAfterRestart | Flaw::StartsOnAnotherKeeper => &["it ran twice"],
            Flaw::ForgetsTooEarly => &["it ran twice", UNTRUE],
            Flaw::DeniesTheLost => &[UNTRUE],
            Flaw::ForgetsIds => &["it was settled twice", "it ran twice", SHARED],
            Flaw::AdmitsInTwoSteps | Flaw::RejoinsTwice => &[SHARED],
            Flaw::RejoinsWithOtherBytes => &["other bytes got a request that is not theirs"],
            Flaw::RejoinsTooLate => &["it ran after it was over", UNTRUE],
            Flaw::FailsOpen => &["it was approved by nobody"],
            Flaw::JudgesAgain => &["a restart approved a request"],
            Flaw::GrantCoversPrivileged => &["a privileged request ran without a person's decision"],
            Flaw::GrantSurvives | Flaw::GrantNeedsNoEligibility | Flaw::AlwaysForPrivileged => {
                &["a session grant that nobody gave to this daemon"]
            }
            Flaw::CountsLater => &["a grant for one request approved two"],
        }
    }
}

const UNWRITTEN: &str = "somebody was told of a decision that was not written";
const UNTRUE: &str = "it ran, and the record says that it did not";
const SHARED: &str = "two connections have the same request";
