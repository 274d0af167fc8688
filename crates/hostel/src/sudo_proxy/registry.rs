//! `hosts.json`: the hosts that were reached, and whether a grant for a whole session may be given.
//!
//! Invariant: the file is 0600 in a directory that is 0700, and is replaced as a whole. One that cannot be read counts
//! as empty, so nothing is ever allowed by a broken file; and it is not written over, so nothing in it is lost.
//!
//! Keys that nobody here knows stay in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::fs::Permissions;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use hostel_syncpoint::points;
use rustix::fs::FlockOperation;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

/// The most of the file that is read.
const FILE_LIMIT: u64 = 1 << 20;

/// The longest user id there is.
const UID_DIGITS: usize = 10;

/// What is known about one host.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct HostRecord {
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) os: String,
    /// When it was last reached, as the contract writes times; empty if never.
    #[serde(default)]
    pub(crate) last_connected: String,
    /// The user id there, once it was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    /// What its daemon last called itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl HostRecord {
    /// The user id there, if it is one.
    pub(crate) fn user(&self) -> Option<&str> {
        is_uid(&self.uid).then_some(self.uid.as_str())
    }
}

/// What the owner decided outside of any request.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct HostPolicy {
    /// Whether a grant for a whole session may be given at a prompt.
    #[serde(default)]
    pub(crate) unattended_eligible: bool,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// The file's contents.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Registry {
    #[serde(default)]
    pub(crate) hosts: BTreeMap<String, HostRecord>,
    #[serde(default)]
    pub(crate) policy: HostPolicy,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Registry {
    /// The record of a host, made if there is none.
    pub(crate) fn host(&mut self, host: &str) -> &mut HostRecord {
        self.hosts.entry(host.to_owned()).or_default()
    }

    /// Notes that a host is being reached now.
    pub(crate) fn touch(&mut self, host: &str) {
        self.host(host).last_connected = now();
    }

    /// Notes what a host's daemon calls itself. One that does not say is left as it was.
    pub(crate) fn saw_version(&mut self, host: &str, version: &str) {
        if !version.is_empty() {
            version.clone_into(&mut self.host(host).version);
        }
    }

    /// The contents as they stand in the file.
    pub(crate) fn to_text(&self) -> String {
        // Maps with text for keys always can be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// Whether a text is a user id.
pub(crate) fn is_uid(text: &str) -> bool {
    !text.is_empty() && text.len() <= UID_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// This moment as the contract writes times.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The file itself.
#[derive(Clone, Debug)]
pub(crate) struct RegistryFile {
    path: PathBuf,
}

impl RegistryFile {
    /// The user's own.
    pub(crate) fn of_user() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = variable("XDG_CONFIG_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".config")))
            .unwrap_or_else(|| PathBuf::from("/nonexistent"));
        RegistryFile::at(base.join("sudo-proxy/hosts.json"))
    }

    /// One at a path.
    pub(crate) fn at(path: PathBuf) -> Self {
        RegistryFile { path }
    }

    /// Its contents; nothing where they cannot be read.
    pub(crate) fn read(&self) -> Registry {
        self.read_strictly().unwrap_or_default()
    }

    fn read_strictly(&self) -> io::Result<Registry> {
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(file) => file.take(FILE_LIMIT).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Registry::default()),
            Err(error) => return Err(error),
        };
        serde_json::from_str(&text).map_err(io::Error::from)
    }

    /// Changes its contents; who does so at the same time waits.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Registry)) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(directory)?;
        std::fs::set_permissions(directory, Permissions::from_mode(0o700))?;
        let lock = File::open(directory)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let mut registry = self.read_strictly()?;
        change(&mut registry);
        let draft = directory.join(format!(".hosts.json.{}", std::process::id()));
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(registry.to_text().as_bytes())?;
        file.sync_all()?;
        points::REGISTRY_WRITTEN.reach_if_ok(std::fs::rename(&draft, &self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn scratch() -> (tempfile::TempDir, RegistryFile, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sudo-proxy/hosts.json");
        (scratch, RegistryFile::at(path.clone()), path)
    }

    #[test]
    fn kept_privately_and_with_what_others_put_there() {
        let (_scratch, file, path) = scratch();
        assert_eq!(file.read(), Registry::default());
        file.update(|registry| registry.touch("box")).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
        let text = r#"{"hosts":{"box":{"uid":"1000","colour":"blue"}},"policy":{"unattended_eligible":true},"x":1}"#;
        std::fs::write(&path, text).unwrap();
        file.update(|registry| registry.saw_version("box", "1.2.0")).unwrap();
        let now: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let expected = serde_json::json!({
            "hosts": {"box": {"description": "", "os": "", "last_connected": "", "uid": "1000", "version": "1.2.0", "colour": "blue"}},
            "policy": {"unattended_eligible": true},
            "x": 1
        });
        assert_eq!(now, expected);
    }

    #[test]
    fn a_broken_file_allows_nothing_and_stays() {
        let (_scratch, file, path) = scratch();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        for broken in ["", "{", r#"{"policy":{"unattended_eligible":"yes"}}"#, "[]"] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(file.read(), Registry::default(), "{broken}");
            assert!(file.update(|registry| registry.touch("box")).is_err());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), broken);
        }
        std::fs::write(&path, r#"{"policy":{"confirm_unprivileged":false}}"#).unwrap();
        assert!(!file.read().policy.unattended_eligible);
    }

    #[test]
    fn user_ids() {
        for good in ["0", "1000", "4294967295"] {
            assert!(is_uid(good));
        }
        for bad in ["", "0\n", "0/../etc", "1000 ", "abc", "12345678901"] {
            assert!(!is_uid(bad), "{bad:?}");
        }
        let time = now();
        assert!(time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }
}
