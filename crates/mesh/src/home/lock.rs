//! One daemon per mesh: the pid file, locked for as long as the process lives.
//!
//! Invariant: the lock says whether a daemon runs; the number in the file only says which. A process id that was given
//! to somebody else fools nobody.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

/// A pid file that is this process's own.
#[derive(Debug)]
pub struct PidLock {
    file: File,
    path: PathBuf,
}

impl PidLock {
    /// Takes the lock and writes the process id; `None` if another process has it.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        // A file that is removed between opening and locking belongs to a daemon that just ended: look again.
        for _ in 0..16 {
            let mut file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if !is_at(&file, path) {
                continue;
            }
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(std::process::id().to_string().as_bytes())?;
            file.sync_data()?;
            return Ok(Some(Self { file, path: path.to_owned() }));
        }
        Err(io::Error::other("the pid file keeps being replaced"))
    }

    /// Who holds the lock, if somebody does.
    #[must_use]
    pub fn holder(path: &Path) -> Option<u32> {
        let mut file = File::open(path).ok()?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            return None;
        }
        let mut text = String::new();
        (&mut file).take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }
}

impl Drop for PidLock {
    fn drop(&mut self) {
        // While it is still locked: whoever opens it now finds it gone and looks again.
        if is_at(&self.file, &self.path) {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        assert_eq!(PidLock::holder(&path), None);
        let lock = PidLock::take(&path).unwrap().unwrap();
        assert!(PidLock::take(&path).unwrap().is_none());
        assert_eq!(PidLock::holder(&path), Some(std::process::id()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(lock);
        assert!(!path.exists());
        assert_eq!(PidLock::holder(&path), None);
        assert!(PidLock::take(&path).unwrap().is_some());
    }

    #[test]
    fn what_a_dead_daemon_left_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        fs::write(&path, "4194303999\n").unwrap();
        assert_eq!(PidLock::holder(&path), None, "nobody holds it, whatever it says");
        let _lock = PidLock::take(&path).unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), std::process::id().to_string());
    }

    #[test]
    fn a_file_put_in_its_place_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let lock = PidLock::take(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        let other = PidLock::take(&path).unwrap().unwrap();
        drop(lock);
        assert_eq!(PidLock::holder(&path), Some(std::process::id()));
        drop(other);
    }
}
