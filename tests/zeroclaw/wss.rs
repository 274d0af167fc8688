//! The zeroclaw door for other machines: TLS, a token, one frame per message.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_tests::zeroclaw::{Daemon, Options, spelling};
use hostel_tests::{house, http, wait};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A daemon that serves other machines, and how to reach it.
struct Served {
    daemon: Daemon,
    address: SocketAddr,
}

impl Served {
    fn start() -> Self {
        Self::start_with("")
    }

    fn start_with(more: &str) -> Self {
        let address = http::free_address();
        let port = address.port();
        let settings =
            format!("[doors.zeroclaw]\nwss_enabled = true\nwss_bind = \"127.0.0.1\"\nwss_port = {port}\n{more}");
        let daemon = Daemon::start_with(Options { settings, ..Options::default() });
        // The local socket accepts before the certificate is made.
        wait::port(address);
        Self { daemon, address }
    }

    fn house(&self) -> PathBuf {
        fs::read_dir(self.daemon.hostel_home().join("as")).unwrap().next().unwrap().unwrap().path()
    }

    fn token(&self) -> String {
        fs::read_to_string(self.house().join("wss-token")).unwrap().trim().to_owned()
    }

    fn tls(&self) -> Tls {
        let certificate = CertificateDer::from_pem_file(self.house().join("wss-cert.pem")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(wait::limit())).unwrap();
        StreamOwned::new(connection, stream)
    }

