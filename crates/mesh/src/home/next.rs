//! `keypair.next.json`: the key that will take the place of the member's, from when it is drawn until the change is done.
//!
//! Invariant: a broker hears of a key only when it stands here, so that no crash can leave a member with a key that
//! nobody has. Which of the two counts is the broker's to say; the file only makes sure that both are at hand.

use std::fs;
use std::io;
use std::path::Path;

use hostel_syncpoint::points;
use hostel_wire::iso;
use hostel_wire::keys::{PublicKey, SecretKey};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::files;

const LIMIT: u64 = 16 * 1024;
const SCHEMA: u32 = 1;

/// A change of keys that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// Of which mesh.
    pub mesh_id: String,
    /// Of which member.
    pub member_id: String,
    /// The key that is replaced.
    pub old: PublicKey,
    /// The key that takes its place.
    pub key: SecretKey,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    schema_version: u32,
    mesh_id: String,
    member_id: String,
    old_public: String,
    ed25519_public: String,
    ed25519_secret: String,
    created_at: String,
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.ed25519_secret.zeroize();
    }
}

/// What stands in the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Nothing,
    /// A change is under way.
    Change(Box<Next>),
    /// Something that is none.
    Nonsense,
}

impl Next {
    /// Reads the file.
    pub fn read(path: &Path) -> io::Result<Found> {
        match files::read_bounded(path, LIMIT) {
            Ok(None) => Ok(Found::Nothing),
            Ok(Some(bytes)) => Ok(Self::parse(&Zeroizing::new(bytes))),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Found::Nonsense),
            Err(error) => Err(error),
        }
    }

    /// Reads a text.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Found {
        let read = || {
            let stored: Stored = serde_json::from_slice(bytes).ok()?;
            let key = SecretKey::from_hex(&stored.ed25519_secret).ok()?;
            let old = PublicKey::from_hex(&stored.old_public)?;
            let fits = stored.schema_version == SCHEMA && stored.ed25519_public == key.public().hex();
            let (mesh_id, member_id) = (stored.mesh_id.clone(), stored.member_id.clone());
            (fits && old != key.public()).then_some(Self { mesh_id, member_id, old, key })
        };
        read().map_or(Found::Nonsense, |next| Found::Change(Box::new(next)))
    }

    /// Writes the file.
    pub fn write(&self, path: &Path, now_ms: u64) -> io::Result<()> {
        let stored = Stored {
            schema_version: SCHEMA,
            mesh_id: self.mesh_id.clone(),
            member_id: self.member_id.clone(),
            old_public: self.old.hex(),
            ed25519_public: self.key.public().hex(),
            ed25519_secret: self.key.to_hex().to_string(),
            created_at: iso(now_ms),
        };
        points::NEXT_KEY_WRITTEN.reach_if_ok(files::write_atomic(
            path,
            &Zeroizing::new(serde_json::to_vec_pretty(&stored)?),
            0o600,
        ))
    }

    /// Removes the file; that there is none is fine.
    pub fn remove(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_survives_and_nonsense_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keypair.next.json");
        assert_eq!(Next::read(&path).unwrap(), Found::Nothing);
        let next = Next {
            mesh_id: "mesh".into(),
            member_id: "me".into(),
            old: SecretKey::generate().public(),
            key: SecretKey::generate(),
        };
        next.write(&path, 7).unwrap();
        assert_eq!(Next::read(&path).unwrap(), Found::Change(Box::new(next.clone())));
        let text = fs::read_to_string(&path).unwrap();
        let other = SecretKey::generate().public().hex();
        for wrong in ["", "{}", "[]", &text.replace(&next.key.public().hex(), &other), &text.replace(": 1", ": 2")] {
            assert_eq!(Next::parse(wrong.as_bytes()), Found::Nonsense, "{wrong}");
        }
        Next::remove(&path).unwrap();
        Next::remove(&path).unwrap();
        assert_eq!(Next::read(&path).unwrap(), Found::Nothing);
    }
}
