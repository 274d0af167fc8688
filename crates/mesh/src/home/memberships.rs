//! `config.json`: which meshes one is a member of.
//!
//! Invariant: what stands in it and is not known here stays in it: other programs write it too. It is changed under a
//! lock, whole or not at all, with mode 0600, and an entry that is broken takes none of the others with it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use hostel_syncpoint::points;
use hostel_wire::frames::Group;
use hostel_wire::invite::CertPin;
use hostel_wire::keys::{PublicKey, SecretKey};
use hostel_wire::sealed::RootKey;
use hostel_wire::{encoding, topic};
use rustix::fs::FlockOperation;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{Places, files};

const LIMIT: u64 = 4 * 1024 * 1024;

/// Why `config.json` could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A mesh one is a member of.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The mesh's id.
    pub mesh_id: String,
    /// One's id in it.
    pub member_id: String,
    /// The mesh's slug, which names the daemon's directory.
    pub slug: String,
    /// The mesh's name.
    pub name: String,
    /// The member's key.
    pub key: SecretKey,
    /// Where its brokers are, the first one first.
    pub broker_urls: Vec<String>,
    /// RFC 3339.
    pub joined_at: String,
    /// The mesh's root key.
    pub root_key: Option<RootKey>,
    /// The mesh owner's key, on the owner's host.
    pub owner_key: Option<SecretKey>,
    /// The broker's certificate.
    pub cert: Option<CertPin>,
    /// The member's name in this mesh.
    pub display_name: Option<String>,
}

impl Membership {
    fn read(entry: &Value) -> Result<Self, String> {
        let text = |name: &str| entry[name].as_str().filter(|text| !text.is_empty());
        let needed = |name: &str| text(name).map(str::to_owned).ok_or_else(|| format!("`{name}` is missing"));
        let slug = needed("slug")?;
        if !topic::is_mesh_slug(&slug) {
            return Err(format!("`{slug}` is not a slug"));
        }
        let key = |name: &str| match text(name) {
            Some(hex) => SecretKey::from_hex(hex).map(Some).map_err(|_| format!("`{name}` is not a secret key")),
            None => Ok(None),
        };
        let secret = key("secretKey")?.ok_or("`secretKey` is missing")?;
        if text("pubkey").is_some_and(|public| !public.eq_ignore_ascii_case(&secret.public().hex())) {
            return Err("`pubkey` and `secretKey` do not belong together".into());
        }
        let root_key = text("rootKey").map(|text| RootKey::from_b64url(text).ok_or("`rootKey` is not a key"));
        let digest = |name: &str| match text(name) {
            Some(hex) => encoding::unhex_array(hex).map(Some).ok_or_else(|| format!("`{name}` is not a digest")),
            None => Ok(None),
        };
        let (cert, cert_key) = (digest("brokerCert")?, digest("brokerCertKey")?);
        let mut broker_urls: Vec<String> = text("brokerUrl").map(str::to_owned).into_iter().collect();
        for url in entry["brokerUrls"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !broker_urls.iter().any(|known| known == url) {
                broker_urls.push(url.to_owned());
            }
        }
        if broker_urls.is_empty() {
            return Err("`brokerUrl` is missing".into());
        }
        Ok(Self {
            mesh_id: needed("meshId")?,
            member_id: needed("memberId")?,
            name: text("name").unwrap_or(&slug).to_owned(),
            slug,
            key: secret,
            broker_urls,
            joined_at: text("joinedAt").unwrap_or_default().to_owned(),
            root_key: root_key.transpose()?,
            owner_key: key("ownerSecretKey")?,
            cert: cert.map(|cert| CertPin { cert, key: cert_key }),
            display_name: text("displayName").map(str::to_owned),
        })
    }

