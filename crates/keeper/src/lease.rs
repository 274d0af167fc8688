//! Read leases: as long as one is held, nobody begins to write to the file.
//!
//! The kernel gives a read lease only while nobody has the file open for writing, or mapped so. It lets whoever opens the
//! file for writing, or truncates it, wait until the lease ends: with the last descriptor of the open file, wherever that
//! was passed to, or after `/proc/sys/fs/lease-break-time` (45 seconds). From the beginning of that wait on
//! [`is_intact`] says no. A program that runs cannot be written to either. So what was read from a file under a lease, and
//! executed by its descriptor while the lease was intact, is what runs.
//!
//! A lease needs a file of the own user, or `CAP_LEASE`, and a file system of this machine.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::sys;

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Somebody has the file open for writing.
    #[error("another process has it open for writing")]
    Busy,
    /// It cannot be had for this file.
    #[error("there is no lease for it: {0}")]
    Unavailable(io::Error),
}

/// Takes a read lease for an open file. It ends with the last descriptor of that open file.
///
/// # Errors
/// See [`LeaseError`].
pub fn take(file: impl AsFd) -> Result<(), LeaseError> {
    match sys::set_lease(file.as_fd(), libc::F_RDLCK) {
        Ok(()) => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => Err(LeaseError::Busy),
        Err(error) => Err(LeaseError::Unavailable(error)),
    }
}

/// Gives a lease up. Nothing happens where there is none.
pub fn give_up(file: impl AsFd) {
    sys::set_lease(file.as_fd(), libc::F_UNLCK).ok();
}

/// Whether the lease is held, and nobody waits for its end.
pub fn is_intact(file: impl AsFd) -> bool {
    sys::lease_of(file.as_fd()).is_ok_and(|kind| kind == libc::F_RDLCK)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;

    use super::*;

    /// Opens a file for writing, without waiting for a lease.
    fn write_at_once(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path)
    }

    #[test]
    fn nobody_begins_to_write_while_there_is_a_lease() {
        for directory in [std::env::temp_dir(), "/dev/shm".into()] {
            let file = tempfile::NamedTempFile::new_in(directory).unwrap();
            std::fs::write(file.path(), "content").unwrap();
            let path = file.into_temp_path();
            let read = File::open(&path).unwrap();
            assert!(!is_intact(&read));
            let writer = write_at_once(&path).unwrap();
            assert!(matches!(take(&read), Err(LeaseError::Busy)));
            drop(writer);
            take(&read).unwrap();
            assert!(is_intact(&read));
            // It belongs to the open file, not to a descriptor, and others may read.
            let copy = read.try_clone().unwrap();
            drop(read);
            File::open(&path).unwrap();
            assert!(is_intact(&copy));
            // Whoever wants to write waits, and the signal about it ends nobody.
            let refused = write_at_once(&path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
            assert!(!is_intact(&copy), "somebody is about to break it");
            let waiting = std::thread::spawn({
                let path = path.to_path_buf();
                move || OpenOptions::new().write(true).open(path).map(drop)
            });
            give_up(&copy);
            waiting.join().unwrap().unwrap();
            assert!(!is_intact(&copy));
        }
    }
}
