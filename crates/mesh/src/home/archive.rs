//! `keypair-archive.json`: what is left of keys that were replaced, for what was sealed for them and is still on its way.
//!
//! Invariant: only the half that opens boxes is kept; what could sign in the member's name is not. The file is replaced
//! whole, with mode 0600. A file that makes no sense is set aside under another name and takes nothing with it but
//! itself: whatever in it can be read is used.
//!
//! A key whose time is over is not used any more, and taken out of the file at the next opportunity. That is no promise
//! that nothing of it is left on the disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostel_syncpoint::points;
use hostel_wire::encoding::{hex, unhex_array};
use hostel_wire::keys::{BoxKey, PublicKey, SecretKey};
use hostel_wire::{iso, parse_iso};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::{Zeroize, Zeroizing};

use super::files;

/// The largest archive that is read: thousands of keys.
const LIMIT: u64 = 4 * 1024 * 1024;

/// Keys that are read of one.
const MOST: usize = 4096;

const SCHEMA: u64 = 1;

/// No key is kept longer, whatever the file says.
const LONGEST_MS: u64 = 30 * 24 * 3_600_000;

/// A key that was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedKey {
    /// The member's public key of that time.
    pub public: PublicKey,
    /// What opens boxes for it.
    pub key: BoxKey,
    /// When it was replaced, in milliseconds since 1970.
    pub archived_ms: u64,
    /// Until when it is used.
    pub expires_ms: u64,
}

impl ArchivedKey {
    /// Of a key that is being replaced.
    #[must_use]
    pub fn of(key: &SecretKey, now_ms: u64, days: u32) -> Self {
        let life = u64::from(days) * 24 * 3_600_000;
        Self {
            public: key.public(),
            key: key.box_key(),
            archived_ms: now_ms,
            expires_ms: now_ms.saturating_add(life.min(LONGEST_MS)),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    ed25519_public: String,
    x25519_public: String,
    x25519_secret: String,
    archived_at: String,
    expires_at: String,
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.x25519_secret.zeroize();
    }
}

impl Stored {
    fn of(key: &ArchivedKey) -> Self {
        Self {
            ed25519_public: key.public.hex(),
            x25519_public: hex(key.key.public()),
            x25519_secret: hex(key.key.secret()),
            archived_at: iso(key.archived_ms),
            expires_at: iso(key.expires_ms),
        }
    }

    /// The key, if everything says the same.
    fn key(&self) -> Option<ArchivedKey> {
        let secret = Zeroizing::new(unhex_array::<32>(&self.x25519_secret)?);
        let (public, key) = (PublicKey::from_hex(&self.ed25519_public)?, BoxKey::from_bytes(&secret));
        let fits = public.x25519().ok()? == *key.public() && unhex_array::<32>(&self.x25519_public)? == *key.public();
        let (archived_ms, expires_ms) = (parse_iso(&self.archived_at)?, parse_iso(&self.expires_at)?);
        fits.then_some(ArchivedKey { public, key, archived_ms, expires_ms })
    }
}

/// The keys of an archive, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archive {
    keys: Vec<ArchivedKey>,
}

/// An archive that was read.
#[derive(Debug, Default)]
pub struct Read {
    /// Everything in it that could be read.
    pub archive: Archive,
    /// Where the file was put, if not all of it could.
    pub set_aside: Option<PathBuf>,
}

impl Archive {
    /// Reads a file; without one there are no keys. One that makes no sense is set aside, and what could be read of it is
    /// written anew.
    pub fn open(path: &Path, now_ms: u64) -> io::Result<Read> {
        let bytes = match files::read_bounded(path, LIMIT) {
            Ok(None) => return Ok(Read::default()),
            Ok(Some(bytes)) => Zeroizing::new(bytes),
            // Nobody but us writes it, and nothing of ours is that long.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Zeroizing::new(Vec::new()),
            Err(error) => return Err(error),
        };
        let (mut archive, whole) = Self::parse(&bytes);
        // One from a clock that was ahead would be used for ever.
        for key in &mut archive.keys {
            key.expires_ms = key.expires_ms.min(now_ms.saturating_add(LONGEST_MS));
        }
        if whole {
            return Ok(Read { archive, set_aside: None });
        }
        let aside = path.with_file_name(format!("{ARCHIVE}.malformed-{now_ms}"));
        fs::rename(path, &aside)?;
        if !archive.keys.is_empty() {
            archive.write(path)?;
        }
        Ok(Read { archive, set_aside: Some(aside) })
    }

