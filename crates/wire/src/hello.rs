//! What is signed when a connection begins, and whether the signature is good.
//!
//! Invariant: a hello of the second protocol is bound to this connection by the broker's challenge and covers every
//! field, also those this version does not know (`*_text`). The first protocol covers four fields and is replayable for
//! a minute; whether it is taken at all is the broker's setting.
//!
//! It does not know who is a member.

use serde::Serialize;
use serde_json::Value;

use crate::canonical::{NotCanonical, canonical};
use crate::encoding::hex;
use crate::fingerprint::sha256;
use crate::frames::client::{Attestation, Hello, SessionHello, Succession};
use crate::keys::{PublicKey, SecretKey, Signature};

/// A hello's clock may differ this much from the broker's.
pub const SKEW_MS: u64 = 60_000;

/// A member may vouch for a session this long.
pub const ATTESTATION_MS: u64 = 24 * 3_600_000;

/// Why a hello is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// A field is missing or not what it must be.
    #[error("malformed hello")]
    Malformed,
    /// The signature is not the key's.
    #[error("bad signature")]
    BadSignature,
    /// Signed for another connection.
    #[error("the challenge is not this connection's")]
    WrongNonce,
    /// The clocks differ too much.
    #[error("the timestamp is more than 60 s away from the broker's clock")]
    TimestampSkew,
    /// The session's key is not one.
    #[error("the session key is malformed")]
    BadSessionPubkey,
    /// The member's key is not one.
    #[error("the member's key is malformed")]
    BadParentPubkey,
    /// The member vouched for something else.
    #[error("the attestation is for other keys")]
    AttestationMismatch,
    /// The member's word has run out.
    #[error("the attestation has expired")]
    Expired,
    /// The member's word would last too long.
    #[error("the attestation lasts longer than 24 h")]
    TtlTooLong,
}

impl HelloError {
    /// The word that goes into the error frame.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::BadSignature | Self::WrongNonce => "bad_signature",
            Self::TimestampSkew => "timestamp_skew",
            Self::BadSessionPubkey => "bad_session_pubkey",
            Self::BadParentPubkey => "bad_parent_pubkey",
            Self::AttestationMismatch => "attestation_mismatch",
            Self::Expired => "expired",
            Self::TtlTooLong => "ttl_too_long",
        }
    }
}

/// The keys of a session's hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionKeys {
    /// The session's.
    pub session: PublicKey,
    /// The member's.
    pub parent: PublicKey,
}

/// What the first protocol signs.
#[must_use]
pub fn hello_v1(mesh_id: &str, member_id: &str, pubkey: &str, timestamp: u64) -> String {
    format!("{mesh_id}|{member_id}|{pubkey}|{timestamp}")
}

/// What the second protocol signs.
pub fn hello_v2(hello: &Hello) -> Result<String, NotCanonical> {
    Ok(hello_v2_of(hello, &digest(frame(hello, "hello"))?))
}

fn hello_v2_of(hello: &Hello, digest: &str) -> String {
    let nonce = hello.nonce.as_deref().unwrap_or_default();
    let Hello { mesh_id, member_id, pubkey, timestamp, .. } = hello;
    format!("claudemesh-hello-v2|{mesh_id}|{member_id}|{pubkey}|{nonce}|{timestamp}|{digest}")
}

/// What a session signs in the first protocol.
#[must_use]
pub fn session_hello(mesh_id: &str, parent: &str, session: &str, timestamp: u64) -> String {
    format!("claudemesh-session-hello|{mesh_id}|{parent}|{session}|{timestamp}")
}

/// What a session signs in the second protocol.
pub fn session_hello_v2(hello: &SessionHello) -> Result<String, NotCanonical> {
    Ok(session_hello_v2_of(hello, &digest(frame(hello, "session_hello"))?))
}

fn session_hello_v2_of(hello: &SessionHello, digest: &str) -> String {
    let nonce = hello.hello.nonce.as_deref().unwrap_or_default();
    let Hello { mesh_id, timestamp, .. } = &hello.hello;
    let parent = &hello.parent_member_pubkey;
    let session = hello.hello.session_pubkey.as_deref().unwrap_or_default();
    format!("claudemesh-session-hello-v2|{mesh_id}|{parent}|{session}|{nonce}|{timestamp}|{digest}")
}

/// What a member signs to vouch for a session.
#[must_use]
pub fn attestation(parent: &str, session: &str, expires_at: u64) -> String {
    format!("claudemesh-session-attest|{parent}|{session}|{expires_at}")
}

/// What a member signs to leave over HTTP.
#[must_use]
pub fn leave_request(mesh_id: &str, pubkey: &str, timestamp: u64) -> String {
    format!("claudemesh-leave|{mesh_id}|{pubkey}|{timestamp}")
}

