//! Leases of files.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// From the kernel's `fcntl.h`.
const F_SETSIG: libc::c_int = 10;

/// Sets or ends (`F_RDLCK`, `F_UNLCK`) the lease of an open file. Where somebody breaks it this process is told by a signal
/// that does nothing: the signal that is sent otherwise, `SIGIO`, ends a process that does not expect it.
pub(crate) fn set_lease(file: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: both calls take numbers only, and concern an open file of ours.
    let set = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The lease that an open file has; the one that it will have, where somebody is about to break it.
pub(crate) fn lease_of(file: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    // SAFETY: asks only.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) } {
        -1 => Err(io::Error::last_os_error()),
        kind => Ok(kind),
    }
}
