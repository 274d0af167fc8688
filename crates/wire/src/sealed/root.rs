//! The root key of a mesh: what a member gets at the door, and the broker never.

use dryoc::classic::crypto_generichash::crypto_generichash;
use zeroize::Zeroizing;

use super::key_type;
use crate::encoding;

/// A mesh's root key.
#[derive(Clone)]
pub struct RootKey(Zeroizing<[u8; 32]>);

key_type!(RootKey);

impl RootKey {
    /// Reads base64url.
    #[must_use]
    pub fn from_b64url(text: &str) -> Option<Self> {
        encoding::unb64url_array(text).map(Self::from_bytes)
    }

    /// As base64url.
    #[must_use]
    pub fn to_b64url(&self) -> Zeroizing<String> {
        Zeroizing::new(encoding::b64url(&self.0[..]))
    }

    /// A key for one purpose: BLAKE2b of the purpose, keyed with the root key. Keys of different purposes say nothing
    /// about each other or about the root key.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        keyed_digest(&self.0, purpose.as_bytes())
    }
}

/// BLAKE2b of a text, keyed.
pub(super) fn keyed_digest(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    // It cannot fail: output and key have sizes that BLAKE2b takes.
    crypto_generichash(&mut out, text, Some(&key[..])).ok();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let key = RootKey::generate();
        assert_eq!(RootKey::from_b64url(&key.to_b64url()), Some(key.clone()));
        assert_eq!(RootKey::from_b64url("AAAA"), None);
        assert_eq!(format!("{key:?}"), "RootKey");
        assert_ne!(key.derive("a"), key.derive("b"));
        assert_ne!(key.derive("a"), [0; 32]);
    }
}