/// What a member and the new key sign when the member enrols another key of its own: one that will take its place, or an
/// ephemeral one beside it.
#[must_use]
pub fn remint_request(mesh_id: &str, old_pubkey: &str, new_pubkey: &str, ephemeral: bool, timestamp: u64) -> String {
    let purpose = if ephemeral { "ephemeral" } else { "remint" };
    format!("claudemesh-remint|{mesh_id}|{old_pubkey}|{new_pubkey}|{purpose}|{timestamp}")
}

/// What both keys sign when a member takes another key: the old one says which one follows it, the new one that it is in
/// the same hands.
#[must_use]
pub fn rotate_request(mesh_id: &str, member_id: &str, old_pubkey: &str, new_pubkey: &str, timestamp: u64) -> String {
    format!("claudemesh-rotate|{mesh_id}|{member_id}|{old_pubkey}|{new_pubkey}|{timestamp}")
}

/// Both keys say that one follows the other.
#[must_use]
pub fn succeed(mesh_id: &str, member_id: &str, old: &SecretKey, new: &SecretKey, timestamp: u64) -> Succession {
    let (old_pubkey, new_pubkey) = (old.public().hex(), new.public().hex());
    let text = rotate_request(mesh_id, member_id, &old_pubkey, &new_pubkey, timestamp);
    let (signature, proof) = (old.sign(text.as_bytes()).hex(), new.sign(text.as_bytes()).hex());
    Succession { old_pubkey, new_pubkey, timestamp, signature, proof }
}

/// Whether both keys have said that one follows the other, for this member of this mesh. When is not looked at.
#[must_use]
pub fn is_succession(mesh_id: &str, member_id: &str, said: &Succession) -> bool {
    let text = rotate_request(mesh_id, member_id, &said.old_pubkey, &said.new_pubkey, said.timestamp);
    [(&said.old_pubkey, &said.signature), (&said.new_pubkey, &said.proof)].into_iter().all(|(key, signature)| {
        PublicKey::from_hex(key).is_some_and(|key| check_signature(&key, &text, signature).is_ok())
    })
}

/// What the owner of a new mesh signs.
#[must_use]
pub fn mesh_request(name: &str, owner_pubkey: &str, member_pubkey: &str, timestamp: u64) -> String {
    format!("claudemesh-mesh|{}|{owner_pubkey}|{member_pubkey}|{timestamp}", hex(&sha256(name.as_bytes())))
}

/// What a joiner signs, so that nobody can be joined by somebody else.
#[must_use]
pub fn join_request(invite_token: &str, pubkey: &str, timestamp: u64) -> String {
    format!("claudemesh-join|{}|{pubkey}|{timestamp}", hex(&sha256(invite_token.as_bytes())))
}

/// The frame as it will be on the wire.
fn frame(hello: &impl Serialize, name: &str) -> Value {
    let mut value = serde_json::to_value(hello).unwrap_or_default();
    value["type"] = name.into();
    value
}

/// SHA-256 of the frame's canonical text without its signature.
fn digest(mut frame: Value) -> Result<String, NotCanonical> {
    if let Some(fields) = frame.as_object_mut() {
        fields.remove("signature");
    }
    Ok(hex(&sha256(canonical(&frame)?.as_bytes())))
}

fn digest_of_text(text: &str) -> Result<String, HelloError> {
    let frame: Value = serde_json::from_str(text).map_err(|_| HelloError::Malformed)?;
    digest(frame).map_err(|_| HelloError::Malformed)
}

/// Signs with the protocol that `protocol_version` names; for the second, `nonce` must be set already.
pub fn sign_hello(hello: &mut Hello, key: &SecretKey) -> Result<(), NotCanonical> {
    let text = if hello.protocol_version >= 2 {
        hello_v2(hello)?
    } else {
        hello_v1(&hello.mesh_id, &hello.member_id, &hello.pubkey, hello.timestamp)
    };
    hello.signature = key.sign(text.as_bytes()).hex();
    Ok(())
}

/// Signs a session's hello with the session's key.
pub fn sign_session_hello(hello: &mut SessionHello, key: &SecretKey) -> Result<(), NotCanonical> {
    let text = if hello.hello.protocol_version >= 2 {
        session_hello_v2(hello)?
    } else {
        let session = hello.hello.session_pubkey.as_deref().unwrap_or_default();
        session_hello(&hello.hello.mesh_id, &hello.parent_member_pubkey, session, hello.hello.timestamp)
    };
    hello.hello.signature = key.sign(text.as_bytes()).hex();
    Ok(())
}

/// Whether a hello is signed by the key it names. With `nonce_expected` a hello of the second protocol must carry that
/// challenge.
pub fn verify_hello(hello: &Hello, nonce_expected: Option<&str>) -> Result<PublicKey, HelloError> {
    verify_member(hello, nonce_expected, || digest(frame(hello, "hello")).map_err(|_| HelloError::Malformed))
}

