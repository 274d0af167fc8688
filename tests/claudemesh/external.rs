//! A daemon that others may reach: `http_bind` beyond loopback and the token of `http_external_auth`.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use hostel_tests::claudemesh::{Client, Lab, Options, Transport};
use hostel_tests::codecast::http::{Answer, Connection};

const EXTERNAL: &str = "external-token-0123456789abcdef0123456789abcdef";

/// An address of this machine that others can reach, if it has one.
fn reachable() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: it only says from where it would be.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

/// Asks for the version at an address, under a name, with a token.
fn ask(to: SocketAddr, host: &str, token: &str) -> Answer {
    let mut connection = Connection::open(to).unwrap();
    let request = format!(
        "GET /v1/version HTTP/1.1\r\nHost: {host}\r\nUser-Agent: test\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    connection.send(request.as_bytes()).unwrap();
    connection.answer()
}

fn error(answer: &Answer) -> String {
    answer.json()["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_daemon_that_others_may_reach_is_called_by_its_address_and_by_this_machine_as_ever() {
    let Some(ip) = reachable() else {
        hostel_tests::skip("this machine has no address but loopback");
        return;
    };
    let mut lab = Lab::prepare(&Options::of(&["alice"]));
    let token_file = lab.path().join("external-token");
    std::fs::write(&token_file, EXTERNAL).unwrap();
    std::fs::set_permissions(&token_file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let alice = lab.host_mut("alice");
    alice.configure(&format!(
        "[ipc]\ntcp_enabled = true\nhttp_bind = \"0.0.0.0\"\nhttp_external_auth = \"{}\"\n",
        token_file.display()
    ));
    alice.start();
    let Client { port, token: local, .. } = alice.client(Transport::Tcp);
    let (beyond, here) = (SocketAddr::new(ip, port), SocketAddr::from(([127, 0, 0, 1], port)));
    // Whoever comes from elsewhere needs the token that is meant for them, and calls the address they reach.
    assert_eq!(ask(beyond, &beyond.to_string(), EXTERNAL).status, 200);
    assert_eq!(ask(beyond, &ip.to_string(), EXTERNAL).status, 200);
    let refused = ask(beyond, &beyond.to_string(), &local);
    assert_eq!((refused.status, error(&refused).as_str()), (401, "unauthorized"));
    for other in ["evil.example", "192.0.2.77", "127.0.0.1.evil.example"] {
        let refused = ask(beyond, other, EXTERNAL);
        assert_eq!((refused.status, error(&refused).as_str()), (403, "forbidden_host"), "{other}");
    }
    // On this machine everything that finds port and token in their files goes on as before.
    assert_eq!(ask(here, "localhost", &local).status, 200);
    assert_eq!(ask(here, "127.0.0.1", EXTERNAL).status, 200);
    assert_eq!(ask(here, "localhost", "wrong").status, 401);
    let refused = ask(here, &beyond.to_string(), &local);
    assert_eq!((refused.status, error(&refused).as_str()), (403, "forbidden_host"), "not the address it was made to");
    alice.run(&["daemon", "status"]);
}
