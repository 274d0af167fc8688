//! Processes of this machine as the system knows them: who asks, who decides, and whose tree is whose.
//!
//! Invariant: a process is its number together with its start time; a number that was given away again is somebody else.
//! What cannot be looked at is nobody's friend: it is refused, never let through.
//!
//! It only reads `/proc`.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Parents that are climbed at most: more than any tree of processes has, and an end if `/proc` changes underway.
const HIGHEST: usize = 512;

/// The most of a path or name that is kept.
const LONGEST: usize = 1024;

/// More than `stat` and `comm` ever have; of `status`, what is looked for stands in its first lines.
const SMALL: usize = 4096;

/// The process at the other end of a connection, as it was when it asked.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct PeerInfo {
    /// Its process id.
    pub pid: u32,
    /// When it was started, in the system's own count.
    pub started: u64,
    /// Its user.
    pub uid: u32,
    /// The file it runs, or its name.
    pub program: String,
    /// Where it is.
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
        PeerInfo::below(pid, uid, None)
    }

    /// Likewise; a tree ends below the keeper, which belongs to nobody.
    pub(super) fn below(pid: u32, uid: u32, keeper: Option<u32>) -> Option<PeerInfo> {
        let own = Stat::of(pid)?;
        let (root_pid, root) = top_of(pid, own, uid, keeper);
        let program = match fs::read_link(format!("/proc/{pid}/exe")) {
            Ok(path) => path.to_string_lossy().into_owned(),
            Err(_) => look(pid, "comm", |name| Some(name.trim_end().to_owned()))?,
        };
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).map(|path| path.to_string_lossy().into_owned());
        Some(PeerInfo {
            pid,
            started: own.started,
            uid,
            program: cut(program),
            cwd: cut(cwd.unwrap_or_default()),
            root_pid,
            root_started: root.started,
        })
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

/// When a process was started, in the system's own count; none if there is none.
#[must_use]
pub fn start_of(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.started)
}

/// The process that a process descends from; none if that cannot be found out.
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    Stat::of(pid).map(|stat| stat.parent)
}

/// The top of the tree a process belongs to. Its parents belong to it as far as they are the same user's, up to, and
/// without, the leader of a terminal's session (the shell a person types into), the user's service manager, the keeper,
/// and the first process: beyond those begin other people's and other purposes' trees.
fn top_of(pid: u32, own: Stat, uid: u32, keeper: Option<u32>) -> (u32, Stat) {
    let Some(stat) = Stat::of(own.parent) else { return (pid, own) };
    let place = Place { pid: own.parent, stat, uid, keeper };
    let now = Instant::now();
    let known = CLIMBS.lock().known(&place, now);
    let top = known.unwrap_or_else(|| {
        let top = climb(pid, own, uid, keeper);
        let top = (top.0 != pid).then_some(top);
        CLIMBS.lock().remember(place, top, now);
        top
    });
    top.unwrap_or((pid, own))
}

/// Where a climb goes on from: a parent as it is this moment, and what ends a tree.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Place {
    pid: u32,
    stat: Stat,
    uid: u32,
    keeper: Option<u32>,
}

/// Where a climb from a place led; nowhere if the tree ends below it.
struct Climb {
    place: Place,
    until: Instant,
    top: Option<(u32, Stat)>,
}

/// Climbs of this moment. Looking at the whole line of parents costs as much as the rest of a request, and who asks often
/// has the same parents each time. The nearest of them is looked at always, so that a number that was given away again is
/// found out; those above may change after any look, and one of this second is as good as one of this instant.
static CLIMBS: Mutex<Climbs> = Mutex::new(Climbs(Vec::new()));
const CLIMB_COUNTS: Duration = Duration::from_secs(1);
const MOST_CLIMBS: usize = 64;

struct Climbs(Vec<Climb>);

impl Climbs {
    /// Where the climb from a place led a moment ago, if there was one.
    fn known(&self, place: &Place, now: Instant) -> Option<Option<(u32, Stat)>> {
        self.0.iter().find(|climb| climb.place == *place && now < climb.until).map(|climb| climb.top)
    }

    /// Keeps a climb. What is over makes room; if none is over, there is no room for another.
    fn remember(&mut self, place: Place, top: Option<(u32, Stat)>, now: Instant) {
        self.0.retain(|climb| now < climb.until && climb.place != place);
        if self.0.len() < MOST_CLIMBS {
            self.0.push(Climb { place, until: now + CLIMB_COUNTS, top });
        }
    }
}

fn climb(pid: u32, own: Stat, uid: u32, keeper: Option<u32>) -> (u32, Stat) {
    let (mut top, mut at) = (pid, own);
    for _ in 0..HIGHEST {
        let parent = at.parent;
        if parent <= 1 || Some(parent) == keeper || user_of(parent) != Some(uid) {
            break;
        }
        let Some(stat) = Stat::of(parent) else { break };
        if is_above_trees(parent, stat) {
            break;
        }
        (top, at) = (parent, stat);
    }
    (top, at)
}

