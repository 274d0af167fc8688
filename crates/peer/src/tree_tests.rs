use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// A process that has this name and ends with its input.
fn named(name: &str) -> Child {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("printf {name} > /proc/$$/comm; echo ready; read line"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn start_of(pid: u32) -> u64 {
    Stat::of(pid).unwrap().started
}

fn belongs(pid: u32, root: u32, root_started: u64) -> Option<bool> {
    belongs_to(pid, Stat::of(pid)?, root, root_started)
}

#[test]
fn this_process_is_known() {
    let (pid, uid) = (std::process::id(), rustix::process::getuid().as_raw());
    let info = PeerInfo::of(pid, uid).unwrap();
    assert_eq!((info.pid, info.uid, info.started), (pid, uid, start_of(pid)));
    assert_eq!(info.program, std::env::current_exe().unwrap().display().to_string());
    assert_eq!(info.cwd, std::env::current_dir().unwrap().display().to_string());
    assert_eq!(belongs(pid, info.root_pid, info.root_started), Some(true));
    assert!(PeerInfo::of(u32::MAX, uid).is_none());
}

#[test]
fn a_number_that_was_given_away_again_is_somebody_else() {
    let pid = std::process::id();
    assert_eq!(belongs(pid, pid, start_of(pid)), Some(true));
    assert_eq!(belongs(pid, pid, start_of(pid) + 1), Some(false));
    let child = named("child");
    assert_eq!(belongs(child.id(), pid, start_of(pid)), Some(true));
    assert_eq!(belongs(child.id(), pid, start_of(pid) + 1), Some(false));
    end(child);
}

#[test]
fn a_parent_that_is_younger_than_its_child_is_not_believed() {
    let child = named("child");
    let stat = Stat::of(child.id()).unwrap();
    assert_eq!(parent_of(child.id(), stat).unwrap().unwrap().pid, std::process::id());
    // As if the look at the child were from before its parent ended and the number was given away again.
    let outdated = Stat { parent: u32::MAX, ..stat };
    assert_eq!(
        parent_of(child.id(), outdated).unwrap().unwrap().pid,
        std::process::id(),
        "the child is looked at again"
    );
    end(child);
}

#[test]
fn a_tree_ends_below_a_hostel_process() {
    let uid = rustix::process::getuid().as_raw();
    // A process between this one and the child: no other test may find its parent registered.
    let mut keeper = Command::new("sh");
    keeper.args(["-c", "sh -c 'echo $$; read line'; true"]);
    let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let child: u32 = line.trim().parse().unwrap();
    let own = Stat::of(child).unwrap();
    let outside = is_below_hostel(std::process::id(), Stat::of(std::process::id()).unwrap());
    assert_eq!(is_below_hostel(child, own), outside);
    registry().add(keeper.id());
    assert_eq!(is_below_hostel(child, own), Some(true));
    assert_eq!(is_below_hostel(keeper.id(), Stat::of(keeper.id()).unwrap()), outside, "it is no descendant of itself");
    // No other user: the climb of a moment ago does not count for them.
    assert_eq!(top_of(child, own, uid), (child, own.started));
    end(keeper);
}

#[test]
fn a_service_manager_is_called_so_and_is_the_first_ones_child() {
    let (manager, other) = (named("systemd"), named("systemd-not"));
    let stat = |parent| Stat { parent, session: 1, terminal: 0, started: 1 };
    assert!(is_service_manager(manager.id(), stat(1)));
    assert!(!is_service_manager(manager.id(), stat(2)), "somebody's own program of that name");
    assert!(!is_service_manager(other.id(), stat(1)));
    assert!(!is_service_manager(u32::MAX, stat(1)), "nobody");
    assert!(is_above_trees(manager.id(), stat(1)) && !is_above_trees(other.id(), stat(1)));
    assert!(is_above_trees(other.id(), Stat { session: other.id(), terminal: 34816, ..stat(2) }));
    end(manager);
    end(other);
}

#[test]
fn a_shell_of_a_person_leads_the_session_of_a_terminal() {
    let stat = |session, terminal| Stat { parent: 7, session, terminal, started: 1 };
    assert!(is_shell_of_a_person(42, stat(42, 34816)));
    assert!(!is_shell_of_a_person(42, stat(41, 34816)), "somebody else leads it");
    assert!(!is_shell_of_a_person(42, stat(42, 0)), "there is no terminal");
    assert!(!is_shell_of_a_person(42, stat(41, 0)));
}
