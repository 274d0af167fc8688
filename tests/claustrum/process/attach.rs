//! Disconnecting, attaching again, attaching twice, and being replaced.

use hostel_tests::client::{Event, number};
use hostel_tests::frames::{Payload, Transcript};
use hostel_tests::house::House;
use hostel_tests::procfs::Identity;
use hostel_tests::wait;

#[test]
fn a_process_survives_the_connection_that_spawned_it() {
    let house = House::start();
    let mut first = house.connect();
    let pid = first.spawn_shell("survivor", "echo one; read x; echo two; read x; exit 5");
    let mut transcript = Transcript::default();
    first.follow_until("survivor", &mut transcript, |so_far| so_far.stdout == b"one\n");
    drop(first);

    let mut second = house.connect();
    second.stdin("survivor", Some(0), b"\n");
    let params = r#"{"id":"survivor","fromSeq":0,"wantPid":true}"#;
    let result = second.ask("process.reattach", params);
    assert_eq!(number(&result, "pid"), u64::try_from(pid).expect("a pid"));
    let mut again = Transcript::default();
    second.follow_until("survivor", &mut again, |so_far| so_far.stdout == b"one\ntwo\n");
    drop(second);

    let mut third = house.connect();
    third.reattach("survivor", again.last_seq);
    third.stdin("survivor", Some(1), b"\n");
    third.follow_until("survivor", &mut again, |so_far| so_far.exit.is_some());
    assert_eq!(again.exit, Some(5));
}

#[test]
fn output_made_while_nobody_listens_is_kept() {
    let house = House::start();
    let mut client = house.connect();
    let mark = house.path().join("printed");
    client.spawn_shell("lonely", &format!("sleep 0.2; head -c 500000 /dev/zero | tr '\\0' z; : > {}", mark.display()));
    drop(client);
    wait::eventually("the child to print without a listener", || mark.exists());
    let mut client = house.connect();
    client.reattach("lonely", 0);
    let transcript = client.follow("lonely");
    assert_eq!(transcript.stdout.len(), 500_000);
    assert!(transcript.stdout.iter().all(|byte| *byte == b'z'));
    assert_eq!(transcript.exit, Some(0));
}