/// What begins trees and belongs to none.
fn is_above_trees(pid: u32, stat: Stat) -> bool {
    is_shell_of_a_person(pid, stat) || is_service_manager(pid, stat)
}

/// The leader of a terminal's session: what a person starts there are trees of their own.
fn is_shell_of_a_person(pid: u32, stat: Stat) -> bool {
    stat.session == pid && stat.terminal != 0
}

/// What starts everything of a user that no terminal started: all of it would be one tree.
fn is_service_manager(pid: u32, stat: Stat) -> bool {
    stat.parent == 1 && look(pid, "comm", |name| Some(name.trim_end() == "systemd")).unwrap_or_default()
}

/// A process and its parents, nearest first, each with the terminal session it is in. Ends early where `/proc` does.
pub(crate) fn parents_of(pid: u32) -> Vec<(u32, u32)> {
    let mut line = Vec::new();
    let mut at = pid;
    while line.len() < HIGHEST && at > 1 {
        let Some(stat) = Stat::of(at) else { break };
        line.push((at, stat.session));
        at = stat.parent;
    }
    line
}

/// Whether a process is another one or descends from it. `None` if that cannot be found out.
pub(super) fn belongs_to(pid: u32, root: u32, root_started: u64) -> Option<bool> {
    let mut at = pid;
    for _ in 0..HIGHEST {
        let stat = Stat::of(at)?;
        if at == root && stat.started == root_started {
            return Some(true);
        }
        // The first process, and one that came in from another namespace.
        if stat.parent == 0 {
            return Some(false);
        }
        at = stat.parent;
    }
    None
}

/// The user a process runs as, even if its memory is hidden and its folder therefore root's.
pub(super) fn user_of(pid: u32) -> Option<u32> {
    look(pid, "status", |status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    })
}

/// What a file about a process says. One read of it: whoever asks is looked at with its whole line of parents before
/// every request, and reading until the end, in pieces, was most of what a request cost.
fn look<T>(pid: u32, file: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut buffer = [0; SMALL];
    let file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut buffer)).ok()?;
    parse(str::from_utf8(buffer.get(..read)?).ok()?)
}

/// What `/proc/PID/stat` says, as far as it matters here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stat {
    parent: u32,
    session: u32,
    terminal: i32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        look(pid, "stat", parse)
    }
}

