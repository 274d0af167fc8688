//! How a row of the outbox becomes a frame: its body sealed for those who may read it.
//!
//! Invariant: nothing leaves unsealed, and nothing without what proves its author: what several readers have the key of is
//! signed, and what is sealed with a session's key carries the member's word for that key. A row is sealed anew each time
//! it is sent, with the key that counts then; its fingerprint is the one it was accepted with.

use std::collections::HashMap;
use std::sync::Arc;

use hostel_wire::authorship::{MessageContext, SessionProof};
use hostel_wire::body::{BODY_VERSION, Body};
use hostel_wire::encoding::hex;
use hostel_wire::frames::client::{ClientFrame, Send};
use hostel_wire::frames::{Kind, To};
use hostel_wire::keys::{PublicKey, SecretKey};
use hostel_wire::sealed::{PairKey, Sealed};
use parking_lot::Mutex;

use crate::keyring::MemberKey;
use crate::mesh::core::Core;
use crate::outbox::{DestKind, Lane, Row};
use crate::topics::{GENERAL, NoKey};

/// Pairs whose shared key is kept; making one costs as much as sealing a hundred messages.
const MOST_PAIRS: usize = 1024;

/// How long the member vouches for a session key; after half of it the next message carries a new word.
const VOUCHED_FOR_MS: u64 = 12 * 3_600_000;

/// Our public key and another's.
type Pair = ([u8; 32], [u8; 32]);

/// Shared keys of pairs, ours with others'.
#[derive(Default)]
pub(crate) struct Pairs(Mutex<HashMap<Pair, PairKey>>);

impl Pairs {
    /// The shared key; None if the other's key is no good.
    pub(crate) fn get(&self, ours: &SecretKey, theirs: &PublicKey) -> Option<PairKey> {
        let name = (ours.public().0, theirs.0);
        if let Some(pair) = self.0.lock().get(&name) {
            return Some(pair.clone());
        }
        let pair = PairKey::new(ours, theirs).ok()?;
        let mut pairs = self.0.lock();
        if pairs.len() >= MOST_PAIRS {
            pairs.clear();
        }
        pairs.insert(name, pair.clone());
        Some(pair)
    }
}

/// Why a row did not become a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unsealed {
    /// It never will: a code and a text.
    Never(&'static str, String),
    /// Its topic's key is not here.
    KeyMissing(String),
    /// Who is who is not known yet.
    NoRoster,
}

/// The name of the keys a lane's bodies are sealed with; None for a direct message.
pub(super) fn ring(core: &Core, lane: &Lane) -> Option<String> {
    match lane.dest_kind {
        DestKind::Dm => None,
        DestKind::Topic => Some(core.topics.ring(&lane.dest_ref)),
        DestKind::Group | DestKind::All => Some(GENERAL.to_owned()),
    }
}

/// Whether it can be said who a direct message goes to: the member is known, or it is known that it is not.
pub(super) fn is_known(core: &Core, lane: &Lane) -> bool {
    core.roster.is_heard() || core.roster.key(member_of(lane)).is_some()
}

/// The member a direct message goes to.
fn member_of(lane: &Lane) -> &str {
    lane.dest_ref.split_once('/').map_or(lane.dest_ref.as_str(), |(member, _)| member)
}

/// Whose id a row has, if not our own.
pub(super) fn origin<'a>(core: &Core, row: &'a Row) -> Option<&'a str> {
    row.origin.as_deref().filter(|origin| *origin != core.me.member_id)
}

/// The keys of a connection.
pub(super) struct Keys {
    /// Seals direct messages: the member's or a session's.
    sender: SecretKey,
    /// The member's key that the connection speaks with, or that vouches for its session.
    member: Arc<MemberKey>,
    /// The member's word for the session key, as long as it is fresh: signing is the dear part of a short message.
    proof: Mutex<Option<SessionProof>>,
}

impl Keys {
    pub(super) fn new(sender: SecretKey, member: Arc<MemberKey>) -> Self {
        Self { sender, member, proof: Mutex::default() }
    }

    /// The member's word for the session key, if it is one.
    fn session_proof(&self, now_ms: u64) -> Option<SessionProof> {
        let sender = self.sender.public();
        if sender == self.member.public() {
            return None;
        }
        let mut kept = self.proof.lock();
        let is_fresh = |proof: &SessionProof| {
            let left = proof.until.saturating_sub(now_ms);
            (VOUCHED_FOR_MS / 2..=VOUCHED_FOR_MS).contains(&left)
        };
        if !kept.as_ref().is_some_and(is_fresh) {
            *kept = Some(SessionProof::new(&self.member.key, &sender, now_ms.saturating_add(VOUCHED_FOR_MS)));
        }
        kept.clone()
    }
}

