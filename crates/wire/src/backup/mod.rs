//! Backups: what a passphrase keeps from everybody else.
//!
//! ```text
//! 0   8  HOSTELBK
//! 8   1  version of the format: 1
//! 9   1  what it holds: `m` the identity of one mesh, `h` a whole house
//! 10  1  how the key is made: 2, Argon2id 1.3 as libsodium has it
//! 11  1  0
//! 12  4  passes of it
//! 16  8  bytes of memory it takes
//! 24  16 salt
//! 40  24 nonce of the box, or header of the stream
//! ```
//! It begins with another word than the `.cmb` files of claudemesh-cli (`CMB1`, which [`open_earlier`] reads): those say
//! nothing of how their key was made; these do, and may be a house. Numbers are big-endian. After that follows one box (`seal`, `open`) or a stream of them (`StreamSealer`,
//! `StreamOpener`); both are libsodium's, and each carries a digest that needs no key, so that a damaged file is told
//! from a wrong passphrase.
//!
//! Invariant: a header that asks for more work than is reasonable is refused before any of it is done. Keys are wiped
//! and never printed. Nothing is read or written here: callers bring bytes.

mod earlier;
pub mod records;
mod sealed;
mod stream;

pub use earlier::{is_earlier, open_earlier};
pub use sealed::{open, open_with, seal, seal_with};
pub use stream::{FRAME, FRAME_PREFIX, StreamOpener, StreamSealer, frame_length};

use dryoc::classic::crypto_pwhash::{PasswordHashAlgorithm, crypto_pwhash};
use zeroize::Zeroizing;

use crate::random;

/// The bytes of a header.
pub const HEADER: usize = 64;

/// The format that is written, and the newest that is read.
pub const VERSION: u8 = 1;

const MAGIC: &[u8; 8] = b"HOSTELBK";
const ARGON2ID: u8 = 2;

/// The most work a header may ask for: libsodium's own most expensive grade, and some more passes.
const MOST_PASSES: u32 = 16;
const MOST_MEMORY: u64 = 1 << 30;
const LEAST_MEMORY: u64 = 8192;

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The identity of one mesh.
    Mesh,
    /// A whole house.
    House,
}

impl Content {
    fn byte(self) -> u8 {
        match self {
            Self::Mesh => b'm',
            Self::House => b'h',
        }
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mesh => "a mesh's identity",
            Self::House => "a house",
        })
    }
}

/// Why a backup cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// It does not begin as one does.
    #[error("it is not a backup of this program")]
    NotOne,
    /// The program before this one made it, and it is not read here.
    #[error(
        "it is a `.cmb` backup (`{0}`) of claudemesh-cli, which is not read here: `CMB1` is put back by `claudemesh daemon \
         restore`, others by the program that made them"
    )]
    Earlier(&'static str),
    /// One of the program before this one: it is damaged, or this is not its passphrase.
    #[error("it does not open: the passphrase is not the one it was made with, or it is damaged")]
    Unopened,
    /// A later program made it.
    #[error("its format is version {0}, this program knows {VERSION}: use the version that made it, or a later one")]
    TooNew(u8),
    /// It is a backup of something else.
    #[error("it is a backup of {found}, not of {wanted}")]
    Other {
        /// What it holds.
        found: Content,
        /// What was asked for.
        wanted: Content,
    },
    /// Bytes of it are not as they were written; where, as far as that is known.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// It is whole, and this is not its passphrase.
    #[error("the passphrase is not the one it was made with")]
    Passphrase,
    /// The work of making the key could not be done.
    #[error("its key cannot be made: there is not enough memory")]
    Memory,
}

/// What making a key from a passphrase costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Passes over the memory.
    pub passes: u32,
    /// Bytes of memory.
    pub memory: u64,
}

impl Default for Cost {
    /// What libsodium calls moderate: about a second. Whoever has a copy may guess for years.
    fn default() -> Self {
        Self { passes: 3, memory: 256 << 20 }
    }
}

/// The beginning of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What it holds.
    pub content: Content,
    /// What making its key costs.
    pub cost: Cost,
    salt: [u8; 16],
    nonce: [u8; 24],
}

impl Header {
    /// A new one.
    #[must_use]
    pub fn fresh(content: Content, cost: Cost) -> Self {
        Self { content, cost, salt: random::bytes(), nonce: random::bytes() }
    }

