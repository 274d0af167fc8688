//! Files: a key of their own, and their bytes as a secretstream.
//!
//! ```text
//! CMF1 | 24 bytes header of the stream | u16 length | sealed head (JSON) | chunk | … | last chunk
//! ```
//! Each chunk holds `FILE_CHUNK` bytes of the file and 17 of its own; the last one is shorter or equal and marked.
//!
//! Invariant: what comes out of `FileOpener` is a beginning of the file as it was sealed, in order, and never more than the
//! size that its head names; that it is all of it and the right one (size and SHA-256), only `finish` says.

use dryoc::classic::crypto_secretstream_xchacha20poly1305::{
    Header, State, crypto_secretstream_xchacha20poly1305_init_pull as init_pull,
    crypto_secretstream_xchacha20poly1305_init_push as init_push, crypto_secretstream_xchacha20poly1305_pull as pull,
    crypto_secretstream_xchacha20poly1305_push as push,
};
use dryoc::constants::{
    CRYPTO_SECRETSTREAM_XCHACHA20POLY1305_TAG_FINAL as FINAL,
    CRYPTO_SECRETSTREAM_XCHACHA20POLY1305_TAG_MESSAGE as MESSAGE,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::pair::{open_anonymous_with, seal_anonymous};
use super::{OpenError, RootKey, key_of, key_type, unwrap, wrap};
use crate::encoding;
use crate::keys::{BadKey, BoxKey, PublicKey, SecretKey};

/// The bytes of the file in one chunk.
pub const FILE_CHUNK: usize = 256 * 1024;

const MAGIC: &[u8; 4] = b"CMF1";
const HEADER: usize = 24;
const OVERHEAD: usize = 17;
const PROLOGUE: usize = MAGIC.len() + HEADER + 2;
const PURPOSE: &str = "claudemesh-files-0";

/// The key of one file.
#[derive(Clone)]
pub struct FileKey(Zeroizing<[u8; 32]>);

key_type!(FileKey);

impl FileKey {
    /// A copy for one reader.
    pub fn seal_for(&self, to: &PublicKey) -> Result<String, BadKey> {
        seal_anonymous(&self.0[..], to)
    }

    /// Opens one's own copy.
    pub fn open_seal(text: &str, me: &SecretKey) -> Result<Self, OpenError> {
        Self::open_seal_with(text, &me.box_key())
    }

    /// The same with nothing but the x25519 key.
    pub fn open_seal_with(text: &str, me: &BoxKey) -> Result<Self, OpenError> {
        Ok(Self(key_of(&open_anonymous_with(text, me)?)?))
    }

    /// A copy for everybody in the mesh.
    #[must_use]
    pub fn wrap(&self, root: &RootKey) -> String {
        wrap(&Zeroizing::new(root.derive(PURPOSE)), &self.0[..])
    }

    /// Opens everybody's copy.
    pub fn unwrap(text: &str, root: &RootKey) -> Result<Self, OpenError> {
        Ok(Self(unwrap(&Zeroizing::new(root.derive(PURPOSE)), text)?))
    }
}

/// What a file says about itself, sealed with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHead {
    /// Its name, without a path.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Hex.
    pub sha256: String,
}

