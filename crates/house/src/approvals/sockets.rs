//! Who is at the other end of a TCP connection, if that is on this machine.
//!
//! Invariant: whoever connects from this machine is as well known as over a unix socket: a token does not make a process
//! of the house a person. What hides its descriptors is counted among those it could be.
//!
//! It only reads `/proc`.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use super::peer;
use super::who::Ends;

/// The other end of a connection.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum OtherEnd {
    /// It is not on this machine, or another user's.
    Elsewhere,
    /// It is held by these, process id and start time.
    Here(Vec<(u32, u64)>),
    /// It is on this machine, and closed or nobody's.
    Nobodys,
}

/// A row of the system's table: the addresses of one end and of the other, whose it is, and its number among the descriptors.
struct Row {
    address: SocketAddr,
    other: SocketAddr,
    uid: u32,
    inode: u64,
}

/// Looks for the end of a connection that is theirs.
pub(super) fn other_end(ends: Ends) -> OtherEnd {
    let own = rustix::process::getuid().as_raw();
    let (wanted, ours) = (canonical(ends.theirs), canonical(ends.ours));
    let mut rows: Vec<Row> = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        rows.extend(text.lines().skip(1).filter_map(row).filter(|row| row.address == wanted && row.other == ours));
    }
    // Whoever hangs up before it is looked for has no row any more.
    if rows.is_empty() && is_of_this_machine(wanted.ip()) {
        return OtherEnd::Nobodys;
    }
    held(&rows, own, holders)
}

/// Who holds the ends of these rows, as far as that is told by `holders`.
fn held(rows: &[Row], own: u32, holders: impl FnOnce(&[u64], u32) -> io::Result<Vec<(u32, u64)>>) -> OtherEnd {
    match rows {
        [] => OtherEnd::Elsewhere,
        // Nor has it a process any more while the connection is being wound up: the table says root's then.
        found if found.iter().any(|row| row.inode == 0) => OtherEnd::Nobodys,
        found if found.iter().all(|row| row.uid != own) => OtherEnd::Elsewhere,
        found => match holders(&found.iter().map(|row| row.inode).collect::<Vec<_>>(), own) {
            Ok(holders) if !holders.is_empty() => OtherEnd::Here(holders),
            _ => OtherEnd::Nobodys,
        },
    }
}

/// Whether an address is one of this machine's own: only those can be bound. In doubt it is.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let bound = UdpSocket::bind(SocketAddr::new(ip, 0));
    ip.is_loopback() || !matches!(bound, Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The processes that have one of these sockets open. If none is seen to have, those of this user that do not let it be
/// seen.
fn holders(inodes: &[u64], own: u32) -> io::Result<Vec<(u32, u64)>> {
    let names: Vec<PathBuf> =
        inodes.iter().filter(|inode| **inode != 0).map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let (mut seen, mut hidden) = (Vec::new(), Vec::new());
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some(started) = peer::start_of(pid) else { continue };
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(mut descriptors) => {
                let holds = descriptors.any(|descriptor| {
                    descriptor
                        .and_then(|descriptor| fs::read_link(descriptor.path()))
                        .is_ok_and(|to| names.contains(&to))
                });
                if holds {
                    seen.push((pid, started));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if peer::user_of(pid) == Some(own) {
                    hidden.push((pid, started));
                }
            }
            Err(_) => {}
        }
    }
    Ok(if seen.is_empty() { hidden } else { seen })
}

