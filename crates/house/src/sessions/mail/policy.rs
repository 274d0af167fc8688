//! Whether messages from meshes are put to a session's agent, and how many of them.

use std::time::Duration;

/// What becomes of a message for a session. The order is the order of rights: a later policy lets more in.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum MeshPolicy {
    /// It lies in the mailbox.
    #[default]
    Off,
    /// A person is asked whether it becomes a prompt.
    Ask,
    /// It becomes a prompt if its sender is verified; else a person is asked.
    On,
}

impl MeshPolicy {
    const ALL: [MeshPolicy; 3] = [MeshPolicy::Off, MeshPolicy::Ask, MeshPolicy::On];

    /// The word for it on the wire and on disk.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            MeshPolicy::Off => "off",
            MeshPolicy::Ask => "ask",
            MeshPolicy::On => "on",
        }
    }

    /// The policy of that word.
    #[must_use]
    pub fn named(word: &str) -> Option<MeshPolicy> {
        MeshPolicy::ALL.into_iter().find(|policy| policy.word() == word)
    }
}

/// How much of what comes from meshes is taken.
#[derive(Clone, Copy, Debug)]
pub struct MailLimits {
    /// The longest message that becomes a prompt, in bytes; a longer one stays in the mailbox.
    pub size: usize,
    /// Requests that may wait for an answer in one session.
    pub asked: usize,
    /// How long such a request waits.
    pub wait: Duration,
    /// How long it is remembered that a message was taken: longer than any mesh hands one out again.
    pub keep: Duration,
    /// How many of them are remembered.
    pub most: usize,
}

impl Default for MailLimits {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        MailLimits {
            size: 256 << 10,
            asked: 16,
            wait: Duration::from_secs(DAY),
            keep: Duration::from_secs(90 * DAY),
            most: 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for policy in MeshPolicy::ALL {
            assert_eq!(MeshPolicy::named(policy.word()), Some(policy));
        }
        assert_eq!((MeshPolicy::named("ON"), MeshPolicy::named("")), (None, None));
    }
}
