//! Signatures of messages that are sealed with a key several members have, and proofs of session keys.
//!
//! The signature is the last letter of a body of version 3: `…,"a":"<base64>"}`. What is signed is the text before it,
//! byte for byte, so no canonical form of the body is needed and letters that a later version adds are covered as well.
//! Older readers skip the letter.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SignedText;
use crate::encoding;
use crate::frames::Kind;
use crate::hello;
use crate::keys::{PublicKey, SecretKey, Signature};

const PURPOSE: &str = "claudemesh-author-v1";

/// The bytes around the base64 of a signature at the end of a body.
const BEFORE: &[u8] = b",\"a\":\"";
const AFTER: &[u8] = b"\"}";

/// Base64 of 64 bytes.
const SIGNATURE_TEXT: usize = 88;

/// Where a message belongs. A signature is valid in exactly this place.
#[derive(Debug, Clone, Copy)]
pub struct MessageContext<'a> {
    /// The mesh.
    pub mesh_id: &'a str,
    /// The author.
    pub member_id: &'a str,
    /// The author's key, which signs.
    pub member_key: &'a PublicKey,
    /// The key of the connection over which the author sends: the member's own, or a session's.
    pub sender_key: &'a PublicKey,
    /// The kind of the log's entry.
    pub kind: Kind,
    /// A topic's id, `@` and a group's name, or `*`.
    pub destination: &'a str,
    /// The author's id for the message.
    pub client_message_id: &'a str,
}

impl MessageContext<'_> {
    fn text(&self, digest: &[u8; 32]) -> String {
        SignedText::new(PURPOSE)
            .field(self.mesh_id.as_bytes())
            .field(self.member_id.as_bytes())
            .field(&self.member_key.0)
            .field(&self.sender_key.0)
            .field(self.kind.as_str().as_bytes())
            .field(self.destination.as_bytes())
            .field(self.client_message_id.as_bytes())
            .field(digest)
            .finish()
    }
}

/// Signs a body that was written without a signature, and appends the signature to it.
#[must_use]
pub fn sign_message(mut body: Vec<u8>, context: &MessageContext<'_>, key: &SecretKey) -> Vec<u8> {
    // The closing brace moves behind the signature.
    if body.last() == Some(&b'}') {
        body.pop();
    }
    let signature = key.sign(context.text(&Sha256::digest(&body).into()).as_bytes());
    body.extend_from_slice(BEFORE);
    body.extend_from_slice(encoding::b64(&signature.0).as_bytes());
    body.extend_from_slice(AFTER);
    body
}

/// A signature as it was read from a body, with the digest of what it has to cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodySignature {
    signature: Signature,
    digest: [u8; 32],
}

impl BodySignature {
    /// The signature at the end of a body; none if the body does not end with one.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let rest = body.strip_suffix(AFTER)?;
        let (rest, text) = rest.split_at(rest.len().checked_sub(SIGNATURE_TEXT)?);
        let signed = rest.strip_suffix(BEFORE)?;
        let signature = encoding::unb64_array(std::str::from_utf8(text).ok()?)?;
        Some(Self { signature: Signature(signature), digest: Sha256::digest(signed).into() })
    }

    /// Whether the author signed this body for this place.
    #[must_use]
    pub fn verify(&self, context: &MessageContext<'_>) -> bool {
        context.member_key.verify(context.text(&self.digest).as_bytes(), &self.signature)
    }
}

/// A member's word that a session key is its own. A direct message that is sealed with a session key carries it inside
/// the box. The signed text is [`hello::attestation`], which a session's connection shows the broker as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionProof {
    /// Until when the member vouches, in milliseconds since 1970 by the broker's clock.
    #[serde(rename = "u")]
    pub until: u64,
    /// Base64.
    #[serde(rename = "s")]
    pub signature: String,
}

