//! What a daemon says to a broker.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::hello::{Attestation, EntryMark, Features, Hello, Resume, SessionHello, Succession};
pub use super::send::{ClientAck, Send};
use super::shared::{Link, Page, StateGet, StateSet, TaskCreate, TaskGet, TaskList, TaskStep};
use super::{FrameError, parse, type_of, write};
use crate::authorship::Statement;

/// A frame of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientFrame {
    /// Who one is; the first frame of a member's connection.
    Hello(Box<Hello>),
    /// Who one is; the first frame of a session's connection.
    SessionHello(Box<SessionHello>),
    /// A message.
    Send(Box<Send>),
    /// What was received is stored.
    ClientAck(ClientAck),
    /// Anything that is answered by one frame with the same `_reqId`.
    #[serde(untagged)]
    Request(Request),
}

/// The types of `Request`, each with its fields in `Call`.
pub const REQUESTS: &[&str] = &[
    "list_peers",
    "set_status",
    "set_summary",
    "set_visible",
    "set_profile",
    "join_group",
    "leave_group",
    "topic_create",
    "topic_list",
    "topic_join",
    "topic_leave",
    "topic_subscribe",
    "topic_unsubscribe",
    "topic_members",
    "topic_history",
    "topic_delete",
    "topic_key_put",
    "topic_key_get",
    "topic_key_replace",
    "history",
    "message_status",
    "presence_set",
    "rename",
    "rotate_key",
    "member_state",
    "leave",
    "revoke",
    "kick",
    "disconnect",
    "ban",
    "unban",
    "list_bans",
    "invite_create",
    "invite_list",
    "invite_revoke",
    "audit_query",
    "get_file",
    "list_files",
    "delete_file",
    "grant_file_access",
    "file_key_replace",
    "grant_set",
    "grant_list",
    "state_set",
    "state_get",
    "state_list",
    "task_create",
    "task_step",
    "task_get",
    "task_list",
    "shared_links",
    "shared_link_put",
    "bye",
];

/// A request, with the id its answer will carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Echoed in the answer.
    #[serde(rename = "_reqId", default, skip_serializing_if = "Option::is_none")]
    pub req_id: Option<String>,
    /// What is asked.
    #[serde(flatten)]
    pub call: Call,
}

