//! `-bridge` and `-stop`: the two small clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use hostel_tests::house::{House, Options, path_text};
use hostel_tests::wait;

use super::{Ran, claustrum};

/// A bridge whose output is read line by line, each with a deadline.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Bridge {
    fn start(house: &House) -> Self {
        let socket = house.socket();
        let mut child = house
            .command(&["-bridge", "-socket", path_text(&socket)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bridge runs");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines() {
                // The test may be over: then the bridge's stdout is closed with this thread.
                if sender.send(line.expect("the bridge writes text")).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines }
    }

    fn send(&mut self, text: &str) {
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).expect("the bridge reads");
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(wait::limit()).expect("a line from the bridge")
    }

    /// Waits for the bridge's end and gives its code and what it complained about.
    fn end(mut self) -> (Option<i32>, String) {
        let status = wait::end_of(&mut self.child, "the bridge");
        let mut complaint = String::new();
        self.child.stderr.take().expect("its errors").read_to_string(&mut complaint).expect("text");
        (status.code(), complaint)
    }
}

fn ping(house: &House, id: u32) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"server.ping\",\"auth\":\"{}\"}}\n", house.token())
}

#[test]
fn the_bridge_relays_both_ways_and_adds_nothing() {
    let mut house = House::start();
    let mut bridge = Bridge::start(&house);
    bridge.send(&ping(&house, 1));
    assert_eq!(bridge.line(), r#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#);

    // It injects no token.
    bridge.send("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"server.ping\"}\n");
    assert_eq!(
        bridge.line(),
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"Unauthorized: invalid or missing auth token"}}"#
    );

    // Half a line is passed on as it comes, and frames come through.
    let request = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"process.spawn\",\"params\":{{\"id\":\"b\",\"command\":\"printf\",\"args\":[\"hi\"]}},\"auth\":\"{}\"}}\n",
        house.token()
    );
    let (head, tail) = request.split_at(40);
    bridge.send(head);
    bridge.send(tail);
    let mut lines = [bridge.line(), bridge.line(), bridge.line()];
    lines.sort();
    assert_eq!(
        lines,
        [
            r#"{"jsonrpc":"2.0","id":3,"result":{"success":true}}"#,
            r#"{"type":"stream","processId":"b","stream":"exit","seq":2,"exitCode":0}"#,
            r#"{"type":"stream","processId":"b","stream":"stdout","seq":1,"data":"aGk="}"#,
        ]
    );
    house.stop();
    assert_eq!(bridge.end(), (Some(0), String::new()), "the bridge ends with the daemon");
}

#[test]
fn the_end_of_its_input_does_not_end_the_bridge() {
    let mut house = House::start();
    let mut bridge = Bridge::start(&house);
    let go = house.path().join("go");
    let request = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"process.spawn\",\"params\":{{\"id\":\"late\",\"command\":\"sh\",\"args\":[\"-c\",\"while [ ! -e {} ]; do sleep 0.05; done; printf hi\"]}},\"auth\":\"{}\"}}\n",
        go.display(),
        house.token()
    );
    bridge.send(&request);
    for id in 1..=200 {
        let line = ping(&house, id);
        bridge.send(&line);
    }
    bridge.input = None;
    let mut answers: Vec<String> = (0..=200).map(|_| bridge.line()).collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 201, "an answer was lost or came twice");
    // What the daemon still has to say comes through.
    std::fs::write(&go, "").expect("the mark");
    assert_eq!(bridge.line(), r#"{"type":"stream","processId":"late","stream":"stdout","seq":1,"data":"aGk="}"#);
    assert_eq!(bridge.line(), r#"{"type":"stream","processId":"late","stream":"exit","seq":2,"exitCode":0}"#);
    house.stop();
    assert_eq!(bridge.end(), (Some(0), String::new()));
}

#[test]
fn the_bridge_ends_when_nobody_reads_it_any_more() {
    let house = House::start();
    let socket = house.socket();
    let mut child = house
        .command(&["-bridge", "-socket", path_text(&socket)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the bridge runs");
    // As when an SSH session goes away: both of its ends close.
    drop(child.stdin.take());
    drop(child.stdout.take());
    wait::end_of(&mut child, "a bridge whose session is gone");
}

#[test]
fn a_bridge_to_nobody_is_a_hard_error() {
    let house = House::prepare(Options::default());
    let socket = house.socket();
    let ran = claustrum(&house, &["-bridge", "-socket", path_text(&socket)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        ran.stderr,
        format!("claustrum: dial server: dial unix {}: connect: no such file or directory\n", socket.display())
    );
    drop(UnixListener::bind(&socket).expect("a socket nobody listens on"));
    let ran = claustrum(&house, &["-bridge", "-socket", path_text(&socket)]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        format!("claustrum: dial server: dial unix {}: connect: connection refused\n", socket.display())
    );
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
    for arguments in
        [&["-stop", "-socket", path_text(&socket)][..], &["-stop", "-socket", "/nowhere/at/all"], &["-stop"]]
    {
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
    let mut stop = house
        .command(&["-stop", "-socket", path_text(&socket)])
        .env("CLAUDE_RPC_TOKEN", "a<b")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let (stream, _) = listener.accept().expect("it connects");
    stream.set_read_timeout(Some(wait::limit())).expect("a deadline");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("it sends a line");
    assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.shutdown\",\"auth\":\"a\\u003cb\"}\n");
    // Nobody answers and nobody closes.
    assert_eq!(wait::end_of(&mut stop, "-stop, which nobody answers").code(), Some(0));
}
