//! Mistakes that can be made on purpose, each with the fault it must be found by.

/// One mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The broker answers when it has appended, not when that is committed.
    AnswersBeforeCommit,
    /// The broker does not look whether it knows an id.
    DoesNotDedupe,
    /// The broker goes on with a lane after it refused one of it.
    LeavesLanesOpen,
    /// A lost connection, or a sender that was killed, leaves rows in flight for ever.
    KeepsInflight,
    /// Rows of a lane are claimed in any order.
    ClaimsInAnyOrder,
    /// The reader's cursor is written before its rows.
    CursorFirst,
    /// The inbox takes the same message twice.
    NoUniqueKey,
    /// The broker goes on from what it has pushed, not from what the reader has.
    ResumesFromPushed,
    /// The broker forgets an id while it may still be sent.
    ForgetsEarly,
    /// The cursor jumps to the highest place received.
    CursorJumps,
    /// The broker looks for an id among those of who sends, also where somebody else had accepted the message.
    IdsOfWhoSends,
}

impl Flaw {
    pub(crate) const ALL: [Flaw; 11] = [
        Flaw::AnswersBeforeCommit,
        Flaw::DoesNotDedupe,
        Flaw::LeavesLanesOpen,
        Flaw::KeepsInflight,
        Flaw::ClaimsInAnyOrder,
        Flaw::CursorFirst,
        Flaw::NoUniqueKey,
        Flaw::ResumesFromPushed,
        Flaw::ForgetsEarly,
        Flaw::CursorJumps,
        Flaw::IdsOfWhoSends,
    ];

    /// What it is found by.
    pub(crate) fn shows(self) -> &'static [&'static str] {
        match self {
            Flaw::AnswersBeforeCommit => &["done and not in the log"],
            Flaw::DoesNotDedupe | Flaw::ForgetsEarly | Flaw::IdsOfWhoSends => &["twice in the log"],
            Flaw::LeavesLanesOpen | Flaw::ClaimsInAnyOrder => &["out of order in the log"],
            Flaw::KeepsInflight | Flaw::CursorFirst | Flaw::ResumesFromPushed | Flaw::CursorJumps => {
                &["lost", "out of order in the inbox"]
            }
            Flaw::NoUniqueKey => &["twice in the inbox"],
        }
    }
}
