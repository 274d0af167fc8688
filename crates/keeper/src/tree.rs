//! Finding everything a hosted process started, wherever it went.
//!
//! A child's tools may leave its process group and session and outlive it. They are found by the
//! tag in their environment, by their group, and by their parents. Scanning `/proc` may block on a
//! stuck process, so the keeper's threads never do it while they serve: the daemon does, and the
//! keeper itself only when it starts and when it stops. Signals go through pidfds, so a recycled
//! process id is never hit.

use std::collections::HashMap;
use std::collections::HashSet;
use std::fs;
use std::io::Read as _;

use hostel_journal::ProcessId;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::TAG_VARIABLE;
use crate::marks::{self, NAMES_A_PROCESS};

/// The value of [`TAG_VARIABLE`] for a process of a house.
pub fn tag_value(house_tag: &str, id: ProcessId) -> String {
    format!("{house_tag}.{id}")
}

/// The two marks by which what a hosted process started is recognised: the variable that most carry, and the limit
/// that stages of pipelines carry, whose environment must hold nothing of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The value of [`TAG_VARIABLE`].
    pub variable: String,
    /// The limit of file locks.
    pub limit: u64,
}

impl Marks {
    /// Those of a process of a house.
    pub fn of(house_tag: &str, id: ProcessId) -> Self {
        Self { variable: tag_value(house_tag, id), limit: limit_tag(house_tag, id) }
    }

    /// Whether they are on a process. The limit counts only for what the keeper has `adopted`, because whoever has the
    /// same user id could lower that of the keeper, of a daemon or of a person's shell, which would be killed for it.
    fn are_on(&self, pid: u32, adopted: bool) -> bool {
        environment_tag(pid).as_deref() == Some(&self.variable) || adopted && limit_of(pid) == Some(self.limit)
    }
}

/// Where the house's part of a mark is that is a limit.
const LIMIT_HOUSE: u64 = (NAMES_A_PROCESS - 1) & !0xffff_ffff;

/// The mark of a process among its limits: the limit of file locks, which the kernel has ignored since version 2.4 but
/// still hands down to every descendant, through `env -i`, `setsid` and `sudo`.
pub fn limit_tag(house_tag: &str, id: ProcessId) -> u64 {
    let [a, b, c, d, ..] = id.0;
    limit_house(house_tag) | u64::from(u32::from_le_bytes([a, b, c, d]))
}

fn limit_house(house_tag: &str) -> u64 {
    let house = u64::from_str_radix(house_tag, 16).unwrap_or_else(|_| u64::from(crc32c::crc32c(house_tag.as_bytes())));
    NAMES_A_PROCESS | (house << 32 & LIMIT_HOUSE)
}

/// The limit of file locks of a process, if it is the mark of a single one.
fn limit_of(pid: u32) -> Option<u64> {
    marks::hard_limit_of(pid).filter(|limit| marks::names_a_process(*limit))
}

fn is_of_house(limit: u64, house_tag: &str) -> bool {
    limit & !0xffff_ffff == limit_house(house_tag)
}

/// Why a process belongs to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// It is the hosted process itself.
    Leader,
    /// It is in the leader's process group.
    Group,
    /// It left the group but was started below the leader.
    Escaped,
}

/// One process found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its process id.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Start time in clock ticks since boot: with the id, it names the process for good.
    pub start_ticks: u64,
    /// Its command line, or its name in brackets when it has none.
    pub command: String,
    /// Why it belongs here.
    pub relation: Relation,
    /// It has ended and only waits to be reaped.
    pub zombie: bool,
}

/// What a scan found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// The processes, the leader first, then by id.
    pub members: Vec<Member>,
    /// `/proc` could not be read: there may be more.
    pub partial: bool,
}

struct Stat {
    parent: u32,
    group: u32,
    session: u32,
    start_ticks: u64,
    state: u8,
    name: String,
}

/// Reads `/proc/PID/stat`. The name may contain blanks and brackets: fields count from the last `)`.
fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
        name,
    })
}

/// The start time of a process in clock ticks since boot.
pub fn start_ticks(pid: u32) -> Option<u64> {
    read_stat(pid).map(|stat| stat.start_ticks)
}

/// Whether `pid` descends from `ancestor`. `None` when `/proc` does not tell, which a caller that
/// guards something takes for a yes.
pub fn descends_from(pid: u32, ancestor: u32) -> Option<bool> {
    let mut current = pid;
    for _ in 0..4096 {
        if current == ancestor {
            return Some(true);
        }
        if current <= 1 {
            return Some(false);
        }
        current = read_stat(current)?.parent;
    }
    None
}

