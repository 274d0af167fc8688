//! The system calls of the guard that have no safe wrapper. This is the only module of the crate with `unsafe`.
//!
//! The functions decide nothing and return what the kernel said.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::thread::UnshareFlags;

/// Moves this process into new namespaces. The process must have one thread.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the call is unsafe because unsharing the table of descriptors (CLONE_FILES) can invalidate descriptors that
    // other threads use. The guard asks for user and mount namespaces only.
    unsafe { rustix::thread::unshare_unsafe(flags & (UnshareFlags::NEWUSER | UnshareFlags::NEWNS)) }?;
    Ok(())
}

/// What the kernel calls `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MOUNT_ATTR_RDONLY`.
const READ_ONLY: u64 = 0x1;

/// Makes a mount read-only, with everything that is mounted below it if `recursive`. The other attributes stay.
pub(crate) fn make_read_only(mount: BorrowedFd<'_>, recursive: bool) -> io::Result<()> {
    let attributes = MountAttributes { set: READ_ONLY, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty string of the program, the attributes live until the call returns, and their size is
    // given with them. The kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
