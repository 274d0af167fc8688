//! Filters of system calls: seccomp in its classic form. Every filter of this program is built here.
//!
//! What a process with the filter for programs that shall not reach others on this machine ([`SyscallFilter::isolated`])
//! cannot do, and neither can anything it starts, for good:
//!
//! | call | why |
//! |---|---|
//! | `socket(AF_UNIX)`, datagram pairs | sockets that have a path or a name lead to the house, to the bus, to agents of keys; neither an empty network nor Landlock stands in their way |
//! | `io_uring_setup` | a ring makes sockets without these calls |
//! | `ptrace`, `process_vm_*`, `pidfd_getfd` | another process of the same user has such sockets |
//! | `ioctl(TIOCSTI)`, `ioctl(TIOCLINUX)` | writes into the input of a terminal |
//! | calls of another architecture | the numbers above are this one's |
//!
//! [`SyscallFilter::sealed`] is for programs that never execute another one ([`crate::confine::seal`]).
//! [`SyscallFilter::without_user_namespaces`] is for programs in a guard, where a counter of namespaces cannot do it.
//! [`SyscallFilter::own_limits`] is for every program in a guard.
//!
//! Guarantee: a call that is not named here is let through as it is. Installing a filter gives up the right to gain
//! privileges by executing a program (`no_new_privs`), which the kernel demands.

use std::io;
use std::os::fd::RawFd;

use crate::sys;

/// The number of bytes in an instruction.
const INSTRUCTION: usize = 8;

/// Where the kernel shows the number of a call, its architecture and its arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The bit that marks calls of x32 on x86-64.
const X32: u32 = 0x4000_0000;

/// 32-bit programs on these machines, and their numbers of `prlimit64`.
const I386: u32 = 0x4000_0003;
const PRLIMIT64_I386: u32 = 340;
const ARM: u32 = 0x4000_0028;
const PRLIMIT64_ARM: u32 = 369;

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

/// The kernel's name for this architecture; none if this module does not know it.
const NATIVE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else {
    None
};

/// A filter that can be installed, or handed to a program that installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallFilter(Vec<Instruction>);

/// An instruction of the kernel's classic machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) value: u32,
}

impl SyscallFilter {
    /// The filter for a program; `unix_sockets`: it may use those.
    ///
    /// # Errors
    /// This architecture is not known.
    pub fn isolated(unix_sockets: bool) -> io::Result<Self> {
        let mut filter = Self::of_native_calls(libc::ENOSYS)?;
        if !unix_sockets {
            let any = u32::MAX;
            filter.refuse_argument(libc::SYS_socket, 0, any, libc::AF_UNIX as u32, libc::EACCES);
            // One of a pair of datagram sockets can send to any other socket.
            filter.refuse_argument(libc::SYS_socketpair, 1, 0xf, libc::SOCK_DGRAM as u32, libc::EACCES);
        }
        filter.refuse_call(libc::SYS_io_uring_setup, libc::ENOSYS);
        for call in [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd] {
            filter.refuse_call(call, libc::EPERM);
        }
        for request in [TIOCSTI, TIOCLINUX] {
            filter.refuse_argument(libc::SYS_ioctl, 1, u32::MAX, request, libc::EPERM);
        }
        filter.give(libc::SECCOMP_RET_ALLOW);
        Ok(filter)
    }

    /// The filter for a process that may execute the file behind a descriptor, and no other one. Programs take what it
    /// answers for a file that may not be executed.
    ///
    /// # Errors
    /// This architecture is not known.
    pub(crate) fn sealed(program: RawFd) -> io::Result<Self> {
        let mut filter = Self::of_native_calls(libc::EACCES)?;
        filter.refuse_call(libc::SYS_execve, libc::EACCES);
        filter.allow_argument(libc::SYS_execveat, 0, program as u32, libc::EACCES);
        filter.give(libc::SECCOMP_RET_ALLOW);
        Ok(filter)
    }

    /// The filter for a program that can neither make nor enter a user namespace.
    ///
    /// The flags of `clone3` are in memory, where a filter does not see them. Programs take the answer for an older
    /// kernel and use `clone`.
    ///
    /// # Errors
    /// This architecture is not known.
    pub fn without_user_namespaces() -> io::Result<Self> {
        let mut filter = Self::of_native_calls(libc::ENOSYS)?;
        let flag = libc::CLONE_NEWUSER as u32;
        for call in [libc::SYS_unshare, libc::SYS_clone] {
            filter.refuse_argument(call, 0, flag, flag, libc::EPERM);
        }
        filter.refuse_call(libc::SYS_clone3, libc::ENOSYS);
        filter.refuse_call(libc::SYS_setns, libc::EPERM);
        filter.give(libc::SECCOMP_RET_ALLOW);
        Ok(filter)
    }