/// A row of `/proc/net/tcp` or `tcp6`: number, local address, remote address, state, queues, timers, retransmits, user,
/// timeout, inode.
fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    Some(Row {
        address: canonical(address(fields.get(1)?)?),
        other: canonical(address(fields.get(2)?)?),
        uid: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// An address as the kernel prints it: words of 32 bits in its own order, a colon, the port.
fn address(text: &str) -> Option<SocketAddr> {
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
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_as_the_kernel_prints_them() {
        assert_eq!(address("0100007F:1F90"), Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(address("00000000000000000000000001000000:0050"), Some("[::1]:80".parse().unwrap()));
        let mapped = address("0000000000000000FFFF00000100007F:0050").unwrap();
        assert_eq!(canonical(mapped), "127.0.0.1:80".parse().unwrap());
        for wrong in ["", ":", "0100007F", "0100007F:", "0100007:1F90", "0100007G:1F90", "0100007F:10000"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn whoever_connects_from_here_is_found() {
        let own = std::process::id();
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, theirs) = listener.accept().unwrap();
            assert_eq!(theirs, client.local_addr().unwrap());
            let started = peer::start_of(own).unwrap();
            let ours = server.local_addr().unwrap();
            assert_eq!(other_end(Ends { theirs, ours }), OtherEnd::Here(vec![(own, started)]));
            // Another connection from there, which may be over for long, is not this one.
            let other = SocketAddr::new(ours.ip(), ours.port() ^ 1);
            assert_eq!(other_end(Ends { theirs, ours: other }), OtherEnd::Nobodys);
            drop(client);
        }
    }

    /// An address of this machine that others can reach, if it has one.
    fn reachable() -> Option<IpAddr> {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        // Nothing is sent: it only says from where it would be.
        socket.connect("192.0.2.1:9").ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback())
    }

    #[test]
    fn who_hangs_up_is_not_taken_for_somebody_elsewhere() {
        for ip in [Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), reachable()].into_iter().flatten() {
            let listener = TcpListener::bind(SocketAddr::new(ip, 0)).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, theirs) = listener.accept().unwrap();
            let ours = server.local_addr().unwrap();
            // Our end is open still: theirs has a row without a process.
            drop(client);
            assert_eq!(other_end(Ends { theirs, ours }), OtherEnd::Nobodys, "{ip}");
            drop(server);
            // And with a reset there is no row at all.
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, theirs) = listener.accept().unwrap();
            rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
            drop(client);
            assert_eq!(other_end(Ends { theirs, ours }), OtherEnd::Nobodys, "{ip}");
            drop(server);
        }
        assert!(!is_of_this_machine("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn an_end_is_its_holders_and_another_users_is_elsewhere() {
        let end: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let row = |uid, inode| Row { address: end, other: end, uid, inode };
        let found = |rows: &[Row], told: io::Result<Vec<(u32, u64)>>| held(rows, 1000, |_, _| told);
        assert_eq!(found(&[row(1000, 7)], Ok(vec![(5, 6)])), OtherEnd::Here(vec![(5, 6)]));
        assert_eq!(found(&[row(1000, 7)], Ok(Vec::new())), OtherEnd::Nobodys);
        assert_eq!(found(&[row(1000, 7)], Err(io::ErrorKind::NotFound.into())), OtherEnd::Nobodys);
        assert_eq!(found(&[row(1001, 7)], Ok(vec![(5, 6)])), OtherEnd::Elsewhere);
        assert_eq!(found(&[row(1001, 7), row(1000, 8)], Ok(vec![(5, 6)])), OtherEnd::Here(vec![(5, 6)]));
        assert_eq!(found(&[row(1001, 0)], Ok(vec![(5, 6)])), OtherEnd::Nobodys, "it is being wound up");
        assert_eq!(found(&[], Ok(vec![(5, 6)])), OtherEnd::Elsewhere);
        held(&[row(1000, 7), row(1000, 8)], 1000, |inodes, own| {
            assert_eq!((inodes, own), ([7, 8].as_slice(), 1000));
            Ok(Vec::new())
        });
    }

    #[test]
    fn who_is_elsewhere_is_not_looked_for_and_nobody_is_nobody() {
        let from = |theirs: &str| Ends { theirs: theirs.parse().unwrap(), ours: "127.0.0.1:2".parse().unwrap() };
        assert_eq!(other_end(from("192.0.2.1:1234")), OtherEnd::Elsewhere);
        assert_eq!(other_end(from("127.0.0.1:1")), OtherEnd::Nobodys);
    }
}
