//! Signatures under the records that change the approver, with a key pair that only the passphrase gives.
//!
//! The public key stands in the record that sets a passphrase and in each endorsement. The record that comes next is signed
//! with the key of before: another passphrase, none any more, or another endorsement. So everybody can check, without a
//! passphrase, that whoever made the change had the passphrase that was in force.
//!
//! Guarantees: a signature is of one record at one place. It covers the number of the record and the digest of the record
//! before, so it fits nowhere else, not even in a copy of the same audit that has gone on differently.

use std::collections::BTreeMap;
use std::io;

use dryoc::classic::crypto_sign::{crypto_sign_detached, crypto_sign_verify_detached};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::endorsement::EndorsementKey;
use super::segments::{hex, unhex};
use crate::approvals::Cost;
use crate::seals::AuditHead;

/// What every signature is of, before its own parts.
const DOMAIN: &[u8] = b"hostel approver record 1\0";

/// The member of a record's body that holds the signature, and the one that holds the public key.
const SIGNATURE: &str = "signature";
pub(super) const KEY: &str = "key";

/// The public key of a passphrase, with what it takes to derive the secret one from the passphrase.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::approvals) struct ApproverKey {
    salt: String,
    memory: usize,
    passes: u64,
    public: String,
}

impl ApproverKey {
    pub(in crate::approvals) fn of(key: &EndorsementKey) -> Self {
        let (salt, Cost { memory, passes }) = key.origin();
        ApproverKey { salt, memory, passes, public: hex(&key.signing_pair().0) }
    }

    /// The secret key, if this is the passphrase. Takes as long as comparing a passphrase.
    pub(in crate::approvals) fn unlock(&self, passphrase: &[u8]) -> io::Result<Option<EndorsementKey>> {
        let key = EndorsementKey::again(passphrase, &self.salt, self.memory, self.passes)?;
        Ok((hex(&key.signing_pair().0) == self.public).then_some(key))
    }

    /// Whether it was derived at this cost.
    pub(in crate::approvals) fn has_cost(&self, cost: Cost) -> bool {
        (self.memory, self.passes) == (cost.memory, cost.passes)
    }

    /// As it is stored.
    pub(in crate::approvals) fn text(&self) -> String {
        self.body().to_string()
    }

    /// From where it is stored; none if that is no key.
    pub(in crate::approvals) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As it stands in the body of a record.
    pub(in crate::approvals) fn body(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Whether the record behind `before` has a signature of this key.
    pub(super) fn has_signed(&self, kind: &str, before: AuditHead, body: &Value) -> bool {
        let signature = body.get(SIGNATURE).and_then(Value::as_str).and_then(unhex::<64>);
        let (Some(signature), Some(public)) = (signature, unhex::<32>(&self.public)) else { return false };
        crypto_sign_verify_detached(&signature, &message(kind, before, body), &public).is_ok()
    }
}

/// Signs the record that comes behind `before`.
pub(super) fn sign(key: &EndorsementKey, kind: &str, before: AuditHead, body: &mut Value) {
    let mut signature = [0; 64];
    // It cannot fail: both sizes are in the types. A signature of zeros verifies nowhere.
    crypto_sign_detached(&mut signature, &message(kind, before, body), &key.signing_pair().1).ok();
    body[SIGNATURE] = json!(hex(&signature));
}

/// What is signed: the place of the record, its kind, and its body without the signature.
fn message(kind: &str, before: AuditHead, body: &Value) -> Vec<u8> {
    let mut text = String::new();
    let unsigned = body.as_object().into_iter().flatten().filter(|(name, _)| *name != SIGNATURE);
    write_members(unsigned, &mut text);
    let mut message = [DOMAIN, &before.no.to_le_bytes(), &before.digest].concat();
    for part in [kind, &text] {
        message.extend((part.len() as u64).to_le_bytes());
        message.extend(part.as_bytes());
    }
    message
}

/// Writes members in the order of their names, so that the text is the same in whatever order they are stored.
fn write_members<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>, into: &mut String) {
    let members: BTreeMap<&String, &Value> = members.collect();
    into.push('{');
    for (name, value) in members {
        into.push_str(&json!(name).to_string());
        into.push(':');
        match value {
            Value::Object(inner) => write_members(inner.iter(), into),
            value => into.push_str(&value.to_string()),
        }
        into.push(',');
    }
    into.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { memory: 8192, passes: 1 };

    #[test]
    fn a_signature_is_of_one_record_at_one_place_and_of_one_passphrase() {
        let key = EndorsementKey::fresh(b"correct horse", CHEAP).unwrap();
        let public = ApproverKey::from_text(&ApproverKey::of(&key).text()).unwrap();
        let before = AuditHead { no: 7, digest: [7; 32] };
        let mut body = json!({"who": "me \u{202e} \"quoted\"", "key": public.body()});
        sign(&key, "approver_changed", before, &mut body);
        let read: Value = serde_json::from_str(&body.to_string()).unwrap();
        assert!(public.has_signed("approver_changed", before, &read));
        assert!(!public.has_signed("approver_cleared", before, &read));
        assert!(!public.has_signed("approver_changed", AuditHead { no: 8, ..before }, &read));
        assert!(!public.has_signed("approver_changed", AuditHead { digest: [8; 32], ..before }, &read));
        let mut other = read.clone();
        other["who"] = json!("somebody else");
        assert!(!public.has_signed("approver_changed", before, &other));
        other.as_object_mut().unwrap().remove(SIGNATURE);
        assert!(!public.has_signed("approver_changed", before, &other));
        // The same passphrase with another salt is another key, and so is another passphrase.
        let fresh = EndorsementKey::fresh(b"correct horse", CHEAP).unwrap();
        assert!(!ApproverKey::of(&fresh).has_signed("approver_changed", before, &read));
        assert!(public.unlock(b"another horse").unwrap().is_none());
        let again = public.unlock(b"correct horse").unwrap().unwrap();
        assert_eq!(ApproverKey::of(&again), public);
        assert!(public.has_cost(CHEAP) && !public.has_cost(Cost::default()));
        let dear = ApproverKey { memory: usize::MAX, ..public };
        assert!(dear.unlock(b"correct horse").is_err());
    }
}
