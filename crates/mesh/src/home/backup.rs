//! What a backup of one mesh holds, and how it gets back into a directory.
//!
//! Invariant: everything that makes this host the member it is, and nothing that lets others in here: the token of
//! loopback HTTP is never part of it. The entry in `config.json` is written last: until it stands there, nothing of what
//! was put back is used. An identity that is in the way is kept beside, never overwritten.
//!
//! It knows no passphrase: what it gives is to be sealed by whoever asks.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hostel_wire::encoding::{b64, unb64};
use hostel_wire::iso;
use hostel_wire::keys::SecretKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::{Zeroize as _, Zeroizing};

use super::archive::{Archive, ArchivedKey};
use super::settings::Crypto;
use super::{ConfigError, Membership, Memberships, MeshDir, PidLock, Places, files};
use crate::schema;

/// The version of the document.
const FORMAT: u32 = 1;

/// Files that are part of it, with their modes.
const FILES: [(&str, u32); 7] = [
    // In the order in which a rotation writes them: whatever it does meanwhile, what was read belongs together.
    ("keypair.next.json", 0o600),
    (ARCHIVE, 0o600),
    ("keypair-lineage.json", 0o600),
    ("keypair.json", 0o600),
    ("topics.json", 0o600),
    ("config.toml", 0o644),
    ("schema_version", 0o644),
];

const ARCHIVE: &str = "keypair-archive.json";

/// State of another member, which is not this one's.
const STATE: [&str; 8] = [
    "outbox.db",
    "inbox.db",
    "roster.json",
    "sessions.json",
    "files.json",
    "topics.json",
    ARCHIVE,
    "keypair-lineage.json",
];

/// The largest file that is taken, and the largest document that is read.
const LARGEST: u64 = 16 * 1024 * 1024;
const MOST: usize = 96 * 1024 * 1024;

/// Meshes of a backup that are named where it has to be said which one is meant.
const SHOWN: usize = 32;

/// How often it is looked whether keys that are just being changed have settled.
const LOOKS: u32 = 40;
const LOOK: Duration = Duration::from_millis(50);

/// Why nothing was backed up or put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupFault {
    /// The mesh is not joined here.
    #[error("the mesh `{0}` is not joined on this host")]
    NotJoined(String),
    /// A daemon has the directory.
    #[error("the daemon of `{mesh}` runs")]
    Running {
        /// Of this mesh.
        mesh: String,
        /// Its process.
        pid: Option<u32>,
    },
    /// Somebody is here already.
    #[error("this host already has an identity in `{mesh}`: {key}")]
    Exists {
        /// In this mesh.
        mesh: String,
        /// Its public key, as far as it is known.
        key: String,
    },
    /// It opens and is not what a backup should be.
    #[error("what the backup holds makes no sense: {0}")]
    Malformed(String),
    /// It holds several meshes, or not the one that was meant.
    #[error("the backup holds these meshes: {0}")]
    Which(String),
    /// A later program made it.
    #[error("the backup holds {0}; use the version that made it, or a later one")]
    TooNew(String),
    /// `config.json`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BackupFault {
    fn io(path: PathBuf) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path, source }
    }
}

#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    made_at: String,
    program: String,
    slug: String,
    membership: Value,
    /// By name, base64.
    files: BTreeMap<String, String>,
}

impl Drop for Document {
    fn drop(&mut self) {
        wipe(&mut self.membership);
        self.files.values_mut().for_each(zeroize::Zeroize::zeroize);
    }
}