    fn upgrade(&self, bearer: Option<&str>) -> Result<Remote, tungstenite::Error> {
        let mut request = format!("wss://localhost:{}/", self.address.port()).into_client_request().unwrap();
        if let Some(token) = bearer {
            request.headers_mut().insert("Authorization", format!("Bearer {token}").parse().unwrap());
        }
        match tungstenite::client(request, self.tls()) {
            Ok((socket, _)) => Ok(Remote { socket, next: 1 }),
            Err(tungstenite::HandshakeError::Failure(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }
}

/// A client on another machine, as far as the daemon can tell.
struct Remote {
    socket: WebSocket<Tls>,
    next: u64,
}

impl Remote {
    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.socket.send(Message::text(frame.to_string())).unwrap();
        id
    }

    fn frame(&mut self) -> Value {
        loop {
            match self.socket.read().unwrap() {
                Message::Text(text) => return spelling::fold_frame(&serde_json::from_str(&text).unwrap()).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let frame = self.frame();
            if frame["id"] == id {
                return frame;
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn code(&mut self, method: &str, params: &Value) -> Value {
        self.call(method, params)["error"]["code"].clone()
    }
}

#[test]
fn the_token_is_shown_on_the_upgrade_or_in_initialize() {
    let served = Served::start();
    let token = served.token();
    let mut client = served.upgrade(None).unwrap();
    assert_eq!(client.code("status", &json!({})), -32010);
    assert_eq!(client.code("session/dance", &json!({})), -32601);
    assert_eq!(client.code("initialize", &json!({})), -32010);
    assert_eq!(client.code("initialize", &json!({"auth_token": "wrong"})), -32010);
    assert_eq!(client.code("initialize", &json!({"auth_token": ""})), -32010);
    assert_eq!(client.ask("initialize", &json!({"authToken": token}))["server_version"], "0.8.4");
    let mut client = served.upgrade(Some(&token)).unwrap();
    client.ask("initialize", &json!({}));
    for wrong in ["", "wrong", &token[1..]] {
        let refused = served.upgrade(Some(wrong)).err().expect("a wrong token is refused");
        let tungstenite::Error::Http(response) = refused else { panic!("{refused}") };
        assert_eq!(response.status(), 401, "{wrong:?}");
    }
}

#[test]
fn a_turn_from_far_away() {
    let served = Served::start();
    let mut client = served.upgrade(Some(&served.token())).unwrap();
    client.ask("initialize", &json!({}));
    let session = client.ask("session/new", &json!({"agent_alias": "echo"}))["session_id"].clone();
    let turn = client.begin("session/prompt", &json!({"session_id": session, "prompt": "stream 3"}));
    let mut text = String::new();
    loop {
        let frame = client.frame();
        if frame["id"] == turn {
            assert_eq!(frame["result"]["content"], "0 1 2 ");
            break;
        }
        text.push_str(frame["params"]["text"].as_str().unwrap_or_default());
    }
    assert_eq!(text, "0 1 2 ");
    // One message per frame: what is not text is none.
    client.socket.send(Message::binary(vec![1, 2, 3])).unwrap();
    client.socket.send(Message::text("nonsense")).unwrap();
    assert_eq!(client.frame()["error"]["code"], -32700);
    let tuis = client.ask("tui/list", &json!({}));
    assert!(tuis["tuis"][0]["peer_label"].as_str().unwrap().starts_with("wss:127.0.0.1:"), "{tuis}");
    assert_eq!(tuis["tuis"][0]["transport"], "wss");
}

#[test]
fn files_come_by_their_bytes_and_not_by_their_path() {
    let served = Served::start();
    let mut client = served.upgrade(Some(&served.token())).unwrap();
    client.ask("initialize", &json!({}));
    let session = client.ask("session/new", &json!({"agent_alias": "echo"}))["session_id"].clone();
    let files = |file: Value| json!({"session_id": session, "files": [file]});
    assert_eq!(client.code("file/attach", &files(json!({"path": "/etc/hostname"}))), -32602);
    let stored = client.ask("file/attach", &files(json!({"data_b64": "aGk=", "filename": "a.txt"})));
    assert_eq!(stored["files"][0]["size_bytes"], 2);
}

#[test]
fn whoever_has_the_token_may_decide() {
    let served = Served::start();
    let mut local = served.daemon.client();
    let session = local.session();
    local.begin("session/prompt", json!({"session_id": session, "prompt": "approve"}));
    let request = local.updates_until("approval_request").pop().unwrap()["request_id"].clone();
    let mut client = served.upgrade(Some(&served.token())).unwrap();
    client.ask("initialize", &json!({}));
    client.ask("session/approve", &json!({"session_id": session, "request_id": request, "decision": "allow_once"}));
    assert_eq!(local.updates_until("turn_complete").last().unwrap()["content"], "approved");
}

#[test]
fn a_message_that_is_too_long_is_refused_and_ends_it() {
    let served = Served::start();
    let mut client = served.upgrade(Some(&served.token())).unwrap();
    client.ask("initialize", &json!({}));
    client.socket.send(Message::text(" ".repeat(8 << 20))).unwrap();
    client.ask("status", &json!({}));
    client.socket.send(Message::text(" ".repeat((8 << 20) + 1))).unwrap();
    let frame = client.frame();
    assert_eq!((&frame["id"], &frame["error"]["code"]), (&Value::Null, &json!(-32600)));
    while client.socket.read().is_ok() {}
    served.daemon.client();
}

#[test]
fn a_silent_client_is_asked_and_then_dropped() {
    let served = Served::start();
    let mut client = served.upgrade(Some(&served.token())).unwrap();
    // Before the last word: the daemon counts from when it has heard that.
    let silent = Instant::now();
    client.ask("initialize", &json!({}));
    // Read below the WebSocket, so that nothing is answered.
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(length) = client.socket.get_mut().read(&mut piece) {
        if length == 0 {
            break;
        }
        if bytes.is_empty() {
            assert!(silent.elapsed() >= Duration::from_secs(20), "asked after {:?}", silent.elapsed());
        }
        bytes.extend_from_slice(&piece[..length]);
    }
    assert_eq!(bytes.first(), Some(&0x89), "a ping comes first: {bytes:?}");
    let end = silent.elapsed();
    // Half a minute, and what a busy machine adds.
    assert!(end >= Duration::from_secs(30) && end < Duration::from_secs(90), "dropped after {end:?}");
}

#[test]
fn who_shows_no_token_is_not_kept() {
    let served = Served::start();
    let began = Instant::now();
    let mut client = served.upgrade(None).unwrap();
    while client.socket.read().is_ok() {}
    let end = began.elapsed();
    // Ten seconds, and what a busy machine adds.
    assert!(end >= Duration::from_secs(10) && end < Duration::from_secs(60), "dropped after {end:?}");
    // Sixteen at a time, and those who have shown it are not among them.
    let mut kept = served.upgrade(Some(&served.token())).unwrap();
    kept.ask("initialize", &json!({}));
    // They say nothing at all: sixteen handshakes could take longer than the first of them may stay.
    let strangers: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    assert!(served.upgrade(None).is_err(), "the seventeenth is not let in");
    kept.ask("status", &json!({}));
    drop(strangers);
}

/// What another user of this machine gets who connects and says nothing: the end, or nothing for a second.
fn is_closed_for_another_user(served: &Served) -> bool {
    let connect =
        format!("exec 3<>/dev/tcp/127.0.0.1/{}; read -r -n 1 -t 1 letter <&3; echo $?", served.address.port());
    let mut command = Command::new("bash");
    command.args(["-c", &connect]).uid(65534).gid(65534).current_dir("/");
    let output = house::run(command);
    match String::from_utf8_lossy(&output.stdout).trim() {
        "1" => true,
        // A time that is over.
        "142" => false,
        _ => panic!("{output:?}"),
    }
}

#[test]
fn another_user_of_this_machine_is_not_somebody_elsewhere() {
    if !rustix::process::geteuid().is_root() {
        hostel_tests::skip("only root can be another user");
        return;
    }
    let served = Served::start();
    assert!(is_closed_for_another_user(&served), "it may be an insider under another id");
    served.upgrade(Some(&served.token())).unwrap().ask("initialize", &json!({}));
    drop(served);
    let served = Served::start_with("wss_proxy_users = [\"65534\"]\n");
    assert!(!is_closed_for_another_user(&served), "a proxy speaks for others");
}
