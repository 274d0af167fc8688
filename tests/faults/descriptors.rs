//! File descriptors exhausted: a clear error, nothing broken, and recovery when they return.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use hostel_tests::house::{House, Options};
use hostel_tests::procfs;
use hostel_tests::wait;

fn house_with_few_descriptors(limit: u32) -> House {
    House::start_with(Options { before: Some(format!("ulimit -n {limit}")), ..Options::default() })
}

#[test]
fn too_many_processes_are_refused_and_the_others_go_on() {
    let house = house_with_few_descriptors(160);
    let mut client = house.connect();
    let mut names = Vec::new();
    let refusal = loop {
        let name = format!("p{}", names.len());
        let reply = client.call("process.spawn", &format!(r#"{{"id":"{name}","command":"cat"}}"#));
        if !reply.ends_with(r#""result":{"success":true}}"#) {
            break reply;
        }
        names.push(name);
        assert!(names.len() < 200, "200 processes fit into 160 descriptors");
    };
    assert!(names.len() >= 10, "only {} processes could be started: {refusal}", names.len());
    assert!(refusal.contains(r#""error":{"code":-32603,"message":""#), "{refusal}");
    assert!(!refusal.contains(r#""message":"""#), "the refusal says nothing: {refusal}");
    // The refused one is not registered, the others work.
    let refused = format!("p{}", names.len());
    assert!(client.reattach(&refused, 0).contains(r#""found":false"#));
    for name in &names {
        let reply = client.stdin(name, Some(0), b"x");
        assert!(reply.ends_with(r#""result":{"success":true,"applied":1}}"#), "{name}: {reply}");
        let frame = client.try_frame_of(name, wait::LIMIT).unwrap_or_else(|trouble| panic!("{name}: {trouble}"));
        assert_eq!(frame.seq, 1);
    }
    // Two end; there is room again.
    for name in names.drain(..2) {
        let result = client.ask("process.killAndWait", &format!(r#"{{"id":"{name}"}}"#));
        assert_eq!(result, r#"{"found":true,"died":true}"#);
    }
    wait::until_true(wait::LIMIT, "room for another process", || {
        client
            .call("process.spawn", r#"{"id":"again","command":"echo","args":["back"]}"#)
            .ends_with(r#"{"success":true}}"#)
    });
    assert_eq!(client.follow("again").stdout, b"back\n");
}

/// More connections than the daemon has descriptors for; the backlog takes the rest.
fn crowd(house: &House, count: usize) -> Vec<UnixStream> {
    let crowd: Vec<UnixStream> = (0..count).filter_map(|_| UnixStream::connect(house.socket()).ok()).collect();
    assert!(crowd.len() > count / 2, "only {} connections were possible at all", crowd.len());
    // Let the daemon take in as many as it will; it may well keep some descriptors back.
    let daemon = house.daemon();
    let descriptors = || procfs::descriptors(daemon.pid).map_or(0, |open| open.len());
    wait::attempt(Duration::from_secs(2), || (descriptors() >= 158).then_some(()));
    crowd
}

#[test]
fn too_many_connections_do_not_starve_those_who_came_before() {
    let house = house_with_few_descriptors(160);
    let mut client = house.connect();
    client.spawn("before", "cat", &[]);
    let crowd = crowd(&house, 190);
    assert_eq!(client.ask("server.ping", "{}"), r#"{"pong":true}"#);
    client.stdin("before", None, b"still here");
    let frame =
        client.try_frame_of("before", wait::LIMIT).unwrap_or_else(|trouble| panic!("output of a process: {trouble}"));
    assert_eq!(frame.seq, 1);
    client.spawn("during", "echo", &["hello"]);
    assert_eq!(client.follow("during").stdout, b"hello\n");
    drop(crowd);
}

#[test]
fn when_the_crowd_leaves_everything_goes_on() {
    let house = house_with_few_descriptors(160);
    let daemon = house.daemon();
    let mut client = house.connect();
    client.spawn("before", "cat", &[]);
    let crowd = crowd(&house, 190);
    client.stdin("before", None, b"still here");
    // The answer may come now or when there is room again, but it must come, once.
    let early = client.try_frame_of("before", Duration::from_secs(1)).ok();
    drop(crowd);
    wait::until(Duration::from_secs(30), "a new connection to be served", || {
        let mut fresh = house.try_connect().ok()?;
        fresh.try_call("server.ping", "{}").ok()
    });
    let frame = early.unwrap_or_else(|| {
        let late = client.try_frame_of("before", wait::LIMIT);
        late.unwrap_or_else(|trouble| panic!("output made while no descriptor was left: {trouble}"))
    });
    assert_eq!(frame.seq, 1);
    client.spawn("after", "echo", &["hello"]);
    assert_eq!(client.follow("after").stdout, b"hello\n");
    assert!(daemon.alive(), "the daemon did not survive");
}
