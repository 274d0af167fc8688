//! What is inside a sealed message.
//!
//! Invariant: from version 3 on the sealed part says which request it is, so a broker cannot put one message's box into
//! another's frame, nor hand a member its own message back: the fingerprint covers the destination. Versions 1 and 2
//! hold the text alone and are only read.
//!
//! A body also says who wrote it: the author's name, and what proves the author to a reader that does not trust the
//! broker (see [`crate::authorship`]). Reading a body verifies none of it.
//!
//! It opens no boxes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq;

use crate::authorship::{self, BodySignature, MAX_BODY_SUCCESSIONS, MessageContext, SessionProof, sign_message};
use crate::canonical::NotCanonical;
use crate::encoding;
use crate::fingerprint::{self, Fingerprint};
use crate::frames::Priority;
use crate::frames::client::Succession;
use crate::keys::SecretKey;

/// The version that is written.
pub const BODY_VERSION: u32 = 3;

/// A message may mention this many.
pub const MENTION_LIMIT: usize = 32;

/// Why an opened body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// A version from the future.
    #[error("body version {0} is not known")]
    Version(u32),
    /// Not what the version says it is.
    #[error("malformed body: {0}")]
    Malformed(String),
}

/// A message as its reader gets it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Body {
    /// The text.
    pub body: String,
    /// What the sender's program added.
    pub meta: Option<Value>,
    /// The message this answers.
    pub reply_to: Option<String>,
    /// Who is mentioned.
    pub mentions: Vec<String>,
    /// The sender's id for it; not in versions 1 and 2.
    pub client_message_id: Option<String>,
    /// The request's fingerprint; not in versions 1 and 2.
    pub fingerprint: Option<Fingerprint>,
    /// The session it is for, where the address named one.
    pub session: Option<String>,
    /// The session of the sender that wrote it, by name; none if it was the member itself.
    pub sender: Option<String>,
    /// The author's name, as the author writes it. Programs that write it sign what they send to several readers.
    pub author: Option<String>,
    /// The member whose id the message has, if the author has taken that one's place.
    pub origin: Option<String>,
    /// The member's word for the session key that the box is sealed with.
    pub session_proof: Option<SessionProof>,
    /// How the author's key came after earlier ones, for readers that know only those.
    pub successions: Vec<Succession>,
    /// The author's signature, as it was read. [`Body::to_signed_bytes`] writes one.
    pub signature: Option<BodySignature>,
}

/// The letters of version 3.
#[derive(Serialize, Deserialize)]
struct Letters<'a> {
    #[serde(borrow)]
    b: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    m: Option<std::borrow::Cow<'a, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    r: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    n: std::borrow::Cow<'a, [String]>,
    c: std::borrow::Cow<'a, str>,
    f: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    w: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    o: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k: Option<SessionProof>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    l: Vec<String>,
    /// Only to see whether there is one: it is written and read as bytes at the end.
    #[serde(default, skip_serializing)]
    a: Option<serde::de::IgnoredAny>,
}

