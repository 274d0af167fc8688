//! A program's start, from the keeper's call to the kernel's exec.
//!
//! The new process shares the keeper's memory until it executes its program: copying the memory's maps and taking the
//! copy down again costs more than all the rest of a start. So what it touches is prepared beforehand, on a stack of its
//! own, and [`Birth`] keeps that alive. Between the two it makes system calls and nothing else, without the C library:
//! that one's locks may be held by the keeper's other thread, and its `errno` is the keeper's own.
//!
//! Where sharing is not known or not allowed, the memory is copied as `fork` does; the same steps follow.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::pointers;
use crate::marks;
use crate::proto::{Execute, Pin, Stage};

/// A program to execute.
pub(crate) struct Program {
    /// The file to execute.
    pub(crate) path: CString,
    /// Its arguments.
    pub(crate) argv: Vec<CString>,
    /// Its environment.
    pub(crate) env: Vec<CString>,
    /// Its working directory.
    pub(crate) cwd: CString,
    /// Its file mode mask.
    pub(crate) umask: u32,
    /// Its soft limit of open files, 0 to leave the keeper's.
    pub(crate) nofile: u64,
    /// It leads a session of its own, not only a process group.
    pub(crate) own_session: bool,
    /// The mark of its own that its limits carry, 0 for that of every hosted process.
    pub(crate) limit_tag: u64,
    /// Which file it must be.
    pub(crate) pin: Option<Pin>,
    /// The open file to execute instead of the one that the path leads to, and how.
    pub(crate) execute: Option<(OwnedFd, Execute)>,
}

/// The child's ends of its pipes, and the pipe by which a failed exec is told.
pub(crate) struct ChildEnds<'a> {
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
    pub(crate) failure: BorrowedFd<'a>,
    /// The directory of the child's own cgroup, if it has one.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
}

/// What a process needs of the keeper's memory until the failure pipe has spoken: dropped before that, it would run on
/// memory that is somebody else's.
#[must_use]
pub(crate) struct Birth {
    plan: Box<Plan>,
    stack: Box<Stack>,
}

impl Birth {
    /// Gives the memory up for good, where it cannot be known any more when it is free.
    pub(crate) fn give_up(self) {
        std::mem::forget(self);
    }
}

/// Everything between the two, with nothing left to allocate.
struct Plan {
    program: Program,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    nofile: libc::rlimit,
    locks: libc::rlimit,
    /// The signals that the keeper ignores, and a program would inherit.
    ignored: &'static [libc::c_int],
    /// Standard input, output and error, and the failure pipe.
    ends: [RawFd; 4],
}

/// The stack of the steps below; they need a few hundred bytes of it, some kilobytes where nothing is optimised.
#[repr(align(16))]
struct Stack([u8; STACK]);

/// Bytes of it.
const STACK: usize = 16 * 1024;

/// Where the failure pipe is moved to in the child, behind its standard streams.
const FAILURE_PLACE: RawFd = 3;
/// Where the open file to execute is moved to. Scripts see it: the protocol's page names the number.
const PROGRAM_PLACE: RawFd = 4;

/// From the kernel's `sched.h`; too wide for the type the C library's constant has.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Starts a process that executes a program. It is leader of its own process group; a failure before the exec arrives as
/// eight bytes (stage, errno) on the failure pipe, success as its end of file. What is returned with its id must live
/// until then.
pub(crate) fn start(program: Program, ends: &ChildEnds<'_>) -> io::Result<(u32, Birth)> {
    let (mut birth, mut args) = prepare(program, ends)?;
    // SAFETY: plan and stack live in `birth`, which the caller keeps until the child needs them no more, and the steps
    // of the child change nothing but the stack.
    let pid = match unsafe { clone_sharing(&args, &birth.plan, &mut birth.stack) } {
        Ok(pid) => pid,
        // An old kernel or a container's filter: the tag still finds the tree.
        // SAFETY: the plan is copied with all the rest.
        Err(_) => unsafe { fork_copying(&mut args, &birth.plan) }?,
    };
    Ok((pid, birth))
}

