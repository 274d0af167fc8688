//! As much HTTP as the tests need: one GET, and a server of fixed answers, both on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self as unix, UnixListener};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::wait;

/// The head and the body of the answer to a GET.
///
/// # Errors
/// If the server cannot be reached or stops in the middle.
pub fn get(address: SocketAddr, path: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect_timeout(&address, wait::limit())?;
    stream.set_read_timeout(Some(wait::limit()))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Ok((head.to_owned(), body.to_owned()))
}

/// An address on loopback that nobody listens on, and that no other test gets while this process lives.
///
/// The port is below those that the kernel gives away by itself. It is reserved by an abstract socket with the port in its
/// name, which like the port belongs to the network namespace and ends with the process.
///
/// # Panics
/// If loopback is out of ports.
pub fn free_address() -> SocketAddr {
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let first = u16::try_from(std::process::id() % 19_000).expect("a small number");
    for offset in 0..19_000 {
        let port = 11_000 + (first + offset) % 19_000;
        let Ok(name) = unix::SocketAddr::from_abstract_name(format!("hostel-test-port-{port}")) else { continue };
        let Ok(reservation) = UnixListener::bind_addr(&name) else { continue };
        let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) else { continue };
        RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
        return listener.local_addr().expect("a listener has an address");
    }
    panic!("no port between 11000 and 30000 is free on loopback")
}

/// Serves `(status, body)` by path until the process ends, and says where.
///
/// # Panics
/// If loopback is out of ports.
pub fn serve(pages: BTreeMap<String, (u16, Vec<u8>)>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away in the middle is not the test's concern.
            drop(answer(stream, &pages));
        }
    });
    address
}

fn answer(stream: TcpStream, pages: &BTreeMap<String, (u16, Vec<u8>)>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or("/");
    let missing = (404, b"no such page".to_vec());
    let (status, body) = pages.get(path).unwrap_or(&missing);
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(body)
}
