//! What arrives of a process's output, in which pieces and in which order.

use std::time::{Duration, Instant};

use hostel_tests::frames::FRAME_LIMIT;
use hostel_tests::house::House;
use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;

/// The bytes `testchild numbers` prints.
fn numbered(total: usize) -> Vec<u8> {
    (0..total.div_ceil(8) as u64).flat_map(u64::to_le_bytes).take(total).collect()
}

#[test]
fn large_output_is_split_at_32_kib_and_complete() {
    let house = House::start();
    let mut client = house.connect();
    let total = 3 * 1024 * 1024 + 12345;
    client.spawn_child("big", &["numbers", &total.to_string()]);
    let transcript = client.follow("big");
    assert!(transcript.stdout == numbered(total), "{} bytes came instead of {total}", transcript.stdout.len());
    assert!(transcript.largest <= FRAME_LIMIT);
    assert!(transcript.frames > 3 * 32, "{} frames", transcript.frames);
    assert_eq!((transcript.exit, transcript.stderr.len()), (Some(0), 0));
}

#[test]
fn a_replay_has_the_same_frames_as_the_first_time() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn_child("again", &["numbers", "400000"]);
    let mut first = Vec::new();
    loop {
        let frame = client.frame();
        let last = hostel_tests::client::is_exit(&frame);
        first.push(frame);
        if last {
            break;
        }
    }
    let mut other = house.connect();
    other.reattach("again", 0);
    assert!(other.queued_frames() == first, "the replay differs from what was seen live");
}

#[test]
fn output_without_a_newline_arrives_at_once() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn("prompt", "sh", &["-c", "printf 'password: '; read x; printf done"]);
    let mut transcript = hostel_tests::frames::Transcript::default();
    client.follow_until("prompt", &mut transcript, |so_far| so_far.stdout == b"password: ");
    client.stdin("prompt", None, b"x\n");
    client.follow_until("prompt", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.stdout, b"password: done");
}

#[test]
fn both_streams_are_complete_and_the_exit_is_last() {
    let house = House::start();
    let mut client = house.connect();
    let text = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; exit 42";
    client.spawn("both", "sh", &["-c", text]);
    let transcript = client.follow("both");
    let expected = |name: &str| (0..300).map(|number| format!("{name} {number}\n")).collect::<String>().into_bytes();
    assert_eq!(transcript.stdout, expected("out"));
    assert_eq!(transcript.stderr, expected("err"));
    assert_eq!(transcript.exit, Some(42));
}

#[test]
fn a_child_that_prints_nothing_has_one_frame() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn_child("mute", &["exit", "17"]);
    let transcript = client.follow("mute");
    assert_eq!((transcript.frames, transcript.exit), (1, Some(17)));
    assert_eq!(
        client.reattach("mute", 1),
        r#"{"found":true,"running":false,"firstSeq":1,"lastSeq":1,"stdinApplied":0}"#
    );
}

#[test]
fn a_child_that_closes_its_stdout_early_lives_on() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn_child("closing", &["close-stdout"]);
    let mut transcript = hostel_tests::frames::Transcript::default();
    client.follow_until("closing", &mut transcript, |so_far| so_far.stderr == b"closed");
    assert!(client.reattach("closing", 99).contains(r#""running":true"#));
    client.stdin("closing", None, b"!");
    client.follow_until("closing", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!((transcript.stdout.as_slice(), transcript.stderr.as_slice()), (&b"before"[..], &b"closed after"[..]));
    assert_eq!(transcript.exit, Some(9));
}

#[test]
fn a_grandchild_that_holds_the_pipe_delays_the_exit_by_five_seconds_at_most() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn_child("leaving", &["grandchild", "stdout"]);
    let mut transcript = hostel_tests::frames::Transcript::default();
    client
        .follow_until("leaving", &mut transcript, |so_far| !so_far.stderr.is_empty() && so_far.stdout == b"holding\n");
    let since = Instant::now();
    let pid: i32 = String::from_utf8_lossy(&transcript.stderr).parse().expect("the grandchild's pid");
    let grandchild = Identity::of(pid).expect("the grandchild runs");
    // While the pipes are drained the process counts as running.
    assert!(client.reattach("leaving", 99).contains(r#""running":true"#));
    client.follow_until("leaving", &mut transcript, |so_far| so_far.exit.is_some());
    let took = since.elapsed();
    assert_eq!(transcript.exit, Some(6));
    assert!(took > Duration::from_secs(3), "the pipe was given up after {took:?} already");
    // Five seconds, and what a busy machine adds.
    assert!(took < Duration::from_secs(60), "the exit frame took {took:?}");
    // It outlived its parent's normal end; nobody asked for its death.
    assert!(grandchild.alive(), "the grandchild was killed although the leader merely exited");
    grandchild.signal(Signal::KILL);
    grandchild.wait_gone(wait::LIMIT);
}

#[test]
fn a_grandchild_that_lets_go_does_not_delay_the_exit() {
    let house = House::start();
    let mut client = house.connect();
    // One that is delayed, to compare with: the order of the two ends is the same on a busy machine.
    client.spawn_child("delayed", &["grandchild", "stdout"]);
    let mut delayed = hostel_tests::frames::Transcript::default();
    client.follow_until("delayed", &mut delayed, |so_far| !so_far.stderr.is_empty() && so_far.stdout == b"holding\n");
    client.spawn("quick", "sh", &["-c", "sleep 30 </dev/null >/dev/null 2>&1 & echo $!"]);
    let transcript = client.follow("quick");
    let pids = [&transcript.stdout, &delayed.stderr].map(|pid| String::from_utf8_lossy(pid).trim().parse::<i32>());
    assert_eq!(transcript.exit, Some(0));
    assert!(client.reattach("delayed", 99).contains(r#""running":true"#), "the exit frame was delayed");
    for pid in pids {
        if let Some(grandchild) = Identity::of(pid.expect("a pid")) {
            grandchild.signal(Signal::KILL);
        }
    }
}

#[test]
fn lines_of_many_processes_never_mix_within_a_line() {
    let house = House::start();
    let mut client = house.connect();
    let names: Vec<String> = (0..12).map(|number| format!("mix{number}")).collect();
    for name in &names {
        client.spawn_child(name, &["numbers", "300000"]);
    }
    // The client refuses any line that is not exactly one frame or one reply.
    for name in &names {
        for _ in 0..20 {
            client.begin("server.ping", "{}");
        }
        let transcript = client.follow(name);
        assert!(transcript.stdout == numbered(300_000), "{name}");
    }
}

#[test]
fn a_hundred_children_at_once_all_tell_their_end() {
    let house = House::start();
    let mut client = house.connect();
    for number in 0..100 {
        client.spawn_child(&format!("n{number}"), &["say", &format!("I am {number}\n"), &(number % 256).to_string()]);
    }
    for number in 0..100 {
        let transcript = client.follow(&format!("n{number}"));
        assert_eq!(transcript.stdout, format!("I am {number}\n").into_bytes());
        assert_eq!(transcript.exit, Some(number % 256));
    }
}
