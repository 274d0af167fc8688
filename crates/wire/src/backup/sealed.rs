//! A backup in one box: `header | crypto_secretbox_easy | SHA-256 of all before`.

use dryoc::classic::crypto_secretbox::{crypto_secretbox_easy, crypto_secretbox_open_easy};
use zeroize::Zeroizing;

use super::{BackupError, BackupKey, Content, Cost, HEADER, Header};
use crate::fingerprint::sha256;

const MAC: usize = 16;
const SUM: usize = 32;

/// Seals what a passphrase shall keep.
pub fn seal(content: Content, cost: Cost, passphrase: &[u8], plain: &[u8]) -> Result<Vec<u8>, BackupError> {
    let header = Header::fresh(content, cost);
    let key = header.key(passphrase)?;
    Ok(seal_with(&header, &key, plain))
}

/// The same with a key that was made before.
#[must_use]
pub fn seal_with(header: &Header, key: &BackupKey, plain: &[u8]) -> Vec<u8> {
    let mut boxed = vec![0; plain.len() + MAC];
    // The sizes are right by construction; were it to fail, what is written opens nowhere.
    crypto_secretbox_easy(&mut boxed, plain, &header.nonce, &key.0).ok();
    let mut bytes = [&header.to_bytes()[..], &boxed].concat();
    let sum = sha256(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

/// Opens a backup of this kind. The digest comes first: only what is whole is worth the work of making a key.
pub fn open(wanted: Content, passphrase: &[u8], bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, BackupError> {
    let header = Header::expect(bytes, wanted)?;
    let boxed = whole(bytes)?;
    let key = header.key(passphrase)?;
    unbox(&header, &key, boxed)
}

/// The same with a key that was made before.
pub fn open_with(wanted: Content, key: &BackupKey, bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, BackupError> {
    let header = Header::expect(bytes, wanted)?;
    unbox(&header, key, whole(bytes)?)
}

/// The box of a file that is as it was written.
fn whole(bytes: &[u8]) -> Result<&[u8], BackupError> {
    let (said, sum) = bytes.split_last_chunk::<SUM>().ok_or(BackupError::Damaged("its end is missing"))?;
    let boxed = said.get(HEADER..).filter(|boxed| boxed.len() >= MAC);
    let boxed = boxed.ok_or(BackupError::Damaged("its end is missing"))?;
    match sha256(said) == *sum {
        true => Ok(boxed),
        false => Err(BackupError::Damaged("its bytes are not those that were written")),
    }
}

fn unbox(header: &Header, key: &BackupKey, boxed: &[u8]) -> Result<Zeroizing<Vec<u8>>, BackupError> {
    let mut plain = Zeroizing::new(vec![0; boxed.len().saturating_sub(MAC)]);
    crypto_secretbox_open_easy(&mut plain, boxed, &header.nonce, &key.0).map_err(|_| BackupError::Passphrase)?;
    Ok(plain)
}
