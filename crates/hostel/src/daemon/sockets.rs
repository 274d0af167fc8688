//! The listening sockets of a house: bound privately, removed only if they are still ours.
//!
//! Invariant: a socket file is closed to others from the first instant it exists (the umask is narrowed around bind)
//! and 0600 before anybody is told of it; only the inode we made is ever unlinked at the end.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::Mode;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A bound socket and the file it made.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: Option<UnixListener>,
    file: SocketFile,
}

/// The file a bound socket made.
#[derive(Clone, Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

/// Who is behind a socket path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Occupant {
    /// There is no such file.
    Nobody,
    /// A socket whose owner is gone.
    Stale,
    /// Somebody accepts there.
    Listening,
    /// Not a socket, or not ours to look at.
    Other,
}

/// Looks who is there, by asking.
pub(crate) fn occupant(path: &Path) -> Occupant {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Occupant::Nobody,
        Err(_) => return Occupant::Other,
    };
    if !metadata.file_type().is_socket() {
        return Occupant::Other;
    }
    let connected = hostel_keeper::socket_path::shorten(path).and_then(|dial| UnixStream::connect(dial.as_ref()));
    match connected {
        Ok(_) => Occupant::Listening,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Occupant::Stale,
        Err(_) => Occupant::Other,
    }
}

impl Bound {
    /// Binds `path`, through `dial` where it differs. A socket left there is replaced; anything else stays and is an
    /// error.
    pub(crate) fn replace(path: &Path, dial: &Path) -> io::Result<Self> {
        if path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
            match std::fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let before = rustix::process::umask(Mode::from_bits_truncate(0o077));
        let listener = UnixListener::bind(dial);
        rustix::process::umask(before);
        let listener = listener?;
        // The standard library's backlog is short for a thousand clients at once.
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let metadata = path.symlink_metadata()?;
        Ok(Bound {
            listener: Some(listener),
            file: SocketFile { path: path.to_owned(), inode: (metadata.dev(), metadata.ino()) },
        })
    }

    /// A listener for the runtime. The socket stays ours, so that it can be served again.
    pub(crate) fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        match &self.listener {
            Some(listener) => tokio::net::UnixListener::from_std(listener.try_clone()?),
            None => Err(io::Error::other("the socket is closed")),
        }
    }

    /// Lets go of the socket: once its listeners are gone too, nobody can connect.
    pub(crate) fn close(&mut self) {
        self.listener = None;
    }

    /// The path it is bound to.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Its file.
    pub(crate) fn file(&self) -> SocketFile {
        self.file.clone()
    }
}

impl SocketFile {
    /// Gives the socket another name on the same file system. A socket left there is replaced; anything else stays and is
    /// an error.
    pub(crate) fn link_to(&self, path: &Path) -> io::Result<SocketFile> {
        if path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        std::fs::hard_link(&self.path, path)?;
        Ok(SocketFile { path: path.to_owned(), inode: self.inode })
    }

    /// Removes the file if it is still the one we made.
    pub(crate) fn unlink(&self) {
        let same = self.path.symlink_metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.inode);
        if same {
            // Somebody else may have been quicker.
            std::fs::remove_file(&self.path).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_from_the_start_and_unlinked_only_if_ours() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("s.sock");
        assert_eq!(occupant(&path), Occupant::Nobody);
        let first = Bound::replace(&path, &path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(occupant(&path), Occupant::Listening);
        let second = Bound::replace(&path, &path).unwrap();
        first.file().unlink();
        assert!(path.exists(), "a successor's socket was removed");
        drop(second);
        assert_eq!(occupant(&path), Occupant::Stale);
        let third = Bound::replace(&path, &path).unwrap();
        third.file().unlink();
        assert!(!path.exists());
    }

    #[test]
    fn a_second_name_leads_to_the_same_socket_and_goes_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let [path, other] = ["s.sock", "t.sock"].map(|name| scratch.path().join(name));
        let first = Bound::replace(&path, &path).unwrap();
        let name = first.file().link_to(&other).unwrap();
        assert_eq!((occupant(&path), occupant(&other)), (Occupant::Listening, Occupant::Listening));
        drop(first);
        assert_eq!(occupant(&other), Occupant::Stale);
        let second = Bound::replace(&path, &path).unwrap();
        let newer = second.file().link_to(&other).unwrap();
        name.unlink();
        assert_eq!(occupant(&other), Occupant::Listening, "a successor's name was removed");
        newer.unlink();
        assert!(!other.exists() && path.exists());
        std::fs::write(&other, "text").unwrap();
        assert!(second.file().link_to(&other).is_err());
    }

    #[test]
    fn what_is_no_socket_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(occupant(&path), Occupant::Other);
        let error = Bound::replace(&path, &path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
