//! Where a house keeps its things, and how its sockets are reached.
//!
//! Invariant: every directory made here is 0700 and belongs to us; a socket path that does not fit into a socket
//! address is reached through a descriptor of its directory, never by changing the working directory.
//!
//! It decides names only: what is written into the files is the business of the modules that own them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use sha2::Digest as _;
use sha2::Sha256;

use crate::error::CommandError;

/// The directory of one house.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HouseDir {
    root: PathBuf,
    /// The main house's directory; its own for the main house itself.
    home: PathBuf,
}

impl HouseDir {
    /// The house in this directory, whether it exists or not.
    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        HouseDir { home: root.clone(), root }
    }

    /// The house of a personality that answers on `endpoint`, below the main house.
    pub(crate) fn personality(home: &Path, name: &str, endpoint: &Path) -> Self {
        HouseDir { root: home.join("as").join(personality_folder(name, endpoint)), home: home.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The main house's directory.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Whether it is the user's own house and no personality's.
    pub(crate) fn is_main(&self) -> bool {
        self.root == self.home
    }

    /// Where the tokens of sessions are, with which they speak to mesh daemons.
    pub(crate) fn mesh_sessions(&self) -> PathBuf {
        self.root.join("mesh-sessions")
    }

    /// Where launched sessions have their tokens, each in a directory of its own.
    pub(crate) fn launches(&self) -> PathBuf {
        self.root.join("launch")
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The sockets for agents: all that a guarded agent sees of the house.
    pub(crate) fn agents(&self) -> PathBuf {
        self.run().join("agents")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run().join("hostel.sock")
    }

    /// Our own socket for agents.
    pub(crate) fn agents_socket(&self) -> PathBuf {
        self.agents().join("hostel.sock")
    }

    pub(crate) fn claustrum_socket(&self) -> PathBuf {
        self.run().join("claustrum.sock")
    }

    pub(crate) fn zeroclaw_socket(&self) -> PathBuf {
        self.run().join("zeroclaw.sock")
    }

    pub(crate) fn sudo_proxy_socket(&self) -> PathBuf {
        self.run().join("sudo.sock")
    }

    /// The digest of the approver's passphrase: one for all houses of a user.
    pub(crate) fn approver_file(&self) -> PathBuf {
        self.home.join("approver")
    }

    /// The port of the MCP door, for whoever looks for it.
    pub(crate) fn mcp_port_file(&self) -> PathBuf {
        self.run().join("mcp.port")
    }

    /// The port of the codecast door, for whoever looks for it.
    pub(crate) fn port_file(&self) -> PathBuf {
        self.run().join("http.port")
    }

    /// Sessions, turns, queues, approvals.
    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("state.db")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.run().join("local_token")
    }

    pub(crate) fn daemon_lock(&self) -> PathBuf {
        self.run().join("daemon.lock")
    }

    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.log().join("daemon.log")
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.root.join("hostel.toml")
    }

    /// Makes the directories that are missing and closes those that are open to others.
    pub(crate) fn create(&self) -> Result<(), CommandError> {
        for directory in [self.root.clone(), self.run(), self.journal(), self.log()] {
            private_directory(&directory)?;
        }
        Ok(())
    }

    /// A name for this house among all others.
    pub(crate) fn key(&self) -> String {
        personality_folder("house", &self.root)
    }

    /// What people call it.
    pub(crate) fn own_label(&self) -> String {
        self.label(&self.home)
    }

    /// A name people can type: the folder's own, or `home` for the main house.
    pub(crate) fn label(&self, home: &Path) -> String {
        if self.root == home {
            return "home".to_owned();
        }
        self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// `<name>-<first 16 hex digits of the SHA-256 of the endpoint's path>`.
fn personality_folder(name: &str, endpoint: &Path) -> String {
    let digest = Sha256::digest(endpoint.as_os_str().as_bytes());
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{hex}")
}

/// The main house's directory: the flag, else `HOSTEL_HOME`, else `~/.hostel`; always absolute.
pub(crate) fn home(flag: Option<&Path>) -> Result<PathBuf, CommandError> {
    home_from(flag, std::env::var_os("HOSTEL_HOME"), std::env::var_os("HOME"))
}

fn home_from(flag: Option<&Path>, variable: Option<OsString>, user: Option<OsString>) -> Result<PathBuf, CommandError> {
    let chosen = match (flag, variable, user) {
        (Some(flag), _, _) => flag.to_owned(),
        (None, Some(variable), _) if !variable.is_empty() => PathBuf::from(variable),
        (None, _, Some(user)) if !user.is_empty() => PathBuf::from(user).join(".hostel"),
        _ => {
            return Err(CommandError::usage("neither HOSTEL_HOME nor HOME is set")
                .hint("say where the house is with `--home DIR`"));
        }
    };
    absolute(&chosen)
}

/// The path made absolute against the working directory, without following links.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|error| CommandError::failure(format!("cannot make `{}` absolute: {error}", path.display())))
}

/// The contract's own claustrum endpoint, if the user has a home directory.
pub(crate) fn default_claustrum_endpoint() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".claude/remote/rpc.sock"))
}