/// Wipes the texts of a value.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(fields) => fields.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What is to be sealed of a mesh. The daemon may run.
pub fn collect(places: &Places, slug: &str, program: &str, now_ms: u64) -> Result<Zeroizing<Vec<u8>>, BackupFault> {
    let dir = places.mesh(slug);
    let mut looks = 0;
    loop {
        let not_joined = || BackupFault::NotJoined(slug.to_owned());
        let entry = Memberships::entry(places, slug)?.ok_or_else(not_joined)?;
        let membership = Memberships::parse(&entry).map_err(BackupFault::Malformed)?;
        let mut taken = BTreeMap::new();
        for (name, _) in FILES {
            let path = dir.path().join(name);
            if let Some(bytes) = files::read_bounded(&path, LARGEST).map_err(BackupFault::io(path))? {
                taken.insert(name.to_owned(), b64(&Zeroizing::new(bytes)));
            }
        }
        // A daemon that is just changing its key writes several files; wait until they say the same.
        let key = membership.key.public().hex();
        let settled = taken.get("keypair.json").is_none_or(|text| public_key(text).is_none_or(|public| public == key));
        // One that has finished meanwhile may have left nothing of the new key in what was read.
        let moved_on = Memberships::entry(places, slug)?.as_ref() != Some(&entry);
        let mut document = Document {
            format: FORMAT,
            made_at: iso(now_ms),
            program: program.to_owned(),
            slug: slug.to_owned(),
            membership: entry,
            files: taken,
        };
        if moved_on && looks < LOOKS {
            looks += 1;
            std::thread::sleep(LOOK);
            continue;
        }
        if !settled && !document.files.contains_key("keypair.next.json") {
            looks += 1;
            if looks < LOOKS {
                std::thread::sleep(LOOK);
                continue;
            }
            // A file of an earlier membership; the entry is what counts.
            document.files.remove("keypair.json");
        }
        let text = serde_json::to_vec(&document).map_err(|error| BackupFault::Malformed(error.to_string()))?;
        return Ok(Zeroizing::new(text));
    }
}

/// The public key that a `keypair.json` names.
fn public_key(text: &str) -> Option<String> {
    let bytes = Zeroizing::new(unb64(text)?);
    let mut value: Value = serde_json::from_slice(&bytes).ok()?;
    let key = value["ed25519_public"].as_str().map(str::to_owned);
    wipe(&mut value);
    key
}

/// A backup that was opened and makes sense.
pub struct Kept {
    document: Document,
    membership: Membership,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("slug", &self.membership.slug).finish_non_exhaustive()
    }
}

/// What was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was here before is there now.
    pub set_aside: Vec<PathBuf>,
}

impl Kept {
    /// Reads what a backup holds, and looks at all of it before anything is written.
    pub fn read(plain: &[u8]) -> Result<Self, BackupFault> {
        let malformed = |what: &str| BackupFault::Malformed(what.to_owned());
        if plain.len() > MOST {
            return Err(malformed("it is too large"));
        }
        // The parser's own words may quote a key.
        let document: Document = serde_json::from_slice(plain).map_err(|error| {
            BackupFault::Malformed(format!(
                "it is not JSON of its kind (line {}, column {})",
                error.line(),
                error.column()
            ))
        })?;
        if document.format > FORMAT {
            return Err(BackupFault::TooNew(format!("a document of version {}", document.format)));
        }
        let membership = Memberships::parse(&document.membership).map_err(BackupFault::Malformed)?;
        if document.slug != membership.slug {
            return Err(malformed("it is of two meshes"));
        }
        for (name, text) in &document.files {
            if !FILES.iter().any(|(known, _)| known == name) {
                return Err(BackupFault::Malformed(format!("it holds a file `{}`", name.escape_default())));
            }
            if unb64(text).map(Zeroizing::new).is_none() {
                return Err(BackupFault::Malformed(format!("`{name}` is not base64")));
            }
        }
        let kept = Self { document, membership };
        if let Some(version) = kept.file("schema_version") {
            let version = std::str::from_utf8(&version).ok().and_then(|text| text.trim().parse::<u32>().ok());
            match version {
                Some(version) if version > schema::VERSION => {
                    let known = schema::VERSION;
                    let what = format!("databases of version {version}, and this program knows {known}");
                    return Err(BackupFault::TooNew(what));
                }
                Some(_) => {}
                None => return Err(malformed("`schema_version` holds no version")),
            }
        }
        Ok(kept)
    }