    /// What can be read of a text, and whether that is all of it.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> (Self, bool) {
        let Ok(document) = serde_json::from_slice::<Value>(bytes) else { return (Self::default(), false) };
        let listed = document.get("keys").and_then(Value::as_array);
        let known = document.get("schema_version").and_then(Value::as_u64) == Some(SCHEMA);
        let Some(listed) = listed.filter(|_| known) else { return (Self::default(), false) };
        let mut archive = Self::default();
        for entry in listed.iter().take(MOST) {
            let read = Stored::deserialize(entry).ok().and_then(|stored| stored.key());
            if let Some(key) = read.filter(|key| !archive.holds(&key.public)) {
                archive.keys.push(key);
            }
        }
        let whole = archive.keys.len() == listed.len();
        (archive, whole)
    }

    /// Replaces the file; without keys there is none.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if self.keys.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        #[derive(Serialize)]
        struct Document {
            schema_version: u64,
            keys: Vec<Stored>,
        }
        let keys = self.keys.iter().map(Stored::of).collect();
        let text = Zeroizing::new(serde_json::to_vec_pretty(&Document { schema_version: SCHEMA, keys })?);
        points::KEY_ARCHIVE_WRITTEN.reach_if_ok(files::write_atomic(path, &text, 0o600))
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn keys(&self) -> &[ArchivedKey] {
        &self.keys
    }

    /// Whether a key is among them.
    #[must_use]
    pub fn holds(&self, public: &PublicKey) -> bool {
        self.keys.iter().any(|key| key.public == *public)
    }

    /// Puts a key in; one that is there already stays as it is.
    pub fn add(&mut self, key: ArchivedKey) {
        if !self.holds(&key.public) {
            self.keys.push(key);
        }
    }

    /// Puts in what another archive of the same member has.
    pub fn merge(&mut self, other: Self) {
        other.keys.into_iter().for_each(|key| self.add(key));
        self.keys.sort_by_key(|key| key.archived_ms);
    }

    /// Takes a key out.
    pub fn remove(&mut self, public: &PublicKey) {
        self.keys.retain(|key| key.public != *public);
    }

    /// Takes out those whose time is over; says how many.
    pub fn sweep(&mut self, now_ms: u64) -> usize {
        let before = self.keys.len();
        self.keys.retain(|key| now_ms < key.expires_ms);
        before - self.keys.len()
    }
}

/// The file's name.
pub(super) const ARCHIVE: &str = "keypair-archive.json";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const NOW: u64 = 1_800_000_000_000;
    const DAY: u64 = 24 * 3_600_000;

    fn filled(count: usize) -> Archive {
        let mut archive = Archive::default();
        for number in 0..count {
            archive.add(ArchivedKey::of(&SecretKey::generate(), NOW + number as u64 * DAY, 7));
        }
        archive
    }

    #[test]
    fn what_is_kept_comes_back_and_signs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ARCHIVE);
        assert_eq!(Archive::open(&path, NOW).unwrap().archive, Archive::default());
        let key = SecretKey::generate();
        let mut archive = filled(2);
        archive.add(ArchivedKey::of(&key, NOW, 7));
        archive.add(ArchivedKey::of(&key, NOW + 1, 7));
        assert_eq!(archive.keys().len(), 3, "once");
        archive.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Archive::open(&path, NOW).unwrap();
        assert_eq!((read.archive.clone(), read.set_aside), (archive.clone(), None));
        assert!(read.archive.holds(&key.public()) && read.archive.keys()[2].key == key.box_key());
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&key.to_hex()[..64]), "the seed is gone");
        archive.remove(&key.public());
        assert_eq!(archive.sweep(NOW + 7 * DAY), 1);
        assert_eq!(archive.sweep(NOW + 9 * DAY), 1);
        archive.write(&path).unwrap();
        assert!(!path.exists(), "an empty archive is no file");
        archive.write(&path).unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_set_aside_and_the_rest_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ARCHIVE);
        for text in ["", "{", "[]", "{}", r#"{"schema_version":2,"keys":[]}"#, r#"{"schema_version":1,"keys":{}}"#] {
            fs::write(&path, text).unwrap();
            let read = Archive::open(&path, NOW).unwrap();
            assert!(read.archive.keys().is_empty() && !path.exists(), "{text}");
            assert_eq!(fs::read_to_string(read.set_aside.unwrap()).unwrap(), text);
        }
        let archive = filled(3);
        archive.write(&path).unwrap();
        let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        document["keys"][1]["x25519_public"] = "00".repeat(32).into();
        fs::write(&path, document.to_string()).unwrap();
        let read = Archive::open(&path, NOW).unwrap();
        assert_eq!(read.archive.keys(), [archive.keys()[0].clone(), archive.keys()[2].clone()]);
        assert!(read.set_aside.is_some());
        assert_eq!(Archive::open(&path, NOW).unwrap().set_aside, None, "what was written anew is whole");
        let huge = fs::File::create(&path).unwrap();
        huge.set_len(LIMIT + 1).unwrap();
        assert!(Archive::open(&path, NOW + 1).unwrap().set_aside.is_some());
    }

    #[test]
    fn no_key_outlives_a_month_whatever_the_clock_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ARCHIVE);
        let mut archive = Archive::default();
        archive.add(ArchivedKey::of(&SecretKey::generate(), NOW + 3650 * DAY, 30));
        archive.write(&path).unwrap();
        let mut read = Archive::open(&path, NOW).unwrap().archive;
        assert_eq!(read.keys()[0].expires_ms, NOW + 30 * DAY);
        assert_eq!(ArchivedKey::of(&SecretKey::generate(), NOW, 400).expires_ms, NOW + 30 * DAY);
        assert_eq!(read.sweep(NOW + 30 * DAY), 1);
    }
}
