//! The programs `codecast-daemon` and `zeroclaw` as their own clients find them: by name, file, port and socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdout;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use common::House;
use common::finish;
use common::limit;
use common::own_port;
use common::send;
use common::wait_until;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use serde_json::json;

/// The program under another name.
fn called(house: &House, name: &str) -> Command {
    let mut command = house.command();
    command.arg0(name);
    command
}

fn user(house: &House) -> PathBuf {
    house.user()
}

/// A running codecast daemon.
struct Codecast {
    child: Child,
    stdout: BufReader<ChildStdout>,
    port: u16,
}

impl Codecast {
    /// Starts one and reads until it says its port.
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while stdout.read_line(&mut said).unwrap() > 0 {
            let last = said.lines().last().unwrap_or_default();
            if let Some(port) = last.strip_prefix("DAEMON_PORT=") {
                let port = port.parse().unwrap();
                return Codecast { child, stdout, port };
            }
        }
        panic!("it ended: {:?} after {said}", finish(child));
    }

    fn on(house: &House, port: u16) -> Self {
        Codecast::start(called(house, "codecast-daemon").env("DAEMON_PORT", port.to_string()))
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        ask("127.0.0.1", self.port, method, params)
    }

    /// Ends it; gives its exit code.
    fn stop(self, signal: &str) -> i32 {
        // What it logs must find a reader.
        let mut stdout = self.stdout;
        let reader = std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
        send(signal, &self.child.id().to_string());
        let code = finish(self.child).code;
        reader.join().unwrap().unwrap();
        code
    }
}

/// One request over plain HTTP.
fn ask(host: &str, port: u16, method: &str, params: &Value) -> Value {
    let text = post(host, port, method, params);
    let body = text.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn post(host: &str, port: u16, method: &str, params: &Value) -> String {
    let mut stream = open_stream(host, port, method, params);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn request(method: &str, port: u16, params: &Value) -> String {
    let body = json!({"method": method, "params": params}).to_string();
    format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn open_stream(host: &str, port: u16, method: &str, params: &Value) -> TcpStream {
    let mut stream = TcpStream::connect((host, port)).unwrap();
    stream.set_read_timeout(Some(limit())).unwrap();
    // In one piece: who does not understand the first byte may close before the second.
    stream.write_all(request(method, port, params).as_bytes()).unwrap();
    stream
}

#[test]
fn versions_are_the_contracts_and_can_be_set() {
    let house = House::new();
    let version = |name: &str, words: &[&str]| finish(called(&house, name).args(words).spawn().unwrap());
    for words in [&["--version"][..], &["--config", "x", "-V"], &["start", "--version", "--more"]] {
        let outcome = version("codecast-daemon", words);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "codecast-daemon 0.3.2\n"), "{outcome:?}");
    }
    let outcome = version("zeroclaw", &["--version"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "zeroclaw 0.8.4\n"), "{outcome:?}");
    std::fs::create_dir_all(house.home()).unwrap();
    let file = "[doors.codecast]\nreported_version = \"1.2.3\"\n[doors.zeroclaw]\nreported_version = \"4.5.6\"\n";
    std::fs::write(house.home().join("hostel.toml"), file).unwrap();
    assert_eq!(version("codecast-daemon", &["-V"]).out, "codecast-daemon 1.2.3\n");
    assert_eq!(version("zeroclaw", &["-V"]).out, "zeroclaw 4.5.6\n");
    assert_eq!(house.hostel(["as", "zeroclaw", "-V"]).out, "zeroclaw 4.5.6\n");
    let outcome = version("zeroclaw", &["agent"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (2, ""));
    assert!(outcome.err.starts_with("zeroclaw: unexpected argument `agent`\nUsage: zeroclaw daemon"), "{outcome:?}");
}

#[test]
fn a_codecast_daemon_is_found_by_name_line_and_file() {
    let house = House::new();
    let base = own_port();
    let file = user(&house).join(".codecast/daemon.port");
    let mut command = called(&house, "codecast-daemon");
    command.env("DAEMON_PORT", base.to_string()).args(["--config", "/nowhere/x.yaml"]);
    let first = Codecast::start(&mut command);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first.port.to_string());
    let shown = std::fs::read(format!("/proc/{}/cmdline", first.child.id())).unwrap();
    assert!(shown.starts_with(b"codecast-daemon\0"), "{shown:?}");
    let health = first.ask("health.check", &Value::Null);
    assert_eq!((&health["result"]["ok"], &health["result"]["pid"]), (&json!(true), &json!(first.child.id())));
    assert_eq!(health["result"]["version"], "0.3.2");

    // The next one takes the next port and has sessions of its own.
    let second = Codecast::on(&house, first.port);
    assert!(second.port > first.port && second.port <= first.port + 100, "{} {}", first.port, second.port);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), second.port.to_string());
    let made = first.ask("session.create", &json!({"path": house.path(), "cli_type": "echo"}));
    assert!(made["result"]["sessionId"].is_string(), "{made}");
    assert_eq!(second.ask("session.list", &Value::Null)["result"]["sessions"], json!([]));

    // Only the one whose port it names removes the file.
    let port = second.port;
    assert_eq!(first.stop("TERM"), 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), port.to_string());
    assert_eq!(second.stop("INT"), 0);
    assert!(!file.exists());
}