    /// The filter for a program that can change no resource limits but its own: a limit of processor time would end keeper
    /// or daemon, and one of file locks would have the house refuse its owner. Unlike the others it knows the calls of
    /// 32-bit programs, which run under it.
    ///
    /// # Errors
    /// This architecture is not known.
    pub fn own_limits() -> io::Result<Self> {
        let native = NATIVE.ok_or(io::ErrorKind::Unsupported)?;
        let mut calls = vec![(native, libc::SYS_prlimit64 as u32)];
        if cfg!(target_arch = "x86_64") {
            calls.extend([(native, X32 | libc::SYS_prlimit64 as u32), (I386, PRLIMIT64_I386)]);
        } else if cfg!(target_arch = "aarch64") {
            calls.push((ARM, PRLIMIT64_ARM));
        }
        let mut filter = Self(Vec::new());
        for (architecture, call) in calls {
            filter.load(ARCHITECTURE);
            filter.jump_if_equal(architecture, 0, 9);
            filter.load(NUMBER);
            filter.jump_if_equal(call, 0, 7);
            // Process 0 is the one that calls.
            filter.load_argument(0);
            filter.jump_if_equal(0, 5, 0);
            // Without new limits the old ones are read.
            filter.load_argument(2);
            filter.jump_if_equal(0, 0, 2);
            filter.load(ARGUMENTS + 8 * 2 + if cfg!(target_endian = "big") { 0 } else { 4 });
            filter.jump_if_equal(0, 1, 0);
            filter.refuse(libc::EPERM);
        }
        filter.give(libc::SECCOMP_RET_ALLOW);
        Ok(filter)
    }

    /// The beginning of every filter: calls of other architectures and numberings are refused. The number of the call is
    /// loaded then.
    fn of_native_calls(error: i32) -> io::Result<Self> {
        let native = NATIVE.ok_or(io::ErrorKind::Unsupported)?;
        let mut filter = Self(Vec::new());
        filter.load(ARCHITECTURE);
        filter.jump_if_equal(native, 1, 0);
        filter.refuse(error);
        filter.load(NUMBER);
        if cfg!(target_arch = "x86_64") {
            filter.0.push(instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32));
            filter.refuse(error);
        }
        Ok(filter)
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Installs it in this thread and in whatever it becomes or starts. There must be no other thread.
    ///
    /// # Errors
    /// The kernel has no such filters, or refuses this one.
    pub fn install(&self) -> io::Result<()> {
        sys::install_filter(&sys::kernel_filter(self))
    }

    /// As `bwrap --seccomp` reads it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * INSTRUCTION);
        for one in &self.0 {
            bytes.extend_from_slice(&one.code.to_ne_bytes());
            bytes.extend_from_slice(&[one.jump_true, one.jump_false]);
            bytes.extend_from_slice(&one.value.to_ne_bytes());
        }
        bytes
    }

    fn load(&mut self, offset: u32) {
        self.0.push(instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset));
    }

    fn jump_if_equal(&mut self, value: u32, jump_true: u8, jump_false: u8) {
        self.0.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump_true, jump_false, value));
    }

    fn give(&mut self, verdict: u32) {
        self.0.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, verdict));
    }

    fn refuse(&mut self, error: i32) {
        self.give(libc::SECCOMP_RET_ERRNO | (error as u32 & libc::SECCOMP_RET_DATA));
    }

    /// Refuses a call. The number of the call is loaded before and after.
    fn refuse_call(&mut self, call: libc::c_long, error: i32) {
        self.jump_if_equal(call as u32, 0, 1);
        self.refuse(error);
    }

    /// Refuses a call whose argument has this value under a mask. The kernel takes these arguments as 32 bits, whatever
    /// stands above them.
    fn refuse_argument(&mut self, call: libc::c_long, argument: u32, mask: u32, value: u32, error: i32) {
        self.jump_if_equal(call as u32, 0, 5);
        self.load_argument(argument);
        self.0.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask));
        self.jump_if_equal(value, 0, 1);
        self.refuse(error);
        self.load(NUMBER);
    }

    /// Refuses a call unless an argument has this value.
    fn allow_argument(&mut self, call: libc::c_long, argument: u32, value: u32, error: i32) {
        self.jump_if_equal(call as u32, 0, 4);
        self.load_argument(argument);
        self.jump_if_equal(value, 1, 0);
        self.refuse(error);
        self.load(NUMBER);
    }

    /// Loads the lower half of an argument.
    fn load_argument(&mut self, argument: u32) {
        let lower = if cfg!(target_endian = "big") { 4 } else { 0 };
        self.load(ARGUMENTS + 8 * argument + lower);
    }
}

