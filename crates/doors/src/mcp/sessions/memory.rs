//! Which prompts were sent, by the names their senders gave them.
//!
//! Invariant: two sends of one name never both go out, however close they come. Only the last thousand are remembered.

use std::collections::VecDeque;

use sha2::Digest as _;
use sha2::Sha256;
use tokio::sync::Mutex;
use tokio::sync::MutexGuard;

/// Names that are remembered.
const REMEMBERED: usize = 1024;

/// What was sent, as the house confirmed it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize)]
#[serde(default)]
pub(super) struct Sent {
    pub(super) turn: u64,
    pub(super) after_seq: u64,
}

/// A name, the digest of what was sent under it, and what became of it.
type Entry = (String, [u8; 32], Sent);

/// The memory. Whoever sends holds it meanwhile.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Memory(Mutex<VecDeque<Entry>>);

/// The memory, held by a sender.
pub(super) struct Remembering<'a>(MutexGuard<'a, VecDeque<Entry>>);

impl Memory {
    pub(super) async fn hold(&self) -> Remembering<'_> {
        Remembering(self.0.lock().await)
    }
}

impl Remembering<'_> {
    /// What was sent under a name; an error if that was something else.
    pub(super) fn find(&self, name: &str, prompt: &str) -> Result<Option<Sent>, String> {
        match self.0.iter().find(|(known, _, _)| known == name) {
            None => Ok(None),
            Some((_, digest, sent)) if *digest == digest_of(prompt) => Ok(Some(*sent)),
            Some(_) => Err("this request_id was used for another prompt; choose a new one".to_owned()),
        }
    }

    pub(super) fn put(&mut self, name: String, prompt: &str, sent: Sent) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((name, digest_of(prompt), sent));
    }
}

fn digest_of(prompt: &str) -> [u8; 32] {
    Sha256::digest(prompt.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_stands_for_one_prompt() {
        let memory = Memory::default();
        let sent = Sent { turn: 3, after_seq: 9 };
        let mut held = memory.hold().await;
        assert_eq!(held.find("a", "x"), Ok(None));
        held.put("a".into(), "x", sent);
        assert_eq!(held.find("a", "x"), Ok(Some(sent)));
        assert!(held.find("a", "y").is_err());
        for number in 0..REMEMBERED {
            held.put(number.to_string(), "x", sent);
        }
        assert_eq!(held.find("a", "x"), Ok(None));
        assert_eq!(held.0.len(), REMEMBERED);
    }
}