#[test]
fn only_the_daemon_itself_has_the_name_by_which_it_is_ended() {
    let house = House::new();
    // As the real head installs it: one file of that name.
    let program = house.path().join("codecast-daemon");
    let built = Path::new(env!("CARGO_BIN_EXE_hostel"));
    if std::fs::hard_link(built, &program).is_err() {
        std::fs::copy(built, &program).unwrap();
    }
    let command = called(&house, "codecast-daemon");
    let mut installed = Command::new(&program);
    installed.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    installed.env("DAEMON_PORT", "0").stdout(std::process::Stdio::piped());
    let daemon = Codecast::start(&mut installed);
    let seen = || {
        let (mut named, mut keepers) = (Vec::new(), 0);
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let shown = String::from_utf8_lossy(&command);
            if shown.contains(&house.path().display().to_string()) {
                keepers += usize::from(shown.contains("keeper-process"));
                if shown.contains("codecast-daemon") {
                    named.push(process.file_name().to_string_lossy().into_owned());
                }
            }
        }
        (named, keepers)
    };
    // The launcher of a guard has the name until it becomes what it launches.
    let expected = (vec![daemon.child.id().to_string()], 1);
    wait_until("processes by name", seen, |seen| *seen == expected);
    assert_eq!(daemon.stop("TERM"), 0);
}

#[test]
fn codecast_options_come_from_its_file_and_variables() {
    let house = House::new();
    let folder = user(&house).join(".codecast");
    std::fs::create_dir_all(&folder).unwrap();
    let port = own_port();
    std::fs::write(folder.join("daemon.yaml"), format!("port: {port}\nbind: localhost\n")).unwrap();
    let daemon = Codecast::start(&mut called(&house, "codecast-daemon"));
    assert!((port..=port + 100).contains(&daemon.port));
    assert_eq!(daemon.ask("health.check", &Value::Null)["result"]["ok"], true);
    assert_eq!(daemon.stop("TERM"), 0);

    // A file that cannot be understood, and a port that is none: what is built in counts.
    std::fs::write(folder.join("daemon.yaml"), "port: [\n").unwrap();
    let mut command = called(&house, "codecast-daemon");
    command.env("DAEMON_PORT", "0").env("DAEMON_BIND", "::1");
    let Ok(_) = TcpListener::bind("[::1]:0") else { return };
    let daemon = Codecast::start(&mut command);
    assert_ne!(daemon.port, 0, "a port by chance is told as what it is");
    assert_eq!(ask("::1", daemon.port, "health.check", &Value::Null)["result"]["ok"], true);
    assert_eq!(daemon.stop("TERM"), 0);
    let mut command = called(&house, "codecast-daemon");
    let daemon = Codecast::start(command.env("DAEMON_PORT", "0").env("DAEMON_BIND", "[::1]"));
    assert_eq!(ask("::1", daemon.port, "health.check", &Value::Null)["result"]["ok"], true);
    let said = daemon.stop("TERM");
    assert_eq!(said, 0);

    let refused = finish(called(&house, "codecast-daemon").env("DAEMON_BIND", "my-host").spawn().unwrap());
    assert_eq!(refused.code, 1);
    assert_eq!(refused.err, "codecast-daemon: `my-host` is not an address this daemon can listen on\n");
}

