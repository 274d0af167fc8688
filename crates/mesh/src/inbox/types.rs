//! What comes into the inbox and what is shown of it. Times are milliseconds since 1970.

use std::sync::Arc;

use hostel_store::StoreError;
use hostel_wire::frames::client::EntryMark;
use hostel_wire::frames::{Kind, Priority};
use hostel_wire::iso;
use serde_json::{Value, json};

use crate::events::NewEvent;

/// An entry of the log that concerns us, opened or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The member that sent it.
    pub sender_member_id: String,
    /// Its id for it; together they are never stored twice.
    pub client_message_id: String,
    /// The member whose id that is, if the sender has taken that one's place: with it, it is not stored twice either.
    pub origin: Option<String>,
    /// The broker's id.
    pub broker_message_id: String,
    /// Where in the log.
    pub broker_seq: u64,
    /// What it is.
    pub kind: Kind,
    /// The topic's name.
    pub topic: Option<String>,
    /// The key that sealed it: the session's or the member's.
    pub sender_pubkey: String,
    /// The member's key, where it is another.
    pub sender_member_pubkey: Option<String>,
    /// The sender's name now; rows keep it.
    pub sender_name: String,
    /// How urgent.
    pub priority: Priority,
    /// When the broker took it.
    pub created_at: Option<u64>,
    /// The key it is for.
    pub recipient_pubkey: Option<String>,
    /// The session it is for; `None`: the member.
    pub recipient_session: Option<String>,
    /// What it says, if that is known.
    pub content: Content,
}

/// What is known of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// It is open.
    Open(Plain),
    /// Its key is not here yet: it is kept, hidden and silent, until `decrypted`.
    KeyPending(Sealed),
    /// It will never open, or is not what its frame says.
    Unreadable(Unreadable),
}

/// An opened body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plain {
    /// The text.
    pub body: String,
    /// What the sender put beside it.
    pub meta: Option<Value>,
    /// The message it answers.
    pub reply_to_id: Option<String>,
    /// Who is mentioned.
    pub mentions: Vec<String>,
    /// Whether we are.
    pub mention: bool,
    /// The session it is for, if the body says so; counts over the arrival's.
    pub session: Option<String>,
    /// The session of the sender that wrote it, if the body says so; as it stands in an address.
    pub sender: Option<String>,
    /// The author's name, as the author writes it.
    pub author: Option<String>,
    /// The member whose id it has, as the author says.
    pub origin: Option<String>,
    /// What the sender is called, for a row that waited; none: as the row has it.
    pub sender_name: Option<String>,
    /// The file it announces.
    pub file: Option<Value>,
    /// Whether the member that is named as the sender is proven to have written it.
    pub verified: bool,
    /// Events beside `message`, told only if the row is new.
    pub events: Vec<NewEvent>,
}

/// A body whose key is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sealed {
    /// Whose key it needs.
    pub topic_id: String,
    /// Which of its keys.
    pub key_epoch: u64,
    /// How it is sealed.
    pub body_version: u32,
    /// The frame's, hex.
    pub request_fingerprint: String,
    /// Base64.
    pub nonce: String,
    /// Base64.
    pub ciphertext: String,
    /// The group it is for.
    pub group: Option<String>,
    /// It came in the order of the log.
    pub in_order: bool,
}

/// Why a body is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// It did not open.
    Failed,
    /// It opened and contradicts its frame.
    Mismatch,
    /// Its sender signs what it writes, and this is not signed.
    Unsigned,
    /// Its signature is not its sender's.
    BadSignature,
    /// It is signed with a key that is not proven to be its sender's.
    UnprovenKey,
}

impl Unreadable {
    /// As it is kept and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Mismatch => "mismatch",
            Self::Unsigned => "unsigned",
            Self::BadSignature => "bad_signature",
            Self::UnprovenKey => "unproven_key",
        }
    }
}

/// A reader's place in the log: everything up to `seq` is stored, and these above it as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Of which log; empty: none was ever read.
    pub epoch: String,
    /// Everything up to here.
    pub seq: u64,
    /// And these, in rising order.
    pub above: Vec<u64>,
    /// The last entry in its turn that was stored, by number and id: a log that has another one there is not the same.
    pub last_entry: Option<EntryMark>,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// It is new; it was announced unless its key is missing.
    New(Arc<InboxRow>),
    /// It was there. Acknowledge it all the same.
    Duplicate,
}

/// A message that waits for its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The row, for `decrypted`.
    pub no: i64,
    /// Who sent it.
    pub sender_member_id: String,
    /// The key that sealed it.
    pub sender_pubkey: String,
    /// The sender's own key.
    pub sender_member_pubkey: String,
    /// The sender's id for it.
    pub client_message_id: String,
    /// Where in the log.
    pub broker_seq: u64,
    /// What the sender was called.
    pub sender_name: String,
    /// How urgent.
    pub priority: Priority,
    /// What it is.
    pub kind: Kind,
    /// The body as it came.
    pub sealed: Sealed,
}

/// Messages that wait for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKey {
    /// Whose key.
    pub topic_id: String,
    /// Which of its keys.
    pub key_epoch: u64,
    /// How many wait.
    pub count: u64,
}

