//! What is proven about other members: their keys, their names, and that they sign what they write.
//!
//! The broker says who is a member. Everything else it says about a member that was once known here has to be proven by
//! that member: another key by what both keys signed, another name by the member's statement, a message by a signature
//! or by the box it is sealed in.
//!
//! Guarantees:
//! - The first key that was heard of a member stays until the member itself names another ([`hostel_wire::authorship`]),
//!   or a person on this host accepts the broker's word ([`Authors::trust`]).
//! - Who has signed once must sign for ever. A broker that leaves signatures, statements or features away, then or later,
//!   changes nothing about it.
//! - What is learned from a message is stored in the transaction that stores the message, see [`Authors::take_changes`].
//!
//! It must not decide who is a member, and it opens no boxes.

mod judge;
mod members;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use hostel_wire::authorship::KeyHistory;
use hostel_wire::keys::PublicKey;
use parking_lot::Mutex;

pub(crate) use judge::{Claim, Forgery, Verdict};
pub(crate) use members::Notice;

/// Earlier keys of one member that are kept.
const MAX_EARLIER_KEYS: usize = 64;

/// Members that are remembered. There is no room made for more: a broker could make up members to have others forgotten.
const MAX_PINS: usize = 50_000;

/// Stands for an entry of the log that is not known yet: the next list that a connection begins with says which.
const NEXT_CONNECTION: u64 = i64::MAX as u64;

/// Session keys whose proof was verified and is remembered.
const MAX_SESSION_KEYS: usize = 4096;

/// What is proven about one member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pin {
    pub(crate) keys: KeyHistory,
    /// The key was replaced without a proof: it is the broker's word, as for members whose program is older.
    pub(crate) is_unproven: bool,
    /// The member's name, as it has signed it.
    pub(crate) name: Option<String>,
    /// When it signed the name, in milliseconds since 1970; earlier statements do not count.
    pub(crate) name_at: u64,
    /// Everything from this entry of the log on must be proven. None: the member has never proven anything.
    pub(crate) signs_from: Option<u64>,
}

impl Pin {
    fn new(key: &str) -> Self {
        Self { keys: KeyHistory { current: key.to_owned(), earlier: Vec::new() }, ..Self::default() }
    }

    /// The member signs; `true` if that changes something.
    fn must_sign_from(&mut self, seq: u64) -> bool {
        let from = self.signs_from.map_or(seq, |before| before.min(seq));
        self.signs_from.replace(from) != Some(from)
    }
}

/// What the broker says of a member and nobody has proven.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Unproven {
    key: Option<String>,
    name: Option<String>,
}

#[derive(Default)]
struct State {
    pins: HashMap<String, Pin>,
    /// Members whose pins are not stored as they are.
    changed: BTreeSet<String>,
    unproven: HashMap<String, Unproven>,
    /// Member key and session key of proofs that were verified, with their ends.
    sessions: HashMap<([u8; 32], [u8; 32]), u64>,
    /// Whose session keys are, by what was proven with messages.
    owners: HashMap<String, String>,
}

impl State {
    fn change(&mut self, member_id: &str) {
        self.changed.insert(member_id.to_owned());
    }
}

/// What is proven about other members.
#[derive(Default)]
pub(crate) struct Authors(Mutex<State>);

impl Authors {
    /// As they were stored.
    pub(crate) fn new(pins: HashMap<String, Pin>) -> Self {
        Self(Mutex::new(State { pins, ..State::default() }))
    }

    /// All keys that are proven to be a member's, the present one first.
    pub(crate) fn keys(&self, member_id: &str) -> Vec<PublicKey> {
        let state = self.0.lock();
        let Some(pin) = state.pins.get(member_id).filter(|pin| !pin.is_unproven) else { return Vec::new() };
        let keys = std::iter::once(&pin.keys.current).chain(pin.keys.earlier.iter().rev());
        keys.filter_map(|key| PublicKey::from_hex(key)).collect()
    }

    /// The member that a session key is proven to belong to.
    pub(crate) fn session_owner(&self, session_key: &str) -> Option<String> {
        self.0.lock().owners.get(session_key).cloned()
    }

    /// Whether a member is known to sign.
    pub(crate) fn signs(&self, member_id: &str) -> bool {
        self.0.lock().pins.get(member_id).is_some_and(|pin| pin.signs_from.is_some())
    }

    /// Whether a member has signed its name.
    pub(crate) fn is_named(&self, member_id: &str) -> bool {
        self.0.lock().pins.get(member_id).is_some_and(|pin| pin.name.is_some())
    }

    /// Another log is read from its beginning: no entry of it is from before a member signed.
    pub(crate) fn log_replaced(&self) {
        let mut state = self.0.lock();
        let State { pins, changed, .. } = &mut *state;
        for (id, pin) in pins.iter_mut() {
            if pin.signs_from.is_some_and(|from| from > 0) {
                pin.signs_from = Some(0);
                changed.insert(id.clone());
            }
        }
    }

    /// The key that the broker names for a member, if it is another than the one that counts and nobody has proven it.
    pub(crate) fn claimed_key(&self, member_id: &str) -> Option<String> {
        let state = self.0.lock();
        let counts = state.pins.get(member_id).map(|pin| &pin.keys.current);
        let claimed = state.unproven.get(member_id).and_then(|claimed| claimed.key.as_ref());
        claimed.filter(|claimed| Some(*claimed) != counts).cloned()
    }

    /// A person accepts what the broker says of a member; from the next signed message on it must sign again. The key
    /// that counts from now on.
    pub(crate) fn trust(&self, member_id: &str) -> Option<String> {
        let mut state = self.0.lock();
        let claimed = state.unproven.remove(member_id).and_then(|claimed| claimed.key);
        let pin = state.pins.get_mut(member_id)?;
        let key = claimed.unwrap_or_else(|| pin.keys.current.clone());
        *pin = Pin { name: pin.name.clone(), name_at: pin.name_at, ..Pin::new(&key) };
        state.change(member_id);
        Some(key)
    }

    /// What has changed since it was last stored. Whoever cannot store it gives it back.
    pub(crate) fn take_changes(&self) -> Vec<(String, Pin)> {
        let mut state = self.0.lock();
        let changed = std::mem::take(&mut state.changed);
        let pin = |id: String| state.pins.get(&id).cloned().map(|pin| (id, pin));
        changed.into_iter().filter_map(pin).collect()
    }

    /// Changes that could not be stored.
    pub(crate) fn give_back(&self, ids: impl IntoIterator<Item = String>) {
        self.0.lock().changed.extend(ids);
    }
}
