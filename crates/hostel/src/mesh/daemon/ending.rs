//! Ending another process of ours and waiting until it is gone.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::PidfdFlags;
use rustix::process::Signal;
use tokio::time::Instant;

/// How often it is looked whether it has gone.
const LOOK: Duration = Duration::from_millis(5);

/// Asks a process to end and waits until `gone` says it has; false if it is still there after `patience`.
///
/// Its number came from a lock it holds or a socket it answers on: the handle is taken first, then `gone` is asked, so
/// that a number given to somebody else meanwhile is never signalled.
pub(crate) async fn end(pid: u32, patience: Duration, gone: impl Fn() -> bool) -> bool {
    let Some(process) = handle(pid) else { return gone() };
    if gone() {
        return true;
    }
    if rustix::process::pidfd_send_signal(&process, Signal::TERM).is_err() {
        return gone();
    }
    let deadline = Instant::now() + patience;
    while !(gone() && has_ended(&process)) {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}

fn handle(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn has_ended(process: &OwnedFd) -> bool {
    use rustix::event::PollFd;
    use rustix::event::PollFlags;
    use rustix::event::Timespec;
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut watched, Some(&now)).is_ok_and(|count| count > 0)
}
