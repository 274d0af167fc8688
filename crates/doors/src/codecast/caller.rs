//! Who is at the other end of a connection.

use super::peer;
use super::wire::Line;

/// What is known of a caller, once and for all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Caller {
    /// This user, or the administrator, on this machine.
    Owner,
    /// Another user of this machine.
    OtherUser,
    /// On this machine, but whose program it is cannot be found out.
    Unknown,
    /// Somewhere else.
    Remote,
}

impl Caller {
    /// Looks at the other end of a connection.
    pub(super) fn of(line: &Line) -> Self {
        if !line.is_local() {
            return Self::Remote;
        }
        // Seen from the other end: their socket, not ours.
        let owner = peer::look_up(line.remote(), line.local()).ok().flatten().and_then(|socket| socket.owner());
        match owner {
            Some(uid) if uid == rustix::process::geteuid().as_raw() || uid == 0 => Self::Owner,
            Some(_) => Self::OtherUser,
            None => Self::Unknown,
        }
    }

    /// Why it may not be the owner of this daemon.
    pub(super) fn doubt(self) -> Option<&'static str> {
        match self {
            Self::Owner => None,
            Self::OtherUser => Some("Forbidden: this daemon belongs to another user; start your own"),
            Self::Unknown => Some("Forbidden: it cannot be found out whose program is calling"),
            Self::Remote => Some("Forbidden: this daemon serves this machine only"),
        }
    }
}
