//! What a member says of itself, and of the member it replaces. A broker hands both out with the roster.

use serde::{Deserialize, Serialize};

use super::SignedText;
use crate::hello::remint_request;
use crate::keys::{PublicKey, SecretKey, Signature};

const PURPOSE: &str = "claudemesh-member-v1";

/// A member's own entry in the roster: what it is called, and that it signs what it writes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Statement {
    /// The member's name.
    pub name: String,
    /// When it was said, in milliseconds since 1970. A later statement replaces an earlier one.
    pub at: u64,
    /// By the member's key, 128 hex.
    pub signature: String,
}

impl Statement {
    /// Makes a statement.
    #[must_use]
    pub fn new(mesh_id: &str, member_id: &str, name: &str, at: u64, key: &SecretKey) -> Self {
        let text = text(mesh_id, member_id, &key.public(), name, at);
        Self { name: name.to_owned(), at, signature: key.sign(text.as_bytes()).hex() }
    }

    /// Whether the member with this key has said so.
    #[must_use]
    pub fn verify(&self, mesh_id: &str, member_id: &str, key: &PublicKey) -> bool {
        let Some(signature) = Signature::from_hex(&self.signature) else { return false };
        key.verify(text(mesh_id, member_id, key, &self.name, self.at).as_bytes(), &signature)
    }
}

fn text(mesh_id: &str, member_id: &str, key: &PublicKey, name: &str, at: u64) -> String {
    SignedText::new(PURPOSE)
        .field(mesh_id.as_bytes())
        .field(member_id.as_bytes())
        .field(&key.0)
        .field(name.as_bytes())
        .field(&at.to_be_bytes())
        .finish()
}

/// That a member has taken the place of another one, in the words of the request that made it so. Both keys signed it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Remint {
    /// The member that was replaced.
    pub member_id: String,
    /// Its key, hex.
    pub old_pubkey: String,
    /// When, in milliseconds since 1970.
    pub timestamp: u64,
    /// By the old key, 128 hex.
    pub signature: String,
    /// By the new key, 128 hex.
    pub proof: String,
}

impl Remint {
    /// Whether the owner of the old key gave its place to this new key, and the new key took it.
    #[must_use]
    pub fn verify(&self, mesh_id: &str, new: &PublicKey) -> bool {
        let text = remint_request(mesh_id, &self.old_pubkey, &new.hex(), false, self.timestamp);
        let Some(old) = PublicKey::from_hex(&self.old_pubkey) else { return false };
        [(&old, &self.signature), (new, &self.proof)].into_iter().all(|(key, signature)| {
            Signature::from_hex(signature).is_some_and(|signature| key.verify(text.as_bytes(), &signature))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_its_members_and_names_nobody_else() {
        let (key, other) = (SecretKey::generate(), SecretKey::generate());
        let said = Statement::new("mesh", "alice", "Alice", 7, &key);
        assert!(said.verify("mesh", "alice", &key.public()));
        assert!(!said.verify("mesh", "alice", &other.public()));
        assert!(!said.verify("mesh2", "alice", &key.public()));
        assert!(!said.verify("mesh", "bob", &key.public()));
        assert!(!Statement { name: "Bob".into(), ..said.clone() }.verify("mesh", "alice", &key.public()));
        assert!(!Statement { at: 8, ..said.clone() }.verify("mesh", "alice", &key.public()));
        assert!(!Statement { signature: String::new(), ..said }.verify("mesh", "alice", &key.public()));
    }

    #[test]
    fn both_keys_have_to_agree_to_a_remint() {
        let (old, new, other) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
        let text = remint_request("mesh", &old.public().hex(), &new.public().hex(), false, 7);
        let remint = Remint {
            member_id: "alice".into(),
            old_pubkey: old.public().hex(),
            timestamp: 7,
            signature: old.sign(text.as_bytes()).hex(),
            proof: new.sign(text.as_bytes()).hex(),
        };
        assert!(remint.verify("mesh", &new.public()));
        assert!(!remint.verify("mesh", &other.public()));
        assert!(!remint.verify("mesh2", &new.public()));
        let forged = Remint { signature: other.sign(text.as_bytes()).hex(), ..remint.clone() };
        assert!(!forged.verify("mesh", &new.public()));
        let claimed = Remint { proof: other.sign(text.as_bytes()).hex(), ..remint };
        assert!(!claimed.verify("mesh", &new.public()));
    }
}
