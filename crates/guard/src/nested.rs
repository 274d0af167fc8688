//! No user namespaces inside a guard.
//!
//! In a user namespace of its own a process may make a mount namespace and take every cover of the view out of it. The
//! kernel protects what a mount covers only in mount namespaces that contain the mount, so this process could then rename
//! a hidden directory or remove a file that is read-only, for everybody.
//!
//! Guarantee: after [`refuse`] neither this process nor anything it starts can make or enter a user namespace.

use std::fs;
use std::io;

use hostel_keeper::syscall_filter::SyscallFilter;
use rustix::thread::UnshareFlags;

use crate::sys;

/// How many user namespaces may exist below the one of the process that looks.
const LIMIT: &str = "/proc/sys/user/max_user_namespaces";

/// Refuses user namespaces to this process and to what it starts. The process must have one thread and, unless it is
/// root's, a user namespace of its own with all capabilities in it.
pub(crate) fn refuse() -> Result<(), String> {
    // Root has no namespace of its own: the limit would be that of the whole machine.
    if !rustix::process::geteuid().is_root() && limit_to_none().is_ok() {
        return Ok(());
    }
    // A container may show this limit read-only.
    let filtered = SyscallFilter::without_user_namespaces().and_then(|filter| filter.install());
    filtered.map_err(|error| format!("nested user namespaces cannot be refused: {error}"))
}

fn limit_to_none() -> io::Result<()> {
    fs::write(LIMIT, "0")?;
    match fs::read_to_string(LIMIT)?.trim() {
        "0" => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Tries to make a user namespace, and says so if that works.
pub(crate) fn is_refused() -> Result<(), String> {
    match sys::unshare(UnshareFlags::NEWUSER) {
        Err(_) => Ok(()),
        Ok(()) => Err("nested user namespaces are not refused".to_owned()),
    }
}
