//! The record of who joined, left, was banned, renamed or looks like a clone: append-only, each record holding the digest
//! of the one before.
//!
//! Invariant: one chain for the whole broker, written by the engine's one writer in the same transaction as what it tells
//! of; nothing is changed, and only the oldest records go, when they are too many or too old, so that what is left is a
//! chain. No secret and no content of a message is in it.
//!
//! It cannot keep away whoever may write to the file; it makes what they do visible. The tables are the engine's.

use hostel_store::Chain;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use hostel_store::{Broken, Verified};

/// Something to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// In which mesh; empty for the broker itself.
    pub mesh: String,
    /// What happened, one of [`kind`].
    pub kind: String,
    /// Who did it: a member's id, or empty.
    pub actor: String,
    /// To whom or what: an id, or empty.
    pub subject: String,
    /// Everything else.
    pub body: Value,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
}

/// What can happen.
pub mod kind {
    /// A mesh was made.
    pub const MESH_CREATED: &str = "mesh_created";
    /// Its log was found to be an earlier one.
    pub const LOG_SET_BACK: &str = "log_set_back";
    /// Its policy was changed.
    pub const MESH_POLICY: &str = "mesh_policy_changed";
    /// Somebody joined.
    pub const MEMBER_JOINED: &str = "member_joined";
    /// Somebody who had left joined again.
    pub const MEMBER_REJOINED: &str = "member_rejoined";
    /// Somebody has another name.
    pub const MEMBER_RENAMED: &str = "member_renamed";
    /// Somebody has another key.
    pub const MEMBER_KEYPAIR_ROTATED: &str = "member_keypair_rotated";
    /// Somebody has another role.
    pub const MEMBER_ROLE: &str = "member_role_changed";
    /// Somebody will leave.
    pub const MEMBER_RETIRING: &str = "member_retiring";
    /// Somebody left.
    pub const MEMBER_LEFT: &str = "member_left";
    /// A key counts no more.
    pub const MEMBER_REVOKED: &str = "member_revoked";
    /// It counts again.
    pub const MEMBER_UNBANNED: &str = "member_unbanned";
    /// Connections were closed by an administrator.
    pub const MEMBER_KICKED: &str = "member_kicked";
    /// A key came from another host than before.
    pub const CLONE_SUSPECTED: &str = "member_clone_suspected";
    /// Two connections with one key.
    pub const CONCURRENT: &str = "member_concurrent_connection";
    /// An invite was registered.
    pub const INVITE_CREATED: &str = "invite_created";
    /// An invite was taken back.
    pub const INVITE_REVOKED: &str = "invite_revoked";
    /// A join was refused.
    pub const JOIN_REFUSED: &str = "join_refused";
    /// A topic was made.
    pub const TOPIC_CREATED: &str = "topic_created";
    /// A topic was deleted.
    pub const TOPIC_DELETED: &str = "topic_deleted";
    /// A topic needs another key.
    pub const TOPIC_EPOCH: &str = "topic_epoch_raised";
    /// A file was deleted.
    pub const FILE_DELETED: &str = "file_deleted";
}

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Its number, from 1, without gaps in the broker; a mesh's own records have gaps.
    pub no: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// In which mesh.
    pub mesh: String,
    /// What happened.
    pub kind: String,
    /// Who did it.
    pub actor: String,
    /// To whom or what.
    pub subject: String,
    /// Everything else.
    pub body: Value,
    /// Hex of the digest of the record before.
    pub previous: String,
    /// Hex of its own.
    pub digest: String,
}

/// What is digested of a record.
pub(crate) const CHAIN: Chain = Chain {
    tag: b"hostel broker audit 1\0",
    time: "time_ms",
    texts: &["mesh", "kind", "actor", "subject", "body"],
    base: Some("audit_base"),
};
