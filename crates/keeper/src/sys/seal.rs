//! The last step of a command whose process may never execute another program.
//!
//! The step installs a system call filter and executes the program by its descriptor. The filter refuses `execve`, and
//! `execveat` of every other descriptor. The descriptor closes at the exec, and the filter is inherited by every fork and
//! can never be removed, so the program and its children stay what they are.
//!
//! The module builds the filter and makes the calls. Which program is sealed, and when, is decided by its callers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::pointers;

/// The machine that this program is built for, as the kernel tells it to filters. Calls for other machines (32-bit code)
/// have other numbers and are refused.
#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u32> = None;

/// From this number on, calls on x86_64 are those of the x32 interface: the same calls, under other numbers.
const FIRST_X32_CALL: u32 = 0x4000_0000;

/// What a refused call returns. Programs take it for a file that may not be executed.
const REFUSAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;

/// Where the filter finds the call's number, the machine, and the low half of the first argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };

/// Has the process of `command` execute the file behind `program`, with these arguments and variables, instead of the
/// command's own, and never another program. No step may be added to the command afterwards: it would not be reached.
pub(crate) fn seal(
    command: &mut Command,
    program: OwnedFd,
    arguments: Vec<CString>,
    environment: Vec<CString>,
) -> io::Result<()> {
    let machine = MACHINE.ok_or(io::ErrorKind::Unsupported)?;
    // The pointers lead into the strings, which the step keeps; addresses as numbers, because a step has to be `Send`.
    let address = |pointer: *const libc::c_char| pointer.expose_provenance();
    let argv: Vec<usize> = pointers(&arguments).into_iter().map(address).collect();
    let envp: Vec<usize> = pointers(&environment).into_iter().map(address).collect();
    let filter = filter(machine, program.as_raw_fd());
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
    let filter = libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads the filter and the arrays, which outlive the calls, and writes nothing.
    unsafe {
        let unused: libc::c_ulong = 0;
        let enabled: libc::c_ulong = 1;
        // Without this only root may install filters.
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, enabled, unused, unused, unused) != 0
            || libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, unused, &raw const filter) != 0
        {
            return io::Error::last_os_error();
        }
        let (argv, envp) = (argv.as_ptr(), envp.as_ptr());
        libc::syscall(libc::SYS_execveat, program, c"".as_ptr(), argv, envp, libc::AT_EMPTY_PATH);
    }
    io::Error::last_os_error()
}

/// The filter: everything is allowed but executing a file, except the one behind `program`.
fn filter(machine: u32, program: RawFd) -> Vec<libc::sock_filter> {
    let load = |offset: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let allow = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    let refuse = statement(libc::BPF_RET | libc::BPF_K, REFUSAL);
    let equals = |value: u32, then: u8, otherwise: u8| jump(libc::BPF_JEQ, value, then, otherwise);
    let mut filter = vec![load(ARCHITECTURE), equals(machine, 1, 0), refuse, load(NUMBER)];
    if cfg!(target_arch = "x86_64") {
        filter.extend([jump(libc::BPF_JGE, FIRST_X32_CALL, 0, 1), refuse]);
    }
    filter.extend([
        equals(libc::SYS_execve as u32, 0, 1),
        refuse,
        equals(libc::SYS_execveat as u32, 1, 0),
        allow,
        load(FIRST_ARGUMENT),
        equals(program as u32, 1, 0),
        refuse,
        allow,
    ]);
    filter
}

fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

fn jump(comparison: u32, value: u32, then: u8, otherwise: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | comparison | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: then, jf: otherwise, k: value }
}
