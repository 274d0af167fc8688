//! Keys of topics, and their copies for members.

use zeroize::Zeroizing;

use super::pair::PairKey;
use super::{MAC, NONCE, OpenError, RootKey, Sealed, key_of, key_type, open_text, open_with, seal_text, seal_with};
use crate::encoding;
use crate::keys::{BadKey, BoxKey, PublicKey, SecretKey};

/// The first key of the topic `general`, which every member can make for itself.
const GENERAL: &str = "claudemesh-general-0";

/// A topic's key of one epoch.
#[derive(Clone)]
pub struct TopicKey(Zeroizing<[u8; 32]>);

key_type!(TopicKey);

impl TopicKey {
    /// Epoch 0 of the topic `general`: whoever has joined can read it at once.
    #[must_use]
    pub fn derive_general(root: &RootKey) -> Self {
        Self::from_bytes(root.derive(GENERAL))
    }

    /// Seals, as `crypto_secretbox_easy` does.
    #[must_use]
    pub fn seal(&self, plain: &[u8]) -> Sealed {
        seal_text(&self.0, plain)
    }

    /// Opens.
    pub fn open(&self, sealed: &Sealed) -> Result<Vec<u8>, OpenError> {
        self.open_parts(&sealed.nonce, &sealed.ciphertext)
    }

    /// Opens what a frame holds.
    pub fn open_parts(&self, nonce: &str, ciphertext: &str) -> Result<Vec<u8>, OpenError> {
        open_text(&self.0, nonce, ciphertext)
    }

    /// A copy for one member, as blob and nonce: the sealer's x25519 key, then the box.
    pub fn seal_for(&self, from: &SecretKey, to: &PublicKey) -> Result<(String, String), BadKey> {
        let (nonce, boxed) = seal_with(PairKey::new(from, to)?.bytes(), &self.0[..]);
        let blob = [&from.x25519_public()[..], &boxed].concat();
        Ok((encoding::b64(&blob), encoding::b64(&nonce)))
    }

    /// Opens a copy. Says also whose x25519 key sealed it: whether that is a member's is for the caller to check, the
    /// box alone only proves that the holder of that key made it.
    pub fn open_seal(blob: &str, nonce: &str, me: &SecretKey) -> Result<(Self, [u8; 32]), OpenError> {
        Self::open_seal_with(blob, nonce, &me.box_key())
    }

    /// The same with nothing but the x25519 key.
    pub fn open_seal_with(blob: &str, nonce: &str, me: &BoxKey) -> Result<(Self, [u8; 32]), OpenError> {
        let blob = encoding::unb64_array::<{ 32 + MAC + 32 }>(blob).ok_or(OpenError::Encoding)?;
        let nonce = encoding::unb64_array::<NONCE>(nonce).ok_or(OpenError::Encoding)?;
        let (sealer, boxed) = blob.split_first_chunk::<32>().ok_or(OpenError::Encoding)?;
        let pair = PairKey::with_box_key(me, sealer)?;
        let plain = Zeroizing::new(open_with(pair.bytes(), &nonce, boxed)?);
        Ok((Self(key_of(&plain)?), *sealer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_opens_with_its_own_key_alone() {
        let (key, other) = (TopicKey::generate(), TopicKey::generate());
        let sealed = key.seal("grüße".as_bytes());
        assert_eq!(key.open(&sealed).unwrap(), "grüße".as_bytes());
        assert_eq!(other.open(&sealed), Err(OpenError::Refused));
    }

    #[test]
    fn copies_open_for_their_member_alone() {
        let (alice, bob, eve) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
        let key = TopicKey::generate();
        let (blob, nonce) = key.seal_for(&alice, &bob.public()).unwrap();
        let (opened, sealer) = TopicKey::open_seal(&blob, &nonce, &bob).unwrap();
        assert_eq!(opened, key);
        assert_eq!(alice.public().x25519(), Ok(sealer));
        assert_eq!(TopicKey::open_seal(&blob, &nonce, &eve).err(), Some(OpenError::Refused));
        let own = key.seal_for(&alice, &alice.public()).unwrap();
        assert_eq!(TopicKey::open_seal(&own.0, &own.1, &alice).unwrap().0, key);
    }

    #[test]
    fn a_foreign_name_on_a_copy_is_noticed() {
        let (alice, bob, eve) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
        let (blob, nonce) = TopicKey::generate().seal_for(&eve, &bob.public()).unwrap();
        let mut bytes = encoding::unb64(&blob).unwrap();
        bytes[..32].copy_from_slice(&alice.x25519_public());
        assert_eq!(TopicKey::open_seal(&encoding::b64(&bytes), &nonce, &bob).err(), Some(OpenError::Refused));
        bytes[..32].fill(0);
        assert_eq!(TopicKey::open_seal(&encoding::b64(&bytes), &nonce, &bob).err(), Some(OpenError::Key));
        assert_eq!(TopicKey::open_seal("AAAA", &nonce, &bob).err(), Some(OpenError::Encoding));
    }

    #[test]
    fn the_general_key_comes_from_the_root_key() {
        let root = RootKey::generate();
        assert_eq!(TopicKey::derive_general(&root), TopicKey::derive_general(&root.clone()));
        assert_ne!(TopicKey::derive_general(&root), TopicKey::derive_general(&RootKey::generate()));
        assert_ne!(TopicKey::derive_general(&root).as_bytes(), root.as_bytes());
    }
}
