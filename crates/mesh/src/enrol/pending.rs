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

/// The keys of this user that wait for an answer. While this exists, no other process uses them.
pub(super) struct PendingKeys {
    directory: PathBuf,
    _lock: fs::File,
}

/// A key that waits for an answer.
pub(super) struct Pending {
    path: PathBuf,
    key: SecretKey,
    _keys: Option<PendingKeys>,
}

impl PendingKeys {
    pub(super) fn lock(places: &Places) -> io::Result<Self> {
        let directory = places.config_dir().to_owned();
        files::make_private_dir(&directory)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(directory.join(".joining.lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { directory, _lock: lock })
    }

    /// The key for a purpose, from an earlier attempt or new.
    pub(super) fn key(&self, purpose: &str) -> io::Result<Pending> {
        let path = self.directory.join(format!(".joining-{}", &hex(&sha256(purpose.as_bytes()))[..32]));
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
        Ok(Pending { path, key, _keys: None })
    }
}

impl Pending {
    /// The only key that is needed for a purpose.
    pub(super) fn of(places: &Places, purpose: &str) -> io::Result<Self> {
        let keys = PendingKeys::lock(places)?;
        let key = keys.key(purpose)?;
        Ok(Self { _keys: Some(keys), ..key })
    }

    pub(super) fn key(&self) -> &SecretKey {
        &self.key
    }

    /// It is needed no more.
    pub(super) fn forget(&self) {
        fs::remove_file(&self.path).ok();
    }
}