impl FileHead {
    fn to_bytes(&self) -> Vec<u8> {
        // Text and a number: it can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The bytes a sealed file has.
#[must_use]
pub fn sealed_size(head: &FileHead) -> u64 {
    let chunks = head.size.div_ceil(FILE_CHUNK as u64).max(1);
    let head_bytes = (PROLOGUE + head.to_bytes().len() + OVERHEAD) as u64;
    head.size.saturating_add(head_bytes).saturating_add(chunks.saturating_mul(OVERHEAD as u64))
}

/// The bytes a file of this name has that is this long when sealed; `None` if none is.
#[must_use]
pub fn plain_size(name: &str, sealed: u64) -> Option<u64> {
    let sealed_as = |size| sealed_size(&FileHead { name: name.to_owned(), size, sha256: "0".repeat(64) });
    // It grows with the file: look for it by halves.
    let (mut low, mut high) = (0, sealed);
    while low < high {
        let middle = low + (high - low) / 2;
        match sealed_as(middle) < sealed {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    (sealed_as(low) == sealed).then_some(low)
}

/// Seals a file piece by piece.
pub struct FileSealer {
    state: State,
}

impl FileSealer {
    /// Begins; the bytes are the first of the sealed file. A head of more than 64 KiB cannot be written.
    pub fn new(key: &FileKey, head: &FileHead) -> Result<(Self, Vec<u8>), OpenError> {
        let mut header = Header::default();
        let mut state = State::new();
        init_push(&mut state, &mut header, &key.0);
        let mut sealer = Self { state };
        let sealed = sealer.seal(&head.to_bytes(), MESSAGE);
        let length = u16::try_from(sealed.len()).map_err(|_| OpenError::Encoding)?;
        let first = [&MAGIC[..], &header, &length.to_be_bytes(), &sealed].concat();
        Ok((sealer, first))
    }

    /// Seals the next piece: `FILE_CHUNK` bytes, fewer only with `last`. The last may be empty.
    #[must_use]
    pub fn chunk(&mut self, plain: &[u8], last: bool) -> Vec<u8> {
        self.seal(plain, if last { FINAL } else { MESSAGE })
    }

    fn seal(&mut self, plain: &[u8], tag: u8) -> Vec<u8> {
        let mut sealed = vec![0; plain.len() + OVERHEAD];
        // The sizes are right by construction; were it to fail, what is written opens nowhere.
        push(&mut self.state, &mut sealed, plain, None, tag).ok();
        sealed
    }
}

impl std::fmt::Debug for FileSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileSealer")
    }
}

enum At {
    Prologue,
    Head(usize),
    Chunks,
    End,
}

/// Opens a sealed file as its bytes come in.
pub struct FileOpener {
    key: FileKey,
    state: State,
    at: At,
    waiting: Vec<u8>,
    head: Option<FileHead>,
    hash: Sha256,
    written: u64,
}

impl FileOpener {
    /// Begins.
    #[must_use]
    pub fn new(key: FileKey) -> Self {
        let (state, hash) = (State::new(), Sha256::new());
        Self { key, state, at: At::Prologue, waiting: Vec::new(), head: None, hash, written: 0 }
    }

    /// What the file says about itself, once that much has come in.
    #[must_use]
    pub fn head(&self) -> Option<&FileHead> {
        self.head.as_ref()
    }

    /// Takes the next bytes and appends what they open to `plain`. It holds back at most one chunk.
    pub fn push(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), OpenError> {
        while !bytes.is_empty() {
            let wanted = match self.at {
                At::Prologue => PROLOGUE,
                At::Head(length) => length,
                At::Chunks => FILE_CHUNK + OVERHEAD,
                // Nothing may come after the end.
                At::End => return Err(OpenError::Encoding),
            };
            let (now, later) = bytes.split_at(bytes.len().min(wanted - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            bytes = later;
            // Whether a chunk is the last one its tag says, after it has been read whole: a short one waits for `finish`.
            if self.waiting.len() == wanted {
                self.step(plain)?;
            }
        }
        Ok(())
    }

    /// The end of the bytes: appends the last piece, and says whether the file is whole and the one it claims to be.
    pub fn finish(mut self, plain: &mut Vec<u8>) -> Result<FileHead, OpenError> {
        if matches!(self.at, At::Chunks) && !self.waiting.is_empty() {
            self.step(plain)?;
        }
        if !matches!(self.at, At::End) {
            return Err(OpenError::Truncated);
        }
        let head = self.head.take().ok_or(OpenError::Truncated)?;
        let sum = encoding::unhex_array::<32>(&head.sha256).ok_or(OpenError::Encoding)?;
        let hash: [u8; 32] = self.hash.finalize().into();
        if head.size == self.written && bool::from(hash.ct_eq(&sum)) { Ok(head) } else { Err(OpenError::Refused) }
    }

    fn step(&mut self, plain: &mut Vec<u8>) -> Result<(), OpenError> {
        let taken = std::mem::take(&mut self.waiting);
        match self.at {
            At::Prologue => {
                let header = taken.strip_prefix(MAGIC).ok_or(OpenError::Encoding)?;
                let (header, length) = header.split_first_chunk::<HEADER>().ok_or(OpenError::Encoding)?;
                let length = length.first_chunk::<2>().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
                if length <= OVERHEAD {
                    return Err(OpenError::Encoding);
                }
                init_pull(&mut self.state, header, &self.key.0);
                self.at = At::Head(length);
            }
            At::Head(_) => {
                let mut opened = Vec::new();
                if self.open(&taken, &mut opened)? == FINAL {
                    return Err(OpenError::Truncated);
                }
                self.head = Some(serde_json::from_slice(&opened).map_err(|_| OpenError::Encoding)?);
                self.at = At::Chunks;
            }
            At::Chunks => {
                let before = plain.len();
                let tag = self.open(&taken, plain)?;
                let length = plain.len().saturating_sub(before);
                self.written += length as u64;
                // Whoever sealed it decides how long it is; who fetches it has been told, and takes no more.
                if self.head.as_ref().is_none_or(|head| self.written > head.size) {
                    plain.truncate(before);
                    return Err(OpenError::Refused);
                }
                self.hash.update(plain.get(before..).unwrap_or_default());
                if tag == FINAL {
                    self.at = At::End;
                } else if length < FILE_CHUNK {
                    return Err(OpenError::Truncated);
                }
                self.waiting = taken;
                self.waiting.clear();
            }
            At::End => {}
        }
        Ok(())
    }

    fn open(&mut self, sealed: &[u8], plain: &mut Vec<u8>) -> Result<u8, OpenError> {
        let length = sealed.len().checked_sub(OVERHEAD).ok_or(OpenError::Truncated)?;
        let before = plain.len();
        plain.resize(before + length, 0);
        let mut tag = 0;
        let opened = pull(&mut self.state, &mut plain[before..], &mut tag, sealed, None);
        if opened.is_err() {
            plain.truncate(before);
            return Err(OpenError::Refused);
        }
        Ok(tag)
    }
}

impl std::fmt::Debug for FileOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileOpener")
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
