//! The port of a codecast daemon: found by trying, told through a file.
//!
//! Invariant: the file names a port that accepts. It is removed only while it still names ours: another daemon may have
//! written its own over it.

use std::io;
use std::io::Write as _;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use tokio::net::TcpListener;

/// How many ports after the first one are tried.
const FURTHER: u16 = 100;

/// Listens on the first free port from `port` on. Port 0 is any.
pub(super) async fn listen(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let last = if port == 0 { 0 } else { port.saturating_add(FURTHER) };
    let mut taken = None;
    for port in port..=last {
        match TcpListener::bind(SocketAddr::new(address, port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = Some(error),
            outcome => return outcome,
        }
    }
    Err(taken.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

/// The file that tells the port.
#[derive(Debug)]
pub(crate) struct PortFile {
    path: PathBuf,
    port: u16,
}

impl PortFile {
    /// Writes the number and nothing else; whoever reads meanwhile sees the old one or the new one.
    pub(crate) fn write(path: &Path, port: u16) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let draft = directory.join(format!(".daemon.port.{}", std::process::id()));
        let mut file = std::fs::File::create(&draft)?;
        file.write_all(port.to_string().as_bytes())?;
        std::fs::rename(&draft, path)?;
        Ok(PortFile { path: path.to_owned(), port })
    }

    /// Removes the file if it still names our port.
    pub(crate) fn remove(&self) {
        let ours = std::fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == self.port.to_string());
        if ours {
            // Somebody else may have been quicker.
            std::fs::remove_file(&self.path).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_free_port_is_taken() {
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let first = listen(local, 0).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let second = listen(local, port).await.unwrap();
        let next = second.local_addr().unwrap().port();
        assert!(next > port && next <= port.saturating_add(FURTHER), "{port} {next}");
    }

    #[test]
    fn the_file_is_removed_only_if_it_is_ours() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.port");
        let first = PortFile::write(&path, 9100).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "9100");
        let second = PortFile::write(&path, 9101).unwrap();
        first.remove();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "9101");
        second.remove();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