#[test]
fn a_codecast_daemon_others_can_reach_speaks_tls_only() {
    let house = House::new();
    let mut command = called(&house, "codecast-daemon");
    let daemon = Codecast::start(command.env("DAEMON_PORT", "0").env("DAEMON_BIND", "0.0.0.0"));
    let folder = user(&house).join(".codecast");
    assert_eq!(folder.join("tls-key.pem").metadata().unwrap().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(folder.join("tls-cert.pem")).unwrap().contains("BEGIN CERTIFICATE"));
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut trusted = rustls::RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(folder.join("tls-cert.pem")).unwrap()).unwrap();
    let tls = rustls::ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(std::sync::Arc::new(tls), name).unwrap();
    let mut encrypted = rustls::StreamOwned::new(session, TcpStream::connect(("127.0.0.1", daemon.port)).unwrap());
    encrypted.sock.set_read_timeout(Some(limit())).unwrap();
    encrypted.write_all(request("health.check", daemon.port, &Value::Null).as_bytes()).unwrap();
    let mut answer = String::new();
    encrypted.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["result"]["ok"], true, "{answer}");
    let mut plain = open_stream("127.0.0.1", daemon.port, "health.check", &Value::Null);
    let mut text = Vec::new();
    plain.read_to_end(&mut text).ok();
    assert!(!text.starts_with(b"HTTP/"), "plain HTTP was answered");
    assert_eq!(daemon.stop("TERM"), 0);
}

#[test]
fn codecast_sessions_are_there_again_after_a_stop_and_after_a_crash() {
    let house = House::new();
    let daemon = Codecast::on(&house, own_port());
    let port = daemon.port;
    let made = daemon.ask("session.create", &json!({"path": house.path(), "cli_type": "echo"}));
    let id = made["result"]["sessionId"].as_str().unwrap().to_owned();
    let mut stream = open_stream("127.0.0.1", port, "session.send", &json!({"sessionId": id, "message": "sleep 1000"}));
    read_until(&mut stream, "sleeping");
    let queued = post("127.0.0.1", port, "session.send", &json!({"sessionId": id, "message": "later"}));
    assert!(queued.contains(r#"{"type":"queued","position":1}"#), "{queued}");
    assert_eq!(daemon.stop("TERM"), 0);
    let end = read_until(&mut stream, "[DONE]");
    assert!(end.contains(r#""type":"interrupted""#), "{end}");

    let daemon = Codecast::on(&house, port);
    assert_eq!(daemon.port, port);
    let listed = daemon.ask("session.list", &Value::Null);
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], id.as_str(), "{listed}");
    assert_eq!(listed["result"]["sessions"][0]["status"], "idle");

    // Killed in the middle of a turn: the turn goes on, and its daemon's successor has it.
    let mut stream = open_stream("127.0.0.1", port, "session.send", &json!({"sessionId": id, "message": "sleep 1000"}));
    read_until(&mut stream, "sleeping");
    send("KILL", &daemon.child.id().to_string());
    finish(daemon.child);
    let daemon = Codecast::on(&house, port);
    assert_eq!(daemon.port, port);
    let listed = daemon.ask("session.list", &Value::Null);
    assert_eq!(listed["result"]["sessions"][0]["status"], "busy", "{listed}");
    let stopped = daemon.ask("session.interrupt", &json!({"sessionId": id}));
    assert_eq!(stopped["result"]["interrupted"], true, "{stopped}");
    let sessions = || daemon.ask("session.list", &Value::Null)["result"]["sessions"].clone();
    wait_until("the session is idle", sessions, |sessions| sessions[0]["status"] == "idle");
    assert_eq!(daemon.stop("TERM"), 0);
}

/// Reads until a text has come.
fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let seen = String::from_utf8_lossy(&text).into_owned();
        if seen.contains(wanted) {
            return seen;
        }
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "closed before {wanted}: {seen}");
        text.extend_from_slice(&buffer[..count]);
    }
}

