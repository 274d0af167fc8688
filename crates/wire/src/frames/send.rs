//! A message on its way to a broker, and the word that one has arrived.

use serde::{Deserialize, Serialize};

use super::{Kind, Priority, To};

/// A message for others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Send {
    /// Correlates the ack.
    pub id: String,
    /// The caller's id, on which everything dedupes.
    #[serde(rename = "client_message_id", default)]
    pub client_message_id: String,
    /// Hex of the request's fingerprint.
    #[serde(rename = "request_fingerprint", default)]
    pub request_fingerprint: String,
    /// The first protocol's address: a key, `#topicId`, `@group` or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_spec: Option<String>,
    /// What it is; second protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Where it goes; second protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<To>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
    /// Base64.
    #[serde(default)]
    pub nonce: String,
    /// Base64.
    #[serde(default)]
    pub ciphertext: String,
    /// Names or ids of who is mentioned; the sealed body says it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// The message this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
    /// How the body is sealed.
    #[serde(default = "one")]
    pub body_version: u32,
    /// Which key of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_epoch: Option<u64>,
    /// The lane whose order must be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// The place in the lane, from 1, on this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_seq: Option<u64>,
    /// The file that is announced, for kind `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// The member that had accepted it, if the sender has taken that one's place since: the id is that one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

fn one() -> u32 {
    1
}

/// What was received is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientAck {
    /// Everything up to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// These above it as well (urgent ones come first).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<u64>,
    /// Everything up to here survives a power cut as well. Only from daemons whose hello names `ack_synced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced: Option<u64>,
    /// First protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// First protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_message_id: Option<String>,
}
