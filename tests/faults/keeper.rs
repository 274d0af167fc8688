//! The keeper killed: the one death that costs processes. It must be said, and nothing else may be lost.

use hostel_tests::chatter::{Checker, Lines};
use hostel_tests::frames::{Payload, Stream, Transcript};
use hostel_tests::house::{House, path_text};
use hostel_tests::procfs::Identity;
use hostel_tests::random;
use hostel_tests::wait;
use rustix::process::Signal;

#[test]
fn a_keeper_killed_under_load_leaves_a_correct_prefix_and_a_stated_end() {
    let seed = random::seed();
    eprintln!("seed {seed}");
    let mut house = House::start();
    let mut client = house.connect();
    let mut children = Vec::new();
    for number in 0..3 {
        let record = house.path().join(format!("record{number}"));
        let name = format!("chatter{number}");
        let pid = client.spawn_child(&name, &["chatter", path_text(&record), &(seed + number).to_string(), "0"]);
        children.push((name, seed + number, Identity::of(pid).expect("it runs")));
    }
    client.spawn("done", "sh", &["-c", "echo finished; exit 3"]);
    let done = client.follow("done");
    let mut seen: Vec<Transcript> = Vec::new();
    for (name, _, _) in &children {
        let mut transcript = Transcript::default();
        client.follow_until(name, &mut transcript, |so_far| so_far.last_seq >= 100);
        seen.push(transcript);
    }
    let keeper = house.keeper();
    keeper.signal(Signal::KILL);
    keeper.wait_gone(wait::LIMIT);
    for ((name, seed, process), transcript) in children.iter().zip(&mut seen) {
        client.follow_until(name, transcript, |so_far| so_far.exit.is_some());
        assert_eq!(transcript.exit, Some(-1), "{name}");
        process.wait_gone(wait::LIMIT);
        check_prefix(transcript, *seed);
    }
    // A restart changes nothing of it.
    house.kill();
    house.serve();
    let mut client = house.connect();
    for ((name, _, _), transcript) in children.iter().zip(&seen) {
        let state = client.reattach(name, 0);
        assert!(state.starts_with(r#"{"found":true,"running":false,"firstSeq":1,"#), "{name}: {state}");
        let again = client.follow(name);
        assert!(again.stdout == transcript.stdout && again.stderr == transcript.stderr, "{name}: the journal changed");
        assert_eq!((again.last_seq, again.exit), (transcript.last_seq, Some(-1)), "{name}");
    }
    // What had ended before keeps its own exit code.
    client.reattach("done", 0);
    let again = client.follow("done");
    assert_eq!((again.stdout, again.exit), (done.stdout, Some(3)));
    client.spawn("new", "echo", &["alive"]);
    assert_eq!(client.follow("new").stdout, b"alive\n");
}

fn check_prefix(transcript: &Transcript, seed: u64) {
    let mut out = Checker::new(Lines::new("out", seed));
    out.take(&transcript.stdout).unwrap_or_else(|reason| panic!("{reason}"));
    let mut err = Checker::new(Lines::new("err", seed));
    err.take(&transcript.stderr).unwrap_or_else(|reason| panic!("{reason}"));
    assert!(out.bytes > 0 && err.bytes > 0);
}

#[test]
fn daemon_and_keeper_killed_together_lose_only_the_processes() {
    let mut house = House::start();
    let mut client = house.connect();
    let pid = client.spawn_shell("both", "echo said; exec sleep 300");
    let child = Identity::of(pid).expect("it runs");
    let frame = client.frame();
    assert_eq!(frame.payload, Payload::Output(Stream::Out, b"said\n".to_vec()));
    let keeper = house.keeper();
    house.kill();
    keeper.signal(Signal::KILL);
    keeper.wait_gone(wait::LIMIT);
    house.serve();
    let mut client = house.connect();
    let state = client.reattach("both", 0);
    assert!(state.starts_with(r#"{"found":true,"running":false,"#), "{state}");
    let transcript = client.follow("both");
    assert_eq!((transcript.stdout.as_slice(), transcript.exit), (&b"said\n"[..], Some(-1)));
    child.wait_gone(wait::LIMIT);
    assert_eq!(
        client.ask("process.killAndWait", r#"{"id":"both"}"#),
        r#"{"found":true,"died":true,"alreadyExited":true}"#
    );
    client.spawn("both", "echo", &["again"]);
    assert_eq!(client.follow("both").stdout, b"again\n");
}
