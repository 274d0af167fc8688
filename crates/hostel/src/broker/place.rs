//! Where the embedded broker keeps its things: `$HOSTEL_HOME/broker`.
//!
//! Invariant: whoever holds the lock on `pid` is the broker; `port` names a port of loopback that it listens on, and is
//! kept when it ends so that the next one takes the same: meshes have it in their addresses.

use std::fs::OpenOptions;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::daemon::lock::DaemonLock;
use crate::mesh::failure::Failure;
use crate::paths;

/// The most of a small file that is read.
const SMALL: u64 = 16 << 10;

/// The broker's directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    root: PathBuf,
}

/// What a broker was told about other machines, kept for its next start.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Listening {
    /// Where it listens besides loopback, with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listen: Option<SocketAddr>,
    /// How other machines reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
}

impl Place {
    pub(crate) fn of(home: &Path) -> Self {
        Place { root: home.join("broker") }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn pid(&self) -> PathBuf {
        self.root.join("pid")
    }

    pub(crate) fn port_file(&self) -> PathBuf {
        self.root.join("port")
    }

    pub(crate) fn admin_token_file(&self) -> PathBuf {
        self.root.join("admin_token")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("broker.log")
    }

    fn listening_file(&self) -> PathBuf {
        self.root.join("listen.json")
    }

    /// Certificate and key for other machines.
    pub(crate) fn certificate(&self) -> (PathBuf, PathBuf) {
        (self.root.join("cert.pem"), self.root.join("key.pem"))
    }

    /// Makes the directory, closed to others.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        paths::private_directory(&self.root)?;
        Ok(())
    }

    /// The process that is the broker, if there is one.
    pub(crate) fn holder(&self) -> Option<u32> {
        let held = DaemonLock::is_held(&self.pid()).unwrap_or_default();
        held.then(|| read_small(&self.pid()).ok()?.trim().parse().ok()).flatten()
    }

    /// The port of loopback it listens on, or did.
    pub(crate) fn port(&self) -> Option<u16> {
        read_small(&self.port_file()).ok()?.trim().parse().ok().filter(|port| *port != 0)
    }

    /// Writes the port for everybody to read.
    pub(crate) fn write_port(&self, port: u16) -> io::Result<()> {
        replace(&self.port_file(), format!("{port}\n").as_bytes(), 0o644)
    }

    /// What was said about other machines the last time.
    pub(crate) fn listening(&self) -> Listening {
        let text = read_small(&self.listening_file()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(crate) fn write_listening(&self, listening: &Listening) -> io::Result<()> {
        replace(&self.listening_file(), &serde_json::to_vec(listening)?, 0o600)
    }

    /// The token by which meshes are made; made if it is missing.
    pub(crate) fn admin_token(&self) -> io::Result<Zeroizing<String>> {
        let path = self.admin_token_file();
        match read_small(&path) {
            Ok(text) if !text.trim().is_empty() => return Ok(Zeroizing::new(text.trim().to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let token = Zeroizing::new(hostel_wire::ids::token());
        replace(&path, format!("{}\n", token.as_str()).as_bytes(), 0o600)?;
        Ok(token)
    }
}

fn read_small(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(SMALL).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file so that whoever reads meanwhile sees the old content or the new.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    std::fs::remove_file(&draft).ok();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
    // Whatever the mask is, the mode is the one that was meant.
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode))?;
    let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        std::fs::remove_file(&draft).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_kept_is_found_again_and_closed_to_others() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place::of(scratch.path());
        place.create().unwrap();
        assert_eq!((place.port(), place.holder()), (None, None));
        place.write_port(4711).unwrap();
        assert_eq!(place.port(), Some(4711));
        let listening =
            Listening { listen: Some("0.0.0.0:7443".parse().unwrap()), url: Some("wss://h:7443/ws".to_owned()) };
        assert_eq!(place.listening(), Listening::default());
        place.write_listening(&listening).unwrap();
        assert_eq!(place.listening(), listening);
        let token = place.admin_token().unwrap();
        assert_eq!(place.admin_token().unwrap(), token);
        assert_eq!(token.len(), 43);
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(place.port_file()), mode(place.admin_token_file())), (0o644, 0o600));
        assert_eq!(mode(place.root().to_owned()), 0o700);
        let held = DaemonLock::try_take(&place.pid()).unwrap().unwrap();
        assert_eq!(place.holder(), Some(std::process::id()));
        drop(held);
        assert_eq!(place.holder(), None);
    }
}
