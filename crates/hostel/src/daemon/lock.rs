//! The lock that says a daemon holds a house.
//!
//! Invariant: whoever has the lock is the only one who binds or removes the house's sockets. The system gives it back
//! when its holder ends, however it ends; the file stays.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Seek as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// A held lock.
#[derive(Debug)]
pub(crate) struct DaemonLock {
    _file: File,
}

impl DaemonLock {
    /// Takes the lock; none if another daemon has it.
    pub(crate) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // For people who look; nobody decides anything by it, so a full disk keeps no daemon from starting.
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        drop(written);
        Ok(Some(DaemonLock { _file: file }))
    }

    /// Whether somebody has the lock; nothing is written.
    pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
        let file = File::open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock once its holder, who is leaving, has given it back.
    pub(crate) async fn take_over(path: &Path, limit: Duration) -> io::Result<Option<Self>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(lock) = DaemonLock::try_take(path)? {
                return Ok(Some(lock));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_takes_nothing_keeps_nobody_from_the_lock() {
        // It opens for writing, locks, and answers every write with ENOSPC.
        assert!(DaemonLock::try_take(Path::new("/dev/full")).unwrap().is_some());
    }

    #[test]
    fn one_holder_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.lock");
        let held = DaemonLock::try_take(&path).unwrap().unwrap();
        assert!(DaemonLock::try_take(&path).unwrap().is_none());
        assert!(DaemonLock::is_held(&path).unwrap());
        drop(held);
        assert!(!DaemonLock::is_held(&path).unwrap());
        assert!(DaemonLock::try_take(&path).unwrap().is_some());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    }
}
