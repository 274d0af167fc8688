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
//! What is hosted has a lower limit than those programs of ours: the keeper lowers it for each process that it starts, and
//! so do a hook's launcher and [`mark_children_of`]. So a hosted process that poses as a keeper or as a daemon is told from
//! a real one, although that is marked as well. A house that somebody runs inside a hosted process begins with that
//! process's limit, and what it hosts is lower again. `hostel_keeper` has the same numbers (`marks`).
//!
//! Whoever has the same user id can lower the limit of a process from outside (`prlimit`). That must never make anybody
//! else more trusted: what others are compared with is the limit of the first process, which no ordinary user can lower,
//! and not this process's own. There is one exception, the house that somebody runs inside a hosted process on purpose:
//! its environment says so ([`TAG_VARIABLE`], [`NESTED_VARIABLE`]), and the limit it compares with is the one that the
//! process had when it started ([`take_own`]).
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

/// The environment variable that allows a house in a process that is marked and has no [`TAG_VARIABLE`]: below a command
/// that a person approved, or in a container whose limits are lower than those of the first process seem to be.
pub const NESTED_VARIABLE: &str = "HOSTEL_NESTED";

/// The hard limit of a marked program of ours, where the first process has none. The marks that name a single process
/// (`hostel_keeper::tree::limit_tag`) are lower, so that they can still be set.
const CEILING: u64 = (1 << 63) - 1;

/// Set in every mark that names a process; such a mark stays as it is, because somebody looks for it.
const NAMES_A_PROCESS: u64 = 1 << 62;

/// So many marks, the highest ones, name no process: one for each house inside another one.
const LEVELS: u64 = 4096;

/// Marks this process, a program of ours that serves others, and everything it starts from now on. A process that is
/// marked already stays as it is.
///
/// # Errors
/// The kernel refused to set the limit.
pub fn mark_this_process() -> io::Result<()> {
    Ok(rustix::process::setrlimit(Resource::Locks, limit_to(served_by))?)
}

/// Marks this process as a hosted one, before it becomes a program that is not ours.
///
/// # Errors
/// The kernel refused to set the limit.
pub fn mark_as_hosted() -> io::Result<()> {
    Ok(rustix::process::setrlimit(Resource::Locks, limit_to(hosted_by))?)
}

/// Marks the processes that a command will start as hosted ones.
pub fn mark_children_of(command: &mut Command) {
    sys::limit_before_exec(command, Resource::Locks, limit_to(hosted_by));
}

/// The limits of this process with another hard limit, which is made of the present one and that of the first process.
fn limit_to(hard: impl FnOnce(u64, u64) -> u64) -> Rlimit {
    let own = rustix::process::getrlimit(Resource::Locks);
    let hard = hard(own.maximum.unwrap_or(u64::MAX), baseline());
    Rlimit { current: Some(own.current.unwrap_or(u64::MAX).min(hard)), maximum: Some(hard) }
}

/// The hard limit of a program of ours that serves others, when whoever starts it has the limit `own`.
fn served_by(own: u64, baseline: u64) -> u64 {
    match own < baseline {
        true => own,
        false => CEILING.min(baseline.saturating_sub(1)),
    }
}

/// The hard limit of what is hosted, when the program of ours that starts it has the limit `own`.
fn hosted_by(own: u64, baseline: u64) -> u64 {
    let served = served_by(own, baseline);
    match served & NAMES_A_PROCESS != 0 && served <= CEILING - LEVELS {
        true => served,
        false => served.saturating_sub(1),
    }
}

/// What this process was when it started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Own {
    limit: u64,
    /// The environment says that this process is a hosted one. Nobody else can put that there.
    says_nested: bool,
}

/// Takes this process's own limit, for comparison with houses inside hosted processes. The first thing that a program of
/// ours does: whoever lowers the limit later changes nothing.
pub fn take_own() {
    own();
}

fn own() -> Own {
    static OWN: OnceLock<Own> = OnceLock::new();
    *OWN.get_or_init(|| Own {
        limit: live_limit(),
        says_nested: [TAG_VARIABLE, NESTED_VARIABLE].into_iter().any(|name| std::env::var_os(name).is_some()),
    })
}

fn live_limit() -> u64 {
    rustix::process::getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX)
}

/// The lowest hard limit of what is outside of a house that this process runs or uses.
#[must_use]
pub fn lowest_outside() -> u64 {
    lowest_outside_of(own(), baseline())
}