impl Body {
    /// Version 3, to be sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let letters = Letters {
            b: (&*self.body).into(),
            m: self.meta.as_ref().map(std::borrow::Cow::Borrowed),
            r: self.reply_to.as_deref().map(Into::into),
            n: (&*self.mentions).into(),
            c: self.client_message_id.as_deref().unwrap_or_default().into(),
            f: self.fingerprint.map(|hash| encoding::hex(&hash)).unwrap_or_default().into(),
            s: self.session.as_deref().map(Into::into),
            w: self.sender.as_deref().map(Into::into),
            d: self.author.as_deref().map(Into::into),
            o: self.origin.as_deref().map(Into::into),
            k: self.session_proof.clone(),
            l: self.successions.iter().filter_map(authorship::write_step).collect(),
            a: None,
        };
        // Text and values with text names: it can always be written.
        serde_json::to_vec(&letters).unwrap_or_default()
    }

    /// Version 3 with the author's signature for one place, to be sealed with a key that several readers have.
    #[must_use]
    pub fn to_signed_bytes(&self, context: &MessageContext<'_>, key: &SecretKey) -> Vec<u8> {
        sign_message(self.to_bytes(), context, key)
    }

    /// Reads what was in the box.
    pub fn from_bytes(version: u32, bytes: &[u8]) -> Result<Self, BodyError> {
        let malformed = |error: &dyn std::fmt::Display| BodyError::Malformed(error.to_string());
        match version {
            1 | 2 => {
                let body = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
                Ok(Self { body: body.into(), ..Self::default() })
            }
            3 => {
                let letters: Letters<'_> = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
                if letters.n.len() > MENTION_LIMIT {
                    return Err(malformed(&"too many mentions"));
                }
                let fingerprint =
                    encoding::unhex_array(&letters.f).ok_or_else(|| malformed(&"`f` is not a fingerprint"))?;
                if letters.l.len() > MAX_BODY_SUCCESSIONS {
                    return Err(malformed(&"too many rotations of the author's key"));
                }
                let successions = letters.l.iter().map(|step| authorship::read_step(step));
                let successions = successions.collect::<Option<_>>().ok_or_else(|| malformed(&"`l` is no rotation"))?;
                let signature = BodySignature::read(bytes);
                // What is signed is everything before the signature, so nothing may come after it.
                if letters.a.is_some() && signature.is_none() {
                    return Err(malformed(&"`a` is not a signature at the end"));
                }
                Ok(Self {
                    body: letters.b.into_owned(),
                    meta: letters.m.map(std::borrow::Cow::into_owned),
                    reply_to: letters.r.map(std::borrow::Cow::into_owned),
                    mentions: letters.n.into_owned(),
                    client_message_id: Some(letters.c.into_owned()),
                    fingerprint: Some(fingerprint),
                    session: letters.s.map(std::borrow::Cow::into_owned),
                    sender: letters.w.map(std::borrow::Cow::into_owned),
                    author: letters.d.map(std::borrow::Cow::into_owned),
                    origin: letters.o.map(std::borrow::Cow::into_owned),
                    session_proof: letters.k,
                    successions,
                    signature,
                })
            }
            other => Err(BodyError::Version(other)),
        }
    }

    /// Whether the frame around it speaks of the same request. Versions 1 and 2 cannot contradict.
    #[must_use]
    pub fn matches(&self, client_message_id: &str, fingerprint_hex: &str) -> bool {
        let same_id = self.client_message_id.as_deref().is_none_or(|id| id == client_message_id);
        let same_request = self.fingerprint.is_none_or(|hash| {
            encoding::unhex_array::<32>(fingerprint_hex).is_some_and(|other| hash.ct_eq(&other).into())
        });
        same_id && same_request
    }

    /// The fingerprint this message has as a request to `dest_ref`. It differs from what is inside when the message was
    /// made for another destination.
    pub fn fingerprint_for(&self, kind: &str, dest_ref: &str, priority: Priority) -> Result<Fingerprint, NotCanonical> {
        let reply = self.reply_to.as_deref();
        fingerprint::request(kind, dest_ref, reply, priority, self.meta.as_ref(), self.body.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_letters() {
        let body = Body {
            body: "hi \"you\"".into(),
            meta: Some(json!({"a": 1.5})),
            reply_to: Some("m0".into()),
            mentions: vec!["bob".into()],
            client_message_id: Some("c1".into()),
            fingerprint: Some([7; 32]),
            session: Some("tests".into()),
            sender: Some("ci".into()),
            ..Body::default()
        };
        let text = String::from_utf8(body.to_bytes()).unwrap();
        let hash = "07".repeat(32);
        assert_eq!(
            text,
            format!(
                r#"{{"b":"hi \"you\"","m":{{"a":1.5}},"r":"m0","n":["bob"],"c":"c1","f":"{hash}","s":"tests","w":"ci"}}"#
            )
        );
        assert_eq!(Body::from_bytes(3, text.as_bytes()).unwrap(), body);
        assert!(body.matches("c1", &hash));
        assert!(!body.matches("c2", &hash));
        assert!(!body.matches("c1", &"08".repeat(32)));
        assert!(!body.matches("c1", ""));
    }

    #[test]
    fn what_proves_the_author_travels_with_the_body() {
        let (old, key, session) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
        let body = Body {
            body: "hi".into(),
            client_message_id: Some("c1".into()),
            fingerprint: Some([7; 32]),
            author: Some("alice".into()),
            origin: Some("m0".into()),
            session_proof: Some(SessionProof::new(&key, &session.public(), 9)),
            successions: vec![crate::hello::succeed("mesh", "m1", &old, &key, 7)],
            ..Body::default()
        };
        assert_eq!(Body::from_bytes(3, &body.to_bytes()).unwrap(), body);
        let (member_key, sender_key) = (key.public(), session.public());
        let context = MessageContext {
            mesh_id: "mesh",
            member_id: "m1",
            member_key: &member_key,
            sender_key: &sender_key,
            kind: crate::frames::Kind::All,
            destination: "*",
            client_message_id: "c1",
        };
        let signed = body.to_signed_bytes(&context, &key);
        let read = Body::from_bytes(3, &signed).unwrap();
        assert!(read.signature.unwrap().verify(&context));
        assert_eq!(Body { signature: None, ..read }, body);
    }

    #[test]
    fn a_signature_anywhere_but_at_the_end_is_refused() {
        let key = SecretKey::generate();
        let sender_key = key.public();
        let context = MessageContext {
            mesh_id: "",
            member_id: "",
            member_key: &sender_key,
            sender_key: &sender_key,
            kind: crate::frames::Kind::All,
            destination: "*",
            client_message_id: "",
        };
        let signed = Body { fingerprint: Some([0; 32]), ..Body::default() }.to_signed_bytes(&context, &key);
        let signed = String::from_utf8(signed).unwrap();
        assert!(Body::from_bytes(3, signed.as_bytes()).unwrap().signature.is_some());
        let appended = format!("{},\"x\":1}}", signed.strip_suffix('}').unwrap());
        let spaced = format!("{signed} ");
        let short = format!(r#"{{"b":"","c":"","f":"{}","a":"AAAA"}}"#, "00".repeat(32));
        for text in [appended, spaced, short] {
            assert!(matches!(Body::from_bytes(3, text.as_bytes()), Err(BodyError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn the_least_there_can_be() {
        let text = format!(r#"{{"b":"","c":"","f":"{}","unknown":{{}}}}"#, "00".repeat(32));
        let body = Body::from_bytes(3, text.as_bytes()).unwrap();
        assert_eq!(body.meta, None);
        assert!(body.mentions.is_empty());
    }

    #[test]
    fn older_versions_are_text() {
        for version in [1, 2] {
            let body = Body::from_bytes(version, "grüße".as_bytes()).unwrap();
            assert_eq!(body, Body { body: "grüße".into(), ..Body::default() });
            assert!(body.matches("anything", ""));
            assert!(matches!(Body::from_bytes(version, &[0xff]), Err(BodyError::Malformed(_))));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(Body::from_bytes(4, b"{}"), Err(BodyError::Version(4)));
        assert_eq!(Body::from_bytes(0, b"{}"), Err(BodyError::Version(0)));
        let many = format!(r#"{{"b":"","c":"","f":"{}","n":[{}"x"]}}"#, "00".repeat(32), "\"x\",".repeat(32));
        let steps = format!(r#"{{"b":"","c":"","f":"{}","l":[{}"x"]}}"#, "00".repeat(32), "\"x\",".repeat(8));
        let no_step = format!(r#"{{"b":"","c":"","f":"{}","l":["AAAA"]}}"#, "00".repeat(32));
        for text in [
            "",
            "{}",
            "hi",
            r#"{"b":"x"}"#,
            r#"{"b":"x","c":"y","f":"00"}"#,
            r#"{"b":1,"c":"y","f":""}"#,
            &many,
            &steps,
            &no_step,
        ] {
            assert!(matches!(Body::from_bytes(3, text.as_bytes()), Err(BodyError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn a_message_handed_back_is_noticed() {
        let mut body = Body { body: "x".into(), meta: Some(json!({"n": 0.1})), ..Body::default() };
        body.fingerprint = Some(body.fingerprint_for("dm", "bob", Priority::Next).unwrap());
        let read = Body::from_bytes(3, &body.to_bytes()).unwrap();
        assert_eq!(read.fingerprint_for("dm", "bob", Priority::Next).ok(), read.fingerprint);
        assert_ne!(read.fingerprint_for("dm", "alice", Priority::Next).ok(), read.fingerprint);
        assert_ne!(read.fingerprint_for("dm", "bob", Priority::Now).ok(), read.fingerprint);
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(text in ".{0,200}", id in ".{0,40}", number in any::<f64>(), hash in any::<[u8; 32]>()) {
            let meta = Some(json!({"number": number}));
            let body = Body { body: text, meta, client_message_id: Some(id), fingerprint: Some(hash), ..Body::default() };
            prop_assert_eq!(Body::from_bytes(3, &body.to_bytes()).unwrap(), body);
        }

        #[test]
        fn nothing_makes_it_panic(version in 0_u32..5, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Body::from_bytes(version, &bytes).ok();
        }
    }
}
