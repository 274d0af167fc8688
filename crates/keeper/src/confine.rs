//! Taking things away from this process before it becomes another program.
//!
//! It decides nothing and undoes nothing: whoever calls it has one thread and means to become something else.

use std::io;

use crate::sys;

/// Closes every descriptor but the three standard streams.
///
/// For the very beginning of a program: nothing of its own may be open yet.
pub fn close_inherited() {
    sys::close_from(3);
}

/// Leaves this machine's network for one of its own, in which there is nothing, not even loopback. Sockets that have a
/// path in the file system are not part of it.
///
/// Where only root may do that, it is done inside a user namespace in which the user is still the same; either works or
/// nothing is changed.
pub fn leave_network() -> io::Result<()> {
    if sys::unshare(libc::CLONE_NEWNET).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
    // Without this the kernel does not let an ordinary user name a group.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1\n"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1\n"))
}
