//! What is kept of a mesh, as it is stored: JSON under a key of a bucket.
//!
//! Invariant: a field that is added has a default, so that a record of an earlier program can be read. What changes often
//! (when a member was last seen, its summary, its cursor) is in records of its own: entries of the log are guarded by the
//! revisions of members and topics, and a hello must not make every guard stale.

use std::collections::BTreeMap;

use hostel_wire::authorship::{Remint, Statement};
use hostel_wire::frames::Group;
use hostel_wire::frames::client::Succession;
use hostel_wire::frames::server::RetiredKey;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names of buckets. Keys are ids joined by `/`.
pub mod bucket {
    /// Mesh: its record.
    pub const MESH: &str = "mesh";
    /// Slug: the mesh's id.
    pub const SLUG: &str = "slug";
    /// Mesh, member.
    pub const MEMBER: &str = "member";
    /// Mesh, invite.
    pub const INVITE: &str = "invite";
    /// Mesh, topic.
    pub const TOPIC: &str = "topic";
    /// Mesh, topic, member: when it was subscribed.
    pub const SUB: &str = "sub";
    /// Mesh, topic, epoch (20 digits), member: a sealed copy of the key.
    pub const SEAL: &str = "seal";
    /// Mesh, receiver, sender.
    pub const GRANT: &str = "grant";
    /// Mesh, member: how far it has read.
    pub const CURSOR: &str = "cursor";
    /// Mesh, member: when and from where it was last seen.
    pub const SEEN: &str = "seen";
    /// Mesh, session key: whose session it is.
    pub const SESSION: &str = "session";
    /// Mesh, file.
    pub const FILE: &str = "file";
}

/// A record with the revision it was read or written at.
#[derive(Debug, Clone, PartialEq)]
pub struct Held<T> {
    /// When it was written, among all writes of the broker.
    pub revision: u64,
    /// The record.
    pub record: T,
}

impl<T> std::ops::Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.record
    }
}

/// A mesh.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MeshRecord {
    /// Its id.
    pub id: String,
    /// Its name in addresses and directories, unique on the broker.
    pub slug: String,
    /// As it was given.
    pub name: String,
    /// Hex; its private half signs invites and never leaves the owner's host.
    pub owner_pubkey: String,
    /// The owner's member.
    pub owner_member: String,
    /// When it was made.
    pub created_ms: u64,
    /// Its rules.
    pub policy: Policy,
}

/// The rules of a mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// What happens to two connections with one key.
    pub concurrency: Concurrency,
    /// What members may change of themselves.
    pub self_editable: SelfEditable,
}

impl Default for Policy {
    fn default() -> Self {
        Self { concurrency: Concurrency::PreferNewest, self_editable: SelfEditable::default() }
    }
}

/// What happens to two connections with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// The older is closed with 4003.
    #[default]
    PreferNewest,
    /// The newer is refused with 4004.
    PreferOldest,
    /// Both stay.
    AllowConcurrent,
}

/// What members may change of themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelfEditable {
    /// The name.
    pub display_name: bool,
    /// The role tag.
    pub role_tag: bool,
    /// The groups.
    pub groups: bool,
    /// How messages are shown.
    pub message_mode: bool,
}

impl Default for SelfEditable {
    fn default() -> Self {
        Self { display_name: true, role_tag: true, groups: true, message_mode: true }
    }
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Send, read, make topics.
    #[default]
    Member,
    /// Also kick, ban and delete topics.
    Admin,
    /// Also invite and name administrators.
    Owner,
}

impl Role {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

/// A member.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberRecord {
    /// Its id.
    pub id: String,
    /// Hex.
    pub pubkey: String,
    /// Keys it had, in their grace: they lead to it.
    pub retired: Vec<RetiredKey>,
    /// Keys it had before those: what was sent in their time is its own.
    pub past: Vec<RetiredKey>,
    /// Its name, unique among those who are there.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// A word for people.
    pub role_tag: Option<String>,
    /// Groups it is in.
    pub groups: Vec<Group>,
    /// `push` and the like.
    pub message_mode: Option<String>,
    /// Avatar, title, bio, capabilities.
    pub profile: Map<String, Value>,
    /// When it joined.
    pub joined_ms: u64,
    /// Entries from here on concern it.
    pub joined_seq: u64,
    /// The invite it came with.
    pub invite: Option<String>,
    /// The member whose place it has taken.
    pub predecessor: Option<String>,
    /// What both members' keys signed for that.
    pub remint: Option<Remint>,
    /// What the member says of itself, signed with its key.
    pub statement: Option<Statement>,
    /// What its keys signed at each rotation, oldest first: kept longer than the keys, for members that were away.
    pub lineage: Vec<Succession>,
    /// Those whose place that one had taken, the latest first.
    pub ancestors: Vec<String>,
    /// The member that vouches for it: it is there for a while, and goes when that one does.
    pub sponsor: Option<String>,
    /// When its key was revoked.
    pub revoked_ms: Option<u64>,
    /// When it will leave.
    pub leaves_ms: Option<u64>,
    /// When it left.
    pub left_ms: Option<u64>,
}

impl MemberRecord {
    /// Whether it has taken this member's place, or that of one who had. Both keys have signed for each step.
    #[must_use]
    pub fn descends_from(&self, member: &str) -> bool {
        self.predecessor.iter().chain(&self.ancestors).any(|one| one == member)
    }

