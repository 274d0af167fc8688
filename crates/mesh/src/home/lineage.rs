//! `keypair-lineage.json`: how the member's key came after its earlier ones, in what both keys signed at each rotation.
//!
//! It is for a broker whose records are older than the last rotations: put back from a backup it knows an earlier key, and
//! can follow from that one to the key that counts. Nothing in it is secret, and nothing in it can sign: who reads it learns
//! which keys the member had, which everybody in the mesh was told.
//!
//! Invariant: it ends with the key that counts, or it is empty. A file that makes no sense is set aside and missed by nobody
//! but such a broker.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostel_syncpoint::points;
use hostel_wire::frames::client::Succession;
use hostel_wire::keys::PublicKey;
use serde::{Deserialize, Serialize};

use super::files;

/// Rotations that are kept; who rotates more often between two backups of the broker is not followed.
pub const MOST: usize = 64;

const LIMIT: u64 = 256 * 1024;
const SCHEMA: u32 = 1;

/// The rotations, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    steps: Vec<Succession>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    schema_version: u32,
    rotations: Vec<Succession>,
}

impl Lineage {
    /// What of a file leads to this key, and where the file was put if it makes no sense.
    pub fn open(path: &Path, current: &PublicKey, now_ms: u64) -> io::Result<(Self, Option<PathBuf>)> {
        let bytes = match files::read_bounded(path, LIMIT) {
            Ok(None) => return Ok((Self::default(), None)),
            Ok(Some(bytes)) => bytes,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Vec::new(),
            Err(error) => return Err(error),
        };
        let stored = serde_json::from_slice::<Stored>(&bytes).ok().filter(|stored| stored.schema_version == SCHEMA);
        let Some(stored) = stored else {
            let aside = path.with_file_name(format!("keypair-lineage.json.malformed-{now_ms}"));
            fs::rename(path, &aside)?;
            return Ok((Self::default(), Some(aside)));
        };
        let mut lineage = Self { steps: stored.rotations };
        lineage.end_with(current);
        Ok((lineage, None))
    }

    /// Keeps what leads to a key, and nothing else: what comes after it was never finished, or is of another time.
    fn end_with(&mut self, key: &PublicKey) {
        let key = key.hex();
        let end = self.steps.iter().rposition(|step| step.new_pubkey == key).map_or(0, |last| last + 1);
        self.steps.truncate(end);
        let broken = self.steps.windows(2).rposition(|pair| match pair {
            [one, two] => one.new_pubkey != two.old_pubkey,
            _ => false,
        });
        let excess = self.steps.len().saturating_sub(MOST);
        self.steps.drain(..broken.map_or(0, |at| at + 1).max(excess));
    }

    /// Puts a rotation at the end.
    pub fn add(&mut self, old: &PublicKey, step: Succession) {
        self.end_with(old);
        self.steps.push(step);
        let excess = self.steps.len().saturating_sub(MOST);
        self.steps.drain(..excess);
    }

    /// Replaces the file; without rotations there is none.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if self.steps.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let stored = Stored { schema_version: SCHEMA, rotations: self.steps.clone() };
        points::LINEAGE_WRITTEN.reach_if_ok(files::write_atomic(path, &serde_json::to_vec_pretty(&stored)?, 0o600))
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn steps(&self) -> &[Succession] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use hostel_wire::hello::succeed;
    use hostel_wire::keys::SecretKey;

    use super::*;

    fn line(keys: &[SecretKey]) -> Lineage {
        let mut lineage = Lineage::default();
        for pair in keys.windows(2) {
            lineage.add(&pair[0].public(), succeed("mesh", "me", &pair[0], &pair[1], 7));
        }
        lineage
    }

    fn keys(count: usize) -> Vec<SecretKey> {
        (0..count).map(|_| SecretKey::generate()).collect()
    }

    #[test]
    fn what_leads_to_the_key_comes_back_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keypair-lineage.json");
        let keys = keys(4);
        let whole = line(&keys);
        whole.write(&path).unwrap();
        let open = |key: &SecretKey| Lineage::open(&path, &key.public(), 1).unwrap();
        assert_eq!(open(&keys[3]), (whole.clone(), None));
        assert_eq!(open(&keys[1]).0.steps(), &whole.steps()[..1], "the rest was not finished, or was taken back");
        assert_eq!(open(&keys[0]).0, Lineage::default());
        assert_eq!(open(&SecretKey::generate()).0, Lineage::default());
        let text = fs::read_to_string(&path).unwrap();
        assert!(keys.iter().all(|key| !text.contains(&key.to_hex()[..64])), "no secret is in it");
        Lineage::default().write(&path).unwrap();
        Lineage::default().write(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_gap_ends_it_and_it_does_not_grow() {
        let (one, two) = (keys(3), keys(3));
        let mut broken = line(&one);
        broken.steps.extend(line(&two).steps);
        broken.end_with(&two[2].public());
        assert_eq!(broken, line(&two), "only what hangs together");
        let mut other = line(&one);
        other.add(&two[0].public(), succeed("mesh", "me", &two[0], &two[1], 7));
        assert_eq!(other.steps().len(), 1, "a key from elsewhere begins anew");
        let many = keys(MOST + 6);
        let long = line(&many);
        assert_eq!((long.steps().len(), &long.steps()[0].old_pubkey), (MOST, &many[5].public().hex()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keypair-lineage.json");
        long.write(&path).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < LIMIT);
    }

    #[test]
    fn nonsense_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keypair-lineage.json");
        let key = SecretKey::generate().public();
        for text in ["", "{", "[]", r#"{"schema_version":2,"rotations":[]}"#] {
            fs::write(&path, text).unwrap();
            let (lineage, aside) = Lineage::open(&path, &key, 9).unwrap();
            assert!(
                lineage.steps().is_empty() && aside.is_some_and(|aside| aside.exists()) && !path.exists(),
                "{text}"
            );
        }
        fs::File::create(&path).unwrap().set_len(LIMIT + 1).unwrap();
        assert!(Lineage::open(&path, &key, 9).unwrap().1.is_some());
    }
}