    /// Reads what a backup of claudemesh-cli holds: its `config.json`, of which one mesh is taken, the one that is named or
    /// the only one. It has no files beside, and does not say when it was made.
    pub fn read_earlier(plain: &[u8], mesh: Option<&str>) -> Result<Self, BackupFault> {
        let malformed = |what: String| BackupFault::Malformed(what);
        if plain.len() > MOST {
            return Err(malformed("it is too large".to_owned()));
        }
        let mut config: Value =
            serde_json::from_slice(plain).map_err(|_| malformed("it is not a `config.json`".to_owned()))?;
        let found = Self::entry_of(&config, mesh);
        wipe(&mut config);
        let membership = found?;
        let joined = Memberships::parse(&membership).map_err(BackupFault::Malformed)?;
        let document = Document {
            format: FORMAT,
            made_at: String::new(),
            program: String::new(),
            slug: joined.slug.clone(),
            membership,
            files: BTreeMap::new(),
        };
        Ok(Self { document, membership: joined })
    }

    fn entry_of(config: &Value, mesh: Option<&str>) -> Result<Value, BackupFault> {
        let none = || BackupFault::Malformed("it holds no mesh".to_owned());
        let entries = config["meshes"].as_array().filter(|entries| !entries.is_empty()).ok_or_else(none)?;
        let name = |entry: &Value| entry["slug"].as_str().unwrap_or("?").escape_default().to_string();
        let found = match (mesh, &entries[..]) {
            (Some(mesh), _) => entries.iter().find(|entry| entry["slug"] == mesh),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let others = || BackupFault::Which(entries.iter().take(SHOWN).map(name).collect::<Vec<_>>().join(", "));
        found.cloned().ok_or_else(others)
    }

    /// The member it makes of this host.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// When it was made, if it says so.
    #[must_use]
    pub fn made_at(&self) -> Option<&str> {
        Some(self.document.made_at.as_str()).filter(|time| !time.is_empty())
    }

    fn file(&self, name: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.document.files.get(name).and_then(|text| unb64(text)).map(Zeroizing::new)
    }

    /// Puts it back. With `force` an identity that is in the way is kept beside.
    pub fn restore(&self, places: &Places, force: bool, now_ms: u64) -> Result<Restored, BackupFault> {
        let slug = &self.membership.slug;
        let dir = places.mesh(slug);
        let known = Memberships::load(places)?;
        let in_the_way =
            known.all().iter().find(|entry| entry.slug == *slug || entry.mesh_id == self.membership.mesh_id);
        let pubkey = self.membership.key.public().hex();
        let held = held_key(&dir);
        if !force {
            let exists = |key: &str| BackupFault::Exists { mesh: slug.clone(), key: key.to_owned() };
            if let Some(entry) = in_the_way {
                return Err(exists(&entry.key.public().hex()));
            }
            if let Some(held) = held.as_ref().filter(|held| **held != pubkey) {
                return Err(exists(held));
            }
        }
        if let Some(other) = in_the_way.filter(|entry| entry.slug != *slug) {
            // The same mesh under another name here: its daemon would be the same member.
            let lock = places.mesh(&other.slug).pid();
            if let Some(pid) = PidLock::holder(&lock) {
                return Err(BackupFault::Running { mesh: other.slug.clone(), pid: Some(pid) });
            }
        }
        let at_dir = || BackupFault::io(dir.path().to_owned());
        dir.create().map_err(at_dir())?;
        // Held until everything stands where it should.
        let lock = PidLock::take(&dir.pid()).map_err(at_dir())?;
        let Some(_lock) = lock else {
            return Err(BackupFault::Running { mesh: slug.clone(), pid: PidLock::holder(&dir.pid()) });
        };
        let same_member = in_the_way.is_none_or(|entry| entry.member_id == self.membership.member_id)
            && (in_the_way.is_some() || held.is_none_or(|held| held == pubkey));
        let mut set_aside = Vec::new();
        if !same_member {
            for name in STATE {
                for suffix in ["", "-wal", "-shm"] {
                    aside(&dir, &format!("{name}{suffix}"), now_ms, &mut set_aside)?;
                }
            }
        }
        let archive = self.file(ARCHIVE);
        if same_member {
            // Nothing of it has to go: what is sealed for any of these keys may still be on its way.
            let archive = archive.map(|bytes| Archive::parse(&bytes).0).unwrap_or_default();
            let key = in_the_way.map(|entry| &entry.key);
            keep_keys(&dir, key, &self.membership, archive, &dir, now_ms)?;
        }
        for (name, mode) in FILES {
            let path = dir.path().join(name);
            let Some(bytes) = self.file(name).filter(|_| !(same_member && name == ARCHIVE)) else { continue };
            let before = files::read_bounded(&path, LARGEST).map_err(BackupFault::io(path.clone()))?;
            if before.map(Zeroizing::new).is_some_and(|before| before != bytes) {
                aside(&dir, name, now_ms, &mut set_aside)?;
            }
            files::write_atomic(&path, &bytes, mode).map_err(BackupFault::io(path))?;
        }
        // Which machine it belongs to is written when it is used: this is a move, not a copy.
        let record = dir.host_fingerprint();
        match fs::remove_file(&record) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(BackupFault::io(record)(error)),
        }
        Memberships::put_entry(places, &self.document.membership)?;
        Ok(Restored { set_aside })
    }
}