/// What may be asked of a broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Call {
    /// Who is there. Answer: `peers_list`.
    ListPeers {
        /// Also members without a connection.
        #[serde(default)]
        all: bool,
        /// The `next` of an answer that was not all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// `idle`, `working` or `dnd`. No answer in the first protocol; `ok` when a `_reqId` was given.
    SetStatus {
        /// The status.
        status: String,
    },
    /// What one is doing, for people.
    SetSummary {
        /// The text.
        summary: String,
    },
    /// Whether one is listed.
    SetVisible {
        /// Listed or not.
        visible: bool,
    },
    /// Avatar, title, bio, capabilities.
    SetProfile {
        /// As given.
        #[serde(flatten)]
        profile: serde_json::Map<String, Value>,
    },
    /// Joins a group.
    JoinGroup {
        /// Its name.
        name: String,
        /// The role in it.
        #[serde(default)]
        role: Option<String>,
    },
    /// Leaves a group.
    LeaveGroup {
        /// Its name.
        name: String,
    },
    /// Makes a topic. Answer: `topic_created`.
    TopicCreate {
        /// Its name.
        name: String,
        /// For people.
        #[serde(default)]
        description: Option<String>,
        /// `public` or `private`.
        #[serde(default)]
        visibility: Option<String>,
    },
    /// All topics one may see, by name. Answer: `topic_list_response`, with `more` where there are others behind them.
    TopicList {
        /// Those whose names come after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// The older name of subscribing: no answer when it works.
    TopicJoin {
        /// Name or id.
        topic: String,
    },
    /// The older name of unsubscribing.
    TopicLeave {
        /// Name or id.
        topic: String,
    },
    /// Subscribes; makes the topic if `create` says so. Answer: `topic_subscribed`.
    TopicSubscribe {
        /// Name or id.
        topic: String,
        /// Make it if it is missing.
        #[serde(default)]
        create: bool,
        /// Public key, member id or name of who is let into a private topic one is in; oneself if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<String>,
    },
    /// Unsubscribes. Answer: `topic_unsubscribed`.
    TopicUnsubscribe {
        /// Name or id.
        topic: String,
    },
    /// Answer: `topic_members_response`.
    TopicMembers {
        /// Name or id.
        topic: String,
        /// The `next` of an answer that was not all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// The older way to read history, newest first, at most 200. Answer: `topic_history_response`.
    TopicHistory {
        /// Name or id.
        topic: String,
        /// How many.
        #[serde(default)]
        limit: Option<u32>,
        /// Before this message.
        #[serde(default)]
        before_id: Option<String>,
    },
    /// Deletes a topic; administrators only. Answer: `ok`.
    TopicDelete {
        /// Name or id.
        topic: String,
    },
    /// Sealed copies of a topic's key. Answer: `ok` with what was stored (the first seal of a member and epoch wins).
    TopicKeyPut {
        /// Which topic.
        topic_id: String,
        /// Which key of it.
        epoch: u64,
        /// A copy per member.
        seals: Vec<Seal>,
    },
    /// One's own sealed copy. Answer: `topic_key`, or error `key_not_sealed_for_member`.
    TopicKeyGet {
        /// Which topic.
        topic_id: String,
        /// Which key of it; the newest if absent.
        #[serde(default)]
        epoch: Option<u64>,
    },
    /// One's own copy of a key one has, sealed anew: for a key of one's own that was replaced. Answer: `ok`.
    TopicKeyReplace {
        /// Which topic.
        topic_id: String,
        /// Which key of it.
        epoch: u64,
        /// Base64 of the sealer's x25519 key and the box.
        blob: String,
        /// Base64.
        nonce: String,
    },
    /// Entries of the log one may see. Answer: `history_response`.
    History {
        /// Which.
        #[serde(default)]
        filter: HistoryFilter,
        /// Older than this.
        #[serde(default)]
        before_seq: Option<u64>,
        /// Newer than this.
        #[serde(default)]
        after_seq: Option<u64>,
        /// How many, at most 200.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// What became of a message. Answer: `message_status_response`.
    MessageStatus {
        /// The broker's id.
        message_id: String,
    },
    /// Status, summary and visibility at once. Answer: `ok`.
    PresenceSet {
        /// `idle`, `working` or `dnd`.
        #[serde(default)]
        status: Option<String>,
        /// For people.
        #[serde(default)]
        summary: Option<String>,
        /// Listed or not.
        #[serde(default)]
        visible: Option<bool>,
    },
    /// Another name. Answer: `ok`; peers hear `member_renamed`.
    Rename {
        /// The name.
        display_name: String,
    },
    /// Another key for the same member. Both keys sign [`crate::hello::rotate_request`]. Answer: `ok` with `pubkey`,
    /// `oldPubkey` and `graceUntil`, also when it was done before; peers hear `member_keypair_rotated`.
    RotateKey {
        /// The key until now, hex.
        old_pubkey: String,
        /// The key from now on, hex.
        new_pubkey: String,
        /// Milliseconds since 1970, by the broker's clock.
        timestamp: u64,
        /// By the old key, 128 hex.
        signature: String,
        /// By the new key, 128 hex.
        proof: String,
    },
    /// What the member says of itself: its name, that it signs what it writes, and how it came by its key. Answer: `ok`;
    /// all of it is handed out with the roster.
    MemberState {
        /// Name, time and signature.
        #[serde(flatten)]
        statement: Statement,
        /// The rotations that led to its key, oldest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lineage: Vec<Succession>,
    },
    /// Leaves the mesh for good. Answer: `ok`.
    Leave {
        /// After this many hours instead of now (a reminted identity retires its predecessor).
        #[serde(default)]
        after_hours: Option<u32>,
    },
    /// Revokes a member's key. Answer: `ok`.
    Revoke {
        /// Public key, member id or name.
        target: String,
    },
    /// Closes a member's connections with 4001.
    Kick {
        /// Public key, member id or name.
        target: String,
    },
    /// Closes them with 1000; the member comes back.
    Disconnect {
        /// Public key, member id or name.
        target: String,
    },
    /// As `revoke`.
    Ban {
        /// Public key, member id or name.
        target: String,
    },
    /// Takes a revocation back.
    Unban {
        /// Public key, member id or name.
        target: String,
    },
    /// Answer: `bans_list`.
    ListBans {
        /// The `next` of an answer that was not all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Registers an invite that the owner has signed. Answer: `invite_created`.
    InviteCreate {
        /// The token (base64url of the payload).
        token: String,
        /// The root key, sealed with the invite's secret.
        #[serde(default)]
        sealed_root_key: Option<String>,
        /// How often it may be used; 1 if absent.
        #[serde(default)]
        max_uses: Option<u32>,
        /// Presets for who joins: display name, role tag, groups, message mode.
        #[serde(default)]
        preset: Option<Value>,
    },
    /// Answer: `invite_list_response`.
    InviteList {
        /// The `next` of an answer that was not all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Answer: `ok`.
    InviteRevoke {
        /// The invite's id or token.
        invite: String,
    },
    /// The audit trail; owner and administrators. Answer: `audit_response`.
    AuditQuery {
        /// Newer than this.
        #[serde(default)]
        after: u64,
        /// How many, at most 500.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// Where to fetch a file. Answer: `file_url`.
    GetFile {
        /// Which.
        file_id: String,
    },
    /// Answer: `file_list`.
    ListFiles {
        /// Part of the name.
        #[serde(default)]
        query: Option<String>,
        /// Uploaded by.
        #[serde(default)]
        from: Option<String>,
        /// The `next` of an answer that was not all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Deletes a file; its uploader and administrators. Answer: `ok`.
    DeleteFile {
        /// Which.
        file_id: String,
    },
    /// Lets another member read a file. Answer: `ok`.
    GrantFileAccess {
        /// Which.
        file_id: String,
        /// Who.
        member_id: String,
        /// The file's key, sealed to that member.
        sealed_key: String,
    },
    /// One's own copy of a file's key, sealed anew. Answer: `ok`.
    FileKeyReplace {
        /// Which.
        file_id: String,
        /// The file's key, sealed to one's own key.
        sealed_key: String,
    },
    /// What a given sender may do to oneself; an empty list blocks. Answer: `ok`.
    GrantSet {
        /// Public key, member id or name of the sender.
        target: String,
        /// `read`, `dm`, `broadcast`, `state-read`; absent: the default.
        #[serde(default)]
        capabilities: Option<Vec<String>>,
    },
    /// Senders for whom one has set something. Answer: `grants_list`.
    GrantList {
        /// The `next` of an answer that was not all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
    },
    /// Writes or removes an entry of the shared state. Answer: `state_written`, or `state_conflict` with its version.
    StateSet(Box<StateSet>),
    /// Entries by their digests, with their values. Answer: `state_entries`, with `more` where not all fit.
    StateGet(StateGet),
    /// All entries without their values, by digest. Answer: `state_entries`.
    StateList(Page),
    /// Makes a task. Answer: `task`.
    TaskCreate(Box<TaskCreate>),
    /// Claims, lets go or completes a task. Answer: `task`, or `task_refused` with why and the task as it is.
    TaskStep(Box<TaskStep>),
    /// One task with all of its content. Answer: `task`.
    TaskGet(TaskGet),
    /// Tasks by id, without bodies and results. Answer: `task_entries`.
    TaskList(TaskList),
    /// How who has a later key gets at earlier ones. Answer: `shared_links`.
    SharedLinks(Page),
    /// Hands an earlier key on; the first one stays. Answer: `ok`.
    SharedLinkPut(Link),
    /// A clean end: no lease.
    Bye {},
}

impl ClientFrame {
    /// Reads a frame.
    pub fn decode(text: &str) -> Result<Self, FrameError> {
        let name = type_of(text)?;
        match name.as_str() {
            "hello" => parse(text).map(Self::Hello),
            "session_hello" => parse(text).map(Self::SessionHello),
            "send" => parse(text).map(Self::Send),
            "client_ack" => parse(text).map(Self::ClientAck),
            known if REQUESTS.contains(&known) => parse(text).map(Self::Request),
            _ => Err(FrameError::UnknownType(name)),
        }
    }

    /// Writes it, as one line.
    #[must_use]
    pub fn encode(&self) -> String {
        write(self)
    }
}

/// Which entries of the log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryFilter {
    /// Of one topic, by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// Direct messages to oneself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dm: Option<bool>,
}

/// A sealed copy of a topic's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seal {
    /// For whom.
    pub member_id: String,
    /// Base64 of the sealer's x25519 key and the box.
    pub blob: String,
    /// Base64.
    pub nonce: String,
}