/// A client of a zeroclaw socket.
struct Client {
    lines: BufReader<UnixStream>,
    next: u64,
}

impl Client {
    fn connect(socket: &Path) -> Self {
        Client::over(wait_until("the socket accepts", || UnixStream::connect(socket), Result::is_ok).unwrap())
    }

    /// Connects exactly once: for those who count.
    fn once(socket: &Path) -> Self {
        Client::over(UnixStream::connect(socket).unwrap())
    }

    fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(limit())).unwrap();
        Client { lines: BufReader::new(stream), next: 0 }
    }

    fn tell(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.lines.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        self.next
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "closed");
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.tell(method, params);
        loop {
            let line = self.line();
            if line["id"] == id {
                return line;
            }
        }
    }

    fn hello(&mut self) -> Value {
        self.ask("initialize", &json!({"protocol_version": 1}))["result"].clone()
    }
}

fn zeroclaw(house: &House, words: &[&str]) -> Command {
    let mut command = called(house, "zeroclaw");
    command.arg("daemon").args(words).stderr(std::process::Stdio::null());
    command
}

#[test]
fn a_zeroclaw_daemon_lives_where_its_rules_say() {
    let house = House::new();
    let data = user(&house).join(".zeroclaw/data");
    let socket = data.join("daemon.sock");
    let daemon = zeroclaw(&house, &["--host", "127.0.0.1", "--port", "42617"]).spawn().unwrap();
    let mut client = Client::connect(&socket);
    assert_eq!(client.hello()["server_pid"], daemon.id());
    let status = client.ask("status", &json!({}))["result"].clone();
    assert_eq!(status["local_ipc_endpoint"], socket.display().to_string());
    assert_eq!(status["config_kind"], "default");
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!((mode(&data), mode(&socket)), (0o700, 0o600));
    assert_eq!(mode(&data.join("daemon.sock.lock")), 0o600);

    let second = finish(zeroclaw(&house, &[]).stderr(std::process::Stdio::piped()).spawn().unwrap());
    assert_eq!(second.code, 1);
    assert!(second.err.starts_with("zeroclaw: address in use"), "{second:?}");
    send("HUP", &daemon.id().to_string());
    assert_eq!(client.ask("status", &json!({}))["result"]["server_version"], "0.8.4");

    let made = client.ask("session/new", &json!({"agent_alias": "echo", "session_id": "kept"}));
    assert_eq!(made["result"]["session_id"], "kept", "{made}");
    let said = client.ask("session/prompt", &json!({"session_id": "kept", "prompt": "hello"}));
    assert_eq!(said["result"]["content"], "echo: hello", "{said}");
    send("TERM", &daemon.id().to_string());
    assert_eq!(finish(daemon).code, 0);
    assert!(!socket.exists());
    assert!(data.join("daemon.sock.lock").exists());

    // A daemon that was killed leaves its socket; the next one replaces it and has the sessions.
    for round in 0..2 {
        let daemon = zeroclaw(&house, &[]).spawn().unwrap();
        let mut client = Client::connect(&socket);
        client.hello();
        let messages = client.ask("session/messages", &json!({"session_id": "kept"}));
        assert_eq!(messages["result"]["total"], 2, "{messages}");
        send(["KILL", "INT"][round], &daemon.id().to_string());
        assert_eq!(finish(daemon).code, [-1, 0][round]);
        assert_eq!(socket.exists(), round == 0);
    }
}