    /// As it stands in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&[VERSION, self.content.byte(), ARGON2ID, 0]);
        bytes[12..16].copy_from_slice(&self.cost.passes.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.cost.memory.to_be_bytes());
        bytes[24..40].copy_from_slice(&self.salt);
        bytes[40..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads the beginning of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, BackupError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| match bytes.get(..4) {
            Some(b"CMB1") => BackupError::Earlier("CMB1"),
            Some(b"CMB2") => BackupError::Earlier("CMB2"),
            _ => BackupError::NotOne,
        })?;
        let short = || BackupError::Damaged("it ends inside its header");
        let ([version, content, kdf, zero], rest) = take::<4>(rest).ok_or_else(short)?;
        if version > VERSION {
            return Err(BackupError::TooNew(version));
        }
        let (passes, rest) = take::<4>(rest).ok_or_else(short)?;
        let (memory, rest) = take::<8>(rest).ok_or_else(short)?;
        let (salt, rest) = take::<16>(rest).ok_or_else(short)?;
        let (nonce, _) = take::<24>(rest).ok_or_else(short)?;
        let content = match content {
            b'm' => Content::Mesh,
            b'h' => Content::House,
            _ => return Err(BackupError::Damaged("its header does not say what it holds")),
        };
        let cost = Cost { passes: u32::from_be_bytes(passes), memory: u64::from_be_bytes(memory) };
        let reasonable =
            (1..=MOST_PASSES).contains(&cost.passes) && (LEAST_MEMORY..=MOST_MEMORY).contains(&cost.memory);
        if version == 0 || kdf != ARGON2ID || zero != 0 || !reasonable {
            return Err(BackupError::Damaged("its header makes no sense"));
        }
        Ok(Self { content, cost, salt, nonce })
    }

    /// Reads it, for who wants a backup of one kind.
    pub fn expect(bytes: &[u8], wanted: Content) -> Result<Self, BackupError> {
        let header = Self::parse(bytes)?;
        match header.content == wanted {
            true => Ok(header),
            false => Err(BackupError::Other { found: header.content, wanted }),
        }
    }

    /// Makes the key. Takes as long and as much memory as the header says.
    pub fn key(&self, passphrase: &[u8]) -> Result<BackupKey, BackupError> {
        let memory = usize::try_from(self.cost.memory).map_err(|_| BackupError::Memory)?;
        let mut key = Zeroizing::new([0; 32]);
        let (passes, algorithm) = (u64::from(self.cost.passes), PasswordHashAlgorithm::Argon2id13);
        crypto_pwhash(&mut key[..], passphrase, &self.salt, passes, memory, algorithm)
            .map_err(|_| BackupError::Memory)?;
        Ok(BackupKey(key))
    }
}

/// The key of one backup. It is wiped and does not print.
pub struct BackupKey(Zeroizing<[u8; 32]>);

impl BackupKey {
    /// From its bytes: for tests, which cannot wait for a passphrase.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl std::fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BackupKey")
    }
}

fn take<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    bytes.split_first_chunk::<N>().map(|(taken, rest)| (*taken, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheap() -> Cost {
        Cost { passes: 1, memory: 8192 }
    }

    #[test]
    fn a_header_comes_back_and_strange_ones_are_refused() {
        let header = Header::fresh(Content::Mesh, cheap());
        let bytes = header.to_bytes();
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(
            Header::expect(&bytes, Content::House),
            Err(BackupError::Other { found: Content::Mesh, wanted: Content::House })
        );
        assert_eq!(Header::parse(b"PK\x03\x04"), Err(BackupError::NotOne));
        assert_eq!(Header::parse(b"CMB"), Err(BackupError::NotOne));
        assert_eq!(Header::parse(b"CMB1 and a salt"), Err(BackupError::Earlier("CMB1")));
        assert_eq!(Header::parse(b"CMB2 and a salt"), Err(BackupError::Earlier("CMB2")));
        for end in 8..HEADER {
            assert!(matches!(Header::parse(&bytes[..end]), Err(BackupError::Damaged(_))), "{end}");
        }
        let changed = |at: usize, value: u8| {
            let mut bytes = bytes;
            bytes[at] = value;
            Header::parse(&bytes)
        };
        assert_eq!(changed(8, 2), Err(BackupError::TooNew(2)));
        for (at, value) in [(8, 0), (9, b'x'), (10, 1), (11, 1), (12, 1), (15, 0), (16, 1)] {
            assert!(matches!(changed(at, value), Err(BackupError::Damaged(_))), "{at}");
        }
    }

    #[test]
    fn a_wrong_passphrase_is_told_from_a_damaged_file() {
        let sealed = seal(Content::Mesh, cheap(), b"right", b"what is kept").unwrap();
        assert_eq!(open(Content::Mesh, b"right", &sealed).unwrap().as_slice(), b"what is kept");
        assert_eq!(open(Content::Mesh, b"wrong", &sealed), Err(BackupError::Passphrase));
        for at in HEADER..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(matches!(open(Content::Mesh, b"right", &changed), Err(BackupError::Damaged(_))), "{at}");
        }
        for end in HEADER..sealed.len() {
            assert!(matches!(open(Content::Mesh, b"right", &sealed[..end]), Err(BackupError::Damaged(_))), "{end}");
        }
    }
}
