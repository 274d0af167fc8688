//! What is kept of sessions, and how a process is known to be still the same.

use hostel_wire::encoding::{hex, unhex_array};
use hostel_wire::fingerprint::sha256;
use hostel_wire::frames::Group;
use hostel_wire::topic::display_slug;
use serde::{Deserialize, Serialize};

/// Sessions that are remembered; the oldest that have ended are forgotten.
const MOST: usize = 2000;

/// A session as it is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    pub(crate) session_id: String,
    #[serde(rename = "display_name")]
    pub(crate) name: String,
    /// Of the token, hex: it recognises a token and does not give it away.
    #[serde(rename = "token_sha256")]
    pub(crate) digest: String,
    /// 0: none; such a session ends when it says so.
    pub(crate) pid: u32,
    /// When that process began, in the kernel's ticks: ids of processes are used again.
    pub(crate) started: Option<u64>,
    pub(crate) cwd: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) groups: Vec<Group>,
    pub(crate) presence: bool,
    pub(crate) registered_at: u64,
    pub(crate) ended: bool,
}

impl Entry {
    /// Whether its process is still there, and still the same.
    pub(crate) fn is_alive(&self) -> bool {
        self.pid == 0 || started(self.pid).is_some_and(|now| self.started.is_none_or(|then| then == now))
    }
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Book {
    version: Version,
    pub(super) sessions: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Version(u32);

impl Default for Version {
    fn default() -> Self {
        Self(1)
    }
}

impl Book {
    pub(super) fn put(&mut self, entry: Entry) {
        self.sessions.retain(|old| old.session_id != entry.session_id);
        self.sessions.push(entry);
        if self.sessions.len() > MOST
            && let Some(oldest) = self.sessions.iter().position(|entry| entry.ended)
        {
            self.sessions.remove(oldest);
        }
    }

    pub(super) fn end(&mut self, id: &str) {
        for entry in self.sessions.iter_mut().filter(|entry| entry.session_id == id) {
            entry.ended = true;
        }
    }

    /// The name, or the name with a number: two that run at once are never called the same.
    pub(super) fn free_name(&self, name: &str, id: &str) -> String {
        let taken = |name: &str| {
            let others = self.sessions.iter().filter(|entry| !entry.ended && entry.session_id != id);
            others.map(|entry| &entry.name).any(|other| other.eq_ignore_ascii_case(name))
        };
        let numbered = (2..=u32::MAX).map(|number| format!("{name}-{number}"));
        std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    /// The id that last had this name or is it.
    pub(super) fn id_of(&self, word: &str) -> Option<String> {
        let fits = |entry: &&Entry| entry.session_id == word || entry.name.eq_ignore_ascii_case(word);
        self.sessions.iter().rev().find(fits).map(|entry| entry.session_id.clone())
    }
}

/// A token's digest; None for what is no token.
pub(super) fn digest(token: &str) -> Option<String> {
    let bytes = zeroize::Zeroizing::new(unhex_array::<32>(&token.to_ascii_lowercase())?);
    Some(hex(&sha256(&bytes[..])))
}

pub(super) fn fit_id(id: &str) -> Option<String> {
    let fits = !id.is_empty() && id.len() <= 128 && !id.chars().any(|c| c.is_control() || c.is_whitespace());
    fits.then(|| id.to_owned())
}

/// A name that can stand in an address.
pub(super) fn fit_name(name: &str) -> String {
    let name = display_slug(name);
    if name.is_empty() { "session".to_owned() } else { name }
}

/// The mailbox of a word that nobody is called or was called: as `fit_name` would write it, in lower case. A word without
/// any letter of a name stays as it is, so that two of them are not the same.
pub(super) fn unknown(word: &str) -> String {
    match word.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
        true => display_slug(word).to_ascii_lowercase(),
        false => word.to_lowercase(),
    }
}

/// When a process began; None if there is none.
pub(super) fn started(pid: u32) -> Option<u64> {
    if pid == 0 {
        return None;
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything; what follows the last bracket is numbers.
    let (_, numbers) = text.rsplit_once(')')?;
    let mut fields = numbers.split_ascii_whitespace();
    // A zombie has ended; only its parent has not looked.
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_there() {
        let here = started(std::process::id());
        assert!(here.is_some());
        assert_eq!(started(std::process::id()), here);
        assert_eq!(started(u32::MAX), None);
    }
}
