//! Processes of hooks that are still there although they should not be: those that left their group, and those of a
//! daemon that was killed.
//!
//! Invariant: a process is ended only if its own environment says that it is a hook's. It is held by a descriptor
//! while that is looked at, and signals go through it: they reach the one that was looked at, or nobody. A group has no
//! descriptor; it is ended while its leader is stopped, so that its number cannot have become another's.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// The variable by which processes of a house are known; what a hook has had hosted is the house's.
const HOSTED: &[u8] = b"HOSTEL_PROCESS=";

/// An environment is read up to here.
const LONGEST: u64 = 256 * 1024;

/// Ends every process that has all of these in its environment.
pub(super) fn kill_marked(marks: &[String]) {
    for (pid, held) in processes() {
        if has(pid, marks) {
            pidfd_send_signal(&held, Signal::KILL).ok();
        }
    }
}

/// Ends the groups of hooks that a killed daemon with this socket has left behind; how many that were.
pub(super) fn kill_of_earlier(socket: &Path) -> usize {
    let mark = format!("CLAUDEMESH_DAEMON_SOCK={}", socket.display());
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut ended = 0;
    // Whoever a hook has started for good leads a session of its own, or is this very program.
    let is_one = |pid: Pid| {
        let ours = || std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).is_ok_and(|exe| exe == own);
        leads_group_only(pid) && !ours() && has(pid, std::slice::from_ref(&mark)) && is_hook(pid)
    };
    for (pid, held) in processes() {
        if !is_one(pid) || pidfd_send_signal(&held, Signal::STOP).is_err() {
            continue;
        }
        // Looked at again: stopped, it keeps its number and stays what it is.
        if is_one(pid) {
            kill_process_group(pid, Signal::KILL).ok();
            ended += 1;
        } else {
            pidfd_send_signal(&held, Signal::CONT).ok();
        }
    }
    ended
}

/// Everything that runs, each with a descriptor: a signal through it reaches this one or, if it has ended, nobody.
fn processes() -> impl Iterator<Item = (Pid, OwnedFd)> {
    let own = rustix::process::getpid();
    // A `/proc` of another pid namespace has numbers that mean others here: then nobody is looked at.
    let numbers_are_ours = std::fs::read_link("/proc/self").is_ok_and(|link| link.to_str() == Some(&own.to_string()));
    let numbers = numbers_are_ours.then(|| std::fs::read_dir("/proc").ok()).flatten().into_iter().flatten().flatten();
    numbers.filter_map(move |entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let pid = Pid::from_raw(number).filter(|pid| *pid != own)?;
        Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?))
    })
}

/// Its environment; empty if it is not ours to see.
fn environment(pid: Pid) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())) {
        file.take(LONGEST).read_to_end(&mut bytes).ok();
    }
    bytes
}

fn has(pid: Pid, marks: &[String]) -> bool {
    let environment = environment(pid);
    let mut variables = environment.split(|byte| *byte == 0);
    let hosted = variables.clone().any(|variable| variable.starts_with(HOSTED));
    !hosted
        && marks.iter().all(|mark| variables.clone().any(|variable| variable == mark.as_bytes()))
        && variables.next().is_some()
}

fn is_hook(pid: Pid) -> bool {
    environment(pid).split(|byte| *byte == 0).any(|variable| variable.starts_with(b"CLAUDEMESH_HOOK_NAME="))
}

/// Whether it leads a process group and not a session, as hooks do.
fn leads_group_only(pid: Pid) -> bool {
    let number = pid.as_raw_nonzero().get();
    leads(&std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default(), number)
}

/// The same, of what `/proc` says. Not `getpgid`: in a container a group or a session may be one from outside, which
/// the kernel tells as 0, and `rustix` takes that for impossible.
fn leads(stat: &str, number: i32) -> bool {
    // After the name, which may hold anything: state, parent, group, session.
    let mut fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace().skip(2);
    let mut next = || fields.next().and_then(|field| field.parse::<i32>().ok());
    let (group, session) = (next(), next());
    group == Some(number) && session.is_some_and(|session| session != number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_sessions_from_outside_are_no_reason_to_panic() {
        assert!(leads("7 (a hook) S 1 7 3 0 -1 4194304", 7));
        assert!(leads("7 (a) name) S 1 7 0 0 -1", 7), "the session may be one from outside");
        assert!(!leads("7 (of its session) S 1 7 7 0 -1", 7));
        assert!(!leads("7 (of another group) S 1 3 3 0 -1", 7));
        assert!(!leads("7 (from outside) S 0 0 0 0 -1", 7));
        assert!(!leads("", 7) && !leads("7 (cut", 7) && !leads("7 (cut) S 1 7", 7));
    }

    #[test]
    fn everything_that_runs_is_looked_at() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = processes().any(|(pid, _held)| pid.as_raw_nonzero().get().cast_unsigned() == child.id());
        // Whoever they are, also kernel threads, whose group is 0.
        let leading = processes().filter(|(pid, _held)| leads_group_only(*pid)).count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found, "{leading} groups");
    }
}
