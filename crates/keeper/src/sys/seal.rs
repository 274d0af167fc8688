//! The last step of a command whose process may never execute another program.
//!
//! The step installs a system call filter ([`SyscallFilter::sealed`]) and executes the program by its descriptor. The
//! filter refuses `execve`, and `execveat` of every other descriptor. The descriptor closes at the exec, and the filter is
//! inherited by every fork and can never be removed, so the program and its children stay what they are.
//!
//! The module makes the calls. Which program is sealed, and when, is decided by its callers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::{install_filter, kernel_filter, pointers};
use crate::syscall_filter::SyscallFilter;

/// Has the process of `command` execute the file behind `program`, with these arguments and variables, instead of the
/// command's own, and never another program. No step may be added to the command afterwards: it would not be reached.
pub(crate) fn seal(
    command: &mut Command,
    program: OwnedFd,
    arguments: Vec<CString>,
    environment: Vec<CString>,
) -> io::Result<()> {
    // The pointers lead into the strings, which the step keeps; addresses as numbers, because a step has to be `Send`.
    let address = |pointer: *const libc::c_char| pointer.expose_provenance();
    let argv: Vec<usize> = pointers(&arguments).into_iter().map(address).collect();
    let envp: Vec<usize> = pointers(&environment).into_iter().map(address).collect();
    let filter = kernel_filter(&SyscallFilter::sealed(program.as_raw_fd())?);
    let step = move || {
        // The strings and the descriptor live as long as the step that uses them.
        let (_strings, program) = ((&arguments, &environment), program.as_raw_fd());
        // SAFETY: the arrays end with null and lead into strings that this closure owns.
        Err(unsafe { confine_and_execute(program, &argv, &envp, &filter) })
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(step) };
    Ok(())
}

/// The steps in the new process. Returns only if one of them failed.
///
/// # Safety
/// `argv` and `envp` are arrays of pointers to strings, and end with null.
unsafe fn confine_and_execute(
    program: RawFd,
    argv: &[usize],
    envp: &[usize],
    filter: &[libc::sock_filter],
) -> io::Error {
    if let Err(error) = install_filter(filter) {
        return error;
    }
    // SAFETY: the kernel reads the arrays, which outlive the call, and writes nothing.
    unsafe {
        let (argv, envp) = (argv.as_ptr(), envp.as_ptr());
        libc::syscall(libc::SYS_execveat, program, c"".as_ptr(), argv, envp, libc::AT_EMPTY_PATH);
    }
    io::Error::last_os_error()
}
