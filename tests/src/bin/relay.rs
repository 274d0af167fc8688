//! Connects to a door for somebody else: what a test says through it comes from this process, wherever that was started.
//!
//! `relay (LISTEN TARGET)…` listens on each LISTEN, a unix socket or `tcp:FILE` for a port that is told in FILE, and
//! connects each client to TARGET, a path or `tcp:ADDRESS:PORT`. It runs until it is killed, for a quarter of an hour at
//! most.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test program: a surprise must end it")]

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

/// Nothing of a test lives longer.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    assert!(!arguments.is_empty() && arguments.len().is_multiple_of(2), "relay (LISTEN TARGET)…");
    for pair in arguments.chunks(2) {
        let [listen, target] = pair else { unreachable!() };
        let target = target.clone();
        match listen.strip_prefix("tcp:") {
            Some(file) => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let draft = format!("{file}.draft");
                fs::write(&draft, listener.local_addr().expect("an address").port().to_string()).expect("a file");
                fs::rename(&draft, file).expect("a file in its place");
                thread::spawn(move || each(listener.incoming().flatten().map(Wire::Tcp), &target));
            }
            None => {
                // In its place only once it listens: a test waits for the file.
                let draft = format!("{listen}.draft");
                let listener = UnixListener::bind(&draft).expect("a socket");
                fs::rename(&draft, listen).expect("a socket in its place");
                thread::spawn(move || each(listener.incoming().flatten().map(Wire::Unix), &target));
            }
        }
    }
    thread::sleep(LIFETIME);
}

fn each(clients: impl Iterator<Item = Wire>, target: &str) {
    for client in clients {
        let target = target.to_owned();
        thread::spawn(move || serve(client, &target));
    }
}

fn serve(client: Wire, target: &str) {
    let door = match target.strip_prefix("tcp:") {
        Some(address) => TcpStream::connect(address).map(Wire::Tcp),
        None => UnixStream::connect(target).map(Wire::Unix),
    };
    // A target that refuses is a client that is closed.
    let Ok(door) = door else { return };
    let (back, forth) = ((door.again(), client.again()), (client, door));
    let returning = thread::spawn(move || {
        copy(&back.0, &back.1);
        back.1.shut(Shutdown::Both);
    });
    copy(&forth.0, &forth.1);
    forth.1.shut(Shutdown::Write);
    returning.join().ok();
}

/// A connection of either kind.
enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Wire {
    fn again(&self) -> Wire {
        match self {
            Wire::Unix(stream) => Wire::Unix(stream.try_clone().expect("a descriptor")),
            Wire::Tcp(stream) => Wire::Tcp(stream.try_clone().expect("a descriptor")),
        }
    }

    fn shut(&self, how: Shutdown) {
        match self {
            Wire::Unix(stream) => stream.shutdown(how).ok(),
            Wire::Tcp(stream) => stream.shutdown(how).ok(),
        };
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Unix(stream) => (&*stream).read(buffer),
            Wire::Tcp(stream) => (&*stream).read(buffer),
        }
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Unix(stream) => (&*stream).write_all(bytes),
            Wire::Tcp(stream) => (&*stream).write_all(bytes),
        }
    }
}

/// Whoever ends first ends it.
fn copy(from: &Wire, to: &Wire) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
