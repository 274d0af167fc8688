//! Lines, connections and readers at their limits: what closes, what waits, what nobody notices.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::thread;

use hostel_tests::frames::Transcript;
use hostel_tests::house::House;
use hostel_tests::procfs;
use hostel_tests::random::{self, Random};
use hostel_tests::wait;

const PONG: &str = r#"{"pong":true}"#;

/// A ping of exactly this many bytes, without its newline.
fn ping_of(token: &str, length: usize) -> String {
    let line =
        |pad: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server.ping","auth":"{token}","pad":"{pad}"}}"#);
    line(&"x".repeat(length - line("").len()))
}

#[test]
fn a_line_of_1048575_bytes_is_served_and_one_more_closes_the_connection() {
    let house = House::start();
    let served = ping_of(house.token(), 1_048_575);
    let mut client = house.connect();
    client.send_line(&served);
    assert_eq!(client.reply(), r#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#);
    client.send_line(&served);
    assert_eq!(client.reply(), r#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#);

    let refused = ping_of(house.token(), 1_048_576);
    for ending in ["\n", ""] {
        let mut client = house.connect();
        // The daemon may close before all of it is sent.
        drop(client.send(format!("{refused}{ending}").as_bytes()));
        client.try_closed(wait::limit()).expect("the connection is closed without an answer");
    }
    // A carriage return at the end belongs to the line's length.
    let mut client = house.connect();
    drop(client.send(format!("{}\r\n", ping_of(house.token(), 1_048_575)).as_bytes()));
    client.try_closed(wait::limit()).expect("the connection is closed without an answer");
    let mut client = house.connect();
    client.send_line(&format!("{}\r", ping_of(house.token(), 1_048_574)));
    assert_eq!(client.reply(), r#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#);
}

#[test]
fn ten_thousand_malformed_lines_change_nothing() {
    let house = House::start();
    let daemon = house.daemon();
    let keeper = house.keeper();
    let seed = random::seed();
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let mut bytes = Vec::new();
    for number in 0..10_000_u64 {
        match number % 5 {
            0 => bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":1,"method":"server.ping","auth":"#),
            1 => bytes.extend_from_slice(b"[[[[{{{{"),
            2 => bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":{"a":[1,2,{"b":"\ud83d"#),
            3 => bytes.extend_from_slice(b"{x"),
            _ => bytes.extend_from_slice(b"\x00\xff\xfe\"\\u"),
        }
        for _ in 0..random.below(80) {
            let byte = random.bits() as u8;
            if byte != b'\n' && byte != b'"' && byte != b'}' {
                bytes.push(byte);
            }
        }
        bytes.extend_from_slice(b"{\n");
    }
    let mut client = house.connect();
    let mut writer = client.writer();
    let sending = thread::spawn(move || writer.write_all(&bytes));
    for number in 0..10_000 {
        assert_eq!(
            client.reply(),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            "line {number}"
        );
    }
    sending.join().expect("the sender does not panic").expect("the daemon takes all lines");
    assert_eq!(client.ask("server.ping", "{}"), PONG);
    assert!(daemon.alive() && keeper.alive(), "the daemon or the keeper was replaced");
    let mut other = house.connect();
    assert_eq!(other.server_pid(), daemon.pid);
    other.spawn("after", "true", &[]);
    assert_eq!(other.follow("after").exit, Some(0));
}

#[test]
fn a_slow_request_does_not_hold_up_the_next() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn_shell("slow", "trap '' TERM; echo ready; while :; do sleep 0.05; done");
    let mut transcript = Transcript::default();
    client.follow_until("slow", &mut transcript, |so_far| so_far.stdout == b"ready\n");
    // It waits for longer than any test may take, unless something else happens.
    let slow = client.begin("process.killAndWait", r#"{"id":"slow","timeoutMs":3600000,"escalate":false}"#);
    for _ in 0..10 {
        assert_eq!(client.ask("server.ping", "{}"), PONG);
    }
    client.ask("process.kill", r#"{"id":"slow","signal":"KILL"}"#);
    assert!(client.finish(slow).ends_with(r#""result":{"found":true,"died":true}}"#));
}

#[test]
fn five_hundred_pipelined_requests_are_each_answered_once() {
    let house = House::start();
    let mut client = house.connect();
    let mut expected = Vec::new();
    for number in 0..500 {
        let (method, params, answer) = match number % 5 {
            0 => ("server.ping", "{}", r#""result":{"pong":true}}"#),
            1 => (
                "files.stat",
                r#"{"path":"/nowhere/at/all"}"#,
                r#""result":{"exists":false,"isDir":false,"size":0,"mode":""}}"#,
            ),
            2 => ("process.kill", r#"{"id":"nobody"}"#, r#""result":{"success":true}}"#),
            3 => ("no.method", "{}", r#""error":{"code":-32601,"message":"Unknown namespace: no"}}"#),
            _ => (
                "files.list",
                r#"{"path":"/nowhere/at/all"}"#,
                r#""error":{"code":-32603,"message":"open /nowhere/at/all: no such file or directory"}}"#,
            ),
        };
        expected.push((client.begin(method, params), answer));
    }
    for (id, answer) in expected {
        let reply = client.finish(id);
        assert!(reply.ends_with(answer), "request {id}: {reply}");
    }
    assert_eq!(client.ask("server.ping", "{}"), PONG, "and nothing was left over");
}

#[test]
fn requests_in_flight_are_finished_after_a_half_close() {
    let house = House::start();
    let mut client = house.connect();
    client.spawn_shell("late", "trap '' TERM; echo ready; while :; do sleep 0.05; done");
    let mut transcript = Transcript::default();
    client.follow_until("late", &mut transcript, |so_far| so_far.stdout == b"ready\n");
    let mut other = house.connect();
    let slow = other.begin("process.killAndWait", r#"{"id":"late","timeoutMs":800}"#);
    let quick: Vec<u64> = (0..20).map(|_| other.begin("server.ping", "{}")).collect();
    other.half_close();
    for id in quick {
        assert!(other.finish(id).ends_with(r#""result":{"pong":true}}"#));
    }
    assert!(other.finish(slow).ends_with(r#""result":{"found":true,"died":true,"escalated":true}}"#));
    other.try_closed(wait::limit()).expect("the connection is closed when everything was answered");
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let house = House::start();
    let daemon = house.daemon();
    let descriptors = || procfs::descriptors(daemon.pid).map(|open| open.len());
    assert_eq!(house.connect().ask("server.ping", "{}"), PONG);
    let before = descriptors();
    for round in 0..300 {
        let mut client = house.connect();
        match round % 4 {
            0 => drop(client.send(br#"{"jsonrpc":"2.0","id":1,"#)),
            1 => {
                client.begin("server.ping", "{}");
            }
            2 => {
                client.begin("files.list", r#"{"path":"/"}"#);
                client.half_close();
            }
            _ => {}
        }
    }
    assert_eq!(house.connect().ask("server.ping", "{}"), PONG);
    let Some(before) = before else {
        hostel_tests::skip("only root may count the daemon's descriptors");
        return;
    };
    wait::eventually("the daemon to close its ends", || descriptors().is_some_and(|now| now <= before + 2));
}

#[test]
fn two_hundred_idle_connections_cost_nobody_anything() {
    let house = House::start();
    let idle: Vec<UnixStream> =
        (0..200).map(|_| UnixStream::connect(house.socket()).expect("the daemon accepts")).collect();
    let mut client = house.connect();
    client.spawn("busy", "echo", &["hello"]);
    assert_eq!(client.follow("busy").stdout, b"hello\n");
    drop(idle);
}

#[test]
fn a_reader_that_stalls_slows_nobody_and_costs_no_memory() {
    let house = House::start();
    let mut stalled = house.connect();
    let total: usize = 48 * 1024 * 1024;
    stalled.spawn_child("flood", &["numbers", &total.to_string()]);
    // `stalled` never reads again. The other one gets everything, and so the child ends.
    let mut reader = house.connect();
    let begin = reader.begin("process.reattach", r#"{"id":"flood","fromSeq":0}"#);
    let transcript = reader.follow("flood");
    reader.finish(begin);
    assert_eq!((transcript.stdout.len(), transcript.exit), (total, Some(0)));
    let resident = procfs::resident(house.daemon().pid) + procfs::resident(house.keeper().pid);
    assert!(resident < 80 * 1024 * 1024, "daemon and keeper hold {} MiB", resident / 1024 / 1024);
    // And when the stalled one reads at last, it too gets everything.
    let late = stalled.follow("flood");
    assert_eq!((late.stdout.len(), late.exit), (total, Some(0)));
    assert!(late.stdout == transcript.stdout);
}