fn prepare(program: Program, ends: &ChildEnds<'_>) -> io::Result<(Birth, libc::clone_args)> {
    let [mut nofile, mut locks] = [libc::rlimit { rlim_cur: 0, rlim_max: 0 }; 2];
    for (resource, place) in [(libc::RLIMIT_NOFILE, &mut nofile), (libc::RLIMIT_LOCKS, &mut locks)] {
        // SAFETY: `place` is a valid place for the answer.
        if unsafe { libc::getrlimit(resource, place) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if program.nofile != 0 {
        nofile.rlim_cur = program.nofile.min(nofile.rlim_max);
    }
    locks.rlim_max = marks::limit_of_hosted(locks.rlim_max, program.limit_tag);
    locks.rlim_cur = locks.rlim_max;
    let plan = Box::new(Plan {
        argv: pointers(&program.argv),
        envp: pointers(&program.env),
        program,
        nofile,
        locks,
        ignored: ignored_signals(),
        ends: [ends.stdin, ends.stdout, ends.stderr, ends.failure].map(|end| end.as_raw_fd()),
    });
    let birth = Birth { plan, stack: Box::new(Stack([0; STACK])) };
    Ok((birth, clone_args(ends.cgroup)))
}

/// Being born in a cgroup costs nothing; moving there afterwards stops every fork of the machine for milliseconds.
fn clone_args(cgroup: Option<BorrowedFd<'_>>) -> libc::clone_args {
    // SAFETY: plain data, of which zero is the kernel's own default.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    args
}

/// Makes a process that shares our memory and takes the steps of `plan` on `stack`.
///
/// # Safety
/// Both live until the process has executed its program or is gone, and nobody else uses the stack.
#[cfg(target_arch = "x86_64")]
unsafe fn clone_sharing(args: &libc::clone_args, plan: &Plan, stack: &mut Stack) -> io::Result<u32> {
    let mut args = *args;
    args.flags |= libc::CLONE_VM as u64;
    args.stack = stack.0.as_mut_ptr() as u64;
    args.stack_size = stack.0.len() as u64;
    let result: isize;
    // SAFETY: in the parent this is one system call. The child arrives on the new, aligned stack and never comes back:
    // it calls `steps`, which does not return. Only registers that the call keeps carry what it needs.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") &raw const args,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") std::ptr::from_ref(plan),
            in("r13") steps as unsafe extern "C" fn(*const Plan) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    match result {
        1.. => Ok(result as u32),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    }
}

/// Nobody has written down here how that machine enters a new stack.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn clone_sharing(_: &libc::clone_args, _: &Plan, _: &mut Stack) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes a process with a copy of our memory, for the same steps.
///
/// # Safety
/// As for `fork` in a program with threads: the steps call nothing of the C library.
unsafe fn fork_copying(args: &mut libc::clone_args, plan: &Plan) -> io::Result<u32> {
    // SAFETY: without CLONE_VM the child has its own copy of our memory and goes on here. What the C library's fork does
    // besides, it does for children that use the library.
    unsafe {
        let mut pid = libc::syscall(libc::SYS_clone3, &raw mut *args, size_of::<libc::clone_args>());
        if pid < 0 {
            pid = i64::from(libc::fork());
        }
        match pid {
            0 => steps(plan),
            1.. => Ok(pid as u32),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A system call, and what the kernel said: an error is below zero.
///
/// # Safety
/// As the call itself.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> isize {
    let result;
    // SAFETY: the kernel keeps every register but these three.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same by way of the C library, whose `errno` belongs to a copy of our memory here.
///
/// # Safety
/// As the call itself.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn call(number: libc::c_long, [a, b, c, d]: [usize; 4]) -> isize {
    // SAFETY: the caller's.
    match unsafe { libc::syscall(number, a, b, c, d) } {
        -1 => -(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) as isize),
        result => result as isize,
    }
}

/// What the kernel calls `struct sigaction`, large enough for every machine; the action itself comes first.
type KernelAction = [usize; 8];

/// Bytes of the kernel's signal set.
const SIGNAL_SET: usize = 8;

/// The signals that this process ignores, which a program would inherit: all others are at their defaults once it runs.
/// Nothing changes them after the keeper's start. The raw call is used because the C library hides two of its own.
fn ignored_signals() -> &'static [libc::c_int] {
    static IGNORED: std::sync::OnceLock<Vec<libc::c_int>> = std::sync::OnceLock::new();
    IGNORED.get_or_init(|| {
        let is_ignored = |signal: &libc::c_int| {
            let mut action: KernelAction = [0; 8];
            // SAFETY: asks only; `action` has room for the answer.
            let asked =
                unsafe { call(libc::SYS_rt_sigaction, [*signal as usize, 0, (&raw mut action) as usize, SIGNAL_SET]) };
            asked == 0 && action[0] == libc::SIG_IGN
        };
        (1..=64).filter(is_ignored).collect()
    })
}

/// The new process's whole life until it executes its program.
///
/// # Safety
/// Only in a new process; every pointer of the plan is valid, and its arrays end with a null pointer.
unsafe extern "C" fn steps(plan: *const Plan) -> ! {
    // SAFETY: descriptors and pointers are valid (see the caller); zero is a valid set of signals: none.
    unsafe {
        let plan = &*plan;
        let program = &plan.program;
        let [stdin, stdout, stderr, failure] = plan.ends;
        let setup = |result: isize| setup_at(failure, result);
        setup(match program.own_session {
            true => call(libc::SYS_setsid, [0; 4]),
            false => call(libc::SYS_setpgid, [0; 4]),
        });
        for (from, to) in [(stdin, 0), (stdout, 1), (stderr, 2)] {
            setup(call(libc::SYS_dup3, [from as usize, to, 0, 0]));
        }
        // Out of the way of both places first: its number may be one of them.
        let program_file = program.execute.as_ref().map(|(file, execute)| {
            let from = [file.as_raw_fd() as usize, libc::F_DUPFD_CLOEXEC as usize, PROGRAM_PLACE as usize + 1, 0];
            let copy = call(libc::SYS_fcntl, from);
            setup(copy);
            (copy as usize, *execute)
        });
        // Nothing else of the keeper's may stay open in a child that hangs before its exec: not its
        // lock, not another child's pipe.
        if failure != FAILURE_PLACE {
            setup(call(libc::SYS_dup3, [failure as usize, FAILURE_PLACE as usize, libc::O_CLOEXEC as usize, 0]));
        }
        let failure = FAILURE_PLACE;
        let mut first_closed = FAILURE_PLACE as usize + 1;
        if let Some((copy, execute)) = program_file {
            let flags = if execute == Execute::Script { 0 } else { libc::O_CLOEXEC };
            setup_at(failure, call(libc::SYS_dup3, [copy, PROGRAM_PLACE as usize, flags as usize, 0]));
            first_closed = PROGRAM_PLACE as usize + 1;
        }
        call(libc::SYS_close_range, [first_closed, libc::c_uint::MAX as usize, 0, 0]);
        let default: KernelAction = [0; 8];
        for signal in plan.ignored {
            call(libc::SYS_rt_sigaction, [*signal as usize, (&raw const default) as usize, 0, SIGNAL_SET]);
        }
        let none = [0u8; SIGNAL_SET];
        call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, (&raw const none) as usize, 0, SIGNAL_SET]);
        call(libc::SYS_umask, [program.umask as usize, 0, 0, 0]);
        limit(libc::RLIMIT_NOFILE as usize, &plan.nofile);
        // Never refused: it is not higher than before.
        limit(libc::RLIMIT_LOCKS as usize, &plan.locks);
        let moved = call(libc::SYS_chdir, [program.cwd.as_ptr() as usize, 0, 0, 0]);
        if moved < 0 {
            fail(failure, Stage::Chdir, moved);
        }
        let (argv, envp) = (plan.argv.as_ptr() as usize, plan.envp.as_ptr() as usize);
        if let Some((_, execute)) = &program.execute {
            if *execute == Execute::Leased && !has_lease(PROGRAM_PLACE) {
                fail(failure, Stage::Changed, 0);
            }
            fail(failure, Stage::Exec, execute_descriptor(PROGRAM_PLACE, argv, envp));
        }
        if let Some(pin) = &program.pin
            && !is_pinned(&program.path, pin)
        {
            fail(failure, Stage::Changed, 0);
        }
        let refused = call(libc::SYS_execve, [program.path.as_ptr() as usize, argv, envp, 0]);
        fail(failure, Stage::Exec, refused)
    }
}

