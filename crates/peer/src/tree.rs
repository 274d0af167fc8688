//! The parents of a process: whether a hostel process is among them, and the top of the tree it belongs to.
//!
//! Guarantee: each step up is checked against a parent that ends meanwhile and whose number another process gets. What
//! cannot be found out is `None`, never an answer.
//!
//! Everything here reads `/proc`.

use serde::{Deserialize, Serialize};

use crate::marks;
use crate::proc::{self, Stat};
use crate::recent::Recent;
use crate::registry::registry;

/// Parents that are climbed at most: more than any tree of processes has, and an end if `/proc` changes underway.
const MAX_ANCESTORS: usize = 512;

/// How often a step is tried while parents end.
const STEP_ATTEMPTS: usize = 16;

/// The most of a path or name that is kept.
const MAX_TEXT_BYTES: usize = 1024;

/// The process at the other end of a connection, as it was when it asked.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct PeerInfo {
    /// Its process id.
    pub pid: u32,
    /// When it was started, in clock ticks since boot.
    pub started: u64,
    /// Its user.
    pub uid: u32,
    /// The file it runs, or its name. Information for people: a process can make this look like any other.
    pub program: String,
    /// The directory it is in.
    pub cwd: String,
    /// The top of its own tree.
    pub root_pid: u32,
    /// When that was started.
    pub root_started: u64,
}

impl PeerInfo {
    /// The process with this number, if it is there and that user's.
    #[must_use]
    pub fn of(pid: u32, uid: u32) -> Option<PeerInfo> {
        PeerInfo::with(pid, Stat::of(pid)?, uid)
    }