fn instruction(code: u32, jump_true: u8, jump_false: u8, value: u32) -> Instruction {
    Instruction { code: code as u16, jump_true, jump_false, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel's machine does with a filter.
    fn judge(filter: &SyscallFilter, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER => number,
            ARCHITECTURE => architecture,
            offset => {
                let (argument, half) = ((offset - ARGUMENTS) / 8, (offset - ARGUMENTS) % 8);
                let bytes = arguments[argument as usize].to_ne_bytes();
                u32::from_ne_bytes(bytes[half as usize..half as usize + 4].try_into().unwrap())
            }
        };
        let (mut at, mut held) = (0, 0);
        loop {
            let Instruction { code, jump_true, jump_false, value } = filter.0[at];
            at += 1;
            let jump = |taken: bool| usize::from(if taken { jump_true } else { jump_false });
            match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => held = word(value),
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => held &= value,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += jump(held == value),
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => at += jump(held & value != 0),
                code if code == libc::BPF_RET | libc::BPF_K => return value,
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    fn refused(error: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | error as u32
    }

    #[test]
    fn what_is_refused_and_nothing_else() {
        let native = NATIVE.unwrap();
        for unix_sockets in [false, true] {
            let filter = SyscallFilter::isolated(unix_sockets).unwrap();
            let call = |number: libc::c_long, arguments: [u64; 3]| {
                let [one, two, three] = arguments;
                judge(&filter, native, number as u32, [one, two, three, 0, 0, 0])
            };
            let allowed = libc::SECCOMP_RET_ALLOW;
            let unix = if unix_sockets { allowed } else { refused(libc::EACCES) };
            let (stream, datagram) = (libc::SOCK_STREAM as u64, libc::SOCK_DGRAM as u64);
            assert_eq!(call(libc::SYS_socket, [libc::AF_UNIX as u64, stream, 0]), unix);
            // The kernel ignores the upper half.
            assert_eq!(call(libc::SYS_socket, [libc::AF_UNIX as u64 | 1 << 40, stream, 0]), unix);
            assert_eq!(call(libc::SYS_socket, [libc::AF_INET as u64, stream, 0]), allowed);
            assert_eq!(call(libc::SYS_socket, [libc::AF_INET6 as u64, datagram, 0]), allowed);
            let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
            assert_eq!(call(libc::SYS_socketpair, [libc::AF_UNIX as u64, datagram | flags, 0]), unix);
            assert_eq!(call(libc::SYS_socketpair, [libc::AF_UNIX as u64, stream | flags, 0]), allowed);
            assert_eq!(call(libc::SYS_io_uring_setup, [1, 0, 0]), refused(libc::ENOSYS));
            for number in [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_pidfd_getfd] {
                assert_eq!(call(number, [0, 0, 0]), refused(libc::EPERM));
            }
            assert_eq!(call(libc::SYS_ioctl, [0, u64::from(TIOCSTI), 0]), refused(libc::EPERM));
            assert_eq!(call(libc::SYS_ioctl, [0, 1 << 32 | u64::from(TIOCLINUX), 0]), refused(libc::EPERM));
            assert_eq!(call(libc::SYS_ioctl, [0, 0x5401, 0]), allowed);
            for number in [libc::SYS_read, libc::SYS_connect, libc::SYS_execve, libc::SYS_clone, 1023] {
                assert_eq!(call(number, [1, 1, 1]), allowed, "{number}");
            }
            assert_eq!(judge(&filter, 0x4000_0003, 102, [1, 0, 0, 0, 0, 0]), refused(libc::ENOSYS), "32 bits");
            assert_eq!(filter.to_bytes().len(), filter.0.len() * INSTRUCTION);
        }
    }

    #[test]
    fn user_namespaces_are_refused_and_other_namespaces_and_threads_are_not() {
        let native = NATIVE.unwrap();
        let filter = SyscallFilter::without_user_namespaces().unwrap();
        let call = |number: libc::c_long, first: u64| judge(&filter, native, number as u32, [first, 0, 0, 0, 0, 0]);
        let (user, mount) = (libc::CLONE_NEWUSER as u64, libc::CLONE_NEWNS as u64);
        for number in [libc::SYS_unshare, libc::SYS_clone] {
            for flags in [user, user | mount, user | libc::SIGCHLD as u64, user | 1 << 40] {
                assert_eq!(call(number, flags), refused(libc::EPERM), "{number} {flags:#x}");
            }
            for flags in [0, mount, libc::SIGCHLD as u64, (libc::CLONE_VM | libc::CLONE_THREAD) as u64] {
                assert_eq!(call(number, flags), libc::SECCOMP_RET_ALLOW, "{number} {flags:#x}");
            }
        }
        assert_eq!(call(libc::SYS_clone3, 0), refused(libc::ENOSYS));
        assert_eq!(call(libc::SYS_setns, 3), refused(libc::EPERM));
        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_socket, libc::SYS_mount, 1023] {
            assert_eq!(call(number, user), libc::SECCOMP_RET_ALLOW, "{number}");
        }
        assert_eq!(judge(&filter, 0x4000_0003, 120, [user, 0, 0, 0, 0, 0]), refused(libc::ENOSYS), "32 bits");
    }

    #[test]
    fn only_the_limits_of_others_are_refused() {
        let filter = SyscallFilter::own_limits().unwrap();
        let native = NATIVE.unwrap();
        let mut known = vec![(native, libc::SYS_prlimit64 as u32)];
        if cfg!(target_arch = "x86_64") {
            known.extend([(native, X32 | libc::SYS_prlimit64 as u32), (I386, PRLIMIT64_I386)]);
        }
        for (architecture, number) in known {
            let call = |process: u64, new: u64| judge(&filter, architecture, number, [process, 7, new, 0, 0, 0]);
            // What the kernel takes as the number of a process has 32 bits.
            for (process, new) in [(4711, 0x1000), (4711, 1 << 40), (u64::from(u32::MAX), 1), (1 << 33 | 5, 1)] {
                assert_eq!(call(process, new), refused(libc::EPERM), "{architecture:#x} {process} {new:#x}");
            }
            for (process, new) in [(0, 0x1000), (0, 0), (4711, 0), (1 << 33, 1)] {
                assert_eq!(call(process, new), libc::SECCOMP_RET_ALLOW, "{architecture:#x} {process} {new:#x}");
            }
            for other in [0, number - 1, number + 1] {
                assert_eq!(judge(&filter, architecture, other, [4711, 7, 1, 0, 0, 0]), libc::SECCOMP_RET_ALLOW);
            }
        }
    }

    #[test]
    fn a_sealed_process_executes_one_descriptor_and_does_everything_else() {
        let native = NATIVE.unwrap();
        let filter = SyscallFilter::sealed(7).unwrap();
        let call = |number: libc::c_long, first: u64| judge(&filter, native, number as u32, [first, 0, 0, 0, 0, 0]);
        assert_eq!(call(libc::SYS_execve, 7), refused(libc::EACCES));
        assert_eq!(call(libc::SYS_execveat, 7), libc::SECCOMP_RET_ALLOW);
        for other in [8, libc::AT_FDCWD as u32 as u64, 0] {
            assert_eq!(call(libc::SYS_execveat, other), refused(libc::EACCES));
        }
        for number in [libc::SYS_read, libc::SYS_openat, libc::SYS_clone, libc::SYS_socket, 1023] {
            assert_eq!(call(number, 7), libc::SECCOMP_RET_ALLOW, "{number}");
        }
        assert_eq!(judge(&filter, 0x4000_0003, 11, [7, 0, 0, 0, 0, 0]), refused(libc::EACCES), "32 bits");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn another_numbering_is_no_way_around() {
        let filter = SyscallFilter::isolated(false).unwrap();
        let number = X32 | libc::SYS_socket as u32;
        assert_eq!(judge(&filter, NATIVE.unwrap(), number, [1, 1, 0, 0, 0, 0]), refused(libc::ENOSYS));
    }
}
