//! What the approver's passphrase vouches for: keys of the audit, and settings.
//!
//! The key of an endorsement is derived from the passphrase with a salt of its own, so neither the digest in the
//! approver's file nor anything else on disk gives it away. It is checked by whoever has the passphrase, at any later time.
//!
//! Guarantees: the derived key is wiped when it is dropped. An endorsement of one thing is none of another.
//!
//! The same key gives the pair that signs changes of the approver; see `super::signatures`.

use std::io;

use dryoc::classic::crypto_pwhash::{PasswordHashAlgorithm, crypto_pwhash};
use dryoc::classic::crypto_sign::crypto_sign_seed_keypair;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::segments::{hex, unhex};
use crate::approvals::Cost;

/// The largest cost that is taken from what stands on disk: whoever can write there must not stop the daemon with it.
const MOST_MEMORY: usize = 1 << 30;
const MOST_PASSES: u64 = 16;

/// An endorsement as it is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::approvals) struct Endorsement {
    salt: String,
    memory: usize,
    passes: u64,
    /// Further parts of what is endorsed that nothing else tells.
    #[serde(default)]
    pub(in crate::approvals) about: Vec<String>,
    mac: String,
}

/// The key that a passphrase gives with a salt.
pub(in crate::approvals) struct EndorsementKey {
    salt: [u8; 16],
    cost: Cost,
    key: Zeroizing<[u8; 32]>,
}

impl EndorsementKey {
    /// A key with a fresh salt. Takes as long as comparing a passphrase.
    pub(in crate::approvals) fn fresh(passphrase: &[u8], cost: Cost) -> io::Result<Self> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Self::derive(passphrase, salt, cost)
    }

    fn derive(passphrase: &[u8], salt: [u8; 16], cost: Cost) -> io::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        let algorithm = PasswordHashAlgorithm::Argon2id13;
        crypto_pwhash(&mut *key, passphrase, &salt, cost.passes, cost.memory, algorithm)
            .map_err(|error| io::Error::other(format!("cannot derive a key: {error}")))?;
        Ok(EndorsementKey { salt, cost, key })
    }

    /// The key that a passphrase gives with a salt and a cost that stand on disk.
    pub(super) fn again(passphrase: &[u8], salt: &str, memory: usize, passes: u64) -> io::Result<Self> {
        let salt = unhex(salt).ok_or_else(|| io::Error::other("an endorsement without a salt"))?;
        if memory > MOST_MEMORY || passes > MOST_PASSES {
            return Err(io::Error::other("an endorsement that costs too much to check"));
        }
        Self::derive(passphrase, salt, Cost { memory, passes })
    }

    /// The salt, as it is stored, and the cost.
    pub(super) fn origin(&self) -> (String, Cost) {
        (hex(&self.salt), self.cost)
    }

    /// The pair that signs changes of the approver: the public key and the secret one.
    pub(super) fn signing_pair(&self) -> ([u8; 32], Zeroizing<[u8; 64]>) {
        let seed: Zeroizing<[u8; 32]> =
            Zeroizing::new(self.mac("signatures of the approver", &[]).finalize().into_bytes().into());
        let (public, secret) = crypto_sign_seed_keypair(&seed);
        (public, Zeroizing::new(secret))
    }

    fn mac(&self, what: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A key of any length is taken, so there is no error to speak of.
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.key).unwrap_or_else(|_| Hmac::new(&Default::default()));
        for part in [b"hostel endorsement 1".as_slice(), what.as_bytes()].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }

    /// Endorses these parts of such a thing.
    pub(in crate::approvals) fn endorse(&self, what: &str, parts: &[&[u8]], about: Vec<String>) -> Endorsement {
        let all: Vec<&[u8]> = parts.iter().copied().chain(about.iter().map(String::as_bytes)).collect();
        let mac: [u8; 32] = self.mac(what, &all).finalize().into_bytes().into();
        Endorsement { salt: hex(&self.salt), memory: self.cost.memory, passes: self.cost.passes, about, mac: hex(&mac) }
    }
}

impl Endorsement {
    /// From where it is stored; none if that is no endorsement.
    pub(in crate::approvals) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As it is stored.
    pub(in crate::approvals) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The key that a passphrase gives for this endorsement. `last` is a key that was derived before: the same one serves
    /// every endorsement with the same salt.
    pub(in crate::approvals) fn key(
        &self,
        passphrase: &[u8],
        last: Option<EndorsementKey>,
    ) -> io::Result<EndorsementKey> {
        let is_same = |last: &EndorsementKey| {
            hex(&last.salt) == self.salt && (last.cost.memory, last.cost.passes) == (self.memory, self.passes)
        };
        match last.filter(is_same) {
            Some(last) => Ok(last),
            None => EndorsementKey::again(passphrase, &self.salt, self.memory, self.passes),
        }
    }

    /// Whether it is of these parts of such a thing.
    pub(in crate::approvals) fn is_of(&self, key: &EndorsementKey, what: &str, parts: &[&[u8]]) -> bool {
        let all: Vec<&[u8]> = parts.iter().copied().chain(self.about.iter().map(String::as_bytes)).collect();
        let Some(mac) = unhex::<32>(&self.mac) else { return false };
        key.mac(what, &all).verify_slice(&mac).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { memory: 8192, passes: 1 };

    #[test]
    fn an_endorsement_is_checked_with_the_passphrase_alone() {
        let key = EndorsementKey::fresh(b"correct horse", CHEAP).unwrap();
        let made = key.endorse("audit", &[b"key"], vec!["7".to_owned()]);
        let read = Endorsement::read(&made.text()).unwrap();
        assert_eq!(read, made);
        let again = read.key(b"correct horse", None).unwrap();
        assert!(read.is_of(&again, "audit", &[b"key"]));
        assert!(!read.is_of(&again, "audit", &[b"kez"]) && !read.is_of(&again, "settings", &[b"key"]));
        let moved = Endorsement { about: vec!["8".to_owned()], ..read.clone() };
        assert!(!moved.is_of(&again, "audit", &[b"key"]));
        let wrong = read.key(b"another horse", None).unwrap();
        assert!(!read.is_of(&wrong, "audit", &[b"key"]));
        // The same salt costs nothing twice.
        assert!(read.is_of(&read.key(b"not looked at", Some(again)).unwrap(), "audit", &[b"key"]));
        let dear = Endorsement { memory: MOST_MEMORY + 1, ..read.clone() };
        assert!(dear.key(b"correct horse", None).is_err());
        let endless = Endorsement { passes: MOST_PASSES + 1, ..read };
        assert!(endless.key(b"correct horse", None).is_err());
        assert_eq!(Endorsement::read("{}"), None);
    }
}
