//! The key of a file, sealed for its readers: for one member by its public key, for everybody with `general`'s key of
//! the day, so that who was revoked before cannot open it.

use hostel_wire::sealed::{FileKey, TopicKey};
use zeroize::Zeroizing;

use crate::mesh::core::Core;
use crate::topics::GENERAL;

/// What begins a key that is sealed for everybody.
const MARK: &str = "general";

/// A copy for everybody.
pub(crate) fn for_all(key: &FileKey, epoch: u64, general: &TopicKey) -> String {
    let sealed = general.seal(key.as_bytes());
    format!("{MARK}:{epoch}:{}:{}", sealed.nonce, sealed.ciphertext)
}

/// The epoch of a copy for everybody; None for one that is sealed otherwise.
pub(crate) fn epoch(text: &str) -> Option<u64> {
    text.strip_prefix(MARK)?.strip_prefix(':')?.split(':').next()?.parse().ok()
}

/// Opens our copy, whichever kind it is.
pub(crate) fn open(core: &Core, text: &str) -> Option<FileKey> {
    let Some(rest) = text.strip_prefix(MARK).and_then(|rest| rest.strip_prefix(':')) else {
        // It may have been sealed before our key was replaced.
        let earlier = || {
            let (key, archived) = core.keys.try_others(|key| FileKey::open_seal_with(text, key).ok())?;
            if archived {
                core.metrics.decrypt_archived();
            }
            Some(key)
        };
        return FileKey::open_seal(text, &core.key().key).ok().or_else(earlier);
    };
    let mut parts = rest.splitn(3, ':');
    let epoch = parts.next()?.parse().ok()?;
    let (nonce, ciphertext) = (parts.next()?, parts.next()?);
    let plain = Zeroizing::new(core.topics.key(GENERAL, epoch)?.open_parts(nonce, ciphertext).ok()?);
    let bytes: [u8; 32] = plain.as_slice().try_into().ok()?;
    Some(FileKey::from_bytes(bytes))
}
