//! What the kernel knows about a TCP socket of this machine: whose it is, and what was not sent or not read.
//!
//! Asked of the kernel by address pair (`sock_diag`), which costs the same however many sockets there are; where that
//! is not to be had, read from `/proc/net/tcp`. A socket whose owner has closed it belongs to nobody: its user id
//! cannot be trusted and is not given.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

const TCP: u8 = 6;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const ENOENT: i32 = 2;
const NLMSG_HEADER: usize = 16;

/// TCP states by the kernel's numbers.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
const LISTEN: u8 = 10;

/// A socket at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Socket {
    state: u8,
    /// Bytes that have arrived and were not read.
    pub(super) unread: u64,
    /// Bytes that were written and not acknowledged.
    pub(super) unsent: u64,
    uid: u32,
    inode: u64,
}

impl Socket {
    /// Neither end has closed it.
    pub(super) fn is_open(&self) -> bool {
        self.state == ESTABLISHED
    }

    /// The other end has closed it, and no reset has come.
    pub(super) fn is_ended_by_peer(&self) -> bool {
        self.state == CLOSE_WAIT
    }

    /// Whose it is, if a process still holds it.
    pub(super) fn owner(&self) -> Option<u32> {
        (self.inode != 0).then_some(self.uid)
    }
}

/// The socket with these two ends, seen from `local`; `None` if there is none.
pub(super) fn look_up(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let (local, remote) = (plain(local), plain(remote));
    match ask_kernel(local, remote) {
        Ok(found) => Ok(found),
        Err(_) => {
            let path = if local.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
            Ok(find_row(&std::fs::read_to_string(path)?, local, remote))
        }
    }
}

/// IPv4 in the clothes of IPv6 as what it is: the other end's socket is listed so.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn ask_kernel(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(netlink::SOCK_DIAG),
    )?;
    rustix::net::send(&socket, &question(local, remote), SendFlags::empty())?;
    // The kernel has answered before `send` returns.
    let mut answer = [0; 2048];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    read_answer(answer.get(..length).unwrap_or_default(), local.port(), remote.port())
}

fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut body = vec![u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0];
    body.extend(u32::MAX.to_ne_bytes()); // in whatever state
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    for ip in [local.ip(), remote.ip()] {
        match ip {
            IpAddr::V4(ip) => {
                body.extend(ip.octets());
                body.extend([0; 12]);
            }
            IpAddr::V6(ip) => body.extend(ip.octets()),
        }
    }
    body.extend([0; 4]); // on whatever interface
    body.extend([0xff; 8]); // no cookie
    let length = u32::try_from(NLMSG_HEADER + body.len()).unwrap_or_default();
    let mut message = Vec::with_capacity(NLMSG_HEADER + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn read_answer(answer: &[u8], local_port: u16, remote_port: u16) -> io::Result<Option<Socket>> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "a short answer about a socket");
    let bytes = |at: usize| answer.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).ok_or_else(short);
    let port = |at: usize| answer.get(at..at + 2).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()).ok_or_else(short);
    let kind = u16::from_ne_bytes(port(4)?);
    if kind == NLMSG_ERROR {
        let error = -i32::from_ne_bytes(bytes(NLMSG_HEADER)?);
        return if error == ENOENT { Ok(None) } else { Err(io::Error::from_raw_os_error(error)) };
    }
    if kind != SOCK_DIAG_BY_FAMILY {
        return Err(short());
    }
    let body = NLMSG_HEADER;
    let state = *answer.get(body + 1).ok_or_else(short)?;
    let ports = (u16::from_be_bytes(port(body + 4)?), u16::from_be_bytes(port(body + 6)?));
    // Without a connection of these ends the kernel offers whoever listens there.
    if state == LISTEN || ports != (local_port, remote_port) {
        return Ok(None);
    }
    let number = |at: usize| Ok::<u32, io::Error>(u32::from_ne_bytes(bytes(body + at)?));
    Ok(Some(Socket {
        state,
        unread: number(56)?.into(),
        unsent: number(60)?.into(),
        uid: number(64)?,
        inode: number(68)?.into(),
    }))
}

