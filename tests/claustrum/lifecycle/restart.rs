//! The daemon killed outright: the next one on that socket goes on where it stood.

use hostel_tests::client::number;
use hostel_tests::frames::Transcript;
use hostel_tests::house::House;
use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;

#[test]
fn a_killed_daemon_loses_no_child_and_no_byte() {
    let mut house = House::start();
    let mut client = house.connect();
    let pid = client.spawn_shell("kept", "echo one; read x; echo \"two $x\"; read x; exit 7");
    let first = client.ask("process.reattach", r#"{"id":"kept","fromSeq":99,"wantPid":true}"#);
    let mut transcript = Transcript::default();
    client.follow_until("kept", &mut transcript, |so_far| so_far.stdout == b"one\n");
    client.stdin("kept", Some(0), b"in");
    let keeper = house.keeper();
    house.kill();
    assert!(Identity::of(pid).is_some_and(Identity::alive), "the child died with the daemon");
    house.serve();
    assert_eq!(house.keeper(), keeper, "the keeper was replaced");

    let mut client = house.connect();
    let second = client.ask("process.reattach", r#"{"id":"kept","fromSeq":0,"wantPid":true}"#);
    assert_eq!(number(&second, "pid"), number(&first, "pid"));
    let start = |result: &str| result.rsplit_once(r#""startTime":"#).expect("a start time").1.to_owned();
    assert_eq!(start(&second), start(&first), "the start time changed");
    assert_eq!(number(&second, "stdinApplied"), 2);
    client.stdin("kept", Some(2), b"put\n");
    let mut transcript = Transcript::default();
    client.follow_until("kept", &mut transcript, |so_far| so_far.stdout == b"one\ntwo input\n");
    let reply = client.stdin("kept", Some(0), b"input\n");
    assert!(reply.ends_with(r#""applied":6,"duplicate":true}}"#), "{reply}");
    client.stdin("kept", None, b"\n");
    client.follow_until("kept", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.exit, Some(7));
}

#[test]
fn exited_processes_are_remembered_over_a_kill() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn("done", "sh", &["-c", "echo out; echo err >&2; exit 9"]);
    let before = client.follow("done");
    client.spawn_child("silent", &["exit", "4"]);
    client.follow("silent");
    house.kill();
    house.serve();
    let mut client = house.connect();
    let result = client.reattach("done", 0);
    assert!(result.starts_with(r#"{"found":true,"running":false,"firstSeq":1,"#), "{result}");
    let after = client.follow("done");
    assert_eq!(
        (after.stdout, after.stderr, after.exit, after.last_seq),
        (before.stdout, before.stderr, before.exit, before.last_seq)
    );
    assert_eq!(
        client.reattach("silent", 0),
        r#"{"found":true,"running":false,"firstSeq":1,"lastSeq":1,"stdinApplied":0}"#
    );
    assert_eq!(client.follow("silent").exit, Some(4));
    assert_eq!(
        client.ask("process.killAndWait", r#"{"id":"done"}"#),
        r#"{"found":true,"died":true,"alreadyExited":true}"#
    );
    let reply = client.stdin("done", None, b"x");
    assert!(reply.ends_with(r#""error":{"code":-32602,"message":"Process not running"}}"#), "{reply}");
}

#[test]
fn a_readopted_child_can_be_killed_with_its_tree() {
    let mut house = House::start();
    let mut client = house.connect();
    client.spawn_shell("tree", "sleep 300 & echo $!; wait");
    let mut transcript = Transcript::default();
    client.follow_until("tree", &mut transcript, |so_far| so_far.stdout.ends_with(b"\n"));
    let pid: i32 = String::from_utf8_lossy(&transcript.stdout).trim().parse().expect("a pid");
    let sleeper = Identity::of(pid).expect("it runs");
    house.kill();
    house.serve();
    let mut client = house.connect();
    client.reattach("tree", transcript.last_seq);
    assert_eq!(client.ask("process.killAndWait", r#"{"id":"tree"}"#), r#"{"found":true,"died":true}"#);
    sleeper.wait_gone(wait::LIMIT);
    client.follow_until("tree", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.exit, Some(-1));
}

#[test]
fn a_killed_keeper_loses_its_processes_and_says_so() {
    let mut house = House::start();
    let mut client = house.connect();
    let pid = client.spawn_shell("lost", "echo kept; sleep 300");
    let mut transcript = Transcript::default();
    client.follow_until("lost", &mut transcript, |so_far| so_far.stdout == b"kept\n");
    let child = Identity::of(pid).expect("it runs");
    let keeper = house.keeper();
    keeper.signal(Signal::KILL);
    keeper.wait_gone(wait::LIMIT);
    // Attached clients are told; what is left of the tree goes.
    client.follow_until("lost", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.exit, Some(-1));
    child.wait_gone(wait::LIMIT);
    // The journal stays readable, and new processes can be hosted.
    let mut other = house.connect();
    let result = other.reattach("lost", 0);
    assert!(result.starts_with(r#"{"found":true,"running":false,"firstSeq":1,"lastSeq":2,"#), "{result}");
    let again = other.follow("lost");
    assert_eq!((again.stdout.as_slice(), again.exit), (&b"kept\n"[..], Some(-1)));
    other.spawn("fresh", "echo", &["works"]);
    assert_eq!(other.follow("fresh").stdout, b"works\n");
    house.kill();
    house.serve();
    let mut client = house.connect();
    client.reattach("lost", 0);
    let again = client.follow("lost");
    assert_eq!((again.stdout.as_slice(), again.exit), (&b"kept\n"[..], Some(-1)));
}
