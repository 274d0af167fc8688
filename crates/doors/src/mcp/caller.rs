//! Who calls a tool.
//!
//! Invariant: the process behind an HTTP connection is found by asking the system, never by believing the client. What
//! cannot be found stays unknown.

use hostel_peer::Peer;

/// Who calls.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Caller {
    /// What the MCP client calls itself.
    pub name: String,
    /// Its version, as it says.
    pub version: String,
    /// The process behind it, where that is not the one at the other end of our own streams. One that cannot be found is an
    /// unknown peer.
    pub peer: Option<Peer>,
}

impl Caller {
    /// A word for the client that can be shown anywhere.
    pub(super) fn word(&self) -> String {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | ' ' | '/');
        let word: String = self.name.chars().filter(|letter| plain(*letter)).take(64).collect();
        if word.trim().is_empty() { "unknown".to_owned() } else { word.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_made_harmless() {
        let named = |name: &str| Caller { name: name.to_owned(), ..Caller::default() }.word();
        assert_eq!(named("claude-code"), "claude-code");
        assert_eq!(named("a\u{1b}[31m\u{202e}b\n"), "a31mb");
        assert_eq!(named(" \u{200b}"), "unknown");
        assert_eq!(named(&"x".repeat(500)).len(), 64);
    }
}
