//! Hosted processes end to end: a real keeper, real children, real journals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostel_house::processes::{
    Batch, Exit, Item, KeeperOptions, Member, Next, Process, Processes, Relation, SpawnError, SpawnSpec, StdinError,
};
use rustix::process::Signal;
use support::{TestHouse, hear, install, limit, opened, shell, until, until_ended, within};

async fn wait_for_output(process: &Arc<Process>, needle: &str) -> u64 {
    let mut watch = process.watch(0).unwrap();
    let mut batch = Batch::default();
    let mut seen = Vec::new();
    loop {
        let next = within("output", watch.next(&mut batch)).await.unwrap();
        assert_eq!(next, Next::Items, "ended before {needle:?}: {:?}", String::from_utf8_lossy(&seen));
        for item in batch.items() {
            if let Item::Output { data, .. } = item {
                seen.extend_from_slice(data);
            }
        }
        if String::from_utf8_lossy(&seen).contains(needle) {
            return watch.position();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_both_streams_and_the_exit_code() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes.spawn(shell("a", "echo out; echo err >&2; exit 3")).await.unwrap();
    let heard = hear(&process, 0).await;
    assert_eq!((heard.stdout.as_slice(), heard.stderr.as_slice()), (b"out\n".as_slice(), b"err\n".as_slice()));
    assert_eq!(heard.exit, Some(Exit { code: 3, signal: 0, lost: false }));
    assert_eq!(hear(&process, 1).await.seqs.first(), Some(&2));
    assert!(!process.status().running);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_process_has_an_exit_and_no_file() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes.spawn(shell("silent", "exit 0")).await.unwrap();
    let heard = hear(&process, 0).await;
    assert_eq!((heard.seqs.as_slice(), heard.exit.map(|exit| exit.code)), ([1].as_slice(), Some(0)));
    assert_eq!(processes.usage().await.unwrap().files, 0);
    // Stopping the keeper writes its end down, so that the next one still knows it.
    processes.stop_keeper(Duration::ZERO).await.unwrap();
    let again = house.open().await;
    let process = again.get("silent").unwrap();
    assert_eq!(process.status().exit.map(|exit| exit.code), Some(0));
    assert_eq!(hear(&process, 0).await.seqs, [1]);
    again.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn spawn_failures_name_their_stage() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let missing = SpawnSpec { program: "/nonexistent/program".into(), ..shell("x", "") };
    assert_eq!(processes.spawn(missing).await.unwrap_err(), SpawnError::Exec { errno: 2 });
    let astray = SpawnSpec { cwd: Some("/nonexistent".into()), ..shell("x", "") };
    assert_eq!(processes.spawn(astray).await.unwrap_err(), SpawnError::Chdir { errno: 2 });
    assert!(processes.get("x").is_none() && processes.list().is_empty());
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn input_by_offset_and_the_end_of_input() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes.spawn(shell("cat", "cat")).await.unwrap();
    let offer = async |offset, data: &'static [u8]| process.stdin(offset, data).await.unwrap().done().await;
    assert_eq!(offer(None, b"hello ").await.unwrap().applied, 6);
    assert_eq!(offer(Some(7), b"x").await.unwrap_err(), StdinError::Gap);
    assert!(offer(Some(0), b"hello ").await.unwrap().duplicate);
    assert_eq!(offer(Some(3), b"lo world").await.unwrap().applied, 11);
    process.close_stdin().await.unwrap();
    assert_eq!(hear(&process, 0).await.stdout, b"hello world");
    assert_eq!(process.status().stdin_applied, 11);
    assert_eq!(process.stdin(None, b"x").await.err(), Some(StdinError::NotRunning));
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_daemon_takes_over_and_knows_everything() {
    let house = TestHouse::new();
    let first = house.open().await;
    let process = first.spawn(shell("long", "echo before; read line; echo got $line; exit 7")).await.unwrap();
    wait_for_output(&process, "before").await;
    process.stdin(None, b"par").await.unwrap().done().await.unwrap();
    let second = house.open().await;
    within("the older daemon to be superseded", first.superseded()).await;
    let adopted = second.get("long").unwrap();
    assert_eq!((adopted.pid(), adopted.started_ns()), (process.pid(), process.started_ns()));
    assert_eq!(adopted.status().stdin_applied, 3);
    adopted.stdin(Some(3), b"rot\n").await.unwrap().done().await.unwrap();
    let heard = hear(&adopted, 0).await;
    assert_eq!((heard.stdout.as_slice(), heard.exit.unwrap().code), (b"before\ngot parrot\n".as_slice(), 7));
    second.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_replaces_itself_under_a_stream() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let script = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done; read line; echo $line; exit 5";
    let process = processes.spawn(shell("counter", script)).await.unwrap();
    let before = processes.keeper_status();
    for _ in 0..5 {
        processes.upgrade_keeper(opened(&house.options().program)).await.unwrap();
    }
    assert_eq!(processes.keeper_status().pid, before.pid);
    process.stdin(Some(0), b"thanks\n").await.unwrap().done().await.unwrap();
    let heard = hear(&process, 0).await;
    let mut expected: String = (0..20000).map(|number| format!("{number}\n")).collect();
    expected.push_str("thanks\n");
    assert_eq!(String::from_utf8(heard.stdout).unwrap(), expected);
    assert_eq!(heard.exit.unwrap().code, 5);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_no_keeper_is_refused_and_nothing_changes() {
    let house = TestHouse::new();
    let (processes, place) = house.open_with_own_program().await;
    let process = processes.spawn(shell("cat", "cat")).await.unwrap();
    for program in ["/bin/false", "/bin/cat", "/dev/null"].map(Path::new) {
        let refused = processes.upgrade_keeper(opened(program)).await.unwrap_err().to_string();
        assert!(refused.contains("neither the keeper's own file"), "{refused}");
    }
    for program in ["/bin/false", "/bin/cat"].map(Path::new) {
        install(program, &place);
        let refused = processes.upgrade_keeper(opened(&place)).await.unwrap_err().to_string();
        assert!(refused.contains("does not understand") || refused.contains("is not a keeper"), "{refused}");
    }
    process.stdin(None, b"still here\n").await.unwrap().done().await.unwrap();
    wait_for_output(&process, "still here").await;
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_keeper_loses_its_processes_and_says_so() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let process = processes.spawn(shell("victim", "echo printed; sleep 1000")).await.unwrap();
    let silent = processes.spawn(shell("quiet", "exec sleep 1000")).await.unwrap();
    wait_for_output(&process, "printed").await;
    let keeper = rustix::process::Pid::from_raw(processes.keeper_status().pid as i32).unwrap();
    rustix::process::kill_process(keeper, Signal::KILL).unwrap();
    for process in [&process, &silent] {
        let exit = process.wait_exit(limit()).await.unwrap();
        assert_eq!((exit.code, exit.lost), (-1, true));
    }
    let heard = hear(&process, 0).await;
    assert_eq!(heard.stdout, b"printed\n");
    // What was left of their trees is gone, and the house works.
    for process in [&process, &silent] {
        until_ended(process.pid()).await;
    }
    let next = processes.spawn(shell("next", "echo fine")).await.unwrap();
    assert_eq!(hear(&next, 0).await.stdout, b"fine\n");
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

async fn until_escaped(process: &Arc<Process>, count: usize) {
    let escaped = |member: &&Member| member.relation == Relation::Escaped && !member.zombie;
    let members = async || process.tree().await.members;
    until("the expected number of processes to leave the group", members, |members| {
        members.iter().filter(escaped).count() == count
    })
    .await;
}

async fn find_and_kill_descendants(processes: &Processes, script: &str) {
    let process = processes.spawn(shell("parent", script)).await.unwrap();
    wait_for_output(&process, "\n").await;
    until_escaped(&process, 1).await;
    process.kill(Signal::TERM).await;
    let exit = process.wait_exit(limit()).await.unwrap();
    assert_eq!((exit.code, exit.signal), (-1, 15));
    until_escaped(&process, 0).await;
}

/// Leaves the group and the session.
const LEAVES: &str = "setsid sleep 1000 & echo $!; exec sleep 1000";
/// Also loses its parent and clears its environment, the tag with it.
const HIDES: &str = "(env -i setsid sleep 1000 &); echo; exec sleep 1000";

#[tokio::test(flavor = "multi_thread")]
async fn descendants_that_left_the_group_are_found_and_killed_without_cgroups() {
    let house = TestHouse::new();
    let options = KeeperOptions { cgroup_root: Some("/dev/null/none".into()), ..house.options() };
    let processes = Processes::connect(options).await.unwrap();
    assert!(!processes.keeper_status().cgroup);
    find_and_kill_descendants(&processes, LEAVES).await;
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_cgroups_even_those_that_hide_are_found_and_killed() {
    let house = TestHouse::new();
    let processes = house.open().await;
    if processes.keeper_status().cgroup {
        find_and_kill_descendants(&processes, LEAVES).await;
        find_and_kill_descendants(&processes, HIDES).await;
    } else {
        eprintln!("skipped: no writable cgroup hierarchy of version 2 here");
    }
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlives_its_process_is_listed_and_ends_with_the_keeper() {
    let house = TestHouse::new();
    let processes = house.open().await;
    // The process ends only once the other one has left its group.
    let script = "setsid sh -c 'echo $$ > pid; exec sleep 1000 >/dev/null 2>&1' & until [ -s pid ]; do sleep 0.02; done; cat pid";
    let spec = SpawnSpec { cwd: Some(house.path().to_owned()), ..shell("gone", script) };
    let process = processes.spawn(spec).await.unwrap();
    let heard = hear(&process, 0).await;
    let pid: u32 = String::from_utf8(heard.stdout).unwrap().trim().parse().unwrap();
    let strays = processes.strays().await;
    let names: Vec<_> = strays.iter().map(|(member, name)| (member.pid, name.as_deref())).collect();
    assert_eq!(names, [(pid, Some("gone"))]);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
    until_ended(pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_holds_the_pipe_delays_the_end_by_five_seconds_at_most() {
    let house = TestHouse::new();
    let processes = house.open().await;
    let began = std::time::Instant::now();
    let process = processes.spawn(shell("leaky", "sleep 1000 & echo started; exit 4")).await.unwrap();
    let exit = process.wait_exit(limit()).await.unwrap();
    assert_eq!(exit.code, 4);
    // The grandchild would hold it for far longer than anything is waited for here.
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(4), "{took:?}");
    process.kill_tree().await;
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_holds_the_child_back_and_nothing_is_lost() {
    let house = TestHouse::new();
    let processes = house.open().await;
    processes.set_limits(0, 1 << 20, 0).await;
    let process = processes.spawn(shell("flood", "head -c 4000000 /dev/zero; echo done")).await.unwrap();
    until("it is held", async || process.status(), |now| now.held.is_some()).await;
    assert!(process.status().running);
    processes.set_limits(0, 1 << 40, 0).await;
    let heard = hear(&process, 0).await;
    assert_eq!(heard.stdout.len(), 4_000_005);
    processes.stop_keeper(Duration::ZERO).await.unwrap();
}
