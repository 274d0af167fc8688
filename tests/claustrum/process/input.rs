//! Input: its order, its count, its limit.

use std::fs;
use std::io::Write as _;
use std::thread;

use hostel_tests::client::{base64, number, result_of};
use hostel_tests::house::{House, path_text};
use hostel_tests::random::{self, Random};
use hostel_tests::wait;

#[test]
fn pipelined_input_of_one_connection_is_applied_in_order() {
    let house = House::start();
    let mut client = house.connect();
    let record = house.path().join("sink");
    client.spawn_child("ordered", &["sink", path_text(&record)]);
    let mut expected = Vec::new();
    let mut lines = String::new();
    for number in 0..2000_u64 {
        let chunk = format!("{number:05};{}", "x".repeat((number % 37) as usize));
        let params = format!(r#"{{"id":"ordered","data":"{}"}}"#, base64(chunk.as_bytes()));
        lines.push_str(&client.request(number + 1000, "process.stdin", &params));
        lines.push('\n');
        expected.extend_from_slice(chunk.as_bytes());
    }
    let mut writer = client.writer();
    let sending = thread::spawn(move || writer.write_all(lines.as_bytes()));
    let mut applied = 0;
    for id in 1000..3000 {
        let reply = client.finish(id);
        let now = number(&result_of(id, &reply).expect("a result"), "applied");
        assert!(now > applied, "request {id} was counted out of order: {now} after {applied}");
        applied = now;
    }
    sending.join().expect("the sender does not panic").expect("the daemon takes all lines");
    assert_eq!(applied, expected.len() as u64);
    wait::eventually("the child to read everything", || {
        fs::read(&record).is_ok_and(|read| read.len() >= expected.len())
    });
    assert!(fs::read(&record).expect("the record") == expected, "the child read something else than was sent");
}

#[test]
fn two_connections_that_send_the_same_bytes_deliver_them_once() {
    let house = House::start();
    let record = house.path().join("sink");
    house.connect().spawn_child("once", &["sink", path_text(&record)]);
    let seed = random::seed();
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let all: Vec<u8> = (0..200_000).map(|_| random.bits() as u8).collect();
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut random = Random::new(random.bits());
            let (all, house) = (&all, &house);
            scope.spawn(move || {
                let mut client = house.connect();
                let mut at = 0;
                while at < all.len() {
                    // Start a little before the mark now and then: what is known must be skipped.
                    let from = at - (random.below(1 + at.min(500) as u64)) as usize;
                    let to = (from + 1 + random.below(4000) as usize).min(all.len());
                    let params = format!(r#"{{"id":"once","data":"{}","offset":{from}}}"#, base64(&all[from..to]));
                    at = number(&client.ask("process.stdin", &params), "applied") as usize;
                    assert!(at >= to, "applied is {at} after bytes up to {to} were accepted");
                }
            });
        }
    });
    wait::eventually("the child to read everything", || {
        fs::metadata(&record).is_ok_and(|found| found.len() >= all.len() as u64)
    });
    assert!(fs::read(&record).expect("the record") == all, "the child read something else than was sent");
}

#[test]
fn a_full_queue_is_refused_at_once_and_accepts_again_when_it_empties() {
    let house = House::start();
    let mut client = house.connect();
    let record = house.path().join("sink");
    let go = house.path().join("go");
    let child = hostel_tests::binary::testchild();
    let text = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; exec {} sink {}",
        go.display(),
        child.display(),
        record.display()
    );
    client.spawn_shell("full", &text);
    let chunk = |number: u64| -> Vec<u8> { format!("{number:015}\n").repeat(32 * 1024).into_bytes() };
    let mut sent = Vec::new();
    let mut accepted = 0;
    let refusal = loop {
        let bytes = chunk(accepted);
        let reply = client.stdin("full", Some(sent.len() as u64), &bytes);
        if !reply.contains(r#""result""#) {
            break reply;
        }
        accepted += 1;
        sent.extend_from_slice(&bytes);
        assert!(sent.len() <= 64 * 1024 * 1024, "64 MiB were queued for a child that does not read");
    };
    let message = r#""error":{"code":-32002,"message":"stdin backpressure: queue full"}}"#;
    assert!(refusal.ends_with(message), "{refusal}");
    let mebibytes = sent.len() / (1024 * 1024);
    assert!((15..=17).contains(&mebibytes), "{mebibytes} MiB were accepted before the queue was full");
    // Nothing of the refused chunk was counted, and nothing else stands still.
    let state = client.reattach("full", 99);
    assert_eq!(number(&state, "stdinApplied"), sent.len() as u64);
    let again = client.stdin("full", Some(sent.len() as u64), &chunk(accepted));
    assert!(again.ends_with(message), "{again}");
    assert_eq!(client.ask("server.ping", "{}"), r#"{"pong":true}"#);
    house.wait_for_log("[process.Manager] stdin backpressure: queue full for full");

    fs::write(&go, "").expect("the starting mark");
    wait::eventually("the queue to accept again", || {
        let offset = sent.len() as u64;
        client.stdin("full", Some(offset), &chunk(accepted)).contains(r#""result""#)
    });
    sent.extend_from_slice(&chunk(accepted));
    wait::eventually("the child to read everything", || {
        fs::metadata(&record).is_ok_and(|found| found.len() >= sent.len() as u64)
    });
    assert!(fs::read(&record).expect("the record") == sent, "the child read something else than was accepted");
}

#[test]
fn a_chunk_just_below_the_line_limit_is_taken_whole() {
    let house = House::start();
    let mut client = house.connect();
    let record = house.path().join("sink");
    client.spawn_child("chunk", &["sink", path_text(&record)]);
    let bytes: Vec<u8> = (0..786_000_u32).map(|place| (place % 251) as u8).collect();
    let reply = client.stdin("chunk", Some(0), &bytes);
    assert!(reply.ends_with(r#""result":{"success":true,"applied":786000}}"#), "{reply}");
    wait::eventually("the child to read everything", || {
        fs::metadata(&record).is_ok_and(|found| found.len() >= bytes.len() as u64)
    });
    assert!(fs::read(&record).expect("the record") == bytes);
}
