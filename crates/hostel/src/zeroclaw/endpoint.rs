//! The socket of a zeroclaw daemon and the lock beside it.
//!
//! Invariant: whoever holds `<socket>.lock` is the only one who binds or removes the socket. The lock file is never
//! removed: two who opened different files of that name would both believe they hold it. It is trusted only where
//! nobody else could have put it.
//!
//! A directory that belongs to somebody else, or is everybody's, keeps its mode.

use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::fs::Metadata;
use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::daemon::sockets::Occupant;
use crate::daemon::sockets::occupant;

/// The bit that lets everybody add to a directory and only owners remove from it.
const STICKY: u32 = 0o1000;

/// The right to an endpoint, for as long as it is held.
#[derive(Debug)]
pub(crate) struct Endpoint {
    path: PathBuf,
    _lock: File,
}

/// Why an endpoint cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    /// Another daemon has it.
    #[error("address in use: another daemon holds `{0}`")]
    Held(PathBuf),
    /// Somebody answers there.
    #[error("address in use: somebody listens on `{0}`")]
    Listening(PathBuf),
    /// There is something that is no socket.
    #[error("address in use: `{0}` is not a socket")]
    NotASocket(PathBuf),
    /// Somebody else could put files there.
    #[error("`{path}` {rule}; choose a directory of your own")]
    Untrusted {
        /// What is not trusted.
        path: PathBuf,
        /// Why.
        rule: &'static str,
    },
    /// The system refused.
    #[error("cannot use `{path}`: {source}")]
    System {
        /// What was tried.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

impl Endpoint {
    /// Takes the right to a socket path. Afterwards there is nothing at the path, or a socket that nobody answers on.
    pub(crate) fn take(path: &Path) -> Result<Self, EndpointError> {
        let lock_path = lock_path(path);
        let refused = |source: io::Error| EndpointError::System { path: lock_path.clone(), source };
        check_directory(parent(path))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0))
            .open(&lock_path)
            .map_err(refused)?;
        check_lock(&file.metadata().map_err(refused)?, &lock_path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(EndpointError::Held(lock_path)),
            Err(error) => return Err(refused(error.into())),
        }
        match occupant(path) {
            Occupant::Nobody | Occupant::Stale => Ok(Endpoint { path: path.to_owned(), _lock: file }),
            Occupant::Listening => Err(EndpointError::Listening(path.to_owned())),
            Occupant::Other => Err(EndpointError::NotASocket(path.to_owned())),
        }
    }

    /// The socket's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the socket's directory, and closes it to others if it is ours alone.
pub(crate) fn prepare_directory(socket: &Path) -> Result<(), EndpointError> {
    let directory = parent(socket);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|source| EndpointError::System { path: directory.to_owned(), source })?;
    if directory.metadata().is_ok_and(|metadata| is_private_place(&metadata)) {
        // One that cannot be closed is as good as one that was never tried: the socket's own mode keeps others out.
        fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap_or_default();
    }
    Ok(())
}

fn is_private_place(metadata: &Metadata) -> bool {
    metadata.uid() == own_user() && metadata.mode() & STICKY == 0
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The directory a path is in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = OsString::from(socket);
    path.push(".lock");
    PathBuf::from(path)
}

fn check_directory(directory: &Path) -> Result<(), EndpointError> {
    let metadata =
        directory.metadata().map_err(|source| EndpointError::System { path: directory.to_owned(), source })?;
    let wrong = |rule| Err(EndpointError::Untrusted { path: directory.to_owned(), rule });
    if metadata.uid() != own_user() && metadata.uid() != 0 {
        return wrong("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 && metadata.mode() & STICKY == 0 {
        return wrong("can be written by others");
    }
    Ok(())
}

fn check_lock(metadata: &Metadata, path: &Path) -> Result<(), EndpointError> {
    let wrong = |rule| Err(EndpointError::Untrusted { path: path.to_owned(), rule });
    if !metadata.is_file() {
        return wrong("is not a plain file");
    }
    if metadata.uid() != own_user() {
        return wrong("belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return wrong("is open to others");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn one_holder_at_a_time_and_the_lock_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("daemon.sock");
        let first = Endpoint::take(&socket).unwrap();
        assert!(matches!(Endpoint::take(&socket), Err(EndpointError::Held(_))));
        drop(first);
        let lock = scratch.path().join("daemon.sock.lock");
        assert_eq!(lock.metadata().unwrap().mode() & 0o777, 0o600);
        Endpoint::take(&socket).unwrap();
    }

    #[test]
    fn who_answers_stays_and_who_is_gone_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("daemon.sock");
        let somebody = UnixListener::bind(&socket).unwrap();
        assert!(matches!(Endpoint::take(&socket), Err(EndpointError::Listening(_))));
        drop(somebody);
        assert_eq!(Endpoint::take(&socket).unwrap().path(), socket);
        fs::remove_file(&socket).unwrap();
        fs::write(&socket, "precious").unwrap();
        assert!(matches!(Endpoint::take(&socket), Err(EndpointError::NotASocket(_))));
    }

    #[test]
    fn locks_others_could_have_put_there_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let (socket, lock) = (scratch.path().join("a.sock"), scratch.path().join("a.sock.lock"));
        let untrusted = |expected: &str| match Endpoint::take(&socket) {
            Err(EndpointError::Untrusted { rule, .. }) => assert_eq!(rule, expected),
            other => panic!("{other:?}"),
        };
        std::os::unix::fs::symlink("/dev/null", &lock).unwrap();
        assert!(matches!(Endpoint::take(&socket), Err(EndpointError::System { .. })));
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, "").unwrap();
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
        untrusted("is open to others");
        fs::set_permissions(&lock, Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o777)).unwrap();
        untrusted("can be written by others");
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o1777)).unwrap();
        Endpoint::take(&socket).unwrap();
    }

    #[test]
    fn only_a_directory_of_our_own_is_closed() {
        let scratch = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        let (own, shared) = (scratch.path().join("own"), scratch.path().join("shared"));
        for (directory, before) in [(&own, 0o755), (&shared, 0o1777)] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, Permissions::from_mode(before)).unwrap();
            prepare_directory(&directory.join("s")).unwrap();
        }
        assert_eq!((mode(&own), mode(&shared)), (0o700, 0o1777));
        prepare_directory(&scratch.path().join("new/deep/s")).unwrap();
        assert_eq!(mode(&scratch.path().join("new/deep")), 0o700);
    }
}