    /// Neither revoked nor gone.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.revoked_ms.is_none() && self.left_ms.is_none()
    }

    /// Administrators and the owner.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.is_active() && self.role >= Role::Admin
    }

    /// Whether it is in a group.
    #[must_use]
    pub fn in_group(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group.name == name)
    }

    /// As frames have it.
    #[must_use]
    pub fn to_frame(&self) -> hostel_wire::frames::server::Member {
        hostel_wire::frames::server::Member {
            id: self.id.clone(),
            name: self.name.clone(),
            role: self.role.as_str().to_owned(),
            pubkey: self.pubkey.clone(),
            retired: self.retired.clone(),
            past: self.past.clone(),
            revoked: self.revoked_ms.is_some(),
            left: self.left_ms.is_some(),
            groups: self.groups.clone(),
            lineage: self.lineage.clone(),
            statement: self.statement.clone(),
            remint: self.remint.clone(),
        }
    }
}

/// What an invite sets for who joins with it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preset {
    /// The name.
    pub display_name: Option<String>,
    /// The role tag.
    pub role_tag: Option<String>,
    /// The groups.
    pub groups: Vec<Group>,
    /// How messages are shown.
    pub message_mode: Option<String>,
}

/// An invite.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InviteRecord {
    /// Its id.
    pub id: String,
    /// Hex of the token's digest. The token itself is half of what a link holds; it need not lie around.
    pub token_sha256: String,
    /// The root key, sealed with a secret that only the link has.
    pub sealed_root_key: Option<String>,
    /// What its bearer will be.
    pub role: Role,
    /// How often it may be used.
    pub max_uses: u32,
    /// How often it was.
    pub uses: u32,
    /// When it ends.
    pub expires_ms: u64,
    /// When it was taken back.
    pub revoked_ms: Option<u64>,
    /// What it sets.
    pub preset: Preset,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_ms: u64,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicRecord {
    /// Its id.
    pub id: String,
    /// Its name, unique in the mesh.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// `public` or `private`.
    pub visibility: String,
    /// Posts must be sealed with this key of it. It is raised when somebody who has the key may no longer read.
    pub epoch: u64,
    /// When earlier keys ceased to count, as long as entries of the log may be sealed with them.
    pub ended: BTreeMap<u64, u64>,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_ms: u64,
}

/// The topic that every mesh has.
pub const GENERAL: &str = "general";

impl TopicRecord {
    /// Whether it is the one every mesh has: its first key is known to every member, and broadcasts use its keys.
    #[must_use]
    pub fn is_general(&self) -> bool {
        self.name == GENERAL
    }
}

/// When a member was subscribed: entries from `since` on, and before `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The first entry.
    pub since: u64,
    /// The first that is not meant any more.
    #[serde(default)]
    pub until: Option<u64>,
}

/// A member's subscription to a topic, with all its intervals that may still matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubRecord {
    /// In order; only the last may be open.
    pub intervals: Vec<Interval>,
}

impl SubRecord {
    /// Subscribed now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.intervals.last().is_some_and(|last| last.until.is_none())
    }

    /// Subscribed at that entry.
    #[must_use]
    pub fn covers(&self, seq: u64) -> bool {
        self.intervals.iter().rev().any(|one| one.since <= seq && one.until.is_none_or(|until| seq < until))
    }
}

/// A sealed copy of a topic's key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SealRecord {
    /// Base64.
    pub blob: String,
    /// Base64.
    pub nonce: String,
    /// The member that sealed it.
    pub by: String,
    /// When.
    pub at_ms: u64,
}

/// What a sender may do to a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantRecord {
    /// Empty: nothing.
    pub capabilities: Vec<String>,
}

/// How far a member has read: a hint for a new device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CursorRecord {
    /// Of which log.
    pub epoch: String,
    /// Everything up to here.
    pub seq: u64,
    /// When it said so.
    pub at_ms: u64,
}

/// When and from where a member was last seen, and what it said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenRecord {
    /// When.
    pub at_ms: u64,
    /// The host's fingerprint.
    pub host_fingerprint: Option<String>,
    /// Its last summary.
    pub summary: Option<String>,
    /// Its last status.
    pub status: Option<String>,
    /// Whether it wanted to be listed.
    pub visible: Option<bool>,
}

/// Whose session a key is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRecord {
    /// The member.
    pub member: String,
    /// When it was last seen.
    pub at_ms: u64,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRecord {
    /// Its id, also of its blob.
    pub id: String,
    /// As the uploader calls it.
    pub name: String,
    /// Bytes as they are stored: sealed.
    pub size: u64,
    /// Hex of their digest.
    pub sha256: String,
    /// Words for finding it.
    pub tags: Vec<String>,
    /// The member that shared it.
    pub uploaded_by: String,
    /// When.
    pub uploaded_ms: u64,
    /// Kept until it is deleted.
    pub persistent: bool,
    /// When it goes, if it is not.
    pub expires_ms: Option<u64>,
    /// The member it is for; `None`: the mesh.
    pub to: Option<String>,
    /// Its key, sealed: by member id, or `*` for the mesh.
    pub keys: BTreeMap<String, String>,
}

/// The default of what a sender may do to a receiver.
pub const CAPABILITIES: [&str; 4] = ["read", "dm", "broadcast", "state-read"];
