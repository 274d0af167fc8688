use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::*;

fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn both_ways(local: SocketAddr, remote: SocketAddr) -> Vec<Option<Socket>> {
    let mut found = vec![read_tables(plain(local), plain(remote)).unwrap()];
    // A kernel without the question answers with an error, and the table has to do.
    found.extend(ask_kernel(plain(local), plain(remote)).ok());
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
        // Another connection from there, which may be over for long, is not this one.
        let other = SocketAddr::new(ours.ip(), ours.port() ^ 1);
        assert_eq!(other_end(Ends { theirs, ours: other }), OtherEnd::Unknown);
    }
}

#[test]
fn an_ipv4_connection_of_an_ipv6_socket_is_found_both_ways() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let Ok(client) = TcpStream::connect(format!("[::ffff:127.0.0.1]:{port}")) else { return };
    let (server, theirs) = listener.accept().unwrap();
    assert_eq!(plain(client.local_addr().unwrap()), theirs);
    for socket in both_ways(client.local_addr().unwrap(), server.local_addr().unwrap()) {
        assert_eq!(socket.unwrap().owner(), Some(rustix::process::geteuid().as_raw()));
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
        let uid = rustix::process::geteuid().as_raw();
        assert!(matches!(other_end(Ends { theirs, ours }), OtherEnd::Local { uid: found, .. } if found == uid), "{ip}");
        // Our end is open still: theirs has a row without a process.
        drop(client);
        assert_eq!(other_end(Ends { theirs, ours }), OtherEnd::Unknown, "{ip}");
        drop(server);
        // And with a reset there is no row at all.
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, theirs) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        assert_eq!(other_end(Ends { theirs, ours }), OtherEnd::Unknown, "{ip}");
        drop(server);
    }
}

#[test]
fn who_is_elsewhere_is_not_looked_for_and_nobody_is_nobody() {
    let from = |theirs: &str| Ends { theirs: theirs.parse().unwrap(), ours: "127.0.0.1:2".parse().unwrap() };
    assert_eq!(other_end(from("192.0.2.1:1234")), OtherEnd::Remote);
    assert_eq!(other_end(from("[::ffff:192.0.2.1]:1234")), OtherEnd::Remote);
    assert_eq!(other_end(from("127.0.0.1:1")), OtherEnd::Unknown);
    assert!(from("127.0.0.1:1").are_loopback() && from("[::ffff:127.0.0.1]:1").are_loopback());
    assert!(!from("192.0.2.1:1234").are_loopback());
}

#[test]
#[cfg(target_endian = "little")]
fn addresses_as_the_kernel_prints_them() {
    assert_eq!(parse_address("0100007F:1F90"), Some("127.0.0.1:8080".parse().unwrap()));
    assert_eq!(parse_address("00000000000000000000000001000000:0050"), Some("[::1]:80".parse().unwrap()));
    let mapped = parse_address("0000000000000000FFFF00000100007F:0050").unwrap();
    assert_eq!(plain(mapped), "127.0.0.1:80".parse().unwrap());
    for wrong in ["", ":", "0100007F", "0100007F:", "0100007:1F90", "0100007G:1F90", "0100007F:10000"] {
        assert_eq!(parse_address(wrong), None, "{wrong}");
    }
}

#[test]
fn nonsense_is_an_error_and_no_socket() {
    assert!(read_answer(b"", 1, 2).is_err());
    assert!(read_answer(&[0; 40], 1, 2).is_err());
    assert_eq!(find_row("", "127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()), None);
    let row = "head\n 0: 0100007F:0001 0100007F:0002 zz";
    assert_eq!(find_row(row, "127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()), None);
}
