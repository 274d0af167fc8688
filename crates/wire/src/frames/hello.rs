//! The first frame of a connection: who one is.

use serde::{Deserialize, Serialize};

use super::Group;

/// What a hello says beyond who one is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hello {
    /// 1 or 2.
    pub protocol_version: u32,
    /// Free words.
    pub capabilities: Vec<String>,
    /// Which mesh.
    pub mesh_id: String,
    /// Which member.
    pub member_id: String,
    /// Its key, hex.
    pub pubkey: String,
    /// A session key on a member's connection, in the first protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_pubkey: Option<String>,
    /// The member's name.
    pub display_name: String,
    /// `daemon-<pid>`.
    pub session_id: String,
    /// Process id.
    pub pid: u32,
    /// Where it runs.
    pub cwd: String,
    /// On which host.
    pub hostname: String,
    /// `ai`, `human` or `connector`.
    pub peer_type: String,
    /// `claudemesh-daemon`.
    pub channel: String,
    /// The model, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Groups one is in.
    pub groups: Vec<Group>,
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// 128 hex.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// The broker's challenge; second protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The host's fingerprint, hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_fingerprint: Option<String>,
    /// What is required and what would be welcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// Up to where one has everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// `service` or `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The mark of the roster that one has: a broker whose roster has the same does not send it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roster_mark: Option<String>,
    /// How the key came after earlier ones, oldest first: for a broker that knows one of those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<Succession>,
}

/// That one key of a member follows another, in the words and with the signatures of `rotate_key`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Succession {
    /// The key that was replaced, hex.
    pub old_pubkey: String,
    /// The one that took its place, hex.
    pub new_pubkey: String,
    /// When, in milliseconds since 1970, by the member's clock.
    pub timestamp: u64,
    /// The old key's, 128 hex.
    pub signature: String,
    /// The new key's, 128 hex.
    pub proof: String,
}

/// Features a daemon asks for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Features {
    /// Without these it will not stay.
    pub require: Vec<String>,
    /// These it would use.
    pub optional: Vec<String>,
}

/// A reader's position.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resume {
    /// Of which log.
    pub epoch: String,
    /// Everything up to here is stored.
    pub seq: u64,
    /// The furthest of what was sent and confirmed in it: a log that ends before that is an earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<u64>,
    /// Entries of that log that the daemon knows, at its place and at the furthest confirmed one: a log that has others
    /// there is an earlier one that has grown since. Older daemons send none, older brokers do not look at them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<EntryMark>,
}

/// The id that an entry of a log has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryMark {
    /// Its number.
    pub seq: u64,
    /// Its id.
    pub id: String,
}

/// A session's hello, vouched for by its member.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionHello {
    /// Everything of a member's hello that applies.
    #[serde(flatten)]
    pub hello: Hello,
    /// The member's id.
    pub parent_member_id: String,
    /// The member's key.
    pub parent_member_pubkey: String,
    /// The member's word for the session key.
    pub parent_attestation: Attestation,
}

/// A member's word for a session key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attestation {
    /// The session's key.
    pub session_pubkey: String,
    /// The member's key.
    pub parent_member_pubkey: String,
    /// Milliseconds since 1970; at most 24 h ahead.
    pub expires_at: u64,
    /// 128 hex.
    pub signature: String,
}
