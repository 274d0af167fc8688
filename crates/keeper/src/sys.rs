//! The system calls that have no safe wrapper: fork and exec, signalfd, exec of ourselves.
//!
//! This is the one module of the workspace that contains `unsafe`. It decides nothing: it takes
//! prepared arrays and descriptors and returns what the kernel said. Between `fork` and `exec`
//! only system calls on those arrays happen, because the keeper has two threads and the other one
//! may hold any lock of the C library at that moment.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::proto::{Pin, Stage};

/// A program to execute, everything prepared so that nothing is allocated after `fork`.
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
    /// The mark that its limits carry, 0 for none.
    pub(crate) limit_tag: u64,
    /// Which file it must be.
    pub(crate) pin: Option<Pin>,
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

/// Where the failure pipe is moved to in the child, behind its standard streams.
const FAILURE_PLACE: RawFd = 3;

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}

/// Forks and executes. The child is leader of its own process group; a failure after the fork
/// arrives as eight bytes (stage, errno) on the failure pipe, success as its end of file.
pub(crate) fn fork_exec(program: &Program, ends: &ChildEnds<'_>) -> io::Result<u32> {
    let argv = pointers(&program.argv);
    let envp = pointers(&program.env);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if program.nofile != 0 {
        limit.rlim_cur = program.nofile.min(limit.rlim_max);
    }
    let ignored = ignored_signals();
    // SAFETY: the child below calls only async-signal-safe functions on memory prepared above.
    let pid = unsafe { fork_into(ends.cgroup) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: we are the child; every pointer was made before the fork and stays alive,
            // and `run_child` never returns.
            unsafe { run_child(program, &argv, &envp, &limit, ignored, ends) }
        }
        pid => Ok(pid as u32),
    }
}

/// What the kernel calls `struct sigaction`, large enough for every machine; the action itself comes first.
type KernelAction = [usize; 8];

/// The signals that this process ignores, which a program would inherit: all others are at their defaults once it runs.
/// Nothing changes them after the keeper's start. The raw call is used because the C library hides two of its own.
fn ignored_signals() -> &'static [libc::c_int] {
    static IGNORED: std::sync::OnceLock<Vec<libc::c_int>> = std::sync::OnceLock::new();
    IGNORED.get_or_init(|| {
        let is_ignored = |signal: &libc::c_int| {
            let mut action: KernelAction = [0; 8];
            // SAFETY: asks only; `action` has room for the answer. The size is that of the kernel's signal set.
            let asked =
                unsafe { libc::syscall(libc::SYS_rt_sigaction, *signal, std::ptr::null::<u8>(), &raw mut action, 8) };
            asked == 0 && action[0] == libc::SIG_IGN
        };
        (1..=64).filter(is_ignored).collect()
    })
}

/// Gives a signal its default action, in a freshly forked child.
///
/// # Safety
/// Async-signal-safe; the caller has no handler for it that anybody relies on.
unsafe fn set_default(signal: libc::c_int) {
    let action: KernelAction = [0; 8];
    // SAFETY: a zeroed action is the default one.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, std::ptr::null::<u8>(), 8) };
}

/// From the kernel's `sched.h`; too wide for the type the C library's constant has.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks, into a cgroup if one is given. Being born there costs nothing; moving there afterwards
/// stops every fork of the machine for milliseconds.
///
/// # Safety
/// The child may call only async-signal-safe functions: other threads' locks stay as they were.
unsafe fn fork_into(cgroup: Option<BorrowedFd<'_>>) -> libc::pid_t {
    // SAFETY: `clone_args` is plain data; without CLONE_VM the child has its own copy of our memory,
    // as after fork. What the C library's fork does besides, it does for children that use the library: it takes every
    // lock of the allocator and puts it in order again on both sides.
    unsafe {
        let mut args: libc::clone_args = std::mem::zeroed();
        args.exit_signal = libc::SIGCHLD as u64;
        if let Some(cgroup) = cgroup {
            args.flags = CLONE_INTO_CGROUP;
            args.cgroup = cgroup.as_raw_fd() as u64;
        }
        let pid = libc::syscall(libc::SYS_clone3, &raw mut args, std::mem::size_of::<libc::clone_args>());
        if pid >= 0 {
            return pid as libc::pid_t;
        }
        // An old kernel or a container's filter: the tag still finds the tree.
        libc::fork()
    }
}