fn lowest_outside_of(own: Own, baseline: u64) -> u64 {
    match own.says_nested {
        true => served_by(own.limit, baseline),
        false => served_by(u64::MAX, baseline),
    }
}

/// Whether this process began as a hosted one and knows it: then the houses that it uses may be inside as well.
pub(crate) fn is_nested() -> bool {
    own().says_nested && own().limit < baseline()
}

/// Whether this process carries the mark, and does not know why: it was started with a limit of its own, or without the
/// environment of a hosted process, or another process has lowered the limit.
#[must_use]
pub fn is_marked_unexpectedly() -> bool {
    live_limit() < if is_nested() { own().limit } else { baseline() }
}

/// Reads what marks are compared with, so that later nothing has to be read.
pub(crate) fn prepare() {
    take_own();
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

/// The hard limit that whoever is not marked has at least: that of the first process, because a container may be started
/// with one. If the first process is this user's own, every process of the user could have lowered it, and only who has no
/// mark of ours at all is unmarked.
fn baseline() -> u64 {
    static BASELINE: OnceLock<u64> = OnceLock::new();
    *BASELINE.get_or_init(|| baseline_of(proc::lock_limit_of(1), proc::user_of(1), rustix::process::geteuid().as_raw()))
}

fn baseline_of(limit: Option<u64>, user: Option<u32>, own_user: u32) -> u64 {
    match user {
        Some(user) if user != own_user => limit.unwrap_or(u64::MAX),
        _ => CEILING + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::Stdio;

    #[test]
    fn a_mark_is_below_what_the_first_process_has() {
        assert_eq!(served_by(u64::MAX, u64::MAX), CEILING);
        assert_eq!(served_by(4096, 4096), 4095);
        assert_eq!(served_by(u64::MAX, 4096), 4095);
        assert_eq!(served_by(CEILING, u64::MAX), CEILING, "it is marked already");
        assert_eq!(served_by(1024, u64::MAX), 1024, "a lower limit is a mark as well");
        assert_eq!(served_by(0, 0), 0, "nothing is below this");
    }

    #[test]
    fn the_limit_of_a_first_process_that_the_user_could_lower_is_not_believed() {
        assert_eq!(baseline_of(Some(4096), Some(0), 1000), 4096, "a container with a limit");
        assert_eq!(baseline_of(Some(4096), Some(1000), 1000), CEILING + 1);
        assert_eq!(baseline_of(Some(u64::MAX), Some(1000), 1000), CEILING + 1);
        assert_eq!(baseline_of(None, None, 1000), CEILING + 1);
        assert_eq!(baseline_of(None, Some(0), 1000), u64::MAX, "it does not show its limits");
        assert_eq!(served_by(u64::MAX, CEILING + 1), CEILING);
    }

    #[test]
    fn a_lowered_limit_of_ones_own_brings_nobody_outside() {
        let (outside, first) = (CEILING, u64::MAX);
        for limit in [u64::MAX, CEILING, CEILING - 2, NAMES_A_PROCESS | 7, 1024, 0] {
            assert_eq!(lowest_outside_of(Own { limit, says_nested: false }, first), outside, "{limit}");
        }
        let nested = |limit| lowest_outside_of(Own { limit, says_nested: true }, first);
        assert_eq!((nested(CEILING - 1), nested(1024)), (CEILING - 1, 1024));
        assert_eq!(nested(u64::MAX), outside, "a variable alone makes nobody a hosted process");
        assert_eq!(lowest_outside_of(Own { limit: 0, says_nested: false }, 4096), 4095);
    }

    #[test]
    fn what_is_hosted_is_below_the_program_that_starts_it() {
        // By a daemon, by a keeper or mesh daemon, and by a keeper inside a hosted process.
        assert_eq!(hosted_by(u64::MAX, u64::MAX), CEILING - 1);
        assert_eq!(hosted_by(CEILING, u64::MAX), CEILING - 1);
        assert_eq!(hosted_by(CEILING - 1, u64::MAX), CEILING - 2);
        assert_eq!(hosted_by(4096, 4096), 4094);
        let stage = NAMES_A_PROCESS | 0x1234_5678_9abc;
        assert_eq!(hosted_by(stage, u64::MAX), stage, "the house of the stage looks for it");
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
