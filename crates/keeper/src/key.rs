//! The house key: 32 random bytes that live in the keeper's memory and in the memory of the daemon it recognises.
//!
//! The key authenticates what the daemon keeps on disk, so that a row that somebody else wrote is recognised. It is
//! never written to a file, never printed, wiped when it is dropped and left out of core dumps. A keeper that is
//! started makes a new one; an upgrade of the keeper hands it to the next image (`crate::upgrade`).
//!
//! This module derives and compares; who is given the key is decided in `crate::recognition`.

use std::fmt;
use std::io;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::sys;

/// Bytes of the house key and of every key derived from it.
pub const KEY_BYTES: usize = 32;

/// The message whose authentication code identifies a key.
const KEY_ID: &str = "key id";
/// The purpose of the key that owner tokens are made with.
const OWNED_INPUT: &str = "owner of standard input";

/// A page of its own, so that the whole of it can be left out of dumps and kept out of swap.
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// The secret of one keeper's lifetime.
pub struct HouseKey(Box<Page>);

impl HouseKey {
    /// Makes a new key.
    pub fn random() -> io::Result<Self> {
        let mut key = Self::empty();
        getrandom::fill(&mut key.0.0[..KEY_BYTES]).map_err(io::Error::other)?;
        Ok(key)
    }

    /// A key that was handed over. The caller wipes its own copy.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Self {
        let mut key = Self::empty();
        key.0.0[..KEY_BYTES].copy_from_slice(bytes);
        key
    }

    fn empty() -> Self {
        let mut page = Box::new(Page([0; 4096]));
        sys::exclude_from_dumps(&mut page.0);
        Self(page)
    }

    /// The key itself, for handing it over.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0.0[..KEY_BYTES]
    }

    /// A key for one purpose: HMAC-SHA256 of the purpose under the house key. Two purposes never share a key.
    pub fn derive(&self, purpose: &str) -> Key {
        Key(Zeroizing::new(mac(self.expose(), &[purpose.as_bytes()])))
    }

    /// Identifies the key without revealing it, so that a row can say under which key it was authenticated.
    pub fn id(&self) -> [u8; 8] {
        let mut id = [0; 8];
        id.copy_from_slice(&mac(self.expose(), &[KEY_ID.as_bytes()])[..8]);
        id
    }

    /// The token by which the daemon shows that it may write to the input of an owned process. It follows from the key
    /// and the process, so it needs no place on disk and a daemon that was killed has it again.
    pub fn owner_token(&self, process: hostel_journal::ProcessId) -> OwnerToken {
        OwnerToken(self.derive(OWNED_INPUT).mac(&process.0))
    }
}

impl Drop for HouseKey {
    fn drop(&mut self) {
        self.0.0[..KEY_BYTES].zeroize();
    }
}

impl fmt::Debug for HouseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HouseKey")
    }
}

/// A key derived from the house key for one purpose.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

impl Key {
    /// The key itself.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The authentication code of a message under this key.
    pub fn mac(&self, message: &[u8]) -> [u8; KEY_BYTES] {
        mac(self.0.as_slice(), &[message])
    }

    /// Whether `code` is the authentication code of a message, compared in constant time.
    pub fn verify(&self, message: &[u8], code: &[u8]) -> bool {
        self.mac(message).as_slice().ct_eq(code).into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Proof that the sender may write to the standard input of one process.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerToken([u8; KEY_BYTES]);

impl OwnerToken {
    /// A token of no key, for a daemon that was not given the house key. It is lost with that daemon.
    pub fn random() -> io::Result<Self> {
        HouseKey::random().map(|key| Self(mac(key.expose(), &[OWNED_INPUT.as_bytes()])))
    }

    /// The token as it stands in a frame.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// A token from a frame.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// What the keeper remembers of a token: enough to recognise it, not enough to make it.
    pub(crate) fn digest(&self) -> OwnerDigest {
        OwnerDigest(Sha256::digest(self.0).into())
    }
}

impl Drop for OwnerToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken")
    }
}

/// The SHA-256 of an [`OwnerToken`]. It is no secret: it may stand in the state that an upgrade hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerDigest(pub(crate) [u8; KEY_BYTES]);

impl OwnerDigest {
    /// Whether a token is the one that was digested.
    pub(crate) fn matches(&self, token: Option<&[u8]>) -> bool {
        token.is_some_and(|token| Sha256::digest(token).as_slice().ct_eq(&self.0).into())
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    // HMAC takes keys of any length, so the error cannot occur; a code of zeros would verify nothing.
    let Ok(mut state) = Hmac::<Sha256>::new_from_slice(key) else { return [0; KEY_BYTES] };
    for part in parts {
        state.update(part);
    }
    state.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use hostel_journal::ProcessId;

    use super::*;

    #[test]
    fn keys_of_different_purposes_differ_and_the_same_one_comes_back() {
        let key = HouseKey::from_bytes(&[7; 32]);
        assert_eq!(key.derive("a").as_bytes(), HouseKey::from_bytes(&[7; 32]).derive("a").as_bytes());
        assert_ne!(key.derive("a").as_bytes(), key.derive("b").as_bytes());
        assert_ne!(key.derive("a").as_bytes(), HouseKey::from_bytes(&[8; 32]).derive("a").as_bytes());
        assert_ne!(HouseKey::random().unwrap().id(), HouseKey::random().unwrap().id());
        assert_eq!(key.id(), HouseKey::from_bytes(&[7; 32]).id());
    }

    /// Test case 2 of RFC 4231.
    #[test]
    fn codes_are_those_of_hmac_sha256() {
        let code = mac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_code_verifies_its_own_message_only() {
        let key = HouseKey::from_bytes(&[1; 32]).derive("rows");
        let code = key.mac(b"row");
        assert!(key.verify(b"row", &code));
        assert!(!key.verify(b"raw", &code) && !key.verify(b"row", &code[..31]) && !key.verify(b"row", &[]));
    }

    #[test]
    fn nothing_of_a_key_is_printed() {
        let key = HouseKey::from_bytes(&[0xAB; 32]);
        let token = key.owner_token(ProcessId([1; 16]));
        assert_eq!(format!("{key:?} {:?} {token:?}", key.derive("a")), "HouseKey Key OwnerToken");
    }

    #[test]
    fn a_token_is_recognised_by_its_digest_and_belongs_to_one_process() {
        let key = HouseKey::from_bytes(&[3; 32]);
        let token = key.owner_token(ProcessId([1; 16]));
        let digest = token.digest();
        assert!(digest.matches(Some(token.as_bytes())));
        assert!(!digest.matches(Some(key.owner_token(ProcessId([2; 16])).as_bytes())));
        assert!(!digest.matches(Some(&digest.0)) && !digest.matches(Some(&[])) && !digest.matches(None));
    }
}
