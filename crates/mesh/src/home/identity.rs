//! The member's key on this host.
//!
//! Invariant: `keypair.json` holds the key that `config.json` has registered. Another one in it (a member that has
//! joined again, a restored file) is set aside, never overwritten: somebody may still need it. The exception is a key that
//! was replaced: what is still needed of it is in the archive, and the rest must not lie around.

use std::fs;
use std::io;
use std::path::PathBuf;

use hostel_syncpoint::points;
use hostel_wire::encoding;
use hostel_wire::iso;
use hostel_wire::keys::SecretKey;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::archive::Archive;
use super::{Membership, MeshDir, files};

const LIMIT: u64 = 16 * 1024;
const SCHEMA: u32 = 1;

/// Why a member's key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A member's key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The key.
    pub key: SecretKey,
    /// Where another key was put that stood in the file.
    pub set_aside: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Keypair {
    schema_version: u32,
    ed25519_public: String,
    ed25519_secret: String,
    x25519_public: String,
    x25519_secret: String,
    created_at: String,
}

impl Drop for Keypair {
    fn drop(&mut self) {
        self.ed25519_secret.zeroize();
        self.x25519_secret.zeroize();
    }
}

impl Keypair {
    fn of(key: &SecretKey, now_ms: u64) -> Self {
        Self {
            schema_version: SCHEMA,
            ed25519_public: key.public().hex(),
            ed25519_secret: key.to_hex().to_string(),
            x25519_public: encoding::hex(&key.x25519_public()),
            x25519_secret: encoding::hex(&*key.x25519_secret()),
            created_at: iso(now_ms),
        }
    }

    /// The key, if everything in the file says the same.
    fn key(&self) -> Option<SecretKey> {
        let key = SecretKey::from_hex(&self.ed25519_secret).ok()?;
        let same = self.ed25519_public == key.public().hex()
            && self.x25519_public == encoding::hex(&key.x25519_public())
            && self.x25519_secret == *Zeroizing::new(encoding::hex(&*key.x25519_secret()));
        same.then_some(key)
    }
}

/// The key of a member, with `keypair.json` as it should be.
pub fn of_membership(dir: &MeshDir, membership: &Membership, now_ms: u64) -> Result<Identity, IdentityError> {
    keep(dir, &membership.key, now_ms).map_err(|source| IdentityError::Io { path: dir.keypair(), source })
}

fn keep(dir: &MeshDir, key: &SecretKey, now_ms: u64) -> io::Result<Identity> {
    let path = dir.keypair();
    let mut set_aside = None;
    if let Some(bytes) = files::read_bounded(&path, LIMIT)?.map(Zeroizing::new) {
        let kept = serde_json::from_slice::<Keypair>(&bytes).ok().and_then(|kept| kept.key());
        if kept.as_ref() == Some(key) {
            return Ok(Identity { key: key.clone(), set_aside });
        }
        if !kept.is_some_and(|kept| was_replaced(dir, &kept)) {
            let aside = path.with_file_name(format!("keypair.json.old-{now_ms}"));
            fs::rename(&path, &aside)?;
            set_aside = Some(aside);
        }
    }
    write(dir, key, now_ms)?;
    Ok(Identity { key: key.clone(), set_aside })
}

/// Writes `keypair.json`, in place of the one that is there.
pub fn write(dir: &MeshDir, key: &SecretKey, now_ms: u64) -> io::Result<()> {
    let text = Zeroizing::new(serde_json::to_vec_pretty(&Keypair::of(key, now_ms))?);
    points::KEYPAIR_WRITTEN.reach_if_ok(files::write_atomic(&dir.keypair(), &text, 0o600))
}

/// Whether what is needed of a key is in the archive.
fn was_replaced(dir: &MeshDir, key: &SecretKey) -> bool {
    let archive = files::read_bounded(&dir.keypair_archive(), 4 * 1024 * 1024).ok().flatten().map(Zeroizing::new);
    archive.is_some_and(|bytes| Archive::parse(&bytes).0.holds(&key.public()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn written_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mesh = MeshDir::at(dir.path());
        let key = SecretKey::generate();
        assert_eq!(keep(&mesh, &key, 7).unwrap().set_aside, None);
        assert_eq!(fs::metadata(mesh.keypair()).unwrap().permissions().mode() & 0o777, 0o600);
        let written = fs::read(mesh.keypair()).unwrap();
        let file: Keypair = serde_json::from_slice(&written).unwrap();
        assert_eq!(file.key(), Some(key.clone()));
        assert_eq!(keep(&mesh, &key, 8).unwrap().set_aside, None);
        assert_eq!(fs::read(mesh.keypair()).unwrap(), written, "nothing was to be done");
    }

    #[test]
    fn another_key_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mesh = MeshDir::at(dir.path());
        let (old, new) = (SecretKey::generate(), SecretKey::generate());
        keep(&mesh, &old, 7).unwrap();
        let aside = keep(&mesh, &new, 8).unwrap().set_aside.unwrap();
        let file: Keypair = serde_json::from_slice(&fs::read(aside).unwrap()).unwrap();
        assert_eq!(file.key(), Some(old));

        let mut mixed = Keypair::of(&new, 9);
        mixed.x25519_public = "00".repeat(32);
        assert_eq!(mixed.key(), None);
        fs::write(mesh.keypair(), serde_json::to_vec(&mixed).unwrap()).unwrap();
        assert!(keep(&mesh, &new, 10).unwrap().set_aside.is_some());
        fs::write(mesh.keypair(), "{").unwrap();
        assert!(keep(&mesh, &new, 11).unwrap().set_aside.is_some());
    }

    #[test]
    fn a_key_that_was_replaced_does_not_lie_around() {
        use crate::home::archive::ArchivedKey;

        let dir = tempfile::tempdir().unwrap();
        let mesh = MeshDir::at(dir.path());
        let (old, new) = (SecretKey::generate(), SecretKey::generate());
        keep(&mesh, &old, 7).unwrap();
        let mut archive = Archive::default();
        archive.add(ArchivedKey::of(&old, 8, 7));
        archive.write(&mesh.keypair_archive()).unwrap();
        assert_eq!(keep(&mesh, &new, 9).unwrap().set_aside, None);
        let file: Keypair = serde_json::from_slice(&fs::read(mesh.keypair()).unwrap()).unwrap();
        assert_eq!(file.key(), Some(new));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
