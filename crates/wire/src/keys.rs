//! Keys and signatures: ed25519, from which the x25519 keys of the boxes are derived.
//!
//! Invariant: a secret key is wiped when dropped, never printed, and its two halves belong together (a signature made
//! with a foreign public half would give the secret away). A public key is only 32 bytes until it is used: whether it is
//! a point of the curve shows when it verifies or seals.

use std::fmt;
use std::str::FromStr;

use dryoc::classic::crypto_core::crypto_scalarmult_base;
use dryoc::classic::crypto_sign::{crypto_sign_detached, crypto_sign_seed_keypair, crypto_sign_verify_detached};
use dryoc::classic::crypto_sign_ed25519::{crypto_sign_ed25519_pk_to_curve25519, crypto_sign_ed25519_sk_to_curve25519};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{encoding, random};

/// A key that cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a usable key")]
pub struct BadKey;

/// A member's, a session's or an owner's public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Reads 64 hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        encoding::unhex_array(text).map(Self)
    }

    /// 64 hex digits.
    #[must_use]
    pub fn hex(&self) -> String {
        encoding::hex(&self.0)
    }

    /// Whether `signature` is this key's, over `message`.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &Signature) -> bool {
        crypto_sign_verify_detached(&signature.0, message, &self.0).is_ok()
    }

    /// The x25519 key of the same owner.
    pub fn x25519(&self) -> Result<[u8; 32], BadKey> {
        let mut out = [0; 32];
        crypto_sign_ed25519_pk_to_curve25519(&mut out, &self.0).map_err(|_| BadKey)?;
        Ok(out)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({}…)", &self.hex()[..16])
    }
}

impl FromStr for PublicKey {
    type Err = BadKey;
    fn from_str(text: &str) -> Result<Self, BadKey> {
        Self::from_hex(text).ok_or(BadKey)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hex digits"))
    }
}

/// A signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    /// Reads 128 hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        encoding::unhex_array(text).map(Self)
    }

    /// 128 hex digits.
    #[must_use]
    pub fn hex(&self) -> String {
        encoding::hex(&self.0)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({}…)", &self.hex()[..16])
    }
}

/// A secret key: seed and public key, as libsodium has it.
#[derive(Clone)]
pub struct SecretKey {
    both: Zeroizing<[u8; 64]>,
}

impl SecretKey {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self::from_seed(&Zeroizing::new(random::bytes()))
    }

    /// The one that belongs to a seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let (_, both) = crypto_sign_seed_keypair(seed);
        Self { both: Zeroizing::new(both) }
    }

    /// Reads 128 hex digits, seed and public key.
    pub fn from_hex(text: &str) -> Result<Self, BadKey> {
        let both = Zeroizing::new(encoding::unhex_array::<64>(text).ok_or(BadKey)?);
        let (seed, public) = both.split_first_chunk::<32>().ok_or(BadKey)?;
        let key = Self::from_seed(seed);
        if bool::from(key.public().0.ct_eq(public)) { Ok(key) } else { Err(BadKey) }
    }

    /// 128 hex digits, for the owner's own file.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(encoding::hex(&*self.both))
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut public = [0; 32];
        public.copy_from_slice(&self.both[32..]);
        PublicKey(public)
    }

    /// Signs.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        let mut signature = [0; 64];
        // It cannot fail: both sizes are in the types. A signature of zeros would verify nowhere.
        crypto_sign_detached(&mut signature, message, &self.both).ok();
        Signature(signature)
    }

    /// The derived x25519 secret key.
    #[must_use]
    pub fn x25519_secret(&self) -> Zeroizing<[u8; 32]> {
        let mut out = Zeroizing::new([0; 32]);
        crypto_sign_ed25519_sk_to_curve25519(&mut out, &self.both);
        out
    }

    /// The derived x25519 public key.
    #[must_use]
    pub fn x25519_public(&self) -> [u8; 32] {
        let mut out = [0; 32];
        crypto_scalarmult_base(&mut out, &self.x25519_secret());
        out
    }

    /// The half that opens boxes, without the one that signs.
    #[must_use]
    pub fn box_key(&self) -> BoxKey {
        BoxKey::from_bytes(&self.x25519_secret())
    }
}

/// An x25519 key by itself: it opens what was sealed for its owner and can sign nothing. What is left of a key that was
/// replaced.
#[derive(Clone)]
pub struct BoxKey {
    secret: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl BoxKey {
    /// From where it was kept.
    #[must_use]
    pub fn from_bytes(secret: &[u8; 32]) -> Self {
        let mut public = [0; 32];
        crypto_scalarmult_base(&mut public, secret);
        Self { secret: Zeroizing::new(*secret), public }
    }

    /// To be kept, in a file of the owner's alone.
    #[must_use]
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }
}

impl PartialEq for BoxKey {
    fn eq(&self, other: &Self) -> bool {
        self.secret.ct_eq(&*other.secret).into()
    }
}

impl Eq for BoxKey {}

impl fmt::Debug for BoxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxKey")
    }
}

impl PartialEq for SecretKey {
    fn eq(&self, other: &Self) -> bool {
        self.both.ct_eq(&*other.both).into()
    }
}

impl Eq for SecretKey {}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_vector_of_rfc_8032() {
        let seed = encoding::unhex_array("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let key = SecretKey::from_seed(&seed);
        assert_eq!(key.public().hex(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let signature = key.sign(b"");
        assert_eq!(
            signature.hex(),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        );
        assert!(key.public().verify(b"", &signature));
        assert!(!key.public().verify(b"x", &signature));
    }

    #[test]
    fn halves_that_do_not_belong_together_are_refused() {
        let mine = SecretKey::generate();
        assert_eq!(SecretKey::from_hex(&mine.to_hex()), Ok(mine.clone()));
        let other = SecretKey::generate();
        let mixed = format!("{}{}", &mine.to_hex()[..64], other.public().hex());
        assert_eq!(SecretKey::from_hex(&mixed), Err(BadKey));
        assert_eq!(SecretKey::from_hex("00"), Err(BadKey));
        assert_eq!(SecretKey::from_hex(&"g".repeat(128)), Err(BadKey));
    }

    #[test]
    fn both_ways_to_the_x25519_key_meet() {
        let key = SecretKey::generate();
        assert_eq!(key.public().x25519(), Ok(key.x25519_public()));
        let alone = key.box_key();
        assert_eq!(alone.public(), &key.x25519_public());
        assert_eq!(BoxKey::from_bytes(alone.secret()), alone);
    }

    #[test]
    fn what_is_no_point_or_a_weak_one_is_refused() {
        for bytes in [[0; 32], [0xff; 32], {
            let mut one = [0; 32];
            one[0] = 1;
            one
        }] {
            assert_eq!(PublicKey(bytes).x25519(), Err(BadKey), "{bytes:?}");
            assert!(!PublicKey(bytes).verify(b"", &Signature([0; 64])));
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let key = SecretKey::generate();
        let printed = format!("{key:?}");
        assert_eq!(printed, "SecretKey");
        assert_eq!(format!("{:?}", key.box_key()), "BoxKey");
    }

    #[test]
    fn public_keys_travel_as_hex() {
        let key = SecretKey::generate().public();
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(json, format!("\"{key}\""));
        assert_eq!(serde_json::from_str::<PublicKey>(&json).unwrap(), key);
        assert!(serde_json::from_str::<PublicKey>("\"ab\"").is_err());
        assert_eq!(key.hex().to_uppercase().parse(), Ok(key));
    }
}