/// # Safety
/// Only in a freshly forked child; `argv` and `envp` end with a null pointer.
unsafe fn run_child(
    program: &Program,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    limit: &libc::rlimit,
    ignored: &[libc::c_int],
    ends: &ChildEnds<'_>,
) -> ! {
    // SAFETY: all calls are async-signal-safe; descriptors and pointers are valid (see caller).
    unsafe {
        let failure = ends.failure.as_raw_fd();
        let leads = if program.own_session { libc::setsid() } else { libc::setpgid(0, 0) };
        if leads < 0 {
            fail(failure, Stage::Setup);
        }
        for (from, to) in [(ends.stdin, 0), (ends.stdout, 1), (ends.stderr, 2)] {
            if libc::dup2(from.as_raw_fd(), to) < 0 {
                fail(failure, Stage::Setup);
            }
        }
        // Nothing else of the keeper's may stay open in a child that hangs before its exec: not its
        // lock, not another child's pipe.
        if failure != FAILURE_PLACE && libc::dup3(failure, FAILURE_PLACE, libc::O_CLOEXEC) < 0 {
            fail(failure, Stage::Setup);
        }
        let failure = FAILURE_PLACE;
        libc::close_range(FAILURE_PLACE as libc::c_uint + 1, libc::c_uint::MAX, 0);
        for signal in ignored {
            set_default(*signal);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::umask(program.umask);
        libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        if program.limit_tag != 0 {
            // Refused where an outer keeper has put its own mark there: then that one stays.
            let mark = libc::rlimit { rlim_cur: program.limit_tag, rlim_max: program.limit_tag };
            libc::setrlimit(libc::RLIMIT_LOCKS, &raw const mark);
        }
        if libc::chdir(program.cwd.as_ptr()) != 0 {
            fail(failure, Stage::Chdir);
        }
        if let Some(pin) = &program.pin
            && !is_pinned(&program.path, pin)
        {
            fail(failure, Stage::Changed);
        }
        libc::execve(program.path.as_ptr(), argv.as_ptr(), envp.as_ptr());
        fail(failure, Stage::Exec)
    }
}

/// Whether a path leads to the file that is meant, looked at as late as it can be. A path that leads nowhere passes:
/// the kernel is about to say so in its own words.
///
/// # Safety
/// Async-signal-safe, for a freshly forked child.
unsafe fn is_pinned(path: &CStr, pin: &Pin) -> bool {
    // SAFETY: `found` is plain data that the call fills, `path` ends with a null byte.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        if libc::stat(path.as_ptr(), &raw mut found) != 0 {
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

/// # Safety
/// Only in a freshly forked child.
unsafe fn fail(pipe: RawFd, stage: Stage) -> ! {
    // SAFETY: reading errno, writing eight bytes of our own stack, leaving without destructors.
    unsafe {
        let errno = *libc::__errno_location();
        let mut message = [0u8; 8];
        message[..4].copy_from_slice(&stage.to_wire().to_le_bytes());
        message[4..].copy_from_slice(&errno.to_le_bytes());
        libc::write(pipe, message.as_ptr().cast(), message.len());
        libc::_exit(127)
    }
}

/// Sets how the C library keeps freed memory: one heap for all threads, and what is large is mapped on its own and goes
/// back when it is freed. By itself the library makes a heap for each thread, and after the first large piece was freed it
/// takes the next one from a heap, where it stays.
pub(crate) fn keep_memory_small() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, LARGE)] {
        // SAFETY: sets numbers of the allocator, under its own lock.
        unsafe { libc::mallopt(option, value) };
    }
}

