//! The system calls of this crate that have no safe wrapper: two socket options, and a limit that is set between fork and
//! exec.
//!
//! The module decides nothing: it returns what the kernel said.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit};

fn option<T>(socket: RawFd, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let mut length = size;
    // SAFETY: `value` is plain data of `length` bytes that the kernel fills at most.
    let told =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, std::ptr::from_mut(value).cast(), &raw mut length) };
    match told {
        0 if length == size => Ok(()),
        0 => Err(io::ErrorKind::InvalidData.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Process id and user of the peer of a unix socket, as they were when it connected. A process of another namespace has
/// no id here.
pub(crate) fn peer_credentials(socket: impl AsFd) -> io::Result<(Option<u32>, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    option(socket.as_fd().as_raw_fd(), libc::SO_PEERCRED, &mut credentials)?;
    Ok((u32::try_from(credentials.pid).ok().filter(|pid| *pid != 0), credentials.uid))
}

/// A descriptor of the very process that connected, also if its id was given to another process since.
pub(crate) fn peer_pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    option(socket.as_fd().as_raw_fd(), libc::SO_PEERPIDFD, &mut descriptor)?;
    if descriptor < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Has the processes that a command starts set a limit before they become its program.
pub(crate) fn limit_before_exec(command: &mut Command, resource: Resource, limit: Rlimit) {
    let set = move || Ok(rustix::process::setrlimit(resource, limit)?);
    // SAFETY: between fork and exec only this one system call is made; the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(set) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_peer_is_told_with_a_descriptor() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let own = rustix::process::getuid().as_raw();
        assert_eq!(peer_credentials(&ours).unwrap(), (Some(std::process::id()), own));
        // Kernels before 6.5 do not know the option.
        if let Ok(pidfd) = peer_pidfd(&ours) {
            let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap();
            assert!(said.lines().any(|line| line == format!("Pid:\t{}", std::process::id())), "{said}");
        }
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(peer_credentials(&reader).is_err() && peer_pidfd(&reader).is_err(), "no socket");
    }
}
