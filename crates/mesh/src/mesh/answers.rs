//! What a mesh answers, in the words of the contract: each serializes to the JSON that a door prints.

use std::collections::BTreeMap;

use hostel_wire::frames::{Group, Priority};
use serde::Serialize;
use serde_json::Value;

/// A message was taken. `status` says how far it is; only `done` with `duplicate` is the contract's 200, all else 202.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sent {
    /// The caller's id for it, or the one that was made.
    #[serde(rename = "messageId")]
    pub message_id: String,
    /// The same.
    pub client_message_id: String,
    /// `queued`, `inflight` or `done`.
    pub status: &'static str,
    /// The broker's id, once it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_message_id: Option<String>,
    /// It had been delivered before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// The topic's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Who it goes to, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The key of that member.
    #[serde(rename = "targetPubkey", skip_serializing_if = "Option::is_none")]
    pub target_pubkey: Option<String>,
    /// Whether it was there a moment ago; unknown while there is no connection.
    #[serde(rename = "recipientOnline", skip_serializing_if = "Option::is_none")]
    pub recipient_online: Option<bool>,
}

/// A topic is (or is no longer) subscribed to. `pending`: kept here, the broker hears it later (202).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subscribed {
    /// Always.
    pub ok: bool,
    /// The topic's name.
    pub topic: String,
    /// Its id, when it is known.
    #[serde(rename = "topicId", skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Whether it was made for this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
    /// Whether it is subscribed to now.
    pub subscribed: bool,
    /// The broker has not heard it yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// A topic in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Topic {
    /// Its id; empty while only this daemon knows it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// `public` or `private`.
    pub visibility: String,
    /// How many have subscribed.
    pub member_count: u64,
    /// Whether we have.
    pub subscribed: bool,
    /// Posts nobody here has seen.
    pub unread: u64,
    /// When it was made.
    pub created_at: Option<String>,
}

/// A message of the inbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InboxItem {
    /// Of the row.
    pub id: String,
    /// The sender's id for it.
    pub client_message_id: String,
    /// The broker's.
    pub broker_message_id: String,
    /// The mesh's slug.
    pub mesh: String,
    /// `dm`, `topic`, `group`, `all` or `file`.
    pub kind: String,
    /// The topic's name.
    pub topic: Option<String>,
    /// The key it was sealed with.
    pub sender_pubkey: String,
    /// The member.
    pub sender_member_id: String,
    /// Its name at that time.
    pub sender_name: String,
    /// The text; null if it could not be opened.
    pub body: Option<String>,
    /// What the sender put beside it.
    pub meta: Option<Value>,
    /// How urgent.
    pub priority: Priority,
    /// Who is mentioned.
    pub mentions: Vec<String>,
    /// Whether we are.
    pub mention: bool,
    /// When it came here.
    pub received_at: String,
    /// When the broker took it.
    pub created_at: Option<String>,
    /// The message it answers.
    pub reply_to_id: Option<String>,
    /// When it was first seen, before this answer.
    pub seen_at: Option<String>,
    /// Ours, or our session's.
    pub recipient_pubkey: Option<String>,
    /// `member` or `session`.
    pub recipient_kind: String,
    /// The session it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient_session: Option<String>,
    /// Why the body is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decrypt_error: Option<String>,
    /// Whether the member that is named as the sender is proven to have written it.
    pub verified: bool,
    /// The file it announces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Value>,
    /// The same as `client_message_id`.
    pub idempotency_key: String,
    /// Where the words were found, for a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// Its place, where the oldest come first: what came after it is asked for with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of the inbox, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InboxPage {
    /// The messages.
    pub items: Vec<InboxItem>,
    /// How many of them count as seen from now on.
    pub marked_seen: u64,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Somebody in the mesh.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// The key of the connection: a session's or the member's.
    pub pubkey: String,
    /// The member's key.
    pub member_pubkey: String,
    /// The member.
    pub member_id: String,
    /// The name.
    pub display_name: String,
    /// `idle`, `working`, `dnd`; `offline` without a connection.
    pub status: String,
    /// What it is doing.
    pub summary: Option<String>,
    /// Groups it is in.
    pub groups: Vec<Group>,
    /// Of the session or daemon.
    pub session_id: Option<String>,
    /// Since when.
    pub connected_at: Option<String>,
    /// Where it works.
    pub cwd: Option<String>,
    /// `service` or `session`.
    pub peer_role: String,
    /// On which host.
    pub hostname: Option<String>,
    /// `ai`, `human` or `connector`.
    pub peer_type: Option<String>,
    /// The program.
    pub channel: Option<String>,
    /// Whether it is listed.
    pub visible: bool,
    /// The mesh's slug.
    pub mesh: String,
    /// Whether it has a connection.
    pub online: bool,
}

