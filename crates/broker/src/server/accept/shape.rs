//! What a message must look like, and what it looks like in the log.

use bytes::Bytes;
use hostel_wire::encoding::unhex_array;
use hostel_wire::frames::client::Send;
use hostel_wire::frames::{Kind, Priority};
use hostel_wire::ids;
use serde::Serialize;

use super::ack::No;
use crate::registry::{Mesh, Route};
use crate::server::connection::Connection;
use crate::server::settings::Limits;

/// The longest of the small texts of a message.
const TEXT: usize = 256;
const NAME: usize = 64;
const NONCE: usize = 64;
const MENTIONS: usize = 32;

/// Whether a text can name a lane.
pub(super) fn is_lane(name: &str) -> bool {
    name.len() <= 2 * TEXT
}

/// Checks a message (B1) and fills in what the first protocol may leave out. The answer is its fingerprint.
pub(super) fn check(send: &mut Send, limits: &Limits, protocol: u32) -> Result<[u8; 32], No> {
    if send.ciphertext.len() > limits.message {
        return Err(No::TooLarge(limits.message));
    }
    if send.client_message_id.is_empty() {
        if protocol >= 2 {
            return Err(No::Invalid("client_message_id is missing"));
        }
        // Without an id nothing can be compared: each is a message of its own.
        send.client_message_id = format!("broker:{}", ids::message_id());
    }
    let texts = [&send.id, &send.client_message_id];
    if texts.iter().any(|text| text.len() > TEXT) || send.reply_to_id.as_ref().is_some_and(|id| id.len() > TEXT) {
        return Err(No::Invalid("an id is too long"));
    }
    if send.nonce.len() > NONCE {
        return Err(No::Invalid("the nonce is too long"));
    }
    if send.mentions.len() > MENTIONS || send.mentions.iter().any(|name| name.len() > NAME) {
        return Err(No::Invalid("too many mentions, or too long ones"));
    }
    if send.file_id.as_ref().is_some_and(|id| id.len() > NAME) {
        return Err(No::Invalid("file_id is too long"));
    }
    if matches!(send.kind, Some(Kind::Sys | Kind::State | Kind::Task)) {
        return Err(No::Forbidden);
    }
    fingerprint(send, protocol)
}

/// The fingerprint a message says it has. The first protocol may leave it out.
pub(super) fn fingerprint(send: &Send, protocol: u32) -> Result<[u8; 32], No> {
    match send.request_fingerprint.as_str() {
        "" if protocol < 2 => Ok([0; 32]),
        text => unhex_array::<32>(text).ok_or(No::Invalid("request_fingerprint is not 64 hex digits")),
    }
}

/// An entry's part of the push: all of it but its id, its number and its time, which the log gives.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'a> {
    mesh_id: &'a str,
    sender_pubkey: String,
    sender_member_pubkey: String,
    sender_member_id: &'a str,
    sender_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to_id: Option<&'a str>,
    priority: Priority,
    nonce: &'a str,
    ciphertext: &'a str,
    #[serde(rename = "client_message_id")]
    client_message_id: &'a str,
    #[serde(rename = "request_fingerprint")]
    request_fingerprint: &'a str,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_epoch: Option<u64>,
    mentions: &'a [String],
    body_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient_pubkey: Option<&'a str>,
}

/// A message as it is kept.
pub(super) fn entry(
    connection: &Connection,
    mesh: &Mesh,
    send: &Send,
    route: &Route,
    session: Option<&str>,
    origin: Option<&str>,
) -> Result<Bytes, No> {
    if !super::may_announce(connection, mesh, send) {
        return Err(No::Invalid("no such file of yours"));
    }
    let sender = mesh.member(&connection.member).ok_or(No::Forbidden)?;
    let topic = (route.kind == Kind::Topic).then(|| mesh.topic(&route.dest)).flatten();
    let stored = Stored {
        mesh_id: mesh.id(),
        sender_pubkey: connection.key.hex(),
        sender_member_pubkey: connection.member_key.hex(),
        sender_member_id: &connection.member,
        sender_name: &sender.name,
        topic: topic.map(|topic| topic.name.as_str()),
        topic_id: topic.map(|topic| topic.id.as_str()),
        group: (route.kind == Kind::Group).then_some(route.dest.as_str()),
        reply_to_id: send.reply_to_id.as_deref(),
        priority: send.priority,
        nonce: &send.nonce,
        ciphertext: &send.ciphertext,
        client_message_id: &send.client_message_id,
        request_fingerprint: &send.request_fingerprint,
        kind: route.kind,
        key_epoch: send.key_epoch,
        mentions: &send.mentions,
        body_version: send.body_version,
        file_id: send.file_id.as_deref(),
        origin,
        recipient_pubkey: session,
    };
    serde_json::to_vec(&stored).map(Bytes::from).map_err(|_| No::Invalid("it cannot be written"))
}