    fn write(&self, entry: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Option<Value>| match value {
            Some(value) => drop(entry.insert(name.into(), value)),
            None => drop(entry.remove(name)),
        };
        set("meshId", Some(self.mesh_id.as_str().into()));
        set("memberId", Some(self.member_id.as_str().into()));
        set("slug", Some(self.slug.as_str().into()));
        set("name", Some(self.name.as_str().into()));
        set("pubkey", Some(self.key.public().hex().into()));
        set("secretKey", Some(self.key.to_hex().as_str().into()));
        set("brokerUrl", self.broker_urls.first().map(|url| url.as_str().into()));
        set("brokerUrls", (self.broker_urls.len() > 1).then(|| json!(self.broker_urls)));
        set("joinedAt", Some(self.joined_at.as_str().into()));
        set("rootKey", self.root_key.as_ref().map(|key| key.to_b64url().as_str().into()));
        set("ownerSecretKey", self.owner_key.as_ref().map(|key| key.to_hex().as_str().into()));
        set("brokerCert", self.cert.map(|pin| encoding::hex(&pin.cert).into()));
        set("brokerCertKey", self.cert.and_then(|pin| pin.key).map(|key| encoding::hex(&key).into()));
        set("displayName", self.display_name.as_deref().map(Into::into));
        entry.entry("inviteVersion").or_insert_with(|| 1.into());
    }
}

/// All of them, as they stood when the file was read.
#[derive(Debug, Clone, Default)]
pub struct Memberships {
    all: Vec<Membership>,
    problems: Vec<String>,
    groups: Vec<Group>,
    display_name: Option<String>,
}