/// Gives up if a call failed.
///
/// # Safety
/// Only in a new process.
unsafe fn setup_at(failure: RawFd, result: isize) {
    if result < 0 {
        // SAFETY: the caller's.
        unsafe { fail(failure, Stage::Setup, result) }
    }
}

/// Becomes the program behind a descriptor: exactly that file, whatever its path leads to by now. Returns only on failure.
///
/// # Safety
/// Only in a new process; the arrays end with a null pointer.
#[cfg(target_arch = "x86_64")]
unsafe fn execute_descriptor(program: RawFd, argv: usize, envp: usize) -> isize {
    let result;
    // SAFETY: the kernel keeps every register but these three; the empty path is static.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_execveat as isize => result,
            in("rdi") program as isize,
            in("rsi") c"".as_ptr(),
            in("rdx") argv,
            in("r10") envp,
            in("r8") libc::AT_EMPTY_PATH as isize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same by way of the C library.
///
/// # Safety
/// Only in a new process; the arrays end with a null pointer.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn execute_descriptor(program: RawFd, argv: usize, envp: usize) -> isize {
    // SAFETY: the caller's; the empty path is static.
    unsafe { libc::syscall(libc::SYS_execveat, program, c"".as_ptr(), argv, envp, libc::AT_EMPTY_PATH) };
    -(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) as isize)
}

