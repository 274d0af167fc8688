//! What an accept loop has to tell, and how often it may.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinError;

use crate::peer::Peer;

/// Lines about refused connections at once; one more each second.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(1);

/// Something for the log of a door.
#[derive(Debug)]
pub enum Notice<'a> {
    /// No connection could be accepted; it is tried again.
    AcceptFailed(&'a io::Error),
    /// A connection was closed without being served.
    TurnedAway {
        /// Whose.
        peer: &'a Peer,
        /// Why.
        reason: Reason,
        /// So many others were since the last notice of this kind, without one.
        silenced: u64,
    },
    /// Serving a connection panicked.
    Panicked(&'a JoinError),
}

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It is another user's.
    OtherUser(u32),
    /// It cannot be found out whose it is.
    Unknown,
    /// It comes from another machine.
    Remote,
    /// All places are taken.
    Full,
    /// All places are taken that are for those who have not shown a token, or this one's share of them.
    TooManyStrangers,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::OtherUser(uid) => write!(formatter, "another user (uid {uid})"),
            Reason::Unknown => formatter.write_str("it cannot be found out whose it is"),
            Reason::Remote => formatter.write_str("it comes from another machine"),
            Reason::Full => formatter.write_str("all connections are in use"),
            Reason::TooManyStrangers => formatter.write_str("too many connections that have not shown a token"),
        }
    }
}

/// Lets a few lines through each second, and counts the others.
#[derive(Debug)]
pub(super) struct Throttle(Mutex<State>);

#[derive(Debug)]
struct State {
    left: u32,
    refilled: Instant,
    silenced: u64,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Throttle(Mutex::new(State { left: BURST, refilled: Instant::now(), silenced: 0 }))
    }

    /// Whether a line may be written now; how many were not, since the last one.
    pub(super) fn take(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let seconds = now.saturating_duration_since(state.refilled).as_secs();
        if seconds > 0 {
            state.left = state.left.saturating_add(u32::try_from(seconds).unwrap_or(u32::MAX)).min(BURST);
            state.refilled += REFILL * u32::try_from(seconds).unwrap_or(u32::MAX);
        }
        if state.left == 0 {
            state.silenced += 1;
            return None;
        }
        state.left -= 1;
        Some(std::mem::take(&mut state.silenced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_fill_a_log() {
        let (throttle, start) = (Throttle::new(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(throttle.take(start), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(throttle.take(start), None);
        }
        let later = start + Duration::from_millis(1100);
        assert_eq!((throttle.take(later), throttle.take(later)), (Some(7), None));
        let much_later = start + Duration::from_secs(1 << 40);
        assert_eq!((throttle.take(much_later), throttle.take(much_later)), (Some(1), Some(0)));
    }
}
