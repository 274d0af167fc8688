//! Connects to a door for somebody else: what a test says through it comes from this process, wherever that was started.
//!
//! `relay (LISTEN TARGET)…` listens on each unix socket LISTEN and connects each client to TARGET: a path, or
//! `tcp:ADDRESS:PORT`. It runs until it is killed, for a quarter of an hour at most.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test program: a surprise must end it")]

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

/// Nothing of a test lives longer.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    assert!(!arguments.is_empty() && arguments.len() % 2 == 0, "relay (LISTEN TARGET)…");
    for pair in arguments.chunks(2) {
        let [listen, target] = pair else { unreachable!() };
        // In its place only once it listens: a test waits for the file.
        let draft = format!("{listen}.draft");
        let listener = UnixListener::bind(&draft).expect("a socket");
        fs::rename(&draft, listen).expect("a socket in its place");
        let target = target.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let target = target.clone();
                thread::spawn(move || serve(client, &target));
            }
        });
    }
    thread::sleep(LIFETIME);
}

fn serve(client: UnixStream, target: &str) {
    // A target that refuses is a client that is closed.
    match target.strip_prefix("tcp:") {
        Some(address) => {
            let Ok(door) = TcpStream::connect(address) else { return };
            let (from, to) = (door.try_clone().unwrap(), door);
            join(client, from, to, |door| door.shutdown(Shutdown::Write));
        }
        None => {
            let Ok(door) = UnixStream::connect(target) else { return };
            let (from, to) = (door.try_clone().unwrap(), door);
            join(client, from, to, |door| door.shutdown(Shutdown::Write));
        }
    }
}

fn join<D: Read + Write + Send + 'static>(
    client: UnixStream,
    mut from: D,
    mut to: D,
    finish: fn(&D) -> io::Result<()>,
) {
    let mut heard = client.try_clone().unwrap();
    let mut said = client;
    let back = thread::spawn(move || {
        copy(&mut from, &mut heard);
        heard.shutdown(Shutdown::Both).ok();
    });
    copy(&mut said, &mut to);
    finish(&to).ok();
    back.join().ok();
}

/// Whoever ends first ends it.
fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
