//! Where everything is.
//!
//! Invariant: the daemons' directory does not follow the configuration's: a session with a configuration of its own must
//! still find the daemon that runs.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::files;

/// There is no home directory to put anything into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("HOME is not set: set it, or CLAUDEMESH_CONFIG_DIR and CLAUDEMESH_DAEMON_DIR")]
pub struct NoHome;

/// The directories of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    config: PathBuf,
    daemons: PathBuf,
    stale: Option<PathBuf>,
}

impl Places {
    /// As the environment has them.
    pub fn from_environment() -> Result<Self, NoHome> {
        Self::find(|name| std::env::var_os(name))
    }

    /// As the variables that `get` knows have them.
    pub fn find(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoHome> {
        let path = |name: &str| get(name).filter(|value| !value.is_empty()).map(|value| absolute(PathBuf::from(value)));
        let home = path("HOME").map(|home| home.join(".claudemesh"));
        let named = path("CLAUDEMESH_CONFIG_DIR");
        // A variable that outlived its directory would otherwise say that nothing was ever joined.
        let stale = named.clone().filter(|named| !named.is_dir() && home.as_ref().is_some_and(|home| home != named));
        let config = named.filter(|_| stale.is_none()).or_else(|| home.clone()).ok_or(NoHome)?;
        let daemons = path("CLAUDEMESH_DAEMON_DIR").or_else(|| home.map(|home| home.join("daemon")));
        let daemons = daemons.unwrap_or_else(|| config.join("daemon"));
        Ok(Self { config, daemons, stale })
    }

    /// Both at chosen places.
    #[must_use]
    pub fn at(config: impl Into<PathBuf>, daemons: impl Into<PathBuf>) -> Self {
        Self { config: config.into(), daemons: daemons.into(), stale: None }
    }

    /// A directory that CLAUDEMESH_CONFIG_DIR names and that is gone; the default is used instead.
    #[must_use]
    pub fn stale_config_dir(&self) -> Option<&Path> {
        self.stale.as_deref()
    }

    /// Where `config.json` is.
    #[must_use]
    pub fn config_dir(&self) -> &Path {
        &self.config
    }

    /// The list of meshes one is a member of.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.json")
    }

    /// The directory of all daemons' directories.
    #[must_use]
    pub fn daemon_root(&self) -> &Path {
        &self.daemons
    }

    /// The sockets for guarded agents, with a directory for each mesh: all that they see of the daemons. No mesh has
    /// a name that begins with a point.
    #[must_use]
    pub fn agents_root(&self) -> PathBuf {
        self.daemons.join(".agents")
    }

    /// The directory among these that belongs to one mesh. It holds a second name of that daemon's socket and nothing else.
    #[must_use]
    pub fn agents(&self, slug: &str) -> PathBuf {
        self.agents_root().join(slug)
    }

    /// Settings that count for all daemons of a user together: `[fleet]`.
    #[must_use]
    pub fn fleet_config(&self) -> PathBuf {
        self.daemons.join("config.toml")
    }

    /// Where older clients look for a daemon: a link to the only one that runs.
    #[must_use]
    pub fn shared_socket(&self) -> PathBuf {
        self.daemons.join("daemon.sock")
    }

    /// The directory of one mesh's daemon.
    #[must_use]
    pub fn mesh(&self, slug: &str) -> MeshDir {
        MeshDir { path: self.daemons.join(slug) }
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The directory of one mesh's daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshDir {
    path: PathBuf,
}

macro_rules! names {
    ($($(#[$doc:meta])* $method:ident = $name:literal;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $method(&self) -> PathBuf {
            self.path.join($name)
        })*
    };
}

impl MeshDir {
    /// A directory of a chosen place.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    names! {
        /// The process id, 0600, locked while the daemon runs.
        pid = "pid";
        /// The socket, 0600.
        sock = "sock";
        /// The port of the loopback HTTP door, 0644.
        http_port = "http.port";
        /// The token of the loopback HTTP door, 0600.
        local_token = "local_token";
        /// The token before that, while it is still taken, 0600.
        local_token_prev = "local_token.prev";
        /// The member's key, 0600.
        keypair = "keypair.json";
        /// What is left of keys that were replaced, 0600.
        keypair_archive = "keypair-archive.json";
        /// How the key came after earlier ones, 0600.
        keypair_lineage = "keypair-lineage.json";
        /// The key that will take the member's place, while that is under way, 0600.
        keypair_next = "keypair.next.json";
        /// On which host the key belongs, 0600.
        host_fingerprint = "host_fingerprint.json";
        /// Settings, 0644.
        config = "config.toml";
        /// What is to be sent, 0600.
        outbox = "outbox.db";
        /// What was received, 0600.
        inbox = "inbox.db";
        /// Of the databases, 0644.
        schema_version = "schema_version";
        /// The log, 0644.
        log = "daemon.log";
        /// Scripts of the user's, 0700.
        hooks = "hooks";
        /// Sessions that were registered, 0600.
        sessions = "sessions.json";
        /// The flags it was started with, 0600, for a restart.
        started_with = "started_with";
        /// Why the daemon before this one could not go on, 0600.
        last_exit = "last_exit";
    }

    /// Makes the directory and the one for hooks, closed to others.
    pub fn create(&self) -> io::Result<()> {
        files::make_private_dir(&self.path)?;
        files::make_private_dir(&self.hooks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Result<Places, NoHome> {
        Places::find(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn defaults() {
        let found = places(&[("HOME", "/home/ada")]).unwrap();
        assert_eq!(found, Places::at("/home/ada/.claudemesh", "/home/ada/.claudemesh/daemon"));
        assert_eq!(found.config_file(), Path::new("/home/ada/.claudemesh/config.json"));
        assert_eq!(found.mesh("lab").sock(), Path::new("/home/ada/.claudemesh/daemon/lab/sock"));
        assert_eq!(found.shared_socket(), Path::new("/home/ada/.claudemesh/daemon/daemon.sock"));
        assert_eq!(found.agents("lab"), Path::new("/home/ada/.claudemesh/daemon/.agents/lab"));
        assert_eq!(places(&[]), Err(NoHome));
        assert_eq!(places(&[("HOME", "")]), Err(NoHome));
    }

    #[test]
    fn the_daemons_do_not_follow_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().to_str().unwrap();
        let found = places(&[("HOME", "/home/ada"), ("CLAUDEMESH_CONFIG_DIR", own)]).unwrap();
        assert_eq!(found, Places::at(own, "/home/ada/.claudemesh/daemon"));
        let found = places(&[("HOME", "/home/ada"), ("CLAUDEMESH_DAEMON_DIR", own)]).unwrap();
        assert_eq!(found, Places::at("/home/ada/.claudemesh", own));
        let found = places(&[("CLAUDEMESH_CONFIG_DIR", own)]).unwrap();
        assert_eq!(found, Places::at(own, format!("{own}/daemon")));
    }

    #[test]
    fn a_directory_that_is_gone_is_not_used() {
        let found = places(&[("HOME", "/home/ada"), ("CLAUDEMESH_CONFIG_DIR", "/nowhere/at/all")]).unwrap();
        assert_eq!(found.config_dir(), Path::new("/home/ada/.claudemesh"));
        assert_eq!(found.stale_config_dir(), Some(Path::new("/nowhere/at/all")));
        // The default, named, is not stale: it will be made.
        let found = places(&[("HOME", "/nowhere"), ("CLAUDEMESH_CONFIG_DIR", "/nowhere/.claudemesh")]).unwrap();
        assert_eq!(found.stale_config_dir(), None);
    }
}