/// A row as a frame, sealed with the keys of its connection, without its place in its lane.
pub(super) fn row(core: &Core, keys: &Keys, row: &Row) -> Result<Send, Unsealed> {
    let payload = &row.payload;
    let is_direct = row.lane.dest_kind == DestKind::Dm;
    let origin = origin(core, row);
    let mut body = Body {
        body: payload.body.clone(),
        meta: payload.meta.clone(),
        reply_to: payload.reply_to.clone(),
        mentions: payload.mentions.clone(),
        client_message_id: Some(row.client_message_id.clone()),
        fingerprint: Some(row.fingerprint),
        session: payload.session.clone(),
        sender: row.lane.sender_session.as_deref().map(|id| core.sessions.name_of(id)),
        author: Some(core.signed_name()),
        origin: origin.map(str::to_owned),
        session_proof: if is_direct { keys.session_proof(core.broker_now_ms()) } else { None },
        successions: core.keys.recent_lineage(&keys.member, core.broker_now_ms()),
        signature: None,
    };
    let kind = match (&payload.file_id, row.lane.dest_kind) {
        (Some(_), _) => Kind::File,
        (None, DestKind::Dm) => Kind::Dm,
        (None, DestKind::Topic) => Kind::Topic,
        (None, DestKind::Group) => Kind::Group,
        (None, DestKind::All) => Kind::All,
    };
    let written = |body: &Body| match is_direct {
        true => body.to_bytes(),
        false => {
            let context = MessageContext {
                mesh_id: &core.me.mesh_id,
                member_id: &core.me.member_id,
                member_key: &keys.member.public(),
                sender_key: &keys.sender.public(),
                kind,
                destination: &row.lane.dest_ref,
                client_message_id: &row.client_message_id,
            };
            body.to_signed_bytes(&context, &keys.member.key)
        }
    };
    let mut plain = written(&body);
    if !body.successions.is_empty() && sealed_len(plain.len()) > core.limits().message_bytes {
        // It was accepted before the key was replaced. Readers have the rotation from the roster as well.
        body.successions.clear();
        plain = written(&body);
    }
    let (sealed, to, epoch) = seal(core, &keys.sender, &row.lane, &plain)?;
    Ok(Send {
        id: row.key.text(),
        client_message_id: row.client_message_id.clone(),
        request_fingerprint: hex(&row.fingerprint),
        target_spec: None,
        kind: Some(kind),
        to: Some(to),
        priority: row.lane.priority,
        nonce: sealed.nonce,
        ciphertext: sealed.ciphertext,
        // What is answered and who is mentioned is nobody's business but the reader's: it is in the box.
        mentions: Vec::new(),
        reply_to_id: None,
        body_version: BODY_VERSION,
        key_epoch: epoch,
        lane: None,
        lane_seq: None,
        file_id: payload.file_id.clone(),
        origin: origin.map(str::to_owned),
    })
}

fn seal(core: &Core, ours: &SecretKey, lane: &Lane, plain: &[u8]) -> Result<(Sealed, To, Option<u64>), Unsealed> {
    let Some(ring) = ring(core, lane) else {
        let member = member_of(lane);
        let key = core.roster.key(member).ok_or_else(|| match core.roster.is_heard() {
            true => Unsealed::Never("recipient_unknown", "the member is not known".to_owned()),
            false => Unsealed::NoRoster,
        })?;
        let pair = core.pairs.get(ours, &key);
        let pair = pair.ok_or_else(|| Unsealed::Never("recipient_unknown", "the member's key is no key".to_owned()))?;
        return Ok((pair.seal(plain), To::Member(member.to_owned()), None));
    };
    let to = match lane.dest_kind {
        DestKind::Topic => To::Topic(lane.dest_ref.clone()),
        DestKind::Group => To::Group(lane.dest_ref.trim_start_matches('@').to_owned()),
        DestKind::All | DestKind::Dm => To::All(true),
    };
    match core.topics.posting_key(&ring) {
        Ok((epoch, key)) => Ok((key.seal(plain), to, Some(epoch))),
        Err(NoKey::Missing) => Err(Unsealed::KeyMissing(ring)),
        Err(NoKey::Unknown) => Err(Unsealed::Never("topic_not_found", "the topic is gone".to_owned())),
    }
}

/// The frame's text, at its place in its lane.
pub(super) fn encode(mut send: Send, lane: String, number: u64) -> String {
    send.lane = Some(lane);
    send.lane_seq = Some(number);
    ClientFrame::Send(Box::new(send)).encode()
}

/// How long a body of `plain` bytes is once it is sealed, as base64.
pub(crate) fn sealed_len(plain: usize) -> usize {
    (plain + 16).div_ceil(3) * 4
}