/// The same over the frame as it came: covers fields this version does not know.
pub fn verify_hello_text(text: &str, hello: &Hello, nonce_expected: Option<&str>) -> Result<PublicKey, HelloError> {
    verify_member(hello, nonce_expected, || digest_of_text(text))
}

fn verify_member(
    hello: &Hello,
    nonce_expected: Option<&str>,
    digest: impl FnOnce() -> Result<String, HelloError>,
) -> Result<PublicKey, HelloError> {
    let key = PublicKey::from_hex(&hello.pubkey).ok_or(HelloError::Malformed)?;
    let text = if hello.protocol_version >= 2 {
        check_nonce(hello, nonce_expected)?;
        hello_v2_of(hello, &digest()?)
    } else {
        hello_v1(&hello.mesh_id, &hello.member_id, &hello.pubkey, hello.timestamp)
    };
    check_signature(&key, &text, &hello.signature)?;
    Ok(key)
}

/// Whether a session's hello is signed by the session's key, and the member vouches for that key now.
pub fn verify_session_hello(
    hello: &SessionHello,
    nonce_expected: Option<&str>,
    now_ms: u64,
) -> Result<SessionKeys, HelloError> {
    verify_session(hello, nonce_expected, now_ms, || {
        digest(frame(hello, "session_hello")).map_err(|_| HelloError::Malformed)
    })
}

/// The same over the frame as it came.
pub fn verify_session_hello_text(
    text: &str,
    hello: &SessionHello,
    nonce_expected: Option<&str>,
    now_ms: u64,
) -> Result<SessionKeys, HelloError> {
    verify_session(hello, nonce_expected, now_ms, || digest_of_text(text))
}

fn verify_session(
    hello: &SessionHello,
    nonce_expected: Option<&str>,
    now_ms: u64,
    digest: impl FnOnce() -> Result<String, HelloError>,
) -> Result<SessionKeys, HelloError> {
    let session_text = hello.hello.session_pubkey.as_deref().unwrap_or_default();
    let session = PublicKey::from_hex(session_text).ok_or(HelloError::BadSessionPubkey)?;
    let parent = PublicKey::from_hex(&hello.parent_member_pubkey).ok_or(HelloError::BadParentPubkey)?;
    let word = &hello.parent_attestation;
    if word.session_pubkey != session_text || word.parent_member_pubkey != hello.parent_member_pubkey {
        return Err(HelloError::AttestationMismatch);
    }
    if word.expires_at <= now_ms {
        return Err(HelloError::Expired);
    }
    // The member's clock may be ahead of ours.
    if word.expires_at > now_ms.saturating_add(ATTESTATION_MS + SKEW_MS) {
        return Err(HelloError::TtlTooLong);
    }
    let vouched = attestation(&word.parent_member_pubkey, &word.session_pubkey, word.expires_at);
    check_signature(&parent, &vouched, &word.signature)?;
    let text = if hello.hello.protocol_version >= 2 {
        check_nonce(&hello.hello, nonce_expected)?;
        session_hello_v2_of(hello, &digest()?)
    } else {
        session_hello(&hello.hello.mesh_id, &hello.parent_member_pubkey, session_text, hello.hello.timestamp)
    };
    check_signature(&session, &text, &hello.hello.signature)?;
    Ok(SessionKeys { session, parent })
}

/// Whether a hello's clock is near enough.
pub fn check_time(timestamp_ms: u64, now_ms: u64) -> Result<(), HelloError> {
    if timestamp_ms.abs_diff(now_ms) <= SKEW_MS { Ok(()) } else { Err(HelloError::TimestampSkew) }
}

/// Vouches for a session until `expires_at`.
#[must_use]
pub fn attest(member: &SecretKey, session: &PublicKey, expires_at: u64) -> Attestation {
    let (parent, session) = (member.public().hex(), session.hex());
    let signature = member.sign(attestation(&parent, &session, expires_at).as_bytes()).hex();
    Attestation { session_pubkey: session, parent_member_pubkey: parent, expires_at, signature }
}

fn check_nonce(hello: &Hello, expected: Option<&str>) -> Result<(), HelloError> {
    match (hello.nonce.as_deref(), expected) {
        (Some(given), Some(expected)) if given == expected => Ok(()),
        (Some(given), None) if !given.is_empty() => Ok(()),
        _ => Err(HelloError::WrongNonce),
    }
}

fn check_signature(key: &PublicKey, text: &str, signature: &str) -> Result<(), HelloError> {
    let signature = Signature::from_hex(signature).ok_or(HelloError::BadSignature)?;
    if key.verify(text.as_bytes(), &signature) { Ok(()) } else { Err(HelloError::BadSignature) }
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
