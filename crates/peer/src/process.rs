//! A process that is held by a descriptor, so that its id cannot become another one's unnoticed.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::ClockId;

use crate::proc::{self, Stat};
use crate::sys;

/// A process of this machine. Clones are the same process.
#[derive(Clone, Debug)]
pub struct Process {
    pid: u32,
    uid: u32,
    handle: Arc<OwnedFd>,
    /// The descriptor was opened by number, at this tick. A process that was started later cannot be the one that is
    /// meant.
    opened: Option<u64>,
}

impl Process {
    /// The process that connected a unix socket. Makes system calls that do not wait, so any thread may call it.
    ///
    /// Where the kernel gives no descriptor of the peer (before 6.5), one is opened by number: then an id that was given
    /// to another process between connecting and this call is not noticed unless that process is younger than the call.
    pub(crate) fn of_socket(socket: impl AsFd) -> Option<Process> {
        let (pid, uid) = sys::peer_credentials(&socket).ok()?;
        let pid = pid?;
        match sys::peer_pidfd(&socket) {
            Ok(handle) => Some(Process { pid, uid, handle: Arc::new(handle), opened: None }),
            // The kernel does not know the question. Any other answer says that the process has ended: its number may be
            // another one's by now.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                let opened = Some(ticks_since_boot());
                Some(Process { pid, uid, handle: Arc::new(open(pid)?), opened })
            }
            Err(_) => None,
        }
    }

    /// A process that was found in `/proc`, and when it was started.
    pub(crate) fn found(pid: u32) -> Option<(Process, u64)> {
        let opened = Some(ticks_since_boot());
        let handle = Arc::new(open(pid)?);
        let (started, uid) = (Stat::of(pid)?.started, proc::user_of(pid)?);
        let process = Process { pid, uid, handle, opened };
        process.is_alive().then_some((process, started))
    }

    /// Its number, which is its own as long as [`Process::is_alive`].
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its effective user, when it connected.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether it is still there. As long as it is, nobody else has its number.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut poll = [PollFd::new(&self.handle, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut poll, Some(&now)), Ok(0))
    }

    /// What a lookup in `/proc` finds for its number, if it was this process all the while.
    pub(crate) fn look_up<T>(&self, look_up: impl FnOnce(u32, Stat) -> Option<T>) -> Option<T> {
        let stat = Stat::of(self.pid)?;
        if self.opened.is_some_and(|opened| stat.started > opened) {
            return None;
        }
        look_up(self.pid, stat).filter(|_| self.is_alive())
    }
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The time since boot, as `/proc/PID/stat` counts it.
fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    let part = u64::try_from(now.tv_nsec).unwrap_or_default() * per_second / 1_000_000_000;
    u64::try_from(now.tv_sec).unwrap_or_default() * per_second + part
}

/// When a process was started, in clock ticks since boot; none if there is none. Reads `/proc`, so not for a thread of the
/// runtime.
#[must_use]
pub fn start_of(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    #[test]
    fn a_process_is_itself_until_it_ends() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let (process, started) = Process::found(child.id()).unwrap();
        assert_eq!((process.pid(), Some(started)), (child.id(), start_of(child.id())));
        assert!(process.is_alive());
        assert_eq!(process.look_up(|pid, stat| Some((pid, stat.started))), Some((child.id(), started)));
        child.kill().unwrap();
        // It is not there any more even before it is reaped and its number can be given away.
        let mut poll = [PollFd::new(&process.handle, PollFlags::IN)];
        rustix::event::poll(&mut poll, None).unwrap();
        assert!(!process.is_alive() && process.look_up(|pid, _| Some(pid)).is_none());
        child.wait().unwrap();
        assert!(!process.is_alive() && Process::found(child.id()).is_none());
        assert!(Process::found(u32::MAX).is_none());
    }

    #[test]
    fn a_process_that_is_younger_than_its_descriptor_is_another() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let own = Process::of_socket(&ours).unwrap();
        let started = start_of(own.pid()).unwrap();
        assert!(started <= ticks_since_boot());
        let opened_at = |opened| Process { opened: Some(opened), ..own.clone() }.look_up(|_, _| Some(()));
        assert_eq!((opened_at(started), opened_at(started - 1)), (Some(()), None));
    }
}
