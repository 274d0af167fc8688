//! The frames between a mesh daemon and a broker: one JSON object per WebSocket text message.
//!
//! Invariant: what is not known is skipped, what is wrong is an error that says where; nothing a peer sends makes
//! decoding panic or allocate more than a few times the frame. Names are the contract's: camelCase, but for
//! `client_message_id` and `request_fingerprint`.
//!
//! It judges nothing: whether a signature is good or a member may do a thing is for others.

pub mod client;
mod hello;
mod send;
pub mod server;
pub mod shared;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A frame may have this many bytes; a longer one closes the connection with 1009.
pub const FRAME_LIMIT: usize = 256 * 1024;

/// The sealed body of a message may have this many bytes as base64.
pub const MESSAGE_LIMIT: usize = 128 * 1024;

/// Why a connection is closed.
pub mod close {
    /// Replaced, or asked to leave softly; the other side may come back.
    pub const NORMAL: u16 = 1000;
    /// The broker is ending.
    pub const GOING_AWAY: u16 = 1001;
    /// The hello was refused; the reason is the error's code.
    pub const REFUSED: u16 = 1008;
    /// A frame was too long.
    pub const TOO_BIG: u16 = 1009;
    /// Kicked by an administrator.
    pub const KICKED: u16 = 4001;
    /// Banned: the key is revoked.
    pub const BANNED: u16 = 4002;
    /// A newer connection of the same key has taken over.
    pub const REPLACED: u16 = 4003;
    /// An older connection of the same key stays.
    pub const KEPT_OLDEST: u16 = 4004;
    /// A feature that one side requires is missing.
    pub const FEATURES: u16 = 4010;
}

/// Why a frame could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not a JSON object with a `type`.
    #[error("malformed: {0}")]
    Malformed(String),
    /// Its type is not known.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
}

/// How urgent a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before everything else.
    Now,
    /// As usual.
    #[default]
    Next,
    /// When nothing else waits.
    Low,
}

impl Priority {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Next => "next",
            Self::Low => "low",
        }
    }

    /// Reads what `as_str` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "now" => Some(Self::Now),
            "next" => Some(Self::Next),
            "low" => Some(Self::Low),
            _ => None,
        }
    }
}

/// Where an entry of the log goes, by ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum To {
    /// One member.
    Member(String),
    /// Who has subscribed to a topic.
    Topic(String),
    /// Who is in a group.
    Group(String),
    /// Everybody.
    All(bool),
}

/// What an entry of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// For one member.
    Dm,
    /// For a topic.
    Topic,
    /// For a group.
    Group,
    /// For everybody.
    All,
    /// Announces a file, to one member or to everybody.
    File,
    /// A change of the shared state.
    State,
    /// A task was made, claimed, let go or completed.
    Task,
    /// From the broker itself.
    Sys,
}

impl Kind {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Topic => "topic",
            Self::Group => "group",
            Self::All => "all",
            Self::File => "file",
            Self::State => "state",
            Self::Task => "task",
            Self::Sys => "sys",
        }
    }

    /// Reads what `as_str` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "dm" => Some(Self::Dm),
            "topic" => Some(Self::Topic),
            "group" => Some(Self::Group),
            "all" => Some(Self::All),
            "file" => Some(Self::File),
            "state" => Some(Self::State),
            "task" => Some(Self::Task),
            "sys" => Some(Self::Sys),
            _ => None,
        }
    }
}

/// A group with the role one has in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// The type of a frame, without reading the rest.
pub fn type_of(text: &str) -> Result<String, FrameError> {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    serde_json::from_str::<Typed>(text)
        .map(|typed| typed.r#type)
        .map_err(|error| FrameError::Malformed(error.to_string()))
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, FrameError> {
    serde_json::from_str(text).map_err(|error| FrameError::Malformed(error.to_string()))
}

/// Frames hold text, numbers and maps with text keys: they can always be written.
fn write(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}
