//! Socket paths of any length.
//!
//! A socket address holds 107 bytes of path, and a house may live deeper than that. Through a
//! descriptor of its directory every socket has a short name, for as long as the descriptor is open.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Longest path that fits a socket address.
pub const LIMIT: usize = 107;

/// A path that fits a socket address; valid while this value lives.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl AsRef<Path> for ShortPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Gives `path` a name that fits. A file name that is too long by itself is refused.
pub fn shorten(path: &Path) -> io::Result<ShortPath> {
    if path.as_os_str().len() <= LIMIT {
        return Ok(ShortPath { path: path.to_owned(), _directory: None });
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let directory = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    if short.as_os_str().len() > LIMIT {
        let text = format!("the socket's file name is longer than {LIMIT} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(ShortPath { path: short, _directory: Some(directory) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_socket_can_be_bound_and_reached() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(60)).join("e".repeat(60));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("x.sock");
        let short = shorten(&path).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&short).unwrap();
        assert!(path.exists());
        std::os::unix::net::UnixStream::connect(shorten(&path).unwrap()).unwrap();
        assert!(shorten(&deep.join("n".repeat(120))).is_err());
    }
}
