//! The link to the broker: one way to connect, stay connected and come back, for the member and for each session.
//!
//! Invariant: there is one implementation of a connection's life. A member's and a session's connection differ in their
//! hello, in whose rows they send and in whether they own the cursor; nothing else.
//!
//! Nothing here decides what is sent or kept: the outbox and the inbox do, in transactions of their own. A connection
//! may end at any instant and nothing is lost or done twice.

mod backoff;
pub(crate) mod calls;
mod connection;
pub mod dial;
mod drain;
pub(crate) mod greet;
pub(crate) mod hello;
mod lanes;
pub(crate) mod life;
mod members;
mod news;
pub(crate) mod open;
pub(crate) mod pages;
mod receive;
pub(crate) mod reseal;
mod rotation;
pub(crate) mod seal;
pub(crate) mod socket;

use std::sync::Arc;

use hostel_wire::frames::close;
use hostel_wire::keys::SecretKey;

use crate::keyring::MemberKey;
use crate::mesh::core::Core;
use crate::mesh::siblings;
use crate::outbox::Lane;
use crate::sessions::Session;

/// Whose connection it is.
#[derive(Clone)]
pub(crate) enum Role {
    /// The member's: it owns the cursor, the roster, the keys.
    Member,
    /// A session's: it sends, and is seen.
    Session(Arc<Session>),
}

impl Role {
    pub(crate) fn is_member(&self) -> bool {
        matches!(self, Self::Member)
    }

    /// The key that seals what goes out here, on a connection that speaks with this key of the member's.
    pub(crate) fn key(&self, member: &MemberKey) -> SecretKey {
        match self {
            Self::Member => member.key.clone(),
            Self::Session(session) => session.key.clone(),
        }
    }

    /// Whether rows of a lane go out here: a session's own, or everything no session sends for itself. What stays on this
    /// host goes out nowhere.
    pub(crate) fn sends(&self, core: &Core, lane: &Lane) -> bool {
        if siblings::stays(core, lane) {
            return false;
        }
        match (self, &lane.sender_session) {
            (Self::Member, None) => true,
            (Self::Member, Some(session)) => !core.sessions.sends_itself(session),
            (Self::Session(_), None) => false,
            (Self::Session(session), Some(id)) => session.entry.session_id == *id,
        }
    }

    /// For the log.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Member => "member",
            Self::Session(session) => &session.entry.session_id,
        }
    }
}

/// Why a connection ended, or was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// We ended it.
    Stopped,
    /// The member's key counts no more.
    Revoked,
    /// Features are missing.
    Features(String),
    /// An administrator closed it; a session does not come back.
    Kicked,
    /// Another connection with the same key stands.
    Replaced,
    /// Our own key was replaced: the next connection speaks with the new one.
    Rotated,
    /// The broker does not know our key, or not any more.
    Stranger(String),
    /// Anything else: it is made again. A reason for the metrics, and a text.
    Lost(&'static str, String),
}

impl End {
    pub(crate) fn lost(reason: &'static str, detail: impl std::fmt::Display) -> Self {
        let text: String = detail.to_string().chars().filter(|c| !c.is_control()).take(300).collect();
        Self::Lost(reason, text)
    }

    /// What the broker's closing means.
    pub(crate) fn of_close(code: u16, reason: &str) -> Self {
        match code {
            close::BANNED => Self::Revoked,
            close::FEATURES => Self::Features(reason.chars().filter(|c| !c.is_control()).take(123).collect()),
            close::KICKED => Self::Kicked,
            close::REPLACED | close::KEPT_OLDEST => Self::Replaced,
            close::REFUSED => Self::of_code(reason, "the broker refused the hello"),
            _ => Self::lost("closed", format!("closed by the broker: {code} {reason}")),
        }
    }

    /// What an error of the broker means before there was a welcome.
    pub(crate) fn of_code(code: &str, text: &str) -> Self {
        match code {
            "revoked" => Self::Revoked,
            "features" | "missing_features" => Self::Features(text.to_owned()),
            "key_replaced" | "unauthorized" => {
                Self::Stranger(text.chars().filter(|c| !c.is_control()).take(300).collect())
            }
            _ => Self::lost("hello", format!("{code}: {text}")),
        }
    }
}