/// The profile was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileApplied {
    /// Always.
    pub ok: bool,
    /// What was used.
    pub applied: Vec<String>,
    /// Where.
    pub meshes: Vec<String>,
}

/// A file was shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shared {
    /// Always.
    pub ok: bool,
    /// Of the file.
    pub file_id: String,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: u64,
    /// Hex.
    pub sha256: String,
    /// For whom, as it was asked.
    pub to: Option<String>,
}

/// A file was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetched {
    /// Always.
    pub ok: bool,
    /// Of the file.
    pub file_id: String,
    /// Its name.
    pub name: String,
    /// Where it is now.
    pub saved_to: String,
    /// Its size.
    pub size: u64,
    /// Hex.
    pub sha256: String,
    /// Whether the member that is named as its sender is proven to have shared it.
    pub verified: bool,
}

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileItem {
    /// Of the file.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: u64,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Who has shared it.
    pub uploaded_by: String,
    /// When.
    pub uploaded_at: String,
    /// Kept until deleted.
    pub persistent: bool,
    /// Always.
    pub encrypted: bool,
    /// Hex of the plain text's digest, if we can open it.
    pub sha256: Option<String>,
    /// For whom; null: everybody.
    pub to: Option<String>,
    /// Whether that member is proven to have shared it.
    pub verified: bool,
}

/// `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// Always.
    pub ok: bool,
    /// Of the daemon.
    pub pid: u32,
    /// Whether there is a connection to the broker.
    pub connected: bool,
    /// The last round trip to the broker.
    pub lag_ms: Option<u64>,
    /// Rows that wait or are under way.
    pub queue_depth: u64,
    /// Rows under way.
    pub inflight: u64,
    /// The mesh's slug.
    pub mesh: String,
    /// The member's key.
    pub member_pubkey: String,
    /// Since the start.
    pub uptime_s: u64,
    /// Of the databases.
    pub schema_version: u32,
    /// Ours.
    pub daemon_version: String,
    /// The broker's, once known.
    pub broker_version: Option<String>,
    /// Each mesh with `open`, `connecting`, `reconnecting` or `closed`.
    pub brokers: BTreeMap<String, &'static str>,
    /// The member's name.
    pub display_name: String,
    /// `ok`, `degraded` or `revoked`.
    pub state: &'static str,
}

/// `GET /v1/version`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Version {
    /// Ours.
    pub daemon_version: String,
    /// `v1`.
    pub ipc_api: &'static str,
    /// Additive.
    pub ipc_minor: u32,
    /// Of the databases.
    pub schema_version: u32,
    /// Oldest broker protocol that will do.
    pub broker_protocol_min: &'static str,
    /// Newest that is known.
    pub broker_protocol_max: &'static str,
    /// The mesh's slug.
    pub mesh: String,
    /// What this daemon can do.
    pub ipc_features: Vec<&'static str>,
    /// What the broker can do, each with its parameters.
    pub broker_features_negotiated: BTreeMap<String, Value>,
}

