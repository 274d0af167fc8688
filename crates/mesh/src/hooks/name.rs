//! The nine files a hook may be.
//!
//! Invariant: a name that is read is one of these, so that nothing else becomes part of a path, a label or a variable.

use std::fmt;

use hostel_wire::topic;

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookName {
    /// Every message for this host.
    Message,
    /// Direct messages.
    Dm,
    /// Messages that mention this host.
    Mention,
    /// Posts of one topic.
    Topic(String),
    /// Files that were shared with this host.
    FileShare,
    /// The connection is gone.
    Disconnect,
    /// It is back.
    Reconnect,
    /// The daemon is up.
    Startup,
    /// What this host is about to send.
    PreSend,
}

/// Those that are one file each.
const PLAIN: [HookName; 8] = [
    HookName::Message,
    HookName::Dm,
    HookName::Mention,
    HookName::FileShare,
    HookName::Disconnect,
    HookName::Reconnect,
    HookName::Startup,
    HookName::PreSend,
];

const TOPIC: &str = "on-topic-";

impl HookName {
    /// Reads a name, as it stands in `hooks.toml`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix(TOPIC) {
            let proper = topic::topic_name(name).ok().filter(|proper| proper == name)?;
            return Some(Self::Topic(proper));
        }
        PLAIN.into_iter().find(|plain| plain.label() == text)
    }

    /// As metrics have it: all topics together, so that their number is bounded.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Message => "on-message",
            Self::Dm => "on-dm",
            Self::Mention => "on-mention",
            Self::Topic(_) => "on-topic",
            Self::FileShare => "on-file-share",
            Self::Disconnect => "on-disconnect",
            Self::Reconnect => "on-reconnect",
            Self::Startup => "on-startup",
            Self::PreSend => "pre-send",
        }
    }

    /// Whether what it prints can be an answer to somebody.
    #[must_use]
    pub fn answers(&self) -> bool {
        matches!(self, Self::Message | Self::Dm | Self::Mention | Self::Topic(_) | Self::FileShare)
    }
}

impl fmt::Display for HookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "{TOPIC}{name}"),
            other => f.write_str(other.label()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in PLAIN.into_iter().chain([HookName::Topic("alerts".into()), HookName::Topic("a.b_c-1".into())]) {
            assert_eq!(HookName::parse(&name.to_string()), Some(name));
        }
        for text in ["", "on-topic", "on-topic-", "on-topic-A", "on-topic-../x", "on-topic-a/b", "pre-sends", "On-dm"] {
            assert_eq!(HookName::parse(text), None, "{text}");
        }
    }
}
