//! A client of the sudo-proxy door that is a process of its own, in a tree of its own.
//!
//! `asker SOCKET FOLDER [once]` sends every line it finds in FOLDER as `NAME.request`, each on a connection of its own,
//! and puts the answer into `NAME.answer`. A connection that ends without an answer is made again with the same bytes,
//! as the contract's clients do it; with `once` it is not, and `NAME.lost` says so. `NAME.sent` tells that a line went
//! out for the first time.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test program: a surprise must end it")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::sudo_proxy::Client;

/// Longest life of a client that nobody answers: tests that fail must not leave processes for ever.
const LIFE: Duration = Duration::from_secs(300);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (socket, folder, once) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [socket, folder] => (PathBuf::from(socket), PathBuf::from(folder), false),
        [socket, folder, "once"] => (PathBuf::from(socket), PathBuf::from(folder), true),
        _ => panic!("asker SOCKET FOLDER [once]"),
    };
    leave_the_nest();
    put(&folder.join("pid"), &process::id().to_string());
    let entries = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path());
    let requests: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "request")).collect();
    let asking: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let socket = socket.clone();
            thread::spawn(move || ask(&socket, &request, once))
        })
        .collect();
    for one in asking {
        one.join().expect("no client breaks");
    }
}

/// Waits until the `setsid --fork` that started this is gone: until then it belongs to the tree of whoever ran that, which
/// on a busy machine may be the case for longer than it takes to ask.
fn leave_the_nest() {
    let is_there = || {
        let parent = rustix::process::getppid().map_or(1, |parent| parent.as_raw_nonzero().get());
        fs::read_to_string(format!("/proc/{parent}/comm")).is_ok_and(|name| name.trim_end() == "setsid")
    };
    while is_there() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn ask(socket: &Path, request: &Path, once: bool) {
    let line = fs::read(request).expect("a request");
    let begun = Instant::now();
    while begun.elapsed() < LIFE {
        let answer = Client::connect(socket).and_then(|mut client| {
            client.send(&line)?;
            put(&request.with_extension("sent"), "");
            client.line(LIFE).map_err(std::io::Error::other)
        });
        match answer {
            Ok(answer) => return put(&request.with_extension("answer"), &answer),
            Err(_) if once => return put(&request.with_extension("lost"), ""),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Appears with its content: whoever waits for it may read it at once.
fn put(path: &Path, text: &str) {
    let draft = path.with_extension(format!("draft-{}", thread_number()));
    fs::write(&draft, text).expect("a file");
    fs::rename(&draft, path).expect("a file in its place");
}

fn thread_number() -> String {
    format!("{:?}", thread::current().id()).chars().filter(char::is_ascii_digit).collect()
}