/// A row of the outbox, for operators.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutboxItem {
    /// Of the row.
    pub id: String,
    /// The caller's id.
    pub client_message_id: String,
    /// `pending`, `inflight`, `done`, `dead` or `aborted`.
    pub status: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was taken.
    pub enqueued_at: String,
    /// When it is tried next.
    pub next_attempt_at: Option<String>,
    /// When the broker had it.
    pub delivered_at: Option<String>,
    /// The broker's id.
    pub broker_message_id: Option<String>,
    /// Why it was not taken last time.
    pub last_error: Option<String>,
    /// When it was given up for another row.
    pub aborted_at: Option<String>,
    /// By whom.
    pub aborted_by: Option<String>,
    /// By which row.
    pub superseded_by: Option<String>,
    /// How large.
    pub payload_bytes: u64,
    /// `dm`, `topic`, `group` or `all`.
    pub dest_kind: String,
    /// Where it goes.
    pub dest_ref: String,
}

/// A row was given up for a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requeued {
    /// The old row.
    pub aborted_row_id: String,
    /// The new one.
    pub new_row_id: String,
    /// Its id.
    pub new_client_message_id: String,
}

/// A session was registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// Always.
    pub ok: bool,
    /// When.
    pub registered_at: String,
    /// Whether it has a connection of its own.
    pub presence_accepted: bool,
    /// Its address: `host/session-name`.
    pub address: String,
}

/// A registered session; its token is never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionItem {
    /// Its id.
    pub session_id: String,
    /// The mesh's slug.
    pub mesh: String,
    /// Its name.
    pub display_name: String,
    /// Its address: `host/session-name`.
    pub address: String,
    /// Its process.
    pub pid: u32,
    /// Where it works.
    pub cwd: Option<String>,
    /// Free text.
    pub role: Option<String>,
    /// Groups it is in.
    pub groups: Vec<Group>,
    /// When it was registered.
    pub registered_at: String,
    /// The key of its connection, if it has one.
    pub pubkey: Option<String>,
    /// Whether that connection stands.
    pub connected: bool,
}

/// A member of the mesh, for administrators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberItem {
    /// Its id.
    pub member_id: String,
    /// Its name.
    pub display_name: String,
    /// `owner`, `admin` or `member`.
    pub role: String,
    /// Its key.
    pub pubkey: String,
    /// Its key counts no more.
    pub revoked: bool,
    /// It has left.
    pub left: bool,
    /// Groups it is in.
    pub groups: Vec<Group>,
    /// Whether it is this member.
    pub me: bool,
}

/// An invite was made. The link is a secret.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Invited {
    /// Always.
    pub ok: bool,
    /// The link to hand over.
    pub invite: String,
    /// Its id at the broker.
    pub invite_id: String,
    /// Until when it may be used.
    pub expires_at: String,
    /// How often.
    pub max_uses: u32,
}

impl std::fmt::Debug for Invited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invited").field("invite_id", &self.invite_id).finish_non_exhaustive()
    }
}

/// How the daemon stands to its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Connected.
    Open,
    /// The first connection is being made.
    Connecting,
    /// The connection was lost and is being made again.
    Reconnecting,
    /// Ended.
    Closed,
    /// The member's key counts no more: nothing is taken any more.
    Revoked,
    /// The disk is full: nothing is taken, what comes in is kept.
    Degraded,
}

impl State {
    /// The word of the contract for the connection.
    #[must_use]
    pub fn broker_word(self) -> &'static str {
        match self {
            Self::Open | Self::Degraded => "open",
            Self::Connecting => "connecting",
            Self::Reconnecting => "reconnecting",
            Self::Closed | Self::Revoked => "closed",
        }
    }
}

/// Why a mesh ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to.
    Shutdown,
    /// The member's key counts no more: exit 78.
    Revoked,
    /// The broker lacks features that are required, or the other way round.
    MissingFeatures(String),
    /// Its databases failed.
    Broken(String),
}