/// Writes an archive of a member that takes the place of itself: with it, the keys the member has here, the one that counts
/// among them. They open what was sealed for them as long as keys that were rotated away do.
fn keep_keys(
    here: &MeshDir,
    key: Option<&SecretKey>,
    restored: &Membership,
    mut archive: Archive,
    to: &MeshDir,
    now_ms: u64,
) -> Result<(), BackupFault> {
    let path = here.keypair_archive();
    archive.merge(Archive::open(&path, now_ms).map_err(BackupFault::io(path))?.archive);
    if let Some(key) = key {
        archive.add(ArchivedKey::of(key, now_ms, Crypto::default().key_grace_period_days));
    }
    archive.remove(&restored.key.public());
    let path = to.keypair_archive();
    archive.write(&path).map_err(BackupFault::io(path))
}

/// The same for a directory of a member that is about to be put where another of the same member is.
pub fn keep_keys_of(places: &Places, restored: &Membership, to: &MeshDir, now_ms: u64) -> Result<(), BackupFault> {
    let known = Memberships::load(places)?;
    let same = |entry: &&Membership| entry.slug == restored.slug && entry.member_id == restored.member_id;
    let Some(entry) = known.all().iter().find(same) else { return Ok(()) };
    let path = to.keypair_archive();
    let archive = Archive::open(&path, now_ms).map_err(BackupFault::io(path))?.archive;
    keep_keys(&places.mesh(&entry.slug), Some(&entry.key), restored, archive, to, now_ms)
}

/// The public key of the `keypair.json` that is here.
fn held_key(dir: &MeshDir) -> Option<String> {
    let bytes = files::read_bounded(&dir.keypair(), LARGEST).ok().flatten().map(Zeroizing::new)?;
    public_key(&b64(&bytes))
}

/// Gives a file another name, if it is there.
fn aside(dir: &MeshDir, name: &str, now_ms: u64, set_aside: &mut Vec<PathBuf>) -> Result<(), BackupFault> {
    let path = dir.path().join(name);
    let to = dir.path().join(format!("{name}.old-{now_ms}"));
    match fs::rename(&path, &to) {
        Ok(()) => {
            set_aside.push(to);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupFault::io(path)(error)),
    }
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
