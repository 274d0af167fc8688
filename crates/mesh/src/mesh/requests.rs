//! What callers ask of a mesh. Plain values: whoever reads JSON or flags fills them.

use hostel_wire::frames::{Group, Priority};
use serde_json::{Map, Value};

/// On whose behalf something is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Caller {
    /// The member itself: sees everything.
    #[default]
    Member,
    /// A session of the member: sends under its own key, and sees only what is for it.
    Session(SessionRef),
}

impl Caller {
    /// The session, if it is one.
    #[must_use]
    pub fn session(&self) -> Option<&SessionRef> {
        match self {
            Self::Member => None,
            Self::Session(session) => Some(session),
        }
    }
}

/// A session that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRef {
    /// Its id.
    pub id: String,
    /// Its name, the second half of `host/session-name`.
    pub name: String,
}

/// `POST /v1/send`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SendRequest {
    /// A key of 64 hex, a prefix of at least 16, a name, `*`, `@group`, `#topic`, or `host/session-name`.
    pub to: String,
    /// The text.
    pub message: String,
    /// How urgent.
    pub priority: Priority,
    /// Whatever the caller wants beside the text.
    pub meta: Option<Value>,
    /// The message this answers.
    pub reply_to: Option<String>,
    /// The caller's id for it; one is made if there is none.
    pub client_message_id: Option<String>,
    /// Names that are mentioned; if empty, those after an `@` in the text.
    pub mentions: Vec<String>,
}

/// `POST /v1/topic/post`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PostRequest {
    /// Its name, with or without `#`.
    pub topic: String,
    /// The text.
    pub message: String,
    /// How urgent.
    pub priority: Priority,
    /// Names that are mentioned; if empty, those after an `@` in the text.
    pub mentions: Vec<String>,
    /// Whatever the caller wants beside the text.
    pub meta: Option<Value>,
    /// The message this answers.
    pub reply_to: Option<String>,
    /// The caller's id for it.
    pub client_message_id: Option<String>,
}

/// `GET /v1/inbox`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRequest {
    /// Received then or later, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Of this topic.
    pub topic: Option<String>,
    /// From this member: a key, a prefix or a name.
    pub from: Option<String>,
    /// How many; clamped to 1..=1000.
    pub limit: usize,
    /// What is in one mailbox alone, by the id rows have in `recipient_session`: for the member, who sees all of them.
    pub session: Option<String>,
    /// Oldest first.
    pub oldest_first: bool,
    /// Only what nobody has seen.
    pub unread_only: bool,
    /// Count as seen what is listed.
    pub mark_seen: bool,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl Default for InboxRequest {
    fn default() -> Self {
        Self {
            since_ms: None,
            topic: None,
            from: None,
            limit: 100,
            session: None,
            oldest_first: false,
            unread_only: false,
            mark_seen: true,
            cursor: None,
        }
    }
}

/// `POST /v1/profile`; what is absent stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProfileChange {
    /// What one is doing, for people.
    pub summary: Option<String>,
    /// `idle`, `working` or `dnd`.
    pub status: Option<String>,
    /// Whether one is listed.
    pub visible: Option<bool>,
    /// Avatar, title, bio, capabilities: other keys are not used.
    pub more: Map<String, Value>,
}

/// `POST /v1/file/share`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShareRequest {
    /// An absolute path.
    pub path: String,
    /// For whom; everybody if absent.
    pub to: Option<String>,
    /// A text that goes with it.
    pub message: Option<String>,
    /// Kept until it is deleted, not just for a day.
    pub persistent: bool,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// `POST /v1/sessions/register`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RegisterRequest {
    /// 64 hex; who shows it is the session.
    pub token: String,
    /// The session's id.
    pub session_id: String,
    /// Its name.
    pub display_name: String,
    /// Its process; the session ends with it.
    pub pid: u32,
    /// Where it works.
    pub cwd: Option<String>,
    /// Free text.
    pub role: Option<String>,
    /// Groups it is in.
    pub groups: Vec<Group>,
    /// Whether peers shall see it: a connection of its own.
    pub presence: bool,
}

/// `POST /v1/invite/create`: owners only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InviteRequest {
    /// How often it may be used; 1 if absent.
    pub max_uses: Option<u32>,
    /// How long it may be used, in seconds; 7 days if absent.
    pub expires_in_s: Option<u64>,
    /// `member` (if absent) or `admin`.
    pub role: Option<String>,
    /// Presets for who joins: display name, role tag, groups, message mode.
    pub preset: Option<Value>,
    /// Where who joins shall find the broker, if not where this host does.
    pub broker_url: Option<String>,
}

/// What an administrator may do to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberAction {
    /// The key counts no more.
    Revoke,
    /// As `Revoke`.
    Ban,
    /// Takes it back.
    Unban,
    /// Closes its connections: sessions end, and a daemon comes back after the longest of its waits.
    Kick,
    /// Closes its connections; it comes back.
    Disconnect,
}
