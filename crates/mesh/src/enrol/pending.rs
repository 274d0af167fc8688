//! Keys of members to be: kept before a broker is asked, taken up again when its answer was lost.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;

use hostel_syncpoint::points;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use hostel_wire::keys::SecretKey;
use rustix::fs::FlockOperation;
use zeroize::Zeroizing;

use crate::home::{Places, files};

/// A key that waits for an answer. While it is there, no other process uses it.
pub(super) struct Pending {
    path: PathBuf,
    key: SecretKey,
    _lock: fs::File,
}

impl Pending {
    /// The key for a purpose, from an earlier attempt or new.
    pub(super) fn of(places: &Places, purpose: &str) -> io::Result<Self> {
        let dir = places.config_dir();
        files::make_private_dir(dir)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(dir.join(".joining.lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let path = dir.join(format!(".joining-{}", &hex(&sha256(purpose.as_bytes()))[..32]));
        let kept = files::read_bounded(&path, 1024)?.map(Zeroizing::new);
        let kept = kept.and_then(|bytes| SecretKey::from_hex(std::str::from_utf8(&bytes).ok()?.trim()).ok());
        let key = match kept {
            Some(key) => key,
            None => {
                let key = SecretKey::generate();
                points::PENDING_KEY_WRITTEN.reach_if_ok(files::write_atomic(&path, key.to_hex().as_bytes(), 0o600))?;
                key
            }
        };
        Ok(Self { path, key, _lock: lock })
    }

    pub(super) fn key(&self) -> &SecretKey {
        &self.key
    }

    /// It is needed no more.
    pub(super) fn forget(&self) {
        fs::remove_file(&self.path).ok();
    }
}