/// Sets a limit of the calling process.
///
/// # Safety
/// Only in a new process.
unsafe fn limit(resource: usize, to: &libc::rlimit) {
    // SAFETY: `to` is what the kernel expects: two 64-bit numbers on every machine that this is built for.
    unsafe { call(libc::SYS_prlimit64, [0, resource, std::ptr::from_ref(to) as usize, 0]) };
}

/// Whether a path leads to the file that is meant, looked at as late as it can be. A path that leads nowhere passes:
/// the kernel is about to say so in its own words.
///
/// # Safety
/// Only in a new process.
unsafe fn is_pinned(path: &CStr, pin: &Pin) -> bool {
    // SAFETY: `found` is plain data that the call fills, `path` ends with a null byte.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let here = libc::AT_FDCWD as isize as usize;
        if call(libc::SYS_newfstatat, [here, path.as_ptr() as usize, (&raw mut found) as usize, 0]) < 0 {
            return true;
        }
        let nanoseconds = |seconds: i64, rest: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(rest);
        found.st_dev == pin.dev
            && found.st_ino == pin.inode
            && found.st_size as u64 == pin.size
            && nanoseconds(found.st_mtime, found.st_mtime_nsec) == pin.mtime_ns
            && nanoseconds(found.st_ctime, found.st_ctime_nsec) == pin.ctime_ns
    }
}

/// Whether nobody has begun to write to the file behind a descriptor since its lease was taken. What comes after this and
/// before the exec is a few instructions; an opener waits much longer than that.
///
/// # Safety
/// Only in a new process.
unsafe fn has_lease(program: RawFd) -> bool {
    // SAFETY: asks only.
    let kind = unsafe { call(libc::SYS_fcntl, [program as usize, libc::F_GETLEASE as usize, 0, 0]) };
    kind == libc::F_RDLCK as isize
}

/// Tells what failed and ends. Once that is told, the stack may be somebody else's: it is not touched any more.
///
/// # Safety
/// Only in a new process.
#[cfg(target_arch = "x86_64")]
unsafe fn fail(pipe: RawFd, stage: Stage, result: isize) -> ! {
    let message = message(stage, result);
    // SAFETY: two calls in a row, with all that the second needs in registers and in the code itself.
    unsafe {
        std::arch::asm!(
            "syscall",
            "mov edi, 127",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            exit = const libc::SYS_exit_group,
            in("rax") libc::SYS_write,
            in("rdi") pipe as isize,
            in("rsi") &raw const message,
            in("rdx") size_of_val(&message),
            options(noreturn),
        )
    }
}

/// The same, on a copy of the stack.
///
/// # Safety
/// Only in a new process.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn fail(pipe: RawFd, stage: Stage, result: isize) -> ! {
    let message = message(stage, result);
    // SAFETY: eight bytes of our own stack; leaving without destructors.
    unsafe {
        call(libc::SYS_write, [pipe as usize, (&raw const message) as usize, message.len(), 0]);
        libc::_exit(127)
    }
}

/// What goes through the failure pipe.
fn message(stage: Stage, result: isize) -> [u8; 8] {
    let mut message = [0u8; 8];
    let (first, second) = message.split_at_mut(4);
    first.copy_from_slice(&stage.to_wire().to_le_bytes());
    second.copy_from_slice(&(-result as i32).to_le_bytes());
    message
}

#[cfg(test)]
#[path = "birth_tests.rs"]
mod tests;
