//! Ending processes: whom a signal reaches, how long a wait lasts, in which order it is told.

use std::fs;
use std::time::{Duration, Instant};

use hostel_tests::client::{Client, Event, is_exit, result_of};
use hostel_tests::frames::Transcript;
use hostel_tests::house::{House, path_text};
use hostel_tests::procfs::{self, Identity};
use hostel_tests::wait;

const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

fn spawn_stubborn(client: &mut Client, name: &str) -> i32 {
    let pid = client.spawn_shell(name, STUBBORN);
    let mut transcript = Transcript::default();
    client.follow_until(name, &mut transcript, |so_far| so_far.stdout == b"ready\n");
    pid
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let house = House::start();
    for signal in ["TERM", "INT", "HUP", "KILL"] {
        let mut client = house.connect();
        let leader = client.spawn_shell(signal, "sh -c 'trap - INT; exec sleep 300' & sleep 300 & echo up; wait");
        let mut transcript = Transcript::default();
        client.follow_until(signal, &mut transcript, |so_far| so_far.stdout == b"up\n");
        let tree = wait::eventually("the two children", || {
            let found = procfs::descendants(leader);
            (found.len() >= 2).then_some(found)
        });
        let params = format!(r#"{{"id":"{signal}","signal":"{signal}"}}"#);
        // A shell starts background commands with INT ignored: for INT only the leader must go.
        assert_eq!(client.ask("process.kill", &params), r#"{"success":true}"#);
        client.follow_until(signal, &mut transcript, |so_far| so_far.exit.is_some());
        if signal == "INT" {
            for process in tree {
                process.signal(rustix::process::Signal::KILL);
            }
            continue;
        }
        for process in tree {
            process.wait_gone(wait::LIMIT);
        }
    }
}

#[test]
fn descendants_that_escaped_the_group_die_with_a_kill() {
    let house = House::start();
    let mut client = house.connect();
    for (name, method, params) in [
        ("esc1", "process.kill", r#"{"id":"esc1","signal":"KILL"}"#),
        ("esc2", "process.killAndWait", r#"{"id":"esc2"}"#),
        ("esc3", "process.kill", r#"{"id":"esc3"}"#),
    ] {
        let pid_file = house.path().join(name);
        client.spawn_child(name, &["daemonize", path_text(&pid_file)]);
        let escaped = escaped(&pid_file);
        assert_eq!(procfs::stat(escaped.pid).map(|found| found.session != escaped.pid), Some(true));
        client.ask(method, params);
        escaped.wait_gone(wait::LIMIT);
    }
}

#[test]
fn a_descendant_that_escaped_dies_with_a_replaced_process() {
    let house = House::start();
    let mut client = house.connect();
    let pid_file = house.path().join("escaped");
    client.spawn_child("rep", &["daemonize", path_text(&pid_file)]);
    let escaped = escaped(&pid_file);
    client.spawn("rep", "true", &[]);
    escaped.wait_gone(wait::LIMIT);
}

fn escaped(pid_file: &std::path::Path) -> Identity {
    wait::eventually("the escaped process", || Identity::of(fs::read_to_string(pid_file).ok()?.trim().parse().ok()?))
}

/// All of them wait at the same time: how long each may take at most is told by the order of the answers, which a busy
/// machine does not change.
#[test]
fn the_grace_is_what_was_asked_for() {
    let house = House::start();
    let mut client = house.connect();
    spawn_stubborn(&mut client, "grace");
    let since = Instant::now();
    let mut waiting: Vec<(u64, u64)> = Vec::new();
    for (timeout, expected) in [
        (r#","timeoutMs":30000"#, 30_000),
        ("", 3000),
        (r#","timeoutMs":0"#, 3000),
        (r#","timeoutMs":-100"#, 3000),
        (r#","timeoutMs":1200"#, 1200),
        (r#","timeoutMs":50"#, 50),
    ] {
        let params = format!(r#"{{"id":"grace","escalate":false{timeout}}}"#);
        waiting.push((client.begin("process.killAndWait", &params), expected));
    }
    let mut order = Vec::new();
    while order.len() < 5 {
        let reply = client.reply();
        let took = since.elapsed();
        let (_, expected) =
            waiting.iter().find(|(id, _)| result_of(*id, &reply).is_some()).expect("an answer to one of them");
        assert!(reply.ends_with(r#""result":{"found":true,"died":false}}"#), "{reply}");
        assert!(took >= Duration::from_millis(*expected), "{expected} ms: answered after {took:?}");
        order.push(*expected);
    }
    assert_eq!(order, [50, 1200, 3000, 3000, 3000]);
}

#[test]
fn an_escalation_waits_for_the_grace_first() {
    let house = House::start();
    let mut client = house.connect();
    let pid = spawn_stubborn(&mut client, "esc");
    let leader = Identity::of(pid).expect("it runs");
    // One that waits for as long as is usual sees the end: the escalation comes before that.
    let mut other = house.connect();
    let usual = other.begin("process.killAndWait", r#"{"id":"esc","escalate":false}"#);
    let since = Instant::now();
    let result = client.ask("process.killAndWait", r#"{"id":"esc","timeoutMs":700}"#);
    let took = since.elapsed();
    assert_eq!(result, r#"{"found":true,"died":true,"escalated":true}"#);
    assert!(took >= Duration::from_millis(700), "{took:?}");
    assert!(other.finish(usual).ends_with(r#""result":{"found":true,"died":true}}"#));
    leader.wait_gone(wait::LIMIT);
    assert_eq!(
        client.ask("process.killAndWait", r#"{"id":"esc"}"#),
        r#"{"found":true,"died":true,"alreadyExited":true}"#
    );
}

#[test]
fn an_absurd_grace_is_accepted() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn("kind", "cat", &[]);
    assert_eq!(
        client.ask("process.killAndWait", r#"{"id":"kind","timeoutMs":9000000000000000000}"#),
        r#"{"found":true,"died":true}"#
    );
}

#[test]
fn the_answer_of_kill_and_wait_follows_the_exit_frame() {
    let house = House::start();
    for round in 0..20 {
        let mut client = house.connect();
        let name = format!("order{round}");
        client.spawn(&name, "cat", &[]);
        client.begin("process.killAndWait", &format!(r#"{{"id":"{name}"}}"#));
        match client.event() {
            Event::Frame(frame) => assert!(is_exit(&frame), "{frame:?}"),
            other => panic!("round {round}: {other:?} came before the exit frame"),
        }
        assert!(
            matches!(client.event(), Event::Reply(line) if line.ends_with(r#""result":{"found":true,"died":true}}"#))
        );
    }
}

#[test]
fn two_that_wait_for_the_same_end_both_hear_of_it() {
    let house = House::start();
    let mut first = house.connect();
    let mut second = house.connect();
    spawn_stubborn(&mut first, "pair");
    let one = first.begin("process.killAndWait", r#"{"id":"pair","timeoutMs":400}"#);
    let two = second.begin("process.killAndWait", r#"{"id":"pair","timeoutMs":400}"#);
    assert!(first.finish(one).contains(r#""found":true,"died":true"#));
    assert!(second.finish(two).contains(r#""found":true,"died":true"#));
}

#[test]
fn a_kill_after_the_exit_sends_no_signal() {
    let house = House::start();
    let mut client = house.connect();
    // The leader is gone, its group lives on in a child that let go of the pipes.
    client.spawn("gone", "sh", &["-c", "sleep 300 </dev/null >/dev/null 2>&1 & echo $!"]);
    let transcript = client.follow("gone");
    let pid: i32 = String::from_utf8_lossy(&transcript.stdout).trim().parse().expect("a pid");
    let sleeper = Identity::of(pid).expect("the background child runs on");
    assert_eq!(client.ask("process.kill", r#"{"id":"gone","signal":"TERM"}"#), r#"{"success":true}"#);
    assert_eq!(
        client.ask("process.killAndWait", r#"{"id":"gone"}"#),
        r#"{"found":true,"died":true,"alreadyExited":true}"#
    );
    sleeper.signal(rustix::process::Signal::KILL);
}
