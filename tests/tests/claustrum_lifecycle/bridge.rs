//! `-bridge` and `-stop`: the two small clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hostel_tests::house::{House, Options, path_text};
use hostel_tests::wait;

use super::{Ran, claustrum};

#[test]
fn the_bridge_relays_both_ways_and_adds_nothing() {
    let house = House::start();
    let socket = house.socket();
    let mut bridge = house
        .command(&["-bridge", "-socket", path_text(&socket)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the bridge runs");
    let mut input = bridge.stdin.take().expect("its input");
    let mut output = BufReader::new(bridge.stdout.take().expect("its output"));
    let mut line = String::new();

    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"server.ping","auth":"{}"}}"#, house.token()).expect("it reads");
    output.read_line(&mut line).expect("it writes");
    assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"pong\":true}}\n");

    // It injects no token.
    line.clear();
    writeln!(input, r#"{{"jsonrpc":"2.0","id":2,"method":"server.ping"}}"#).expect("it reads");
    output.read_line(&mut line).expect("it writes");
    assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32001,\"message\":\"Unauthorized: invalid or missing auth token\"}}\n");

    // Half a line is passed on as it comes, frames come through.
    line.clear();
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":3,"method":"process.spawn","params":{{"id":"b","command":"printf","args":["hi"]}},"auth":"{}"}}"#,
        house.token()
    );
    let (head, tail) = request.split_at(40);
    input.write_all(head.as_bytes()).and_then(|()| input.flush()).expect("it reads");
    writeln!(input, "{tail}").expect("it reads");
    let mut lines = Vec::new();
    while lines.len() < 3 {
        let mut line = String::new();
        output.read_line(&mut line).expect("it writes");
        lines.push(line);
    }
    lines.sort();
    assert_eq!(
        lines,
        [
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"success\":true}}\n",
            "{\"type\":\"stream\",\"processId\":\"b\",\"stream\":\"exit\",\"seq\":2,\"exitCode\":0}\n",
            "{\"type\":\"stream\",\"processId\":\"b\",\"stream\":\"stdout\",\"seq\":1,\"data\":\"aGk=\"}\n",
        ]
    );
    drop(input);
    let status = wait::until(wait::LIMIT, "the bridge to end", || bridge.try_wait().expect("it can be waited for"));
    assert_eq!(status.code(), Some(0));
    let mut complaint = String::new();
    bridge.stderr.take().expect("its errors").read_to_string(&mut complaint).expect("text");
    assert_eq!(complaint, "");
}

#[test]
fn the_bridge_loses_no_answer_at_the_end_of_its_input() {
    let house = House::start();
    let socket = house.socket();
    for _ in 0..5 {
        let mut bridge = house
            .command(&["-bridge", "-socket", path_text(&socket)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the bridge runs");
        let mut input = bridge.stdin.take().expect("its input");
        for id in 0..50 {
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"server.ping","auth":"{}"}}"#, house.token()).expect("it reads");
        }
        drop(input);
        let mut text = String::new();
        bridge.stdout.take().expect("its output").read_to_string(&mut text).expect("text");
        assert_eq!(text.lines().count(), 50, "answers were lost:\n{text}");
        bridge.wait().expect("it ends");
    }
}

#[test]
fn the_bridge_ends_when_the_daemon_does() {
    let mut house = House::start();
    let socket = house.socket();
    let mut bridge = house
        .command(&["-bridge", "-socket", path_text(&socket)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the bridge runs");
    let mut input = bridge.stdin.take().expect("its input");
    let mut output = BufReader::new(bridge.stdout.take().expect("its output"));
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"server.ping","auth":"{}"}}"#, house.token()).expect("it reads");
    let mut line = String::new();
    output.read_line(&mut line).expect("it writes");
    house.stop();
    let status = wait::until(wait::LIMIT, "the bridge to end", || bridge.try_wait().expect("it can be waited for"));
    assert_eq!(status.code(), Some(0));
    drop(input);
}

#[test]
fn a_bridge_to_nobody_is_a_hard_error() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    let ran = claustrum(&house, &["-bridge", "-socket", path_text(&socket)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(ran.stderr, format!("claustrum: dial server: dial unix {}: connect: no such file or directory\n", socket.display()));
    drop(UnixListener::bind(&socket).expect("a socket nobody listens on"));
    let ran = claustrum(&house, &["-bridge", "-socket", path_text(&socket)]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stderr, format!("claustrum: dial server: dial unix {}: connect: connection refused\n", socket.display()));
}

#[test]
fn stop_ends_the_daemon_silently() {
    let house = House::start();
    let ran = Ran::from(house.run_stop(house.token()));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    house.daemon().wait_gone(wait::LIMIT);
    assert!(!house.socket().exists());
    let ran = Ran::from(house.run_stop(house.token()));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn stop_with_nobody_there_is_a_silent_success() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    for arguments in [&["-stop", "-socket", path_text(&socket)][..], &["-stop", "-socket", "/nowhere/at/all"], &["-stop"]] {
        let ran = claustrum(&house, arguments);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""), "{arguments:?}");
    }
    drop(UnixListener::bind(&socket).expect("a socket nobody listens on"));
    let ran = claustrum(&house, &["-stop", "-socket", path_text(&socket)]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn stop_with_a_wrong_token_echoes_the_refusal_and_the_daemon_stays() {
    let house = House::start();
    let refusal = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"Unauthorized: invalid or missing auth token\"}}\n";
    let ran = Ran::from(house.run_stop("wrong"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), refusal, ""));
    let socket = house.socket();
    let ran = claustrum(&house, &["-stop", "-socket", path_text(&socket)]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), refusal, ""));
    assert_eq!(house.connect().ask("server.ping", "{}"), r#"{"pong":true}"#);
}

#[test]
fn stop_sends_one_line_and_does_not_wait_for_ever() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    let listener = UnixListener::bind(&socket).expect("a socket");
    let since = Instant::now();
    let mut stop = house
        .command(&["-stop", "-socket", path_text(&socket)])
        .env("CLAUDE_RPC_TOKEN", "a<b")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let (stream, _) = listener.accept().expect("it connects");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a deadline");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("it sends a line");
    assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.shutdown\",\"auth\":\"a\\u003cb\"}\n");
    // Nobody answers and nobody closes.
    let status = wait::until(Duration::from_secs(15), "-stop to give up", || stop.try_wait().expect("it can be waited for"));
    assert_eq!(status.code(), Some(0));
    assert!(since.elapsed() < Duration::from_secs(15));
}
