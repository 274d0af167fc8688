//! The `.cmb` files of claudemesh-cli: ASCII `CMB1`, a salt of 16 bytes, a nonce of 24, and one box (XChaCha20-Poly1305)
//! under the key that Argon2id makes of a passphrase with libsodium's interactive cost.
//!
//! Invariant: they are read and never written. They carry no digest of their own: one that was damaged looks like one whose
//! passphrase is another.

use dryoc::classic::crypto_aead_xchacha20poly1305_ietf::crypto_aead_xchacha20poly1305_ietf_decrypt;
use zeroize::Zeroizing;

use super::{BackupError, Content, Cost, Header, take};

const MAGIC: &[u8; 4] = b"CMB1";

/// What the box has beside its content.
const TAG: usize = 16;

/// What libsodium calls interactive.
const COST: Cost = Cost { passes: 2, memory: 64 << 20 };

/// Whether this is such a file.
#[must_use]
pub fn is_earlier(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Opens one. It takes as long as making its key does.
pub fn open_earlier(passphrase: &[u8], bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, BackupError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(BackupError::NotOne)?;
    let short = BackupError::Damaged("it ends inside its header");
    let (salt, rest) = take::<16>(rest).ok_or(short)?;
    let (nonce, sealed) = take::<24>(rest).ok_or(short)?;
    let length = sealed.len().checked_sub(TAG).ok_or(short)?;
    let key = Header { content: Content::Mesh, cost: COST, salt, nonce }.key(passphrase)?;
    let mut plain = Zeroizing::new(vec![0; length]);
    crypto_aead_xchacha20poly1305_ietf_decrypt(&mut plain, sealed, None, &nonce, &key.0)
        .map_err(|_| BackupError::Unopened)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::unhex;

    /// Made with PyNaCl: the passphrase "several words, grüße", salt and nonce the bytes from 0 on.
    const FILE: &str = "434d4231000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f1011121314151617\
        0318f272b2d3bb981ebfe50b6a12ac6ea4eeabdf1dcd96401928e3c8d3150e2678effe84230bc2225f";

    #[test]
    fn what_another_program_sealed_opens() {
        let file = unhex(FILE).unwrap();
        assert!(is_earlier(&file) && !is_earlier(b"HOSTELBK"));
        let words = "several words, grüße".as_bytes();
        assert_eq!(&open_earlier(words, &file).unwrap()[..], br#"{"version":1,"meshes":[]}"#);
        assert_eq!(open_earlier(b"other words", &file), Err(BackupError::Unopened));
        let mut damaged = file.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(open_earlier(words, &damaged), Err(BackupError::Unopened));
        // What is too short is said before any work is done.
        for end in 4..4 + 16 + 24 + TAG {
            assert!(matches!(open_earlier(words, &file[..end]), Err(BackupError::Damaged(_))), "{end}");
        }
        assert_eq!(open_earlier(words, b"CMB"), Err(BackupError::NotOne));
    }
}
