//! Taking things away from a process before it becomes another program: from this one, or from one that a command starts.
//!
//! The functions decide nothing and undo nothing. Those that change this process are for a caller that has one thread and
//! is about to become another program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

use crate::sys;

/// Seals a command: its process executes `program` and can never execute anything else, nor can any process it forks. A
/// program that tries to start another one is told that it may not execute the file.
///
/// The arguments are those of the command. Of the environment only variables count that were set on the command, so it
/// has to be cleared first. This must be the last thing done to the command before it is started. A program that begins
/// with `#!` cannot be sealed: its interpreter would be another program.
///
/// # Errors
/// The program cannot be opened, an argument contains a null byte, or this machine's system calls are not known here.
pub fn seal(command: &mut Command, program: &Path) -> io::Result<()> {
    let text =
        |parts: &[&OsStr]| Ok(CString::new(parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>().concat())?);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let arguments = words.map(|word| text(&[word])).collect::<io::Result<Vec<_>>>()?;
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let environment =
        variables.map(|(name, value)| text(&[name, OsStr::new("="), value])).collect::<io::Result<Vec<_>>>()?;
    let file = rustix::fs::open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // The child's standard streams take the numbers below.
    let file = rustix::io::fcntl_dupfd_cloexec(&file, 3)?;
    sys::seal(command, file, arguments, environment)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(words: &[&str]) -> std::process::Output {
        let mut command = Command::new("shell");
        command.args(words).env_clear().env("GREETING", "hello");
        seal(&mut command, Path::new("/bin/sh")).unwrap();
        command.output().unwrap()
    }

    #[test]
    fn a_sealed_program_runs_and_starts_nothing_else() {
        let output = sealed(&["-c", "echo $0 $GREETING \"$1\"", "me", "two words"]);
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"me hello two words\n"[..]));
        // By itself, from a child that it forked, by its path and by way of the search path.
        for script in
            ["exec /bin/true", "(/bin/true; exit $?)", "PATH=/bin:/usr/bin; true() { command /bin/true; }; true"]
        {
            let output = sealed(&["-c", script]);
            assert_eq!(output.status.code(), Some(126), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let output = Command::new("/bin/sh").args(["-c", "exec /bin/true"]).output().unwrap();
        assert!(output.status.success(), "only the sealed one is sealed");
    }

    #[test]
    fn what_cannot_be_sealed_is_not_started() {
        let mut command = Command::new("x");
        assert_eq!(seal(&mut command, Path::new("/no/such/program")).unwrap_err().kind(), io::ErrorKind::NotFound);
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n").unwrap();
        seal(&mut command, script.path()).unwrap();
        assert!(command.output().is_err());
    }
}