/// The row of `/proc/net/tcp` (or `tcp6`) with these two ends.
fn find_row(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<Socket> {
    let (local, remote) = (in_table(local), in_table(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next() != Some(local.as_str()) || fields.next() != Some(remote.as_str()) {
            return None;
        }
        let state = u8::from_str_radix(fields.next()?, 16).ok()?;
        let (unsent, unread) = fields.next()?.split_once(':')?;
        let mut fields = fields.skip(2);
        let uid = fields.next()?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Socket {
            state,
            unread: u64::from_str_radix(unread, 16).ok()?,
            unsent: u64::from_str_radix(unsent, 16).ok()?,
            uid,
            inode,
        })
    })
}

/// An address as the table has it: words of four bytes, each printed as a number of this machine.
fn in_table(address: SocketAddr) -> String {
    let mut octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    if cfg!(target_endian = "little") {
        octets.chunks_mut(4).for_each(<[u8]>::reverse);
    }
    let mut text = String::with_capacity(38);
    for octet in octets {
        // Writing to a String cannot fail.
        write!(text, "{octet:02X}").ok();
    }
    write!(text, ":{:04X}", address.port()).ok();
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn both_ways(local: SocketAddr, remote: SocketAddr) -> Vec<Option<Socket>> {
        let path = if local.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
        let table = std::fs::read_to_string(path).unwrap();
        let mut found = vec![find_row(&table, local, remote)];
        // A kernel without the question answers with an error, and the table has to do.
        found.extend(ask_kernel(local, remote).ok());
        found
    }

    #[test]
    fn a_client_is_known_by_its_socket() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(probe) = TcpListener::bind(address) else { continue };
            drop(probe);
            let (mut client, mut server) = pair(address);
            server.write_all(b"hello").unwrap();
            let (ours, theirs) = (server.local_addr().unwrap(), client.local_addr().unwrap());
            for socket in both_ways(theirs, ours) {
                let socket = socket.unwrap();
                assert_eq!(socket.owner(), Some(rustix::process::geteuid().as_raw()));
                assert!(socket.is_open());
                assert_eq!(socket.unread, 5);
            }
            client.read_exact(&mut [0; 5]).unwrap();
            for socket in both_ways(theirs, ours) {
                assert_eq!(socket.unwrap().unread, 0);
            }
        }
    }

    #[test]
    fn a_clean_end_and_a_reset_look_different() {
        let (client, server) = pair("127.0.0.1:0");
        let (ours, theirs) = (server.local_addr().unwrap(), client.local_addr().unwrap());
        drop(client);
        for socket in both_ways(ours, theirs) {
            let socket = socket.unwrap();
            assert!(socket.is_ended_by_peer(), "{socket:?}");
            assert_eq!(socket.unsent, 0);
        }
        // Closed by its process: nobody's, whatever uid the kernel shows.
        assert_eq!(look_up(theirs, ours).unwrap().and_then(|socket| socket.owner()), None);

        let (client, mut server) = pair("127.0.0.1:0");
        let (ours, theirs) = (server.local_addr().unwrap(), client.local_addr().unwrap());
        server.write_all(b"unread").unwrap();
        drop(client);
        for socket in both_ways(ours, theirs) {
            assert_eq!(socket, None, "a reset socket is in no table");
        }
    }

    #[test]
    fn a_listener_is_not_taken_for_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
        assert_eq!(look_up(listener.local_addr().unwrap(), nobody).unwrap(), None);
    }

    #[test]
    fn nonsense_is_an_error_and_no_socket() {
        assert!(read_answer(b"", 1, 2).is_err());
        assert!(read_answer(&[0; 40], 1, 2).is_err());
        assert_eq!(find_row("", "127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()), None);
        let row = "head\n 0: 0100007F:0001 0100007F:0002 zz";
        assert_eq!(find_row(row, "127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()), None);
    }
}
