//! Bounds of the sudo-proxy door: slots, deadlines, sizes, ids that race.
//!
//! The tests of times that are seconds long by contract run beside each other and wait for what ends them.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::sudo_proxy::{Client, Daemon, Options, moment};
use hostel_tests::wait;
use serde_json::{Value, json};

fn request(id: &str, changes: &Value) -> Vec<u8> {
    let mut request = json!({"id": id, "time": format!("{}Z", moment::from_now(0)), "privileged": false});
    for (key, value) in changes.as_object().expect("an object") {
        request[key] = value.clone();
    }
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

fn ping(daemon: &Daemon, id: &str) -> Value {
    answer(&mut ask(daemon, &request(id, &json!({"action": "ping"}))))
}

/// A daemon on which unprivileged commands run unasked.
fn unattended() -> Daemon {
    let options = Options { flags: vec!["--unattended-eligible".to_owned()], ..Options::default() };
    let mut daemon = Daemon::start(options);
    let mut client = ask(&daemon, &request("the-first", &json!({"pipeline": [["true"]]})));
    daemon.question();
    daemon.answer("a");
    assert_eq!(answer(&mut client)["status"], "ok");
    daemon
}

#[test]
fn the_connection_after_the_last_slot_is_told_so() {
    let daemon = Daemon::start(Options::default());
    let busy = "{\"id\":\"\",\"status\":\"error\",\"message\":\"server busy: too many in-flight requests\",\"version\":\"1.2.0\"}";
    // Connections are taken in order, so the refusal of the last one shows that the others were taken. One of them may have
    // been refused because the daemon still held an earlier connection that was closed already.
    let mut held: Vec<Client> = wait::eventually("64 held connections", || {
        let mut held: Vec<Client> = (0..64).map(|_| daemon.connect()).collect();
        let mut late = daemon.connect();
        let told = late.line(wait::limit())?;
        if told != busy {
            return Err(told);
        }
        late.closed(wait::limit())?;
        held.iter_mut().try_for_each(|client| client.silent(Duration::from_millis(1)))?;
        Ok(held)
    });
    // One that has a request hears the same, and then the end; that may be there before the request is sent.
    let mut late = daemon.connect();
    late.send(&request("late", &json!({"action": "ping"}))).ok();
    assert_eq!(late.line(wait::limit()).as_deref(), Ok(busy));
    drop(held.pop());
    wait::eventually("a slot", || ping(&daemon, "late")["status"] == "ok");
    for mut client in held {
        client.send(&request("held", &json!({"action": "exec"}))).expect("a daemon that listens");
        assert_eq!(answer(&mut client)["message"], "pipeline must not be empty");
    }
}

#[test]
fn a_request_line_has_ten_seconds() {
    let daemon = Daemon::start(Options::default());
    let late = "{\"id\":\"\",\"status\":\"error\",\"message\":\"handshake deadline exceeded\",\"version\":\"1.2.0\"}";
    thread::scope(|scope| {
        let silent = scope.spawn(|| {
            let (start, mut client) = (Instant::now(), daemon.connect());
            assert_eq!(client.line(wait::limit()).as_deref(), Ok(late));
            start.elapsed()
        });
        let dripping = scope.spawn(|| {
            let (start, mut client) = (Instant::now(), daemon.connect());
            // Each byte comes in time, the line does not.
            while start.elapsed() < Duration::from_secs(60) && client.send(b" ").is_ok() {
                if client.silent(Duration::from_millis(500)).is_err() {
                    break;
                }
            }
            assert_eq!(client.line(wait::limit()).as_deref(), Ok(late));
            start.elapsed()
        });
        for time in [silent, dripping].map(|thread| thread.join().expect("a test")) {
            // Ten seconds, and what a busy machine adds.
            assert!((9.5..60.0).contains(&time.as_secs_f64()), "{time:?}");
        }
    });
    assert_eq!(ping(&daemon, "after")["status"], "ok");
}

#[test]
fn of_fifty_clients_with_one_id_one_is_served() {
    let daemon = unattended();
    let ran = daemon.work().join("ran");
    let command = format!("echo x >> '{}'", ran.display());
    let line = request("one-id", &json!({"pipeline": [["sh", "-c", command]]}));
    let start = Barrier::new(50);
    let answers: Vec<Value> = thread::scope(|scope| {
        let clients: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = daemon.connect();
                    start.wait();
                    client.send(&line).expect("a daemon that listens");
                    answer(&mut client)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    let served = answers.iter().filter(|answer| answer["status"] == "ok").count();
    let refused = answers.iter().filter(|answer| answer["message"] == "duplicate request id: one-id").count();
    assert_eq!((served, refused), (1, 49), "{answers:?}");
    assert_eq!(fs::read_to_string(ran).expect("it ran"), "x\n");
}

#[test]
fn sixteen_mebibytes_are_kept_and_one_byte_more_is_said() {
    let daemon = unattended();
    let run = |id: &str, command: &str| {
        answer(&mut ask(&daemon, &request(id, &json!({"pipeline": [["sh", "-c", command]]}))))
    };
    let length =
        |text: &Value| base64_simd::STANDARD.decode_to_vec(text.as_str().expect("text")).expect("base64").len();
    let exact = run("exact", "head -c 16777216 /dev/zero; head -c 16777216 /dev/zero >&2; exit 5");
    assert_eq!((length(&exact["stdout"]), &exact["stdout_truncated"]), (16_777_216, &Value::Null));
    let stage = &exact["stages"][0];
    assert_eq!((length(&stage["stderr"]), &stage["stderr_truncated"]), (16_777_216, &Value::Null));
    assert_eq!(stage["exit_code"], 5);
    // The rest is read and thrown away: the child ends as it would.
    let more = run("more", "head -c 16777217 /dev/zero; head -c 20000000 /dev/zero >&2; exit 6");
    assert_eq!((length(&more["stdout"]), &more["stdout_truncated"]), (16_777_216, &json!(true)));
    let stage = &more["stages"][0];
    assert_eq!((length(&stage["stderr"]), &stage["stderr_truncated"]), (16_777_216, &json!(true)));
    assert_eq!(stage["exit_code"], 6);
}

#[test]
fn output_that_left_the_memory_is_read_from_the_disk() {
    let daemon = unattended();
    let line = request("cold", &json!({"pipeline": [["head", "-c", "12000000", "/dev/zero"]]}));
    let mut client = ask(&daemon, &line);
    // The answer has begun: the command is over, and most of what it printed is in its journal only.
    assert_eq!(client.part(1, wait::limit()), Ok(1));
    for journal in daemon.journals() {
        let file = fs::File::open(&journal).expect("a journal");
        file.sync_all().expect("a disk");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a file that can be forgotten");
    }
    let line = client.line(wait::limit()).expect("the rest");
    let answer: Value = serde_json::from_str(&format!("{{{line}")).expect("an answer is JSON");
    let stdout = base64_simd::STANDARD.decode_to_vec(answer["stdout"].as_str().expect("text")).expect("base64");
    assert_eq!(stdout.len(), 12_000_000);
}

#[test]
fn a_client_may_pause_but_not_for_ten_seconds() {
    let daemon = unattended();
    let begin = |id: &str| {
        let mut client = ask(&daemon, &request(id, &json!({"pipeline": [["head", "-c", "8000000", "/dev/zero"]]})));
        assert!(client.part(1000, wait::limit()).expect("the beginning") > 0);
        client
    };
    thread::scope(|scope| {
        let patient = scope.spawn(|| {
            let mut client = begin("patient");
            // The pause is the client's own: it is what is tested.
            thread::sleep(Duration::from_secs(5));
            let line = client.line(wait::limit()).expect("the rest");
            assert!(line.ends_with("\"version\":\"1.2.0\"}"));
        });
        let gone = scope.spawn(|| {
            let mut client = begin("gone");
            let start = Instant::now();
            client.wait_hangup();
            assert!(start.elapsed() > Duration::from_secs(8), "cut after {:?}", start.elapsed());
            client.line(wait::limit()).expect_err("the answer is cut");
        });
        patient.join().expect("a client");
        gone.join().expect("a client");
    });
}

#[test]
fn a_question_that_nobody_answers_times_out() {
    let settings = "[doors.sudo-proxy]\napproval_wait = \"3s\"\n".to_owned();
    let mut daemon = Daemon::start(Options { settings, ..Options::default() });
    let made = daemon.work().join("made");
    let start = Instant::now();
    let mut client = ask(&daemon, &request("slow", &json!({"pipeline": [["touch", made]]})));
    daemon.question();
    let line = client.line(wait::limit());
    assert_eq!(line.as_deref(), Ok("{\"id\":\"slow\",\"status\":\"timeout\",\"version\":\"1.2.0\"}"));
    // What is set, and what a busy machine adds.
    let time = start.elapsed().as_secs_f64();
    assert!((3.0..50.0).contains(&time), "{time}");
    assert!(!made.exists());
    let mut again = ask(&daemon, &request("slow", &json!({"pipeline": [["true"]]})));
    assert_eq!(answer(&mut again)["message"], "duplicate request id: slow");
}