    pub(crate) fn with(pid: u32, own: Stat, uid: u32) -> Option<PeerInfo> {
        let (root_pid, root_started) = top_of(pid, own, uid);
        Some(PeerInfo {
            pid,
            started: own.started,
            uid,
            program: cut(proc::program_of(pid)?),
            cwd: cut(proc::directory_of(pid).unwrap_or_default()),
            root_pid,
            root_started,
        })
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

/// The parent of a process.
#[derive(Clone, Copy)]
struct Parent {
    pid: u32,
    stat: Stat,
    marked: bool,
}

/// Looks at the parent of a process; `Some(None)` at the top. The child is looked at again afterwards: as long as it has
/// this parent, the parent lives and its number is nobody else's.
fn parent_of(child: u32, mut stat: Stat) -> Option<Option<Parent>> {
    for _ in 0..STEP_ATTEMPTS {
        // The first process, and one that came in from another namespace.
        if stat.parent <= 1 {
            return Some(None);
        }
        let above = Stat::of(stat.parent).zip(marks::is_marked(stat.parent));
        let again = Stat::of(child)?;
        match above {
            // Nobody is younger than their children, nor is whoever adopts them.
            Some((above, marked)) if again == stat && above.started <= stat.started => {
                return Some(Some(Parent { pid: stat.parent, stat: above, marked }));
            }
            None if again == stat => return None,
            _ => stat = again,
        }
    }
    None
}

/// Whether a process descends from a hostel process of this user, or from one that is marked. `None` if that cannot be
/// found out.
pub(crate) fn is_below_hostel(pid: u32, own: Stat) -> Option<bool> {
    static KNOWN: Recent<(u32, Stat), bool> = Recent::new();
    let Some(parent) = parent_of(pid, own)? else { return Some(false) };
    if is_hostel(&parent) {
        return Some(true);
    }
    // Whoever asks often has the same parents each time.
    KNOWN.get_or_look_up((parent.pid, parent.stat), || climb_to_hostel(parent))
}

fn climb_to_hostel(mut at: Parent) -> Option<bool> {
    for _ in 0..MAX_ANCESTORS {
        match parent_of(at.pid, at.stat)? {
            None => return Some(false),
            Some(parent) if is_hostel(&parent) => return Some(true),
            Some(parent) => at = parent,
        }
    }
    None
}

fn is_hostel(process: &Parent) -> bool {
    process.marked || registry().contains(process.pid, process.stat.started)
}

/// A process and its parents, nearest first, each with the terminal session that it is in.
pub(crate) fn parents(pid: u32, own: Stat) -> Vec<(u32, u32)> {
    let mut line = vec![(pid, own.session)];
    let (mut at, mut stat) = (pid, own);
    while line.len() < MAX_ANCESTORS
        && let Some(Some(parent)) = parent_of(at, stat)
    {
        line.push((parent.pid, parent.stat.session));
        (at, stat) = (parent.pid, parent.stat);
    }
    line
}

/// A process or one of its parents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ancestor {
    /// Its process id.
    pub pid: u32,
    /// The terminal session it is in, by the process id of the leader.
    pub session: u32,
}

/// A process and its parents, nearest first. Ends early where `/proc` does.
pub(crate) fn line_of(pid: u32, own: Stat) -> Vec<Ancestor> {
    let mut line = vec![Ancestor { pid, session: own.session }];
    let (mut at, mut stat) = (pid, own);
    while line.len() < MAX_ANCESTORS
        && let Some(Some(parent)) = parent_of(at, stat)
    {
        line.push(Ancestor { pid: parent.pid, session: parent.stat.session });
        (at, stat) = (parent.pid, parent.stat);
    }
    line
}

/// Whether a process is another one or descends from it. `None` if that cannot be found out.
pub(crate) fn belongs_to(pid: u32, own: Stat, root: u32, root_started: u64) -> Option<bool> {
    let is_root = |pid: u32, stat: Stat| pid == root && stat.started == root_started;
    if is_root(pid, own) {
        return Some(true);
    }
    let (mut at, mut stat) = (pid, own);
    for _ in 0..MAX_ANCESTORS {
        match parent_of(at, stat)? {
            // The first process belongs to nobody but itself.
            None => return Some(root == 1 && stat.parent == 1),
            Some(parent) if is_root(parent.pid, parent.stat) => return Some(true),
            Some(parent) => (at, stat) = (parent.pid, parent.stat),
        }
    }
    None
}

/// The top of the tree a process belongs to. Its parents belong to it as far as they are the same user's, up to, and
/// without, the leader of a terminal's session (the shell a person types into), the user's service manager, a hostel
/// process, and the first process: beyond those begin other people's and other purposes' trees.
fn top_of(pid: u32, own: Stat, uid: u32) -> (u32, u64) {
    static KNOWN: Recent<(u32, Stat, u32), Option<(u32, u64)>> = Recent::new();
    let Some(Some(parent)) = parent_of(pid, own) else { return (pid, own.started) };
    let look_up = || Some(climb_to_top(parent, uid));
    KNOWN.get_or_look_up((parent.pid, parent.stat, uid), look_up).flatten().unwrap_or((pid, own.started))
}

/// The top of the tree that a process belongs to; none if trees end below it.
fn climb_to_top(mut at: Parent, uid: u32) -> Option<(u32, u64)> {
    let mut top = None;
    for _ in 0..MAX_ANCESTORS {
        let ends = registry().contains(at.pid, at.stat.started)
            || proc::user_of(at.pid) != Some(uid)
            || is_above_trees(at.pid, at.stat);
        if ends {
            break;
        }
        top = Some((at.pid, at.stat.started));
        match parent_of(at.pid, at.stat) {
            Some(Some(parent)) => at = parent,
            _ => break,
        }
    }
    top
}

/// Whether a process begins trees and belongs to none.
fn is_above_trees(pid: u32, stat: Stat) -> bool {
    is_shell_of_a_person(pid, stat) || is_service_manager(pid, stat)
}

/// The leader of a terminal's session: what a person starts there are trees of their own.
fn is_shell_of_a_person(pid: u32, stat: Stat) -> bool {
    stat.session == pid && stat.terminal != 0
}

/// The process that starts everything of a user that no terminal started: all of it would be one tree.
fn is_service_manager(pid: u32, stat: Stat) -> bool {
    stat.parent == 1 && proc::name_of(pid).as_deref() == Some("systemd")
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