/// Who looks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    /// The member: everything.
    #[default]
    Member,
    /// A session: what is addressed to it, and what is for topics, groups and everybody. Never what is for the member
    /// alone or for another session.
    Session(String),
}

/// Whose messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// Sealed with this key, or sent by the member of this key. There is no index for it: say `Member` where the member of
    /// the key is known.
    Pubkey(String),
    /// Sent by this member.
    Member(String),
    /// Sent under this name, in any case of letters.
    Name(String),
}

/// Which part of the inbox is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxQuery {
    /// Who looks.
    pub scope: Scope,
    /// Received then or later.
    pub since: Option<u64>,
    /// Of this topic, by name.
    pub topic: Option<String>,
    /// Of this sender.
    pub from: Option<From>,
    /// At most this many; clamped to 1..=1000, 0 means 100.
    pub limit: usize,
    /// Only what is in the mailbox of this session.
    pub session: Option<String>,
    /// Oldest first; the cursor goes on towards the newest then.
    pub oldest_first: bool,
    /// Only what nobody has seen.
    pub unread_only: bool,
    /// What is listed counts as seen from now on.
    pub mark_seen: bool,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// Cut the page at about this many bytes; 0: never.
    pub max_bytes: usize,
}

/// A page, newest first unless the oldest were wanted first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The messages.
    pub items: Vec<InboxRow>,
    /// How many of them were marked as seen.
    pub marked_seen: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
    /// The place of each message, where the oldest come first: who follows a mailbox goes on after the last it has.
    pub places: Vec<String>,
}

/// What a search has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Searched {
    /// The newest first.
    pub found: Vec<Found>,
    /// There are more, and they did not fit.
    pub truncated: bool,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The message.
    pub row: InboxRow,
    /// Where the words are.
    pub snippet: String,
}

/// A message of the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxRow {
    /// Its id.
    pub id: String,
    /// The sender's id for it.
    pub client_message_id: String,
    /// The broker's.
    pub broker_message_id: String,
    /// Where in the log.
    pub broker_seq: u64,
    /// The mesh's slug.
    pub mesh: String,
    /// What it is.
    pub kind: Kind,
    /// The topic's name.
    pub topic: Option<String>,
    /// The key that sealed it.
    pub sender_pubkey: String,
    /// The member's key.
    pub sender_member_pubkey: String,
    /// The member.
    pub sender_member_id: String,
    /// Its name at that time.
    pub sender_name: String,
    /// The text; `None` if it could not be opened.
    pub body: Option<String>,
    /// What the sender put beside it.
    pub meta: Option<Value>,
    /// How urgent.
    pub priority: Priority,
    /// Who is mentioned.
    pub mentions: Vec<String>,
    /// Whether we are.
    pub mention: bool,
    /// When it came.
    pub received_at: u64,
    /// When the broker took it.
    pub created_at: Option<u64>,
    /// The message it answers.
    pub reply_to_id: Option<String>,
    /// When it was first seen.
    pub seen_at: Option<u64>,
    /// The key it is for.
    pub recipient_pubkey: Option<String>,
    /// The session it is for.
    pub recipient_session: Option<String>,
    /// Why there is no body: `failed`, `mismatch`, `unsigned`, `bad_signature`, `unproven_key` or `key_pending`.
    pub decrypt_error: Option<String>,
    /// Whether the member that is named as the sender is proven to have written it.
    pub verified: bool,
    /// The file it announces.
    pub file: Option<Value>,
}

impl InboxRow {
    /// `member` or `session`.
    #[must_use]
    pub fn recipient_kind(&self) -> &'static str {
        if self.recipient_session.is_some() { "session" } else { "member" }
    }

    /// The data of its `message` event, as one line of JSON.
    #[must_use]
    pub fn event_data(&self, ts: u64) -> String {
        let mut data = json!({
            "ts": iso(ts), "id": self.id, "mesh": self.mesh, "kind": self.kind.as_str(),
            "client_message_id": self.client_message_id, "broker_message_id": self.broker_message_id,
            "sender_pubkey": self.sender_pubkey, "sender_member_pubkey": self.sender_member_pubkey,
            "sender_member_id": self.sender_member_id, "sender_name": self.sender_name, "topic": self.topic,
            "reply_to_id": self.reply_to_id, "priority": self.priority.as_str(), "body": self.body,
            "meta": self.meta, "mentions": self.mentions, "mention": self.mention,
            "created_at": self.created_at.map(iso), "recipient_pubkey": self.recipient_pubkey,
            "recipient_kind": self.recipient_kind(), "verified": self.verified,
        });
        let mut put = |name: &str, value: &Option<Value>| {
            if let Some(value) = value {
                data[name] = value.clone();
            }
        };
        put("recipient_session", &self.recipient_session.clone().map(Value::from));
        put("decrypt_error", &self.decrypt_error.clone().map(Value::from));
        put("file", &self.file);
        data.to_string()
    }
}

/// Why the inbox could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InboxError {
    /// A search nobody can read, also with every word quoted: 400 `bad_query`.
    #[error("the search cannot be read: {0}")]
    BadQuery(String),
    /// A cursor that is none of ours: 400.
    #[error("the cursor cannot be read")]
    BadCursor,
    /// The database's own reason.
    #[error(transparent)]
    Store(#[from] StoreError),
}
