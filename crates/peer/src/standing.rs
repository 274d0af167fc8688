//! What a process is to the user who runs this one.
//!
//! Guarantee: [`Standing::Owner`] is only who was found to be outside; everything that cannot be looked at is
//! [`Standing::Unknown`].

use crate::process::Process;
use crate::{marks, tree};

/// What a peer is to the user who runs this process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Standing {
    /// A process of the same user, outside of every house.
    Owner,
    /// A process of the same user that descends from a hostel process (keeper, daemon, mesh daemon, broker, and what they
    /// start: hosted processes, hooks, git), or that carries the mark of one.
    Insider,
    /// A process of another user of this machine, root included.
    OtherUser,
    /// Somebody on another machine or in another network namespace. What they may do rests on the token they show.
    Remote,
    /// A process that is gone or cannot be looked at.
    Unknown,
}

impl Standing {
    /// Whether this is the owner outside of every house, as the system knows it.
    #[must_use]
    pub fn is_owner(self) -> bool {
        self == Standing::Owner
    }

    /// A word for logs and audits.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Owner => "owner",
            Standing::Insider => "insider",
            Standing::OtherUser => "other user",
            Standing::Remote => "remote",
            Standing::Unknown => "unknown",
        }
    }

    /// The standing of somebody who may be any of several processes: the least trusted counts.
    pub(crate) fn of_all(processes: &[Process]) -> Standing {
        let trust = |standing: &Standing| match standing {
            Standing::Unknown => 0,
            Standing::OtherUser => 1,
            Standing::Insider => 2,
            Standing::Remote => 3,
            Standing::Owner => 4,
        };
        processes.iter().map(Standing::of).min_by_key(trust).unwrap_or(Standing::Unknown)
    }

    /// The standing of a process. Reads `/proc`.
    pub(crate) fn of(process: &Process) -> Standing {
        if process.uid() != rustix::process::geteuid().as_raw() {
            return Standing::OtherUser;
        }
        let is_inside = process.look_up(|pid, stat| {
            // In this order: the last look is the one that a process can delay.
            Some(marks::is_marked(pid)? || tree::is_below_hostel(pid, stat)? || marks::is_tagged(pid))
        });
        match is_inside {
            Some(true) => Standing::Insider,
            Some(false) => Standing::Owner,
            None => Standing::Unknown,
        }
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.word())
    }
}
