//! A daemon that others can reach: TLS, and tokens for callers from elsewhere.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::codecast::{Answer, Connection, Daemon, Options, tls};
use serde_json::json;

pub(crate) fn exposed() -> Daemon {
    Daemon::start_with(Options { yaml: "bind: 0.0.0.0\n".to_owned(), ..Options::default() })
}

fn secure(daemon: &Daemon, address: SocketAddr) -> Connection {
    tls::connect(address, &daemon.home().join(".codecast/tls-cert.pem")).unwrap_or_else(|error| panic!("{error}"))
}

/// An address of this machine that is not loopback's.
pub(crate) fn outside(daemon: &Daemon) -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only asks which address would be used.
    socket.connect("192.0.2.1:9").ok()?;
    let ip: IpAddr = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then(|| SocketAddr::new(ip, daemon.address().port()))
}

fn ask(connection: &mut Connection, path: &str, authorization: Option<&str>) -> Answer {
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(authorization.map(|value| ("Authorization", value)));
    connection.request("POST", path, &headers, json!({"method": "health.check"}).to_string().as_bytes());
    connection.answer()
}

#[test]
fn this_machine_needs_no_token_but_tls() {
    let daemon = exposed();
    let mut connection = secure(&daemon, daemon.address());
    assert_eq!(ask(&mut connection, "/rpc", None).result()["ok"], true);
    let key = daemon.home().join(".codecast/tls-key.pem");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);

    let create = connection.call("session.create", Some(&json!({"path": "p", "cli_type": "echo"}))).result();
    let params = json!({"sessionId": create["sessionId"], "message": "stream 20000"});
    connection.call("session.send", Some(&params));
    let events = connection.events();
    assert_eq!(crate::streams::numbers(&events).len(), 20_000);

    // Without TLS nothing is answered.
    let mut plain = Connection::open(daemon.address()).unwrap();
    plain.request("POST", "/rpc", &[("Content-Type", "application/json")], b"{\"method\":\"health.check\"}");
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| plain.answer()));
    assert!(answered.is_err(), "plain HTTP was answered");
}

#[test]
fn a_web_page_on_this_machine_is_not_its_owner() {
    let daemon = exposed();
    let mut connection = secure(&daemon, daemon.address());
    for header in [("Origin", "https://evil.example"), ("Host", "evil.example")] {
        let headers = [("Content-Type", "application/json"), header];
        connection.request("POST", "/rpc", &headers, b"{\"method\":\"health.check\"}");
        let answer = connection.answer();
        assert_eq!((answer.status, answer.text().as_str()), (401, "Unauthorized: missing Bearer token"));
    }
}

#[test]
fn the_certificate_is_kept() {
    let mut daemon = exposed();
    let file = daemon.home().join(".codecast/tls-cert.pem");
    let before = fs::read(&file).unwrap();
    daemon.stop();
    daemon.serve();
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(ask(&mut secure(&daemon, daemon.address()), "/rpc", None).status, 200);
}

#[test]
fn others_need_a_token_and_changes_count_at_once() {
    let daemon = exposed();
    let Some(address) = outside(&daemon) else {
        hostel_tests::skip("this machine has no address but loopback's");
        return;
    };
    let mut connection = secure(&daemon, address);
    let mut refused = |path: &str, authorization: Option<&str>, sentence: &str| {
        let answer = ask(&mut connection, path, authorization);
        assert_eq!((answer.status, answer.text().as_str()), (401, sentence), "{path} {authorization:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    };
    let (missing, invalid) = ("Unauthorized: missing Bearer token", "Unauthorized: invalid token");
    refused("/rpc", None, missing);
    refused("/elsewhere", None, missing);
    refused("/rpc", Some("bearer ccast_1"), missing);
    refused("/rpc", Some("Basic ccast_1"), missing);
    refused("/rpc", Some("Bearer ccast_1"), invalid);

    let tokens = daemon.home().join(".codecast/tokens.yaml");
    fs::write(&tokens, "tokens:\n- token: ccast_1\n  label: phone\n- token: ccast_2\n").unwrap();
    let mut connection = secure(&daemon, address);
    for token in ["ccast_1", "ccast_2"] {
        assert_eq!(ask(&mut connection, "/rpc", Some(&format!("Bearer {token}"))).result()["ok"], true);
    }
    assert_eq!(ask(&mut connection, "/elsewhere", Some("Bearer ccast_1")).status, 404);
    let answer = ask(&mut connection, "/rpc", Some("Bearer ccast_3"));
    assert_eq!((answer.status, answer.text().as_str()), (401, invalid));

    fs::write(&tokens, "tokens:\n- token: ccast_2\n").unwrap();
    assert_eq!(ask(&mut connection, "/rpc", Some("Bearer ccast_1")).status, 401);
    assert_eq!(ask(&mut connection, "/rpc", Some("Bearer ccast_2")).status, 200);
    fs::remove_file(&tokens).unwrap();
    assert_eq!(ask(&mut connection, "/rpc", Some("Bearer ccast_2")).status, 401);
}

#[test]
fn what_arrived_through_tls_is_not_owed() {
    let daemon = exposed();
    let mut connection = secure(&daemon, daemon.address());
    let create = connection.call("session.create", Some(&json!({"path": "p", "cli_type": "echo"}))).result();
    let session = create["sessionId"].clone();
    connection.call("session.send", Some(&json!({"sessionId": session, "message": "stream 50"})));
    assert_eq!(crate::streams::numbers(&connection.events()).len(), 50);
    drop(connection);
    let stats = |connection: &mut Connection| {
        connection.call("session.queue_stats", Some(&json!({"sessionId": session}))).result()
    };
    let mut connection = secure(&daemon, daemon.address());
    assert_eq!(stats(&mut connection), json!({"clientConnected": true, "responsePending": 0, "userPending": 0}));

    // One that is cut off in the middle is.
    let mut cut = secure(&daemon, daemon.address());
    cut.call("session.send", Some(&json!({"sessionId": session, "message": "stream 20000"})));
    let mut first: Vec<serde_json::Value> = (0..100).map(|_| cut.event().unwrap()).collect();
    first.extend(cut.arrived());
    drop(cut);
    let mut second: Vec<serde_json::Value> = Vec::new();
    while second.last().is_none_or(|event| event["type"] != "result") {
        let more = connection.call("session.reconnect", Some(&json!({"sessionId": session}))).result();
        second.extend(more["bufferedEvents"].as_array().unwrap().clone());
    }
    crate::streams::complete(20_000, &crate::streams::numbers(&first), &crate::streams::numbers(&second));
}