fn bounded_file(path: &str, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn environment_tag(pid: u32) -> Option<String> {
    let environment = bounded_file(&format!("/proc/{pid}/environ"), 2 * 1024 * 1024)?;
    environment.split(|byte| *byte == 0).find_map(|pair| {
        let value = pair.strip_prefix(TAG_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

fn command_of(pid: u32, name: &str) -> String {
    let line = bounded_file(&format!("/proc/{pid}/cmdline"), 4096).unwrap_or_default();
    let words: Vec<_> =
        line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    if words.is_empty() { format!("[{name}]") } else { words.join(" ") }
}

fn process_ids() -> Option<Vec<u32>> {
    let mut ids: Vec<u32> =
        fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    Some(ids)
}

/// Whether a process is below another one, as its parents are in a listing.
fn is_below(stats: &HashMap<u32, Stat>, mut pid: u32, ancestor: u32) -> bool {
    for _ in 0..4096 {
        match stats.get(&pid) {
            Some(stat) if stat.parent == ancestor => return true,
            Some(stat) => pid = stat.parent,
            None => return false,
        }
    }
    false
}

/// Finds the tree of the process `leader` with these marks, which `keeper` has started. `leader_alive` says that the id has
/// not been given back to the kernel: only then do group, session and parents mean anything.
pub fn find(marks: &Marks, leader: u32, leader_alive: bool, keeper: u32, extra: &[u32]) -> Tree {
    let Some(ids) = process_ids() else {
        return Tree { members: Vec::new(), partial: true };
    };
    let mut stats = HashMap::new();
    for pid in ids {
        if let Some(stat) = read_stat(pid) {
            stats.insert(pid, stat);
        }
    }
    let mut found: HashSet<u32> = extra.iter().copied().filter(|pid| stats.contains_key(pid)).collect();
    let own = std::process::id();
    for (pid, stat) in &stats {
        if leader_alive && (*pid == leader || stat.group == leader || stat.session == leader) {
            found.insert(*pid);
            continue;
        }
        if stat.state == b'Z' {
            continue;
        }
        // Another user's environment cannot be read; such a process is found by its limit or its parents.
        if marks.are_on(*pid, is_below(&stats, *pid, keeper)) {
            found.insert(*pid);
        }
    }
    // Children of members belong too, whatever they did to their environment.
    loop {
        let more: Vec<u32> = stats
            .iter()
            .filter(|(pid, stat)| !found.contains(pid) && found.contains(&stat.parent))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    found.remove(&own);
    let mut members: Vec<Member> = found
        .into_iter()
        .filter_map(|pid| {
            let stat = stats.get(&pid)?;
            let relation = match () {
                () if leader_alive && pid == leader => Relation::Leader,
                () if leader_alive && stat.group == leader => Relation::Group,
                () => Relation::Escaped,
            };
            Some(Member {
                pid,
                parent: stat.parent,
                start_ticks: stat.start_ticks,
                command: command_of(pid, &stat.name),
                relation,
                zombie: stat.state == b'Z',
            })
        })
        .collect();
    members.sort_by_key(|member| (member.relation != Relation::Leader, member.pid));
    Tree { members, partial: false }
}

/// Finds every process that carries the tag of a house, whichever of its processes started it.
pub fn find_house(house_tag: &str) -> Vec<Member> {
    let own = std::process::id();
    let prefix = format!("{house_tag}.");
    process_ids()
        .unwrap_or_default()
        .into_iter()
        .filter(|pid| *pid != own)
        .filter_map(|pid| {
            let stat = read_stat(pid)?;
            let tagged = environment_tag(pid).is_some_and(|tag| tag.starts_with(&prefix))
                || limit_of(pid).is_some_and(|limit| is_of_house(limit, house_tag));
            tagged.then(|| Member {
                pid,
                parent: stat.parent,
                start_ticks: stat.start_ticks,
                command: command_of(pid, &stat.name),
                relation: Relation::Escaped,
                zombie: stat.state == b'Z',
            })
        })
        .collect()
}

/// A process of the house that belongs to none of its running processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The process.
    pub member: Member,
    /// The ended process that started it, where its tag still says so.
    pub started_by: Option<ProcessId>,
}

/// Finds what lives on after the hosted process that started it has ended, and what the kernel
/// gave to the keeper without a trace of where it came from. Never killed with anybody else's
/// process; listed so that a person can decide.
pub fn find_strays(house_tag: &str, keeper: u32, running: &HashSet<ProcessId>) -> Vec<Stray> {
    let mut strays = Vec::new();
    for pid in process_ids().unwrap_or_default() {
        let Some(stat) = read_stat(pid).filter(|stat| stat.state != b'Z') else { continue };
        let tag = environment_tag(pid);
        let started_by = tag.as_deref().and_then(|tag| tag.strip_prefix(house_tag)?.strip_prefix('.')?.parse().ok());
        let limit = limit_of(pid).filter(|limit| started_by.is_none() && is_of_house(*limit, house_tag));
        let is_stray = match (started_by, limit) {
            (Some(id), _) => !running.contains(&id),
            (None, Some(limit)) => !running.iter().any(|id| limit_tag(house_tag, *id) == limit),
            // Without a mark of ours only the keeper's own children are surely ours.
            (None, None) => stat.parent == keeper,
        };
        if is_stray {
            let member = Member {
                pid,
                parent: stat.parent,
                start_ticks: stat.start_ticks,
                command: command_of(pid, &stat.name),
                relation: Relation::Escaped,
                zombie: false,
            };
            strays.push(Stray { member, started_by });
        }
    }
    strays
}

/// Signals one member, if it is still the process that was found. Says whether it was reached;
/// `Err` when the kernel forbids it (another user's process).
pub fn signal(member: &Member, signal: Signal) -> rustix::io::Result<bool> {
    let Some(pid) = Pid::from_raw(member.pid as i32) else {
        return Ok(false);
    };
    let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    // The descriptor is open: the id cannot be recycled between this look and the signal.
    if start_ticks(member.pid) != Some(member.start_ticks) {
        return Ok(false);
    }
    match rustix::process::pidfd_send_signal(&handle, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Kills a tree until a scan finds it empty, at most ten rounds, because it may fork meanwhile.
/// Returns what stayed.
pub fn kill_all(mut scan: impl FnMut() -> Vec<Member>) -> Vec<Member> {
    for _ in 0..10 {
        let members: Vec<Member> = scan().into_iter().filter(|member| !member.zombie).collect();
        if members.is_empty() {
            return Vec::new();
        }
        let mut forbidden = 0;
        for member in &members {
            forbidden += usize::from(signal(member, Signal::KILL).is_err());
        }
        if forbidden == members.len() {
            return members;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    scan().into_iter().filter(|member| !member.zombie).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::sys;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = parse_stat("42 (a) b (c) S 7 40 41 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 777 1 2").unwrap();
        assert_eq!((stat.parent, stat.group, stat.session, stat.start_ticks, stat.state), (7, 40, 41, 777, b'S'));
        assert_eq!(stat.name, "a) b (c");
        assert!(parse_stat("42 (x").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn a_mark_among_the_limits_names_house_and_process_and_is_read_back() {
        let (house, id) = ("0123456789abcdef", ProcessId([7; 16]));
        let mark = limit_tag(house, id);
        assert!(is_of_house(mark, house) && !is_of_house(mark, "0123456789abcdee"));
        assert_ne!(mark, limit_tag(house, ProcessId([8; 16])));
        assert!(marks::names_a_process(mark), "it must not be mistaken for no limit");
        assert_eq!(limit_of(std::process::id()).filter(|limit| *limit == mark), None);
        let limited = |value: u64| {
            let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
            let (mut failure, child_failure) = std::io::pipe().unwrap();
            let program = sys::Program {
                path: c"/bin/sleep".into(),
                argv: vec![c"sleep".into(), c"60".into()],
                env: Vec::new(),
                cwd: c"/".into(),
                umask: 0o77,
                nofile: 0,
                own_session: true,
                limit_tag: value,
                pin: None,
                execute: None,
            };
            let (stdin, stdout, stderr) = (null.as_fd(), null.as_fd(), null.as_fd());
            let ends = sys::ChildEnds { stdin, stdout, stderr, failure: child_failure.as_fd(), cgroup: None };
            let (pid, birth) = sys::start(program, &ends).unwrap();
            drop(child_failure);
            assert_eq!(failure.read_to_end(&mut Vec::new()).unwrap(), 0, "it was executed");
            drop(birth);
            let (found, session) =
                ((limit_of(pid), marks::is_inside(pid, marks::OUTSIDE)), read_stat(pid).unwrap().session);
            assert_eq!(session, pid);
            let pid = Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
            found
        };
        assert_eq!(limited(mark), (Some(mark), Some(true)));
        assert_eq!(limited(1024), (None, Some(true)), "somebody's own limit names no process");
        assert_eq!(limited(0), (None, Some(true)), "every hosted process is known to be inside");
    }

    #[test]
    fn a_limit_that_somebody_else_lowered_brings_nobody_into_a_tree() {
        let marks = Marks::of("0123456789abcdef", ProcessId([9; 16]));
        let mut shell = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(shell.id() as i32);
        let limit = rustix::process::Rlimit { current: Some(marks.limit), maximum: Some(marks.limit) };
        rustix::process::prlimit(pid, rustix::process::Resource::Locks, limit).unwrap();
        assert_eq!(limit_of(shell.id()), Some(marks.limit));
        let found = |keeper| find(&marks, 0, false, keeper, &[]).members.len();
        assert_eq!(found(shell.id()), 0, "not the keeper itself");
        assert_eq!(found(u32::MAX), 0, "nobody who is not below the keeper");
        assert_eq!(found(std::process::id()), 1, "what the keeper started or adopted");
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        let own = std::process::id();
        let parent = read_stat(own).unwrap().parent;
        assert_eq!(descends_from(own, parent), Some(true));
        assert_eq!(descends_from(parent, own), Some(false));
    }
}