fn parse(stat: &str) -> Option<Stat> {
    // The second field is the program's name in brackets and may hold anything, brackets and blanks included.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    Some(Stat {
        parent: fields.nth(1)?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
        terminal: fields.next()?.parse().ok()?,
        started: fields.nth(14)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = parse("42 (a) b (c) S 7 40 41 34816 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 777 1 2").unwrap();
        assert_eq!(stat, Stat { parent: 7, session: 41, terminal: 34816, started: 777 });
        for wrong in ["", "42 (x", "42 (x) S", "42 (x) S a 1 1 1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_process_is_known() {
        let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
        let info = PeerInfo::of(pid, uid).unwrap();
        assert_eq!((info.pid, info.uid, Some(info.started)), (pid, uid, start_of(pid)));
        assert_eq!(info.program, std::env::current_exe().unwrap().display().to_string());
        assert_eq!(info.cwd, std::env::current_dir().unwrap().display().to_string());
        assert_eq!(belongs_to(pid, info.root_pid, info.root_started), Some(true));
        assert_eq!(user_of(pid), Some(uid));
        assert!(PeerInfo::of(u32::MAX, uid).is_none());
    }

    #[test]
    fn a_number_that_was_given_away_again_is_somebody_else() {
        let pid = std::process::id();
        assert_eq!(belongs_to(pid, pid, start_of(pid).unwrap()), Some(true));
        assert_eq!(belongs_to(pid, pid, start_of(pid).unwrap() + 1), Some(false));
        assert_eq!(belongs_to(u32::MAX, pid, 1), None);
    }

    #[test]
    fn a_tree_ends_below_the_keeper() {
        let uid = rustix::process::getuid().as_raw();
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let apart = PeerInfo::below(child.id(), uid, Some(own)).unwrap();
        assert_eq!((apart.root_pid, apart.root_started), (child.id(), apart.started));
        // Without that it belongs to whatever this process belongs to.
        let together = PeerInfo::of(child.id(), uid).unwrap();
        let ours = PeerInfo::of(own, uid).unwrap();
        assert_eq!((together.root_pid, together.root_started), (ours.root_pid, ours.root_started));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A process that has this name and ends with its input.
    fn named(name: &str) -> std::process::Child {
        use std::io::{BufRead as _, BufReader};
        let mut command = std::process::Command::new("/bin/sh");
        command.arg("-c").arg(format!("printf {name} > /proc/$$/comm; echo ready; read line"));
        let mut child =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    #[test]
    fn a_service_manager_is_called_so_and_is_the_first_ones_child() {
        let (mut manager, mut other) = (named("systemd"), named("systemd-not"));
        let stat = |parent| Stat { parent, session: 1, terminal: 0, started: 1 };
        assert!(is_service_manager(manager.id(), stat(1)));
        assert!(!is_service_manager(manager.id(), stat(2)), "somebody's own program of that name");
        assert!(!is_service_manager(other.id(), stat(1)));
        assert!(!is_service_manager(u32::MAX, stat(1)), "nobody");
        assert!(is_above_trees(manager.id(), stat(1)) && !is_above_trees(other.id(), stat(1)));
        assert!(is_above_trees(other.id(), Stat { session: other.id(), terminal: 34816, ..stat(2) }));
        for child in [&mut manager, &mut other] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_shell_of_a_person_leads_the_session_of_a_terminal() {
        let stat = |session, terminal| Stat { parent: 7, session, terminal, started: 1 };
        assert!(is_shell_of_a_person(42, stat(42, 34816)));
        assert!(!is_shell_of_a_person(42, stat(41, 34816)), "somebody else leads it");
        assert!(!is_shell_of_a_person(42, stat(42, 0)), "there is no terminal");
        assert!(!is_shell_of_a_person(42, stat(41, 0)));
    }

    #[test]
    fn a_user_is_the_one_a_process_runs_as() {
        use std::os::unix::process::CommandExt as _;
        assert_eq!(user_of(u32::MAX), None);
        // Only root can become somebody else.
        if rustix::process::geteuid().is_root() {
            let mut child = std::process::Command::new("/bin/sleep").arg("100").uid(65534).spawn().unwrap();
            assert_eq!(user_of(child.id()), Some(65534));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_parent_is_known_by_its_number() {
        let own = std::process::id();
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        assert_eq!(parent_of(own), Some(parent.unwrap_or_default()));
        let mut child = named("child");
        assert_eq!(parent_of(child.id()), Some(own));
        assert_eq!(parent_of(u32::MAX), None);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_climb_of_this_moment_counts_and_one_of_before_does_not() {
        let uid = rustix::process::getuid().as_raw();
        // No other test has this keeper.
        let keeper = Some(u32::MAX - 7);
        let mut child = named("climber");
        let (own, above) = (Stat::of(child.id()).unwrap(), Stat::of(std::process::id()).unwrap());
        let place = Place { pid: std::process::id(), stat: above, uid, keeper };
        let truth = top_of(child.id(), own, uid, keeper);
        assert_ne!(truth.0, 4711);
        let put = |until: Instant| {
            let climbs = &mut CLIMBS.lock().0;
            climbs.retain(|climb| climb.place != place);
            climbs.push(Climb { place, until, top: Some((4711, above)) });
        };
        put(Instant::now() + Duration::from_secs(600));
        assert_eq!(top_of(child.id(), own, uid, keeper).0, 4711, "it was looked at a moment ago");
        // A climb from elsewhere takes nothing away from it.
        let other = Some(u32::MAX - 8);
        assert_eq!(top_of(child.id(), own, uid, other).0, truth.0);
        assert_eq!(top_of(child.id(), own, uid, keeper).0, 4711, "it still counts");
        put(Instant::now());
        assert_eq!(top_of(child.id(), own, uid, keeper), truth, "its time is over");
        CLIMBS.lock().0.retain(|climb| climb.place.keeper != keeper && climb.place.keeper != other);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn climbs_are_few_and_count_for_a_second() {
        let stat = |started| Stat { parent: 1, session: 1, terminal: 0, started };
        let place = |pid| Place { pid, stat: stat(7), uid: 1000, keeper: None };
        let (start, mut climbs) = (Instant::now(), Climbs(Vec::new()));
        climbs.remember(place(0), Some((5, stat(9))), start);
        assert_eq!(climbs.known(&place(0), start), Some(Some((5, stat(9)))));
        let last = start + CLIMB_COUNTS.saturating_sub(Duration::from_nanos(1));
        assert_eq!(climbs.known(&place(0), last), Some(Some((5, stat(9)))));
        assert_eq!(climbs.known(&place(0), start + CLIMB_COUNTS), None, "its second is over");
        assert_eq!(climbs.known(&place(1), start), None, "another place");
        assert_eq!(climbs.known(&Place { stat: stat(8), ..place(0) }, start), None, "another process of that number");
        assert_eq!(climbs.known(&Place { uid: 1001, ..place(0) }, start), None);
        assert_eq!(climbs.known(&Place { keeper: Some(1), ..place(0) }, start), None);
        // A later look takes the place of the one before.
        climbs.remember(place(0), None, last);
        assert_eq!((climbs.known(&place(0), last), climbs.0.len()), (Some(None), 1));
        for pid in 1..2 * MOST_CLIMBS as u32 {
            climbs.remember(place(pid), None, last);
        }
        assert_eq!(climbs.0.len(), MOST_CLIMBS);
        assert_eq!(climbs.known(&place(0), last), Some(None), "what counts is not pushed out");
        climbs.remember(place(1000), None, last + CLIMB_COUNTS);
        assert_eq!(climbs.0.len(), 1, "what is over makes room");
        assert_eq!(climbs.known(&place(1000), last + CLIMB_COUNTS), Some(None));
    }
}
