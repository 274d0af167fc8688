//! Keys of what the members of a mesh keep together: the shared state and the tasks.
//!
//! Invariant: what is sealed in an epoch is opened by who was a member in it or came later, and by nobody who was gone
//! before. The key of an epoch comes from `general`'s key of that epoch, and says nothing about that one: a link, which
//! hands an earlier epoch's key to who has a later one, opens no messages. Names are looked up by a digest whose key
//! comes from the root key alone and never changes, so that an entry is found again whatever its epoch.

use zeroize::Zeroizing;

use super::root::keyed_digest;
use super::{OpenError, RootKey, Sealed, TopicKey, key_type, open_text, seal_text, unwrap, wrap};

const SHARED: &[u8] = b"claudemesh-shared-1";
const NAMES: &str = "claudemesh-shared-names-1";

/// What is sealed for all members, in one epoch.
#[derive(Clone)]
pub struct SharedKey(Zeroizing<[u8; 32]>);

key_type!(SharedKey);

impl SharedKey {
    /// The one of an epoch, from `general`'s key of the same epoch.
    #[must_use]
    pub fn derive(general: &TopicKey) -> Self {
        Self::from_bytes(keyed_digest(general.as_bytes(), SHARED))
    }

    /// Seals, as `crypto_secretbox_easy` does.
    #[must_use]
    pub fn seal(&self, plain: &[u8]) -> Sealed {
        seal_text(&self.0, plain)
    }

    /// Opens what a frame holds.
    pub fn open_parts(&self, nonce: &str, ciphertext: &str) -> Result<Vec<u8>, OpenError> {
        open_text(&self.0, nonce, ciphertext)
    }

    /// Hands an earlier key to who has this one.
    #[must_use]
    pub fn link(&self, earlier: &Self) -> String {
        wrap(&self.0, &earlier.0[..])
    }

    /// The earlier key that was handed on.
    pub fn open_link(&self, link: &str) -> Result<Self, OpenError> {
        unwrap(&self.0, link).map(Self)
    }
}

/// What names and requests are digested with, the same for all members and for ever.
#[derive(Clone)]
pub struct NameKey(Zeroizing<[u8; 32]>);

key_type!(NameKey);

impl NameKey {
    /// The mesh's.
    #[must_use]
    pub fn derive(root: &RootKey) -> Self {
        Self::from_bytes(root.derive(NAMES))
    }

    /// What a name is looked up by: who has not the key can neither read it nor try names out.
    #[must_use]
    pub fn name(&self, name: &str) -> [u8; 32] {
        self.digest(b"name", name)
    }

    /// What is compared when a request comes again.
    #[must_use]
    pub fn request(&self, canonical: &str) -> [u8; 32] {
        self.digest(b"request", canonical)
    }

    fn digest(&self, purpose: &[u8], text: &str) -> [u8; 32] {
        keyed_digest(&self.0, &[purpose, b"\0", text.as_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_opens_its_own() {
        let (one, two) = (TopicKey::generate(), TopicKey::generate());
        let (one, two) = (SharedKey::derive(&one), SharedKey::derive(&two));
        let sealed = one.seal(b"value");
        assert_eq!(one.open_parts(&sealed.nonce, &sealed.ciphertext).unwrap(), b"value");
        assert_eq!(two.open_parts(&sealed.nonce, &sealed.ciphertext), Err(OpenError::Refused));
    }

    #[test]
    fn a_later_key_hands_an_earlier_one_on_and_not_the_other_way() {
        let (general, later) = (TopicKey::generate(), TopicKey::generate());
        let (earlier, later) = (SharedKey::derive(&general), SharedKey::derive(&later));
        let link = later.link(&earlier);
        assert_eq!(later.open_link(&link).unwrap(), earlier);
        assert_eq!(earlier.open_link(&link), Err(OpenError::Refused));
        assert_eq!(later.open_link("AAAA"), Err(OpenError::Encoding));
        assert_ne!(earlier.as_bytes(), general.as_bytes(), "a link gives no messages away");
    }

    #[test]
    fn digests_differ_by_name_purpose_and_mesh() {
        let (names, others) = (NameKey::derive(&RootKey::generate()), NameKey::derive(&RootKey::generate()));
        assert_eq!(names.name("a"), names.name("a"));
        assert_ne!(names.name("a"), names.name("b"));
        assert_ne!(names.name("a"), names.request("a"));
        assert_ne!(names.name("a"), others.name("a"));
    }
}
