//! Which connections are let in, and what the others are told.
//!
//! Invariant: without TLS and tokens only this user on this machine gets in; everybody else is told why and closed at once,
//! before a byte of them is read. With tokens, whoever is not this user on this machine is a stranger until they show one.

use hostel_peer::accept::{Admits, Gate, Reason, WhenFull};

use super::NAME;
use super::door::Door;
use crate::admission;

/// The gate of a door.
pub(super) fn gate(door: &Door) -> Gate {
    let admits = if door.settings.auth.is_some() { Admits::Everybody } else { Admits::Owner };
    Gate::new(admits, door.settings.limits.connections, WhenFull::Wait)
        .on_notice(admission::notices_to(&door.log, NAME))
        .on_turned_away(|stream, reason| {
            if let Some(sentence) = refusal_of(reason) {
                admission::refuse_http(stream, "403 Forbidden", sentence);
            }
        })
}

fn refusal_of(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::OtherUser(_) => Some("Forbidden: this daemon belongs to another user; start your own"),
        Reason::Unknown => Some("Forbidden: it cannot be found out whose program is calling"),
        Reason::Remote => Some("Forbidden: this daemon serves this machine only"),
        // In the middle of TLS nothing can be said.
        Reason::Full | Reason::TooManyStrangers => None,
    }
}
