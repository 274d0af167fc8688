//! The system calls that have no safe wrapper: starting programs, signalfd, exec of ourselves.
//!
//! This is the one module of the workspace that contains `unsafe`. It decides nothing: it takes
//! prepared arrays and descriptors and returns what the kernel said.

mod birth;
mod lease;
mod seal;
mod socket;

pub(crate) use birth::{Birth, ChildEnds, Program, start};
pub(crate) use lease::{lease_of, set_lease};
pub(crate) use seal::seal;
pub(crate) use socket::{peer_process, receive};

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::syscall_filter::SyscallFilter;

/// The array of pointers that the kernel wants of arguments and environment.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
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

/// Takes pages of code out of this process's map; what is needed of them comes back from the file.
///
/// The caller has found the range in the kernel's own list of mappings: private, executable, not writable, of a file.
pub(crate) fn let_code_go(from: usize, to: usize) {
    // SAFETY: such pages hold what the file holds and nothing else, so that reading them again gives the same; a range that
    // is no mapping any more is refused.
    unsafe {
        libc::madvise(std::ptr::with_exposed_provenance_mut(from), to.saturating_sub(from), libc::MADV_DONTNEED);
    }
}

/// Keeps memory that holds a secret out of core dumps and out of swap. Best effort: a limit of locked memory may refuse
/// the second.
pub(crate) fn exclude_from_dumps(page: &mut [u8; 4096]) {
    let start = page.as_mut_ptr().cast();
    // SAFETY: both calls concern exactly the given, mapped bytes and do not change them; a start that is not at the
    // beginning of a page is refused.
    unsafe {
        libc::madvise(start, page.len(), libc::MADV_DONTDUMP);
        libc::mlock(start, page.len());
    }
}

/// When memory runs out the kernel is to take the child, not its keeper. Done from outside because
/// the child itself is not dumpable, and so may not, until it has executed its program.
pub(crate) fn prefer_as_victim(pid: u32) {
    std::fs::write(format!("/proc/{pid}/oom_score_adj"), "200").ok();
}

/// A filter as the kernel takes it.
pub(crate) fn kernel_filter(filter: &SyscallFilter) -> Vec<libc::sock_filter> {
    let instructions = filter.instructions().iter();
    instructions
        .map(|one| libc::sock_filter { code: one.code, jt: one.jump_true, jf: one.jump_false, k: one.value })
        .collect()
}

/// Filters the system calls of this thread, and of all that comes from it, for good. Without a right to gain privileges:
/// the kernel takes a filter of an ordinary user in no other way. Makes system calls only, so a new process may call it.
pub(crate) fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let length = libc::c_ushort::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    let unused: libc::c_ulong = 0;
    // SAFETY: sets a bit of this thread.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, unused, unused, unused) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
    // SAFETY: `program` points to `length` instructions, which live until this returns; the kernel copies and checks them,
    // and writes nothing.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, unused, unused) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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

/// Leaves namespaces for new ones of its own.
pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is passed, and the flags that are used concern namespaces alone: what threads of one process
    // must share (memory, descriptors, signals) stays shared.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