/// The contract's own zeroclaw endpoint, if the user has a home directory.
pub(crate) fn default_zeroclaw_endpoint() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".zeroclaw/data/daemon.sock"))
}

/// A leading `~/` replaced by the user's home directory.
pub(crate) fn expand(path: &str) -> PathBuf {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

/// Makes a directory nobody else can look into, or makes an existing one of ours so.
pub(crate) fn private_directory(path: &Path) -> Result<(), CommandError> {
    let problem = |what: &str, error: &io::Error| {
        CommandError::failure(format!("cannot {what} `{}`: {error}", path.display()))
            .hint("choose another place with `--home DIR` or HOSTEL_HOME")
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| problem("make the directory", &error))?;
    let metadata = fs::metadata(path).map_err(|error| problem("look at", &error))?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own {
        return Err(CommandError::failure(format!(
            "`{}` belongs to user {} and not to you",
            path.display(),
            metadata.uid()
        ))
        .hint("choose another place with `--home DIR` or HOSTEL_HOME"));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(|error| problem("close to others", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_beats_variable_beats_home() {
        let some = |text: &str| Some(OsString::from(text));
        assert_eq!(home_from(Some(Path::new("/f")), some("/v"), some("/u")).unwrap(), Path::new("/f"));
        assert_eq!(home_from(None, some("/v"), some("/u")).unwrap(), Path::new("/v"));
        assert_eq!(home_from(None, some(""), some("/u")).unwrap(), Path::new("/u/.hostel"));
        let error = home_from(None, None, None).unwrap_err();
        assert_eq!(error.to_string(), "neither HOSTEL_HOME nor HOME is set; say where the house is with `--home DIR`");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn personality_houses_are_named_after_their_endpoint() {
        let house = HouseDir::personality(Path::new("/h"), "claustrum", Path::new("/tmp/rpc.sock"));
        assert_eq!(house.root(), Path::new("/h/as/claustrum-22ad73272b70a7b5"));
        assert_eq!(house.socket(), Path::new("/h/as/claustrum-22ad73272b70a7b5/run/hostel.sock"));
        assert_eq!(house.label(Path::new("/h")), "claustrum-22ad73272b70a7b5");
        assert_eq!(house.approver_file(), Path::new("/h/approver"));
        assert_eq!(HouseDir::at("/h").approver_file(), Path::new("/h/approver"));
        assert_eq!(HouseDir::at("/h").label(Path::new("/h")), "home");
    }

    #[test]
    fn directories_are_private() {
        let scratch = tempfile::tempdir().unwrap();
        let house = HouseDir::at(scratch.path().join("a/b"));
        house.create().unwrap();
        fs::set_permissions(house.run(), fs::Permissions::from_mode(0o755)).unwrap();
        house.create().unwrap();
        for directory in [house.root().to_owned(), house.run(), house.journal(), house.log()] {
            assert_eq!(fs::metadata(directory).unwrap().mode() & 0o777, 0o700);
        }
    }
}
