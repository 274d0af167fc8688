//! Whether a message was written by the member its frame names.
//!
//! | message | verified if |
//! |---|---|
//! | direct | its body names its id, and its box was sealed with the member's key or with a session key the member vouches for |
//! | topic, group, everybody | its body carries the member's signature for exactly this place |
//!
//! In both cases the member's key must be proven. What is not verified is unverified, or refused if the member is known
//! to sign. A signature that is there and wrong is always refused.

use hostel_wire::authorship::{MessageContext, SessionProof, follow};
use hostel_wire::body::Body;
use hostel_wire::frames::Kind;
use hostel_wire::hello::SKEW_MS;
use hostel_wire::keys::PublicKey;

use super::{Authors, MAX_EARLIER_KEYS, MAX_SESSION_KEYS, State};

/// A message, as its frame and its opened body claim to be.
pub(crate) struct Claim<'a> {
    pub(crate) mesh_id: &'a str,
    pub(crate) member_id: &'a str,
    /// The member's key, as the frame has it.
    pub(crate) member_key: &'a PublicKey,
    /// The key of the sender's connection, as the frame has it. A direct message was sealed with it.
    pub(crate) sender_key: &'a PublicKey,
    pub(crate) kind: Kind,
    /// Where a message for several goes: a topic's id, `@` and a group's name, or `*`. None: it is a direct one.
    pub(crate) destination: Option<&'a str>,
    pub(crate) client_message_id: &'a str,
    /// When the broker took it, as it says.
    pub(crate) created_at: Option<u64>,
    /// The number of its entry, if it came in the order of the log. Only such a one may be older than the signatures of
    /// a member that signs now.
    pub(crate) seq_in_order: Option<u64>,
    /// The number of its entry.
    pub(crate) seq: u64,
    pub(crate) body: &'a Body,
}

/// What is to be thought of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The member wrote it.
    Verified,
    /// Nobody has proven who wrote it.
    Unverified,
    /// The member did not write it, or not so.
    Refused(Forgery),
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// The member signs, and this is not signed.
    Unsigned,
    /// A signature is wrong.
    BadSignature,
    /// It is signed with a key that is not proven to be the member's.
    UnprovenKey,
}

impl Authors {
    /// Judges a message, and learns from it.
    pub(crate) fn judge(&self, claim: &Claim<'_>) -> Verdict {
        // Signatures are verified without the lock: that takes most of the time.
        let bound = match claim.destination {
            Some(destination) => is_signed(claim, destination),
            None => self.0.lock().is_sealed_by_sender(claim),
        };
        let Some(bound) = bound else { return Verdict::Refused(Forgery::BadSignature) };
        let mut state = self.0.lock();
        let Some(pin) = state.pins.get_mut(claim.member_id) else { return Verdict::Unverified };
        let key = claim.member_key.hex();
        let mut is_changed = false;
        // Nothing of a body counts that is not bound to its sender, its rotations neither.
        if bound && !pin.keys.owns(&key) {
            let steps = &claim.body.successions;
            is_changed |= follow(&mut pin.keys, claim.mesh_id, claim.member_id, steps, MAX_EARLIER_KEYS);
        }
        let owned = pin.keys.owns(&key) && !pin.is_unproven;
        if owned && bound {
            // Programs that write the author's name sign whatever has to be signed.
            if claim.body.author.is_some() {
                is_changed |= pin.must_sign_from(claim.seq);
            }
            if is_changed {
                state.change(claim.member_id);
            }
            if claim.sender_key != claim.member_key {
                state.note_session(claim.sender_key, claim.member_id);
            }
            return Verdict::Verified;
        }
        let is_older = |from: u64| claim.seq_in_order.is_some_and(|seq| seq < from);
        let must_sign = pin.signs_from.is_some_and(|from| !is_older(from));
        if is_changed {
            state.change(claim.member_id);
        }
        match (must_sign, bound) {
            (false, _) => Verdict::Unverified,
            (true, true) => Verdict::Refused(Forgery::UnprovenKey),
            (true, false) => Verdict::Refused(Forgery::Unsigned),
        }
    }
}

/// Whether a message for several carries its author's signature; none if it has one that is wrong.
fn is_signed(claim: &Claim<'_>, destination: &str) -> Option<bool> {
    let Some(signature) = &claim.body.signature else { return Some(false) };
    let context = MessageContext {
        mesh_id: claim.mesh_id,
        member_id: claim.member_id,
        member_key: claim.member_key,
        sender_key: claim.sender_key,
        kind: claim.kind,
        destination,
        client_message_id: claim.client_message_id,
    };
    signature.verify(&context).then_some(true)
}

impl State {
    /// Whether a direct message was sealed with a key of its author; none if the author's word for the key is wrong.
    fn is_sealed_by_sender(&mut self, claim: &Claim<'_>) -> Option<bool> {
        // A body without an id can be shown again under any other.
        let has_id = claim.body.client_message_id.is_some();
        if claim.sender_key == claim.member_key {
            return Some(has_id);
        }
        let Some(proof) = &claim.body.session_proof else { return Some(false) };
        if !self.is_vouched_for(claim.member_key, claim.sender_key, proof) {
            return None;
        }
        let in_time = claim.created_at.is_none_or(|created| created <= proof.until.saturating_add(SKEW_MS));
        Some(has_id && in_time)
    }

    fn note_session(&mut self, session: &PublicKey, member_id: &str) {
        let key = session.hex();
        if self.owners.get(&key).is_some_and(|owner| owner == member_id) {
            return;
        }
        if self.owners.len() >= MAX_SESSION_KEYS {
            self.owners.clear();
        }
        self.owners.insert(key, member_id.to_owned());
    }

    /// Verifies a session's proof, once for each session key.
    fn is_vouched_for(&mut self, member: &PublicKey, session: &PublicKey, proof: &SessionProof) -> bool {
        let name = (member.0, session.0);
        if self.sessions.get(&name).is_some_and(|until| *until >= proof.until) {
            return true;
        }
        if !proof.verify(member, session) {
            return false;
        }
        if self.sessions.len() >= MAX_SESSION_KEYS {
            self.sessions.clear();
        }
        self.sessions.insert(name, proof.until);
        true
    }
}
