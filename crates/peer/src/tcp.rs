//! What the kernel knows about a TCP socket of this machine: whose it is, and what was not sent or not read.
//!
//! The kernel is asked by address pair (`sock_diag`), which costs the same however many sockets there are and sees one
//! moment; where that is not to be had, `/proc/net/tcp` and `tcp6` are read. A socket whose owner has closed it belongs to
//! nobody: its user id cannot be trusted and is not given.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// The two ends of a TCP connection. Both are needed to tell it from others: a machine uses one port of its own for
/// connections to several others, and for some that are over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// That of whoever has connected.
    pub theirs: SocketAddr,
    /// That of this process.
    pub ours: SocketAddr,
}

impl Ends {
    /// Whether both ends are on the loopback interface.
    #[must_use]
    pub fn are_loopback(&self) -> bool {
        [self.theirs, self.ours].iter().all(|end| end.ip().to_canonical().is_loopback())
    }
}

/// Where the other end of a connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OtherEnd {
    /// Not on this machine, or not in this network namespace.
    Remote,
    /// On this machine, and that user's.
    Local { uid: u32, inode: u64 },
    /// On this machine, and closed, or it cannot be found out whose.
    Unknown,
}

/// Looks for the other end of a connection. May read `/proc`.
pub(crate) fn other_end(ends: Ends) -> OtherEnd {
    let (theirs, ours) = (plain(ends.theirs), plain(ends.ours));
    let found = ask_kernel(theirs, ours).or_else(|_| read_tables(theirs, ours));
    found.map_or(OtherEnd::Unknown, |found| judge(ends, found))
}

/// The same without `/proc`, which any thread may do; `None` where the kernel cannot be asked.
pub(crate) fn other_end_by_kernel(ends: Ends) -> Option<OtherEnd> {
    look_up(ends.theirs, ends.ours).ok().map(|found| judge(ends, found))
}

fn judge(ends: Ends, found: Option<Socket>) -> OtherEnd {
    match found {
        Some(socket) => match socket.owner() {
            Some(uid) => OtherEnd::Local { uid, inode: socket.inode },
            None => OtherEnd::Unknown,
        },
        None if is_of_this_machine(ends.theirs.ip()) => OtherEnd::Unknown,
        // Whoever hangs up before it is looked for has no socket any more, so an own address is not elsewhere.
        None => OtherEnd::Remote,
    }
}

/// Whether an address is one of this machine's own: only those can be bound. In doubt it is.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let bound = UdpSocket::bind(SocketAddr::new(ip, 0));
    ip.is_loopback() || !matches!(bound, Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable)
}

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
pub struct Socket {
    state: u8,
    /// Bytes that have arrived and were not read.
    pub unread: u64,
    /// Bytes that were written and not acknowledged.
    pub unsent: u64,
    uid: u32,
    inode: u64,
}

impl Socket {
    /// Neither end has closed it.
    pub fn is_open(&self) -> bool {
        self.state == ESTABLISHED
    }

    /// The other end has closed it, and no reset has come.
    pub fn is_ended_by_peer(&self) -> bool {
        self.state == CLOSE_WAIT
    }

    /// Whose it is, if a process still holds it.
    pub fn owner(&self) -> Option<u32> {
        (self.inode != 0).then_some(self.uid)
    }
}

/// The socket with these two ends, seen from `local`; `None` if there is none. Does not wait, so any thread may call it.
///
/// # Errors
/// This kernel cannot be asked.
pub fn look_up(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    ask_kernel(plain(local), plain(remote))
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

/// The socket with these two ends in the tables of `/proc`. An IPv4 connection of an IPv6 socket is in the second.
fn read_tables(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Socket>> {
    let (first, second) = (std::fs::read_to_string("/proc/net/tcp"), std::fs::read_to_string("/proc/net/tcp6"));
    if let (Err(error), Err(_)) = (&first, &second) {
        return Err(error.kind().into());
    }
    let tables = [first.unwrap_or_default(), second.unwrap_or_default()];
    Ok(tables.iter().find_map(|table| find_row(table, local, remote)))
}

/// The row of `/proc/net/tcp` (or `tcp6`) with these two ends: number, local address, remote address, state, queues, timers,
/// retransmits, user, timeout, inode.
fn find_row(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<Socket> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let mut is_next =
            |end: SocketAddr| fields.next().and_then(parse_address).is_some_and(|found| plain(found) == end);
        if !is_next(local) || !is_next(remote) {
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

/// An address as the table has it: words of four bytes, each printed as a number of this machine, a colon, the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (part, at) in bytes.chunks_exact_mut(4).zip((0..32).step_by(8)) {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
