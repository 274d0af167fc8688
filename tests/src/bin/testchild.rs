//! A child whose every byte is known: what the tests host where a shell would be too vague.
//!
//! Each sub-command does one thing a hosted program may do. Numbered bytes are a function of
//! their position, so a reader can check any part of a stream; `chatter` also writes down what it
//! really printed and read, which is the record the clients' view is compared with.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::exit,
    clippy::print_stdout,
    reason = "a test program: it prints, exits with chosen codes, and must not go on after a surprise"
)]

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::process::{Command, Stdio, exit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hostel_tests::chatter::Lines;

/// Longest life of a child that nobody ends: tests that fail must not leave processes for ever.
const LIFE: Duration = Duration::from_secs(900);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["exit", code] => exit(code.parse().expect("an exit code")),
        ["say", text, code] => {
            print_all(text.as_bytes());
            exit(code.parse().expect("an exit code"));
        }
        ["numbers", bytes] => numbers(bytes.parse().expect("a number of bytes"), None),
        ["numbers", bytes, progress] => numbers(bytes.parse().expect("a number of bytes"), Some(progress)),
        ["chatter", record, seed, code] => {
            chatter(record, seed.parse().expect("a seed"), code.parse().expect("an exit code"));
        }
        ["sink", record] => sink(record),
        ["hold"] => hold(),
        ["dial", socket] => dial(socket),
        ["close-stdout"] => close_stdout(),
        ["grandchild", mode] => grandchild(mode),
        ["daemonize", pid_file] => daemonize(pid_file, 0),
        ["daemonize-step", pid_file, "1"] => daemonize(pid_file, 1),
        ["daemonize-step", pid_file, "2"] => daemonize(pid_file, 2),
        _ => panic!("unknown sub-command: {arguments:?}"),
    }
}

fn print_all(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).expect("stdout takes it");
}

/// Passes bytes between standard input and output and a unix socket, until the socket closes.
fn dial(socket: &str) {
    let mut sending = std::os::unix::net::UnixStream::connect(socket).expect("somebody listens");
    let mut hearing = sending.try_clone().expect("a socket can be duplicated");
    thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut sending));
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = hearing.read(&mut piece) {
        print_all(&piece[..length]);
    }
}

/// Prints eight-byte numbers, 0, 1, 2, …, and says in a file how many bytes were accepted so far.
fn numbers(total: u64, progress: Option<&str>) {
    let mut out = File::from(rustix::io::dup(rustix::stdio::stdout()).expect("stdout can be duplicated"));
    let mut next = 0_u64;
    let mut written = 0_u64;
    let mut block = Vec::with_capacity(65536);
    while written < total {
        block.clear();
        for _ in 0..8192 {
            block.extend_from_slice(&next.to_le_bytes());
            next += 1;
        }
        let wanted = usize::try_from(total - written).map_or(block.len(), |left| left.min(block.len()));
        out.write_all(&block[..wanted]).expect("stdout takes it");
        written += wanted as u64;
        if let Some(path) = progress {
            fs::write(path, written.to_string()).expect("the progress file takes a number");
        }
    }
}

/// Prints numbered lines on both streams, writes down what it reads, until it reads `end`.
fn chatter(record: &str, seed: u64, code: i32) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| talk("out", record, seed, &stop));
        scope.spawn(|| talk("err", record, seed, &stop));
        listen(record);
        stop.store(true, Ordering::SeqCst);
    });
    exit(code);
}

fn talk(name: &str, record: &str, seed: u64, stop: &AtomicBool) {
    let mut lines = Lines::new(name, seed);
    let mut written_down = File::create(format!("{record}.{name}")).expect("a record file");
    let mut line = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        line.clear();
        let pause = lines.append_next(&mut line);
        if name == "out" {
            print_all(&line);
        } else {
            io::stderr().lock().write_all(&line).expect("stderr takes it");
        }
        written_down.write_all(&line).expect("a record takes a line");
        // A pace, not a synchronisation: an endless flood would measure the disk.
        thread::sleep(pause);
    }
}

fn listen(record: &str) {
    let mut written_down = File::create(format!("{record}.in")).expect("a record file");
    let mut last = Vec::new();
    let mut chunk = [0_u8; 4096];
    let mut input = io::stdin().lock();
    loop {
        let count = input.read(&mut chunk).expect("stdin can be read");
        assert!(count > 0, "stdin ended before the word to end");
        written_down.write_all(&chunk[..count]).expect("a record takes bytes");
        last.extend_from_slice(&chunk[..count]);
        if last.ends_with(b"\nend\n") {
            return;
        }
        let kept = last.len().saturating_sub(8);
        last.drain(..kept);
    }
}

/// Writes all input into a file and says how much has arrived.
fn sink(record: &str) {
    let mut written_down = File::create(record).expect("a record file");
    let mut chunk = vec![0_u8; 65536];
    let mut input = io::stdin().lock();
    loop {
        let count = input.read(&mut chunk).expect("stdin can be read");
        if count == 0 {
            return;
        }
        written_down.write_all(&chunk[..count]).expect("a record takes bytes");
    }
}

fn hold() {
    print_all(b"holding\n");
    thread::sleep(LIFE);
}

/// Gives up its stdout while it lives on, and then says so on stderr.
fn close_stdout() {
    print_all(b"before");
    let null = File::options().write(true).open("/dev/null").expect("/dev/null");
    rustix::stdio::dup2_stdout(&null).expect("stdout can be replaced");
    io::stderr().write_all(b"closed").expect("stderr takes it");
    let mut input = [0_u8; 1];
    let count = io::stdin().read(&mut input).expect("stdin can be read");
    io::stderr().write_all(b" after").expect("stderr takes it");
    exit(if count == 1 { 9 } else { 8 });
}

/// Leaves a grandchild that holds the pipes, and exits.
fn grandchild(mode: &str) {
    let me = env::current_exe().expect("a running program has a path");
    let mut command = Command::new(me);
    command.arg("hold");
    match mode {
        "stdout" => {
            command.stdin(Stdio::null()).stderr(Stdio::null());
        }
        "all" => {}
        _ => panic!("unknown mode {mode}"),
    }
    let child = command.spawn().expect("a grandchild");
    io::stderr().write_all(child.id().to_string().as_bytes()).expect("stderr takes it");
    exit(6);
}

/// The classic double fork: a new session, an orphan, and its pid in a file.
fn daemonize(pid_file: &str, step: u8) {
    if step == 2 {
        fs::write(format!("{pid_file}.new"), std::process::id().to_string()).expect("the pid file takes a number");
        fs::rename(format!("{pid_file}.new"), pid_file).expect("the pid file can be put in place");
        thread::sleep(LIFE);
        return;
    }
    if step == 1 {
        rustix::process::setsid().expect("a process that leads no group may start a session");
    }
    let me = env::current_exe().expect("a running program has a path");
    let mut command = Command::new(me);
    if step == 1 {
        command.args(["daemonize-step", pid_file, "2"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        drop(command.spawn().expect("the last generation"));
        return;
    }
    command.args(["daemonize-step", pid_file, "1"]);
    // The middle one ends at once; the leader goes on as an ordinary process.
    command.status().expect("the middle generation ends");
    print_all(b"daemonized\n");
    thread::sleep(LIFE);
}
