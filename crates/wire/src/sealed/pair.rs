//! Boxes between two keys, and boxes to one key from nobody.

use dryoc::classic::crypto_box::{crypto_box_beforenm, crypto_box_seal, crypto_box_seal_open};
use zeroize::Zeroizing;

use super::{OpenError, Sealed, open_text, seal_text};
use crate::encoding;
use crate::keys::{BadKey, BoxKey, PublicKey, SecretKey};

/// What a box for an unnamed sender is longer than its content: a key and a tag.
const SEAL: usize = 32 + 16;

/// The key two members share. Making it is the dear part of a direct message; it is made once and kept.
#[derive(Clone)]
pub struct PairKey(Zeroizing<[u8; 32]>);

impl PairKey {
    /// Of one's own secret key and the other's public one.
    pub fn new(me: &SecretKey, other: &PublicKey) -> Result<Self, BadKey> {
        Self::with_x25519(me, &other.x25519()?)
    }

    /// The same where only the other's x25519 key is known.
    pub fn with_x25519(me: &SecretKey, other: &[u8; 32]) -> Result<Self, BadKey> {
        let shared = crypto_box_beforenm(other, &me.x25519_secret()).map_err(|_| BadKey)?;
        Ok(Self(Zeroizing::new(shared)))
    }

    /// The same with nothing but one's own x25519 key.
    pub fn with_box_key(me: &BoxKey, other: &[u8; 32]) -> Result<Self, BadKey> {
        let shared = crypto_box_beforenm(other, me.secret()).map_err(|_| BadKey)?;
        Ok(Self(Zeroizing::new(shared)))
    }

    /// Seals, as `crypto_box_easy` does.
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

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for PairKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PairKey")
    }
}

/// Seals to one reader without saying who did, as `crypto_box_seal` does; base64.
pub fn seal_anonymous(plain: &[u8], to: &PublicKey) -> Result<String, BadKey> {
    let mut boxed = vec![0; plain.len() + SEAL];
    crypto_box_seal(&mut boxed, plain, &to.x25519()?).map_err(|_| BadKey)?;
    Ok(encoding::b64(&boxed))
}

/// Opens what `seal_anonymous` wrote.
pub fn open_anonymous(text: &str, me: &SecretKey) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    open_anonymous_with(text, &me.box_key())
}

/// The same with nothing but the x25519 key.
pub fn open_anonymous_with(text: &str, me: &BoxKey) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let boxed = encoding::unb64(text).ok_or(OpenError::Encoding)?;
    let length = boxed.len().checked_sub(SEAL).ok_or(OpenError::Encoding)?;
    let mut plain = Zeroizing::new(vec![0; length]);
    crypto_box_seal_open(&mut plain, &boxed, me.public(), me.secret()).map_err(|_| OpenError::Refused)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ends_share_the_key_and_nobody_else() {
        let (alice, bob, eve) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
        let sealed = PairKey::new(&alice, &bob.public()).unwrap().seal(b"hello");
        let from_bob = PairKey::new(&bob, &alice.public()).unwrap();
        assert_eq!(from_bob.open(&sealed).unwrap(), b"hello");
        let wrong = PairKey::new(&eve, &alice.public()).unwrap();
        assert_eq!(wrong.open(&sealed), Err(OpenError::Refused));
        assert_eq!(PairKey::new(&eve, &bob.public()).unwrap().open(&sealed), Err(OpenError::Refused));
    }

    #[test]
    fn plain_text_as_base64_does_not_pass_for_a_box() {
        let pair = PairKey::new(&SecretKey::generate(), &SecretKey::generate().public()).unwrap();
        let injected =
            Sealed { nonce: encoding::b64(&[0; 24]), ciphertext: encoding::b64(b"I am the broker's own text") };
        assert_eq!(pair.open(&injected), Err(OpenError::Refused));
        for (nonce, ciphertext) in
            [("", ""), ("AAAA", "AAAA"), (injected.nonce.as_str(), "AAAA"), (injected.nonce.as_str(), "*")]
        {
            assert_eq!(pair.open_parts(nonce, ciphertext), Err(OpenError::Encoding));
        }
    }

    #[test]
    fn a_weak_key_is_no_partner() {
        assert_eq!(PairKey::new(&SecretKey::generate(), &PublicKey([0; 32])).err(), Some(BadKey));
        assert_eq!(PairKey::with_x25519(&SecretKey::generate(), &[0; 32]).err(), Some(BadKey));
        assert_eq!(seal_anonymous(b"x", &PublicKey([0; 32])), Err(BadKey));
    }

    #[test]
    fn anonymous_boxes_open_for_their_reader_alone() {
        let (bob, eve) = (SecretKey::generate(), SecretKey::generate());
        let boxed = seal_anonymous(b"key", &bob.public()).unwrap();
        assert_eq!(&**open_anonymous(&boxed, &bob).unwrap(), b"key");
        assert_eq!(open_anonymous(&boxed, &eve).err(), Some(OpenError::Refused));
        assert_eq!(open_anonymous("AAAA", &bob).err(), Some(OpenError::Encoding));
    }

    #[test]
    fn what_was_sealed_for_a_key_opens_with_its_box_half_alone() {
        let (alice, bob) = (SecretKey::generate(), SecretKey::generate());
        let sealed = PairKey::new(&alice, &bob.public()).unwrap().seal(b"hello");
        let half = bob.box_key();
        let pair = PairKey::with_box_key(&half, &alice.public().x25519().unwrap()).unwrap();
        assert_eq!(pair.open(&sealed).unwrap(), b"hello");
        let boxed = seal_anonymous(b"key", &bob.public()).unwrap();
        assert_eq!(&**open_anonymous_with(&boxed, &half).unwrap(), b"key");
        assert_eq!(open_anonymous_with(&boxed, &alice.box_key()).err(), Some(OpenError::Refused));
        assert_eq!(PairKey::with_box_key(&half, &[0; 32]).err(), Some(BadKey));
    }

    proptest! {
        #[test]
        fn a_changed_bit_is_noticed(plain in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let pair = PairKey::new(&SecretKey::from_seed(&[1; 32]), &SecretKey::from_seed(&[2; 32]).public()).unwrap();
            let sealed = pair.seal(&plain);
            prop_assert_eq!(pair.open(&sealed).unwrap(), plain);
            let mut boxed = encoding::unb64(&sealed.ciphertext).unwrap();
            let at = at.index(boxed.len());
            boxed[at] ^= 1 << bit;
            prop_assert_eq!(pair.open_parts(&sealed.nonce, &encoding::b64(&boxed)), Err(OpenError::Refused));
        }
    }
}