impl Memberships {
    /// Reads `config.json`; without one there are none.
    pub fn load(places: &Places) -> Result<Self, ConfigError> {
        let document = read(places)?;
        let mut loaded = Self {
            groups: serde_json::from_value(document["groups"].clone()).unwrap_or_default(),
            display_name: document["displayName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
            ..Self::default()
        };
        for (place, entry) in document["meshes"].as_array().into_iter().flatten().enumerate() {
            match Membership::read(entry) {
                Ok(membership) if loaded.find(&membership.slug).is_some() => {
                    loaded.problems.push(format!("mesh {}: `{}` stands there twice", place + 1, membership.slug));
                }
                Ok(membership) => loaded.all.push(membership),
                Err(reason) => loaded.problems.push(format!("mesh {}: {reason}", place + 1)),
            }
        }
        Ok(loaded)
    }

    /// All that can be used.
    #[must_use]
    pub fn all(&self) -> &[Membership] {
        &self.all
    }

    /// The one of a slug.
    #[must_use]
    pub fn find(&self, slug: &str) -> Option<&Membership> {
        self.all.iter().find(|membership| membership.slug == slug)
    }

    /// Why others cannot be used.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Groups one wants to be in, in every mesh.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The name one wants to have where an entry says none.
    #[must_use]
    pub fn display_name(&self) -> Option<&str> {
        self.display_name.as_deref()
    }

    /// Writes an entry, in place of the one of the same mesh.
    pub fn put(places: &Places, membership: &Membership) -> Result<(), ConfigError> {
        change(places, |meshes| {
            let same = |entry: &Value| {
                entry["meshId"] == membership.mesh_id.as_str() || entry["slug"] == membership.slug.as_str()
            };
            let place = meshes.iter().position(same).unwrap_or_else(|| {
                meshes.push(json!({}));
                meshes.len() - 1
            });
            if let Some(entry) = meshes[place].as_object_mut() {
                membership.write(entry);
            }
        })
    }

    /// Puts another key of the same member in the place of one; nothing else of the entry changes. Says whether the new
    /// one stands there now: an entry with a third key, or none, is left alone.
    pub fn replace_key(places: &Places, mesh_id: &str, old: &PublicKey, new: &SecretKey) -> Result<bool, ConfigError> {
        let mut replaced = false;
        change(places, |meshes| {
            let of_mesh = meshes.iter_mut().filter(|entry| entry["meshId"] == mesh_id);
            for entry in of_mesh.filter_map(Value::as_object_mut) {
                let held = entry.get("secretKey").and_then(Value::as_str).and_then(|hex| SecretKey::from_hex(hex).ok());
                let Some(held) = held.map(|held| held.public()) else { continue };
                if held != *old && held != new.public() {
                    continue;
                }
                entry.insert("pubkey".into(), new.public().hex().into());
                entry.insert("secretKey".into(), new.to_hex().as_str().into());
                replaced = true;
            }
        })?;
        Ok(replaced)
    }

    /// Changes what the member of a mesh is called; nothing else of the entry changes, so that a key which came
    /// there meanwhile stays. Says whether there is such an entry.
    pub fn rename(places: &Places, slug: &str, name: &str) -> Result<bool, ConfigError> {
        let mut renamed = false;
        change(places, |meshes| {
            let of_mesh = meshes.iter_mut().filter(|entry| entry["slug"] == slug);
            for entry in of_mesh.filter_map(Value::as_object_mut) {
                entry.insert("displayName".into(), name.into());
                renamed = true;
            }
        })?;
        Ok(renamed)
    }

    /// An entry as it stands in the file, with what is not known here.
    pub fn entry(places: &Places, slug: &str) -> Result<Option<Value>, ConfigError> {
        let document = read(places)?;
        Ok(document["meshes"].as_array().into_iter().flatten().find(|entry| entry["slug"] == slug).cloned())
    }

    /// Reads an entry that was kept elsewhere; why it is none.
    pub fn parse(entry: &Value) -> Result<Membership, String> {
        Membership::read(entry)
    }

    /// Writes an entry as it is, in place of those of the same mesh.
    pub fn put_entry(places: &Places, entry: &Value) -> Result<(), ConfigError> {
        change(places, |meshes| {
            meshes.retain(|old| old["meshId"] != entry["meshId"] && old["slug"] != entry["slug"]);
            meshes.push(entry.clone());
        })
    }

    /// Takes an entry out; says whether there was one.
    pub fn remove(places: &Places, slug: &str) -> Result<bool, ConfigError> {
        let mut removed = false;
        change(places, |meshes| {
            let before = meshes.len();
            meshes.retain(|entry| entry["slug"] != slug);
            removed = meshes.len() < before;
        })?;
        Ok(removed)
    }
}

fn read(places: &Places) -> Result<Value, ConfigError> {
    let path = places.config_file();
    let bytes = match files::read_bounded(&path, LIMIT) {
        Ok(bytes) => Zeroizing::new(bytes.unwrap_or_else(|| b"{}".to_vec())),
        Err(source) => return Err(ConfigError::Io { path, source }),
    };
    let document: Value = match serde_json::from_slice(&bytes) {
        Ok(document) => document,
        Err(error) => return Err(ConfigError::Malformed { path, reason: error.to_string() }),
    };
    let malformed = |reason: &str| ConfigError::Malformed { path: places.config_file(), reason: reason.into() };
    if !document.is_object() {
        return Err(malformed("it is not an object"));
    }
    if !document["meshes"].is_array() && !document["meshes"].is_null() {
        return Err(malformed("`meshes` is not a list"));
    }
    match document["version"].as_u64() {
        None if document["version"].is_null() => Ok(document),
        Some(1) => Ok(document),
        _ => Err(malformed("`version` is not 1: it was written by a newer program")),
    }
}

fn change(places: &Places, change: impl FnOnce(&mut Vec<Value>)) -> Result<(), ConfigError> {
    let path = places.config_file();
    let failed = |source: io::Error| ConfigError::Io { path: path.clone(), source };
    files::make_private_dir(places.config_dir()).map_err(failed)?;
    // Beside the file: that one is replaced, and a lock on it would go with it.
    let lock = places.config_dir().join(".config.lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock).map_err(failed)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    let mut document = read(places)?;
    document["version"] = 1.into();
    let mut meshes = match document["meshes"].take() {
        Value::Array(meshes) => meshes,
        _ => Vec::new(),
    };
    change(&mut meshes);
    document["meshes"] = meshes.into();
    let text = Zeroizing::new(serde_json::to_vec_pretty(&document).map_err(|error| failed(error.into()))?);
    points::MEMBERSHIP_WRITTEN.reach_if_ok(files::write_atomic(&path, &text, 0o600)).map_err(failed)
}

#[cfg(test)]
#[path = "memberships_tests.rs"]
mod tests;
