//! What a broker says to a daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::authorship::{Remint, Statement};

use super::client::{Seal, Succession};
use super::{FrameError, Group, Kind, Priority, parse, type_of, write};

/// A frame of a broker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerFrame {
    /// The first frame; older daemons ignore it.
    HelloChallenge(HelloChallenge),
    /// Welcome.
    HelloAck(Box<HelloAck>),
    /// What became of a message.
    Ack(Box<Ack>),
    /// An entry of the log, or news of the broker.
    Push(Box<Push>),
    /// All members.
    Roster(Roster),
    /// Members that changed.
    RosterDelta(Roster),
    /// One's own copy of a topic's key: an answer, or unasked when somebody has sealed it.
    TopicKey(TopicKeyFrame),
    /// Somebody needs a topic's key, and one holds it.
    TopicKeyNeeded(TopicKeyNeeded),
    /// Something was refused.
    Error(ErrorFrame),
    /// The answer to a request.
    #[serde(untagged)]
    Answer(Answer),
}

/// The types of `Answer`.
pub const ANSWERS: &[&str] = &[
    "ok",
    "peers_list",
    "topic_created",
    "topic_list_response",
    "topic_subscribed",
    "topic_unsubscribed",
    "topic_members_response",
    "topic_history_response",
    "history_response",
    "message_status_response",
    "bans_list",
    "invite_created",
    "invite_list_response",
    "audit_response",
    "file_url",
    "file_list",
    "grants_list",
    "state_written",
    "state_conflict",
    "state_entries",
    "task",
    "task_refused",
    "task_entries",
    "shared_links",
];

impl ServerFrame {
    /// Reads a frame.
    pub fn decode(text: &str) -> Result<Self, FrameError> {
        let name = type_of(text)?;
        match name.as_str() {
            "hello_challenge" => parse(text).map(Self::HelloChallenge),
            "hello_ack" => parse(text).map(Self::HelloAck),
            "ack" => parse(text).map(Self::Ack),
            "push" => parse(text).map(Self::Push),
            "roster" => parse(text).map(Self::Roster),
            "roster_delta" => parse(text).map(Self::RosterDelta),
            "topic_key" => parse(text).map(Self::TopicKey),
            "topic_key_needed" => parse(text).map(Self::TopicKeyNeeded),
            "error" => parse(text).map(Self::Error),
            known if ANSWERS.contains(&known) => parse(text).map(Self::Answer),
            _ => Err(FrameError::UnknownType(name)),
        }
    }

    /// Writes it, as one line.
    #[must_use]
    pub fn encode(&self) -> String {
        write(self)
    }
}

/// An answer, found by its `_reqId`; its fields depend on its type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// One of `ANSWERS`.
    pub r#type: String,
    /// Of the request.
    #[serde(rename = "_reqId", default, skip_serializing_if = "Option::is_none")]
    pub req_id: Option<String>,
    /// The rest.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// The challenge a hello of the second protocol must sign.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelloChallenge {
    /// Base64 of 32 bytes.
    pub nonce: String,
    /// Which broker.
    pub broker_id: String,
    /// Its clock, in milliseconds since 1970.
    pub time: u64,
    /// The protocols it speaks.
    pub protocol: Vec<u32>,
}

/// Welcome, and where things stand.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HelloAck {
    /// Of this connection.
    pub presence_id: String,
    /// The member's name as the broker has it.
    pub member_display_name: String,
    /// The member's profile.
    pub member_profile: Value,
    /// What members may change by themselves.
    pub mesh_policy: Value,
    /// The member was there before.
    pub restored: bool,
    /// Its last summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_summary: Option<String>,
    /// When it was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
    /// Groups it was in.
    pub restored_groups: Vec<Group>,
    /// Kept for older daemons.
    pub restored_stats: Value,
    /// Kept for older daemons.
    pub services: Vec<Value>,
    /// The protocol of this connection.
    pub protocol_version: u32,
    /// The broker's version.
    pub broker_version: String,
    /// What the broker can do.
    pub features: ServerFeatures,
    /// The log as it stands.
    pub log: LogBounds,
    /// `ok`, `reset` (another log) or `gap` (some of what was missed is gone).
    pub resume: String,
    /// What is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// What the mesh allows.
    pub limits: Limits,
    /// Where else the mesh can be reached.
    pub brokers: Vec<String>,
    /// The roster's revision.
    pub roster_rev: u64,
    /// The roster has the mark that the hello named: it is not sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub roster_unchanged: bool,
    /// Whether this key is the mesh owner's, an administrator's or a member's: `owner`, `admin`, `member`.
    pub role: String,
}

/// Features of a broker.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerFeatures {
    /// Each with its parameters.
    pub supported: BTreeMap<String, Value>,
    /// What was required and is not there.
    pub missing_required: Vec<String>,
}

