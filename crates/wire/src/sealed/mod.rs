//! What only the right reader can open: bodies, topic keys, the root key, files.
//!
//! Invariant: libsodium's formats, byte for byte; a box that does not open is an error and never taken for plain text.
//! Keys are wiped when dropped and never printed.
//!
//! It keeps no keys and knows no members: whose key it is, the caller says.

mod file;
mod pair;
mod root;
mod shared;
mod topic;

pub use file::{FILE_CHUNK, FileHead, FileKey, FileOpener, FileSealer, plain_size, sealed_size};
pub use pair::{PairKey, open_anonymous, open_anonymous_with, seal_anonymous};
pub use root::RootKey;
pub use shared::{NameKey, SharedKey};
pub use topic::TopicKey;

use dryoc::classic::crypto_secretbox::{crypto_secretbox_easy, crypto_secretbox_open_easy};
use zeroize::Zeroizing;

use crate::{encoding, random};

const NONCE: usize = 24;
const MAC: usize = 16;

/// A sealed body: both parts as base64.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sealed {
    /// 24 bytes.
    pub nonce: String,
    /// 16 bytes more than what is inside.
    pub ciphertext: String,
}

/// Why something sealed did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Not the base64 or the sizes that are expected.
    #[error("malformed")]
    Encoding,
    /// Another key, or changed on its way.
    #[error("does not open with this key")]
    Refused,
    /// The other side's key cannot be one.
    #[error("not a usable key")]
    Key,
    /// The end is missing.
    #[error("cut off")]
    Truncated,
}

impl OpenError {
    /// A word for metrics and rows.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Encoding => "malformed",
            Self::Refused => "wrong_key",
            Self::Key => "bad_key",
            Self::Truncated => "truncated",
        }
    }
}

impl From<crate::keys::BadKey> for OpenError {
    fn from(_: crate::keys::BadKey) -> Self {
        Self::Key
    }
}

/// `crypto_secretbox_easy` with a new nonce; a box of a pair of keys is the same with their shared key.
fn seal_with(key: &[u8; 32], plain: &[u8]) -> ([u8; NONCE], Vec<u8>) {
    let nonce = random::bytes::<NONCE>();
    let mut boxed = vec![0; plain.len() + MAC];
    // The sizes are right by construction, and no message is as long as the limit of 2^64 bytes; were it to fail, what
    // is sent would be zeros, which open nowhere.
    crypto_secretbox_easy(&mut boxed, plain, &nonce, key).ok();
    (nonce, boxed)
}

fn open_with(key: &[u8; 32], nonce: &[u8; NONCE], boxed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let length = boxed.len().checked_sub(MAC).ok_or(OpenError::Encoding)?;
    let mut plain = vec![0; length];
    crypto_secretbox_open_easy(&mut plain, boxed, nonce, key).map_err(|_| OpenError::Refused)?;
    Ok(plain)
}

fn seal_text(key: &[u8; 32], plain: &[u8]) -> Sealed {
    let (nonce, boxed) = seal_with(key, plain);
    Sealed { nonce: encoding::b64(&nonce), ciphertext: encoding::b64(&boxed) }
}

fn open_text(key: &[u8; 32], nonce: &str, ciphertext: &str) -> Result<Vec<u8>, OpenError> {
    let nonce = encoding::unb64_array(nonce).ok_or(OpenError::Encoding)?;
    let boxed = encoding::unb64(ciphertext).ok_or(OpenError::Encoding)?;
    open_with(key, &nonce, &boxed)
}

/// Nonce and box in one text, for keys that are wrapped by other keys.
pub(crate) fn wrap(key: &[u8; 32], plain: &[u8]) -> String {
    let (nonce, boxed) = seal_with(key, plain);
    encoding::b64(&[&nonce[..], &boxed].concat())
}

pub(crate) fn unwrap(key: &[u8; 32], text: &str) -> Result<Zeroizing<[u8; 32]>, OpenError> {
    let both = encoding::unb64_array::<{ NONCE + MAC + 32 }>(text).ok_or(OpenError::Encoding)?;
    let (nonce, boxed) = both.split_first_chunk::<NONCE>().ok_or(OpenError::Encoding)?;
    let plain = Zeroizing::new(open_with(key, nonce, boxed)?);
    key_of(&plain)
}

fn key_of(plain: &[u8]) -> Result<Zeroizing<[u8; 32]>, OpenError> {
    let key: &[u8; 32] = plain.try_into().map_err(|_| OpenError::Encoding)?;
    Ok(Zeroizing::new(*key))
}

/// A key of 32 bytes that is wiped, not printed, and compared in constant time.
macro_rules! key_type {
    ($name:ident) => {
        impl $name {
            /// A new one.
            #[must_use]
            pub fn generate() -> Self {
                Self(zeroize::Zeroizing::new($crate::random::bytes()))
            }

            /// From where it was kept.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(zeroize::Zeroizing::new(bytes))
            }

            /// To be kept, in a file of the owner's alone.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                subtle::ConstantTimeEq::ct_eq(&self.0[..], &other.0[..]).into()
            }
        }

        impl Eq for $name {}

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}
use key_type;