/// What counts as large: the library's own first choice.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 * 1024;

/// Gives every whole page that is free in the heap back to the system.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: concerns only what nobody uses, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// When memory runs out the kernel is to take the child, not its keeper. Done from outside because
/// the child itself is not dumpable, and so may not, until it has executed its program.
pub(crate) fn prefer_as_victim(pid: u32) {
    std::fs::write(format!("/proc/{pid}/oom_score_adj"), "200").ok();
}

/// Which of the two a fork returned to.
pub(crate) enum Forked {
    /// The one that called.
    Parent,
    /// The new one.
    Child,
}

/// Forks the whole program, for becoming a background process.
pub(crate) fn fork_self() -> io::Result<Forked> {
    // SAFETY: called before any thread exists, so the child may go on as an ordinary program.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent),
    }
}

/// Blocks the signals the keeper handles and returns a descriptor that reads them.
pub(crate) fn signal_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before use; signalfd returns a new descriptor.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Reads one pending signal number.
pub(crate) fn next_signal(fd: BorrowedFd<'_>) -> Option<i32> {
    let mut info = [0u8; std::mem::size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(fd, &mut info) {
        Ok(read) if read == info.len() => Some(i32::from_le_bytes([info[0], info[1], info[2], info[3]])),
        _ => None,
    }
}

/// Replaces the running program by the one behind `program`. Returns only on failure.
pub(crate) fn exec_descriptor(program: BorrowedFd<'_>, argv: &[CString]) -> io::Error {
    let argv = pointers(argv);
    let envp: [*const libc::c_char; 1] = [std::ptr::null()];
    let empty: &CStr = c"";
    // SAFETY: arrays end with null and outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            empty.as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Takes over a descriptor that an earlier image of this program left open and named.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD only asks whether the number is open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is open, and the state that names it names it once.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned)
}

/// A journal that grows past a limit of the shell that started us is an error to handle, not a
/// reason to die. Children get the default back before they run.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: changes the disposition of one signal, to none of our code.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Closes every descriptor from `first` on, inherited ones we were never told of.
pub(crate) fn close_from(first: RawFd) {
    // SAFETY: called at start, before this program opened anything of its own.
    unsafe {
        libc::close_range(first as libc::c_uint, libc::c_uint::MAX, 0);
    }
}

/// A child that has ended and was not reaped yet.
pub(crate) struct Observed {
    pub(crate) pid: u32,
    /// Exit status, -1 when a signal ended it.
    pub(crate) code: i32,
    /// The signal, 0 if none.
    pub(crate) signal: i32,
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    pub(crate) max_rss_kib: u64,
}

/// Looks for an ended child, any or a certain one, and leaves it unreaped: until then its process
/// id, and with it its process group's, cannot become another's.
pub(crate) fn observe_ended(pid: Option<u32>) -> Option<Observed> {
    // SAFETY: both structures are plain data of the sizes the kernel expects; the raw call is used
    // because the C library's wrapper drops the usage.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let mut usage: libc::rusage = std::mem::zeroed();
        let (kind, id) = pid.map_or((libc::P_ALL, 0), |pid| (libc::P_PID, pid));
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let result = libc::syscall(libc::SYS_waitid, kind, id, &raw mut info, options, &raw mut usage);
        if result != 0 || info.si_pid() == 0 {
            return None;
        }
        let exited = info.si_code == libc::CLD_EXITED;
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Some(Observed {
            pid: info.si_pid() as u32,
            code: if exited { info.si_status() } else { -1 },
            signal: if exited { 0 } else { info.si_status() },
            user_us: micros(usage.ru_utime),
            system_us: micros(usage.ru_stime),
            max_rss_kib: usage.ru_maxrss as u64,
        })
    }
}

/// Gives an ended child's process id back to the kernel.
pub(crate) fn reap(pid: u32) {
    // SAFETY: no memory is passed.
    unsafe {
        libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), libc::WNOHANG);
    }
}