/// The log of a mesh.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogBounds {
    /// Random, made with the log.
    pub epoch: String,
    /// The first entry that is kept.
    pub first_seq: u64,
    /// The last.
    pub last_seq: u64,
}

/// Entries that are gone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gap {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

/// What a mesh allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Of a sealed body, as base64.
    pub message_bytes: usize,
    /// Sends per second.
    pub rate_per_s: u32,
    /// At once.
    pub burst: u32,
    /// How long ids are remembered, in days; 0: for ever.
    pub dedupe_days: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes: super::MESSAGE_LIMIT, rate_per_s: 100, burst: 1000, dedupe_days: 30 }
    }
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ack {
    /// Of the send.
    pub id: String,
    /// The broker's id; empty when refused.
    pub message_id: String,
    /// Whether it is in the log.
    pub queued: bool,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// It was there already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// Whether the entry itself is still kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_available: Option<bool>,
    /// Why it was refused: `rate_limited`, `lane_blocked`, `message_too_large`, `idempotency_key_reused`, `invalid`,
    /// `forbidden`, `blocked`, `topic_not_found`, `recipient_unknown`, `recipient_revoked`, `stale_key_epoch`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Trying again is of no use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permanent: Option<bool>,
}

/// An entry of the log, or news of the broker (`subtype: "system"`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Push {
    /// The broker's id.
    pub message_id: String,
    /// Which mesh.
    pub mesh_id: String,
    /// The key whose private half sealed it: the session's or the member's.
    pub sender_pubkey: String,
    /// The member's key.
    pub sender_member_pubkey: String,
    /// The member.
    pub sender_member_id: String,
    /// Its name.
    pub sender_name: String,
    /// The topic's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The message this answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
    /// How urgent.
    pub priority: Priority,
    /// Base64.
    pub nonce: String,
    /// Base64.
    pub ciphertext: String,
    /// When the broker took it.
    pub created_at: String,
    /// The sender's id for it.
    #[serde(rename = "client_message_id")]
    pub client_message_id: String,
    /// Hex.
    #[serde(rename = "request_fingerprint")]
    pub request_fingerprint: String,
    /// Where in the log; 0 for news that are in none.
    pub seq: u64,
    /// Sent before its turn: entries below `seq` are still to come. Without it, all that concern the reader have come.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Which key of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_epoch: Option<u64>,
    /// Who is mentioned.
    pub mentions: Vec<String>,
    /// How the body is sealed.
    pub body_version: u32,
    /// The file that is announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// The member whose id it has, if the sender has taken that one's place: from either of them it is the same message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The addressee's key, when it is a session of the member's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient_pubkey: Option<String>,
    /// `system` for news of the broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtype: Option<String>,
    /// Which news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Their content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_data: Option<Value>,
}

/// Members of a mesh.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Roster {
    /// Its revision.
    pub rev: u64,
    /// All of them, or those that changed.
    pub members: Vec<Member>,
    /// Of a whole roster that is too long for one frame: others follow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// What tells this list from every other, in the last frame of a whole list; of a change: the list's after it. Two lists
    /// with one mark are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Of a change: the mark that the list had before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_before: Option<String>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `owner`, `admin` or `member`.
    pub role: String,
    /// Its key.
    pub pubkey: String,
    /// Keys it had a moment ago: they still lead to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<RetiredKey>,
    /// Keys it had before that: they lead nowhere, and say only whose what was sent in their time is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<RetiredKey>,
    /// Its key counts no more.
    pub revoked: bool,
    /// It has left.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// Groups it is in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// How its key came after earlier ones, oldest first, signed by the keys of each step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<Succession>,
    /// What the member says of itself, signed with its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<Statement>,
    /// The member whose place it has taken, signed by both keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remint: Option<Remint>,
}

/// A key a member had.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RetiredKey {
    /// Hex.
    pub pubkey: String,
    /// When it was replaced, in milliseconds since 1970.
    pub at: u64,
    /// The end of its grace, in milliseconds since 1970.
    pub until: u64,
}

/// A sealed copy of a topic's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicKeyFrame {
    /// Of the request, if there was one.
    #[serde(rename = "_reqId", default, skip_serializing_if = "Option::is_none")]
    pub req_id: Option<String>,
    /// Which topic.
    pub topic_id: String,
    /// Which key of it.
    pub epoch: u64,
    /// The copy.
    #[serde(flatten)]
    pub seal: Seal,
}

/// Members that need a topic's key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicKeyNeeded {
    /// Which topic.
    pub topic_id: String,
    /// Which key of it.
    pub epoch: u64,
    /// Their ids.
    pub members: Vec<String>,
}

/// Something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorFrame {
    /// A stable word.
    pub code: String,
    /// For people.
    pub message: String,
    /// Of the request, under the older name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of the request.
    #[serde(rename = "_reqId", skip_serializing_if = "Option::is_none")]
    pub req_id: Option<String>,
}