#[test]
fn every_attached_connection_gets_every_frame() {
    let house = House::start();
    let mut spawner = house.connect();
    spawner.spawn("shared", "cat", &[]);
    let mut second = house.connect();
    let mut third = house.connect();
    second.reattach("shared", 0);
    third.reattach("shared", 0);
    for round in 0..50 {
        spawner.stdin("shared", None, format!("line {round}\n").as_bytes());
        let frame = spawner.frame();
        assert_eq!(
            frame.payload,
            Payload::Output(hostel_tests::frames::Stream::Out, format!("line {round}\n").into_bytes())
        );
        assert_eq!(second.frame(), frame, "the second connection");
        assert_eq!(third.frame(), frame, "the third connection");
    }
    // One leaves; the others do not notice.
    drop(second);
    assert_eq!(spawner.ask("process.killAndWait", r#"{"id":"shared"}"#), r#"{"found":true,"died":true}"#);
    assert_eq!(spawner.frame().payload, Payload::Exit(-1));
    assert_eq!(third.frame().payload, Payload::Exit(-1));
}

#[test]
fn attaching_in_mid_stream_leaves_no_gap_and_no_repeat() {
    let house = House::start();
    let mut spawner = house.connect();
    let record = house.path().join("chatter");
    spawner.spawn_child("stream", &["chatter", record.to_str().expect("a plain path"), "7", "3"]);
    let mut views = Vec::new();
    for round in 0..20 {
        let mut client = house.connect();
        let id = client.begin("process.reattach", r#"{"id":"stream","fromSeq":0}"#);
        let mut transcript = Transcript::default();
        // In the order of arrival: the replay, the reply, then what is newer.
        let last = loop {
            match client.event() {
                Event::Frame(frame) => transcript.push(&frame),
                Event::Reply(line) => {
                    let result = hostel_tests::client::result_of(id, &line).expect("a result");
                    break number(&result, "lastSeq");
                }
            }
        };
        assert_eq!(transcript.last_seq, last, "round {round}: the reply must follow the frame it names");
        // Let some live frames come before the next one attaches.
        let goal = last + 5;
        client.follow_until("stream", &mut transcript, |so_far| so_far.last_seq >= goal);
        views.push((client, transcript));
    }
    spawner.stdin("stream", None, b"\nend\n");
    let whole = spawner.follow("stream");
    let said = |name: &str| std::fs::read(format!("{}.{name}", record.display())).expect("the child's record");
    assert!(whole.stdout == said("out") && whole.stderr == said("err"), "the spawner's view differs from the record");
    for (mut client, mut transcript) in views {
        client.follow_until("stream", &mut transcript, |so_far| so_far.exit.is_some());
        assert!(transcript.stdout == whole.stdout && transcript.stderr == whole.stderr);
        assert_eq!((transcript.exit, transcript.last_seq), (Some(3), whole.last_seq));
    }
}

#[test]
fn attaching_again_on_one_connection_never_doubles_the_stream() {
    let house = House::start();
    let mut client = house.connect();
    let record = house.path().join("chatter");
    client.spawn_child("twice", &["chatter", record.to_str().expect("a plain path"), "8", "0"]);
    let mut next = 1;
    for round in 0..30 {
        let goal = next + 5;
        while next < goal {
            let frame = client.frame();
            assert_eq!(frame.seq, next, "round {round}: a live frame came twice or not at all");
            next += 1;
        }
        let from = next - 1;
        let id = client.begin("process.reattach", &format!(r#"{{"id":"twice","fromSeq":{from}}}"#));
        // Before the reply: live frames that were on their way, then one replay from `from`.
        let mut replaying = false;
        loop {
            match client.event() {
                Event::Frame(frame) if frame.seq == next => next += 1,
                Event::Frame(frame) if frame.seq == from + 1 && !replaying => {
                    replaying = true;
                    next = from + 2;
                }
                Event::Frame(frame) => panic!("round {round}: frame {} came when {next} was due", frame.seq),
                Event::Reply(line) => {
                    let result = hostel_tests::client::result_of(id, &line).expect("a result");
                    assert_eq!(number(&result, "lastSeq"), next - 1, "round {round}: the replay is not complete");
                    break;
                }
            }
        }
    }
    client.stdin("twice", None, b"\nend\n");
    let mut transcript = Transcript::after(next - 1);
    client.follow_until("twice", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.exit, Some(0));
}

#[test]
fn a_reused_id_replaces_the_process_and_ends_the_old_tree() {
    let house = House::start();
    let mut client = house.connect();
    let mut watcher = house.connect();
    let old = client.spawn_shell("name", "sleep 300 & echo $!; while :; do echo old; sleep 0.01; done");
    let old = Identity::of(old).expect("the old process runs");
    let mut transcript = Transcript::default();
    client.follow_until("name", &mut transcript, |so_far| so_far.stdout.ends_with(b"old\nold\n"));
    let text = String::from_utf8_lossy(&transcript.stdout).into_owned();
    let sleeper: i32 = text.lines().next().expect("a line").parse().expect("a pid");
    let sleeper = Identity::of(sleeper).expect("the old process's child runs");
    watcher.reattach("name", 0);

    let new = client.spawn_shell("name", "read x; echo new; exit 4");
    assert_ne!(new, old.pid);
    old.wait_gone(wait::LIMIT);
    sleeper.wait_gone(wait::LIMIT);
    assert_eq!(
        client.ask("process.stdin", r#"{"id":"name","data":"Cg==","offset":0}"#),
        r#"{"success":true,"applied":1}"#,
        "the count of input starts again"
    );
    // Old frames may have been on their way; after the first new one none may follow.
    let mut fresh = Transcript::default();
    while fresh.exit.is_none() {
        let frame = client.frame();
        if fresh.frames == 0 && frame.seq != 1 {
            transcript.push(&frame);
            assert!(transcript.exit.is_none(), "the exit of the replaced process was announced");
            continue;
        }
        fresh.push(&frame);
    }
    assert_eq!((fresh.stdout.as_slice(), fresh.exit), (&b"new\n"[..], Some(4)));
    // The other subscriber of the old process was dropped: nothing of the new one reaches it.
    watcher.ask("server.ping", "{}");
    let stray = watcher.queued_frames();
    let mut seen = Transcript::default();
    for frame in &stray {
        seen.push(frame);
    }
    assert_eq!(seen.exit, None, "the dropped subscriber saw an exit");
    assert!(!seen.stdout.ends_with(b"new\n"), "the dropped subscriber saw the new process");
}

#[test]
fn more_than_fifty_mebibytes_are_replayed() {
    let house = House::start();
    let mut client = house.connect();
    let total: u64 = 56 * 1024 * 1024;
    let progress = house.path().join("progress");
    client.spawn_child("much", &["numbers", &total.to_string(), progress.to_str().expect("a plain path")]);
    drop(client);
    wait::eventually("the child to print it all", || {
        std::fs::read_to_string(&progress).is_ok_and(|text| text == total.to_string())
    });
    let mut next = 0_u64;
    let mut rest = Vec::new();
    let mut seq = 0;
    let mut client = house.connect();
    // The replay is checked as it comes; the reply follows it.
    let id = client.begin("process.reattach", r#"{"id":"much","fromSeq":0}"#);
    let mut ended = false;
    while !ended {
        let frame = client.try_frame(wait::limit()).expect("a frame");
        seq += 1;
        assert_eq!(frame.seq, seq);
        match frame.payload {
            Payload::Output(_, bytes) => {
                rest.extend_from_slice(&bytes);
                let whole = rest.len() / 8 * 8;
                for word in rest[..whole].chunks_exact(8) {
                    assert_eq!(u64::from_le_bytes(word.try_into().expect("eight bytes")), next);
                    next += 1;
                }
                rest.drain(..whole);
            }
            Payload::Exit(code) => {
                assert_eq!(code, 0);
                ended = true;
            }
        }
    }
    assert_eq!(next * 8, total);
    let result = hostel_tests::client::result_of(id, &client.finish(id)).expect("a result");
    assert_eq!(number(&result, "firstSeq"), 1);
}
