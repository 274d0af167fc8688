//! Awkward children with the daemon killed in their midst.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use hostel_tests::client::{Client, Event, Trouble};
use hostel_tests::frames::{Payload, Transcript};
use hostel_tests::house::{House, path_text};
use hostel_tests::procfs::Identity;
use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use rustix::process::Signal;

fn restart(house: &mut House) -> Client {
    house.kill();
    house.serve();
    house.connect()
}

/// 64 MiB by default, 1 GiB with `HOSTEL_TEST_BIG=1`.
fn big() -> u64 {
    if env::var("HOSTEL_TEST_BIG").is_ok_and(|value| value == "1") { 1 << 30 } else { 64 << 20 }
}

#[test]
fn a_child_that_prints_very_much_is_told_in_full() {
    let total = big();
    let seed = random::seed();
    eprintln!("seed {seed}, {} MiB", total >> 20);
    let mut random = Random::new(seed);
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn_child("big", &["numbers", &total.to_string()]);
    client.allow_torn_end();
    let (mut seq, mut next, mut rest) = (0_u64, 0_u64, Vec::new());
    let mut kills = 0;
    let mut kill_at = random.below(1000);
    let exit = loop {
        match client.try_event(wait::LIMIT) {
            Ok(Event::Frame(frame)) => {
                seq += 1;
                assert_eq!(frame.seq, seq, "a gap or a repeat after {kills} kills");
                match frame.payload {
                    Payload::Output(_, bytes) => {
                        rest.extend_from_slice(&bytes);
                        let whole = rest.len() / 8 * 8;
                        for word in rest[..whole].chunks_exact(8) {
                            assert_eq!(u64::from_le_bytes(word.try_into().expect("eight bytes")), next, "frame {seq}");
                            next += 1;
                        }
                        rest.drain(..whole);
                    }
                    Payload::Exit(code) => break code,
                }
            }
            Ok(Event::Reply(line)) => assert!(line.contains(r#""found":true"#), "{line}"),
            Err(Trouble::Closed) => panic!("the connection was closed"),
            Err(late) => panic!("{late} after frame {seq}"),
        }
        if seq >= kill_at && kills < 5 {
            kills += 1;
            kill_at = seq + random.below(1000);
            client = restart(&mut house);
            client.allow_torn_end();
            client.begin("process.reattach", &format!(r#"{{"id":"big","fromSeq":{seq}}}"#));
        }
    };
    assert_eq!((exit, next * 8), (0, total));
    assert!(kills > 0);
}

#[test]
fn a_grandchild_that_holds_the_pipe_delays_the_exit_no_longer_without_a_daemon() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn_child("leaving", &["grandchild", "all"]);
    let mut transcript = Transcript::default();
    client
        .follow_until("leaving", &mut transcript, |so_far| !so_far.stderr.is_empty() && so_far.stdout == b"holding\n");
    let since = Instant::now();
    let pid: i32 = String::from_utf8_lossy(&transcript.stderr).parse().expect("the grandchild's pid");
    let grandchild = Identity::of(pid).expect("it runs");
    let mut client = restart(&mut house);
    client.reattach("leaving", transcript.last_seq);
    client.follow_until("leaving", &mut transcript, |so_far| so_far.exit.is_some());
    let took = since.elapsed();
    assert_eq!(transcript.exit, Some(6));
    assert!(took < Duration::from_secs(15), "the exit frame took {took:?}");
    grandchild.signal(Signal::KILL);
}

#[test]
fn a_child_that_ignores_term_is_still_killed_after_a_restart() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn_shell("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.05; done");
    let mut transcript = Transcript::default();
    client.follow_until("stubborn", &mut transcript, |so_far| so_far.stdout == b"ready\n");
    // The daemon dies while somebody waits for the end.
    client.begin("process.killAndWait", r#"{"id":"stubborn","timeoutMs":60000}"#);
    let mut client = restart(&mut house);
    client.reattach("stubborn", transcript.last_seq);
    let result = client.ask("process.killAndWait", r#"{"id":"stubborn","timeoutMs":200}"#);
    assert_eq!(result, r#"{"found":true,"died":true,"escalated":true}"#);
    client.follow_until("stubborn", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.exit, Some(-1));
}

#[test]
fn a_child_that_closed_its_stdout_goes_on_after_a_restart() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn_child("closing", &["close-stdout"]);
    let mut transcript = Transcript::default();
    client.follow_until("closing", &mut transcript, |so_far| so_far.stderr == b"closed");
    let mut client = restart(&mut house);
    client.reattach("closing", transcript.last_seq);
    client.stdin("closing", Some(0), b"!");
    client.follow_until("closing", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(
        (transcript.stdout.as_slice(), transcript.stderr.as_slice(), transcript.exit),
        (&b"before"[..], &b"closed after"[..], Some(9))
    );
}

#[test]
fn a_child_that_daemonized_is_found_after_a_restart() {
    let mut house = House::start();
    let mut client = house.connect();
    let pid_file = house.path().join("escaped");
    client.spawn_child("escaping", &["daemonize", path_text(&pid_file)]);
    let escaped = wait::until(wait::LIMIT, "the escaped process", || {
        Identity::of(fs::read_to_string(&pid_file).ok()?.trim().parse().ok()?)
    });
    let mut client = restart(&mut house);
    assert!(escaped.alive());
    assert_eq!(client.ask("process.killAndWait", r#"{"id":"escaping"}"#), r#"{"found":true,"died":true}"#);
    escaped.wait_gone(wait::LIMIT);
}

#[test]
fn half_a_line_and_silence_survive_a_restart() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn("half", "sh", &["-c", "printf 'no newline'; read x; exit 3"]);
    let mut transcript = Transcript::default();
    client.follow_until("half", &mut transcript, |so_far| so_far.stdout == b"no newline");
    client.spawn("mute", "cat", &[]);
    let mut client = restart(&mut house);
    let state = client.reattach("mute", 0);
    assert_eq!(state, r#"{"found":true,"running":true,"firstSeq":0,"lastSeq":0,"stdinApplied":0}"#);
    client.reattach("half", transcript.last_seq);
    client.stdin("half", Some(0), b"\n");
    client.follow_until("half", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!((transcript.stdout.as_slice(), transcript.exit), (&b"no newline"[..], Some(3)));
    assert_eq!(client.ask("process.killAndWait", r#"{"id":"mute"}"#), r#"{"found":true,"died":true}"#);
    let mute = client.follow("mute");
    assert_eq!((mute.frames, mute.exit), (1, Some(-1)));
}

#[test]
fn a_child_that_ends_while_the_daemon_is_down_is_told_to_the_next() {
    let mut house = House::start();
    let mut client = house.connect();
    let go = house.path().join("go");
    let pid = client
        .spawn_shell("later", &format!("while [ ! -e {} ]; do sleep 0.01; done; echo late; exit 6", go.display()));
    let child = Identity::of(pid).expect("it runs");
    house.kill();
    fs::write(&go, "").expect("the mark");
    child.wait_gone(wait::LIMIT);
    house.serve();
    let mut client = house.connect();
    client.reattach("later", 0);
    let transcript = client.follow("later");
    assert_eq!((transcript.stdout.as_slice(), transcript.exit), (&b"late\n"[..], Some(6)));
}
