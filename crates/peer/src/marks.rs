//! The mark that everything inside a house carries: a hard limit of file locks that is lower than that of the first
//! process.
//!
//! The kernel has ignored this limit since version 2.4, hands it down to every descendant, and lets nobody raise a hard
//! limit again who does not have `CAP_SYS_RESOURCE` on the machine (a user namespace does not give that). So a process
//! cannot take its mark off by forking twice, starting a session, clearing its environment, hiding its memory or entering
//! namespaces, and everybody can read it.
//!
//! The keeper, the mesh daemon and the broker mark themselves when they start, which marks all they ever start. The
//! daemon of a house is itself a client of mesh daemons and stays unmarked; it marks each program it starts.
//!
//! Processes that older versions have started carry the variable [`TAG_VARIABLE`] instead; it is read as well, but a
//! process can do without it.

use std::io;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit};

use crate::{proc, sys};

/// The environment variable that hosted processes are started with; its value names house and process.
pub const TAG_VARIABLE: &str = "HOSTEL_PROCESS";

/// The hard limit of a marked process, where the first process has none. The marks that name a single process
/// (`hostel_keeper::tree::limit_tag`) are lower, so that they can still be set.
const CEILING: u64 = (1 << 63) - 1;

/// Marks this process and everything it starts from now on. A process that is marked already stays as it is.
///
/// # Errors
/// The kernel refused to set the limit.
pub fn mark_this_process() -> io::Result<()> {
    match limit_of_marked() {
        Some(limit) => Ok(rustix::process::setrlimit(Resource::Locks, limit)?),
        None => Ok(()),
    }
}

/// Marks the processes that a command will start.
pub fn mark_children_of(command: &mut Command) {
    if let Some(limit) = limit_of_marked() {
        sys::limit_before_exec(command, Resource::Locks, limit);
    }
}

/// The limit that marks a process which has this one's limit now; none if it is marked already.
fn limit_of_marked() -> Option<Rlimit> {
    let own = rustix::process::getrlimit(Resource::Locks);
    lowered(own.maximum.unwrap_or(u64::MAX), baseline())
        .map(|hard| Rlimit { current: Some(own.current.unwrap_or(u64::MAX).min(hard)), maximum: Some(hard) })
}

fn lowered(own: u64, baseline: u64) -> Option<u64> {
    match own < baseline {
        true => None,
        false => Some(CEILING.min(baseline.saturating_sub(1))),
    }
}

/// Reads what marks are compared with, so that later nothing has to be read.
pub(crate) fn prepare() {
    baseline();
}

/// Whether a process carries the mark. `None` if it cannot be looked at.
pub(crate) fn is_marked(pid: u32) -> Option<bool> {
    proc::lock_limit_of(pid).map(|limit| limit < baseline())
}

/// Whether a process was started with the variable of a hosted one. One that does not show its environment was not, as far
/// as anybody can tell: the mark is what counts.
pub(crate) fn is_tagged(pid: u32) -> bool {
    proc::has_variable(pid, TAG_VARIABLE).unwrap_or_default()
}

/// The hard limit of the first process. A container may be started with one; who is not marked there has the same.
fn baseline() -> u64 {
    static BASELINE: OnceLock<u64> = OnceLock::new();
    *BASELINE.get_or_init(|| proc::lock_limit_of(1).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Stdio;

    #[test]
    fn a_mark_is_below_what_the_first_process_has() {
        assert_eq!(lowered(u64::MAX, u64::MAX), Some(CEILING));
        assert_eq!(lowered(4096, 4096), Some(4095));
        assert_eq!(lowered(u64::MAX, 4096), Some(4095));
        assert_eq!(lowered(CEILING, u64::MAX), None, "it is marked already");
        assert_eq!(lowered(1024, u64::MAX), None, "a lower limit is a mark as well");
        assert_eq!(lowered(0, 0), Some(0), "nothing is below this");
    }

    #[test]
    fn what_a_marked_command_starts_is_marked_and_this_process_is_not() {
        let before = proc::lock_limit_of(std::process::id());
        let mut command = Command::new("sh");
        command.args(["-c", "env -i sh -c 'echo $$; read line'; true"]);
        mark_children_of(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut child = command.spawn().unwrap();
        let mut told = [0; 32];
        let length = child.stdout.take().unwrap().read(&mut told).unwrap();
        let grandchild = std::str::from_utf8(&told[..length]).unwrap().trim().parse().unwrap();
        assert_eq!((is_marked(child.id()), is_marked(grandchild)), (Some(true), Some(true)));
        assert_eq!(proc::lock_limit_of(std::process::id()), before);
        assert_eq!(is_marked(u32::MAX), None);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