impl SessionProof {
    /// Vouches for a session key.
    #[must_use]
    pub fn new(member: &SecretKey, session: &PublicKey, until: u64) -> Self {
        let text = hello::attestation(&member.public().hex(), &session.hex(), until);
        Self { until, signature: encoding::b64(&member.sign(text.as_bytes()).0) }
    }

    /// Whether this member has vouched for this session key. Whether in time is not looked at.
    #[must_use]
    pub fn verify(&self, member: &PublicKey, session: &PublicKey) -> bool {
        let Some(signature) = encoding::unb64_array(&self.signature) else { return false };
        let text = hello::attestation(&member.hex(), &session.hex(), self.until);
        member.verify(text.as_bytes(), &Signature(signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"b":"hi","c":"c1","f":"00"}"#;

    struct Place {
        member: PublicKey,
        sender: PublicKey,
    }

    impl Place {
        fn context(&self) -> MessageContext<'_> {
            MessageContext {
                mesh_id: "mesh",
                member_id: "alice",
                member_key: &self.member,
                sender_key: &self.sender,
                kind: Kind::Topic,
                destination: "t1",
                client_message_id: "c1",
            }
        }
    }

    #[test]
    fn a_signature_is_good_in_its_place_alone() {
        let (key, session) = (SecretKey::generate(), SecretKey::generate());
        let place = Place { member: key.public(), sender: session.public() };
        let signed = sign_message(BODY.to_vec(), &place.context(), &key);
        let value: serde_json::Value = serde_json::from_slice(&signed).unwrap();
        assert_eq!(value["b"], "hi", "it is still the same object");
        let read = BodySignature::read(&signed).unwrap();
        assert!(read.verify(&place.context()));
        let other = SecretKey::generate().public();
        let here = place.context();
        for elsewhere in [
            MessageContext { mesh_id: "mesh2", ..here },
            MessageContext { member_id: "bob", ..here },
            MessageContext { member_key: &other, ..here },
            MessageContext { sender_key: &other, ..here },
            MessageContext { kind: Kind::All, ..here },
            MessageContext { destination: "t2", ..here },
            MessageContext { client_message_id: "c2", ..here },
        ] {
            assert!(!read.verify(&elsewhere), "{elsewhere:?}");
        }
    }

    #[test]
    fn every_byte_of_the_body_is_covered() {
        let key = SecretKey::generate();
        let place = Place { member: key.public(), sender: key.public() };
        let signed = sign_message(BODY.to_vec(), &place.context(), &key);
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            let good = BodySignature::read(&changed).is_some_and(|read| read.verify(&place.context()));
            assert!(!good, "byte {at}");
        }
    }

    #[test]
    fn fields_cannot_run_into_each_other() {
        let key = SecretKey::generate();
        let place = Place { member: key.public(), sender: key.public() };
        let here = place.context();
        let text = |context: &MessageContext<'_>| context.text(&[0; 32]);
        let (left, right) = (
            MessageContext { mesh_id: "ab", member_id: "c", ..here },
            MessageContext { mesh_id: "a", member_id: "bc", ..here },
        );
        assert_ne!(text(&left), text(&right));
    }

    #[test]
    fn what_is_not_signed_has_no_signature() {
        let long = format!("{{\"a\":\"{}\"}}", "A".repeat(88));
        for body in ["", "}", "\"}", r#"{"b":"x"}"#, r#"{"b":"x","a":"AAAA"}"#, r#"{"a":"","b":"x"}"#, &long] {
            assert_eq!(BodySignature::read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_session_is_vouched_for_by_its_member_alone() {
        let (member, session, other) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
        let proof = SessionProof::new(&member, &session.public(), 1000);
        assert!(proof.verify(&member.public(), &session.public()));
        assert!(!proof.verify(&other.public(), &session.public()));
        assert!(!proof.verify(&member.public(), &other.public()));
        assert!(!SessionProof { until: 1001, ..proof.clone() }.verify(&member.public(), &session.public()));
        assert!(!SessionProof { signature: "x".into(), ..proof }.verify(&member.public(), &session.public()));
    }
}
