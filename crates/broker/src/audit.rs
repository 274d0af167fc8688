//! The record of who joined, left, was banned, renamed or looks like a clone: append-only, each record holding the digest
//! of the one before.
//!
//! Invariant: one chain for the whole broker, written by the engine's one writer in the same transaction as what it tells
//! of; nothing is changed or removed. No secret and no content of a message is in it.
//!
//! It cannot keep away whoever may write to the file; it makes what they do visible. The tables are the engine's.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

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
    /// Its policy was changed.
    pub const MESH_POLICY: &str = "mesh_policy_changed";
    /// Somebody joined.
    pub const MEMBER_JOINED: &str = "member_joined";
    /// Somebody who had left joined again.
    pub const MEMBER_REJOINED: &str = "member_rejoined";
    /// Somebody has another name.
    pub const MEMBER_RENAMED: &str = "member_renamed";
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

/// What a look through the audit found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Records that are as they were written, from the first on.
    pub records: u64,
    /// The first that is not.
    pub broken: Option<Broken>,
}

/// A record that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its number.
    pub no: u64,
    /// What is wrong with it.
    pub what: String,
}

/// A record as bytes, the way it is digested and stored.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) no: i64,
    pub(crate) time_ms: i64,
    pub(crate) mesh: &'a [u8],
    pub(crate) kind: &'a [u8],
    pub(crate) actor: &'a [u8],
    pub(crate) subject: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Parts<'_> {
    /// Everything in it, each part with its length so that nothing can move between them.
    pub(crate) fn digest(&self, previous: &[u8]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"hostel broker audit 1\0");
        hash.update(self.no.to_le_bytes());
        hash.update(self.time_ms.to_le_bytes());
        for part in [self.mesh, self.kind, self.actor, self.subject, self.body, previous] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}
