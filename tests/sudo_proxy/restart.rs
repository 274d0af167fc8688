//! The sudo-proxy door when its daemon is killed, or told to stop: nothing runs twice, nobody is left without an answer.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use hostel_tests::sudo_proxy::{Client, Daemon, Options, moment};
use hostel_tests::wait;
use serde_json::{Value, json};

fn request(id: &str, command: &str) -> Vec<u8> {
    let time = format!("{}Z", moment::from_now(0));
    let request = json!({"id": id, "time": time, "privileged": false, "pipeline": [["sh", "-c", command]]});
    format!("{request}\n").into_bytes()
}

fn ask(daemon: &Daemon, line: &[u8]) -> Client {
    let mut client = daemon.connect();
    client.send(line).expect("a daemon that listens");
    client
}

fn answer(client: &mut Client) -> Value {
    serde_json::from_str(&client.line(wait::limit()).expect("an answer")).expect("an answer is JSON")
}

fn runs(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn text(answer: &Value) -> String {
    let stdout = answer["stdout"].as_str().unwrap_or_default();
    String::from_utf8(base64_simd::STANDARD.decode_to_vec(stdout).expect("base64")).expect("text")
}

#[test]
fn a_request_that_waits_is_taken_up_again_by_the_same_bytes() {
    let mut daemon = Daemon::start(Options::default());
    let ran = daemon.work().join("ran");
    let line = request("waits", &format!("echo x >> '{}'; echo out", ran.display()));
    let first = ask(&daemon, &line);
    daemon.question();
    daemon.kill();
    drop(first);
    daemon.serve();
    // Another line under that id is a duplicate, before and after.
    let mut other = ask(&daemon, &request("waits", "true"));
    assert_eq!(answer(&mut other)["message"], "duplicate request id: waits");
    // Of two that come back at once, either one takes it up, and the other is a duplicate.
    let (sender, answers) = mpsc::channel();
    for _ in 0..2 {
        let (mut client, sender) = (ask(&daemon, &line), sender.clone());
        thread::spawn(move || sender.send(answer(&mut client)));
    }
    let refused = answers.recv_timeout(wait::limit()).expect("an answer");
    assert_eq!(refused["message"], "duplicate request id: waits");
    daemon.question();
    daemon.answer("y");
    let answer = answers.recv_timeout(wait::limit()).expect("an answer");
    assert_eq!((answer["status"].as_str(), text(&answer).as_str()), (Some("ok"), "out\n"));
    assert_eq!(runs(&ran), 1);
}

/// Sends a line from another process of the same user and gives the answer.
fn ask_from_another_process(daemon: &Daemon, line: &[u8]) -> Value {
    const CLIENT: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        s.sendall(sys.argv[2].encode())\n\
        print(s.makefile().readline())\n";
    let line = std::str::from_utf8(line).expect("text");
    let mut command = Command::new("python3");
    command.args(["-c", CLIENT, daemon.socket().to_str().unwrap(), line]).stdin(Stdio::null());
    let output = command.output().expect("the other process starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("an answer: {output:?}"))
}

#[test]
fn only_the_process_that_asked_takes_its_request_up_again() {
    let mut daemon = Daemon::start(Options::default());
    let (ran, go) = (daemon.work().join("ran"), daemon.work().join("go"));
    let command =
        format!("echo x >> '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; echo out", ran.display(), go.display());
    let (runs_line, waits_line) = (request("runs", &command), request("waits", "echo waited"));
    let running = ask(&daemon, &runs_line);
    daemon.question();
    daemon.answer("y");
    wait::eventually("the command to run", || runs(&ran) == 1);
    let waiting = ask(&daemon, &waits_line);
    daemon.question();
    daemon.kill();
    drop((running, waiting));
    daemon.serve();
    // The same bytes from elsewhere are a replay, whether the request waits or runs.
    for (id, line) in [("runs", &runs_line), ("waits", &waits_line)] {
        let other = ask_from_another_process(&daemon, line);
        assert_eq!(other["message"], format!("duplicate request id: {id}"), "{other}");
    }
    let (mut running, mut waiting) = (ask(&daemon, &runs_line), ask(&daemon, &waits_line));
    fs::write(&go, "").expect("a file");
    assert_eq!(text(&answer(&mut running)), "out\n");
    daemon.question();
    daemon.answer("y");
    assert_eq!(text(&answer(&mut waiting)), "waited\n");
    assert_eq!(runs(&ran), 1);
}

#[test]
fn a_command_that_runs_is_taken_up_again_by_the_same_bytes() {
    let mut daemon = Daemon::start(Options::default());
    let (ran, go) = (daemon.work().join("ran"), daemon.work().join("go"));
    let command =
        format!("echo x >> '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; echo out", ran.display(), go.display());
    let line = request("runs", &command);
    let first = ask(&daemon, &line);
    daemon.question();
    daemon.answer("y");
    wait::eventually("the command to run", || runs(&ran) == 1);
    daemon.kill();
    drop(first);
    daemon.serve();
    let mut again = ask(&daemon, &line);
    fs::write(&go, "").expect("a file");
    let answer = answer(&mut again);
    assert_eq!((answer["status"].as_str(), text(&answer).as_str()), (Some("ok"), "out\n"));
    assert_eq!(runs(&ran), 1);
}

#[test]
fn a_command_that_ended_meanwhile_still_has_its_answer() {
    let mut daemon = Daemon::start(Options::default());
    let (ran, go) = (daemon.work().join("ran"), daemon.work().join("go"));
    let command = format!(
        "echo x >> '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; echo out; echo x >> '{}'",
        ran.display(),
        go.display(),
        ran.display()
    );
    let line = request("ends", &command);
    let first = ask(&daemon, &line);
    daemon.question();
    daemon.answer("y");
    wait::eventually("the command to run", || runs(&ran) == 1);
    daemon.kill();
    drop(first);
    fs::write(&go, "").expect("a file");
    wait::eventually("the command to end", || runs(&ran) == 2);
    daemon.serve();
    let answer = answer(&mut ask(&daemon, &line));
    assert_eq!((answer["status"].as_str(), text(&answer).as_str()), (Some("ok"), "out\n"));
    assert_eq!(runs(&ran), 2);
}

#[test]
fn our_own_client_comes_back_by_itself() {
    let mut daemon = Daemon::start(Options::default());
    let ran = daemon.work().join("ran");
    let command = format!("echo x >> '{}'; echo out", ran.display());
    let socket = daemon.socket();
    let words = ["as", "sudo-request", "--socket", socket.to_str().unwrap(), "--no-privilege", "sh", "-c", &command];
    let mut client = daemon.hostel(&words);
    client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let client = client.spawn().expect("the client starts");
    daemon.question();
    daemon.kill();
    daemon.serve();
    daemon.question();
    daemon.answer("y");
    let output = client.wait_with_output().expect("the client ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n", "{output:?}");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(runs(&ran), 1);
}

#[test]
fn an_id_stays_used_across_a_restart() {
    let mut daemon = Daemon::start(Options::default());
    let mut client = ask(&daemon, &request("used", "echo 1"));
    daemon.question();
    daemon.answer("n");
    assert_eq!(answer(&mut client)["status"], "denied");
    daemon.kill();
    daemon.serve();
    let mut again = ask(&daemon, &request("used", "echo 2"));
    assert_eq!(answer(&mut again)["message"], "duplicate request id: used");
}

#[test]
fn what_nobody_comes_back_for_is_withdrawn() {
    let mut daemon = Daemon::start(Options::default());
    let made = daemon.work().join("made");
    let line = request("left", &format!("touch '{}'", made.display()));
    let first = ask(&daemon, &line);
    daemon.question();
    daemon.kill();
    drop(first);
    daemon.serve();
    daemon.terminal().wait(0, wait::limit(), |seen| seen.contains("Withdrawn")).expect("the question goes");
    // Then the same bytes are a replay.
    let mut late = ask(&daemon, &line);
    assert_eq!(answer(&mut late)["message"], "duplicate request id: left");
    assert!(!made.exists());
}

#[test]
fn who_is_served_when_the_door_is_stopped_is_answered() {
    let mut daemon = Daemon::start(Options::default());
    let started = daemon.work().join("started");
    let mut runs = ask(&daemon, &request("runs", &format!("echo $$ > '{}'; sleep 300", started.display())));
    daemon.question();
    daemon.answer("y");
    wait::eventually("the command to run", || fs::read_to_string(&started).is_ok_and(|pid| pid.ends_with('\n')));
    let mut waits = ask(&daemon, &request("waits", "true"));
    daemon.question();
    let silent = daemon.connect();
    let time = format!("{}Z", moment::from_now(0));
    let stop = json!({"id": "stop", "time": time, "action": "stop", "pipeline": [], "session": "me"});
    let mut stopper = ask(&daemon, format!("{stop}\n").as_bytes());
    let said = stopper.line(wait::limit());
    assert_eq!(said.as_deref(), Ok("{\"id\":\"stop\",\"status\":\"ok\",\"stdout\":\"\",\"version\":\"1.2.0\"}"));
    assert_eq!(answer(&mut waits)["message"], "server stopped: the request was withdrawn");
    assert_eq!(answer(&mut runs)["message"], "server stopped: the command was killed");
    drop(silent);
    assert!(daemon.ended(wait::LIMIT).success());
    assert!(!daemon.socket().exists());
    let pid: i32 = fs::read_to_string(started).expect("a pid").trim().parse().expect("a number");
    wait::eventually("the command to be gone", || !Path::new(&format!("/proc/{pid}")).exists());
}