#[test]
fn a_named_zeroclaw_socket_is_taken_as_it_stands() {
    let house = House::new();
    let shared = house.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let socket = shared.join("z.sock");
    let config = house.path().join("conf");
    let mut command = zeroclaw(&house, &["--config-dir", config.to_str().unwrap()]);
    let daemon = command.env("ZEROCLAW_SOCKET", &socket).spawn().unwrap();
    let mut client = Client::connect(&socket);
    client.hello();
    let status = client.ask("status", &json!({}))["result"].clone();
    assert_eq!(status["config_dir"], config.display().to_string());
    assert_eq!(status["local_ipc_endpoint"], socket.display().to_string());
    assert_eq!(shared.metadata().unwrap().mode() & 0o7777, 0o1777, "a shared directory keeps its mode");
    // Somebody else's socket under our name stays.
    std::fs::remove_file(&socket).unwrap();
    let _somebody = UnixListener::bind(&socket).unwrap();
    send("TERM", &daemon.id().to_string());
    assert_eq!(finish(daemon).code, 0);
    assert!(socket.exists());
    // And who listens there is left alone.
    let refused = finish(
        zeroclaw(&house, &[]).env("ZEROCLAW_SOCKET", &socket).stderr(std::process::Stdio::piped()).spawn().unwrap(),
    );
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("address in use: somebody listens on"), "{refused:?}");
}

#[test]
fn an_ephemeral_zeroclaw_daemon_ends_a_second_after_its_last_client() {
    let house = House::new();
    let socket = house.path().join("z.sock");
    let mut daemon = zeroclaw(&house, &["--ephemeral"]).env("ZEROCLAW_SOCKET", &socket).spawn().unwrap();
    // Without connecting: a connection is a client.
    wait_until("the socket is there", || socket.exists(), |there| *there);
    // Nobody came yet, so it stays: nothing may happen in this time.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(daemon.try_wait().unwrap().is_none(), "it ended before the first client came");
    // One leaves while another is there; what runs does not count, only who is there.
    let first = UnixStream::connect(&socket).unwrap();
    let mut client = Client::once(&socket);
    client.hello();
    drop(first);
    client.ask("session/new", &json!({"agent_alias": "echo", "session_id": "s"}));
    client.tell("session/prompt", &json!({"session_id": "s", "prompt": "sleep 1000"}));
    while client.line()["params"]["text"] != "sleeping" {}
    // Nothing may happen in this time either, which is longer than the second after the first one left. That a client
    // may come back within the second, and that it is one second, is tested where time can be stopped.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(daemon.try_wait().unwrap().is_none(), "the client that stayed was not counted");
    let left = Instant::now();
    drop(client);
    wait_until("the socket is gone", || socket.exists(), |there| !there);
    assert!(left.elapsed() >= Duration::from_secs(1), "too early: {:?}", left.elapsed());
    assert_eq!(finish(daemon).code, 0);
}

#[test]
fn a_zeroclaw_door_for_other_machines_needs_tls_and_a_token() {
    let house = House::new();
    std::fs::create_dir_all(house.home()).unwrap();
    let port = own_port();
    let file = format!("[doors.zeroclaw]\nwss_enabled = true\nwss_bind = \"localhost\"\nwss_port = {port}\n");
    std::fs::write(house.home().join("hostel.toml"), file).unwrap();
    let socket = house.path().join("z.sock");
    let daemon = zeroclaw(&house, &[]).env("ZEROCLAW_SOCKET", &socket).spawn().unwrap();
    Client::connect(&socket).hello();
    wait_until("the port accepts", || TcpStream::connect(("127.0.0.1", port)), Result::is_ok).unwrap();
    let own = std::fs::read_dir(house.home().join("as")).unwrap().next().unwrap().unwrap().path();
    for secret in ["wss-key.pem", "wss-token"] {
        assert_eq!(own.join(secret).metadata().unwrap().mode() & 0o777, 0o600, "{secret}");
    }
    let token = std::fs::read_to_string(own.join("wss-token")).unwrap();
    assert_eq!(token.trim().len(), 64);
    send("TERM", &daemon.id().to_string());
    assert_eq!(finish(daemon).code, 0);
}
