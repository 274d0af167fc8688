//! The mark of processes inside a house, as `crates/peer/src/marks.rs` describes it: a hard limit of file locks, which
//! nobody but root can raise again.
//!
//! Guarantee: what a keeper starts has a lower hard limit than the keeper itself, unless that one runs in a stage of
//! another house's pipeline.
//!
//! Which limit is that of a process inside does not follow from the keeper's own limit, because whoever has the same user
//! id can lower that one, and then nobody would be below it. The daemon says it when it starts the keeper
//! (`--outside-limit`), and the keeper remembers it over its upgrades.
//!
//! This crate knows no other crate's marks: the numbers here and there have to be the same, which the tests of `crates/house` compare.

use std::fs;
use std::io::Read as _;

use rustix::process::{Resource, getrlimit};

/// Every mark is below this.
const UNMARKED: u64 = 1 << 63;

/// The lowest hard limit of what is outside, where nobody says another one: that of a keeper, where the first process of
/// the machine has no limit.
pub(crate) const OUTSIDE: u64 = UNMARKED - 1;

/// Set in every mark that names a process ([`crate::tree::limit_tag`]), so that it is no limit anybody would choose.
pub(crate) const NAMES_A_PROCESS: u64 = 1 << 62;

/// So many marks, the highest ones, name no process: one for each house inside another one.
const LEVELS: u64 = 4096;

/// The most of a file of `/proc` that is read.
const MAX_FILE_BYTES: u64 = 4096;

/// The hard limit of file locks of a process; `u64::MAX` if it has none. Everybody's can be read, other users' too, and
/// without waiting for the process.
pub(crate) fn hard_limit_of(pid: u32) -> Option<u64> {
    let mut text = Vec::new();
    fs::File::open(format!("/proc/{pid}/limits")).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Max file locks"))?;
    // The soft limit comes first: its process can raise that again.
    match str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// Whether a process is inside a house, where `outside` is the lowest hard limit of what is not. `None` if it cannot be
/// looked at.
pub(crate) fn is_inside(pid: u32, outside: u64) -> Option<bool> {
    hard_limit_of(pid).map(|limit| limit < outside)
}

/// What a keeper compares with that was upgraded from a build which compared with its own limit.
pub(crate) fn outside_of_older_build() -> u64 {
    getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX).min(OUTSIDE)
}

/// Whether a limit is the mark of a single process.
pub(crate) fn names_a_process(limit: u64) -> bool {
    limit & NAMES_A_PROCESS != 0 && limit < UNMARKED - LEVELS
}

/// The hard limit of what a process with the hard limit `own` starts, if the mark of the new process is to be `tag`; none
/// if that is 0. A mark of another house stays where it is lower.
pub(crate) fn limit_of_hosted(own: u64, tag: u64) -> u64 {
    match own {
        _ if tag != 0 && tag < own => tag,
        UNMARKED.. => UNMARKED - 2,
        _ if names_a_process(own) => own,
        _ => own.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_is_marked_and_further_inside_than_its_starter() {
        let tag = NAMES_A_PROCESS | 0x1234_5678_9abc;
        assert!(names_a_process(tag) && !names_a_process(UNMARKED - 1) && !names_a_process(1024));
        assert_eq!(limit_of_hosted(u64::MAX, 0), UNMARKED - 2);
        assert_eq!(limit_of_hosted(u64::MAX, tag), tag);
        let keeper = UNMARKED - 1;
        assert_eq!((limit_of_hosted(keeper, 0), limit_of_hosted(keeper, tag)), (keeper - 1, tag));
        // A keeper inside a hosted process, and one inside a stage of a pipeline.
        assert_eq!(limit_of_hosted(keeper - 1, 0), keeper - 2);
        assert_eq!((limit_of_hosted(tag, 0), limit_of_hosted(tag, tag + 1)), (tag, tag), "the other house finds it");
        // A container with a limit of its own.
        assert_eq!((limit_of_hosted(1023, 0), limit_of_hosted(1023, tag)), (1022, 1022));
        assert_eq!(limit_of_hosted(0, 0), 0, "nothing is below this");
    }

    #[test]
    fn a_soft_limit_is_no_mark() {
        let with = |words: &str| {
            let script = format!("{words}; echo; read line");
            let mut shell = std::process::Command::new("bash");
            shell.args(["-c", &script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = shell.spawn().unwrap();
            child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
            let own = hard_limit_of(std::process::id()).unwrap();
            let found = (is_inside(child.id(), own), hard_limit_of(child.id()));
            drop(child.stdin.take());
            child.wait().unwrap();
            found
        };
        let own = hard_limit_of(std::process::id());
        assert_eq!(with("ulimit -S -x 7"), (Some(false), own));
        assert_eq!(with("ulimit -H -S -x 7"), (Some(true), Some(7)));
        assert_eq!(is_inside(u32::MAX, OUTSIDE), None);
    }
}
